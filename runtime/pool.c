/* pool.c: a persistent thread pool. A kernel of a training step takes some 20 microseconds, so a
 * launch must cost much less: idle threads look for work in a short loop before they sleep, and
 * nobody waits for a thread that has not woken up in time: work is open, threads that see it join,
 * and when the caller finds no cell left it closes the work and waits only for those that joined.
 *
 * Cells are divided into one share for each thread, the same in every run, so that neighbouring
 * kernels find data in the same cache; who is done with his own share helps with the next ones.
 * SPDX-License-Identifier: MIT */
#include "runtime/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
    LINE = 64,       /* bytes of a cache line */
    SPIN_NS = 40000, /* looking for work before sleep */
    MAX_THREADS = 1024
};

/* The state word: an even counter of works in the upper half, then whether the current one is open,
 * and the number of threads that have joined it. */
#define OPEN       UINT64_C(0x80000000)
#define JOINED     UINT64_C(0x7fffffff)
#define LARGE_PAGE ((size_t)2 << 20) /* bytes of a large page */
#define ROUND      UINT64_C(0x100000000)

typedef struct {
    _Alignas(LINE) atomic_int_least64_t next; /* first cell of this share that nobody took */
    int64_t end;
} Share;

typedef struct {
    tn__pool *pool;
    int index;
    pthread_t thread;
} Worker;

/* In front of the memory that is handed out. */
typedef struct {
    _Alignas(LINE) size_t bytes;
} Kept;

struct tn__pool {
    _Alignas(LINE) atomic_uint_least64_t state;
    _Alignas(LINE) atomic_int sleepers;
    atomic_bool quit;
    /* the current work; written only while it is closed and nobody has joined */
    tn__pool_fn *fn;
    void *ctx;
    int64_t grain;
    int threads;
    Share *shares;
    Worker *workers; /* threads - 1 */
    pthread_mutex_t busy;
    pthread_mutex_t lock; /* sleep and wake */
    pthread_cond_t work, idle;
    atomic_bool waiting;  /* the caller sleeps until nobody is joined */
    _Atomic(Kept *) kept; /* memory that nobody uses */
};

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void take_cells(tn__pool *p, int index)
{
    for (int i = 0; i < p->threads; i++) {
        Share *s = &p->shares[(index + i) % p->threads];
        for (;;) {
            const int64_t lo = atomic_fetch_add_explicit(&s->next, p->grain, memory_order_relaxed);
            if (lo >= s->end)
                break;
            p->fn(p->ctx, lo, lo + p->grain < s->end ? lo + p->grain : s->end);
        }
    }
}

/* Joins the open work if there is one; its round is then in *seen. */
static bool join(tn__pool *p, uint64_t *seen)
{
    uint64_t s = atomic_load(&p->state);
    while ((s & OPEN) && s / ROUND != *seen)
        if (atomic_compare_exchange_weak(&p->state, &s, s + 1)) {
            *seen = s / ROUND;
            return true;
        }
    return false;
}

static void leave(tn__pool *p)
{
    const uint64_t before = atomic_fetch_sub(&p->state, 1);
    if ((before & JOINED) == 1 && !(before & OPEN) && atomic_load(&p->waiting)) {
        pthread_mutex_lock(&p->lock);
        pthread_cond_signal(&p->idle);
        pthread_mutex_unlock(&p->lock);
    }
}

static bool is_news(tn__pool *p, uint64_t seen)
{
    const uint64_t s = atomic_load(&p->state);
    return ((s & OPEN) && s / ROUND != seen) || atomic_load(&p->quit);
}

static void wait_for_work(tn__pool *p, uint64_t seen)
{
    const int64_t until = now_ns() + SPIN_NS;
    do
        for (int i = 0; i < 32; i++) {
            if (is_news(p, seen))
                return;
            relax();
        }
    while (now_ns() < until);
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->sleepers, 1); /* before the check: see wake */
    while (!is_news(p, seen))
        pthread_cond_wait(&p->work, &p->lock);
    atomic_fetch_sub(&p->sleepers, 1);
    pthread_mutex_unlock(&p->lock);
}

static void *worker_main(void *arg)
{
    Worker *w = arg;
    tn__pool *p = w->pool;
    uint64_t seen = 0;
    while (!atomic_load(&p->quit)) {
        if (join(p, &seen)) {
            take_cells(p, w->index);
            leave(p);
        }
        wait_for_work(p, seen);
    }
    return NULL;
}

/* A worker counts itself as a sleeper before it looks for news; news come before this look for
 * sleepers: one of the two sees the other. */
static void wake(tn__pool *p)
{
    if (!atomic_load(&p->sleepers))
        return;
    pthread_mutex_lock(&p->lock);
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
}

static void wait_until_left(tn__pool *p)
{
    const int64_t until = now_ns() + SPIN_NS;
    do
        for (int i = 0; i < 32; i++) {
            if (!(atomic_load(&p->state) & JOINED))
                return;
            relax();
        }
    while (now_ns() < until);
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->waiting, true);
    while (atomic_load(&p->state) & JOINED)
        pthread_cond_wait(&p->idle, &p->lock);
    atomic_store(&p->waiting, false);
    pthread_mutex_unlock(&p->lock);
}

void tn__pool_run(tn__pool *p, tn__pool_fn *fn, void *ctx, int64_t cells, int64_t grain)
{
    if (cells <= 0)
        return;
    grain = grain < 1 ? 1 : grain;
    if (!p || p->threads == 1 || cells <= grain || pthread_mutex_trylock(&p->busy)) {
        fn(ctx, 0, cells);
        return;
    }
    p->fn = fn;
    p->ctx = ctx;
    p->grain = grain;
    const int64_t each = cells / p->threads, more = cells % p->threads;
    for (int i = 0; i < p->threads; i++) {
        atomic_store_explicit(&p->shares[i].next, each * i + (i < more ? i : more),
                              memory_order_relaxed);
        p->shares[i].end = each * (i + 1) + (i + 1 < more ? i + 1 : more);
    }
    const uint64_t round = (atomic_load(&p->state) / ROUND + 1) * ROUND;
    atomic_store(&p->state, round | OPEN);
    wake(p);
    take_cells(p, 0);
    atomic_fetch_and(&p->state, ~OPEN);
    wait_until_left(p);
    pthread_mutex_unlock(&p->busy);
}

static int online_processors(void)
{
#ifdef CPU_COUNT
    cpu_set_t set;
    if (!sched_getaffinity(0, sizeof set, &set))
        return CPU_COUNT(&set);
#endif
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

static void stop(tn__pool *p, int started)
{
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->quit, true);
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < started; i++)
        pthread_join(p->workers[i].thread, NULL);
    free(atomic_load(&p->kept));
    pthread_cond_destroy(&p->idle);
    pthread_cond_destroy(&p->work);
    pthread_mutex_destroy(&p->lock);
    pthread_mutex_destroy(&p->busy);
    free(p->workers);
    free(p->shares);
    free(p);
}

tn__pool *tn__pool_create(int threads)
{
    threads = threads > 0 ? threads : online_processors();
    threads = threads < MAX_THREADS ? threads : MAX_THREADS;
    tn__pool *p = aligned_alloc(LINE, (sizeof *p + LINE - 1) / LINE * LINE);
    if (!p)
        return NULL;
    *p = (tn__pool){.threads = threads};
    p->shares = aligned_alloc(LINE, (size_t)threads * sizeof *p->shares);
    p->workers = calloc((size_t)threads, sizeof *p->workers);
    if (!p->shares || !p->workers) {
        free(p->shares);
        free(p->workers);
        free(p);
        return NULL;
    }
    for (int i = 0; i < threads; i++)
        atomic_init(&p->shares[i].next, 0);
    atomic_init(&p->kept, NULL);
    atomic_init(&p->state, 0);
    atomic_init(&p->sleepers, 0);
    atomic_init(&p->quit, false);
    atomic_init(&p->waiting, false);
    pthread_mutex_init(&p->busy, NULL);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work, NULL);
    pthread_cond_init(&p->idle, NULL);
    for (int i = 0; i < threads - 1; i++) {
        p->workers[i] = (Worker){.pool = p, .index = i + 1};
        if (pthread_create(&p->workers[i].thread, NULL, worker_main, &p->workers[i])) {
            stop(p, i);
            return NULL;
        }
    }
    return p;
}

void tn__pool_destroy(tn__pool *p)
{
    if (p)
        stop(p, p->threads - 1);
}

int tn__pool_threads(const tn__pool *p)
{
    return p ? p->threads : 1;
}

void *tn__pool_take(tn__pool *p, size_t bytes)
{
    Kept *k = p ? atomic_exchange(&p->kept, NULL) : NULL;
    if (!k || k->bytes < bytes) {
        free(k);
        if (bytes > PTRDIFF_MAX)
            return NULL;
        const size_t unit = bytes < LARGE_PAGE ? (size_t)LINE : LARGE_PAGE; /* of size and place */
        const size_t whole = (bytes + LINE + unit - 1) / unit * unit;
        k = aligned_alloc(unit, whole);
        if (!k)
            return NULL;
#ifdef MADV_HUGEPAGE
        if (unit == LARGE_PAGE)
            (void)madvise(k, whole, MADV_HUGEPAGE); /* large strides meet few pages */
#endif
        k->bytes = bytes;
    }
    return k + 1;
}

void tn__pool_give(tn__pool *p, void *memory)
{
    Kept *k = memory ? (Kept *)memory - 1 : NULL;
    free(p ? atomic_exchange(&p->kept, k) : k);
}
