/* sched.c: runs the instructions of a block's warps. A warp whose lanes went different ways is a
 * set of paths (instruction, lanes); the one at the lowest instruction runs first, and paths that
 * meet where a basic block begins become one. That needs no analysis of the program and brings
 * lanes together wherever the compiler laid the common code behind the branches, as NVRTC does.
 * SPDX-License-Identifier: MIT */
#include "tests/vgpu/race.h"
#include "tests/vgpu/run.h"

#include <immintrin.h>
#include <string.h>

static inline uint32_t guarded(const Warp *w, const Inst *i, uint32_t lanes)
{
    return i->guard == NO_GUARD ? lanes
                                : lanes & (w->preds[i->guard] ^ (i->guard_not ? ALL_LANES : 0));
}

/** Puts the path that runs next first: the lowest that does not wait. When all wait for lanes that
 * cannot come any more, says so and lets the first go on. False: the warp has ended. */
static bool pick_path(Warp *w, bool *forced)
{
    WarpState *s = w->state;
    *forced = false;
    if (!s->npaths) {
        s->phase = WARP_DONE;
        return false;
    }
    int best = -1;
    for (int k = 0; k < s->npaths; k++) {
        if (!s->path[k].waits && (best < 0 || s->path[k].pc < s->path[best].pc))
            best = k;
    }
    if (best < 0) {
        *forced = true;
        best = 0;
    }
    Path path = s->path[best];
    s->path[best] = s->path[0];
    s->path[0] = path;
    s->path[0].waits = false;
    return true;
}

/** At a leader: takes in the paths that stand here. True when another path is lower. */
static bool merge_paths(WarpState *s, uint32_t pc, uint32_t *lanes)
{
    bool lower = false;
    for (int k = 1; k < s->npaths; k++) {
        if (s->path[k].pc == pc) {
            *lanes |= s->path[k].mask;
            s->path[k--] = s->path[--s->npaths];
        } else if (!s->path[k].waits && s->path[k].pc < pc) {
            lower = true;
        }
    }
    return lower;
}

static void add_path(WarpState *s, uint32_t pc, uint32_t lanes)
{
    for (int k = 1; k < s->npaths; k++) {
        if (s->path[k].pc == pc && !s->path[k].waits) {
            s->path[k].mask |= lanes;
            return;
        }
    }
    s->path[s->npaths++] = (Path){.pc = pc, .mask = lanes};
}

/** brx.idx: lanes of the first one's target go there, the rest become paths. Returns the target. */
static uint32_t branch_index(Warp *w, const Inst *i, uint32_t *lanes)
{
    const uint32_t *index = (const uint32_t *)(w->regs + i->a);
    uint32_t rest = *lanes, target = 0, here = 0;
    while (rest) {
        int lane = __builtin_ctz(rest);
        uint32_t same = 0;
        for (int l = lane; l < LANES; l++) {
            if (rest >> l & 1 && index[l] == index[lane])
                same |= 1u << l;
        }
        rest &= ~same;
        if (index[lane] >= i->nlist) {
            finding_kernel(FINDING_BOUNDS, w, i, lane, 0, "branch to target %u of %u", index[lane],
                           i->nlist);
            grid_stop(w->block->worker->run, 719);
            continue;
        }
        if (!here) {
            here = same;
            target = i->list[index[lane]];
        } else {
            add_path(w->state, i->list[index[lane]], same);
        }
    }
    *lanes = here;
    return target;
}

/** Lanes of `lanes` whose member mask is that of the lowest one; the mask in *members. */
static uint32_t same_members(const Warp *w, const Inst *i, uint32_t lanes, uint32_t *members)
{
    if (i->member == NO_SLOT) {
        *members = ALL_LANES;
        return lanes;
    }
    const uint32_t *mask = (const uint32_t *)(w->regs + i->member);
    uint32_t first = mask[__builtin_ctz(lanes)], same = 0;
    for (int l = 0; l < LANES; l++)
        same |= (uint32_t)(mask[l] == first) << l;
    *members = first;
    return lanes & same;
}

/** A *.sync operation: for each group of lanes with one member mask. False: lanes are missing that
 * may still come. `forced`: they cannot. */
static bool warp_operation(Warp *w, const Inst *i, uint32_t lanes, bool forced)
{
    WarpState *s = w->state;
    uint32_t members;
    for (uint32_t rest = lanes; rest && !forced;) {
        uint32_t group = same_members(w, i, rest, &members);
        rest &= ~group;
        if (members & w->live & ~group)
            return false;
    }
    for (uint32_t rest = lanes; rest;) {
        uint32_t group = same_members(w, i, rest, &members);
        int lane = __builtin_ctz(group);
        rest &= ~group;
        if (members & w->live & ~group) {
            finding_kernel(FINDING_WARP_SYNC, w, i, lane, 0,
                           "lanes 0x%08x of the member mask 0x%08x do not come here",
                           members & w->live & ~group, members);
            grid_fail(w, 719);
        }
        if (group & ~members) {
            finding_kernel(FINDING_WARP_SYNC, w, i, __builtin_ctz(group & ~members), 0,
                           "lanes 0x%08x are not in the member mask 0x%08x that they give",
                           group & ~members, members);
            grid_fail(w, 719);
        }
        s->members = members & group;
        i->exec(w, i, group);
    }
    return true;
}

/** What bar.red found goes to the lanes. */
static void barrier_result(Warp *w, const Inst *i, uint32_t lanes)
{
    uint32_t result = w->state->result;
    if (i->sub[1] == BARRIER_POPC) {
        uint32_t *d = (uint32_t *)(w->regs + i->d);
        for (int l = 0; l < LANES; l++)
            d[l] = lanes >> l & 1 ? result : d[l];
    } else if (i->sub[1] != BARRIER_PLAIN) {
        w->preds[i->d] = (w->preds[i->d] & ~lanes) | (result ? lanes : 0);
    }
}

static void barrier_finding(Warp *w, const Inst *i, int lane, const char *what, uint32_t n)
{
    finding_kernel(FINDING_BARRIER, w, i, lane, 0, what, n);
    grid_stop(w->block->worker->run, 719);
}

/** The warp comes to a barrier. True: it goes on at once. */
static bool barrier_arrive(Warp *w, const Inst *i, uint32_t lanes)
{
    BlockState *b = block_state(w->block);
    int lane = __builtin_ctz(lanes);
    uint32_t id = ((const uint32_t *)(w->regs + i->a))[lane];
    uint32_t expected = i->b == NO_SLOT ? 0 : ((const uint32_t *)(w->regs + i->b))[lane];
    if (id >= MAX_BARRIERS) {
        barrier_finding(w, i, lane, "there is no barrier %u", id);
        return true;
    }
    if (expected % LANES) {
        barrier_finding(w, i, lane, "%u threads are not whole warps", expected);
        return true;
    }
    Barrier *bar = &b->barrier[id];
    uint32_t me = 1u << w->id;
    if (bar->arrived && bar->expected != expected)
        barrier_finding(w, i, lane, "other warps wait here with another count than %u", expected);
    if (bar->arrived & me)
        barrier_finding(w, i, lane, "warp %u arrives twice before the barrier is complete",
                        (uint32_t)w->id);
    if (!bar->arrived)
        *bar = (Barrier){.all = 1, .expected = expected};
    bar->arrived |= me;
    if (i->sub[1] != BARRIER_PLAIN) {
        uint32_t p = (w->preds[i->c] ^ (i->c_not ? ALL_LANES : 0)) & lanes;
        bar->count += (uint32_t)__builtin_popcount(p);
        bar->any |= p != 0;
        bar->all &= p == lanes;
    }
    w->block->counters->barriers++;
    w->state->barrier = id;
    w->state->wants = i->sub[1];
    if (i->sub[0] == BARRIER_ARRIVE) {
        shared_arrive(w, bar);
        return true;
    }
    w->state->phase = WARP_AT_BARRIER;
    return false;
}

/* Kinds whose exec computes with floats where Inst.mxcsr says so; sched.c loads it before. */
static inline void load_mode(uint32_t wanted, uint32_t *mode)
{
    if (wanted && wanted != *mode) {
        *mode = wanted;
        _mm_setcsr(*mode);
    }
}

/* What the loop of run_warp does with an instruction that is not plain. */
typedef enum { FLOW_NEXT, FLOW_AGAIN, FLOW_PICK, FLOW_OUT } Flow;

/** `lanes`: those of the path; `mask`: those whose guard holds. */
static Flow control(Warp *w, const Inst *i, uint32_t *pc, uint32_t *lanes, uint32_t mask,
                    bool *forced)
{
    WarpState *s = w->state;
    switch ((InstKind)i->kind) {
    case INST_BRANCH:
        w->block->counters->branches++;
        if (mask == *lanes) {
            *pc = i->target;
            return FLOW_AGAIN;
        }
        if (mask) {
            w->block->counters->divergent_branches++;
            add_path(s, i->target, mask);
            *lanes &= ~mask;
        }
        return FLOW_NEXT;
    case INST_BRANCH_INDEX: {
        if (!mask)
            return FLOW_NEXT;
        uint32_t rest = *lanes & ~mask, here = mask;
        uint32_t target = branch_index(w, i, &here);
        w->block->counters->branches++;
        w->block->counters->divergent_branches += here != *lanes;
        if (rest)
            add_path(s, *pc + 1, rest);
        s->path[0] = (Path){.pc = target, .mask = here};
        if (!here)
            s->path[0] = s->path[--s->npaths];
        return FLOW_PICK;
    }
    case INST_EXIT:
        w->live &= ~mask;
        *lanes &= ~mask;
        for (int k = 1; k < s->npaths && mask; k++)
            s->path[k].waits = false; /* perhaps for these lanes, which nobody waits for any more */
        if (*lanes)
            return FLOW_NEXT;
        s->path[0] = s->path[--s->npaths];
        return FLOW_PICK;
    case INST_BARRIER:
        if (s->npaths > 1) {
            uint32_t before = *lanes;
            merge_paths(s, *pc, lanes);
            if (*lanes != before)
                mask = guarded(w, i, *lanes);
        }
        if (!mask)
            return FLOW_NEXT;
        if (mask != w->live &&
            !*forced) { /* others may come, or end: who ended is not waited for */
            s->path[0] = (Path){.pc = *pc, .mask = *lanes, .waits = true};
            return FLOW_PICK;
        }
        if (mask != w->live) {
            barrier_finding(w, i, __builtin_ctz(mask), "only lanes 0x%08x of the warp come here",
                            mask);
            return FLOW_OUT;
        }
        return barrier_arrive(w, i, mask) ? FLOW_NEXT : FLOW_OUT;
    case INST_WARP:
        if (s->npaths > 1) {
            uint32_t before = *lanes;
            merge_paths(s, *pc, lanes);
            if (*lanes != before)
                mask = guarded(w, i, *lanes);
        }
        if (!mask)
            return FLOW_NEXT;
        if (!warp_operation(w, i, mask, *forced)) {
            s->path[0] = (Path){.pc = *pc, .mask = *lanes, .waits = true};
            return FLOW_PICK;
        }
        *forced = false;
        return FLOW_NEXT;
    case INST_TRAP:
        if (mask) {
            finding_kernel(FINDING_TRAP, w, i, __builtin_ctz(mask), 0, "trap");
            grid_stop(w->block->worker->run, 719);
        }
        return FLOW_NEXT;
    case INST_PLAIN:
        break;
    }
    return FLOW_NEXT;
}

/** Runs a warp until it ends, waits at a barrier, or has had its slice. */
static void run_warp(Warp *w, uint64_t slice)
{
    WarpState *s = w->state;
    Grid *g = w->block->grid;
    const Inst *code = g->function->code;
    Counters *counters = w->block->counters;
    uint32_t mode = MXCSR_NEAREST, pc, lanes;
    uint64_t done = 0, lane_done = 0;
    bool forced;
pick:
    if (!pick_path(w, &forced))
        goto out;
    pc = s->path[0].pc;
    lanes = s->path[0].mask;
    if (s->released) {
        s->released = false;
        barrier_result(w, &code[pc++], lanes);
    }
    for (;;) {
        const Inst *i = &code[pc];
        if (i->leader) {
            if (s->npaths > 1 && merge_paths(s, pc, &lanes) && !forced) {
                s->path[0] = (Path){.pc = pc, .mask = lanes};
                goto pick;
            }
            if (done >= slice || g->stop)
                break;
        }
        if (i->run) { /* nothing between these needs a look */
            load_mode(i->run_mxcsr, &mode);
            done += i->run;
            lane_done += i->run * (uint64_t)__builtin_popcount(lanes);
            pc += i->run;
            for (const Inst *end = i + i->run; i < end; i++) {
                counters->kinds[i->count]++;
                i->exec(w, i, lanes);
            }
            continue;
        }
        uint32_t mask = guarded(w, i, lanes);
        done++;
        lane_done += (uint32_t)__builtin_popcount(mask);
        counters->kinds[i->count]++;
        load_mode(i->mxcsr, &mode);
        if (i->kind == INST_PLAIN) {
            if (mask)
                i->exec(w, i, mask);
            pc++;
            continue;
        }
        Flow flow = control(w, i, &pc, &lanes, mask, &forced);
        if (flow == FLOW_NEXT)
            pc++;
        else if (flow == FLOW_PICK)
            goto pick;
        else if (flow == FLOW_OUT)
            break;
    }
    s->path[0] = (Path){.pc = pc, .mask = lanes};
out:
    if (mode != MXCSR_NEAREST)
        _mm_setcsr(MXCSR_NEAREST);
    w->executed += done;
    w->lane_executed += lane_done;
    counters->warp_insts += done;
    counters->lane_insts += lane_done;
    block_state(w->block)->executed += done;
}

/** Warps that a complete barrier lets go. */
static bool release(Block *b, uint32_t id, uint32_t live)
{
    Barrier *bar = &block_state(b)->barrier[id];
    uint32_t arrived = (uint32_t)__builtin_popcount(bar->arrived);
    bool complete =
        bar->expected ? arrived * LANES >= bar->expected : (bar->arrived & live) == live;
    if (!bar->arrived || !complete)
        return false;
    for (int k = 0; k < b->nwarps; k++) {
        WarpState *s = b->warps[k].state;
        if (s->phase != WARP_AT_BARRIER || s->barrier != id)
            continue;
        s->phase = WARP_READY;
        s->released = true;
        s->result = s->wants == BARRIER_POPC  ? bar->count
                    : s->wants == BARRIER_AND ? bar->all
                                              : bar->any;
    }
    shared_barrier(b, bar);
    *bar = (Barrier){0};
    return true;
}

BlockStep block_step(Block *b, uint64_t slice)
{
    BlockState *state = block_state(b);
    int n = b->nwarps;
    uint64_t order = random_next(&state->random);
    int from = (int)(order % (uint64_t)n);
    bool backwards = order >> 32 & 1, moved = false;
    for (int k = 0; k < n; k++) {
        Warp *w = &b->warps[(from + (backwards ? n - k : k)) % n];
        if (w->state->phase != WARP_READY)
            continue;
        moved = true;
        run_warp(w, slice);
        if (b->grid->stop)
            return BLOCK_DONE;
    }
    uint32_t live = 0;
    for (int k = 0; k < n; k++)
        live |= (uint32_t)(b->warps[k].state->phase != WARP_DONE) << k;
    if (!live)
        return BLOCK_DONE;
    for (uint32_t id = 0; id < MAX_BARRIERS; id++)
        moved |= release(b, id, live);
    return moved ? BLOCK_GOES_ON : BLOCK_STUCK;
}

void block_report_deadlock(Block *b)
{
    for (int k = 0; k < b->nwarps; k++) {
        Warp *w = &b->warps[k];
        if (w->state->phase != WARP_AT_BARRIER)
            continue;
        const Inst *i = &b->grid->function->code[w->state->path[0].pc];
        Barrier *bar = &block_state(b)->barrier[w->state->barrier];
        finding_kernel(FINDING_DEADLOCK, w, i, __builtin_ctz(w->live), 0,
                       "warps 0x%08x wait at barrier %u for ever: the others do not come",
                       bar->arrived, w->state->barrier);
        return;
    }
}
