/* drv_versions.c: older versions of entry points (cuCtxCreate_v2 ...), which programs of older
 * toolkits ask for, and the variants for which stream 0 is the thread's own (_ptsz, _ptds).
 * SPDX-License-Identifier: MIT */
#define __CUDA_API_VERSION_INTERNAL /* cuda.h then declares all of them and renames none */
#include "tests/vgpu/drv.h"

/* --- older versions -------------------------------------------------------------------------- */

API cuCtxCreate_v2(CUcontext *out, unsigned int flags, CUdevice device)
{
    return context_create(__func__, out, flags, device);
}

API cuCtxCreate_v3(CUcontext *out, CUexecAffinityParam *params, int n, unsigned int flags,
                   CUdevice device)
{
    if (params || n)
        return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    return context_create(__func__, out, flags, device);
}

API cuCtxCreate(CUcontext *out, unsigned int flags, CUdevice device)
{
    return context_create(__func__, out, flags, device);
}

API cuCtxDestroy(CUcontext context)
{
    return cuCtxDestroy_v2(context);
}

API cuCtxPushCurrent(CUcontext context)
{
    return cuCtxPushCurrent_v2(context);
}

API cuCtxPopCurrent(CUcontext *out)
{
    return cuCtxPopCurrent_v2(out);
}

API cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    return cuDeviceGetUuid_v2(uuid, device);
}

API cuDevicePrimaryCtxRelease(CUdevice device)
{
    return cuDevicePrimaryCtxRelease_v2(device);
}

API cuDevicePrimaryCtxReset(CUdevice device)
{
    return cuDevicePrimaryCtxReset_v2(device);
}

API cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags)
{
    return cuDevicePrimaryCtxSetFlags_v2(device, flags);
}

API cuStreamDestroy(CUstream stream)
{
    return cuStreamDestroy_v2(stream);
}

API cuEventDestroy(CUevent event)
{
    return cuEventDestroy_v2(event);
}

API cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
    return event_elapsed(__func__, ms, start, end);
}

API cuMemHostRegister(void *host, size_t bytes, unsigned int flags)
{
    return cuMemHostRegister_v2(host, bytes, flags);
}

static CUmemLocation location_of(CUdevice device)
{
    bool host = device == CU_DEVICE_CPU;
    return (CUmemLocation){.type = host ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE,
                           .id = host ? 0 : device};
}

API cuMemAdvise(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUdevice device)
{
    return cuMemAdvise_v2(address, bytes, advice, location_of(device));
}

API cuMemPrefetchAsync(CUdeviceptr address, size_t bytes, CUdevice device, CUstream stream)
{
    return cuMemPrefetchAsync_v2(address, bytes, location_of(device), 0, stream);
}

API cuGetProcAddress(const char *symbol, void **out, int version, cuuint64_t flags)
{
    return cuGetProcAddress_v2(symbol, out, version, flags, NULL);
}

API cuStreamBeginCapture(CUstream stream)
{
    return cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

API cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
                              CUgraph *graph, const CUgraphNode **deps, size_t *n)
{
    return cuStreamGetCaptureInfo_v3(stream, status, id, graph, deps, NULL, n);
}

API cuGraphInstantiate(CUgraphExec *out, CUgraph graph, CUgraphNode *node, char *log, size_t room)
{
    if (node)
        *node = NULL;
    if (log && room)
        *log = '\0';
    return cuGraphInstantiateWithFlags(out, graph, 0);
}

API cuGraphInstantiate_v2(CUgraphExec *out, CUgraph graph, CUgraphNode *node, char *log,
                          size_t room)
{
    return cuGraphInstantiate(out, graph, node, log, room);
}

API cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t n)
{
    return cuGraphAddDependencies_v2(graph, from, to, NULL, n);
}

API cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                              size_t n)
{
    return cuGraphRemoveDependencies_v2(graph, from, to, NULL, n);
}

API cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *n)
{
    return cuGraphGetEdges_v2(graph, from, to, NULL, n);
}

API cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *deps, size_t *n)
{
    return cuGraphNodeGetDependencies_v2(node, deps, NULL, n);
}

static CUDA_KERNEL_NODE_PARAMS_v2 newer(const CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
    return (CUDA_KERNEL_NODE_PARAMS_v2){.func = p->func,
                                        .gridDimX = p->gridDimX,
                                        .gridDimY = p->gridDimY,
                                        .gridDimZ = p->gridDimZ,
                                        .blockDimX = p->blockDimX,
                                        .blockDimY = p->blockDimY,
                                        .blockDimZ = p->blockDimZ,
                                        .sharedMemBytes = p->sharedMemBytes,
                                        .kernelParams = p->kernelParams,
                                        .extra = p->extra};
}

API cuGraphAddKernelNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *deps, size_t n,
                         const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_KERNEL_NODE_PARAMS_v2 p = newer(params);
    return cuGraphAddKernelNode_v2(out, graph, deps, n, &p);
}

API cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                   const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_KERNEL_NODE_PARAMS_v2 p = newer(params);
    return cuGraphExecKernelNodeSetParams_v2(exec, node, &p);
}

/* --- stream 0 of the thread ------------------------------------------------------------------ */

static CUstream own(CUstream stream)
{
    return stream ? stream : CU_STREAM_PER_THREAD;
}

static CUresult finish(CUresult r)
{
    return r ? r : cuStreamSynchronize(CU_STREAM_PER_THREAD);
}

/* ASYNC(name, parameters, arguments of name): name_ptsz. */
#define ASYNC(name, params, args)                                                                  \
    API name##_ptsz params                                                                         \
    {                                                                                              \
        return name args;                                                                          \
    }
/* SYNC(variant, parameters, asynchronous call): has ended when it returns. */
#define SYNC(name, params, call)                                                                   \
    API name params                                                                                \
    {                                                                                              \
        return finish(call);                                                                       \
    }

#define OWN CU_STREAM_PER_THREAD

SYNC(cuMemcpy_ptds, (CUdeviceptr to, CUdeviceptr from, size_t n), cuMemcpyAsync(to, from, n, OWN))
SYNC(cuMemcpyHtoD_v2_ptds, (CUdeviceptr to, const void *from, size_t n),
     cuMemcpyHtoDAsync_v2(to, from, n, OWN))
SYNC(cuMemcpyDtoH_v2_ptds, (void *to, CUdeviceptr from, size_t n),
     cuMemcpyDtoHAsync_v2(to, from, n, OWN))
SYNC(cuMemcpyDtoD_v2_ptds, (CUdeviceptr to, CUdeviceptr from, size_t n),
     cuMemcpyDtoDAsync_v2(to, from, n, OWN))
SYNC(cuMemcpy2D_v2_ptds, (const CUDA_MEMCPY2D *p), cuMemcpy2DAsync_v2(p, OWN))
SYNC(cuMemcpy3D_v2_ptds, (const CUDA_MEMCPY3D *p), cuMemcpy3DAsync_v2(p, OWN))
SYNC(cuMemsetD8_v2_ptds, (CUdeviceptr at, unsigned char v, size_t n),
     cuMemsetD8Async(at, v, n, OWN))
SYNC(cuMemsetD16_v2_ptds, (CUdeviceptr at, unsigned short v, size_t n),
     cuMemsetD16Async(at, v, n, OWN))
SYNC(cuMemsetD32_v2_ptds, (CUdeviceptr at, unsigned int v, size_t n),
     cuMemsetD32Async(at, v, n, OWN))

ASYNC(cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s),
      (to, from, n, own(s)))
ASYNC(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t n, CUstream s),
      (to, from, n, own(s)))
ASYNC(cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t n, CUstream s),
      (to, from, n, own(s)))
ASYNC(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s),
      (to, from, n, own(s)))
ASYNC(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *p, CUstream s), (p, own(s)))
ASYNC(cuMemcpy3DAsync_v2, (const CUDA_MEMCPY3D *p, CUstream s), (p, own(s)))
ASYNC(cuMemsetD8Async, (CUdeviceptr at, unsigned char v, size_t n, CUstream s), (at, v, n, own(s)))
ASYNC(cuMemsetD16Async, (CUdeviceptr at, unsigned short v, size_t n, CUstream s),
      (at, v, n, own(s)))
ASYNC(cuMemsetD32Async, (CUdeviceptr at, unsigned int v, size_t n, CUstream s), (at, v, n, own(s)))
ASYNC(cuMemAllocAsync, (CUdeviceptr * out, size_t n, CUstream s), (out, n, own(s)))
ASYNC(cuMemFreeAsync, (CUdeviceptr at, CUstream s), (at, own(s)))
ASYNC(cuStreamSynchronize, (CUstream s), (own(s)))
ASYNC(cuStreamQuery, (CUstream s), (own(s)))
ASYNC(cuStreamWaitEvent, (CUstream s, CUevent e, unsigned int flags), (own(s), e, flags))
ASYNC(cuStreamGetFlags, (CUstream s, unsigned int *flags), (own(s), flags))
ASYNC(cuStreamGetPriority, (CUstream s, int *priority), (own(s), priority))
ASYNC(cuStreamGetCtx, (CUstream s, CUcontext *out), (own(s), out))
ASYNC(cuStreamIsCapturing, (CUstream s, CUstreamCaptureStatus *status), (own(s), status))
ASYNC(cuStreamBeginCapture_v2, (CUstream s, CUstreamCaptureMode mode), (own(s), mode))
ASYNC(cuStreamEndCapture, (CUstream s, CUgraph *out), (own(s), out))
ASYNC(cuStreamAddCallback, (CUstream s, CUstreamCallback fn, void *arg, unsigned int flags),
      (own(s), fn, arg, flags))
ASYNC(cuEventRecord, (CUevent e, CUstream s), (e, own(s)))
ASYNC(cuEventRecordWithFlags, (CUevent e, CUstream s, unsigned int flags), (e, own(s), flags))
ASYNC(cuLaunchHostFunc, (CUstream s, CUhostFn fn, void *arg), (own(s), fn, arg))
ASYNC(cuGraphLaunch, (CUgraphExec e, CUstream s), (e, own(s)))
ASYNC(cuGraphUpload, (CUgraphExec e, CUstream s), (e, own(s)))
ASYNC(cuLaunchKernel,
      (CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
       unsigned int by, unsigned int bz, unsigned int shared, CUstream s, void **params,
       void **extra),
      (f, gx, gy, gz, bx, by, bz, shared, own(s), params, extra))
ASYNC(cuLaunchCooperativeKernel,
      (CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
       unsigned int by, unsigned int bz, unsigned int shared, CUstream s, void **params),
      (f, gx, gy, gz, bx, by, bz, shared, own(s), params))

API cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction f, void **params, void **extra)
{
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    CUlaunchConfig c = *config;
    c.hStream = own(c.hStream);
    return cuLaunchKernelEx(&c, f, params, extra);
}
