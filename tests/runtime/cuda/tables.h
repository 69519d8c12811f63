/* tables.h: one small model for CPU and CUDA, its tables and its PTX written by hand, so that
 * the backend is tested without a compiler. SPDX-License-Identifier: MIT */
#ifndef CUDA_TEST_TABLES_H
#define CUDA_TEST_TABLES_H

#include "runtime/include/tenon.h"
#include "runtime/include/tenon_program.h"
#include "runtime/rt.h"

/* Programs of `pair_desc` (m.tn), by number. x, y: f32[B, 3].
 * FORWARD       (x, m [3, 2]) -> y = w x, z [B, 2] = x m
 * TRAIN         the same, keeps x and w x; BACKWARD (dy) -> dx = w x, dt = w x (from the tape)
 * UPDATE        w += 1
 * GATHER        (x, i i32[B]) -> r f32[B] = x[b, i[b]], the index checked
 * FILL          () -> five arrays of 5: f64 1.1, i8 3, bf16 1, i64 -1, f32 0.5
 * CONSTANT      (x) -> y = c x, c a constant of the program
 * INOUT         (h, updated in place) h = w h
 * PRINT         (x) prints w x */
enum { FORWARD, TRAIN, BACKWARD, UPDATE, GATHER, FILL, CONSTANT, INOUT, PRINT, INIT, NPROGRAMS };

extern const tn_model_desc pair_desc; /* for the CPU, with the part for CUDA */
extern const tn_model_desc only_cuda; /* for CUDA alone */
extern const char pair_ptx[];

#endif
