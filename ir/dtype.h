/* dtype.h: element types. SPDX-License-Identifier: MIT */
#ifndef TENON_DTYPE_H
#define TENON_DTYPE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum {
    DT_none,
#define DTYPE(name, size, kind, ctype, text) DT_##name,
#include "ir/dtype.def"
#undef DTYPE
    DT_COUNT
} DType;

typedef enum { DK_FLOAT, DK_INT, DK_UINT, DK_BOOL } DTypeKind;

const char *dtype_name(DType t);
const char *dtype_ctype(DType t); /* how C spells an element in memory: float, uint16_t, ... */
int dtype_size(DType t);          /* bytes */
DTypeKind dtype_kind(DType t);
DType dtype_parse(const char *name); /* DT_none if there is none */

static inline bool dtype_is_float(DType t)
{
    return t == DT_f64 || t == DT_f32 || t == DT_bf16 || t == DT_f16;
}
static inline bool dtype_is_int(DType t)
{
    return t != DT_none && t != DT_bool && !dtype_is_float(t);
}

/** The type in which arithmetic of `t` is done: f32 for the half types, else `t`. */
DType dtype_compute(DType t);

/** PyTorch's promotion of two tensor dtypes (torch.promote_types). */
DType dtype_promote(DType a, DType b);

/** Rounds a value (held in f64) to `t`, as a store to memory would. */
double dtype_round(DType t, double x);

#endif
