/* blas_run.c: the work of a matrix product when its turn in the stream has come: every element it
 * reads or writes is checked through the driver, the product is the runtime's, then the epilogue.
 * SPDX-License-Identifier: MIT */
#include "tests/vgpu/blas.h"

#include "runtime/dtype.h"
#include "runtime/gemm.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A matrix of one launch in host memory. */
typedef struct {
    uint8_t *data;
    int type;
    int64_t rows, cols, batch;
    void *owned; /* a rounded copy */
} View;

typedef struct {
    const Product *p;
    Device *d;
    uint32_t op;
    int64_t batches; /* of this part: 1 for arrays of pointers */
    double alpha, beta;
    View a, b, c, out;
    void *product; /* batches x n x m, column after column; float, or double for f64 */
    void *sums;    /* BGRADA, BGRADB: batches x m or n */
    View bias, aux;
} Run;

static tn__pool *the_pool;
static pthread_once_t pool_once = PTHREAD_ONCE_INIT;

static void make_pool(void)
{
    const char *threads = getenv("VGPU_THREADS");
    the_pool = tn__pool_create(threads ? atoi(threads) : 0);
}

static tn__pool *pool(void)
{
    pthread_once(&pool_once, make_pool);
    return the_pool;
}

/* --- access
 * ------------------------------------------------------------------------------------------- */

/* Checks the elements of one batch line by line: what lies between the lines is not touched. Lines
 * of one allocation lie in host memory as they do on the device; a matrix that spans two is a
 * finding. */
static uint8_t *touch(Run *r, uint64_t at, const Matrix *x, int64_t rows, int64_t cols, bool write,
                      const char *what)
{
    int64_t size = blas_size(x->type);
    bool by_rows = x->rows == 1, by_cols = !by_rows && x->cols == 1;
    int64_t inner = by_rows ? rows : by_cols ? cols : 1, outer = rows * cols / inner;
    if ((by_rows && x->cols == rows) || (by_cols && x->rows == cols)) { /* nothing lies between */
        inner *= outer;
        outer = 1;
    }
    uint8_t *first = NULL;
    for (int64_t i = 0; i < outer; i++) {
        int64_t offset = by_rows   ? i * x->cols
                         : by_cols ? i * x->rows
                                   : i / cols * x->rows + i % cols * x->cols;
        offset *= size;
        uint8_t *line =
            vgpu_access(at + (uint64_t)offset, (uint64_t)(inner * size), write, r->d, r->op, what);
        if (!line)
            return NULL;
        if (!i)
            first = line;
        if (line == first + offset)
            continue;
        vgpu_library_finding("%s spans two allocations", what);
        return NULL;
    }
    return first;
}

/* "A of cublasSgemm_v2" lives as long as the call. */
static bool view(Run *r, View *v, const Matrix *x, uint64_t at, int64_t rows, int64_t cols,
                 bool write, const char *name)
{
    char what[96];
    snprintf(what, sizeof what, "%s of %s", name, r->p->call);
    *v = (View){NULL, x->type, x->rows, x->cols, x->batch, NULL};
    for (int64_t b = 0; b < r->batches; b++) {
        int64_t offset = b * x->batch * blas_size(x->type);
        uint8_t *data = touch(r, at + (uint64_t)offset, x, rows, cols, write, what);
        if (!data)
            return false;
        if (!b)
            v->data = data;
        else if (data != v->data + offset) {
            vgpu_library_finding("%s: its batches lie in two allocations", what);
            return false;
        }
        if (!x->batch) /* the same for all */
            break;
    }
    return true;
}

/* The pointer of batch `number` in an array on the device. */
static bool pointer(Run *r, uint64_t array, int64_t number, const char *name, uint64_t *at)
{
    char what[96];
    snprintf(what, sizeof what, "pointers to %s of %s", name, r->p->call);
    uint8_t *p = vgpu_access(array + (uint64_t)number * 8, 8, false, r->d, r->op, what);
    if (p)
        memcpy(at, p, 8);
    return p != NULL;
}

static bool scalar(Run *r, const Scalar *s, const char *name, double *value)
{
    char what[96];
    *value = s->value;
    if (!s->at)
        return true;
    snprintf(what, sizeof what, "%s of %s", name, r->p->call);
    uint8_t *p = vgpu_access(s->at, (uint64_t)blas_size(s->type), false, r->d, r->op, what);
    if (p)
        *value = blas_read(p, s->type);
    return p != NULL;
}

/* --- inputs that are rounded first
 * -------------------------------------------------------------------- */

/* As the tensor cores' loads convert: 10 bits of mantissa, to nearest, ties away from zero. */
static float round_tf32(float f)
{
    uint32_t w;
    memcpy(&w, &f, sizeof w);
    if ((w & 0x7f800000u) == 0x7f800000u)
        return f;
    w = (w + 0x1000u) & 0xffffe000u;
    memcpy(&f, &w, sizeof f);
    return f;
}

static float round_input(float f, Rounding to)
{
    char h[2];
    if (to == ROUND_TF32)
        return round_tf32(f);
    int type = to == ROUND_F16 ? CUDA_R_16F : CUDA_R_16BF;
    blas_write(h, type, (double)f);
    return (float)blas_read(h, type);
}

static bool round_view(View *v, int64_t rows, int64_t cols, int64_t batches, Rounding to)
{
    if (!v->batch)
        batches = 1;
    float *copy = malloc((size_t)(rows * cols * batches) * sizeof *copy);
    if (!copy)
        return false;
    float *at = copy;
    for (int64_t b = 0; b < batches; b++)
        for (int64_t j = 0; j < cols; j++)
            for (int64_t i = 0; i < rows; i++) {
                float f;
                memcpy(&f, v->data + (i * v->rows + j * v->cols + b * v->batch) * 4, sizeof f);
                *at++ = round_input(f, to);
            }
    *v = (View){(uint8_t *)copy, CUDA_R_32F, 1, rows, v->batch ? rows * cols : 0, copy};
    return true;
}

/* --- the product
 * -------------------------------------------------------------------------------------- */

static int dtype_of(int type)
{
    return type == CUDA_R_64F   ? TN_F64
           : type == CUDA_R_32F ? TN_F32
           : type == CUDA_R_16F ? TN_F16
                                : TN_BF16;
}

static tn__gemm_operand operand(const View *v)
{
    tn__gemm_operand o = {v->data, v->rows, v->cols, {v->batch, 0, 0}};
    return o;
}

/* Into r->product; or at once into the output where nothing is to be done after. */
static bool multiply(Run *r, bool at_once)
{
    const Product *p = r->p;
    int dtype = dtype_of(r->a.type);
    tn__gemm_args g = {.dtype = dtype,
                       .c_dtype = dtype == TN_F64 ? TN_F64 : TN_F32,
                       .m = p->m,
                       .n = p->n,
                       .k = p->k,
                       .batch = {r->batches, 1, 1},
                       .a = operand(&r->a),
                       .b = operand(&r->b),
                       .c = {r->product, 1, p->m, {p->m * p->n, 0, 0}}};
    if (at_once)
        g.c = operand(&r->out);
    if (p->epilogue & EPILOGUE_BGRADA)
        g.sum_a = (tn__gemm_operand){r->sums, 1, 0, {p->m, 0, 0}};
    if (p->epilogue & EPILOGUE_BGRADB)
        g.sum_b = (tn__gemm_operand){r->sums, 0, 1, {p->n, 0, 0}};
    return tn__gemm(&g, pool()) == 0;
}

static double product_at(const Run *r, int64_t b, int64_t i, int64_t j)
{
    size_t at = (size_t)((b * r->p->n + j) * r->p->m + i);
    return r->out.type == CUDA_R_64F ? ((const double *)r->product)[at]
                                     : (double)((const float *)r->product)[at];
}

static uint8_t *element(const View *v, int64_t i, int64_t j, int64_t b)
{
    return v->data + (i * v->rows + j * v->cols + b * v->batch) * blas_size(v->type);
}

/* cuBLASLt's GELU is the one with tanh. */
static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

static double gelu_slope(double x)
{
    double t = tanh(0.7978845608028654 * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608028654 * (1 + 3 * 0.044715 * x * x);
}

static bool mask_bit(const Run *r, int64_t i, int64_t j, int64_t b)
{
    int64_t bit = b * r->p->aux_batch + j * r->p->aux_ld + i;
    return r->aux.data[bit / 8] >> bit % 8 & 1;
}

static void put_mask_bit(Run *r, int64_t i, int64_t j, int64_t b, bool on)
{
    int64_t bit = b * r->p->aux_batch + j * r->p->aux_ld + i;
    uint8_t *byte = r->aux.data + bit / 8, mask = (uint8_t)(1 << bit % 8);
    *byte = (uint8_t)(on ? *byte | mask : *byte & ~mask);
}

static double after(Run *r, double v, int64_t i, int64_t j, int64_t b)
{
    uint32_t e = r->p->epilogue;
    if (e & EPILOGUE_BIAS)
        v += blas_read(element(&r->bias, i, 0, b), r->bias.type);
    if (e & EPILOGUE_RELU) {
        if (e & EPILOGUE_AUX)
            put_mask_bit(r, i, j, b, v > 0);
        return v < 0 ? 0 : v;
    }
    if (e & EPILOGUE_GELU) {
        if (e & EPILOGUE_AUX)
            blas_write(element(&r->aux, i, j, b), r->aux.type, v);
        return gelu(v);
    }
    if (e & EPILOGUE_DRELU)
        return mask_bit(r, i, j, b) ? v : 0;
    if (e & EPILOGUE_DGELU)
        return v * gelu_slope(blas_read(element(&r->aux, i, j, b), r->aux.type));
    return v;
}

/* Columns lo .. hi-1 of all batches. */
static void finish(void *context, int64_t lo, int64_t hi)
{
    Run *r = context;
    for (int64_t at = lo; at < hi; at++) {
        int64_t b = at / r->p->n, j = at % r->p->n;
        for (int64_t i = 0; i < r->p->m; i++) {
            double v = r->alpha * (r->p->k ? product_at(r, b, i, j) : 0);
            if (r->beta != 0)
                v += r->beta * blas_read(element(&r->c, i, j, b), r->c.type);
            blas_write(element(&r->out, i, j, b), r->out.type, after(r, v, i, j, b));
        }
    }
}

/* Sums over the columns of the output: gradients of biases. */
static void bias_gradient(Run *r)
{
    for (int64_t b = 0; b < r->batches; b++)
        for (int64_t i = 0; i < r->p->m; i++) {
            double sum = 0;
            for (int64_t j = 0; j < r->p->n; j++)
                sum += blas_read(element(&r->out, i, j, b), r->out.type);
            blas_write(element(&r->bias, i, 0, b), r->bias.type, sum);
        }
}

static void store_sums(Run *r, int64_t count)
{
    bool doubles = r->out.type == CUDA_R_64F;
    for (int64_t b = 0; b < r->batches; b++)
        for (int64_t i = 0; i < count; i++) {
            int64_t at = b * count + i;
            double v = !r->p->k  ? 0
                       : doubles ? ((double *)r->sums)[at]
                                 : (double)((float *)r->sums)[at];
            blas_write(element(&r->bias, i, 0, b), r->bias.type, v);
        }
}

/* --- all of it
 * ---------------------------------------------------------------------------------------- */

/* Vectors and auxiliary matrices of the epilogue. */
static bool view_epilogue(Run *r)
{
    const Product *p = r->p;
    uint32_t e = p->epilogue;
    int type = r->out.type;
    bool gradient = e & (EPILOGUE_BGRAD | EPILOGUE_BGRADA | EPILOGUE_BGRADB);
    int64_t length = e & EPILOGUE_BGRADB ? p->n : p->m;
    Matrix bias = {p->bias, type, 1, length, p->bias_batch};
    if ((gradient || e & EPILOGUE_BIAS) && !view(r, &r->bias, &bias, bias.at, length, 1, gradient,
                                                 gradient ? "bias gradient" : "bias"))
        return false;
    if (!(e & EPILOGUE_AUX))
        return true;
    bool write = e & (EPILOGUE_RELU | EPILOGUE_GELU);
    if (e & (EPILOGUE_GELU | EPILOGUE_DGELU)) {
        Matrix aux = {p->aux, type, 1, p->aux_ld, p->aux_batch};
        return view(r, &r->aux, &aux, aux.at, p->m, p->n, write, "auxiliary matrix");
    }
    char what[96];
    snprintf(what, sizeof what, "mask of %s", p->call);
    for (int64_t b = 0; b < r->batches; b++)
        for (int64_t j = 0; j < p->n; j++) {
            uint64_t byte = (uint64_t)(b * p->aux_batch + j * p->aux_ld) / 8;
            uint8_t *line =
                vgpu_access(p->aux + byte, (uint64_t)(p->m + 7) / 8, write, r->d, r->op, what);
            if (!line)
                return false;
            if (!b && !j)
                r->aux.data = line;
        }
    return true;
}

static bool view_inputs(Run *r, uint64_t a, uint64_t b, uint64_t c)
{
    const Product *p = r->p;
    if (p->k && (!view(r, &r->a, &p->a, a, p->m, p->k, false, "A") ||
                 !view(r, &r->b, &p->b, b, p->k, p->n, false, "B")))
        return false;
    if (r->beta != 0 && !view(r, &r->c, &p->c, c, p->m, p->n, false, "C (beta is not 0)"))
        return false;
    return true;
}

static bool allocate(Run *r)
{
    const Product *p = r->p;
    size_t size = p->d.type == CUDA_R_64F ? 8 : 4;
    r->product = malloc((size_t)(r->batches * p->m * p->n) * size);
    int64_t sums = p->epilogue & EPILOGUE_BGRADA ? p->m : p->epilogue & EPILOGUE_BGRADB ? p->n : 0;
    r->sums = sums ? malloc((size_t)(r->batches * sums) * size) : NULL;
    if (r->product && (r->sums || !sums))
        return true;
    vgpu_library_finding("%s: the host has no memory for the result", p->call);
    return false;
}

static void compute(Run *r)
{
    const Product *p = r->p;
    bool at_once = p->k && r->alpha == 1 && r->beta == 0 && p->epilogue == EPILOGUE_DEFAULT &&
                   (r->out.type == CUDA_R_32F || r->out.type == CUDA_R_64F);
    if (!at_once && !allocate(r))
        return;
    if (p->k && p->rounding != ROUND_NOT &&
        (!round_view(&r->a, p->m, p->k, r->batches, p->rounding) ||
         !round_view(&r->b, p->k, p->n, r->batches, p->rounding))) {
        vgpu_library_finding("%s: the host has no memory for rounded inputs", p->call);
        return;
    }
    if (p->k && !multiply(r, at_once)) {
        vgpu_library_finding("%s: the product was not computed", p->call);
        return;
    }
    if (at_once)
        return;
    tn__pool_run(pool(), finish, r, r->batches * p->n, 1 + 4096 / p->m);
    if (p->epilogue & EPILOGUE_BGRAD)
        bias_gradient(r);
    if (p->epilogue & (EPILOGUE_BGRADA | EPILOGUE_BGRADB))
        store_sums(r, p->epilogue & EPILOGUE_BGRADA ? p->m : p->n);
}

static void part(Run *r, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    const Product *p = r->p;
    if (view_inputs(r, a, b, c) && view(r, &r->out, &p->d, d, p->m, p->n, true, "the output") &&
        view_epilogue(r))
        compute(r);
    free(r->a.owned);
    free(r->b.owned);
    free(r->product);
    free(r->sums);
}

void blas_run(void *args, Device *device, uint32_t op)
{
    const Product *p = args;
    Run whole = {.p = p, .d = device, .op = op, .batches = p->batches};
    if (!scalar(&whole, &p->alpha, "alpha", &whole.alpha) ||
        !scalar(&whole, &p->beta, "beta", &whole.beta))
        return;
    if (p->workspace_bytes)
        vgpu_poison(p->workspace, p->workspace_bytes, device, op, "workspace of a library");
    if (!p->arrays) {
        part(&whole, p->a.at, p->b.at, p->c.at, p->d.at);
        return;
    }
    whole.batches = 1;
    for (int64_t i = 0; i < p->batches; i++) {
        Run one = whole;
        uint64_t a = 0, b = 0, c = 0, d = 0;
        if (!pointer(&one, p->a.at, i, "A", &a) || !pointer(&one, p->b.at, i, "B", &b) ||
            (one.beta != 0 && !pointer(&one, p->c.at, i, "C", &c)) ||
            !pointer(&one, p->d.at, i, "the output", &d))
            return;
        part(&one, a, b, c, d);
    }
}
