/* drv.h: inside of the virtual driver: handles, contexts, streams and what is queued on them.
 *
 * One lock guards all of it; every entry point is `call_enter`, work, `call_leave`. Operations are
 * queued and run later, by whichever thread waits for one or queues another: drv_queue.c.
 * SPDX-License-Identifier: MIT */
#ifndef VGPU_DRV_H
#define VGPU_DRV_H

#include "tests/vgpu/hook.h"
#include "tests/vgpu/order.h"
#include "tests/vgpu/report.h"
#include "tests/vgpu/vgpu.h"

#define API __attribute__((visibility("default"))) CUresult

typedef struct Context Context;
typedef struct Stream Stream;
typedef struct Event Event;
typedef struct Graph Graph;
typedef struct GraphNode GraphNode;

/* --- entry points: drv_call.c ---------------------------------------------------------------- */

typedef enum {
    ALWAYS,  /* before cuInit too */
    INIT,    /* after cuInit */
    CURRENT, /* with a current context, also a broken one */
    WORKING  /* with a current context without a sticky error */
} Needs;

/** Takes the lock and settles what all calls have in common: injected failures, cuInit, the current
 * context and its error. Always followed by call_leave with the result of the call. */
CUresult call_enter(const char *name, Needs needs);
CUresult call_leave(CUresult r);
/** The entry point that runs in this thread, without the version: "cuMemAlloc". */
const char *call_name(void);
/** Prints what VGPU_TRACE=1 shows of this call's arguments. */
void call_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/** A finding "API" about the call, with this result. */
CUresult misuse(CUresult r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/** The lock is given up while a host function runs, and taken again. */
void call_unlock(void);
void call_lock(void);
/** Waits until another thread has ended a host function. */
void call_wait(void);
void call_wake(void);
/** Host functions may not call the driver: true while this thread runs one. */
void call_in_host_function(bool in);
/** Name as in cuda.h of a result, NULL: none. */
const char *result_name(CUresult r);
/** Whether CUDA lets no call succeed after this error. */
bool result_is_sticky(CUresult r);
/** Memory of the driver itself; never NULL. */
void *drv_alloc(size_t bytes);
void *drv_grow(void *p, size_t bytes);
void *drv_copy(const void *p, size_t bytes);

/* --- handles: drv_handle.c ------------------------------------------------------------------- */

typedef enum {
    HANDLE_CONTEXT,
    HANDLE_STREAM,
    HANDLE_EVENT,
    HANDLE_MODULE,
    HANDLE_LIBRARY,
    HANDLE_KERNEL,
    HANDLE_POOL,
    HANDLE_GRAPH,
    HANDLE_NODE,
    HANDLE_EXEC,
    HANDLE_KINDS
} HandleKind;

/* First member of everything that a program has a pointer to. */
typedef struct Handle {
    uint8_t kind;
    bool dead;       /* destroyed, or destroyed with its context */
    bool inner;      /* not made by the program: no leak */
    uint64_t number; /* of its kind, from 1 on */
    Context *context;
    const char *made_by;
} Handle;

/** A zeroed object with its handle. */
void *handle_new(HandleKind kind, size_t bytes, Context *context);
/** The program's handle, or NULL after a finding: not a handle of this kind, or destroyed. */
void *handle_get(const void *p, HandleKind kind);
/** Whether it is one, without a finding. */
bool handle_is(const void *p, HandleKind kind);
/** Marks as destroyed. The bytes stay for a while, so that a later use is told from garbage. */
void handle_kill(Handle *h);
/** Each live handle of a kind, in order of making. */
void handle_each(HandleKind kind, void (*visit)(Handle *h, void *with), void *with);
const char *handle_kind_name(HandleKind kind);
/** Findings for what lives in `context` (NULL: in all of them, at exit). */
void leaks_report(Context *context, const char *when);
/** The same for what stand-ins of libraries counted. */
void library_leaks(void);

/* --- contexts: drv_context.c ----------------------------------------------------------------- */

typedef struct ThreadStream {
    struct ThreadStream *next;
    uint64_t thread;
    Stream *stream;
} ThreadStream;

struct Context {
    Handle h;
    Device *device;
    bool primary;
    int retained; /* primary: count */
    unsigned flags, version;
    CUresult error; /* sticky */
    Stream *legacy; /* default stream */
    Clock gone;     /* of destroyed streams that it waits for */
    ThreadStream *per_thread;
    size_t limits[CU_LIMIT_MAX];
    CUfunc_cache cache;
    CUsharedconfig shared_config;
};

/** NULL: none. */
Context *context_current(void);
bool device_is(CUdevice device);
/** Sets the sticky error. */
void context_break(Context *c, CUresult error);
/** For a pool and a call that names a device: its context is the current one or the primary. */
Context *context_of_device(int ordinal);
/** cuCtxCreate of CUDA before 13; the call with this name. */
CUresult context_create(const char *name, CUcontext *out, unsigned flags, CUdevice device);
/** What a destroyed context takes along. */
void context_memory_end(Context *c);
void context_handles_end(Context *c);

/* --- work: drv_work.c ------------------------------------------------------------------------ */

typedef enum {
    WORK_NONE,
    WORK_KERNEL,
    WORK_COPY,
    WORK_SET,
    WORK_HOST,
    WORK_CALLBACK,
    WORK_LIBRARY,
    WORK_RECORD,
    WORK_WAIT,
    WORK_ALLOC,
    WORK_FREE
} WorkKind;

/* One side of a copy: rows of `width` bytes. */
typedef struct {
    uint64_t at;
    uint64_t pitch, slice; /* bytes from row to row, from slice to slice */
    bool host;             /* pageable memory: a plain pointer */
    Device *device;        /* that accesses it */
} Place;

typedef struct {
    uint64_t width, height, depth;
    Place to, from;
    uint8_t *staged; /* the bytes of a pageable source, taken when the call was made */
    bool pinned;     /* the source is host memory that the copy reads late */
} CopyWork;

typedef struct {
    uint64_t at, pitch, width, height; /* in elements of `size` bytes; pitch in bytes */
    uint32_t value, size;
} SetWork;

typedef struct Work {
    WorkKind kind;
    const char *name; /* "cuMemcpyHtoDAsync", "kernel add"; a literal or interned */
    Context *context;
    union {
        struct {
            Grid grid;
            uint8_t *params;
        } kernel;
        CopyWork copy;
        SetWork set;
        struct {
            CUhostFn fn;
            void *arg;
        } host;
        struct {
            CUstreamCallback fn;
            void *arg;
            CUstream stream;
        } callback;
        struct {
            LibraryWork *fn;
            void *args;
            size_t bytes;
        } external;      /* work of a library */
        Event *event;    /* RECORD */
        uint64_t memory; /* ALLOC, FREE: its first address */
    };
} Work;

/** Runs it as operation `op`. A failure breaks the context. */
void work_run(Work *w, uint32_t op, Stream *s);
/** A copy that owns its bytes; for graphs. */
Work work_copy(const Work *w);
void work_free(Work *w);
/** Bytes of a copy's side, row after row. */
uint8_t *copy_packed(const CopyWork *c, const Place *side, bool device);
/** The host knows more: pinned sources of copies that have ended must be as they were at the call.
 */
void pinned_check(const Clock *host);
/** Remembers what the source of this copy, operation `op`, holds at the call. */
void pinned_watch(const Work *w, uint32_t op, uint32_t component, uint32_t number);

/** Fills the pinned destination of a copy that is queued now, when nothing else may need it. */
void pinned_spoil(const CopyWork *c);
/** Whether the work may touch these bytes of host memory `a`. */
bool work_touches(const Work *w, uint64_t at, uint64_t end, const Alloc *a);
/** Whether any work that is queued may. */
bool queue_touches(uint64_t at, uint64_t end, const Alloc *a);

/** Check a copy or a fill and make the work: calls and graphs. */
CUresult copy_work(const CUDA_MEMCPY3D *p, Context *context, Work *out);
CUresult set_work(SetWork set, Context *c, Work *out);

/* --- queues: drv_queue.c --------------------------------------------------------------------- */

/* "After operation `number` of stream `stream`", whose clock is this. */
typedef struct {
    Stream *stream;
    uint64_t number;
    const Clock *clock; /* only read while queue_add runs */
} Dep;

typedef struct Op {
    struct Op *next;
    Work work;
    uint32_t id;     /* of order.h */
    uint32_t number; /* in the component */
    Clock clock;
    Dep *deps;
    int ndeps;
} Op;

struct Stream {
    Handle h;
    Stream *next;  /* all streams */
    bool blocking; /* takes part in the rules of the legacy default stream */
    bool legacy;
    bool lane;         /* of a graph */
    bool running;      /* its next operation runs now */
    Stream *next_host; /* while that is a host function: the next stream with one */
    int priority;
    unsigned flags;
    Op *head, *tail;
    uint64_t queued, done; /* operations */
    uint32_t component, last;
    Clock clock; /* of the operation queued last */
    struct Capture *capture;
};

Stream *stream_new(Context *c, bool blocking);
/** A stream inside of a graph. */
Stream *stream_lane(Context *c);
void stream_delete(Stream *s);
/** The stream of a handle (NULL, LEGACY and PER_THREAD too), or NULL after a finding. */
Stream *stream_get(CUstream handle);
Stream *stream_legacy(Context *c);
Stream *stream_per_thread(Context *c);

/** Queues `w` (and owns what it points to, also when it fails); captures it when the stream does.
 */
CUresult queue_push(Stream *s, Work *w);
/** The same, after these operations too, never captured. Gives the operation's number in the
 * stream, whose clock is then the stream's. Runs nothing: queue_progress comes after. */
uint64_t queue_add(Stream *s, Work *w, const Dep *deps, int ndeps);
/** Runs what shall run early. */
void queue_progress(Stream *s);
/** Runs what must, until operation `number` of the stream has ended. */
void queue_until(Stream *s, uint64_t number);
/** Whether it has. */
bool queue_ended(const Stream *s, uint64_t number);
/** queue_until the last one, and the host knows it. */
CUresult queue_sync(Stream *s);
/** All streams of the context (NULL: of all contexts). */
CUresult queue_sync_context(Context *c);
/** Runs everything without the host learning of it: for memory that is given back late. */
void queue_flush(void);
/** Makes a little progress: a program that polls must end. */
void queue_poll(Stream *s);
/** The host knows that what this clock covers has ended. */
void host_joins(const Clock *c);
const Clock *host_clock(void);
uint64_t queue_random(void);

struct Event {
    Handle h;
    bool timing;
    unsigned pending; /* records queued */
    Dep last;         /* the record queued last; stream NULL: never recorded */
    Clock clock;
    uint64_t ns;     /* when that record ran */
    Graph *captured; /* recorded while its stream captured into this graph */
    GraphNode **tails;
    int ntails;
};

/** cuEventElapsedTime, of all versions. */
CUresult event_elapsed(const char *name, float *ms, CUevent start, CUevent end);

/* --- graphs: drv_capture.c, drv_graph.c, drv_exec.c ------------------------------------------ */

struct GraphNode {
    Handle h;
    Graph *graph;
    Work work;
    Graph *child;
    GraphNode **deps;
    int ndeps, index; /* index: in the graph */
};

struct Graph {
    Handle h;
    GraphNode **nodes;
    int n;
    bool capturing;
};

GraphNode *graph_add(Graph *g, Work *w, GraphNode *const *deps, int ndeps);

/** When `s` captures: adds the work to the graph instead of the queue. */
CUresult capture_add(Stream *s, Work *w);
CUresult capture_record(Stream *s, Event *e);
CUresult capture_wait(Stream *s, Event *e);
/** Fails, and spoils the capture, when `s` captures: it cannot be waited for or asked. */
CUresult capture_forbids(Stream *s);
/** A call that CUDA does not allow while any capture of a strict mode runs (cuMemAlloc ...). */
CUresult capture_unsafe(void);
/** Use of the legacy stream while a blocking stream captures. */
CUresult capture_implicit(Stream *s);

/* --- modules, memory, launches --------------------------------------------------------------- */

/** The function of a program's handle, or NULL after a finding. */
Function *function_get(CUfunction f);
/** A live module's context. */
Context *function_context(const Function *f);
/** Checks the launch and makes the work. */
CUresult launch_work(const CUlaunchConfig *config, CUfunction f, void **params, void **extra,
                     Work *out);

typedef struct {
    int capability, processors, threads_per_processor, blocks_per_processor;
    int shared_per_processor, shared_optin, reserved_shared, l2, clock_khz, memory_khz, bus;
    const char *name;
} Model;

/** What a device of this capability is like: device.c. */
const Model *device_model(void);
/** Value of an attribute, false: CUDA has no such attribute. */
bool device_attribute(int *out, int attribute, const Device *d);
/** Registers of a thread: what the compiler would have kept to. */
int function_registers(const Function *f);
int function_max_threads(const Function *f);
int occupancy(const Function *f, int threads, uint64_t dynamic_shared);

/** Interned text that stays. */
const char *drv_intern(const char *text);

#endif
