/* lower_again.c: equal groups are lowered once. Blocks of a model repeat: what was found out about
 * the first one, its kernels and the steps that launch them, is made again with other memory.
 *
 *   group 7 row: %y = ..  of layer 0     ->  launch gpt_k3_y (x, weight, bias, y)
 *   group 31: equal, of layer 1          ->  the same, with the operands at the same positions
 *
 * Equal are groups of equal words (fuse_text.c) whose operands lie alike: the same ones in the same
 * buffer, with the same strides, at addresses of the same alignment. Only groups whose steps read
 * and write nothing but operands and parts of sums are noted.
 * SPDX-License-Identifier: MIT */
#include "passes/lower_internal.h"

#include <string.h>

enum { ALIGNED = 64, NO_POSITION = UINT32_MAX, SLOT = 1 << 30, FRESH = 1 << 29 };

/* In the order in which buffers are made: an operand by its position, or parts of a result. */
typedef struct {
    bool part;
    uint32_t position; /* of an operand; of parts: the root */
    uint32_t result;
    Buffer like;     /* parts: dtype and shape */
    uint32_t buffer; /* parts: where they lie, this time */
} Event;

typedef struct {
    bool part;
    uint32_t number; /* operand's position; event of the parts */
} StepOperand;

typedef struct {
    uint32_t kernel;
    StepOperand *operands;
    Step like;
} StepRecipe;

struct LowerRecipe {
    uint64_t hash;
    const int64_t *words; /* of the group */
    uint32_t nwords;
    const LowerOptions *options;
    Place place;
    VEC(int64_t) layout;
    VEC(Event) events;
    VEC(StepRecipe) steps;
    bool bad;
};

/* --- how operands lie ------------------------------------------------------------------------- */

static uint32_t noperands(const FuseGroup *grp)
{
    return grp->inputs.n + grp->outputs.n;
}

static Val operand(const FuseGroup *grp, uint32_t i)
{
    return i < grp->inputs.n ? grp->inputs.at[i] : grp->outputs.at[i - grp->inputs.n];
}

static uint32_t buffer_number(const Lower *l, Val v)
{
    const int32_t number = l->f->buffer_of[v.node] ? l->f->buffer_of[v.node][v.result] : -1;
    CHECK(number >= 0);
    return (uint32_t)number;
}

/* Where a value lies or will lie. Buffers that are not made yet have numbers of their own. */
static Loc place_of(const Lower *l, uint32_t number)
{
    if (l->loc[number].buf)
        return l->loc[number];
    const FuseBuffer *fb = &l->f->buffers.at[number];
    const TypeInfo *ty = val_info(l->p, l->g, fb->val);
    Dim offset = fb->offset.id ? fb->offset : dim_const(l->t, 0);
    uint32_t buf = FRESH | number;
    if (fb->slot) {
        buf = l->slot_buf[fb->slot] ? l->slot_buf[fb->slot] : SLOT | fb->slot;
    } else if (fb->base.node) {
        const Loc base = place_of(l, buffer_number(l, fb->base));
        buf = base.buf;
        offset = dim_add(l->t, offset, base.offset);
    }
    Loc loc = loc_row_major(l->t, buf, offset, ty->shape, ty->rank);
    for (uint32_t i = 0; i < ty->rank; i++)
        if (fb->stride[i].id)
            loc.stride[i] = fb->stride[i];
    return loc;
}

/* Strides; which operand before this one has the same buffer, and how far away it is; alignment. */
static void layout_words(Lower *l, const FuseGroup *grp, LowerRecipe *r)
{
    const uint32_t n = noperands(grp);
    Loc *locs = arena_array(l->p->cx->scratch, Loc, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        const Loc *x = &locs[i];
        locs[i] = place_of(l, buffer_number(l, operand(grp, i)));
        for (uint32_t k = 0; k < x->rank; k++)
            vec_push(l->a, &r->layout, x->stride[k].id);
        uint32_t first = 0;
        while (locs[first].buf != x->buf)
            first++;
        vec_push(l->a, &r->layout, first);
        vec_push(l->a, &r->layout, dim_sub(l->t, x->offset, locs[first].offset).id);
        int64_t at;
        if (dim_is_const(l->t, x->offset, &at))
            vec_push(l->a, &r->layout, -1 - (at & (ALIGNED - 1)));
        else
            vec_push(l->a, &r->layout, x->offset.id);
        if (x->buf < FRESH && l->h->buffers.at[x->buf].of)
            r->bad = true;
    }
}

/* --- finding ---------------------------------------------------------------------------------- */

static uint64_t recipe_hash(const LowerRecipe *r, uint64_t h)
{
    h = hash_word(h, r->place);
    for (uint32_t i = 0; i < r->layout.n; i++)
        h = hash_word(h, (uint64_t)r->layout.at[i]);
    return h;
}

static bool same_recipe(const LowerRecipe *x, const LowerRecipe *y)
{
    return x->hash == y->hash && x->place == y->place && x->options == y->options &&
           x->nwords == y->nwords && x->layout.n == y->layout.n &&
           (x->words == y->words || !memcmp(x->words, y->words, x->nwords * sizeof *x->words)) &&
           (!x->layout.n ||
            !memcmp(x->layout.at, y->layout.at, x->layout.n * sizeof *x->layout.at));
}

/* The place in the table of this recipe, or where it would be. */
static uint32_t *find(LowerModel *lm, Arena *a, const LowerRecipe *r)
{
    if (2 * lm->recipes.n >= lm->recipes_size) {
        const uint32_t size = lm->recipes_size ? 2 * lm->recipes_size : 256;
        lm->recipe_of = arena_array(a, uint32_t, size);
        lm->recipes_size = size;
        for (uint32_t i = 0; i < lm->recipes.n; i++) {
            uint32_t h = (uint32_t)lm->recipes.at[i]->hash & (size - 1);
            while (lm->recipe_of[h])
                h = (h + 1) & (size - 1);
            lm->recipe_of[h] = i + 1;
        }
    }
    uint32_t h = (uint32_t)r->hash & (lm->recipes_size - 1);
    while (lm->recipe_of[h] && !same_recipe(lm->recipes.at[lm->recipe_of[h] - 1], r))
        h = (h + 1) & (lm->recipes_size - 1);
    return &lm->recipe_of[h];
}

/* --- noting ----------------------------------------------------------------------------------- */

void lower_note_use(Lower *l, uint32_t number)
{
    LowerRecipe *r = l->noting;
    for (uint32_t i = 0; i < r->events.n; i++)
        if (!r->events.at[i].part && r->events.at[i].position == number)
            return;
    vec_push(l->a, &r->events,
             ((Event){.position = number})); /* of the buffer, until the recipe is finished */
}

void lower_note_part(Lower *l, uint32_t root, uint32_t result, uint32_t buf)
{
    if (l->noting)
        vec_push(l->a, &l->noting->events,
                 ((Event){true, root, result, l->h->buffers.at[buf], buf}));
}

void lower_note_moved(Lower *l)
{
    if (l->noting)
        l->noting->bad = true;
}

static uint32_t position_of(const Lower *l, const FuseGroup *grp, uint32_t number)
{
    for (uint32_t i = 0; i < noperands(grp); i++)
        if (buffer_number(l, operand(grp, i)) == number)
            return i;
    return NO_POSITION;
}

/* Bases of operands are asked for on the way to these. */
static void note_positions(const Lower *l, const FuseGroup *grp, LowerRecipe *r)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->events.n; i++) {
        Event e = r->events.at[i];
        if (!e.part)
            e.position = position_of(l, grp, e.position);
        if (e.part || e.position != NO_POSITION)
            r->events.at[n++] = e;
    }
    r->events.n = n;
}

static bool note_operand(const Lower *l, const FuseGroup *grp, const LowerRecipe *r,
                         const LaunchOperand *o, StepOperand *to)
{
    for (uint32_t i = 0; i < r->events.n; i++)
        if (r->events.at[i].part && r->events.at[i].buffer == o->buf) {
            *to = (StepOperand){true, i};
            return dim_is_zero(l->t, o->offset);
        }
    for (uint32_t i = 0; i < noperands(grp); i++) {
        const Loc *loc = &l->loc[buffer_number(l, operand(grp, i))];
        if (loc->buf == o->buf && dim_same(loc->offset, o->offset)) {
            *to = (StepOperand){false, i};
            return true;
        }
    }
    return false;
}

static bool note_step(Lower *l, const FuseGroup *grp, LowerRecipe *r, const Step *s)
{
    const Site *a = &s->site, *b = &grp->site;
    if (s->kind != STEP_LAUNCH || a->path.id != b->path.id || a->at.file != b->at.file ||
        a->at.start != b->at.start || a->at.end != b->at.end ||
        strcmp(s->text, lower_text(l, vec_last(&grp->roots).val)) != 0)
        return false;
    StepRecipe to = {s->kernel, arena_array(l->a, StepOperand, s->operands.n), *s};
    for (uint32_t i = 0; i < s->operands.n; i++)
        if (!note_operand(l, grp, r, &s->operands.at[i], &to.operands[i]))
            return false;
    vec_push(l->a, &r->steps, to);
    return true;
}

void lower_noted(Lower *l, const FuseGroup *grp, uint32_t from)
{
    LowerRecipe *r = l->noting;
    l->noting = NULL;
    if (!r || r->bad)
        return;
    note_positions(l, grp, r);
    for (uint32_t i = from; i < l->h->steps.n; i++)
        if (!note_step(l, grp, r, &l->h->steps.at[i]))
            return;
    uint32_t *at = find(l->lm, l->a, r);
    vec_push(l->a, &l->lm->recipes, r);
    *at = l->lm->recipes.n;
}

/* --- making again ----------------------------------------------------------------------------- */

static void make(Lower *l, const FuseGroup *grp, LowerRecipe *r)
{
    for (uint32_t i = 0; i < r->events.n; i++) {
        Event *e = &r->events.at[i];
        if (e->part)
            e->buffer = lower_part(l, grp, e->position, e->result, e->like.dtype, e->like.shape,
                                   e->like.rank);
        else
            lower_loc(l, operand(grp, e->position));
    }
    for (uint32_t i = 0; i < r->steps.n; i++) {
        const StepRecipe *of = &r->steps.at[i];
        Step *s = lower_step(l, STEP_LAUNCH, grp->site);
        Step made = of->like;
        const uint32_t n = made.operands.n;
        made.place = s->place;
        made.site = s->site;
        made.group = s->group;
        made.contract = s->contract;
        made.text = lower_text(l, vec_last(&grp->roots).val);
        made.operands.at = arena_array(l->a, LaunchOperand, n);
        made.operands.cap = n;
        for (uint32_t k = 0; k < n; k++) {
            const StepOperand *o = &of->operands[k];
            const Loc *loc = o->part ? NULL : lower_loc(l, operand(grp, o->number));
            made.operands.at[k] =
                loc ? (LaunchOperand){loc->buf, loc->offset}
                    : (LaunchOperand){r->events.at[o->number].buffer, dim_const(l->t, 0)};
        }
        *s = made;
    }
}

bool lower_again(Lower *l, const FuseGroup *grp)
{
    LowerRecipe *r = arena_new(l->a, LowerRecipe);
    *r = (LowerRecipe){
        .words = grp->words, .nwords = grp->nwords, .options = l->o, .place = l->place};
    const ArenaMark mark = arena_mark(l->p->cx->scratch);
    layout_words(l, grp, r);
    arena_reset(l->p->cx->scratch, mark);
    r->hash = recipe_hash(r, grp->hash);
    const uint32_t *at = r->bad ? NULL : find(l->lm, l->a, r);
    if (at && *at) {
        make(l, grp, l->lm->recipes.at[*at - 1]);
        return true;
    }
    l->noting = r->bad ? NULL : r;
    return false;
}
