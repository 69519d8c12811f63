/* blas.c: types, statuses and checks that the stand-ins for cuBLAS and cuBLASLt share; blas.h.
 * SPDX-License-Identifier: MIT */
#include "tests/vgpu/blas.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    int type;
    int64_t size;
    const char *name;
} TYPES[] = {{CUDA_R_32F, 4, "CUDA_R_32F"},
             {CUDA_R_64F, 8, "CUDA_R_64F"},
             {CUDA_R_16F, 2, "CUDA_R_16F"},
             {CUDA_R_16BF, 2, "CUDA_R_16BF"}};

enum { NTYPES = sizeof TYPES / sizeof TYPES[0] };

int64_t blas_size(int type)
{
    for (int i = 0; i < NTYPES; i++)
        if (TYPES[i].type == type)
            return TYPES[i].size;
    return 0;
}

const char *blas_type(int type)
{
    for (int i = 0; i < NTYPES; i++)
        if (TYPES[i].type == type)
            return TYPES[i].name;
    return "a type that the stand-in does not have";
}

double blas_read(const void *p, int type)
{
    uint16_t h;
    uint32_t w;
    float f;
    double d;
    _Float16 half;
    switch (type) {
    case CUDA_R_32F:
        memcpy(&f, p, sizeof f);
        return f;
    case CUDA_R_64F:
        memcpy(&d, p, sizeof d);
        return d;
    case CUDA_R_16F:
        memcpy(&half, p, sizeof half);
        return half;
    default:
        memcpy(&h, p, sizeof h);
        w = (uint32_t)h << 16;
        memcpy(&f, &w, sizeof f);
        return f;
    }
}

/* To nearest, ties to even; NaN stays one. */
static uint16_t bf16_of(float f)
{
    uint32_t w;
    memcpy(&w, &f, sizeof w);
    if ((w & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(w >> 16 | 0x40);
    return (uint16_t)((w + 0x7fff + (w >> 16 & 1)) >> 16);
}

void blas_write(void *p, int type, double value)
{
    float f = (float)value;
    _Float16 half = (_Float16)f;
    uint16_t h;
    switch (type) {
    case CUDA_R_32F:
        memcpy(p, &f, sizeof f);
        return;
    case CUDA_R_64F:
        memcpy(p, &value, sizeof value);
        return;
    case CUDA_R_16F:
        memcpy(p, &half, sizeof half);
        return;
    default:
        h = bf16_of(f);
        memcpy(p, &h, sizeof h);
    }
}

/* The combinations of cuBLAS's documentation, as far as they have types of ours. */
static const struct {
    int compute, scale, ab, c;
    Rounding rounding;
} COMBINATIONS[] = {
    {CUBLAS_COMPUTE_16F, CUDA_R_16F, CUDA_R_16F, CUDA_R_16F, ROUND_NOT},
    {CUBLAS_COMPUTE_16F_PEDANTIC, CUDA_R_16F, CUDA_R_16F, CUDA_R_16F, ROUND_NOT},
    {CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16BF, CUDA_R_16BF, ROUND_NOT},
    {CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16F, CUDA_R_16F, ROUND_NOT},
    {CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16BF, CUDA_R_32F, ROUND_NOT},
    {CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16F, CUDA_R_32F, ROUND_NOT},
    {CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, ROUND_NOT},
    {CUBLAS_COMPUTE_32F_PEDANTIC, CUDA_R_32F, CUDA_R_16BF, CUDA_R_16BF, ROUND_NOT},
    {CUBLAS_COMPUTE_32F_PEDANTIC, CUDA_R_32F, CUDA_R_16F, CUDA_R_16F, ROUND_NOT},
    {CUBLAS_COMPUTE_32F_PEDANTIC, CUDA_R_32F, CUDA_R_16BF, CUDA_R_32F, ROUND_NOT},
    {CUBLAS_COMPUTE_32F_PEDANTIC, CUDA_R_32F, CUDA_R_16F, CUDA_R_32F, ROUND_NOT},
    {CUBLAS_COMPUTE_32F_PEDANTIC, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, ROUND_NOT},
    {CUBLAS_COMPUTE_32F_FAST_16F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, ROUND_F16},
    {CUBLAS_COMPUTE_32F_FAST_16BF, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, ROUND_BF16},
    {CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, ROUND_TF32},
    {CUBLAS_COMPUTE_64F, CUDA_R_64F, CUDA_R_64F, CUDA_R_64F, ROUND_NOT},
    {CUBLAS_COMPUTE_64F_PEDANTIC, CUDA_R_64F, CUDA_R_64F, CUDA_R_64F, ROUND_NOT},
};

const char *blas_types(int compute, int a, int b, int c, int *scale, Rounding *rounding)
{
    bool known = false;
    for (size_t i = 0; i < sizeof COMBINATIONS / sizeof COMBINATIONS[0]; i++) {
        known |= COMBINATIONS[i].compute == compute;
        if (COMBINATIONS[i].compute != compute || COMBINATIONS[i].ab != a || a != b ||
            COMBINATIONS[i].c != c)
            continue;
        *scale = COMBINATIONS[i].scale;
        *rounding = COMBINATIONS[i].rounding;
        return NULL;
    }
    return known ? "the compute type does not go with the types of the matrices"
                 : "the stand-in does not have this compute type";
}

cublasStatus_t blas_refuse(const char *call, cublasStatus_t status, const char *fmt, ...)
{
    char text[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    fprintf(stderr, "vgpu: %s: %s: %s\n", call, blas_status_name(status), text);
    return status;
}

/* A matrix as bytes: lines of `width` bytes, `step` apart, from `lo`; `bytes` in all for one batch.
 */
typedef struct {
    uint64_t lo, bytes, width, step, batch;
} Extent;

static Extent extent(const Matrix *x, int64_t rows, int64_t cols)
{
    bool by_rows = x->rows < x->cols;
    int64_t size = blas_size(x->type), inner = by_rows ? rows : cols, outer = by_rows ? cols : rows;
    int64_t step = by_rows ? x->cols : x->rows;
    return (Extent){.lo = x->at,
                    .width = (uint64_t)(inner * size),
                    .step = (uint64_t)(step * size),
                    .bytes = (uint64_t)(((outer - 1) * step + inner) * size),
                    .batch = (uint64_t)((x->batch < 0 ? -x->batch : x->batch) * size)};
}

/* Two ranges that repeat every `period` bytes. */
static bool apart(uint64_t x, uint64_t xbytes, uint64_t y, uint64_t ybytes, uint64_t period)
{
    uint64_t d = (x % period + period - y % period) % period;
    return d >= ybytes && period - d >= xbytes;
}

/* Whether two matrices certainly share elements. Slices of one array may lie between each other:
 * that is told by equal strides, and what cannot be told is let pass. */
static bool overlap(const Matrix *xm, int64_t xrows, int64_t xcols, const Matrix *ym, int64_t yrows,
                    int64_t ycols, int64_t batches)
{
    if (xm->rows < 0 || xm->cols < 0 || ym->rows < 0 || ym->cols < 0 || xm->batch < 0 ||
        ym->batch < 0)
        return false;
    Extent x = extent(xm, xrows, xcols), y = extent(ym, yrows, ycols);
    uint64_t more = (uint64_t)(batches - 1);
    if (x.lo >= y.lo + y.bytes + more * y.batch || y.lo >= x.lo + x.bytes + more * x.batch)
        return false;
    bool alone = batches == 1;
    bool dense =
        (x.step == x.width || x.bytes == x.width) && (y.step == y.width || y.bytes == y.width);
    if (!alone && (x.batch != y.batch || !x.batch))
        return false;
    if (!alone && apart(x.lo, x.bytes, y.lo, y.bytes, x.batch))
        return false;
    if (x.step == y.step && x.step && (alone || x.batch % x.step == 0))
        return !apart(x.lo, x.width, y.lo, y.width, x.step);
    return dense;
}

static bool same_place(const Matrix *c, const Matrix *d)
{
    return c->at == d->at && c->rows == d->rows && c->cols == d->cols && c->batch == d->batch &&
           c->type == d->type;
}

/* Batches of the output that lie in each other: every batch would be computed at the same time. A
 * batch may lie between the lines of another one (a slice of a larger array). */
static bool batches_collide(const Product *p)
{
    if (p->batches <= 1)
        return false;
    Extent d = extent(&p->d, p->m, p->n);
    bool between = d.batch >= d.width && d.batch * (uint64_t)p->batches <= d.step;
    return !between && d.batch < d.bytes;
}

static const char *check(const Product *p)
{
    const Matrix *all[] = {&p->a, &p->b, &p->d};
    if (p->arrays) {
        for (int i = 0; i < 3; i++)
            if (!all[i]->at || all[i]->at % 8)
                return "an array of pointers that is NULL or not aligned to 8 bytes";
        return NULL;
    }
    if (!p->d.at || (p->k && (!p->a.at || !p->b.at)))
        return "a matrix is NULL";
    for (int i = 0; i < 3; i++)
        if (all[i]->at % (uint64_t)blas_size(all[i]->type))
            return "a matrix does not begin at a multiple of its element's size";
    if (batches_collide(p))
        return "the batches of the output overlap";
    if (p->k && (overlap(&p->d, p->m, p->n, &p->a, p->m, p->k, p->batches) ||
                 overlap(&p->d, p->m, p->n, &p->b, p->k, p->n, p->batches)))
        return "the output overlaps an input";
    bool reads_c = p->beta.at || p->beta.value != 0;
    if (reads_c && !same_place(&p->c, &p->d) &&
        overlap(&p->d, p->m, p->n, &p->c, p->m, p->n, p->batches))
        return "the output overlaps C, but is not the same matrix";
    return NULL;
}

cublasStatus_t blas_enqueue(const Product *p, CUstream stream)
{
    if (p->m == 0 || p->n == 0 || p->batches == 0)
        return CUBLAS_STATUS_SUCCESS;
    const char *why = check(p);
    if (why)
        return blas_refuse(p->call, CUBLAS_STATUS_INVALID_VALUE, "%s", why);
    CUresult r = vgpu_enqueue(stream, p->call, blas_run, p, sizeof *p);
    if (r != CUDA_SUCCESS)
        return blas_refuse(p->call, CUBLAS_STATUS_EXECUTION_FAILED,
                           "the driver does not take the work, CUresult %d", (int)r);
    return CUBLAS_STATUS_SUCCESS;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static BlasHandle *all_handles;
static const uint64_t LIVE = 0x65766c69736c6c62, DEAD = 0x646561642e2e2e2e;

BlasHandle *blas_handle_new(size_t bytes, const char *kind)
{
    BlasHandle *h = calloc(1, bytes);
    if (!h)
        return NULL;
    h->magic = LIVE;
    h->device = vgpu_current_device();
    pthread_mutex_lock(&lock);
    h->all = all_handles;
    all_handles = h;
    pthread_mutex_unlock(&lock);
    vgpu_library_live(kind, 1);
    return h;
}

void blas_handle_end(BlasHandle *h, const char *kind)
{
    h->magic = DEAD;
    vgpu_library_live(kind, -1);
}

cublasStatus_t blas_enter(const BlasHandle *h, const char *call)
{
    if (vgpu_call_fails(call))
        return CUBLAS_STATUS_EXECUTION_FAILED;
    if (h && h->magic == LIVE)
        return CUBLAS_STATUS_SUCCESS;
    if (h)
        vgpu_library_finding("%s: the handle was destroyed, or is none", call);
    return CUBLAS_STATUS_NOT_INITIALIZED;
}

cublasStatus_t blas_enter_work(const BlasHandle *h, const char *call)
{
    cublasStatus_t s = blas_enter(h, call);
    if (s != CUBLAS_STATUS_SUCCESS)
        return s;
    int device = vgpu_current_device();
    if (device < 0)
        return blas_refuse(call, CUBLAS_STATUS_EXECUTION_FAILED, "no context is current");
    if (h->device < 0 || device == h->device)
        return s;
    vgpu_library_finding("%s: the handle was made for device %d, current is device %d", call,
                         h->device, device);
    return CUBLAS_STATUS_EXECUTION_FAILED;
}

static const struct {
    cublasStatus_t status;
    const char *name, *text;
} STATUSES[] = {
    {CUBLAS_STATUS_SUCCESS, "CUBLAS_STATUS_SUCCESS", "success"},
    {CUBLAS_STATUS_NOT_INITIALIZED, "CUBLAS_STATUS_NOT_INITIALIZED",
     "the library was not initialized"},
    {CUBLAS_STATUS_ALLOC_FAILED, "CUBLAS_STATUS_ALLOC_FAILED", "the resource allocation failed"},
    {CUBLAS_STATUS_INVALID_VALUE, "CUBLAS_STATUS_INVALID_VALUE",
     "an unsupported value or parameter was passed to the function"},
    {CUBLAS_STATUS_ARCH_MISMATCH, "CUBLAS_STATUS_ARCH_MISMATCH",
     "the function requires an architectural feature absent from the device"},
    {CUBLAS_STATUS_MAPPING_ERROR, "CUBLAS_STATUS_MAPPING_ERROR",
     "an access to GPU memory space failed"},
    {CUBLAS_STATUS_EXECUTION_FAILED, "CUBLAS_STATUS_EXECUTION_FAILED",
     "the function failed to launch on the GPU"},
    {CUBLAS_STATUS_INTERNAL_ERROR, "CUBLAS_STATUS_INTERNAL_ERROR", "an internal operation failed"},
    {CUBLAS_STATUS_NOT_SUPPORTED, "CUBLAS_STATUS_NOT_SUPPORTED",
     "the functionality requested is not supported"},
    {CUBLAS_STATUS_LICENSE_ERROR, "CUBLAS_STATUS_LICENSE_ERROR",
     "the functionality requires a license"},
};

const char *blas_status_name(cublasStatus_t s)
{
    for (size_t i = 0; i < sizeof STATUSES / sizeof STATUSES[0]; i++)
        if (STATUSES[i].status == s)
            return STATUSES[i].name;
    return "<unknown>";
}

const char *blas_status_text(cublasStatus_t s)
{
    for (size_t i = 0; i < sizeof STATUSES / sizeof STATUSES[0]; i++)
        if (STATUSES[i].status == s)
            return STATUSES[i].text;
    return "<unknown>";
}
