/* kept_test.c: large blocks of the host that were freed are used again, never make the process
 * larger than what was allocated at most, and go when nobody wants them.
 * SPDX-License-Identifier: MIT */
#include "runtime/rt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MIB = 1 << 20 };
static const DLDevice cpu = {kDLCPU, 0};

static int begin(void **state)
{
    const tn_context_options o = {.size = sizeof o, .threads = 1};
    tn_context *ctx = NULL;
    unsetenv("TENON_NO_CACHE");
    assert_int_equal(tn_context_create(&o, &ctx), TN_OK);
    ctx->kept.off = false; /* as it is without sanitizers */
    *state = ctx;
    return 0;
}

static int end(void **state)
{
    tn_context_destroy(*state);
    return 0;
}

/* Written whole: a block that is too small is found by whoever watches memory. */
static char *block(tn_context *ctx, size_t bytes)
{
    char *p = tn__alloc(ctx, bytes);
    assert_non_null(p);
    for (size_t i = 0; i < bytes; i += 64)
        p[i] = 1;
    p[bytes - 1] = 1;
    return p;
}

static size_t kept(tn_context *ctx)
{
    return tn_memory_reserved(ctx, cpu) - tn_memory_allocated(ctx, cpu);
}

static void test_again(void **state)
{
    tn_context *ctx = *state;
    char *p = block(ctx, 8 * MIB);
    const size_t held = tn_memory_allocated(ctx, cpu);
    tn__free(ctx, p);
    assert_int_equal(tn_memory_allocated(ctx, cpu), 0);
    assert_int_equal(kept(ctx), held);
    assert_ptr_equal(block(ctx, 7 * MIB), p); /* a little smaller: the same block */
    assert_int_equal(tn_memory_allocated(ctx, cpu), held);
    assert_int_equal(kept(ctx), 0);
    tn__free(ctx, p);
    char *small = block(ctx, 4 * MIB); /* half of it would be wasted */
    assert_ptr_not_equal(small, p);
    tn__free(ctx, small);
    assert_int_equal(tn_memory_empty_cache(ctx, cpu), TN_OK);
    assert_int_equal(kept(ctx), 0);
}

static void test_no_more_than_ever(void **state)
{
    tn_context *ctx = *state;
    char *a = block(ctx, 8 * MIB), *b = block(ctx, 8 * MIB);
    const size_t most = tn_memory_max_allocated(ctx, cpu);
    tn__free(ctx, a);
    tn__free(ctx, b);
    char *c = block(ctx, 12 * MIB); /* takes neither: both would be too much besides */
    assert_true(tn_memory_reserved(ctx, cpu) <= most);
    assert_int_equal(tn_memory_max_allocated(ctx, cpu), most);
    tn__free(ctx, c);
    char *d = block(ctx, 20 * MIB);
    assert_int_equal(kept(ctx), 0);
    tn__free(ctx, d);
}

static void test_small(void **state)
{
    tn_context *ctx = *state;
    tn__free(ctx, block(ctx, MIB / 2));
    assert_int_equal(kept(ctx), 0);
}

static void test_old(void **state)
{
    tn_context *ctx = *state;
    char *large = block(ctx, 16 * MIB), *small = block(ctx, 2 * MIB);
    tn__free(ctx, large);
    tn__free(ctx, small);
    for (int i = 0; i < 20; i++)
        tn__free(ctx, block(ctx, 2 * MIB));
    assert_true(kept(ctx) > 18 * MIB); /* there is room for both */
    for (int i = 0; i < 20; i++)
        tn__free(ctx, block(ctx, 2 * MIB));
    assert_true(kept(ctx) < 3 * MIB); /* nobody wanted the large one */
}

/* What is kept is part of what is there, when the peaks begin anew, too. */
static void test_peaks(void **state)
{
    tn_context *ctx = *state;
    tn__free(ctx, block(ctx, 8 * MIB));
    tn_memory_reset_peak(ctx, cpu);
    assert_int_equal(tn_memory_max_allocated(ctx, cpu), 0);
    assert_true(tn_memory_reserved(ctx, cpu) > 8 * MIB);
    assert_int_equal(tn_memory_max_reserved(ctx, cpu), tn_memory_reserved(ctx, cpu));
}

static void test_many(void **state)
{
    tn_context *ctx = *state;
    char *p[2 * TN_KEPT_MOST];
    for (int i = 0; i < 2 * TN_KEPT_MOST; i++)
        p[i] = block(ctx, 2 * MIB);
    for (int i = 0; i < 2 * TN_KEPT_MOST; i++)
        tn__free(ctx, p[i]);
    assert_int_equal(kept(ctx) / (2 * MIB), TN_KEPT_MOST);
    tn__free(ctx, block(ctx, 2 * MIB));
    assert_int_equal(kept(ctx) / (2 * MIB), TN_KEPT_MOST);
}

static void test_not_wanted(void **state)
{
    tn_context *ctx = *state;
    ctx->kept.off = true;
    tn__free(ctx, block(ctx, 8 * MIB));
    assert_int_equal(kept(ctx), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_again, begin, end),
        cmocka_unit_test_setup_teardown(test_no_more_than_ever, begin, end),
        cmocka_unit_test_setup_teardown(test_small, begin, end),
        cmocka_unit_test_setup_teardown(test_old, begin, end),
        cmocka_unit_test_setup_teardown(test_peaks, begin, end),
        cmocka_unit_test_setup_teardown(test_many, begin, end),
        cmocka_unit_test_setup_teardown(test_not_wanted, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
