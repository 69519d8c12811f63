/* loop.c: scans: their type, parts and values. SPDX-License-Identifier: MIT */
#include "ir/loop.h"

#include "ir/base/die.h"
#include "ir/eval_internal.h"
#include "ir/tensor_internal.h"

#include <string.h>

Loop loop_of(const Program *p, const Node *n)
{
    Loop l = {.trip = node_dim(n, ATTR_trip, 0)};
    const Attr counts = node_attr(n, ATTR_counts);
    CHECK(n->op == OP_scan && counts.n == 2);
    l.graph = (uint32_t)node_int(n, ATTR_body);
    l.body = p->graphs.at[l.graph];
    if (!dim_is_symbol(p->cx->dims, node_dim(n, ATTR_loop, 0), &l.loop))
        die("a scan counts with a symbol");
    l.reverse = node_int(n, ATTR_mode) & 1;
    l.ncarry = (uint32_t)counts.at[0];
    l.nxs = (uint32_t)counts.at[1];
    l.nconst = n->nin - l.ncarry - l.nxs;
    l.nys = l.body->results.n - l.ncarry;
    return l;
}

bool loop_keeps(const Node *n, uint32_t carry)
{
    const Attr keep = node_attr(n, ATTR_keep);
    for (uint32_t i = 0; i < keep.n; i++)
        if (keep.at[i] == (int64_t)carry)
            return true;
    return false;
}

Dim loop_slot(const Program *p, const Loop *l, bool after)
{
    DimTable *t = p->cx->dims;
    const Dim at = dim_of(t, l->loop);
    return after != l->reverse ? dim_add(t, at, dim_const(t, 1)) : at;
}

bool node_mentions(const Program *p, const Node *n, Symbol s)
{
    const OpInfo *info = op_info(n->op);
    for (int i = 0; i < info->nattrs; i++) {
        if (attr_kind(info->attrs[i]) != AK_DIMS || info->attrs[i] == ATTR_loop)
            continue;
        for (uint32_t k = 0; k < n->attrs[i].n; k++)
            if (dim_mentions(p->cx->dims, (Dim){(uint32_t)n->attrs[i].at[k]}, s))
                return true;
    }
    if (n->op != OP_scan || node_dim(n, ATTR_loop, 0).id == dim_of(p->cx->dims, s).id)
        return false; /* its own symbol is bound in its body */
    const Graph *g = p->graphs.at[node_int(n, ATTR_body)];
    for (uint32_t id = 1; id < g->nodes.n; id++)
        if (node_mentions(p, &g->nodes.at[id], s))
            return true;
    return false;
}

/* --- building --------------------------------------------------------------------------------- */

Val build_scan(Builder *b, uint32_t body, Dim trip, Symbol loop, bool reverse, uint32_t ncarry,
               uint32_t nxs, const bool *keep, const Val *in, uint32_t nin)
{
    const Dim symbol = dim_of(b->p->cx->dims, loop);
    const int64_t graph = body, mode = reverse, counts[2] = {ncarry, nxs};
    int64_t words[2], *kept = arena_array(b->p->cx->scratch, int64_t, ncarry + 1);
    uint32_t n = 0;
    for (uint32_t c = 0; c < ncarry; c++)
        if (keep && keep[c])
            kept[n++] = c;
    const Attr attrs[] = {attr_dims(&words[0], &trip, 1),
                          attr_dims(&words[1], &symbol, 1),
                          attr_words(&graph, 1),
                          attr_words(counts, 2),
                          attr_words(kept, n),
                          attr_words(&mode, 1)};
    return build(b, OP_scan, in, nin, attrs);
}

Val build_at(Builder *b, Val x, Dim at)
{
    const TypeInfo t = *val_info(b->p, b->g, x);
    const Val s = build_slice_axis(b, x, 0, at, dim_const(b->p->cx->dims, 1));
    return build_reshape(b, s, t.shape + 1, t.rank - 1u);
}

Val loop_last(Builder *b, Val scan, uint32_t c)
{
    const Node n = *graph_node(b->g, scan);
    const Loop l = loop_of(b->p, &n);
    const Val v = val_result(scan, c);
    if (!loop_keeps(&n, c))
        return v;
    return build_at(b, v, l.reverse ? dim_const(b->p->cx->dims, 0) : l.trip);
}

Val loop_values(Builder *b, Val scan, uint32_t c, bool after)
{
    const Node n = *graph_node(b->g, scan);
    const Loop l = loop_of(b->p, &n);
    CHECK(loop_keeps(&n, c));
    const Dim start = dim_const(b->p->cx->dims, after != l.reverse);
    return build_slice_axis(b, val_result(scan, c), 0, start, l.trip);
}

/* --- type ------------------------------------------------------------------------------------- */

static bool same_type(const Program *p, const TypeInfo *x, uint32_t from, const TypeInfo *y)
{
    bool same = x->dtype == y->dtype && x->place == y->place && x->rank == y->rank + from;
    for (uint32_t i = 0; same && i < y->rank; i++)
        same = dim_equal(p->cx->dims, x->shape[i + from], y->shape[i]) == YES;
    return same;
}

/* The type with a leading axis. */
static Ty stacked(Program *p, TypeInfo t, Dim n)
{
    memmove(t.shape + 1, t.shape, t.rank * sizeof *t.shape);
    t.shape[0] = n;
    t.rank++;
    return type_make(p, t);
}

const char *infer_scan(Builder *b, const Val *in, uint32_t nin, const Attr *attrs, Ty *types,
                       uint32_t *nout)
{
    Program *p = b->p;
    DimTable *t = p->cx->dims;
    const Node n = {.op = OP_scan, .nin = nin, .in = in, .attrs = attrs};
    const Attr counts = node_attr(&n, ATTR_counts);
    const int64_t graph = node_int(&n, ATTR_body);
    if (graph < 0 || graph >= (int64_t)p->graphs.n)
        return "there is no such graph";
    const Graph *g = p->graphs.at[graph];
    if (counts.n != 2 || counts.at[0] < 0 || counts.at[1] < 0 ||
        counts.at[0] + counts.at[1] > (int64_t)nin || counts.at[0] > (int64_t)g->results.n ||
        g->params.n != nin)
        return "the numbers of carries and operands do not fit the body";
    if (!dim_is_symbol(t, node_dim(&n, ATTR_loop, 0), NULL) || g->results.n > MAX_RESULTS)
        return "the loop has no symbol, or too many results";
    const Loop l = loop_of(p, &n);
    for (uint32_t i = 0; i < nin; i++) {
        const TypeInfo x = *val_info(p, b->g, in[i]), y = *val_info(p, g, g->params.at[i].val);
        const bool sliced = i >= l.ncarry && i < l.ncarry + l.nxs;
        if (!same_type(p, &x, sliced, &y) || (sliced && dim_equal(t, x.shape[0], l.trip) != YES))
            return arena_printf(p->cx->scratch, "operand %u does not fit the body", i);
    }
    for (uint32_t k = 0; k < g->results.n; k++) {
        const TypeInfo r = *val_info(p, g, g->results.at[k].val);
        const TypeInfo c = *val_info(p, b->g, in[k < l.ncarry ? k : 0]);
        if (k < l.ncarry && !same_type(p, &c, 0, &r))
            return arena_printf(p->cx->scratch, "carry %u changes its type", k);
        if (r.rank == MAX_RANK && (k >= l.ncarry || loop_keeps(&n, k)))
            return "a stacked value has too many axes";
        if (k >= l.ncarry)
            types[k] = stacked(p, r, l.trip);
        else if (loop_keeps(&n, k))
            types[k] = stacked(p, c, dim_add(t, l.trip, dim_const(t, 1)));
        else
            types[k] = type_make(p, c);
    }
    *nout = g->results.n;
    return NULL;
}

/* --- value ------------------------------------------------------------------------------------ */

static EvalTensor slice_of(EvalNode *q, const EvalTensor *x, int64_t at)
{
    EvalTensor y = eval_tensor(q->e->a, x->dtype, x->shape + 1, x->rank - 1);
    memcpy(y.at, x->at + at * y.n, (size_t)y.n * sizeof *y.at);
    return y;
}

static void put_slice(EvalTensor *x, int64_t at, const EvalTensor *y)
{
    memcpy(x->at + at * y->n, y->at, (size_t)y->n * sizeof *y->at);
}

void eval_scan(EvalNode *q)
{
    const Program *p = q->e->p;
    const Loop l = loop_of(p, q->n);
    Arena *a = q->e->a;
    const uint32_t nsizes = dim_nsymbols(p->cx->dims) + 1;
    int64_t trip, *sizes = arena_array(a, int64_t, nsizes);
    memcpy(sizes, q->e->sizes, nsizes * sizeof *sizes);
    if (!eval_size(q, l.trip, &trip) || trip < 0) {
        eval_fail(q, "scan: the number of turns cannot be computed or is negative");
        return;
    }
    EvalTensor *inputs = arena_array(a, EvalTensor, q->n->nin + 1);
    for (uint32_t i = 0; i < q->n->nin; i++)
        inputs[i] = *q->all[i];
    for (uint32_t c = 0; c < l.ncarry; c++)
        if (loop_keeps(q->n, c))
            put_slice(&q->out[c], l.reverse ? trip : 0, &inputs[c]);
    for (int64_t turn = 0; turn < trip && !q->error; turn++) {
        const int64_t at = l.reverse ? trip - 1 - turn : turn;
        sizes[l.loop.id] = at;
        for (uint32_t k = l.ncarry; k < l.ncarry + l.nxs; k++)
            inputs[k] = slice_of(q, q->all[k], at);
        Eval inner = *q->e;
        inner.sizes = sizes;
        inner.inputs = inputs;
        const char *error = eval_graph(&inner, l.body);
        if (error) {
            eval_fail(q, "%s", error);
            return;
        }
        q->e->failed = inner.failed;
        for (uint32_t k = 0; k < q->n->nout; k++)
            if (k >= l.ncarry)
                put_slice(&q->out[k], at, &inner.results[k]);
            else if (loop_keeps(q->n, k))
                put_slice(&q->out[k], l.reverse ? at : at + 1, &inner.results[k]);
        for (uint32_t c = 0; c < l.ncarry; c++)
            inputs[c] = inner.results[c];
    }
    for (uint32_t c = 0; c < l.ncarry; c++)
        if (!loop_keeps(q->n, c))
            q->out[c] = inputs[c];
}
