/* cuda_blas.c: products of matrices by cuBLAS. It knows matrices whose columns lie at a fixed
 * distance (or rows: that is the transpose), and batches at a fixed distance; what is different is
 * packed first, or called in a loop. Sums are products with a vector of ones, or come out of
 * cuBLASLt beside the product (cuda_blaslt.c), as does a vector that is added to each row.
 * SPDX-License-Identifier: MIT */
#include "runtime/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- the library ---------------------------------------------------------------------------------
 */

static void find_blas(tn__cuda *c)
{
    static const tn__symbol functions[] = {
#define BLAS(field, symbol, parameters) {symbol, offsetof(tn__blas, field)},
#include "runtime/cuda_blas.def"
#undef BLAS
    };
    void *lib = tn__toolkit_library("libcublas");
    c->blas_state = -1;
    if (!lib) {
        snprintf(c->no_blas, sizeof c->no_blas,
                 "cuBLAS (libcublas.so.13 or .12) was not found: it comes with the CUDA toolkit");
        return;
    }
    const char *lacks =
        tn__find_symbols(lib, functions, sizeof functions / sizeof *functions, &c->blas);
    if (lacks) {
        snprintf(c->no_blas, sizeof c->no_blas, "cuBLAS has no %s", lacks);
        return;
    }
    c->blas_state = 1;
}

bool tn__gpu_has_blas(tn__gpu *g)
{
    pthread_mutex_lock(&g->base.ctx->lock);
    if (!g->cuda->blas_state)
        find_blas(g->cuda);
    const bool there = g->cuda->blas_state > 0;
    pthread_mutex_unlock(&g->base.ctx->lock);
    return there;
}

static const char *status_name(int s)
{
    switch (s) {
    case 1:
        return "CUBLAS_STATUS_NOT_INITIALIZED";
    case 3:
        return "CUBLAS_STATUS_ALLOC_FAILED";
    case 7:
        return "CUBLAS_STATUS_INVALID_VALUE";
    case 8:
        return "CUBLAS_STATUS_ARCH_MISMATCH";
    case 11:
        return "CUBLAS_STATUS_MAPPING_ERROR";
    case 13:
        return "CUBLAS_STATUS_EXECUTION_FAILED";
    case 14:
        return "CUBLAS_STATUS_INTERNAL_ERROR";
    case 15:
        return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
        return "an unknown status";
    }
}

/* Bytes that cuBLAS may use on a stream; with memory of ours it allocates nothing later. */
static size_t workspace_bytes(const tn__gpu *g)
{
    return g->arch >= 90 ? (size_t)32 << 20 : (size_t)8 << 20;
}

/* A handle for each stream: handles are not for two threads, and their workspace is used in the
 * order of one stream. The stream is locked. */
static tn_status handle_of(tn_stream *s)
{
    tn__gpu *g = tn__gpu_of(s->dev);
    const tn__blas *b = &g->cuda->blas;
    if (s->library)
        return TN_OK;
    if (!tn__gpu_has_blas(g))
        return tn__fail(TN_UNSUPPORTED, "%s", g->cuda->no_blas);
    cublasHandle_t h = NULL;
    int r = b->create(&h);
    if (r)
        return tn__fail(TN_DRIVER, "cublasCreate on cuda:%d: %s (%d)", (int)g->base.dl.device_id,
                        status_name(r), r);
    s->scratch = tn__gpu_alloc(s->dev, s, workspace_bytes(g), TN_FOR_LIBRARY);
    if (!s->scratch) {
        b->destroy(h);
        return TN_MEMORY;
    }
    r = b->set_stream(h, s->native);
    if (!r)
        r = b->set_workspace(h, s->scratch, workspace_bytes(g));
    if (!r)
        r = b->set_math(h, CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
    if (!r) {
        s->library = h;
        return TN_OK;
    }
    /* a handle without the stream would work in no order: the next call makes another */
    b->destroy(h);
    tn__gpu_free(s->dev, s->scratch, 0);
    s->scratch = NULL;
    return tn__fail(TN_DRIVER, "cuBLAS does not start on cuda:%d: %s (%d)",
                    (int)g->base.dl.device_id, status_name(r), r);
}

tn_status tn__gpu_blas_stream(const tn_stream *s, void *native)
{
    const tn__gpu *g = tn__gpu_of(s->dev);
    const tn__blas *b = &g->cuda->blas;
    if (!s->library)
        return TN_OK;
    int r = b->set_stream(s->library, native);
    if (!r) /* a change of the stream takes it away */
        r = b->set_workspace(s->library, s->scratch, workspace_bytes(g));
    return r ? tn__fail(TN_DRIVER, "cublasSetStream: %s (%d)", status_name(r), r) : TN_OK;
}

void tn__gpu_blas_close(tn_stream *s)
{
    if (s->library)
        tn__gpu_of(s->dev)->cuda->blas.destroy(s->library);
    tn__gpu_free(s->dev, s->scratch, 0);
    s->library = s->scratch = NULL;
}

/* --- matrices ------------------------------------------------------------------------------------
 */

/* rows x cols elements at distances `down` and `right`, for two levels of batches. */
typedef struct {
    char *data;
    int dtype;
    int64_t rows, cols, down, right, batch[2];
} Matrix;

/* How cuBLAS sees it: columns at distance `lead` (as it is), or rows (transposed). */
typedef struct {
    bool by_columns, by_rows;
    int64_t column_lead, row_lead;
} Layout;

static int64_t at_least_1(int64_t n)
{
    return n > 1 ? n : 1;
}

static Layout layout_of(const Matrix *x)
{
    Layout l = {0};
    l.column_lead = x->cols == 1 ? at_least_1(x->rows) : x->right;
    l.row_lead = x->rows == 1 ? at_least_1(x->cols) : x->down;
    l.by_columns = (x->down == 1 || x->rows == 1) && l.column_lead >= at_least_1(x->rows);
    l.by_rows = (x->right == 1 || x->cols == 1) && l.row_lead >= at_least_1(x->cols);
    return l;
}

typedef struct {
    Call *c;
    const char *where;
    int64_t batches[2];
    bool accumulate, tf32;
} Product;

static tn__strided strided(const Product *p, const Matrix *to, const Matrix *from)
{
    const int64_t size = (int64_t)tn__dtype_size(from->dtype);
    tn__strided s = {.to = to->data, .from = from->data, .size = (size_t)size, .rank = 4};
    const int64_t shape[] = {p->batches[0], p->batches[1], from->rows, from->cols};
    const int64_t to_stride[] = {to->batch[0], to->batch[1], to->down, to->right};
    const int64_t from_stride[] = {from->batch[0], from->batch[1], from->down, from->right};
    for (int i = 0; i < 4; i++) {
        s.shape[i] = shape[i];
        s.to_stride[i] = to_stride[i] * size;
        s.from_stride[i] = from_stride[i] * size;
    }
    return s;
}

/* A packed matrix of the same shape, in memory that is freed with give_back. Batches that share
 * one matrix share one here. */
static tn_status packed(const Product *p, const Matrix *x, Matrix *out)
{
    const bool outer = x->batch[0] && p->batches[0] > 1, inner = x->batch[1] && p->batches[1] > 1;
    const int64_t one = x->rows * x->cols;
    *out = *x;
    out->down = x->cols;
    out->right = 1;
    out->batch[1] = inner ? one : 0;
    out->batch[0] = outer ? one * (inner ? p->batches[1] : 1) : 0;
    const int64_t n = one * (inner ? p->batches[1] : 1) * (outer ? p->batches[0] : 1);
    out->data = tn__gpu_alloc(p->c->m->dev, p->c->stream, (size_t)n * tn__dtype_size(x->dtype),
                              TN_FOR_COPY);
    return out->data ? TN_OK : TN_MEMORY;
}

static tn_status pack(const Product *p, const Matrix *x, Matrix *out)
{
    const tn_status s = packed(p, x, out);
    if (s)
        return s;
    tn__strided copy = strided(p, out, x);
    if (!out->batch[0])
        copy.shape[0] = 1;
    if (!out->batch[1])
        copy.shape[1] = 1;
    return tn__gpu_strided(p->c->stream, &copy);
}

static void give_back(const Product *p, const Matrix *copy, const Matrix *x)
{
    if (copy->data != x->data)
        tn__gpu_free(p->c->m->dev, copy->data, p->c->stream->id);
}

static bool fits(const Matrix *x)
{
    const Layout l = layout_of(x);
    return l.by_columns || l.by_rows;
}

/* x itself, or packed. */
static tn_status usable(const Product *p, const Matrix *x, Matrix *out)
{
    *out = *x;
    return fits(x) ? TN_OK : pack(p, x, out);
}

/* --- products ------------------------------------------------------------------------------------
 */

static int cuda_type(int dtype)
{
    return dtype == TN_F64    ? CUDA_R_64F
           : dtype == TN_F16  ? CUDA_R_16F
           : dtype == TN_BF16 ? CUDA_R_16BF
                              : CUDA_R_32F;
}

/* One call: the operand in cuBLAS's place, `flipped` if its transpose is wanted there. */
typedef struct {
    const Matrix *x;
    int op;
    int64_t lead;
} Side;

static Side side_of(const Matrix *x, bool flipped)
{
    const Layout l = layout_of(x);
    if (l.by_columns)
        return (Side){x, flipped ? CUBLAS_OP_T : CUBLAS_OP_N, l.column_lead};
    return (Side){x, flipped ? CUBLAS_OP_N : CUBLAS_OP_T, l.row_lead};
}

static bool small(int64_t n)
{
    return n <= INT32_MAX;
}

/* c = a b for `count` matrices at distances stride[], from batch `skip` bytes on. All fit. */
static tn_status multiply(const Product *p, const Matrix *a, const Matrix *b, const Matrix *c,
                          int64_t count, const int64_t stride[3], const int64_t skip[3])
{
    tn__gpu *g = tn__gpu_of(p->c->m->dev);
    const tn__blas *blas = &g->cuda->blas;
    const Layout lc = layout_of(c);
    const bool flip = !lc.by_columns; /* the transpose of c is what cuBLAS makes */
    const Side first = side_of(flip ? b : a, flip), second = side_of(flip ? a : b, flip);
    const int64_t m = flip ? c->cols : c->rows, n = flip ? c->rows : c->cols, k = a->cols;
    const int64_t ldc = flip ? lc.row_lead : lc.column_lead;
    if (!small(m) || !small(n) || !small(k) || !small(first.lead) || !small(second.lead) ||
        !small(ldc) || !small(count))
        return tn__fail(TN_UNSUPPORTED, "%s: a product is too large for cuBLAS",
                        p->where ? p->where : p->c->p->name);
    const float one = 1, factor = p->accumulate ? 1 : 0;
    const double one64 = 1, factor64 = p->accumulate ? 1 : 0;
    const bool f64 = a->dtype == TN_F64;
    const void *alpha = f64 ? (const void *)&one64 : &one;
    const void *beta = f64 ? (const void *)&factor64 : &factor;
    const int type = cuda_type(a->dtype), c_type = cuda_type(c->dtype);
    const int compute = f64       ? CUBLAS_COMPUTE_64F
                        : p->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                  : CUBLAS_COMPUTE_32F;
    const char *x = first.x->data + skip[flip ? 1 : 0], *y = second.x->data + skip[flip ? 0 : 1];
    char *z = c->data + skip[2];
    int r;
    if (count == 1)
        r = blas->gemm(p->c->stream->library, first.op, second.op, (int)m, (int)n, (int)k, alpha, x,
                       type, (int)first.lead, y, type, (int)second.lead, beta, z, c_type, (int)ldc,
                       compute, CUBLAS_GEMM_DEFAULT);
    else
        r = blas->gemm_batched(p->c->stream->library, first.op, second.op, (int)m, (int)n, (int)k,
                               alpha, x, type, (int)first.lead, stride[flip ? 1 : 0], y, type,
                               (int)second.lead, stride[flip ? 0 : 1], beta, z, c_type, (int)ldc,
                               stride[2], (int)count, compute, CUBLAS_GEMM_DEFAULT);
    if (r)
        return tn__fail(TN_DRIVER, "%s: the product at %s failed on cuda:%d: %s (%d)",
                        p->c->p->name, p->where ? p->where : "?", (int)g->base.dl.device_id,
                        status_name(r), r);
    return TN_OK;
}

static int64_t bytes_of(const Matrix *x, int64_t elements)
{
    return elements * (int64_t)tn__dtype_size(x->dtype);
}

/* Both levels of batches in one call where their distances allow it, else a loop over the shorter
 * one. */
static tn_status multiply_batches(const Product *p, const Matrix *a, const Matrix *b,
                                  const Matrix *c)
{
    const Matrix *const all[3] = {a, b, c};
    const int64_t n0 = p->batches[0], n1 = p->batches[1];
    int64_t stride[3], skip[3] = {0, 0, 0};
    bool one_level = true;
    for (int i = 0; i < 3; i++)
        one_level &= all[i]->batch[0] == n1 * all[i]->batch[1];
    const int inner = n1 == 1 ? 0 : n0 == 1 || one_level || n0 <= n1 ? 1 : 0;
    for (int i = 0; i < 3; i++)
        stride[i] = all[i]->batch[inner];
    if (n0 == 1 || n1 == 1 || one_level)
        return multiply(p, a, b, c, n0 * n1, stride, skip);
    const int outer = 1 - inner;
    tn_status s = TN_OK;
    for (int64_t k = 0; k < p->batches[outer] && !s; k++) {
        for (int i = 0; i < 3; i++)
            skip[i] = bytes_of(all[i], k * all[i]->batch[outer]);
        s = multiply(p, a, b, c, p->batches[inner], stride, skip);
    }
    return s;
}

/* With all operands usable but c, which may need a packed place. */
static tn_status multiply_into(const Product *p, const Matrix *a, const Matrix *b, const Matrix *c)
{
    if (fits(c))
        return multiply_batches(p, a, b, c);
    Matrix copy = *c;
    tn_status s = p->accumulate ? pack(p, c, &copy) : packed(p, c, &copy);
    if (!s)
        s = multiply_batches(p, a, b, &copy);
    if (!s) {
        const tn__strided out = strided(p, c, &copy);
        s = tn__gpu_strided(p->c->stream, &out);
    }
    give_back(p, &copy, c);
    return s;
}

/* A product over nothing. */
static tn_status zero(const Product *p, const Matrix *c)
{
    const int64_t n = p->batches[0] * p->batches[1] * c->rows * c->cols;
    static const unsigned char none[8];
    if (p->accumulate || !n)
        return TN_OK;
    Matrix copy = *c;
    tn_status s = packed(p, c, &copy);
    if (!s)
        s = tn__gpu_fill(p->c->stream, copy.data, none, tn__dtype_size(c->dtype), (size_t)n);
    if (!s) {
        const tn__strided out = strided(p, c, &copy);
        s = tn__gpu_strided(p->c->stream, &out);
    }
    give_back(p, &copy, c);
    return s;
}

static tn_status product(const Product *p, const Matrix *a, const Matrix *b, const Matrix *c)
{
    Matrix ua = *a, ub = *b;
    if (!p->batches[0] || !p->batches[1] || !c->rows || !c->cols)
        return TN_OK;
    if (!a->cols)
        return zero(p, c);
    tn_status s = usable(p, a, &ua);
    if (!s)
        s = usable(p, b, &ub);
    if (!s)
        s = multiply_into(p, &ua, &ub, c);
    give_back(p, &ua, a);
    give_back(p, &ub, b);
    return s;
}

/* --- sums ----------------------------------------------------------------------------------------
 */

/* A vector of ones as a matrix of one row or one column, for all batches. */
static tn_status ones(const Product *p, int dtype, int64_t n, Matrix *out)
{
    unsigned char one[8];
    tn__dtype_store(dtype, 1, one);
    out->dtype = dtype;
    out->data =
        tn__gpu_alloc(p->c->m->dev, p->c->stream, (size_t)n * tn__dtype_size(dtype), TN_FOR_COPY);
    if (!out->data)
        return TN_MEMORY;
    return n ? tn__gpu_fill(p->c->stream, out->data, one, tn__dtype_size(dtype), (size_t)n) : TN_OK;
}

/* The distance of a sum's elements stands in its rows or in its columns. */
static tn_status sum_rows(const Product *p, const Matrix *a, Matrix sum)
{
    Matrix v = {.rows = a->cols, .cols = 1, .down = 1, .right = at_least_1(a->cols)};
    const int64_t distance = sum.down ? sum.down : sum.right;
    sum.rows = a->rows;
    sum.cols = 1;
    sum.down = distance;
    sum.right = 1;
    tn_status s = ones(p, a->dtype, a->cols, &v);
    if (!s)
        s = product(p, a, &v, &sum);
    tn__gpu_free(p->c->m->dev, v.data, p->c->stream->id);
    return s;
}

static tn_status sum_columns(const Product *p, const Matrix *b, Matrix sum)
{
    Matrix v = {.rows = 1, .cols = b->rows, .down = at_least_1(b->rows), .right = 1};
    const int64_t distance = sum.down ? sum.down : sum.right;
    sum.rows = 1;
    sum.cols = b->cols;
    sum.right = distance;
    sum.down = 1;
    tn_status s = ones(p, b->dtype, b->rows, &v);
    if (!s)
        s = product(p, &v, b, &sum);
    tn__gpu_free(p->c->m->dev, v.data, p->c->stream->id);
    return s;
}

/* --- a vector beside the product -----------------------------------------------------------------
 */

typedef enum { BIAS, SUM_A, SUM_B } Beside;

/* In one call of cuBLASLt; false: it does not do this one. */
static bool beside(const Product *p, const Matrix *a, const Matrix *b, const Matrix *c, Beside what,
                   const Matrix *vector, tn_status *s)
{
    const Layout lc = layout_of(c);
    const bool flip = what == BIAS ? lc.by_rows : !lc.by_columns;
    const int64_t distance = vector->down ? vector->down : vector->right;
    const bool same = c->dtype == a->dtype && vector->dtype == a->dtype;
    const bool plain = p->batches[0] == 1 && p->batches[1] == 1 && !p->accumulate && !p->tf32;
    if (!same || !plain || a->dtype == TN_F64 || (what == BIAS && (!flip || a->dtype != TN_F32)) ||
        distance != 1 || !fits(a) || !fits(b) || !fits(c) || !c->rows || !c->cols || !a->cols)
        return false;
    const Side first = side_of(flip ? b : a, flip), second = side_of(flip ? a : b, flip);
    const bool of_first = flip == (what == SUM_B);
    const tn__lt_product q = {.type = cuda_type(a->dtype),
                              .op_a = first.op,
                              .op_b = second.op,
                              .m = flip ? c->cols : c->rows,
                              .n = flip ? c->rows : c->cols,
                              .k = a->cols,
                              .lda = first.lead,
                              .ldb = second.lead,
                              .ldd = flip ? lc.row_lead : lc.column_lead,
                              .epilogue = what == BIAS ? LT_BIAS
                                          : of_first   ? LT_SUM_A
                                                       : LT_SUM_B,
                              .a = first.x->data,
                              .b = second.x->data,
                              .d = c->data,
                              .vector = vector->data};
    int status = 0;
    tn_stream *stream = p->c->stream;
    const size_t bytes = workspace_bytes(tn__gpu_of(stream->dev));
    if (!tn__gpu_lt(stream, &q, stream->scratch, bytes, &status))
        return false;
    *s = status ? tn__fail(TN_DRIVER, "%s: the product at %s failed: %s (%d)", p->c->p->name,
                           p->where ? p->where : "?", status_name(status), status)
                : TN_OK;
    return true;
}

/* c = a b + bias, the same for each row: where cuBLASLt does not do it, c begins as the bias. */
static tn_status biased(const Product *p, const Matrix *a, const Matrix *b, const Matrix *c,
                        const Matrix *bias)
{
    tn_status s = TN_OK;
    Product q = *p;
    Matrix rows = *bias;
    if (beside(p, a, b, c, BIAS, bias, &s))
        return s;
    rows.rows = c->rows;
    const tn__strided start = strided(p, c, &rows);
    s = tn__gpu_strided(p->c->stream, &start);
    q.accumulate = true;
    return s ? s : product(&q, a, b, c);
}

/* The product and the sums of its operands. */
static tn_status with_sums(const Product *p, const Matrix *a, const Matrix *b, const Matrix *c,
                           const Matrix *sum_a, const Matrix *sum_b)
{
    tn_status s = TN_OK;
    const bool done_a = sum_a && beside(p, a, b, c, SUM_A, sum_a, &s);
    const bool done_b = !done_a && sum_b && beside(p, a, b, c, SUM_B, sum_b, &s);
    if (!s && !done_a && !done_b)
        s = product(p, a, b, c);
    if (!s && sum_a && !done_a)
        s = sum_rows(p, a, *sum_a);
    if (!s && sum_b && !done_b)
        s = sum_columns(p, b, *sum_b);
    return s;
}

/* --- the step ------------------------------------------------------------------------------------
 */

static Matrix matrix(const Call *c, const tn_gemm_operand *o, int64_t rows, int64_t cols)
{
    const int64_t *d = c->plan->dims;
    const int dtype = c->p->buffers[o->buf].dtype;
    return (Matrix){.data = (char *)c->at[o->buf] + d[o->offset] * (int64_t)tn__dtype_size(dtype),
                    .dtype = dtype,
                    .rows = rows,
                    .cols = cols,
                    .down = d[o->rows],
                    .right = d[o->cols],
                    .batch = {d[o->batch0], d[o->batch1]}};
}

static bool known(const Matrix *a, const Matrix *b, const Matrix *c)
{
    const bool half = a->dtype == TN_F16 || a->dtype == TN_BF16;
    return a->dtype == b->dtype && (half || a->dtype == TN_F32 || a->dtype == TN_F64) &&
           (c->dtype == a->dtype || (half && c->dtype == TN_F32));
}

/* For a graph: true: it is not to be done. */
static bool recorded(const Call *c, const tn_gemm_step *g, const Matrix *a, const Matrix *b,
                     const Matrix *out)
{
    const uint64_t words[] = {(uintptr_t)a->data,
                              (uintptr_t)b->data,
                              (uintptr_t)out->data,
                              g->sum_a.buf ? (uintptr_t)matrix(c, &g->sum_a, 0, 0).data : 0,
                              g->sum_b.buf ? (uintptr_t)matrix(c, &g->sum_b, 0, 0).data : 0,
                              g->bias.buf ? (uintptr_t)matrix(c, &g->bias, 0, 0).data : 0};
    if (tn__record_other(c->stream, words, 6))
        return true;
    tn__record_inside(c->stream, true);
    return false;
}

tn_status tn__gpu_gemm(Call *c, int step)
{
    const tn_gemm_step *g = &c->p->gemms[c->p->steps[step].kernel];
    const int64_t *d = c->plan->dims;
    const Product p = {c,
                       c->p->steps[step].where,
                       {d[g->batch0], d[g->batch1]},
                       g->accumulate,
                       g->tf32 && c->p->buffers[g->a.buf].dtype == TN_F32};
    const Matrix a = matrix(c, &g->a, d[g->m], d[g->k]), b = matrix(c, &g->b, d[g->k], d[g->n]);
    const Matrix out = matrix(c, &g->c, d[g->m], d[g->n]);
    if (!known(&a, &b, &out))
        return tn__fail(TN_UNSUPPORTED, "%s: a product of %s and %s to %s", c->p->name,
                        tn__dtype_name(a.dtype), tn__dtype_name(b.dtype),
                        tn__dtype_name(out.dtype));
    if (c->stream->recorder && recorded(c, g, &a, &b, &out))
        return TN_OK;
    pthread_mutex_lock(&c->stream->lock);
    tn_status s = handle_of(c->stream);
    const Matrix bias = matrix(c, &g->bias, 1, out.cols), sum_a = matrix(c, &g->sum_a, 0, 0),
                 sum_b = matrix(c, &g->sum_b, 0, 0);
    if (!s && g->bias.buf)
        s = biased(&p, &a, &b, &out, &bias);
    else if (!s)
        s = with_sums(&p, &a, &b, &out, g->sum_a.buf ? &sum_a : NULL, g->sum_b.buf ? &sum_b : NULL);
    pthread_mutex_unlock(&c->stream->lock);
    tn__record_inside(c->stream, false);
    return s ? s : tn__cu_step(c->stream, p.where ? p.where : "a product");
}
