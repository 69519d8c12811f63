/* cuda_copy.c: strided copies on a GPU, by kernels of the runtime's own: PTX for every GPU since
 * 2014 and every driver since CUDA 9. SPDX-License-Identifier: MIT */
#include "runtime/cuda.h"

#include <stdio.h>
#include <stdlib.h>

enum { BLOCK = 256 };

/* A kernel begins with the element's number in %rd1, then takes one axis after the other, from the
 * last to the first, out of it (extents of 1 are skipped), then copies one element. */
static const char file_text[] = ".version 6.0\n.target sm_50\n.address_size 64\n";
static const char head[] = ".visible .entry %s(.param .u64 to, .param .u64 from, .param .u64 n,\n"
                           "  .param .align 8 .b8 axes[192])\n"
                           "{\n"
                           "  .reg .pred %%p<2>;\n"
                           "  .reg .b32 %%r<5>;\n"
                           "  .reg .b64 %%rd<10>;\n"
                           "  mov.u32 %%r1, %%ctaid.x;\n"
                           "  mov.u32 %%r2, %%ntid.x;\n"
                           "  mov.u32 %%r3, %%tid.x;\n"
                           "  mul.wide.u32 %%rd1, %%r1, %%r2;\n"
                           "  cvt.u64.u32 %%rd2, %%r3;\n"
                           "  add.s64 %%rd1, %%rd1, %%rd2;\n"
                           "  ld.param.u64 %%rd3, [n];\n"
                           "  setp.ge.u64 %%p1, %%rd1, %%rd3;\n"
                           "  @%%p1 bra DONE;\n"
                           "  ld.param.u64 %%rd4, [to];\n"
                           "  ld.param.u64 %%rd5, [from];\n"
                           "  cvta.to.global.u64 %%rd4, %%rd4;\n"
                           "  cvta.to.global.u64 %%rd5, %%rd5;\n";
static const char axis_text[] = "  ld.param.u64 %%rd6, [axes+%d];\n"
                                "  setp.eq.u64 %%p1, %%rd6, 1;\n"
                                "  @%%p1 bra NEXT%d;\n"
                                "  rem.u64 %%rd7, %%rd1, %%rd6;\n"
                                "  div.u64 %%rd1, %%rd1, %%rd6;\n"
                                "  ld.param.u64 %%rd8, [axes+%d];\n"
                                "  mad.lo.s64 %%rd4, %%rd7, %%rd8, %%rd4;\n"
                                "  ld.param.u64 %%rd8, [axes+%d];\n"
                                "  mad.lo.s64 %%rd5, %%rd7, %%rd8, %%rd5;\n"
                                "NEXT%d:\n";
static const char tail[] = "  ld.global.%s %s, [%%rd5];\n"
                           "  st.global.%s [%%rd4], %s;\n"
                           "DONE:\n"
                           "  ret;\n"
                           "}\n";

static const struct {
    const char *name, *type, *reg;
} kernels[] = {{"tn_copy1", "u8", "%r4"},
               {"tn_copy2", "u16", "%r4"},
               {"tn_copy4", "u32", "%r4"},
               {"tn_copy8", "u64", "%rd9"}};

enum { KERNELS = sizeof kernels / sizeof *kernels, TEXT_BYTES = 24 << 10 };

static size_t kernel_text(int k, char *out, size_t n)
{
    size_t at = (size_t)snprintf(out, n, head, kernels[k].name);
    for (int i = TN_MAX_RANK - 1; i >= 0 && at < n; i--)
        at += (size_t)snprintf(out + at, n - at, axis_text, 24 * i, i, 24 * i + 8, 24 * i + 16, i);
    if (at < n)
        at += (size_t)snprintf(out + at, n - at, tail, kernels[k].type, kernels[k].reg,
                               kernels[k].type, kernels[k].reg);
    return at;
}

/* PTX of all of them; NULL without memory. To be freed. */
static char *whole_text(void)
{
    char *text = malloc(TEXT_BYTES);
    if (!text)
        return NULL;
    size_t at = (size_t)snprintf(text, TEXT_BYTES, "%s", file_text);
    for (int k = 0; k < KERNELS && at < TEXT_BYTES; k++)
        at += kernel_text(k, text + at, TEXT_BYTES - at);
    return text;
}

/* The device is locked. */
static tn_status load(tn__gpu *g)
{
    char log[512];
    if (g->copies)
        return TN_OK;
    char *text = whole_text();
    if (!text)
        return tn__fail(TN_MEMORY, "no memory for the kernels of copies");
    CUresult r = tn__gpu_load(g, text, &g->copies, log, sizeof log);
    free(text);
    for (int i = 0; i < KERNELS && !r; i++)
        r = g->cu->function(&g->copy[i], g->copies, kernels[i].name);
    return tn__cu(g, r, "loading the kernels of copies");
}

void tn__gpu_copies_close(tn__gpu *g)
{
    if (g->copies)
        g->cu->module_unload(g->copies);
    g->copies = NULL;
}

/* As the kernels take them. */
typedef struct {
    int64_t shape, to, from;
} Axis;

/* The widest element, a power of 2 of at most the real one's bytes, whose multiples all addresses
 * are: a piece of the caller's may begin at any byte. */
static size_t width_of(const tn__strided *c)
{
    uint64_t all = c->size | (uintptr_t)c->to | (uintptr_t)c->from;
    for (int i = 0; i < c->rank; i++)
        if (c->shape[i] > 1)
            all |= (uint64_t)c->to_stride[i] | (uint64_t)c->from_stride[i];
    return (size_t)(all & (~all + 1));
}

tn_status tn__gpu_strided(tn_stream *s, const tn__strided *c)
{
    tn__gpu *g = tn__gpu_of(s->dev);
    Axis axes[TN_MAX_RANK];
    int64_t n = 1;
    for (int i = 0; i < TN_MAX_RANK; i++) {
        axes[i] = (Axis){1, 0, 0};
        if (i < c->rank)
            axes[i] = (Axis){c->shape[i], c->to_stride[i], c->from_stride[i]};
        n *= axes[i].shape;
    }
    if (!n)
        return TN_OK;
    const int64_t blocks = (n + BLOCK - 1) / BLOCK;
    if (blocks > INT32_MAX)
        return tn__fail(TN_UNSUPPORTED, "a copy of %lld elements is too large", (long long)n);
    pthread_mutex_lock(&g->lock);
    const tn_status e = load(g);
    pthread_mutex_unlock(&g->lock);
    if (e)
        return e;
    const size_t width = width_of(c);
    const int which = width == 1 ? 0 : width == 2 ? 1 : width == 4 ? 2 : 3;
    CUresult r = CUDA_SUCCESS;
    for (size_t part = 0; part < c->size && !r; part += width) { /* mostly one */
        uint64_t to = (uintptr_t)c->to + part, from = (uintptr_t)c->from + part;
        uint64_t count = (uint64_t)n;
        void *params[] = {&to, &from, &count, axes};
        r = g->cu->launch(g->copy[which], (unsigned)blocks, 1, 1, BLOCK, 1, 1, 0, s->native, params,
                          NULL);
    }
    const tn_status status = tn__cu(g, r, "a strided copy");
    return status ? status : tn__cu_step(s, "a strided copy");
}
