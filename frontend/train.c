/* train.c: `tenon -train`. Batches are rows of the arrays that bear the names of the loss's
 * arguments, in an order that depends on seed and epoch only: so a resumed run repeats the bits of
 * an uninterrupted one. SPDX-License-Identifier: MIT */
#include "frontend/train.h"

#include "frontend/message.h"
#include "frontend/stop.h"
#include "frontend/train_internal.h"
#include "ir/base/strbuf.h"
#include "ir/base/vec.h"
#include "runtime/rt.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void clear_bar(const Trainer *t)
{
    if (t->bar)
        fputs("\r\033[K", stderr);
}

int train_error(Trainer *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    clear_bar(t);
    message_verror(1, fmt, ap);
    va_end(ap);
    return 1;
}

void train_warning(Trainer *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    clear_bar(t);
    StrBuf text = {.a = t->a};
    sb_vprintf(&text, fmt, ap);
    message_warning("%s", sb_text(&text));
    va_end(ap);
}

int train_failed(Trainer *t, tn_status s)
{
    clear_bar(t);
    const CallSite site = {.files = t->o->files, .nfiles = t->o->nfiles};
    return runtime_error(t->a, (int)s, &site);
}

static int failed_call(Trainer *t, tn_status s, const Task *k, const Arrays *data)
{
    Array *given = arena_array(t->a, Array, k->nargs + 1);
    CallSite site = {.files = t->o->files, .nfiles = t->o->nfiles, .args = given};
    for (int i = 0; i < k->nargs; i++) {
        const Array *x = k->in[i].carried ? NULL : arrays_find(data, k->names[i]);
        if (x)
            given[site.nargs++] = (Array){
                data == t->test ? arena_printf(t->a, "%s_test", x->name) : x->name, x->tensor};
    }
    clear_bar(t);
    return runtime_error(t->a, (int)s, &site);
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
static void fill_batch(Task *k, Arrays *data, const int64_t *rows, int64_t n)
{
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

/* The argument or result of a task that a program calls so; -1: it has a default, and is left out.
 */
static int numbered(const Task *k, const char *name, bool is_result)
{
    for (int i = is_result ? k->nargs : 0; i < (is_result ? k->nargs + k->nresults : k->nargs); i++)
        if (!strcmp(k->names[i], name))
            return i;
    return -1;
}

/* One call with a batch of n examples of `data`; adds n times each scalar result to sums. */
static int call_batch(Trainer *t, Task *k, const Arrays *data, int program, int64_t n, double *sums)
{
    const tn_program *p = &t->desc->programs[program];
    const DLTensor *args[TN_MAX_ARGS] = {NULL};
    for (int i = 0; i < p->nargs; i++) {
        const int of = numbered(k, p->args[i].name, p->args[i].is_result);
        const int r = of - k->nargs;
        if (of < 0)
            continue;
        if (!p->args[i].is_result) {
            args[i] = &k->in[of].batch;
        } else if (k->carry_of[r] >= 0) {
            args[i] = &k->in[k->carry_of[r]].batch;
        } else {
            k->out[r] = (DLTensor){0};
            args[i] = &k->out[r];
        }
    }
    const tn_status s = tn_call(t->m, NULL, program, args, p->nargs, NULL);
    if (s)
        return failed_call(t, s, k, data);
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
    char text[NUMBER_TEXT];
    fprintf(stderr, "\repoch %d/%d [%s] %lld/%lld  loss %s", epoch, t->o->epochs, bar,
            (long long)done, (long long)all, number_text(text, loss, 4, false));
}

static void show_results(const Task *k, const char *prefix, const double *sums, double n)
{
    char text[NUMBER_TEXT];
    for (int i = 0; i < k->nresults; i++)
        if (k->carry_of[i] < 0 && k->scalar[i])
            printf("  %s%s %s", prefix, k->names[k->nargs + i],
                   number_text(text, sums[i] / n, 4, false));
}

/* --- passes over the data
 * ---------------------------------------------------------------------------- */

static int evaluate(Trainer *t, Task *k, Arrays *data, const int64_t *rows, int64_t n, double *sums)
{
    reset_carried(k);
    memset(sums, 0, sizeof *sums * MAX_TRAIN_ARGS);
    n = train_usable(t, n);
    for (int64_t at = 0; at < n; at += t->batch) {
        const int64_t size = n - at < t->batch ? n - at : t->batch;
        fill_batch(k, data, rows + at, size);
        const int status = call_batch(t, k, data, k->eval, size, sums);
        if (status)
            return status;
    }
    reset_carried(k);
    return 0;
}

/* Says once that a loss is no finite number; there is no way back from most of those. */
static void watch_loss(Trainer *t, Task *k, int epoch, int64_t step, double before)
{
    const double loss = k->sums[0];
    if (isfinite(loss) || !isfinite(before) || k->diverged || !k->scalar[0])
        return;
    k->diverged = true;
    char text[NUMBER_TEXT];
    train_warning(t, "%s%s%s is %s in epoch %d, step %lld: a lower -lr or clip_norm may help",
                  t->ntasks > 1 ? k->method : "", t->ntasks > 1 ? "." : "", k->names[k->nargs],
                  number_text(text, loss, 4, false), epoch, (long long)step);
}

/* Trains the batches of one epoch from t->start_batch on; `*midway`: a signal ended it early. */
static int train_batches(Trainer *t, int epoch, int64_t *seen, bool *midway)
{
    const int64_t all = train_usable(t, t->ntrain);
    *seen = 0;
    for (int64_t b = t->start_batch; b * t->batch < all; b++) {
        const int64_t at = b * t->batch;
        const int64_t size = all - at < t->batch ? all - at : t->batch;
        for (int i = 0; i < t->ntasks; i++) {
            Task *k = &t->tasks[i];
            const double before = k->sums[0];
            fill_batch(k, t->data, t->rows + at, size);
            const int status = call_batch(t, k, t->data, k->step, size, k->sums);
            if (status)
                return status;
            watch_loss(t, k, epoch, b + 1, before);
        }
        *seen += size;
        show_bar(t, epoch, at + size, all, t->tasks[0].sums[0] / (double)*seen);
        if (stop_signal() && at + size < all) {
            t->stopped_batch = b + 1;
            *midway = true;
            break;
        }
    }
    t->start_batch = 0;
    clear_bar(t);
    return 0;
}

/* What an epoch says: the mean of each result over the examples, and over those held out. These are
 * evaluated also when a signal came: a model that draws numbers then goes on as if none had. */
static int report_epoch(Trainer *t, int epoch, int64_t seen, double begin)
{
    printf("epoch %*d", t->o->epochs > 99 ? 3 : 2, epoch);
    for (int i = 0; i < t->ntasks; i++)
        show_results(&t->tasks[i], "", t->tasks[i].sums, (double)seen);
    for (int i = 0; i < t->ntasks && train_usable(t, t->nval); i++) {
        double sums[MAX_TRAIN_ARGS];
        const int status =
            evaluate(t, &t->tasks[i], t->data, t->train_rows + t->ntrain, t->nval, sums);
        if (status) {
            putchar('\n');
            return status;
        }
        show_results(&t->tasks[i], "val ", sums, (double)train_usable(t, t->nval));
    }
    printf("  %.3f s\n", seconds() - begin);
    fflush(stdout);
    return 0;
}

static int train_epoch(Trainer *t, int epoch, bool *midway)
{
    memcpy(t->rows, t->train_rows, sizeof *t->rows * (size_t)t->ntrain);
    shuffle(t->rows, t->ntrain, t->seed, (uint64_t)epoch);
    const double begin = seconds();
    for (int i = 0; i < t->ntasks; i++) {
        reset_carried(&t->tasks[i]);
        memset(t->tasks[i].sums, 0, sizeof t->tasks[i].sums);
    }
    int64_t seen;
    t->stopped_epoch = epoch;
    const int status = train_batches(t, epoch, &seen, midway);
    if (status || *midway)
        return status;
    t->stopped_epoch = epoch + 1;
    t->stopped_batch = 0;
    return report_epoch(t, epoch, seen, begin);
}

/* The loss of a task is no finite number; its `sums` are those of the last epoch or test. */
static bool is_lost(const Task *k, const double *sums)
{
    return k->scalar[0] && k->carry_of[0] < 0 && !isfinite(sums[0]);
}

static int test_set(Trainer *t, bool *lost)
{
    if (!train_usable(t, t->ntest))
        return 0;
    char text[NUMBER_TEXT];
    int64_t *rows = arena_array(t->a, int64_t, t->ntest);
    for (int64_t i = 0; i < t->ntest; i++)
        rows[i] = i;
    for (int i = 0; i < t->ntasks; i++) {
        Task *k = &t->tasks[i];
        double sums[MAX_TRAIN_ARGS];
        const int status = evaluate(t, k, t->test, rows, t->ntest, sums);
        if (status)
            return status;
        *lost = *lost || is_lost(k, sums);
        for (int r = 0; r < k->nresults; r++)
            if (k->carry_of[r] < 0 && k->scalar[r])
                printf("test %s%s%s %s\n", t->ntasks > 1 ? k->method : "", t->ntasks > 1 ? "." : "",
                       k->names[k->nargs + r],
                       number_text(text, sums[r] / (double)train_usable(t, t->ntest), 4, false));
    }
    return 0;
}

static int all_epochs(Trainer *t, bool *lost)
{
    for (int epoch = t->start_epoch; epoch <= t->o->epochs && !stop_signal(); epoch++) {
        bool midway = false;
        const int status = train_epoch(t, epoch, &midway);
        if (status)
            return status;
        *lost = false;
        for (int i = 0; i < t->ntasks; i++)
            *lost = *lost || is_lost(&t->tasks[i], t->tasks[i].sums);
    }
    return 0;
}

/* -famp=f16: steps whose gradients were not finite, so that they changed nothing but the scale. */
static void say_skipped(const Trainer *t)
{
    for (int i = 0; i < t->ntasks; i++) {
        char name[300];
        double skipped = 0, scale = 0;
        snprintf(name, sizeof name, "%.200s.skipped", t->tasks[i].method);
        if (tn_model_get_number(t->m, name, &skipped) || skipped == 0)
            continue;
        snprintf(name, sizeof name, "%.200s.scale", t->tasks[i].method);
        tn_model_get_number(t->m, name, &scale);
        printf("%s: skipped %.0f step%s whose gradients overflowed; the loss's scale is %.0f\n",
               t->tasks[i].method, skipped, skipped == 1 ? "" : "s", scale);
    }
}

/* Trains and saves; a second Ctrl-C does not lose what is being saved. */
static int train_and_save(Trainer *t, bool *lost)
{
    const char *save = t->o->save;
    StopGuard guard;
    stop_guard(&guard);
    int status = all_epochs(t, lost);
    if (!status && stop_signal())
        printf(t->stopped_batch ? "stopped in epoch %d\n" : "stopped before epoch %d\n",
               t->stopped_epoch);
    if (!status)
        say_skipped(t);
    if (!status && save)
        status = train_save(t, save);
    stop_release(&guard);
    if (!status && save && stop_signal())
        printf("go on with: -resume %s\n", save);
    return status;
}

int train_run(Arena *a, const tn_model_desc *desc, const TrainOptions *o)
{
    Trainer t = {.a = a, .o = o, .desc = desc, .seed = o->seed};
    t.bar = !o->quiet && isatty(STDERR_FILENO);
    bool lost = false;
    int status = train_prepare(&t);
    if (!status)
        status = train_and_save(&t, &lost);
    const int stopped = status ? 0 : stop_signal();
    if (!status && !stopped)
        status = test_set(&t, &lost);
    if (!status && lost)
        status = train_error(&t, "the loss is no finite number at the end%s%s",
                             o->save ? "; so it was saved in " : "", o->save ? o->save : "");
    train_end(&t);
    return stopped ? 128 + stopped : status;
}
