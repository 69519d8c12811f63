/* cuda.h: what the files of the CUDA backend share. SPDX-License-Identifier: MIT */
#ifndef TENON_CUDA_H
#define TENON_CUDA_H

#include "runtime/backend.h"
#include "runtime/cuda_driver.h"
#include "runtime/heap.h"

typedef struct tn__gpu tn__gpu;
typedef struct tn__module tn__module;
typedef struct tn__gpu_model tn__gpu_model;
typedef struct tn__lt_shapes tn__lt_shapes;

/* A function of a library, and where in a table of functions it goes. */
typedef struct {
    const char *name;
    size_t at;
} tn__symbol;
/** Fills a table from a library. NULL, or the name of the first that the library lacks. */
const char *tn__find_symbols(void *lib, const tn__symbol *symbols, size_t n, void *into);
/** A library of the CUDA toolkit, "libcublas", of version 13 or 12; it stays open. NULL: not there.
 */
void *tn__toolkit_library(const char *name);

/* The driver and what hangs on it; one a context. Its lock is the context's. */
struct tn__cuda {
    tn__driver cu;
    int count; /* usable devices; where 0, `missing` says why */
    char missing[512];
    tn__gpu **gpus; /* opened ones */
    void **pinned;  /* memory of tn_host_alloc */
    int npinned;
    tn__graphs graphs;
    tn__blas blas;
    int blas_state; /* 0: not looked for, 1: there, -1: not there: */
    char no_blas[512];
    tn__lt lt;
    int lt_state;
};

struct tn__gpu {
    tn__device base;
    tn__cuda *cuda;
    const tn__driver *cu;
    CUdevice device;
    CUcontext context;
    int arch;             /* 90: sm_90 */
    bool blocking;        /* CUDA_LAUNCH_BLOCKING: every step is waited for */
    pthread_mutex_t lock; /* of what follows */
    tn__heap *heap;
    CUresult refusal; /* why the driver gave no memory */
    tn_stream *streams;
    tn__module *modules;
    tn__gpu_model *models;
    CUmodule copies; /* kernels of cuda_copy.c; NULL before the first use */
    CUfunction copy[4];
    tn__recorder *recording; /* of the instance that makes a graph now */
    CUstream capture;        /* what libraries are captured from; NULL before the first use */
    int ngraphs;
    tn__lt_shapes *shapes; /* what cuBLASLt was asked for; NULL before the first product */
};

/* Device code of a description, loaded once for all its instances. */
struct tn__module {
    const tn_model_desc *d;
    CUmodule module;
    CUfunction *functions; /* per kernel */
    int users;
    tn__module *next;
};

/* What an instance has on a GPU. */
struct tn__gpu_model {
    tn_model *m;
    tn__module *module;
    CUevent done;                    /* behind its last work */
    void **constants;                /* per program and buffer: first_constant[program] + buffer */
    int32_t *first_constant, *words; /* per program and step alike: its error word, or -1 */
    int32_t *first_step;
    int32_t *counters; /* its first counter */
    int nwords, ncounters;
    CUdeviceptr word;    /* error words on the device, 4 numbers each */
    CUdeviceptr arrived; /* counters */
    int32_t *seen;       /* and what was copied of them, pinned */
    bool wrote, asked;   /* kernels that check ran since the last copy; a copy is on its way */
    tn__gpu_model *next;
};

extern const tn__backend tn__cuda_backend;

static inline tn__gpu *tn__gpu_of(tn__device *d)
{
    return (tn__gpu *)(void *)d;
}

/** TN_OK, or the status for a driver's error, with `what` and the error's name as the message. */
tn_status tn__cu(const tn__gpu *g, CUresult r, const char *what);
/** "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered" */
void tn__cu_text(const tn__driver *cu, CUresult r, char *out, size_t n);
/** Where every step is waited for: waits, and reports what `what` did. */
tn_status tn__cu_step(tn_stream *s, const char *what);

/* cuda_memory.c */
tn_status tn__gpu_heap_open(tn__gpu *g);
void *tn__gpu_alloc(tn__device *d, tn_stream *s, size_t bytes, tn__use use);
void tn__gpu_free(tn__device *d, void *p, uint64_t last);
tn_status tn__gpu_record(tn__device *d, void *p, tn_stream *s);
tn_status tn__gpu_upload(tn_stream *s, void *to, const void *from, size_t bytes);
tn_status tn__gpu_download(tn_stream *s, void *to, const void *from, size_t bytes);
tn_status tn__gpu_copy(tn_stream *s, void *to, const void *from, size_t bytes);
tn_status tn__gpu_peer(tn_stream *s, void *to, tn__device *dst, const void *from, tn__device *src,
                       size_t bytes);
tn_status tn__gpu_fill(tn_stream *s, void *to, const void *one, size_t size, size_t n);

/* cuda_copy.c */
tn_status tn__gpu_strided(tn_stream *s, const tn__strided *c);
void tn__gpu_copies_close(tn__gpu *g);

/* cuda_stream.c */
tn_status tn__gpu_stream_open(tn_stream *s);
void tn__gpu_stream_close(tn_stream *s);
tn_status tn__gpu_sync(tn_stream *s);
void tn__gpu_event_close(tn_event *e);
tn_status tn__gpu_event_record(tn_event *e, tn_stream *s);
tn_status tn__gpu_event_wait(tn_stream *s, const tn_event *e);
tn_status tn__gpu_event_sync(const tn_event *e);
tn_status tn__gpu_event_elapsed(const tn_event *from, const tn_event *to, double *ms);

/* cuda_module.c */
/** The module of a description, loaded if it is not. */
tn_status tn__gpu_module(tn__gpu *g, const tn_model_desc *d, tn__module **out);
void tn__gpu_module_release(tn__gpu *g, tn__module *m);
/** Loads code that is complete in memory. `log` gets what the driver's compiler says. */
CUresult tn__gpu_load(tn__gpu *g, const void *code, CUmodule *out, char *log, size_t n);

/* cuda_model.c */
tn_status tn__gpu_open_model(tn_model *m);
void tn__gpu_close_model(tn_model *m);
void tn__gpu_adopt_model(tn_model *m);
tn_status tn__gpu_begin(tn_model *m, tn_stream *s);
tn_status tn__gpu_end(tn_model *m, tn_stream *s);
tn_status tn__gpu_mistakes(tn_model *m, bool synchronised);
tn_status tn__gpu_mistakes_on(tn__device *d, uint64_t stream);
tn_status tn__gpu_constant(Call *c, int buffer, void **out);
tn_status tn__gpu_launch(Call *c, int step);

/* cuda_graph.c */
/** The steps of a call: as a graph, or one by one. */
tn_status tn__gpu_run(Call *c);
/** Work on a stream that stands for a call's: captured or compared. True: it is not to be done. The
 * words say what it works on. Inside: the work is that of a library whose words were given. */
bool tn__record_other(tn_stream *s, const uint64_t *words, int n);
void tn__record_inside(tn_stream *s, bool inside);
bool tn__record_launch(tn_stream *s, int step, const uint64_t *pointers, int n,
                       const tn__kernel_node *kernel);
/** Memory that captured work uses stays until the graph goes. The device is locked. */
void tn__record_memory(tn_stream *s, void *p);
bool tn__record_keeps(const tn__gpu *g, const void *p);

/* cuda_blas.c */
/** The library of a stream, if it has one, works on this one of the driver's from now on. */
tn_status tn__gpu_blas_stream(const tn_stream *s, void *native);
bool tn__gpu_has_blas(tn__gpu *g);
tn_status tn__gpu_gemm(Call *c, int step);
void tn__gpu_blas_close(tn_stream *s);

/* cuda_blaslt.c */
/* D = A B, column by column, and a vector beside it. */
typedef struct {
    int type; /* of all of them: CUDA_R_32F .. */
    bool tf32;
    int op_a, op_b; /* CUBLAS_OP_N, CUBLAS_OP_T */
    int64_t m, n, k, lda, ldb, ldd;
    int epilogue; /* LT_BIAS: vector[m] is added to each column; LT_SUM_A, LT_SUM_B: it becomes the
                     sums of A's rows, of B's columns */
    const void *a, *b;
    void *d, *vector;
} tn__lt_product;
enum { LT_BIAS = 4, LT_SUM_A = 256, LT_SUM_B = 512 };
/** False: this product has to be made without it. The stream is locked, and has its workspace. */
bool tn__gpu_lt(tn_stream *s, const tn__lt_product *p, void *workspace, size_t bytes, int *status);
void tn__gpu_lt_close(tn__gpu *g);

#endif
