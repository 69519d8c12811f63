/* train.c: `tenon -train`. Batches are rows of the arrays that bear the names of the loss's
 * arguments, in an order that depends on seed and epoch only: so a resumed run repeats the bits of
 * an uninterrupted one. SPDX-License-Identifier: MIT */
#include "frontend/train.h"

#include "frontend/message.h"
#include "frontend/train_internal.h"
#include "ir/base/vec.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal)
{
    (void)signal;
    interrupted = 1;
}

int train_error(Trainer *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (t->bar)
        fputs("\r\033[K", stderr);
    message_verror(1, fmt, ap);
    va_end(ap);
    return 1;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* --- order of the examples
 * ------------------------------------------------------------------------- */

static uint64_t below(uint64_t *s, uint64_t n) /* uniform, by rejection */
{
    const uint64_t limit = UINT64_MAX - UINT64_MAX % n;
    uint64_t x;
    do
        x = random_next(s);
    while (x >= limit);
    return x % n;
}

static void shuffle(int64_t *rows, int64_t n, uint64_t seed, uint64_t epoch)
{
    uint64_t s = seed ^ epoch * 0xD1342543DE82EF95ull;
    for (int64_t i = n - 1; i > 0; i--) {
        const int64_t k = (int64_t)below(&s, (uint64_t)i + 1);
        const int64_t r = rows[i];
        rows[i] = rows[k];
        rows[k] = r;
    }
}

/* --- batches
 * --------------------------------------------------------------------------------------- */

/* Fills the batched arguments of a program with the given rows, and points the others. */
static void fill_batch(Trainer *t, Task *k, Arrays *data, const int64_t *rows, int64_t n)
{
    (void)t;
    for (int i = 0; i < k->nargs; i++) {
        Input *in = &k->in[i];
        if (in->carried) {
            if (in->carry_rows != n) { /* a batch of another size starts from zeros */
                memset(in->batch.data, 0, tensor_bytes(&in->batch));
                in->carry_rows = n;
                if (in->carry_axis >= 0)
                    in->batch.shape[in->carry_axis] = n;
            }
            continue;
        }
        const Array *from = arrays_find(data, k->names[i]);
        if (!in->batched) {
            in->batch = from->tensor;
            continue;
        }
        const size_t row = tensor_bytes(&from->tensor) / (size_t)from->tensor.shape[0];
        const char *src = (const char *)from->tensor.data;
        for (int64_t r = 0; r < n; r++)
            memcpy((char *)in->batch.data + (size_t)r * row, src + (size_t)rows[r] * row, row);
        in->batch.shape[0] = n;
    }
}

/* One call; adds n times each scalar result to sums. */
static int call_batch(Trainer *t, Task *k, int program, int64_t n, double *sums)
{
    const DLTensor *args[MAX_TRAIN_ARGS];
    for (int i = 0; i < k->nargs; i++)
        args[i] = &k->in[i].batch;
    for (int i = 0; i < k->nresults; i++) {
        k->out[i] = (DLTensor){0};
        args[k->nargs + i] = k->carry_of[i] >= 0 ? &k->in[k->carry_of[i]].batch : &k->out[i];
    }
    const tn_status s = tn_call(t->m, NULL, program, args, k->nargs + k->nresults, NULL);
    if (s)
        return train_error(t, "%s", tn_last_error());
    for (int i = 0; i < k->nresults; i++) {
        if (k->carry_of[i] >= 0)
            continue;
        if (tensor_numel(&k->out[i]) == 1)
            sums[i] += (double)n * tensor_get(&k->out[i], 0);
        tn_tensor_release(&k->out[i]);
    }
    return 0;
}

static void reset_carried(Task *k)
{
    for (int i = 0; i < k->nargs; i++)
        k->in[i].carry_rows = -1;
}

/* --- reports
 * --------------------------------------------------------------------------------------- */

static void show_bar(Trainer *t, int epoch, int64_t done, int64_t all, double loss)
{
    enum { WIDTH = 24 };
    if (!t->bar)
        return;
    const int full = (int)(WIDTH * done / (all ? all : 1));
    char bar[WIDTH + 1];
    for (int i = 0; i < WIDTH; i++)
        bar[i] = i < full ? '#' : '.';
    bar[WIDTH] = 0;
    fprintf(stderr, "\repoch %d/%d [%s] %lld/%lld  loss %.4f", epoch, t->o->epochs, bar,
            (long long)done, (long long)all, loss);
}

static void show_results(const Task *k, const char *prefix, const double *sums, double n)
{
    for (int i = 0; i < k->nresults; i++)
        if (k->carry_of[i] < 0 && k->scalar[i])
            printf("  %s%s %.4f", prefix, k->names[k->nargs + i], sums[i] / n);
}

/* --- passes over the data
 * ---------------------------------------------------------------------------- */

static int evaluate(Trainer *t, Task *k, Arrays *data, const int64_t *rows, int64_t n, double *sums)
{
    reset_carried(k);
    memset(sums, 0, sizeof *sums * MAX_TRAIN_ARGS);
    for (int64_t at = 0; at < n; at += t->batch) {
        const int64_t size = n - at < t->batch ? n - at : t->batch;
        fill_batch(t, k, data, rows + at, size);
        if (call_batch(t, k, k->eval, size, sums))
            return 1;
    }
    reset_carried(k);
    return 0;
}

/* Trains the batches of one epoch from t->start_batch on; stops early when interrupted. */
static int train_epoch(Trainer *t, int epoch)
{
    for (int64_t i = 0; i < t->ntrain; i++)
        t->rows[i] = t->train_rows[i];
    shuffle(t->rows, t->ntrain, t->seed, (uint64_t)epoch);
    const double begin = seconds();
    for (int i = 0; i < t->ntasks; i++) {
        reset_carried(&t->tasks[i]);
        memset(t->tasks[i].sums, 0, sizeof t->tasks[i].sums);
    }
    int64_t seen = 0;
    for (int64_t b = t->start_batch; b * t->batch < t->ntrain; b++) {
        const int64_t at = b * t->batch;
        const int64_t size = t->ntrain - at < t->batch ? t->ntrain - at : t->batch;
        for (int i = 0; i < t->ntasks; i++) {
            fill_batch(t, &t->tasks[i], t->data, t->rows + at, size);
            if (call_batch(t, &t->tasks[i], t->tasks[i].step, size, t->tasks[i].sums))
                return 1;
        }
        seen += size;
        show_bar(t, epoch, at + size, t->ntrain, t->tasks[0].sums[0] / (double)seen);
        if (interrupted) {
            t->stopped_epoch = epoch;
            t->stopped_batch = b + 1;
            break;
        }
    }
    t->start_batch = 0;
    if (t->bar)
        fputs("\r\033[K", stderr);
    if (interrupted)
        return 0;
    printf("epoch %*d", t->o->epochs > 99 ? 3 : 2, epoch);
    for (int i = 0; i < t->ntasks; i++)
        show_results(&t->tasks[i], "", t->tasks[i].sums, (double)seen);
    for (int i = 0; i < t->ntasks && t->nval; i++) {
        double sums[MAX_TRAIN_ARGS];
        if (evaluate(t, &t->tasks[i], t->data, t->train_rows + t->ntrain, t->nval, sums))
            return 1;
        show_results(&t->tasks[i], "val ", sums, (double)t->nval);
    }
    printf("  %.3f s\n", seconds() - begin);
    fflush(stdout);
    return 0;
}

static int test_set(Trainer *t)
{
    if (!t->ntest)
        return 0;
    int64_t *rows = arena_array(t->a, int64_t, t->ntest);
    for (int64_t i = 0; i < t->ntest; i++)
        rows[i] = i;
    for (int i = 0; i < t->ntasks; i++) {
        Task *k = &t->tasks[i];
        double sums[MAX_TRAIN_ARGS];
        if (evaluate(t, k, t->test, rows, t->ntest, sums))
            return 1;
        for (int r = 0; r < k->nresults; r++)
            if (k->carry_of[r] < 0 && k->scalar[r])
                printf("test %s%s%s %.4f\n", t->ntasks > 1 ? k->method : "",
                       t->ntasks > 1 ? "." : "", k->names[k->nargs + r],
                       sums[r] / (double)t->ntest);
    }
    return 0;
}

static int all_epochs(Trainer *t)
{
    for (int epoch = t->start_epoch; epoch <= t->o->epochs; epoch++) {
        if (train_epoch(t, epoch))
            return 1;
        if (interrupted)
            break;
        t->stopped_epoch = epoch + 1;
        t->stopped_batch = 0;
    }
    return 0;
}

int train_run(Arena *a, const tn_model_desc *desc, const TrainOptions *o)
{
    Trainer t = {.a = a, .o = o, .desc = desc, .seed = o->seed};
    t.bar = !o->quiet && isatty(STDERR_FILENO);
    int status = train_prepare(&t);
    if (!status) {
        struct sigaction act = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART}, old;
        sigemptyset(&act.sa_mask);
        interrupted = 0;
        sigaction(SIGINT, &act, &old);
        status = all_epochs(&t);
        if (interrupted && !status)
            printf("stopped in epoch %d\n", t.stopped_epoch);
        if (!status && o->save)
            status = train_save(&t, o->save);
        sigaction(SIGINT, &old, NULL); /* a second Ctrl-C does not lose what is being saved */
        if (!status && !interrupted)
            status = test_set(&t);
        if (!status && interrupted && o->save)
            printf("go on with: -resume %s\n", o->save);
    }
    train_end(&t);
    return status;
}
