/* cuda.c: the CUDA driver is found and its devices opened, at the first use.
 * SPDX-License-Identifier: MIT */
#include "runtime/cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- the driver ----------------------------------------------------------------------------------
 */

void tn__cu_text(const tn__driver *cu, CUresult r, char *out, size_t n)
{
    const char *name = NULL, *text = NULL;
    if (cu->error_name(r, &name) || !name)
        name = "an unknown error";
    if (cu->error_text(r, &text) || !text)
        text = "no description";
    snprintf(out, n, "%s (%d): %s", name, (int)r, text);
}

tn_status tn__cu(const tn__gpu *g, CUresult r, const char *what)
{
    char text[256];
    if (r == CUDA_SUCCESS)
        return TN_OK;
    tn__cu_text(g->cu, r, text, sizeof text);
    return tn__fail(r == CUDA_ERROR_OUT_OF_MEMORY ? TN_MEMORY : TN_DRIVER, "%s on cuda:%d: %s",
                    what, (int)g->base.dl.device_id, text);
}

const char *tn__find_symbols(void *lib, const tn__symbol *symbols, size_t n, void *into)
{
    for (size_t i = 0; i < n; i++) {
        void *f = dlsym(lib, symbols[i].name);
        if (!f)
            return symbols[i].name;
        memcpy((char *)into + symbols[i].at, &f, sizeof f);
    }
    return NULL;
}

void *tn__toolkit_library(const char *name)
{
    static const char *const places[] = {"", "/usr/local/cuda/lib64/"};
    for (int i = 0; i < 2; i++)
        for (int version = 13; version >= 12; version--) {
            char path[128];
            snprintf(path, sizeof path, "%s%s.so.%d", places[i], name, version);
            void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
            if (lib)
                return lib;
        }
    return NULL;
}

/* All or none. */
static void find_graphs(tn__cuda *c, void *lib)
{
    static const tn__symbol functions[] = {
#define CU(field, symbol, parameters) {symbol, offsetof(tn__graphs, field)},
#include "runtime/cuda_graphs.def"
#undef CU
    };
    tn__graphs found = {0};
    if (!tn__find_symbols(lib, functions, sizeof functions / sizeof *functions, &found) &&
        !getenv("TENON_NO_GRAPHS"))
        c->graphs = found;
}

/* The library stays: what hangs on it (BLAS) has threads and memory of its own in it. */
static bool find_functions(tn__cuda *c)
{
    static const tn__symbol functions[] = {
#define CU(field, symbol, parameters) {symbol, offsetof(tn__driver, field)},
#include "runtime/cuda_driver.def"
#undef CU
    };
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!lib) {
        snprintf(c->missing, sizeof c->missing,
                 "the CUDA driver (libcuda.so.1) was not found: it comes with NVIDIA's driver for "
                 "the GPU");
        return false;
    }
    const char *lacks =
        tn__find_symbols(lib, functions, sizeof functions / sizeof *functions, &c->cu);
    if (lacks) {
        snprintf(c->missing, sizeof c->missing,
                 "the CUDA driver (libcuda.so.1) has no %s: it is too old", lacks);
        return false;
    }
    find_graphs(c, lib);
    return true;
}

static void count_devices(tn__cuda *c)
{
    const char *what = "cuInit";
    CUresult r = c->cu.init(0);
    if (!r) {
        what = "cuDeviceGetCount";
        r = c->cu.count(&c->count);
    }
    if (r == CUDA_ERROR_NO_DEVICE || (!r && c->count < 1)) {
        const char *visible = getenv("CUDA_VISIBLE_DEVICES");
        snprintf(c->missing, sizeof c->missing, "the CUDA driver sees no GPU%s%s%s",
                 visible ? " (CUDA_VISIBLE_DEVICES is '" : "", visible ? visible : "",
                 visible ? "')" : "");
        c->count = 0;
    } else if (r) {
        char text[256];
        tn__cu_text(&c->cu, r, text, sizeof text);
        snprintf(c->missing, sizeof c->missing, "the CUDA driver does not start: %s: %s", what,
                 text);
        c->count = 0;
    }
}

/* The context is locked. NULL without memory. */
static tn__cuda *driver(tn_context *ctx)
{
    if (ctx->cuda)
        return ctx->cuda;
    tn__cuda *c = calloc(1, sizeof *c);
    if (!c) {
        tn__fail(TN_MEMORY, "no memory for the CUDA driver");
        return NULL;
    }
    if (find_functions(c))
        count_devices(c);
    c->gpus = calloc((size_t)c->count + 1, sizeof *c->gpus);
    if (!c->gpus) {
        tn__fail(TN_MEMORY, "no memory for the CUDA driver");
        free(c);
        return NULL;
    }
    return ctx->cuda = c;
}

int tn__cuda_count(tn_context *ctx)
{
    pthread_mutex_lock(&ctx->lock);
    const tn__cuda *c = driver(ctx);
    const int n = c ? c->count : 0;
    if (c && !n)
        tn__fail(TN_UNSUPPORTED, "%s", c->missing);
    pthread_mutex_unlock(&ctx->lock);
    return n;
}

/* --- devices -------------------------------------------------------------------------------------
 */

static void gpu_close(tn__gpu *g)
{
    if (g->heap) {
        tn__cuda_sync(&g->base);
        if (g->base.stream)
            tn__stream_end(g->base.stream);
        g->base.ops->enter(&g->base);
        tn__gpu_copies_close(g);
        tn__gpu_lt_close(g);
        if (g->capture)
            g->cu->stream_destroy(g->capture);
        tn__heap_destroy(g->heap);
        g->base.ops->leave(&g->base);
    }
    if (g->context)
        g->cu->release(g->device);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

static CUresult attributes(tn__gpu *g)
{
    int major = 0, minor = 0;
    CUresult r = g->cu->attribute(&major, CU_ATTR_MAJOR, g->device);
    if (!r)
        r = g->cu->attribute(&minor, CU_ATTR_MINOR, g->device);
    g->arch = 10 * major + minor;
    return r;
}

static tn_status gpu_start(tn__gpu *g, int number)
{
    CUresult r = g->cu->device(&g->device, number);
    if (!r)
        r = attributes(g);
    if (!r)
        r = g->cu->retain(&g->context, g->device);
    if (r)
        return tn__cu(g, r, "the device cannot be opened");
    const tn_status s = tn__gpu_heap_open(g);
    return s ? s : tn__stream_new(&g->base, NULL, false, &g->base.stream);
}

/* The context is locked. */
static tn__gpu *gpu_open(tn_context *ctx, tn__cuda *c, int number)
{
    const char *blocking = getenv("CUDA_LAUNCH_BLOCKING");
    tn__gpu *g = calloc(1, sizeof *g);
    if (!g) {
        tn__fail(TN_MEMORY, "no memory for a device");
        return NULL;
    }
    g->base.ops = &tn__cuda_backend;
    g->base.ctx = ctx;
    g->base.dl = (DLDevice){kDLCUDA, number};
    g->cuda = c;
    g->cu = &c->cu;
    g->blocking = blocking && *blocking && strcmp(blocking, "0") != 0;
    pthread_mutex_init(&g->lock, NULL);
    if (!gpu_start(g, number))
        return g;
    gpu_close(g);
    return NULL;
}

/* Copies from one to the other take the short way, where there is one. */
static void open_way(const tn__gpu *from, const tn__gpu *to)
{
    int can = 0;
    CUcontext old;
    if (from->cu->can_access_peer(&can, from->device, to->device) || !can ||
        from->cu->push(from->context))
        return;
    from->cu->enable_peer(to->context, 0); /* refused where it is open: as good */
    from->cu->pop(&old);
}

/* With those that are open already. */
static void meet_others(const tn__cuda *c, const tn__gpu *g)
{
    for (int i = 0; i < c->count; i++)
        if (c->gpus[i] && c->gpus[i] != g) {
            open_way(g, c->gpus[i]);
            open_way(c->gpus[i], g);
        }
}

tn__device *tn__cuda_get(tn_context *ctx, int number)
{
    pthread_mutex_lock(&ctx->lock);
    tn__cuda *c = driver(ctx);
    tn__gpu *g = NULL;
    if (c && !c->count)
        tn__fail(TN_UNSUPPORTED, "cuda:%d: %s", number, c->missing);
    else if (c && (number < 0 || number >= c->count))
        tn__fail(TN_UNSUPPORTED, "cuda:%d: there %s %d CUDA device%s", number,
                 c->count == 1 ? "is" : "are", c->count, c->count == 1 ? "" : "s");
    else if (c) {
        const bool opens = !c->gpus[number];
        if (opens)
            c->gpus[number] = gpu_open(ctx, c, number);
        g = c->gpus[number];
        if (g && opens)
            meet_others(c, g);
    }
    pthread_mutex_unlock(&ctx->lock);
    return g ? &g->base : NULL;
}

void tn__cuda_close(tn_context *ctx)
{
    tn__cuda *c = ctx->cuda;
    if (!c)
        return;
    if (c->npinned) { /* made through the first device */
        c->gpus[0]->base.ops->enter(&c->gpus[0]->base);
        for (int i = 0; i < c->npinned; i++)
            c->cu.host_free(c->pinned[i]);
        c->gpus[0]->base.ops->leave(&c->gpus[0]->base);
    }
    for (int i = 0; i < c->count; i++)
        if (c->gpus[i])
            gpu_close(c->gpus[i]);
    free(c->pinned);
    free(c->gpus);
    free(c);
    ctx->cuda = NULL;
}

tn_status tn__cuda_info(tn__device *d, tn_device_info *out)
{
    tn__gpu *g = tn__gpu_of(d);
    const struct {
        int *to, attribute;
    } wanted[] = {
        {&out->multiprocessors, CU_ATTR_MULTIPROCESSORS},
        {&out->warp, CU_ATTR_WARP_SIZE},
        {&out->max_threads_per_block, CU_ATTR_MAX_THREADS_PER_BLOCK},
        {&out->shared_per_block, CU_ATTR_SHARED_PER_BLOCK},
        {&out->major, CU_ATTR_MAJOR},
        {&out->minor, CU_ATTR_MINOR},
    };
    CUresult r = g->cu->name(out->name, (int)sizeof out->name, g->device);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted && !r; i++)
        r = g->cu->attribute(wanted[i].to, wanted[i].attribute, g->device);
    if (!r)
        r = g->cu->memory(&out->memory, g->device);
    if (!r)
        r = g->cu->version(&out->driver);
    return tn__cu(g, r, "the device's properties");
}

tn_status tn__cuda_peer(tn__device *d, tn__device *peer, int *out)
{
    tn__gpu *g = tn__gpu_of(d);
    return tn__cu(g, g->cu->can_access_peer(out, g->device, tn__gpu_of(peer)->device),
                  "cuDeviceCanAccessPeer");
}

/* --- the table -----------------------------------------------------------------------------------
 */

static void gpu_enter(tn__device *d)
{
    tn__gpu_of(d)->cu->push(tn__gpu_of(d)->context);
}

static void gpu_leave(tn__device *d)
{
    CUcontext old;
    tn__gpu_of(d)->cu->pop(&old);
}

static bool gpu_arch(tn__device *d, int64_t arch)
{
    return tn__gpu_of(d)->arch >= arch;
}

static bool gpu_has(tn__device *d, int64_t library)
{
    return library == TN_HAS_BLAS && tn__gpu_has_blas(tn__gpu_of(d));
}

tn_status tn__cu_step(tn_stream *s, const char *what)
{
    tn__gpu *g = tn__gpu_of(s->dev);
    return g->blocking ? tn__cu(g, g->cu->stream_sync(s->native), what) : TN_OK;
}

const tn__backend tn__cuda_backend = {
    .host = false,
    .align = 16, /* kernels read 16 bytes at once */
    .enter = gpu_enter,
    .leave = gpu_leave,
    .alloc = tn__gpu_alloc,
    .free = tn__gpu_free,
    .record = tn__gpu_record,
    .upload = tn__gpu_upload,
    .download = tn__gpu_download,
    .copy = tn__gpu_copy,
    .peer = tn__gpu_peer,
    .strided = tn__gpu_strided,
    .fill = tn__gpu_fill,
    .sync = tn__gpu_sync,
    .launch = tn__gpu_launch,
    .gemm = tn__gpu_gemm,
    .run = tn__gpu_run,
    .arch = gpu_arch,
    .has = gpu_has,
    .open = tn__gpu_open_model,
    .close = tn__gpu_close_model,
    .adopt = tn__gpu_adopt_model,
    .begin = tn__gpu_begin,
    .end = tn__gpu_end,
    .mistakes = tn__gpu_mistakes,
    .mistakes_on = tn__gpu_mistakes_on,
    .constant = tn__gpu_constant,
    .stream_open = tn__gpu_stream_open,
    .stream_close = tn__gpu_stream_close,
    .event_close = tn__gpu_event_close,
    .event_record = tn__gpu_event_record,
    .event_wait = tn__gpu_event_wait,
    .event_sync = tn__gpu_event_sync,
    .event_elapsed = tn__gpu_event_elapsed,
};
