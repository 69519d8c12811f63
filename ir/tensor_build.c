/* tensor_build.c: the only way to make a node: stage, type, canonical form, hash-consing.
 * SPDX-License-Identifier: MIT */
#include "ir/base/die.h"
#include "ir/eval_scalar.h"
#include "ir/tensor_internal.h"

#include <math.h>
#include <string.h>

Builder builder_for(Program *p, Graph *g)
{
    return (Builder){.p = p, .g = g, .stage = -1};
}

/* --- hash-consing ----------------------------------------------------------------------------- */

static uint64_t node_hash(const Node *n)
{
    uint64_t h = hash_word(HASH_START, (uint64_t)n->op << 40 | (uint64_t)n->stage << 32 | n->nin);
    for (uint32_t i = 0; i < n->nin; i++)
        h = hash_word(h, (uint64_t)n->in[i].node << 32 | n->in[i].result);
    h = n->nin ? h : hash_word(h, n->types[0].id); /* constants of two devices are two */
    const int nattrs = op_info(n->op)->nattrs;
    for (int i = 0; i < nattrs; i++) {
        h = hash_word(h, n->attrs[i].n);
        for (uint32_t k = 0; k < n->attrs[i].n; k++)
            h = hash_word(h, (uint64_t)n->attrs[i].at[k]);
    }
    return h;
}

static bool node_same(const Node *a, const Node *b)
{
    if (a->op != b->op || a->stage != b->stage || a->nin != b->nin)
        return false;
    for (uint32_t i = 0; i < a->nin; i++)
        if (!val_eq(a->in[i], b->in[i]))
            return false;
    if (a->nin == 0 && a->types[0].id != b->types[0].id)
        return false;
    const int nattrs = op_info(a->op)->nattrs;
    for (int i = 0; i < nattrs; i++)
        if (a->attrs[i].n != b->attrs[i].n ||
            (a->attrs[i].n &&
             memcmp(a->attrs[i].at, b->attrs[i].at, a->attrs[i].n * sizeof(int64_t))))
            return false;
    return true;
}

/* Inputs are parameters and effects happen: equal ones are still two. */
static bool is_shared(Op op)
{
    return op != OP_input && op != OP_print && op != OP_check;
}

static void table_insert(Graph *g, uint32_t id)
{
    uint32_t h = (uint32_t)node_hash(&g->nodes.at[id]) & (g->table_size - 1);
    while (g->table[h])
        h = (h + 1) & (g->table_size - 1);
    g->table[h] = id;
}

static void table_grow(Builder *b)
{
    Graph *g = b->g;
    if (g->table_size && g->nodes.n * 2 < g->table_size)
        return;
    g->table_size = g->table_size ? g->table_size * 2 : 256;
    g->table = arena_array(b->p->cx->perm, uint32_t, g->table_size);
    for (uint32_t id = 1; id < g->nodes.n; id++)
        table_insert(g, id);
}

static void *copy(Arena *a, const void *from, size_t n)
{
    void *to = arena_alloc(a, n);
    if (n)
        memcpy(to, from, n);
    return to;
}

Val node_append(Builder *b, const Node *asked)
{
    Graph *g = b->g;
    Arena *a = b->p->cx->perm;
    table_grow(b);
    if (is_shared(asked->op))
        for (uint32_t h = (uint32_t)node_hash(asked) & (g->table_size - 1); g->table[h];
             h = (h + 1) & (g->table_size - 1))
            if (node_same(&g->nodes.at[g->table[h]], asked))
                return (Val){g->table[h], 0};
    Node n = *asked;
    const int nattrs = op_info(n.op)->nattrs;
    Attr *attrs = copy(a, n.attrs, (size_t)nattrs * sizeof *attrs);
    for (int i = 0; i < nattrs; i++)
        attrs[i].at = copy(a, attrs[i].at, attrs[i].n * sizeof(int64_t));
    n.attrs = attrs;
    n.in = copy(a, n.in, n.nin * sizeof *n.in);
    n.types = copy(a, n.types, n.nout * sizeof *n.types);
    vec_push(a, &g->nodes, n);
    table_insert(g, g->nodes.n - 1);
    return (Val){g->nodes.n - 1, 0};
}

/* --- building --------------------------------------------------------------------------------- */

const Node *val_fill(const Graph *g, Val v)
{
    const Node *n = graph_node(g, v);
    while (n->op == OP_broadcast)
        n = graph_node(g, n->in[0]);
    return n->op == OP_const ? n : NULL;
}

bool val_is_fill(const Program *p, const Graph *g, Val v, double value)
{
    const Node *n = val_fill(g, v);
    if (!n)
        return false;
    if (!dtype_is_float(val_info(p, g, v)->dtype))
        return (double)node_int(n, ATTR_value) == value;
    const double x = node_f64(n, ATTR_value);
    return !memcmp(&x, &value, sizeof x); /* bits: -0 is not 0 */
}

/* What is at hand anywhere (constants, fills, sizes, state) belongs to no later stage: one copy. */
static int max_stage(const Builder *b, Op op, const Val *in, uint32_t nin)
{
    if (nin == 0 || (op == OP_broadcast && val_fill(b->g, in[0])))
        return STAGE_FORWARD;
    int stage = b->stage > 0 ? b->stage : 0;
    for (uint32_t i = 0; i < nin; i++)
        if (b->g->nodes.at[in[i].node].stage > stage)
            stage = b->g->nodes.at[in[i].node].stage;
    return stage;
}

/* In commutative ops; but max(0, -0) and max(-0, 0) differ in the sign. */
static bool constant_goes_last(const Builder *b, Op op, const Val *in)
{
    if (!op_info(op)->commutative || !val_fill(b->g, in[0]) || val_fill(b->g, in[1]))
        return false;
    const bool zero = val_is_fill(b->p, b->g, in[0], 0) || val_is_fill(b->p, b->g, in[0], -0.0);
    return !zero || (op != OP_min && op != OP_max);
}

/* --- devices ---------------------------------------------------------------------------------- */

static bool is_number_slot(SlotKind kind)
{
    return kind == SLOT_HYPER || kind == SLOT_COUNTER || kind == SLOT_SEED || kind == SLOT_CALLS;
}

static Loose looseness(const Builder *b, Op op, const Val *in, uint32_t nin, const Attr *attrs)
{
    if (op == OP_const || op == OP_dim || op == OP_iota || op == OP_table)
        return LOOSE_CONSTANT;
    if (op == OP_state)
        return is_number_slot(b->p->slots.at[attrs[0].at[0]].kind) ? LOOSE_NUMBER : LOOSE_NO;
    if (nin == 0 || op == OP_transfer || op == OP_call || op == OP_scan || op == OP_print ||
        op == OP_check || op == OP_random)
        return LOOSE_NO;
    Loose l = LOOSE_CONSTANT;
    for (uint32_t i = 0; i < nin; i++) {
        const Loose x = (Loose)graph_node(b->g, in[i])->loose;
        l = x < l ? x : l;
    }
    return l;
}

/* Numbers among operands of another device are copied there. Whoever made the user's expression
 * reports tensors of different devices; then they are copied, too. The operands: as they are, or in
 * scratch. */
static const Val *settle(Builder *b, Op op, const Val *in, uint32_t nin)
{
    const Place first = nin ? val_info(b->p, b->g, in[0])->place : PLACE_D0;
    uint32_t i = 1, at = UINT32_MAX;
    while (i < nin && val_info(b->p, b->g, in[i])->place == first)
        i++;
    if (i >= nin || op == OP_call || op == OP_scan)
        return in;
    for (uint32_t k = 0, best = LOOSE_CONSTANT; k < nin; k++)
        if (graph_node(b->g, in[k])->loose < best) {
            best = graph_node(b->g, in[k])->loose;
            at = k;
        }
    if (at == UINT32_MAX)
        return in;
    const Place place = val_info(b->p, b->g, in[at])->place;
    Val *moved = arena_array(b->p->cx->scratch, Val, nin);
    for (uint32_t k = 0; k < nin; k++) {
        const Loose loose = (Loose)graph_node(b->g, in[k])->loose;
        moved[k] = in[k];
        if (loose == LOOSE_CONSTANT || val_info(b->p, b->g, in[k])->place == place)
            continue;
        if (loose == LOOSE_NO && !b->crossed)
            continue;
        if (loose == LOOSE_NO)
            b->crossed(b->crossed_ctx, op, in[at], in[k]);
        moved[k] = build_at_place(b, in[k], place);
    }
    return moved;
}

static Val constant_at(Builder *b, Val x)
{
    const Node n = *graph_node(b->g, x);
    Val *in = arena_array(b->p->cx->scratch, Val, n.nin + 1u);
    for (uint32_t i = 0; i < n.nin; i++)
        in[i] = constant_at(b, n.in[i]);
    const Val v = build(b, n.op, in, n.nin, n.attrs);
    return n.nout > 1 ? val_result(v, x.result) : v;
}

Val build_at_place(Builder *b, Val x, Place place)
{
    const int64_t word = place;
    const Attr attr = attr_words(&word, 1);
    if (val_info(b->p, b->g, x)->place == place)
        return x;
    if (graph_node(b->g, x)->loose != LOOSE_CONSTANT)
        return build(b, OP_transfer, &x, 1, &attr);
    const Place outer = b->place;
    b->place = place;
    const Val v = constant_at(b, x);
    b->place = outer;
    return v;
}

Val build_again(Builder *b, const Node *n, const Val *in)
{
    const Place outer = b->place;
    const Attr *attrs = n->attrs;
    if (n->nin == 0)
        b->place = type_info(b->p, n->types[0])->place;
    const Val v = build(b, n->op, in, n->nin, attrs);
    b->place = outer;
    return v;
}

const char *device_text(Arena *a, Place place)
{
    return place == PLACE_D0     ? "the default device"
           : place == PLACE_HOST ? "the CPU"
                                 : arena_printf(a, "cuda:%d", place - PLACE_CUDA);
}

/* --- nodes ------------------------------------------------------------------------------------ */

Val build(Builder *b, Op op, const Val *in, uint32_t nin, const Attr *attrs)
{
    Ty types[MAX_RESULTS];
    uint32_t nout = 0;
    Val swapped[2];
    in = settle(b, op, in, nin);
    if (!b->no_fold && nin == 2 && constant_goes_last(b, op, in)) {
        swapped[0] = in[1];
        swapped[1] = in[0];
        in = swapped;
    }
    const char *error = infer_types(b, op, in, nin, attrs, types, &nout);
    if (error)
        die("%s in graph %s: %s", op_name(op), sym_text(b->p->cx->names, b->g->name), error);
    const int stage = max_stage(b, op, in, nin);
    if (!b->no_fold) {
        const Val simpler = fold_node(b, op, in, nin, attrs, types[0], stage);
        if (simpler.node)
            return simpler;
    }
    const Node n = {.op = op,
                    .stage = (uint8_t)stage,
                    .loose = (uint8_t)looseness(b, op, in, nin, attrs),
                    .nin = nin,
                    .nout = nout,
                    .in = in,
                    .types = types,
                    .attrs = attrs,
                    .site = b->site};
    const Val v = node_append(b, &n);
    if (op == OP_print || op == OP_check)
        vec_push(b->p->cx->perm, &b->g->effects, v);
    return v;
}

void val_hint(Builder *b, Val v, Sym name)
{
    Node *n = &b->g->nodes.at[v.node];
    if (!n->hint.id && v.result == 0)
        n->hint = name;
}

Val build_input(Builder *b, Sym name, Ty type)
{
    const int64_t word = (int64_t)name.id;
    const Attr attr = attr_words(&word, 1);
    const Node n = {
        .op = OP_input, .nout = 1, .types = &type, .attrs = &attr, .site = b->site, .hint = name};
    const Val v = node_append(b, &n);
    vec_push(b->p->cx->perm, &b->g->params,
             ((GraphParam){.name = name, .val = v, .inout = -1, .at = b->site.at}));
    return v;
}

Val build_state(Builder *b, uint32_t slot)
{
    const int64_t word = slot;
    return build(b, OP_state, NULL, 0, (Attr[]){attr_words(&word, 1)});
}

Val build_table(Builder *b, uint32_t table)
{
    const int64_t word = table;
    return build(b, OP_table, NULL, 0, (Attr[]){attr_words(&word, 1)});
}

Val build_view(Builder *b, const StateView *view)
{
    DimTable *t = b->p->cx->dims;
    const TypeInfo type = *type_info(b->p, view->type);
    Val v = build_state(b, view->slot);
    if (val_info(b->p, b->g, v)->rank == 1)
        v = build_slice_axis(b, v, 0, dim_const(t, view->offset), type_numel(b->p, view->type));
    v = build_reshape(b, v, type.shape, type.rank);
    val_hint(b, v, view->name);
    return v;
}

static Val build_const_word(Builder *b, DType t, int64_t value)
{
    const int64_t dtype = t;
    return build(b, OP_const, NULL, 0, (Attr[]){attr_words(&dtype, 1), attr_words(&value, 1)});
}

Val build_const(Builder *b, DType t, double value)
{
    value =
        isnan(value) ? (double)NAN : dtype_round(t, value); /* one NaN, so that text reads back */
    int64_t word = 0;
    if (dtype_is_float(t))
        memcpy(&word, &value, sizeof word);
    else
        word = eval_cast(DT_f64, t, (ScalarValue){.f = value}).i;
    return build_const_word(b, t, word);
}

Val build_const_int(Builder *b, DType t, int64_t value)
{
    const ScalarValue v = eval_cast(DT_i64, t, (ScalarValue){.i = value});
    return dtype_is_float(t) ? build_const(b, t, v.f) : build_const_word(b, t, v.i);
}

Val build_full(Builder *b, DType t, double value, const Dim *shape, uint32_t rank)
{
    return build_broadcast(b, build_const(b, t, value), shape, rank, NULL);
}

Val build_dim(Builder *b, Dim d)
{
    int64_t words[1];
    return build(b, OP_dim, NULL, 0, (Attr[]){attr_dims(words, &d, 1)});
}

Val build_iota(Builder *b, const Dim *shape, uint32_t rank, uint32_t axis)
{
    int64_t words[MAX_RANK];
    const int64_t at = axis;
    return build(b, OP_iota, NULL, 0, (Attr[]){attr_dims(words, shape, rank), attr_words(&at, 1)});
}

Val build_cast(Builder *b, Val x, DType t)
{
    if (val_info(b->p, b->g, x)->dtype == t)
        return x;
    const int64_t word = t;
    return build(b, OP_cast, &x, 1, (Attr[]){attr_words(&word, 1)});
}

Val build1(Builder *b, Op op, Val x)
{
    return build(b, op, &x, 1, NULL);
}

Val build2(Builder *b, Op op, Val x, Val y)
{
    return build(b, op, (Val[]){x, y}, 2, NULL);
}

Val build3(Builder *b, Op op, Val x, Val y, Val z)
{
    return build(b, op, (Val[]){x, y, z}, 3, NULL);
}

/* --- views ------------------------------------------------------------------------------------ */

Val build_broadcast(Builder *b, Val x, const Dim *shape, uint32_t rank, const int64_t *dims)
{
    int64_t words[MAX_RANK];
    const uint32_t n = val_info(b->p, b->g, x)->rank;
    return build(b, OP_broadcast, &x, 1,
                 (Attr[]){attr_dims(words, shape, rank), attr_words(dims, n)});
}

Val build_broadcast_to(Builder *b, Val x, const Dim *shape, uint32_t rank)
{
    const TypeInfo t = *val_info(b->p, b->g, x);
    CHECK(t.rank <= rank);
    int64_t dims[MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++)
        dims[i] = (int64_t)(rank - t.rank + i);
    return build_broadcast(b, x, shape, rank, dims);
}

Val build_reshape(Builder *b, Val x, const Dim *shape, uint32_t rank)
{
    int64_t words[MAX_RANK];
    return build(b, OP_reshape, &x, 1, (Attr[]){attr_dims(words, shape, rank)});
}

Val build_transpose(Builder *b, Val x, const int64_t *perm)
{
    return build(b, OP_transpose, &x, 1, (Attr[]){attr_words(perm, val_info(b->p, b->g, x)->rank)});
}

Val build_slice(Builder *b, Val x, const Dim *start, const int64_t *step, const Dim *extent)
{
    int64_t starts[MAX_RANK], extents[MAX_RANK];
    const uint32_t n = val_info(b->p, b->g, x)->rank;
    return build(
        b, OP_slice, &x, 1,
        (Attr[]){attr_dims(starts, start, n), attr_words(step, n), attr_dims(extents, extent, n)});
}

Val build_slice_axis(Builder *b, Val x, uint32_t axis, Dim start, Dim extent)
{
    const TypeInfo t = *val_info(b->p, b->g, x);
    CHECK(axis < t.rank);
    Dim starts[MAX_RANK], extents[MAX_RANK];
    int64_t steps[MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++) {
        starts[i] = i == axis ? start : dim_const(b->p->cx->dims, 0);
        extents[i] = i == axis ? extent : t.shape[i];
        steps[i] = 1;
    }
    return build_slice(b, x, starts, steps, extents);
}

Val build_pad(Builder *b, Val x, Val value, const Dim *lo, const Dim *hi, const int64_t *interior)
{
    int64_t los[MAX_RANK], his[MAX_RANK];
    const uint32_t n = val_info(b->p, b->g, x)->rank;
    return build(b, OP_pad, (Val[]){x, value}, 2,
                 (Attr[]){attr_dims(los, lo, n), attr_dims(his, hi, n), attr_words(interior, n)});
}

Val build_concat(Builder *b, const Val *in, uint32_t nin, uint32_t axis)
{
    const int64_t word = axis;
    return build(b, OP_concat, in, nin, (Attr[]){attr_words(&word, 1)});
}

/* --- reductions and the rest ------------------------------------------------------------------ */

Val build_reduce(Builder *b, Reducer kind, Val x, const int64_t *axes, uint32_t naxes)
{
    const int64_t word = kind;
    return build(b, OP_reduce, &x, 1, (Attr[]){attr_words(&word, 1), attr_words(axes, naxes)});
}

Val build_dot(Builder *b, Val x, Val y, const int64_t *batch_x, const int64_t *batch_y,
              uint32_t nbatch, const int64_t *contract_x, const int64_t *contract_y,
              uint32_t ncontract, DType result)
{
    const int64_t word = result;
    return build(b, OP_dot, (Val[]){x, y}, 2,
                 (Attr[]){attr_words(batch_x, nbatch), attr_words(batch_y, nbatch),
                          attr_words(contract_x, ncontract), attr_words(contract_y, ncontract),
                          attr_words(&word, 1)});
}

Val build_gather(Builder *b, Val x, Val idx, uint32_t axis, uint32_t batch, int mode)
{
    const int64_t words[3] = {axis, batch, mode};
    return build(
        b, OP_gather, (Val[]){x, idx}, 2,
        (Attr[]){attr_words(&words[0], 1), attr_words(&words[1], 1), attr_words(&words[2], 1)});
}

Val build_key(Builder *b, Val seed, Val calls, uint64_t site)
{
    const int64_t word = (int64_t)site;
    return build(b, OP_key, (Val[]){seed, calls}, 2, (Attr[]){attr_words(&word, 1)});
}

Val build_random(Builder *b, Val key, int kind, const Dim *shape, uint32_t rank)
{
    int64_t words[MAX_RANK];
    const int64_t mode = kind;
    return build(b, OP_random, &key, 1,
                 (Attr[]){attr_words(&mode, 1), attr_dims(words, shape, rank)});
}
