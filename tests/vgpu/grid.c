/* grid.c: a launch: its blocks, in an order that the seed decides, on threads of the host. Threads
 * and what they run blocks with (registers, shared memory) stay for the next launch.
 * SPDX-License-Identifier: MIT */
#include "tests/vgpu/drv.h"
#include "tests/vgpu/race.h"
#include "tests/vgpu/run.h"

#include <immintrin.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WORKERS_MAX = 64, SLICE = 4096 };
enum { SERIAL_UNKNOWN, SERIAL_NO, SERIAL_YES };
enum { ERROR_LAUNCH = 719, ERROR_HANG = 702, ERROR_MEMORY = 2 };

/* A worker and the block it runs; of a cooperative launch, all blocks. */
typedef struct {
    Worker worker;
    BlockState **blocks;
    size_t nblocks;
} Crew;

static struct {
    pthread_mutex_t turn; /* one launch at a time */
    pthread_mutex_t lock;
    pthread_cond_t work, idle;
    Run *run; /* NULL: nothing to help with */
    uint64_t number;
    int active, started;
    Crew crew[WORKERS_MAX];
} pool = {.turn = PTHREAD_MUTEX_INITIALIZER,
          .lock = PTHREAD_MUTEX_INITIALIZER,
          .work = PTHREAD_COND_INITIALIZER,
          .idle = PTHREAD_COND_INITIALIZER};

void grid_stop(Run *r, int error)
{
    int none = 0;
    __atomic_compare_exchange_n(&r->error, &none, error, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    r->grid->stop = true;
}

void grid_fail(Warp *w, int error)
{
    if (!options()->keep_going)
        grid_stop(w->block->worker->run, error);
}

/* --- blocks ------------------------------------------------------------------------------------
 */

static void *grow(void *old, size_t bytes)
{
    free(old);
    return aligned_alloc(64, (bytes + 127) & ~(size_t)63);
}

static void fill32(Warp *w, uint32_t slot, uint32_t value)
{
    uint32_t *at = (uint32_t *)(w->regs + slot);
    for (int l = 0; l < LANES; l++)
        at[l] = value;
}

static void fill(Warp *w, uint32_t slot, uint8_t width, uint64_t value)
{
    if (width == 4) {
        fill32(w, slot, (uint32_t)value);
        return;
    }
    uint64_t *at = (uint64_t *)(w->regs + slot);
    for (int l = 0; l < LANES; l++)
        at[l] = value;
}

/** The special registers that differ from lane to lane. */
static uint64_t lane_special(const Grid *g, Special which, uint32_t thread, int lane)
{
    uint32_t bit = 1u << lane;
    switch (which) {
    case SPECIAL_TID_X:
        return thread % g->block[0];
    case SPECIAL_TID_Y:
        return thread / g->block[0] % g->block[1];
    case SPECIAL_TID_Z:
        return thread / g->block[0] / g->block[1];
    case SPECIAL_LANEID:
        return (uint32_t)lane;
    case SPECIAL_LANEMASK_LT:
        return bit - 1;
    case SPECIAL_LANEMASK_LE:
        return bit | (bit - 1);
    case SPECIAL_LANEMASK_EQ:
        return bit;
    case SPECIAL_LANEMASK_GT:
        return ~(bit | (bit - 1));
    default:
        return ~(bit - 1); /* SPECIAL_LANEMASK_GE */
    }
}

static bool differs_by_lane(Special which)
{
    return which <= SPECIAL_TID_Z || which == SPECIAL_LANEID ||
           (which >= SPECIAL_LANEMASK_LT && which <= SPECIAL_LANEMASK_GE);
}

static bool differs_by_block(Special which)
{
    return (which >= SPECIAL_CTAID_X && which <= SPECIAL_CTAID_Z) || which == SPECIAL_SMID;
}

static uint64_t special(const Warp *w, Special which)
{
    const Block *b = w->block;
    const Grid *g = b->grid;
    switch (which) {
    case SPECIAL_NTID_X:
    case SPECIAL_NTID_Y:
    case SPECIAL_NTID_Z:
        return g->block[which - SPECIAL_NTID_X];
    case SPECIAL_CTAID_X:
    case SPECIAL_CTAID_Y:
    case SPECIAL_CTAID_Z:
        return b->index[which - SPECIAL_CTAID_X];
    case SPECIAL_NCTAID_X:
    case SPECIAL_NCTAID_Y:
    case SPECIAL_NCTAID_Z:
        return g->grid[which - SPECIAL_NCTAID_X];
    case SPECIAL_WARPID:
        return (uint32_t)w->id;
    case SPECIAL_NWARPID:
        return (uint32_t)b->nwarps;
    case SPECIAL_SMID:
        return b->number % (uint64_t)device_model()->processors;
    case SPECIAL_NSMID:
        return (uint64_t)device_model()->processors;
    case SPECIAL_GRIDID:
        return g->op;
    case SPECIAL_DYNAMIC_SMEM:
        return g->dynamic_shared;
    case SPECIAL_TOTAL_SMEM:
        return b->shared_bytes;
    case SPECIAL_EXTERN_SHARED:
        return g->function->shared_bytes;
    default:
        return w->executed;
    }
}

static void fill_special(Warp *w, const struct SpecialSlot *s)
{
    Special which = (Special)s->which;
    if (!differs_by_lane(which)) {
        fill(w, s->slot, s->width, special(w, which));
        return;
    }
    for (int l = 0; l < LANES; l++) {
        uint64_t value = lane_special(w->block->grid, which, (uint32_t)(w->id * LANES + l), l);
        if (s->width == 4)
            ((uint32_t *)(w->regs + s->slot))[l] = (uint32_t)value;
        else
            ((uint64_t *)(w->regs + s->slot))[l] = value;
    }
}

/** What stays the same for all blocks that this warp will run in a launch. */
static bool warp_prepare(Warp *w, const Grid *g)
{
    const Function *f = g->function;
    WarpState *s = w->state;
    if (f->reg_bytes > s->reg_room || !w->regs) {
        w->regs = grow(w->regs, f->reg_bytes);
        s->reg_room = f->reg_bytes;
    }
    if ((uint32_t)f->npreds > s->pred_room || !w->preds) {
        w->preds = grow(w->preds, (size_t)f->npreds * 4);
        s->pred_room = (uint32_t)f->npreds;
    }
    w->local_bytes = (f->local_bytes + 15) & ~15u;
    if (w->local_bytes > s->local_room) {
        w->local = grow(w->local, (size_t)w->local_bytes * LANES * 2);
        s->local_room = w->local_bytes;
    }
    if (!w->regs || !w->preds || (w->local_bytes && !w->local))
        return false;
    memset(w->regs, 0x5a, f->reg_bytes);
    memset(w->preds, 0, (size_t)f->npreds * 4);
    for (int k = 0; k < f->nconstants; k++)
        fill(w, f->constants[k].slot, f->constants[k].width, f->constants[k].value);
    for (int k = 0; k < f->nspecials; k++)
        fill_special(w, &f->specials[k]);
    uint32_t threads = g->block[0] * g->block[1] * g->block[2];
    uint32_t rest = threads - (uint32_t)w->id * LANES;
    w->existing = rest >= LANES ? ALL_LANES : (1u << rest) - 1;
    return true;
}

static void warp_begin(Warp *w)
{
    WarpState *s = w->state;
    const Function *f = w->block->grid->function;
    for (int k = 0; k < f->nspecials; k++) {
        if (differs_by_block((Special)f->specials[k].which))
            fill_special(w, &f->specials[k]);
    }
    if (w->local_bytes) {
        size_t n = (size_t)w->local_bytes * LANES;
        memset(w->local, 0xff, n);
        memset(w->local + n, 0, n);
    }
    w->live = w->existing;
    w->executed = w->lane_executed = 0;
    s->npaths = 1;
    s->path[0] = (Path){.pc = 0, .mask = w->live};
    s->phase = WARP_READY;
    s->released = false;
    s->ncopies = 0;
    memset(s->groups, 0, sizeof s->groups);
}

static bool block_prepare(BlockState *state, Run *r, Worker *worker)
{
    Block *b = &state->block;
    Grid *g = r->grid;
    uint32_t threads = g->block[0] * g->block[1] * g->block[2];
    b->grid = g;
    b->worker = worker;
    b->counters = &worker->counters;
    b->nwarps = (int)((threads + LANES - 1) / LANES);
    b->shared_bytes = g->function->shared_bytes + g->dynamic_shared;
    if (!b->warps) {
        b->warps = calloc(MAX_WARPS, sizeof *b->warps);
        WarpState *states = calloc(MAX_WARPS, sizeof *states);
        if (!b->warps || !states) {
            free(states);
            return false;
        }
        for (int k = 0; k < MAX_WARPS; k++)
            b->warps[k] = (Warp){.block = b, .id = k, .state = &states[k]};
    }
    if (!shared_prepare(b))
        return false;
    for (int k = 0; k < b->nwarps; k++) {
        if (!warp_prepare(&b->warps[k], g))
            return false;
    }
    return true;
}

static void block_begin(BlockState *state, uint64_t number)
{
    Block *b = &state->block;
    const Grid *g = b->grid;
    b->number = number;
    b->index[0] = (uint32_t)(number % g->grid[0]);
    b->index[1] = (uint32_t)(number / g->grid[0] % g->grid[1]);
    b->index[2] = (uint32_t)(number / g->grid[0] / g->grid[1]);
    memset(state->barrier, 0, sizeof state->barrier);
    state->done = false;
    state->executed = 0;
    state->random = options()->seed * 0x9e3779b97f4a7c15u + ((uint64_t)g->op << 32) + number + 1;
    for (int k = 0; k < b->nwarps; k++)
        warp_begin(&b->warps[k]);
    shared_begin(b);
    blocks_begin(b);
    b->counters->blocks++;
}

static void block_free(BlockState *state)
{
    Block *b = &state->block;
    for (int k = 0; b->warps && k < MAX_WARPS; k++) {
        free(b->warps[k].regs);
        free(b->warps[k].preds);
        free(b->warps[k].local);
        free(b->warps[k].state->copies);
    }
    if (b->warps)
        free(b->warps[0].state);
    free(b->warps);
    shared_free(b);
    blocks_free(b);
    free(state);
}

/* --- workers -----------------------------------------------------------------------------------
 */

static BlockState *crew_block(Crew *c, size_t k)
{
    if (k >= c->nblocks) {
        BlockState **blocks = realloc(c->blocks, (k + 1) * sizeof *blocks);
        if (!blocks)
            return NULL;
        c->blocks = blocks;
        while (c->nblocks <= k)
            c->blocks[c->nblocks++] = NULL;
    }
    if (!c->blocks[k])
        c->blocks[k] = calloc(1, sizeof *c->blocks[k]);
    return c->blocks[k];
}

/** Room for what is kept for each instruction; nothing is known of them yet. */
static bool sites_prepare(Worker *w, const Function *f)
{
    size_t n = (size_t)f->ncode;
    if (n > w->nsites) {
        Site *sites = realloc(w->sites, n * sizeof *sites);
        if (!sites)
            return false;
        memset(sites + w->nsites, 0, (n - w->nsites) * sizeof *sites);
        w->sites = sites;
        w->nsites = n;
    }
    for (size_t k = 0; k < n; k++)
        w->sites[k].alloc = NULL;
    return true;
}

static uint64_t block_number(const Run *r, uint64_t k)
{
    return (r->first + k * r->stride) % r->nblocks;
}

/** Whether the launch has used up its budget; says so. */
static bool is_hung(Block *b, uint64_t executed)
{
    if (!options()->budget || executed <= options()->budget)
        return false;
    Warp *w = &b->warps[0];
    for (int k = 0; k < b->nwarps; k++) {
        if (b->warps[k].state->phase == WARP_READY)
            w = &b->warps[k];
    }
    const Inst *i = &b->grid->function->code[w->state->path[0].pc];
    finding_kernel(FINDING_HANG, w, i, __builtin_ctz(w->live | 1u << 31), 0,
                   "the launch has run %llu warp instructions and goes on: taken for hung",
                   (unsigned long long)executed);
    grid_stop(b->worker->run, ERROR_HANG);
    return true;
}

static void run_block(Crew *c, Run *r, uint64_t number)
{
    BlockState *state = c->blocks[0];
    Block *b = &state->block;
    block_begin(state, number);
    for (;;) {
        BlockStep step = block_step(b, SLICE);
        if (step == BLOCK_DONE)
            break;
        if (step == BLOCK_STUCK) {
            block_report_deadlock(b);
            grid_stop(r, ERROR_LAUNCH);
            break;
        }
        if (is_hung(b, c->worker.executed + state->executed))
            break;
    }
    c->worker.executed += state->executed;
}

static bool crew_prepare(Crew *c, Run *r, size_t nblocks)
{
    memset(&c->worker.counters, 0, sizeof c->worker.counters);
    c->worker.run = r;
    c->worker.executed = 0;
    bool good = sites_prepare(&c->worker, r->grid->function);
    for (size_t k = 0; good && k < nblocks; k++) {
        BlockState *state = crew_block(c, k);
        good = state && block_prepare(state, r, &c->worker);
    }
    if (!good)
        grid_stop(r, ERROR_MEMORY);
    return good;
}

static void run_blocks(Crew *c, Run *r)
{
    if (!crew_prepare(c, r, 1))
        return;
    while (!r->grid->stop) {
        uint64_t k = __atomic_fetch_add(&r->next, 1, __ATOMIC_RELAXED);
        if (k >= r->nblocks)
            break;
        run_block(c, r, block_number(r, k));
    }
}

/** A cooperative launch: all blocks at once, in turns. */
static void run_together(Crew *c, Run *r)
{
    size_t n = (size_t)r->nblocks, left = n;
    if (!crew_prepare(c, r, n))
        return;
    for (size_t k = 0; k < n; k++)
        block_begin(c->blocks[k], block_number(r, k));
    while (left && !r->grid->stop) {
        bool moved = false;
        uint64_t executed = 0;
        for (size_t k = 0; k < n && !r->grid->stop; k++) {
            BlockState *b = c->blocks[k];
            BlockStep step = b->done ? BLOCK_STUCK : block_step(&b->block, SLICE);
            executed += b->executed;
            moved |= step != BLOCK_STUCK;
            if (step == BLOCK_DONE) {
                b->done = true;
                left--;
            }
        }
        for (size_t k = 0; k < n && !moved && left; k++) {
            if (!c->blocks[k]->done) {
                block_report_deadlock(&c->blocks[k]->block);
                grid_stop(r, ERROR_LAUNCH);
                break;
            }
        }
        if (left)
            is_hung(&c->blocks[0]->block, executed);
    }
    /* Room for one block stays. */
    while (c->nblocks > 1)
        block_free(c->blocks[--c->nblocks]);
}

static void add_counters(Grid *g, const Counters *c)
{
    counters_add(g->function, c);
    g->warp_insts += c->warp_insts;
    g->lane_insts += c->lane_insts;
    uint64_t sum[sizeof *c / sizeof(uint64_t)], more[sizeof sum / sizeof *sum];
    if (!g->counters)
        return;
    memcpy(sum, g->counters, sizeof sum);
    memcpy(more, c, sizeof more);
    for (size_t k = 0; k < sizeof sum / sizeof *sum; k++)
        sum[k] += more[k];
    memcpy(g->counters, sum, sizeof sum);
}

static void *helper(void *with)
{
    Crew *c = with;
    uint64_t seen = 0;
    pthread_mutex_lock(&pool.lock);
    for (;;) {
        while (!pool.run || pool.number == seen)
            pthread_cond_wait(&pool.work, &pool.lock);
        seen = pool.number;
        Run *r = pool.run;
        pool.active++;
        pthread_mutex_unlock(&pool.lock);
        run_blocks(c, r);
        pthread_mutex_lock(&pool.lock);
        add_counters(r->grid, &c->worker.counters);
        if (--pool.active == 0)
            pthread_cond_signal(&pool.idle);
    }
    return NULL;
}

/** Whether blocks influence each other by atomics or fences: they then run one after another, so
 * that each run gives the same result. */
static bool is_serial(Function *f)
{
    if (f->serial == SERIAL_UNKNOWN) {
        f->serial = SERIAL_NO;
        for (int k = 0; k < f->ncode; k++) {
            if (blocks_may_meet(&f->code[k]))
                f->serial = SERIAL_YES;
        }
    }
    return f->serial == SERIAL_YES;
}

static void start_helpers(int wanted)
{
    if (wanted > WORKERS_MAX)
        wanted = WORKERS_MAX;
    if (pool.started >= wanted - 1)
        return;
    sigset_t all, before; /* signals are the program's: its own threads take them */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (pool.started < wanted - 1) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, helper, &pool.crew[pool.started + 1]))
            break;
        pthread_detach(thread);
        pool.started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void run_with_helpers(Run *r)
{
    start_helpers(options()->threads);
    pthread_mutex_lock(&pool.lock);
    pool.run = r;
    pool.number++;
    for (int k = 0; k < pool.started && (uint64_t)k + 1 < r->nblocks; k++)
        pthread_cond_signal(&pool.work);
    pthread_mutex_unlock(&pool.lock);
    run_blocks(&pool.crew[0], r);
    pthread_mutex_lock(&pool.lock);
    pool.run = NULL;
    while (pool.active)
        pthread_cond_wait(&pool.idle, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/** All blocks in an order that the seed decides. */
static void choose_order(Run *r)
{
    uint64_t random = options()->seed * 0xd1342543de82ef95u + r->grid->op + 1;
    r->first = random_next(&random) % r->nblocks;
    r->stride = random_next(&random) % r->nblocks | 1;
    while (common_divisor(r->stride, r->nblocks) != 1)
        r->stride++;
}

static uint64_t nanoseconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

bool grid_run(Grid *g, int *error)
{
    const Options *o = options();
    Run r = {.grid = g,
             .nblocks = (uint64_t)g->grid[0] * g->grid[1] * g->grid[2],
             .uninit = o->uninit,
             .race = o->race,
             .order = o->order,
             .blocks = o->blocks};
    pthread_mutex_lock(&pool.turn);
    uint64_t begin = nanoseconds(CLOCK_MONOTONIC), cpu = nanoseconds(CLOCK_PROCESS_CPUTIME_ID);
    g->stop = false;
    choose_order(&r);
    blocks_launch(&r);
    uint32_t mode = _mm_getcsr(); /* the program's */
    _mm_setcsr(MXCSR_NEAREST);
    Crew *first = &pool.crew[0];
    if (g->cooperative)
        run_together(first, &r);
    else if (options()->threads > 1 && r.nblocks > 1 && !is_serial(g->function))
        run_with_helpers(&r);
    else
        run_blocks(first, &r);
    _mm_setcsr(mode);
    blocks_end(&r);
    first->worker.counters.launches = 1;
    first->worker.counters.ns = nanoseconds(CLOCK_MONOTONIC) - begin;
    first->worker.counters.cpu_ns = nanoseconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    add_counters(g, &first->worker.counters);
    pthread_mutex_unlock(&pool.turn);
    *error = r.error;
    return r.error == 0;
}
