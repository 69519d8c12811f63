/* device.c: devices of a context by their DLPack names. SPDX-License-Identifier: MIT */
#include "runtime/backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

tn_status tn__cpu_open(tn_context *ctx)
{
    ctx->cpu = calloc(1, sizeof *ctx->cpu);
    if (!ctx->cpu)
        return tn__fail(TN_MEMORY, "no memory for a context");
    ctx->cpu->ops = &tn__cpu_backend;
    ctx->cpu->ctx = ctx;
    ctx->cpu->dl = (DLDevice){kDLCPU, 0};
    return tn__stream_new(ctx->cpu, NULL, false, &ctx->cpu->stream);
}

void tn__cpu_close(tn_context *ctx)
{
    if (ctx->cpu && ctx->cpu->stream)
        tn__stream_end(ctx->cpu->stream);
    free(ctx->cpu);
}

DLDevice tn_device_default(tn_context *ctx)
{
    DLDevice d = {kDLCPU, 0};
    if (!ctx)
        return d;
    pthread_mutex_lock(&ctx->lock);
    const DLDevice set = ctx->standard;
    pthread_mutex_unlock(&ctx->lock);
    if (set.device_type)
        return set;
    if (tn__cuda_count(ctx) > 0)
        d.device_type = kDLCUDA;
    return d;
}

tn__device *tn__device_get(tn_context *ctx, DLDevice d)
{
    if (!d.device_type)
        d = tn_device_default(ctx);
    if (d.device_type == kDLCPU || d.device_type == kDLCUDAHost)
        return ctx->cpu;
    if (d.device_type == kDLCUDA)
        return tn__cuda_get(ctx, (int)d.device_id);
    tn__fail(TN_UNSUPPORTED, "devices of DLPack's type %d are not known", (int)d.device_type);
    return NULL;
}

int tn_device_count(tn_context *ctx, int device_type)
{
    if (!ctx)
        return 0;
    return device_type == kDLCPU ? 1 : device_type == kDLCUDA ? tn__cuda_count(ctx) : 0;
}

tn_status tn_device_available(tn_context *ctx, DLDevice device)
{
    if (!ctx)
        return tn__fail(TN_INVALID, "ctx is NULL");
    return tn__device_get(ctx, device) ? TN_OK : TN_UNSUPPORTED;
}

/* "model name      : AMD EPYC 9B45" of the first processor. */
static void cpu_name(char *out, size_t n)
{
    char line[256];
    snprintf(out, n, "cpu");
    FILE *f = fopen("/proc/cpuinfo", "re");
    while (f && fgets(line, sizeof line, f)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) || !colon)
            continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(out, n, "%s", colon + 1 + strspn(colon + 1, " "));
        break;
    }
    if (f)
        fclose(f);
}

tn_status tn_device_properties(tn_context *ctx, DLDevice device, tn_device_info *out)
{
    if (!ctx || !out || out->size < sizeof *out)
        return tn__fail(TN_INVALID, "ctx or out is NULL, or out->size is not set");
    tn__device *d = tn__device_get(ctx, device);
    if (!d)
        return TN_UNSUPPORTED;
    *out = (tn_device_info){.size = sizeof *out};
    if (!d->ops->host)
        return tn__cuda_info(d, out);
    cpu_name(out->name, sizeof out->name);
    out->multiprocessors = ctx->threads;
    return TN_OK;
}

tn_status tn_device_name(tn_context *ctx, DLDevice device, char *out, size_t n)
{
    tn_device_info info = {.size = sizeof info};
    const tn_status s = tn_device_properties(ctx, device, &info);
    if (!s && out && n)
        snprintf(out, n, "%s", info.name);
    return s;
}

tn_status tn_device_set_default(tn_context *ctx, DLDevice device)
{
    if (!ctx)
        return tn__fail(TN_INVALID, "ctx is NULL");
    if (device.device_type && !tn__device_get(ctx, device))
        return TN_UNSUPPORTED;
    pthread_mutex_lock(&ctx->lock);
    ctx->standard = device;
    pthread_mutex_unlock(&ctx->lock);
    return TN_OK;
}

tn_status tn_device_synchronize(tn_context *ctx, DLDevice device)
{
    if (!ctx)
        return tn__fail(TN_INVALID, "ctx is NULL");
    tn__device *d = tn__device_get(ctx, device);
    if (!d)
        return TN_UNSUPPORTED;
    if (d->ops->host)
        return TN_OK;
    const tn_status s = tn__cuda_sync(d);
    return s ? s : d->ops->mistakes_on(d, 0);
}

tn_status tn_device_can_access_peer(tn_context *ctx, DLDevice device, DLDevice peer, int *out)
{
    if (!ctx || !out)
        return tn__fail(TN_INVALID, "ctx or out is NULL");
    tn__device *a = tn__device_get(ctx, device), *b = a ? tn__device_get(ctx, peer) : NULL;
    if (!a || !b)
        return TN_UNSUPPORTED;
    *out = a == b;
    return a->ops->host || b->ops->host || a == b ? TN_OK : tn__cuda_peer(a, b, out);
}
