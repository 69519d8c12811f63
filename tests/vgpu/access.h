/* access.h: what loads, stores, atomics and copies share: addresses of the lanes, where they lie to
 * each other, and the checks of one lane. SPDX-License-Identifier: MIT */
#ifndef VGPU_ACCESS_H
#define VGPU_ACCESS_H

#include "tests/vgpu/race.h"

typedef struct {
    uint64_t at[LANES] __attribute__((aligned(64))); /* of lanes that are off: that of `first` */
    uint64_t base;                                   /* of lane `first` */
    const Pattern *p; /* NULL: lanes lie too far apart to be handled together */
} Request;

/** Addresses in slot a, and how they lie; each lane accesses `bytes`. */
void request_make(Request *r, Warp *w, const Inst *i, uint32_t mask, uint32_t bytes);

/** The same for addresses that stand in r->at already. */
void request_layout(Request *r, Warp *w, const Inst *i, uint32_t mask, uint32_t bytes);

/** Whether each lane's address is a multiple of its bytes. */
static inline bool request_aligned(const Request *r)
{
    return !((r->base | r->p->low_bits) & (r->p->bytes - 1u));
}

/** The one allocation that all lanes access rightly (aligned, alive, accessible), or NULL. */
Alloc *request_alloc(const Request *r, Warp *w, const Inst *i);

/** Sectors of 32 bytes that a request to device memory touches. */
uint32_t request_sectors(const Request *r);

/** Splits lanes with generic addresses by space; returns the lanes of the lowest one's space, and
 * makes their addresses relative to it. */
uint32_t request_space(Request *r, uint32_t mask, Space *space);

/* --- one lane: host memory, or NULL after a finding
 * ----------------------------------------------- */

typedef enum { LANE_READ, LANE_WRITE, LANE_ATOMIC } LaneTouch;

/** `value`: the bytes that a write writes. */
uint8_t *lane_memory(Warp *w, const Inst *i, int lane, Space space, uint64_t address,
                     uint32_t bytes, LaneTouch touch, const uint8_t *value);

/** An atomic operation of one lane in the allocation that request_alloc gave. */
uint8_t *lane_atomic(Warp *w, const Inst *i, int lane, Alloc *a, uint64_t address, uint32_t bytes);

/* --- opcodes: op_space.c ------------------------------------------------------------------- */

/** Whether a part of an opcode names a space. */
bool space_part(const char *part, Space *space);
/** cvta, isspacep: for rule_mem. */
bool rule_space(const Opcode *o, Rule *out);

#endif
