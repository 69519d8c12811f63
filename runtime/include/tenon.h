/* tenon.h: the runtime of compiled models. C99, usable from C++; links with -ltenon.
 *
 * Every function returns a tn_status (0: done) unless it cannot fail; the message of the last
 * failure in this thread is tn_last_error(). Nothing aborts, exits or prints.
 * Threads: one instance (tn_model) is used by one thread at a time; contexts may be shared.
 * SPDX-License-Identifier: MIT */
#ifndef TENON_H
#define TENON_H

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef TN_API
#define TN_API __attribute__((visibility("default")))
#endif

/* DLPack's code of bool, which its older headers lack. */
#define TN_DL_BOOL 6

typedef enum tn_status {
    TN_OK,
#define TN_ERROR(name, text) TN_##name,
#include "tenon_errors.def"
#undef TN_ERROR
    TN_STATUS_COUNT
} tn_status;

/** One short sentence for a status. */
TN_API const char *tn_strerror(tn_status s);
/** What went wrong in the last call that failed in this thread; "" if none did. Valid until the
 * next failure in this thread. */
TN_API const char *tn_last_error(void);
/** "0.1.0" */
TN_API const char *tn_version(void);

typedef struct tn_context tn_context;
typedef struct tn_stream tn_stream;
typedef struct tn_event tn_event;
typedef struct tn_model tn_model;
typedef struct tn_tape tn_tape;
typedef struct tn_model_desc tn_model_desc_opaque;

/* --- contexts -------------------------------------------------------------------------------- */

typedef struct tn_context_options {
    size_t size; /* sizeof(tn_context_options), or 0 for all defaults */
    int threads; /* CPU threads; 0: TENON_THREADS, else the cores this process may use */
} tn_context_options;

/** A context holds the thread pool. `opt` may be NULL. *out must be destroyed after all models. */
TN_API tn_status tn_context_create(const tn_context_options *opt, tn_context **out);
TN_API void tn_context_destroy(tn_context *ctx); /* NULL is allowed */
/** Where `print` of a model goes: called in program order with the text and the value, which is
 * valid during the call only. NULL (the default): nowhere, a library does not print. */
typedef void tn_print(void *user, const char *text, const DLTensor *value);
TN_API void tn_context_set_print(tn_context *ctx, tn_print *print, void *user);
TN_API int tn_context_threads(const tn_context *ctx);

/* --- streams and events ------------------------------------------------------------------------
 */

/** Work on one stream runs in order. On the CPU a call returns when its work is done. NULL stands
 * for the default stream wherever a stream is asked for. */
TN_API tn_status tn_stream_create(tn_context *ctx, tn_stream **out);
TN_API void tn_stream_destroy(tn_stream *s);
TN_API tn_status tn_stream_synchronize(tn_stream *s);
TN_API tn_status tn_event_create(tn_context *ctx, tn_event **out);
TN_API void tn_event_destroy(tn_event *e);
TN_API tn_status tn_event_record(tn_event *e, tn_stream *s);
/** Milliseconds between two recorded events. */
TN_API tn_status tn_event_elapsed_ms(const tn_event *from, const tn_event *to, double *ms);
TN_API tn_status tn_stream_wait_event(tn_stream *s, const tn_event *e);

/* --- memory ------------------------------------------------------------------------------------
 */

/** Bytes held by models, tapes and results of this process now, and at most so far. */
TN_API size_t tn_memory_allocated(const tn_context *ctx);
TN_API size_t tn_memory_max_allocated(const tn_context *ctx);
TN_API void tn_memory_reset_peak(tn_context *ctx);

/** Releases a result that the runtime allocated (it was passed with data == NULL); data, shape and
 * ndim are cleared. Other tensors are left alone. */
TN_API void tn_tensor_release(DLTensor *t);

/* --- models ------------------------------------------------------------------------------------
 */

typedef struct tn_model_options {
    size_t size;   /* sizeof(tn_model_options), or 0 for all defaults */
    uint64_t seed; /* of the initial values and of dropout; default 0 */
    int no_init;   /* 1: leave the state zero (it will be loaded) */
} tn_model_options;

/** Makes an instance of a compiled model (`desc`: what the generated code defines). Usually called
 * through MODEL_create of the generated header. */
TN_API tn_status tn_model_create(tn_context *ctx, const void *desc, const tn_model_options *opt,
                                 tn_model **out);
TN_API void tn_model_destroy(tn_model *m);
TN_API const char *tn_model_name(const tn_model *m);
TN_API tn_context *tn_model_context(const tn_model *m);

/** Seeds dropout and friends, and counts calls from 0 again; parameters stay as they are. */
TN_API tn_status tn_model_seed(tn_model *m, uint64_t seed);
/** Draws the initial state again from a seed. */
TN_API tn_status tn_model_init(tn_model *m, uint64_t seed);
/** Clears the gradients. */
TN_API tn_status tn_model_zero_grad(tn_model *m);

/* What kind of state a name stands for. */
enum { TN_STATE_PARAM, TN_STATE_BUFFER, TN_STATE_OPTIMIZER };

typedef struct tn_state_entry {
    const char *name; /* PyTorch's: "layers.0.weight" */
    int kind;         /* TN_STATE_... */
    int saved;        /* belongs into a state file */
    DLTensor tensor;  /* borrows the instance's memory: valid until it is destroyed */
    DLTensor grad;    /* parameters: the gradient; data NULL where there is none */
} tn_state_entry;

/** State by number (0 .. count-1, in state order) or by name (also aliases of shared parameters).
 * Whoever writes through `tensor` must call tn_model_state_changed afterwards. */
TN_API int tn_model_state_count(const tn_model *m);
TN_API tn_status tn_model_state(tn_model *m, int i, tn_state_entry *out);
TN_API tn_status tn_model_state_find(tn_model *m, const char *name, tn_state_entry *out);
TN_API void tn_model_state_changed(tn_model *m);

/** Numbers that may change while training ("loss.lr"), and counters ("loss.t"). */
TN_API tn_status tn_model_set_number(tn_model *m, const char *name, double value);
TN_API tn_status tn_model_get_number(const tn_model *m, const char *name, double *value);
TN_API int tn_model_number_count(const tn_model *m);
TN_API const char *tn_model_number_name(const tn_model *m, int i);

/* --- calls -------------------------------------------------------------------------------------
 */

typedef struct tn_argument {
    const char *name;
    int dtype; /* TN_F32.. of runtime/dtype.h; */
    int rank;
    int optional, inout; /* may be NULL; updated in place */
    int is_result;
} tn_argument;

/** Number of a program ("forward", "forward_train", "forward_backward", "loss_step"), or -1. */
TN_API int tn_model_program(const tn_model *m, const char *name);
TN_API int tn_model_program_count(const tn_model *m);
TN_API const char *tn_model_program_name(const tn_model *m, int program);
/** Arguments (first) and results of a program. */
TN_API int tn_program_args(const tn_model *m, int program, tn_argument *out, int max);

/** Runs a program. `args`: its arguments, then its results (DLTensor * each; NULL: an optional
 * argument left out, a result not wanted). Results with data == NULL are allocated.
 * A forward_train program gives a tape; the matching backward takes it and releases it, also when
 * it fails. */
TN_API tn_status tn_call(tn_model *m, tn_stream *s, int program, const DLTensor *const *args,
                         int nargs, tn_tape **tape);
/** For generated code. */
TN_API tn_status tn__run(tn_model *m, tn_stream *s, int program, const DLTensor *const *args,
                         tn_tape **tape_out, tn_tape *tape_in);
/** Releases a tape that will not be used. NULL is allowed. */
TN_API void tn_tape_release(tn_tape *tape);
/** Bytes of temporary memory that the last call used, and bytes its tape holds. */
TN_API void tn_model_last_memory(const tn_model *m, size_t *temps, size_t *tape);

/* --- files (libtenon_files) ----------------------------------------------------------------------
 */

/** Writes the saved state: .safetensors or .npz by the name's end; whole or not at all. */
TN_API tn_status tn_model_save(tn_model *m, const char *path);
/** Reads state by name. All missing, unknown and misshapen names are listed in one message, and
 * then nothing was changed. */
TN_API tn_status tn_model_load(tn_model *m, const char *path);

#ifdef __cplusplus
}
#endif
#endif
