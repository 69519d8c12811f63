/* kernel.c: making kernel IR. Expressions are hash-consed, so that equal work has one handle and
 * the passes and printers can see what is shared by comparing numbers.
 * SPDX-License-Identifier: MIT */
#include "ir/kernel.h"

#include "ir/base/die.h"
#include "ir/host.h"

#include <string.h>

Kernel *kernel_create(Program *p, Sym name, KClass class)
{
    Arena *a = p->cx->kernels;
    Kernel *k = arena_new(a, Kernel);
    k->name = name;
    k->class = class;
    k->lanes = k->teams = 1;
    vec_push(a, &k->exprs, ((KExprInfo){0}));
    k->bytes_read = k->bytes_written = k->bytes_least = k->flops = dim_const(p->cx->dims, 0);
    return k;
}

/* --- hash-consing ------------------------------------------------------------------------------
 */

static uint64_t hash_guard(uint64_t h, Guard g)
{
    for (uint32_t i = 0; i < g.n; i++) {
        const GuardTerm *t = &g.at[i];
        h = hash_word(h, (uint64_t)t->kind << 32 | t->a.id);
        h = hash_word(h, (uint64_t)t->b.id << 32 ^ (uint64_t)t->k);
    }
    return h;
}

static uint64_t hash_expr(const KExprInfo *e)
{
    uint64_t h = hash_word(HASH_START, (uint64_t)e->kind << 32 | (uint64_t)e->type << 16 | e->op);
    uint64_t bits;
    memcpy(&bits, &e->value, sizeof bits);
    h = hash_word(h, bits);
    h = hash_word(h, (uint64_t)e->word);
    h = hash_word(h, (uint64_t)e->index.id << 32 | e->param);
    h = hash_word(h, (uint64_t)e->acc << 32 | e->field);
    h = hash_word(h, (uint64_t)e->keep << 32 | e->text.id);
    for (uint32_t i = 0; i < 3; i++)
        h = hash_word(h, e->in[i].id);
    for (uint32_t i = 0; i < MAX_RANK; i++)
        h = hash_word(h, e->at[i].id);
    return hash_guard(h, e->pred);
}

bool guard_same(Guard a, Guard b)
{
    if (a.n != b.n)
        return false;
    for (uint32_t i = 0; i < a.n; i++) {
        const GuardTerm *x = &a.at[i], *y = &b.at[i];
        if (x->kind != y->kind || x->k != y->k || !dim_same(x->a, y->a) || !dim_same(x->b, y->b))
            return false;
    }
    return true;
}

static bool same_expr(const KExprInfo *a, const KExprInfo *b)
{
    if (a->kind != b->kind || a->type != b->type || a->op != b->op || a->nin != b->nin)
        return false;
    if (memcmp(&a->value, &b->value, sizeof a->value) != 0 || a->word != b->word)
        return false;
    if (!dim_same(a->index, b->index) || a->param != b->param || a->acc != b->acc ||
        a->field != b->field || a->keep != b->keep || !sym_eq(a->text, b->text))
        return false;
    for (uint32_t i = 0; i < 3; i++)
        if (a->in[i].id != b->in[i].id)
            return false;
    for (uint32_t i = 0; i < MAX_RANK; i++)
        if (!dim_same(a->at[i], b->at[i]))
            return false;
    return guard_same(a->pred, b->pred);
}

static void grow_table(Program *p, Kernel *k)
{
    uint32_t size = k->table_size ? 2 * k->table_size : 64;
    k->table = arena_array(p->cx->kernels, uint32_t, size);
    k->table_size = size;
    for (uint32_t i = 1; i < k->exprs.n; i++) {
        uint32_t at = (uint32_t)hash_expr(&k->exprs.at[i]) & (size - 1);
        while (k->table[at])
            at = (at + 1) & (size - 1);
        k->table[at] = i;
    }
}

KExpr kernel_expr(Program *p, Kernel *k, KExprInfo info)
{
    if (info.kind == KE_CAST && kexpr(k, info.in[0])->type == info.type)
        return info.in[0];
    if (info.kind == KE_SELECT && (!info.pred.n || info.in[0].id == info.in[1].id))
        return info.in[0];
    if (2 * (k->exprs.n + 1) > k->table_size)
        grow_table(p, k);
    uint32_t at = (uint32_t)hash_expr(&info) & (k->table_size - 1);
    for (; k->table[at]; at = (at + 1) & (k->table_size - 1)) {
        KExprInfo *old = &k->exprs.at[k->table[at]];
        if (same_expr(old, &info)) {
            if (!old->name.id)
                old->name = info.name;
            return (KExpr){k->table[at]};
        }
    }
    k->table[at] = k->exprs.n;
    vec_push(p->cx->kernels, &k->exprs, info);
    return (KExpr){k->exprs.n - 1};
}

KStmt *kblock_add(Program *p, KBlock *b, KStmtKind kind)
{
    vec_push(p->cx->kernels, b, ((KStmt){.kind = kind}));
    return &vec_last(b);
}

/* --- sizes and cells ----------------------------------------------------------------------------
 */

typedef struct {
    Program *p;
    const Kernel *k;
    Symbol *out;
    uint32_t n, max;
    bool *seen; /* expressions */
} SizeWalk;

static void size_dim(SizeWalk *w, Dim d)
{
    if (!d.id)
        return;
    DimTable *t = w->p->cx->dims;
    const Term *terms;
    uint32_t n = dim_terms(t, d, &terms);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t f = 0; f < terms[i].n; f++) {
            Atom atom = terms[i].factors[f].atom;
            if (atom.kind != ATOM_SYMBOL) {
                size_dim(w, atom.a);
                size_dim(w, atom.b);
                continue;
            }
            const SymbolKind kind = dim_symbol(t, atom.symbol)->kind;
            if (kind != SYM_SIZE && kind != SYM_LOOP)
                continue;
            uint32_t j = 0;
            while (j < w->n && w->out[j].id != atom.symbol.id)
                j++;
            if (j == w->n && w->n < w->max)
                w->out[w->n++] = atom.symbol;
        }
    }
}

static void size_guard(SizeWalk *w, Guard g)
{
    for (uint32_t i = 0; i < g.n; i++) {
        size_dim(w, g.at[i].a);
        size_dim(w, g.at[i].b);
    }
}

static void size_at(SizeWalk *w, uint32_t param, const Dim *at)
{
    const KParam *q = &w->k->params.at[param];
    for (uint32_t i = 0; i < q->rank; i++) {
        if (dim_is_zero(w->p->cx->dims, at[i]))
            continue; /* its stride does not show */
        size_dim(w, at[i]);
        size_dim(w, q->stride[i]);
    }
}

static void size_expr(SizeWalk *w, KExpr e)
{
    if (!e.id || w->seen[e.id])
        return;
    w->seen[e.id] = true;
    const KExprInfo *x = kexpr(w->k, e);
    for (uint32_t i = 0; i < x->nin; i++)
        size_expr(w, x->in[i]);
    size_dim(w, x->index);
    size_guard(w, x->pred);
    if (x->kind == KE_LOAD)
        size_at(w, x->param, x->at);
}

static void size_block(SizeWalk *w, const KBlock *b)
{
    for (uint32_t i = 0; i < b->n; i++) {
        const KStmt *s = &b->at[i];
        size_dim(w, s->lo);
        size_dim(w, s->hi);
        size_guard(w, s->pred);
        size_expr(w, s->expr);
        size_dim(w, s->fold_index);
        size_dim(w, s->keep_index);
        if (s->kind == KS_STORE)
            size_at(w, s->param, s->at);
        for (uint32_t k = 0; k < s->nints; k++)
            size_dim(w, s->ints[k]);
        for (uint32_t k = 0; k < 2; k++)
            size_expr(w, s->hook[k]);
        size_block(w, &s->body);
    }
}

uint32_t kernel_sizes(const Program *p, const Kernel *k, Symbol *out, uint32_t max)
{
    SizeWalk w = {
        (Program *)(uintptr_t)p, k, out, 0, max, arena_array(p->cx->scratch, bool, k->exprs.n)};
    for (uint32_t i = 0; i < k->keeps.n; i++)
        size_dim(&w, k->keeps.at[i].extent);
    size_block(&w, &k->body);
    return w.n;
}

Dim kernel_cells(Program *p, const Kernel *k)
{
    DimTable *t = p->cx->dims;
    Dim cells = dim_const(t, 1);
    const KBlock *b = &k->body;
    while (b->n == 1 && b->at[0].kind == KS_FOR && b->at[0].loop == FOR_GRID) {
        cells = dim_mul(t, cells, dim_sub(t, b->at[0].hi, b->at[0].lo));
        b = &b->at[0].body;
    }
    return cells;
}

KTurn kernel_turn(const DimTable *t, Dim i, Dim j)
{
    int64_t n;
    for (int k = 0; k < 2; k++) {
        if (!dim_is_const(t, k ? j : i, &n) || n < 2 || n >= TURN_FEW)
            continue;
        const int few = (int)n, many = few <= 8 ? 4 * TURN_SIDE : 2 * TURN_SIDE;
        return (KTurn){k ? many : few, k ? few : many, few, k == 0};
    }
    return (KTurn){TURN_SIDE, TURN_SIDE, 0, false};
}
