#!/usr/bin/python3
# covered.py: every row of diag.def has a text that shows its message.
#   covered.py TENON DIAG.DEF FOLDER...
# SPDX-License-Identifier: MIT
import json
import pathlib
import re
import subprocess
import sys


NO_TEXT = {"E0901"}  # of a pass: an op without kernels, which no program can make


def codes_of(tenon, file):
    options = []
    first = file.read_text(errors="replace").split("\n", 1)[0]
    if first.startswith("# options: "):
        options = first[len("# options: "):].split()
    p = subprocess.run([tenon, "-check", "-fdiagnostics=json", *options, file.name], cwd=file.parent, capture_output=True,
                       text=True, errors="replace")
    for stream in (p.stdout, p.stderr):
        try:
            return {d["code"] for d in json.loads(stream)}
        except ValueError:
            pass
    return set()


def main(tenon, table, folders):
    rows = re.findall(r"^DIAG\((\w+), (\w+), \w+", pathlib.Path(table).read_text(), re.M)
    tenon = str(pathlib.Path(tenon).resolve())
    seen = set()
    for folder in folders:
        for file in sorted(pathlib.Path(folder).resolve().glob("[!_]*.tn")):
            seen |= codes_of(tenon, file)
    missing = [f"{code} {name}" for code, name in rows if code not in seen | NO_TEXT]
    for row in missing:
        print("no text in tests/diag shows", row)
    print(f"{len(rows) - len(missing)} passed, {len(missing)} failed")
    return len(missing) > 0 or not rows


sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
