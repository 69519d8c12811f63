/* elab_layout.c: where parameters and buffers live: segments, slots, views, and INIT.
 * SPDX-License-Identifier: MIT */
#include "frontend/elab_program.h"

#include <string.h>

enum { ALIGN_BYTES = 256 };

static int64_t numel(Elab *e, const TypeInfo *t)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < t->rank; i++) {
        int64_t c = 0;
        CHECK(dim_is_const(e->dims, t->shape[i], &c));
        if (__builtin_mul_overflow(n, c, &n))
            return -1;
    }
    return n;
}

static Ty rank1(Elab *e, DType dtype, int64_t n, Place place)
{
    Dim d = dim_const(e->dims, n);
    return type_of(e->p, dtype, &d, 1, place);
}

/* ---- segments ---- */

static bool same_key(const Model *m, const Segment *s, uint32_t state)
{
    for (uint32_t i = 0; i < m->trains.n; i++)
        if (s->key.at[i] != m->trains.at[i].group_of.at[state])
            return false;
    return true;
}

static Segment *segment_for(Model *m, const State *s, uint32_t index)
{
    Elab *e = m->e;
    for (uint32_t i = 0; i < m->segments.n; i++) {
        Segment *seg = &m->segments.at[i];
        if (seg->dtype == s->type.dtype && seg->place == s->type.place &&
            seg->trainable == s->trainable && same_key(m, seg, index))
            return seg;
    }
    Segment seg = {.dtype = s->type.dtype, .place = s->type.place, .trainable = s->trainable};
    for (uint32_t i = 0; i < m->trains.n; i++)
        vec_push(e->a, &seg.key, m->trains.at[i].group_of.at[index]);
    vec_push(e->a, &m->segments, seg);
    return &vec_last(&m->segments);
}

void segment_add(Elab *e, Segment *seg, State *s)
{
    int64_t align = ALIGN_BYTES / dtype_size(seg->dtype), n = numel(e, &s->type);
    if (n < 0 || n > INT64_MAX / 16 - seg->size) {
        diag_report(e->diags, DIAG_bad_state, s->at, "'%s' is too large", sym(e, s->name));
        n = 0;
    }
    vec_push(e->a, &seg->states, s);
    vec_push(e->a, &seg->offset, seg->size);
    seg->size += (n + align - 1) / align * align;
}

static void place_param(Model *m, State *s, uint32_t index)
{
    segment_add(m->e, segment_for(m, s, index), s);
}

static void add_view(Elab *e, State *s, uint32_t slot, int64_t offset)
{
    StateView v = {.name = s->name,
                   .slot = slot,
                   .offset = offset,
                   .type = type_make(e->p, s->type),
                   .trainable = s->trainable,
                   .is_param = s->is_param,
                   .saved = s->saved,
                   .at = s->at,
                   .doc = s->doc};
    for (uint32_t i = 0; i < s->aliases.n; i++)
        vec_push(e->a, &v.aliases, s->aliases.at[i]);
    vec_push(e->a, &e->p->state, v);
    s->view = e->p->state.n;
}

static void make_slots(Model *m)
{
    Elab *e = m->e;
    for (uint32_t i = 0; i < m->segments.n; i++) {
        Segment *s = &m->segments.at[i];
        Slot slot = {.name = sym_new(e, arena_printf(e->a, "seg%u", i)),
                     .kind = SLOT_PARAM,
                     .type = rank1(e, s->dtype, s->size, s->place),
                     .saved = true};
        s->slot = program_add_slot(e->p, slot);
        if (!s->trainable)
            continue;
        slot.name = sym_new(e, arena_printf(e->a, "grad.seg%u", i));
        slot.kind = SLOT_GRAD;
        slot.saved = false;
        slot.segment = s->slot;
        s->grad = program_add_slot(e->p, slot);
    }
}

static const Segment *segment_of(const Model *m, const State *s, int64_t *offset)
{
    for (uint32_t i = 0; i < m->segments.n; i++)
        for (uint32_t k = 0; k < m->segments.at[i].states.n; k++)
            if (m->segments.at[i].states.at[k] == s) {
                *offset = m->segments.at[i].offset.at[k];
                return &m->segments.at[i];
            }
    return NULL;
}

void layout_states(Model *m)
{
    Elab *e = m->e;
    for (uint32_t i = 0; i < e->states.n; i++)
        if (e->states.at[i]->is_param)
            place_param(m, e->states.at[i], i);
    make_slots(m);
    for (uint32_t i = 0; i < e->states.n; i++) {
        State *s = e->states.at[i];
        int64_t offset = 0;
        if (s->is_param) {
            const Segment *seg = segment_of(m, s, &offset);
            add_view(e, s, seg->slot, offset);
            continue;
        }
        Slot slot = {.name = s->name,
                     .kind = SLOT_BUFFER,
                     .type = type_make(e->p, s->type),
                     .saved = s->saved,
                     .at = s->at};
        add_view(e, s, program_add_slot(e->p, slot), 0);
    }
}

/* ---- values of segments ---- */

Val join_segment(Elab *e, const Segment *s, const Val *parts, DType dtype)
{
    VEC(Val) pieces = {0};
    const Place outer = e->b.place;
    e->b.place = s->place; /* of gaps */
    for (uint32_t i = 0; i < s->states.n; i++) {
        int64_t n = numel(e, &s->states.at[i]->type);
        int64_t end = i + 1 < s->states.n ? s->offset.at[i + 1] : s->size;
        int64_t gap = end - s->offset.at[i] - n;
        Dim flat = dim_const(e->dims, n), rest = dim_const(e->dims, gap);
        if (n)
            vec_push(e->a, &pieces,
                     parts[i].node
                         ? build_cast(&e->b, build_reshape(&e->b, parts[i], &flat, 1), dtype)
                         : build_full(&e->b, dtype, 0, &flat, 1));
        if (gap)
            vec_push(e->a, &pieces, build_full(&e->b, dtype, 0, &rest, 1));
    }
    Dim zero = dim_const(e->dims, 0);
    if (pieces.n == 0)
        vec_push(e->a, &pieces, build_full(&e->b, dtype, 0, &zero, 1));
    for (uint32_t i = 0; i < pieces.n; i++)
        pieces.at[i] = build_at_place(&e->b, pieces.at[i], s->place);
    e->b.place = outer;
    return pieces.n == 1 ? pieces.at[0] : build_concat(&e->b, pieces.at, pieces.n, 0);
}

Val segment_part(Elab *e, const Segment *s, uint32_t i, Val whole)
{
    const TypeInfo *t = &s->states.at[i]->type;
    Val v = build_slice_axis(&e->b, whole, 0, dim_const(e->dims, s->offset.at[i]),
                             dim_const(e->dims, numel(e, t)));
    return build_reshape(&e->b, v, t->shape, t->rank);
}

/* ---- INIT ---- */

Graph *begin_init(Model *m)
{
    Elab *e = m->e;
    Graph *g = program_add_graph(e->p, sym_new(e, "init"), GRAPH_INIT);
    e->b = elab_builder(e, g);
    e->entry = NULL;
    e->training = false;
    for (uint32_t i = 0; i < m->segments.n; i++) {
        const Segment *s = &m->segments.at[i];
        Val *parts = arena_array(e->a, Val, s->states.n);
        for (uint32_t k = 0; k < s->states.n; k++)
            parts[k] = use_val(e, &s->states.at[k]->initial);
        graph_commit(e->p, g, s->slot, join_segment(e, s, parts, s->dtype));
    }
    for (uint32_t i = 0; i < e->states.n; i++) {
        const State *s = e->states.at[i];
        if (!s->is_param)
            graph_commit(e->p, g, e->p->state.at[s->view - 1].slot,
                         build_at_place(&e->b, use_val(e, &s->initial), s->type.place));
    }
    return g;
}

void end_init(Model *m, Graph *g)
{
    const char *wrong = tensor_verify(m->e->p, g, false);
    if (wrong)
        die("initial values: %s", wrong);
}
