/* test_wmma.c: tiles of mma.h, as NVRTC compiles them, against products of small integers, which
 * are exact in all the types. SPDX-License-Identifier: MIT */
#include "tests/vgpu/user.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *name;
    int m, n, k;
    char in, sum; /* h f16, b bf16, f float, d double, s signed char, i int */
    int lda, ldb, ldc;
    bool a_columns, b_columns, c_columns;
} Tile;

static const Tile tiles[] = {
    {"half_f32", 16, 16, 16, 'h', 'f', 24, 16, 16, false, true, false},
    {"half_f16", 32, 8, 16, 'h', 'h', 32, 8, 16, true, false, false},
    {"bf16_f32", 8, 32, 16, 'b', 'f', 16, 32, 8, false, false, true},
    {"tf32_f32", 16, 16, 8, 'f', 'f', 8, 8, 16, false, true, false},
    {"s8_s32", 16, 16, 16, 's', 'i', 16, 32, 16, false, true, true},
    {"f64_f64", 8, 8, 4, 'd', 'd', 4, 4, 8, false, true, false},
    {"shared_half", 16, 16, 16, 'h', 'f', 16, 16, 16, false, false, false},
};

enum { MOST = 1024 }; /* elements of a matrix with its padding */

static size_t bytes_of(char type)
{
    return type == 'd' ? 8 : type == 's' ? 1 : type == 'h' || type == 'b' ? 2 : 4;
}

static void put(char type, uint8_t *to, int v)
{
    float f = (float)v;
    double d = v;
    int8_t s = (int8_t)v;
    _Float16 h = (_Float16)f;
    switch (type) {
    case 'h':
        memcpy(to, &h, 2);
        break;
    case 'b':
        memcpy(to, (uint8_t *)&f + 2, 2);
        break;
    case 'f':
        memcpy(to, &f, 4);
        break;
    case 'd':
        memcpy(to, &d, 8);
        break;
    case 's':
        memcpy(to, &s, 1);
        break;
    default:
        memcpy(to, &v, 4);
        break;
    }
}

static int entry(int row, int column, int salt)
{
    return (row * 5 + column * 3 + salt) % 7 - 2;
}

static size_t at(int row, int column, int stride, bool columns)
{
    return (size_t)(columns ? column * stride + row : row * stride + column);
}

static void fill(uint8_t *to, char type, int rows, int columns, int stride, bool by_columns,
                 int salt)
{
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++)
            put(type, to + at(i, j, stride, by_columns) * bytes_of(type), entry(i, j, salt));
}

static void expect(const Tile *t, uint8_t *to)
{
    for (int i = 0; i < t->m; i++)
        for (int j = 0; j < t->n; j++) {
            int sum = entry(i, j, 3);
            for (int l = 0; l < t->k; l++)
                sum += entry(i, l, 1) * entry(l, j, 2);
            put(t->sum, to + at(i, j, t->ldc, t->c_columns) * bytes_of(t->sum), 2 * sum);
        }
}

static int run(CUmodule m, const Tile *t)
{
    static uint8_t a[MOST * 8], b[MOST * 8], c[MOST * 8], want[MOST * 8];
    const size_t bytes = (size_t)(t->c_columns ? t->n : t->m) * (size_t)t->ldc * bytes_of(t->sum);
    memset(c, 0x55, sizeof c);
    fill(a, t->in, t->m, t->k, t->lda, t->a_columns, 1);
    fill(b, t->in, t->k, t->n, t->ldb, t->b_columns, 2);
    fill(c, t->sum, t->m, t->n, t->ldc, t->c_columns, 3);
    memcpy(want, c, sizeof want);
    expect(t, want);
    CUdeviceptr da = user_upload(a, sizeof a), db = user_upload(b, sizeof b),
                dc = user_upload(c, bytes);
    void *args[] = {&da, &db, &dc};
    CHECK(cuLaunchKernel(user_function(m, t->name), 1, 1, 1, 32, 1, 1, 0, NULL, args, NULL));
    CHECK(cuMemcpyDtoH(c, dc, bytes));
    CHECK(cuMemFree(da));
    CHECK(cuMemFree(db));
    CHECK(cuMemFree(dc));
    if (!memcmp(c, want, bytes))
        return 0;
    fprintf(stderr, "%s: wrong\n", t->name);
    return 1;
}

int main(int argc, char **argv)
{
    int wrong = 0;
    size_t n;
    CUmodule m;
    if (argc < 2)
        return 2;
    user_context();
    char *image = user_compile(argv[1], user_capability(), &n);
    CHECK(cuModuleLoadData(&m, image));
    for (size_t k = 0; k < sizeof tiles / sizeof *tiles; k++)
        wrong += run(m, &tiles[k]);
    CHECK(cuModuleUnload(m));
    CHECK(cuDevicePrimaryCtxRelease(0));
    free(image);
    return wrong != 0;
}
