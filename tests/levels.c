/* levels.c: runs the methods of levels.tn and writes all bytes of their results to standard output.
 * SPDX-License-Identifier: MIT */
#include "levels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 37, WIDTH = 300 };

static void check(tn_status s)
{
    if (s) {
        fprintf(stderr, "levels: %s\n", tn_last_error());
        exit(1);
    }
}

static void write_out(DLTensor *t)
{
    int64_t n = t->dtype.bits / 8;
    for (int i = 0; i < t->ndim; i++)
        n *= t->shape[i];
    if (fwrite(t->data, 1, (size_t)n, stdout) != (size_t)n)
        exit(1);
    tn_tensor_release(t);
}

int main(void)
{
    static float values[ROWS * WIDTH], one = 1.0f;
    static int64_t classes[ROWS];
    int64_t shape[] = {ROWS, WIDTH};
    unsigned r = 1;
    for (int i = 0; i < ROWS * WIDTH; i++) {
        r = r * 1664525u + 1013904223u;
        values[i] = (float)(int)r * 0x1p-29f;
    }
    values[5] = -INFINITY;
    for (int i = 0; i < ROWS; i++)
        classes[i] = i * 31 % WIDTH;
    DLTensor x = {.data = values, .device = {kDLCPU, 0}, .ndim = 2, .dtype = {kDLFloat, 32, 1}};
    DLTensor y = {.data = classes, .device = {kDLCPU, 0}, .ndim = 1, .dtype = {kDLInt, 64, 1}};
    DLTensor d = {.data = &one, .device = {kDLCPU, 0}, .dtype = {kDLFloat, 32, 1}};
    x.shape = y.shape = shape;
    tn_context *ctx;
    levels *m;
    tn_tape *tape;
    check(tn_context_create(NULL, &ctx));
    check(levels_create(ctx, NULL, &m));
    DLTensor out[5] = {{0}}, loss = {0}, d_x = {0};
    check(levels_functions(m, NULL, &x, &out[0], &out[1], &out[2], &out[3], &out[4]));
    for (int i = 0; i < 5; i++)
        write_out(&out[i]);
    values[5] = 0.25f;
    DLTensor rows[4] = {{0}};
    check(levels_rows(m, NULL, &x, &rows[0], &rows[1], &rows[2], &rows[3]));
    for (int i = 0; i < 4; i++)
        write_out(&rows[i]);
    check(levels_loss_train(m, NULL, &x, &y, &loss, &tape));
    check(levels_loss_backward(m, NULL, tape, &d, &d_x));
    write_out(&loss);
    write_out(&d_x);
    levels_destroy(m);
    tn_context_destroy(ctx);
    return 0;
}
