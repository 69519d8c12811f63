/* drv_launch.c: launches of kernels and their limits; occupancy. SPDX-License-Identifier: MIT */
#include "tests/vgpu/drv_module.h"

#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/** A finding "launch", and the result of the call. */
static CUresult refuse(CUresult r, const Function *f, const char *what, uint64_t asked,
                       uint64_t limit)
{
    finding(FINDING_LAUNCH, "%s: kernel %s: %s: %llu, the limit is %llu", call_name(), f->name,
            what, (unsigned long long)asked, (unsigned long long)limit);
    return r;
}

static CUresult check_dims(const CUlaunchConfig *c, const Function *f)
{
    static const char *const names[] = {"grid x",  "grid y",  "grid z",
                                        "block x", "block y", "block z"};
    static const uint64_t limits[] = {2147483647, 65535, 65535, 1024, 1024, 64};
    const unsigned dims[] = {c->gridDimX,  c->gridDimY,  c->gridDimZ,
                             c->blockDimX, c->blockDimY, c->blockDimZ};
    for (int k = 0; k < 6; k++)
        if (dims[k] == 0 || dims[k] > limits[k])
            return refuse(CUDA_ERROR_INVALID_VALUE, f, names[k], dims[k], limits[k]);
    uint64_t threads = (uint64_t)c->blockDimX * c->blockDimY * c->blockDimZ;
    if (threads > 1024)
        return refuse(CUDA_ERROR_INVALID_VALUE, f, "threads of a block", threads, 1024);
    if (threads > (uint64_t)function_max_threads(f))
        return refuse(CUDA_ERROR_INVALID_VALUE, f, "threads of a block by __launch_bounds__",
                      threads, (uint64_t)function_max_threads(f));
    for (int k = 0; k < 3 && f->required[0]; k++) {
        uint32_t want = f->required[k] ? f->required[k] : 1;
        if (dims[3 + k] != want)
            return refuse(CUDA_ERROR_INVALID_VALUE, f, names[3 + k], dims[3 + k], want);
    }
    return CUDA_SUCCESS;
}

static CUresult check_shared(const CUlaunchConfig *c, const Function *f)
{
    uint32_t most = function_max_dynamic(f);
    if (c->sharedMemBytes > most)
        return refuse(CUDA_ERROR_INVALID_VALUE, f,
                      "dynamic shared memory (more is asked for with cuFuncSetAttribute)",
                      c->sharedMemBytes, most);
    return CUDA_SUCCESS;
}

static CUresult check_cooperative(const CUlaunchConfig *c, const Function *f)
{
    uint64_t blocks = (uint64_t)c->gridDimX * c->gridDimY * c->gridDimZ;
    int threads = (int)(c->blockDimX * c->blockDimY * c->blockDimZ);
    uint64_t most =
        (uint64_t)occupancy(f, threads, c->sharedMemBytes) * (uint64_t)device_model()->processors;
    if (blocks > most)
        return refuse(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, f, "blocks of a cooperative launch",
                      blocks, most);
    return CUDA_SUCCESS;
}

static CUresult read_attributes(const CUlaunchConfig *c, bool *cooperative)
{
    if (c->numAttrs && !c->attrs)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned k = 0; k < c->numAttrs; k++) {
        const CUlaunchAttributeValue *v = &c->attrs[k].value;
        switch (c->attrs[k].id) {
        case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
            *cooperative = v->cooperative != 0;
            break;
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
            if (v->clusterDim.x * v->clusterDim.y * v->clusterDim.z != 1)
                return misuse(CUDA_ERROR_INVALID_CLUSTER_SIZE,
                              "clusters of blocks are not run here");
            break;
        case CU_LAUNCH_ATTRIBUTE_IGNORE:
        case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
        case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
            break;
        default:
            return misuse(CUDA_ERROR_NOT_SUPPORTED, "launch attribute %d", (int)c->attrs[k].id);
        }
    }
    return CUDA_SUCCESS;
}

/* --- arguments ------------------------------------------------------------------------------- */

/** Copies `bytes` from where the program says an argument lies; false: nothing can be read there.
 */
static bool read_argument(void *to, void *from, size_t bytes)
{
    struct iovec here = {to, bytes}, there = {from, bytes};
    ssize_t n = process_vm_readv(getpid(), &here, 1, &there, 1, 0);
    if (n == (ssize_t)bytes)
        return true;
    char probe;
    struct iovec one = {&probe, 1}, self = {&probe, 1};
    if (process_vm_readv(getpid(), &one, 1, &self, 1, 0) == 1)
        return false;
    memcpy(to, from, bytes); /* the system does not let us look */
    return true;
}

static CUresult bad_argument(const Function *f, int k)
{
    finding(FINDING_LAUNCH, "%s: kernel %s has %d parameters; argument %d cannot be read",
            call_name(), f->name, f->nparams, k);
    return CUDA_ERROR_INVALID_VALUE;
}

/** All arguments with two calls of the system; false: one of them cannot be read. */
static bool read_all(const Function *f, void **params, uint8_t *to)
{
    enum { MOST = 64 };
    struct iovec here[MOST], there[MOST];
    void *from[MOST];
    size_t n = (size_t)f->nparams, bytes = 0;
    if (n > MOST || !read_argument(from, params, n * sizeof *from))
        return false;
    for (size_t k = 0; k < n; k++) {
        here[k] = (struct iovec){to + f->params[k].offset, f->params[k].size};
        there[k] = (struct iovec){from[k], f->params[k].size};
        bytes += f->params[k].size;
    }
    return process_vm_readv(getpid(), here, n, there, n, 0) == (ssize_t)bytes;
}

static CUresult read_params(const Function *f, void **params, uint8_t *to)
{
    if (read_all(f, params, to))
        return CUDA_SUCCESS;
    for (int k = 0; k < f->nparams; k++) { /* which one? */
        void *from;
        if (!read_argument(&from, &params[k], sizeof from) || !from ||
            !read_argument(to + f->params[k].offset, from, f->params[k].size))
            return bad_argument(f, k);
    }
    return CUDA_SUCCESS;
}

static CUresult read_buffer(const Function *f, void **extra, uint8_t *to)
{
    void *buffer = NULL;
    size_t n = 0;
    for (int k = 0; extra[k] != CU_LAUNCH_PARAM_END; k += 2) {
        if (extra[k] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[k + 1];
        else if (extra[k] == CU_LAUNCH_PARAM_BUFFER_SIZE && extra[k + 1])
            memcpy(&n, extra[k + 1], sizeof n);
        else
            return misuse(CUDA_ERROR_INVALID_VALUE, "`extra` holds an option that is not one");
    }
    if (!buffer || n < f->param_bytes || n > (f->param_bytes + 15u) / 16 * 16) {
        finding(FINDING_LAUNCH, "%s: kernel %s takes %u bytes of arguments, not %zu", call_name(),
                f->name, f->param_bytes, n);
        return CUDA_ERROR_INVALID_VALUE;
    }
    memcpy(to, buffer, f->param_bytes);
    return CUDA_SUCCESS;
}

static CUresult read_arguments(const Function *f, void **params, void **extra, uint8_t *to)
{
    if (params && extra)
        return CUDA_ERROR_INVALID_VALUE;
    if (f->nparams == 0)
        return CUDA_SUCCESS;
    if (params)
        return read_params(f, params, to);
    if (extra)
        return read_buffer(f, extra, to);
    finding(FINDING_LAUNCH, "%s: kernel %s has %d parameters, the launch has no arguments",
            call_name(), f->name, f->nparams);
    return CUDA_ERROR_INVALID_VALUE;
}

/* --- launches -------------------------------------------------------------------------------- */

CUresult launch_work(const CUlaunchConfig *config, CUfunction function, void **params, void **extra,
                     Work *out)
{
    Function *f = function_get(function);
    Context *c = f ? function_context(f) : NULL;
    bool cooperative = false;
    if (!f)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult r = read_attributes(config, &cooperative);
    if (!r)
        r = check_dims(config, f);
    if (!r)
        r = check_shared(config, f);
    if (!r && cooperative)
        r = check_cooperative(config, f);
    if (r)
        return r;
    char name[256];
    snprintf(name, sizeof name, "kernel %s", f->name);
    *out = (Work){.kind = WORK_KERNEL, .name = drv_intern(name), .context = c};
    out->kernel.grid = (Grid){
        .function = f,
        .device = c->device,
        .grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
        .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
        .dynamic_shared = config->sharedMemBytes,
        .cooperative = cooperative,
    };
    out->kernel.params = drv_alloc(f->param_bytes + 16u);
    r = read_arguments(f, params, extra, out->kernel.params);
    if (r)
        work_free(out);
    return r;
}

static CUresult launch(const char *name, const CUlaunchConfig *c, CUfunction f, void **params,
                       void **extra)
{
    CUresult r = call_enter(name, WORKING);
    Work w;
    Stream *s = r ? NULL : c ? stream_get(c->hStream) : NULL;
    if (!r && !c)
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r && !s)
        r = CUDA_ERROR_INVALID_HANDLE;
    if (!r)
        r = launch_work(c, f, params, extra, &w);
    if (r)
        return call_leave(r);
    call_note("%s, grid %u %u %u, block %u %u %u, shared %u, stream %llu", w.name + 7, c->gridDimX,
              c->gridDimY, c->gridDimZ, c->blockDimX, c->blockDimY, c->blockDimZ, c->sharedMemBytes,
              (unsigned long long)s->h.number);
    if (w.context != s->h.context || w.context != context_current()) {
        r = misuse(CUDA_ERROR_INVALID_CONTEXT,
                   "the function, the stream and the thread are of different contexts");
        work_free(&w);
        return call_leave(r);
    }
    return call_leave(queue_push(s, &w));
}

API cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                   unsigned int by, unsigned int bz, unsigned int shared, CUstream stream,
                   void **params, void **extra)
{
    CUlaunchConfig c = {gx, gy, gz, bx, by, bz, shared, stream, NULL, 0};
    return launch(__func__, &c, f, params, extra);
}

API cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **params, void **extra)
{
    return launch(__func__, config, f, params, extra);
}

API cuLaunchCooperativeKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
                              unsigned int bx, unsigned int by, unsigned int bz,
                              unsigned int shared, CUstream stream, void **params)
{
    CUlaunchAttribute a = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value.cooperative = 1};
    CUlaunchConfig c = {gx, gy, gz, bx, by, bz, shared, stream, &a, 1};
    return launch(__func__, &c, f, params, NULL);
}

/* --- occupancy ------------------------------------------------------------------------------- */

/** Blocks of a processor, 0 when a launch of that size is refused. */
static int blocks_of(const Function *f, int threads, size_t shared)
{
    bool fits = threads <= function_max_threads(f) &&
                shared + f->shared_bytes <= (uint64_t)device_model()->shared_optin;
    return fits ? occupancy(f, threads, shared) : 0;
}

static CUresult enter_blocks(const char *name, int *out, CUfunction handle, int threads,
                             size_t shared, unsigned flags)
{
    CUresult r = call_enter(name, WORKING);
    const Function *f = r ? NULL : function_get(handle);
    if (!r && !f)
        r = CUDA_ERROR_INVALID_HANDLE;
    if (!r && (!out || threads <= 0 || flags & ~1u))
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r)
        *out = blocks_of(f, threads, shared);
    return call_leave(r);
}

API cuOccupancyMaxActiveBlocksPerMultiprocessor(int *out, CUfunction f, int threads, size_t shared)
{
    return enter_blocks(__func__, out, f, threads, shared, 0);
}

API cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *out, CUfunction f, int threads,
                                                         size_t shared, unsigned int flags)
{
    return enter_blocks(__func__, out, f, threads, shared, flags);
}

/** The block size with the most threads on a processor; the largest one of those. */
static CUresult best_size(const char *name, int *grid, int *block, CUfunction handle,
                          CUoccupancyB2DSize shared_of, size_t shared, int limit)
{
    CUresult r = call_enter(name, WORKING);
    const Function *f = r ? NULL : function_get(handle);
    if (!r && !f)
        r = CUDA_ERROR_INVALID_HANDLE;
    if (!r && (!grid || !block || limit < 0))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r)
        return call_leave(r);
    int most = function_max_threads(f), best = 0;
    *grid = *block = 0;
    for (int n = limit > 0 && limit < most ? limit : most; n > 0; n = (n - 1) / 32 * 32) {
        int blocks = blocks_of(f, n, shared_of ? shared_of(n) : shared);
        if (blocks * n > best) {
            best = blocks * n;
            *block = n;
            *grid = blocks * device_model()->processors;
        }
    }
    return call_leave(r);
}

API cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction f,
                                     CUoccupancyB2DSize shared_of, size_t shared, int limit)
{
    return best_size(__func__, grid, block, f, shared_of, shared, limit);
}

API cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, CUfunction f,
                                              CUoccupancyB2DSize shared_of, size_t shared,
                                              int limit, unsigned int flags)
{
    if (flags & ~1u)
        return CUDA_ERROR_INVALID_VALUE;
    return best_size(__func__, grid, block, f, shared_of, shared, limit);
}

API cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, CUfunction handle, int blocks,
                                            int threads)
{
    CUresult r = call_enter(__func__, WORKING);
    const Function *f = r ? NULL : function_get(handle);
    if (!r && !f)
        r = CUDA_ERROR_INVALID_HANDLE;
    if (!r && (!bytes || blocks <= 0 || threads <= 0 || blocks_of(f, threads, 0) < blocks))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r)
        return call_leave(r);
    *bytes = 0;
    while (blocks_of(f, threads, *bytes + 128) >= blocks)
        *bytes += 128;
    return call_leave(r);
}
