/* backend.h: what a kind of device can do; the executor knows nothing else about devices. A table
 * of functions for the CPU (cpu.c) and one for CUDA (cuda.c). SPDX-License-Identifier: MIT */
#ifndef TENON_BACKEND_H
#define TENON_BACKEND_H

#include "runtime/exec.h"
#include "runtime/rt.h"

/* What memory is for: shown when there is none left. */
typedef enum {
    TN_FOR_STATE,
    TN_FOR_TEMPS,
    TN_FOR_TAPE,
    TN_FOR_RESULT,
    TN_FOR_COPY,
    TN_FOR_LIBRARY,
    TN_FOR_USES
} tn__use;

/* A copy of elements between two strided places; strides in bytes, of any sign. */
typedef struct {
    char *to;
    const char *from;
    size_t size; /* of an element: 1, 2, 4 or 8 */
    int rank;
    int64_t shape[TN_MAX_RANK], to_stride[TN_MAX_RANK], from_stride[TN_MAX_RANK];
} tn__strided;

typedef struct tn__recorder tn__recorder;

typedef struct tn__backend {
    bool host;    /* memory is the host's, and work is done when a call returns */
    size_t align; /* of tensors that kernels use in place */

    /* Work of this thread is for the device, until leave. */
    void (*enter)(tn__device *d);
    void (*leave)(tn__device *d);

    /* Memory. A block belongs to the stream that it was made for; `last` is the id of the stream
     * in whose order its last use is (0: as made). alloc: NULL and a message when there is none. */
    void *(*alloc)(tn__device *d, tn_stream *s, size_t bytes, tn__use use);
    void (*free)(tn__device *d, void *p, uint64_t last);
    /* Work on `s` uses the block too: it is not used again before that is done. */
    tn_status (*record)(tn__device *d, void *p, tn_stream *s);

    /* In order on a stream. Memory of the host must stay until a synchronisation. */
    tn_status (*upload)(tn_stream *s, void *to, const void *from, size_t bytes);
    tn_status (*download)(tn_stream *s, void *to, const void *from, size_t bytes);
    tn_status (*copy)(tn_stream *s, void *to, const void *from, size_t bytes);
    tn_status (*peer)(tn_stream *s, void *to, tn__device *dst, const void *from, tn__device *src,
                      size_t bytes);
    tn_status (*strided)(tn_stream *s, const tn__strided *c);
    /* n times the element of `size` bytes at `one` */
    tn_status (*fill)(tn_stream *s, void *to, const void *one, size_t size, size_t n);
    tn_status (*sync)(tn_stream *s);

    /* Steps of a program: all of a call (NULL: one by one), one. */
    tn_status (*run)(Call *c);
    tn_status (*launch)(Call *c, int step);
    tn_status (*gemm)(Call *c, int step);
    /* The steps of a strip, and the memory that it needs for its blocks. NULL: has none. */
    tn_status (*strip)(Call *c, int strip);
    size_t (*strip_bytes)(const tn__device *d, const tn_program *p, const tn__plan *plan,
                          int strip);
    /* A loop that has rows, by rows; done: it did so. NULL: it never does. */
    tn_status (*rows)(Call *c, const tn__loop *l, bool *done);
    /* A guard over an architecture (80: sm_80) or a library. */
    bool (*arch)(tn__device *d, int64_t arch);
    bool (*has)(tn__device *d, int64_t library);

    /* Instances: what is loaded for them; work of theirs begins and ends on a stream (the order of
     * their calls holds over streams); mistakes that kernels reported, once the work is done. */
    tn_status (*open)(tn_model *m);
    void (*close)(tn_model *m);
    void (*adopt)(tn_model *m); /* what was opened belongs to this one from now on */
    tn_status (*begin)(tn_model *m, tn_stream *s);
    tn_status (*end)(tn_model *m, tn_stream *s);
    tn_status (*mistakes)(tn_model *m, bool synchronised);
    /* Of all instances whose last call was on this stream, which has been synchronised. */
    tn_status (*mistakes_on)(tn__device *d, uint64_t stream);
    /** A constant of a program in memory of the device. */
    tn_status (*constant)(Call *c, int buffer, void **out);

    /* Streams and events. */
    tn_status (*stream_open)(tn_stream *s);
    void (*stream_close)(tn_stream *s);
    void (*event_close)(tn_event *e);
    tn_status (*event_record)(tn_event *e, tn_stream *s);
    tn_status (*event_wait)(tn_stream *s, const tn_event *e);
    tn_status (*event_sync)(const tn_event *e);
    tn_status (*event_elapsed)(const tn_event *from, const tn_event *to, double *ms);
} tn__backend;

struct tn__device {
    const tn__backend *ops;
    tn_context *ctx;
    DLDevice dl;
    tn_stream *stream; /* the default one */
};

struct tn_stream {
    tn__device *dev;
    uint64_t id;            /* from 1 */
    void *native;           /* CUstream */
    bool wrapped;           /* native is the caller's */
    tn_stream *next;        /* streams of the device */
    tn__recorder *recorder; /* of a stream that stands for another one (cuda_graph.c); else NULL */
    void *library;          /* handle of the BLAS library for this stream, made at first use */
    void *scratch;          /* and its memory */
    pthread_mutex_t lock;   /* of both */
};

struct tn_event {
    tn_context *ctx;
    tn__device *dev; /* of the stream it was recorded on; NULL: not recorded */
    void *native;    /* CUevent */
    double ms;       /* CPU */
};

extern const tn__backend tn__cpu_backend;

/* context.c, device.c */
/** The device of a DLPack name; {0, 0}: the default. NULL and a message if it cannot be used. */
tn__device *tn__device_get(tn_context *ctx, DLDevice d);
tn_status tn__cpu_open(tn_context *ctx);
/** The level of x86-64 of this processor: 4, 3 or 1 (others are 1 too). */
int tn__cpu_level(void);
void tn__cpu_close(tn_context *ctx);
tn_status tn__stream_new(tn__device *d, void *native, bool wrap, tn_stream **out);
void tn__stream_end(tn_stream *s);
/** The stream `s`, or the default one of the device. NULL and a message if it is of another. */
tn_stream *tn__stream_on(tn__device *d, tn_stream *s);

/* cuda.c */
/** Usable devices; the message says what is missing where there is none. */
int tn__cuda_count(tn_context *ctx);
/** NULL and a message where it cannot be used. */
tn__device *tn__cuda_get(tn_context *ctx, int number);
void tn__cuda_close(tn_context *ctx);
tn_status tn__cuda_info(tn__device *d, tn_device_info *out);
tn_status tn__cuda_peer(tn__device *d, tn__device *peer, int *out);
tn_status tn__cuda_sync(tn__device *d);
/* cuda_memory.c */
typedef struct {
    size_t allocated, max_allocated, reserved, max_reserved;
} tn__memory;
tn__memory tn__cuda_memory(tn__device *d);
void tn__cuda_reset_peak(tn__device *d);
tn_status tn__cuda_empty_cache(tn__device *d);
size_t tn__cuda_snapshot(tn__device *d, char *out, size_t n);
tn_status tn__cuda_host_alloc(tn__device *d, size_t bytes, void **out);
/** True if it was memory of tn__cuda_host_alloc. */
bool tn__cuda_host_free(tn_context *ctx, void *p);
tn_status tn__cuda_host_register(tn__device *d, void *p, size_t bytes, bool on);

/* tensor.c */
char *tn__data(const DLTensor *t);
bool tn__on_host(const DLTensor *t);
bool tn__contiguous(const DLTensor *t);
int64_t tn__numel(const DLTensor *t);
/** The copy from a tensor to packed memory, or the other way. */
tn__strided tn__packing(const DLTensor *t, void *packed, bool pack);
/** On the host, now. */
void tn__copy_strided(const tn__strided *c);
/** A tensor for tn_tensor_release, in `t`: dtype and shape are set. */
tn_status tn__tensor_make(tn__device *d, tn_stream *s, int dtype, int rank, const int64_t *shape,
                          size_t bytes, DLTensor *t);

#endif
