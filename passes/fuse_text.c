/* fuse_text.c: groups as text, and which groups are equal.
 *
 *   group 1 map [B, 128] reads %gates, %bias, %c writes %new_h, %new_c
 *
 * SPDX-License-Identifier: MIT */
#include "passes/fuse_internal.h"

#include <string.h>

/* --- equal structure -------------------------------------------------------------------------- */

typedef struct {
    const Fusion *f;
    const FuseGroup *g;
    Arena *a;
    VEC(int64_t) words;
    VEC(uint32_t) order; /* nodes in order of first visit */
} Writer;

static void word(Writer *w, int64_t x)
{
    vec_push(w->a, &w->words, x);
}

static int64_t position(const Val *list, uint32_t n, Val v)
{
    for (uint32_t i = 0; i < n; i++)
        if (val_eq(list[i], v))
            return i;
    return -1;
}

static void type_words(Writer *w, Val v)
{
    const TypeInfo *t = val_info(w->f->p, w->f->g, v);
    word(w, t->dtype);
    word(w, t->rank);
    for (uint32_t k = 0; k < t->rank; k++)
        word(w, t->shape[k].id);
}

static void node_words(Writer *w, uint32_t id);

static void value_words(Writer *w, Val v)
{
    int64_t input = position(w->g->inputs.at, w->g->inputs.n, v);
    if (input >= 0) {
        word(w, -1 - input);
        return;
    }
    for (uint32_t i = 0; i < w->order.n; i++)
        if (w->order.at[i] == v.node) {
            word(w, (int64_t)i);
            word(w, v.result);
            return;
        }
    word(w, (int64_t)w->order.n);
    word(w, v.result);
    node_words(w, v.node);
}

static void node_words(Writer *w, uint32_t id)
{
    const Node *n = &w->f->g->nodes.at[id];
    vec_push(w->a, &w->order, id);
    word(w, n->op);
    word(w, n->nout);
    for (uint32_t k = 0; k < n->nout; k++)
        type_words(w, (Val){id, k});
    for (int i = 0; i < op_info(n->op)->nattrs; i++) {
        word(w, n->attrs[i].n);
        for (uint32_t k = 0; k < n->attrs[i].n; k++)
            word(w, n->attrs[i].at[k]);
    }
    for (uint32_t k = 0; k < n->nin; k++)
        value_words(w, n->in[k]);
}

static void buffer_words(Writer *w, Val v)
{
    const FuseBuffer *b = fuse_buffer(w->f, v);
    type_words(w, v);
    for (uint32_t k = 0; b && k < val_info(w->f->p, w->f->g, v)->rank; k++)
        word(w, b->stride[k].id);
}

static void operand_words(Writer *w, const FuseOperand *o)
{
    word(w, position(w->g->inputs.at, w->g->inputs.n, o->val));
    word(w, position(w->g->outputs.at, w->g->outputs.n, o->val));
    word(w, o->offset.id);
    word(w, o->rows.id);
    word(w, o->cols.id);
    word(w, o->batch[0].id);
    word(w, o->batch[1].id);
}

static void group_words(Writer *w)
{
    const FuseGroup *g = w->g;
    word(w, g->class);
    word(w, g->rank);
    word(w, g->reduced);
    word(w, g->ride ? g->rows : 0);
    for (uint32_t d = 0; d < g->rank; d++)
        word(w, g->domain[d].id);
    for (uint32_t i = 0; i < g->inputs.n; i++)
        buffer_words(w, g->inputs.at[i]);
    for (uint32_t i = 0; i < g->outputs.n; i++) {
        const FuseBuffer *to = fuse_buffer(w->f, g->outputs.at[i]);
        buffer_words(w, g->outputs.at[i]);
        for (uint32_t j = 0; j < g->inputs.n; j++) {
            const FuseBuffer *from = fuse_buffer(w->f, g->inputs.at[j]);
            word(w, to->slot && from->slot == to->slot && dim_same(from->offset, to->offset));
        }
    }
    for (uint32_t i = 0; i < g->roots.n; i++) {
        const FuseRoot *r = &g->roots.at[i];
        word(w, r->stored);
        word(w, r->phase);
        word(w, r->side);
        for (uint32_t d = 0; d < g->rank; d++)
            word(w, r->axis_of[d]);
        if (g->class != CLASS_CONTRACT)
            value_words(w, r->val);
    }
    for (uint32_t i = 0; i < g->gemms.n; i++) {
        const FuseGemm *x = &g->gemms.at[i];
        const Dim dims[] = {x->m, x->n, x->k, x->batch[0], x->batch[1]};
        for (uint32_t k = 0; k < 5; k++)
            word(w, dims[k].id);
        word(w, x->accumulate);
        operand_words(w, &x->a);
        operand_words(w, &x->b);
        operand_words(w, &x->c);
        operand_words(w, &x->sum_a);
        operand_words(w, &x->sum_b);
    }
}

static uint64_t hash_words(const int64_t *words, uint32_t n)
{
    uint64_t h = HASH_START;
    for (uint32_t i = 0; i < n; i++)
        h = hash_word(h, (uint64_t)words[i]);
    return h;
}

void fuse_same(Fusion *out)
{
    uint32_t size = 64;
    while (size < 2 * out->groups.n)
        size *= 2;
    Arena *a = out->p->cx->scratch;
    uint32_t *table = arena_array(a, uint32_t, size); /* groups + 1 that have no equal before them */
    for (uint32_t i = 0; i < out->groups.n; i++) {
        FuseGroup *g = &out->groups.at[i];
        const ArenaMark mark = arena_mark(a);
        Writer w = {.f = out, .g = g, .a = a};
        group_words(&w);
        g->same_as = i;
        g->nwords = w.words.n;
        g->hash = hash_words(w.words.at, w.words.n);
        uint32_t h = (uint32_t)g->hash & (size - 1);
        for (; g->class != CLASS_COPY && table[h]; h = (h + 1) & (size - 1)) {
            const FuseGroup *other = &out->groups.at[table[h] - 1];
            if (other->hash == g->hash && other->nwords == g->nwords &&
                !memcmp(other->words, w.words.at, g->nwords * sizeof *g->words)) {
                g->same_as = table[h] - 1;
                g->words = other->words;
                break;
            }
        }
        if (!g->words) {
            int64_t *words = arena_array(out->p->cx->perm, int64_t, g->nwords);
            memcpy(words, w.words.at, g->nwords * sizeof *words);
            g->words = words;
            if (g->class != CLASS_COPY)
                table[h] = i + 1;
        }
        arena_reset(a, mark);
    }
}

/* --- text ------------------------------------------------------------------------------------- */

static const char *class_name(KClass c)
{
    static const char *const names[] = {
        [CLASS_MAP] = "map",           [CLASS_ROW] = "row",       [CLASS_REDUCE] = "reduce",
        [CLASS_CONTRACT] = "contract", [CLASS_SCALAR] = "scalar", [CLASS_COPY] = "copy",
        [CLASS_OPAQUE] = "opaque"};
    return names[c];
}

static void print_val(const Fusion *f, Val v, StrBuf *out)
{
    const Node *n = graph_node(f->g, v);
    if (n->hint.id)
        sb_printf(out, "%%%s", sym_text(f->p->cx->names, n->hint));
    else
        sb_printf(out, "%%%u", v.node);
    if (v.result)
        sb_printf(out, "#%u", v.result);
}

static void print_list(const Fusion *f, const char *what, const Val *v, uint32_t n, StrBuf *out)
{
    for (uint32_t i = 0; i < n; i++) {
        sb_puts(out, i ? ", " : what);
        print_val(f, v[i], out);
    }
}

static void print_gemm(const Fusion *f, const FuseGemm *x, StrBuf *out)
{
    Arena *a = f->p->cx->scratch;
    DimTable *t = f->p->cx->dims;
    sb_puts(out, "    ");
    print_val(f, x->c.val, out);
    sb_puts(out, x->accumulate ? " += " : " = ");
    print_val(f, x->a.val, out);
    sb_puts(out, " * ");
    print_val(f, x->b.val, out);
    sb_printf(out, "  m=%s n=%s k=%s", dim_text(t, a, x->m), dim_text(t, a, x->n),
              dim_text(t, a, x->k));
    if (!dim_is_one(t, x->batch[0]) || !dim_is_one(t, x->batch[1]))
        sb_printf(out, " batch=%s,%s", dim_text(t, a, x->batch[0]), dim_text(t, a, x->batch[1]));
    if (x->sum_a.val.node)
        print_list(f, "  sum of rows ", &x->sum_a.val, 1, out);
    if (x->sum_b.val.node)
        print_list(f, "  sum of columns ", &x->sum_b.val, 1, out);
    sb_putc(out, '\n');
}

static void print_group(const Fusion *f, uint32_t i, StrBuf *out)
{
    const FuseGroup *g = &f->groups.at[i];
    Arena *a = f->p->cx->scratch;
    sb_printf(out, "  group %u %s", i, class_name(g->class));
    if (g->into.node) {
        print_list(f, " of ", &g->into, 1, out);
        sb_printf(out, " from %s on %s times %g\n", dim_text(f->p->cx->dims, a, g->offset),
                  dim_text(f->p->cx->dims, a, g->count), g->value);
        return;
    }
    sb_printf(out, " %s", shape_text(f->p, a, g->domain, g->rank));
    const char *sep = " reduced ";
    for (uint32_t d = 0; d < g->rank; d++)
        if (g->reduced >> d & 1) {
            sb_printf(out, "%s%u", sep, d);
            sep = ",";
        }
    print_list(f, " reads ", g->inputs.at, g->inputs.n, out);
    print_list(f, " writes ", g->outputs.at, g->outputs.n, out);
    sep = " beside ";
    for (uint32_t k = 0; k < g->roots.n; k++)
        if (g->roots.at[k].side) {
            print_list(f, sep, &g->roots.at[k].val, 1, out);
            sep = ", ";
        }
    static const char *const rides[] = {
        [RIDE_EPILOGUE] = "epilogue", [RIDE_LOAD_ROWS] = "rows", [RIDE_LOAD_DEPTH] = "depth"};
    if (g->ride)
        sb_printf(out, " %s of group %d", rides[g->ride], (int)g->with);
    if (g->same_as != i)
        sb_printf(out, " like group %u", g->same_as);
    sb_putc(out, '\n');
    for (uint32_t k = 0; k < g->gemms.n; k++)
        print_gemm(f, &g->gemms.at[k], out);
}

void fuse_print(const Fusion *f, StrBuf *out)
{
    const Graph *g = f->g;
    static const char *const kinds[] = {"method", "training", "forward_train", "backward", "grad",
                                        "step",   "update",   "init",          "test",     "body",
                                        "def"};
    sb_printf(out, "graph @%s %s: %u groups\n", sym_text(f->p->cx->names, g->name), kinds[g->kind],
              f->groups.n);
    for (uint32_t i = 0; i < f->groups.n; i++)
        print_group(f, i, out);
    for (uint32_t i = 0; i < f->buffers.n; i++) {
        const FuseBuffer *b = &f->buffers.at[i];
        bool placed = b->base.node || (b->slot && b->group >= 0);
        if (!placed && !b->is_concat)
            continue;
        sb_puts(out, "  ");
        print_val(f, b->val, out);
        if (b->base.node)
            print_list(f, " lies in ", &b->base, 1, out);
        else if (b->slot)
            sb_printf(out, " lies in slot %s",
                      sym_text(f->p->cx->names, f->p->slots.at[b->slot].name));
        else
            sb_puts(out, " is written in pieces");
        if (placed)
            sb_printf(out, " at %s", dim_text(f->p->cx->dims, f->p->cx->scratch, b->offset));
        sb_putc(out, '\n');
    }
}
