/* test_run_warp.c: divergence, barriers, what lanes do together, launches that do not end.
 * SPDX-License-Identifier: MIT */
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

#define PUT "st.global.u32 [%rd3], %r20;\n"

/* --- divergence
 * -------------------------------------------------------------------------------------- */

static uint32_t collatz(uint32_t n)
{
    uint32_t steps = 0;
    for (; n > 1; steps++)
        n = n % 2 ? 3 * n + 1 : n / 2;
    return steps;
}

static void diverging_loops(void **state)
{
    (void)state;
    Launch *l = one(3, 70);
    launch(
        l,
        "mov.u32 %r20, 0;\nmov.u32 %r10, %r3;\nsetp.le.u32 %p1, %r10, 1;\n@%p1 bra $end;\n$loop:\n"
        "and.b32 %r11, %r10, 1;\nsetp.eq.u32 %p2, %r11, 0;\n@%p2 bra $even;\n"
        "mad.lo.u32 %r10, %r10, 3, 1;\nbra $next;\n$even:\nshr.u32 %r10, %r10, 1;\n$next:\n"
        "add.u32 %r20, %r20, 1;\nsetp.gt.u32 %p1, %r10, 1;\n@%p1 bra $loop;\n$end:\n" PUT,
        NULL);
    for (uint32_t k = 0; k < 210; k++)
        assert_int_equal(l->after[k], collatz(k));
    assert_int_equal(l->after[210], 210);
    /* lanes come together behind an if: the last store is one request */
    l = one(1, 32);
    launch(l,
           "and.b32 %r10, %r1, 1;\nsetp.eq.u32 %p1, %r10, 0;\n@%p1 bra $a;\nmov.u32 %r20, 5;\nbra "
           "$b;\n"
           "$a:\nmov.u32 %r20, 6;\n$b:\n" PUT,
           NULL);
    assert_int_equal(l->counters.store_requests, 1);
    assert_int_equal(l->after[4], 6);
    assert_int_equal(l->after[5], 5);
}

static void branch_tables(void **state)
{
    (void)state;
    Launch *l = one(1, 32);
    launch(l,
           "and.b32 %r10, %r1, 3;\n$ts: .branchtargets $a, $b, $c, $a;\nbrx.idx %r10, $ts;\n"
           "$a:\nmov.u32 %r20, 100;\nbra $e;\n$b:\nmov.u32 %r20, 200;\nbra $e;\n"
           "$c:\nmov.u32 %r20, 300;\n$e:\n" PUT,
           NULL);
    static const uint32_t want[] = {100, 200, 300, 100};
    for (uint32_t k = 0; k < 32; k++)
        assert_int_equal(l->after[k], want[k % 4]);
    assert_int_equal(l->counters.store_requests, 1);
}

static void exits(void **state)
{
    (void)state;
    Launch *l = one(2, 64);
    launch(l,
           "and.b32 %r10, %r1, 1;\nsetp.eq.u32 %p1, %r10, 0;\n@%p1 ret;\nbar.sync 0;\nmov.u32 "
           "%r20, 1000;\n" PUT,
           NULL);
    for (uint32_t k = 0; k < 128; k++)
        assert_int_equal(l->after[k], k % 2 ? 1000 : k);
    /* a warp that has ended does not hold the others at a barrier */
    finds(NULL, 1, 96, "setp.lt.u32 %p1, %r1, 32;\n@%p1 ret;\nbar.sync 0;");
}

/* --- barriers
 * ---------------------------------------------------------------------------------------- */

static void divergent_barriers(void **state)
{
    (void)state;
    Launch *l = one(1, 64);
    launch(l,
           "and.b32 %r10, %r1, 1;\nsetp.eq.u32 %p1, %r10, 0;\n@%p1 bra $a;\nbar.sync 0;\n$a:\n"
           "bar.sync 0;",
           "barrier");
    assert_int_equal(l->error, 719);
    finds("barrier", 1, 64, "setp.lt.u32 %p1, %r1, 16;\n@%p1 bar.sync 0;\n@!%p1 bar.sync 0;");
    finds("barrier", 1, 32, "bar.sync 16;");
    /* lanes that end instead are not waited for, be their end before or behind the barrier */
    finds(NULL, 1, 64,
          "setp.lt.u32 %p1, %r1, 16;\n@%p1 bra $a;\nbar.sync 0;\n$a:\nst.global.u32 [%rd3], 1;");
    finds("barrier", 1, 64, "bar.sync 1, 40;");
    /* whole warps may go different ways to one barrier */
    finds(NULL, 1, 64,
          "setp.lt.u32 %p1, %r1, 32;\n@%p1 bra $a;\nbar.sync 0;\nbra $b;\n$a:\nbar.sync 0;\n$b:\n");
}

static void deadlocks(void **state)
{
    (void)state;
    Launch *l = one(1, 64);
    launch(l,
           "setp.lt.u32 %p1, %r1, 32;\n@%p1 bra $a;\nbar.sync 1;\nbra $b;\n$a:\nbar.sync 2;\n$b:\n",
           "deadlock");
    assert_int_equal(l->error, 719);
    finds("deadlock", 2, 64, "setp.lt.u32 %p1, %r1, 32;\n@%p1 bar.sync 1, 96;");
    l->cooperative = true;
    l->blocks = 3;
    launch(l,
           "setp.lt.u32 %p1, %r1, 32;\n@%p1 bra $a;\nbar.sync 1;\nbra $b;\n$a:\nbar.sync 2;\n$b:\n",
           "deadlock");
}

static void barrier_reductions(void **state)
{
    (void)state;
    Launch *l = one(1, 96);
    launch(l,
           "setp.lt.u32 %p1, %r1, 40;\nbarrier.cta.red.popc.aligned.u32 %r20, 0, %p1;\n" PUT
           "bar.red.popc.u32 %r20, 0, !%p1;\nst.global.u32 [%rd3+4096], %r20;\n"
           "barrier.cta.red.or.aligned.pred %p2, 0, %p1;\nselp.u32 %r20, 1, 0, %p2;\n"
           "st.global.u32 [%rd3+8192], %r20;\nbar.red.and.pred %p2, 0, %p1;\nselp.u32 %r20, 1, 0, "
           "%p2;\n"
           "st.global.u32 [%rd3+16384], %r20;",
           NULL);
    for (uint32_t k = 0; k < 96; k++) {
        assert_int_equal(l->after[k], 40);
        assert_int_equal(l->after[1024 + k], 56);
        assert_int_equal(l->after[2048 + k], 1);
        assert_int_equal(l->after[4096 + k], 0);
    }
}

/* --- lanes together
 * ------------------------------------------------------------------------------------ */

static void shuffles(void **state)
{
    (void)state;
    Launch *l = one(1, 32);
    launch(l,
           "shfl.sync.up.b32 %r20|%p1, %r1, 3, 0, -1;\n@!%p1 add.u32 %r20, %r20, 100;\n" PUT
           "shfl.sync.down.b32 %r20|%p1, %r1, 3, 0x181f, -1;\n@!%p1 add.u32 %r20, %r20, 100;\n"
           "st.global.u32 [%rd3+4096], %r20;\nshfl.sync.bfly.b32 %r20, %r1, 5, 31, -1;\n"
           "st.global.u32 [%rd3+8192], %r20;\nadd.u32 %r10, %r1, 9;\n"
           "shfl.sync.idx.b32 %r20, %r1, %r10, 31, -1;\nst.global.u32 [%rd3+16384], %r20;",
           NULL);
    for (uint32_t k = 0; k < 32; k++) {
        assert_int_equal(l->after[k], k < 3 ? k + 100 : k - 3);
        assert_int_equal(l->after[1024 + k], k % 8 < 5 ? k + 3 : k + 100);
        assert_int_equal(l->after[2048 + k], k ^ 5);
        assert_int_equal(l->after[4096 + k], (k + 9) % 32);
    }
}

static void absent_lanes(void **state)
{
    (void)state;
    static const char half[] = "setp.lt.u32 %p1, %r1, 16;\n";
    char body[400];
    Launch *l = one(1, 32);
    snprintf(body, sizeof body, "%s@%%p1 shfl.sync.idx.b32 %%r20, %%r1, 0, 31, -1;", half);
    launch(l, body, "warp-sync");
    assert_int_equal(l->error, 719);
    snprintf(body, sizeof body,
             "%s@%%p1 bra $a;\nbar.warp.sync -1;\nbra $b;\n$a:\nmov.u32 %%r20, 1;\n"
             "bar.warp.sync -1;\n$b:\nst.global.u32 [%%rd3], %%r1;",
             half);
    finds("warp-sync", 1, 32, body);
    /* those that are there name themselves */
    snprintf(body, sizeof body, "%s@%%p1 shfl.sync.idx.b32 %%r20, %%r1, 0, 31, 0xffff;", half);
    finds(NULL, 1, 32, body);
    finds("warp-sync", 1, 32, "vote.sync.any.pred %p1, 1, 0xffff;");
    /* and read from one that is not */
    snprintf(body, sizeof body, "%s@%%p1 shfl.sync.idx.b32 %%r20, %%r1, 20, 31, 0xffff;", half);
    finds("warp-sync", 1, 32, body);
    /* lanes that do not exist or have ended are not waited for */
    finds(NULL, 1, 20, "shfl.sync.bfly.b32 %r20, %r1, 1, 31, -1;");
    snprintf(body, sizeof body, "%s@%%p1 ret;\nbar.warp.sync -1;", half);
    finds(NULL, 1, 32, body);
}

static void meeting_lanes(void **state)
{
    (void)state;
    Launch *l = one(1, 32);
    /* even lanes come to the shuffle after a loop, odd ones wait there for them */
    launch(
        l,
        "and.b32 %r10, %r1, 1;\nsetp.eq.u32 %p1, %r10, 1;\nmov.u32 %r11, 0;\n@%p1 bra $a;\n$loop:\n"
        "add.u32 %r11, %r11, 1;\nsetp.lt.u32 %p2, %r11, %r1;\n@%p2 bra $loop;\n$a:\n"
        "shfl.sync.bfly.b32 %r20, %r1, 1, 31, -1;\n" PUT,
        NULL);
    for (uint32_t k = 0; k < 32; k++)
        assert_int_equal(l->after[k], k ^ 1);
    /* the loop lies behind the shuffle */
    launch(
        l,
        "and.b32 %r10, %r1, 1;\nsetp.eq.u32 %p1, %r10, 1;\nmov.u32 %r11, 0;\n@!%p1 bra $far;\n$a:\n"
        "shfl.sync.bfly.b32 %r20, %r1, 1, 31, -1;\n" PUT "bra $end;\n$far:\n"
        "add.u32 %r11, %r11, 1;\nsetp.lt.u32 %p2, %r11, %r1;\n@%p2 bra $far;\nbra $a;\n$end:\n",
        NULL);
    for (uint32_t k = 0; k < 32; k++)
        assert_int_equal(l->after[k], k ^ 1);
}

static void groups_of_lanes(void **state)
{
    (void)state;
    Launch *l = one(1, 32);
    /* four groups of eight lanes, each with its own mask, in one instruction */
    launch(l,
           "and.b32 %r10, %r1, 24;\nmov.u32 %r11, 255;\nshl.b32 %r11, %r11, %r10;\n"
           "and.b32 %r12, %r1, 5;\nsetp.eq.u32 %p1, %r12, 5;\nvote.sync.ballot.b32 %r20, %p1, "
           "%r11;\n" PUT "redux.sync.add.u32 %r20, %r1, %r11;\nst.global.u32 [%rd3+4096], %r20;\n"
           "and.b32 %r12, %r1, 2;\nmatch.any.sync.b32 %r20, %r12, %r11;\nst.global.u32 "
           "[%rd3+8192], %r20;\n"
           "match.all.sync.b32 %r20|%p2, %r10, %r11;\nst.global.u32 [%rd3+16384], %r20;\n"
           "vote.sync.all.pred %p3, !%p1, %r11;\nselp.u32 %r20, 1, 0, %p3;\nst.global.u32 "
           "[%rd3+32768], %r20;",
           NULL);
    for (uint32_t k = 0; k < 32; k++) {
        uint32_t group = k & 24;
        assert_int_equal(l->after[k], 0xa0u << group);
        assert_int_equal(l->after[1024 + k], 8 * group + 28);
        assert_int_equal(l->after[2048 + k], (k & 2 ? 0xccu : 0x33u) << group);
        assert_int_equal(l->after[4096 + k], 0xffu << group);
        assert_int_equal(l->after[8192 + k], 0);
    }
}

static void matrices(void **state)
{
    (void)state;
    Launch *l = one(1, 32);
    static const char load[] = "shl.b32 %r10, %r1, 4;\nadd.u32 %r10, %r10, %r4;\n"
                               "shl.b32 %r11, %r1, 19;\nmad.lo.u32 %r11, %r1, 8, %r11;\n"
                               "add.u32 %r12, %r11, 0x10000;\nadd.u32 %r13, %r12, 0x20002;\n"
                               "add.u32 %r14, %r13, 0x20002;\nadd.u32 %r15, %r14, 0x20002;\n"
                               "st.shared.v4.u32 [%r10], {%r12, %r13, %r14, %r15};\n";
    char body[800];
    /* element c of row r is 8 r + c */
    snprintf(body, sizeof body,
             "%sbar.warp.sync -1;\n"
             "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%%r16, %%r17, %%r18, %%r20}, [%%r10];\n"
             "st.global.u32 [%%rd3], %%r20;\n"
             "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%%r16, %%r17}, [%%r10];\n"
             "st.global.u32 [%%rd3+4096], %%r17;",
             load);
    launch(l, body, NULL);
    for (uint32_t k = 0; k < 32; k++) {
        uint32_t row = 24 + k / 4, column = k % 4 * 2, low = 8 * row + column;
        assert_int_equal(l->after[k], low | (low + 1) << 16);
        low = 8 * (8 + column) + k / 4;
        assert_int_equal(l->after[1024 + k], low | (low + 8) << 16);
    }
    snprintf(body, sizeof body,
             "%sldmatrix.sync.aligned.m8n8.x4.shared.b16 {%%r16, %%r17, %%r18, %%r20}, [%%r10];",
             load);
    launch(l, body, NULL); /* each lane's row is its own; the exchange is the instruction's */
    snprintf(body, sizeof body,
             "%sxor.b32 %%r10, %%r10, 16;\n"
             "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%%r16, %%r17, %%r18, %%r20}, [%%r10];",
             load);
    launch(l, body, "shared-race");
}

/* --- ends
 * ---------------------------------------------------------------------------------------------- */

static void hangs(void **state)
{
    (void)state;
    Launch *l = one(2, 64);
    launch(l, "$loop:\nadd.u32 %r10, %r10, 1;\nbra $loop;", "hang");
    assert_int_equal(l->error, 702);
    /* waiting for another warp of the block is no hang */
    finds(NULL, 1, 64,
          "setp.eq.u32 %p1, %r1, 0;\n@%p1 st.shared.u32 [%r4], 0;\nbar.sync 0;\nsetp.lt.u32 %p1, "
          "%r1, 32;\n"
          "@!%p1 bra $set;\n$wait:\natom.shared.or.b32 %r10, [%r4], 0;\nsetp.eq.u32 %p2, %r10, 0;\n"
          "@%p2 bra $wait;\nbra $end;\n$set:\natom.shared.exch.b32 %r10, [%r4], 1;\n$end:\n");
}

static void traps(void **state)
{
    (void)state;
    Launch *l = one(4, 64);
    launch(l, "setp.eq.u32 %p1, %r3, 77;\n@%p1 trap;", "trap");
    assert_int_equal(l->error, 719);
    assert_non_null(strstr(said(), "block (1,0,0), thread (13,0,0)"));
    launch(l, "setp.eq.u32 %p1, %r3, 7777;\n@%p1 trap;", NULL);
    assert_int_equal(l->error, 0);
}

static void special_registers(void **state)
{
    (void)state;
    Launch *l = one(3, 40);
    launch(
        l,
        "mov.u32 %r10, %laneid;\nmov.u32 %r11, %warpid;\nmad.lo.u32 %r20, %r11, 32, %r10;\n" PUT
        "mov.u32 %r20, %nctaid.x;\nst.global.u32 [%rd3+4096], %r20;\nmov.u32 %r20, %lanemask_lt;\n"
        "st.global.u32 [%rd3+8192], %r20;",
        NULL);
    for (uint32_t k = 0; k < 120; k++) {
        assert_int_equal(l->after[k], k % 40);
        assert_int_equal(l->after[1024 + k], 3);
        assert_int_equal(l->after[2048 + k], (1u << k % 40 % 32) - 1);
    }
}

static void same_each_time(void **state)
{
    (void)state;
    /* many launches, small and large ones, on whatever threads: the same numbers, the same counts
     */
    uint64_t insts = 0;
    for (int k = 0; k < 40; k++) {
        Launch *l = one(k % 2 ? 300 : 2, 48);
        launch(l, "mul.lo.u32 %r20, %r3, 3;\n" PUT, NULL);
        for (uint32_t n = 0; n < l->blocks * 48; n++)
            assert_int_equal(l->after[n], 3 * n);
        assert_int_equal(l->counters.blocks, l->blocks);
        if (k % 2 && insts)
            assert_int_equal(l->counters.lane_insts, insts);
        insts = k % 2 ? l->counters.lane_insts : insts;
    }
}

int test_warps(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(diverging_loops), cmocka_unit_test(branch_tables),
        cmocka_unit_test(exits),           cmocka_unit_test(divergent_barriers),
        cmocka_unit_test(deadlocks),       cmocka_unit_test(barrier_reductions),
        cmocka_unit_test(shuffles),        cmocka_unit_test(absent_lanes),
        cmocka_unit_test(meeting_lanes),   cmocka_unit_test(groups_of_lanes),
        cmocka_unit_test(matrices),        cmocka_unit_test(hangs),
        cmocka_unit_test(traps),           cmocka_unit_test(special_registers),
        cmocka_unit_test(same_each_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
