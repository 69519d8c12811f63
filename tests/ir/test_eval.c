/* test_eval.c: the reference evaluator: rows of the op table against libm, structural ops against
 * numbers worked out by hand, random numbers against known words, and each row's gradient column
 * against central differences. SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <string.h>

#include "ir/eval.h"
#include "ir/scalar.h"

/* --- rows ------------------------------------------------------------------------------------- */

static double row(Op op, DType t, double a, double b, double c)
{
    const bool is_float = dtype_is_float(t);
    ScalarValue x[3];
    const double v[3] = {a, b, c};
    for (int i = 0; i < 3; i++)
        x[i] = is_float && !(op == OP_where && i == 0) ? (ScalarValue){.f = v[i]}
                                                       : (ScalarValue){.i = (int64_t)v[i]};
    const ScalarValue r = eval_row(op, t, x);
    return op_info(op)->result == RES_BOOL || !is_float ? (double)r.i : r.f;
}

static void test_functions(void **state)
{
    (void)state;
    static const struct {
        Op op;
        double (*f)(double);
    } cases[] = {{OP_exp, exp},   {OP_exp2, exp2},   {OP_expm1, expm1}, {OP_log, log},
                 {OP_log2, log2}, {OP_log10, log10}, {OP_log1p, log1p}, {OP_sqrt, sqrt},
                 {OP_sin, sin},   {OP_cos, cos},     {OP_tan, tan},     {OP_asin, asin},
                 {OP_acos, acos}, {OP_atan, atan},   {OP_sinh, sinh},   {OP_cosh, cosh},
                 {OP_tanh, tanh}, {OP_erf, erf},     {OP_erfc, erfc},   {OP_floor, floor},
                 {OP_ceil, ceil}, {OP_round, rint},  {OP_trunc, trunc}, {OP_abs, fabs}};
    static const double points[] = {0.3, -0.7, 0.0, 1.5, -2.5, 12.0, 1e-8, -0.0, INFINITY};
    static const DType types[] = {DT_f64, DT_f32, DT_bf16, DT_f16};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t k = 0; k < sizeof points / sizeof *points; k++)
            for (size_t t = 0; t < 4; t++) {
                const double x = dtype_round(types[t], points[k]);
                const double want = dtype_round(types[t], cases[i].f(x));
                const double got = row(cases[i].op, types[t], x, 0, 0);
                if (!(got == want || (isnan(got) && isnan(want))))
                    fail_msg("%s(%g) is %g, not %g", op_name(cases[i].op), x, got, want);
            }
}

static void test_rows(void **state)
{
    (void)state;
    static const struct {
        Op op;
        DType t;
        double a, b, c, want;
    } cases[] = {
        {OP_add, DT_i8, 127, 1, 0, -128},
        {OP_add, DT_u8, 255, 1, 0, 0},
        {OP_mul, DT_i32, 65536, 65536, 0, 0},
        {OP_sub, DT_i32, -2147483648.0, 1, 0, 2147483647},
        {OP_neg, DT_i8, -128, 0, 0, -128},
        {OP_abs, DT_i32, -5, 0, 0, 5},
        {OP_floordiv, DT_i32, -7, 2, 0, -4},
        {OP_floordiv, DT_i32, 7, 0, 0, 0},
        {OP_floordiv, DT_f64, -7, 2, 0, -4},
        {OP_mod, DT_i32, -7, 3, 0, 2},
        {OP_mod, DT_i32, 7, 0, 0, 0},
        {OP_mod, DT_f64, -7, 3, 0, 2},
        {OP_mod, DT_f64, 7, -3, 0, -2},
        {OP_shl, DT_i32, 1, 31, 0, -2147483648.0},
        {OP_shl, DT_i32, 1, 32, 0, 0},
        {OP_shr, DT_i32, -8, 1, 0, -4},
        {OP_not, DT_bool, 1, 0, 0, 0},
        {OP_not, DT_i32, 5, 0, 0, -6},
        {OP_not, DT_u8, 5, 0, 0, 250},
        {OP_and, DT_i32, 6, 3, 0, 2},
        {OP_xor, DT_bool, 1, 1, 0, 0},
        {OP_max, DT_f64, NAN, 1, 0, NAN},
        {OP_max, DT_f64, 1, NAN, 0, NAN},
        {OP_min, DT_f32, 2, 1, 0, 1},
        {OP_clamp, DT_f64, 5, 0, 3, 3},
        {OP_clamp, DT_f64, -5, 0, 3, 0},
        {OP_clamp, DT_f64, NAN, 0, 3, NAN},
        {OP_clamp, DT_i32, 7, 0, 3, 3},
        {OP_relu, DT_f64, NAN, 0, 0, NAN},
        {OP_relu, DT_f64, -3, 0, 0, 0},
        {OP_sign, DT_f64, -3, 0, 0, -1},
        {OP_where, DT_f64, 1, 4, 5, 4},
        {OP_where, DT_i32, 0, 4, 5, 5},
        {OP_lt, DT_f64, 1, 2, 0, 1},
        {OP_ne, DT_f64, NAN, NAN, 0, 1},
        {OP_isnan, DT_f32, NAN, 0, 0, 1},
        {OP_isinf, DT_f32, -INFINITY, 0, 0, 1},
        {OP_isfinite, DT_f64, 1e300, 0, 0, 1},
        {OP_div, DT_f32, 1, 3, 0, (double)(1.0f / 3.0f)},
        {OP_add, DT_bf16, 256, 1, 0, 256},
        {OP_add, DT_f16, 65504, 16, 0, INFINITY},
        {OP_fma, DT_f64, 2, 3, 4, 10},
        {OP_pow, DT_f64, 2, 10, 0, 1024},
        {OP_atan2, DT_f64, 1, -1, 0, 2.3561944901923448},
        {OP_rsqrt, DT_f64, 4, 0, 0, 0.5},
        {OP_sigmoid, DT_f64, 0, 0, 0, 0.5},
        {OP_square, DT_i32, -3, 0, 0, 9},
        {OP_reciprocal, DT_f64, 8, 0, 0, 0.125},
        {OP_detach, DT_bool, 1, 0, 0, 1},
        {OP_lt, DT_u64, -1, 1, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const double got = row(cases[i].op, cases[i].t, cases[i].a, cases[i].b, cases[i].c);
        if (!(got == cases[i].want || (isnan(got) && isnan(cases[i].want))))
            fail_msg("case %zu: %s %s gives %g, not %g", i, op_name(cases[i].op),
                     dtype_name(cases[i].t), got, cases[i].want);
    }
}

static void test_conversions(void **state)
{
    (void)state;
    static const struct {
        DType from, to;
        double x, want;
    } cases[] = {
        {DT_f32, DT_i32, 2.9, 2},
        {DT_f32, DT_i32, -2.9, -2},
        {DT_f64, DT_i32, 1e20, 2147483647},
        {DT_f64, DT_i8, -1e20, -128},
        {DT_f64, DT_u8, -3, 0},
        {DT_f64, DT_i64, NAN, 0},
        {DT_i32, DT_i8, 300, 44},
        {DT_i32, DT_bool, 4, 1},
        {DT_f32, DT_bool, 0.5, 1},
        {DT_bool, DT_f32, 1, 1},
        {DT_f64, DT_f16, 1e6, INFINITY},
        {DT_f64, DT_bf16, 1.00390625, 1},
        {DT_f64, DT_f16, 0x1p-25, 0},
        {DT_f64, DT_f16, 0x1.8p-25, 0x1p-24},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const ScalarValue x = dtype_is_float(cases[i].from)
                                  ? (ScalarValue){.f = cases[i].x}
                                  : (ScalarValue){.i = (int64_t)cases[i].x};
        const double got = eval_as_double(cases[i].to, eval_cast(cases[i].from, cases[i].to, x));
        if (got != cases[i].want)
            fail_msg("case %zu gives %g, not %g", i, got, cases[i].want);
    }
    static const double values[] = {1, -2.5, 0x1p-24, 65504, INFINITY, -0.0, 0.333251953125};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        for (int t = DT_f64; t <= DT_f16; t++) {
            const ScalarValue x = {.f = dtype_round((DType)t, values[i])};
            const ScalarValue y = eval_from_bits((DType)t, eval_to_bits((DType)t, x));
            assert_memory_equal(&x, &y, sizeof x);
        }
    assert_int_equal(eval_to_bits(DT_f16, (ScalarValue){.f = 1}), 0x3c00);
    assert_int_equal(eval_to_bits(DT_bf16, (ScalarValue){.f = -2}), 0xc000);
}

/* --- gradients -------------------------------------------------------------------------------- */

#define NO_GRADIENT    -1.25e300
#define NONE           NO_GRADIENT
#define K(v)           (v)
#define ADD(x, y)      ((x) + (y))
#define SUB(x, y)      ((x) - (y))
#define MUL(x, y)      ((x) * (y))
#define DIV(x, y)      ((x) / (y))
#define NEG(x)         (-(x))
#define MASK(cond, x)  ((cond) != 0 ? (x) : 0)
#define EQ(x, y)       ((x) == (y))
#define NE(x, y)       ((x) != (y))
#define LT(x, y)       ((x) < (y))
#define GT(x, y)       ((x) > (y))
#define LE(x, y)       ((x) <= (y))
#define GE(x, y)       ((x) >= (y))
#define AND(x, y)      ((x) && (y))
#define OR(x, y)       ((x) || (y))
#define NOT(x)         ((x) == 0)
#define SIGN(x)        (((x) > 0) - ((x) < 0))
#define FLOORDIV(x, y) floor((x) / (y))
#define EXP            exp
#define LOG            log
#define SQRT           sqrt
#define SIN            sin
#define COS            cos
#define SINH           sinh
#define COSH           cosh
#define POW            pow

/* The gradient columns as they stand in the table; y is the result, dy the cotangent. */
static void gradients(Op op, double a, double b, double c, double y, double dy, double out[3])
{
    (void)a, (void)b, (void)c, (void)y, (void)dy;
    switch (op) {
#define POINTWISE(n, arity, dom, res, w, expr, ga, gb, gc, doc)                                    \
    case OP_##n:                                                                                   \
        out[0] = ga;                                                                               \
        out[1] = gb;                                                                               \
        out[2] = gc;                                                                               \
        break;
#define STRUCTURAL(n, least, most, ...)
#include "ir/ops.def"
#undef POINTWISE
#undef STRUCTURAL
    default:
        out[0] = out[1] = out[2] = NO_GRADIENT;
    }
}

static void test_gradients(void **state)
{
    (void)state;
    static const double points[] = {0.37, -0.61, 1.83, -2.29, 0.11};
    int compared = 0;
    for (int op = 1; op < OP_COUNT; op++) {
        if (!op_is_pointwise((Op)op) || op_info((Op)op)->result == RES_BOOL ||
            op_info((Op)op)->domain == DOM_BITS)
            continue;
        int of_op = 0;
        bool any = false;
        for (int p = 0; p < 125; p++) {
            double x[3] = {points[p % 5], points[p / 5 % 5] * 1.07, points[p / 25] * 1.13};
            if (op == OP_where)
                x[0] = p & 1;
            if (op == OP_clamp && x[1] > x[2])
                continue;
            const double dy = 0.75, y = row((Op)op, DT_f64, x[0], x[1], x[2]);
            double g[3];
            gradients((Op)op, x[0], x[1], x[2], y, dy, g);
            for (int i = 0; i < op_info((Op)op)->nmax; i++) {
                if (g[i] == NO_GRADIENT)
                    continue;
                any = true;
                const double h = 1e-6;
                double lo[3] = {x[0], x[1], x[2]}, hi[3] = {x[0], x[1], x[2]};
                lo[i] -= h;
                hi[i] += h;
                const double fl = row((Op)op, DT_f64, lo[0], lo[1], lo[2]);
                const double fh = row((Op)op, DT_f64, hi[0], hi[1], hi[2]);
                const double want = dy * (fh - fl) / (2 * h);
                if (!isfinite(want))
                    continue; /* outside the domain */
                if (!(fabs(g[i] - want) <= 1e-6 * (1 + fabs(want))))
                    fail_msg("%s(%g, %g, %g): gradient %d is %.9g, differences give %.9g",
                             op_name((Op)op), x[0], x[1], x[2], i, g[i], want);
                of_op++;
            }
        }
        if (any && of_op < 3)
            fail_msg("%s was hardly compared", op_name((Op)op));
        compared += of_op;
    }
    assert_true(compared > 1000);
}

/* What the documentation says about kinks. */
static void test_kinks(void **state)
{
    (void)state;
    static const struct {
        Op op;
        double a, b, c, ga, gb;
    } cases[] = {
        {OP_max, 2, 2, 0, 0.5, 0.5},
        {OP_min, 2, 2, 0, 0.5, 0.5},
        {OP_relu, 0, 0, 0, 0, 0},
        {OP_abs, 0, 0, 0, 0, 0},
        {OP_sqrt, 0, 0, 0, 0, 0},
        {OP_clamp, 1, 1, 2, 1, 0},
        {OP_clamp, 2, 1, 2, 1, 0},
        {OP_clamp, 3, 1, 2, 0, 0},
        {OP_pow, 0, 0, 0, 0, 0},
        {OP_pow, 0, 2, 0, 0, 0},
        {OP_pow, 3, 1, 0, 1, 3.295836866004329},
        {OP_pow, 0, 1, 0, 1, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double g[3];
        const double y = row(cases[i].op, DT_f64, cases[i].a, cases[i].b, cases[i].c);
        gradients(cases[i].op, cases[i].a, cases[i].b, cases[i].c, y, 1, g);
        if (fabs(g[0] - cases[i].ga) > 1e-12 ||
            (g[1] != NO_GRADIENT && !(fabs(g[1] - cases[i].gb) < 1e-12)))
            fail_msg("case %zu: %s: gradients %g, %g", i, op_name(cases[i].op), g[0], g[1]);
    }
}

/* --- graphs ----------------------------------------------------------------------------------- */

/* Evaluates the first graph of a program that has one size B = 3 and no parameters. */
static EvalTensor *evaluate(Ctx *cx, const char *body, Eval *e)
{
    const char *text = arena_printf(cx->perm,
                                    "tenon-ir 1\nprogram m\ndim B\nslot s buffer f32[2]\n"
                                    "graph @f method () {\n%s\n}\n",
                                    body);
    Program *p = tensor_parse(cx, source_add(cx->sources, "t", text, strlen(text), false));
    if (!p) {
        StrBuf out = {.a = cx->perm};
        diag_render(cx->diags, (DiagStyle){0}, &out);
        fail_msg("%s", sb_text(&out));
    }
    assert_null(tensor_verify(p, p->graphs.at[0], false));
    int64_t *sizes = arena_array(cx->perm, int64_t, 2);
    sizes[1] = 3;
    e->a = cx->perm;
    e->p = p;
    e->sizes = sizes;
    if (!e->slots)
        e->slots = arena_array(cx->perm, EvalTensor, 2);
    if (!e->slots[1].at)
        e->slots[1] = eval_tensor(cx->perm, DT_f32, (const int64_t[]){2}, 1);
    const char *error = eval_graph(e, p->graphs.at[0]);
    if (error)
        fail_msg("%s", error);
    return e->results;
}

static void expect(const char *body, const double *want, int64_t n)
{
    Ctx *cx = ctx_create();
    Eval e = {0};
    const EvalTensor *r = evaluate(cx, body, &e);
    if (r->n != n)
        fail_msg("%s\nhas %lld elements", body, (long long)r->n);
    for (int64_t k = 0; k < n; k++)
        if (!(fabs(eval_at(r, k) - want[k]) <= 1e-6 * (1 + fabs(want[k]))))
            fail_msg("%s\nelement %lld is %g, not %g", body, (long long)k, eval_at(r, k), want[k]);
    ctx_destroy(cx);
}
#define EXPECT(body, ...)                                                                          \
    expect(body, (const double[]){__VA_ARGS__},                                                    \
           (int64_t)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double)))

/* %x: f32[2, 3] = 0 1 2 / 10 11 12 */
#define X                                                                                          \
    "%r = iota {axis=0} : i32[2, 3]\n%c = iota {axis=1} : i32[2, 3]\n%ten = const {value=10} : "   \
    "i32[]\n%m = mul %r, %ten : i32[2, 3]\n%a = add %m, %c : i32[2, 3]\n"                          \
    "%x = cast %a : f32[2, 3]\n%zero = const {value=0} : f32[]\n"

static void test_views(void **state)
{
    (void)state;
    EXPECT(X "%y = transpose %x {perm=[1, 0]} : f32[3, 2]\nreturn %y", 0, 10, 1, 11, 2, 12);
    EXPECT(X "%y = reshape %x : f32[3, 2]\nreturn %y", 0, 1, 2, 10, 11, 12);
    EXPECT(X "%y = slice %x {start=[1, 2], step=[1, -2]} : f32[1, 2]\nreturn %y", 12, 10);
    EXPECT(X "%p = pad %x, %zero {lo=[0, 1], hi=[1, 0], interior=[0, 1]} : f32[3, 6]\nreturn %p", 0,
           0, 0, 1, 0, 2, 0, 10, 0, 11, 0, 12, 0, 0, 0, 0, 0, 0);
    EXPECT(X "%y = concat %x, %x {axis=1} : f32[2, 6]\nreturn %y", 0, 1, 2, 0, 1, 2, 10, 11, 12, 10,
           11, 12);
    EXPECT(X "%s = slice %x {start=[1, 0]} : f32[1, 3]\n%y = broadcast %s {dims=[0, 2]} : "
             "f32[1, 2, 3]\nreturn %y",
           10, 11, 12, 10, 11, 12);
    EXPECT(X "%s = slice %x {start=[0, 1]} : f32[2, 1]\n%y = add %x, %s : f32[2, 3]\nreturn %y", 1,
           2, 3, 21, 22, 23);
    EXPECT("%y = iota {axis=0} : i32[B]\n%d = dim {shape=2*B + 1} : i64[]\n%z = cast %d : i32[]\n"
           "%w = add %y, %z : i32[B]\nreturn %w",
           7, 8, 9);
}

static void test_reductions(void **state)
{
    (void)state;
    EXPECT(X "%y = reduce %x {kind=add, axes=1} : f32[2]\nreturn %y", 3, 33);
    EXPECT(X "%y = reduce %x {kind=add, axes=[0, 1]} : f32[]\nreturn %y", 36);
    EXPECT(X "%y = reduce %x {kind=mul, axes=0} : f32[3]\nreturn %y", 0, 11, 24);
    EXPECT(X "%y = reduce %x {kind=max, axes=0} : f32[3]\nreturn %y", 10, 11, 12);
    EXPECT(X "%y, %y#1 = reduce %x {kind=argmin, axes=[0, 1]} : f32[], i64[]\nreturn %y#1", 0);
    EXPECT(X "%n = neg %x : f32[2, 3]\n%y, %y#1 = reduce %n {kind=argmax, axes=1} : f32[2], i64[2]"
             "\nreturn %y#1",
           0, 0);
    EXPECT(X "%y, %y#1 = reduce %x {kind=moments, axes=1} : f32[2], f32[2]\nreturn %y#1", 2.0 / 3,
           2.0 / 3);
    EXPECT(X "%y = reduce %x {kind=logsumexp, axes=1} : f32[2]\nreturn %y",
           2 + log(exp(-2) + exp(-1) + 1), 12 + log(exp(-2) + exp(-1) + 1));
    EXPECT(X "%g = gt %x, %zero : bool[2, 3]\n%y = reduce %g {kind=and, axes=1} : bool[2]\n"
             "return %y",
           0, 1);
    EXPECT(X "%y = cumulate %x {kind=add, axis=1, mode=0} : f32[2, 3]\nreturn %y", 0, 1, 3, 10, 21,
           33);
    EXPECT(X "%y = cumulate %x {kind=add, axis=1, mode=3} : f32[2, 3]\nreturn %y", 3, 2, 0, 23, 12,
           0);
    EXPECT(X "%y = cumulate %x {kind=mul, axis=0, mode=2} : f32[2, 3]\nreturn %y", 1, 1, 1, 0, 1,
           2);
    EXPECT(X "%i = slice %x {start=[0, 1]} : f32[2, 1]\n%j = reshape %i : f32[2]\n"
             "%y = cumulate %x, %x, %j {kind=none, axis=1, mode=0} : f32[2, 3]\nreturn %y",
           0, 1, 4, 120, 1331, 15984);
    EXPECT(X "%y, %y#1 = cumulate %x {kind=argmax, axis=1, mode=1} : f32[2, 3], i32[2, 3]\n"
             "return %y#1",
           2, 2, 2, 2, 2, 2);
    EXPECT(X "%y, %y#1 = sort %x {axis=1, mode=1, extent=2} : f32[2, 2], i32[2, 2]\nreturn %y", 2,
           1, 12, 11);
    EXPECT(X "%y, %y#1 = sort %x {axis=0, mode=1, extent=2} : f32[2, 3], i32[2, 3]\nreturn %y#1", 1,
           1, 1, 0, 0, 0);
    /* of one index several times: the last one stays, or all are added */
    EXPECT(X "%n = iota {axis=0} : i32[3]\n%t = transpose %x {perm=[1, 0]} : f32[3, 2]\n"
             "%k = sub %n, %n : i32[3]\n"
             "%y = scatter %x, %k, %x {axis=1, batch=0, kind=none, mode=0, unique=0, joint=1} : "
             "f32[2, 3]\nreturn %y",
           2, 1, 2, 12, 11, 12);
    EXPECT(X "%n = iota {axis=0} : i32[3]\n%k = sub %n, %n : i32[3]\n"
             "%y = scatter %x, %k, %x {axis=1, batch=0, kind=add, mode=0, unique=0, joint=1} : "
             "f32[2, 3]\nreturn %y",
           3, 1, 2, 43, 11, 12);
    EXPECT(X "%n = iota {axis=0} : i32[3]\n%k = add %n, %n : i32[3]\n"
             "%u = reshape %x : f32[6]\n%v = slice %u {start=3} : f32[3]\n"
             "%y = scatter %x, %k, %v {axis=0, batch=0, kind=max, mode=2, unique=1, joint=2} : "
             "f32[2, 3]\nreturn %y",
           10, 1, 11, 10, 12, 12);
    /* over nothing: the identity */
    EXPECT(X "%e = slice %x {start=[0, 3]} : f32[2, 0]\n%y = reduce %e {kind=max, axes=1} : f32[2]"
             "\n%g = isinf %y : bool[2]\nreturn %g",
           1, 1);
}

static void test_products(void **state)
{
    (void)state;
    EXPECT(X "%y = dot %x, %x {contract_a=1, contract_b=1} : f32[2, 2]\nreturn %y", 5, 35, 35, 365);
    EXPECT(X "%y = dot %x, %x {batch_a=0, batch_b=0, contract_a=1, contract_b=1} : f32[2]\n"
             "return %y",
           5, 365);
    EXPECT(X "%y = dot %x, %x {batch_a=1, batch_b=1} : f32[3, 2, 2]\nreturn %y", 0, 0, 0, 100, 1,
           11, 11, 121, 4, 24, 24, 144);
    EXPECT(X "%i = iota {axis=0} : i32[2]\n%y = gather %x, %i {axis=1, batch=1, mode=0} : f32[2]\n"
             "return %y",
           0, 11);
    EXPECT(X "%one = const {value=1} : i32[]\n%i = sub %c, %one : i32[2, 3]\n"
             "%y = gather %x, %i {axis=0, batch=0, mode=2} : f32[2, 3, 3]\n"
             "%z = reduce %y {kind=add, axes=[0, 2]} : f32[3]\nreturn %z",
           0, 6, 66);
    EXPECT(X "%y = gather %x, %m {axis=1, batch=1, mode=1} : f32[2, 3]\nreturn %y", 0, 0, 0, 12, 12,
           12);
}

static void test_effects(void **state)
{
    (void)state;
    Ctx *cx = ctx_create();
    StrBuf printed = {.a = cx->perm};
    Eval e = {.printed = &printed};
    const EvalTensor *r = evaluate(
        cx,
        X "%big = const {value=11.5} : f32[]\n%ok = lt %x, %big : bool[2, 3]\n"
          "%k = check %ok {text=\"below\"} : bool[2, 3]\n%q = print %big {text=\"big\"} : f32[]\n"
          "%s = state {slot=s} : f32[2]\n%t = slice %x {start=[1, 0]} : f32[1, 2]\n"
          "%u = reshape %t : f32[2]\ncommit s <- %u\nreturn %s",
        &e);
    assert_string_equal(e.failed, "below");
    assert_string_equal(sb_text(&printed), "big 11.5\n");
    assert_true(eval_at(r, 0) == 0); /* as of entry */
    assert_true(eval_at(&e.slots[1], 1) == 11);
    Eval f = {0};
    evaluate(cx, X "%y = gather %x, %m {axis=1, batch=1, mode=0} : f32[2, 3]\nreturn %y", &f);
    assert_string_equal(f.failed, "index 10 is out of range 0 to 2");
    ctx_destroy(cx);
    EXPECT(X "%y = extern %x {text=\"a > 10 ? a / 2 : fmax(a, 0.5)\"} : f32[2, 3]\nreturn %y", 0.5,
           1, 2, 10, 5.5, 6);
    EXPECT(X "%y = bitcast %x : i32[2, 3]\n%z = bitcast %y : f32[2, 3]\nreturn %z", 0, 1, 2, 10, 11,
           12);
}

static void test_random(void **state)
{
    (void)state;
    uint32_t w[4];
    eval_philox(0, 0, 0, w); /* the known answers of the algorithm's authors */
    assert_true(w[0] == 0x6627e8d5 && w[1] == 0xe169c58d && w[2] == 0xbc57ac4c &&
                w[3] == 0x9b00dbd8);
    eval_philox(UINT64_MAX, UINT64_MAX, UINT64_MAX, w);
    assert_true(w[0] == 0x408f276d && w[1] == 0x41c83b0e && w[2] == 0xa20bc7c6 &&
                w[3] == 0x6d5451fd);
    Ctx *cx = ctx_create();
    Eval e = {0};
    const char *keyed = "%s = const {value=7} : u64[]\n%c = const {value=1} : u64[]\n"
                        "%k = key %s, %c {site=0x123456789} : u64[]\n";
    const EvalTensor *r =
        evaluate(cx,
                 arena_printf(cx->perm,
                              "%s%%u = random %%k {mode=2} : f32[4000]\n"
                              "%%m, %%m#1 = reduce %%u {kind=moments, axes=0} : f32[], f32[]\n"
                              "%%b = random %%k {mode=0} : i32[6]\n"
                              "%%v = random %%k {mode=1} : f32[6]\n"
                              "return %%m, %%m#1, %%b, %%v",
                              keyed),
                 &e);
    assert_true(fabs(eval_at(&r[0], 0)) < 0.06);
    assert_true(fabs(eval_at(&r[1], 0) - 1) < 0.08);
    for (int k = 0; k < 6; k++) { /* the same words */
        const uint32_t bits = (uint32_t)r[2].at[k].i;
        assert_true(eval_at(&r[3], k) == (double)(bits >> 8) * 0x1p-24);
    }
    ctx_destroy(cx);
}

/* --- scalar expressions ----------------------------------------------------------------------- */

static void test_scalar(void **state)
{
    (void)state;
    Arena *a = arena_create();
    static const char *const names[2] = {"x", "slope"};
    const char *error;
    uint32_t at;
    static const struct {
        const char *text;
        double want;
    } good[] = {
        {"x", 3},
        {"-x + 2 * slope", -2},
        {"x - 1 - 1", 1},
        {"x < 0 ? slope * x : x", 3},
        {"!(x == 3 && slope != 1) || 1 > 2", 0},
        {"fma(x, x, slope) / 2.f", 4.75},
        {"1 / 2", 0.5},
        {"sqrt(fabs(-x * x))", 3},
        {"x >= 3 ? x <= 2 ? 1 : 2 : 3", 2},
        {"- -x", 3},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        const ScalarExpr *e = scalar_parse(a, good[i].text, names, 2, &error, &at);
        if (!e)
            fail_msg("%s: %s", good[i].text, error);
        assert_true(scalar_eval(e, (const double[]){3, 0.5}) == good[i].want);
    }
    static const struct {
        const char *text;
        uint32_t at;
    } bad[] = {
        {"x + y", 4},  {"system(x)", 0}, {"x = 2", 2},  {"x++", 3},   {"exp(x, x)", 6},
        {"pow(x)", 0}, {"(x", 2},        {"x; x", 1},   {"x ? 1", 5}, {"0x10", 0},
        {"x[0]", 1},   {"", 0},          {"2 x", 2},    {"x & 1", 2}, {"--x", 0},
        {"\"x\"", 0},  {"1e", 0},        {"(int)x", 1}, {"x, x", 1},  {"*x", 0},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (scalar_parse(a, bad[i].text, names, 2, &error, &at))
            fail_msg("%s is accepted", bad[i].text);
        if (at != bad[i].at)
            fail_msg("%s: at %u, not %u: %s", bad[i].text, at, bad[i].at, error);
    }
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_functions),   cmocka_unit_test(test_rows),
        cmocka_unit_test(test_conversions), cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_kinks),       cmocka_unit_test(test_views),
        cmocka_unit_test(test_reductions),  cmocka_unit_test(test_products),
        cmocka_unit_test(test_effects),     cmocka_unit_test(test_random),
        cmocka_unit_test(test_scalar),
    };
    return cmocka_run_group_tests_name("eval", tests, NULL, NULL);
}
