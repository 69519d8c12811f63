/* cuda_graph.c: the steps of a plan as a graph that one call of the driver launches. It is built
 * from the steps: kernels of ours are nodes that stay known, so that a later call with other memory
 * changes their pointers; what a library or the driver does itself (products, copies, fills) is
 * captured from a stream into a graph of its own, and becomes a node as a whole.
 *
 * A call of the same plan walks over its steps once more, without doing them, and compares what it
 * would do with what the graph does. Pointers of kernels are changed in place. If anything else
 * differs, or the stream, the call does its steps one by one. SPDX-License-Identifier: MIT */
#include "runtime/cuda.h"

#include <stdlib.h>
#include <string.h>

enum {
    CALLS_BEFORE = 2,  /* calls of a plan that are done step by step: they warm up what is reused */
    FEW_STEPS = 4,     /* fewer are as fast one by one */
    MOST_NODES = 8192, /* of a graph */
    MOST_GRAPHS = 64,  /* of a device */
    MOST_MISSES = 8    /* calls that a graph did not fit; then it is given up */
};

typedef struct {
    CUgraphNode node;   /* of a kernel; NULL: part of a captured node */
    int step, first, n; /* words[first ..] are what it works on */
} Entry;

struct tn__recorder {
    tn__gpu *g;
    tn_stream stream; /* what the steps are given in place of the call's */
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode last; /* the node that the next one follows */
    bool capturing, checking, differs;
    bool inside; /* a library's work: what it does is part of it */
    Entry *entries;
    int nentries, room, next; /* next: the one that a check compares */
    uint64_t *words;
    int nwords, words_room;
    void **kept; /* memory that captured work uses */
    int nkept, kept_room;
    void **places;  /* of the plan's buffers, while its steps are walked over */
    uint64_t owner; /* id of the stream that the graph runs on */
    int misses;
};

static bool grow(void **at, int *room, int need, size_t size)
{
    if (need <= *room)
        return true;
    const int n = need > 2 * *room ? need : 2 * *room;
    void *p = realloc(*at, (size_t)n * size);
    if (!p)
        return false;
    *at = p;
    *room = n;
    return true;
}

static void give_up(tn__recorder *r)
{
    r->differs = true;
}

/* --- recording -----------------------------------------------------------------------------------
 */

static bool add_entry(tn__recorder *r, const uint64_t *words, int n, int step)
{
    void *entries = r->entries, *all = r->words;
    const bool room = r->nentries < MOST_NODES &&
                      grow(&entries, &r->room, r->nentries + 1, sizeof *r->entries) &&
                      grow(&all, &r->words_room, r->nwords + n, sizeof *r->words);
    r->entries = entries;
    r->words = all;
    if (!room) {
        give_up(r);
        return false;
    }
    r->entries[r->nentries++] = (Entry){.step = step, .first = r->nwords, .n = n};
    memcpy(r->words + r->nwords, words, (size_t)n * sizeof *words);
    r->nwords += n;
    return true;
}

static CUresult add_node(tn__recorder *r, CUgraph child, const tn__kernel_node *kernel)
{
    const tn__graphs *cu = &r->g->cuda->graphs;
    CUgraphNode node = NULL;
    const CUresult s = child ? cu->add_child(&node, r->graph, &r->last, r->last ? 1 : 0, child)
                             : cu->add_kernel(&node, r->graph, &r->last, r->last ? 1 : 0, kernel);
    if (!s)
        r->last = node;
    return s;
}

static void end_capture(tn__recorder *r)
{
    CUgraph child = NULL;
    if (!r->capturing)
        return;
    r->capturing = false;
    CUresult s = r->g->cuda->graphs.end_capture(r->stream.native, &child);
    if (!s && child && !r->differs)
        s = add_node(r, child, NULL);
    if (child)
        r->g->cuda->graphs.destroy(child);
    if (s)
        give_up(r);
}

static void begin_capture(tn__recorder *r)
{
    enum { RELAXED = 2 }; /* memory may be allocated meanwhile */
    if (r->capturing || r->differs)
        return;
    if (r->g->cuda->graphs.begin_capture(r->stream.native, RELAXED))
        give_up(r);
    else
        r->capturing = true;
}

static const Entry *next_entry(tn__recorder *r, int n, int step)
{
    const Entry *e = r->next < r->nentries ? &r->entries[r->next++] : NULL;
    if (e && e->n == n && e->step == step)
        return e;
    give_up(r);
    return NULL;
}

bool tn__record_other(tn_stream *s, const uint64_t *words, int n)
{
    tn__recorder *r = s->recorder;
    if (!r || r->differs)
        return r != NULL;
    if (r->inside)
        return false;
    if (!r->checking) {
        begin_capture(r);
        return !add_entry(r, words, n, -1) || r->differs;
    }
    const Entry *e = next_entry(r, n, -1);
    if (e && (e->node || memcmp(r->words + e->first, words, (size_t)n * sizeof *words)))
        give_up(r);
    return true;
}

bool tn__record_launch(tn_stream *s, int step, const uint64_t *pointers, int n,
                       const tn__kernel_node *kernel)
{
    tn__recorder *r = s->recorder;
    if (!r || r->differs)
        return r != NULL;
    if (!r->checking) {
        end_capture(r);
        if (r->differs || !add_entry(r, pointers, n, step))
            return true;
        if (add_node(r, NULL, kernel))
            give_up(r);
        else
            r->entries[r->nentries - 1].node = r->last;
        return true;
    }
    const Entry *e = next_entry(r, n, step);
    if (!e || !memcmp(r->words + e->first, pointers, (size_t)n * sizeof *pointers))
        return true;
    memcpy(r->words + e->first, pointers, (size_t)n * sizeof *pointers);
    if (!e->node || r->g->cuda->graphs.set_kernel(r->exec, e->node, kernel))
        give_up(r);
    return true;
}

void tn__record_inside(tn_stream *s, bool inside)
{
    if (s->recorder)
        s->recorder->inside = inside;
}

void tn__record_memory(tn_stream *s, void *p)
{
    tn__recorder *r = s->recorder;
    void *kept = r ? r->kept : NULL;
    if (!r || r->checking)
        return;
    if (!grow(&kept, &r->kept_room, r->nkept + 1, sizeof *r->kept)) {
        give_up(r);
        return;
    }
    r->kept = kept;
    r->kept[r->nkept++] = p;
}

bool tn__record_keeps(const tn__gpu *g, const void *p)
{
    const tn__recorder *r = g->recording;
    for (int i = 0; r && p && i < r->nkept; i++)
        if (r->kept[i] == p)
            return true;
    return false;
}

/* --- walking over steps --------------------------------------------------------------------------
 */

/* The steps with another stream in place of the call's: recorded, or compared. Places come back as
 * they were: steps may exchange some. */
static void walk(Call *c, tn__recorder *r)
{
    tn_stream *s = c->stream;
    void *native = r->checking ? s->native : r->g->capture;
    const size_t bytes = ((size_t)c->p->nbuffers + 1) * sizeof *c->at;
    pthread_mutex_lock(&s->lock); /* its library is ours meanwhile */
    r->stream = *s;
    pthread_mutex_init(&r->stream.lock, NULL);
    r->stream.recorder = r;
    r->stream.native = native;
    tn_status e = r->checking ? TN_OK : tn__gpu_blas_stream(s, native);
    memcpy(r->places, c->at, bytes);
    c->stream = &r->stream;
    r->next = 0;
    r->differs = r->inside = false;
    if (!e)
        e = tn__run_steps(c, 0, c->p->nsteps);
    if (e)
        give_up(r);
    end_capture(r);
    c->stream = s;
    memcpy(c->at, r->places, bytes);
    if (!r->checking && tn__gpu_blas_stream(s, s->native))
        give_up(r);
    pthread_mutex_destroy(&r->stream.lock);
    pthread_mutex_unlock(&s->lock);
}

/* --- a graph's life ------------------------------------------------------------------------------
 */

static void forget(void *graph)
{
    tn__recorder *r = graph;
    tn__gpu *g = r->g;
    const tn__graphs *cu = &g->cuda->graphs;
    g->base.ops->enter(&g->base);
    if (r->exec)
        cu->destroy_exec(r->exec);
    if (r->graph)
        cu->destroy(r->graph);
    for (int i = 0; i < r->nkept; i++)
        tn__gpu_free(&g->base, r->kept[i], r->owner);
    g->base.ops->leave(&g->base);
    pthread_mutex_lock(&g->lock);
    g->ngraphs--;
    pthread_mutex_unlock(&g->lock);
    free(r->entries);
    free(r->words);
    free(r->kept);
    free(r->places);
    free(r);
}

/* One instance records at a time; false: not now. */
static bool begin_recording(tn__gpu *g, tn__recorder *r)
{
    pthread_mutex_lock(&g->lock);
    bool free_now = !g->recording && g->ngraphs < MOST_GRAPHS;
    if (free_now && !g->capture) {
        CUstream s = NULL;
        free_now = !g->cu->stream_create(&s, CU_STREAM_NON_BLOCKING);
        g->capture = s;
    }
    if (free_now) {
        g->recording = r;
        g->ngraphs++;
    }
    pthread_mutex_unlock(&g->lock);
    return free_now;
}

static void end_recording(tn__gpu *g)
{
    pthread_mutex_lock(&g->lock);
    g->recording = NULL;
    pthread_mutex_unlock(&g->lock);
}

/* NULL: not now, or not at all (then the plan knows). */
static tn__recorder *record(Call *c)
{
    tn__gpu *g = tn__gpu_of(c->m->dev);
    const tn__graphs *cu = &g->cuda->graphs;
    tn__recorder *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->g = g;
    r->owner = c->stream->id;
    r->places = calloc((size_t)c->p->nbuffers + 1, sizeof *r->places);
    if (!r->places || !begin_recording(g, r)) {
        free(r->places);
        free(r);
        return NULL;
    }
    if (cu->create(&r->graph, 0))
        give_up(r);
    else
        walk(c, r);
    end_recording(g);
    if (!r->differs && cu->instantiate(&r->exec, r->graph, 0))
        give_up(r);
    if (!r->differs)
        return r;
    c->plan->no_graph = true;
    forget(r);
    return NULL;
}

static bool worth_it(const Call *c)
{
    int work = 0;
    for (int i = 0; i < c->p->nsteps; i++) {
        const int kind = c->p->steps[i].kind;
        if (kind == TN_STEP_PRINT || (kind == TN_STEP_GEMM && !c->stream->library))
            return false; /* the library is opened by a call without a graph */
        work += c->plan->active[i] && (kind == TN_STEP_LAUNCH || kind == TN_STEP_GEMM);
    }
    return work >= FEW_STEPS;
}

/* Whether the plan has a graph that does what this call's steps would do. */
static bool has_graph(Call *c)
{
    tn__plan *plan = c->plan;
    tn__recorder *r = plan->graph;
    if (!r && plan->calls > CALLS_BEFORE && worth_it(c)) {
        plan->graph = record(c);
        plan->forget = forget;
        return plan->graph != NULL;
    }
    if (!r || r->owner != c->stream->id)
        return false;
    r->checking = true;
    walk(c, r);
    if (!r->differs && r->next == r->nentries)
        return true;
    if (++r->misses >= MOST_MISSES) {
        forget(r);
        plan->graph = NULL;
        plan->no_graph = true;
    }
    return false;
}

tn_status tn__gpu_run(Call *c)
{
    tn__gpu *g = tn__gpu_of(c->m->dev);
    tn__plan *plan = c->plan;
    plan->calls += plan->calls <= CALLS_BEFORE;
    if (!g->cuda->graphs.launch || g->blocking || plan->no_graph || !has_graph(c))
        return tn__run_steps(c, 0, c->p->nsteps);
    const tn__recorder *r = plan->graph;
    return tn__cu(g, g->cuda->graphs.launch(r->exec, c->stream->native), "the steps of a call");
}
