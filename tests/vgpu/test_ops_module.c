/* test_ops_module.c: what loading makes of a module's text, what it refuses, and mma's fragments.
 * SPDX-License-Identifier: MIT */
#include "tests/vgpu/test_ops.h"

#include <stdio.h>
#include <stdlib.h>

#define HEAD ".version 9.0\n.target sm_80\n.address_size 64\n"

static Module *load(const char *text)
{
    static Device *device;
    const char *why = "";
    if (!device)
        device = device_get(0);
    Module *m = module_load(device, text, strlen(text), &why);
    if (!m)
        fail_msg("%s", why);
    return m;
}

/* --- declarations ---------------------------------------------------------------------------- */

static void parameters(void **state)
{
    (void)state;
    Module *m = load(HEAD ".visible .entry k(.param .u32 a, .param .u64 .ptr .global .align 16 b,\n"
                          " .param .align 8 .b8 c[20], .param .f32 d)\n"
                          ".maxntid 32, 4, 2\n.minnctapersm 2\n{ ret; }\n"
                          ".visible .entry r() .reqntid 8, 4 { ret; }");
    const Function *f = module_function(m, "k");
    assert_non_null(f);
    assert_int_equal(f->nparams, 4);
    assert_int_equal(f->params[1].offset,
                     8); /* not 16: that is the alignment of what it points to */
    assert_int_equal(f->params[2].offset, 16);
    assert_int_equal(f->params[2].size, 20);
    assert_int_equal(f->params[3].offset, 36);
    assert_int_equal(f->param_bytes, 40);
    assert_int_equal(f->max_threads, 256);
    f = module_function(m, "r");
    assert_int_equal(f->required[0], 8);
    assert_int_equal(f->required[1], 4);
    assert_int_equal(f->required[2], 1);
    assert_null(module_function(m, "x"));
    assert_int_equal(m->target, 80);
    module_unload(m);
}

static uint64_t word_of(const Variable *v, uint64_t offset, size_t bytes)
{
    uint64_t word = 0;
    const Alloc *a = memory_find(v->address);
    assert_non_null(a);
    memcpy(&word, a->data + (v->address - a->base) + offset, bytes);
    assert_int_equal(a->shadow[v->address - a->base + offset] & 1, 1);
    return word;
}

static void variables(void **state)
{
    (void)state;
    Module *m = load(HEAD ".global .align 4 .u32 x[4] = {1, -2, 0x10};\n"
                          ".const .align 8 .f64 y = 0d4004000000000000;\n"
                          ".global .align 8 .u64 at[2] = {x, generic(x)+8};\n"
                          ".global .align 8 .b8 bytes[10] = {0xFF(x), 0xFF00(x), 7};\n"
                          ".global .f32 z = 0f3F800000;\n.global .b8 text[] = {104, 105, 0};\n"
                          ".global .align 16 .v4 .f32 w;\n"
                          ".visible .entry k() { ret; }");
    const Variable *x = module_variable(m, "x");
    assert_int_equal(x->size, 16);
    assert_int_equal(word_of(x, 0, 4), 1);
    assert_int_equal(word_of(x, 4, 4), 0xfffffffe);
    assert_int_equal(word_of(x, 8, 4), 16);
    assert_int_equal(word_of(x, 12, 4), 0);
    assert_int_equal(word_of(module_variable(m, "y"), 0, 8), 0x4004000000000000);
    assert_int_equal(word_of(module_variable(m, "at"), 0, 8), x->address);
    assert_int_equal(word_of(module_variable(m, "at"), 8, 8), x->address + 8);
    assert_int_equal(word_of(module_variable(m, "bytes"), 0, 1), x->address & 255);
    assert_int_equal(word_of(module_variable(m, "bytes"), 1, 1), x->address >> 8 & 255);
    assert_int_equal(word_of(module_variable(m, "bytes"), 2, 1), 7);
    assert_int_equal(word_of(module_variable(m, "z"), 0, 4), 0x3f800000);
    assert_int_equal(module_variable(m, "text")->size, 3);
    assert_int_equal(word_of(module_variable(m, "text"), 1, 1), 'i');
    assert_int_equal(module_variable(m, "w")->size, 16);
    assert_int_equal(module_variable(m, "w")->address % 16, 0);
    module_unload(m);
}

static void shared_and_local(void **state)
{
    (void)state;
    Module *m = load(HEAD ".shared .align 4 .b8 unused[100];\n.shared .align 16 .b8 used[20];\n"
                          ".extern .shared .align 16 .b8 dynamic[];\n"
                          ".visible .entry k() {\n .local .align 16 .b8 depot[24];\n"
                          " .shared .align 4 .b8 own[8];\n .reg .b64 %rd<3>; .reg .b32 %r<2>;\n"
                          " mov.u64 %rd1, depot; mov.u64 %rd2, used; mov.u32 %r1, dynamic; ret; }");
    const Function *f = module_function(m, "k");
    assert_int_equal(f->local_bytes, 32);
    assert_int_equal(f->shared_bytes, 48); /* own 0..8, used 16..36, then dynamic on 16 */
    bool dynamic = false;
    for (int k = 0; k < f->nspecials; k++)
        dynamic |= f->specials[k].which == SPECIAL_EXTERN_SHARED;
    assert_true(dynamic);
    module_unload(m);
}

/* --- bodies ---------------------------------------------------------------------------------- */

/* Braces as inline assembly has them: registers and labels of the same names. */
static void scopes(void **state)
{
    (void)state;
    Module *m = load(HEAD ".visible .entry k() { .reg .pred %p<3>; .reg .b32 %r<4>;\n"
                          "mov.u32 %r1, 5;\n"
                          "{.reg .b32 %r1; .reg .pred %p1; mov.u32 %r1, 6;setp.eq.u32 %p1,%r1,6;\n"
                          "@%p1 bra done; mov.u32 %r2, %r1;\ndone:}\n"
                          "{.reg.b32 %r1;\nbra done;\ndone: mov.u32 %r3, %r1; }\n"
                          "mov.u32 %r2, %r1;\n@!%p1 bra done;\ndone: ret; }");
    const Inst *i = module_function(m, "k")->code;
    assert_int_not_equal(i[0].d, i[1].d); /* the inner %r1 is another one */
    assert_int_equal(i[3].kind, INST_BRANCH);
    assert_int_equal(i[3].target, 5); /* behind the inner mov */
    assert_int_equal(i[5].target, 6);
    assert_int_not_equal(i[6].a, i[0].d);
    assert_int_equal(i[7].a, i[0].d); /* and the outer one is back */
    assert_int_equal(i[8].target, 9);
    assert_true(i[8].guard_not);
    assert_int_not_equal(i[8].guard, i[3].guard);
    assert_true(i[9].leader && i[6].leader && i[5].leader);
    module_unload(m);
}

static void calls(void **state)
{
    (void)state;
    Module *m =
        load(HEAD ".func (.param .b32 out) twice(.param .b32 in)\n;\n"
                  ".func (.param .b32 out) twice(.param .b32 in)\n{ .reg .b32 %r<3>;\n"
                  "ld.param.b32 %r1, [in]; add.u32 %r2, %r1, %r1; st.param.b32 [out], %r2;\n"
                  "ret; }\n"
                  ".visible .entry k() { .reg .b32 %r<4>; mov.u32 %r1, 3;\n"
                  "{ // callseq\n.param .b32 p;\nst.param.b32 [p], %r1;\n.param .b32 q;\n"
                  "call.uni (q), twice, (p);\nld.param.b32 %r2, [q];\n}\n"
                  "add.u32 %r3, %r2, %r1; ret; }");
    const Function *f = module_function(m, "k");
    const Inst *i = f->code;
    assert_int_equal(m->nfunctions, 1);
    assert_int_equal(f->local_bytes, 16);
    assert_int_equal(i[1].space, SPACE_LOCAL);
    assert_int_equal(i[2].space, SPACE_LOCAL);
    assert_int_equal(i[2].imm, i[1].imm); /* what is stored is what the callee loads */
    assert_int_equal(i[4].imm, i[6].imm);
    assert_int_equal(i[5].kind, INST_BRANCH); /* ret goes behind the call */
    assert_int_equal(i[5].target, 6);
    assert_int_not_equal(i[2].d, i[0].d); /* the callee's %r1 is its own */
    module_unload(m);
}

/* Slots are shared by registers whose lives do not meet, and by no others. */
static void shared_slots(void **state)
{
    (void)state;
    Module *m =
        load(HEAD ".visible .entry k() { .reg .b32 %r<20>; .reg .b64 %d<4>; .reg .pred %p<3>;\n"
                  "mov.u32 %r1, %tid.x;\nadd.u32 %r2, %r1, 1;\nadd.u32 %r3, %r2, 2;\n"
                  "mov.u32 %r4, 0;\n"
                  "again: add.u32 %r5, %r3, %r4;\nmul.lo.u32 %r6, %r5, %r5;\n"
                  "add.u32 %r4, %r6, 1;\nsetp.lt.u32 %p1, %r4, 100;\n@%p1 bra again;\n"
                  "mov.u32 %r7, 5;\n@%p1 mov.u32 %r7, %r4;\nmul.wide.u32 %d1, %r7, %r7;\n"
                  "mov.u32 %r9, %r7;\n@%p1 mov.u32 %r8, 1;\nadd.u32 %r9, %r8, %r9;\nret; }");
    const Function *f = module_function(m, "k");
    const Inst *i = f->code;
    assert_int_equal(i[2].d, i[0].d);     /* %r1 is over where %r3 begins */
    assert_int_not_equal(i[1].d, i[1].a); /* but nothing overlaps its own source */
    for (int k = 4; k < 9; k++)           /* %r3 is read in each round of the loop */
        if (i[k].d != NO_SLOT && i[k].kind == INST_PLAIN && k != 7)
            assert_int_not_equal(i[k].d, i[2].d);
    assert_int_not_equal(i[5].d, i[3].d); /* as %r4 is */
    assert_int_equal(i[10].d, i[9].d);    /* under a guard the old value lives on */
    assert_int_not_equal(i[11].d, i[11].a);
    assert_int_not_equal(i[13].d,
                         i[12].d); /* %r8 lives from the beginning: some lanes never get it */
    for (int k = 0; k < 13; k++)
        assert_int_not_equal(i[k].d == i[13].d && i[k].kind == INST_PLAIN && k != 7, 1);
    assert_true(f->reg_bytes < 16 * 128);
    assert_true(f->nregisters < 20);
    module_unload(m);
}

/* Registers wider or narrower than the instruction get an instruction that converts. */
static void widths(void **state)
{
    (void)state;
    Module *m =
        load(HEAD ".visible .entry k(.param .u64 p) { .reg .b64 %rd<4>; .reg .b16 %rs<2>;\n"
                  ".shared .align 4 .b8 s[16]; .reg .b32 %r<3>;\n"
                  "ld.param.u64 %rd1, [p];\nld.global.s8 %rd2, [%rd1+-4];\n"
                  "st.global.u8 [%rd1], %rd2;\nmov.u32 %r1, s;\nld.shared.u32 %r2, [%r1+4];\n"
                  "ld.shared.u32 %r2, [s+8]; ret; }");
    const Inst *i = module_function(m, "k")->code;
    assert_int_equal(i[1].imm, -4);
    assert_int_equal(i[1].wide, 2);
    assert_int_equal(i[2].a, i[1].d);
    assert_int_equal(i[2].wide & 1, 1);
    assert_int_equal(i[4].b, i[3].d);
    assert_int_equal(i[6].wide, 0);
    assert_int_equal(i[6].imm, 4);
    assert_int_equal(i[7].wide, 2);
    assert_int_equal(i[7].imm, 8);
    module_unload(m);
}

static void locations(void **state)
{
    (void)state;
    Module *m =
        load(HEAD ".file 1 \"a.cu\"\n.file 3 \"b.tn\", 12, 34\n"
                  ".visible .entry k() { .reg .b32 %r<3>;\n.loc 1 7 0\nmov.u32 %r1, 1;\n"
                  ".loc 3 12 5, function_name $L__info0, inlined_at 1 9 2\nmov.u32 %r2,\n %r1;\n"
                  "ret; }\n.section .debug_str { $L__info0:\n.b8 1,2,3 }");
    const Inst *i = module_function(m, "k")->code;
    assert_string_equal(m->files[i[0].file], "a.cu");
    assert_int_equal(i[0].file_line, 7);
    assert_string_equal(m->files[i[1].file], "b.tn");
    assert_int_equal(i[1].file_line, 12);
    assert_int_equal(i[1].line, 10);
    assert_int_equal(i[1].ntext, strlen("mov.u32 %r2,\n %r1"));
    assert_memory_equal(i[1].text, "mov.u32 %r2,", 12);
    module_unload(m);
}

static uint64_t constant_at(const Function *f, uint32_t slot)
{
    for (int k = 0; k < f->nconstants; k++)
        if (f->constants[k].slot == slot)
            return f->constants[k].value;
    fail_msg("no constant is there");
    return 0;
}

/* What cooperative_groups.h reads: the address of memory that is the driver's, and 0 at first. */
static void workspace(void **state)
{
    (void)state;
    Module *m = load(HEAD ".visible .entry k() { .reg .b32 %r<3>; mov.u32 %r1, %envreg1;\n"
                          "mov.u32 %r2, %envreg2; ret; }");
    const Function *f = module_function(m, "k");
    uint64_t at = constant_at(f, f->code[0].a) << 32 | constant_at(f, f->code[1].a);
    const Alloc *a = memory_find(at);
    assert_non_null(a);
    for (int k = 0; k < 8; k++) {
        assert_int_equal(a->data[at - a->base + (uint64_t)k], 0);
        assert_int_equal(a->shadow[at - a->base + (uint64_t)k] & 1, 1);
    }
    module_unload(m);
}

static void branch_tables(void **state)
{
    (void)state;
    Module *m = load(HEAD ".visible .entry k() { .reg .b32 %r<3>; mov.u32 %r1, %tid.x;\n"
                          "table: .branchtargets one, two, one;\nbrx.idx %r1, table;\n"
                          "one: ret;\ntwo: ret; }");
    const Inst *i = module_function(m, "k")->code;
    assert_int_equal(i[1].kind, INST_BRANCH_INDEX);
    assert_int_equal(i[1].nlist, 3);
    assert_int_equal(i[1].list[0], 2);
    assert_int_equal(i[1].list[1], 3);
    assert_int_equal(i[1].list[2], 2);
    assert_true(i[3].leader);
    module_unload(m);
}

/* Whatever is not known fails when it is loaded, with its text and line. */
static void refusals(void **state)
{
    (void)state;
    refused("add.f33 %r1, %r2, %r3;", "PTX line 7: the virtual GPU does not know this instruction: "
                                      "'add.f33 %r1, %r2, %r3'");
    refused("add.cc.f32 %r1, %r2, %r3;", "does not know");
    refused("mul.wide.rn.s32 %d1, %r2, %r3;", "does not know");
    refused("fma.f16 %r1, %r2, %r3;", "number of operands");
    refused("add.s32 %r1, %r2;", "number of operands");
    refused("add.s64 %d1, %r2, %d3;", "32-bit register stands for 64 bits");
    refused("add.s32 %r1, %p1, %r2;", "another kind");
    refused("setp.lt.s32 %r1, %r2, %r3;", "no predicate");
    refused("add.s32 %r1, %r9, %r2;", "'%r9' is not known");
    refused("mov.u32 %r1, %envreg3;", "'%envreg3' is not known");
    refused("bra nowhere;", "the label 'nowhere' does not exist");
    refused("{ inner: bra inner; } bra inner;", "the label 'inner' does not exist");
    refused("add.s32 %r1, %r2, %r3", "PTX line");
    refused(".reg .b128 %q;", "'.b128'");
    refused("call nothing;", "not known");
    refused(".surfref x;", "'.surfref'");
    refused("mov.u32 %r1, {%r2, %p1};", "another kind");
    refused("ld.global.u32 %r1, %d1;", "address is missing");
    refused("wgmma.fence.sync.aligned;", "does not know");
    refused("mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32 {%r0,%r1,%r2,%r3}, "
            "{%r0,%r1,%r2,%r3}, {%r0,%r1}, {%r0,%r1,%r2,%r3};",
            "does not know");
    refused("@%r1 add.s32 %r1, %r2, %r3;", "predicate");
}

static void refused_modules(void **state)
{
    static const struct {
        const char *text, *why;
    } all[] = {
        {"", "begins with .version"},
        {"\x01", "a character"},
        {HEAD ".visible .entry k(.param .b13 x) { ret; }", "'.b13'"},
        {HEAD ".visible .entry k( { ret; }", "parameters"},
        {HEAD ".visible .entry k() { ret;", "the text ends"},
        {HEAD ".global .u32 x[1] = {1, 2};", "longer than its variable"},
        {HEAD ".global .u64 x = y;", "address of 'y'"},
        {HEAD ".extern .global .u32 x;", "another module"},
        {".version 9.0\n.target sm_80\n.address_size 32\n", "64-bit addresses"},
        {HEAD "nonsense", "'nonsense'"},
        {HEAD ".func f() { call f; ret; } .visible .entry k() { call f; ret; }", "recursive"}};
    (void)state;
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        const char *why = "";
        if (module_load(device_get(0), all[k].text, strlen(all[k].text), &why))
            fail_msg("accepted: %s", all[k].text);
        if (!strstr(why, all[k].why))
            fail_msg("'%s' does not say '%s'", why, all[k].why);
    }
}

/* --- mma: fragments from matrices by the manual's formulas, products in double --------------- */

typedef struct {
    const char *op;
    int m, k, bits, na, nb, nc;
    char element; /* f16 h, bf16 b, tf32 t, s8 s, u8 u, f64 d */
    char sum;     /* f32 f, f16 h, s32 i, f64 d */
} Shape;

/* Small integers: every product and sum is exact in all of the types. */
static int entry(int row, int column, int salt)
{
    return (row * 7 + column * 3 + salt) % 9 - (salt & 3);
}

static uint64_t encode(char element, int v)
{
    float f = (float)v;
    switch (element) {
    case 'h': {
        _Float16 h = (_Float16)f;
        uint16_t bits;
        memcpy(&bits, &h, sizeof bits);
        return bits;
    }
    case 'b':
        return test_bits_f32(f) >> 16;
    case 't':
    case 'f':
        return test_bits_f32(f);
    case 'd':
        return test_bits_f64(v);
    case 'i':
        return (uint32_t)v;
    default:
        return (uint8_t)v;
    }
}

/* Register r of A or B in lane l, from its elements along k. */
static uint64_t fragment(const Shape *s, bool is_a, int r, int l)
{
    const int per = s->bits == 64 ? 1 : 32 / s->bits, rows = is_a && s->m == 16 ? 2 : 1;
    uint64_t v = 0;
    for (int e = 0; e < per; e++) {
        int k = r / rows * 4 * per + l % 4 * per + e, row = l / 4 + r % rows * 8;
        v |= encode(s->element, is_a ? entry(row, k, 1) : entry(k, row, 2)) << (e * s->bits);
    }
    return v;
}

static int product(const Shape *s, int row, int column)
{
    int sum = entry(row, column, 3);
    for (int k = 0; k < s->k; k++)
        sum += entry(row, k, 1) * entry(k, column, 2);
    return sum;
}

static uint64_t sum_fragment(const Shape *s, int r, int l, bool result)
{
    int row = l / 4 + 8 * (s->sum == 'h' ? r : r / 2), column = l % 4 * 2;
    if (s->sum == 'h')
        return encode('h', result ? product(s, row, column) : entry(row, column, 3)) |
               encode('h', result ? product(s, row, column + 1) : entry(row, column + 1, 3)) << 16;
    column += r % 2;
    return encode(s->sum, result ? product(s, row, column) : entry(row, column, 3));
}

static void put_lane(Warp *w, uint32_t slot, bool wide, int l, uint64_t v)
{
    memcpy(w->regs + slot + l * (wide ? 8 : 4), &v, wide ? 8 : 4);
}

static void run_mma(const Shape *s)
{
    char text[1024], *to = text;
    const int counts[] = {s->nc, s->na, s->nb, s->nc};
    const bool wide = s->bits == 64;
    to +=
        sprintf(to, HEAD ".visible .entry k() { .reg .b32 %%r<40>; .reg .b64 %%d<40>;\n%s ", s->op);
    for (int o = 0, n = 0; o < 4; o++) {
        to += sprintf(to, "%s{", o ? ", " : "");
        for (int r = 0; r < counts[o]; r++)
            to += sprintf(to, "%s%%%c%d", r ? ", " : "", wide ? 'd' : 'r', n++);
        to += sprintf(to, "}");
    }
    sprintf(to, "; ret; }");
    Module *m = load(text);
    const Function *f = module_function(m, "k");
    const Inst *i = f->code;
    Warp w = {.regs = aligned_alloc(64, (f->reg_bytes + 63u) & ~63u)};
    assert_int_equal(i->kind, INST_WARP);
    for (int l = 0; l < LANES; l++) {
        const uint32_t *slot = i->list + s->nc;
        for (int r = 0; r < s->na; r++)
            put_lane(&w, *slot++, wide, l, fragment(s, true, r, l));
        for (int r = 0; r < s->nb; r++)
            put_lane(&w, *slot++, wide, l, fragment(s, false, r, l));
        for (int r = 0; r < s->nc; r++)
            put_lane(&w, *slot++, wide, l, sum_fragment(s, r, l, false));
    }
    i->exec(&w, i, ALL_LANES);
    for (int l = 0; l < LANES; l++)
        for (int r = 0; r < s->nc; r++) {
            uint64_t got = 0, want = sum_fragment(s, r, l, true);
            memcpy(&got, w.regs + i->list[r] + l * (wide ? 8 : 4), wide ? 8 : 4);
            if (got != want)
                fail_msg("%s, lane %d, register %d: 0x%llx, not 0x%llx", s->op, l, r,
                         (unsigned long long)got, (unsigned long long)want);
        }
    free(w.regs);
    module_unload(m);
}

#define MMA(shape, types) "mma.sync.aligned." shape ".row.col." types
static void mma_shapes(void **state)
{
    static const Shape shapes[] = {
        {MMA("m16n8k16", "f32.f16.f16.f32"), 16, 16, 16, 4, 2, 4, 'h', 'f'},
        {MMA("m16n8k16", "f32.bf16.bf16.f32"), 16, 16, 16, 4, 2, 4, 'b', 'f'},
        {MMA("m16n8k16", "f16.f16.f16.f16"), 16, 16, 16, 4, 2, 2, 'h', 'h'},
        {MMA("m16n8k8", "f32.f16.f16.f32"), 16, 8, 16, 2, 1, 4, 'h', 'f'},
        {MMA("m16n8k8", "f32.bf16.bf16.f32"), 16, 8, 16, 2, 1, 4, 'b', 'f'},
        {MMA("m16n8k8", "f32.tf32.tf32.f32"), 16, 8, 32, 4, 2, 4, 't', 'f'},
        {MMA("m16n8k4", "f32.tf32.tf32.f32"), 16, 4, 32, 2, 1, 4, 't', 'f'},
        {MMA("m16n8k32", "s32.s8.s8.s32"), 16, 32, 8, 4, 2, 4, 's', 'i'},
        {MMA("m16n8k16", "s32.s8.s8.s32"), 16, 16, 8, 2, 1, 4, 's', 'i'},
        {MMA("m8n8k16", "s32.s8.s8.s32"), 8, 16, 8, 1, 1, 2, 's', 'i'},
        {MMA("m8n8k4", "f64.f64.f64.f64"), 8, 4, 64, 1, 1, 2, 'd', 'd'},
        {MMA("m16n8k8", "f64.f64.f64.f64"), 16, 8, 64, 4, 2, 4, 'd', 'd'}};
    (void)state;
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
        run_mma(&shapes[k]);
}

int test_modules(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters),
        cmocka_unit_test(variables),
        cmocka_unit_test(shared_and_local),
        cmocka_unit_test(scopes),
        cmocka_unit_test(calls),
        cmocka_unit_test(shared_slots),
        cmocka_unit_test(widths),
        cmocka_unit_test(locations),
        cmocka_unit_test(branch_tables),
        cmocka_unit_test(workspace),
        cmocka_unit_test(refusals),
        cmocka_unit_test(refused_modules),
        cmocka_unit_test(mma_shapes),
    };
    return cmocka_run_group_tests_name("modules", tests, NULL, NULL);
}
