/* kernel_parse.c: reads the text that kernel_print.c writes. SPDX-License-Identifier: MIT */
#include "ir/host.h"
#include "ir/kernel_text.h"
#include "ir/tensor_scan.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    Sym name;
    KExpr expr;
} Let;

typedef struct {
    Scan q;
    Program *p;
    Kernel *k;
    VEC(Symbol) axes; /* in scope: loops and loaded integers */
    VEC(Let) lets;
} Parse;

/* --- sizes and guards
 * ------------------------------------------------------------------------------ */

static bool is_named(const Parse *w, Symbol s, const char *name, size_t n)
{
    const char *text = sym_text(w->p->cx->names, dim_symbol(w->p->cx->dims, s)->name);
    return strlen(text) == n && memcmp(text, name, n) == 0;
}

/* Axes first, then sizes; a size that is new here begins to exist. */
static Symbol find_symbol(void *ctx, const char *name, size_t n)
{
    Parse *w = ctx;
    DimTable *t = w->p->cx->dims;
    for (uint32_t i = w->axes.n; i-- > 0;)
        if (is_named(w, w->axes.at[i], name, n))
            return w->axes.at[i];
    for (uint32_t i = 1; i <= dim_nsymbols(t); i++)
        if (dim_symbol(t, (Symbol){i})->kind == SYM_SIZE && is_named(w, (Symbol){i}, name, n))
            return (Symbol){i};
    return dim_new_symbol(t, SYM_SIZE, sym_intern(w->p->cx->names, name, n), (Dim){0});
}

static Dim parse_dim(Parse *w)
{
    Dim d = {0};
    const char *end = NULL;
    text_skip(&w->q);
    const char *why = dim_parse(w->p->cx->dims, w->q.at, &end, find_symbol, w, &d);
    if (why) {
        text_fail(&w->q, "%s", why);
        return dim_const(w->p->cx->dims, 0);
    }
    w->q.at = end;
    return d;
}

static uint32_t parse_dims(Parse *w, Dim *out, const char *close)
{
    uint32_t n = 0;
    while (!w->q.failed && !text_accept(&w->q, close)) {
        if (n)
            text_expect(&w->q, ",");
        if (n == MAX_RANK) {
            text_fail(&w->q, "at most %d axes", MAX_RANK);
            break;
        }
        out[n++] = parse_dim(w);
    }
    return n;
}

static GuardTerm parse_term(Parse *w)
{
    GuardTerm t = {0};
    static const GuardKind words[] = {G_ARCH, G_HAS, G_WANT};
    for (size_t i = 0; i < 3; i++) {
        if (text_accept(&w->q, kernel_guard_names[words[i]])) {
            t.kind = words[i];
            t.k = text_integer(&w->q);
            return t;
        }
    }
    t.a = parse_dim(w);
    static const GuardKind signs[] = {G_EQ, G_NE, G_LE, G_LT, G_DIVISIBLE};
    for (size_t i = 0; i < 5; i++) {
        if (!text_accept(&w->q, kernel_guard_names[signs[i]]))
            continue;
        t.kind = signs[i];
        t.b = parse_dim(w);
        if (t.kind == G_DIVISIBLE) {
            if (!dim_is_const(w->p->cx->dims, t.a, &t.k) || t.k < 1)
                text_fail(&w->q, "a positive number is expected before 'divides'");
            t.a = t.b;
            t.b = (Dim){0};
        }
        return t;
    }
    text_fail(&w->q, "a comparison is expected");
    return t;
}

static Guard parse_guard(Parse *w)
{
    VEC(GuardTerm) terms = {0};
    do
        vec_push(w->p->cx->perm, &terms, parse_term(w));
    while (text_accept(&w->q, "and"));
    return (Guard){terms.at, terms.n};
}

/* --- expressions
 * ------------------------------------------------------------------------------------ */

static KExpr parse_expr(Parse *w);

static KExpr make(Parse *w, KExprInfo x)
{
    return kernel_expr(w->p, w->k, x);
}

static DType parse_dtype(Parse *w)
{
    DType t = dtype_parse(text_word_text(&w->q));
    if (t == DT_none)
        text_fail(&w->q, "a dtype is expected");
    return t;
}

static KExpr parse_const(Parse *w)
{
    KExprInfo x = {.kind = KE_CONST, .type = DT_f32};
    text_skip(&w->q);
    char *end, *whole;
    double v = strtod(w->q.at, &end);
    long long integer = strtoll(w->q.at, &whole, 10);
    if (end == w->q.at)
        text_fail(&w->q, "a value is expected");
    w->q.at = end;
    if (*w->q.at == ':') {
        w->q.at++;
        x.type = parse_dtype(w);
    }
    if (dtype_is_float(x.type))
        x.value = x.type == DT_f32 ? (double)(float)v : v;
    else
        x.word = integer;
    return make(w, x);
}

static void parse_args(Parse *w, KExprInfo *x)
{
    do {
        if (x->nin == 3) {
            text_fail(&w->q, "at most three operands");
            return;
        }
        x->in[x->nin++] = parse_expr(w);
    } while (text_accept(&w->q, ","));
}

static bool is_number(const Parse *w)
{
    const char *s = w->q.at;
    while (isspace((unsigned char)*s))
        s++;
    const char *digits = *s == '-' ? s + 1 : s;
    return isdigit((unsigned char)*digits) || strncmp(digits, "inf", 3) == 0 ||
           strncmp(digits, "nan", 3) == 0;
}

static KExpr parse_key(Parse *w)
{
    KExprInfo x = {.kind = KE_KEY, .type = DT_u64};
    do {
        if (x.nin >= 2 && is_number(w)) {
            x.word = text_integer(&w->q);
            break;
        }
        x.in[x.nin++] = parse_expr(w);
    } while (x.nin < 3 && text_accept(&w->q, ","));
    text_expect(&w->q, ")");
    return make(w, x);
}

static KExpr parse_random(Parse *w, uint32_t mode)
{
    KExprInfo x = {
        .kind = KE_RANDOM, .field = mode, .nin = 1, .type = mode == RANDOM_BITS ? DT_i32 : DT_f32};
    x.in[0] = parse_expr(w);
    text_expect(&w->q, ",");
    x.index = parse_dim(w);
    text_expect(&w->q, ")");
    return make(w, x);
}

static DType last_type(const Parse *w, const KExprInfo *x)
{
    return kexpr(w->k, x->in[x->nin - 1])->type;
}

/* Behind "name(". */
static KExpr parse_call(Parse *w, const char *name)
{
    KExprInfo x = {0};
    for (uint32_t i = 0; i < 3; i++)
        if (strcmp(name, kernel_random_names[i]) == 0)
            return parse_random(w, i);
    if (strcmp(name, "key") == 0)
        return parse_key(w);
    if (strcmp(name, "cast") == 0 || strcmp(name, "bitcast") == 0) {
        x.kind = name[0] == 'c' ? KE_CAST : KE_BITCAST;
        x.nin = 1;
        x.in[0] = parse_expr(w);
        text_expect(&w->q, ",");
        x.type = parse_dtype(w);
    } else if (strcmp(name, "extern") == 0) {
        x.kind = KE_EXTERN;
        x.text = text_string(&w->q);
        text_expect(&w->q, ",");
        parse_args(w, &x);
        x.type = last_type(w, &x);
    } else if (dtype_parse(name) != DT_none) {
        x = (KExprInfo){.kind = KE_INDEX, .type = dtype_parse(name)};
        x.index = parse_dim(w);
    } else {
        x.kind = KE_OP;
        x.op = op_parse(name);
        if (x.op == OP_none || !op_is_pointwise(x.op)) {
            text_fail(&w->q, "there is no function %s", name);
            return (KExpr){0};
        }
        parse_args(w, &x);
        if (!w->q.failed && (int)x.nin != op_info(x.op)->nmin)
            text_fail(&w->q, "%s takes %d operands", name, op_info(x.op)->nmin);
        x.type = op_info(x.op)->result == RES_BOOL ? DT_bool : last_type(w, &x);
    }
    text_expect(&w->q, ")");
    return make(w, x);
}

static int32_t find_param(const Parse *w, Sym name)
{
    for (uint32_t i = 0; i < w->k->params.n; i++)
        if (sym_eq(w->k->params.at[i].name, name))
            return (int32_t)i;
    return -1;
}

static int32_t find_acc(const Parse *w, Sym name)
{
    for (uint32_t i = 0; i < w->k->accs.n; i++)
        if (sym_eq(w->k->accs.at[i].name, name))
            return (int32_t)i;
    return -1;
}

static void parse_at(Parse *w, uint32_t param, Dim *at)
{
    const KParam *q = &w->k->params.at[param];
    if (!q->rank)
        return;
    text_expect(&w->q, "[");
    uint32_t n = parse_dims(w, at, "]");
    if (!w->q.failed && n != q->rank)
        text_fail(&w->q, "%s has %u axes", sym_text(w->p->cx->names, q->name), q->rank);
}

/* "moments.mean", "argmax.index", "add": an accumulator's result. */
static KExpr parse_acc(Parse *w, const char *name)
{
    const char *dot = strrchr(name, '.');
    Interner *names = w->p->cx->names;
    Sym base = dot ? sym_intern(names, name, (size_t)(dot - name)) : sym_of(names, name);
    int32_t acc = find_acc(w, base);
    if (acc < 0) {
        for (uint32_t i = 0; i < w->k->keeps.n; i++) {
            if (!sym_eq(w->k->keeps.at[i].name, base))
                continue;
            KExprInfo x = {.kind = KE_KEEP, .keep = i, .type = w->k->keeps.at[i].type};
            text_expect(&w->q, "[");
            x.index = parse_dim(w);
            text_expect(&w->q, "]");
            return make(w, x);
        }
        text_fail(&w->q, "there is no %s", name);
        return (KExpr){0};
    }
    const KAcc *a = &w->k->accs.at[acc];
    KExprInfo x = {.kind = KE_ACC, .acc = (uint32_t)acc, .type = a->type};
    if (dot && (strcmp(dot, ".var") == 0 || strcmp(dot, ".index") == 0))
        x.field = 1;
    if (x.field && a->reducer != RED_moments)
        x.type = DT_i64;
    if (dot && (strcmp(dot, ".max") == 0 || strcmp(dot, ".sum") == 0))
        x.field = dot[1] == 'm' ? 1 : 2;
    if (a->side) {
        text_expect(&w->q, "[");
        x.index = parse_dim(w);
        text_expect(&w->q, "]");
    }
    return make(w, x);
}

static KExpr parse_let_name(Parse *w)
{
    Sym name = text_word(&w->q);
    for (uint32_t i = w->lets.n; i-- > 0;)
        if (sym_eq(w->lets.at[i].name, name))
            return w->lets.at[i].expr;
    text_fail(&w->q, "there is no value %%%s", sym_text(w->p->cx->names, name));
    return (KExpr){0};
}

static KExpr parse_parens(Parse *w)
{
    KExpr e = parse_expr(w);
    if (text_accept(&w->q, "if")) {
        KExprInfo x = {.kind = KE_SELECT, .nin = 2, .in = {e}};
        x.pred = parse_guard(w);
        text_expect(&w->q, "else");
        x.in[1] = parse_expr(w);
        x.type = kexpr(w->k, e)->type;
        e = make(w, x);
    }
    text_expect(&w->q, ")");
    return e;
}

static KExpr parse_operand(Parse *w)
{
    if (w->q.failed)
        return (KExpr){0};
    if (text_accept(&w->q, "("))
        return parse_parens(w);
    if (text_accept(&w->q, "%"))
        return parse_let_name(w);
    if (is_number(w))
        return parse_const(w);
    Sym word = text_word(&w->q);
    const char *name = sym_text(w->p->cx->names, word);
    if (w->q.failed)
        return (KExpr){0};
    if (*w->q.at == '(') {
        w->q.at++;
        return parse_call(w, name);
    }
    int32_t param = find_param(w, word);
    if (param < 0)
        return parse_acc(w, name);
    KExprInfo x = {.kind = KE_LOAD, .param = (uint32_t)param, .type = w->k->params.at[param].dtype};
    parse_at(w, x.param, x.at);
    return make(w, x);
}

static Op parse_infix(Parse *w)
{
    static const struct {
        const char *sign;
        Op op;
    } table[] = {{"==", OP_eq},   {"!=", OP_ne}, {"<=", OP_le}, {">=", OP_ge},
                 {"<-", OP_none}, {"<", OP_lt},  {">", OP_gt},  {"+", OP_add},
                 {"-", OP_sub},   {"*", OP_mul}, {"/", OP_div}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (text_accept(&w->q, table[i].sign))
            return table[i].op;
    return OP_none;
}

static KExpr parse_expr(Parse *w)
{
    KExpr e = parse_operand(w);
    Op op = parse_infix(w);
    if (op == OP_none || w->q.failed)
        return e;
    KExpr y = parse_operand(w);
    KExprInfo x = {.kind = KE_OP, .op = op, .nin = 2, .in = {e, y}};
    x.type = op_info(op)->result == RES_BOOL ? DT_bool : kexpr(w->k, y)->type;
    return w->q.failed ? e : make(w, x);
}

/* --- statements
 * -------------------------------------------------------------------------------------- */

static void parse_block(Parse *w, KBlock *b);

static Symbol new_axis(Parse *w, Sym name, SymbolKind kind, Dim extent)
{
    DimTable *t = w->p->cx->dims;
    Symbol s = dim_new_symbol(t, kind, name, extent);
    if (kind == SYM_AXIS) {
        SymbolInfo *info = dim_symbol(t, s);
        int64_t lo, hi;
        dim_interval(t, extent, &lo, &hi);
        info->lo = 0;
        info->hi = hi == INT64_MAX ? hi : hi - 1;
    }
    vec_push(w->p->cx->perm, &w->axes, s);
    return s;
}

static int find_word(Parse *w, const char *const *words, int n)
{
    for (int i = 0; i < n; i++)
        if (text_accept(&w->q, words[i]))
            return i;
    text_fail(&w->q, "'%s' or another word of its kind is expected", words[0]);
    return 0;
}

static void parse_for(Parse *w, KBlock *b)
{
    Sym name = text_word(&w->q);
    uint32_t scope = w->axes.n;
    KStmt s = {.kind = KS_FOR, .vec = 1};
    text_expect(&w->q, "in");
    s.lo = parse_dim(w);
    text_expect(&w->q, "..");
    s.hi = parse_dim(w);
    s.loop = (ForKind)find_word(w, kernel_loop_names, 5);
    s.grid_lanes = s.loop == FOR_GRID && text_accept(&w->q, "lanes");
    if (text_accept(&w->q, "vec"))
        s.vec = (int)text_integer_in(&w->q, 1, 64);
    s.axis = new_axis(w, name, SYM_AXIS, s.hi);
    parse_block(w, &s.body);
    w->axes.n = scope;
    vec_push(w->p->cx->perm, b, s);
}

static uint32_t parse_acc_name(Parse *w)
{
    Sym name = text_word(&w->q);
    int32_t acc = find_acc(w, name);
    if (acc < 0)
        text_fail(&w->q, "there is no accumulator %s", sym_text(w->p->cx->names, name));
    return acc < 0 ? 0 : (uint32_t)acc;
}

static void parse_start(Parse *w, KBlock *b)
{
    KAcc acc = {.name = text_word(&w->q)};
    text_expect(&w->q, ":");
    acc.reducer = reducer_parse(text_word_text(&w->q));
    acc.type = parse_dtype(w);
    if (acc.reducer == RED_none)
        text_fail(&w->q, "a reducer is expected");
    if (text_accept(&w->q, "side")) {
        acc.side = true;
        Sym axis = text_word(&w->q);
        text_expect(&w->q, "in");
        Dim extent = parse_dim(w);
        acc.axis = new_axis(w, axis, SYM_AXIS, extent);
    }
    int32_t known = find_acc(w, acc.name);
    if (known < 0) {
        vec_push(w->p->cx->perm, &w->k->accs, acc);
        known = (int32_t)w->k->accs.n - 1;
    }
    kblock_add(w->p, b, KS_ACC)->acc = (uint32_t)known;
}

static void parse_keep(Parse *w, KBlock *b)
{
    KKeep keep = {.name = text_word(&w->q)};
    KStmt s = {.kind = KS_KEEP};
    text_expect(&w->q, ":");
    keep.type = parse_dtype(w);
    text_expect(&w->q, "[");
    keep.extent = parse_dim(w);
    text_expect(&w->q, "]");
    text_expect(&w->q, "at");
    s.keep_index = parse_dim(w);
    text_expect(&w->q, "=");
    s.expr = parse_expr(w);
    vec_push(w->p->cx->perm, &w->k->keeps, keep);
    s.keep = w->k->keeps.n - 1;
    vec_push(w->p->cx->perm, b, s);
}

static void parse_let(Parse *w, KBlock *b)
{
    Sym name = text_word(&w->q);
    text_expect(&w->q, "=");
    KExpr e = parse_expr(w);
    if (w->q.failed)
        return;
    w->k->exprs.at[e.id].name = name;
    vec_push(w->p->cx->perm, &w->lets, ((Let){name, e}));
    kblock_add(w->p, b, KS_LET)->expr = e;
}

static void parse_store(Parse *w, KBlock *b)
{
    KStmt s = {.kind = KS_STORE};
    Sym name = text_word(&w->q);
    int32_t param = find_param(w, name);
    if (param < 0) {
        text_fail(&w->q, "there is no parameter %s", sym_text(w->p->cx->names, name));
        return;
    }
    s.param = (uint32_t)param;
    parse_at(w, s.param, s.at);
    text_expect(&w->q, "=");
    s.expr = parse_expr(w);
    vec_push(w->p->cx->perm, b, s);
}

/* "add <- x", or "index = cast(t[n], i64)". */
static void parse_named(Parse *w, KBlock *b)
{
    KStmt s = {.kind = KS_FOLD};
    Sym name = text_word(&w->q);
    if (text_accept(&w->q, "=")) {
        s.kind = KS_LET;
        s.expr = parse_expr(w);
        s.axis = new_axis(w, name, SYM_LOADED, (Dim){0});
        vec_push(w->p->cx->perm, b, s);
        return;
    }
    int32_t acc = find_acc(w, name);
    if (acc < 0) {
        text_fail(&w->q, "there is no accumulator %s", sym_text(w->p->cx->names, name));
        return;
    }
    s.acc = (uint32_t)acc;
    if (text_accept(&w->q, "[")) {
        s.keep_index = parse_dim(w);
        text_expect(&w->q, "]");
    }
    text_expect(&w->q, "<-");
    s.expr = parse_expr(w);
    if (text_accept(&w->q, "at"))
        s.fold_index = parse_dim(w);
    vec_push(w->p->cx->perm, b, s);
}

/* s (b, h, i, j) what becomes of s, its derivative */
static void parse_hook(Parse *w, KStmt *s)
{
    KAcc acc = {.name = text_word(&w->q), .reducer = RED_add, .type = DT_f32};
    const uint32_t scope = w->axes.n;
    vec_push(w->p->cx->perm, &w->k->accs, acc);
    text_expect(&w->q, "(");
    for (int i = 0; i < 4; i++) {
        if (i)
            text_expect(&w->q, ",");
        const Sym name = text_word(&w->q);
        s->hook_at[i] = new_axis(w, name, SYM_AXIS, dim_const(w->p->cx->dims, INT32_MAX));
    }
    text_expect(&w->q, ")");
    s->hook[0] = parse_expr(w);
    if (text_accept(&w->q, ","))
        s->hook[1] = parse_expr(w);
    w->axes.n = scope;
}

/* call NAME (parameters) {sizes} reports hook */
static void parse_call_stmt(Parse *w, KBlock *b)
{
    Arena *a = w->p->cx->perm;
    KStmt s = {.kind = KS_CALL, .call = text_word(&w->q)};
    VEC(uint32_t) args = {0};
    VEC(Dim) ints = {0};
    text_expect(&w->q, "(");
    while (!w->q.failed && !text_accept(&w->q, ")")) {
        if (args.n)
            text_expect(&w->q, ",");
        if (text_accept(&w->q, "none")) {
            vec_push(a, &args, NO_PARAM);
            continue;
        }
        int32_t param = find_param(w, text_word(&w->q));
        if (param < 0) {
            text_fail(&w->q, "there is no such parameter");
            return;
        }
        vec_push(a, &args, (uint32_t)param);
    }
    text_expect(&w->q, "{");
    while (!w->q.failed && !text_accept(&w->q, "}")) {
        if (ints.n)
            text_expect(&w->q, ",");
        Dim d = parse_dim(w);
        vec_push(a, &ints, d);
    }
    s.reports = text_accept(&w->q, "reports");
    s.hooked = text_accept(&w->q, "unhooked");
    if (text_accept(&w->q, "hook")) {
        s.hooked = true;
        parse_hook(w, &s);
    }
    s.args = args.at;
    s.nargs = args.n;
    s.ints = ints.at;
    s.nints = ints.n;
    vec_push(a, b, s);
}

static void parse_stmt(Parse *w, KBlock *b)
{
    static const char *const over[] = {"team", "block"};
    KStmt *s;
    if (text_accept(&w->q, "for")) {
        parse_for(w, b);
    } else if (text_accept(&w->q, "when")) {
        KStmt when = {.kind = KS_WHEN};
        when.pred = parse_guard(w);
        parse_block(w, &when.body);
        vec_push(w->p->cx->perm, b, when);
    } else if (text_accept(&w->q, "last")) {
        KStmt last = {.kind = KS_LAST};
        text_expect(&w->q, "at");
        last.lo = parse_dim(w);
        text_expect(&w->q, "of");
        last.hi = parse_dim(w);
        text_expect(&w->q, "over");
        last.over_block = find_word(w, over, 2) == 1;
        parse_block(w, &last.body);
        vec_push(w->p->cx->perm, b, last);
    } else if (text_accept(&w->q, "acc")) {
        parse_start(w, b);
    } else if (text_accept(&w->q, "total")) {
        uint32_t acc = parse_acc_name(w);
        text_expect(&w->q, "over");
        s = kblock_add(w->p, b, KS_TOTAL);
        s->acc = acc;
        s->over_block = find_word(w, over, 2) == 1;
    } else if (text_accept(&w->q, "keep")) {
        parse_keep(w, b);
    } else if (text_accept(&w->q, "store")) {
        parse_store(w, b);
    } else if (text_accept(&w->q, "barrier")) {
        kblock_add(w->p, b, KS_BARRIER);
    } else if (text_accept(&w->q, "check")) {
        Guard g = parse_guard(w);
        kblock_add(w->p, b, KS_CHECK)->pred = g;
    } else if (text_accept(&w->q, "call")) {
        parse_call_stmt(w, b);
    } else if (text_accept(&w->q, "%")) {
        parse_let(w, b);
    } else {
        parse_named(w, b);
    }
}

static void parse_block(Parse *w, KBlock *b)
{
    uint32_t axes = w->axes.n, lets = w->lets.n;
    text_expect(&w->q, "{");
    while (!w->q.failed && !text_accept(&w->q, "}"))
        parse_stmt(w, b);
    w->axes.n = axes;
    w->lets.n = lets;
}

/* --- the head
 * ------------------------------------------------------------------------------------------ */

static void parse_param(Parse *w)
{
    DimTable *t = w->p->cx->dims;
    KParam q = {.name = text_word(&w->q)};
    text_expect(&w->q, ":");
    q.dtype = parse_dtype(w);
    text_expect(&w->q, "[");
    q.rank = parse_dims(w, q.shape, "]");
    q.mode = (KMode)find_word(w, kernel_mode_names, 3);
    q.readonly_scalar = q.rank == 0;
    Dim stride = dim_const(t, 1);
    for (uint32_t i = q.rank; i-- > 0;) {
        q.stride[i] = stride;
        stride = dim_mul(t, stride, q.shape[i]);
    }
    if (text_accept(&w->q, "strides")) {
        text_expect(&w->q, "[");
        if (parse_dims(w, q.stride, "]") != q.rank)
            text_fail(&w->q, "as many strides as axes are expected");
    }
    vec_push(w->p->cx->perm, &w->k->params, q);
}

static bool parse_by_k(Parse *w)
{
    if (!text_accept(&w->q, "by"))
        return false;
    text_expect(&w->q, "k");
    return true;
}

/* tile 64 x 64 copies 16 by k, 4 width 4 tensor */
static void parse_tile(Parse *w, KTile *tile)
{
    tile->m = (int)text_integer_in(&w->q, 1, 1024);
    text_expect(&w->q, "x");
    tile->n = (int)text_integer_in(&w->q, 1, 1024);
    text_expect(&w->q, "copies");
    tile->a_bytes = (int)text_integer_in(&w->q, 0, 16);
    tile->a_by_k = parse_by_k(w);
    text_expect(&w->q, ",");
    tile->b_bytes = (int)text_integer_in(&w->q, 0, 16);
    tile->b_by_k = parse_by_k(w);
    text_expect(&w->q, "width");
    tile->width = (int)text_integer_in(&w->q, 1, 16);
    tile->tensor = text_accept(&w->q, "tensor");
}

Kernel *kernel_parse(Program *p, uint32_t file)
{
    const SourceFile *source = source_file(p->cx->sources, file);
    Parse w = {.p = p};
    w.q.cx = p->cx;
    w.q.p = p;
    w.q.file = file;
    w.q.text = w.q.at = source->text;
    text_expect(&w.q, "kernel");
    Sym name = text_word(&w.q);
    w.k = kernel_create(p, name, (KClass)find_word(&w, kernel_class_names, 7));
    text_expect(&w.q, "(");
    while (!w.q.failed && !text_accept(&w.q, ")")) {
        if (w.k->params.n)
            text_expect(&w.q, ",");
        parse_param(&w);
    }
    if (text_accept(&w.q, "when"))
        w.k->when = parse_guard(&w);
    if (text_accept(&w.q, "team")) {
        w.k->lanes = (int)text_integer_in(&w.q, 1, 1024);
        text_expect(&w.q, "x");
        w.k->teams = (int)text_integer_in(&w.q, 1, 1024);
    }
    if (text_accept(&w.q, "counters"))
        w.k->counters = (int)text_integer_in(&w.q, 1, KERNEL_COUNTERS);
    w.k->turned = text_accept(&w.q, "turned");
    if (text_accept(&w.q, "tile"))
        parse_tile(&w, &w.k->tile);
    parse_block(&w, &w.k->body);
    return w.q.failed ? NULL : w.k;
}
