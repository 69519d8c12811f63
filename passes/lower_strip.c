/* lower_strip.c: the steps of a contraction and of the groups that ride along become a strip: the
 * CPU runs them block of rows by block of rows. Grouping has found that values allow it
 * (fuse_strip.c); here it is seen to that the steps and the memory do, and which buffers need no
 * memory as a whole.
 *
 *   gemm h = x * w            strip 0: 2 steps, B rows; h is a buffer of it
 *   launch k1_y (y, h, b)
 *
 * SPDX-License-Identifier: MIT */
#include "passes/lower_internal.h"

typedef struct {
    Lower *l;
    HostProgram *h;
    DimTable *t;
    StepStrip s;
    bool *in_use; /* buffer: some step outside strips, or of another one, sees it */
} Strips;

/* --- which steps --------------------------------------------------------------------------------
 */

static const FuseGroup *group_of(const Step *s)
{
    return s->group;
}

static Dim gemm_rows(const Strips *w, const Step *s)
{
    return dim_mul(w->t, s->m, dim_mul(w->t, s->batch[0], s->batch[1]));
}

/* Every step is one product or the one launch of a rider, and there are some to each row. */
static bool steps_fit(Strips *w)
{
    const Step *step = &w->h->steps.at[w->s.first];
    uint32_t products = 0;
    if (w->s.n > STRIP_MAX_STEPS)
        return false;
    for (uint32_t i = 0; i < w->s.n; i++) {
        const Step *s = &step[i];
        if (s->sum_a.buf || s->sum_b.buf) /* sums over all rows: no block of rows has them */
            return false;
        if (s->kind == STEP_GEMM) {
            w->s.rows = w->s.depth ? s->k : gemm_rows(w, s);
            products++;
        } else if (s->kind != STEP_LAUNCH || (i && group_of(s) == group_of(s - 1))) {
            return false;
        }
    }
    if (!products || products == w->s.n || (w->s.depth && products > 1))
        return false;
    for (uint32_t i = 0; i < w->s.n; i++) {
        const Step *s = &step[i];
        if (s->kind == STEP_GEMM ? !w->s.depth && !dim_same(gemm_rows(w, s), w->s.rows)
                                 : !dim_exact_div(w->t, s->cells, w->s.rows).id)
            return false;
    }
    return true;
}

/* --- memory -------------------------------------------------------------------------------------
 */

typedef struct {
    uint32_t buf[64];
    bool write[64], inout[64];
    uint32_t n;
    bool full;
} Uses;

static void use(const HostProgram *h, Uses *u, uint32_t buf, KMode mode)
{
    if (!buf)
        return;
    u->full |= u->n == 64;
    if (u->full)
        return;
    u->buf[u->n] = host_root(h, buf);
    u->inout[u->n] = mode == K_INOUT;
    u->write[u->n++] = mode != K_IN;
}

static Uses uses_of(const Strips *w, const Step *s)
{
    Uses u = {.n = 0};
    switch (s->kind) {
    case STEP_LAUNCH: {
        const Kernel *k = w->l->m->kernels.at[s->kernel];
        for (uint32_t i = 0; i < s->operands.n; i++)
            use(w->h, &u, s->operands.at[i].buf, k->params.at[i].mode);
        break;
    }
    case STEP_GEMM:
        use(w->h, &u, s->a.buf, K_IN);
        use(w->h, &u, s->b.buf, K_IN);
        use(w->h, &u, s->c.buf, K_OUT);
        use(w->h, &u, s->sum_a.buf, K_OUT);
        use(w->h, &u, s->sum_b.buf, K_OUT);
        break;
    default:
        use(w->h, &u, s->src, K_IN);
        use(w->h, &u, s->dst, K_OUT);
    }
    return u;
}

/* Step `later` may write at x what the earlier one wrote at y: both do so at their own rows. */
static bool same_rows(const Step *later, const Uses *u, uint32_t x, const Step *earlier,
                      const Uses *of, uint32_t y)
{
    return of->write[y] &&
           (u->inout[x] || (earlier->kind == STEP_GEMM && later->kind == STEP_GEMM));
}

/* No step writes what an earlier one of the strip reads or writes: a block would meet what a later
 * step left behind in another one. But products of one group add to what the first wrote, and a
 * rider may put its result in place of theirs, or of an earlier rider's. */
static bool no_overwrites(const Strips *w)
{
    const Step *step = &w->h->steps.at[w->s.first];
    for (uint32_t i = 0; i < w->s.n; i++) {
        const Uses later = uses_of(w, &step[i]);
        if (later.full)
            return false;
        for (uint32_t k = 0; k < i; k++) {
            const Uses earlier = uses_of(w, &step[k]);
            for (uint32_t x = 0; x < later.n; x++)
                for (uint32_t y = 0; y < earlier.n && later.write[x]; y++)
                    if (later.buf[x] == earlier.buf[y] &&
                        !same_rows(&step[i], &later, x, &step[k], &earlier, y))
                        return false;
        }
    }
    return true;
}

/* --- buffers that need no memory as a whole -----------------------------------------------------
 */

static bool row_major_rows(const Strips *w, const Buffer *b)
{
    Dim n = dim_product(w->t, b->shape, b->rank);
    return dim_exact_div(w->t, n, w->s.rows).id != 0;
}

static void mark_uses(const Strips *w)
{
    const HostProgram *h = w->h;
    for (uint32_t i = 0, strip = 0; i < h->steps.n; i++) {
        while (strip < h->strips.n && h->strips.at[strip].first + h->strips.at[strip].n <= i)
            strip++;
        const bool inside = strip < h->strips.n && h->strips.at[strip].first <= i;
        const Uses u = uses_of(w, &h->steps.at[i]);
        for (uint32_t k = 0; k < u.n; k++) {
            Buffer *b = &h->buffers.at[u.buf[k]];
            if (!inside || u.full || (b->strip && b->strip != strip + 1))
                w->in_use[u.buf[k]] = true;
            b->strip = inside ? strip + 1 : 0;
        }
        for (uint32_t k = 0; u.full && k < h->steps.at[i].operands.n; k++)
            w->in_use[host_root(h, h->steps.at[i].operands.at[k].buf)] = true;
    }
}

/* A temporary of its own whose every row is first written and then read by the same block. */
static void drop_memory(const Strips *w)
{
    HostProgram *h = w->h;
    for (uint32_t i = 1; i < h->buffers.n; i++)
        if (h->buffers.at[i].of)
            w->in_use[host_root(h, i)] = true;
    for (uint32_t i = 0; i < h->tape.n; i++)
        w->in_use[host_root(h, h->tape.at[i])] = true;
    mark_uses(w);
    uint32_t *dropped = arena_array(w->l->a, uint32_t, h->strips.n + 1); /* of each strip */
    for (uint32_t i = 1; i < h->buffers.n; i++) {
        Buffer *b = &h->buffers.at[i];
        if (!b->strip)
            continue;
        const StepStrip *s = &h->strips.at[b->strip - 1];
        Strips of = *w;
        of.s = *s;
        /* a product adds to what is there: its result is not new in each block */
        bool good = b->kind == BUF_TEMP && !w->in_use[i] && row_major_rows(&of, b);
        for (uint32_t k = s->first; k < s->first + s->n && good && s->depth; k++)
            good = h->steps.at[k].kind != STEP_GEMM || host_root(h, h->steps.at[k].c.buf) != i;
        if (good && dropped[b->strip] < STRIP_MAX_BUFFERS)
            dropped[b->strip]++;
        else
            b->strip = 0;
    }
}

void host_strips(Lower *l)
{
    HostProgram *h = l->h;
    Strips w = {.l = l, .h = h, .t = l->t, .in_use = arena_array(l->a, bool, h->buffers.n)};
    if (l->o->no_fuse)
        return;
    uint32_t rows_end = 0; /* of a loop that goes by rows itself */
    for (uint32_t i = 0; i < h->steps.n; i += w.s.n ? w.s.n : 1) {
        const void *c = h->steps.at[i].contract;
        if (h->steps.at[i].kind == STEP_LOOP && h->steps.at[i].rows.id)
            rows_end = h->steps.at[i].other;
        w.s = (StepStrip){.first = i};
        const Place place = h->steps.at[i].place;
        c = host_on_cuda(l->m, place) || i < rows_end ? NULL : c;
        for (; c && i + w.s.n < h->steps.n && h->steps.at[i + w.s.n].contract == c; w.s.n++) {
            const FuseGroup *g = group_of(&h->steps.at[i + w.s.n]);
            w.s.depth |= g->ride == RIDE_LOAD_DEPTH;
        }
        if (w.s.n > 1 && steps_fit(&w) && no_overwrites(&w))
            vec_push(l->a, &h->strips, w.s);
    }
    drop_memory(&w);
}
