#!/usr/bin/python3
# npz.py: writes small npz files for tests, with Python's library alone.
#   npz.py OUT.npz NAME=DTYPE:SHAPE:KIND ...     f32:40x64:wave   i64:40:mod10   i64:40:eleven
# KIND: zero, one, wave (numbers between 0 and 1), modN (0 .. N-1 in turn), or a number.
#   npz.py --cut FILE OUT BYTES                  the first BYTES bytes of a file
#   npz.py --set FILE OUT NAME VALUE             the same with another value of an i64 scalar
#   npz.py --part FILE OUT N                     the first N rows of each array, of NAME_test a quarter of that
# SPDX-License-Identifier: MIT
import ast
import math
import struct
import sys
import zipfile

CODES = {"f32": ("<f4", "f"), "f64": ("<f8", "d"), "i64": ("<i8", "q"), "i32": ("<i4", "i"), "u8": ("|u1", "B")}


def element(kind, i, whole):
    if kind == "wave":
        return 0.5 + 0.5 * math.sin(0.37 * i + 0.011 * i * (i % 7))
    if kind.startswith("mod"):
        return i % int(kind[3:])
    value = {"zero": 0, "one": 1}.get(kind)
    return value if value is not None else (int(kind) if whole else float(kind))


def array(text):
    dtype, shape, kind = text.split(":")
    sizes = tuple(int(n) for n in shape.split("x") if n)
    count = math.prod(sizes)
    descr, letter = CODES[dtype]
    whole = letter not in "fd"
    head = "{'descr': '%s', 'fortran_order': False, 'shape': %r, }" % (descr, sizes)
    head += " " * (-(len(head) + 11) % 64) + "\n"
    data = struct.pack("<%d%s" % (count, letter), *[element(kind, i, whole) for i in range(count)])
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data


def rows(data, n):
    """The first n rows of an npy file in C order."""
    start = 10 + struct.unpack("<H", data[8:10])[0]
    head = ast.literal_eval(data[10:start].decode())
    n = min(n, head["shape"][0])
    width = (len(data) - start) // head["shape"][0]
    head["shape"] = (n,) + head["shape"][1:]
    text = repr(head)
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return data[:8] + struct.pack("<H", len(text)) + text.encode() + data[start:start + n * width]


def main(args):
    if args[0] == "--part":
        with zipfile.ZipFile(args[1]) as f, zipfile.ZipFile(args[2], "w") as out:
            for name in f.namelist():
                n = int(args[3])
                out.writestr(name, rows(f.read(name), n // 4 if name.endswith("_test.npy") else n))
        return
    if args[0] == "--cut":
        with open(args[1], "rb") as f, open(args[2], "wb") as out:
            out.write(f.read(int(args[3])))
        return
    if args[0] == "--set":
        with zipfile.ZipFile(args[1]) as f, zipfile.ZipFile(args[2], "w") as out:
            for name in f.namelist():
                data = f.read(name)
                if name == args[3] + ".npy":
                    data = data[:-8] + struct.pack("<q", int(args[4]))
                out.writestr(name, data)
        return
    with zipfile.ZipFile(args[0], "w") as z:
        for item in args[1:]:
            name, text = item.split("=")
            z.writestr(name + ".npy", array(text))


main(sys.argv[1:])
