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

/** A context holds the thread pool and the devices in use. `opt` may be NULL. Everything made in
 * it must be destroyed before it. */
TN_API tn_status tn_context_create(const tn_context_options *opt, tn_context **out);
TN_API void tn_context_destroy(tn_context *ctx); /* NULL is allowed */
/** Where `print` of a model goes: called in program order with the text and the value, which is in
 * host memory and valid during the call only. NULL (the default): nowhere, a library does not
 * print. */
typedef void tn_print(void *user, const char *text, const DLTensor *value);
TN_API void tn_context_set_print(tn_context *ctx, tn_print *print, void *user);
TN_API int tn_context_threads(const tn_context *ctx);

/* --- devices ---------------------------------------------------------------------------------
 * A device is DLPack's: {kDLCPU, 0} or {kDLCUDA, n}; n counts what CUDA_VISIBLE_DEVICES lets
 * through. {0, 0} stands for the context's default device. The CUDA driver is looked for at the
 * first use of a device; without it everything but CUDA works. */

typedef struct tn_device_info {
    size_t size; /* sizeof(tn_device_info); set before the call */
    char name[256];
    int major, minor; /* compute capability; 0 for the CPU */
    int multiprocessors, warp, max_threads_per_block;
    int shared_per_block; /* bytes without asking for more */
    int driver;           /* 13000: CUDA 13.0 */
    size_t memory;        /* bytes in all; 0 for the CPU */
} tn_device_info;

/** Usable devices of a type: kDLCPU 1, kDLCUDA 0 or more. */
TN_API int tn_device_count(tn_context *ctx, int device_type);
/** TN_OK where the device can be used; else tn_last_error says what is missing. */
TN_API tn_status tn_device_available(tn_context *ctx, DLDevice device);
TN_API tn_status tn_device_name(tn_context *ctx, DLDevice device, char *out, size_t n);
TN_API tn_status tn_device_properties(tn_context *ctx, DLDevice device, tn_device_info *out);
/** Where tn_stream_create makes streams. At first: the first usable CUDA device, else the CPU. */
TN_API tn_status tn_device_set_default(tn_context *ctx, DLDevice device);
TN_API DLDevice tn_device_default(tn_context *ctx);
/** Waits for all work on the device; reports what went wrong in it. */
TN_API tn_status tn_device_synchronize(tn_context *ctx, DLDevice device);
/** *out: whether `device` can reach the memory of `peer` without the host. */
TN_API tn_status tn_device_can_access_peer(tn_context *ctx, DLDevice device, DLDevice peer,
                                           int *out);

/* --- streams and events ------------------------------------------------------------------------
 * Work on one stream runs in order. On a GPU calls return before the work is done; on the CPU
 * a call returns when its work is done. NULL stands for the default stream (of the device of the
 * model) wherever a stream is asked for. */

/** A stream of the context's default device. */
TN_API tn_status tn_stream_create(tn_context *ctx, tn_stream **out);
TN_API tn_status tn_stream_create_on(tn_context *ctx, DLDevice device, tn_stream **out);
/** A stream made by others (`native`: a CUstream; NULL: CUDA's own default stream). It is not
 * destroyed with the tn_stream, and must outlive it. */
TN_API tn_status tn_stream_wrap(tn_context *ctx, DLDevice device, void *native, tn_stream **out);
/** Waits for the work on it. NULL is allowed. */
TN_API void tn_stream_destroy(tn_stream *s);
/** The default stream of a device; NULL after a failure. Not to be destroyed. */
TN_API tn_stream *tn_stream_default(tn_context *ctx, DLDevice device);
TN_API DLDevice tn_stream_device(const tn_stream *s);
/** The CUstream; NULL for the CPU. */
TN_API void *tn_stream_native(const tn_stream *s);
/** Waits until all work given to the stream so far is done; reports what went wrong in it. NULL is
 * the CPU's: a GPU's default stream is tn_stream_default's, or tn_device_synchronize waits. */
TN_API tn_status tn_stream_synchronize(tn_stream *s);
/** What comes after on `s` waits for what was given to `other` so far. */
TN_API tn_status tn_stream_wait_stream(tn_stream *s, tn_stream *other);
TN_API tn_status tn_stream_wait_event(tn_stream *s, const tn_event *e);
TN_API tn_status tn_event_create(tn_context *ctx, tn_event **out);
TN_API void tn_event_destroy(tn_event *e);
TN_API tn_status tn_event_record(tn_event *e, tn_stream *s);
TN_API tn_status tn_event_synchronize(tn_event *e);
/** Milliseconds between two recorded events of one device; waits for both. */
TN_API tn_status tn_event_elapsed_ms(const tn_event *from, const tn_event *to, double *ms);

/* --- memory ------------------------------------------------------------------------------------
 * Memory of a GPU is kept when it is freed, and used again; a block that was freed is used again
 * on the same stream at once, elsewhere when the work on it is done. */

/** Bytes held by models, tapes and results on a device now, and at most so far. */
TN_API size_t tn_memory_allocated(tn_context *ctx, DLDevice device);
TN_API size_t tn_memory_max_allocated(tn_context *ctx, DLDevice device);
/** Bytes that the device gave: what is held and what is kept for later. */
TN_API size_t tn_memory_reserved(tn_context *ctx, DLDevice device);
TN_API size_t tn_memory_max_reserved(tn_context *ctx, DLDevice device);
TN_API void tn_memory_reset_peak(tn_context *ctx, DLDevice device);
/** Gives back what is kept for later. */
TN_API tn_status tn_memory_empty_cache(tn_context *ctx, DLDevice device);
/** What holds the memory, as JSON, cut off after n - 1 bytes; returns the bytes of the whole
 * text, as snprintf does. */
TN_API size_t tn_memory_snapshot(tn_context *ctx, DLDevice device, char *out, size_t n);

/** Host memory that a GPU copies from and to without a detour (pinned); where there is no GPU,
 * ordinary memory. */
TN_API tn_status tn_host_alloc(tn_context *ctx, size_t bytes, void **out);
TN_API void tn_host_free(tn_context *ctx, void *p);
/** Pins memory of the caller's; the range is unregistered before it is freed. */
TN_API tn_status tn_host_register(tn_context *ctx, void *p, size_t bytes);
TN_API tn_status tn_host_unregister(tn_context *ctx, void *p);

/** Makes a contiguous tensor with anything in it, for tn_tensor_release. On a GPU the memory
 * belongs to the device's default stream. */
TN_API tn_status tn_tensor_create(tn_context *ctx, DLDevice device, DLDataType dtype, int ndim,
                                  const int64_t *shape, DLTensor *out);
/** Releases a tensor that the runtime allocated: a result that was passed with data == NULL, or
 * one of tn_tensor_create. data, shape, ndim and device are cleared. Other tensors are left
 * alone. */
TN_API void tn_tensor_release(DLTensor *t);
/** Says that work on `s` uses a tensor that the runtime allocated for another stream: its memory is
 * not used again before that work is done. */
TN_API tn_status tn_tensor_record_stream(const DLTensor *t, tn_stream *s);

/** Copies between tensors of equal dtype and shape, wherever they are, strided or not; in order
 * with `s`, a stream of the device of dst or src (NULL where both are on the host). Returns when
 * host memory may be read or used again, unless non_blocking: then that is after a synchronisation
 * of s (with memory that is not pinned, or strided, it is at once). */
TN_API tn_status tn_copy(const DLTensor *dst, const DLTensor *src, tn_stream *s, int non_blocking);

/* --- models ------------------------------------------------------------------------------------
 */

typedef struct tn_model_options {
    size_t size;   /* sizeof(tn_model_options), or 0 for all defaults */
    uint64_t seed; /* of the initial values and of dropout; default 0 */
    int no_init;   /* 1: leave the state zero (it will be loaded) */
    /* Where it lives and runs. {0, 0}: the first usable CUDA device if the model was compiled for
     * CUDA, else the CPU. {kDLCUDA, n} fails where something is missing, and says what. Of a model
     * whose text names devices: its default device; the others must be there, too. */
    DLDevice device;
} tn_model_options;

/** Makes an instance of a compiled model (`desc`: what the generated code defines). Usually called
 * through MODEL_create of the generated header. */
TN_API tn_status tn_model_create(tn_context *ctx, const void *desc, const tn_model_options *opt,
                                 tn_model **out);
TN_API void tn_model_destroy(tn_model *m);
TN_API const char *tn_model_name(const tn_model *m);
TN_API tn_context *tn_model_context(const tn_model *m);
/** The device, or the default device of a model over several: streams of its calls are of that one. They
 * begin where the stream is, on all devices, and the stream goes on when all have done the call. */
TN_API DLDevice tn_model_device(const tn_model *m);
/** Moves an instance with its state; {0, 0}: as at its creation. Tensors of tn_model_state are then
 * others, and tapes of before can only be released. After a failure it is where it was. A model over
 * several devices stays where its text says: TN_UNSUPPORTED. */
TN_API tn_status tn_model_to(tn_model *m, DLDevice device);

/** Seeds dropout and friends, and counts calls from 0 again; parameters stay as they are. */
TN_API tn_status tn_model_seed(tn_model *m, uint64_t seed);
/** Draws the initial state again from a seed. */
TN_API tn_status tn_model_init(tn_model *m, uint64_t seed);
/** Clears the gradients; on a GPU in the default stream. */
TN_API tn_status tn_model_zero_grad(tn_model *m);

/* What kind of state a name stands for. */
enum { TN_STATE_PARAM, TN_STATE_BUFFER, TN_STATE_OPTIMIZER };

typedef struct tn_state_entry {
    const char *name; /* PyTorch's: "layers.0.weight" */
    int kind;         /* TN_STATE_... */
    int saved;        /* belongs into a state file */
    DLTensor tensor; /* borrows the instance's memory (see `device`): valid until it is destroyed */
    DLTensor grad;   /* parameters: the gradient; data NULL where there is none */
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
 * A model on a GPU takes tensors of its GPU in place (those that are strided or not aligned to 16
 * bytes are copied) and returns before the work is done. Tensors in host memory are copied to the
 * GPU or back, and then the call returns when all is done; memory of type kDLCUDAHost for an
 * argument does not make it wait. A result with data == NULL is allocated where its `device` says
 * (in host memory or on the model's GPU) or, where that is {0, 0}, on the GPU if any tensor of the
 * call is there, else on the host. A failed call leaves the descriptors of results as they were.
 * After a failure in the middle of a change of the state, calls are refused until the state is
 * loaded or drawn again.
 * Mistakes that only the GPU sees (an index out of range) are reported by the call when it waits,
 * else by the next call or synchronisation; the state has then been updated by the program.
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
