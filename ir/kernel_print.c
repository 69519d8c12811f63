/* kernel_print.c: kernel IR as text; kernel_parse.c reads it back. ir.md section 4.
 * Names of values are numbered where the model uses one twice, so the text parses.
 * SPDX-License-Identifier: MIT */
#include "ir/base/die.h"
#include "ir/kernel_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *const kernel_class_names[] = {"map",    "row",  "reduce", "contract",
                                          "scalar", "copy", "opaque"};
const char *const kernel_mode_names[] = {"in", "out", "inout"};
const char *const kernel_loop_names[] = {"grid", "teams", "lanes", "serial", "unroll"};
const char *const kernel_random_names[] = {"random_bits", "random_uniform", "random_normal"};
const char *const kernel_guard_names[] = {"==",   "!=",  "<",    "<=",    "divides",
                                          "arch", "has", "want", "choice"};

typedef struct {
    const Program *p;
    const Kernel *k;
    StrBuf *out;
    bool anonymous;
    Sym *let;       /* of expressions that have a LET in scope */
    VEC(Sym) taken; /* names of LETs so far */
    uint32_t lets;  /* anonymous: how many */
} Print;

static const char *text_of(const Print *w, Sym s)
{
    return sym_text(w->p->cx->names, s);
}

static void put_dim(Print *w, Dim d)
{
    dim_print(w->p->cx->dims, d, w->out);
}

static void put_dims(Print *w, const Dim *d, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (i)
            sb_puts(w->out, ", ");
        put_dim(w, d[i]);
    }
}

static void put_param_name(Print *w, uint32_t param)
{
    if (w->anonymous)
        sb_printf(w->out, "p%u", param);
    else
        sb_puts(w->out, text_of(w, w->k->params.at[param].name));
}

static void put_acc_name(Print *w, uint32_t acc)
{
    if (w->anonymous)
        sb_printf(w->out, "a%u", acc);
    else
        sb_puts(w->out, text_of(w, w->k->accs.at[acc].name));
}

static void put_keep_name(Print *w, uint32_t keep)
{
    if (w->anonymous)
        sb_printf(w->out, "k%u", keep);
    else
        sb_puts(w->out, text_of(w, w->k->keeps.at[keep].name));
}

static void put_at(Print *w, uint32_t param, const Dim *at)
{
    put_param_name(w, param);
    if (!w->k->params.at[param].rank)
        return;
    sb_putc(w->out, '[');
    put_dims(w, at, w->k->params.at[param].rank);
    sb_putc(w->out, ']');
}

static void put_guard(Print *w, Guard g)
{
    for (uint32_t i = 0; i < g.n; i++) {
        const GuardTerm *t = &g.at[i];
        if (i)
            sb_puts(w->out, " and ");
        switch (t->kind) {
        case G_EQ:
        case G_NE:
        case G_LT:
        case G_LE:
            put_dim(w, t->a);
            sb_printf(w->out, " %s ", kernel_guard_names[t->kind]);
            put_dim(w, t->b);
            break;
        case G_DIVISIBLE:
            sb_printf(w->out, "%" PRId64 " divides ", t->k);
            put_dim(w, t->a);
            break;
        case G_ARCH:
        case G_HAS:
        case G_WANT:
        case G_CHOICE:
            sb_printf(w->out, "%s %" PRId64, kernel_guard_names[t->kind], t->k);
            break;
        }
    }
}

/* --- expressions --------------------------------------------------------------------------------
 */

static const char *infix(Op op)
{
    switch (op) {
    case OP_add:
        return "+";
    case OP_sub:
        return "-";
    case OP_mul:
        return "*";
    case OP_div:
        return "/";
    case OP_eq:
        return "==";
    case OP_ne:
        return "!=";
    case OP_lt:
        return "<";
    case OP_le:
        return "<=";
    case OP_gt:
        return ">";
    case OP_ge:
        return ">=";
    default:
        return NULL;
    }
}

static void put_expr(Print *w, KExpr e);

/* Infix operators inside one another are always in parentheses: no precedence to remember. */
static void put_operand(Print *w, KExpr e)
{
    const KExprInfo *x = kexpr(w->k, e);
    bool wrap = x->kind == KE_OP && infix(x->op) && !w->let[e.id].id;
    if (wrap)
        sb_putc(w->out, '(');
    put_expr(w, e);
    if (wrap)
        sb_putc(w->out, ')');
}

static void put_args(Print *w, const KExprInfo *x)
{
    for (uint32_t i = 0; i < x->nin; i++) {
        if (i)
            sb_puts(w->out, ", ");
        put_expr(w, x->in[i]);
    }
}

static void put_const(Print *w, const KExprInfo *x)
{
    if (!dtype_is_float(x->type))
        sb_printf(w->out, "%" PRId64, x->word);
    else {
        char text[40];
        snprintf(text, sizeof text, x->type == DT_f64 ? "%.17g" : "%.9g", x->value);
        sb_puts(w->out, text);
        if (!strpbrk(text, ".eni"))
            sb_puts(w->out, ".0");
    }
    if (x->type != DT_f32)
        sb_printf(w->out, ":%s", dtype_name(x->type));
}

static const char *acc_result(Reducer r, uint32_t field)
{
    if (r == RED_moments)
        return field ? ".var" : ".mean";
    if (r == RED_argmax || r == RED_argmin)
        return field ? ".index" : ".value";
    if (r == RED_logsumexp)
        return field == 2 ? ".sum" : field ? ".max" : "";
    return "";
}

static void put_op(Print *w, const KExprInfo *x)
{
    const char *sign = infix(x->op);
    if (sign) {
        put_operand(w, x->in[0]);
        sb_printf(w->out, " %s ", sign);
        put_operand(w, x->in[1]);
        return;
    }
    sb_printf(w->out, "%s(", op_name(x->op));
    put_args(w, x);
    sb_putc(w->out, ')');
}

static void put_select(Print *w, const KExprInfo *x)
{
    sb_putc(w->out, '(');
    put_expr(w, x->in[0]);
    sb_puts(w->out, " if ");
    put_guard(w, x->pred);
    sb_puts(w->out, " else ");
    put_expr(w, x->in[1]);
    sb_putc(w->out, ')');
}

static void put_expr(Print *w, KExpr e)
{
    const KExprInfo *x = kexpr(w->k, e);
    if (w->let[e.id].id) {
        sb_printf(w->out, "%%%s", text_of(w, w->let[e.id]));
        return;
    }
    switch (x->kind) {
    case KE_CONST:
        put_const(w, x);
        break;
    case KE_INDEX:
        sb_printf(w->out, "%s(", dtype_name(x->type));
        put_dim(w, x->index);
        sb_putc(w->out, ')');
        break;
    case KE_LOAD:
        put_at(w, x->param, x->at);
        break;
    case KE_OP:
        put_op(w, x);
        break;
    case KE_EXTERN:
        sb_printf(w->out, "extern(\"%s\", ", text_of(w, x->text));
        put_args(w, x);
        sb_putc(w->out, ')');
        break;
    case KE_CAST:
    case KE_BITCAST:
        sb_puts(w->out, x->kind == KE_CAST ? "cast(" : "bitcast(");
        put_expr(w, x->in[0]);
        sb_printf(w->out, ", %s)", dtype_name(x->type));
        break;
    case KE_SELECT:
        put_select(w, x);
        break;
    case KE_ACC: {
        const KAcc *acc = &w->k->accs.at[x->acc];
        put_acc_name(w, x->acc);
        sb_puts(w->out, acc_result(acc->reducer, x->field));
        if (acc->side) {
            sb_putc(w->out, '[');
            put_dim(w, x->index);
            sb_putc(w->out, ']');
        }
        break;
    }
    case KE_KEEP:
        put_keep_name(w, x->keep);
        sb_putc(w->out, '[');
        put_dim(w, x->index);
        sb_putc(w->out, ']');
        break;
    case KE_KEY:
        sb_puts(w->out, "key(");
        put_args(w, x);
        sb_printf(w->out, ", %" PRId64 ")", x->word);
        break;
    case KE_RANDOM:
        sb_printf(w->out, "%s(", kernel_random_names[x->field]);
        put_args(w, x);
        sb_puts(w->out, ", ");
        put_dim(w, x->index);
        sb_putc(w->out, ')');
        break;
    }
}

/* --- statements ---------------------------------------------------------------------------------
 */

/* A name for a LET that no other of the kernel has. */
static Sym let_name(Print *w, Sym wanted)
{
    Arena *a = w->p->cx->scratch;
    const char *base = wanted.id ? text_of(w, wanted) : "v";
    if (w->anonymous)
        return sym_of(w->p->cx->names, arena_printf(a, "v%u", w->lets++));
    for (uint32_t i = 0;; i++) {
        const char *s = i || strcmp(base, "v") == 0 ? arena_printf(a, "%s%u", base, i) : base;
        Sym name = sym_of(w->p->cx->names, s);
        uint32_t j = 0;
        while (j < w->taken.n && !sym_eq(w->taken.at[j], name))
            j++;
        if (j == w->taken.n) {
            vec_push(a, &w->taken, name);
            return name;
        }
    }
}

static void put_block(Print *w, const KBlock *b, int depth);

static void put_body(Print *w, const KBlock *b, int depth)
{
    sb_puts(w->out, " {\n");
    put_block(w, b, depth + 1);
    sb_printf(w->out, "%*s}\n", 2 * depth, "");
}

static void put_for(Print *w, const KStmt *s, int depth)
{
    sb_printf(w->out, "for %s in ", text_of(w, dim_symbol(w->p->cx->dims, s->axis)->name));
    put_dim(w, s->lo);
    /* a name may have dots in it */
    sb_puts(w->out, dim_is_zero(w->p->cx->dims, s->lo) ? ".." : " .. ");
    put_dim(w, s->hi);
    sb_printf(w->out, " %s", kernel_loop_names[s->loop]);
    if (s->grid_lanes)
        sb_puts(w->out, " lanes");
    if (s->vec > 1)
        sb_printf(w->out, " vec %d", s->vec);
    put_body(w, &s->body, depth);
}

static void put_let(Print *w, const KStmt *s)
{
    const KExprInfo *x = kexpr(w->k, s->expr);
    if (s->axis.id) {
        sb_printf(w->out, "%s = ", text_of(w, dim_symbol(w->p->cx->dims, s->axis)->name));
        put_expr(w, s->expr);
    } else {
        Sym name = let_name(w, x->name);
        sb_printf(w->out, "%%%s = ", text_of(w, name));
        put_expr(w, s->expr);
        w->let[s->expr.id] = name;
    }
    sb_putc(w->out, '\n');
}

static void put_fold(Print *w, const KStmt *s)
{
    const KAcc *acc = &w->k->accs.at[s->acc];
    put_acc_name(w, s->acc);
    if (acc->side) {
        sb_putc(w->out, '[');
        put_dim(w, s->keep_index);
        sb_putc(w->out, ']');
    }
    sb_puts(w->out, " <- ");
    put_expr(w, s->expr);
    if (acc->reducer == RED_argmax || acc->reducer == RED_argmin) {
        sb_puts(w->out, " at ");
        put_dim(w, s->fold_index);
    }
    sb_putc(w->out, '\n');
}

static void put_acc(Print *w, const KStmt *s)
{
    const KAcc *acc = &w->k->accs.at[s->acc];
    sb_puts(w->out, "acc ");
    put_acc_name(w, s->acc);
    sb_printf(w->out, ": %s %s", reducer_info(acc->reducer)->name, dtype_name(acc->type));
    if (acc->side) {
        const SymbolInfo *axis = dim_symbol(w->p->cx->dims, acc->axis);
        sb_printf(w->out, " side %s in ", text_of(w, axis->name));
        put_dim(w, axis->extent);
    }
    sb_putc(w->out, '\n');
}

static void put_keep(Print *w, const KStmt *s)
{
    const KKeep *keep = &w->k->keeps.at[s->keep];
    sb_puts(w->out, "keep ");
    put_keep_name(w, s->keep);
    sb_printf(w->out, ": %s[", dtype_name(keep->type));
    put_dim(w, keep->extent);
    sb_puts(w->out, "] at ");
    put_dim(w, s->keep_index);
    sb_puts(w->out, " = ");
    put_expr(w, s->expr);
    sb_putc(w->out, '\n');
}

/* call sort_f32 (x, v) {n, k} reports */
static void put_call(Print *w, const KStmt *s)
{
    sb_printf(w->out, "call %s (", text_of(w, s->call));
    for (uint32_t i = 0; i < s->nargs; i++) {
        sb_puts(w->out, i ? ", " : "");
        if (s->args[i] == NO_PARAM)
            sb_puts(w->out, "none");
        else
            put_param_name(w, s->args[i]);
    }
    sb_puts(w->out, ") {");
    for (uint32_t i = 0; i < s->nints; i++) {
        sb_puts(w->out, i ? ", " : "");
        put_dim(w, s->ints[i]);
    }
    sb_puts(w->out, s->reports ? "} reports" : "}");
    if (s->hooked && !s->hook[0].id)
        sb_puts(w->out, " unhooked");
    if (s->hook[0].id) {
        sb_printf(w->out, " hook %s (", text_of(w, w->k->accs.at[0].name));
        for (uint32_t i = 0; i < 4; i++)
            sb_printf(w->out, "%s%s", i ? ", " : "",
                      text_of(w, dim_symbol(w->p->cx->dims, s->hook_at[i])->name));
        for (uint32_t i = 0; i < 2 && s->hook[i].id; i++) {
            sb_puts(w->out, i ? ", " : ") ");
            put_expr(w, s->hook[i]);
        }
    }
    sb_putc(w->out, '\n');
}

static void put_stmt(Print *w, const KStmt *s, int depth)
{
    sb_printf(w->out, "%*s", 2 * depth, "");
    switch (s->kind) {
    case KS_FOR:
        put_for(w, s, depth);
        break;
    case KS_WHEN:
        sb_puts(w->out, "when ");
        put_guard(w, s->pred);
        put_body(w, &s->body, depth);
        break;
    case KS_LAST:
        sb_puts(w->out, "last at ");
        put_dim(w, s->lo);
        sb_puts(w->out, " of ");
        put_dim(w, s->hi);
        sb_printf(w->out, " over %s", s->over_block ? "block" : "team");
        put_body(w, &s->body, depth);
        break;
    case KS_LET:
        put_let(w, s);
        break;
    case KS_STORE:
        sb_puts(w->out, "store ");
        put_at(w, s->param, s->at);
        sb_puts(w->out, " = ");
        put_expr(w, s->expr);
        sb_putc(w->out, '\n');
        break;
    case KS_FOLD:
        put_fold(w, s);
        break;
    case KS_TOTAL:
        sb_puts(w->out, "total ");
        put_acc_name(w, s->acc);
        sb_printf(w->out, " over %s\n", s->over_block ? "block" : "team");
        break;
    case KS_KEEP:
        put_keep(w, s);
        break;
    case KS_ACC:
        put_acc(w, s);
        break;
    case KS_BARRIER:
        sb_puts(w->out, "barrier\n");
        break;
    case KS_CHECK:
        sb_puts(w->out, "check ");
        put_guard(w, s->pred);
        sb_putc(w->out, '\n');
        break;
    case KS_CALL:
        put_call(w, s);
        break;
    }
}

static void put_block(Print *w, const KBlock *b, int depth)
{
    for (uint32_t i = 0; i < b->n; i++)
        put_stmt(w, &b->at[i], depth);
    for (uint32_t i = 0; i < b->n; i++) /* a LET ends with its block */
        if (b->at[i].kind == KS_LET)
            w->let[b->at[i].expr.id] = (Sym){0};
}

static bool is_row_major(const Program *p, const KParam *q)
{
    Dim stride = dim_const(p->cx->dims, 1);
    for (uint32_t i = q->rank; i-- > 0;) {
        if (!dim_same(q->stride[i], stride))
            return false;
        stride = dim_mul(p->cx->dims, stride, q->shape[i]);
    }
    return true;
}

static void put_params(Print *w)
{
    sb_putc(w->out, '(');
    for (uint32_t i = 0; i < w->k->params.n; i++) {
        const KParam *q = &w->k->params.at[i];
        if (i)
            sb_puts(w->out, ", ");
        put_param_name(w, i);
        sb_printf(w->out, ": %s[", dtype_name(q->dtype));
        put_dims(w, q->shape, q->rank);
        sb_printf(w->out, "] %s", kernel_mode_names[q->mode]);
        if (!is_row_major(w->p, q)) {
            sb_puts(w->out, " strides [");
            put_dims(w, q->stride, q->rank);
            sb_putc(w->out, ']');
        }
    }
    sb_putc(w->out, ')');
}

static void print_kernel(const Program *p, const Kernel *k, bool anonymous, StrBuf *out)
{
    Print w = {.p = p,
               .k = k,
               .out = out,
               .anonymous = anonymous,
               .let = arena_array(p->cx->scratch, Sym, k->exprs.n)};
    sb_printf(out, "kernel %s %s ", anonymous ? "k" : sym_text(p->cx->names, k->name),
              kernel_class_names[k->class]);
    put_params(&w);
    if (k->when.n) {
        sb_puts(out, " when ");
        put_guard(&w, k->when);
    }
    if (k->lanes != 1 || k->teams != 1)
        sb_printf(out, " team %d x %d", k->lanes, k->teams);
    if (k->counters)
        sb_printf(out, " counters %d", k->counters);
    if (k->turned)
        sb_puts(out, " turned");
    if (k->tile.m)
        sb_printf(out, " tile %d x %d copies %d%s, %d%s width %d%s", k->tile.m, k->tile.n,
                  k->tile.a_bytes, k->tile.a_by_k ? " by k" : "", k->tile.b_bytes,
                  k->tile.b_by_k ? " by k" : "", k->tile.width, k->tile.tensor ? " tensor" : "");
    put_body(&w, &k->body, 0);
}

void kernel_print(const Program *p, const Kernel *k, StrBuf *out)
{
    print_kernel(p, k, false, out);
}

const char *kernel_structure(const Program *p, const Kernel *k)
{
    StrBuf out = {.a = p->cx->scratch};
    print_kernel(p, k, true, &out);
    return sb_text(&out);
}
