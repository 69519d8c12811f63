/* cublaslt.c: stand-in for libcublasLt.so: handles, the heuristic and cublasLtMatmul with its
 * epilogues. Descriptors: cublaslt_desc.c. SPDX-License-Identifier: MIT */
#include "tests/vgpu/cublaslt_desc.h"

#include <string.h>

#ifndef VGPU_CUBLAS_MAJOR
#define VGPU_CUBLAS_MAJOR 13
#endif

#define API VGPU_EXPORT

struct cublasLtContext {
    BlasHandle base;
};

static const char HANDLE[] = "cuBLASLt handle";

/* What cublasLtMatmulAlgo_t holds. */
typedef struct {
    uint32_t magic;
    uint32_t split; /* sums in parts, in workspace */
    uint32_t key;   /* of the types, operations and orders that it was made for */
    uint32_t align[4];
} Algo;

_Static_assert(sizeof(Algo) <= sizeof(cublasLtMatmulAlgo_t), "fits");
static const uint32_t ALGO = 0x414c474f;

API cublasStatus_t cublasLtCreate(cublasLtHandle_t *h)
{
    if (!h)
        return CUBLAS_STATUS_INVALID_VALUE;
    void *c = vgpu_call_fails(__func__) ? NULL : blas_handle_new(sizeof **h, HANDLE);
    *h = c;
    return c ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

API cublasStatus_t cublasLtDestroy(cublasLtHandle_t h)
{
    cublasStatus_t s = blas_enter(h ? &h->base : NULL, __func__);
    if (s == CUBLAS_STATUS_SUCCESS)
        blas_handle_end(&h->base, HANDLE);
    return s;
}

API size_t cublasLtGetVersion(void)
{
    return VGPU_CUBLAS_MAJOR * 10000;
}

API size_t cublasLtGetCudartVersion(void)
{
    return VGPU_CUBLAS_MAJOR * 1000;
}

API cublasStatus_t cublasLtGetProperty(libraryPropertyType type, int *value)
{
    if (!value || (int)type < 0 || type > PATCH_LEVEL)
        return CUBLAS_STATUS_INVALID_VALUE;
    *value = type == MAJOR_VERSION ? VGPU_CUBLAS_MAJOR : 0;
    return CUBLAS_STATUS_SUCCESS;
}

API const char *cublasLtGetStatusName(cublasStatus_t s)
{
    return blas_status_name(s);
}

API const char *cublasLtGetStatusString(cublasStatus_t s)
{
    return blas_status_text(s);
}

/* --- from descriptors to a product
 * -------------------------------------------------------------------- */

typedef struct {
    MatmulDesc op;
    LayoutDesc a, b, c, d;
} Problem;

static bool is_known_epilogue(uint32_t e)
{
    static const uint32_t known[] = {
        CUBLASLT_EPILOGUE_DEFAULT,  CUBLASLT_EPILOGUE_RELU,        CUBLASLT_EPILOGUE_RELU_AUX,
        CUBLASLT_EPILOGUE_BIAS,     CUBLASLT_EPILOGUE_RELU_BIAS,   CUBLASLT_EPILOGUE_RELU_AUX_BIAS,
        CUBLASLT_EPILOGUE_DRELU,    CUBLASLT_EPILOGUE_DRELU_BGRAD, CUBLASLT_EPILOGUE_GELU,
        CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_BIAS,   CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
        CUBLASLT_EPILOGUE_DGELU,    CUBLASLT_EPILOGUE_DGELU_BGRAD, CUBLASLT_EPILOGUE_BGRADA,
        CUBLASLT_EPILOGUE_BGRADB};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i] == e)
            return true;
    return false;
}

static bool read_problem(Problem *p, const void *op, const void *a, const void *b, const void *c,
                         const void *d)
{
    return desc_matmul(op, &p->op) && desc_layout(a, &p->a) && desc_layout(b, &p->b) &&
           desc_layout(c, &p->c) && desc_layout(d, &p->d);
}

static const char *check_layout(const LayoutDesc *l)
{
    if (l->order != CUBLASLT_ORDER_COL && l->order != CUBLASLT_ORDER_ROW)
        return "the stand-in has matrices in order COL or ROW only";
    uint64_t line = l->order == CUBLASLT_ORDER_COL ? l->rows : l->cols;
    if (l->ld < 1 || (uint64_t)l->ld < line)
        return "a leading dimension is less than the lines are long";
    if (l->rows > INT32_MAX || l->cols > INT32_MAX || l->batches < 1)
        return "rows, columns or batches are out of range";
    return NULL;
}

static bool is_transposed(int32_t t)
{
    return t != CUBLAS_OP_N;
}

static const char *check_sizes(const Problem *p)
{
    const LayoutDesc *all[] = {&p->a, &p->b, &p->c, &p->d};
    for (int i = 0; i < 4; i++) {
        const char *why = check_layout(all[i]);
        if (why)
            return why;
        if (all[i]->batches != p->d.batches)
            return "the numbers of batches differ";
    }
    if (p->op.tc != CUBLAS_OP_N || p->op.fill != 0)
        return "TRANSC and FILL_MODE have to be left alone";
    if (p->op.ta < CUBLAS_OP_N || p->op.ta > CUBLAS_OP_C || p->op.tb < CUBLAS_OP_N ||
        p->op.tb > CUBLAS_OP_C)
        return "an operation is none of N, T, C";
    bool ta = is_transposed(p->op.ta), tb = is_transposed(p->op.tb);
    uint64_t m = ta ? p->a.cols : p->a.rows, k = ta ? p->a.rows : p->a.cols;
    uint64_t kb = tb ? p->b.cols : p->b.rows, n = tb ? p->b.rows : p->b.cols;
    if (k != kb)
        return "A's columns are not as many as B's rows";
    if (p->d.rows != m || p->d.cols != n || p->c.rows != m || p->c.cols != n)
        return "C and D have not the rows of A and the columns of B";
    if (p->c.type != p->d.type)
        return "C and D have different types";
    return NULL;
}

static const char *check_epilogue(const Problem *p)
{
    uint32_t e = p->op.epilogue;
    bool vector = e & (EPILOGUE_BIAS | EPILOGUE_BGRAD | EPILOGUE_BGRADA | EPILOGUE_BGRADB);
    if (!is_known_epilogue(e))
        return "the epilogue is none that the stand-in has";
    if (e != EPILOGUE_DEFAULT && p->d.order != CUBLASLT_ORDER_COL)
        return "an epilogue needs D in order COL";
    if (vector && p->op.bias_type != -1 && (uint32_t)p->op.bias_type != p->d.type)
        return "the bias has not D's type";
    if (e & EPILOGUE_AUX && e & (EPILOGUE_GELU | EPILOGUE_DGELU) && p->op.aux_type != -1 &&
        (uint32_t)p->op.aux_type != p->d.type)
        return "the auxiliary matrix has not D's type";
    if (!(e & EPILOGUE_AUX))
        return NULL;
    int64_t unit = e & (EPILOGUE_RELU | EPILOGUE_DRELU) ? 128 : 8;
    if (p->op.aux_ld < (int64_t)p->d.rows || p->op.aux_ld % unit || p->op.aux_batch % unit)
        return "the auxiliary matrix's leading dimension is too small, or no multiple of 128 "
               "(mask) or 8";
    return NULL;
}

/* Of all that descriptors say. NULL, or why the problem has no algorithm. */
static const char *check_problem(const Problem *p, Rounding *rounding, cublasStatus_t *status)
{
    int scale = 0;
    *status = CUBLAS_STATUS_INVALID_VALUE;
    const char *why = check_sizes(p);
    if (why)
        return why;
    *status = CUBLAS_STATUS_NOT_SUPPORTED;
    why =
        blas_types(p->op.compute, (int)p->a.type, (int)p->b.type, (int)p->d.type, &scale, rounding);
    if (!why && scale != p->op.scale)
        why = "the scale type does not go with the compute type";
    if (!why && p->op.pointers != CUBLASLT_POINTER_MODE_HOST &&
        p->op.pointers != CUBLASLT_POINTER_MODE_DEVICE)
        why = "the stand-in has alpha and beta on the host or the device, not vectors of them";
    return why ? why : check_epilogue(p);
}

static uint32_t key_of(const Problem *p)
{
    const uint32_t parts[] = {(uint32_t)p->op.compute,
                              p->op.epilogue,
                              (uint32_t)p->op.ta,
                              (uint32_t)p->op.tb,
                              p->a.type,
                              p->b.type,
                              p->d.type,
                              (uint32_t)p->a.order,
                              (uint32_t)p->b.order,
                              (uint32_t)p->d.order};
    uint32_t key = 2166136261u;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        key = (key ^ parts[i]) * 16777619u;
    return key;
}

/* Parts of sums of the whole output. */
static uint64_t workspace_of(const Problem *p)
{
    uint64_t bytes = p->d.rows * p->d.cols * (uint64_t)p->d.batches * 4;
    return (bytes + 255) / 256 * 256;
}

static Matrix matrix(uint64_t at, const LayoutDesc *l, int32_t transposed)
{
    bool by_rows = (l->order == CUBLASLT_ORDER_COL) != is_transposed(transposed);
    return (Matrix){at, (int)l->type, by_rows ? 1 : l->ld, by_rows ? l->ld : 1,
                    l->batches > 1 ? l->batch_stride : 0};
}

/* --- choice of an algorithm
 * --------------------------------------------------------------------------- */

static cublasLtMatmulHeuristicResult_t candidate(const Problem *p, const PreferenceDesc *preference,
                                                 bool split)
{
    Algo a = {.magic = ALGO, .split = split, .key = key_of(p)};
    for (int i = 0; i < 4; i++) /* loads of 16 bytes where that is promised */
        a.align[i] = preference->align[i] < 16 ? preference->align[i] : 16;
    cublasLtMatmulHeuristicResult_t r = {.workspaceSize = split ? workspace_of(p) : 0,
                                         .state = CUBLAS_STATUS_SUCCESS,
                                         .wavesCount = 1.0f};
    memcpy(&r.algo, &a, sizeof a);
    return r;
}

API cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t h, cublasLtMatmulDesc_t op, cublasLtMatrixLayout_t A, cublasLtMatrixLayout_t B,
    cublasLtMatrixLayout_t C, cublasLtMatrixLayout_t D, cublasLtMatmulPreference_t preference,
    int requested, cublasLtMatmulHeuristicResult_t results[], int *count)
{
    Problem p;
    PreferenceDesc want;
    Rounding rounding;
    cublasStatus_t s = blas_enter(h ? &h->base : NULL, __func__);
    if (s != CUBLAS_STATUS_SUCCESS)
        return s;
    if (count)
        *count = 0;
    if (!count || !results || requested < 1 || !read_problem(&p, op, A, B, C, D) ||
        !desc_preference(preference, &want))
        return blas_refuse(
            __func__, CUBLAS_STATUS_INVALID_VALUE,
            "a descriptor or an output is missing, or fewer than one result is wanted");
    const char *why = check_problem(&p, &rounding, &s);
    if (why)
        return blas_refuse(__func__, s, "%s", why);
    /* the one that needs workspace comes first, as the faster one does in CUDA */
    if (want.workspace >= workspace_of(&p))
        results[(*count)++] = candidate(&p, &want, true);
    if (*count < requested)
        results[(*count)++] = candidate(&p, &want, false);
    return CUBLAS_STATUS_SUCCESS;
}

/* --- the product
 * -------------------------------------------------------------------------------------- */

static const char *check_algo(const Problem *p, const Product *x, const Algo *a)
{
    const uint64_t at[] = {x->a.at, x->b.at, x->c.at, x->d.at};
    if (a->magic != ALGO)
        return "the algorithm was not filled by cublasLtMatmulAlgoGetHeuristic";
    if (a->key != key_of(p))
        return "the algorithm was chosen for other types, operations, orders or another epilogue";
    for (int i = 0; i < 4; i++)
        if (a->align[i] && at[i] % a->align[i])
            return "a matrix is less aligned than the heuristic's preference promised";
    if (a->split && x->workspace_bytes < workspace_of(p))
        return "the workspace is smaller than the algorithm needs";
    return NULL;
}

static const char *check_pointers(const Problem *p, const Product *x, bool has_alpha_beta)
{
    uint32_t e = p->op.epilogue;
    if (!has_alpha_beta)
        return "alpha or beta is NULL";
    if (x->workspace % 256 || (x->workspace_bytes && !x->workspace))
        return "the workspace is NULL or not aligned to 256 bytes";
    if (e & (EPILOGUE_BIAS | EPILOGUE_BGRAD | EPILOGUE_BGRADA | EPILOGUE_BGRADB) &&
        (!x->bias || x->bias % (uint64_t)blas_size((int)p->d.type)))
        return "the bias is NULL or not aligned";
    if (e & EPILOGUE_AUX && (!x->aux || x->aux % 16))
        return "the auxiliary matrix is NULL or not aligned to 16 bytes";
    return NULL;
}

static void set_scalar(Scalar *s, const void *p, const MatmulDesc *op)
{
    *s = (Scalar){0, 0, op->scale};
    if (op->pointers == CUBLASLT_POINTER_MODE_DEVICE)
        s->at = (uint64_t)(uintptr_t)p;
    else if (p)
        s->value = blas_read(p, op->scale);
}

static Product product_of(const Problem *p, Rounding rounding)
{
    bool ta = is_transposed(p->op.ta);
    return (Product){.call = "cublasLtMatmul",
                     .m = (int64_t)p->d.rows,
                     .n = (int64_t)p->d.cols,
                     .k = (int64_t)(ta ? p->a.rows : p->a.cols),
                     .batches = p->d.batches,
                     .rounding = rounding,
                     .epilogue = p->op.epilogue,
                     .bias = p->op.bias,
                     .bias_batch = p->op.bias_batch,
                     .aux = p->op.aux,
                     .aux_ld = p->op.aux_ld,
                     .aux_batch = p->op.aux_batch};
}

API cublasStatus_t cublasLtMatmul(cublasLtHandle_t h, cublasLtMatmulDesc_t op, const void *alpha,
                                  const void *A, cublasLtMatrixLayout_t Adesc, const void *B,
                                  cublasLtMatrixLayout_t Bdesc, const void *beta, const void *C,
                                  cublasLtMatrixLayout_t Cdesc, void *D,
                                  cublasLtMatrixLayout_t Ddesc, const cublasLtMatmulAlgo_t *algo,
                                  void *workspace, size_t bytes, cudaStream_t stream)
{
    Problem p;
    Rounding rounding = ROUND_NOT;
    cublasStatus_t s = blas_enter_work(h ? &h->base : NULL, __func__);
    if (s != CUBLAS_STATUS_SUCCESS)
        return s;
    if (!read_problem(&p, op, Adesc, Bdesc, Cdesc, Ddesc))
        return blas_refuse(__func__, CUBLAS_STATUS_INVALID_VALUE,
                           "a descriptor is missing or destroyed");
    const char *why = check_problem(&p, &rounding, &s);
    if (why)
        return blas_refuse(__func__, s, "%s", why);
    Product x = product_of(&p, rounding);
    x.a = matrix((uint64_t)(uintptr_t)A, &p.a, p.op.ta);
    x.b = matrix((uint64_t)(uintptr_t)B, &p.b, p.op.tb);
    x.c = matrix((uint64_t)(uintptr_t)C, &p.c, CUBLAS_OP_N);
    x.d = matrix((uint64_t)(uintptr_t)D, &p.d, CUBLAS_OP_N);
    x.workspace = (uint64_t)(uintptr_t)workspace;
    x.workspace_bytes = bytes;
    set_scalar(&x.alpha, alpha, &p.op);
    set_scalar(&x.beta, beta, &p.op);
    why = check_pointers(&p, &x, alpha && beta);
    Algo a = {.magic = ALGO, .key = key_of(&p)};
    if (algo)
        memcpy(&a, algo, sizeof a);
    if (!why)
        why = check_algo(&p, &x, &a);
    if (why)
        return blas_refuse(__func__, CUBLAS_STATUS_INVALID_VALUE, "%s", why);
    x.workspace_bytes = a.split ? workspace_of(&p) : 0; /* what is used */
    return blas_enqueue(&x, (CUstream)stream);
}
