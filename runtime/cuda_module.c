/* cuda_module.c: device code of models: the right image for a GPU, loaded once.
 * SPDX-License-Identifier: MIT */
#include "runtime/cuda.h"
#include "runtime/unpack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A cubin runs on its own architecture and on later minor ones of the same major. */
static const tn_image *best_cubin(const tn_model_desc *d, int arch)
{
    const tn_image *best = NULL;
    for (int i = 0; i < d->nimages; i++) {
        const tn_image *x = &d->images[i];
        if (!x->is_ptx && x->arch / 10 == arch / 10 && x->arch <= arch &&
            (!best || x->arch > best->arch))
            best = x;
    }
    return best;
}

static const tn_image *best_ptx(const tn_model_desc *d, int arch)
{
    const tn_image *best = NULL;
    for (int i = 0; i < d->nimages; i++) {
        const tn_image *x = &d->images[i];
        if (x->is_ptx && x->arch <= arch && (!best || x->arch > best->arch))
            best = x;
    }
    return best;
}

CUresult tn__gpu_load(tn__gpu *g, const void *code, CUmodule *out, char *log, size_t n)
{
    const int options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)n};
    log[0] = 0;
    const CUresult r = g->cu->module_load(out, code, 2, options, values);
    log[n - 1] = 0;
    return r;
}

static tn_status load_failed(const tn__gpu *g, const tn_model_desc *d, const tn_image *x,
                             CUresult r, char *log)
{
    char text[256];
    tn__cu_text(g->cu, r, text, sizeof text);
    log[strcspn(log, "\n")] = 0;
    const char *hint = r == CUDA_ERROR_UNSUPPORTED_PTX_VERSION
                           ? " (the driver is older than the toolkit that made the code: a newer "
                             "driver, or -arch= with this GPU's architecture, helps)"
                           : "";
    return tn__fail(TN_DRIVER, "%s: the %s for sm_%d does not load on cuda:%d (sm_%d): %s%s%s%s",
                    d->name, x->is_ptx ? "PTX" : "code", (int)x->arch, (int)g->base.dl.device_id,
                    g->arch, text, hint, *log ? ": " : "", log);
}

static tn_status load_image(tn__gpu *g, const tn_model_desc *d, const tn_image *x, CUmodule *out,
                            CUresult *r)
{
    char log[1024];
    void *whole = NULL;
    if (x->whole) {
        whole = malloc(x->whole + 1);
        if (!whole)
            return tn__fail(TN_MEMORY, "no memory for the device code of %s", d->name);
        if (!tn__unpack(x->data, x->bytes, whole, x->whole)) {
            free(whole);
            return tn__fail(TN_ABI, "%s: its device code is damaged", d->name);
        }
        ((char *)whole)[x->whole] = 0;
    }
    *r = tn__gpu_load(g, whole ? whole : x->data, out, log, sizeof log);
    free(whole);
    return *r ? load_failed(g, d, x, *r, log) : TN_OK;
}

static tn_status load_code(tn__gpu *g, const tn_model_desc *d, CUmodule *out)
{
    const tn_image *cubin = best_cubin(d, g->arch), *ptx = best_ptx(d, g->arch);
    CUresult r = CUDA_SUCCESS;
    if (!cubin && !ptx)
        return tn__fail(TN_UNSUPPORTED,
                        "%s has no code for cuda:%d, which is sm_%d: compile it with -arch=sm_%d",
                        d->name, (int)g->base.dl.device_id, g->arch, g->arch);
    if (cubin) {
        const tn_status s = load_image(g, d, cubin, out, &r);
        if (!s || !ptx || r != CUDA_ERROR_NO_BINARY_FOR_GPU)
            return s;
    }
    return load_image(g, d, ptx, out, &r);
}

static tn_status find_functions(tn__gpu *g, tn__module *m)
{
    m->functions = calloc((size_t)m->d->nkernels + 1, sizeof *m->functions);
    if (!m->functions)
        return tn__fail(TN_MEMORY, "no memory for the kernels of %s", m->d->name);
    for (int i = 0; i < m->d->nkernels; i++) {
        const char *name = m->d->kernels[i].name;
        if (m->d->kernels[i].cpu) /* of a model that works on the CPU too */
            continue;
        const CUresult r = g->cu->function(&m->functions[i], m->module, name);
        if (r) {
            char what[256];
            snprintf(what, sizeof what, "%s: kernel %s is not in its device code", m->d->name,
                     name);
            return tn__cu(g, r, what);
        }
    }
    return TN_OK;
}

/* The device is locked. */
static void unload(tn__gpu *g, tn__module *m)
{
    if (m->module)
        g->cu->module_unload(m->module);
    free(m->functions);
    free(m);
}

/* The device is locked. */
static tn_status add_module(tn__gpu *g, const tn_model_desc *d, tn__module **out)
{
    tn__module *m = calloc(1, sizeof *m);
    if (!m)
        return tn__fail(TN_MEMORY, "no memory for the device code of %s", d->name);
    m->d = d;
    m->users = 1;
    tn_status s = load_code(g, d, &m->module);
    if (!s)
        s = find_functions(g, m);
    if (s) {
        unload(g, m);
        return s;
    }
    m->next = g->modules;
    g->modules = *out = m;
    return TN_OK;
}

tn_status tn__gpu_module(tn__gpu *g, const tn_model_desc *d, tn__module **out)
{
    tn_status s = TN_OK;
    pthread_mutex_lock(&g->lock);
    tn__module *m = g->modules;
    while (m && m->d != d)
        m = m->next;
    if (m) {
        m->users++;
        *out = m;
    } else {
        s = add_module(g, d, out);
    }
    pthread_mutex_unlock(&g->lock);
    return s;
}

void tn__gpu_module_release(tn__gpu *g, tn__module *m)
{
    if (!m)
        return;
    pthread_mutex_lock(&g->lock);
    if (--m->users == 0) {
        tn__module **at = &g->modules;
        while (*at != m)
            at = &(*at)->next;
        *at = m->next;
        unload(g, m);
    }
    pthread_mutex_unlock(&g->lock);
}
