/* rt.h: what the runtime's own files share. SPDX-License-Identifier: MIT */
#ifndef TENON_RT_H
#define TENON_RT_H

#include "runtime/dtype.h"
#include "runtime/fit.h"
#include "runtime/include/tenon.h"
#include "runtime/include/tenon_program.h"
#include "runtime/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { TN_MAX_RANK = 8, TN_MAX_ARGS = 512, TN_MAX_PLANS = 64 };

typedef struct tn__device tn__device;
typedef struct tn__cuda tn__cuda;

/** Sets the thread's message and returns the status. */
tn_status tn__fail(tn_status s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Large blocks that were freed, oldest first (kept.c). */
enum { TN_KEPT_MOST = 8 };
typedef struct {
    pthread_mutex_t lock;
    struct {
        void *at;
        size_t bytes;
        uint64_t turn;
    } block[TN_KEPT_MOST];
    int n;
    size_t bytes; /* of all of them */
    uint64_t turn;
    bool off;
} tn__kept;

struct tn_context {
    tn__pool *pool;
    int threads;
    int level; /* of kernels' code: 1 for every processor, 3 and 4 for x86-64-v3 and -v4 */
    atomic_size_t bytes, peak; /* of the host */
    tn__kept kept;
    tn_print *print;
    void *print_user;
    tn__device *cpu;
    atomic_uint_fast64_t streams; /* number of the last one */
    pthread_mutex_t lock;         /* of what follows */
    tn__cuda *cuda;               /* NULL before the first use */
    DLDevice standard;            /* {0, 0}: not set */
};

/* Counted memory of the host; NULL and a message when there is none. */
void *tn__alloc(tn_context *ctx, size_t bytes);
void tn__free(tn_context *ctx, void *p);

/* Blocks as the C library gives them; the first bytes of a block that is taken are its size. */
void tn__kept_open(tn_context *ctx);
void tn__kept_close(tn_context *ctx);
void *tn__kept_take(tn_context *ctx, size_t bytes);
void tn__kept_put(tn_context *ctx, void *block, size_t bytes);
void tn__kept_release(tn_context *ctx);
size_t tn__kept_bytes(tn_context *ctx);
/** TENON_NO_CACHE: freed memory of any device goes back, for tools that watch memory. */
bool tn__no_cache(void);

/* A loop of a program: what changes with its symbol. */
typedef struct {
    int step; /* the LOOP */
    int ndims, nsteps, npieces;
    int *dims;   /* sizes that mention the symbol, in order */
    int *steps;  /* steps whose guard or number of cells mentions it */
    int *pieces; /* buffers inside of others, at such an offset */
} tn__loop;

/* A plan: everything about one program at given sizes that does not depend on pointers. */
typedef struct tn__tuning tn__tuning;
typedef struct tn__lanes tn__lanes;

typedef struct tn__plan {
    int program;
    uint64_t hash;
    int64_t *symbols; /* values */
    uint8_t *given;   /* per argument and result: not NULL */
    int64_t *dims;    /* values of all sizes */
    size_t *bytes;    /* per buffer */
    size_t *place;    /* TEMP: offset in the arena; TAPE: offset on the tape */
    uint8_t *active;  /* per step: its guard holds and it has work */
    int32_t *strip;   /* per step: number of the strip that begins here, from 1; or 0 */
    size_t strips;    /* offset in the arena of what strips need for their blocks */
    size_t *arenas, *tapes; /* of several devices: bytes on those but the first; else NULL */
    tn__lanes *lanes;       /* how their steps go side by side (lanes.c) */
    tn__loop *loops;
    int nloops;
    size_t arena, tape; /* bytes needed */
    uint64_t used;      /* clock of the last use, for eviction */
    uint8_t *choice;    /* per choice of the program: its alternative; NULL: there is none */
    tn__tuning *tuning; /* while it is measured */
    /* the backend's: what was made of the steps, and how it ends */
    void *graph;
    void (*forget)(void *graph);
    int calls;
    bool no_graph;
} tn__plan;

/* Memory of a tape, and the stream of its last use where that is none of the caller's. */
typedef struct {
    tn__device *dev;
    void *memory;
    uint64_t stream;
} tn__owned;

struct tn_tape {
    tn_model *model;
    tn__device *dev;  /* where its memory is */
    tn__plan *plan;   /* sizes of the forward; copied symbols below */
    int program;      /* forward_train */
    uint64_t version; /* of the state at forward */
    uint64_t stream;  /* id of the one that used it last */
    void *memory;
    tn__owned *further; /* memory on other devices */
    int nfurther;
    tn__owned *staged; /* copies of arguments that the tape keeps */
    int nstaged;
    void **at; /* per tape entry */
    int64_t *symbols;
    int nsymbols;
    size_t bytes;
};

struct tn_model {
    tn_context *ctx;
    tn__device *dev;
    pthread_mutex_t busy; /* while a call is made: a synchronisation in another thread keeps off */
    /* A model of several devices is a part a device, in the order of its places; the first one is the
     * model itself, to which all but what belongs to a device belongs. NULL: there is one device */
    tn_model **parts;
    int nparts;
    tn_stream *own, *copies; /* work of a part but the first; copies from and to it; NULL: the CPU */
    tn_event *mark, *copied; /* where these are, or the caller's */
    bool pinned;             /* the arena */
    const tn_model_desc *made_of; /* as given by the caller */
    const tn_model_desc *d;       /* of the device */
    void **slots;                 /* memory per slot, on the device */
    void *impl;                   /* what the backend has of it */
    atomic_uint_fast64_t stream;  /* id of the one that used it last; 0: none */
    uint64_t version;             /* counts changes of the state */
    bool broken;                  /* a change of the state failed half-way */
    tn__plan **plans;
    int nplans;
    uint64_t clock;
    void *arena;
    size_t arena_bytes;
    void *call; /* what a call notes down (executor.c) */
    size_t call_bytes;
    size_t last_temps, last_tape;
    int32_t error[4]; /* error word of kernels on the CPU: site, value, .. */
};

/* plan.c */
/** The plan for these sizes, made or found. NULL after a failure. */
tn__plan *tn__plan_get(tn_model *m, int program, const int64_t *symbols, const uint8_t *given);
void tn__plan_free(tn__plan *p);
bool tn__step_runs(tn_model *m, const tn_program *p, const tn_step *s, const tn__plan *plan);
/** What changes in the loops of a program (loop.c). */
tn_status tn__loops_find(const tn_program *p, tn__plan *plan);
void tn__loops_free(tn__plan *plan);
/** Evaluates size number `dim`; false on overflow or division by 0. */
bool tn__dim_eval(const tn_program *p, int dim, const int64_t *symbols, const int64_t *dims,
                  int64_t *out);
/** The symbol that size number `dim` is, alone; or -1. */
int tn__lone_symbol(const tn_program *p, int dim);

/* parts.c */
/** The part of a model that is at a place, by its number. */
static inline tn_model *tn__part_of(tn_model *m, int place)
{
    return m->parts ? m->parts[place] : m;
}
/** Opens what the model has on devices but the first, and closes it. */
tn_status tn__parts_open(tn_model *m);
void tn__parts_close(tn_model *m);
/** Waits for what they were given. */
void tn__parts_wait(tn_model *m);
/** Gives back the memory of temporaries, used last on a stream. */
void tn__arena_free(tn_model *m, uint64_t stream);

/* lanes.c */
/** How the steps of a plan over several devices depend on each other. */
tn_status tn__lanes_plan(tn_model *m, const tn_program *p, tn__plan *plan);
void tn__lanes_free(tn__lanes *l);

/* model.c */
void tn__lock_init(pthread_mutex_t *lock);
size_t tn__slot_bytes(const tn_slot *s);
/** Copies bytes of the state from or to the host, in the default stream; reading waits. */
tn_status tn__state_read(const tn_model *of, const void *at, void *to, size_t bytes);
tn_status tn__state_write(tn_model *m, void *at, const void *from, size_t bytes);

/* tensor.c */
void tn__dl_type(int dtype, DLDataType *out);
int tn__dtype_of(DLDataType t); /* 0: none of ours */
/* dtype.c */
/** Writes a number as one element. */
void tn__dtype_store(int dtype, double x, void *to);

#endif
