/* test_driver_misuse.c: one mistake in each program. SPDX-License-Identifier: MIT */
#include "tests/vgpu/test_driver.h"

#include <string.h>
#include <sys/mman.h>

static void end_with(CUdeviceptr p)
{
    OK(cuMemFree(p));
    end();
}

/* --- memory ---------------------------------------------------------------------------------- */

static void freed_twice(void)
{
    begin();
    CUdeviceptr p = device_words(4);
    OK(cuMemFree(p));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemFree(p));
    end();
}

static void freed_in_the_middle(void)
{
    begin();
    CUdeviceptr p = device_words(4);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemFree(p + 4));
    end_with(p);
}

static void used_after_free(void)
{
    begin();
    CUdeviceptr p = device_words(4);
    OK(cuMemFree(p));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemsetD32(p, 0, 4));
    end();
}

static void copy_too_long(void)
{
    unsigned host[5] = {0};
    begin();
    CUdeviceptr p = device_words(4);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(p, host, sizeof host));
    end_with(p);
}

static void host_and_device_swapped(void)
{
    unsigned host[4] = {0};
    begin();
    CUdeviceptr p = device_words(4);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD((CUdeviceptr)(uintptr_t)host, host, 16));
    end_with(p);
}

static void unwritten_copy(void)
{
    unsigned host[4];
    begin();
    CUdeviceptr p = device_words(4);
    OK(cuMemsetD32(p, 0, 3));
    OK(cuMemcpyDtoH(host, p, sizeof host));
    end_with(p);
}

static void kernel_out_of_bounds(void)
{
    begin();
    Kernels k = load_kernels();
    CUdeviceptr p = device_words(100);
    launch_set(&k, p, 101, 1, NULL);
    GIVES(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
    GIVES(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemFree(p)); /* for ever */
    GIVES(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(NULL));
    OK(cuDevicePrimaryCtxReset(0));
    begin();
    p = device_words(1); /* a new context works */
    end_with(p);
}

static void wild_store(void)
{
    begin();
    Kernels k = load_kernels();
    OK(cuLaunchKernel(k.wild, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    GIVES(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
}

static void other_device(void)
{
    CUcontext c;
    begin();
    Kernels k = load_kernels();
    OK(cuDevicePrimaryCtxRetain(&c, 1));
    OK(cuCtxPushCurrent(c));
    CUdeviceptr p = device_words(100);
    OK(cuCtxPopCurrent(NULL));
    launch_set(&k, p, 100, 1, NULL);
    GIVES(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
}

/* --- leaks ----------------------------------------------------------------------------------- */

static void leaked_memory(void)
{
    begin();
    device_words(25);
    end();
}

static void leaked_host_memory(void)
{
    void *host;
    begin();
    OK(cuMemHostAlloc(&host, 10, 0));
    end();
}

static void leaked_stream(void)
{
    CUstream s;
    begin();
    OK(cuStreamCreate(&s, 0));
    end();
}

static void leaked_event(void)
{
    CUevent e;
    begin();
    OK(cuEventCreate(&e, 0));
    end();
}

static void leaked_module(void)
{
    begin();
    load_kernels();
    end();
}

static void leaked_graph(void)
{
    CUgraph g;
    begin();
    OK(cuGraphCreate(&g, 0));
    end();
}

static void leaked_context(void)
{
    begin();
}

static void leak_allowed(void)
{
    begin();
    device_words(25);
}

static void leak_and_counters(void)
{
    begin();
    Kernels k = load_kernels();
    CUdeviceptr p = device_words(100);
    launch_set(&k, p, 100, 1, NULL);
    launch_set(&k, p, 100, 1, NULL);
    OK(cuModuleUnload(k.module));
    end();
}

/* --- handles --------------------------------------------------------------------------------- */

static void destroyed_stream(void)
{
    CUstream s;
    begin();
    OK(cuStreamCreate(&s, 0));
    OK(cuStreamDestroy(s));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cuStreamSynchronize(s));
    end();
}

static void destroyed_event(void)
{
    CUevent e;
    begin();
    OK(cuEventCreate(&e, 0));
    OK(cuEventDestroy(e));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cuEventRecord(e, NULL));
    end();
}

static void garbage_handle(void)
{
    int something = 0;
    begin();
    GIVES(CUDA_ERROR_INVALID_HANDLE, cuStreamSynchronize((CUstream)&something));
    end();
}

static void stream_as_event(void)
{
    CUstream s;
    begin();
    OK(cuStreamCreate(&s, 0));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cuEventRecord((CUevent)s, NULL));
    OK(cuStreamDestroy(s));
    end();
}

static void unloaded_module(void)
{
    begin();
    Kernels k = load_kernels();
    CUdeviceptr p = device_words(4);
    unsigned n = 4, v = 1;
    void *args[] = {&p, &n, &v};
    OK(cuModuleUnload(k.module));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel(k.set, 1, 1, 1, 32, 1, 1, 0, NULL, args, NULL));
    end_with(p);
}

static void released_once_too_often(void)
{
    begin();
    end();
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease(0));
}

static void destroyed_context(void)
{
    CUdeviceptr p;
    begin();
    end();
    GIVES(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemAlloc(&p, 4));
}

/* --- launches -------------------------------------------------------------------------------- */

/** Launches `set` on 4 words with this shape; ends the program. */
static void shape(unsigned grid, unsigned threads, unsigned shared, CUresult want)
{
    begin();
    Kernels k = load_kernels();
    CUdeviceptr p = device_words(4);
    unsigned n = 4, v = 1;
    void *args[] = {&p, &n, &v};
    GIVES(want, cuLaunchKernel(k.set, grid, 1, 1, threads, 1, 1, shared, NULL, args, NULL));
    OK(cuModuleUnload(k.module));
    end_with(p);
}

static void no_blocks(void)
{
    shape(0, 32, 0, CUDA_ERROR_INVALID_VALUE);
}

static void too_many_threads(void)
{
    shape(1, 1025, 0, CUDA_ERROR_INVALID_VALUE);
}

static void too_much_shared(void)
{
    shape(1, 32, 49153, CUDA_ERROR_INVALID_VALUE);
}

static void no_arguments(void)
{
    begin();
    Kernels k = load_kernels();
    GIVES(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(k.set, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
    OK(cuModuleUnload(k.module));
    end();
}

/* The array of arguments ends where the page does; the third lies behind it. */
static void too_few_arguments(void)
{
    begin();
    Kernels k = load_kernels();
    CUdeviceptr p = device_words(4);
    unsigned n = 4;
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    HOLDS(pages != MAP_FAILED && munmap(pages + 4096, 4096) == 0);
    void **args = (void **)(void *)(pages + 4096) - 2;
    args[0] = &p;
    args[1] = &n;
    GIVES(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(k.set, 1, 1, 1, 32, 1, 1, 0, NULL, args, NULL));
    OK(cuModuleUnload(k.module));
    end_with(p);
}

static void wrong_argument_bytes(void)
{
    begin();
    Kernels k = load_kernels();
    CUdeviceptr p = device_words(4);
    struct {
        CUdeviceptr p;
        unsigned n;
    } args = {p, 4}; /* v is missing, and so are 4 bytes */
    size_t bytes = 12;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &args, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    GIVES(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(k.set, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, extra));
    OK(cuModuleUnload(k.module));
    end_with(p);
}

static void too_cooperative(void)
{
    begin();
    Kernels k = load_kernels();
    CUdeviceptr p = device_words(4);
    unsigned n = 4, v = 1;
    void *args[] = {&p, &n, &v};
    GIVES(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
          cuLaunchCooperativeKernel(k.set, 100000, 1, 1, 1024, 1, 1, 0, NULL, args));
    OK(cuModuleUnload(k.module));
    end_with(p);
}

/* --- the rest -------------------------------------------------------------------------------- */

static void CUDA_CB calls_the_driver(void *result)
{
    *(CUresult *)result = cuCtxSynchronize();
}

static void call_in_a_host_function(void)
{
    CUresult result = CUDA_SUCCESS;
    begin();
    OK(cuLaunchHostFunc(NULL, calls_the_driver, &result));
    OK(cuCtxSynchronize());
    HOLDS(result == CUDA_ERROR_NOT_PERMITTED);
    end();
}

const Case misuse_cases[] = {
    {"freed twice", freed_twice, "cuMemFree: 0x200000100100 was freed before", NULL, true},
    {"freed in the middle", freed_in_the_middle, "is byte 4 of an allocation", NULL, false},
    {"used after free", used_after_free, "was freed", NULL, true},
    {"copy too long", copy_too_long, "20 bytes at 0x200000100100 are not within", NULL, false},
    {"host and device swapped", host_and_device_swapped, "is no device memory", NULL, false},
    {"unwritten copy", unwritten_copy, "error[uninit]", NULL, true},
    {"kernel out of bounds", kernel_out_of_bounds, "error[bounds]", NULL, true},
    {"wild store", wild_store, "error[bounds]", NULL, false},
    {"other device", other_device, "error[bounds]", "VGPU_DEVICES=2", false},
    {"leaked memory", leaked_memory, "100 bytes at 0x200000100100", NULL, false},
    {"leaked host memory", leaked_host_memory, "of cuMemHostAlloc were not freed", NULL, false},
    {"leaked stream", leaked_stream, "stream 1 of cuStreamCreate was not", NULL, false},
    {"leaked event", leaked_event, "event 1 of cuEventCreate was not destroyed", NULL, false},
    {"leaked module", leaked_module, "module 1 of cuModuleLoadData was not", NULL, false},
    {"leaked graph", leaked_graph, "graph 1 of cuGraphCreate was not destroyed", NULL, false},
    {"leaked context", leaked_context, "the primary context of device 0", NULL, false},
    {"counters", leak_and_counters, "{\"name\": \"set\", \"launches\": 2, \"blocks\": 4, ",
     "VGPU_REPORT=-", false},
    {"findings in the report", leak_and_counters, "{\"kind\": \"leak\", \"text\": \"when its",
     "VGPU_REPORT=-", false},
    {"table", leak_and_counters, "set                                         2         4",
     "VGPU_TABLE=1", false},
    {"trace", leak_and_counters, "vgpu: cuLaunchKernel(set, grid 2 1 1, block 64 1 1, shared 0, ",
     "VGPU_TRACE=1", false},
    {"leak allowed", leak_allowed, NULL, "VGPU_CHECK=uninit,race,order,blocks", false},
    {"destroyed stream", destroyed_stream, "stream 1 was destroyed", NULL, false},
    {"destroyed event", destroyed_event, "event 1 was destroyed", NULL, false},
    {"garbage handle", garbage_handle, "is not a stream", NULL, false},
    {"stream as event", stream_as_event, "is of kind stream, not event", NULL, false},
    {"unloaded module", unloaded_module, "is not a function of a loaded module", NULL, false},
    {"released once too often", released_once_too_often, "is not retained", NULL, false},
    {"destroyed context", destroyed_context, "the current context was destroyed", NULL, false},
    {"no blocks", no_blocks, "grid x: 0", NULL, false},
    {"too many threads", too_many_threads, "block x: 1025, the limit is 1024", NULL, false},
    {"too much shared", too_much_shared, "49153, the limit is 49152", NULL, false},
    {"no arguments", no_arguments, "the launch has no arguments", NULL, false},
    {"too few arguments", too_few_arguments, "argument 2 cannot be read", NULL, false},
    {"wrong argument bytes", wrong_argument_bytes, "takes 16 bytes of arguments, not 12", NULL,
     false},
    {"too cooperative", too_cooperative, "blocks of a cooperative launch", NULL, false},
    {"call in a host function", call_in_a_host_function, "called from a host function", NULL, true},
    {0},
};
