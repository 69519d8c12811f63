/* train_setup.c: what `tenon -train` does before and after the epochs: data, binding, state.
 * SPDX-License-Identifier: MIT */
#include "frontend/train_internal.h"

#include "frontend/message.h"
#include "frontend/values.h"
#include "ir/base/strbuf.h"
#include "runtime/rt.h"
#include "runtime/state_files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEFAULT_BATCH = 32 };

static const tn_program *program_of(const Trainer *t, int program)
{
    return &t->desc->programs[program];
}

static int check_array(Trainer *t, const Task *k, const Array *x, int arg, const char *name)
{
    const tn_program *p = program_of(t, k->step);
    const bool rows = t->fixed_batch && argument_constant(p, arg, 0) == t->batch;
    if (argument_fits(p, arg, &x->tensor, rows))
        return 0;
    return train_error(t, "%s: '%s' is %s, but '%s' of %s is %s", t->o->data, name,
                       tensor_text(t->a, &x->tensor), k->names[arg], k->method,
                       argument_text(t->a, p, arg));
}

static const char *names_of(Trainer *t)
{
    StrBuf s = {.a = t->a};
    for (int i = 0; i < t->data->n; i++)
        sb_printf(&s, "%s%s", i ? ", " : "", t->data->at[i].name);
    return t->data->n ? sb_text(&s) : "none";
}

/* A batch that -D or the file fixes: the first axis of the first argument. */
static int find_fixed_batch(Trainer *t, const Task *k, const tn_program *p)
{
    for (int i = 0; i < k->nargs; i++) {
        const int64_t n = k->in[i].carried ? -1 : argument_constant(p, i, 0);
        if (n < 1)
            continue;
        if (t->o->batch && t->o->batch != n)
            return train_error(t, "-batch %d: the batch of %s is fixed, '%s' is %s", t->o->batch,
                               k->method, k->names[i], argument_text(t->a, p, i));
        if (t->fixed_batch && t->batch != n)
            return train_error(t,
                               "the batch is fixed at %lld by one `train` and at %lld by another",
                               (long long)t->batch, (long long)n);
        t->fixed_batch = true;
        t->batch = n;
        return 0;
    }
    return train_error(t, "%s: no argument of %s has a batch axis", t->o->data, k->method);
}

/* Decides which arguments are batched, carried or whole; the number of examples goes to *rows. */
static int bind_inputs(Trainer *t, Task *k, int64_t *rows)
{
    const tn_program *p = program_of(t, k->step);
    const char *batch = NULL;
    for (int i = 0; i < k->nargs && !batch; i++)
        if (!k->in[i].carried)
            batch = argument_size(p, i, 0);
    if (!batch && find_fixed_batch(t, k, p))
        return 1;
    for (int i = 0; i < k->nargs; i++) {
        Input *in = &k->in[i];
        if (in->carried)
            continue;
        const Array *x = arrays_find(t->data, k->names[i]);
        if (!x)
            return train_error(t, "%s has no array '%s', an argument of %s (it has: %s)",
                               t->o->data, k->names[i], k->method, names_of(t));
        if (check_array(t, k, x, i, x->name))
            return 1;
        const char *symbol = argument_size(p, i, 0);
        in->batched =
            batch ? symbol && !strcmp(symbol, batch) : argument_constant(p, i, 0) == t->batch;
        if (!in->batched)
            continue;
        if (*rows < 0)
            *rows = x->tensor.shape[0];
        if (*rows != x->tensor.shape[0])
            return train_error(t, "%s: '%s' has %lld examples, others have %lld", t->o->data,
                               k->names[i], (long long)x->tensor.shape[0], (long long)*rows);
    }
    if (*rows == 0)
        return train_error(t, "%s holds no examples", t->o->data);
    if (t->fixed_batch && *rows < t->batch)
        return train_error(t, "%s holds %lld examples: the batch of %s is fixed at %lld",
                           t->o->data, (long long)*rows, k->method, (long long)t->batch);
    return 0;
}

/* Arguments with a default are no arguments of a step: it computes them. An array that bears such a
 * name, or that of an argument updated in place, would be without effect. */
static void remark_unused(Trainer *t, const Task *k)
{
    const tn_program *p = program_of(t, k->eval);
    for (int i = 0; i < k->nargs; i++)
        if (k->in[i].carried && arrays_find(t->data, k->names[i]))
            train_warning(t,
                          "%s: '%s' is not used: it begins with zeros and goes from batch to batch",
                          t->o->data, k->names[i]);
    for (int i = 0; i < p->nargs; i++) {
        bool known = p->args[i].is_result || !arrays_find(t->data, p->args[i].name);
        for (int n = 0; n < k->nargs && !known; n++)
            known = !strcmp(k->names[n], p->args[i].name);
        if (!known)
            train_warning(t,
                          "%s: '%s' is not used: in a training step an argument with a default "
                          "has that value",
                          t->o->data, p->args[i].name);
    }
}

/* Memory for one batch of every argument. Carried ones take sizes from the batch and the data. */
static int make_batches(Trainer *t, Task *k)
{
    const tn_program *p = program_of(t, k->step);
    const char *batch = NULL;
    for (int i = 0; i < k->nargs && !batch; i++)
        if (k->in[i].batched)
            batch = argument_size(p, i, 0);
    for (int i = 0; i < k->nargs; i++) {
        Input *in = &k->in[i];
        const tn_buffer *b = &p->buffers[p->args[i].buffer];
        int64_t shape[8];
        if (in->batched) {
            memcpy(shape, arrays_find(t->data, k->names[i])->tensor.shape,
                   sizeof *shape * (size_t)b->rank);
            shape[0] = t->batch;
        } else if (in->carried) {
            in->carry_axis = -1;
            for (int d = 0; d < b->rank; d++) {
                const char *symbol = argument_size(p, i, d);
                shape[d] = argument_constant(p, i, d);
                if (symbol && batch && !strcmp(symbol, batch)) {
                    in->carry_axis = d;
                    shape[d] = t->batch;
                } else if (shape[d] < 0) {
                    return train_error(t,
                                       "the size of axis %d of '%s' is not known: fix it with -D",
                                       d, k->names[i]);
                }
            }
        } else {
            continue;
        }
        in->batch = arrays_make(t->data, b->dtype, b->rank, shape);
        if (!in->batch.data)
            return message_error(3, "out of memory for %lld examples of '%s', %s",
                                 (long long)t->batch, k->names[i], tensor_text(t->a, &in->batch));
    }
    return 0;
}

static int make_task(Trainer *t, const tn_train *train)
{
    Task *k = &t->tasks[t->ntasks++];
    k->method = train->method;
    k->step = tn_model_program(t->m, train->step);
    k->eval = tn_model_program(t->m, train->method);
    if (k->step < 0 || k->eval < 0)
        return train_error(t, "%s has no program '%s'", t->desc->name, train->step);
    const tn_program *p = program_of(t, k->step);
    if (p->nargs > MAX_TRAIN_ARGS)
        return train_error(t, "%s has more than %d arguments", p->name, MAX_TRAIN_ARGS);
    for (int i = 0; i < p->nargs; i++) {
        k->names[i] = p->args[i].name;
        if (p->args[i].is_result)
            k->nresults++;
        else
            k->nargs++;
    }
    for (int r = 0; r < k->nresults; r++) {
        k->carry_of[r] = -1;
        k->scalar[r] = p->buffers[p->args[k->nargs + r].buffer].rank == 0;
        for (int i = 0; i < k->nargs; i++)
            if (!strcmp(k->names[i], k->names[k->nargs + r])) {
                k->carry_of[r] = i;
                k->in[i].carried = true;
            }
        if (!k->scalar[r] && k->carry_of[r] < 0)
            train_warning(t, "result '%s' of %s is no scalar: -train does not show it",
                          k->names[k->nargs + r], k->method);
    }
    return 0;
}

/* NAME_test arrays, under the names of the arguments. */
static int find_test_set(Trainer *t)
{
    t->test = arrays_create(t->a);
    int64_t rows = -1;
    int found = 0, wanted = 0;
    for (int i = 0; i < t->ntasks; i++) {
        const Task *k = &t->tasks[i];
        for (int n = 0; n < k->nargs; n++) {
            if (k->in[n].carried)
                continue;
            wanted += k->in[n].batched;
            const char *name = arena_printf(t->a, "%s_test", k->names[n]);
            const Array *x = arrays_find(t->data, name);
            if (!x) {
                if (!k->in[n].batched)
                    arrays_add(t->test, k->names[n], arrays_find(t->data, k->names[n])->tensor);
                continue;
            }
            if (check_array(t, k, x, n, name))
                return 1;
            if (k->in[n].batched) {
                found++;
                if (rows >= 0 && rows != x->tensor.shape[0])
                    return train_error(t, "%s: '%s' has %lld examples, others have %lld",
                                       t->o->data, name, (long long)x->tensor.shape[0],
                                       (long long)rows);
                rows = x->tensor.shape[0];
            }
            arrays_add(t->test, k->names[n], x->tensor);
        }
    }
    if (found && found < wanted)
        return train_error(t, "%s: only some arguments have a test array (NAME_test)", t->o->data);
    t->ntest = rows > 0 ? rows : 0;
    if (t->ntest != train_usable(t, t->ntest))
        train_warning(
            t, "the batch is fixed at %lld: of %lld examples of the test set %lld are used",
            (long long)t->batch, (long long)t->ntest, (long long)train_usable(t, t->ntest));
    return 0;
}

/* The held-out examples are the same for every seed of the shuffle: spread evenly over the data. */
static int split(Trainer *t, int64_t rows)
{
    t->nval = (int64_t)((double)rows * t->o->val);
    t->ntrain = rows - t->nval;
    if (train_usable(t, t->ntrain) < 1)
        return train_error(t, "-val %g of %lld examples leaves nothing to train on", t->o->val,
                           (long long)rows);
    if (t->o->val > 0 && t->nval == 0)
        train_warning(t, "-val %g of %lld examples is less than one: there is no validation",
                      t->o->val, (long long)rows);
    const int64_t left = t->ntrain - train_usable(t, t->ntrain);
    if (left)
        train_warning(t,
                      "the batch is fixed at %lld: %lld of %lld examples are left out of each "
                      "epoch, others each time",
                      (long long)t->batch, (long long)left, (long long)t->ntrain);
    if (t->nval != train_usable(t, t->nval))
        train_warning(t,
                      "the batch is fixed at %lld: of %lld examples for validation %lld are used",
                      (long long)t->batch, (long long)t->nval, (long long)train_usable(t, t->nval));
    t->train_rows = arena_array(t->a, int64_t, rows);
    t->rows = arena_array(t->a, int64_t, rows);
    int64_t train = 0, val = t->ntrain;
    for (int64_t i = 0; i < rows; i++) {
        const int64_t before = i * t->nval / rows, after = (i + 1) * t->nval / rows;
        t->train_rows[after > before ? val++ : train++] = i;
    }
    return 0;
}

/* The place where a saved run stopped must be one of this run. */
static int check_place(Trainer *t, const tn__extra *at)
{
    const int64_t epoch = at[0].value, batch = at[1].value, size = at[2].value;
    if (epoch < 1 || epoch > INT32_MAX || batch < 0 || size < 1)
        return train_error(t, "%s: epoch %lld, batch %lld of %lld is no place in a run",
                           t->o->resume, (long long)epoch, (long long)batch, (long long)size);
    if (batch && (size != t->batch || at[3].value != t->ntrain))
        return train_error(t,
                           "%s was saved inside an epoch with -batch %lld and %lld examples: give "
                           "the same",
                           t->o->resume, (long long)size, (long long)at[3].value);
    if (batch && (batch > t->ntrain / size || batch * size >= t->ntrain))
        return train_error(t, "%s: batch %lld is no place in an epoch of %lld examples",
                           t->o->resume, (long long)batch, (long long)t->ntrain);
    if (t->o->seed_given && t->o->seed != (uint64_t)at[4].value)
        return train_error(
            t, "%s goes on with -seed %llu, with which it began: leave out -seed %llu",
            t->o->resume, (unsigned long long)at[4].value, (unsigned long long)t->o->seed);
    return 0;
}

static int resume(Trainer *t)
{
    tn__extra at[] = {{.name = "epoch"},
                      {.name = "batch"},
                      {.name = "batch_size"},
                      {.name = "examples"},
                      {.name = "order_seed"}};
    const tn_status s = tn__model_load(t->m, t->o->resume, true, at, 5);
    if (s)
        return train_failed(t, s);
    for (int i = 0; i < 5; i++)
        if (!at[i].found)
            return train_error(t, "%s was not written by -train -save: it has no 'tenon.%s'",
                               t->o->resume, at[i].name);
    if (check_place(t, at))
        return 1;
    if (at[0].value > t->o->epochs)
        printf("%s has done %lld of %d epochs; -epochs counts them too\n", t->o->resume,
               (long long)at[0].value - 1, t->o->epochs);
    t->start_epoch = (int)at[0].value;
    t->start_batch = at[1].value;
    t->seed = (uint64_t)at[4].value;
    t->stopped_epoch = t->start_epoch;
    t->stopped_batch = t->start_batch;
    return 0;
}

static int set_rate(Trainer *t)
{
    if (t->o->lr <= 0)
        return 0;
    bool set = false;
    for (int i = 0; i < t->ntasks; i++) {
        const char *name = arena_printf(t->a, "%s.lr", t->tasks[i].method);
        set = tn_model_set_number(t->m, name, t->o->lr) == TN_OK || set;
    }
    return set ? 0
               : train_error(t, "-lr cannot be set: the learning rate is a schedule in the file");
}

static int make_model(Trainer *t)
{
    const tn_context_options co = {.size = sizeof co, .threads = t->o->threads};
    tn_status s = tn_context_create(&co, &t->ctx);
    if (s)
        return train_failed(t, s);
    tn_context_set_print(t->ctx, tensor_show, NULL);
    const tn_model_options mo = {.size = sizeof mo, .seed = t->o->seed, .device = t->o->device};
    s = tn_model_create(t->ctx, t->desc, &mo, &t->m);
    if (!s && t->o->load)
        s = tn_model_load(t->m, t->o->load);
    return s ? train_failed(t, s) : 0;
}

/* A file that cannot be written is found before the epochs, not after. */
static int check_save(Trainer *t)
{
    const char *path = t->o->save;
    const size_t n = path ? strlen(path) : 0;
    if (!path)
        return 0;
    if (!(n > 12 && !strcmp(path + n - 12, ".safetensors")) &&
        !(n > 4 && !strcmp(path + n - 4, ".npz")))
        return train_error(t, "-save %s: expected a name that ends in .safetensors or .npz", path);
    const char *bad = arrays_can_save(t->a, path);
    if (bad)
        return train_error(t, "-save %s", bad);
    return 0;
}

int64_t train_usable(const Trainer *t, int64_t n)
{
    return t->fixed_batch ? n - n % t->batch : n;
}

static int make_tasks(Trainer *t, int64_t *rows)
{
    if (t->desc->ntrains == 0)
        return train_error(t, "nothing trains model %s: the file has no `train %s.METHOD with ...`",
                           t->desc->name, t->desc->name);
    if (t->desc->ntrains > MAX_TASKS)
        return train_error(t, "model %s has %d `train` declarations; -train takes at most %d",
                           t->desc->name, t->desc->ntrains, MAX_TASKS);
    for (int i = 0; i < t->desc->ntrains; i++) {
        if (make_task(t, &t->desc->trains[i]) || bind_inputs(t, &t->tasks[i], rows))
            return 1;
        remark_unused(t, &t->tasks[i]);
    }
    if (t->o->batch > *rows)
        train_warning(t, "-batch %d: there are %lld examples, each step takes them all",
                      t->o->batch, (long long)*rows);
    if (t->batch > *rows)
        t->batch = *rows;
    return 0;
}

int train_prepare(Trainer *t)
{
    if (check_save(t))
        return 1;
    t->data = arrays_create(t->a);
    t->batch = t->o->batch > 0 ? t->o->batch : DEFAULT_BATCH;
    t->start_epoch = t->stopped_epoch = 1;
    const char *bad = arrays_load(t->data, t->o->data, "x");
    if (bad)
        return train_error(t, "%s", bad);
    int64_t rows = -1;
    int status = make_model(t);
    if (!status)
        status = make_tasks(t, &rows);
    if (!status)
        status = split(t, rows) || find_test_set(t);
    for (int i = 0; i < t->ntasks && !status; i++)
        status = make_batches(t, &t->tasks[i]);
    if (!status && t->o->resume)
        status = resume(t);
    return status ? status : set_rate(t);
}

int train_save(Trainer *t, const char *path)
{
    const tn__extra at[] = {{"epoch", t->stopped_epoch, true},
                            {"batch", t->stopped_batch, true},
                            {"batch_size", t->batch, true},
                            {"examples", t->ntrain, true},
                            {"order_seed", (int64_t)t->seed, true}};
    const tn_status s = tn__model_save(t->m, path, at, 5);
    return s ? train_failed(t, s) : 0;
}

void train_end(Trainer *t)
{
    tn_model_destroy(t->m);
    tn_context_destroy(t->ctx);
    arrays_destroy(t->data);
    arrays_destroy(t->test);
}
