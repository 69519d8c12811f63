#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""optimisers.py STEP: three steps of every optimiser by the evaluator, against PyTorch's numbers
(tests/reference/data/optimisers.npz), by the joint step and by gradient and update apart."""
import ast
import os
import struct
import subprocess
import sys
import tempfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
REFERENCE = os.path.join(HERE, '..', 'reference')
sys.path.insert(0, REFERENCE)
import cases  # noqa: E402



class Array:
    def __init__(self, data):
        start = 10 if data[6] == 1 else 12
        length = struct.unpack('<H' if data[6] == 1 else '<I', data[8:start])[0]
        head = ast.literal_eval(data[start:start + length].decode())
        self.shape = head['shape']
        count = 1
        for n in self.shape:
            count *= n
        code = {'<f4': 'f', '<f8': 'd', '<i8': 'q', '<i4': 'i'}[head['descr']]
        self.flat = struct.unpack_from(f'<{count}{code}', data, start + length)


def read_npz(path):
    with zipfile.ZipFile(path) as z:
        return {n[:-4]: Array(z.read(n)) for n in z.namelist()}


def inputs_text(data):
    lines = []
    for name in ('x', 'y'):
        a = data['in.' + name]
        lines.append(f"{name} {','.join(map(str, a.shape))} " + ' '.join(repr(float(v)) for v in a.flat))
    return '\n'.join(lines)


def main():
    step = sys.argv[1]
    data = read_npz(os.path.join(REFERENCE, 'data', 'optimisers.npz'))
    text, wrong, right = inputs_text(data), 0, 0
    for key in sorted({k.split('.')[1] for k in data if k.startswith('out.')}):
        name = key.replace('_clipped', '')
        model = cases.TRAIN_TEXT.replace('.to(f32)', '.to(f64)')
        model = model.replace('OPTIMISER', cases.OPTIMISERS[name][0])
        model = model.replace('CLIP', '0.25' if key != name else '1000.0')
        with tempfile.NamedTemporaryFile('w', suffix='.tn') as f:
            f.write(model)
            f.flush()
            # with the same batch twice a step the mean is the gradient
            for options in ([], ['-update'], ['accumulate']):
                steps = '3'
                if options == ['accumulate']:
                    f.seek(0)
                    f.write(model.replace('{ clip_norm', '{ accumulate = 2; clip_norm'))
                    f.flush()
                    steps = '6'
                p = subprocess.run([step, f.name, steps, '-f64', *options], input=text,
                                   capture_output=True, text=True)
                if p.returncode:
                    print(f'{key}: {p.stderr}')
                    wrong += 1
                    continue
                got = {w[0]: list(map(float, w[1:])) for w in map(str.split, p.stdout.splitlines())}
                for k, a in data.items():
                    if not k.startswith(f'out.{key}.'):
                        continue
                    values = got.get(k.split('.', 2)[2], [])
                    ok = len(values) == len(a.flat) and all(
                        abs(x - y) <= 1e-9 * max(1, abs(y)) for x, y in zip(values, a.flat))
                    if not ok:
                        worst = max((abs(x - y) for x, y in zip(values, a.flat)), default=None)
                        print(f'{k} {" ".join(options)}: differs by {worst}')
                    wrong += not ok
                    right += ok
    print(f'{right} equal, {wrong} not')
    return 1 if wrong or not right else 0


sys.exit(main())
