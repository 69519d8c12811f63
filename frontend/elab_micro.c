/* elab_micro.c: `micro = N` of a train: a call goes through the method in N slices of the batch, in
 * one program. What comes out is what the whole batch gives:
 *
 *   %l = mean(f(%x))        ->    (sum f(%x_0) + .. + sum f(%x_N-1)) / (numbers of the whole batch)
 *
 * Values with the batch among their axes are made slice by slice; they must not depend on other
 * rows. A sum over the batch is the sum of the slices' sums, and what is made of such sums is made
 * once. SPDX-License-Identifier: MIT */
#include "frontend/elab_program.h"

#include <string.h>

typedef struct {
    Elab *e;
    Graph *g;
    const Train *t;
    uint32_t n;
    Dim whole, part; /* sizes of the batch and of a slice */
    bool *depends;   /* node: on a slice's rows */
    Val *done;       /* node of the first slice, result 0: what the whole batch gives; or {0} */
    bool *checked;
    bool failed;
} Micro;

/* --- sizes ------------------------------------------------------------------------------------ */

/* A size with the whole batch in place of a slice; {0}: it is no multiple of the slice. */
static Dim widened(const Micro *m, Dim d)
{
    const Dim times = dim_exact_div(m->e->dims, d, m->part);
    return times.id ? dim_mul(m->e->dims, times, m->whole) : times;
}

static bool mentions_batch(const Micro *m, Dim d)
{
    Symbol s;
    return dim_is_symbol(m->e->dims, m->whole, &s) && dim_mentions(m->e->dims, d, s);
}

/* The axis of rows of the batch, or -1; false: there are several, or it is none of whole rows. */
static bool batch_axis(const Micro *m, Val v, int *axis)
{
    const TypeInfo t = *val_info(m->e->p, m->g, v);
    bool fits = true;
    *axis = -1;
    for (uint32_t i = 0; i < t.rank; i++) {
        if (!mentions_batch(m, t.shape[i]))
            continue;
        fits &= *axis < 0 && widened(m, t.shape[i]).id;
        *axis = (int)i;
    }
    return fits;
}

/* --- rows that depend on no other rows -------------------------------------------------------- */

static void whole_batch(Micro *m, Span at, const char *what)
{
    Elab *e = m->e;
    if (m->failed)
        return;
    m->failed = true;
    Diag *d = elab_error(e, DIAG_bad_train, at, "micro = %u: %s", m->n, what);
    elab_note(e, d, m->t->decl->at, "the batch goes through '%s' in slices", sym(e, m->t->name));
}

/* Ops that move or mix what lies along one of their axes. */
static bool mixes_rows(const Micro *m, const Node *n, int axis)
{
    switch (n->op) {
    case OP_cumulate:
    case OP_sort:
        return node_int(n, ATTR_axis) == axis;
    case OP_gather:
    case OP_scatter: {
        int of;
        return !batch_axis(m, n->in[0], &of) || of == node_int(n, ATTR_axis);
    }
    case OP_slice: {
        int64_t start;
        const int64_t step = node_attr(n, ATTR_step).at[axis];
        return step != 1 ||
               !dim_is_const(m->e->dims, node_dim(n, ATTR_start, (uint32_t)axis), &start) ||
               start != 0;
    }
    case OP_pad:
    case OP_concat:
        return n->op == OP_concat
                   ? node_int(n, ATTR_axis) == axis
                   : !dim_is_zero(m->e->dims, node_dim(n, ATTR_lo, (uint32_t)axis)) ||
                         !dim_is_zero(m->e->dims, node_dim(n, ATTR_hi, (uint32_t)axis));
    case OP_scan:
        return mentions_batch(m, node_dim(n, ATTR_trip, 0));
    default:
        return false;
    }
}

static void check_rows(Micro *m, Val v)
{
    const Node n = *graph_node(m->g, v);
    int axis;
    if (m->checked[v.node] || !m->depends[v.node] || m->failed)
        return;
    m->checked[v.node] = true;
    for (uint32_t k = 0; k < n.nout; k++) {
        if (!batch_axis(m, (Val){v.node, k}, &axis)) {
            whole_batch(m, n.site.at, "here rows of the batch meet other rows");
            return;
        }
        if (axis >= 0 && mixes_rows(m, &n, axis))
            whole_batch(m, n.site.at, "this moves rows of the batch to other rows");
    }
    batch_axis(m, (Val){v.node, 0}, &axis);
    for (uint32_t i = 0; i < n.nin; i++) {
        int of = -1;
        if (!m->depends[n.in[i].node])
            continue;
        check_rows(m, n.in[i]);
        batch_axis(m, n.in[i], &of);
        if (axis >= 0 && of < 0)
            whole_batch(m, n.site.at,
                        "here single rows depend on the whole batch, such as on its mean and "
                        "variance, and those of a slice are others");
    }
}

/* --- the whole batch's values ----------------------------------------------------------------- */

static Val add_up(Micro *m, const Val *v)
{
    Val sum = v[0];
    for (uint32_t k = 1; k < m->n; k++)
        sum = build2(&m->e->b, OP_add, sum, v[k]);
    return sum;
}

/* One slice behind the other. */
static Val join(Micro *m, const Val *v, uint32_t axis)
{
    TypeInfo t = *val_info(m->e->p, m->g, v[0]);
    const Val all = build_concat(&m->e->b, v, m->n, axis);
    t.shape[axis] = widened(m, t.shape[axis]);
    return build_reshape(&m->e->b, all, t.shape, t.rank);
}

static bool attributes_mention(const Micro *m, const Node *n)
{
    const OpInfo *info = op_info(n->op);
    for (int i = 0; i < info->nattrs; i++) {
        const bool sizes = attr_kind(info->attrs[i]) == AK_DIMS;
        for (uint32_t k = 0; sizes && k < n->attrs[i].n; k++)
            if (mentions_batch(m, (Dim){(uint32_t)n->attrs[i].at[k]}))
                return true;
    }
    return false;
}

static bool sums_rows(const Micro *m, const Node *n)
{
    int axis;
    if (n->op == OP_reduce && node_int(n, ATTR_kind) == RED_add && batch_axis(m, n->in[0], &axis) &&
        axis >= 0) {
        const Attr axes = node_attr(n, ATTR_axes);
        for (uint32_t i = 0; i < axes.n; i++)
            if (axes.at[i] == axis)
                return true;
    }
    if (n->op != OP_dot)
        return false;
    int other;
    return batch_axis(m, n->in[0], &axis) && batch_axis(m, n->in[1], &other) && axis >= 0 &&
           other >= 0;
}

/* v: the same value of each slice. */
static Val combine(Micro *m, const Val *v)
{
    Elab *e = m->e;
    const Node n = *graph_node(m->g, v[0]);
    int axis;
    if (m->failed || m->done[v[0].node].node)
        return m->failed    ? v[0]
               : n.nout > 1 ? val_result(m->done[v[0].node], v[0].result)
                            : m->done[v[0].node];
    if (n.op == OP_dim && mentions_batch(m, node_dim(&n, ATTR_shape, 0))) {
        const Dim d = widened(m, node_dim(&n, ATTR_shape, 0));
        if (d.id)
            return build_dim(&e->b, d);
        whole_batch(m, n.site.at, "this number is no multiple of the slice's size");
        return v[0];
    }
    bool same = true;
    for (uint32_t k = 1; k < m->n; k++)
        same &= val_eq(v[k], v[0]);
    batch_axis(m, v[0], &axis);
    if (axis >= 0)
        return join(m, v, (uint32_t)axis);
    if (n.nin == 0 || n.op == OP_input || (!same && !m->depends[v[0].node]))
        return v[0];
    if (sums_rows(m, &n))
        return add_up(m, v);
    if (attributes_mention(m, &n)) {
        whole_batch(m, n.site.at, "this chooses rows by their number in the batch");
        return v[0];
    }
    Val *in = arena_array(e->a, Val, n.nin), *of = arena_array(e->a, Val, m->n);
    for (uint32_t i = 0; i < n.nin; i++) {
        for (uint32_t k = 0; k < m->n; k++)
            of[k] = graph_node(m->g, v[k])->in[i];
        in[i] = combine(m, of);
    }
    const Site site = e->b.site;
    e->b.site = n.site;
    const Val w = build_again(&e->b, &n, in);
    e->b.site = site;
    m->done[v[0].node] = w;
    return n.nout > 1 ? val_result(w, v[0].result) : w;
}

/* --- slices ----------------------------------------------------------------------------------- */

/* The batch: the size that the first argument with one begins with. */
static bool find_batch(Micro *m)
{
    Elab *e = m->e;
    Symbol s;
    for (uint32_t i = 0; i < m->g->params.n; i++) {
        const TypeInfo *t = val_info(e->p, m->g, m->g->params.at[i].val);
        if (t->rank && dim_is_symbol(e->dims, t->shape[0], &s)) {
            m->whole = t->shape[0];
            m->part = dim_floordiv(e->dims, m->whole, dim_const(e->dims, m->n));
            return prove_divisible(e, m->t->decl->at, m->whole, m->n);
        }
    }
    elab_error(e, DIAG_bad_train, m->t->decl->at,
               "micro: no argument of '%s' begins with a size that is left open",
               sym(e, m->t->name));
    return false;
}

static bool cut(Micro *m, const Arg *arg, uint32_t k, Val *out)
{
    Elab *e = m->e;
    Val x = use_val(e, &arg->value);
    const TypeInfo t = *type_at(e, x);
    *out = x;
    for (uint32_t i = 0; i < t.rank; i++) {
        if (!mentions_batch(m, t.shape[i]))
            continue;
        if (!dim_same(t.shape[i], m->whole) || !val_eq(*out, x)) {
            elab_error(e, DIAG_bad_train, arg->at, "micro cannot cut '%s: %s' into slices of %s",
                       sym(e, arg->name.sym), val_shape_str(e, x), dim_str(e, m->whole));
            return false;
        }
        const Dim start = dim_mul(e->dims, m->part, dim_const(e->dims, k));
        *out = build_slice_axis(&e->b, x, i, start, m->part);
        val_hint(&e->b, *out, arg->name.sym);
    }
    return true;
}

static void find_dependent(Micro *m, const Val *cuts, uint32_t ncuts)
{
    const uint32_t n = m->g->nodes.n;
    m->depends = arena_array(m->e->a, bool, n);
    m->checked = arena_array(m->e->a, bool, n);
    m->done = arena_array(m->e->a, Val, n);
    for (uint32_t i = 0; i < ncuts; i++)
        m->depends[cuts[i].node] = true;
    for (uint32_t id = 1; id < n; id++) {
        const Node *x = &m->g->nodes.at[id];
        for (uint32_t i = 0; i < x->nin; i++)
            m->depends[id] |= m->depends[x->in[i].node];
    }
    for (uint32_t i = 0; i < ncuts; i++)
        m->checked[cuts[i].node] = true;
}

/* Each result of all slices. */
static bool results_of(Micro *m, const Value *v, uint32_t nresults, Val **out)
{
    for (uint32_t k = 0; k < m->n; k++) {
        if (is_poison(&v[k]) || (nresults > 1 && (v[k].kind != V_list || v[k].list->n != nresults)))
            return false;
        for (uint32_t i = 0; i < nresults; i++) {
            const Value *x = nresults > 1 ? &v[k].list->at[i] : &v[k];
            if (x->kind != V_tensor && !is_number(x))
                return false;
            out[i][k] = x->kind == V_tensor ? use_val(m->e, x) : val_as(m->e, x, m->e->float_type);
        }
    }
    return true;
}

static bool updates_nothing(Micro *m)
{
    Elab *e = m->e;
    for (uint32_t i = 0; i < e->states.n; i++) {
        const State *s = e->states.at[i];
        if (s->is_param || s->now_graph != m->g || !s->now.node)
            continue;
        elab_error(e, DIAG_bad_train, m->t->decl->at,
                   "micro: '%s' updates the buffer '%s', which each slice would do once",
                   sym(e, m->t->name), sym(e, s->name));
        return false;
    }
    return true;
}

Value call_in_slices(Elab *e, Graph *g, const Train *t, const Args *args)
{
    Micro m = {.e = e, .g = g, .t = t, .n = (uint32_t)t->micro};
    const uint32_t nresults = t->method->ast->results.n;
    Value *v = arena_array(e->a, Value, m.n);
    Val *cuts = arena_array(e->a, Val, m.n * args->n + 1);
    const uint32_t first = g->nodes.n;
    uint32_t ncuts = 0;
    if (!find_batch(&m))
        return v_poison();
    g->sliced = true;
    for (uint32_t k = 0; k < m.n; k++) {
        Args slice = {0};
        for (uint32_t i = 0; i < args->n; i++) {
            Val x;
            if (!cut(&m, &args->at[i], k, &x))
                return v_poison();
            if (x.node >= first)
                cuts[ncuts++] = x;
            vec_push(
                e->a, &slice,
                ((Arg){.name = args->at[i].name, .value = v_tensor(e, x), .at = args->at[i].at}));
        }
        v[k] = call_fn(e, t->method, &slice, (Span){0});
        if (is_poison(&v[k]))
            return v[k];
    }
    Val **all = arena_array(e->a, Val *, nresults);
    for (uint32_t i = 0; i < nresults; i++)
        all[i] = arena_array(e->a, Val, m.n);
    if (!results_of(&m, v, nresults, all))
        return v_poison();
    find_dependent(&m, cuts, ncuts);
    Value *out = arena_array(e->a, Value, nresults);
    for (uint32_t i = 0; i < nresults; i++) {
        for (uint32_t k = 0; k < m.n; k++)
            check_rows(&m, all[i][k]);
        if (!m.failed)
            out[i] = v_tensor(e, combine(&m, all[i]));
    }
    if (m.failed || !updates_nothing(&m))
        return v_poison();
    return nresults > 1 ? v_list(e, out, nresults) : out[0];
}
