/* unpack_test.c: blocks packed by LZ4 come back; damaged ones are refused without harm.
 * SPDX-License-Identifier: MIT */
#include "runtime/unpack.h"

#include <lz4.h>
#include <lz4hc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint32_t next(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Text that repeats itself more (large `period`) or less. */
static void fill(uint8_t *to, size_t n, uint32_t kind, uint32_t *state)
{
    for (size_t i = 0; i < n; i++) {
        const bool repeat = i > 70 && next(state) % 16 < kind;
        to[i] = repeat ? to[i - 1 - next(state) % 70] : (uint8_t)next(state);
        if (kind == 16 && i > 0)
            to[i] = to[0];
    }
}

static void comes_back(void **unused)
{
    (void)unused;
    static const size_t sizes[] = {0, 1, 12, 13, 64, 255, 270, 4096, 70000, 300000};
    uint32_t state = 1;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (uint32_t kind = 0; kind <= 16; kind += 4) {
            const size_t n = sizes[s];
            const int bound = LZ4_compressBound((int)n);
            uint8_t *data = malloc(n + 1), *packed = malloc((size_t)bound), *back = malloc(n + 1);
            fill(data, n, kind, &state);
            const int size = LZ4_compress_HC((const char *)data, (char *)packed, (int)n, bound,
                                             LZ4HC_CLEVEL_MAX);
            assert_true(size > 0);
            back[n] = 77;
            assert_true(tn__unpack(packed, (size_t)size, back, n));
            assert_memory_equal(back, data, n);
            assert_int_equal(back[n], 77);
            if (n) {
                assert_false(tn__unpack(packed, (size_t)size, back, n - 1));
                assert_false(tn__unpack(packed, (size_t)size - 1, back, n));
            }
            free(data);
            free(packed);
            free(back);
        }
}

/* Exact allocations: with the address sanitizer a step too far ends the test. */
static void damage(void **unused)
{
    (void)unused;
    enum { N = 500 };
    uint8_t data[N], packed[2 * N];
    uint32_t state = 7, refused = 0;
    fill(data, N, 12, &state);
    const int size = LZ4_compress_default((const char *)data, (char *)packed, N, sizeof packed);
    assert_true(size > 0);
    for (int i = 0; i < 20000; i++) {
        const size_t keep = (size_t)size - next(&state) % 3;
        uint8_t *bad = malloc(keep), *back = malloc(N);
        memcpy(bad, packed, keep);
        for (int k = 0; k < 2; k++)
            bad[next(&state) % keep] = (uint8_t)next(&state);
        refused += !tn__unpack(bad, keep, back, N);
        free(bad);
        free(back);
    }
    assert_true(refused > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(comes_back), cmocka_unit_test(damage)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
