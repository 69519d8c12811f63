/* cpu_panels.c: parameters packed for products. PyTorch's layout of a layer's weights, [out, in],
 * is the one that a product has to turn round first; a method that is called again and again does
 * so once. The copies belong to the instance, count as its memory, and are made anew when the
 * state's version has changed. SPDX-License-Identifier: MIT */
#include "runtime/cpu.h"

#include <stdlib.h>

/* A copy: of what, and how it was read. */
typedef struct {
    const void *of;
    int64_t n, k, rows, cols;
    int dtype;
    uint64_t version;
    void *data;
    size_t bytes;
} Packed;

/* tn_model.impl of an instance on the CPU. */
typedef struct {
    int n, room;
    Packed *at;
} Panels;

bool tn__cpu_has_panels(const tn_program *p, const tn_gemm_step *g)
{
    return p->kind == TN_METHOD && p->buffers[g->b.buf].kind == TN_BUF_STATE;
}

/* The entry for an operand, made if there is none; NULL without memory. */
static Packed *entry(tn_model *m, const tn__gemm_args *a)
{
    Panels *l = m->impl;
    if (!l)
        m->impl = l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    for (int i = 0; i < l->n; i++) {
        Packed *p = &l->at[i];
        if (p->of == a->b.data && p->n == a->n && p->k == a->k && p->rows == a->b.rows &&
            p->cols == a->b.cols && p->dtype == a->dtype)
            return p;
    }
    if (l->n == l->room) {
        const int room = 2 * l->room + 8;
        Packed *at = realloc(l->at, sizeof *at * (size_t)room);
        if (!at)
            return NULL;
        l->at = at;
        l->room = room;
    }
    l->at[l->n] = (Packed){.of = a->b.data,
                           .n = a->n,
                           .k = a->k,
                           .rows = a->b.rows,
                           .cols = a->b.cols,
                           .dtype = a->dtype};
    return &l->at[l->n++];
}

void tn__cpu_use_panels(Call *c, int step, tn__gemm_args *args)
{
    tn_model *m = c->m;
    const size_t bytes = tn__cpu_has_panels(c->p, &c->p->gemms[c->p->steps[step].kernel])
                             ? tn__gemm_pack_bytes(args, true)
                             : 0;
    Packed *p = bytes ? entry(m, args) : NULL;
    if (!p)
        return;
    if (!p->data) {
        p->data = tn__alloc(m->ctx, bytes);
        p->bytes = bytes;
        p->version = m->version + 1;
    }
    if (!p->data) /* the product does without */
        return;
    if (p->version != m->version)
        tn__gemm_pack(args, p->data, m->ctx->pool);
    p->version = m->version;
    args->panels = p->data;
}

void tn__cpu_free_panels(tn_model *m)
{
    Panels *l = m->impl;
    for (int i = 0; l && i < l->n; i++)
        tn__free(m->ctx, l->at[i].data);
    if (l)
        free(l->at);
    free(l);
    m->impl = NULL;
}
