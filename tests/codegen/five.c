/* five.c: see five.h. SPDX-License-Identifier: MIT */
#include "tests/codegen/five.h"

#include <string.h>

/* A kernel that is being made, with short words for what tests write often. */
typedef struct {
    Five *f;
    Kernel *k;
    bool cuda;
} Make;

static DimTable *dims(const Make *m)
{
    return m->f->cx->dims;
}

static Sym sym(const Make *m, const char *s)
{
    return sym_of(m->f->cx->names, s);
}

static Dim num(const Make *m, int64_t n)
{
    return dim_const(dims(m), n);
}

static Dim size(const Make *m, const char *name)
{
    return dim_of(dims(m), dim_new_symbol(dims(m), SYM_SIZE, sym(m, name), (Dim){0}));
}

static Symbol axis(const Make *m, const char *name, Dim extent)
{
    return dim_new_symbol(dims(m), SYM_AXIS, sym(m, name), extent);
}

static Dim at(const Make *m, Symbol s)
{
    return dim_of(dims(m), s);
}

static Make begin(Five *f, const char *name, KClass class, bool cuda, int lanes, int teams)
{
    Make m = {f, NULL, cuda};
    m.k = kernel_create(f->p, sym(&m, name), class);
    m.k->lanes = cuda ? lanes : 1;
    m.k->teams = cuda ? teams : 1;
    vec_push(f->cx->perm, &f->kernels, m.k);
    return m;
}

static uint32_t param(Make *m, const char *name, DType t, KMode mode, uint32_t rank,
                      const Dim *shape)
{
    KParam q = {.name = sym(m, name), .dtype = t, .rank = rank, .mode = mode};
    q.readonly_scalar = rank == 0 && mode == K_IN;
    Dim stride = num(m, 1);
    for (uint32_t i = rank; i-- > 0;) {
        q.shape[i] = shape[i];
        q.stride[i] = stride;
        stride = dim_mul(dims(m), stride, shape[i]);
    }
    vec_push(m->f->cx->perm, &m->k->params, q);
    return m->k->params.n - 1;
}

static uint32_t accumulator(Make *m, const char *name, Reducer r, DType t, Symbol side)
{
    KAcc a = {.name = sym(m, name), .reducer = r, .type = t, .side = side.id != 0, .axis = side};
    vec_push(m->f->cx->perm, &m->k->accs, a);
    return m->k->accs.n - 1;
}

static KExpr load(Make *m, uint32_t p, uint32_t rank, const Dim *index)
{
    KExprInfo x = {.kind = KE_LOAD, .type = m->k->params.at[p].dtype, .param = p};
    memcpy(x.at, index, rank * sizeof *index);
    return kernel_expr(m->f->p, m->k, x);
}

static KExpr op(Make *m, Op o, uint32_t n, KExpr a, KExpr b, KExpr c)
{
    KExprInfo x = {.kind = KE_OP, .op = o, .nin = n, .in = {a, b, c}};
    DType last = kexpr(m->k, n == 1 ? a : n == 2 ? b : c)->type;
    x.type = op_info(o)->result == RES_BOOL ? DT_bool : last;
    return kernel_expr(m->f->p, m->k, x);
}

static KExpr op1(Make *m, Op o, KExpr a)
{
    return op(m, o, 1, a, (KExpr){0}, (KExpr){0});
}

static KExpr op2(Make *m, Op o, KExpr a, KExpr b)
{
    return op(m, o, 2, a, b, (KExpr){0});
}

static KExpr real(Make *m, double v)
{
    return kernel_expr(m->f->p, m->k, (KExprInfo){.kind = KE_CONST, .type = DT_f32, .value = v});
}

static KExpr acc_value(Make *m, uint32_t acc, uint32_t field)
{
    KExprInfo x = {.kind = KE_ACC, .type = m->k->accs.at[acc].type, .acc = acc, .field = field};
    return kernel_expr(m->f->p, m->k, x);
}

static KBlock *loop(Make *m, KBlock *b, Symbol s, Dim hi, ForKind kind, int vec)
{
    KStmt *x = kblock_add(m->f->p, b, KS_FOR);
    x->axis = s;
    x->lo = num(m, 0);
    x->hi = hi;
    x->loop = kind;
    x->vec = m->cuda ? vec : 1;
    return &x->body;
}

static void named(Make *m, KExpr e, const char *name)
{
    m->k->exprs.at[e.id].name = sym(m, name);
}

static void let(Make *m, KBlock *b, KExpr e, const char *name)
{
    named(m, e, name);
    kblock_add(m->f->p, b, KS_LET)->expr = e;
}

static void store(Make *m, KBlock *b, uint32_t p, uint32_t rank, const Dim *index, KExpr e)
{
    KStmt *s = kblock_add(m->f->p, b, KS_STORE);
    s->param = p;
    s->expr = e;
    memcpy(s->at, index, rank * sizeof *index);
}

static void fold(Make *m, KBlock *b, uint32_t acc, KExpr e)
{
    KStmt *s = kblock_add(m->f->p, b, KS_FOLD);
    s->acc = acc;
    s->expr = e;
}

static void start(Make *m, KBlock *b, uint32_t acc)
{
    kblock_add(m->f->p, b, KS_ACC)->acc = acc;
}

static void total(Make *m, KBlock *b, uint32_t acc, bool block)
{
    KStmt *s = kblock_add(m->f->p, b, KS_TOTAL);
    s->acc = acc;
    s->over_block = block;
}

/* --- kernels ----------------------------------------------------------------------------------- */

static void make_cell(Five *f, bool cuda)
{
    Make m = begin(f, "lltm_k1_cell", CLASS_MAP, cuda, 32, 8);
    Dim B = size(&m, "B"), wide[] = {B, num(&m, 384)}, state[] = {B, num(&m, 128)};
    m.k->doc = "new_h, new_c";
    uint32_t gates = param(&m, "gates", DT_f32, K_IN, 2, wide);
    uint32_t bias = param(&m, "bias", DT_f32, K_IN, 1, &wide[1]);
    uint32_t c = param(&m, "c", DT_f32, K_IN, 2, state);
    uint32_t new_h = param(&m, "new_h", DT_f32, K_OUT, 2, state);
    uint32_t new_c = param(&m, "new_c", DT_f32, K_OUT, 2, state);
    Symbol b = axis(&m, "b", B), s = axis(&m, "s", state[1]);
    KBlock *body = loop(&m, &m.k->body, b, B, FOR_GRID, 1);
    body = loop(&m, body, s, state[1], FOR_LANES, 4);
    KExpr part[3];
    for (int i = 0; i < 3; i++) {
        Dim index[] = {at(&m, b), dim_add(dims(&m), at(&m, s), num(&m, 128 * i))};
        part[i] = op2(&m, OP_add, load(&m, gates, 2, index), load(&m, bias, 1, &index[1]));
    }
    Dim here[] = {at(&m, b), at(&m, s)};
    KExpr g = part[2];
    KExpr elu = op(&m, OP_where, 3, op2(&m, OP_gt, g, real(&m, 0)), g, op1(&m, OP_expm1, g));
    KExpr n = op2(&m, OP_add, load(&m, c, 2, here),
                  op2(&m, OP_mul, elu, op1(&m, OP_sigmoid, part[0])));
    let(&m, body, g, "g");
    let(&m, body, n, "new_c");
    store(&m, body, new_c, 2, here, n);
    store(&m, body, new_h, 2, here,
          op2(&m, OP_mul, op1(&m, OP_tanh, n), op1(&m, OP_sigmoid, part[1])));
}

static void make_xent(Five *f, bool cuda)
{
    Make m = begin(f, "gpt_k2_xent", CLASS_ROW, cuda, 1024, 1);
    Dim N = size(&m, "N"), V = num(&m, 50257), shape[] = {N, V};
    m.k->doc = "nll = cross_entropy(logits, target)";
    uint32_t logits = param(&m, "logits", DT_f32, K_INOUT, 2, shape);
    uint32_t target = param(&m, "target", DT_i32, K_IN, 1, shape);
    uint32_t scale = param(&m, "scale", DT_f32, K_IN, 0, NULL);
    uint32_t nll = param(&m, "nll", DT_f32, K_OUT, 1, shape);
    Symbol n = axis(&m, "n", N), v = axis(&m, "v", V), w = axis(&m, "v", V);
    Symbol t = dim_new_symbol(dims(&m), SYM_LOADED, sym(&m, "t"), (Dim){0});
    uint32_t acc = accumulator(&m, "lse", RED_logsumexp, DT_f32, (Symbol){0});
    KBlock *row = loop(&m, &m.k->body, n, N, FOR_GRID, 1);
    Dim row_at[] = {at(&m, n)}, at_t[] = {at(&m, n), at(&m, t)};
    KExprInfo wide = {.kind = KE_CAST, .type = DT_i64, .nin = 1};
    wide.in[0] = load(&m, target, 1, row_at);
    KStmt *l = kblock_add(f->p, row, KS_LET);
    l->axis = t;
    l->expr = kernel_expr(f->p, m.k, wide);
    GuardTerm *terms = arena_array(f->cx->perm, GuardTerm, 2);
    terms[0] = (GuardTerm){.kind = G_LE, .a = num(&m, 0), .b = at(&m, t)};
    terms[1] = (GuardTerm){.kind = G_LT, .a = at(&m, t), .b = V};
    kblock_add(f->p, row, KS_CHECK)->pred = (Guard){terms, 2};
    KExprInfo pick = {.kind = KE_SELECT, .type = DT_f32, .nin = 2, .pred = {terms, 2}};
    pick.in[0] = load(&m, logits, 2, at_t);
    pick.in[1] = real(&m, 0);
    start(&m, row, acc);
    KBlock *lanes = loop(&m, row, v, V, FOR_LANES, 1);
    Dim at_v[] = {at(&m, n), at(&m, v)}, at_w[] = {at(&m, n), at(&m, w)};
    fold(&m, lanes, acc, load(&m, logits, 2, at_v));
    total(&m, row, acc, false);
    KExpr lse = acc_value(&m, acc, 0);
    store(&m, row, nll, 1, row_at, op2(&m, OP_sub, lse, kernel_expr(f->p, m.k, pick)));
    kblock_add(f->p, row, KS_BARRIER);
    lanes = loop(&m, row, w, V, FOR_LANES, 1);
    KExprInfo wi = {.kind = KE_INDEX, .type = DT_i64, .index = at(&m, w)};
    KExprInfo ti = {.kind = KE_INDEX, .type = DT_i64, .index = at(&m, t)};
    KExpr hit = op2(&m, OP_eq, kernel_expr(f->p, m.k, wi), kernel_expr(f->p, m.k, ti));
    KExpr s = load(&m, scale, 0, NULL);
    KExpr p = op2(&m, OP_mul, op1(&m, OP_exp, op2(&m, OP_sub, load(&m, logits, 2, at_w), lse)), s);
    store(&m, lanes, logits, 2, at_w,
          op2(&m, OP_sub, p, op(&m, OP_where, 3, hit, s, real(&m, 0))));
}

static void keep(Make *m, KBlock *b, uint32_t k, KExpr e, Dim index)
{
    KStmt *s = kblock_add(m->f->p, b, KS_KEEP);
    s->keep = k;
    s->expr = e;
    s->keep_index = index;
}

static KExpr kept(Make *m, uint32_t k, Dim index)
{
    KExprInfo x = {.kind = KE_KEEP, .type = DT_f32, .keep = k, .index = index};
    return kernel_expr(m->f->p, m->k, x);
}

static void make_layernorm(Five *f, bool cuda)
{
    Make m = begin(f, "gpt_k3_layernorm_bwd", CLASS_ROW, cuda, 192, 1);
    Dim N = size(&m, "N"), G = size(&m, "G"), S = size(&m, "S"), C = num(&m, 768);
    Dim rows[] = {N, C}, parts[] = {G, num(&m, 2), C};
    m.k->doc = "dx, dw, db = layernorm backward";
    uint32_t dy = param(&m, "dy", DT_f32, K_IN, 2, rows), x = param(&m, "x", DT_f32, K_IN, 2, rows);
    uint32_t w = param(&m, "w", DT_f32, K_IN, 1, &C);
    uint32_t mean = param(&m, "mean", DT_f32, K_IN, 1, rows);
    uint32_t rstd = param(&m, "rstd", DT_f32, K_IN, 1, rows);
    uint32_t dx = param(&m, "dx", DT_f32, K_OUT, 2, rows);
    uint32_t part = param(&m, "part", DT_f32, K_OUT, 3, parts);
    Symbol g = axis(&m, "g", G), n = axis(&m, "n", N);
    Symbol c1 = axis(&m, "c", C), c2 = axis(&m, "c", C), c3 = axis(&m, "c", C);
    uint32_t dw = accumulator(&m, "dw", RED_add, DT_f32, c1);
    uint32_t db = accumulator(&m, "db", RED_add, DT_f32, c1);
    uint32_t s1 = accumulator(&m, "s1", RED_add, DT_f32, (Symbol){0});
    uint32_t s2 = accumulator(&m, "s2", RED_add, DT_f32, (Symbol){0});
    vec_push(f->cx->perm, &m.k->keeps, ((KKeep){sym(&m, "h"), DT_f32, c1, C}));
    vec_push(f->cx->perm, &m.k->keeps, ((KKeep){sym(&m, "p"), DT_f32, c1, C}));
    KBlock *cell = loop(&m, &m.k->body, g, G, FOR_GRID, 1);
    start(&m, cell, dw);
    start(&m, cell, db);
    KBlock *row = loop(&m, cell, n, N, FOR_SERIAL, 1);
    KStmt *serial = &vec_last(cell);
    serial->lo = dim_mul(dims(&m), S, at(&m, g));
    serial->hi = dim_min(dims(&m), N, dim_add(dims(&m), serial->lo, S));
    start(&m, row, s1);
    start(&m, row, s2);
    Dim a1[] = {at(&m, n), at(&m, c1)}, a2[] = {at(&m, n), at(&m, c2)}, an[] = {at(&m, n)};
    KExpr m_n = load(&m, mean, 1, an), r_n = load(&m, rstd, 1, an);
    let(&m, row, m_n, "m");
    let(&m, row, r_n, "r");
    KBlock *lanes = loop(&m, row, c1, C, FOR_LANES, 4);
    KExpr d = load(&m, dy, 2, a1);
    let(&m, lanes, d, "d");
    keep(&m, lanes, 0, op2(&m, OP_mul, op2(&m, OP_sub, load(&m, x, 2, a1), m_n), r_n), a1[1]);
    keep(&m, lanes, 1, op2(&m, OP_mul, d, load(&m, w, 1, &a1[1])), a1[1]);
    KExpr h = kept(&m, 0, a1[1]), p = kept(&m, 1, a1[1]);
    fold(&m, lanes, s1, p);
    fold(&m, lanes, s2, op2(&m, OP_mul, p, h));
    fold(&m, lanes, dw, op2(&m, OP_mul, d, h));
    fold(&m, lanes, db, d);
    total(&m, row, s1, false);
    total(&m, row, s2, false);
    lanes = loop(&m, row, c2, C, FOR_LANES, 4);
    KExpr mean1 = op2(&m, OP_div, acc_value(&m, s1, 0), real(&m, 768));
    KExpr mean2 = op2(&m, OP_div, acc_value(&m, s2, 0), real(&m, 768));
    KExpr inner = op2(&m, OP_sub, op2(&m, OP_sub, kept(&m, 1, a2[1]), mean1),
                      op2(&m, OP_mul, kept(&m, 0, a2[1]), mean2));
    store(&m, lanes, dx, 2, a2, op2(&m, OP_mul, r_n, inner));
    lanes = loop(&m, cell, c3, C, FOR_LANES, 4);
    Dim p0[] = {at(&m, g), num(&m, 0), at(&m, c3)}, p1[] = {at(&m, g), num(&m, 1), at(&m, c3)};
    store(&m, lanes, part, 3, p0, acc_value(&m, dw, 0));
    store(&m, lanes, part, 3, p1, acc_value(&m, db, 0));
}

static void make_colsum(Five *f, bool cuda)
{
    Make m = begin(f, "gpt_k4_colsum", CLASS_REDUCE, cuda, 32, 8);
    Dim G = size(&m, "G"), M = size(&m, "M"), shape[] = {G, M};
    m.k->doc = "out = sum of part over its rows";
    uint32_t part = param(&m, "part", DT_f32, K_IN, 2, shape);
    uint32_t out = param(&m, "out", DT_f32, K_OUT, 1, &M);
    Symbol mm = axis(&m, "m", M), g = axis(&m, "g", G);
    uint32_t a = accumulator(&m, "a", RED_add, DT_f32, (Symbol){0});
    KBlock *cell = loop(&m, &m.k->body, mm, M, FOR_GRID, 1);
    m.k->body.at[0].grid_lanes = true;
    start(&m, cell, a);
    KBlock *rows = loop(&m, cell, g, G, FOR_TEAMS, 1);
    Dim index[] = {at(&m, g), at(&m, mm)};
    fold(&m, rows, a, load(&m, part, 2, index));
    total(&m, cell, a, true);
    store(&m, cell, out, 1, &index[1], acc_value(&m, a, 0));
}

/* Half types, an odd extent, two grid axes, mean and variance, argmax. */
static void make_stats(Five *f, bool cuda)
{
    Make m = begin(f, "stats_k5_row", CLASS_ROW, cuda, 32, 4);
    Dim B = size(&m, "B"), T = size(&m, "T"), C = num(&m, 37);
    Dim x_shape[] = {B, T, C}, r_shape[] = {B, T};
    uint32_t x = param(&m, "x", DT_bf16, K_IN, 3, x_shape);
    uint32_t mean = param(&m, "mean", DT_f32, K_OUT, 2, r_shape);
    uint32_t var = param(&m, "var", DT_f16, K_OUT, 2, r_shape);
    uint32_t best = param(&m, "best", DT_i64, K_OUT, 2, r_shape);
    Symbol b = axis(&m, "b", B), t = axis(&m, "t", T), c = axis(&m, "c", C);
    uint32_t mv = accumulator(&m, "mv", RED_moments, DT_f32, (Symbol){0});
    uint32_t top = accumulator(&m, "top", RED_argmax, DT_f32, (Symbol){0});
    KBlock *cell = loop(&m, &m.k->body, b, B, FOR_GRID, 1);
    cell = loop(&m, cell, t, T, FOR_GRID, 1);
    start(&m, cell, mv);
    start(&m, cell, top);
    KBlock *lanes = loop(&m, cell, c, C, FOR_LANES, 1);
    Dim index[] = {at(&m, b), at(&m, t), at(&m, c)};
    KExprInfo up = {.kind = KE_CAST, .type = DT_f32, .nin = 1};
    up.in[0] = load(&m, x, 3, index);
    KExpr v = kernel_expr(f->p, m.k, up);
    let(&m, lanes, v, "v");
    fold(&m, lanes, mv, v);
    fold(&m, lanes, top, v);
    vec_last(lanes).fold_index = at(&m, c);
    total(&m, cell, mv, false);
    total(&m, cell, top, false);
    store(&m, cell, mean, 2, index, acc_value(&m, mv, 0));
    KExprInfo half = {.kind = KE_CAST, .type = DT_f16, .nin = 1};
    half.in[0] = acc_value(&m, mv, 1);
    store(&m, cell, var, 2, index, kernel_expr(f->p, m.k, half));
    KExprInfo at_top = {.kind = KE_ACC, .type = DT_i64, .acc = top, .field = 1};
    store(&m, cell, best, 2, index, kernel_expr(f->p, m.k, at_top));
}

/* One cell, rank 0. */
static void make_scalar(Five *f, bool cuda)
{
    Make m = begin(f, "opt_k6_scalars", CLASS_SCALAR, cuda, 1, 1);
    uint32_t step = param(&m, "t", DT_i64, K_INOUT, 0, NULL);
    uint32_t rate = param(&m, "rate", DT_f64, K_OUT, 0, NULL);
    KExpr one = kernel_expr(f->p, m.k, (KExprInfo){.kind = KE_CONST, .type = DT_i64, .word = 1});
    KExpr next = op2(&m, OP_add, load(&m, step, 0, NULL), one);
    let(&m, &m.k->body, next, "t");
    KExprInfo real64 = {.kind = KE_CAST, .type = DT_f64, .nin = 1, .in = {next}};
    KExprInfo beta = {.kind = KE_CONST, .type = DT_f64, .value = 0.9};
    KExprInfo unit = {.kind = KE_CONST, .type = DT_f64, .value = 1};
    KExpr power = op2(&m, OP_pow, kernel_expr(f->p, m.k, beta), kernel_expr(f->p, m.k, real64));
    store(&m, &m.k->body, rate, 0, NULL,
          op2(&m, OP_sub, kernel_expr(f->p, m.k, unit), power));
    store(&m, &m.k->body, step, 0, NULL, next);
}

/* Concatenation, dropout, a row of the op table that needs its operand twice; chunks of a long axis. */
static void make_pieces(Five *f, bool cuda)
{
    Make m = begin(f, "mix_k7_map", CLASS_MAP, cuda, 256, 1);
    Dim N = size(&m, "N"), n2 = dim_mul(dims(&m), num(&m, 2), N);
    uint32_t a = param(&m, "a", DT_f32, K_IN, 1, &N), b = param(&m, "b", DT_f32, K_IN, 1, &N);
    uint32_t key = param(&m, "key", DT_u64, K_IN, 0, NULL);
    uint32_t y = param(&m, "y", DT_f32, K_OUT, 1, &n2);
    Symbol i = axis(&m, "i", n2);
    KBlock *body;
    if (cuda) {
        body = loop(&m, &m.k->body, i, n2, FOR_GRID, 1);
        m.k->body.at[0].grid_lanes = true;
    } else {
        Dim chunk = num(&m, 4096);
        Symbol g = axis(&m, "g", dim_ceildiv(dims(&m), n2, chunk));
        body = loop(&m, &m.k->body, g, dim_symbol(dims(&m), g)->extent, FOR_GRID, 1);
        KStmt *s = kblock_add(f->p, body, KS_FOR);
        s->axis = i;
        s->lo = dim_mul(dims(&m), chunk, at(&m, g));
        s->hi = dim_min(dims(&m), n2, dim_add(dims(&m), s->lo, chunk));
        s->loop = FOR_LANES;
        body = &s->body;
    }
    GuardTerm *in_a = arena_new(f->cx->perm, GuardTerm);
    *in_a = (GuardTerm){.kind = G_LT, .a = at(&m, i), .b = N};
    Dim at_a = at(&m, i), at_b = dim_sub(dims(&m), at(&m, i), N);
    KExprInfo cat = {.kind = KE_SELECT, .type = DT_f32, .nin = 2, .pred = {in_a, 1}};
    cat.in[0] = load(&m, a, 1, &at_a);
    cat.in[1] = load(&m, b, 1, &at_b);
    KExprInfo random = {.kind = KE_RANDOM, .type = DT_f32, .nin = 1, .index = at(&m, i),
                        .field = RANDOM_UNIFORM};
    random.in[0] = load(&m, key, 0, NULL);
    KExpr drop = op2(&m, OP_lt, kernel_expr(f->p, m.k, random), real(&m, 0.25));
    KExpr x = op1(&m, OP_relu, op2(&m, OP_mul, kernel_expr(f->p, m.k, cat), real(&m, 1.5)));
    store(&m, body, y, 1, &at_a, op(&m, OP_where, 3, drop, real(&m, 0), x));
}

Five five_make(bool cuda)
{
    Five f = {.cx = ctx_create()};
    f.p = program_create(f.cx, sym_of(f.cx->names, "five"));
    make_cell(&f, cuda);
    make_xent(&f, cuda);
    make_layernorm(&f, cuda);
    make_colsum(&f, cuda);
    make_stats(&f, cuda);
    make_scalar(&f, cuda);
    make_pieces(&f, cuda);
    return f;
}

void five_free(Five *f)
{
    ctx_destroy(f->cx);
}
