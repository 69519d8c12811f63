/* dtype.c: one number as an element of any type. SPDX-License-Identifier: MIT */
#include "runtime/rt.h"

#include <math.h>
#include <string.h>

#define TN_FN static inline __attribute__((unused))
#include "runtime/kernels/math.h"
#include "runtime/kernels/number.h"

void tn__dtype_store(int dtype, double x, void *to)
{
    switch (dtype) {
    case TN_F64:
        memcpy(to, &x, 8);
        break;
    case TN_F32: {
        const float f = (float)x;
        memcpy(to, &f, 4);
        break;
    }
    case TN_BF16:
    case TN_F16: {
        const uint16_t h = dtype == TN_BF16 ? tn_bf16_from_f64(x) : tn_f16_from_f64(x);
        memcpy(to, &h, 2);
        break;
    }
    case TN_BOOL: {
        const uint8_t b = x != 0;
        memcpy(to, &b, 1);
        break;
    }
    case TN_U64: {
        const uint64_t u = (uint64_t)x;
        memcpy(to, &u, 8);
        break;
    }
    default: { /* little-endian: the low bytes come first */
        const int64_t i = (int64_t)x;
        memcpy(to, &i, tn__dtype_size(dtype));
    }
    }
}
