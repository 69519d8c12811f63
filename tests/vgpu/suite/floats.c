/* floats.c: kernels over arrays of floating-point numbers, of all widths. SPDX-License-Identifier:
 * MIT */
#include "tests/vgpu/suite/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void drop2(CUdeviceptr a, CUdeviceptr b)
{
    CHECK(cuMemFree(a));
    CHECK(cuMemFree(b));
}

static void softmax(Suite *s)
{
    int rows = 64 * s->scale, cols = 1000;
    size_t n = (size_t)rows * (size_t)cols;
    float *x = user_numbers(n, 1);
    CUdeviceptr dx = user_upload(x, n * 4), dy = user_alloc(n * 4);
    void *args[] = {&dx, &dy, &cols};
    run(s, "softmax", (Shape){(unsigned)rows, 1, 1, 256, 1, 1}, args);
    float *y = download(dy, n * 4);
    for (int r = 0; r < rows; r++) {
        double sum = 0;
        for (int c = 0; c < cols; c++)
            sum += exp((double)x[r * cols + c]);
        for (int c = 0; c < cols; c++)
            near(s, "softmax", (size_t)(r * cols + c), (double)y[r * cols + c],
                 exp((double)x[r * cols + c]) / sum, 1e-7);
    }
    drop2(dx, dy);
    free(x);
    free(y);
}

static void layernorm(Suite *s)
{
    int rows = 64 * s->scale, cols = 768;
    size_t n = (size_t)rows * (size_t)cols;
    float *x = user_numbers(n, 2), *scale = user_numbers((size_t)cols, 3);
    CUdeviceptr dx = user_upload(x, n * 4), dy = user_alloc(n * 4),
                ds = user_upload(scale, (size_t)cols * 4);
    void *args[] = {&dx, &ds, &dy, &cols};
    run(s, "layernorm", (Shape){(unsigned)rows, 1, 1, 256, 1, 1}, args);
    float *y = download(dy, n * 4);
    for (int r = 0; r < rows; r++) {
        double mean = 0, squares = 0;
        for (int c = 0; c < cols; c++)
            mean += (double)x[r * cols + c] / cols;
        for (int c = 0; c < cols; c++)
            squares += pow((double)x[r * cols + c] - mean, 2);
        for (int c = 0; c < cols; c++)
            near(s, "layernorm", (size_t)(r * cols + c), (double)y[r * cols + c],
                 ((double)x[r * cols + c] - mean) / sqrt(squares / cols + 1e-5) * (double)scale[c],
                 1e-5);
    }
    drop2(dx, dy);
    CHECK(cuMemFree(ds));
    free(x);
    free(y);
    free(scale);
}

static void gelu(Suite *s)
{
    int n = 20000 * s->scale;
    size_t all = (size_t)n * 4;
    float *x = user_numbers(all, 4);
    CUdeviceptr dx = user_upload(x, all * 4), dy = user_alloc(all * 4);
    void *args[] = {&dx, &dy, &n};
    run(s, "gelu", (Shape){(unsigned)(n + 255) / 256, 1, 1, 256, 1, 1}, args);
    float *y = download(dy, all * 4);
    for (size_t i = 0; i < all; i++)
        near(s, "gelu", i, (double)y[i], 0.5 * (double)x[i] * (1 + erf((double)x[i] * sqrt(0.5))),
             1e-6);
    drop2(dx, dy);
    free(x);
    free(y);
}

static void adam(Suite *s)
{
    struct {
        float rate, beta1, beta2, epsilon;
        int step;
    } a = {1e-3f, 0.9f, 0.999f, 1e-8f, 3};
    int n = 30001 * s->scale;
    size_t bytes = (size_t)n * 4;
    float *p = user_numbers((size_t)n, 5), *g = user_numbers((size_t)n, 6),
          *m = user_numbers((size_t)n, 7);
    float *v = user_numbers((size_t)n, 8);
    for (int i = 0; i < n; i++)
        v[i] = fabsf(v[i]) + 0.01f;
    CUdeviceptr dp = user_upload(p, bytes), dg = user_upload(g, bytes), dm = user_upload(m, bytes);
    CUdeviceptr dv = user_upload(v, bytes);
    void *args[] = {&dp, &dg, &dm, &dv, &a, &n};
    run(s, "adam", (Shape){(unsigned)(n + 255) / 256, 1, 1, 256, 1, 1}, args);
    float *got = download(dp, bytes);
    for (int i = 0; i < n; i++) {
        double mi = 0.9 * (double)m[i] + 0.1 * (double)g[i];
        double vi = 0.999 * (double)v[i] + 0.001 * (double)g[i] * (double)g[i];
        double by =
            (double)a.rate * (mi / (1 - pow(0.9, 3))) / (sqrt(vi / (1 - pow(0.999, 3))) + 1e-8);
        near(s, "adam", (size_t)i, (double)got[i], (double)p[i] - by, 2e-6);
    }
    drop2(dp, dg);
    drop2(dm, dv);
    free(p);
    free(g);
    free(m);
    free(v);
    free(got);
}

static float of_bf16(uint16_t h)
{
    uint32_t w = (uint32_t)h << 16;
    float f;
    memcpy(&f, &w, sizeof f);
    return f;
}

static uint16_t to_bf16(float f)
{
    uint32_t w;
    memcpy(&w, &f, sizeof w);
    return (uint16_t)((w + 0x7fff + (w >> 16 & 1)) >> 16);
}

static void halves(Suite *s)
{
    int n = 5000 * s->scale;
    size_t all = (size_t)n * 2;
    float *x = user_numbers(all, 9);
    _Float16 *h = user_malloc(all * 2);
    uint16_t *b = user_malloc(all * 2);
    for (size_t i = 0; i < all; i++) {
        h[i] = (_Float16)x[i];
        b[i] = to_bf16(x[i]);
    }
    CUdeviceptr dh = user_upload(h, all * 2), db = user_upload(b, all * 2);
    CUdeviceptr oh = user_alloc(all * 2), ob = user_alloc(all * 2);
    void *args[] = {&dh, &db, &oh, &ob, &n};
    run(s, "halves", (Shape){(unsigned)(n + 127) / 128, 1, 1, 128, 1, 1}, args);
    _Float16 *gh = download(oh, all * 2);
    uint16_t *gb = download(ob, all * 2);
    for (size_t i = 0; i < all; i++) {
        /* products of two f16 and the sum are exact in double: one rounding, as fma has */
        double exact = (double)h[i] * (double)h[i] + 0.25;
        near(s, "halves f16", i, (double)gh[i], (double)(_Float16)exact, 0);
        float twice = i % 2 ? 2 : 3;
        near(s, "halves bf16", i, (double)of_bf16(gb[i]),
             (double)of_bf16(to_bf16(of_bf16(b[i]) * twice)), 0);
    }
    drop2(dh, db);
    drop2(oh, ob);
    free(x);
    free(h);
    free(b);
    free(gh);
    free(gb);
}

static void functions(Suite *s)
{
    int n = 3000 * s->scale;
    float *x = user_numbers((size_t)n, 10);
    CUdeviceptr dx = user_upload(x, (size_t)n * 4), dy = user_alloc((size_t)n * 48);
    void *args[] = {&dx, &dy, &n};
    run(s, "functions", (Shape){(unsigned)(n + 127) / 128, 1, 1, 128, 1, 1}, args);
    float *y = download(dy, (size_t)n * 48);
    for (int i = 0; i < n; i++) {
        float a = fabsf(x[i]) + 1e-3f, thousand = x[i] * 1000, hundred = x[i] * 100,
              ten = x[i] * 10;
        double v = (double)x[i], expected[12] = {sin((double)thousand),
                                                 cos(v),
                                                 tan(v),
                                                 exp(v),
                                                 log((double)a),
                                                 tanh(v),
                                                 erf(v),
                                                 pow((double)a, 2.5),
                                                 sqrt((double)a),
                                                 fmod((double)hundred, (double)0.7f),
                                                 floor((double)ten),
                                                 atan2(v, (double)a)};
        for (int k = 0; k < 12; k++)
            near(s, "functions", (size_t)(i * 12 + k), (double)y[i * 12 + k], expected[k], 1e-6);
    }
    drop2(dx, dy);
    free(x);
    free(y);
}

static void doubles(Suite *s)
{
    int n = 4000 * s->scale;
    float *x = user_numbers((size_t)n, 11);
    double *wide = user_malloc((size_t)n * 8);
    for (int i = 0; i < n; i++)
        wide[i] = 5 * (double)x[i];
    CUdeviceptr dx = user_upload(wide, (size_t)n * 8), dy = user_alloc((size_t)n * 8);
    void *args[] = {&dx, &dy, &n};
    run(s, "doubles", (Shape){(unsigned)(n + 127) / 128, 1, 1, 128, 1, 1}, args);
    double *y = download(dy, (size_t)n * 8);
    for (int i = 0; i < n; i++)
        near(s, "doubles", (size_t)i, y[i],
             exp(wide[i]) / sqrt(wide[i] * wide[i] + 1) + sin(wide[i]), 1e-14);
    drop2(dx, dy);
    free(x);
    free(wide);
    free(y);
}

static double polynomial(double x, int degree)
{
    static const double coefficients[] = {1, -0.5, 0.25, -0.125};
    double v = 0;
    for (int k = degree; k >= 0; k--)
        v = v * x + coefficients[k];
    return v;
}

static double various_of(double v, int i)
{
    switch (i % 6) {
    case 0:
        return polynomial(v, 3);
    case 1:
        return polynomial(v, 2) + 1;
    case 2:
        return -v;
    case 3:
        return v > 0 ? 2 : 3;
    case 4:
        return v * v;
    default:
        return 0;
    }
}

static void various(Suite *s)
{
    int n = 5000 * s->scale, calls = 0;
    float *x = user_numbers((size_t)n, 12);
    CUdeviceptr dx = user_upload(x, (size_t)n * 4), dy = user_alloc((size_t)n * 4), variable;
    size_t bytes = 0;
    void *args[] = {&dx, &dy, &n};
    run(s, "various", (Shape){(unsigned)(n + 127) / 128, 1, 1, 128, 1, 1}, args);
    float *y = download(dy, (size_t)n * 4);
    for (int i = 0; i < n; i++)
        near(s, "various", (size_t)i, (double)y[i], various_of((double)x[i], i), 1e-6);
    CHECK(cuModuleGetGlobal(&variable, &bytes, s->module, "calls"));
    CHECK(cuMemcpyDtoH(&calls, variable, sizeof calls));
    near(s, "various: a variable", 0, calls, 8, 0);
    drop2(dx, dy);
    free(x);
    free(y);
}

static int compare(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void sorts(Suite *s)
{
    int threads = 512 * s->scale;
    size_t n = (size_t)threads * 16;
    float *x = user_numbers(n, 13);
    CUdeviceptr dx = user_upload(x, n * 4), dy = user_alloc(n * 4);
    void *args[] = {&dx, &dy};
    run(s, "sorts", (Shape){(unsigned)threads / 128, 1, 1, 128, 1, 1}, args);
    float *y = download(dy, n * 4);
    for (int i = 0; i < threads; i++)
        qsort(x + i * 16, 16, sizeof *x, compare);
    for (size_t i = 0; i < n; i++)
        near(s, "sorts", i, (double)y[i], (double)x[i], 0);
    drop2(dx, dy);
    free(x);
    free(y);
}

void suite_floats(Suite *s)
{
    softmax(s);
    layernorm(s);
    gelu(s);
    adam(s);
    halves(s);
    functions(s);
    doubles(s);
    various(s);
    sorts(s);
}
