/* main.c: trains the cell of ../lltm.tn to repeat what it heard two steps before, through the
 * header that tenon wrote. The cell is run for STEPS steps, back-propagated through all of them,
 * and moved by Adam, which is written here: the file has no `train` of its own.
 * SPDX-License-Identifier: MIT */
#include "lltm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 32, FEATURES = 32, STATE = 128, STEPS = 8, LAG = 2, SYMBOLS = 8, UPDATES = 300 };

static void must(tn_status s, const char *what)
{
    if (s == TN_OK)
        return;
    fprintf(stderr, "lltm: %s: %s\n", what, tn_last_error());
    exit(1);
}

/* A dense float tensor [BATCH, columns] around memory of ours. */
typedef struct {
    DLTensor t;
    int64_t shape[2];
    float *at;
} Matrix;

static Matrix *matrix(int columns)
{
    Matrix *m = calloc(1, sizeof *m);
    if (m)
        m->at = calloc((size_t)BATCH * (size_t)columns, sizeof(float));
    if (!m || !m->at) {
        fprintf(stderr, "lltm: out of memory\n");
        exit(1);
    }
    m->shape[0] = BATCH;
    m->shape[1] = columns;
    m->t = (DLTensor){.data = m->at,
                      .device = {kDLCPU, 0},
                      .ndim = 2,
                      .dtype = {kDLFloat, 32, 1},
                      .shape = m->shape};
    return m;
}

static void matrix_free(Matrix *m)
{
    free(m->at);
    free(m);
}

static void clear(Matrix *m)
{
    memset(m->at, 0, sizeof(float) * (size_t)(m->shape[0] * m->shape[1]));
}

/* What a run of the cell needs: h[t], c[t] are its state before step t. */
typedef struct {
    lltm *cell;
    Matrix *x[STEPS], *h[STEPS + 1], *c[STEPS + 1];
    Matrix *dh, *dc, *dh_before, *dc_before;
    int symbol[STEPS][BATCH];
    unsigned long long random;
} Task;

static int draw(Task *task)
{
    task->random = task->random * 6364136223846793005ULL + 1442695040888963407ULL;
    return (int)(task->random >> 33) % SYMBOLS;
}

static void make_sequences(Task *task)
{
    for (int t = 0; t < STEPS; t++) {
        clear(task->x[t]);
        for (int b = 0; b < BATCH; b++) {
            const int s = task->symbol[t][b] = draw(task);
            task->x[t]->at[b * FEATURES + s] = 1;
        }
    }
}

/* Unit s of new_h shall be 0.9 where the symbol LAG steps ago was s, else 0. Adds the derivative of
 * the mean squared error to dh, and gives the error. */
static double judge(const Task *task, int t, Matrix *dh)
{
    const double n = (double)BATCH * SYMBOLS * (STEPS - LAG);
    double sum = 0;
    if (t < LAG)
        return 0;
    for (int b = 0; b < BATCH; b++)
        for (int s = 0; s < SYMBOLS; s++) {
            const float want = task->symbol[t - LAG][b] == s ? 0.9f : 0.0f;
            const float d = task->h[t + 1]->at[b * STATE + s] - want;
            sum += (double)d * d / n;
            dh->at[b * STATE + s] += (float)(2 * d / n);
        }
    return sum;
}

/* Runs all steps, keeps their tapes, and goes back through them. The gradients of the parameters
 * add up in the model. */
static double forward_and_back(Task *task)
{
    tn_tape *tape[STEPS];
    double loss = 0;
    must(tn_model_zero_grad(lltm_model(task->cell)), "zero_grad");
    for (int t = 0; t < STEPS; t++)
        must(lltm_forward_train(task->cell, NULL, &task->x[t]->t, &task->h[t]->t, &task->c[t]->t,
                                &task->h[t + 1]->t, &task->c[t + 1]->t, &tape[t]),
             "forward_train");
    clear(task->dh);
    clear(task->dc);
    for (int t = STEPS - 1; t >= 0; t--) {
        loss += judge(task, t, task->dh);
        must(lltm_forward_backward(task->cell, NULL, tape[t], &task->dh->t, &task->dc->t, NULL,
                                   &task->dh_before->t, &task->dc_before->t),
             "forward_backward");
        Matrix *h = task->dh, *c = task->dc;
        task->dh = task->dh_before;
        task->dc = task->dc_before;
        task->dh_before = h;
        task->dc_before = c;
    }
    return loss;
}

static size_t count_of(const DLTensor *t)
{
    size_t n = 1;
    for (int i = 0; i < t->ndim; i++)
        n *= (size_t)t->shape[i];
    return n;
}

/* Between a tensor of the model, which may lie on a GPU, and host memory of the same shape. */
static void transfer(tn_model *model, const DLTensor *state, float *host, int to_host)
{
    DLTensor t = *state;
    t.device = (DLDevice){kDLCPU, 0};
    t.data = host;
    t.byte_offset = 0;
    tn_stream *stream = tn_stream_default(tn_model_context(model), tn_model_device(model));
    must(tn_copy(to_host ? &t : state, to_host ? state : &t, stream, 0), "copy");
}

/* One step of Adam on every parameter, on the host. The moments of all of them lie one behind the
 * other; `place` has room for a parameter and its gradient. */
static void update(tn_model *model, float *moments, float *place, int step)
{
    const double lr = 3e-3, correct1 = 1 - pow(0.9, step), correct2 = 1 - pow(0.999, step);
    for (int i = 0; i < tn_model_state_count(model); i++) {
        tn_state_entry e;
        must(tn_model_state(model, i, &e), "state");
        if (e.kind != TN_STATE_PARAM || !e.grad.data)
            continue;
        const size_t n = count_of(&e.tensor);
        float *p = place, *g = place + n, *m = moments, *v = moments + n;
        transfer(model, &e.tensor, p, 1);
        transfer(model, &e.grad, g, 1);
        for (size_t j = 0; j < n; j++) {
            m[j] = 0.9f * m[j] + 0.1f * g[j];
            v[j] = 0.999f * v[j] + 0.001f * g[j] * g[j];
            p[j] -= (float)(lr * (m[j] / correct1) / (sqrt(v[j] / correct2) + 1e-8));
        }
        transfer(model, &e.tensor, p, 0);
        moments += 2 * n;
    }
    tn_model_state_changed(model);
}

static size_t parameter_count(tn_model *model)
{
    size_t n = 0;
    for (int i = 0; i < tn_model_state_count(model); i++) {
        tn_state_entry e;
        must(tn_model_state(model, i, &e), "state");
        if (e.kind == TN_STATE_PARAM)
            n += count_of(&e.tensor);
    }
    return n;
}

int main(void)
{
    tn_context *ctx = NULL;
    const tn_model_options options = {.size = sizeof options, .seed = 1};
    Task task = {.random = 1};
    must(tn_context_create(NULL, &ctx), "context");
    must(lltm_create(ctx, &options, &task.cell), "create");
    for (int t = 0; t <= STEPS; t++) {
        if (t < STEPS)
            task.x[t] = matrix(FEATURES);
        task.h[t] = matrix(STATE);
        task.c[t] = matrix(STATE);
    }
    task.dh = matrix(STATE);
    task.dc = matrix(STATE);
    task.dh_before = matrix(STATE);
    task.dc_before = matrix(STATE);

    tn_model *model = lltm_model(task.cell);
    const size_t count = parameter_count(model);
    float *moments = calloc(4 * count, sizeof(float)), *place = moments + 2 * count;
    double first = 0, last = 0;
    for (int step = 1; moments && step <= UPDATES; step++) {
        make_sequences(&task);
        last = forward_and_back(&task);
        update(model, moments, place, step);
        if (step == 1)
            first = last;
        if (step == 1 || step % 50 == 0)
            printf("step %3d   loss %.5f\n", step, last);
    }

    free(moments);
    for (int t = 0; t <= STEPS; t++) {
        if (t < STEPS)
            matrix_free(task.x[t]);
        matrix_free(task.h[t]);
        matrix_free(task.c[t]);
    }
    matrix_free(task.dh);
    matrix_free(task.dc);
    matrix_free(task.dh_before);
    matrix_free(task.dc_before);
    lltm_destroy(task.cell);
    tn_context_destroy(ctx);
    if (!(last < first / 4)) {
        fprintf(stderr, "lltm: the loss did not fall: %g, then %g\n", first, last);
        return 1;
    }
    return 0;
}
