/* outline_score.c: what stands between the product of q and k and the softmax, as scalars of an
 * index: the score hook, before anything is taken out of it (outline_hook.c).
 *
 *   %1 = dot %q, %k                                          %s
 *   %2 = mul (tanh %1), broadcast 50                   =>    mul (tanh %s), 50
 *   %y = where broadcast (ge iota, iota), %2, -inf           where (ge %i, %j), .., -inf
 *
 * What spans queries and keys and is made of constants and indices is computed where it is needed,
 * pointwise work on other tensors, too; these are read where they lie.
 * SPDX-License-Identifier: MIT */
#include "passes/outline.h"

enum { MOST_WORK = 96 }; /* operations and leaves of a hook */

static Val value(Outline *w, Val x, Axes axes);

static const Node *node_of(const Outline *w, Val v)
{
    return graph_node(w->g, v);
}

static bool passes_on(const Node *n)
{
    return op_is_pointwise(n->op) || n->op == OP_cast || n->op == OP_broadcast ||
           n->op == OP_reshape || n->op == OP_transpose;
}

/* --- the product ------------------------------------------------------------------------------ */

typedef struct {
    Outline *w;
    bool *seen;
    uint32_t dots, steps;
    Val dot;
} Search;

/* The products below x that pointwise work and views lead to. */
static void find_dots(Search *s, Val x)
{
    const Node *n = node_of(s->w, x);
    if (s->seen[x.node] || ++s->steps > 4 * MOST_WORK)
        return;
    s->seen[x.node] = true;
    if (n->op == OP_dot) {
        s->dots++;
        s->dot = x;
    }
    for (uint32_t i = 0; passes_on(n) && i < n->nin; i++)
        find_dots(s, n->in[i]);
}

/* Which nodes up to z depend on the product of q and k. */
static void find_dependent(Outline *w, Val z)
{
    w->dependent = arena_array(w->a, bool, w->g->nodes.n);
    w->dependent[w->scores.node] = true;
    for (uint32_t id = w->scores.node + 1; id <= z.node; id++) {
        const Node *n = &w->g->nodes.at[id];
        for (uint32_t i = 0; passes_on(n) && i < n->nin; i++)
            w->dependent[id] |= w->dependent[n->in[i].node];
    }
}

/* --- leaves -------------------------------------------------------------------------------------
 */

bool axes_have(const Axes *x, Axis axis)
{
    for (uint32_t i = 0; i < x->rank; i++)
        if (x->at[i] == axis)
            return true;
    return false;
}

/* Made of constants and indices alone. */
static bool is_free(const Outline *w, Val x, uint32_t *steps)
{
    const Node *n = node_of(w, x);
    if (++*steps > MOST_WORK)
        return false;
    if (n->op == OP_table || (!op_is_free(n->op) && !passes_on(n)))
        return false;
    for (uint32_t i = 0; i < n->nin; i++)
        if (!is_free(w, n->in[i], steps))
            return false;
    return true;
}

static Val index_of(Outline *w, Axis axis)
{
    return axis == AXIS_ONE ? build_const_int(&w->hook, DT_i32, 0)
           : axis == AXIS_N ? (Val){0, 0}
                            : w->params[HOOK_B + axis];
}

/* An element of a tensor as a parameter of the hook. */
static Val capture(Outline *w, Val x, Axes axes)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < axes.rank; i++) {
        const uint32_t bit = axes.at[i] == AXIS_N     ? (1u << AXIS_B) | (1u << AXIS_H)
                             : axes.at[i] == AXIS_ONE ? 0
                                                      : 1u << axes.at[i];
        if (used & bit)
            return (Val){0, 0}; /* a diagonal */
        used |= bit;
    }
    if (w->ncaptured == MOST_CAPTURED)
        return (Val){0, 0};
    const uint32_t k = w->ncaptured++;
    Ty scalar = type_of(w->p, val_info(w->p, w->g, x)->dtype, NULL, 0, PLACE_D0);
    w->captured[k] = (Captured){x, axes};
    const Sym name = sym_of(w->p->cx->names, arena_printf(w->a, "c%u", k));
    return w->params[HOOK_CAPTURED + k] = build_input(&w->hook, name, scalar);
}

/* --- operations ---------------------------------------------------------------------------------
 */

/* What depends on the scores is computed in f32, as attention does. */
static Val as_f32(Outline *w, Val x, bool wanted)
{
    const DType t = val_info(w->p, w->hook.g, x)->dtype;
    return wanted && dtype_is_float(t) ? build_cast(&w->hook, x, DT_f32) : x;
}

static Val operation(Outline *w, const Node *n, Axes axes, bool of_scores)
{
    Val in[3];
    for (uint32_t i = 0; i < n->nin; i++) {
        in[i] = value(w, n->in[i], axes);
        if (!in[i].node)
            return in[i];
        in[i] = as_f32(w, in[i], of_scores);
    }
    if (n->op == OP_cast && of_scores && dtype_is_float((DType)node_int(n, ATTR_dtype)))
        return build_cast(&w->hook, in[0], DT_f32);
    return build_again(&w->hook, n, in);
}

static Val leaf(Outline *w, const Node *n, Axes axes)
{
    if (n->op == OP_iota)
        return index_of(w, axes.at[node_int(n, ATTR_axis)]);
    return build_again(&w->hook, n, NULL);
}

static Val made_of(Outline *w, Val x, Axes axes)
{
    const Node *n = node_of(w, x);
    const bool of_scores = w->dependent[x.node];
    Axes below;
    uint32_t steps = 0;
    if (val_eq(x, w->scores)) {
        w->of_scores = axes;
        return w->params[HOOK_S];
    }
    if (!of_scores && !is_free(w, x, &steps) &&
        (!passes_on(n) || !axes_have(&axes, AXIS_T) || !axes_have(&axes, AXIS_S)))
        return capture(w, x, axes);
    if (op_is_free(n->op))
        return leaf(w, n, axes);
    if (op_is_view(n->op)) {
        if (axes_below(w->t, w->p, w->g, n, axes, &below))
            return value(w, n->in[0], below);
        return of_scores ? (Val){0, 0} : capture(w, x, axes);
    }
    return operation(w, n, axes, of_scores);
}

static bool same_axes(const Axes *x, const Axes *y)
{
    bool same = x->rank == y->rank;
    for (uint32_t i = 0; same && i < x->rank; i++)
        same = x->at[i] == y->at[i];
    return same;
}

bool axes_agree(Outline *w, const TypeInfo *t, const Axes *axes)
{
    bool agree = true;
    for (uint32_t i = 0; i < axes->rank; i++) {
        if ((int)axes->at[i] >= COUNTED)
            continue;
        Dim *size = &w->size[axes->at[i]];
        *size = size->id ? *size : t->shape[i];
        agree = agree && dim_equal(w->t, *size, t->shape[i]) == YES;
    }
    return agree;
}

/* x at the index that its axes count, or {0, 0}: also where one axis is cut into heads in two ways. */
static Val value(Outline *w, Val x, Axes axes)
{
    if (!axes_agree(w, val_info(w->p, w->g, x), &axes))
        return (Val){0, 0};
    for (uint32_t i = 0; i < w->memo.n; i++)
        if (val_eq(w->memo.at[i].node, x) && same_axes(&w->memo.at[i].axes, &axes))
            return w->memo.at[i].made;
    if (++w->work > MOST_WORK)
        return (Val){0, 0};
    const Val v = made_of(w, x, axes);
    if (v.node) {
        const HookMemo memo = {x, axes, v};
        vec_push(w->a, &w->memo, memo);
        if (w->dependent[x.node] && !val_eq(x, w->scores))
            vec_push(w->a, &w->inside, x.node);
    }
    return v;
}

static void begin_hook(Outline *w)
{
    static const char *const names[] = {"s", "b", "h", "i", "j"};
    Graph *g = arena_new(w->p->cx->perm, Graph);
    *g = (Graph){.name = sym_of(w->p->cx->names, "score"), .kind = GRAPH_DEF};
    vec_push(w->p->cx->perm, &g->nodes, ((Node){0}));
    w->hook = builder_for(w->p, g);
    for (uint32_t i = 0; i < HOOK_CAPTURED; i++)
        w->params[i] = build_input(&w->hook, sym_of(w->p->cx->names, names[i]),
                                   type_of(w->p, i == HOOK_S ? DT_f32 : DT_i32, NULL, 0, PLACE_D0));
}

bool outline_scores(Outline *w, Val z, Axes axes)
{
    Search s = {.w = w, .seen = arena_array(w->a, bool, w->g->nodes.n)};
    find_dots(&s, z);
    if (s.dots != 1)
        return false;
    w->scores = s.dot;
    find_dependent(w, z);
    begin_hook(w);
    const Val root = value(w, z, axes);
    if (!root.node || w->of_scores.rank == 0)
        return false;
    vec_push(w->a, &w->inside, w->scores.node);
    return outline_hook(w, as_f32(w, root, true));
}
