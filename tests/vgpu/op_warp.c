/* op_warp.c: what the lanes of a warp do together (shfl, vote, match, redux, activemask, elect),
 * barriers and fences. SPDX-License-Identifier: MIT */
#include "tests/vgpu/lanes.h"
#include "tests/vgpu/op.h"
#include "tests/vgpu/race.h"

/* --- shfl ----------------------------------------------------------------------------------------
 */

enum { SHFL_IDX, SHFL_UP, SHFL_DOWN, SHFL_BFLY };

/** Lane that each lane reads from; nonzero in `inside` where the operation gives it one, else it is
 * the lane itself. */
static inline void shfl_lanes(int mode, const uint32_t *b, const uint32_t *c, int32_t *from,
                              uint32_t *inside)
{
    for (int l = 0; l < LANES; l++) {
        int clamp = c[l] & 31, segment = c[l] >> 8 & 31, by = b[l] & 31;
        int last = (l & segment) | (clamp & ~segment), to;
        if (mode == SHFL_UP)
            to = l - by;
        else if (mode == SHFL_DOWN)
            to = l + by;
        else if (mode == SHFL_BFLY)
            to = l ^ by;
        else
            to = (l & segment) | (by & ~segment);
        inside[l] = (uint32_t)(mode == SHFL_UP ? to >= last : to <= last);
        from[l] = inside[l] ? to & 31 : l;
    }
}

static inline void shfl(Warp *w, const Inst *i, uint32_t mask, int mode)
{
    const uint32_t *a = REG(const uint32_t, i->a), *b = REG(const uint32_t, i->b);
    const uint32_t *c = REG(const uint32_t, i->c);
    uint32_t *d = REG(uint32_t, i->d), out[LANES], inside[LANES], off[LANES];
    uint32_t members = w->state->members;
    int32_t from[LANES];
    shfl_lanes(mode, b, c, from, inside);
    v16_store(out, v16_pick(a, v16_load(from)));
    v16_store(out + 16, v16_pick(a, v16_load(from + 16)));
    if (members != ALL_LANES) {
        EACH_LANE off[l] = ~members >> from[l] & 1;
        uint32_t bad = lanes_to_mask(off) & mask;
        if (bad)
            finding_kernel(FINDING_WARP_SYNC, w, i, __builtin_ctz(bad), 0,
                           "reads lane %d, which does not take part", from[__builtin_ctz(bad)]);
    }
    if (mask == ALL_LANES)
        EACH_LANE d[l] = out[l];
    else
        EACH_LANE d[l] = IS_ON(mask, l) ? out[l] : d[l];
    if (i->d2 != NO_SLOT)
        pred_write(w, i->d2, mask, lanes_to_mask(inside));
}

static void exec_shfl_idx(Warp *w, const Inst *i, uint32_t mask)
{
    shfl(w, i, mask, SHFL_IDX);
}

static void exec_shfl_up(Warp *w, const Inst *i, uint32_t mask)
{
    shfl(w, i, mask, SHFL_UP);
}

static void exec_shfl_down(Warp *w, const Inst *i, uint32_t mask)
{
    shfl(w, i, mask, SHFL_DOWN);
}

static void exec_shfl_bfly(Warp *w, const Inst *i, uint32_t mask)
{
    shfl(w, i, mask, SHFL_BFLY);
}

/* --- vote, match, redux --------------------------------------------------------------------------
 */

enum { VOTE_ALL, VOTE_ANY, VOTE_UNI, VOTE_BALLOT };

static void exec_vote(Warp *w, const Inst *i, uint32_t mask)
{
    uint32_t p = (w->preds[i->a] ^ (i->a_not ? ALL_LANES : 0)) & mask;
    if (i->sub[0] == VOTE_BALLOT) {
        uint32_t *d = REG(uint32_t, i->d);
        EACH_LANE d[l] = IS_ON(mask, l) ? p : d[l];
        return;
    }
    bool holds = i->sub[0] == VOTE_ALL   ? p == mask
                 : i->sub[0] == VOTE_ANY ? p != 0
                                         : !p || p == mask;
    pred_write(w, i->d, mask, holds ? ALL_LANES : 0);
}

static uint64_t value_of(const Warp *w, const Inst *i, int l)
{
    return i->size == 8 ? REG(const uint64_t, i->a)[l] : REG(const uint32_t, i->a)[l];
}

static void exec_match(Warp *w, const Inst *i, uint32_t mask)
{
    uint32_t *d = REG(uint32_t, i->d), out[LANES] = {0};
    bool all = true;
    for (int l = 0; l < LANES; l++) {
        for (int k = 0; IS_ON(mask, l) && k < LANES; k++)
            out[l] |= (uint32_t)(IS_ON(mask, k) && value_of(w, i, k) == value_of(w, i, l)) << k;
        all &= !IS_ON(mask, l) || out[l] == mask;
    }
    bool any = i->sub[0];
    EACH_LANE d[l] = !IS_ON(mask, l) ? d[l] : any ? out[l] : all ? mask : 0;
    if (i->d2 != NO_SLOT)
        pred_write(w, i->d2, mask, all ? ALL_LANES : 0);
}

enum { REDUX_ADD, REDUX_MIN, REDUX_MAX, REDUX_AND, REDUX_OR, REDUX_XOR };

static uint32_t redux(int op, bool is_signed, uint32_t x, uint32_t y)
{
    bool less = is_signed ? (int32_t)x < (int32_t)y : x < y;
    switch (op) {
    case REDUX_ADD:
        return x + y;
    case REDUX_MIN:
        return less ? x : y;
    case REDUX_MAX:
        return less ? y : x;
    case REDUX_AND:
        return x & y;
    case REDUX_OR:
        return x | y;
    default:
        return x ^ y;
    }
}

static void exec_redux(Warp *w, const Inst *i, uint32_t mask)
{
    const uint32_t *a = REG(const uint32_t, i->a);
    uint32_t *d = REG(uint32_t, i->d), result = a[__builtin_ctz(mask)];
    for (uint32_t rest = mask & (mask - 1); rest; rest &= rest - 1)
        result = redux(i->sub[0], i->sub[1], result, a[__builtin_ctz(rest)]);
    EACH_LANE d[l] = IS_ON(mask, l) ? result : d[l];
}

static void exec_activemask(Warp *w, const Inst *i, uint32_t mask)
{
    uint32_t *d = REG(uint32_t, i->d);
    EACH_LANE d[l] = IS_ON(mask, l) ? mask : d[l];
}

static void exec_elect(Warp *w, const Inst *i, uint32_t mask)
{
    uint32_t lane = (uint32_t)__builtin_ctz(mask);
    if (i->d != NO_SLOT) {
        uint32_t *d = REG(uint32_t, i->d);
        EACH_LANE d[l] = IS_ON(mask, l) ? lane : d[l];
    }
    if (i->d2 != NO_SLOT)
        pred_write(w, i->d2, mask, 1u << lane);
}

/* --- barriers, fences
 * ------------------------------------------------------------------------------ */

static void exec_syncwarp(Warp *w, const Inst *i, uint32_t mask)
{
    (void)i;
    (void)mask;
    shared_moment(w);
}

void exec_fence(Warp *w, const Inst *i, uint32_t mask)
{
    (void)i;
    (void)mask;
    blocks_fence(w->block);
}

/* --- opcodes
 * ---------------------------------------------------------------------------------------- */

static int place_of(const char *text, const char *const *texts)
{
    for (int k = 0; texts[k]; k++) {
        if (!strcmp(text, texts[k]))
            return k;
    }
    return -1;
}

static void takes(Rule *out, Exec *exec, int first, int second, int third, int fourth, int fifth)
{
    const int all[] = {first, second, third, fourth, fifth};
    for (int k = 0; k < 5; k++)
        out->takes[k] = (uint8_t)all[k];
    out->exec = exec;
    out->kind = INST_WARP;
    out->count = COUNT_WARP;
}

static bool collective(const Opcode *o, Rule *out)
{
    static const char *const modes[] = {"idx", "up", "down", "bfly", NULL};
    static const char *const vote[] = {"all", "any", "uni", "ballot", NULL};
    static const char *const reductions[] = {"add", "min", "max", "and", "or", "xor", NULL};
    static const char *const types[] = {"u32", "s32", "b32", NULL};
    const char *name = o->part[0];
    if (o->n < 4 || strcmp(o->part[strcmp(name, "match") ? 1 : 2], "sync"))
        return false;
    if (!strcmp(name, "shfl") && o->n == 4 && !strcmp(o->part[3], "b32")) {
        int mode = place_of(o->part[2], modes);
        static Exec *const execs[] = {exec_shfl_idx, exec_shfl_up, exec_shfl_down, exec_shfl_bfly};
        takes(out, execs[mode < 0 ? 0 : mode], TAKES_32, TAKES_32, TAKES_32, TAKES_32,
              TAKES_MEMBER);
        out->two_dests = true;
        return mode >= 0;
    }
    if (!strcmp(name, "vote") && o->n == 4) {
        int mode = place_of(o->part[2], vote);
        bool ballot = mode == VOTE_BALLOT;
        takes(out, exec_vote, ballot ? TAKES_32 : TAKES_PRED, TAKES_PRED, TAKES_MEMBER, 0, 0);
        out->sub[0] = (uint8_t)mode;
        return mode >= 0 && !strcmp(o->part[3], ballot ? "b32" : "pred");
    }
    if (!strcmp(name, "match") && o->n == 4) {
        bool wide = !strcmp(o->part[3], "b64"), any = !strcmp(o->part[1], "any");
        takes(out, exec_match, TAKES_32, wide ? TAKES_64 : TAKES_32, TAKES_MEMBER, 0, 0);
        out->two_dests = !any;
        out->size = wide ? 8 : 4;
        out->sub[0] = any;
        return (any || !strcmp(o->part[1], "all")) && (wide || !strcmp(o->part[3], "b32"));
    }
    if (!strcmp(name, "redux") && o->n == 4) {
        int op = place_of(o->part[2], reductions), type = place_of(o->part[3], types);
        takes(out, exec_redux, TAKES_32, TAKES_32, TAKES_MEMBER, 0, 0);
        out->sub[0] = (uint8_t)op;
        out->sub[1] = type == 1;
        return op >= 0 && type >= 0 && (op >= REDUX_AND) == (type == 2);
    }
    return false;
}

/* bar{.cta}.sync, .arrive, .red and their `barrier` forms; bar.warp.sync. */
static bool barrier(const Opcode *o, Rule *out)
{
    static const char *const reductions[] = {"", "popc", "and", "or", NULL};
    if (o->n == 3 && !strcmp(o->part[1], "warp") && !strcmp(o->part[2], "sync")) {
        takes(out, exec_syncwarp, TAKES_MEMBER, 0, 0, 0, 0);
        out->no_dest = true;
        return true;
    }
    int k = 1, reduction = BARRIER_PLAIN;
    k += !strcmp(o->part[k], "cta");
    if (k >= o->n)
        return false;
    const char *does = o->part[k++];
    if (!strcmp(does, "red") && k < o->n) {
        reduction = place_of(o->part[k++], reductions);
        if (reduction < BARRIER_POPC)
            return false;
    } else if (strcmp(does, "sync") && strcmp(does, "arrive")) {
        return false;
    }
    for (; k < o->n; k++) {
        if (strcmp(o->part[k], "aligned") && strcmp(o->part[k], "u32") &&
            strcmp(o->part[k], "pred"))
            return false;
    }
    out->kind = INST_BARRIER;
    out->count = COUNT_BARRIER;
    out->exec = exec_nop;
    out->sub[0] = !strcmp(does, "arrive") ? BARRIER_ARRIVE : BARRIER_SYNC;
    out->sub[1] = (uint8_t)reduction;
    out->optional = 1;
    if (reduction == BARRIER_PLAIN) {
        out->no_dest = true;
        out->takes[0] = out->takes[1] = TAKES_32;
    } else {
        out->takes[0] = reduction == BARRIER_POPC ? TAKES_32 : TAKES_PRED;
        out->takes[1] = out->takes[2] = TAKES_32;
        out->takes[3] = TAKES_PRED;
    }
    return true;
}

bool rule_warp(const Opcode *o, Rule *out)
{
    const char *name = o->part[0];
    if ((!strcmp(name, "bar") || !strcmp(name, "barrier")) && o->n > 1)
        return barrier(o, out);
    if (!strcmp(name, "membar") || !strcmp(name, "fence")) {
        out->exec = o->n > 1 && strcmp(o->part[o->n - 1], "cta") ? exec_fence : exec_nop;
        out->count = COUNT_BARRIER;
        return o->n > 1 && (strcmp(name, "fence") || strcmp(o->part[1], "proxy"));
    }
    if (!strcmp(name, "activemask") && o->n == 2) {
        out->exec = exec_activemask;
        out->count = COUNT_WARP;
        out->takes[0] = TAKES_32;
        return true;
    }
    if (!strcmp(name, "elect") && o->n == 2 && !strcmp(o->part[1], "sync")) {
        takes(out, exec_elect, TAKES_32, TAKES_MEMBER, 0, 0, 0);
        out->two_dests = true;
        return true;
    }
    return collective(o, out);
}
