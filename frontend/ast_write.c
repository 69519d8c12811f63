/* ast_write.c: expressions and types as the user would write them, for messages.
 * SPDX-License-Identifier: MIT */
#include "frontend/ast.h"

typedef struct {
    StrBuf *out;
    const Interner *names;
} Writer;

/* How tightly an expression holds together: its level in the grammar. */
enum {
    LEVEL_COND,
    LEVEL_OR,
    LEVEL_AND,
    LEVEL_NOT,
    LEVEL_COMPARE,
    LEVEL_BOR,
    LEVEL_XOR,
    LEVEL_BAND,
    LEVEL_SHIFT,
    LEVEL_SUM,
    LEVEL_TERM,
    LEVEL_UNARY,
    LEVEL_POWER,
    LEVEL_POSTFIX,
};

static void write(Writer *w, const AstExpr *e, int level);

static int level_of_op(AstOp op)
{
    static const int level[AST_OP_COUNT] = {
        [AST_or] = LEVEL_OR,          [AST_and] = LEVEL_AND,       [AST_eq] = LEVEL_COMPARE,
        [AST_ne] = LEVEL_COMPARE,     [AST_lt] = LEVEL_COMPARE,    [AST_le] = LEVEL_COMPARE,
        [AST_gt] = LEVEL_COMPARE,     [AST_ge] = LEVEL_COMPARE,    [AST_in] = LEVEL_COMPARE,
        [AST_not_in] = LEVEL_COMPARE, [AST_bor] = LEVEL_BOR,       [AST_xor] = LEVEL_XOR,
        [AST_band] = LEVEL_BAND,      [AST_shl] = LEVEL_SHIFT,     [AST_shr] = LEVEL_SHIFT,
        [AST_add] = LEVEL_SUM,        [AST_sub] = LEVEL_SUM,       [AST_mul] = LEVEL_TERM,
        [AST_div] = LEVEL_TERM,       [AST_floordiv] = LEVEL_TERM, [AST_mod] = LEVEL_TERM,
        [AST_matmul] = LEVEL_TERM,    [AST_pow] = LEVEL_POWER,     [AST_neg] = LEVEL_UNARY,
        [AST_inv] = LEVEL_UNARY,      [AST_not] = LEVEL_NOT,
    };
    return level[op];
}

static int level_of(const AstExpr *e)
{
    if (e->kind == EX_unary || e->kind == EX_binary)
        return level_of_op(e->op);
    return e->kind == EX_cond ? LEVEL_COND : LEVEL_POSTFIX;
}

static void write_optional(Writer *w, const AstExpr *e)
{
    if (e)
        write(w, e, LEVEL_COND);
}

static void write_list(Writer *w, const AstExprs *list)
{
    for (uint32_t i = 0; i < list->n; i++) {
        sb_puts(w->out, i ? ", " : "");
        write(w, list->at[i], LEVEL_COND);
    }
}

static void write_args(Writer *w, const AstArgs *args)
{
    for (uint32_t i = 0; i < args->n; i++) {
        sb_puts(w->out, i ? ", " : "");
        if (args->at[i].name.sym.id)
            sb_printf(w->out, "%s = ", sym_text(w->names, args->at[i].name.sym));
        write(w, args->at[i].value, LEVEL_COND);
    }
}

static void write_clauses(Writer *w, const AstExpr *e)
{
    for (uint32_t i = 0; i < e->clauses.n; i++) {
        const AstClause *c = &e->clauses.at[i];
        sb_puts(w->out, " for ");
        for (uint32_t k = 0; k < c->names.n; k++)
            sb_printf(w->out, "%s%s", k ? ", " : "", sym_text(w->names, c->names.at[k].sym));
        sb_puts(w->out, " in ");
        write(w, c->list, LEVEL_COND);
    }
    if (e->c) {
        sb_puts(w->out, " if ");
        write(w, e->c, LEVEL_COND);
    }
}

static void write_binary(Writer *w, const AstExpr *e)
{
    const int level = level_of_op(e->op);
    /* `**` groups to the right and takes a sign there; comparisons do not chain at all */
    const int left = e->op == AST_pow || level == LEVEL_COMPARE ? level + 1 : level;
    const int right = e->op == AST_pow ? LEVEL_UNARY : level + 1;
    write(w, e->a, left);
    sb_printf(w->out, " %s ", ast_op_text(e->op));
    write(w, e->b, right);
}

static void write_postfix(Writer *w, const AstExpr *e)
{
    write(w, e->a, LEVEL_POSTFIX);
    if (e->kind == EX_field) {
        sb_printf(w->out, ".%s", sym_text(w->names, e->name));
    } else if (e->kind == EX_call) {
        sb_putc(w->out, '(');
        write_args(w, &e->args);
        sb_putc(w->out, ')');
    } else {
        sb_putc(w->out, '[');
        write_list(w, &e->items);
        sb_putc(w->out, ']');
    }
}

static void write_bare(Writer *w, const AstExpr *e)
{
    switch (e->kind) {
    case EX_unary:
        sb_puts(w->out, e->op == AST_not ? "not " : ast_op_text(e->op));
        write(w, e->a, level_of_op(e->op));
        break;
    case EX_binary:
        write_binary(w, e);
        break;
    case EX_cond:
        write(w, e->c, LEVEL_OR);
        sb_puts(w->out, " ? ");
        write(w, e->a, LEVEL_COND);
        sb_puts(w->out, " : ");
        write(w, e->b, LEVEL_COND);
        break;
    case EX_list:
        sb_putc(w->out, '[');
        write_list(w, &e->items);
        sb_putc(w->out, ']');
        break;
    case EX_comp:
        sb_putc(w->out, '[');
        write(w, e->a, LEVEL_COND);
        write_clauses(w, e);
        sb_putc(w->out, ']');
        break;
    case EX_call:
    case EX_index:
    case EX_field:
        write_postfix(w, e);
        break;
    case EX_fn:
        sb_puts(w->out, "fn(...) { ... }");
        break;
    case EX_slice:
        write_optional(w, e->a);
        sb_putc(w->out, ':');
        write_optional(w, e->b);
        sb_puts(w->out, e->c ? ":" : "");
        write_optional(w, e->c);
        break;
    case EX_splat:
        sb_putc(w->out, '*');
        write(w, e->a, LEVEL_POSTFIX);
        break;
    default:
        ast_write_literal(w->out, w->names, e);
        break;
    }
}

static void write(Writer *w, const AstExpr *e, int level)
{
    const bool brackets = level_of(e) < level;
    sb_puts(w->out, brackets ? "(" : "");
    write_bare(w, e);
    sb_puts(w->out, brackets ? ")" : "");
}

void ast_write_expr(StrBuf *out, const Interner *names, const AstExpr *e)
{
    Writer w = {out, names};
    write(&w, e, LEVEL_COND);
}

void ast_write_type(StrBuf *out, const Interner *names, const AstType *t)
{
    Writer w = {out, names};
    sb_puts(out, sym_text(names, t->name.sym));
    if (t->kind != TYPE_tensor)
        return;
    sb_putc(out, '[');
    write_list(&w, &t->dims);
    sb_putc(out, ']');
    if (t->on) {
        sb_puts(out, " on ");
        write(&w, t->on, LEVEL_POSTFIX);
    }
}
