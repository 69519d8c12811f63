/* exec.h: one call in flight; shared by the files of the executor and the backends.
 * SPDX-License-Identifier: MIT */
#ifndef TENON_EXEC_H
#define TENON_EXEC_H

#include "runtime/rt.h"

#include <stdio.h>

enum { TN_MAX_OPERANDS = 256, TN_MAX_SIZES = 64 };

/* An argument or result that is not used in place. */
typedef struct {
    const DLTensor *of; /* NULL: memory of a result that nobody wants */
    void *copy;         /* on the model's device */
    void *packed;       /* on the host, beside it: of a strided tensor of the host */
    bool is_result;     /* copied back at the end */
    int place;
} Staged;

/* A result that was allocated, and its descriptor as the caller gave it. */
typedef struct {
    DLTensor *t, was;
} Made;

typedef struct Call Call;
struct Call {
    tn_model *m, *whole; /* of several devices: the part, and the model */
    tn_stream *stream;
    const tn_program *p;
    const DLTensor *const *args;
    tn__plan *plan;
    void **at; /* memory per buffer */
    Staged *staged;
    int nstaged;
    Made *made;
    int nmade;
    tn_tape *tape_in, *tape_out;
    bool begun;   /* the backend's */
    bool waits;   /* memory of the host takes part: the call ends when the work is done */
    bool to_host; /* results that we allocate are in memory of the host */
    /* Of several devices: the call as each of them sees it, but for the first. */
    Call *parts;
    int serial; /* within a loop over devices: 1 + number of the lane at work; else 0 */
};

/** The call as the device of a place sees it. */
static inline Call *tn__at(Call *c, int place)
{
    return c->parts && place ? &c->parts[place] : c;
}

/** Where operand number `i` of the program lies. */
void *tn__operand(const Call *c, int i);
/** Steps from .. to - 1 (executor.c); the turns of the loop that begins at a step (loop.c). */
tn_status tn__run_steps(Call *c, int from, int to);
tn_status tn__run_loop(Call *c, int step);
/** Everything that depends on the turn, for this one; false: a size overflows. */
bool tn__loop_turn(Call *c, const tn__loop *l, int64_t turn);
/** A step of two buffers that change places. */
void tn__swap(Call *c, const tn_step *s);
/** The message for a kernel's error word: number of its check, index, size of the axis. */
tn_status tn__index_error(const tn_program *p, const tn_kernel *k, const char *where,
                          const int32_t *error);
/** The same, where any kernel of steps from .. to-1 may have written the error word of the call's
 * model (TN_OK: none has; the word is clear again): the line is named if it is the same for all that
 * can have been it. */
tn_status tn__index_error_within(const Call *c, int from, int to);

/* arguments.c */
/** Checks the arguments, and binds sizes to the symbols. */
tn_status tn__bind(tn_model *m, const tn_program *p, const DLTensor *const *args, int64_t *symbols,
                   uint8_t *bound);

/* executor.c */
tn_status tn__run_step(Call *c, int step);

/* lanes.c: calls over several devices */
/** All devices begin where the caller's stream is. */
tn_status tn__lanes_begin(Call *c);
/** All steps, side by side; the caller's stream goes on when they are done. */
tn_status tn__lanes_run(Call *c);
/** Waits for all of them, whatever happens. */
void tn__lanes_sync(Call *c);
/** In a loop over several devices: the call as the step's device sees it, which has waited for the
 * step before. NULL after a failure. */
Call *tn__lanes_next(Call *c, int step);
/** Whether a step copies from one device to another, and does so. */
bool tn__crosses(const tn_program *p, const tn_step *s);
tn_status tn__cross(Call *c, const tn_step *s, tn_stream *on);

/* place.c */
/** Memory of everything: arguments and results in place or staged, temporaries, tape, state. */
tn_status tn__place(Call *c);
/** Memory of a buffer that lies in another one (place.c). */
void tn__place_piece(Call *c, int buffer);
/** Gives the copies of staged results to the stream. */
tn_status tn__write_back(Call *c);
/** What of them came packed to the host, when the stream is done. */
void tn__unpack_results(const Call *c);
void tn__unplace(Call *c, bool failed);

/* tune.c */
/** The choices of a new plan: known answers, or the beginning of measurements. */
tn_status tn__tuning_begin(tn_model *m, const tn_program *p, tn__plan *plan);
void tn__tuning_free(tn__plan *plan);
/** The steps of a call whose plan is being measured. */
tn_status tn__tune(Call *c);

/* tape.c */
tn_status tn__tape_create(Call *c, int program);
void tn__tape_keep(Call *c); /* after the steps: where each entry lies; takes over staged copies */
tn_status tn__tape_check(const tn_tape *t, const tn_model *m, const tn_program *backward);
/** Sizes that the forward call bound, by name. */
void tn__tape_sizes(const tn_tape *t, const tn_program *p, int64_t *symbols, uint8_t *bound);

/* variant.c */
/** The program to run where optional arguments are NULL: `program` itself if none is,
 * -1 if there is none; and the arguments that it takes, in its order. */
int tn__variant(const tn_model *m, int program, const DLTensor *const *args, const tn_tape *tape);
void tn__variant_args(const tn_program *from, const DLTensor *const *args, const tn_program *to,
                      const DLTensor **out);

#endif
