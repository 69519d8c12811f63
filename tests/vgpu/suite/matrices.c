/* matrices.c: kernels over matrices: products, transposition, convolution, attention.
 * SPDX-License-Identifier: MIT */
#include "tests/vgpu/suite/suite.h"

#include <math.h>
#include <stdlib.h>

static void sgemm(Suite *s)
{
    int m = 64 * s->scale, n = 64 * s->scale, k = 128 * (s->scale > 1 ? 2 : 1);
    size_t na = (size_t)m * (size_t)k, nb = (size_t)k * (size_t)n, nc = (size_t)m * (size_t)n;
    float *a = user_numbers(na, 1), *b = user_numbers(nb, 2);
    CUdeviceptr da = user_upload(a, na * 4), db = user_upload(b, nb * 4), dc = user_alloc(nc * 4);
    void *args[] = {&da, &db, &dc, &m, &n, &k};
    run(s, "sgemm", (Shape){(unsigned)n / 64, (unsigned)m / 64, 1, 256, 1, 1}, args);
    float *c = download(dc, nc * 4);
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            double sum = 0;
            for (int l = 0; l < k; l++)
                sum += (double)a[i * k + l] * (double)b[l * n + j];
            near(s, "sgemm", (size_t)(i * n + j), (double)c[i * n + j], sum, 1e-5);
        }
    CHECK(cuMemFree(da));
    CHECK(cuMemFree(db));
    CHECK(cuMemFree(dc));
    free(a);
    free(b);
    free(c);
}

static void transpose(Suite *s)
{
    int rows = 100 * s->scale, cols = 77 * s->scale;
    size_t n = (size_t)rows * (size_t)cols;
    float *x = user_numbers(n, 3);
    CUdeviceptr dx = user_upload(x, n * 4), dy = user_alloc(n * 4);
    void *args[] = {&dx, &dy, &rows, &cols};
    Shape shape = {(unsigned)(cols + 31) / 32, (unsigned)(rows + 31) / 32, 1, 32, 8, 1};
    run(s, "transpose", shape, args);
    float *y = download(dy, n * 4);
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < cols; c++)
            near(s, "transpose", (size_t)(c * rows + r), (double)y[c * rows + r],
                 (double)x[r * cols + c], 0);
    CHECK(cuMemFree(dx));
    CHECK(cuMemFree(dy));
    free(x);
    free(y);
}

enum { IN = 3, OUT = 4 };

static double convolved(const float *x, const float *w, int o, int r, int c, int height, int width)
{
    double sum = 0;
    for (int i = 0; i < IN; i++)
        for (int dy = -1; dy <= 1; dy++)
            for (int dx = -1; dx <= 1; dx++)
                if (r + dy >= 0 && r + dy < height && c + dx >= 0 && c + dx < width)
                    sum += (double)x[(i * height + r + dy) * width + c + dx] *
                           (double)w[((o * IN + i) * 3 + dy + 1) * 3 + dx + 1];
    return sum;
}

static void conv(Suite *s)
{
    int channels = IN, height = 12 * s->scale, width = 50 * s->scale;
    size_t plane = (size_t)height * (size_t)width;
    float *x = user_numbers(IN * plane, 4), *w = user_numbers(OUT * IN * 9, 5);
    CUdeviceptr dx = user_upload(x, IN * plane * 4), dw = user_upload(w, OUT * IN * 36);
    CUdeviceptr dy = user_alloc(OUT * plane * 4);
    void *args[] = {&dx, &dw, &dy, &channels, &height, &width};
    run(s, "conv", (Shape){(unsigned)(width + 63) / 64, (unsigned)height, OUT, 64, 1, 1}, args);
    float *y = download(dy, OUT * plane * 4);
    for (int o = 0; o < OUT; o++)
        for (int r = 0; r < height; r++)
            for (int c = 0; c < width; c++) {
                int at = (o * height + r) * width + c;
                near(s, "conv", (size_t)at, (double)y[at], convolved(x, w, o, r, c, height, width),
                     1e-5);
            }
    CHECK(cuMemFree(dx));
    CHECK(cuMemFree(dw));
    CHECK(cuMemFree(dy));
    free(x);
    free(w);
    free(y);
}

static void attention(Suite *s)
{
    int n = 48 * s->scale;
    size_t all = (size_t)n * 32;
    float *q = user_numbers(all, 6), *k = user_numbers(all, 7), *v = user_numbers(all, 8);
    CUdeviceptr dq = user_upload(q, all * 4), dk = user_upload(k, all * 4),
                dv = user_upload(v, all * 4);
    CUdeviceptr dy = user_alloc(all * 4);
    void *args[] = {&dq, &dk, &dv, &dy, &n};
    run(s, "attention", (Shape){(unsigned)n / 4, 1, 1, 128, 1, 1}, args);
    float *y = download(dy, all * 4);
    for (int i = 0; i < n; i++) {
        double sum = 0, out[32] = {0};
        for (int j = 0; j <= i; j++) {
            double score = 0;
            for (int l = 0; l < 32; l++)
                score += (double)q[i * 32 + l] * (double)k[j * 32 + l];
            double e = exp(score / sqrt(32));
            sum += e;
            for (int l = 0; l < 32; l++)
                out[l] += e * (double)v[j * 32 + l];
        }
        for (int l = 0; l < 32; l++)
            near(s, "attention", (size_t)(i * 32 + l), (double)y[i * 32 + l], out[l] / sum, 1e-5);
    }
    CUdeviceptr arrays[] = {dq, dk, dv, dy};
    for (int i = 0; i < 4; i++)
        CHECK(cuMemFree(arrays[i]));
    free(q);
    free(k);
    free(v);
    free(y);
}

/* Tensor cores, from sm_80 on as this kernel uses them. */
static void tensor(Suite *s)
{
    int k = 64 * s->scale;
    size_t na = 16 * (size_t)k, nb = 8 * (size_t)k;
    float *x = user_numbers(na + nb, 9);
    _Float16 *h = user_malloc((na + nb) * 2);
    for (size_t i = 0; i < na + nb; i++)
        h[i] = (_Float16)x[i];
    CUdeviceptr da = user_upload(h, na * 2), db = user_upload(h + na, nb * 2), dc = user_alloc(512);
    void *args[] = {&da, &db, &dc, &k};
    run(s, "tensor", (Shape){1, 1, 1, 32, 1, 1}, args);
    float *c = download(dc, 512);
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 8; j++) {
            double sum = 0;
            for (int l = 0; l < k; l++)
                sum += (double)h[i * k + l] * (double)h[na + (size_t)(j * k + l)];
            near(s, "tensor", (size_t)(i * 8 + j), (double)c[i * 8 + j], sum, 1e-5);
        }
    CHECK(cuMemFree(da));
    CHECK(cuMemFree(db));
    CHECK(cuMemFree(dc));
    free(x);
    free(h);
    free(c);
}

void suite_matrices(Suite *s)
{
    sgemm(s);
    transpose(s);
    conv(s);
    attention(s);
    if (s->capability >= 80)
        tensor(s);
}
