#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fits the polynomials of runtime/kernels/math.h and prints their coefficients as C floats.

Each row of FITS is a function g on an interval, a degree and a weight; the printed polynomial is
close to the weighted minimax one. Coefficients are rounded to float one by one, lowest degree
first, and the others are fitted again each time, so that the rounded polynomial stays good.
Needs mpmath; run by hand: fit_math.py [NAME ...]
"""
import struct
import sys

from mpmath import (acos, asin, atan, cos, cosh, erf, erfc, exp, expm1, lu_solve, log, log1p,
                    matrix, mp, mpf, pi, sin, sinh, sqrt, tan, tanh)

mp.dps = 40


def f32(x):
    """x rounded to the nearest float."""
    return mpf(struct.unpack("f", struct.pack("f", float(x)))[0])


def solve(xs, ys, ws, first, degree):
    """Weighted least squares for the coefficients first..degree."""
    n = degree - first + 1
    a, b = matrix(n, n), matrix(n, 1)
    for x, y, w in zip(xs, ys, ws):
        row = [w * x ** (first + i) for i in range(n)]
        for i in range(n):
            b[i] += row[i] * w * y
            for j in range(n):
                a[i, j] += row[i] * row[j]
    return list(lu_solve(a, b))


def minimax(xs, ys, ws, first, degree, rounds=12):
    """Lawson's iteration: weights grow where the error is large."""
    lawson = [mpf(1)] * len(xs)
    best, best_error = None, None
    for _ in range(rounds):
        c = solve(xs, ys, [w * sqrt(l) for w, l in zip(ws, lawson)], first, degree)
        errors = [abs(w * (sum(k * x ** (first + i) for i, k in enumerate(c)) - y))
                  for x, y, w in zip(xs, ys, ws)]
        worst = max(errors)
        if best is None or worst < best_error:
            best, best_error = c, worst
        lawson = [l * (e / worst + mpf("1e-6")) for l, e in zip(lawson, errors)]
        total = sum(lawson)
        lawson = [l * len(xs) / total for l in lawson]
    return best, best_error


def fit(name, g, lo, hi, degree, weight, points=None):
    n = points or 8 * (degree + 2)
    lo, hi = mpf(lo), mpf(hi)
    xs = [(lo + hi) / 2 + (hi - lo) / 2 * cos(pi * (2 * i + 1) / (2 * n)) for i in range(n)]
    xs = [x for x in xs if abs(x) > mpf("1e-9")]
    ys, ws = [g(x) for x in xs], [weight(x) for x in xs]
    rest, done = list(ys), []
    for i in range(degree + 1):
        c, _ = minimax(xs, rest, ws, i, degree)
        done.append(f32(c[0]))
        rest = [y - done[-1] * x ** i for x, y in zip(xs, rest)]
    error = max(abs(w * r) for w, r in zip(ws, rest))
    print(f"{name}: error 2^{float(log(error) / log(2)):.1f}")
    print("   ", ", ".join(f"{float(c):.9g}f" for c in done))


LN2 = log(mpf(2))
HALF_PI = pi / 2
one = lambda x: mpf(1)
C2, C10 = f32(1 / LN2), f32(1 / log(mpf(10)))
C2L, C10L = 1 / LN2 - C2, 1 / log(mpf(10)) - C10
S0 = f32(HALF_PI)
S0L = HALF_PI - S0
L2 = f32(2 / LN2)
M0, M1 = sqrt(mpf("0.5")) - 1, sqrt(mpf(2)) - 1

def erfcx_of(t, k):
    """erfc(a) exp(a^2) (1 + 2a), where t = (a - k) / (a + k)."""
    if t >= 1:
        return 2 / sqrt(pi)
    a = k * (1 + t) / (1 - t)
    return erfc(a) * exp(a * a) * (1 + 2 * a)


K2 = f32(erfcx_of(mpf(0), mpf(2)))


# name, g, interval, degree, weight: what is bounded is weight * (polynomial - g)
FITS = [
    ("exp", lambda r: (exp(r) - 1 - r) / r ** 2, -0.3468, 0.3468, 4, lambda r: r ** 2),
    ("exp2", lambda r: (mpf(2) ** r - 1) / r, -0.5, 0.5, 5, lambda r: r),
    ("expm1", lambda r: (exp(r) - 1 - r) / r ** 2, -0.3468, 0.3468, 5, lambda r: r),
    ("log", lambda f: (log1p(f) - f + f ** 2 / 2) / f ** 3, M0, M1, 8, lambda f: f ** 2),
    ("log2", lambda f: (log1p(f) / LN2 - (C2 + C2L) * f) / f ** 2, M0, M1, 9, lambda f: f),
    ("log10", lambda f: (log1p(f) / log(mpf(10)) - (C10 + C10L) * f) / f ** 2, M0, M1, 8,
     lambda f: f),
    ("sin", lambda z: (sin(HALF_PI * sqrt(z)) / sqrt(z) - HALF_PI) / z, 0, 0.2501, 3,
     lambda z: z),
    ("cos", lambda z: (cos(HALF_PI * sqrt(z)) - 1) / z, 0, 0.2501, 3, lambda z: z),
    ("asin", lambda z: (asin(sqrt(z)) / sqrt(z) - 1) / z, 0, 0.25, 5, lambda z: z),
    ("atan", lambda z: (atan(sqrt(z)) / sqrt(z) - 1) / z, 0, 1, 9, lambda z: z),
    ("sinh", lambda z: (sinh(sqrt(z)) / sqrt(z) - 1) / z, 0, 1, 3, lambda z: z),
    ("tanh", lambda z: (tanh(sqrt(z)) / sqrt(z) - 1) / z, 0, 0.3907, 6, lambda z: z),
    ("erf", lambda z: (erf(sqrt(z)) / sqrt(z) - 2 / sqrt(pi)) / z, 0, 1, 6, lambda z: z),
    ("atanh2", lambda z: (log((1 + sqrt(z)) / (1 - sqrt(z))) / LN2 / sqrt(z) - 2 / LN2) / z,
     0, 0.02945, 3, lambda z: z),
    ("erf_tail", lambda a: log(erfc(a)) / LN2, 1, 4, 6, lambda a: erfc(a) * LN2),
    ("erfcx", lambda t: erfcx_of(t, mpf(2)) - K2, -0.668, 0.67, 10, one),
]


if __name__ == "__main__":
    for row in FITS:
        if len(sys.argv) < 2 or row[0] in sys.argv[1:]:
            fit(*row)
