/* elab_written.c: how sizes were written: remembered where they are read and declared, and found
 * out for other tensors from the operations that made them, once a message asks.
 * SPDX-License-Identifier: MIT */
#include "frontend/elab.h"

#include <string.h>

/* ---- ints and sizes ---- */

static Written *new_written(Elab *e, WrittenKind kind, const Value *v)
{
    Written *w = arena_new(e->a, Written);
    *w = (Written){.kind = kind, .is_int = v->kind == V_int};
    if (w->is_int)
        w->i = v->i;
    else
        w->size = v->size;
    return w;
}

static bool is_size(const Value *v)
{
    return v->kind == V_int || v->kind == V_size;
}

const void *written_scope(const Elab *e)
{
    const Frame *f = e->frame ? e->frame : &e->root_frame;
    return f->scope;
}

Value written_name(Elab *e, Value v, Sym name, const void *owner)
{
    Symbol s;
    if (!is_size(&v))
        return v;
    if (v.kind == V_size && !v.how && dim_is_symbol(e->dims, v.size, &s) &&
        sym_eq(dim_symbol(e->dims, s)->name, name))
        return v; /* it says its name itself */
    Written *w = new_written(e, WRITTEN_name, &v);
    w->name = name;
    w->owner = owner;
    w->a = v.how;
    v.how = w;
    return v;
}

/* An operand that nothing is known of is its value. */
static const Written *operand(Elab *e, const Value *v)
{
    return v->how ? v->how : new_written(e, WRITTEN_value, v);
}

static Written *combine(Elab *e, WrittenKind kind, const Value *a, const Value *b, Value *out)
{
    if (!is_size(out) || !is_size(a) || !is_size(b) || (!a->how && !b->how))
        return NULL;
    Written *w = new_written(e, kind, out);
    w->a = operand(e, a);
    w->b = operand(e, b);
    out->how = w;
    return w;
}

void written_op(Elab *e, AstOp op, const Value *a, const Value *b, Value *out)
{
    Written *w = combine(e, WRITTEN_op, a, b, out);
    if (w)
        w->op = op;
}

void written_negated(Elab *e, const Value *a, Value *out)
{
    Written *w = combine(e, WRITTEN_op, a, a, out);
    if (w) {
        w->op = AST_neg;
        w->b = NULL;
    }
}

const Written *written_negation_of(const Written *w)
{
    return w && w->kind == WRITTEN_op && w->op == AST_neg ? w->a : NULL;
}

void written_call(Elab *e, const char *name, const Value *a, const Value *b, Value *out)
{
    Written *w = combine(e, WRITTEN_call, a, b, out);
    if (w)
        w->name = sym_new(e, name);
}

/* ---- what is set for tensors ---- */

static uint32_t cell_hash(const Graph *g, Val v)
{
    const uint64_t key[3] = {(uintptr_t)g, v.node, v.result};
    return (uint32_t)hash_bytes(HASH_START, key, sizeof key);
}

static WrittenCell *find_cell(const WrittenTable *t, const Graph *g, Val v)
{
    if (!t->size)
        return NULL;
    uint32_t i = cell_hash(g, v) & (t->size - 1);
    while (t->cells[i].g && !(t->cells[i].g == g && val_eq(t->cells[i].v, v)))
        i = (i + 1) & (t->size - 1);
    return &t->cells[i];
}

static void grow(Elab *e, WrittenTable *t)
{
    const WrittenTable old = *t;
    t->size = old.size ? 2 * old.size : 64;
    t->cells = arena_array(e->a, WrittenCell, t->size);
    for (uint32_t i = 0; i < old.size; i++)
        if (old.cells[i].g)
            *find_cell(t, old.cells[i].g, old.cells[i].v) = old.cells[i];
}

static void set_axes(Elab *e, const Graph *g, Val v, const Written *const *axes)
{
    WrittenTable *t = &e->written;
    if (2 * t->n >= t->size)
        grow(e, t);
    WrittenCell *c = find_cell(t, g, v);
    t->n += c->g == NULL;
    *c = (WrittenCell){.g = g, .v = v, .axes = axes};
}

static const Written *const *get_axes(const Elab *e, const Graph *g, Val v)
{
    const WrittenCell *c = find_cell(&e->written, g, v);
    return c ? c->axes : NULL;
}

const Written *const *written_get(const Elab *e, Val v)
{
    return get_axes(e, e->b.g, v);
}

void written_restore(Elab *e, Val v, const Written *const *axes)
{
    if (axes != written_get(e, v))
        set_axes(e, e->b.g, v, axes);
}

void written_set(Elab *e, Val v, const Written *const *how, uint32_t rank)
{
    bool any = false;
    for (uint32_t i = 0; i < rank; i++)
        any |= how[i] != NULL;
    if (!any)
        return;
    const Written *const *old = written_get(e, v);
    const Written **axes = arena_array(e->a, const Written *, rank);
    bool same = old != NULL;
    for (uint32_t i = 0; i < rank; i++) {
        axes[i] = how[i] || !old ? how[i] : old[i];
        same = same && axes[i] == old[i];
    }
    if (!same)
        set_axes(e, e->b.g, v, axes);
}

/* ---- axes of tensors ---- */

static const Written *axis_of(Elab *e, const Graph *g, Val v, uint32_t axis)
{
    Written *w = arena_new(e->a, Written);
    const Dim d = val_info(e->p, g, v)->shape[axis];
    *w = (Written){.kind = WRITTEN_axis, .size = d, .graph = g, .val = v, .axis = axis};
    w->is_int = dim_is_const(e->dims, d, &w->i);
    const Written *const *now = get_axes(e, g, v);
    w->a = now ? now[axis] : NULL;
    return w;
}

Value written_axis(Elab *e, const Value *tensor, uint32_t axis)
{
    Value v = v_dim(e, value_type(e, tensor)->shape[axis]);
    v.how = axis_of(e, tensor->graph, tensor->val, axis);
    return v;
}

Shape written_shape(Elab *e, Val v)
{
    const TypeInfo *t = type_at(e, v);
    Shape s = {.rank = t->rank};
    memcpy(s.at, t->shape, sizeof s.at);
    for (uint32_t i = 0; i < s.rank; i++)
        s.how[i] = axis_of(e, e->b.g, v, i);
    return s;
}

Shape written_state_shape(const State *s)
{
    Shape out = {.rank = s->type.rank};
    memcpy(out.at, s->type.shape, sizeof out.at);
    memcpy(out.how, s->how, sizeof out.how);
    return out;
}

void written_link(Elab *e, Val v, const Graph *from, Val of)
{
    const Written *how[MAX_RANK] = {0};
    const uint32_t rank = type_at(e, v)->rank;
    for (uint32_t i = 0; i < rank; i++)
        how[i] = axis_of(e, from, of, i);
    written_set(e, v, how, rank);
}

void written_copy(Elab *e, const Graph *from, Val of, Val v)
{
    const Written *const *axes = get_axes(e, from, of);
    if (axes)
        written_set(e, v, axes, type_at(e, v)->rank);
}

/* ---- found out from the operations ---- */

typedef struct {
    Elab *e;
    const Graph *g;
    WrittenGraph *known;
    const Node *n;
    uint32_t id;
} Find;

static const Written *axis_now(const Find *f, Val v, uint32_t axis)
{
    const Written *const *set = get_axes(f->e, f->g, v);
    if (set && set[axis])
        return set[axis];
    return f->known->nodes.at[v.node][v.result * MAX_RANK + axis];
}

static const TypeInfo *type_in(const Find *f, Val v)
{
    return val_info(f->e->p, f->g, v);
}

static void copy_axes(const Find *f, const Written **out)
{
    for (uint32_t i = 0; i < type_in(f, f->n->in[0])->rank; i++)
        out[i] = axis_now(f, f->n->in[0], i);
}

/* Two texts for one size; which of them says something depends on where it is read. */
static const Written *either(Elab *e, const Written *a, const Written *b)
{
    if (!a || !b || a == b)
        return a ? a : b;
    Written *w = arena_new(e->a, Written);
    *w = *a;
    w->kind = WRITTEN_either;
    w->a = a;
    w->b = b;
    return w;
}

static void find_pointwise(const Find *f, const TypeInfo *t, const Written **out)
{
    for (uint32_t i = 0; i < f->n->nin; i++) {
        const TypeInfo *x = type_in(f, f->n->in[i]);
        for (uint32_t k = 0; k < x->rank; k++) {
            const uint32_t to = t->rank - x->rank + k;
            if (dim_same(x->shape[k], t->shape[to]))
                out[to] = either(f->e, out[to], axis_now(f, f->n->in[i], k));
        }
    }
}

static bool has_axis(Attr a, uint32_t axis)
{
    for (uint32_t i = 0; i < a.n; i++)
        if (a.at[i] == (int64_t)axis)
            return true;
    return false;
}

static void find_dot(const Find *f, const Written **out)
{
    const Attr batch[2] = {node_attr(f->n, ATTR_batch_a), node_attr(f->n, ATTR_batch_b)};
    const Attr over[2] = {node_attr(f->n, ATTR_contract_a), node_attr(f->n, ATTR_contract_b)};
    uint32_t n = 0;
    for (uint32_t i = 0; i < batch[0].n; i++) {
        out[n] = axis_now(f, f->n->in[0], (uint32_t)batch[0].at[i]);
        out[n] = either(f->e, out[n], axis_now(f, f->n->in[1], (uint32_t)batch[1].at[i]));
        n++;
    }
    for (uint32_t k = 0; k < 2; k++)
        for (uint32_t i = 0; i < type_in(f, f->n->in[k])->rank; i++)
            if (!has_axis(batch[k], i) && !has_axis(over[k], i))
                out[n++] = axis_now(f, f->n->in[k], i);
}

/* The sum or product of parts, if the text of one is known. */
static const Written *of_parts(const Find *f, WrittenKind kind, const Written *const *parts,
                               const Dim *sizes, uint32_t n, Dim whole)
{
    Elab *e = f->e;
    bool any = false;
    for (uint32_t i = 0; i < n; i++)
        any |= parts[i] != NULL;
    if (!any || n == 1)
        return any ? parts[0] : NULL;
    Written *w = arena_new(e->a, Written);
    *w = (Written){.kind = kind, .size = whole, .n = n, .parts = parts, .part_sizes = sizes};
    w->is_int = dim_is_const(e->dims, whole, &w->i);
    return w;
}

static void find_concat(const Find *f, const TypeInfo *t, const Written **out)
{
    const uint32_t axis = (uint32_t)node_int(f->n, ATTR_axis), n = f->n->nin;
    const Written **parts = arena_array(f->e->a, const Written *, n);
    Dim *sizes = arena_array(f->e->a, Dim, n);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < t->rank; k++)
            if (k != axis)
                out[k] = either(f->e, out[k], axis_now(f, f->n->in[i], k));
        parts[i] = axis_now(f, f->n->in[i], axis);
        sizes[i] = type_in(f, f->n->in[i])->shape[axis];
    }
    out[axis] = of_parts(f, WRITTEN_sum, parts, sizes, n, t->shape[axis]);
}

/* Axes [from, to) of the operand as one. */
static const Written *merged(const Find *f, const TypeInfo *x, uint32_t from, uint32_t to,
                             Dim whole)
{
    const Written **parts = arena_array(f->e->a, const Written *, to - from);
    Dim *sizes = arena_array(f->e->a, Dim, to - from);
    for (uint32_t i = from; i < to; i++) {
        parts[i - from] = axis_now(f, f->n->in[0], i);
        sizes[i - from] = x->shape[i];
    }
    return of_parts(f, WRITTEN_product, parts, sizes, to - from, whole);
}

/* Axes that stay, and axes that are merged; of a split one nothing is known. */
static void find_reshape(const Find *f, const TypeInfo *t, const Written **out)
{
    Elab *e = f->e;
    const TypeInfo *x = type_in(f, f->n->in[0]);
    uint32_t i = 0, k = 0, end_x = x->rank, end = t->rank;
    while (end_x > 0 && end > 0 && dim_same(x->shape[end_x - 1], t->shape[end - 1])) {
        end_x--;
        end--;
        out[end] = axis_now(f, f->n->in[0], end_x);
    }
    while (i < end_x && k < end) {
        if (dim_same(x->shape[i], t->shape[k])) {
            out[k++] = axis_now(f, f->n->in[0], i++);
            continue;
        }
        if (dim_is_one(e->dims, x->shape[i])) {
            i++;
            continue;
        }
        if (dim_is_one(e->dims, t->shape[k])) {
            k++;
            continue;
        }
        uint32_t to = i + 1;
        Dim product = x->shape[i];
        while (to < end_x && !dim_same(product, t->shape[k]))
            product = dim_mul(e->dims, product, x->shape[to++]);
        if (!dim_same(product, t->shape[k]))
            return;
        out[k++] = merged(f, x, i, to, product);
        i = to;
    }
}

/* Axes of the operand that kept their size. */
static void find_same(const Find *f, const TypeInfo *t, const Written **out)
{
    const TypeInfo *x = type_in(f, f->n->in[0]);
    for (uint32_t i = 0; i < x->rank && i < t->rank; i++)
        if (dim_same(x->shape[i], t->shape[i]))
            out[i] = axis_now(f, f->n->in[0], i);
}

static void find_gather(const Find *f, const Written **out)
{
    const uint32_t axis = (uint32_t)node_int(f->n, ATTR_axis);
    const uint32_t batch = (uint32_t)node_int(f->n, ATTR_batch);
    uint32_t n = 0;
    for (uint32_t i = 0; i < axis; i++)
        out[n++] = axis_now(f, f->n->in[0], i);
    for (uint32_t i = batch; i < type_in(f, f->n->in[1])->rank; i++)
        out[n++] = axis_now(f, f->n->in[1], i);
    for (uint32_t i = axis + 1; i < type_in(f, f->n->in[0])->rank; i++)
        out[n++] = axis_now(f, f->n->in[0], i);
}

static void find_mapped(const Find *f, const TypeInfo *t, const Written **out)
{
    const TypeInfo *x = type_in(f, f->n->in[0]);
    const Attr dims = node_attr(f->n, ATTR_dims);
    for (uint32_t i = 0; i < dims.n; i++)
        if (dim_same(x->shape[i], t->shape[dims.at[i]]))
            out[dims.at[i]] = axis_now(f, f->n->in[0], i);
}

static void find_reduce(const Find *f, const Written **out)
{
    const Attr axes = node_attr(f->n, ATTR_axes);
    uint32_t n = 0;
    for (uint32_t i = 0; i < type_in(f, f->n->in[0])->rank; i++)
        if (!has_axis(axes, i))
            out[n++] = axis_now(f, f->n->in[0], i);
}

static void find_result(const Find *f, const TypeInfo *t, const Written **out)
{
    const Node *n = f->n;
    if (op_is_pointwise(n->op) || n->op == OP_extern) {
        find_pointwise(f, t, out);
        return;
    }
    switch (n->op) {
    case OP_cast:
    case OP_bitcast:
        copy_axes(f, out);
        break;
    case OP_transpose: {
        const Attr perm = node_attr(n, ATTR_perm);
        for (uint32_t i = 0; i < perm.n; i++)
            out[i] = axis_now(f, n->in[0], (uint32_t)perm.at[i]);
        break;
    }
    case OP_broadcast:
        find_mapped(f, t, out);
        break;
    case OP_reshape:
        find_reshape(f, t, out);
        break;
    case OP_slice:
    case OP_pad:
    case OP_cumulate:
    case OP_scatter:
    case OP_sort:
    case OP_window:
    case OP_fold:
    case OP_conv:
        find_same(f, t, out);
        break;
    case OP_concat:
        find_concat(f, t, out);
        break;
    case OP_reduce:
        find_reduce(f, out);
        break;
    case OP_dot:
        find_dot(f, out);
        break;
    case OP_gather:
        find_gather(f, out);
        break;
    default:
        break;
    }
}

/* Operands precede users: one walk from the last node that is known. */
static WrittenGraph *find_all(Elab *e, const Graph *g)
{
    WrittenTable *t = &e->written;
    WrittenGraph *known = NULL;
    for (uint32_t i = 0; i < t->graphs.n; i++)
        if (t->graphs.at[i]->g == g)
            known = t->graphs.at[i];
    if (!known) {
        known = arena_new(e->a, WrittenGraph);
        known->g = g;
        vec_push(e->a, &t->graphs, known);
    }
    while (known->nodes.n < g->nodes.n) {
        const uint32_t id = known->nodes.n;
        const Node *n = &g->nodes.at[id];
        const Written **axes = arena_array(e->a, const Written *, n->nout *MAX_RANK);
        const Find f = {.e = e, .g = g, .known = known, .n = n, .id = id};
        for (uint32_t k = 0; id && k < n->nout; k++)
            find_result(&f, val_info(e->p, g, (Val){id, k}), axes + k * MAX_RANK);
        vec_push(e->a, &known->nodes, axes);
    }
    return known;
}

const Written *written_of_axis(Elab *e, const Written *w)
{
    if (w->a)
        return w->a;
    return find_all(e, w->graph)->nodes.at[w->val.node][w->val.result * MAX_RANK + w->axis];
}
