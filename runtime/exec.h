/* exec.h: one call in flight; shared by executor.c, tape.c and gemm_step.c.
 * SPDX-License-Identifier: MIT */
#ifndef TENON_EXEC_H
#define TENON_EXEC_H

#include "runtime/rt.h"

#include <stdio.h>

enum { TN_MAX_OPERANDS = 256, TN_MAX_SIZES = 64 };

typedef struct {
    const DLTensor *of; /* NULL: memory of a result that nobody wants */
    void *copy;
    bool is_result; /* copied back at the end */
} Staged;

typedef struct {
    tn_model *m;
    const tn_program *p;
    const DLTensor *const *args;
    tn__plan *plan;
    void **at; /* memory per buffer */
    Staged *staged;
    int nstaged;
    DLTensor **made; /* results that were allocated */
    int nmade;
    tn_tape *tape_in, *tape_out;
} Call;

tn_status tn__step_gemm(Call *c, const tn_gemm_step *g);
tn_status tn__error_word(Call *c, const tn_step *s);

/* tape.c */
tn_status tn__tape_create(Call *c, int program);
void tn__tape_keep(Call *c); /* after the steps: where each entry lies; takes over staged copies */
/** The program to run where optional arguments are NULL (variant.c): `program` itself if none is,
 * -1 if there is none; and the arguments that it takes, in its order. */
int tn__variant(const tn_model *m, int program, const DLTensor *const *args, const tn_tape *tape);
void tn__variant_args(const tn_program *from, const DLTensor *const *args, const tn_program *to,
                      const DLTensor **out);

tn_status tn__tape_check(const tn_tape *t, const tn_model *m, const tn_program *backward);
/** Sizes that the forward call bound, by name. */
void tn__tape_sizes(const tn_tape *t, const tn_program *p, int64_t *symbols, uint8_t *bound);

#endif
