/* graph.c: calls of one plan with tensors that lie elsewhere each time, and calls of another size
 * in between, give the bits of the first call of each. Compiled with graph.tn (cuda.sh graphs).
 * SPDX-License-Identifier: MIT */
#include "chain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZES = 2, PLACES = 3, CALLS = 14, IN = 32, OUT = 16, MOST = 40 };

static void must(tn_status s, const char *what)
{
    if (s == TN_OK)
        return;
    fprintf(stderr, "graph: %s: %s\n", what, tn_last_error());
    exit(1);
}

static const DLDevice gpu = {kDLCUDA, 0};

static DLTensor on_gpu(tn_context *ctx, int rows, int columns)
{
    DLTensor t;
    const int64_t shape[] = {rows, columns};
    const DLDataType f32 = {kDLFloat, 32, 1};
    must(tn_tensor_create(ctx, gpu, f32, 2, shape, &t), "tensor");
    return t;
}

static DLTensor on_host(float *at, int64_t *shape)
{
    return (DLTensor){
        .data = at, .device = {kDLCPU, 0}, .ndim = 2, .dtype = {kDLFloat, 32, 1}, .shape = shape};
}

/* With an argument: only nearly, as sums may be made in another order. */
static int differ(const float *a, const float *b, size_t n, int nearly)
{
    for (size_t i = 0; i < n; i++)
        if (nearly ? !(a[i] - b[i] < 1e-5f && b[i] - a[i] < 1e-5f) : memcmp(a + i, b + i, 4) != 0)
            return 1;
    return 0;
}

int main(int argc, char **argv)
{
    (void)argv;
    static const int rows[SIZES] = {5, MOST};
    static float values[MOST * IN], first[SIZES][MOST * OUT], again[MOST * OUT];
    tn_context *ctx = NULL;
    tn_stream *on = NULL;
    chain *m = NULL;
    int bad = 0;
    must(tn_context_create(NULL, &ctx), "context");
    must(tn_stream_create_on(ctx, gpu, &on), "stream");
    const tn_model_options o = {.size = sizeof o, .device = gpu};
    must(chain_create(ctx, &o, &m), "model");
    for (int i = 0; i < MOST * IN; i++)
        values[i] = (float)(i * 37 % 101) / 50.0f - 1.0f;
    for (int s = 0; s < SIZES; s++) {
        DLTensor x[PLACES], y[PLACES];
        int64_t in[] = {rows[s], IN}, out[] = {rows[s], OUT};
        const DLTensor from = on_host(values, in), to = on_host(again, out);
        for (int p = 0; p < PLACES; p++) {
            x[p] = on_gpu(ctx, rows[s], IN);
            y[p] = on_gpu(ctx, rows[s], OUT);
            must(tn_copy(&x[p], &from, on, 0), "copy");
        }
        for (int call = 0; call < CALLS; call++) {
            const int p = call % PLACES;
            must(chain_forward(m, on, &x[p], &y[p]), "call");
            must(tn_copy(&to, &y[p], on, 0), "copy");
            const size_t n = (size_t)rows[s] * OUT;
            if (!call)
                memcpy(first[s], again, n * sizeof(float));
            bad += differ(first[s], again, n, argc > 1);
        }
        for (int p = 0; p < PLACES; p++) {
            tn_tensor_release(&x[p]);
            tn_tensor_release(&y[p]);
        }
    }
    chain_destroy(m);
    tn_stream_destroy(on);
    tn_context_destroy(ctx);
    printf("%d calls, %d wrong\n", SIZES * CALLS, bad);
    return bad != 0;
}
