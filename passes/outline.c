/* outline.c: attention that is written out becomes the op that keeps no scores in memory.
 *
 *   %s = dot %q, %k                                     [B,H,T,S]
 *   %x = where (ge iota, iota), (mul %s, 0.125), -inf
 *   %p = softmax %x
 *   %y = dot %p, %v                                     [B,H,T,E]
 *
 *   =>  %y, %lse = attention %q, %k, %v {mode=1, scale=0.125}
 *
 * In between may stand any pointwise work on scores, indices and other tensors: it becomes the
 * score hook (outline_score.c, outline_hook.c); and a dropout behind the softmax. What is left
 * alone: scores or weights that somebody else reads, products that several heads or entries share,
 * gradients through a tensor of the hook (they would need all scores), types and sizes that there
 * are no functions for, and what is as small as q and k. SPDX-License-Identifier: MIT */
#include "passes/outline.h"
#include "passes/pipeline.h"
#include "passes/vjp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 128, FEW_KEYS = 16 };

static const Node *node_of(const Outline *w, Val v)
{
    return graph_node(w->g, v);
}

static const TypeInfo *info(const Outline *w, Val v)
{
    return val_info(w->p, w->g, v);
}

/* --- products -----------------------------------------------------------------------------------
 */

/* What the axes of operand k of a product count: batch axes as in its result, `contracted`, and
 * `free`. False: it has more free axes. */
static bool operand_axes(const Outline *w, const Node *dot, uint32_t k, const Axes *batch,
                         Axis contracted, Axis free, Axes *out)
{
    const Attr b = node_attr(dot, k ? ATTR_batch_b : ATTR_batch_a);
    const Attr c = node_attr(dot, k ? ATTR_contract_b : ATTR_contract_a);
    *out = (Axes){.rank = info(w, dot->in[k])->rank};
    if (c.n != 1 || out->rank != b.n + 2)
        return false;
    for (uint32_t i = 0; i < out->rank; i++)
        out->at[i] = free;
    for (uint32_t i = 0; i < b.n; i++)
        out->at[b.at[i]] = batch->at[i];
    out->at[c.at[0]] = contracted;
    return true;
}

/* Batch axes of the product with v. */
static bool root_batch(const Node *dot, Axes *batch)
{
    const uint32_t n = node_attr(dot, ATTR_batch_a).n;
    *batch = (Axes){.rank = n, .at = {n == 2 ? AXIS_B : AXIS_N, AXIS_H}};
    return n <= 2;
}

/* Which operand of the scores' product is q: the one whose own axis counts rows. */
static bool find_q(Outline *w)
{
    const Node *dot = node_of(w, w->scores);
    const uint32_t n = node_attr(dot, ATTR_batch_a).n;
    const Axes *x = &w->of_scores;
    Axes unused;
    if (x->rank != n + 2)
        return false;
    for (uint32_t i = 0; i < n; i++)
        if (x->at[i] == AXIS_T || x->at[i] == AXIS_S)
            return false;
    w->q = x->at[n] == AXIS_T ? 0 : 1;
    return x->at[n + w->q] == AXIS_T && x->at[n + 1 - w->q] == AXIS_S &&
           operand_axes(w, dot, 0, x, AXIS_D, AXIS_D, &unused) &&
           operand_axes(w, dot, 1, x, AXIS_D, AXIS_D, &unused);
}

/* --- between the softmax and the product with v -------------------------------------------------
 */

static bool is_half_or_f32(DType t)
{
    return t == DT_f32 || t == DT_bf16 || t == DT_f16;
}

/* The share whose threshold and factor these are, as attention_keep makes them. */
static bool share_of(double keep, double grow, double *drop)
{
    char text[32];
    snprintf(text, sizeof text, "%.6g", keep);
    const double shares[] = {1 - strtod(text, NULL), 1 - keep};
    for (int i = 0; i < 2; i++)
        if ((float)(1 - shares[i]) == (float)keep && (float)(1 / (1 - shares[i])) == (float)grow) {
            *drop = shares[i];
            return true;
        }
    return false;
}

/* where (lt (random key), keep), (mul y, grow), 0 with draws in the order of the scores: y. */
static bool take_dropout(Outline *w, const Node *n, const Axes *axes, Val *y)
{
    double zero, keep, grow;
    const Node *cond = node_of(w, n->in[0]), *kept = node_of(w, n->in[1]);
    if (w->key.node || !graph_constant(w->g, n->in[2], &zero) || zero != 0 || cond->op != OP_lt ||
        kept->op != OP_mul)
        return false;
    const Node *draws = node_of(w, cond->in[0]);
    const uint32_t other = graph_constant(w->g, kept->in[1], &grow) ? 1 : 0;
    if (!graph_constant(w->g, kept->in[other], &grow) ||
        !graph_constant(w->g, cond->in[1], &keep) || draws->op != OP_random ||
        node_int(draws, ATTR_mode) != RANDOM_UNIFORM || !share_of(keep, grow, &w->drop))
        return false;
    for (uint32_t i = 0; i + 1 < axes->rank; i++) { /* B H T S or N T S */
        const Axis x = axes->at[i] == AXIS_N ? AXIS_H : axes->at[i];
        if (axes->at[i + 1] <= x || axes->at[i + 1] > AXIS_S)
            return false;
    }
    w->key = draws->in[0];
    vec_push(w->a, &w->inside, n->in[1].node);
    *y = kept->in[1 - other];
    return true;
}

/* From the weights that v is multiplied by down to the softmax. */
static bool find_softmax(Outline *w, Val x, Axes axes, Val *y, Axes *out)
{
    for (;;) {
        const Node *n = node_of(w, x);
        vec_push(w->a, &w->inside, x.node);
        if (n->op == OP_cast && is_half_or_f32(info(w, n->in[0])->dtype)) {
            x = n->in[0];
        } else if (n->op == OP_reshape || n->op == OP_transpose) {
            if (!axes_below(w->t, w->p, w->g, n, axes, &axes))
                return false;
            x = n->in[0];
        } else if (n->op == OP_where) {
            if (!take_dropout(w, n, &axes, &x))
                return false;
        } else {
            *y = x;
            *out = axes;
            return true;
        }
    }
}

/* The scores that go into the softmax, whether that is written out or called. */
static bool through_softmax(Outline *w, Val y, const Axes *axes, Val *z)
{
    const Node *n = node_of(w, y);
    uint32_t axis;
    if (n->op != OP_call)
        return match_softmax(w, w->g, y, z, &axis, true) && axes->at[axis] == AXIS_S;
    const Graph *def = w->p->graphs.at[node_int(n, ATTR_graph)];
    if (n->nin != 1 || y.result != 0 ||
        !match_softmax(w, def, def->results.at[0].val, z, &axis, false) ||
        !val_eq(*z, def->params.at[0].val) || axes->at[axis] != AXIS_S)
        return false;
    *z = n->in[0];
    return true;
}

/* --- what was found ------------------------------------------------------------------------------
 */

static bool nobody_else(const Outline *w)
{
    bool *in = arena_array(w->a, bool, w->g->nodes.n);
    uint32_t *used = arena_array(w->a, uint32_t, w->g->nodes.n);
    in[w->root] = true;
    for (uint32_t i = 0; i < w->inside.n; i++)
        in[w->inside.at[i]] = true;
    for (uint32_t id = 1; id <= w->root; id++)
        for (uint32_t k = 0; in[id] && k < w->g->nodes.at[id].nin; k++)
            used[w->g->nodes.at[id].in[k].node]++;
    for (uint32_t i = 0; i < w->inside.n; i++)
        if (w->inside.at[i] != w->root && used[w->inside.at[i]] != w->uses[w->inside.at[i]])
            return false;
    return true;
}

static bool is_short(const Outline *w, Val v, const Axes *axes)
{
    int64_t n = 0;
    for (uint32_t i = 0; i < axes->rank; i++)
        if (axes->at[i] == AXIS_D && !dim_is_const(w->t, info(w, v)->shape[i], &n))
            return false;
    return n >= 1 && n <= LONGEST;
}

/* B and H, from N and what is known of it; sizes that there are functions for. */
static bool sizes_fit(Outline *w)
{
    int64_t n;
    Dim *size = w->size;
    if (size[AXIS_N].id && !size[AXIS_B].id && !size[AXIS_H].id)
        size[AXIS_B] = size[AXIS_N];
    for (int i = 0; i < 2; i++)
        if (!size[i].id)
            size[i] = dim_const(w->t, 1);
    return dim_is_const(w->t, size[AXIS_H], &n) && !dim_is_one(w->t, size[AXIS_T]) &&
           !(dim_is_const(w->t, size[AXIS_S], &n) && n <= FEW_KEYS);
}

/* The product of q and k is one of each head of each entry. */
static bool is_product_of_each(const Outline *w)
{
    const bool joined = axes_have(&w->of_scores, AXIS_N);
    for (Axis i = AXIS_B; i <= AXIS_H; i++)
        if (!joined && !axes_have(&w->of_scores, i) && !dim_is_one(w->t, w->size[i]))
            return false;
    return true;
}

static bool types_fit(Outline *w)
{
    const Node *dot = node_of(w, w->scores), *root = &w->g->nodes.at[w->root];
    const DType t = info(w, w->v)->dtype;
    Axes batch, x;
    root_batch(root, &batch);
    if (!is_half_or_f32(t) || info(w, dot->in[0])->dtype != t || info(w, dot->in[1])->dtype != t)
        return false;
    return operand_axes(w, dot, w->q, &w->of_scores, AXIS_D, AXIS_T, &x) &&
           is_short(w, dot->in[w->q], &x) &&
           operand_axes(w, root, 1 - w->weights, &batch, AXIS_S, AXIS_D, &x) &&
           is_short(w, w->v, &x) && axes_agree(w, info(w, w->v), &x);
}

/* Operand k of the root are the weights. */
static bool find_one(Outline *w, uint32_t k)
{
    const Node *root = &w->g->nodes.at[w->root];
    Axes batch, axes;
    Val y, z;
    w->weights = k;
    w->v = root->in[1 - k];
    if (!root_batch(root, &batch) || !operand_axes(w, root, k, &batch, AXIS_S, AXIS_T, &axes) ||
        info(w, root->in[1 - k])->rank != axes.rank || !is_half_or_f32(info(w, w->v)->dtype))
        return false;
    return find_softmax(w, root->in[k], axes, &y, &axes) && through_softmax(w, y, &axes, &z) &&
           outline_scores(w, z, axes) && find_q(w) && sizes_fit(w) && is_product_of_each(w) &&
           types_fit(w) && nobody_else(w);
}

/* --- operands ------------------------------------------------------------------------------------
 */

/* A tensor whose axes count these with four axes in the order of `order`: what it lacks has size 1.
 */
static Val arranged(const Outline *w, Builder *b, Val x, Axes axes, const Axis order[4])
{
    const TypeInfo t = *val_info(b->p, b->g, x);
    Axis has[MAX_RANK];
    Dim shape[MAX_RANK], four[4];
    int64_t perm[4];
    uint32_t n = 0, m = 0;
    for (uint32_t i = 0; i < axes.rank; i++) {
        if (axes.at[i] == AXIS_ONE)
            continue;
        const bool split = axes.at[i] == AXIS_N;
        has[n] = split ? AXIS_B : axes.at[i];
        shape[n++] = split ? w->size[AXIS_B] : t.shape[i];
        if (!split || dim_is_one(w->t, w->size[AXIS_H]))
            continue;
        has[n] = AXIS_H;
        shape[n++] = w->size[AXIS_H];
    }
    x = build_reshape(b, x, shape, n);
    for (uint32_t i = 0; i < 4; i++) {
        four[i] = dim_const(w->t, 1);
        for (uint32_t k = 0; k < n; k++)
            if (has[k] == order[i]) {
                four[i] = shape[k];
                perm[m++] = k;
            }
    }
    CHECK(m == n);
    return build_reshape(b, build_transpose(b, x, perm), four, 4);
}

static const Axis vectors_order[] = {AXIS_B, AXIS_T, AXIS_H, AXIS_D};
static const Axis keys_order[] = {AXIS_B, AXIS_S, AXIS_H, AXIS_D};
static const Axis scores_order[] = {AXIS_B, AXIS_H, AXIS_T, AXIS_S};

static Val captured_tensor(const Outline *w, Rewrite *rw, uint32_t k, const Axis order[4])
{
    return arranged(w, &rw->b, rewrite_get(rw, w->captured[k].val), w->captured[k].axes, order);
}

/* q with its own factor. */
static Val scaled_q(const Outline *w, Rewrite *rw, Val q)
{
    if (w->factor < 0)
        return q;
    const TypeInfo t = *val_info(w->p, rw->b.g, q);
    const Val c = captured_tensor(w, rw, (uint32_t)w->factor, vectors_order);
    return build2(&rw->b, w->divides ? OP_div : OP_mul, q,
                  build_broadcast(&rw->b, c, t.shape, 4, (int64_t[]){0, 1, 2, 3}));
}

/* The result as the product with v had it. */
static Val as_root(const Outline *w, Builder *b, Val y)
{
    const Node *root = &w->g->nodes.at[w->root];
    const TypeInfo t = *type_info(w->p, root->types[0]);
    Axes batch;
    root_batch(root, &batch);
    const int64_t rows = w->weights ? 3 : 1, vectors = w->weights ? 1 : 3;
    y = build_transpose(b, y, (int64_t[]){0, 2, rows, vectors});
    return build_cast(b, build_reshape(b, y, t.shape, t.rank), t.dtype);
}

static bool same_graph(const Graph *x, const Graph *y)
{
    bool same = x->nodes.n == y->nodes.n && x->params.n == y->params.n;
    for (uint32_t id = 1; same && id < x->nodes.n; id++) {
        const Node *m = &x->nodes.at[id], *n = &y->nodes.at[id];
        same = m->op == n->op && m->nin == n->nin && m->types[0].id == n->types[0].id;
        for (uint32_t i = 0; same && i < m->nin; i++)
            same = val_eq(m->in[i], n->in[i]);
        for (int i = 0; same && i < op_info(m->op)->nattrs; i++)
            same = m->op == OP_input || (m->attrs[i].n == n->attrs[i].n &&
                                         !memcmp(m->attrs[i].at, n->attrs[i].at,
                                                 m->attrs[i].n * sizeof *m->attrs[i].at));
    }
    for (int i = 0; same && i < 2; i++)
        same = val_eq(x->results.at[i].val, y->results.at[i].val);
    return same;
}

/* Index + 1 of the hook among the program's graphs. */
static uint32_t shared_hook(Program *p, Graph *hook)
{
    for (uint32_t i = 0; i < p->graphs.n; i++)
        if (p->graphs.at[i]->kind == GRAPH_DEF && sym_eq(p->graphs.at[i]->name, hook->name) &&
            p->graphs.at[i]->results.n == 2 && same_graph(p->graphs.at[i], hook))
            return i + 1;
    vec_push(p->cx->perm, &p->graphs, hook);
    return p->graphs.n;
}

static void build_one(Outline *w, Rewrite *rw)
{
    const Node root = w->g->nodes.at[w->root], dot = *node_of(w, w->scores);
    Builder *b = &rw->b;
    Axes batch, x;
    Attention how = w->how;
    b->site = root.site;
    b->stage = root.stage;
    root_batch(&root, &batch);
    operand_axes(w, &dot, w->q, &w->of_scores, AXIS_D, AXIS_T, &x);
    Val q = arranged(w, b, rewrite_get(rw, dot.in[w->q]), x, vectors_order);
    operand_axes(w, &dot, 1 - w->q, &w->of_scores, AXIS_D, AXIS_S, &x);
    const Val k = arranged(w, b, rewrite_get(rw, dot.in[1 - w->q]), x, keys_order);
    operand_axes(w, &root, 1 - w->weights, &batch, AXIS_S, AXIS_D, &x);
    const Val v = arranged(w, b, rewrite_get(rw, w->v), x, keys_order);
    q = scaled_q(w, rw, q);
    if (w->bias >= 0)
        how.bias = build_cast(b, captured_tensor(w, rw, (uint32_t)w->bias, scores_order), DT_f32);
    for (uint32_t i = 0; i < how.ncaptured; i++)
        how.captured[i] = captured_tensor(w, rw, w->reads[i], scores_order);
    if (w->key.node) {
        how.key = rewrite_get(rw, w->key);
        how.drop = w->drop;
    }
    how.hook = w->made ? shared_hook(w->p, w->made) : 0;
    const Val y = as_root(w, b, build_attention(b, q, k, v, &how));
    b->stage = -1;
    if (root.hint.id)
        val_hint(b, y, root.hint);
    rewrite_set(rw, (Val){w->root, 0}, y);
}

/* --- graphs --------------------------------------------------------------------------------------
 */

/* What a derivative may be asked for: float arguments and parameters. */
static bool **differentiable(Program *p, Graph *g)
{
    VEC(Val) wrt = {0};
    Builder b = builder_for(p, g);
    for (uint32_t id = 1; id < g->nodes.n; id++) {
        const Node *n = &g->nodes.at[id];
        const Val v = {id, 0};
        if ((n->op == OP_input || n->op == OP_state) && dtype_is_float(val_info(p, g, v)->dtype))
            vec_push(p->cx->scratch, &wrt, v);
    }
    return vjp_active(&b, wrt.at, wrt.n);
}

static bool has_exp(const Graph *g)
{
    bool has = false;
    for (uint32_t id = 1; id < g->nodes.n && !has; id++)
        has = g->nodes.at[id].op == OP_exp;
    return has;
}

/* A product whose operand might be the weights: cheap, as most graphs have none. */
static bool may_be_weights(const Program *p, const Graph *g, Val v)
{
    double factor;
    for (int steps = 0; steps < 8; steps++) {
        const Node *n = graph_node(g, v);
        if (n->op == OP_call)
            return n->nin == 1 && has_exp(p->graphs.at[node_int(n, ATTR_graph)]);
        const bool scaled = n->op == OP_mul || n->op == OP_div;
        if (n->op == OP_exp || (scaled && (graph_node(g, n->in[0])->op == OP_exp ||
                                           graph_node(g, n->in[1])->op == OP_exp)))
            return true;
        if (n->op != OP_cast && n->op != OP_reshape && n->op != OP_transpose && n->op != OP_where &&
            n->op != OP_mul)
            return false;
        if (n->op == OP_mul && graph_constant(g, n->in[0], &factor))
            v = n->in[1];
        else if (n->op == OP_mul && !graph_constant(g, n->in[1], &factor))
            return false;
        else
            v = n->in[n->op == OP_where ? 1 : 0];
    }
    return false;
}

static bool may_have_some(const Program *p, const Graph *g)
{
    uint32_t dots = 0;
    bool some = false;
    for (uint32_t id = 1; id < g->nodes.n; id++) {
        const Node *n = &g->nodes.at[id];
        if (n->op == OP_dot)
            some |= dots++ && (may_be_weights(p, g, n->in[0]) || may_be_weights(p, g, n->in[1]));
    }
    return some;
}

static Graph *outline_one(Program *p, Graph *g, bool derivatives)
{
    const bool *live = graph_live(p, g);
    VEC(Outline *) found = {0};
    bool *inside = arena_array(p->cx->scratch, bool, g->nodes.n);
    Outline **at = arena_array(p->cx->scratch, Outline *, g->nodes.n);
    const Outline start = {.p = p,
                           .g = g,
                           .t = p->cx->dims,
                           .a = p->cx->scratch,
                           .uses = graph_uses(p, g, live),
                           .active = derivatives ? differentiable(p, g) : NULL};
    for (uint32_t id = 1; id < g->nodes.n; id++)
        for (uint32_t k = 0; k < 2 && live[id] && g->nodes.at[id].op == OP_dot && !at[id]; k++) {
            Outline *w = arena_new(p->cx->scratch, Outline);
            *w = start;
            w->root = id;
            if (!may_be_weights(p, g, g->nodes.at[id].in[k]) || !find_one(w, k))
                continue;
            vec_push(p->cx->scratch, &found, w);
            at[id] = w;
            for (uint32_t i = 0; i < w->inside.n; i++)
                inside[w->inside.at[i]] = true;
        }
    if (!found.n)
        return g;
    Rewrite rw = rewrite_begin(p, g);
    for (uint32_t id = 1; id < g->nodes.n; id++) {
        if (at[id])
            build_one(at[id], &rw);
        else if (live[id] && !inside[id])
            rewrite_copy(&rw, id);
    }
    return rewrite_end(&rw);
}

/* The bodies of the graph's scans, and those inside them. */
static void outline_bodies(Program *p, const Graph *g)
{
    for (uint32_t id = 1; id < g->nodes.n; id++) {
        if (g->nodes.at[id].op != OP_scan)
            continue;
        const int64_t body = node_int(&g->nodes.at[id], ATTR_body);
        outline_bodies(p, p->graphs.at[body]);
        Graph *made = outline_early(p, p->graphs.at[body]);
        p->graphs.at[body] = made;
    }
}

Graph *outline_early(Program *p, Graph *g)
{
    outline_bodies(p, g);
    if (!may_have_some(p, g))
        return g;
    Graph *plain = simplify_graph(p, broadcast_graph(p, g), false);
    Graph *made = outline_one(p, plain, true);
    return made == plain ? g : made;
}

bool pass_outline(Pipeline *pl)
{
    Program *p = pl->p;
    for (uint32_t i = 0; i < p->graphs.n && pl->o->level > 0; i++) {
        Graph *g = p->graphs.at[i];
        if (g->kind != GRAPH_DEF && g->kind != GRAPH_CHECK && g->kind != GRAPH_INIT &&
            may_have_some(p, g)) {
            Graph *made = outline_one(p, g, g->kind == GRAPH_TRAINING || g->kind == GRAPH_BODY);
            p->graphs.at[i] = made;
        }
    }
    return true;
}
