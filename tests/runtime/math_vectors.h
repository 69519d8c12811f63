/* math_vectors.h: one build of the scalar functions as loops. SPDX-License-Identifier: MIT */
#ifndef TENON_TESTS_MATH_VECTORS_H
#define TENON_TESTS_MATH_VECTORS_H

#include <stdint.h>

enum { UNARY_COUNT = 25 };

typedef struct {
    struct {
        const char *name;
        void (*f)(const float *restrict x, float *restrict y, int n);
    } unary[UNARY_COUNT];
    void (*pow)(const float *restrict x, const float *restrict y, float *restrict z, int n);
    void (*atan2)(const float *restrict y, const float *restrict x, float *restrict z, int n);
    void (*uniform)(uint64_t key, uint64_t at, float *restrict x, int n);
    void (*normal)(uint64_t key, uint64_t at, float *restrict x, int n);
    void (*f16)(const float *restrict x, uint16_t *restrict y, int n);
    void (*bf16)(const float *restrict x, uint16_t *restrict y, int n);
    void (*i32)(const float *restrict x, int32_t *restrict y, int n);
} MathVectors;

extern const MathVectors math_vectors_base, math_vectors_v3, math_vectors_v4;

#endif
