/* pool_test.c: every cell exactly once, at any thread count; works in works; works from several
 * threads; many small works in a row. SPDX-License-Identifier: MIT */
#include "runtime/pool.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { CELLS = 1000 };

typedef struct {
    unsigned char hits[CELLS];
} Marks;

static void mark(void *ctx, int64_t lo, int64_t hi)
{
    Marks *m = ctx;
    for (int64_t i = lo; i < hi; i++)
        m->hits[i]++;
}

static void check_marks(const Marks *m, int64_t cells)
{
    for (int64_t i = 0; i < CELLS; i++)
        assert_int_equal(m->hits[i], i < cells);
}

static void test_each_once(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 5; threads++) {
        tn__pool *p = tn__pool_create(threads);
        assert_non_null(p);
        assert_int_equal(tn__pool_threads(p), threads);
        for (int64_t cells = 0; cells <= CELLS; cells += 1 + cells / 3)
            for (int64_t grain = 0; grain <= 100; grain = 3 * grain + 1) {
                Marks m = {0};
                tn__pool_run(p, mark, &m, cells, grain);
                check_marks(&m, cells);
            }
        tn__pool_destroy(p);
    }
    Marks m = {0};
    tn__pool_run(NULL, mark, &m, CELLS, 1);
    check_marks(&m, CELLS);
    assert_int_equal(tn__pool_threads(NULL), 1);
    tn__pool_destroy(NULL);
}

typedef struct {
    tn__pool *pool;
    Marks rows[20];
} Nested;

static void mark_rows(void *ctx, int64_t lo, int64_t hi)
{
    Nested *n = ctx;
    for (int64_t i = lo; i < hi; i++)
        tn__pool_run(n->pool, mark, &n->rows[i], CELLS, 10);
}

static void test_nested(void **state)
{
    (void)state;
    static Nested n;
    n.pool = tn__pool_create(3);
    tn__pool_run(n.pool, mark_rows, &n, 20, 1);
    for (int i = 0; i < 20; i++)
        check_marks(&n.rows[i], CELLS);
    tn__pool_destroy(n.pool);
}

static void add_sum(void *ctx, int64_t lo, int64_t hi)
{
    int64_t *sums = ctx;
    for (int64_t i = lo; i < hi; i++)
        sums[i] = sums[i] * 3 + i;
}

static void test_steps_in_a_row(void **state)
{
    (void)state;
    tn__pool *p = tn__pool_create(0);
    assert_non_null(p);
    int64_t a[64] = {0}, b[64] = {0};
    for (int round = 0; round < 20000; round++) {
        tn__pool_run(p, add_sum, a, 64, 4); /* each step reads what the last one wrote elsewhere */
        add_sum(b, 0, 64);
        for (int i = 0; i < 64; i++) {
            a[i] &= 0xffffff;
            b[i] &= 0xffffff;
        }
        if (round % 5000 == 0)
            usleep(2000); /* threads fall asleep */
    }
    assert_memory_equal(a, b, sizeof a);
    tn__pool_destroy(p);
}

static void *run_many(void *arg)
{
    tn__pool *p = arg;
    for (int i = 0; i < 300; i++) {
        Marks m = {0};
        tn__pool_run(p, mark, &m, CELLS, 7);
        for (int k = 0; k < CELLS; k++)
            if (m.hits[k] != 1)
                return arg;
    }
    return NULL;
}

static void test_two_callers(void **state)
{
    (void)state;
    tn__pool *p = tn__pool_create(2);
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, run_many, p), 0);
    void *bad = run_many(p), *other_bad;
    assert_int_equal(pthread_join(other, &other_bad), 0);
    assert_null(bad);
    assert_null(other_bad);
    tn__pool_destroy(p);
}

static void test_memory(void **state)
{
    (void)state;
    tn__pool *p = tn__pool_create(2);
    char *const a = tn__pool_take(p, 1000), *const b = tn__pool_take(p, 3 << 20);
    assert_true(a && b && (uintptr_t)a % 64 == 0 && (uintptr_t)b % 64 == 0);
    memset(a, 1, 1000);
    memset(b, 2, 3 << 20);
    tn__pool_give(p, b);
    assert_ptr_equal(tn__pool_take(p, 500000), b); /* kept, and large enough */
    tn__pool_give(p, a);
    tn__pool_give(p, b);
    assert_null(tn__pool_take(p, SIZE_MAX - 100));
    void *const alone = tn__pool_take(NULL, 10);
    assert_non_null(alone);
    tn__pool_give(NULL, alone);
    tn__pool_give(p, NULL);
    tn__pool_give(p, tn__pool_take(p, 100)); /* freed with the pool */
    tn__pool_destroy(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_once),      cmocka_unit_test(test_nested),
        cmocka_unit_test(test_steps_in_a_row), cmocka_unit_test(test_two_callers),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
