/* fuse_strip.c: which groups ride along with a contraction, row block by row block (fuse.h says
 * what that means), and an order of the groups in which they stand beside it.
 *
 *   0 map: %x2 = gelu %x       0 map: %x2            loader of 2: the rows of a
 *   1 map: %other              1 map: %other
 *   2 contract: %c = x2 w      0 map, 2 contract, 3 map stand together
 *   3 map: %y = %c + bias                            epilogue of 2: reads c at its own row
 *
 * SPDX-License-Identifier: MIT */
#include "ir/base/die.h"
#include "passes/conv.h"
#include "passes/fuse_internal.h"

#include <string.h>

enum { MAX_RIDERS = 4, MAX_WALK = 400 };

typedef VEC(uint32_t) Numbers;

typedef struct {
    Fusion *f;
    DimTable *t;
    Arena *a;         /* scratch */
    uint32_t *order;  /* groups as they will stand */
    uint32_t *place;  /* by group: where it stands */
    int32_t *cluster; /* by group: the contraction it is with, or -1 */
    Dim rows;         /* of the contraction in question */
    uint32_t group;   /* that is looked at */
    uint32_t visits;
} Rides;

/* --- what depends on what -----------------------------------------------------------------------
 */

static bool is_effect(const Fusion *f, const FuseGroup *g)
{
    for (uint32_t i = 0; i < g->roots.n; i++) {
        Op op = graph_node(f->g, g->roots.at[i].val)->op;
        if (op == OP_print || op == OP_check)
            return true;
    }
    return false;
}

/* Whether `piece` is among what a value that is written in pieces is made of, at any depth. */
static bool has_piece(const Fusion *f, Val whole, Val piece)
{
    const Node *n = graph_node(f->g, whole);
    for (uint32_t i = 0; i < n->nin; i++) {
        Val v = n->in[i];
        while (!fuse_buffer(f, v) && op_is_view(graph_node(f->g, v)->op))
            v = graph_node(f->g, v)->in[0];
        const FuseBuffer *b = fuse_buffer(f, v);
        if (val_eq(v, piece) || (b && b->is_concat && has_piece(f, v, piece)))
            return true;
    }
    return false;
}

static bool writes_piece_of(const Fusion *f, const FuseGroup *g, Val whole)
{
    if (g->class == CLASS_COPY && g->into.node &&
        (val_eq(g->into, whole) || has_piece(f, whole, g->into)))
        return true;
    for (uint32_t i = 0; i < g->outputs.n; i++) {
        const Val v = g->outputs.at[i];
        const FuseBuffer *b = fuse_buffer(f, v);
        if (val_eq(v, whole) || (b && b->base.node && val_eq(b->base, whole)) ||
            has_piece(f, whole, v))
            return true;
    }
    return false;
}

static bool shares_slot(const Fusion *f, const FuseGroup *a, const FuseGroup *b)
{
    for (uint32_t i = 0; i < a->outputs.n; i++) {
        const FuseBuffer *x = fuse_buffer(f, a->outputs.at[i]);
        for (uint32_t k = 0; k < b->inputs.n && x->slot; k++)
            if (fuse_buffer(f, b->inputs.at[k])->slot == x->slot)
                return true;
        for (uint32_t k = 0; k < b->outputs.n && x->slot; k++)
            if (fuse_buffer(f, b->outputs.at[k])->slot == x->slot)
                return true;
    }
    return false;
}

/* Group `b` has to run behind group `a`, which stands before it. */
static bool depends(const Rides *r, uint32_t b, uint32_t a)
{
    const Fusion *f = r->f;
    const FuseGroup *gb = &f->groups.at[b], *ga = &f->groups.at[a];
    for (uint32_t i = 0; i < gb->inputs.n; i++) {
        const FuseBuffer *in = fuse_buffer(f, gb->inputs.at[i]);
        if (in->group == (int32_t)a || (in->is_concat && writes_piece_of(f, ga, in->val)))
            return true;
    }
    return (is_effect(f, ga) && is_effect(f, gb)) || shares_slot(f, ga, gb) ||
           shares_slot(f, gb, ga);
}

/* --- reading at one's own row -------------------------------------------------------------------
 */

/* How many leading axes have as many elements as there are rows; 0: none have. */
static uint32_t row_axes(const Rides *r, const Dim *shape, uint32_t rank)
{
    Dim n = dim_const(r->t, 1);
    for (uint32_t i = 0; i < rank; i++) {
        n = dim_mul(r->t, n, shape[i]);
        if (dim_same(n, r->rows))
            return i + 1;
    }
    return 0;
}

static const TypeInfo *shape_of(const Rides *r, Val v)
{
    return val_info(r->f->p, r->f->g, v);
}

/* Leading axes of operand i that are the rows, given those of the node's result; 0: they are not.
 */
static uint32_t operand_rows(const Rides *r, const Node *n, uint32_t i, uint32_t p)
{
    const TypeInfo *x = shape_of(r, n->in[i]);
    Attr a;
    if (op_is_pointwise(n->op) || n->op == OP_cast || n->op == OP_bitcast || n->op == OP_extern)
        return x->rank >= p ? p : 0;
    switch (n->op) {
    case OP_broadcast:
        a = node_attr(n, ATTR_dims);
        for (uint32_t j = 0; j < p; j++)
            if (j >= x->rank || a.at[j] != (int64_t)j ||
                !dim_same(x->shape[j], type_info(r->f->p, n->types[0])->shape[j]))
                return 0;
        return p;
    case OP_transpose:
        a = node_attr(n, ATTR_perm);
        for (uint32_t j = 0; j < p; j++)
            if (a.at[j] != (int64_t)j)
                return 0;
        return p;
    case OP_reshape:
        return row_axes(r, x->shape, x->rank);
    case OP_slice:
        for (uint32_t j = 0; j < p; j++)
            if (node_attr(n, ATTR_step).at[j] != 1 ||
                !dim_is_zero(r->t, node_dim(n, ATTR_start, j)) ||
                !dim_same(node_dim(n, ATTR_extent, j), x->shape[j]))
                return 0;
        return p;
    case OP_concat:
        return node_int(n, ATTR_axis) >= (int64_t)p ? p : 0;
    default:
        return 0;
    }
}

static bool own_rows(Rides *r, Val v, uint32_t p);

static bool operands_own_rows(Rides *r, const Node *n, uint32_t p)
{
    for (uint32_t i = 0; i < n->nin; i++)
        if (!own_rows(r, n->in[i], p ? operand_rows(r, n, i, p) : 0))
            return false;
    return true;
}

/* A concat that somebody of the cluster writes a piece of is not read by riders. */
static bool from_cluster(const Rides *r, const FuseBuffer *b, int32_t contract)
{
    if (b->group >= 0)
        return r->cluster[b->group] == contract;
    if (b->is_concat)
        for (uint32_t i = 0; i < r->f->groups.n; i++)
            if (r->cluster[i] == contract && writes_piece_of(r->f, &r->f->groups.at[i], b->val))
                return true;
    return false;
}

/* What v's cone reads of the cluster, it reads at its own row: p leading axes of v are the rows. */
static bool own_rows(Rides *r, Val v, uint32_t p)
{
    const FuseGroup *g = &r->f->groups.at[r->group];
    const FuseBuffer *b = fuse_buffer(r->f, v);
    int32_t contract = r->cluster[r->group];
    if (++r->visits > MAX_WALK)
        return false;
    for (uint32_t i = 0; i < g->roots.n; i++)
        if (g->roots.at[i].val.node == v.node)
            return true; /* it has its own walk, and the kernel is one for both */
    if (b)
        return !from_cluster(r, b, contract) || (p > 0 && !b->is_concat);
    return operands_own_rows(r, graph_node(r->f->g, v), p);
}

/* The first nd axes of the domain are the leading axes of the root's value, which are its rows. */
static bool root_own_rows(Rides *r, const FuseRoot *root, uint32_t nd)
{
    const FuseGroup *g = &r->f->groups.at[r->group];
    const Node *n = graph_node(r->f->g, root->val);
    bool reduce = n->op == OP_reduce;
    const TypeInfo *t = shape_of(r, reduce ? n->in[0] : root->val);
    uint32_t p = row_axes(r, t->shape, t->rank);
    int last = 0;
    for (uint32_t d = 0; d < g->rank; d++) {
        int at = root->axis_of[d];
        if (d < nd ? at < last || at >= (int)p : at >= 0 && at < (int)p)
            return false;
        last = d < nd ? at : last;
    }
    if (!p || root->side)
        return false;
    if (!reduce)
        return operands_own_rows(r, n, p);
    Attr axes = node_attr(n, ATTR_axes);
    for (uint32_t i = 0; i < axes.n; i++)
        if (axes.at[i] < (int64_t)p)
            return false;
    return own_rows(r, n->in[0], p);
}

static bool may_be_epilogue(Rides *r, uint32_t group, uint32_t contract)
{
    FuseGroup *g = &r->f->groups.at[group];
    if ((g->class != CLASS_MAP && g->class != CLASS_ROW) || g->ride || is_effect(r->f, g) ||
        r->cluster[group] >= 0)
        return false;
    uint32_t nd = row_axes(r, g->domain, g->rank);
    if (!nd || (g->reduced & ((1u << nd) - 1)))
        return false;
    r->group = group;
    r->cluster[group] = (int32_t)contract;
    bool good = true;
    for (uint32_t i = 0; i < g->roots.n && good; i++) {
        r->visits = 0;
        good = root_own_rows(r, &g->roots.at[i], nd);
    }
    r->cluster[group] = -1;
    g->rows = nd;
    return good;
}

/* --- the contraction's own rows -----------------------------------------------------------------
 */

static Dim rows_of(const Rides *r, const FuseGemm *x)
{
    return dim_mul(r->t, x->m, dim_mul(r->t, x->batch[0], x->batch[1]));
}

/* Row after row of the value is what the operand's `step` runs over: element (row, other) lies at
 * row * step + less than a row. */
static bool rows_in_order(const Rides *r, const FuseOperand *o, const Dim *batch, Dim m, Dim step)
{
    const TypeInfo *t = shape_of(r, o->val);
    const FuseBuffer *b = fuse_buffer(r->f, o->val);
    uint32_t p = row_axes(r, t->shape, t->rank);
    if (!b || !p)
        return false;
    Dim s = b->stride[p - 1];
    for (uint32_t i = p - 1; i-- > 0;)
        if (!dim_same(b->stride[i], dim_mul(r->t, b->stride[i + 1], t->shape[i + 1])))
            return false;
    Dim of_batch = dim_mul(r->t, s, m);
    for (int i = 1; i >= 0; i--) {
        if (!dim_is_one(r->t, batch[i]) && !dim_same(o->batch[i], of_batch))
            return false;
        of_batch = dim_mul(r->t, of_batch, batch[i]);
    }
    return dim_is_one(r->t, m) || dim_same(step, s);
}

static bool contract_rows(Rides *r, const FuseGroup *g)
{
    if (!g->gemms.n)
        return false;
    r->rows = rows_of(r, &g->gemms.at[0]);
    if (dim_is_one(r->t, r->rows))
        return false;
    for (uint32_t i = 0; i < g->gemms.n; i++) {
        const FuseGemm *x = &g->gemms.at[i];
        DType t = val_info(r->f->p, r->f->g, x->a.val)->dtype;
        if (!dim_same(rows_of(r, x), r->rows) || (t != DT_f32 && t != DT_f64) ||
            !rows_in_order(r, &x->c, x->batch, x->m, x->c.rows))
            return false;
    }
    return true;
}

/* --- standing together --------------------------------------------------------------------------
 */

/* Puts the groups of order[from .. to] that do not depend on what stands at `from .. from + n - 1`
 * before those, and `to`'s group behind them; false, and nothing changed, if that depends on
 * another one that does. */
static bool move_behind(Rides *r, uint32_t from, uint32_t n, uint32_t to, uint32_t *first)
{
    uint32_t *order = r->order, group = order[to];
    Numbers behind = {0}, before = {0};
    for (uint32_t i = from + n; i < to; i++) {
        bool needs = false;
        for (uint32_t k = from; k < from + n && !needs; k++)
            needs = depends(r, order[i], order[k]);
        for (uint32_t k = 0; k < behind.n && !needs; k++)
            needs = depends(r, order[i], behind.at[k]);
        if (needs)
            vec_push(r->a, &behind, order[i]);
        else
            vec_push(r->a, &before, order[i]);
    }
    for (uint32_t k = 0; k < behind.n; k++)
        if (depends(r, group, behind.at[k]))
            return false;
    /* clusters stay together */
    for (uint32_t k = 0; k < behind.n; k++)
        for (uint32_t i = 0; i < before.n; i++)
            if (r->cluster[behind.at[k]] >= 0 &&
                r->cluster[behind.at[k]] == r->cluster[before.at[i]])
                return false;
    uint32_t at = from;
    Numbers mine = {0};
    for (uint32_t k = 0; k < n; k++)
        vec_push(r->a, &mine, order[from + k]);
    for (uint32_t k = 0; k < before.n; k++)
        order[at++] = before.at[k];
    *first = at;
    for (uint32_t k = 0; k < n; k++)
        order[at++] = mine.at[k];
    order[at++] = group;
    for (uint32_t k = 0; k < behind.n; k++)
        order[at++] = behind.at[k];
    for (uint32_t i = from; i <= to; i++)
        r->place[order[i]] = i;
    return true;
}

static bool reads_cluster(const Rides *r, uint32_t group, int32_t contract)
{
    const FuseGroup *g = &r->f->groups.at[group];
    for (uint32_t i = 0; i < g->inputs.n; i++)
        if (from_cluster(r, fuse_buffer(r->f, g->inputs.at[i]), contract))
            return true;
    return false;
}

/* A second product may ride as well: its a is what the cluster makes, and their rows are the same.
 */
static bool may_be_product(Rides *r, uint32_t group, uint32_t contract)
{
    const FuseGroup *g = &r->f->groups.at[group];
    const Dim rows = r->rows;
    if (g->class != CLASS_CONTRACT || g->ride || r->cluster[group] >= 0)
        return false;
    for (uint32_t i = 0; i < g->gemms.n; i++) {
        const FuseGemm *x = &g->gemms.at[i];
        if (from_cluster(r, fuse_buffer(r->f, x->b.val), (int32_t)contract) || x->sum_a.val.node ||
            x->sum_b.val.node ||
            (from_cluster(r, fuse_buffer(r->f, x->a.val), (int32_t)contract) &&
             !rows_in_order(r, &x->a, x->batch, x->m, x->a.rows)))
            return false;
    }
    bool good = contract_rows(r, g) && dim_same(r->rows, rows);
    r->rows = rows;
    return good;
}

/* A convolution of each channel by itself may ride: its image is what the cluster makes, and their
 * rows are the same. */
static bool may_be_conv(const Rides *r, uint32_t group, uint32_t contract)
{
    const FuseGroup *g = &r->f->groups.at[group];
    if (g->class != CLASS_OPAQUE || g->ride || r->cluster[group] >= 0)
        return false;
    const Node *n = graph_node(r->f->g, g->roots.at[0].val);
    if (n->op != OP_conv || !conv_by_channel(r->f->p, r->f->g, n) ||
        from_cluster(r, fuse_buffer(r->f, g->views.at[1].source), (int32_t)contract))
        return false;
    const TypeInfo *t = shape_of(r, n->in[0]);
    const FuseView *x = &g->views.at[0];
    Dim step = dim_const(r->t, 1);
    if (row_axes(r, t->shape, t->rank) != 2 || !dim_is_zero(r->t, x->offset))
        return false;
    for (uint32_t i = t->rank; i-- > 0; step = dim_mul(r->t, step, t->shape[i]))
        if (!dim_same(x->stride[i], step) && !dim_is_one(r->t, t->shape[i]))
            return false;
    return true;
}

static void find_epilogues(Rides *r, uint32_t contract)
{
    uint32_t n = 1, first = r->place[contract];
    r->cluster[contract] = (int32_t)contract;
    for (uint32_t i = first + 1; i < r->f->groups.n && n <= MAX_RIDERS; i++) {
        uint32_t g = r->order[i];
        if (r->cluster[g] >= 0 || !reads_cluster(r, g, (int32_t)contract) ||
            !(may_be_epilogue(r, g, contract) || may_be_product(r, g, contract) ||
              may_be_conv(r, g, contract)) ||
            !move_behind(r, first, n, i, &first))
            continue;
        r->cluster[g] = (int32_t)contract;
        r->f->groups.at[g].ride = RIDE_EPILOGUE;
        r->f->groups.at[g].with = (int32_t)contract;
        n++;
        i = first + n - 1;
    }
    if (n == 1)
        r->cluster[contract] = -1;
}

/* The domain of a loader begins with the rows of its value, which are those of operand `o`. */
static bool loads(Rides *r, FuseGroup *g, const FuseOperand *o, const Dim *batch, Dim m, Dim step)
{
    const FuseRoot *root = &g->roots.at[0];
    uint32_t nd = row_axes(r, g->domain, g->rank);
    if (!nd || !rows_in_order(r, o, batch, m, step))
        return false;
    const TypeInfo *t = shape_of(r, root->val);
    uint32_t p = row_axes(r, t->shape, t->rank);
    int last = 0;
    for (uint32_t d = 0; d < g->rank; d++) {
        int at = root->axis_of[d];
        if (d < nd ? at < last || at >= (int)p : at >= 0 && at < (int)p)
            return false;
        last = d < nd ? at : last;
    }
    g->rows = nd;
    return true;
}

static FuseRide loader_kind(Rides *r, FuseGroup *g, const FuseGroup *c, bool alone)
{
    const FuseGemm *x = &c->gemms.at[0];
    Val v = g->outputs.at[0];
    Dim one[] = {dim_const(r->t, 1), dim_const(r->t, 1)};
    if (c->gemms.n > 1)
        return RIDE_NONE;
    bool is_a = val_eq(x->a.val, v), is_b = val_eq(x->b.val, v);
    if (is_a && !is_b && !x->sum_a.val.node && contract_rows(r, c) &&
        loads(r, g, &x->a, x->batch, x->m, x->a.rows))
        return RIDE_LOAD_ROWS;
    if (!alone || !dim_is_one(r->t, x->batch[0]) || !dim_is_one(r->t, x->batch[1]) ||
        x->sum_a.val.node || x->sum_b.val.node)
        return RIDE_NONE;
    r->rows = x->k;
    if (is_a && !is_b && loads(r, g, &x->a, one, x->k, x->a.cols))
        return RIDE_LOAD_DEPTH;
    if (is_b && !is_a && loads(r, g, &x->b, one, x->k, x->b.rows))
        return RIDE_LOAD_DEPTH;
    return RIDE_NONE;
}

/* A map whose value this contraction reads moves directly before it, if nobody reads it before. */
static void find_loader(Rides *r, uint32_t contract)
{
    FuseGroup *c = &r->f->groups.at[contract];
    for (uint32_t i = 0; i < c->inputs.n && c->gemms.n; i++) {
        int32_t group = fuse_buffer(r->f, c->inputs.at[i])->group;
        if (group < 0 || r->cluster[group] >= 0)
            continue;
        FuseGroup *g = &r->f->groups.at[group];
        if (g->class != CLASS_MAP || g->ride || g->roots.n != 1 || g->outputs.n != 1 ||
            is_effect(r->f, g))
            continue;
        FuseRide kind = loader_kind(r, g, c, r->cluster[contract] < 0);
        uint32_t at = r->place[group], to = r->place[contract];
        bool free = kind != RIDE_NONE;
        for (uint32_t k = at + 1; k < to && free; k++)
            free = !depends(r, r->order[k], (uint32_t)group);
        if (!free)
            continue;
        g->ride = kind;
        g->with = (int32_t)contract;
        r->cluster[group] = r->cluster[contract] = (int32_t)contract;
        for (uint32_t k = at; k + 1 < to; k++)
            r->order[k] = r->order[k + 1];
        r->order[to - 1] = (uint32_t)group;
        for (uint32_t k = at; k < to; k++)
            r->place[r->order[k]] = k;
        return;
    }
}

/* --- the answer ---------------------------------------------------------------------------------
 */

static void apply_order(Rides *r)
{
    Fusion *f = r->f;
    FuseGroup *old = arena_alloc(r->a, sizeof *old * (f->groups.n + 1));
    memcpy(old, f->groups.at, sizeof *old * f->groups.n);
    for (uint32_t i = 0; i < f->groups.n; i++) {
        f->groups.at[i] = old[r->order[i]];
        FuseGroup *g = &f->groups.at[i];
        g->with = g->ride ? (int32_t)r->place[g->with] : -1;
    }
    for (uint32_t i = 0; i < f->buffers.n; i++)
        if (f->buffers.at[i].group >= 0)
            f->buffers.at[i].group = (int32_t)r->place[f->buffers.at[i].group];
}

void fuse_strips(Fusion *f)
{
    Arena *a = f->p->cx->scratch;
    uint32_t n = f->groups.n;
    if (!n)
        return;
    Rides r = {.f = f, .t = f->p->cx->dims, .a = a};
    r.order = arena_array(a, uint32_t, n + 1);
    r.place = arena_array(a, uint32_t, n + 1);
    r.cluster = arena_array(a, int32_t, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        r.order[i] = r.place[i] = i;
        r.cluster[i] = -1;
    }
    for (uint32_t i = 0; i < n; i++)
        if (f->groups.at[i].class == CLASS_CONTRACT && r.cluster[i] < 0 &&
            contract_rows(&r, &f->groups.at[i]))
            find_epilogues(&r, i);
    for (uint32_t i = 0; i < n; i++)
        if (f->groups.at[i].class == CLASS_CONTRACT && !f->groups.at[i].ride)
            find_loader(&r, i);
    apply_order(&r);
}
