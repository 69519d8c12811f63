/* test_grad.c: every derivative rule against central differences in f64, by the evaluator; then the
 * derivative of the derivative.
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "ir/eval.h"
#include "passes/pass.h"

enum { MAX_IN = 4 };

typedef struct {
    Ctx *cx;
    Program *p;
    Graph *g;
    Builder b;
    Val in[MAX_IN];
    double lo[MAX_IN], hi[MAX_IN]; /* range of the values; integers if whole[] */
    bool whole[MAX_IN];
    uint32_t nin;
    const char *what;
} Case;

static Case begin(const char *what)
{
    Case c = {.cx = ctx_create(), .what = what};
    c.p = program_create(c.cx, sym_of(c.cx->names, "test"));
    c.g = program_add_graph(c.p, sym_of(c.cx->names, "f"), GRAPH_METHOD);
    c.b = builder_for(c.p, c.g);
    return c;
}

static Val input(Case *c, DType t, const int64_t *shape, uint32_t rank, double lo, double hi)
{
    Dim d[MAX_RANK];
    char name[2] = {(char)('a' + c->nin), 0};
    for (uint32_t k = 0; k < rank; k++)
        d[k] = dim_const(c->cx->dims, shape[k]);
    c->lo[c->nin] = lo;
    c->hi[c->nin] = hi;
    c->whole[c->nin] = !dtype_is_float(t);
    Val v = build_input(&c->b, sym_of(c->cx->names, name), type_of(c->p, t, d, rank, PLACE_D0));
    return c->in[c->nin++] = v;
}

static uint64_t next(uint64_t *s)
{
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return *s >> 11;
}

static double uniform(uint64_t *s, double lo, double hi)
{
    return lo + (hi - lo) * (double)next(s) / 9007199254740992.0;
}

/* sum(y * r) for numbers r that depend on the element: a loss that weighs all of y differently. */
static Val weigh(Case *c, Val y, double seed)
{
    TypeInfo t = *val_info(c->p, c->g, y);
    int64_t axes[MAX_RANK];
    Val w = build_full(&c->b, DT_f64, seed, t.shape, t.rank);
    for (uint32_t k = 0; k < t.rank; k++) {
        axes[k] = k;
        Val i = build_cast(&c->b, build_iota(&c->b, t.shape, t.rank, k), DT_f64);
        Val step = build_full(&c->b, DT_f64, 0.37 + 0.21 * k, t.shape, t.rank);
        w = build2(&c->b, OP_add, w, build2(&c->b, OP_mul, i, step));
    }
    Val z = build2(&c->b, OP_mul, y, build1(&c->b, OP_cos, w));
    return t.rank ? build_reduce(&c->b, RED_add, z, axes, t.rank) : z;
}

/* Evaluates the graph: its results. */
static EvalTensor *run(Case *c, EvalTensor *in, EvalTensor *slots)
{
    int64_t sizes[1] = {0};
    Eval e = {.a = c->cx->scratch, .p = c->p, .inputs = in, .slots = slots, .sizes = sizes};
    const char *error = eval_graph(&e, c->g);
    if (error)
        fail_msg("%s: %s", c->what, error);
    return e.results;
}

static double loss_at(Case *c, EvalTensor *in)
{
    ArenaMark mark = arena_mark(c->cx->scratch);
    double loss = eval_at(&run(c, in, NULL)[0], 0);
    arena_reset(c->cx->scratch, mark);
    return loss;
}

/* Compares result 1 + k with differences of result 0, for each float input. False on a NaN. */
static bool compare(Case *c, double tolerance)
{
    Arena *a = c->cx->scratch;
    EvalTensor in[MAX_IN];
    uint64_t seed = 12345;
    int64_t sizes[1] = {0};
    for (uint32_t k = 0; k < c->nin; k++) {
        in[k] = eval_of_type(a, c->p, val_type(c->g, c->in[k]), sizes);
        for (int64_t i = 0; i < in[k].n; i++) {
            double x = uniform(&seed, c->lo[k], c->hi[k]);
            if (c->whole[k])
                in[k].at[i].i = (int64_t)x;
            else
                in[k].at[i].f = x;
        }
    }
    const EvalTensor *out = run(c, in, NULL);
    if (isnan(eval_at(&out[0], 0)))
        return false;
    const double h = 1e-5;
    for (uint32_t k = 0, r = 1; k < c->nin; k++) {
        if (c->whole[k])
            continue;
        for (int64_t i = 0; i < in[k].n; i++) {
            double x = in[k].at[i].f;
            in[k].at[i].f = x + h;
            double up = loss_at(c, in);
            in[k].at[i].f = x - h;
            double down = loss_at(c, in);
            in[k].at[i].f = x;
            double want = (up - down) / (2 * h), got = eval_at(&out[r], i);
            if (!(fabs(want - got) <= tolerance * (1 + fabs(want))))
                fail_msg("%s: d/d%c[%d] is %.9g, differences say %.9g", c->what, (int)('a' + k),
                         (int)i, got, want);
        }
        r++;
    }
    return true;
}

/* Adds the derivatives of `loss` as results behind it. */
static Val add_results(Case *c, Val loss, double seed)
{
    Val wrt[MAX_IN], d[MAX_IN], sum = {0, 0};
    uint32_t n = 0;
    for (uint32_t k = 0; k < c->nin; k++)
        if (!c->whole[k])
            wrt[n++] = c->in[k];
    if (!differentiate(&c->b, &loss, NULL, 1, wrt, n, d)) {
        StrBuf text = {.a = c->cx->scratch};
        diag_render(c->cx->diags, (DiagStyle){0}, &text);
        fail_msg("%s: %s", c->what, sb_text(&text));
    }
    c->g->results.n = 0;
    graph_result(c->p, c->g, sym_of(c->cx->names, "loss"), loss, (Span){0});
    for (uint32_t k = 0; k < n; k++) {
        TypeInfo t = *val_info(c->p, c->g, wrt[k]);
        if (!d[k].node)
            d[k] = build_full(&c->b, DT_f64, 0, t.shape, t.rank);
        graph_result(c->p, c->g, sym_of(c->cx->names, "d"), d[k], (Span){0});
        Val part = weigh(c, d[k], seed + k);
        sum = sum.node ? build2(&c->b, OP_add, sum, part) : part;
    }
    return sum;
}

/* First and second derivatives of sum(y * r). */
static void check_case(Case *c, Val y)
{
    Val loss = weigh(c, y, 0.3);
    Val again = add_results(c, loss, 0.8);
    const char *error = tensor_verify(c->p, c->g, false);
    if (error)
        fail_msg("%s: %s", c->what, error);
    if (compare(c, 1e-6)) {
        add_results(c, again, 1.1);
        compare(c, 1e-5);
    }
    ctx_destroy(c->cx);
}

/* --- pointwise rows --------------------------------------------------------------------------- */

static void row_case(Op op, const int64_t (*shape)[2], const uint32_t *rank,
                     const double (*range)[2])
{
    Case c = begin(op_name(op));
    Val in[3];
    int n = op_info(op)->nmin;
    for (int k = 0; k < n; k++) {
        if (op == OP_where && k == 0) {
            Val x = input(&c, DT_f64, shape[k], rank[k], -1, 1);
            Val zero = build_const(&c.b, DT_f64, 0.01);
            in[k] = build2(&c.b, OP_gt, x, zero);
            continue;
        }
        if (op == OP_clamp && k > 0) /* bounds have no gradient, by definition */
            in[k] = build_const(&c.b, DT_f64, range[k][0]);
        else
            in[k] = input(&c, DT_f64, shape[k], rank[k], range[k][0], range[k][1]);
    }
    Val y = n == 1   ? build1(&c.b, op, in[0])
            : n == 2 ? build2(&c.b, op, in[0], in[1])
                     : build3(&c.b, op, in[0], in[1], in[2]);
    check_case(&c, y);
}

static void test_rows(void **state)
{
    (void)state;
    static const int64_t same[3][2] = {{2, 3}, {2, 3}, {2, 3}}, mixed[3][2] = {{2, 3}, {3}, {2, 1}};
    static const int64_t other[3][2] = {{3}, {2, 3}, {1, 3}};
    static const uint32_t rank2[3] = {2, 2, 2}, rank_mixed[3] = {2, 1, 2},
                          rank_other[3] = {1, 2, 2};
    static const double up[3][2] = {{0.25, 0.45}, {0.5, 0.75}, {0.8, 0.95}};
    static const double inside[3][2] = {{0.6, 0.7}, {0.2, 0.35}, {0.8, 0.95}};
    static const double down[3][2] = {{-0.7, -0.4}, {1.3, 1.9}, {-0.3, 0.9}};
    static const double wide[3][2] = {{2.1, 2.4}, {0.9, 0.95}, {-3, 3}};
    for (int op = 1; op < OP_COUNT; op++) {
        const OpInfo *info = op_info((Op)op);
        if (!info->pointwise || info->result == RES_BOOL || info->domain == DOM_BITS ||
            op == OP_detach)
            continue;
        row_case((Op)op, same, rank2, up);
        row_case((Op)op, same, rank2, inside);
        row_case((Op)op, same, rank2, down);
        row_case((Op)op, mixed, rank_mixed, wide);
        row_case((Op)op, other, rank_other, up);
    }
}

/* --- the rest --------------------------------------------------------------------------------- */

static const int64_t shape_234[] = {2, 3, 4};

static void test_reduce(void **state)
{
    (void)state;
    static const Reducer kinds[] = {RED_add,    RED_mul,    RED_max,     RED_min,
                                    RED_argmax, RED_argmin, RED_moments, RED_logsumexp};
    static const int64_t axes[][3] = {{1}, {0, 2}, {0, 1, 2}, {2}};
    static const uint32_t naxes[] = {1, 2, 3, 1};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (size_t i = 0; i < 4; i++) {
            Case c = begin(reducer_info(kinds[k])->name);
            Val x = input(&c, DT_f64, shape_234, 3, -1, 1.5);
            Val y = build_reduce(&c.b, kinds[k], x, axes[i], naxes[i]);
            Val z = weigh(&c, build1(&c.b, OP_sin, y), 0.2);
            if (kinds[k] == RED_moments)
                z = build2(&c.b, OP_add, z, weigh(&c, val_result(y, 1), 0.7));
            check_case(&c, z);
        }
}

static void test_product_with_zeros(void **state)
{
    (void)state;
    for (int zeros = 1; zeros <= 2; zeros++) {
        Case c = begin("product with zeros");
        static const int64_t shape[] = {2, 4};
        static const int64_t axis[] = {1};
        Val x = input(&c, DT_f64, shape, 2, 0.5, 1.5);
        Val at = build_iota(&c.b, val_info(c.p, c.g, x)->shape, 2, 1);
        Val limit = build_const_int(&c.b, DT_i32, zeros);
        Val kept = build_cast(&c.b, build2(&c.b, OP_ge, at, limit), DT_f64);
        Val z = build2(&c.b, OP_mul, x, kept);
        Val loss = weigh(&c, build_reduce(&c.b, RED_mul, z, axis, 1), 0.1);
        add_results(&c, loss, 0.5);
        /* moves of x do not move the zeros; the derivative by z at a zero is what the mask hides */
        compare(&c, 1e-6);
        ctx_destroy(c.cx);
    }
}

static void test_dot(void **state)
{
    (void)state;
    static const struct {
        int64_t a[4], b[4], ba[2], bb[2], ca[2], cb[2];
        uint32_t ra, rb, nb, nc;
    } cases[] = {
        {{3, 4}, {5, 4}, {0}, {0}, {1}, {1}, 2, 2, 0, 1},
        {{3, 4}, {4, 5}, {0}, {0}, {1}, {0}, 2, 2, 0, 1},
        {{4, 3}, {4, 5}, {0}, {0}, {0}, {0}, 2, 2, 0, 1},
        {{2, 3, 4}, {2, 4, 5}, {0}, {0}, {2}, {1}, 3, 3, 1, 1},
        {{2, 3, 4}, {5, 4}, {0}, {0}, {2}, {1}, 3, 2, 0, 1},
        {{3, 2, 4}, {4, 3, 5}, {0}, {0}, {0, 2}, {1, 0}, 3, 3, 0, 2},
        {{2, 3, 2, 4}, {4, 2, 5, 2}, {0, 2}, {1, 3}, {3}, {0}, 4, 4, 2, 1},
        {{4}, {4}, {0}, {0}, {0}, {0}, 1, 1, 0, 1},
        {{3}, {4}, {0}, {0}, {0}, {0}, 1, 1, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Case c = begin("dot");
        Val a = input(&c, DT_f64, cases[i].a, cases[i].ra, -1, 1);
        Val b = input(&c, DT_f64, cases[i].b, cases[i].rb, -1, 1);
        check_case(&c, build_dot(&c.b, a, b, cases[i].ba, cases[i].bb, cases[i].nb, cases[i].ca,
                                 cases[i].cb, cases[i].nc, DT_f64));
    }
}

static Dim size(Case *c, int64_t n)
{
    return dim_const(c->cx->dims, n);
}

static void test_views(void **state)
{
    (void)state;
    Case c = begin("views");
    static const int64_t perm[] = {2, 0, 1}, back[] = {1, -1, 2}, gaps[] = {0, 1, 2},
                         dims[] = {0, 2};
    static const int64_t one[] = {3, 1};
    Val x = input(&c, DT_f64, shape_234, 3, -1, 1);
    Val t = build1(&c.b, OP_sin, build_transpose(&c.b, x, perm)); /* [4, 2, 3] */
    Val s = build_slice(&c.b, t, (Dim[]){size(&c, 1), size(&c, 1), size(&c, 0)}, back,
                        (Dim[]){size(&c, 3), size(&c, 2), size(&c, 2)}); /* [3, 2, 2] */
    Val r = build_reshape(&c.b, build1(&c.b, OP_exp, s),
                          (Dim[]){size(&c, 2), size(&c, 2), size(&c, 3)}, 3);
    Val fill = build_const(&c.b, DT_f64, 0.5);
    Val p = build_pad(&c.b, r, fill, (Dim[]){size(&c, 1), size(&c, 0), size(&c, 2)},
                      (Dim[]){size(&c, 0), size(&c, 1), size(&c, 0)}, gaps);
    Val small = input(&c, DT_f64, one, 2, -1, 1);
    TypeInfo pt = *val_info(c.p, c.g, p);
    Val column = build_slice_axis(&c.b, build_reshape(&c.b, small, (Dim[]){size(&c, 3)}, 1), 0,
                                  size(&c, 0), size(&c, 3));
    Val wide = build_broadcast(
        &c.b, build_reshape(&c.b, column, (Dim[]){pt.shape[0], size(&c, 1)}, 2), pt.shape, 3, dims);
    Val y = build2(&c.b, OP_mul, p, build1(&c.b, OP_tanh, wide));
    check_case(&c, build1(&c.b, OP_sin, y));

    /* pieces that overlap, leave gaps, and stand side by side */
    static const int64_t shape[] = {2, 7};
    c = begin("pieces");
    x = input(&c, DT_f64, shape, 2, -1, 1);
    static const int64_t from[] = {0, 3, 4, 2}, length[] = {2, 1, 2, 3};
    Val parts[5];
    for (int i = 0; i < 4; i++)
        parts[i] = build1(&c.b, i % 2 ? OP_sin : OP_exp,
                          build_slice_axis(&c.b, x, 1, size(&c, from[i]), size(&c, length[i])));
    parts[4] = x;
    check_case(&c, build_concat(&c.b, parts, 5, 1));
    c = begin("pieces without the whole");
    x = input(&c, DT_f64, shape, 2, -1, 1);
    for (int i = 0; i < 3; i++)
        parts[i] = build1(&c.b, i % 2 ? OP_sin : OP_exp,
                          build_slice_axis(&c.b, x, 1, size(&c, from[i]), size(&c, length[i])));
    check_case(&c, build_concat(&c.b, parts, 3, 1));
}

static void test_gather(void **state)
{
    (void)state;
    for (int mode = GATHER_CHECK; mode <= GATHER_FILL; mode++) {
        static const int64_t rows[] = {2, 3};
        Case c = begin("gather");
        Val x = input(&c, DT_f64, shape_234, 3, -1, 1);
        double hi = mode == GATHER_CHECK ? 3.99 : 5.99, lo = mode == GATHER_CHECK ? 0 : -1.99;
        Val i = input(&c, DT_i64, rows, 2, lo, hi);
        check_case(&c, build1(&c.b, OP_sin, build_gather(&c.b, x, i, 2, 2, mode)));
        c = begin("gather inside");
        x = input(&c, DT_f64, shape_234, 3, -1, 1);
        i = input(&c, DT_i64, rows, 1, 0, 2.99);
        check_case(&c, build1(&c.b, OP_sin, build_gather(&c.b, x, i, 1, 1, mode)));
        static const int64_t many[] = {2, 5};
        c = begin("gather of many");
        x = input(&c, DT_f64, shape_234, 3, -1, 1);
        i = input(&c, DT_i64, many, 2, lo, mode == GATHER_CHECK ? 2.99 : 4.99);
        check_case(&c, build1(&c.b, OP_sin, build_gather(&c.b, x, i, 1, 1, mode)));
    }
}

static void test_scatter(void **state)
{
    (void)state;
    static const Reducer kinds[] = {RED_none, RED_add, RED_max, RED_min};
    static const int64_t few[] = {2, 5}, wide[] = {2, 5, 4}, flat[] = {3}, rows[] = {3, 4};
    for (int mode = GATHER_CHECK; mode <= GATHER_FILL; mode++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            const double lo = mode == GATHER_CHECK ? 0 : -1.99;
            Case c = begin("scatter");
            Val x = input(&c, DT_f64, shape_234, 3, -1, 1);
            Val i = input(&c, DT_i64, few, 2, lo, mode == GATHER_CHECK ? 2.99 : 4.99);
            Val u = input(&c, DT_f64, wide, 3, -1, 1);
            Val y = build_scatter(&c.b, x, i, build1(&c.b, OP_sin, u), 1, 1, kinds[k], mode, false);
            check_case(&c, build1(&c.b, OP_sin, y));
            c = begin("scatter over two axes");
            x = input(&c, DT_f64, shape_234, 3, -1, 1);
            i = input(&c, DT_i64, flat, 1, lo, mode == GATHER_CHECK ? 5.99 : 7.99);
            u = input(&c, DT_f64, rows, 2, -1, 1);
            y = build_scatter_joint(&c.b, build1(&c.b, OP_exp, x), i, u, 0, 2, 0, kinds[k], mode,
                                    false);
            check_case(&c, build1(&c.b, OP_sin, y));
        }
    /* a row of indices that come once */
    Case c = begin("unique");
    Val x = input(&c, DT_f64, shape_234, 3, -1, 1), u = input(&c, DT_f64, rows, 2, -1, 1);
    Val i = build_iota(&c.b, (Dim[]){size(&c, 3)}, 1, 0);
    assert_true(index_is_unique(c.p, c.g, i, 0));
    check_case(&c,
               build1(&c.b, OP_sin,
                      build_scatter_joint(&c.b, x, i, u, 0, 2, 0, RED_none, GATHER_CHECK, true)));
}

static void test_sort(void **state)
{
    (void)state;
    for (int way = 0; way < 2; way++)
        for (uint32_t axis = 0; axis < 3; axis++) {
            Case c = begin("sort");
            Val x = input(&c, DT_f64, shape_234, 3, -1, 1);
            Val y = build_sort(&c.b, x, axis, way, size(&c, way ? 2 : shape_234[axis]));
            check_case(&c, build1(&c.b, OP_sin, y));
        }
}

static void test_cumulate(void **state)
{
    (void)state;
    static const Reducer kinds[] = {RED_add, RED_mul, RED_max, RED_min, RED_argmax, RED_argmin};
    static const int64_t outer[] = {2, 4};
    for (int mode = 0; mode < 4; mode++) {
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            if (k >= 2 && mode & CUMULATE_EXCLUSIVE)
                continue;
            Case c = begin("cumulate");
            Val x = input(&c, DT_f64, shape_234, 3, -1, 1);
            check_case(&c, build1(&c.b, OP_sin, build_cumulate(&c.b, kinds[k], x, 1, mode)));
        }
        Case c = begin("linear recurrence");
        Val a = input(&c, DT_f64, shape_234, 3, -1, 1), x = input(&c, DT_f64, shape_234, 3, -1, 1);
        Val init = input(&c, DT_f64, outer, 2, -1, 1);
        check_case(&c, build1(&c.b, OP_sin, build_linear(&c.b, a, x, init, 1, mode)));
    }
}

/* y = a * a * b with a derivative of its own (twice the true one); c: without one. */
static Graph *definition(Case *c, const char *name, const TypeInfo *t)
{
    Graph *g = program_add_graph(c->p, sym_of(c->cx->names, name), GRAPH_DEF);
    Builder b = builder_for(c->p, g);
    Ty ty = type_make(c->p, *t);
    Val a = build_input(&b, sym_of(c->cx->names, "a"), ty);
    Val x = build_input(&b, sym_of(c->cx->names, "b"), ty);
    Val inner = build2(&b, OP_mul, a, a);
    graph_result(c->p, g, sym_of(c->cx->names, "y"), build2(&b, OP_mul, inner, x), (Span){0});
    graph_result(c->p, g, sym_of(c->cx->names, "inner"), inner, (Span){0});
    return g;
}

static void test_call(void **state)
{
    (void)state;
    static const int64_t shape[] = {3};
    for (int own = 0; own < 2; own++) {
        Case c = begin(own ? "call with a derivative" : "call");
        Val a = input(&c, DT_f64, shape, 1, -1, 1);
        TypeInfo t = *val_info(c.p, c.g, a);
        definition(&c, "def", &t); /* graph 1 */
        int64_t graph = 1, grad = 0, results = 1;
        if (own) { /* da = 2ab dy, db = inner dy, by the definition's inner value */
            Graph *g = program_add_graph(c.p, sym_of(c.cx->names, "def.grad"), GRAPH_DEF);
            Builder b = builder_for(c.p, g);
            Ty ty = type_make(c.p, t);
            static const char *const names[] = {"a", "b", "y", "inner", "dy"};
            Val in[5];
            for (int i = 0; i < 5; i++)
                in[i] = build_input(&b, sym_of(c.cx->names, names[i]), ty);
            Val two = build_full(&b, DT_f64, 2, t.shape, t.rank);
            Val da = build2(&b, OP_mul, two, build2(&b, OP_mul, in[0], in[1]));
            graph_result(c.p, g, sym_of(c.cx->names, "b"), build2(&b, OP_mul, in[3], in[4]),
                         (Span){0});
            graph_result(c.p, g, sym_of(c.cx->names, "a"), build2(&b, OP_mul, da, in[4]),
                         (Span){0});
            grad = 3; /* graph 2, plus 1 */
        }
        Val args[] = {build1(&c.b, OP_sin, a), build1(&c.b, OP_exp, build1(&c.b, OP_sin, a))};
        Attr attrs[] = {{&graph, 1}, {&grad, 1}, {&results, 1}};
        Val y = build(&c.b, OP_call, args, 2, attrs);
        check_case(&c, build1(&c.b, OP_sin, y));
    }
}

/* The gradient of a segment comes in its layout, and is added piece by piece. */
static void test_segment(void **state)
{
    (void)state;
    Case c = begin("segment");
    Ty type = type_of(c.p, DT_f64, (Dim[]){size(&c, 10)}, 1, PLACE_D0);
    uint32_t slot = program_add_slot(
        c.p, (Slot){.name = sym_of(c.cx->names, "seg0"), .kind = SLOT_PARAM, .type = type});
    uint32_t grad = segment_grad_slot(c.p, slot);
    assert_int_equal(segment_grad_slot(c.p, slot), grad);
    Val s = build_state(&c.b, slot), d;
    Val w = build_slice_axis(&c.b, s, 0, size(&c, 1), size(&c, 4));
    Val u = build_slice_axis(&c.b, s, 0, size(&c, 7), size(&c, 2));
    Val loss = build2(&c.b, OP_add, weigh(&c, build1(&c.b, OP_square, w), 0.2),
                      weigh(&c, build1(&c.b, OP_exp, u), 0.1));
    assert_true(differentiate(&c.b, &loss, NULL, 1, &s, 1, &d));
    const Node *n = graph_node(c.g, d);
    assert_int_equal(n->op, OP_concat);
    assert_int_equal(n->nin, 5);
    Val sum = segment_accumulate(&c.b, grad, d);
    assert_int_equal(graph_node(c.g, sum)->op, OP_concat);
    graph_result(c.p, c.g, sym_of(c.cx->names, "d"), d, (Span){0});
    graph_result(c.p, c.g, sym_of(c.cx->names, "sum"), sum, (Span){0});
    EvalTensor slots[3];
    int64_t ten = 10;
    for (int k = 1; k < 3; k++) {
        slots[k] = eval_tensor(c.cx->scratch, DT_f64, &ten, 1);
        for (int64_t i = 0; i < ten; i++)
            slots[k].at[i].f = 0.1 * (double)(i + k);
    }
    const EvalTensor *out = run(&c, NULL, slots);
    for (int64_t i = 0; i < ten; i++) {
        double want = i >= 1 && i < 5 ? 0.2 * (double)(i + 1) * cos(0.2 + 0.37 * (double)(i - 1))
                      : i >= 7 && i < 9
                          ? exp(0.1 * (double)(i + 1)) * cos(0.1 + 0.37 * (double)(i - 7))
                          : 0;
        assert_true(fabs(eval_at(&out[0], i) - want) < 1e-12);
        assert_true(fabs(eval_at(&out[1], i) - want - 0.1 * (double)(i + 2)) < 1e-12);
    }
    ctx_destroy(c.cx);
}

static void test_refusals(void **state)
{
    (void)state;
    Case c = begin("detach");
    static const int64_t five[] = {5};
    Val x = input(&c, DT_f64, five, 1, 0, 1), d;
    Val y = weigh(&c, build1(&c.b, OP_detach, x), 0.2);
    assert_true(differentiate(&c.b, &y, NULL, 1, &x, 1, &d));
    assert_int_equal(d.node, 0);
    ctx_destroy(c.cx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_reduce),
        cmocka_unit_test(test_product_with_zeros),
        cmocka_unit_test(test_dot),
        cmocka_unit_test(test_views),
        cmocka_unit_test(test_gather),
        cmocka_unit_test(test_scatter),
        cmocka_unit_test(test_sort),
        cmocka_unit_test(test_cumulate),
        cmocka_unit_test(test_call),
        cmocka_unit_test(test_segment),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
