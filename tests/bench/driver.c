/* driver.c: the Tenon side of a benchmark case: a program around one compiled model, as a user
 * would write it, that works off commands from standard input.
 *   driver DATA THREADS forward|backward|step|update METHOD
 * DATA holds what the case starts from, by name: arguments, `state:NAME`, cotangents `d_RESULT`,
 * and for an update alone the gradients `grad:NAME`. Compiled with -DMODEL=name
 * -DHEADER='"name.h"'; links with the object that tenon -c wrote. SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include HEADER

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define PASTE(a, b)        a##b
#define NAMED(model, what) PASTE(model, what)

enum { MOST = 64, RANK = 8 };

typedef struct {
    char name[128];
    DLTensor t;
    int64_t shape[RANK];
} Named;

typedef struct {
    Named *at;
    int n;
} Set;

typedef struct {
    int program, nargs;
    tn_argument args[MOST];
    const DLTensor *values[MOST];
    DLTensor results[MOST];
} Program;

typedef enum { FORWARD, BACKWARD, STEP, UPDATE } Mode;

typedef struct {
    tn_context *ctx;
    tn_model *m;
    Set data;
    Mode mode;
    Program first, second; /* the second is the backward of the first */
} Case;

static void stop(const char *what, const char *why)
{
    fprintf(stderr, "driver: %s: %s\n", what, why);
    exit(1);
}

static void must(tn_status s, const char *what)
{
    if (s != TN_OK)
        stop(what, tn_last_error());
}

static size_t bytes_of(const DLTensor *t)
{
    size_t n = t->dtype.bits / 8;
    for (int i = 0; i < t->ndim; i++)
        n *= (size_t)t->shape[i];
    return n;
}

/* On huge pages where it is large, as numpy does for its arrays: what the peers read. */
static void *allocate(size_t bytes)
{
    const size_t huge = (size_t)2 << 20, at = bytes >= 2 * huge ? huge : 64;
    void *p = aligned_alloc(at, (bytes + at) / at * at);
    if (!p)
        stop("memory", "there is no more");
    if (at == huge)
        madvise(p, bytes, MADV_HUGEPAGE);
    return p;
}

/* One line "NAME KIND BITS RANK SIZES...", then the bytes. */
static int read_one(FILE *f, Named *v)
{
    char kind = 0;
    int bits = 0, rank = 0;
    if (fscanf(f, "%127s %c %d %d", v->name, &kind, &bits, &rank) != 4 || rank > RANK)
        return 0;
    for (int i = 0; i < rank; i++)
        if (fscanf(f, "%" SCNd64, &v->shape[i]) != 1)
            return 0;
    fgetc(f);
    const uint8_t code = kind == 'f' ? kDLFloat : kind == 'b' ? TN_DL_BOOL : kDLInt;
    v->t = (DLTensor){.device = {kDLCPU, 0},
                      .ndim = rank,
                      .dtype = {(uint8_t)(kind == 'u' ? kDLUInt : code), (uint8_t)bits, 1}};
    v->t.shape = v->shape;
    const size_t n = bytes_of(&v->t);
    v->t.data = allocate(n);
    if (fread(v->t.data, 1, n, f) != n)
        stop(v->name, "the data end early");
    return 1;
}

static Set read_data(const char *path)
{
    FILE *f = fopen(path, "rb");
    Set s = {calloc(1024, sizeof(Named)), 0};
    if (!f || !s.at)
        stop(path, "cannot be read");
    while (s.n < 1024 && read_one(f, &s.at[s.n]))
        s.n++;
    fclose(f);
    return s;
}

static const Named *find(const Set *s, const char *prefix, const char *name)
{
    const size_t n = strlen(prefix);
    for (int i = 0; i < s->n; i++)
        if (!strncmp(s->at[i].name, prefix, n) && !strcmp(s->at[i].name + n, name))
            return &s->at[i];
    return NULL;
}

/* Everything as at the beginning: parameters and buffers from the data, the optimiser's own from
 * its initial values, counters at 0. */
static void reset(Case *c)
{
    must(tn_model_init(c->m, 0), "init");
    must(tn_model_seed(c->m, 0), "seed");
    must(tn_model_zero_grad(c->m), "zero_grad");
    for (int i = 0; i < tn_model_state_count(c->m); i++) {
        tn_state_entry e;
        must(tn_model_state(c->m, i, &e), "state");
        const Named *v = find(&c->data, "state:", e.name);
        if (v)
            must(tn_copy(&e.tensor, &v->t, NULL, 0), e.name);
        else if (e.kind == TN_STATE_PARAM)
            stop(e.name, "the data lack this parameter");
        const Named *g = find(&c->data, "grad:", e.name);
        if (g)
            must(tn_copy(&e.grad, &g->t, NULL, 0), e.name);
    }
    tn_model_state_changed(c->m);
}

static void bind(Case *c, Program *p, const char *method, const char *suffix)
{
    char name[256];
    snprintf(name, sizeof name, "%s%s", method, suffix);
    p->program = tn_model_program(c->m, name);
    if (p->program < 0)
        stop(name, "the model has no such program");
    p->nargs = tn_program_args(c->m, p->program, p->args, MOST);
    for (int i = 0; i < p->nargs; i++) {
        const tn_argument *a = &p->args[i];
        const Named *v = find(&c->data, "", a->name);
        if (a->is_result)
            p->values[i] = &p->results[i]; /* the runtime allocates it in the first call */
        else if (v)
            p->values[i] = &v->t;
        else if (!a->optional)
            stop(a->name, "the data lack this argument");
    }
}

static void once(Case *c)
{
    tn_tape *tape = NULL;
    if (c->mode == BACKWARD)
        must(tn_model_zero_grad(c->m), "zero_grad");
    must(tn_call(c->m, NULL, c->first.program, c->first.values, c->first.nargs,
                 c->mode == BACKWARD ? &tape : NULL),
         "call");
    if (c->mode == BACKWARD)
        must(tn_call(c->m, NULL, c->second.program, c->second.values, c->second.nargs, &tape),
             "backward");
}

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Answers "MEDIAN LEAST MEAN_CPU": seconds of one iteration. */
static void run(Case *c, int n)
{
    double *t = calloc((size_t)n, sizeof *t);
    if (!t)
        stop("memory", "there is no more");
    const double cpu = now(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < n; i++) {
        const double begin = now(CLOCK_MONOTONIC);
        once(c);
        t[i] = now(CLOCK_MONOTONIC) - begin;
    }
    const double used = (now(CLOCK_PROCESS_CPUTIME_ID) - cpu) / n;
    qsort(t, (size_t)n, sizeof *t, by_value);
    printf("%.9g %.9g %.9g\n", (t[n / 2] + t[(n - 1) / 2]) / 2, t[0], used);
    free(t);
}

static void write_one(FILE *f, const char *prefix, const char *name, const DLTensor *t)
{
    const char kind = t->dtype.code == kDLFloat ? 'f' : t->dtype.code == TN_DL_BOOL ? 'b' : 'i';
    fprintf(f, "%s%s %c %d %d", prefix, name, kind, t->dtype.bits, t->ndim);
    for (int i = 0; i < t->ndim; i++)
        fprintf(f, " %" PRId64, t->shape[i]);
    fputc('\n', f);
    fwrite((const char *)t->data + t->byte_offset, 1, bytes_of(t), f);
}

static void write_results(FILE *f, const Program *p)
{
    for (int i = 0; i < p->nargs; i++)
        if (p->args[i].is_result && p->results[i].data)
            write_one(f, "", p->args[i].name, &p->results[i]);
}

/* What `n` iterations from the beginning give: results, gradients or state. */
static void check(Case *c, int n, const char *path)
{
    reset(c);
    for (int i = 0; i < n; i++)
        once(c);
    FILE *f = fopen(path, "wb");
    if (!f)
        stop(path, "cannot be written");
    write_results(f, &c->first);
    if (c->mode == BACKWARD)
        write_results(f, &c->second);
    for (int i = 0; i < tn_model_state_count(c->m) && c->mode != FORWARD; i++) {
        tn_state_entry e;
        must(tn_model_state(c->m, i, &e), "state");
        if (c->mode != BACKWARD && e.kind != TN_STATE_OPTIMIZER)
            write_one(f, "state:", e.name, &e.tensor);
        else if (c->mode == BACKWARD && e.kind == TN_STATE_PARAM && e.grad.data)
            write_one(f, "grad:", e.name, &e.grad);
    }
    if (fclose(f))
        stop(path, "cannot be written");
    puts("ok");
}

/* Resident bytes, now ("VmRSS: %ld") or at most so far ("VmHWM: %ld"). */
static long resident(const char *which)
{
    char line[256];
    long kb = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, which, &kb) == 1)
            break;
    if (f)
        fclose(f);
    return kb * 1024;
}

static void serve(Case *c)
{
    char line[4096], path[4000];
    int n = 0;
    while (fgets(line, sizeof line, stdin)) {
        if (sscanf(line, "run %d", &n) == 1)
            run(c, n > 0 ? n : 1);
        else if (sscanf(line, "check %d %3999s", &n, path) == 2)
            check(c, n, path);
        else if (!strncmp(line, "memory", 6))
            printf("%ld %zu\n", resident("VmHWM: %ld"),
                   tn_memory_max_allocated(c->ctx, (DLDevice){kDLCPU, 0}));
        else
            stop(line, "no such command");
        fflush(stdout);
    }
}

static Mode mode_of(const char *name)
{
    static const char *const names[] = {"forward", "backward", "step", "update"};
    for (int i = 0; i < 4; i++)
        if (!strcmp(names[i], name))
            return (Mode)i;
    stop(name, "no such way to run a case");
    return FORWARD;
}

int main(int argc, char **argv)
{
    static const char *const suffix[] = {"", "_train", "_step", "_update"};
    Case c = {0};
    if (argc != 5)
        stop("usage", "driver DATA THREADS forward|backward|step|update METHOD");
    c.mode = mode_of(argv[3]);
    c.data = read_data(argv[1]);
    const tn_context_options threads = {.size = sizeof threads, .threads = atoi(argv[2])};
    const tn_model_options options = {.size = sizeof options, .device = {kDLCPU, 0}};
    NAMED(MODEL, ) *made = NULL;
    must(tn_context_create(&threads, &c.ctx), "context");
    const long before = resident("VmRSS: %ld");
    must(NAMED(MODEL, _create)(c.ctx, &options, &made), "create");
    c.m = NAMED(MODEL, _model)(made);
    reset(&c);
    bind(&c, &c.first, argv[4], suffix[c.mode]);
    if (c.mode == BACKWARD)
        bind(&c, &c.second, argv[4], "_backward");
    printf("ready %ld\n", before);
    fflush(stdout);
    serve(&c);
    NAMED(MODEL, _destroy)(made);
    tn_context_destroy(c.ctx);
    return 0;
}
