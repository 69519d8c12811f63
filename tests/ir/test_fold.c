/* test_fold.c: random programs, built once with folding and once as asked for, must evaluate to the
 * same numbers; their text must read back. SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ir/eval.h"

enum { VALUES = 40, PROGRAMS = 1000 };

typedef struct {
    uint64_t rng;
    Ctx *cx;
    Program *p;
    Builder folded, plain;
    Val f[VALUES], p_[VALUES]; /* the same value in both graphs */
    uint32_t n;
    Symbol B;
} Random;

static uint32_t rnd(Random *r, uint32_t n)
{
    r->rng = r->rng * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(r->rng >> 33) % n;
}

static const TypeInfo *info(const Random *r, uint32_t k)
{
    return val_info(r->p, r->folded.g, r->f[k]);
}

/* Adds the op to both graphs if the rules allow it. */
static void add(Random *r, Op op, const uint32_t *in, uint32_t nin, const Attr *attrs)
{
    Val a[4], b[4];
    for (uint32_t i = 0; i < nin; i++) {
        a[i] = r->f[in[i]];
        b[i] = r->p_[in[i]];
    }
    if (r->n == VALUES || infer_check(&r->folded, op, a, nin, attrs))
        return;
    r->f[r->n] = build(&r->folded, op, a, nin, attrs);
    r->p_[r->n] = build(&r->plain, op, b, nin, attrs);
    assert_string_equal(type_text(r->p, r->cx->scratch, val_type(r->folded.g, r->f[r->n])),
                        type_text(r->p, r->cx->scratch, val_type(r->plain.g, r->p_[r->n])));
    r->n++;
}

static void add_pointwise(Random *r)
{
    static const Op ops[] = {OP_add, OP_sub, OP_mul,  OP_div,    OP_neg,   OP_abs,   OP_max,
                             OP_min, OP_pow, OP_lt,   OP_eq,     OP_not,   OP_where, OP_and,
                             OP_or,  OP_exp, OP_relu, OP_square, OP_floor, OP_xor};
    const Op op = ops[rnd(r, sizeof ops / sizeof *ops)];
    uint32_t in[3];
    for (int i = 0; i < 3; i++)
        in[i] = rnd(r, r->n);
    add(r, op, in, (uint32_t)op_info(op)->nmax, NULL);
}

static Dim size(Random *r, int64_t c)
{
    return dim_const(r->cx->dims, c);
}

static void add_const(Random *r)
{
    static const double values[] = {0, 1, -1, 2, 0.5, 5, -0.0, INFINITY};
    static const DType types[] = {DT_f32, DT_f32, DT_i32, DT_bool, DT_bf16};
    const DType t = types[rnd(r, 5)];
    const double v = values[rnd(r, dtype_is_float(t) ? 8 : 6)];
    if (r->n == VALUES)
        return;
    r->f[r->n] = build_const(&r->folded, t, v);
    r->p_[r->n++] = build_const(&r->plain, t, v);
}

/* A random slice, pad, transpose, ... of value x. */
static void add_view(Random *r)
{
    uint32_t in[4] = {rnd(r, r->n)};
    const TypeInfo t = *info(r, in[0]);
    int64_t a[MAX_RANK], b[MAX_RANK], c[MAX_RANK];
    Attr attrs[3] = {{a, t.rank}, {b, t.rank}, {c, t.rank}};
    switch (rnd(r, 7)) {
    case 0:
        for (uint32_t i = 0; i < t.rank; i++)
            a[i] = t.rank - 1 - i;
        add(r, OP_transpose, in, 1, attrs);
        return;
    case 1: /* slice */
        for (uint32_t i = 0; i < t.rank; i++) {
            int64_t n = 1;
            const bool known = dim_is_const(r->cx->dims, t.shape[i], &n) && n > 1;
            const int64_t start = known ? rnd(r, (uint32_t)n) : 0;
            const bool back = known && rnd(r, 4) == 0;
            a[i] = size(r, start).id;
            b[i] = back ? -1 : 1;
            c[i] = !known ? (int64_t)t.shape[i].id
                          : size(r, 1 + rnd(r, (uint32_t)(back ? start + 1 : n - start))).id;
        }
        add(r, OP_slice, in, 1, attrs);
        return;
    case 2: /* pad by a constant */
        in[1] = rnd(r, r->n);
        for (uint32_t i = 0; i < t.rank; i++) {
            const bool here = rnd(r, 2);
            a[i] = size(r, here ? rnd(r, 3) : 0).id;
            b[i] = size(r, here ? rnd(r, 3) : 0).id;
            c[i] = rnd(r, 6) == 0;
        }
        add(r, OP_pad, in, 2, attrs);
        return;
    case 3:
        for (int i = 1; i < 4; i++)
            in[i] = rnd(r, 3) ? in[0] : rnd(r, r->n);
        a[0] = rnd(r, t.rank + 1u);
        attrs[0].n = 1;
        add(r, OP_concat, in, 1 + rnd(r, 4), attrs);
        return;
    case 4: { /* an axis of size 1, or all axes as one */
        const uint32_t at = rnd(r, t.rank + 1u), flat = rnd(r, 3) == 0;
        uint32_t n = 0;
        for (uint32_t i = 0; i <= t.rank; i++) {
            if (i == at)
                a[n++] = size(r, 1).id;
            if (i < t.rank)
                a[n++] = t.shape[i].id;
        }
        if (flat)
            a[0] = dim_product(r->cx->dims, t.shape, t.rank).id;
        attrs[0].n = flat ? 1 : n;
        if (t.rank < 4)
            add(r, OP_reshape, in, 1, attrs);
        return;
    }
    case 5: { /* broadcast to one more axis */
        const uint32_t at = rnd(r, t.rank + 1u);
        for (uint32_t i = 0; i <= t.rank; i++)
            a[i] = i == at ? (int64_t)size(r, 2).id : (int64_t)t.shape[i - (i > at)].id;
        for (uint32_t i = 0; i < t.rank; i++)
            b[i] = i + (i >= at);
        attrs[0].n = t.rank + 1u;
        if (t.rank < 4)
            add(r, OP_broadcast, in, 1, attrs);
        return;
    }
    default:
        a[0] = (int64_t[]){DT_f32, DT_f64, DT_i32, DT_bool, DT_bf16}[rnd(r, 5)];
        attrs[0].n = 1;
        add(r, OP_cast, in, 1, attrs);
    }
}

static void add_reduce(Random *r)
{
    const uint32_t in[1] = {rnd(r, r->n)};
    const int64_t kinds[] = {RED_add, RED_max, RED_mul, RED_and};
    const int64_t kind = kinds[rnd(r, 4)];
    int64_t axes[2] = {rnd(r, 3), 0};
    axes[1] = axes[0] + 1;
    const Attr attrs[2] = {{&kind, 1}, {axes, rnd(r, 3)}};
    add(r, OP_reduce, in, 1, attrs);
}

static Random make(uint64_t seed)
{
    Random r = {.rng = seed * 7919 + 1, .cx = ctx_create()};
    r.p = program_create(r.cx, sym_of(r.cx->names, "m"));
    r.B = dim_new_symbol(r.cx->dims, SYM_SIZE, sym_of(r.cx->names, "B"), (Dim){0});
    const Dim B = dim_of(r.cx->dims, r.B);
    r.folded = builder_for(r.p, program_add_graph(r.p, sym_of(r.cx->names, "f"), GRAPH_METHOD));
    r.plain = builder_for(r.p, program_add_graph(r.p, sym_of(r.cx->names, "p"), GRAPH_METHOD));
    r.plain.no_fold = true;
    const Dim shapes[3][2] = {{B, size(&r, 4)}, {B, size(&r, 4)}, {size(&r, 4), size(&r, 3)}};
    for (int i = 0; i < 4; i++) {
        const Sym name = sym_of(r.cx->names, (const char *[]){"x", "y", "z", "k"}[i]);
        const Ty t = type_of(r.p, i == 3 ? DT_i32 : DT_f32, shapes[i == 3 ? 0 : i], 2, PLACE_D0);
        r.f[r.n] = build_input(&r.folded, name, t);
        r.p_[r.n++] = build_input(&r.plain, name, t);
    }
    while (r.n < 10)
        add_const(&r);
    for (int tries = 0; tries < 400 && r.n < VALUES; tries++) {
        const uint32_t what = rnd(&r, 10);
        if (what < 5)
            add_pointwise(&r);
        else if (what < 9)
            add_view(&r);
        else
            add_reduce(&r);
    }
    for (uint32_t i = 0; i < r.n; i++) {
        graph_result(r.p, r.folded.g, (Sym){0}, r.f[i], (Span){0});
        graph_result(r.p, r.plain.g, (Sym){0}, r.p_[i], (Span){0});
    }
    return r;
}

static void inputs(Random *r, const int64_t *sizes, EvalTensor x[4])
{
    static const double special[] = {0, 1, -1, 0.5, 2, -0.75};
    for (uint32_t i = 0; i < 4; i++) {
        x[i] = eval_of_type(r->cx->perm, r->p, val_type(r->folded.g, r->f[i]), sizes);
        for (int64_t k = 0; k < x[i].n; k++)
            if (i == 3)
                x[i].at[k].i = (int64_t)rnd(r, 7) - 3;
            else
                x[i].at[k].f = special[rnd(r, 6)];
    }
}

static bool equal(DType t, ScalarValue a, ScalarValue b)
{
    if (!dtype_is_float(t))
        return a.i == b.i;
    return a.f == b.f || (isnan(a.f) && isnan(b.f)); /* a sum of pads may lose the sign of a 0 */
}

/* Behind a pad sum, 1 / -0 may differ from 1 / 0; all else must agree. */
static void compare(Random *r, const EvalTensor *a, const EvalTensor *b, int program, uint32_t i)
{
    assert_int_equal(a->n, b->n);
    for (int64_t k = 0; k < a->n; k++)
        if (!equal(a->dtype, a->at[k], b->at[k])) {
            StrBuf out = {.a = r->cx->perm};
            tensor_print(r->p, &out);
            fputs(sb_text(&out), stderr);
            fail_msg("program %d, value %u, element %lld: %g folded, %g plain", program, i,
                     (long long)k, eval_at(a, k), eval_at(b, k));
        }
}

static void test_folding(void **state)
{
    (void)state;
    uint32_t nodes[2] = {0};
    for (int program = 0; program < PROGRAMS; program++) {
        Random r = make((uint64_t)program);
        const char *error = tensor_verify(r.p, r.folded.g, false);
        error = error ? error : tensor_verify(r.p, r.plain.g, false);
        if (error)
            fail_msg("program %d: %s", program, error);
        const int64_t sizes[2] = {0, 3};
        EvalTensor x[4];
        inputs(&r, sizes, x);
        Eval e = {.a = r.cx->perm, .p = r.p, .sizes = sizes, .inputs = x}, f = e;
        assert_null(eval_graph(&e, r.folded.g));
        assert_null(eval_graph(&f, r.plain.g));
        for (uint32_t i = 0; i < r.n; i++)
            compare(&r, &e.results[i], &f.results[i], program, i);
        nodes[0] += r.folded.g->nodes.n;
        nodes[1] += r.plain.g->nodes.n;
        ctx_destroy(r.cx);
    }
    assert_true(nodes[0] < nodes[1]);
}

static void test_text(void **state)
{
    (void)state;
    for (int program = 0; program < PROGRAMS / 4; program++) {
        Random r = make((uint64_t)program);
        StrBuf out = {.a = r.cx->perm}, again = {.a = r.cx->perm};
        tensor_print(r.p, &out);
        Ctx *cx = ctx_create();
        Program *p = tensor_parse(cx, source_add(cx->sources, "t", sb_text(&out), out.n, false));
        if (!p)
            fail_msg("program %d does not read back\n%s", program, sb_text(&out));
        tensor_print(p, &again);
        assert_string_equal(sb_text(&again), sb_text(&out));
        ctx_destroy(cx);
        ctx_destroy(r.cx);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_folding), cmocka_unit_test(test_text)};
    return cmocka_run_group_tests_name("fold", tests, NULL, NULL);
}
