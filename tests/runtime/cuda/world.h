/* world.h: what the tests of the CUDA backend begin and end with. SPDX-License-Identifier: MIT
 */
#ifndef CUDA_TEST_WORLD_H
#define CUDA_TEST_WORLD_H

#include "tests/runtime/cuda/tables.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MAYBE __attribute__((unused))

static MAYBE MAYBE const DLDevice cpu = {kDLCPU, 0}, gpu = {kDLCUDA, 0};
static MAYBE MAYBE const DLDataType f32_type = {kDLFloat, 32, 1};

typedef struct {
    tn_context *ctx;
    tn_model *m; /* on the GPU */
    tn_stream *s;
} World;

static MAYBE void ok(tn_status s)
{
    if (s)
        fail_msg("%s: %s", tn_strerror(s), tn_last_error());
}

static MAYBE int begin(void **state)
{
    static World w;
    const tn_context_options o = {.size = sizeof o, .threads = 2};
    const tn_model_options mo = {.size = sizeof mo, .device = gpu};
    ok(tn_context_create(&o, &w.ctx));
    ok(tn_model_create(w.ctx, &pair_desc, &mo, &w.m));
    w.s = tn_stream_default(w.ctx, gpu);
    assert_non_null(w.s);
    *state = &w;
    return 0;
}

static MAYBE int end(void **state)
{
    World *w = *state;
    tn_model_destroy(w->m);
    ok(tn_device_synchronize(w->ctx, gpu));
    size_t library = 0; /* workspaces of cuBLAS stay with their streams */
    char text[4096];
    assert_true(tn_memory_snapshot(w->ctx, gpu, text, sizeof text) < sizeof text);
    if (strstr(text, "\"use\": \"libraries\""))
        library = (size_t)32 << 20;
    assert_true(tn_memory_allocated(w->ctx, gpu) <= library);
    assert_null(strstr(text, "\"use\": \"copies\""));
    assert_null(strstr(text, "\"use\": \"tapes\""));
    assert_null(strstr(text, "\"use\": \"results\""));
    assert_null(strstr(text, "\"use\": \"state\""));
    assert_int_equal(tn_memory_allocated(w->ctx, cpu), 0);
    tn_context_destroy(w->ctx);
    return 0;
}

static MAYBE DLTensor host(void *data, int64_t *shape)
{
    return (DLTensor){.data = data, .device = cpu, .ndim = 2, .dtype = f32_type, .shape = shape};
}

static MAYBE DLTensor device(World *w, int64_t rows, int64_t cols)
{
    const int64_t shape[] = {rows, cols};
    DLTensor t;
    ok(tn_tensor_create(w->ctx, gpu, f32_type, 2, shape, &t));
    return t;
}

static MAYBE DLTensor upload(World *w, float *data, int64_t rows, int64_t cols)
{
    int64_t shape[] = {rows, cols};
    DLTensor t = device(w, rows, cols), h = host(data, shape);
    ok(tn_copy(&t, &h, w->s, 0));
    return t;
}

static MAYBE void download(World *w, const DLTensor *t, float *out)
{
    DLTensor h = host(out, t->shape);
    ok(tn_copy(&h, t, w->s, 0));
}

static MAYBE float times_m[] = {1, 0, 0, 1, 1, 1};
static MAYBE int64_t shape_m[] = {3, 2}, shape_23[] = {2, 3}, shape_22[] = {2, 2};

static MAYBE tn_status forward(World *w, tn_stream *s, const DLTensor *x, DLTensor *y, DLTensor *z)
{
    const DLTensor m = host(times_m, shape_m);
    const DLTensor *args[] = {x, &m, y, z};
    return tn_call(w->m, s, FORWARD, args, 4, NULL);
}

static MAYBE float read_w(World *w)
{
    tn_state_entry e;
    float v = 0;
    int64_t shape[] = {1};
    ok(tn_model_state_find(w->m, "w", &e));
    assert_int_equal(e.tensor.device.device_type, kDLCUDA);
    assert_non_null(e.grad.data);
    DLTensor h = {.data = &v, .device = cpu, .ndim = 1, .dtype = f32_type, .shape = shape};
    ok(tn_copy(&h, &e.tensor, w->s, 0));
    return v;
}

#endif
