/* cuda.c: CUDA devices of a context. SPDX-License-Identifier: MIT */
#include "runtime/backend.h"

int tn__cuda_count(tn_context *ctx)
{
    (void)ctx;
    return 0;
}
tn__device *tn__cuda_get(tn_context *ctx, int number)
{
    (void)ctx;
    tn__fail(TN_UNSUPPORTED, "cuda:%d: the CUDA driver was not found", number);
    return NULL;
}
void tn__cuda_close(tn_context *ctx)
{
    (void)ctx;
}
tn_status tn__cuda_info(tn__device *d, tn_device_info *out)
{
    (void)d, (void)out;
    return TN_UNSUPPORTED;
}
tn_status tn__cuda_peer(tn__device *d, tn__device *peer, int *out)
{
    (void)d, (void)peer, (void)out;
    return TN_UNSUPPORTED;
}
tn__memory tn__cuda_memory(tn__device *d)
{
    (void)d;
    return (tn__memory){0};
}
void tn__cuda_reset_peak(tn__device *d)
{
    (void)d;
}
tn_status tn__cuda_empty_cache(tn__device *d)
{
    (void)d;
    return TN_OK;
}
size_t tn__cuda_snapshot(tn__device *d, char *out, size_t n)
{
    (void)d, (void)out, (void)n;
    return 0;
}
tn_status tn__cuda_host_alloc(tn__device *d, size_t bytes, void **out)
{
    (void)d, (void)bytes, (void)out;
    return TN_UNSUPPORTED;
}
bool tn__cuda_host_free(tn_context *ctx, void *p)
{
    (void)ctx, (void)p;
    return false;
}
tn_status tn__cuda_host_register(tn__device *d, void *p, size_t bytes, bool on)
{
    (void)d, (void)p, (void)bytes, (void)on;
    return TN_UNSUPPORTED;
}
