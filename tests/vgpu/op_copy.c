/* op_copy.c: ldmatrix, and cp.async: copies from device to shared memory that take effect when they
 * are waited for. Here they are done at the wait, and until then the target counts as not written,
 * so that a read before the wait is found. SPDX-License-Identifier: MIT */
#include "tests/vgpu/access.h"
#include "tests/vgpu/op.h"

#include <stdlib.h>

/* --- ldmatrix
 * ---------------------------------------------------------------------------------------- */

/** n (nlist) matrices of 8 rows of 16 bytes; lane 8 * m + r has the address of row r of matrix m.
 */
static void exec_ldmatrix(Warp *w, const Inst *i, uint32_t mask)
{
    uint16_t rows[4 * 8][8];
    uint32_t lanes = i->nlist * 8 >= LANES ? ALL_LANES : (1u << i->nlist * 8) - 1;
    if (mask != ALL_LANES) {
        finding_kernel(FINDING_WARP_SYNC, w, i, __builtin_ctz(mask), 0,
                       "only lanes 0x%08x of the warp come here", mask);
        grid_fail(w, 719);
        return;
    }
    Request r;
    request_make(&r, w, i, lanes, 16);
    w->block->counters->shared_requests++;
    if (r.p)
        w->block->counters->shared_conflicts += r.p->passes;
    bool inside = r.p && r.base + (uint64_t)(int64_t)r.p->min < w->block->shared_bytes &&
                  r.base + (uint64_t)(int64_t)r.p->max + 16 <= w->block->shared_bytes &&
                  request_aligned(&r);
    uint32_t slow = lanes;
    if (inside && i->space == SPACE_SHARED) {
        uint32_t word[LANES];
        EACH_LANE word[l] = (uint32_t)r.at[l] / 4;
        slow = shared_read(w, r.p, word, 4);
    }
    memset(rows, 0, sizeof rows);
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int l = __builtin_ctz(rest);
        uint64_t at = r.at[l] - (i->space == SPACE_GENERIC ? SHARED_WINDOW : 0);
        const uint8_t *from = slow >> l & 1
                                  ? lane_memory(w, i, l, SPACE_SHARED, at, 16, LANE_READ, NULL)
                                  : w->block->shared + at;
        if (from)
            memcpy(rows[l], from, 16);
    }
    for (uint32_t m = 0; m < i->nlist; m++) {
        uint32_t *d = REG(uint32_t, i->list[m]);
        for (uint32_t l = 0; l < LANES; l++) {
            uint32_t row = 8 * m + l / 4, column = l % 4 * 2;
            uint32_t low = i->sub[0] ? rows[8 * m + column][l / 4] : rows[row][column];
            uint32_t high = i->sub[0] ? rows[8 * m + column + 1][l / 4] : rows[row][column + 1];
            d[l] = low | high << 16;
        }
    }
}

/* --- cp.async
 * ----------------------------------------------------------------------------------------- */

static bool more_copies(WarpState *s)
{
    if (s->ncopies < s->capcopies)
        return true;
    uint32_t n = s->capcopies ? 2 * s->capcopies : 256;
    Copy *grown = realloc(s->copies, n * sizeof *grown);
    if (!grown)
        return false;
    s->copies = grown;
    s->capcopies = n;
    return true;
}

static uint64_t address(const Warp *w, uint32_t slot, bool wide, int l)
{
    return wide ? REG(const uint64_t, slot)[l] : REG(const uint32_t, slot)[l];
}

/* cp.async [a + imm], [b], c{, e}: c bytes, of which e come from b and the rest is zero. */
static void exec_copy(Warp *w, const Inst *i, uint32_t mask)
{
    WarpState *s = w->state;
    uint32_t bytes = REG(const uint32_t, i->c)[__builtin_ctz(mask)];
    if (bytes != 4 && bytes != 8 && bytes != 16) {
        finding_kernel(FINDING_LAUNCH, w, i, __builtin_ctz(mask), 0, "copies %u bytes", bytes);
        grid_stop(w->block->worker->run, 719);
        return;
    }
    Request r;
    EACH_LANE r.at[l] = address(w, i->b, i->wide & 4, l);
    request_layout(&r, w, i, mask, bytes);
    w->block->counters->load_requests++;
    w->block->counters->load_sectors += request_sectors(&r);
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        int l = __builtin_ctz(rest);
        uint64_t target = address(w, i->a, i->wide & 2, l) + (uint64_t)i->imm;
        uint32_t from = i->e == NO_SLOT ? bytes : REG(const uint32_t, i->e)[l];
        from = from < bytes ? from : bytes;
        w->block->counters->load_bytes += from;
        if (!lane_memory(w, i, l, SPACE_SHARED, target, bytes, LANE_WRITE, NULL))
            continue;
        shared_unwritten(w->block, (uint32_t)target, bytes);
        if (!more_copies(s)) {
            grid_stop(w->block->worker->run, 2);
            return;
        }
        s->copies[s->ncopies++] = (Copy){.source = r.at[l],
                                         .target = (uint32_t)target,
                                         .group = s->groups[l],
                                         .bytes = (uint8_t)bytes,
                                         .from = (uint8_t)from,
                                         .lane = (uint8_t)l};
    }
}

static void finish(Warp *w, const Inst *i, const Copy *c)
{
    uint8_t value[16] = {0};
    uint32_t step = c->from == c->bytes ? c->bytes : c->from % 4 ? 1 : 4;
    for (uint32_t k = 0; k < c->from; k += step) {
        const uint8_t *from =
            lane_memory(w, i, c->lane, SPACE_GLOBAL, c->source + k, step, LANE_READ, NULL);
        if (from)
            memcpy(value + k, from, step);
    }
    uint8_t *to = lane_memory(w, i, c->lane, SPACE_SHARED, c->target, c->bytes, LANE_WRITE, value);
    if (to)
        memcpy(to, value, c->bytes);
}

static void exec_commit(Warp *w, const Inst *i, uint32_t mask)
{
    (void)i;
    EACH_LANE w->state->groups[l] += IS_ON(mask, l);
}

/** wait_group imm: all but the last imm groups; wait_all (sub[0]): all copies. */
static void exec_wait(Warp *w, const Inst *i, uint32_t mask)
{
    WarpState *s = w->state;
    uint32_t kept = 0;
    for (uint32_t k = 0; k < s->ncopies; k++) {
        Copy *c = &s->copies[k];
        bool waited = i->sub[0] || (int64_t)c->group + i->imm < (int64_t)s->groups[c->lane];
        if (IS_ON(mask, c->lane) && waited)
            finish(w, i, c);
        else
            s->copies[kept++] = *c;
    }
    s->ncopies = kept;
}

/* --- opcodes
 * ---------------------------------------------------------------------------------------- */

/* ldmatrix.sync.aligned.m8n8.x4{.trans}.shared.b16 */
static bool matrix(const Opcode *o, Rule *out)
{
    bool shared = opcode_has(o, "shared") || opcode_has(o, "shared::cta");
    bool trans = opcode_has(o, "trans");
    if (o->n != 6 + trans + shared || !opcode_has(o, "sync") || !opcode_has(o, "aligned") ||
        !opcode_has(o, "m8n8") || !opcode_has(o, "b16"))
        return false;
    out->exec = exec_ldmatrix;
    out->count = COUNT_LOAD;
    out->space = shared ? SPACE_SHARED : SPACE_GENERIC;
    out->sub[0] = trans;
    out->takes[0] = TAKES_LIST32;
    out->takes[1] = TAKES_ADDRESS;
    return opcode_has(o, "x1") || opcode_has(o, "x2") || opcode_has(o, "x4");
}

bool rule_copy(const Opcode *o, Rule *out)
{
    if (!strcmp(o->part[0], "ldmatrix"))
        return matrix(o, out);
    if (strcmp(o->part[0], "cp") || o->n < 3 || strcmp(o->part[1], "async"))
        return false;
    out->no_dest = true;
    out->count = COUNT_LOAD;
    const char *does = o->part[2];
    if (!strcmp(does, "commit_group") && o->n == 3) {
        out->exec = exec_commit;
        return true;
    }
    if ((!strcmp(does, "wait_group") || !strcmp(does, "wait_all")) && o->n == 3) {
        out->exec = exec_wait;
        out->sub[0] = does[5] == 'a';
        out->takes[0] = out->sub[0] ? TAKES_NONE : TAKES_IMMEDIATE;
        return true;
    }
    /* cp.async.ca.shared.global{.L2::128B} */
    if ((strcmp(does, "ca") && strcmp(does, "cg")) || o->n < 5 || o->n > 6 ||
        (strcmp(o->part[3], "shared") && strcmp(o->part[3], "shared::cta")) ||
        strcmp(o->part[4], "global") || (o->n == 6 && strncmp(o->part[5], "L2::", 4)) ||
        opcode_has(o, "L2::cache_hint"))
        return false;
    out->exec = exec_copy;
    out->takes[0] = out->takes[1] = TAKES_ADDRESS;
    out->takes[2] = out->takes[3] = TAKES_32;
    out->optional = 1;
    return true;
}
