/* fuse_sequence.c: the order in which kernels run. What frees more memory than it takes goes first,
 * so that a backward half gives back what it has read; else the order is the model's.
 *
 *   dz   dx = dz * w   dw = dz * x      dw runs as soon as it can: then dz and x are free
 *
 * SPDX-License-Identifier: MIT */
#include "ir/base/die.h"
#include "passes/fuse_internal.h"

typedef VEC(uint32_t) Numbers;

typedef struct {
    const Fuser *f;
    uint32_t *waits;   /* by kernel: others that must run before it */
    uint32_t *rank;    /* its place in the model */
    Numbers *behind;   /* those that wait for it */
    uint32_t *readers; /* by value: kernels that have yet to read it */
    Numbers ready;
} Sequence;

static uint32_t rank_of(const Kern *k)
{
    uint32_t id = k->into.node;
    for (uint32_t i = 0; i < k->roots.n; i++)
        id = k->roots.at[i].val.node > id ? k->roots.at[i].val.node : id;
    return id;
}

/* Bytes that are in use for longer: what it stores, less what nobody reads any more. */
static double growth(const Sequence *w, const Kern *k)
{
    const Fuser *f = w->f;
    double bytes = 0;
    for (uint32_t i = 0; i < k->roots.n; i++) {
        const Val v = k->roots.at[i].val;
        for (uint32_t j = 0; j < graph_node(f->g, v)->nout; j++)
            if (!f->keep[f->first[v.node] + j] && f->readers[f->first[v.node] + j])
                bytes += val_bytes(f->p, f->g, (Val){v.node, j});
    }
    for (uint32_t i = 0; i < k->reads.n; i++) {
        const Val v = k->reads.at[i].v;
        const uint32_t vid = fuse_vid(f, v);
        if (f->kind[v.node] != NODE_LEAF && !f->keep[vid] && w->readers[vid] == 1)
            bytes -= val_bytes(f->p, f->g, v);
    }
    return bytes;
}

static void prepare(Sequence *w)
{
    const Fuser *f = w->f;
    for (uint32_t i = 0; i < f->ks.n; i++) {
        const Kern *k = f->ks.at[i];
        int32_t *list;
        if (k->dead)
            continue;
        w->rank[i] = rank_of(k);
        const uint32_t n = fuse_deps(f, k, &list);
        for (uint32_t j = 0; j < n; j++)
            if (list[j] != (int32_t)i) {
                vec_push(f->a, &w->behind[list[j]], i);
                w->waits[i]++;
            }
        for (uint32_t j = 0; j < k->reads.n; j++)
            w->readers[fuse_vid(f, k->reads.at[j].v)]++;
        if (!w->waits[i])
            vec_push(f->a, &w->ready, i);
    }
}

/* The place in `ready` of what runs next. */
static uint32_t next(const Sequence *w)
{
    uint32_t best = 0;
    double least = 0;
    for (uint32_t i = 0; i < w->ready.n; i++) {
        const double grows = growth(w, w->f->ks.at[w->ready.at[i]]), frees = grows < 0 ? grows : 0;
        const bool earlier = w->rank[w->ready.at[i]] < w->rank[w->ready.at[best]];
        if (i == 0 || frees < least || (!(frees > least) && earlier)) {
            best = i;
            least = frees;
        }
    }
    return best;
}

uint32_t *fuse_sequence(const Fuser *f, uint32_t *count)
{
    const uint32_t n = f->ks.n;
    Sequence w = {.f = f,
                  .waits = arena_array(f->a, uint32_t, n + 1),
                  .rank = arena_array(f->a, uint32_t, n + 1),
                  .behind = arena_alloc(f->a, sizeof(Numbers) * (n + 1)),
                  .readers = arena_array(f->a, uint32_t, f->nvals + 1)};
    uint32_t *out = arena_array(f->a, uint32_t, n + 1);
    *count = 0;
    prepare(&w);
    while (w.ready.n) {
        const uint32_t at = next(&w), best = w.ready.at[at];
        const Kern *k = f->ks.at[best];
        w.ready.at[at] = w.ready.at[--w.ready.n];
        out[(*count)++] = best;
        for (uint32_t j = 0; j < k->reads.n; j++)
            w.readers[fuse_vid(f, k->reads.at[j].v)]--;
        for (uint32_t j = 0; j < w.behind[best].n; j++)
            if (--w.waits[w.behind[best].at[j]] == 0)
                vec_push(f->a, &w.ready, w.behind[best].at[j]);
    }
    for (uint32_t i = 0, left = 0; i < n; i++) {
        left += !f->ks.at[i]->dead;
        CHECK(left <= *count);
    }
    return out;
}
