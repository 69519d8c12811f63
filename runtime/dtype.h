/* dtype.h: codes of element types at run time, as programs, files and callers use them.
 * SPDX-License-Identifier: MIT */
#ifndef TENON_RUNTIME_DTYPE_H
#define TENON_RUNTIME_DTYPE_H

#include <stddef.h>

enum {
    TN_F64 = 1,
    TN_F32,
    TN_BF16,
    TN_F16,
    TN_I64,
    TN_I32,
    TN_I16,
    TN_I8,
    TN_U8,
    TN_BOOL, /* one byte, 0 or 1 */
    TN_U64,
    TN_DTYPE_END
};

/** Bytes of one element; 0 for what is not a code. */
static inline size_t tn__dtype_size(int code)
{
    static const unsigned char sizes[TN_DTYPE_END] = {0, 8, 4, 2, 2, 8, 4, 2, 1, 1, 1, 8};
    return code > 0 && code < TN_DTYPE_END ? sizes[code] : 0;
}

/** "f32" and so on; "?" for what is not a code. */
static inline const char *tn__dtype_name(int code)
{
    static const char names[TN_DTYPE_END][5] = {"?",   "f64", "f32", "bf16", "f16",  "i64",
                                                "i32", "i16", "i8",  "u8",   "bool", "u64"};
    return names[code > 0 && code < TN_DTYPE_END ? code : 0];
}

#endif
