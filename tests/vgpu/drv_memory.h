/* drv_memory.h: pieces of memory that a program asked for, and pools. SPDX-License-Identifier: MIT
 */
#ifndef VGPU_DRV_MEMORY_H
#define VGPU_DRV_MEMORY_H

#include "tests/vgpu/drv.h"

typedef enum { PIECE_DEVICE, PIECE_HOST, PIECE_REGISTERED, PIECE_MANAGED } PieceKind;

typedef struct Pool {
    Handle h;
    int device;
    uint64_t threshold, used, used_high;
    int reuse[3];
} Pool;

typedef struct Piece {
    struct Piece *next;
    PieceKind kind;
    unsigned flags;
    uint64_t base, bytes;
    Context *context;
    Pool *pool;
    const char *made_by;
} Piece;

/** The piece that begins at `base`, or NULL. */
Piece *piece_find(uint64_t base);
void piece_each(void (*visit)(Piece *p, void *with), void *with);
/** The pool of cuMemAllocAsync on a device. */
Pool *pool_current(int device);
/** Whether this is host memory that the devices know. */
bool is_pinned(const void *host);

#endif
