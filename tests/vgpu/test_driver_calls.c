/* test_driver_calls.c: what calls give: devices, contexts, modules, memory, copies, events,
 * attributes, injected failures. SPDX-License-Identifier: MIT */
#include "tests/vgpu/hook.h"
#include "tests/vgpu/test_driver.h"

#include <pthread.h>
#include <string.h>

static int attribute(CUdevice_attribute a)
{
    int v = -1;
    OK(cuDeviceGetAttribute(&v, a, 0));
    return v;
}

static void devices(void)
{
    int n;
    char name[64], id[16];
    size_t bytes;
    CUdevice d;
    CUuuid a, b;
    GIVES(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount(&n));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuInit(1));
    OK(cuInit(0));
    OK(cuDeviceGetCount(&n));
    HOLDS(n == 3);
    OK(cuDeviceGet(&d, 2));
    GIVES(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&d, 3));
    OK(cuDeviceGetName(name, sizeof name, 2));
    HOLDS(!strcmp(name, "Virtual H100"));
    OK(cuDeviceTotalMem(&bytes, 2));
    HOLDS(bytes == 1 << 20);
    OK(cuDeviceGetUuid(&a, 0));
    OK(cuDeviceGetUuid(&b, 1));
    HOLDS(memcmp(&a, &b, sizeof a) != 0);
    OK(cuDeviceGetPCIBusId(id, sizeof id, 2));
    OK(cuDeviceGetByPCIBusId(&d, id));
    HOLDS(d == 2);
    HOLDS(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) == 9);
    HOLDS(attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) == 132);
    HOLDS(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) == 232448);
    HOLDS(attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE) == 32);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuDeviceGetAttribute(&n, (CUdevice_attribute)10000, 0));
}

static void no_devices(void)
{
    GIVES(CUDA_ERROR_NO_DEVICE, cuInit(0));
}

static void errors(void)
{
    const char *s;
    OK(cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &s));
    HOLDS(!strcmp(s, "CUDA_ERROR_ILLEGAL_ADDRESS"));
    OK(cuGetErrorName(CUDA_SUCCESS, &s));
    HOLDS(!strcmp(s, "CUDA_SUCCESS"));
    OK(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &s));
    HOLDS(!strcmp(s, "out of memory"));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuGetErrorName((CUresult)12345, &s));
    HOLDS(s == NULL);
}

static void *no_context_here(void *unused)
{
    CUcontext c;
    CUdeviceptr p;
    OK(cuCtxGetCurrent(&c));
    HOLDS(c == NULL);
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc(&p, 4));
    return unused;
}

static void contexts(void)
{
    CUcontext primary, again, own, c;
    CUdevice d;
    pthread_t t;
    unsigned flags;
    int active;
    OK(cuInit(0));
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cuCtxGetDevice(&d));
    OK(cuDevicePrimaryCtxRetain(&primary, 0));
    OK(cuDevicePrimaryCtxRetain(&again, 0));
    HOLDS(primary == again);
    OK(cuCtxSetCurrent(primary));
    OK(cuCtxCreate(&own, NULL, 0, 1)); /* becomes current */
    OK(cuCtxGetDevice(&d));
    HOLDS(d == 1);
    HOLDS(pthread_create(&t, NULL, no_context_here, NULL) == 0);
    pthread_join(t, NULL);
    OK(cuCtxPopCurrent(&c));
    HOLDS(c == own);
    OK(cuCtxGetCurrent(&c));
    HOLDS(c == primary);
    OK(cuCtxPushCurrent(own));
    OK(cuCtxDestroy(own));
    OK(cuCtxGetCurrent(&c));
    HOLDS(c == primary);
    OK(cuDevicePrimaryCtxRelease(0));
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    HOLDS(active);
    OK(cuDevicePrimaryCtxRelease(0));
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    HOLDS(!active);
}

static const char elf[64] = "\177ELF";
static const char newer[] = ".version 7.0\n.target sm_90\n.address_size 64\n";
static const char unknown[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
                              ".visible .entry k()\n{\nfrobnicate.u32;\nret;\n}\n";

static const char too_much[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
                               ".visible .entry k()\n{\n.shared .align 4 .b8 s[49156];\nret;\n}\n";

static void modules(void)
{
    CUmodule m = NULL;
    CUfunction f;
    char log[300] = "";
    CUjit_option names[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)sizeof log};
    begin();
    GIVES(CUDA_ERROR_NO_BINARY_FOR_GPU, cuModuleLoadData(&m, elf));
    GIVES(CUDA_ERROR_INVALID_PTX, cuModuleLoadData(&m, newer));
    GIVES(CUDA_ERROR_INVALID_IMAGE, cuModuleLoadData(&m, "no code at all"));
    GIVES(CUDA_ERROR_INVALID_PTX, cuModuleLoadDataEx(&m, unknown, 2, names, values));
    HOLDS(strstr(log, "frobnicate") != NULL);
    values[1] = (void *)(uintptr_t)sizeof log;
    GIVES(CUDA_ERROR_INVALID_PTX, cuModuleLoadDataEx(&m, too_much, 2, names, values));
    HOLDS(strstr(log, "49156 bytes of shared memory, the limit is 49152") != NULL);
    HOLDS((size_t)(uintptr_t)values[1] == strlen(log) + 1);
    Kernels k = load_kernels();
    GIVES(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction(&f, k.module, "nowhere"));
    int v;
    size_t offset, size;
    OK(cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, k.set));
    HOLDS(v == 1024);
    OK(cuFuncGetParamInfo(k.set, 2, &offset, &size));
    HOLDS(offset == 12 && size == 4);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuFuncGetParamInfo(k.set, 3, &offset, &size));
    OK(cuFuncSetAttribute(k.set, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000));
    GIVES(CUDA_ERROR_INVALID_VALUE,
          cuFuncSetAttribute(k.set, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 166913));
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&v, k.set, 1024, 0));
    HOLDS(v == 2);
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&v, k.set, 32, 82000));
    HOLDS(v == 2);
    OK(cuModuleUnload(k.module));
    end();
}

static void libraries(void)
{
    CUlibrary l;
    CUkernel kernel;
    CUfunction f;
    begin();
    OK(cuLibraryLoadData(&l, kernels_ptx, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&kernel, l, "set"));
    GIVES(CUDA_ERROR_NOT_FOUND, cuLibraryGetKernel(&kernel, l, "nowhere"));
    OK(cuKernelGetFunction(&f, kernel));
    CUdeviceptr p = device_words(100);
    unsigned n = 100, v = 5;
    void *args[] = {&p, &n, &v};
    OK(cuLaunchKernel(f, 2, 1, 1, 64, 1, 1, 0, NULL, args, NULL));
    HOLDS(words_are(p, n, 5));
    v = 6;
    OK(cuLaunchKernel((CUfunction)kernel, 2, 1, 1, 64, 1, 1, 0, NULL, args, NULL));
    HOLDS(words_are(p, n, 6));
    OK(cuMemFree(p));
    OK(cuLibraryUnload(l));
    end();
}

static void memory(void)
{
    CUdeviceptr p, q, base;
    size_t available, total, bytes, pitch;
    unsigned type;
    void *host;
    begin();
    OK(cuMemGetInfo(&available, &total));
    HOLDS(total == 1 << 20 && available == total);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemAlloc(&p, 0));
    GIVES(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&p, total + 1));
    OK(cuMemAlloc(&p, total - 1000));
    GIVES(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&q, 1001));
    OK(cuMemGetInfo(&available, &total));
    HOLDS(available == 1000);
    OK(cuMemGetAddressRange(&base, &bytes, p + 77));
    HOLDS(base == p && bytes == total - 1000);
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
    HOLDS(type == CU_MEMORYTYPE_DEVICE);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                                          (CUdeviceptr)(uintptr_t)&p));
    OK(cuMemFreeAsync(p, NULL)); /* a later allocation waits for it when it must */
    OK(cuMemAlloc(&p, total - 1000));
    OK(cuMemFree(p));
    OK(cuMemFree(0));
    OK(cuMemAllocPitch(&p, &pitch, 100, 10, 4));
    HOLDS(pitch >= 100 && pitch % 512 == 0);
    OK(cuMemFree(p));
    OK(cuMemHostAlloc(&host, 100, CU_MEMHOSTALLOC_DEVICEMAP));
    OK(cuMemHostGetDevicePointer(&p, host, 0));
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
    HOLDS(type == CU_MEMORYTYPE_HOST);
    GIVES(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister(host, 10, 0));
    OK(cuMemFreeHost(host));
    host = malloc(5000);
    OK(cuMemHostRegister(host, 5000, 0));
    OK(cuMemHostUnregister(host));
    free(host);
    end();
}

static void copies(void)
{
    unsigned char from[8][16], to[8][16] = {{0}};
    CUdeviceptr p, q;
    begin();
    for (int y = 0; y < 8; y++)
        for (int x = 0; x < 16; x++)
            from[y][x] = (unsigned char)(y * 16 + x);
    OK(cuMemAlloc(&p, 1024));
    OK(cuMemAlloc(&q, 1024));
    OK(cuMemsetD8(p, 0xaa, 1024));
    CUDA_MEMCPY2D c = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                       .srcHost = from,
                       .srcPitch = 16,
                       .srcXInBytes = 4,
                       .srcY = 1,
                       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                       .dstDevice = p,
                       .dstPitch = 64,
                       .WidthInBytes = 5,
                       .Height = 6};
    OK(cuMemcpy2D(&c));
    OK(cuMemcpyDtoD(q, p, 1024));
    CUDA_MEMCPY2D d = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                       .srcDevice = q,
                       .srcPitch = 64,
                       .dstMemoryType = CU_MEMORYTYPE_HOST,
                       .dstHost = to,
                       .dstPitch = 16,
                       .WidthInBytes = 6,
                       .Height = 7};
    OK(cuMemcpy2D(&d));
    HOLDS(to[0][0] == 20 && to[5][4] == 104 && to[0][5] == 0xaa && to[6][0] == 0xaa);
    OK(cuMemsetD2D16(q, 64, 0x1234, 3, 2));
    OK(cuMemsetD32(q + 128, 0x01020304, 2));
    OK(cuMemcpyDtoH(to, q + 128, 8));
    HOLDS(to[0][0] == 4 && to[0][7] == 1);
    OK(cuMemcpyDtoH(to, q + 64, 8));
    HOLDS(to[0][0] == 0x34 && to[0][5] == 0x12 && to[0][6] == 0xaa);
    OK(cuMemcpy((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from, 16));
    HOLDS(to[0][15] == 15);
    OK(cuMemFree(p));
    OK(cuMemFree(q));
    end();
}

static void events(void)
{
    CUevent a, b, quiet;
    float ms = -1;
    begin();
    Kernels k = load_kernels();
    CUdeviceptr p = device_words(1 << 16);
    OK(cuEventCreate(&a, 0));
    OK(cuEventCreate(&b, 0));
    OK(cuEventCreate(&quiet, CU_EVENT_DISABLE_TIMING));
    OK(cuEventQuery(a)); /* never recorded: nothing is missing */
    GIVES(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&ms, a, b));
    OK(cuEventRecord(a, NULL));
    launch_set(&k, p, 1 << 16, 1, NULL);
    OK(cuEventRecord(b, NULL));
    OK(cuEventRecord(quiet, NULL));
    OK(cuEventSynchronize(b));
    OK(cuEventElapsedTime(&ms, a, b));
    HOLDS(ms > 0 && ms < 60000);
    OK(cuEventSynchronize(quiet));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&ms, a, quiet));
    OK(cuEventDestroy(a));
    OK(cuEventDestroy(b));
    OK(cuEventDestroy(quiet));
    OK(cuMemFree(p));
    OK(cuModuleUnload(k.module));
    end();
}

static void not_ready(void)
{
    CUevent e;
    CUstream s;
    begin();
    OK(cuStreamCreate(&s, 0));
    OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    CUdeviceptr p = device_words(8);
    for (int k = 0; k < 20; k++)
        OK(cuMemsetD32Async(p, 0, 8, s));
    OK(cuEventRecord(e, s));
    GIVES(CUDA_ERROR_NOT_READY, cuEventQuery(e));
    GIVES(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
    OK(cuStreamSynchronize(s));
    OK(cuEventQuery(e));
    OK(cuStreamQuery(s));
    OK(cuMemFree(p));
    OK(cuEventDestroy(e));
    OK(cuStreamDestroy(s));
    end();
}

static void pools(void)
{
    CUmemoryPool pool;
    CUdeviceptr p;
    cuuint64_t n = 123;
    begin();
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &n));
    n = 0;
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &n));
    HOLDS(n == 123);
    OK(cuMemAllocAsync(&p, 400, NULL));
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &n));
    HOLDS(n == 400);
    OK(cuMemFreeAsync(p, NULL));
    OK(cuCtxSynchronize());
    OK(cuMemPoolTrimTo(pool, 0));
    end();
}

static void entry_points(void)
{
    void *f = NULL;
    CUdriverProcAddressQueryResult status;
    OK(cuGetProcAddress("cuMemAlloc", &f, 13000, 0, &status));
    HOLDS(f == (void *)(uintptr_t)cuMemAlloc && status == CU_GET_PROC_ADDRESS_SUCCESS);
    OK(cuGetProcAddress("cuCtxCreate", &f, 13000, 0, &status));
    HOLDS(f == (void *)(uintptr_t)cuCtxCreate);
    OK(cuGetProcAddress("cuLaunchKernel", &f, 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
                        &status));
    HOLDS(f && f != (void *)(uintptr_t)cuLaunchKernel);
    OK(cuGetProcAddress("cuNowhere", &f, 13000, 0, &status));
    HOLDS(!f && status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    const void *table = &f;
    GIVES(CUDA_ERROR_NOT_FOUND, cuGetExportTable(&table, NULL));
    HOLDS(table == NULL);
}

static void injected(void)
{
    CUdeviceptr p, q;
    CUstream s;
    begin();
    OK(cuMemAlloc(&p, 4));
    GIVES(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&q, 4));
    OK(cuMemAlloc(&q, 4));
    GIVES(CUDA_ERROR_UNKNOWN, cuStreamCreate(&s, 0));
    GIVES(CUDA_ERROR_UNKNOWN, cuStreamCreate(&s, 0));
    OK(cuMemFree(p));
    GIVES(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemFree(q)); /* fails, and has freed: no leak */
    end();
}

static void injected_and_sticky(void)
{
    CUdeviceptr p;
    begin();
    OK(cuMemAlloc(&p, 4));
    GIVES(CUDA_ERROR_LAUNCH_FAILED, cuCtxSynchronize());
    GIVES(CUDA_ERROR_LAUNCH_FAILED, cuMemAlloc(&p, 4)); /* no leak: it cannot be freed */
    OK(cuDevicePrimaryCtxReset(0));
}

static void two_devices(void)
{
    CUcontext a, b;
    CUdeviceptr p, q;
    int can;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&a, 0));
    OK(cuDevicePrimaryCtxRetain(&b, 1));
    OK(cuCtxSetCurrent(b));
    q = device_words(100);
    OK(cuMemsetD32(q, 5, 100));
    OK(cuCtxSynchronize());
    OK(cuCtxSetCurrent(a));
    Kernels k = load_kernels();
    p = device_words(100);
    OK(cuMemcpyPeer(p, a, q, b, 400));
    HOLDS(words_are(p, 100, 5));
    OK(cuDeviceCanAccessPeer(&can, 0, 1));
    HOLDS(can);
    OK(cuCtxEnablePeerAccess(b, 0));
    GIVES(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, cuCtxEnablePeerAccess(b, 0));
    launch_add(&k, p, q, 100, 2, NULL);
    HOLDS(words_are(p, 100, 7));
    OK(cuCtxDisablePeerAccess(b));
    OK(cuMemFree(p));
    OK(cuMemFree(q));
    OK(cuModuleUnload(k.module));
    OK(cuDevicePrimaryCtxRelease(0));
    OK(cuDevicePrimaryCtxRelease(1));
}

/* --- host memory in kernels, host threads ---------------------------------------------------- */

static void host_memory_in_kernels(void)
{
    CUdeviceptr m;
    unsigned *pinned;
    begin();
    Kernels k = load_kernels();
    OK(cuMemAllocManaged(&m, 400, CU_MEM_ATTACH_GLOBAL));
    OK(cuMemHostAlloc((void **)&pinned, 400, CU_MEMHOSTALLOC_DEVICEMAP));
    unsigned *managed = (unsigned *)(uintptr_t)m;
    CUmemLocation where = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    OK(cuMemAdvise(m, 400, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, where));
    for (int n = 0; n < 100; n++)
        managed[n] = 5;
    OK(cuMemPrefetchAsync(m, 400, where, 0, NULL));
    launch_add(&k, (CUdeviceptr)(uintptr_t)pinned, m, 100, 1, NULL);
    launch_add(&k, m, (CUdeviceptr)(uintptr_t)pinned, 100, 1, NULL);
    OK(cuCtxSynchronize());
    HOLDS(pinned[0] == 6 && pinned[99] == 6 && managed[0] == 7 && managed[99] == 7);
    OK(cuMemFree(m));
    OK(cuMemFreeHost(pinned));
    OK(cuModuleUnload(k.module));
    end();
}

enum { THREADS = 4, ROUNDS = 30 };

typedef struct {
    const Kernels *k;
    CUcontext context;
    bool own_default; /* the thread's default stream, else a made one */
    CUstream other;   /* that all threads use */
    bool good;
} Worker;

static void CUDA_CB count_up(void *n)
{
    (*(int *)n)++;
}

static void CUDA_CB do_nothing(void *unused)
{
    (void)unused;
}

static void *work(void *with)
{
    Worker *w = with;
    CUstream s = CU_STREAM_PER_THREAD;
    int calls = 0;
    OK(cuCtxSetCurrent(w->context));
    if (!w->own_default)
        OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    CUdeviceptr p = device_words(100);
    launch_set(w->k, p, 100, 0, s);
    for (int n = 0; n < ROUNDS; n++) {
        launch_add(w->k, p, p, 100, 1, s);
        OK(cuLaunchHostFunc(s, count_up, &calls));
        OK(cuLaunchHostFunc(w->other, do_nothing, NULL));
        if (n % 10 == 0)
            OK(cuStreamSynchronize(w->other));
    }
    OK(cuStreamSynchronize(w->other));
    OK(cuStreamSynchronize(s));
    w->good = calls == ROUNDS && words_are(p, 100, ROUNDS);
    OK(cuMemFree(p));
    if (!w->own_default)
        OK(cuStreamDestroy(s));
    return NULL;
}

static void threads(void)
{
    Worker w[THREADS];
    pthread_t t[THREADS];
    CUcontext c;
    CUstream other;
    begin();
    OK(cuCtxGetCurrent(&c));
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    Kernels k = load_kernels();
    for (int n = 0; n < THREADS; n++) {
        w[n] = (Worker){&k, c, n % 2, other, false};
        HOLDS(pthread_create(&t[n], NULL, work, &w[n]) == 0);
    }
    for (int n = 0; n < THREADS; n++) {
        pthread_join(t[n], NULL);
        HOLDS(w[n].good);
    }
    OK(cuStreamDestroy(other));
    OK(cuModuleUnload(k.module));
    end();
}

/* A program built for per-thread default streams: 0 is the thread's own, which waits for none of
 * its kind. */
static void per_thread_default(void)
{
    CUresult (*set32)(CUdeviceptr, unsigned, size_t, CUstream);
    CUresult (*wait)(CUstream);
    void *f;
    const cuuint64_t flags = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    begin();
    CUdeviceptr p = device_words(8);
    OK(cuGetProcAddress("cuMemsetD32Async", &f, 12000, flags, NULL));
    memcpy(&set32, &f, sizeof f);
    OK(cuGetProcAddress("cuStreamSynchronize", &f, 12000, flags, NULL));
    memcpy(&wait, &f, sizeof f);
    for (int n = 0; n < 20; n++)
        OK(set32(p, 3, 8, NULL));
    OK(cuStreamQuery(CU_STREAM_LEGACY));
    GIVES(CUDA_ERROR_NOT_READY, cuStreamQuery(CU_STREAM_PER_THREAD));
    OK(wait(NULL));
    OK(cuStreamQuery(CU_STREAM_PER_THREAD));
    HOLDS(words_are(p, 8, 3));
    OK(cuMemFree(p));
    end();
}

/* --- what libraries use ---------------------------------------------------------------------- */

typedef struct {
    CUdeviceptr p;
    unsigned n, v;
} Fill;

static void fill(void *args, Device *d, uint32_t op)
{
    const Fill *f = args;
    uint8_t *at = vgpu_access(f->p, f->n * 4, true, d, op, "output of fill");
    for (unsigned k = 0; at && k < f->n; k++)
        memcpy(at + 4 * k, &f->v, 4);
}

static void library_work(void)
{
    begin();
    Kernels k = load_kernels();
    CUdeviceptr p = device_words(100);
    Fill f = {p, 100, 9};
    HOLDS(!vgpu_call_fails("libFill"));
    OK(vgpu_enqueue(NULL, "libFill", fill, &f, sizeof f));
    HOLDS(vgpu_call_fails("libFill"));
    f.v = 0; /* was copied */
    launch_add(&k, p, p, 100, 1, NULL);
    HOLDS(words_are(p, 100, 10));
    HOLDS(vgpu_current_device() == 0);
    OK(cuMemFree(p));
    OK(cuModuleUnload(k.module));
    end();
}

static void library_work_unordered(void)
{
    CUstream s;
    begin();
    Kernels k = load_kernels();
    CUdeviceptr p = device_words(100);
    Fill f = {p, 100, 9};
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(vgpu_enqueue(s, "libFill", fill, &f, sizeof f));
    launch_set(&k, p, 100, 1, NULL);
    OK(cuCtxSynchronize());
    OK(cuStreamDestroy(s));
    OK(cuMemFree(p));
    OK(cuModuleUnload(k.module));
    end();
}

static void library_reads_too_far(void)
{
    begin();
    Fill f = {device_words(100), 101, 9};
    OK(vgpu_enqueue(NULL, "libFill", fill, &f, sizeof f));
    cuCtxSynchronize();
    OK(cuMemFree(f.p));
    end();
}

static void library_leak(void)
{
    begin();
    vgpu_library_live("cuBLAS handle", 1);
    end();
}

const Case driver_cases[] = {
    {"devices", devices, NULL, "VGPU_DEVICES=3 VGPU_SM=90 VGPU_MEMORY=1M", false},
    {"no devices", no_devices, NULL, "VGPU_DEVICES=0", false},
    {"errors", errors, NULL, NULL, false},
    {"contexts", contexts, NULL, "VGPU_DEVICES=2", false},
    {"modules", modules, NULL, NULL, false},
    {"libraries", libraries, NULL, NULL, false},
    {"memory", memory, NULL, "VGPU_MEMORY=1M", true},
    {"copies", copies, NULL, NULL, true},
    {"events", events, NULL, NULL, true},
    {"not ready", not_ready, NULL, "VGPU_ORDER=lazy", false},
    {"pools", pools, NULL, NULL, false},
    {"entry points", entry_points, NULL, NULL, false},
    {"injected failures", injected, NULL,
     "VGPU_FAIL=cuMemAlloc:2,cuStreamCreate:1+:999,cuMemFree:2:700", false},
    {"injected and sticky", injected_and_sticky, NULL, "VGPU_FAIL=cuCtxSynchronize:1:719", false},
    {"two devices", two_devices, NULL, "VGPU_DEVICES=2", true},
    {"host memory in kernels", host_memory_in_kernels, NULL, NULL, true},
    {"threads", threads, NULL, NULL, true},
    {"per-thread default", per_thread_default, NULL, "VGPU_ORDER=lazy", false},
    {"library work", library_work, NULL, "VGPU_FAIL=libFill:2", true},
    {"library work unordered", library_work_unordered, "libFill", NULL, true},
    {"library reads too far", library_reads_too_far, "output of fill", NULL, false},
    {"library leak", library_leak, "1 cuBLAS handle was never destroyed", NULL, false},
    {0},
};
