/* outline_hook.c: takes out of a score hook what attention has attributes and operands for.
 *
 *   where (ge %i, %j), add (mul %s, 0.125), %c0, -inf        causal, bias = c0, scale = 0.125
 *
 * What is left, with its derivative, becomes a graph of its own; equal ones are shared.
 * SPDX-License-Identifier: MIT */
#include "passes/outline.h"
#include "passes/pass.h"

#include <math.h>
#include <string.h>

typedef struct {
    Outline *w;
    Builder *b;
    Val root, s; /* s: what the hook begins with, once a factor was taken out */
    uint32_t *steps;
} Hook;

enum { MOST_STEPS = 1000 }; /* that masks are looked at */

static const Node *node_of(const Hook *h, Val v)
{
    return graph_node(h->b->g, v);
}

static bool constant(const Hook *h, Val v, double *x)
{
    return graph_constant(h->b->g, v, x);
}

/* The captured tensor whose element v is, perhaps converted to f32; or -1. */
static int32_t captured(const Hook *h, Val v)
{
    if (node_of(h, v)->op == OP_cast)
        v = node_of(h, v)->in[0];
    for (uint32_t i = 0; i < h->w->ncaptured; i++)
        if (val_eq(h->w->params[HOOK_CAPTURED + i], v))
            return dtype_is_float(val_info(h->w->p, h->b->g, v)->dtype) ? (int32_t)i : -1;
    return -1;
}

/* --- which keys a row sees ----------------------------------------------------------------------
 */

/* ci * i + cj * j + rest */
typedef struct {
    int64_t ci, cj;
    Dim rest;
} Linear;

static bool linear(const Hook *h, Val v, Linear *out)
{
    const Node *n = node_of(h, v);
    DimTable *t = h->w->t;
    Linear x, y;
    double c;
    *out = (Linear){0, 0, dim_const(t, 0)};
    if (++*h->steps > MOST_STEPS)
        return false;
    if (val_eq(v, h->w->params[HOOK_I]) || val_eq(v, h->w->params[HOOK_J])) {
        out->ci = val_eq(v, h->w->params[HOOK_I]);
        out->cj = !out->ci;
        return true;
    }
    if (constant(h, v, &c)) {
        out->rest = dim_const(t, fabs(c) < 0x1p31 ? (int64_t)c : 0);
        return fabs(c) < 0x1p31 && c == rint(c);
    }
    if (n->op == OP_dim) {
        out->rest = node_dim(n, ATTR_shape, 0);
        return true;
    }
    if (n->op == OP_cast)
        return val_info(h->w->p, h->b->g, v)->dtype != DT_bool &&
               val_info(h->w->p, h->b->g, n->in[0])->dtype != DT_bool && linear(h, n->in[0], out);
    if ((n->op != OP_add && n->op != OP_sub) || !linear(h, n->in[0], &x) ||
        !linear(h, n->in[1], &y))
        return false;
    const int64_t sign = n->op == OP_add ? 1 : -1;
    *out = (Linear){x.ci + sign * y.ci, x.cj + sign * y.cj,
                    sign > 0 ? dim_add(t, x.rest, y.rest) : dim_sub(t, x.rest, y.rest)};
    return true;
}

/* Whether v, or its negation, says i >= j. */
static bool sees_past(const Hook *h, Val v, bool negated);

static bool compares(Op op, double x, double y)
{
    return op == OP_eq   ? x == y
           : op == OP_ne ? x != y
           : op == OP_gt ? x > y
           : op == OP_ge ? x >= y
           : op == OP_lt ? x < y
                         : x <= y;
}

/* x is one number where a condition holds, and another one elsewhere. */
static bool two_valued(const Hook *h, Val x, Val *condition, double *yes, double *no)
{
    const Node *n = node_of(h, x);
    if (n->op == OP_cast && val_info(h->w->p, h->b->g, n->in[0])->dtype == DT_bool) {
        *condition = n->in[0];
        *yes = 1;
        *no = 0;
        return true;
    }
    if (n->op == OP_cast && val_info(h->w->p, h->b->g, x)->dtype != DT_bool)
        return two_valued(h, n->in[0], condition, yes, no);
    *condition = n->op == OP_where ? n->in[0] : (Val){0, 0};
    return n->op == OP_where && constant(h, n->in[1], yes) && constant(h, n->in[2], no);
}

/* OP compares the difference x - y with 0, for integers. */
static bool integers_say(const Hook *h, Op op, const Node *n, bool negated)
{
    Linear x, y;
    DimTable *t = h->w->t;
    if (op == OP_eq || op == OP_ne || !linear(h, n->in[0], &x) || !linear(h, n->in[1], &y))
        return false;
    if (negated)
        op = op == OP_gt ? OP_le : op == OP_ge ? OP_lt : op == OP_lt ? OP_ge : OP_gt;
    const int64_t sign = op == OP_ge || op == OP_gt ? 1 : -1;
    const int64_t more = op == OP_gt || op == OP_lt; /* x > y is x - y - 1 >= 0 */
    Dim rest = sign > 0 ? dim_sub(t, x.rest, y.rest) : dim_sub(t, y.rest, x.rest);
    rest = dim_sub(t, rest, dim_const(t, more));
    return sign * (x.ci - y.ci) == 1 && sign * (x.cj - y.cj) == -1 && dim_is_zero(t, rest);
}

static bool sees_past(const Hook *h, Val v, bool negated)
{
    const Node *n = node_of(h, v);
    Val condition;
    double yes, no, other;
    if (++*h->steps > MOST_STEPS)
        return false;
    switch (n->op) {
    case OP_not:
        return sees_past(h, n->in[0], !negated);
    case OP_cast:
        if (!two_valued(h, n->in[0], &condition, &yes, &no) || (yes != 0) == (no != 0))
            return false;
        return sees_past(h, condition, negated != (no != 0));
    case OP_eq:
    case OP_ne:
    case OP_gt:
    case OP_ge:
    case OP_lt:
    case OP_le:
        for (uint32_t k = 0; k < 2; k++) {
            if (!two_valued(h, n->in[k], &condition, &yes, &no) ||
                !constant(h, n->in[1 - k], &other))
                continue;
            const bool if_yes = k ? compares(n->op, other, yes) : compares(n->op, yes, other);
            const bool if_no = k ? compares(n->op, other, no) : compares(n->op, no, other);
            return if_yes != if_no && sees_past(h, condition, negated != if_no);
        }
        return integers_say(h, n->op, n, negated);
    default:
        return false;
    }
}

/* v is x where a condition holds that is i >= j, else -infinity. */
static bool hides_future(const Hook *h, Val v, Val *x)
{
    const Node *n = node_of(h, v);
    double c;
    if (n->op != OP_where)
        return false;
    for (uint32_t k = 0; k < 2; k++)
        if (constant(h, n->in[2 - k], &c) && c == -INFINITY && sees_past(h, n->in[0], k)) {
            *x = n->in[1 + k];
            return true;
        }
    return false;
}

/* --- taking out ---------------------------------------------------------------------------------
 */

/* Whether v is made of the score. */
static bool depends(const Hook *h, Val v)
{
    bool *on = arena_array(h->w->a, bool, v.node + 1u);
    on[h->w->params[HOOK_S].node] = true;
    for (uint32_t id = 1; id <= v.node; id++)
        for (uint32_t i = 0; i < h->b->g->nodes.at[id].nin; i++)
            on[id] |= on[h->b->g->nodes.at[id].in[i].node];
    return on[v.node];
}

/* A causal mask outside of all else: a where, or a term that is 0 or -infinity. */
static bool take_causal(Hook *h)
{
    const Node *n = node_of(h, h->root);
    Val x;
    double c;
    if (hides_future(h, h->root, &x) && depends(h, x)) {
        h->root = x;
        return true;
    }
    for (uint32_t k = 0; k < 2 && n->op == OP_add; k++)
        if (hides_future(h, n->in[k], &x) && constant(h, x, &c) && c == 0 &&
            depends(h, n->in[1 - k])) {
            h->root = n->in[1 - k];
            return true;
        }
    return false;
}

static bool is_active(const Outline *w, uint32_t k)
{
    const Val v = w->captured[k].val;
    return w->active && w->active[v.node] && w->active[v.node][v.result];
}

/* v without a tensor that is added to it; what is hidden stays so. only: just one that needs a
 * gradient, which attention has for its bias alone. */
static Val without_bias(Hook *h, Val v, bool only)
{
    const Node n = *node_of(h, v);
    double c;
    for (uint32_t k = 0; k < 2 && n.op == OP_add; k++) {
        const int32_t bias = captured(h, n.in[k]);
        if (bias >= 0 && depends(h, n.in[1 - k]) && (!only || is_active(h->w, (uint32_t)bias))) {
            h->w->bias = bias;
            return n.in[1 - k];
        }
    }
    for (uint32_t k = 0; k < n.nin && only; k++) {
        const bool inner = n.op == OP_add || (n.op == OP_where && k > 0 &&
                                              constant(h, n.in[3 - k], &c) && c == -INFINITY);
        Val in[3];
        if (!inner || !depends(h, n.in[k]))
            continue;
        memcpy(in, n.in, n.nin * sizeof *in);
        in[k] = without_bias(h, n.in[k], true);
        return h->w->bias >= 0 ? build_again(h->b, &n, in) : v;
    }
    return v;
}

/* The only node that reads s below the root, or NULL. */
static const Node *reader(const Hook *h, uint32_t *id)
{
    const Graph *g = h->b->g;
    bool *live = arena_array(h->w->a, bool, g->nodes.n);
    uint32_t readers = val_eq(h->root, h->s);
    live[h->root.node] = true;
    for (uint32_t i = h->root.node; i > 0; i--)
        for (uint32_t k = 0; live[i] && k < g->nodes.at[i].nin; k++) {
            live[g->nodes.at[i].in[k].node] = true;
            if (val_eq(g->nodes.at[i].in[k], h->s)) {
                readers++;
                *id = i;
            }
        }
    return readers == 1 && !val_eq(h->root, h->s) ? &g->nodes.at[*id] : NULL;
}

/* q may be multiplied by it: it does not depend on the key, and all is f32. */
static bool is_factor(const Hook *h, int32_t k)
{
    if (k < 0 || h->w->factor >= 0 || val_info(h->w->p, h->w->g, h->w->v)->dtype != DT_f32 ||
        val_info(h->w->p, h->w->g, h->w->captured[k].val)->dtype != DT_f32)
        return false;
    for (uint32_t i = 0; i < h->w->captured[k].axes.rank; i++)
        if (h->w->captured[k].axes.at[i] == AXIS_S)
            return false;
    return true;
}

/* A factor of all scores. */
static bool take_factor(Hook *h)
{
    uint32_t id = 0;
    const Node *n = reader(h, &id);
    double c;
    if (!n || (n->op != OP_mul && n->op != OP_div && n->op != OP_neg))
        return false;
    if (n->op == OP_neg) {
        h->w->how.scale = -h->w->how.scale;
        h->s = (Val){id, 0};
        return true;
    }
    const uint32_t other = val_eq(n->in[0], h->s) ? 1 : 0;
    if (n->op == OP_div && other == 0)
        return false;
    if (constant(h, n->in[other], &c)) {
        h->w->how.scale *= n->op == OP_div ? 1 / c : c;
    } else {
        const int32_t k = captured(h, n->in[other]);
        if (!is_factor(h, k))
            return false;
        h->w->factor = k;
        h->w->divides = n->op == OP_div;
    }
    h->s = (Val){id, 0};
    return true;
}

/* --- the graph ----------------------------------------------------------------------------------
 */

/* The hook's nodes once more, of stage 0, in a graph with the parameters that are read. */
static Graph *copied(Hook *h, const Val results[2])
{
    Outline *w = h->w;
    const Graph *from = h->b->g;
    Graph *g = arena_new(w->p->cx->perm, Graph);
    *g = (Graph){.name = from->name, .kind = GRAPH_DEF};
    vec_push(w->p->cx->perm, &g->nodes, ((Node){0}));
    Builder b = builder_for(w->p, g);
    Val *map = arena_array(w->a, Val, from->nodes.n);
    bool *live = arena_array(w->a, bool, from->nodes.n);
    for (int i = 0; i < 2; i++)
        live[results[i].node] = true;
    for (uint32_t id = from->nodes.n; id-- > 1;)
        for (uint32_t k = 0; live[id] && id != h->s.node && k < from->nodes.at[id].nin; k++)
            live[from->nodes.at[id].in[k].node] = true;
    for (uint32_t i = 0; i < from->params.n; i++) {
        const GraphParam *q = &from->params.at[i];
        if (i >= HOOK_CAPTURED && !live[q->val.node])
            continue;
        if (i >= HOOK_CAPTURED) {
            if (w->how.ncaptured == ATTENTION_CAPTURES)
                return NULL;
            w->reads[w->how.ncaptured++] = i - HOOK_CAPTURED;
        }
        map[q->val.node] = build_input(&b, q->name, val_type(from, q->val));
    }
    map[h->s.node] = map[w->params[HOOK_S].node];
    for (uint32_t id = 1; id < from->nodes.n; id++) {
        const Node n = from->nodes.at[id];
        Val in[3];
        if (!live[id] || map[id].node)
            continue;
        for (uint32_t k = 0; k < n.nin; k++)
            in[k] = map[n.in[k].node];
        map[id] = build_again(&b, &n, in);
    }
    graph_result(w->p, g, sym_of(w->p->cx->names, "score"), map[results[0].node], (Span){0});
    graph_result(w->p, g, sym_of(w->p->cx->names, "slope"), map[results[1].node], (Span){0});
    return g;
}

static bool make_graph(Hook *h)
{
    Val d = {0, 0}, results[2] = {h->root};
    const Graph *g = h->b->g;
    if (!differentiate(h->b, &h->root, NULL, 1, &h->s, 1, &d))
        return false;
    results[1] = d.node ? d : build_const(h->b, DT_f32, 0);
    for (uint32_t id = 1; id < g->nodes.n; id++)
        if (g->nodes.at[id].nin > 3 || g->nodes.at[id].nout != 1 || g->nodes.at[id].op == OP_extern)
            return false;
    Graph *made = copied(h, results);
    h->w->made = made;
    for (uint32_t i = 0; i < h->w->how.ncaptured && made; i++)
        if (is_active(h->w, h->w->reads[i]))
            return false; /* its gradient would need all scores in memory */
    return made != NULL;
}

bool outline_hook(Outline *w, Val root)
{
    uint32_t steps = 0;
    Hook h = {.w = w, .b = &w->hook, .root = root, .s = w->params[HOOK_S], .steps = &steps};
    w->bias = w->factor = -1;
    w->how.scale = 1;
    for (bool again = true; again;) {
        again = take_causal(&h);
        w->how.causal |= again;
        if (!again && w->bias < 0) {
            h.root = without_bias(&h, h.root, false);
            again = w->bias >= 0;
        }
    }
    if (w->bias < 0)
        h.root = without_bias(&h, h.root, true);
    while (take_factor(&h))
        ;
    if (!val_eq(h.root, h.s) && !make_graph(&h))
        return false;
    w->how.nan = w->made || w->bias >= 0;
    return true;
}
