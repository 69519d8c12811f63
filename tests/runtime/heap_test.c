/* heap_test.c: the allocator of devices, on a device that only counts: cutting and joining, order
 * of streams, what is given back when memory runs out. SPDX-License-Identifier: MIT */
#include "runtime/heap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MIB = 1 << 20, MARKS = 64, SEGMENTS = 64 };

/* Memory is numbers; a mark is passed when the test says so. */
typedef struct {
    size_t limit, taken;
    uint64_t next;
    struct {
        uint64_t at;
        size_t bytes;
    } segments[SEGMENTS];
    int nsegments, takes, settles, marks, dropped;
    bool passed[MARKS];
    uint64_t gone; /* a stream that does not exist */
} Fake;

static uint64_t take(void *user, size_t bytes)
{
    Fake *f = user;
    if (f->taken + bytes > f->limit)
        return 0;
    f->taken += bytes;
    f->takes++;
    f->segments[f->nsegments].at = f->next;
    f->segments[f->nsegments++].bytes = bytes;
    f->next += bytes + 4096;
    return f->segments[f->nsegments - 1].at;
}

static void give(void *user, uint64_t at)
{
    Fake *f = user;
    for (int i = 0; i < f->nsegments; i++)
        if (f->segments[i].at == at) {
            f->taken -= f->segments[i].bytes;
            f->segments[i] = f->segments[--f->nsegments];
            return;
        }
    fail_msg("memory that was never taken is given back");
}

static void settle(void *user)
{
    Fake *f = user;
    f->settles++;
}

static void *mark(void *user, uint64_t stream)
{
    Fake *f = user;
    if (stream == f->gone)
        return NULL;
    assert_true(f->marks < MARKS);
    return &f->passed[f->marks++];
}

static bool passed(void *user, void *m)
{
    (void)user;
    return *(bool *)m;
}

static void drop(void *user, void *m)
{
    Fake *f = user;
    (void)m;
    f->dropped++;
}

static tn__heap *heap_of(Fake *f, size_t limit, bool plain)
{
    memset(f, 0, sizeof *f);
    f->limit = limit;
    f->next = 1 << 20;
    const tn__heap_device d = {f, take, give, settle, mark, passed, drop};
    tn__heap *h = tn__heap_new(&d, plain);
    assert_non_null(h);
    return h;
}

static void end(tn__heap *h, const Fake *f)
{
    tn__heap_destroy(h);
    assert_int_equal(f->taken, 0);
    assert_int_equal(f->dropped, f->marks);
}

static void test_cut_and_join(void **state)
{
    Fake f;
    tn__heap *h = heap_of(&f, 100 * MIB, false);
    (void)state;
    const uint64_t a = tn__heap_alloc(h, 1, 1000, 0), b = tn__heap_alloc(h, 1, 1, 0),
                   c = tn__heap_alloc(h, 1, 600 * 1024, 0);
    assert_int_equal(f.takes, 1); /* small ones share */
    assert_int_equal(b - a, 1024);
    assert_int_equal(c - b, 512);
    assert_int_equal(tn__heap_sum(h).allocated, 1024 + 512 + 600 * 1024);
    assert_int_equal(tn__heap_sum(h).reserved, 2 * MIB);
    assert_true(tn__heap_free(h, a, 0));
    assert_true(tn__heap_free(h, c, 1));
    assert_int_equal(tn__heap_alloc(h, 1, 1024, 0), a); /* the best fit */
    tn__heap_free(h, a, 0);
    tn__heap_free(h, b, 0); /* joins all three */
    assert_int_equal(tn__heap_alloc(h, 1, MIB, 0), a);
    assert_int_equal(f.takes, 1);
    assert_false(tn__heap_free(h, a + 512, 0));
    assert_int_equal(tn__heap_sum(h).max_allocated,
                     1024 + 512 + 600 * 1024 < MIB ? MIB : 1024 + 512 + 600 * 1024);
    end(h, &f);
}

static void test_sizes(void **state)
{
    Fake f;
    tn__heap *h = heap_of(&f, 200 * MIB, false);
    (void)state;
    const uint64_t medium = tn__heap_alloc(h, 1, 3 * MIB, 0),
                   large = tn__heap_alloc(h, 1, 18 * MIB, 0), small = tn__heap_alloc(h, 1, 0, 0);
    assert_true(medium && large && small);
    assert_int_equal(f.takes, 3);
    assert_int_equal(tn__heap_sum(h).reserved, 20 * MIB + 18 * MIB + 2 * MIB);
    assert_int_equal(tn__heap_alloc(h, 1, 5 * MIB, 0), medium + 3 * MIB);
    assert_int_equal(tn__heap_alloc(h, 1, SIZE_MAX - 5, 0), 0);
    tn__heap_free(h, large, 0);
    assert_int_equal(tn__heap_sum(h).reserved, 40 * MIB); /* kept */
    tn__heap_empty(h);
    assert_int_equal(tn__heap_sum(h).reserved, 22 * MIB);
    assert_int_equal(f.settles, 1);
    end(h, &f);
}

static void test_streams(void **state)
{
    Fake f;
    tn__heap *h = heap_of(&f, 100 * MIB, false);
    (void)state;
    const uint64_t a = tn__heap_alloc(h, 1, 4096, 0);
    tn__heap_free(h, a, 0);
    const uint64_t other = tn__heap_alloc(h, 2, 4096, 0);
    assert_true(other != a); /* each stream has its own */
    assert_int_equal(tn__heap_alloc(h, 1, 4096, 0), a);

    /* freed in the order of another stream: waits for that one */
    tn__heap_free(h, a, 2);
    assert_int_equal(f.marks, 1);
    const uint64_t b = tn__heap_alloc(h, 1, 4096, 0);
    assert_true(b != a);
    f.passed[0] = true;
    tn__heap_free(h, b, 0);
    assert_int_equal(tn__heap_alloc(h, 1, 4096, 0), a);

    /* recorded: the same, for each stream once */
    assert_true(tn__heap_record(h, a, 2));
    assert_true(tn__heap_record(h, a, 2));
    assert_true(tn__heap_record(h, a, 1));
    assert_true(tn__heap_record(h, a, 3));
    assert_false(tn__heap_record(h, a + 1, 3));
    tn__heap_free(h, a, 0);
    assert_int_equal(f.marks, 3);
    f.passed[1] = true;
    assert_true(tn__heap_alloc(h, 1, 4096, 0) != a);
    f.passed[2] = true;
    assert_int_equal(tn__heap_alloc(h, 1, 4096, 0), a);

    /* a stream that is gone is waited for no more */
    f.gone = 9;
    tn__heap_free(h, a, 9);
    assert_int_equal(f.marks, 3);
    assert_int_equal(tn__heap_alloc(h, 1, 4096, 0), a);
    end(h, &f);
}

static void test_forget(void **state)
{
    Fake f;
    tn__heap *h = heap_of(&f, 100 * MIB, false);
    (void)state;
    const uint64_t a = tn__heap_alloc(h, 2, 4096, 0), b = tn__heap_alloc(h, 2, 4096, 0);
    tn__heap_free(h, a, 0);
    tn__heap_forget(h, 2, 1);
    assert_int_equal(tn__heap_alloc(h, 1, 4096, 0), a);
    tn__heap_free(h, b, 1); /* its own stream now: nothing to wait for */
    assert_int_equal(f.marks, 0);
    assert_int_equal(tn__heap_alloc(h, 1, 4096, 0), b);
    end(h, &f);
}

static void test_out_of_memory(void **state)
{
    Fake f;
    size_t uses[3];
    tn__heap *h = heap_of(&f, 40 * MIB, false);
    (void)state;
    const uint64_t a = tn__heap_alloc(h, 1, 14 * MIB, 0), b = tn__heap_alloc(h, 1, 16 * MIB, 2);
    tn__heap_free(h, a, 2); /* waits for stream 2, which is not done */
    const uint64_t c = tn__heap_alloc(h, 2, 20 * MIB, 1);
    assert_true(c); /* it waited, and what was kept was given back */
    assert_int_equal(f.settles, 1);
    assert_int_equal(tn__heap_alloc(h, 1, 30 * MIB, 0), 0);
    tn__heap_uses(h, uses, 3);
    assert_int_equal(uses[0], 0);
    assert_int_equal(uses[1], 20 * MIB);
    assert_int_equal(uses[2], 16 * MIB);
    tn__heap_free(h, b, 0);
    tn__heap_reset_peak(h);
    assert_int_equal(tn__heap_sum(h).max_allocated, 20 * MIB);
    end(h, &f);
}

/* Where the segment that it would share does not fit, a block has one of its own. */
static void test_exact_segments(void **state)
{
    Fake f;
    tn__heap *h = heap_of(&f, 15 * MIB + 512 * 1024, false);
    (void)state;
    const uint64_t medium = tn__heap_alloc(h, 1, 9 * MIB, 0),
                   other = tn__heap_alloc(h, 1, 5 * MIB, 0), small = tn__heap_alloc(h, 1, 700, 0),
                   more = tn__heap_alloc(h, 1, MIB, 0);
    assert_true(medium && other && small && more);
    assert_int_equal(tn__heap_sum(h).reserved, 15 * MIB + 1024);
    assert_int_equal(tn__heap_alloc(h, 1, MIB, 0), 0);
    tn__heap_free(h, medium, 0);
    const uint64_t large = tn__heap_alloc(h, 2, 9 * MIB + 1024, 0); /* the cache is emptied */
    assert_true(large);
    assert_int_equal(tn__heap_sum(h).reserved, 15 * MIB + 2048);
    tn__heap_free(h, other, 0);
    tn__heap_free(h, small, 0);
    tn__heap_free(h, more, 0);
    tn__heap_free(h, large, 0);
    tn__heap_empty(h);
    assert_int_equal(f.taken, 0);
    end(h, &f);
}

static void test_plain(void **state)
{
    Fake f;
    tn__heap *h = heap_of(&f, 40 * MIB, true);
    (void)state;
    const uint64_t a = tn__heap_alloc(h, 1, 100, 0), b = tn__heap_alloc(h, 1, 100, 0);
    assert_int_equal(f.takes, 2);
    assert_int_equal(tn__heap_sum(h).reserved, 1024);
    tn__heap_free(h, a, 0);
    tn__heap_free(h, b, 0);
    assert_int_equal(f.taken, 0); /* at once */
    end(h, &f);
}

/* Blocks never overlap, whatever is done. */
static void test_random(void **state)
{
    enum { LIVE = 40 };
    static struct {
        uint64_t at, bytes;
    } live[LIVE];
    Fake f;
    tn__heap *h = heap_of(&f, 400 * MIB, false);
    uint32_t r = 1;
    (void)state;
    for (int step = 0; step < 20000; step++) {
        r = r * 1664525u + 1013904223u;
        const int i = (int)(r >> 8) % LIVE;
        if (live[i].at) {
            assert_true(tn__heap_free(h, live[i].at, 0));
            live[i].at = 0;
            continue;
        }
        const size_t bytes = (size_t)1 << (r >> 16) % 23;
        const uint64_t at = tn__heap_alloc(h, 1 + (r >> 5) % 3, bytes, 0);
        assert_true(at && at % 512 == 0);
        for (int k = 0; k < LIVE; k++)
            assert_true(!live[k].at || at + bytes <= live[k].at ||
                        live[k].at + live[k].bytes <= at);
        live[i].at = at;
        live[i].bytes = bytes;
    }
    for (int i = 0; i < LIVE; i++)
        if (live[i].at)
            tn__heap_free(h, live[i].at, 0);
    tn__heap_empty(h);
    assert_int_equal(f.taken, 0); /* all joined again */
    end(h, &f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_and_join),   cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_streams),        cmocka_unit_test(test_forget),
        cmocka_unit_test(test_out_of_memory),  cmocka_unit_test(test_plain),
        cmocka_unit_test(test_exact_segments), cmocka_unit_test(test_random)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
