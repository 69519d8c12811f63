/* others.c: kernels over integers: random numbers, sums, votes, atomics, loops that lanes leave at
 * different times. SPDX-License-Identifier: MIT */
#include "tests/vgpu/suite/suite.h"

#include <stdlib.h>
#include <string.h>

static uint32_t next(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 3;
}

static void philox(Suite *s)
{
    int n = 5000 * s->scale;
    uint32_t key[2] = {0x1234567u, 0x89abcdefu};
    CUdeviceptr d = user_alloc((size_t)n * 16);
    void *args[] = {&d, &key[0], &key[1], &n};
    run(s, "philox", (Shape){(unsigned)(n + 255) / 256, 1, 1, 256, 1, 1}, args);
    uint32_t *got = download(d, (size_t)n * 16);
    for (int i = 0; i < n; i++) {
        uint32_t c[4] = {(uint32_t)i, 0, 0, 0}, k0 = key[0], k1 = key[1];
        for (int r = 0; r < 10; r++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
            uint64_t p = (uint64_t)0xD2511F53u * c[0], q = (uint64_t)0xCD9E8D57u * c[2];
            uint32_t to[4] = {(uint32_t)(q >> 32) ^ c[1] ^ k0, (uint32_t)q,
                              (uint32_t)(p >> 32) ^ c[3] ^ k1, (uint32_t)p};
            memcpy(c, to, sizeof c);
        }
        for (int j = 0; j < 4; j++)
            if (got[i * 4 + j] != c[j])
                wrong(s, "philox", (size_t)(i * 4 + j), got[i * 4 + j], c[j]);
    }
    CHECK(cuMemFree(d));
    free(got);
}

static void histogram(Suite *s)
{
    int n = 50000 * s->scale;
    uint32_t state = 1, bins[256] = {0}, *got;
    unsigned char *x = user_malloc((size_t)n);
    for (int i = 0; i < n; i++) {
        x[i] = (unsigned char)(next(&state) & next(&state));
        bins[x[i]]++;
    }
    CUdeviceptr dx = user_upload(x, (size_t)n), db = user_alloc(sizeof bins);
    CHECK(cuMemsetD32(db, 0, 256));
    void *args[] = {&dx, &db, &n};
    run(s, "histogram", (Shape){8, 1, 1, 256, 1, 1}, args);
    got = download(db, sizeof bins);
    for (size_t i = 0; i < 256; i++)
        if (got[i] != bins[i])
            wrong(s, "histogram", i, got[i], bins[i]);
    CHECK(cuMemFree(dx));
    CHECK(cuMemFree(db));
    free(x);
    free(got);
}

static void scan(Suite *s)
{
    int blocks = 40 * s->scale, n = blocks * 256, sum = 0;
    uint32_t state = 2;
    int *x = user_malloc((size_t)n * 4);
    for (int i = 0; i < n; i++)
        x[i] = (int)(next(&state) % 2000) - 1000;
    CUdeviceptr dx = user_upload(x, (size_t)n * 4), dy = user_alloc((size_t)n * 4);
    void *args[] = {&dx, &dy};
    run(s, "scan", (Shape){(unsigned)blocks, 1, 1, 256, 1, 1}, args);
    int *y = download(dy, (size_t)n * 4);
    for (int i = 0; i < n; i++) {
        sum = i % 256 ? sum + x[i] : x[i];
        if (y[i] != sum)
            wrong(s, "scan", (size_t)i, y[i], sum);
    }
    CHECK(cuMemFree(dx));
    CHECK(cuMemFree(dy));
    free(x);
    free(y);
}

static void argmax(Suite *s)
{
    int n = 30000 * s->scale, expected = 0;
    float *x = user_numbers((size_t)n, 3);
    uint64_t best = 0;
    for (int i = 0; i < n; i++)
        if (x[i] > x[expected])
            expected = i;
    x[n - 1] = x[expected]; /* a tie: the first wins */
    CUdeviceptr dx = user_upload(x, (size_t)n * 4), db = user_upload(&best, 8);
    void *args[] = {&dx, &db, &n};
    run(s, "argmax", (Shape){(unsigned)(n + 255) / 256, 1, 1, 256, 1, 1}, args);
    CHECK(cuMemcpyDtoH(&best, db, 8));
    uint32_t got = 0xffffffffu - (uint32_t)best;
    if (got != (uint32_t)expected)
        wrong(s, "argmax", 0, got, expected);
    CHECK(cuMemFree(dx));
    CHECK(cuMemFree(db));
    free(x);
}

static int leading_zeros(uint32_t v)
{
    return v ? __builtin_clz(v) : 32;
}

static uint32_t reversed(uint32_t v)
{
    uint32_t r = 0;
    for (int i = 0; i < 32; i++)
        r |= (v >> i & 1) << (31 - i);
    return r;
}

static void expected_integers(int a, int b, int64_t *to)
{
    uint32_t ua = (uint32_t)a, ub = (uint32_t)b;
    to[0] = a / b;
    to[1] = a % b;
    to[2] = (int64_t)a * b;
    to[3] = (int64_t)a * 1000003 / b;
    to[4] = ua / ub;
    to[5] = __builtin_popcount(ua) * 1000 + leading_zeros(ub);
    to[6] = (int64_t)(reversed(ua) ^ (uint32_t)__builtin_ffs(b));
    to[7] = a >> (b & 31);
    to[8] = ua >> (b & 31);
    to[9] = (int64_t)((uint32_t)(a < b ? a : b) ^ (ua > ub ? ua : ub));
}

static void integers(Suite *s)
{
    int n = 4000 * s->scale;
    uint32_t state = 4;
    int *x = user_malloc((size_t)n * 8);
    for (int i = 0; i < 2 * n; i++)
        x[i] = (int)(next(&state) << 3 ^ next(&state)) >> (next(&state) % 28);
    CUdeviceptr dx = user_upload(x, (size_t)n * 8), dy = user_alloc((size_t)n * 80);
    void *args[] = {&dx, &dy, &n};
    run(s, "integers", (Shape){(unsigned)(n + 127) / 128, 1, 1, 128, 1, 1}, args);
    int64_t *y = download(dy, (size_t)n * 80), expected[10];
    for (int i = 0; i < n; i++) {
        expected_integers(x[2 * i], x[2 * i + 1] | 1, expected);
        for (int k = 0; k < 10; k++)
            if (y[i * 10 + k] != expected[k])
                wrong(s, "integers", (size_t)(i * 10 + k), (double)y[i * 10 + k],
                      (double)expected[k]);
    }
    CHECK(cuMemFree(dx));
    CHECK(cuMemFree(dy));
    free(x);
    free(y);
}

static void collatz(Suite *s)
{
    int n = 3000 * s->scale;
    uint32_t *x = user_malloc((size_t)n * 4);
    for (int i = 0; i < n; i++)
        x[i] = (uint32_t)i + 1;
    CUdeviceptr dx = user_upload(x, (size_t)n * 4), dy = user_alloc((size_t)n * 4);
    void *args[] = {&dx, &dy, &n};
    run(s, "collatz", (Shape){(unsigned)(n + 127) / 128, 1, 1, 128, 1, 1}, args);
    uint32_t *y = download(dy, (size_t)n * 4);
    for (int i = 0; i < n; i++) {
        uint32_t v = x[i], steps = 0;
        for (; v != 1; steps++)
            v = v % 2 ? 3 * v + 1 : v / 2;
        if (y[i] != steps)
            wrong(s, "collatz", (size_t)i, y[i], steps);
    }
    CHECK(cuMemFree(dx));
    CHECK(cuMemFree(dy));
    free(x);
    free(y);
}

static uint32_t vote(const int *x, int t)
{
    uint32_t even = 0, same = 0, all = 1, any = 0;
    for (int i = 0; i < 32; i++) {
        even |= (uint32_t)(x[i] % 2 == 0) << i;
        same |= (uint32_t)(x[i] == x[t]) << i;
        all &= x[i] >= 0;
        any |= x[i] == 3;
    }
    return even ^ same * 3 ^ all << 1 ^ any;
}

static void votes(Suite *s)
{
    int blocks = 20 * s->scale, n = blocks * 32;
    uint32_t state = 5;
    int *x = user_malloc((size_t)n * 4);
    for (int i = 0; i < n; i++)
        x[i] = (int)(next(&state) % 40) - (i % 64 < 32 ? 0 : 5);
    CUdeviceptr dx = user_upload(x, (size_t)n * 4), dy = user_alloc((size_t)n * 4 + 4);
    CHECK(cuMemsetD32(dy, 0, (size_t)n + 1));
    void *args[] = {&dx, &dy};
    run(s, "votes", (Shape){(unsigned)blocks, 1, 1, 32, 1, 1}, args);
    uint32_t *y = download(dy, (size_t)n * 4 + 4);
    for (int i = 0; i < n; i++)
        if (y[i] != vote(x + i / 32 * 32, i % 32))
            wrong(s, "votes", (size_t)i, y[i], vote(x + i / 32 * 32, i % 32));
    if (y[n] != 1) /* one lane was in the branch */
        wrong(s, "votes: active lanes", (size_t)n, y[n], 1);
    CHECK(cuMemFree(dx));
    CHECK(cuMemFree(dy));
    free(x);
    free(y);
}

void suite_others(Suite *s)
{
    philox(s);
    histogram(s);
    scan(s);
    argmax(s);
    integers(s);
    collatz(s);
    votes(s);
}
