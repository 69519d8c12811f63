#!/bin/bash
# scaled.sh: -famp=f16 in calls from C. Gradients too small for f16 arrive through M_loss_grad, as the loss's
# own; M_loss_update leaves out gradients that are not finite, halves the scale and counts.
#   TENON=build/tenon tests/scaled.sh
# SPDX-License-Identifier: MIT
set -eu
tenon=$(realpath "${TENON:?set TENON to the compiler}")
build=$(dirname "$tenon")
include=$(realpath "$(dirname "$0")/../runtime/include")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >small.tn <<'END'
import optim

module Small {
    param w: [2, 2] = ones
    param v: [2, 2] = ones
    fn loss(x: [B, 2], size: []) -> (loss: []) { return (((x @ w.T) @ v.T).sum() * size) }
}
model small = Small()
train small.loss with optim.SGD(lr = 1.0)
END
cat >main.c <<'END'
#include "small.h"
#include <math.h>
#include <stdio.h>

static int failed;

static void check(int good, const char *what)
{
    failed += !good;
    if (!good)
        printf("scaled.sh: wrong: %s (%s)\n", what, tn_last_error());
}

static double number(small *m, const char *name)
{
    double v = -1;
    check(!tn_model_get_number(small_model(m), name, &v), name);
    return v;
}

static const float *grad(small *m, const char *name, const float **value)
{
    tn_state_entry e;
    check(!tn_model_state_find(small_model(m), name, &e), name);
    *value = e.tensor.data;
    return e.grad.data;
}

static void call(small *m, float size)
{
    float x[4] = {1, 1, 1, 1}, out;
    int64_t shape[2] = {2, 2};
    DLTensor t = {.data = x, .device = {kDLCPU, 0}, .ndim = 2, .dtype = {kDLFloat, 32, 1}, .shape = shape};
    DLTensor s = t, l = t;
    s.data = &size, s.ndim = 0, l.data = &out, l.ndim = 0;
    check(!tn_model_zero_grad(small_model(m)) && !small_loss_grad(m, NULL, &t, &s, &l), "loss_grad");
    check(!small_loss_update(m, NULL), "loss_update");
}

int main(void)
{
    tn_context *ctx = NULL;
    small *m = NULL;
    const float *w, *g;
    const tn_model_options o = {.size = sizeof o, .device = {kDLCPU, 0}};
    if (tn_context_create(NULL, &ctx) || small_create(ctx, &o, &m))
        return puts(tn_last_error()), 1;
    check(number(m, "loss.scale") == 65536, "the scale to begin with");
    call(m, 1e-8f); /* f16 ends at 6e-8 */
    g = grad(m, "w", &w);
    check(fabsf(g[0] - 4e-8f) < 1e-10f, "small gradients arrive, and are the loss's own");
    check(number(m, "loss.skipped") == 0 && number(m, "loss.t") == 1 && number(m, "loss.scale") == 65536, "a good step");
    const float before = w[0];
    call(m, 1e3f); /* times 65536: too large for f16 */
    g = grad(m, "w", &w);
    check(!isfinite(g[0]), "too large a gradient is not finite");
    check(w[0] == before && number(m, "loss.skipped") == 1 && number(m, "loss.t") == 1, "and changes nothing");
    check(number(m, "loss.scale") == 32768, "but the scale");
    call(m, 0.25f);
    g = grad(m, "w", &w);
    check(fabsf(g[0] - 1) < 1e-3f && fabsf(w[0]) < 1e-3f && number(m, "loss.t") == 2, "the next step is made");
    small_destroy(m);
    tn_context_destroy(ctx);
    return failed != 0;
}
END
"$tenon" -c -target=cpu -famp=f16 small.tn
cc -std=c11 -Wall -Werror -I"$include" -I. main.c small.o "$build/libtenon.a" -lm -lpthread -ldl -o main
./main
echo "scaled.sh: gradients are scaled on their way"
sed 's|optim.SGD(lr = 1.0)|Own()|' small.tn >own.tn
printf 'optimizer Own(scale = 0.5) { fn step(p, g, t) { return p - scale * g } }\n' >>own.tn
"$tenon" -check own.tn
if "$tenon" -check -famp=f16 own.tn 2>own.log; then
    echo "scaled.sh: an optimizer's scale is taken for the loss's"
    exit 1
fi
grep -q "own.tn:9:.*'scale' of its own" own.log
