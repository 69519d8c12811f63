/* cublaslt_desc.c: descriptors of the stand-in for cuBLASLt: created, set and read by attribute,
 * each attribute with its exact size. SPDX-License-Identifier: MIT */
#include "tests/vgpu/cublaslt_desc.h"

#include <stdlib.h>
#include <string.h>

#define API VGPU_EXPORT

_Static_assert(sizeof(LayoutDesc) <= sizeof(cublasLtMatrixLayoutOpaque_t), "fits");
_Static_assert(sizeof(MatmulDesc) <= sizeof(cublasLtMatmulDescOpaque_t), "fits");
_Static_assert(sizeof(PreferenceDesc) <= sizeof(cublasLtMatmulPreferenceOpaque_t), "fits");

/* An attribute lies in the struct as it is given. */
typedef struct {
    int attribute;
    size_t at, size;
} Attribute;

#define ROW(struct_, attribute, field)                                                             \
    {                                                                                              \
        attribute, offsetof(struct_, field), sizeof(((struct_ *)0)->field)                         \
    }

static const Attribute LAYOUT[] = {
    ROW(LayoutDesc, CUBLASLT_MATRIX_LAYOUT_TYPE, type),
    ROW(LayoutDesc, CUBLASLT_MATRIX_LAYOUT_ORDER, order),
    ROW(LayoutDesc, CUBLASLT_MATRIX_LAYOUT_ROWS, rows),
    ROW(LayoutDesc, CUBLASLT_MATRIX_LAYOUT_COLS, cols),
    ROW(LayoutDesc, CUBLASLT_MATRIX_LAYOUT_LD, ld),
    ROW(LayoutDesc, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, batches),
    ROW(LayoutDesc, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, batch_stride),
};

static const Attribute MATMUL[] = {
    ROW(MatmulDesc, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, compute),
    ROW(MatmulDesc, CUBLASLT_MATMUL_DESC_SCALE_TYPE, scale),
    ROW(MatmulDesc, CUBLASLT_MATMUL_DESC_POINTER_MODE, pointers),
    ROW(MatmulDesc, CUBLASLT_MATMUL_DESC_TRANSA, ta),
    ROW(MatmulDesc, CUBLASLT_MATMUL_DESC_TRANSB, tb),
    ROW(MatmulDesc, CUBLASLT_MATMUL_DESC_TRANSC, tc),
    ROW(MatmulDesc, CUBLASLT_MATMUL_DESC_FILL_MODE, fill),
    ROW(MatmulDesc, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue),
    ROW(MatmulDesc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias),
    ROW(MatmulDesc, CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, bias_batch),
    ROW(MatmulDesc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, bias_type),
    ROW(MatmulDesc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux),
    ROW(MatmulDesc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, aux_ld),
    ROW(MatmulDesc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, aux_batch),
    ROW(MatmulDesc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, aux_type),
    ROW(MatmulDesc, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, sm_count),
    ROW(MatmulDesc, CUBLASLT_MATMUL_DESC_FAST_ACCUM, fast),
};

static const Attribute PREFERENCE[] = {
    ROW(PreferenceDesc, CUBLASLT_MATMUL_PREF_SEARCH_MODE, search),
    ROW(PreferenceDesc, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace),
    ROW(PreferenceDesc, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions),
    ROW(PreferenceDesc, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, align[0]),
    ROW(PreferenceDesc, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, align[1]),
    ROW(PreferenceDesc, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, align[2]),
    ROW(PreferenceDesc, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, align[3]),
    ROW(PreferenceDesc, CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT, waves),
    ROW(PreferenceDesc, CUBLASLT_MATMUL_PREF_IMPL_MASK, implementations),
};

/* One kind of descriptor. */
typedef struct {
    DescKind kind;
    const Attribute *attributes;
    size_t count, bytes; /* of the opaque struct */
    const char *name;
} Kind;

#define COUNT(a) (sizeof(a) / sizeof *(a))

static const Kind KIND_LAYOUT = {DESC_LAYOUT, LAYOUT, COUNT(LAYOUT),
                                 sizeof(cublasLtMatrixLayoutOpaque_t), "cublasLtMatrixLayout"};
static const Kind KIND_MATMUL = {DESC_MATMUL, MATMUL, COUNT(MATMUL),
                                 sizeof(cublasLtMatmulDescOpaque_t), "cublasLtMatmulDesc"};
static const Kind KIND_PREFERENCE = {DESC_PREFERENCE, PREFERENCE, COUNT(PREFERENCE),
                                     sizeof(cublasLtMatmulPreferenceOpaque_t),
                                     "cublasLtMatmulPreference"};

static bool is_kind(const void *handle, const Kind *k)
{
    uint32_t kind = 0;
    if (handle)
        memcpy(&kind, handle, sizeof kind);
    return kind == (uint32_t)k->kind;
}

static bool copy(const void *handle, const Kind *k, void *out, size_t bytes)
{
    if (!is_kind(handle, k))
        return false;
    memcpy(out, handle, bytes);
    return true;
}

bool desc_layout(const void *handle, LayoutDesc *out)
{
    return copy(handle, &KIND_LAYOUT, out, sizeof *out);
}

bool desc_matmul(const void *handle, MatmulDesc *out)
{
    return copy(handle, &KIND_MATMUL, out, sizeof *out);
}

bool desc_preference(const void *handle, PreferenceDesc *out)
{
    return copy(handle, &KIND_PREFERENCE, out, sizeof *out);
}

static const Attribute *find(const void *handle, const Kind *k, int attribute, const char *call)
{
    if (!is_kind(handle, k)) {
        blas_refuse(call, CUBLAS_STATUS_INVALID_VALUE, "the handle is no %s", k->name);
        return NULL;
    }
    for (size_t i = 0; i < k->count; i++)
        if (k->attributes[i].attribute == attribute)
            return &k->attributes[i];
    blas_refuse(call, CUBLAS_STATUS_INVALID_VALUE, "attribute %d is not one that the stand-in has",
                attribute);
    return NULL;
}

static cublasStatus_t set(void *handle, const Kind *k, int attribute, const void *value,
                          size_t size, const char *call)
{
    const Attribute *a = find(handle, k, attribute, call);
    if (!a)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!value || size != a->size)
        return blas_refuse(call, CUBLAS_STATUS_INVALID_VALUE, "attribute %d has %zu bytes, not %zu",
                           attribute, a->size, size);
    memcpy((char *)handle + a->at, value, size);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t get(const void *handle, const Kind *k, int attribute, void *value,
                          size_t size, size_t *written, const char *call)
{
    const Attribute *a = find(handle, k, attribute, call);
    if (!a || (!size && !written) || (size && (!value || size != a->size)))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (size)
        memcpy(value, (const char *)handle + a->at, size);
    if (written)
        *written = a->size;
    return CUBLAS_STATUS_SUCCESS;
}

/* A descriptor on the heap, counted until it is destroyed. */
static cublasStatus_t create(void *out, const Kind *k, const char *call)
{
    if (!out)
        return CUBLAS_STATUS_INVALID_VALUE;
    void *memory = vgpu_call_fails(call) ? NULL : calloc(1, k->bytes);
    memcpy(out, &memory, sizeof memory);
    if (!memory)
        return CUBLAS_STATUS_ALLOC_FAILED;
    vgpu_library_live(k->name, 1);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t destroy(void *handle, const Kind *k)
{
    if (!handle)
        return CUBLAS_STATUS_SUCCESS;
    if (!is_kind(handle, k)) {
        vgpu_library_finding("%sDestroy: the handle is none", k->name);
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    memset(handle, 0, k->bytes);
    free(handle);
    vgpu_library_live(k->name, -1);
    return CUBLAS_STATUS_SUCCESS;
}

/* --- layouts of matrices
 * ------------------------------------------------------------------------------ */

API cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, size_t size,
                                                     cudaDataType type, uint64_t rows,
                                                     uint64_t cols, int64_t ld)
{
    if (!layout || size < sizeof *layout)
        return CUBLAS_STATUS_ALLOC_FAILED;
    LayoutDesc d = {.kind = DESC_LAYOUT,
                    .type = type,
                    .order = CUBLASLT_ORDER_COL,
                    .batches = 1,
                    .rows = rows,
                    .cols = cols,
                    .ld = ld};
    memset(layout, 0, sizeof *layout);
    memcpy(layout, &d, sizeof d);
    return CUBLAS_STATUS_SUCCESS;
}

API cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type,
                                              uint64_t rows, uint64_t cols, int64_t ld)
{
    cublasStatus_t s = create(layout, &KIND_LAYOUT, __func__);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = cublasLtMatrixLayoutInit_internal(*layout, sizeof **layout, type, rows, cols, ld);
    return s;
}

API cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    return destroy(layout, &KIND_LAYOUT);
}

API cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                    cublasLtMatrixLayoutAttribute_t attribute,
                                                    const void *value, size_t size)
{
    return set(layout, &KIND_LAYOUT, (int)attribute, value, size, __func__);
}

API cublasStatus_t cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t layout,
                                                    cublasLtMatrixLayoutAttribute_t attribute,
                                                    void *value, size_t size, size_t *written)
{
    return get(layout, &KIND_LAYOUT, (int)attribute, value, size, written, __func__);
}

/* --- descriptors of products
 * -------------------------------------------------------------------------- */

API cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t desc, size_t size,
                                                   cublasComputeType_t compute,
                                                   cudaDataType_t scale)
{
    if (!desc || size < sizeof *desc)
        return CUBLAS_STATUS_ALLOC_FAILED;
    MatmulDesc d = {.kind = DESC_MATMUL,
                    .epilogue = CUBLASLT_EPILOGUE_DEFAULT,
                    .compute = (int32_t)compute,
                    .scale = (int32_t)scale,
                    .bias_type = -1,
                    .aux_type = -1};
    memset(desc, 0, sizeof *desc);
    memcpy(desc, &d, sizeof d);
    return CUBLAS_STATUS_SUCCESS;
}

API cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute,
                                            cudaDataType_t scale)
{
    cublasStatus_t s = create(desc, &KIND_MATMUL, __func__);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = cublasLtMatmulDescInit_internal(*desc, sizeof **desc, compute, scale);
    return s;
}

API cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    return destroy(desc, &KIND_MATMUL);
}

API cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                                  cublasLtMatmulDescAttributes_t attribute,
                                                  const void *value, size_t size)
{
    return set(desc, &KIND_MATMUL, (int)attribute, value, size, __func__);
}

API cublasStatus_t cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t desc,
                                                  cublasLtMatmulDescAttributes_t attribute,
                                                  void *value, size_t size, size_t *written)
{
    return get(desc, &KIND_MATMUL, (int)attribute, value, size, written, __func__);
}

/* --- preferences
 * -------------------------------------------------------------------------------------- */

API cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t preference,
                                                         size_t size)
{
    if (!preference || size < sizeof *preference)
        return CUBLAS_STATUS_ALLOC_FAILED;
    PreferenceDesc d = {.kind = DESC_PREFERENCE,
                        .search = CUBLASLT_SEARCH_BEST_FIT,
                        .reductions = CUBLASLT_REDUCTION_SCHEME_MASK,
                        .align = {256, 256, 256, 256},
                        .implementations = UINT64_MAX};
    memset(preference, 0, sizeof *preference);
    memcpy(preference, &d, sizeof d);
    return CUBLAS_STATUS_SUCCESS;
}

API cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
    cublasStatus_t s = create(preference, &KIND_PREFERENCE, __func__);
    if (s == CUBLAS_STATUS_SUCCESS)
        s = cublasLtMatmulPreferenceInit_internal(*preference, sizeof **preference);
    return s;
}

API cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    return destroy(preference, &KIND_PREFERENCE);
}

API cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
    const void *value, size_t size)
{
    return set(preference, &KIND_PREFERENCE, (int)attribute, value, size, __func__);
}

API cublasStatus_t cublasLtMatmulPreferenceGetAttribute(
    cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
    void *value, size_t size, size_t *written)
{
    return get(preference, &KIND_PREFERENCE, (int)attribute, value, size, written, __func__);
}
