"""The page of bars: one file, SVG inside, nothing from elsewhere. SPDX-License-Identifier: MIT"""
import html

COLOURS = {"tenon": "#1b6ac9", "torch": "#d9622b", "compile": "#a8324a", "jax": "#3c8d40", "onnx": "#7a55b0"}
STYLE = """body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:62em;padding:0 1em;color:#222;background:#fff}
h1{font-size:1.5em}h2{font-size:1.15em;margin-top:2em}table{border-collapse:collapse;font-variant-numeric:tabular-nums}
td,th{padding:.2em .7em;text-align:right;border-bottom:1px solid #ddd}td:first-child,th:first-child{text-align:left}
svg text{font:12px system-ui,sans-serif}.key span{display:inline-block;width:.9em;height:.9em;margin:0 .3em 0 1em;vertical-align:-.1em}
.low{color:#b00020;font-weight:600}.note{color:#777;font-size:.9em}"""


def number(seconds):
    ms = 1e3 * seconds
    return "%.3g ms" % ms if ms >= 0.1 else "%.3g us" % (1e3 * ms)


def bars(rows, peers):
    """For each case a group of bars: the speed beside Tenon's, which is 1; longer is faster."""
    names = ["tenon"] + peers
    rows = [r for r in rows if "tenon" in r["seconds"]]
    left, width, bar, gap = 250, 520, 11, 14
    most = max([1.25] + [r["seconds"]["tenon"] / v for r in rows for k, v in r["seconds"].items() if k in names])
    most = min(most, 3.0)
    height = sum(gap + bar * sum(k in r["seconds"] for k in names) for r in rows) + 40
    out = ['<svg viewBox="0 0 %d %d" width="100%%" role="img">' % (left + width + 110, height)]
    for i in range(int(most * 2) + 1):
        x = left + width * (i / 2) / most
        out.append('<line x1="%.1f" x2="%.1f" y1="20" y2="%d" stroke="%s"/><text x="%.1f" y="14" '
                   'text-anchor="middle" fill="#666">%.1f</text>' % (x, x, height - 10, "#888" if i == 2 else "#e4e4e4", x, i / 2))
    y = 26
    for r in rows:
        shown = [k for k in names if k in r["seconds"]]
        out.append('<text x="%d" y="%.1f" text-anchor="end">%s</text>' % (
            left - 8, y + bar * len(shown) / 2 + 4, html.escape(r["case"])))
        for k in shown:
            speed = r["seconds"]["tenon"] / r["seconds"][k]
            length = width * min(speed, most) / most
            out.append('<rect x="%d" y="%.1f" width="%.1f" height="%d" fill="%s"><title>%s: %s</title></rect>' % (
                left, y, length, bar - 1, COLOURS[k], k, number(r["seconds"][k])))
            out.append('<text x="%.1f" y="%.1f" fill="#555" style="font-size:9px">%s</text>' % (
                left + length + 4, y + bar - 2, number(r["seconds"][k])))
            y += bar
        y += gap
    out.append("</svg>")
    return "\n".join(out)


def table(rows, peers):
    out = ["<table><tr><th>case</th><th>Tenon</th>%s<th>ratio</th><th>best peer</th></tr>" %
           "".join("<th>%s</th>" % p for p in peers)]
    for r in rows:
        cells = "".join("<td>%s</td>" % (number(r["seconds"][k]) if k in r["seconds"] else "-")
                        for k in ["tenon"] + peers)
        ratio = r.get("ratio")
        out.append("<tr><td>%s%s</td>%s<td class='%s'>%s</td><td>%s</td></tr>" % (
            html.escape(r["case"]), "".join("<div class='note'>%s</div>" % html.escape(n) for n in r["notes"]),
            cells, "low" if ratio and ratio < 1 else "", "%.2f" % ratio if ratio else "-", r.get("best", "")))
    return "\n".join(out) + "</table>"


def facts(result):
    out = []
    for s in result["summary"]:
        out.append("%d thread%s, %s: geometric mean <b>%.2f</b> over the best peer of %d cases, least %.2f%s" % (
            s["threads"], "s" if s["threads"] > 1 else "", s["group"], s["geomean"], s["cases"], s["least"],
            " (%s)" % html.escape(s["least_case"]) if s["least_case"] else ""))
    for m in result["memory"]:
        out.append("peak memory, %s: %s" % (html.escape(m["case"]), ", ".join(
            "%s %.1f MB" % (k, v / 1e6) for k, v in m["bytes"].items())))
    for c in result.get("compiling", []):
        out.append("compiling, %s: %.3g %s" % (html.escape(c["what"]), c["value"], c["unit"]))
    return "<ul>%s</ul>" % "".join("<li>%s</li>" % s for s in out)


def products(rows):
    rows = [r for r in rows if "gflops" in r]
    if not rows:
        return ""
    out = ["<h2>Floating-point operations</h2><table><tr><th>case</th><th>threads</th><th>GFLOP/s</th><th>of the peak "
           "measured beside</th><th>best peer</th></tr>"]
    for r in rows:
        others = [v for k, v in r["gflops"].items() if k != "tenon"]
        out.append("<tr><td>%s</td><td>%d</td><td>%.0f</td><td>%.0f %%</td><td>%s</td></tr>" % (
            html.escape(r["case"]), r["threads"], r["gflops"]["tenon"], 100 * r["gflops"]["tenon"] / r["peak_gflops"],
            "%.0f" % max(others) if others else "-"))
    return "\n".join(out) + "</table>"


def page(result):
    peers = list(result["peers"])
    key = "".join('<span style="background:%s"></span>%s' % (COLOURS[k], html.escape(result["peers"].get(k, "Tenon")))
                  for k in ["tenon"] + peers)
    body = []
    for threads in sorted({r["threads"] for r in result["rows"]}):
        rows = [r for r in result["rows"] if r["threads"] == threads]
        body += ["<h2>%d thread%s</h2>" % (threads, "s" if threads > 1 else ""), bars(rows, peers), table(rows, peers)]
    return ("<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'><title>Tenon: speed</title><style>%s</style></head>"
            "<body><h1>Speed beside the others</h1><p>Bars: speed relative to Tenon, which is 1; longer is faster. "
            "Medians of %d interleaved rounds, %s time.</p><p class='key'>%s</p>%s%s%s</body></html>\n" % (
                STYLE, result["rounds"], result["clock"], key, facts(result), "\n".join(body), products(result["rows"])))
