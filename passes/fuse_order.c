/* fuse_order.c: an order of the kernels, each behind what it depends on, kept while kernels merge.
 * Whether one kernel depends on another is then a search between their two places.
 *
 *   x  a  y  z  b  w         a and b become m; of what lies between them, m depends on z:
 *   x  z  m  y  .  w         that goes before it, the rest behind it, and a place is left over
 *
 * SPDX-License-Identifier: MIT */
#include "ir/base/die.h"
#include "passes/fuse_internal.h"

#include <string.h>

enum { NOBODY = UINT32_MAX };

/* --- dependences ------------------------------------------------------------------------------ */

typedef struct {
    Fuser *f;
    const Kern *to; /* looked for; NULL: all are visited */
    uint32_t lo;    /* what stands before this place is left out */
    bool found;
} Search;

static void search_kern(Search *s, const Kern *k, bool first);

static void search_dep(Search *s, int32_t number, bool first)
{
    Kern *d = s->f->ks.at[number];
    if (d == s->to)
        s->found |= !first;
    else if (d->order >= s->lo && d->visit != s->f->stamp) {
        d->visit = s->f->stamp;
        search_kern(s, d, false);
    }
}

/* Who writes a stored value: one kernel, or those of a concat's pieces. */
static void search_node(Search *s, uint32_t node, bool first)
{
    const Fuser *f = s->f;
    if (f->owner[node] >= 0) {
        search_dep(s, f->owner[node], first);
        return;
    }
    if (f->kind[node] != NODE_JOINED)
        return;
    for (uint32_t i = 0; i < f->fills.n && !s->found; i++)
        if (f->fills.at[i].concat == node)
            search_dep(s, f->fills.at[i].kern, first);
    const Node *n = fuse_node(f, node);
    for (uint32_t i = 0; i < n->nin && !s->found; i++)
        search_node(s, fuse_piece(f, n->in[i]), first);
}

/* What is looked for, or what stands nearest to it: a search that goes there first takes the short
 * way through deep models. */
static void search_nearest(Search *s, const Kern *k, bool first)
{
    int32_t nearest = -1;
    for (uint32_t i = 0; i < k->reads.n; i++) {
        const int32_t number = s->f->owner[k->reads.at[i].v.node];
        const Kern *d = number >= 0 ? s->f->ks.at[number] : NULL;
        if (!d || (d == s->to && first) || d->order < s->lo || d->visit == s->f->stamp)
            continue;
        if (nearest < 0 || d->order < s->f->ks.at[nearest]->order)
            nearest = number;
    }
    if (nearest >= 0)
        search_dep(s, nearest, first);
}

static void search_kern(Search *s, const Kern *k, bool first)
{
    if (s->to)
        search_nearest(s, k, first);
    for (uint32_t i = 0; i < k->reads.n && !s->found; i++)
        search_node(s, k->reads.at[i].v.node, first);
    if (k->after >= 0 && !s->found)
        search_dep(s, k->after, first);
}

bool fuse_reaches(Fuser *f, Kern *from, Kern *to)
{
    if (to->order > from->order)
        return false;
    Search s = {.f = f, .to = to, .lo = to->order};
    f->stamp++;
    from->visit = f->stamp;
    search_kern(&s, from, true);
    return s.found;
}

/* --- the order -------------------------------------------------------------------------------- */

static void append_behind(Fuser *f, uint32_t number, uint32_t *n);

static void append_node(Fuser *f, uint32_t node, uint32_t *n)
{
    if (f->owner[node] >= 0) {
        append_behind(f, (uint32_t)f->owner[node], n);
        return;
    }
    if (f->kind[node] != NODE_JOINED)
        return;
    for (uint32_t i = 0; i < f->fills.n; i++)
        if (f->fills.at[i].concat == node)
            append_behind(f, (uint32_t)f->fills.at[i].kern, n);
    for (uint32_t i = 0; i < fuse_node(f, node)->nin; i++)
        append_node(f, fuse_piece(f, fuse_node(f, node)->in[i]), n);
}

static void append_behind(Fuser *f, uint32_t number, uint32_t *n)
{
    Kern *k = f->ks.at[number];
    if (k->visit == f->stamp)
        return;
    k->visit = f->stamp;
    for (uint32_t i = 0; i < k->reads.n; i++)
        append_node(f, k->reads.at[i].v.node, n);
    if (k->after >= 0)
        append_behind(f, (uint32_t)k->after, n);
    k->order = *n;
    f->order[(*n)++] = number;
}

void fuse_order(Fuser *f)
{
    uint32_t n = 0;
    f->order = arena_array(f->a, uint32_t, f->ks.n + 1);
    f->stamp++;
    for (uint32_t i = 0; i < f->ks.n; i++)
        append_behind(f, i, &n);
    CHECK(n == f->ks.n);
}

void fuse_order_merge(Fuser *f, const Kern *a, const Kern *b, uint32_t number)
{
    Kern *m = f->ks.at[number];
    const uint32_t lo = a->order < b->order ? a->order : b->order;
    const uint32_t hi = a->order < b->order ? b->order : a->order;
    uint32_t *behind = arena_array(f->a, uint32_t, hi - lo + 1), nbehind = 0, at = lo;
    Search s = {.f = f, .lo = lo};
    m->order = hi;
    f->stamp++;
    m->visit = f->stamp;
    search_kern(&s, m, true);
    for (uint32_t i = lo; i <= hi; i++) {
        const uint32_t x = f->order[i];
        if (x == NOBODY || f->ks.at[x] == a || f->ks.at[x] == b)
            continue;
        if (f->ks.at[x]->visit == f->stamp) {
            f->ks.at[x]->order = at;
            f->order[at++] = x;
        } else {
            behind[nbehind++] = x;
        }
    }
    m->order = at;
    f->order[at++] = number;
    for (uint32_t i = 0; i < nbehind; i++) {
        f->ks.at[behind[i]]->order = at;
        f->order[at++] = behind[i];
    }
    while (at <= hi)
        f->order[at++] = NOBODY;
}
