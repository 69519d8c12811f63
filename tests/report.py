"""-report: the page stands alone and is well formed, its tables and pictures say what the JSON says, and the
numbers are right where they can be worked out by hand. Usage: report.py TENON SOURCE_ROOT
SPDX-License-Identifier: MIT"""
import html.parser
import json
import os
import subprocess
import sys
import tempfile

tenon, root = sys.argv[1], sys.argv[2]
VOID = {"meta", "br", "line", "rect", "circle", "polyline", "link"}
failed = 0


def check(what, ok):
    global failed
    if not ok:
        print("report.py: %s" % what)
        failed += 1


def report(*words):
    done = subprocess.run([tenon, "-report" if words[0] == "text" else "-report=" + words[0], *words[1:]],
                          capture_output=True, text=True)
    if done.returncode:
        sys.exit("report.py: %s: %s" % (" ".join(words), done.stderr))
    return done.stdout


class Page(html.parser.HTMLParser):
    """Tables of class work row by row, pictures' dots and rectangles by method; every element is closed."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.bad, self.methods, self.json, self.row, self.code = [], [], [], "", None, 0
        self.in_method = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        a = dict(attrs)
        for key, value in a.items():
            if key in ("src", "href", "srcset"):
                self.bad.append("%s refers to %s" % (tag, value))
        if tag == "section":
            self.in_method = a.get("class") == "method"
        if tag == "section" and self.in_method:
            self.methods.append({"rows": [], "dots": 0, "rects": 0, "title": ""})
        if tag == "tr":
            self.row = []
        if tag == "td":
            self.row.append("")
        if tag == "circle" and a.get("class", "").startswith("dot"):
            self.methods[-1]["dots"] += 1
            check("a dot lies in its picture", 0 <= float(a["cx"]) <= 640 and 0 <= float(a["cy"]) <= 300)
        if tag == "rect":
            self.methods[-1]["rects"] += 1
            check("a buffer lies in its picture", float(a["y"]) >= -1 and float(a["height"]) > 0 and
                  float(a["x"]) + float(a["width"]) <= 640)
        self.code += tag == "pre"
        if tag not in VOID or tag in ("rect", "circle") and not self.get_starttag_text().endswith("/>"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if self.open and self.open[-1] == tag and tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.bad.append("</%s> closes something else" % tag)
        if tag == "tr" and self.row:
            self.methods[-1]["rows"].append(self.row)
            self.row = None

    def handle_data(self, data):
        if self.open and self.open[-1] == "td":
            self.row[-1] += data
        if self.open and self.open[-1] == "h2" and self.in_method:
            self.methods[-1]["title"] += data
        if self.open and self.open[-1] == "script":
            self.json += data


def works(method):
    """What the rows of a table must be, whatever their order: name, class, read, written, operations."""
    out = []
    for k in method["kernels"] + method["products"]:
        one = (k["name"], k["class"], k["bytes_read"], k["bytes_written"], k["flops"])
        out += [one] * k.get("calls", 1)
    return sorted(out)


def compare(page, told):
    check("the page has the methods of the JSON", [m["title"] for m in page.methods] == [m["name"] for m in told["methods"]])
    for shown, m in zip(page.methods, told["methods"]):
        rows = sorted((r[1], r[2], int(r[3]), int(r[4]), int(r[6])) for r in shown["rows"])
        check("%s: the table has the numbers of the JSON" % m["name"], rows == works(m))
        check("%s: a dot for each row" % m["name"], shown["dots"] == len(rows))
        check("%s: a rectangle for each buffer" % m["name"], shown["rects"] == len(m["buffers"]))
        check("%s: launches" % m["name"], m["launches"] == sum(k["calls"] for k in m["kernels"]))
        check("%s: library calls" % m["name"], m["library_calls"] == len(m["products"]))


def overlaps(m):
    """Buffers that live at the same time lie apart, and the arena is as large as said."""
    temps = [b for b in m["buffers"] if b["kind"] == "temporary"]
    for i, a in enumerate(temps):
        for b in temps[:i]:
            if a["first_step"] <= b["last_step"] and b["first_step"] <= a["last_step"] and \
                    a["offset"] < b["offset"] + b["bytes"] and b["offset"] < a["offset"] + a["bytes"]:
                return True
    most = max([b["offset"] + (b["bytes"] + 63) // 64 * 64 for b in temps], default=0)
    return most != m["peak_bytes"]


def page_of(model, *words):
    told = json.loads(report("json", model, *words))
    text = report("html", model, *words)
    page = Page(text)
    check("%s: the page is well formed and needs nothing else: %s" % (model, page.bad), not page.bad and not page.open)
    check("%s: no asset is loaded" % model, "http" not in text.replace("http://www.w3.org", "") and "@import" not in text)
    check("%s: the JSON in the page is the report's" % model, json.loads(page.json) == told)
    check("%s: every kernel is printed" % model, page.code >= len({k["name"] for m in told["methods"] for k in m["kernels"]}))
    compare(page, told)
    for m in told["methods"]:
        check("%s %s: places of buffers" % (model, m["name"]), not overlaps(m))
    return told


def by_name(told):
    return {m["name"]: m for m in told["methods"]}


def numbers():
    """A map and a row of which everything is known."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "known.tn")
        with open(path, "w") as f:
            f.write("module M {\n    fn twice(x: [N, D]) -> (y: [N, D]) { return 2 * x }\n"
                    "    fn rows(x: [N, D]) -> (y: [N, D]) { return softmax(x, -1) }\n"
                    "    fn product(a: [N, D], b: [D, K]) -> (c: [N, K]) { return a @ b }\n}\nmodel m = M()\n")
        words = ("N=1000", "D=512", "K=256", "-target=cpu")
        told = page_of(path, *words)
        m = by_name(told)
        check("a map reads and writes each number once", m["twice"]["bytes_moved"] == 2 * 4 * 512000 and
              m["twice"]["bytes_least"] == 2 * 4 * 512000)
        check("a map has an operation for each element", m["twice"]["flops"] == 512000)
        check("softmax can read once", m["rows"]["bytes_least"] == 2 * 4 * 512000)
        check("softmax moves not less than that", m["rows"]["bytes_moved"] >= m["rows"]["bytes_least"])
        check("a product has 2 N D K operations", m["product"]["flops"] == 2 * 1000 * 512 * 256)
        check("sizes are the given ones", told["dims"] == {"N": 1000, "D": 512, "K": 256})
        check("the text says so, too", "2048000      2048000       512000" in report("text", path, *words))


numbers()
for target in ("cpu", "cuda"):
    page_of(os.path.join(root, "models/digits.tn"), "B=64", "-target=" + target)
    page_of(os.path.join(root, "models/lltm.tn"), "B=16", "-target=" + target)
sys.exit(1 if failed else 0)
