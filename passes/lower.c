/* lower.c: from groups to steps. For each graph: buffers for what is stored, a kernel or gemm for
 * each group, and copies for what could not be made in its place.
 *
 *   group 0 contract: %gates          ->  gemm gates = hx * weights
 *   group 1 map: %new_c, %new_h       ->  launch lltm_k1_cell (gates, bias, c, new_c, new_h)
 *
 * SPDX-License-Identifier: MIT */
#include "passes/lower_internal.h"
#include "passes/lower_loop.h"

#include <string.h>

/* --- buffers
 * ------------------------------------------------------------------------------------------ */

void lower_at(Lower *l, Place place)
{
    l->place = place;
    l->o = &l->options[host_on_cuda(l->m, place)];
}

uint32_t lower_buffer(Lower *l, BufKind kind, Sym name, DType dtype, const Dim *shape,
                      uint32_t rank)
{
    Buffer b = {.name = names_unique(&l->buffer_names, name, "_"),
                .kind = kind,
                .dtype = dtype,
                .place = l->place,
                .rank = rank,
                .offset = dim_const(l->t, 0)};
    if (rank)
        memcpy(b.shape, shape, rank * sizeof *shape);
    vec_push(l->a, &l->h->buffers, b);
    return l->h->buffers.n - 1;
}

static uint32_t typed_buffer(Lower *l, BufKind kind, Sym name, const TypeInfo *ty, uint32_t slot)
{
    uint32_t buf = lower_buffer(l, kind, name, ty->dtype, ty->shape, ty->rank);
    l->h->buffers.at[buf].slot = slot;
    l->h->buffers.at[buf].place = ty->place;
    return buf;
}

static uint32_t slot_buffer(Lower *l, uint32_t slot)
{
    if (!l->slot_buf[slot]) {
        const Slot *s = &l->p->slots.at[slot];
        l->slot_buf[slot] = typed_buffer(l, BUF_STATE, s->name, type_info(l->p, s->type), slot);
    }
    return l->slot_buf[slot];
}

static Dim or_zero(const Lower *l, Dim d)
{
    return d.id ? d : dim_const(l->t, 0);
}

static Loc *buffer_loc(Lower *l, uint32_t number)
{
    Loc *loc = &l->loc[number];
    if (loc->buf)
        return loc;
    const FuseBuffer *fb = &l->f->buffers.at[number];
    const TypeInfo *ty = val_info(l->p, l->g, fb->val);
    uint32_t buf;
    Dim offset = or_zero(l, fb->offset);
    if (fb->slot) {
        buf = slot_buffer(l, fb->slot);
    } else if (fb->base.node) {
        const Loc *base = lower_loc(l, fb->base);
        CHECK(base);
        buf = base->buf;
        offset = dim_add(l->t, offset, base->offset);
    } else if (graph_node(l->g, fb->val)->op == OP_table) {
        const int64_t table = node_int(graph_node(l->g, fb->val), ATTR_table);
        buf = typed_buffer(l, BUF_CONST, lower_name(l, fb->val), ty, 0);
        l->h->buffers.at[buf].data = l->p->tables.at[table].data;
    } else {
        buf = typed_buffer(l, BUF_TEMP, lower_name(l, fb->val), ty, 0);
    }
    *loc = loc_row_major(l->t, buf, offset, ty->shape, ty->rank);
    for (uint32_t i = 0; i < ty->rank; i++)
        if (fb->stride[i].id)
            loc->stride[i] = fb->stride[i];
    return loc;
}

const Loc *lower_loc(Lower *l, Val v)
{
    int32_t number = l->f->buffer_of[v.node] ? l->f->buffer_of[v.node][v.result] : -1;
    if (number >= 0 && l->noting)
        lower_note_use(l, (uint32_t)number);
    return number < 0 ? NULL : buffer_loc(l, (uint32_t)number);
}

bool lower_unplace(Lower *l, const LaunchOperand *o)
{
    bool moved = false;
    lower_note_moved(l);
    for (uint32_t i = 0; i < l->f->buffers.n; i++) {
        const FuseBuffer *fb = &l->f->buffers.at[i];
        Loc *loc = &l->loc[i];
        if (fb->group != (int32_t)l->group || loc->buf != o->buf ||
            !dim_same(loc->offset, o->offset))
            continue;
        const TypeInfo *ty = val_info(l->p, l->g, fb->val);
        Sym name = lower_name(l, fb->val);
        LateCopy c = {.dst = *loc, .dtype = ty->dtype, .name = name, .piece = fb->base.node != 0};
        c.site = graph_node(l->g, fb->val)->site;
        bool dying = l->h->buffers.at[loc->buf].kind == BUF_TEMP && !fb->base.node;
        uint32_t buf = typed_buffer(l, BUF_TEMP, name, ty, 0);
        *loc = loc_row_major(l->t, buf, dim_const(l->t, 0), ty->shape, ty->rank);
        c.src = *loc;
        if (!dying) /* else it was to take over a temporary: no need any more */
            vec_push(l->a, &l->late, c);
        moved = true;
    }
    return moved;
}

/* --- names
 * --------------------------------------------------------------------------------------------- */

static Sym view_name(const Lower *l, const FuseBuffer *fb)
{
    int64_t offset = 0;
    if (fb->offset.id && !dim_is_const(l->t, fb->offset, &offset))
        return (Sym){0};
    Dim numel = type_numel(l->p, val_type(l->g, fb->val));
    for (uint32_t i = 0; i < l->p->state.n; i++) {
        const StateView *s = &l->p->state.at[i];
        if (s->slot == fb->slot && s->offset == offset &&
            dim_same(type_numel(l->p, s->type), numel))
            return s->name;
    }
    return l->p->slots.at[fb->slot].name;
}

Sym lower_name(Lower *l, Val v)
{
    const Node *n = graph_node(l->g, v);
    const FuseBuffer *fb = fuse_buffer(l->f, v);
    for (uint32_t i = 0; i < l->g->results.n; i++)
        if (val_eq(l->g->results.at[i].val, v) && n->op != OP_input)
            return l->g->results.at[i].name;
    if (n->hint.id && v.result)
        return sym_of(l->p->cx->names,
                      arena_printf(l->p->cx->scratch, "%s_%s", sym_text(l->p->cx->names, n->hint),
                                   n->op == OP_reduce && node_int(n, ATTR_kind) == RED_moments
                                       ? "var"
                                       : "index"));
    if (n->hint.id)
        return n->hint;
    if (n->op == OP_input)
        return (Sym){(uint32_t)node_int(n, ATTR_name)};
    if (fb && fb->slot) {
        Sym name = view_name(l, fb);
        if (name.id)
            return name;
    }
    if (n->op == OP_reduce)
        return sym_of(l->p->cx->names, reducer_info((Reducer)node_int(n, ATTR_kind))->name);
    return sym_of(l->p->cx->names, op_name(n->op));
}

const char *lower_text(Lower *l, Val v)
{
    const Interner *names = l->p->cx->names;
    StrBuf out = {.a = l->a};
    const FuseGroup *grp = &l->f->groups.at[l->group];
    for (uint32_t i = 0; i < grp->outputs.n; i++)
        sb_printf(&out, i ? ", %s" : "%s", sym_text(names, lower_name(l, grp->outputs.at[i])));
    return out.n ? sb_text(&out) : sym_text(names, lower_name(l, v));
}

Step *lower_step(Lower *l, StepKind kind, Site site)
{
    vec_push(l->a, &l->h->steps,
             ((Step){.kind = kind,
                     .place = l->place,
                     .site = site,
                     .group = l->making,
                     .contract = l->contract}));
    return &vec_last(&l->h->steps);
}

/* --- arguments, results, tape
 * ----------------------------------------------------------------------- */

/* Number of the FuseBuffer that a value owns as a whole, or -1. */
static int32_t own_buffer(const Lower *l, Val v)
{
    int32_t i = l->f->buffer_of[v.node] ? l->f->buffer_of[v.node][v.result] : -1;
    if (i < 0 || l->loc[i].buf)
        return -1;
    const FuseBuffer *fb = &l->f->buffers.at[i];
    return fb->slot || fb->base.node || (fb->group < 0 && !fb->is_concat) ? -1 : i;
}

static void place_value(Lower *l, Val v, int32_t number, uint32_t buf)
{
    const TypeInfo *ty = val_info(l->p, l->g, v);
    l->loc[number] = loc_row_major(l->t, buf, dim_const(l->t, 0), ty->shape, ty->rank);
}

/* The first parameters are arguments; those of a backward graph behind them are its tape. */
static uint32_t count_args(const Lower *l)
{
    if (l->g->kind != GRAPH_BACKWARD)
        return l->g->params.n;
    const Graph *forward = program_find_graph(l->p, l->g->method, GRAPH_FORWARD_TRAIN);
    CHECK(forward && forward->saved.n <= l->g->params.n);
    return l->g->params.n - forward->saved.n;
}

static void make_args(Lower *l)
{
    const Graph *g = l->g;
    HostProgram *h = l->h;
    h->nargs = count_args(l);
    for (uint32_t i = 0; i < g->params.n; i++) {
        const GraphParam *q = &g->params.at[i];
        bool tape = i >= h->nargs;
        uint32_t buf = typed_buffer(l, tape ? BUF_TAPE : BUF_ARG, q->name,
                                    val_info(l->p, g, q->val), tape ? i - h->nargs : i);
        int32_t number = l->f->buffer_of[q->val.node] ? l->f->buffer_of[q->val.node][0] : -1;
        if (number >= 0)
            place_value(l, q->val, number, buf);
        if (tape)
            vec_push(l->a, &h->tape, buf);
        else
            vec_push(l->a, &h->args, ((HostArg){q->name, buf, q->optional, q->inout >= 0}));
    }
}

static const GraphParam *updated_param(const Graph *g, uint32_t result)
{
    for (uint32_t i = 0; i < g->params.n; i++)
        if (g->params.at[i].inout == (int32_t)result)
            return &g->params.at[i];
    return NULL;
}

/* The memory of an argument (slot 0) or of a slot, as of entry. */
typedef struct {
    Val argument;
    uint32_t slot;
} Entry;

static bool is_in(const Lower *l, Entry e, Val v)
{
    if (!e.slot)
        return val_eq(v, e.argument);
    const FuseBuffer *fb = fuse_buffer(l->f, v);
    return fb && fb->slot == e.slot && fb->group < 0 && !fb->is_concat;
}

static bool reads(const Lower *l, const FuseGroup *grp, Entry e)
{
    for (uint32_t i = 0; i < grp->inputs.n; i++)
        if (is_in(l, e, grp->inputs.at[i]))
            return true;
    return false;
}

/* The groups that write a value: of a concat, those of its pieces. */
static bool writes(const Lower *l, uint32_t group, const FuseBuffer *fb)
{
    if (!fb->is_concat)
        return fb->group == (int32_t)group;
    for (uint32_t i = 0; i < l->f->buffers.n; i++) {
        const FuseBuffer *piece = &l->f->buffers.at[i];
        if (piece->base.node && val_eq(piece->base, fb->val) && writes(l, group, piece))
            return true;
    }
    return false;
}

/* An opaque op that changes just this memory: no operand but the first lies there. */
static bool is_updated(const Lower *l, const FuseGroup *grp, Entry e)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < grp->inputs.n; i++)
        n += is_in(l, e, grp->inputs.at[i]);
    return n == 1 && is_in(l, e, grp->inputs.at[0]) &&
           op_updates_first(graph_node(l->g, grp->roots.at[0].val)->op);
}

/* Nobody reads what was there after the new value is written; within one kernel, kbuild_in_place
 * knows. What leaves the program as it entered is copied before anything is written. */
static bool may_update(const Lower *l, const FuseBuffer *fb, Entry e)
{
    bool written = false;
    for (uint32_t i = 0; i < l->f->groups.n; i++) {
        const FuseGroup *grp = &l->f->groups.at[i];
        bool w = writes(l, i, fb), r = reads(l, grp, e);
        const bool apart = grp->class == CLASS_CONTRACT || fb->is_concat ||
                           (grp->class == CLASS_OPAQUE && !is_updated(l, grp, e));
        if (r && (written || (w && apart)))
            return false;
        written |= w;
    }
    for (uint32_t i = 0; i < l->g->saved.n; i++) /* kept by reference */
        if (is_in(l, e, l->g->saved.at[i]))
            return false;
    return true;
}

static bool leaves(const Lower *l, Val v);

/* Nobody reads v behind the group that changes it into `next`. */
static bool ends_before(const Lower *l, Val v, const FuseBuffer *next)
{
    if (leaves(l, v) || next->group < 0)
        return false;
    for (uint32_t i = (uint32_t)next->group; i < l->f->groups.n; i++) {
        const FuseGroup *grp = &l->f->groups.at[i];
        const bool here = i == (uint32_t)next->group;
        for (uint32_t k = here; k < grp->inputs.n; k++)
            if (val_eq(grp->inputs.at[k], v))
                return false;
        if (here && !val_eq(grp->inputs.at[0], v))
            return false;
    }
    return true;
}

/* v is changed in the memory of an argument or slot: so is what it is made of, step by step. */
static void place_steps(Lower *l, Val v, uint32_t buf, Entry e)
{
    for (;;) {
        const Node *n = graph_node(l->g, v);
        const FuseBuffer *next = fuse_buffer(l->f, v);
        if (!op_updates_first(n->op))
            return;
        const Val w = n->in[0];
        const int32_t own = own_buffer(l, w);
        if (own < 0 || l->f->buffers.at[own].is_concat || !ends_before(l, w, next) ||
            !may_update(l, &l->f->buffers.at[own], e))
            return;
        place_value(l, w, own, buf);
        v = w;
    }
}

static uint32_t arg_buffer(const Lower *l, const GraphParam *q)
{
    return l->h->args.at[q - l->g->params.at].buf;
}

static void make_result(Lower *l, uint32_t i)
{
    const GraphResult *r = &l->g->results.at[i];
    const GraphParam *q = updated_param(l->g, i);
    int32_t own = own_buffer(l, r->val);
    uint32_t buf;
    if (q) {
        buf = arg_buffer(l, q);
        if (own >= 0 && may_update(l, &l->f->buffers.at[own], (Entry){q->val, 0})) {
            place_value(l, r->val, own, buf);
            place_steps(l, r->val, buf, (Entry){q->val, 0});
        }
    } else {
        buf = typed_buffer(l, BUF_RESULT, r->name, val_info(l->p, l->g, r->val), i);
        if (own >= 0)
            place_value(l, r->val, own, buf);
    }
    vec_push(l->a, &l->h->args, ((HostArg){r->name, buf, false, q != NULL}));
}

static void make_commits(Lower *l)
{
    for (uint32_t i = 0; i < l->g->commits.n; i++) {
        const Commit *c = &l->g->commits.at[i];
        int32_t own = own_buffer(l, c->val);
        const Entry e = {{0, 0}, c->slot};
        if (own >= 0 && may_update(l, &l->f->buffers.at[own], e)) {
            place_value(l, c->val, own, slot_buffer(l, c->slot));
            place_steps(l, c->val, slot_buffer(l, c->slot), e);
        }
    }
}

/* What backward will read: a buffer of its own, or an argument or result kept by reference. */
static void make_tape(Lower *l)
{
    for (uint32_t i = 0; i < l->g->saved.n; i++) {
        Val v = l->g->saved.at[i];
        int32_t own = own_buffer(l, v);
        const TypeInfo *ty = val_info(l->p, l->g, v);
        const Loc *loc = own < 0 ? lower_loc(l, v) : NULL;
        if (loc && loc_is_row_major(l->t, loc)) {
            BufKind kind = l->h->buffers.at[loc->buf].kind;
            bool whole = dim_same(type_numel(l->p, val_type(l->g, v)),
                                  dim_product(l->t, l->h->buffers.at[loc->buf].shape,
                                              l->h->buffers.at[loc->buf].rank));
            if (whole && (kind == BUF_ARG || kind == BUF_RESULT || kind == BUF_TAPE)) {
                vec_push(l->a, &l->h->tape, loc->buf);
                continue;
            }
        }
        uint32_t buf = typed_buffer(l, BUF_TAPE, lower_name(l, v), ty, i);
        if (own >= 0)
            place_value(l, v, own, buf);
        vec_push(l->a, &l->h->tape, buf);
    }
}

/* --- copies to where values have to be
 * ------------------------------------------------------------------ */

/* Values of entry (arguments and state) are copied before anything is written. */
static bool is_entry(const Lower *l, Val v)
{
    const FuseBuffer *fb = fuse_buffer(l->f, v);
    return fb && fb->group < 0 && !fb->is_concat;
}

static void copy_value(Lower *l, Val v, uint32_t buf, bool early)
{
    const Loc *src = lower_loc(l, v);
    CHECK(src);
    const TypeInfo *ty = val_info(l->p, l->g, v);
    Loc dst = loc_row_major(l->t, buf, dim_const(l->t, 0), ty->shape, ty->rank);
    if (src->buf == buf && dim_is_zero(l->t, src->offset))
        return;
    for (uint32_t i = 0; i < l->late.n; i++) /* it could not be made in its place */
        if (l->late.at[i].dst.buf == buf && l->late.at[i].src.buf == src->buf)
            return;
    Sym name = lower_name(l, v);
    LateCopy c = {dst, *src, ty->dtype, name, graph_node(l->g, v)->site, false};
    if (!early) {
        vec_push(l->a, &l->late, c);
        return;
    }
    BufKind kind = l->h->buffers.at[buf].kind;
    if (kind == BUF_RESULT || kind == BUF_TAPE) {
        lower_copy_loc(l, &dst, src, ty->dtype, name, c.site);
        return;
    }
    /* the target may still be read: by way of a temporary */
    uint32_t temp = typed_buffer(l, BUF_TEMP, name, ty, 0);
    c.src = loc_row_major(l->t, temp, dim_const(l->t, 0), ty->shape, ty->rank);
    lower_copy_loc(l, &c.src, src, ty->dtype, name, c.site);
    vec_push(l->a, &l->late, c);
}

static void copy_results(Lower *l, bool early)
{
    const Graph *g = l->g;
    for (uint32_t i = 0; i < g->results.n; i++)
        if (is_entry(l, g->results.at[i].val) == early)
            copy_value(l, g->results.at[i].val, l->h->args.at[l->h->nargs + i].buf, early);
    for (uint32_t i = 0; i < g->saved.n; i++)
        if (is_entry(l, g->saved.at[i]) == early)
            copy_value(l, g->saved.at[i], l->h->tape.at[i], early);
}

static void copy_commits(Lower *l, bool early)
{
    for (uint32_t i = 0; i < l->g->commits.n; i++) {
        const Commit *c = &l->g->commits.at[i];
        if (is_entry(l, c->val) == early)
            copy_value(l, c->val, slot_buffer(l, c->slot), early);
    }
}

/* --- programs
 * ------------------------------------------------------------------------------------------ */

static bool leaves(const Lower *l, Val v)
{
    for (uint32_t i = 0; i < l->g->results.n; i++)
        if (val_eq(l->g->results.at[i].val, v))
            return true;
    for (uint32_t i = 0; i < l->g->saved.n; i++)
        if (val_eq(l->g->saved.at[i], v))
            return true;
    for (uint32_t i = 0; i < l->g->commits.n; i++)
        if (val_eq(l->g->commits.at[i].val, v))
            return true;
    return false;
}

/* A temporary of its own that no group behind this one reads. */
static bool dies_in(const Lower *l, uint32_t group, Val v)
{
    int32_t number = l->f->buffer_of[v.node][v.result];
    const FuseBuffer *fb = &l->f->buffers.at[number];
    const Loc *loc = &l->loc[number];
    if (!loc->buf || graph_node(l->g, v)->op == OP_input || /* of a scan's body: it lives on */
        l->h->buffers.at[loc->buf].kind != BUF_TEMP || fb->slot || fb->base.node || fb->is_concat ||
        leaves(l, v))
        return false;
    for (uint32_t i = 0; i < l->f->buffers.n; i++) /* another value lies there too */
        if (i != (uint32_t)number && l->loc[i].buf == loc->buf)
            return false;
    for (uint32_t i = group + 1; i < l->f->groups.n; i++)
        if (reads(l, &l->f->groups.at[i], (Entry){v, 0}))
            return false;
    return true;
}

bool lower_dies(const Lower *l, uint32_t group, Val v)
{
    return dies_in(l, group, v);
}

/* A result may take the memory of a temporary that dies here (the gradient of logits that of the
 * logits); kbuild_in_place has the last word. */
static void take_over(Lower *l, const FuseGroup *grp)
{
    for (uint32_t i = 0; i < grp->outputs.n; i++) {
        Val out = grp->outputs.at[i];
        int32_t own = own_buffer(l, out);
        if (own < 0 || l->f->buffers.at[own].is_concat)
            continue;
        for (uint32_t k = 0; k < grp->inputs.n; k++) {
            Val in = grp->inputs.at[k];
            if (val_type(l->g, in).id != val_type(l->g, out).id || !dies_in(l, l->group, in) ||
                val_info(l->p, l->g, in)->rank == 0)
                continue;
            place_value(l, out, own, lower_loc(l, in)->buf);
            break;
        }
    }
}

/* The contraction in whose strip a group works; NULL: in none. */
static const FuseGroup *contract_of(const Lower *l, const FuseGroup *grp)
{
    return grp->ride ? &l->f->groups.at[grp->with] : grp->class == CLASS_CONTRACT ? grp : NULL;
}

/* A rider's result that is read behind its strip has memory for all rows: what a product left there
 * for it need not have some, too. */
static bool outlives_strip(const Lower *l, const FuseGroup *grp)
{
    for (uint32_t k = 0; k < grp->outputs.n && grp->ride == RIDE_EPILOGUE; k++)
        for (uint32_t i = l->group + 1; i < l->f->groups.n; i++) {
            const FuseGroup *other = &l->f->groups.at[i];
            if (contract_of(l, other) != l->contract &&
                reads(l, other, (Entry){grp->outputs.at[k], 0}))
                return true;
        }
    return false;
}

/* An op that changes its first operand: the result takes its memory, if that dies here. */
static void change_first(Lower *l, const FuseGroup *grp)
{
    const Val out = grp->roots.at[0].val;
    const Node *n = graph_node(l->g, out);
    int32_t own = own_buffer(l, out);
    if (!op_updates_first(n->op) || own < 0 || l->f->buffers.at[own].is_concat || !grp->inputs.n)
        return;
    const Val in = grp->inputs.at[0];
    double value;
    bool again = opaque_fills(l->g, n, 0, &value);
    for (uint32_t i = 1; i < grp->inputs.n; i++)
        again |= val_eq(grp->inputs.at[i], in);
    const Loc *loc = again ? NULL : lower_loc(l, in);
    if (loc && loc_is_row_major(l->t, loc) && dim_is_zero(l->t, loc->offset) &&
        dies_in(l, l->group, in))
        place_value(l, out, own, loc->buf);
}

/* The device that a group works on: of its results; a print shows what is there. */
static Place group_place(const Lower *l, const FuseGroup *grp)
{
    const Val v = grp->into.node ? grp->into : grp->roots.at[0].val;
    return val_info(l->p, l->g, v)->place;
}

static void lower_loops(Lower *l, const FuseGroup *grp)
{
    if (grp->class == CLASS_ROW)
        lower_row(l, grp);
    else if (grp->class == CLASS_REDUCE)
        lower_reduce(l, grp);
    else
        lower_map(l, grp);
}

static void lower_group(Lower *l, uint32_t number)
{
    const FuseGroup *grp = &l->f->groups.at[number];
    lower_at(l, group_place(l, grp));
    l->group = l->group_first = number;
    l->making = grp;
    l->contract = contract_of(l, grp);
    const uint32_t from = l->h->steps.n;
    const bool placed = l->choice_last >= number && l->choice_last; /* by the other alternative */
    if (!l->o->no_sharing && !placed &&
        (grp->class == CLASS_ROW ||
         (grp->class == CLASS_MAP && (!grp->ride || outlives_strip(l, grp)))))
        take_over(l, grp);
    switch (grp->class) {
    case CLASS_MAP:
    case CLASS_SCALAR:
    case CLASS_ROW:
    case CLASS_REDUCE:
        if (!placed && lower_again(l, grp))
            break;
        lower_loops(l, grp);
        if (!placed)
            lower_noted(l, grp, from);
        break;
    case CLASS_CONTRACT:
        lower_contract(l, grp);
        break;
    case CLASS_COPY:
        lower_copy(l, grp);
        break;
    case CLASS_OPAQUE:
        change_first(l, grp);
        lower_opaque(l, grp);
        break;
    }
    lower_copy_pieces(l);
    l->making = l->contract = NULL;
    if (grp->class == CLASS_MAP) /* of what only follows */
        lower_chosen(l, from);
}

static Sym program_name(const Program *p, const Graph *g)
{
    static const char *const suffix[] = {[GRAPH_FORWARD_TRAIN] = "_train",
                                         [GRAPH_BACKWARD] = "_backward",
                                         [GRAPH_GRAD] = "_grad",
                                         [GRAPH_STEP] = "_step",
                                         [GRAPH_UPDATE] = "_update"};
    const char *end = g->kind < ARRAY_LEN(suffix) && suffix[g->kind] ? suffix[g->kind] : NULL;
    if (!end)
        return g->method.id && g->kind == GRAPH_METHOD ? g->method : g->name;
    return sym_of(p->cx->names,
                  arena_printf(p->cx->scratch, "%s%s", sym_text(p->cx->names, g->method), end));
}

/* --- the steps of a scan's body in between (lower_loop.c) --- */

void lower_enter(Lower *l, const Graph *g)
{
    l->g = g;
    l->f = fuse_graph(l->p, (Graph *)g, !l->o->no_fuse);
    if (!l->f)
        return;
    l->loc = arena_array(l->a, Loc, l->f->buffers.n + 1);
    l->acc_of = arena_array(l->a, uint32_t, g->nodes.n);
    l->acc_nodes.n = l->acc_nodes.cap = 0;
    l->acc_nodes.at = NULL;
    l->late.n = l->late.cap = 0;
    l->late.at = NULL;
}

/* What grew meanwhile stays. */
void lower_leave(Lower *l, const Lower *outer)
{
    l->g = outer->g;
    l->f = outer->f;
    l->loc = outer->loc;
    l->acc_of = outer->acc_of;
    memcpy(&l->acc_nodes, &outer->acc_nodes, sizeof l->acc_nodes);
    memcpy(&l->late, &outer->late, sizeof l->late);
    l->group = outer->group;
    lower_at(l, outer->place);
}

void lower_groups(Lower *l)
{
    const uint32_t outer = l->choice_last;
    l->choice_last = 0;
    for (uint32_t i = 0; i < l->f->groups.n; i = l->group + 1)
        lower_group(l, i);
    l->choice_last = outer;
}

void lower_place_result(Lower *l, Val v, const Loc *loc)
{
    const int32_t own = own_buffer(l, v);
    if (own < 0)
        return;
    const FuseBuffer *fb = &l->f->buffers.at[own];
    const KClass class = fb->group < 0 ? CLASS_OPAQUE : l->f->groups.at[fb->group].class;
    if (loc_is_row_major(l->t, loc) || class == CLASS_MAP || class == CLASS_ROW ||
        class == CLASS_REDUCE)
        l->loc[own] = *loc;
}

void lower_late_result(Lower *l, Val v, const Loc *loc)
{
    const Loc *src = lower_loc(l, v);
    CHECK(src);
    if (src->buf == loc->buf && dim_same(src->offset, loc->offset))
        return;
    for (uint32_t i = 0; i < l->late.n; i++) /* it could not be made in its place */
        if (l->late.at[i].dst.buf == loc->buf && dim_same(l->late.at[i].dst.offset, loc->offset))
            return;
    const Sym name = lower_name(l, v);
    vec_push(l->a, &l->late,
             ((LateCopy){*loc, *src, val_info(l->p, l->g, v)->dtype, name,
                         graph_node(l->g, v)->site, false}));
}

void lower_late_copies(Lower *l)
{
    for (uint32_t i = 0; i < l->late.n; i++) {
        const LateCopy *c = &l->late.at[i];
        lower_copy_loc(l, &c->dst, &c->src, c->dtype, c->name, c->site);
    }
}

static void lower_graph(Lower *l, Graph *g)
{
    Program *p = l->p;
    die_context("lower", sym_text(p->cx->names, g->name));
    HostProgram *h = arena_new(l->a, HostProgram);
    h->graph = g;
    h->name = program_name(p, g);
    vec_push(l->a, &h->buffers, ((Buffer){0}));
    names_clear(&l->buffer_names);
    l->g = g;
    l->h = h;
    l->f = fuse_graph(p, g, !l->o->no_fuse);
    if (!l->f)
        return;
    l->loc = arena_array(l->a, Loc, l->f->buffers.n + 1);
    l->acc_of = arena_array(l->a, uint32_t, g->nodes.n);
    l->acc_nodes.n = 0;
    l->slot_buf = arena_array(l->a, uint32_t, p->slots.n + 1);
    l->late.n = l->late.cap = 0;
    l->late.at = NULL;
    make_args(l);
    for (uint32_t i = 0; i < g->results.n; i++)
        make_result(l, i);
    make_commits(l);
    make_tape(l);
    copy_results(l, true);
    copy_commits(l, true);
    lower_groups(l);
    copy_results(l, false);
    copy_commits(l, false);
    /* results read what commits overwrite, so temporaries go first, in the order they were noted */
    lower_late_copies(l);
    host_order(l);
    host_lanes(l);
    host_loop_rows(l);
    host_strips(l);
    host_conflicts(l);
    vec_push(l->a, &l->m->programs, h);
    const char *why = host_verify(l->m, h);
    if (why)
        die("%s", why);
    die_context(NULL, NULL);
}

/* The devices that the model names, in a fixed order. */
static void find_places(HostModel *m, Arena *a)
{
    bool used[256] = {[PLACE_D0] = true};
    for (uint32_t i = 1; i < m->p->types.n; i++)
        used[m->p->types.at[i].place] = true;
    for (uint32_t i = 0; i < ARRAY_LEN(used); i++)
        if (used[i])
            vec_push(a, &m->places, (Place)i);
}

HostModel *lower_program(Program *p, const LowerOptions *o)
{
    Arena *a = p->cx->perm;
    HostModel *m = arena_new(a, HostModel);
    m->p = p;
    LowerModel lm = {.m = m};
    Lower l = {.p = p, .t = p->cx->dims, .a = a, .lm = &lm, .m = m, .options = {*o, *o}};
    m->cuda = o->cuda;
    l.options[0].cuda = false;
    l.options[1].cuda = true;
    find_places(m, a);
    lower_at(&l, PLACE_D0);
    int errors = diag_errors(p->cx->diags);
    lower_names(&l);
    for (uint32_t i = 0; i < p->graphs.n; i++) {
        Graph *g = p->graphs.at[i];
        if (g->kind != GRAPH_TRAINING && g->kind != GRAPH_BODY && g->kind != GRAPH_DEF &&
            g->kind != GRAPH_CHECK)
            lower_graph(&l, g);
    }
    return diag_errors(p->cx->diags) > errors ? NULL : m;
}
