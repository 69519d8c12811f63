/* test_run_race.c: races in shared memory and between blocks: each pair of accesses that is one,
 * and what looks like one. SPDX-License-Identifier: MIT */
#include "tests/vgpu/test_run.h"

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

/* The word of the thread n places further, of 64, in %r11 (an address) */
#define OTHER(n)                                                                                   \
    "add.u32 %r10, %r1, " #n ";\nand.b32 %r10, %r10, 63;\nshl.b32 %r10, %r10, 2;\n"                \
    "add.u32 %r11, %r10, %r4;\n"
#define STORE    "st.shared.u32 [%r5], %r1;\n"
#define BAR      "bar.sync 0;\n"
#define SYNCWARP "bar.warp.sync -1;\n"

/* --- shared memory
 * ----------------------------------------------------------------------------------- */

static void between_warps(void **state)
{
    (void)state;
    finds("shared-race", 1, 64, STORE OTHER(32) "ld.shared.u32 %r12, [%r11];");
    finds(NULL, 1, 64, STORE BAR OTHER(32) "ld.shared.u32 %r12, [%r11];");
    finds("shared-race", 1, 64, STORE BAR OTHER(32) "ld.shared.u32 %r12, [%r11];\n" STORE);
    finds(NULL, 1, 64, STORE BAR OTHER(32) "ld.shared.u32 %r12, [%r11];\n" BAR STORE);
    finds("shared-race", 1, 64, STORE OTHER(32) "st.shared.u32 [%r11], 5;");
    /* the same, at a stride and as vectors */
    finds("shared-race", 1, 64,
          "shl.b32 %r10, %r1, 6;\nadd.u32 %r10, %r10, %r4;\nst.shared.u32 [%r10], %r1;\n"
          "xor.b32 %r11, %r10, 2048;\nld.shared.u32 %r12, [%r11];");
    finds("shared-race", 1, 64,
          "shl.b32 %r10, %r1, 4;\nadd.u32 %r10, %r10, %r4;\n"
          "st.shared.v4.u32 [%r10], {%r1, %r1, %r1, %r1};\n"
          "xor.b32 %r11, %r10, 512;\nld.shared.v4.u32 {%r12, %r13, %r14, %r15}, [%r11];");
    finds(NULL, 1, 64,
          "shl.b32 %r10, %r1, 4;\nadd.u32 %r10, %r10, %r4;\n"
          "st.shared.v4.u32 [%r10], {%r1, %r1, %r1, %r1};\n" BAR
          "xor.b32 %r11, %r10, 512;\nld.shared.v4.u32 {%r12, %r13, %r14, %r15}, [%r11];");
    /* all threads read a word, one then writes it */
    finds("shared-race", 1, 64,
          "setp.eq.u32 %p1, %r1, 0;\n@%p1 st.shared.u32 [%r4], 1;\n" BAR
          "ld.shared.u32 %r10, [%r4];\n@%p1 st.shared.u32 [%r4], 2;");
    finds(NULL, 1, 64,
          "setp.eq.u32 %p1, %r1, 0;\n@%p1 st.shared.u32 [%r4], 1;\n" BAR
          "ld.shared.u32 %r10, [%r4];\n" BAR "@%p1 st.shared.u32 [%r4], 2;");
}

static void within_a_warp(void **state)
{
    (void)state;
    finds("shared-race", 1, 32, STORE "xor.b32 %r11, %r5, 4;\nld.shared.u32 %r12, [%r11];");
    finds(NULL, 1, 32, STORE SYNCWARP "xor.b32 %r11, %r5, 4;\nld.shared.u32 %r12, [%r11];");
    finds("shared-race", 1, 32,
          STORE SYNCWARP "xor.b32 %r11, %r5, 4;\nld.shared.u32 %r12, [%r11];\n" STORE);
    finds(NULL, 1, 32,
          STORE SYNCWARP "xor.b32 %r11, %r5, 4;\nld.shared.u32 %r12, [%r11];\n" SYNCWARP STORE);
    /* one's own word is never a race */
    finds(NULL, 1, 64, STORE "ld.shared.u32 %r12, [%r5];\n" STORE "ld.shared.u32 %r12, [%r5];");
    /* a warp's barrier orders nothing between warps */
    finds("shared-race", 1, 64, STORE SYNCWARP OTHER(32) "ld.shared.u32 %r12, [%r11];");
    /* lane 0 reads its own word, and the others read it too */
    finds("shared-race", 1, 32, STORE "ld.shared.u32 %r12, [%r4];");
    finds("shared-race", 1, 32,
          "setp.eq.u32 %p1, %r1, 0;\n@%p1 st.shared.v4.u32 [%r4], {%r1, %r1, %r1, %r1};\n"
          "ld.shared.v4.u32 {%r12, %r13, %r14, %r15}, [%r4];");
}

static void same_value(void **state)
{
    (void)state;
    finds(NULL, 1, 64, "st.shared.u32 [%r4], 7;");
    finds("shared-race", 1, 64, "st.shared.u32 [%r4], %r1;");
    finds("shared-race", 1, 32, "st.shared.u32 [%r4], %r1;");
    finds(NULL, 1, 64, "st.shared.v2.u32 [%r4], {7, 8};");
}

static void bytes(void **state)
{
    (void)state;
    /* neighbours within a word */
    finds(NULL, 1, 64, "add.u32 %r10, %r4, %r1;\nst.shared.u8 [%r10], %r1;");
    finds(NULL, 1, 64,
          "shl.b32 %r10, %r1, 1;\nadd.u32 %r10, %r10, %r4;\nst.shared.u16 [%r10], %r1;\n"
          "ld.shared.u16 %r11, [%r10];");
    finds("shared-race", 1, 64,
          "shl.b32 %r10, %r1, 1;\nadd.u32 %r10, %r10, %r4;\nst.shared.u16 [%r10], %r1;\n"
          "xor.b32 %r10, %r10, 2;\nld.shared.u16 %r11, [%r10];");
    finds("shared-race", 1, 64,
          "add.u32 %r10, %r4, %r1;\nst.shared.u8 [%r10], %r1;\nxor.b32 %r10, %r10, 33;\n"
          "st.shared.u8 [%r10], %r1;");
    /* written as bytes, read as words after a barrier, and written as words again */
    finds(
        NULL, 1, 64,
        "add.u32 %r10, %r4, %r1;\nst.shared.u8 [%r10], %r1;\n" BAR "and.b32 %r11, %r1, 15;\n"
        "shl.b32 %r11, %r11, 2;\nadd.u32 %r11, %r11, %r4;\nld.shared.u32 %r12, [%r11];\n" BAR STORE
        "ld.shared.u8 %r13, [%r5+2];");
    finds("shared-race", 1, 64,
          "add.u32 %r10, %r4, %r1;\nst.shared.u8 [%r10], %r1;\n" BAR "and.b32 %r11, %r1, 15;\n"
          "shl.b32 %r11, %r11, 2;\nadd.u32 %r11, %r11, %r4;\nld.shared.u32 %r12, [%r11];\n" STORE);
}

static void atomics(void **state)
{
    (void)state;
    static const char init[] = "setp.eq.u32 %p1, %r1, 0;\n@%p1 st.shared.u32 [%r4], 0;\n" BAR;
    char body[512];
    Launch *l = one(1, 128);
    snprintf(body, sizeof body,
             "%sred.shared.add.u32 [%%r4], 1;\n" BAR
             "ld.shared.u32 %%r10, [%%r4];\nst.global.u32 [%%rd2], %%r10;",
             init);
    launch(l, body, NULL);
    assert_int_equal(l->after[77], 128);
    snprintf(body, sizeof body, "%sred.shared.add.u32 [%%r4], 1;\nld.shared.u32 %%r10, [%%r4];",
             init);
    finds("shared-race", 1, 64, body);
    finds("shared-race", 1, 64,
          "setp.eq.u32 %p1, %r1, 0;\n@%p1 st.shared.u32 [%r4], 0;\natom.shared.add.u32 %r10, "
          "[%r4], 1;");
    snprintf(body, sizeof body,
             "%satom.shared.add.u32 %%r10, [%%r4], 1;\nmov.u32 %%r11, %%r10;\n" BAR
             "atom.shared.exch.b32 %%r10, [%%r4], %%r11;",
             init);
    finds(NULL, 1, 64, body);
}

static void many_barriers(void **state)
{
    (void)state;
    /* time starts over after 2047 of them, and after 255 of a warp */
    finds(NULL, 1, 64,
          STORE "mov.u32 %r20, 0;\n" OTHER(
              32) "$loop:\n" BAR "ld.shared.u32 %r12, [%r11];\n" BAR STORE
                  "add.u32 %r20, %r20, 1;\nsetp.lt.u32 %p1, %r20, 3000;\n@%p1 bra $loop;");
    finds("shared-race", 1, 64,
          STORE "mov.u32 %r20, 0;\n" OTHER(
              32) "$loop:\n" BAR "add.u32 %r20, %r20, 1;\n"
                  "setp.lt.u32 %p1, %r20, 2100;\n@%p1 bra $loop;\nst.shared.u32 [%r11], 5;\n"
                  "ld.shared.u32 %r12, [%r5];");
    finds(NULL, 1, 32,
          STORE "mov.u32 %r20, 0;\nxor.b32 %r11, %r5, 4;\n$loop:\n" SYNCWARP
                "ld.shared.u32 %r12, [%r11];\n" SYNCWARP STORE
                "add.u32 %r20, %r20, 1;\nsetp.lt.u32 %p1, %r20, 700;\n@%p1 bra $loop;");
    /* written once, read for ever */
    finds(NULL, 1, 32,
          STORE "mov.u32 %r20, 0;\nxor.b32 %r11, %r5, 4;\n$loop:\n" SYNCWARP
                "ld.shared.u32 %r12, [%r11];\nadd.u32 %r20, %r20, 1;\nsetp.lt.u32 %p1, %r20, 700;\n"
                "@%p1 bra $loop;");
    /* what was not written before time started over still is not */
    finds("uninit", 1, 64,
          "mov.u32 %r20, 0;\n$loop:\n" BAR "add.u32 %r20, %r20, 1;\n"
          "setp.lt.u32 %p1, %r20, 2100;\n@%p1 bra $loop;\nld.shared.u32 %r12, [%r5];");
}

/* Warp 0 writes and arrives, warp 1 waits and reads; %p1: warp 0. */
#define PAIR(writer, reader)                                                                       \
    "setp.lt.u32 %p1, %r1, 32;\n@!%p1 bra $reader;\n" writer "bra $end;\n$reader:\n" reader        \
    "$end:\n"

static void named_barriers(void **state)
{
    (void)state;
    finds(NULL, 1, 64,
          PAIR(STORE "bar.arrive 1, 64;\n",
               "bar.sync 1, 64;\n" OTHER(32) "ld.shared.u32 %r12, [%r11];\n"));
    finds("shared-race", 1, 64,
          PAIR(STORE "bar.arrive 1, 64;\n" STORE
                     "add.u32 %r12, %r1, 1;\nst.shared.u32 [%r5], %r12;\n",
               "bar.sync 1, 64;\n" OTHER(32) "ld.shared.u32 %r12, [%r11];\n"));
    /* two pairs of warps: a pair's barrier says nothing of the other pair */
    finds("shared-race", 1, 128,
          STORE "shr.u32 %r20, %r1, 6;\nadd.u32 %r20, %r20, 1;\nbar.sync %r20, 64;\n"
                "add.u32 %r10, %r1, 64;\nand.b32 %r10, %r10, 127;\nshl.b32 %r10, %r10, 2;\n"
                "add.u32 %r10, %r10, %r4;\nld.shared.u32 %r12, [%r10];");
    finds(NULL, 1, 128,
          STORE "shr.u32 %r20, %r1, 6;\nadd.u32 %r20, %r20, 1;\nbar.sync %r20, 64;\n"
                "xor.b32 %r10, %r5, 128;\nld.shared.u32 %r12, [%r10];");
}

static void copies_under_way(void **state)
{
    (void)state;
    static const char copy[] =
        "mul.wide.u32 %rd10, %r1, 16;\nadd.u64 %rd10, %rd10, %rd1;\nshl.b32 %r10, %r1, 4;\n"
        "add.u32 %r10, %r10, %r4;\ncp.async.ca.shared.global [%r10], [%rd10], 16;\n"
        "cp.async.commit_group;\n";
    static const char take[] = "ld.shared.v4.u32 {%r12, %r13, %r14, %r15}, [%r10];\n"
                               "st.global.v4.u32 [%rd10+32768], {%r12, %r13, %r14, %r15};\n";
    char body[1024];
    Launch *l = one(1, 64);
    snprintf(body, sizeof body, "%s%s", copy, take);
    launch(l, body, "uninit");
    snprintf(body, sizeof body, "%scp.async.wait_group 1;\n%s", copy, take);
    launch(l, body, "uninit");
    snprintf(body, sizeof body, "%scp.async.wait_group 0;\n%s", copy, take);
    launch(l, body, NULL);
    for (uint32_t k = 0; k < 256; k++)
        assert_int_equal(l->after[8192 + k], k);
    /* of the second group nothing, of the first all is waited for; the rest of a copy is zero */
    snprintf(body, sizeof body,
             "%smov.u32 %%r16, 4;\ncp.async.ca.shared.global [%%r10+4096], [%%rd10], 8, %%r16;\n"
             "cp.async.commit_group;\ncp.async.wait_group 1;\n%scp.async.wait_all;\n"
             "ld.shared.v2.u32 {%%r12, %%r13}, [%%r10+4096];\n"
             "st.global.v2.u32 [%%rd10+49152], {%%r12, %%r13};",
             copy, take);
    launch(l, body, NULL);
    for (uint32_t k = 0; k < 64; k++) {
        assert_int_equal(l->after[8192 + 4 * k], 4 * k);
        assert_int_equal(l->after[12288 + 4 * k], 4 * k);
        assert_int_equal(l->after[12289 + 4 * k], 0);
    }
    /* waited for by one's own thread only */
    snprintf(body, sizeof body, "%scp.async.wait_all;\nxor.b32 %%r10, %%r10, 512;\n%s", copy, take);
    launch(l, body, "shared-race");
    snprintf(body, sizeof body, "%scp.async.wait_all;\n" BAR "xor.b32 %%r10, %%r10, 512;\n%s", copy,
             take);
    launch(l, body, NULL);
}

/* --- between blocks
 * ----------------------------------------------------------------------------------- */

static void between_blocks(void **state)
{
    (void)state;
    finds(NULL, 4, 32, "st.global.u32 [%rd3], %r1;\nld.global.u32 %r10, [%rd3];");
    finds("block-race", 4, 32, "st.global.u32 [%rd2], %r2;");
    finds(NULL, 4, 32, "st.global.u32 [%rd2], 7;"); /* the same value */
    finds(NULL, 4, 32,
          "ld.global.u32 %r10, [%rd2];\nld.global.v4.u32 {%r11, %r12, %r13, %r14}, [%rd1];");
    finds("block-race", 4, 32, "ld.global.u32 %r10, [%rd2];\nst.global.u32 [%rd2], 7;");
    finds("block-race", 2, 32,
          "xor.b32 %r10, %r3, 32;\nmul.wide.u32 %rd10, %r10, 4;\nadd.u64 %rd10, %rd10, %rd1;\n"
          "st.global.u32 [%rd3], %r3;\nld.global.u32 %r11, [%rd10];");
    /* one word of many, at a stride */
    finds("block-race", 2, 32,
          "mul.wide.u32 %rd10, %r3, 64;\nadd.u64 %rd10, %rd10, %rd1;\nst.global.u32 [%rd10], %r3;\n"
          "setp.eq.u32 %p1, %r3, 40;\n@%p1 ld.global.u32 %r10, [%rd1+64];");
    /* each launch begins anew, and one block does not race */
    finds(NULL, 1, 128, "st.global.u32 [%rd1], 7;\nld.global.u32 %r10, [%rd1];");
}

static void bytes_of_blocks(void **state)
{
    (void)state;
    /* %r10: a number for each block and thread, all neighbours */
    finds(NULL, 8, 1,
          "cvt.u64.u32 %rd10, %r3;\nadd.u64 %rd10, %rd10, %rd1;\nst.global.u8 [%rd10], %r1;\n"
          "ld.global.u8 %r11, [%rd10];");
    finds(NULL, 7, 33,
          "cvt.u64.u32 %rd10, %r3;\nadd.u64 %rd10, %rd10, %rd1;\nst.global.u8 [%rd10], %r1;");
    finds(NULL, 7, 33,
          "mul.wide.u32 %rd10, %r3, 2;\nadd.u64 %rd10, %rd10, %rd1;\nst.global.u16 [%rd10], %r1;");
    finds("block-race", 8, 1,
          "cvt.u64.u32 %rd10, %r3;\nadd.u64 %rd10, %rd10, %rd1;\nst.global.u8 [%rd10], %r3;\n"
          "ld.global.u8 %r11, [%rd10+1];");
    finds("block-race", 8, 1,
          "shr.u32 %r10, %r3, 1;\ncvt.u64.u32 %rd10, %r10;\nadd.u64 %rd10, %rd10, %rd1;\n"
          "st.global.u8 [%rd10], %r3;");
    finds("block-race", 8, 1,
          "mul.wide.u32 %rd10, %r3, 2;\nadd.u64 %rd10, %rd10, %rd1;\nst.global.u16 [%rd10], %r3;\n"
          "and.b64 %rd11, %rd10, -4;\nld.global.u32 %r11, [%rd11];");
    finds(NULL, 8, 1,
          "mul.wide.u32 %rd10, %r3, 2;\nadd.u64 %rd10, %rd10, %rd1;\nld.global.u16 %r10, [%rd10];\n"
          "ld.global.u32 %r11, [%rd1];");
}

static void atomics_of_blocks(void **state)
{
    (void)state;
    Launch *l = one(16, 64);
    launch(l, "red.global.add.u32 [%rd1+4], 1;", NULL);
    assert_int_equal(l->after[1], 1 + 16 * 64);
    finds("block-race", 4, 32, "red.global.add.u32 [%rd1], 1;\nld.global.u32 %r10, [%rd1];");
    finds(NULL, 4, 32, "red.global.add.u32 [%rd1], 1;\nld.volatile.global.u32 %r10, [%rd1];");
    finds("block-race", 4, 32,
          "setp.eq.u32 %p1, %r2, 1;\n@%p1 st.global.u32 [%rd1], 0;\nred.global.add.u32 [%rd1], 1;");
    /* a histogram of each block's own, then read */
    finds(NULL, 4, 32, "red.global.add.u32 [%rd3], 1;\nbar.sync 0;\nld.global.u32 %r10, [%rd3];");
    /* sums of floats come out the same with any number of workers: blocks come one after another */
    uint32_t first = 0;
    for (int k = 0; k < 3; k++) {
        l = one(200, 32);
        l->op = 77;
        launch(l,
               "cvt.rn.f32.u32 %f1, %r3;\nadd.f32 %f1, %f1, 0f3DCCCCCD;\n"
               "red.global.add.f32 [%rd1], %f1;",
               NULL);
        first = k ? first : l->after[0];
        assert_int_equal(l->after[0], first);
    }
}

/* The last block that comes sums up what the others have written. */
#define LAST_BLOCK(fence)                                                                          \
    "st.global.u32 [%rd3+4096], %r3;\n" fence "bar.sync 0;\nsetp.ne.u32 %p1, %r1, 0;\n"            \
    "@%p1 bra $end;\natom.global.add.u32 %r10, [%rd1], 1;\nsetp.ne.u32 %p1, %r10, 7;\n"            \
    "@%p1 bra $end;\nmov.u32 %r11, 0;\nmov.u32 %r12, 0;\nadd.u64 %rd10, %rd1, 4096;\n$loop:\n"     \
    "ld.global.u32 %r13, [%rd10];\nadd.u32 %r12, %r12, %r13;\nadd.u64 %rd10, %rd10, 128;\n"        \
    "add.u32 %r11, %r11, 1;\nsetp.lt.u32 %p1, %r11, 8;\n@%p1 bra $loop;\n"                         \
    "st.global.u32 [%rd1+2048], %r12;\n$end:\n"

static void last_block(void **state)
{
    (void)state;
    Launch *l = one(8, 32);
    launch(l, LAST_BLOCK("membar.gl;\n"), NULL);
    assert_int_equal(l->after[512], 28 * 32);
    launch(l, LAST_BLOCK("fence.acq_rel.gpu;\n"), NULL);
    launch(l, LAST_BLOCK(""), "block-race");
    launch(l, LAST_BLOCK("membar.cta;\n"), "block-race");
}

/* Each block writes, all meet, each reads what the next one has written. */
#define TOGETHER(fence)                                                                            \
    "st.global.u32 [%rd3+4096], %r3;\n" fence "bar.sync 0;\nsetp.ne.u32 %p1, %r1, 0;\n"            \
    "@%p1 bra $met;\natom.global.add.u32 %r10, [%rd1], 1;\n$wait:\n"                               \
    "ld.acquire.gpu.global.u32 %r11, [%rd1];\nsetp.lt.u32 %p2, %r11, 6;\n@%p2 bra $wait;\n$met:\n" \
    "bar.sync 0;\nadd.u32 %r12, %r3, 32;\nsetp.ge.u32 %p3, %r12, 192;\n@%p3 sub.u32 %r12, %r12, "  \
    "192;\nmul.wide.u32 %rd10, %r12, 4;\nadd.u64 %rd10, %rd10, %rd1;\n"                            \
    "ld.global.u32 %r13, [%rd10+4096];\nst.global.u32 [%rd3+8192], %r13;\n"

static void grid_barrier(void **state)
{
    (void)state;
    static uint32_t words[WORDS];
    Launch *l = one(6, 32);
    l->words = words;
    l->cooperative = true;
    launch(l, TOGETHER("membar.gl;\n"), NULL);
    for (uint32_t k = 0; k < 192; k++)
        assert_int_equal(l->after[2048 + k], (k + 32) % 192);
    launch(l, TOGETHER(""), "block-race");
    /* blocks that are not there together wait for ever */
    l->cooperative = false;
    launch(l, TOGETHER("membar.gl;\n"), "hang");
    assert_int_equal(l->error, 702);
}

int test_races(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(between_warps),     cmocka_unit_test(within_a_warp),
        cmocka_unit_test(same_value),        cmocka_unit_test(bytes),
        cmocka_unit_test(atomics),           cmocka_unit_test(many_barriers),
        cmocka_unit_test(named_barriers),    cmocka_unit_test(copies_under_way),
        cmocka_unit_test(between_blocks),    cmocka_unit_test(bytes_of_blocks),
        cmocka_unit_test(atomics_of_blocks), cmocka_unit_test(last_block),
        cmocka_unit_test(grid_barrier),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
