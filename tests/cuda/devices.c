/* devices.c: an instance over two GPUs through its C functions: tensors where they belong, streams
 * of the caller's, tapes, gradients, and mistakes. Compiled with two_gpu.tn of models (devices.sh
 * program). SPDX-License-Identifier: MIT */
#include "TwoGPU.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 64, ROWS = 3, CALLS = 6 };

static const DLDevice gpus[] = {{kDLCUDA, 0}, {kDLCUDA, 1}};
static const DLDataType f32 = {kDLFloat, 32, 1};

static void must(tn_status s, const char *what)
{
    if (s == TN_OK)
        return;
    fprintf(stderr, "devices: %s: %s\n", what, tn_last_error());
    exit(1);
}

static void must_fail(tn_status s, tn_status want, const char *what)
{
    if (s == want)
        return;
    fprintf(stderr, "devices: %s: status %d, expected %d\n", what, (int)s, (int)want);
    exit(1);
}

static DLTensor on_host(float *at, int64_t *shape)
{
    return (DLTensor){.data = at, .device = {kDLCPU, 0}, .ndim = 2, .dtype = f32, .shape = shape};
}

static DLTensor on_gpu(tn_context *ctx, int gpu, tn_stream *s, const DLTensor *from)
{
    DLTensor t;
    must(tn_tensor_create(ctx, gpus[gpu], f32, 2, from->shape, &t), "a tensor");
    if (s)
        must(tn_copy(&t, from, s, 0), "a copy");
    return t;
}

static void compare(const float *a, const float *b, const char *what)
{
    if (!memcmp(a, b, sizeof(float) * ROWS * N))
        return;
    fprintf(stderr, "devices: %s differs\n", what);
    exit(1);
}

/* Arguments in memory of the host, and on the two GPUs with a stream of the caller's: the same
 * bits, again and again, and no memory is left behind. */
static void call_often(tn_context *ctx, TwoGPU *m, float *numbers, float *expected)
{
    static float got[ROWS * N];
    int64_t shape[] = {ROWS, N};
    DLTensor x = on_host(numbers, shape), y = on_host(expected, shape), back = on_host(got, shape);
    tn_stream *first = NULL, *second = NULL;
    must(TwoGPU_forward(m, NULL, &x, &y), "a call");
    must(tn_stream_create_on(ctx, gpus[0], &first), "a stream");
    must(tn_stream_create_on(ctx, gpus[1], &second), "a stream");
    DLTensor x0 = on_gpu(ctx, 0, first, &x), y1 = on_gpu(ctx, 1, NULL, &y);
    size_t before[2] = {0};
    for (int i = 0; i < CALLS; i++) {
        must(TwoGPU_forward(m, first, &x0, &y1), "a call on the GPUs");
        must(tn_stream_wait_stream(second, first), "waiting");
        must(tn_copy(&back, &y1, second, 0), "the result");
        compare(got, expected, "a result on the second GPU");
        memset(got, 0, sizeof got);
        must(tn_stream_wait_stream(first, second), "waiting");
        for (int k = 0; k < 2; k++) {
            const size_t now = tn_memory_allocated(ctx, gpus[k]);
            if (i > 1 && now != before[k]) {
                fprintf(stderr, "devices: cuda:%d holds %zu bytes, then %zu\n", k, before[k], now);
                exit(1);
            }
            before[k] = now;
        }
    }
    DLTensor ours = {.device = gpus[1]};
    must(TwoGPU_forward(m, first, &x0, &ours), "a result of the runtime's");
    if (ours.device.device_id != 1 || !ours.data)
        must(TN_DEVICE, "it is on the second GPU");
    must(tn_stream_wait_stream(second, first), "waiting");
    must(tn_copy(&back, &ours, second, 0), "the result");
    compare(got, expected, "a result of the runtime's");
    must(tn_stream_synchronize(second), "the end");
    tn_tensor_release(&ours);
    must_fail(TwoGPU_forward(m, first, &y1, &y), TN_DEVICE, "x on the wrong GPU");
    if (!strstr(tn_last_error(), "'x' must be in host memory or on cuda:0"))
        must(TN_DEVICE, "which is said");
    must_fail(TwoGPU_forward(m, first, &x0, &x0), TN_DEVICE, "y on the wrong GPU");
    must_fail(TwoGPU_forward(m, second, &x0, &y1), TN_DEVICE, "a stream of the wrong GPU");
    must(TwoGPU_forward(m, first, &x0, &y1), "a call after mistakes");
    must(tn_stream_synchronize(first), "the end");
    tn_tensor_release(&x0);
    tn_tensor_release(&y1);
    tn_stream_destroy(first);
    tn_stream_destroy(second);
}

/* Two tapes at once; each gives the gradient of its own call. */
static void differentiate(TwoGPU *m, float *numbers)
{
    static float other[ROWS * N], out[ROWS * N], d[3][ROWS * N], ones[ROWS * N];
    int64_t shape[] = {ROWS, N};
    tn_tape *tapes[2];
    for (int i = 0; i < ROWS * N; i++) {
        ones[i] = 1;
        other[i] = -numbers[i];
    }
    DLTensor x = on_host(numbers, shape), z = on_host(other, shape), y = on_host(out, shape);
    DLTensor one = on_host(ones, shape);
    must(TwoGPU_forward_train(m, NULL, &x, &y, &tapes[0]), "forward");
    must(TwoGPU_forward_train(m, NULL, &z, &y, &tapes[1]), "forward");
    DLTensor d1 = on_host(d[1], shape), d0 = on_host(d[0], shape), again = on_host(d[2], shape);
    must(TwoGPU_forward_backward(m, NULL, tapes[1], &one, &d1), "backward");
    must(TwoGPU_forward_backward(m, NULL, tapes[0], &one, &d0), "backward");
    must(TwoGPU_forward_train(m, NULL, &x, &y, &tapes[0]), "forward");
    must(TwoGPU_forward_backward(m, NULL, tapes[0], &one, &again), "backward");
    compare(d[0], d[2], "a gradient");
    if (!memcmp(d[0], d[1], sizeof d[0]))
        must(TN_STATE, "gradients of two calls are two");
    must(TwoGPU_forward_train(m, NULL, &x, &y, &tapes[0]), "forward");
    tn_tape_release(tapes[0]);
}

static void look(tn_context *ctx, TwoGPU *m)
{
    tn_model *model = TwoGPU_model(m);
    tn_state_entry e;
    static float host[N * N], kept[N * N];
    for (int i = 0; i < 2; i++) {
        must(tn_model_state_find(model, i ? "b" : "a", &e), "a parameter");
        if (e.tensor.device.device_type != kDLCUDA || e.tensor.device.device_id != i ||
            e.grad.device.device_id != i)
            must(TN_DEVICE, "a parameter and its gradient are where the model says");
    }
    DLTensor to = on_host(host, e.tensor.shape);
    must(tn_copy(&to, &e.tensor, tn_stream_default(ctx, gpus[1]), 0), "a copy");
    must(tn_model_save(model, "two.safetensors"), "saving");
    must(tn_model_init(model, 7), "another seed");
    must(tn_model_load(model, "two.safetensors"), "loading");
    memcpy(kept, host, sizeof kept);
    must(tn_copy(&to, &e.tensor, tn_stream_default(ctx, gpus[1]), 0), "a copy");
    if (memcmp(kept, host, sizeof kept))
        must(TN_STATE, "what was saved is loaded");
    must_fail(tn_model_to(model, (DLDevice){kDLCUDA, 1}), TN_UNSUPPORTED, "moving it");
}

int main(void)
{
    static float numbers[ROWS * N], expected[ROWS * N];
    tn_context *ctx;
    TwoGPU *m, *other;
    for (int i = 0; i < ROWS * N; i++)
        numbers[i] = (float)(i % 17) / 8 - 1;
    must(tn_context_create(NULL, &ctx), "a context");
    must(TwoGPU_create(ctx, NULL, &m), "an instance");
    must(TwoGPU_create(ctx, NULL, &other), "another");
    call_often(ctx, m, numbers, expected);
    call_often(ctx, other, numbers, expected);
    differentiate(m, numbers);
    look(ctx, m);
    TwoGPU_destroy(other);
    differentiate(m, numbers);
    TwoGPU_destroy(m);
    tn_context_destroy(ctx);
    puts("as expected");
    return 0;
}
