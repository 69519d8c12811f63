/* test_run_memory.c: bounds, alignment, life, what is written, layouts of requests, sectors and
 * banks. SPDX-License-Identifier: MIT */
#include "tests/vgpu/test_run.h"

#include "tests/vgpu/memory.h"

#include <stdlib.h>
#include <string.h>

static Launch *one(unsigned blocks, unsigned threads)
{
    static Launch l;
    memset(&l, 0, sizeof l);
    l.blocks = blocks;
    l.threads = threads;
    l.words = counted();
    return &l;
}

/* --- bounds and alignment
 * -------------------------------------------------------------------------- */

static void bounds(void **state)
{
    (void)state;
    finds(NULL, 1, 32, "st.global.u32 [%rd2+65408], %r1;");
    finds("bounds", 1, 32, "st.global.u32 [%rd2+65412], %r1;");
    finds("bounds", 1, 32, "ld.global.u32 %r10, [%rd2+-4];");
    finds("bounds", 1, 1, "ld.global.u32 %r10, [%rd1+65536];");
    finds(NULL, 1, 1, "ld.global.u8 %r10, [%rd1+65535];");
    finds("bounds", 1, 1, "mov.u64 %rd10, 0;\nld.global.u32 %r10, [%rd10];");
    finds("bounds", 1, 1, "mov.u64 %rd10, 0x7fffffffffff0000;\nst.global.u32 [%rd10], %r1;");
    /* a vector of which the last half is outside */
    finds("bounds", 1, 1, "ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd1+65536];");
    finds("bounds", 1, 1, "atom.global.add.u32 %r10, [%rd1+65536], 1;");
    /* lanes far from each other: each for itself */
    finds(NULL, 1, 2,
          "setp.eq.u32 %p1, %r1, 0;\ncvta.shared.u64 %rd10, 0;\nselp.b64 %rd11, %rd1, %rd10, %p1;\n"
          "st.u32 [%rd11], %r1;");
    Launch *l = one(1, 32);
    launch(l, "st.global.u32 [%rd2+65532], %r1;", "bounds");
    assert_int_equal(l->error, 700);
    assert_non_null(strstr(said(), "65536 bytes at"));
}

static void shared_bounds(void **state)
{
    (void)state;
    finds(NULL, 1, 32, "st.shared.u32 [%r5+8064], %r1;");
    finds("bounds", 1, 32, "st.shared.u32 [%r5+8068], %r1;");
    finds("bounds", 1, 32, "st.shared.u32 [%r5+-4], %r1;");
    finds("bounds", 1, 1, "mov.u32 %r10, 0xfffffffc;\nst.shared.u32 [%r10], %r1;");
    finds("misaligned", 1, 1, "st.shared.u32 [%r4+2], %r1;");
    finds("bounds", 1, 1, "cvta.shared.u64 %rd10, 8192;\nst.u32 [%rd10], %r1;");
    Launch *l = one(1, 1);
    l->shared = 64;
    launch(l, "st.shared.u32 [%r4+8252], %r1;", NULL);
    launch(l, "st.shared.u32 [%r4+8256], %r1;", "bounds");
}

static void local_bounds(void **state)
{
    (void)state;
    finds(NULL, 1, 40,
          "mov.u64 %rd10, l;\nst.local.u32 [%rd10+60], %r1;\nld.local.u32 %r10, [%rd10+60];\n"
          "setp.ne.u32 %p1, %r10, %r1;\n@%p1 trap;");
    finds("bounds", 1, 1, "mov.u64 %rd10, l;\nst.local.u32 [%rd10+4096], %r1;");
    finds("uninit", 1, 1, "mov.u64 %rd10, l;\nld.local.u32 %r10, [%rd10+8];");
    finds("uninit", 1, 1,
          "mov.u64 %rd10, l;\nst.local.u8 [%rd10], %r1;\nld.local.u16 %r10, [%rd10];");
}

static void local_places(void **state)
{
    (void)state;
    /* each lane at its own place, odd lanes last; others keep what they have */
    Launch *l = one(1, 48);
    launch(l,
           "mov.u64 %rd10, l;\nand.b32 %r10, %r1, 7;\nmul.wide.u32 %rd11, %r10, 8;\n"
           "add.u64 %rd11, %rd11, %rd10;\nmov.u32 %r11, 0;\n"
           "st.local.v2.u32 [%rd11], {%r1, %r11};\nand.b32 %r12, %r1, 1;\n"
           "setp.eq.u32 %p1, %r12, 1;\n@%p1 st.local.u8 [%rd11+4], %r1;\n"
           "ld.local.u64 %rd12, [%rd11];\ncvta.local.u64 %rd13, %rd11;\nld.u8 %r13, [%rd13+4];\n"
           "mov.u32 %r14, 9;\n@%p1 ld.local.u32 %r14, [%rd11];\nadd.u32 %r13, %r13, %r14;\n"
           "cvt.u32.u64 %r15, %rd12;\nadd.u32 %r13, %r13, %r15;\nst.global.u32 [%rd3], %r13;",
           NULL);
    for (uint32_t k = 0; k < 48; k++)
        assert_int_equal(l->after[k], k % 2 ? 3 * k : k + 9);
    finds("uninit", 1, 32,
          "mov.u64 %rd10, l;\nsetp.ne.u32 %p1, %r1, 9;\n@%p1 st.local.u32 [%rd10], %r1;\n"
          "ld.local.u32 %r10, [%rd10];");
    finds(NULL, 1, 32,
          "mov.u64 %rd10, l;\nsetp.ne.u32 %p1, %r1, 9;\n@%p1 st.local.u32 [%rd10], %r1;\n"
          "@%p1 ld.local.u32 %r10, [%rd10];");
}

static void alignment(void **state)
{
    (void)state;
    finds("misaligned", 1, 1, "ld.global.u32 %r10, [%rd1+2];");
    finds("misaligned", 1, 1, "ld.global.u16 %r10, [%rd1+1];");
    finds("misaligned", 1, 1, "ld.global.v2.u32 {%r10, %r11}, [%rd1+4];");
    finds("misaligned", 1, 1, "ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd1+8];");
    finds("misaligned", 1, 1, "st.global.u64 [%rd1+4], %rd1;");
    finds("misaligned", 1, 1, "atom.global.add.u64 %rd10, [%rd1+4], 1;");
    /* only one lane of the warp */
    Launch *l = one(1, 32);
    launch(l,
           "setp.eq.u32 %p1, %r1, 7;\nselp.u64 %rd10, 2, 0, %p1;\nadd.u64 %rd10, %rd10, %rd2;\n"
           "st.global.u32 [%rd10], %r1;",
           "misaligned");
    assert_int_equal(l->error, 716);
    assert_non_null(strstr(said(), "thread (7,0,0)"));
}

/* --- life
 * ------------------------------------------------------------------------------------------- */

static void freed(void **state)
{
    (void)state;
    Alloc *a = memory_alloc(test_device(), 256, 256);
    assert_non_null(a);
    Launch *l = one(1, 32);
    l->q = a->base;
    launch(l, "st.global.u32 [%rd4], %r1;", NULL);
    memory_free(a);
    launch(l, "ld.global.u32 %r10, [%rd4];", "freed");
    /* an address is not given out again */
    Alloc *b = memory_alloc(test_device(), 256, 256);
    assert_non_null(b);
    assert_true(b->base != l->q);
    assert_true(b->base >= l->q + 256 + 256 || b->base + 256 + 256 <= l->q);
    assert_true(b->base % 256 == 0 && b->base % 512 != 0);
    assert_ptr_equal(memory_find(b->base + 255), b);
    assert_null(memory_find(b->base + 256));
    assert_ptr_equal(memory_near(b->base + 300), b);
    memory_free(b);
}

static void capacity(void **state)
{
    (void)state;
    Device *d = test_device();
    uint64_t used = memory_used(d), rest = memory_total(d) - used;
    assert_null(memory_alloc(d, rest + 1, 256));
    assert_int_equal(memory_used(d), used);
    Alloc *many[64];
    for (int k = 0; k < 64; k++) {
        many[k] = memory_alloc(d, 100, 4);
        assert_non_null(many[k]);
    }
    assert_int_equal(memory_used(d), used + 6400);
    for (int k = 0; k < 64; k++) {
        assert_ptr_equal(memory_find(many[k]->base), many[k]);
        memory_free(many[k]);
    }
    assert_int_equal(memory_used(d), used);
    for (int k = 0; k < 10000; k++)
        memory_free(memory_alloc(d, 64, 256));
    assert_int_equal(memory_used(d), used);
}

static void host_memory(void **state)
{
    (void)state;
    uint32_t *host = calloc(32, sizeof *host);
    Alloc *a = memory_register_host(host, 32 * sizeof *host);
    assert_non_null(a);
    Launch *l = one(1, 32);
    l->q = (uint64_t)(uintptr_t)host;
    launch(l,
           "mul.wide.u32 %rd10, %r1, 4;\nadd.u64 %rd10, %rd10, %rd4;\nst.global.u32 [%rd10], %r1;",
           NULL);
    for (uint32_t k = 0; k < 32; k++)
        assert_int_equal(host[k], k);
    launch(l, "st.global.u32 [%rd4+128], %r1;", "bounds");
    memory_free(a);
    launch(l, "st.global.u32 [%rd4], %r1;", "freed");
    a = memory_register_host(host, 16 * sizeof *host);
    launch(l, "st.global.u32 [%rd4], 7;", NULL);
    assert_int_equal(host[0], 7);
    memory_free(a);
    free(host);
}

static void other_device(void **state)
{
    (void)state;
    Device other = {.ordinal = 5, .bytes = 1 << 20};
    Alloc *a = memory_alloc(&other, 256, 256);
    assert_non_null(a);
    Launch *l = one(1, 1);
    l->q = a->base;
    launch(l, "st.global.u32 [%rd4], 7;", "bounds");
    assert_non_null(strstr(said(), "device 5"));
    test_device()->peers[5] = true;
    launch(l, "st.global.u32 [%rd4], 7;", NULL);
    test_device()->peers[5] = false;
    memory_free(a);
}

/* --- what is written
 * -------------------------------------------------------------------------------- */

static void unwritten(void **state)
{
    (void)state;
    static Launch l;
    l.blocks = 1;
    l.threads = 32;
    launch(&l, "ld.global.u32 %r10, [%rd2];", "uninit");
    launch(&l, "st.global.u32 [%rd2], %r1;\nld.global.u32 %r10, [%rd2];", NULL);
    launch(&l, "st.global.u32 [%rd2], %r1;\nld.global.u32 %r10, [%rd2+4];", "uninit");
    launch(&l, "st.global.u8 [%rd1], %r1;\nld.global.u8 %r10, [%rd1];", NULL);
    launch(&l, "st.global.u8 [%rd1], %r1;\nld.global.u16 %r10, [%rd1];", "uninit");
    launch(&l, "st.global.u64 [%rd1], %rd1;\nld.global.v2.u32 {%r10, %r11}, [%rd1];", NULL);
    launch(&l, "atom.global.add.u32 %r10, [%rd1], 1;", "uninit");
    /* lanes at a stride */
    launch(&l,
           "shl.b32 %r10, %r1, 4;\ncvt.u64.u32 %rd10, %r10;\nadd.u64 %rd10, %rd10, %rd1;\n"
           "st.global.u32 [%rd10], %r1;\nld.global.u32 %r11, [%rd10];",
           NULL);
    launch(&l,
           "shl.b32 %r10, %r1, 4;\ncvt.u64.u32 %rd10, %r10;\nadd.u64 %rd10, %rd10, %rd1;\n"
           "st.global.u32 [%rd10], %r1;\nld.global.v2.u32 {%r11, %r12}, [%rd10];",
           "uninit");
    assert_int_equal(l.error, 0); /* found, but no fault */
    launch(&l, "ld.shared.u32 %r10, [%r5];", "uninit");
    l.threads = 1;
    launch(&l, "st.shared.u16 [%r4], %r1;\nld.shared.u16 %r10, [%r4+2];", "uninit");
    launch(&l, "st.shared.u16 [%r4], %r1;\nld.shared.u32 %r10, [%r4];", "uninit");
    launch(&l, "st.shared.u16 [%r4], %r1;\nst.shared.u16 [%r4+2], %r1;\nld.shared.u32 %r10, [%r4];",
           NULL);
    /* a block does not see what the one before it has left */
    l.blocks = 3;
    launch(&l, "setp.eq.u32 %p1, %r2, 0;\n@%p1 st.shared.u32 [%r4], 1;\nld.shared.u32 %r10, [%r4];",
           "uninit");
}

static void access_from_the_host(void **state)
{
    (void)state;
    Device *d = test_device();
    Alloc *a = memory_alloc(d, 100, 256);
    assert_non_null(a);
    assert_int_equal(a->data[99], 0xff);
    assert_ptr_equal(memory_access(a->base + 10, 90, true, d, 0, "test"), a->data + 10);
    assert_ptr_equal(memory_access(a->base + 10, 90, false, d, 0, "test"), a->data + 10);
    assert_int_equal(finding_count(), 0);
    assert_int_equal(memory_written(a, 10, 90), 90);
    assert_int_equal(memory_written(a, 9, 90), 0);
    memory_free(a);
}

/* --- layouts
 * ----------------------------------------------------------------------------------------- */

/* Where lane l of a request lies: at 4 * ((a * l ^ x) + b) % 4096. */
static const struct {
    uint32_t a, x, b;
} layouts[] = {{1, 0, 0},  {1, 0, 3}, {0, 0, 5},  {2, 0, 0},
               {33, 0, 1}, {1, 7, 0}, {1, 1, 32}, {4, 0, 4}};

static void layouts_of_requests(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "ld.global.u32 %r20, [%rd11];\nst.global.u32 [%rd3+32768], %r20;",
        "@%p2 ld.global.u32 %r20, [%rd11];\nst.global.u32 [%rd3+32768], %r20;",
        "st.shared.u32 [%r12], %r11;\nbar.warp.sync -1;\nld.shared.u32 %r20, [%r12];\n"
        "st.global.u32 [%rd3+32768], %r20;",
        "mov.u32 %r20, %r11;\nst.global.u32 [%rd11+32768], %r20;\n"
        "ld.global.u32 %r20, [%rd11+32768];\nst.global.u32 [%rd3+49152], %r20;"};
    for (size_t k = 0; k < sizeof layouts / sizeof *layouts; k++) {
        for (int b = 0; b < 4; b++) {
            char body[1024];
            Launch *l = one(1, 32);
            snprintf(body, sizeof body,
                     "mov.u32 %%r20, 77777;\nand.b32 %%r21, %%r1, 3;\nsetp.ne.u32 %%p2, %%r21, 1;\n"
                     "mul.lo.u32 %%r10, %%r1, %u;\nxor.b32 %%r10, %%r10, %u;\n"
                     "add.u32 %%r11, %%r10, %u;\nand.b32 %%r11, %%r11, 1023;\n"
                     "mul.wide.u32 %%rd10, %%r11, 4;\nadd.u64 %%rd11, %%rd10, %%rd1;\n"
                     "shl.b32 %%r12, %%r11, 2;\nadd.u32 %%r12, %%r12, %%r4;\n%s",
                     layouts[k].a, layouts[k].x, layouts[k].b, bodies[b]);
            launch(l, body, NULL);
            for (uint32_t lane = 0; lane < 32; lane++) {
                uint32_t at = ((lane * layouts[k].a ^ layouts[k].x) + layouts[k].b) & 1023;
                uint32_t want = b == 1 && lane % 4 == 1 ? 77777 : at;
                assert_int_equal(l->after[(b == 3 ? 12288 : 8192) + lane], want);
            }
        }
    }
}

static void widths(void **state)
{
    (void)state;
    Launch *l = one(1, 32);
    /* each lane copies 16 bytes, by each width, to its own place, and back */
    launch(l,
           "mul.wide.u32 %rd10, %r1, 16;\nadd.u64 %rd10, %rd10, %rd1;\n"
           "ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd10];\n"
           "mul.lo.u32 %r14, %r1, 48;\nadd.u32 %r14, %r14, %r4;\n"
           "st.shared.v4.u32 [%r14], {%r13, %r12, %r11, %r10};\n"
           "ld.shared.v2.u32 {%r16, %r17}, [%r14+8];\nld.shared.u64 %rd12, [%r14];\n"
           "ld.shared.u16 %r18, [%r14+4];\nld.shared.s8 %r19, [%r14];\n"
           "st.global.v2.u32 [%rd10+16384], {%r16, %r17};\nst.global.u64 [%rd10+16392], %rd12;\n"
           "cvt.u16.u32 %h1, %r18;\nst.global.u16 [%rd10+32768], %h1;\n"
           "st.global.u32 [%rd10+32772], %r19;",
           NULL);
    for (uint32_t k = 0; k < 32; k++) {
        const uint32_t *got = l->after + 4096 + 4 * k;
        assert_int_equal(got[0], 4 * k + 1);
        assert_int_equal(got[1], 4 * k);
        assert_int_equal(got[2], 4 * k + 3);
        assert_int_equal(got[3], 4 * k + 2);
        assert_int_equal(l->after[8192 + 4 * k] & 0xffff, 4 * k + 2);
        assert_int_equal(l->after[8193 + 4 * k], (uint32_t)(int8_t)(4 * k + 3));
    }
}

/* --- counters
 * ---------------------------------------------------------------------------------------- */

static void counts(const char *body, uint64_t sectors, uint64_t conflicts)
{
    Launch *l = one(1, 32);
    launch(l, body, NULL);
    assert_int_equal(l->counters.load_sectors, sectors);
    assert_int_equal(l->counters.shared_conflicts, conflicts);
    assert_int_equal(l->counters.warp_insts * 32, l->counters.lane_insts);
}

#define AT_STRIDE(n) "mul.wide.u32 %rd10, %r1, " #n ";\nadd.u64 %rd10, %rd10, %rd1;\n"
#define SHARED_AT(n) "mul.lo.u32 %r10, %r1, " #n ";\nadd.u32 %r10, %r10, %r4;\n"

static void sectors_and_banks(void **state)
{
    (void)state;
    counts("ld.global.u32 %r10, [%rd2];", 4, 0);
    counts("ld.global.u32 %r10, [%rd2+4];", 5, 0);
    counts("ld.global.u32 %r10, [%rd1];", 1, 0);
    counts(AT_STRIDE(8) "ld.global.u32 %r10, [%rd10];", 8, 0);
    counts(AT_STRIDE(128) "ld.global.u32 %r10, [%rd10];", 32, 0);
    counts(AT_STRIDE(16) "ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd10];", 16, 0);
    counts(AT_STRIDE(1) "ld.global.u8 %r10, [%rd10];", 1, 0);
    counts("st.shared.u32 [%r5], %r1;", 0, 0);
    counts(SHARED_AT(8) "st.shared.u32 [%r10], %r1;", 0, 1);
    counts(SHARED_AT(128) "st.shared.u32 [%r10], %r1;", 0, 31);
    counts(SHARED_AT(132) "st.shared.u32 [%r10], %r1;", 0, 0);
    counts(SHARED_AT(16) "st.shared.v4.u32 [%r10], {%r1, %r1, %r1, %r1};", 0, 0);
    counts(SHARED_AT(32) "st.shared.v4.u32 [%r10], {%r1, %r1, %r1, %r1};", 0, 4);
    counts(SHARED_AT(8) "st.shared.u64 [%r10], %rd1;", 0, 0);
    /* lanes that read one word read it together */
    counts("st.shared.u32 [%r5], %r1;\nbar.warp.sync -1;\nand.b32 %r10, %r1, 7;\n"
           "shl.b32 %r10, %r10, 2;\nadd.u32 %r10, %r10, %r4;\nld.shared.u32 %r11, [%r10];",
           0, 0);
    Launch *l = one(2, 48);
    launch(l,
           "st.global.u32 [%rd3], %r1;\nbar.sync 0;\nsetp.lt.u32 %p1, %r1, 8;\n@%p1 bra $a;\n"
           "add.u32 %r10, %r1, 1;\n$a:\nred.global.add.u32 [%rd1+4096], 1;",
           NULL);
    assert_int_equal(l->counters.blocks, 2);
    assert_int_equal(l->counters.launches, 1);
    assert_int_equal(l->counters.store_requests, 4);
    assert_int_equal(l->counters.store_bytes, 2 * 48 * 4);
    assert_int_equal(l->counters.store_sectors, 2 * 6);
    assert_int_equal(l->counters.barriers, 4);
    assert_int_equal(l->counters.branches, 4);
    assert_int_equal(l->counters.divergent_branches, 2);
    assert_int_equal(l->counters.atomics, 4);
    assert_int_equal(l->after[1024], 1024 + 96);
}

int test_memory(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds),
        cmocka_unit_test(shared_bounds),
        cmocka_unit_test(local_bounds),
        cmocka_unit_test(alignment),
        cmocka_unit_test(local_places),
        cmocka_unit_test(freed),
        cmocka_unit_test(capacity),
        cmocka_unit_test(host_memory),
        cmocka_unit_test(other_device),
        cmocka_unit_test(unwritten),
        cmocka_unit_test(access_from_the_host),
        cmocka_unit_test(widths),
        cmocka_unit_test(layouts_of_requests),
        cmocka_unit_test(sectors_and_banks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
