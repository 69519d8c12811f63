/* report.c: findings are printed as they are made and kept; at exit come leaks, counters
 * (VGPU_REPORT, VGPU_TABLE), and the exit status 86 when there was any finding.
 * SPDX-License-Identifier: MIT */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* open_memstream, vasprintf */
#endif
#include "tests/vgpu/report.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const kind_names[] = {
    [FINDING_BOUNDS] = "bounds",
    [FINDING_FREED] = "freed",
    [FINDING_MISALIGNED] = "misaligned",
    [FINDING_UNINIT] = "uninit",
    [FINDING_SHARED_RACE] = "shared-race",
    [FINDING_BLOCK_RACE] = "block-race",
    [FINDING_ORDER] = "order",
    [FINDING_BARRIER] = "barrier",
    [FINDING_DEADLOCK] = "deadlock",
    [FINDING_HANG] = "hang",
    [FINDING_WARP_SYNC] = "warp-sync",
    [FINDING_LEAK] = "leak",
    [FINDING_LAUNCH] = "launch",
    [FINDING_ASSERT] = "assert",
    [FINDING_TRAP] = "trap",
    [FINDING_API] = "api",
    [FINDING_LIBRARY] = "library",
};

static const char *const count_names[COUNT_KINDS] = {
    [COUNT_INT] = "int",       [COUNT_FLOAT] = "float",     [COUNT_DOUBLE] = "double",
    [COUNT_HALF] = "half",     [COUNT_SPECIAL] = "special", [COUNT_CONVERT] = "convert",
    [COUNT_MOVE] = "move",     [COUNT_LOAD] = "load",       [COUNT_STORE] = "store",
    [COUNT_ATOMIC] = "atomic", [COUNT_BRANCH] = "branch",   [COUNT_BARRIER] = "barrier",
    [COUNT_WARP] = "warp",     [COUNT_TENSOR] = "tensor",
};

enum { FINDINGS_KEPT = 1000, PRINTED_MOST = 100 };

typedef struct {
    FindingKind kind;
    char *text;
    const Inst *inst; /* the site; only compared */
    const Function *function;
} Kept;

typedef struct {
    char *name;
    Counters sum;
} KernelCounters;

static struct {
    pthread_mutex_t lock;
    Kept kept[FINDINGS_KEPT];
    uint64_t findings, taken;
    KernelCounters *kernels;
    size_t nkernels;
    void (*leaks)(void);
    pid_t pid;
    bool ended;
} report = {.lock = PTHREAD_MUTEX_INITIALIZER};

uint64_t finding_count(void)
{
    return report.findings - report.taken;
}

uint64_t findings_take(void)
{
    pthread_mutex_lock(&report.lock);
    uint64_t n = finding_count();
    report.taken = report.findings;
    for (int k = 0; k < FINDINGS_KEPT; k++) {
        free(report.kept[k].text);
        report.kept[k] = (Kept){0};
    }
    pthread_mutex_unlock(&report.lock);
    return n;
}

static bool seen(FindingKind kind, const Function *f, const Inst *i)
{
    for (uint64_t k = 0; i && k < FINDINGS_KEPT && report.kept[k].text; k++)
        if (report.kept[k].kind == kind && report.kept[k].inst == i && report.kept[k].function == f)
            return true;
    return false;
}

/** Takes `text`. */
static void keep(FindingKind kind, char *text, const Function *f, const Inst *i)
{
    if (!text)
        abort();
    pthread_mutex_lock(&report.lock);
    if (seen(kind, f, i)) {
        pthread_mutex_unlock(&report.lock);
        free(text);
        return;
    }
    uint64_t n = report.findings++ - report.taken;
    if (n < PRINTED_MOST) {
        fflush(stdout); /* a finding stands where it belongs in the program's output */
        fprintf(stderr, "vgpu: error[%s]: %s\n", kind_names[kind], text);
    } else if (n == PRINTED_MOST) {
        fprintf(stderr, "vgpu: more findings are counted, not printed\n");
    }
    if (n < FINDINGS_KEPT)
        report.kept[n] = (Kept){kind, text, i, f};
    else
        free(text);
    pthread_mutex_unlock(&report.lock);
}

void finding(FindingKind kind, const char *fmt, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, fmt);
    if (vasprintf(&text, fmt, args) < 0)
        abort();
    va_end(args);
    keep(kind, text, NULL, NULL);
}

static void print_place(FILE *to, const Warp *w, const Inst *i, int lane)
{
    const Block *b = w->block;
    const Grid *g = b->grid;
    uint32_t thread = (uint32_t)(w->id * LANES + lane), x = g->block[0], xy = x * g->block[1];
    fprintf(to, "kernel %s", g->function->name);
    if (g->trace_name)
        fprintf(to, " (%s)", g->trace_name);
    fprintf(to, ", block (%u,%u,%u), thread (%u,%u,%u)", b->index[0], b->index[1], b->index[2],
            thread % x, thread % xy / x, thread / xy);
    const Module *m = g->function->module;
    if (i && i->file_line && m && i->file < m->nfiles && m->files[i->file])
        fprintf(to, ", %s:%u", m->files[i->file], i->file_line);
}

static void print_alloc(FILE *to, const Alloc *a, uint64_t address)
{
    unsigned long long size = a->end - a->base, off;
    fprintf(to, "\n    near %s %llu", a->device ? "allocation" : "host memory",
            (unsigned long long)a->number);
    if (a->name)
        fprintf(to, " (variable %s)", a->name);
    fprintf(to, ": %llu bytes at 0x%llx", size, (unsigned long long)a->base);
    if (a->device)
        fprintf(to, " on device %d", a->device->ordinal);
    if (a->freed)
        fprintf(to, ", freed");
    if (address < a->base) {
        off = a->base - address;
        fprintf(to, "; the address is %llu bytes before it", off);
    } else if (address >= a->end) {
        off = address - a->end;
        fprintf(to, "; the address is %llu bytes behind its end", off);
    } else {
        off = address - a->base;
        fprintf(to, "; the address is at byte %llu of it", off);
    }
}

void finding_kernel(FindingKind kind, Warp *w, const Inst *i, int lane, uint64_t address,
                    const char *fmt, ...)
{
    char *text = NULL;
    size_t n = 0;
    FILE *to = open_memstream(&text, &n);
    if (!to)
        abort();
    print_place(to, w, i, lane);
    fprintf(to, ": ");
    va_list args;
    va_start(args, fmt);
    vfprintf(to, fmt, args);
    va_end(args);
    if (i && i->text)
        fprintf(to, "\n    PTX line %u: %.*s", i->line, (int)i->ntext, i->text);
    const Alloc *near = address ? memory_near(address) : NULL;
    if (near)
        print_alloc(to, near, address);
    fclose(to);
    keep(kind, text, w->block->grid->function, i);
}

/* --- counters -------------------------------------------------------------------------------- */

static KernelCounters *counters_of(const char *name)
{
    for (size_t k = 0; k < report.nkernels; k++)
        if (!strcmp(report.kernels[k].name, name))
            return &report.kernels[k];
    KernelCounters *grown = realloc(report.kernels, (report.nkernels + 1) * sizeof *report.kernels);
    char *copy = strdup(name);
    if (!grown || !copy)
        abort();
    report.kernels = grown;
    KernelCounters *k = &report.kernels[report.nkernels++];
    *k = (KernelCounters){.name = copy};
    return k;
}

/* All fields are counts: a sum of two is the sum of their numbers. */
_Static_assert(sizeof(Counters) % sizeof(uint64_t) == 0, "only uint64_t in Counters");

void counters_add(const Function *f, const Counters *c)
{
    pthread_mutex_lock(&report.lock);
    uint64_t to[sizeof(Counters) / sizeof(uint64_t)], from[sizeof to / sizeof *to];
    KernelCounters *k = counters_of(f->name);
    memcpy(to, &k->sum, sizeof to);
    memcpy(from, c, sizeof from);
    for (size_t j = 0; j < sizeof to / sizeof *to; j++)
        to[j] += from[j];
    memcpy(&k->sum, to, sizeof to);
    pthread_mutex_unlock(&report.lock);
}

static int by_lanes(const void *a, const void *b)
{
    const KernelCounters *x = a, *y = b;
    if (x->sum.lane_insts != y->sum.lane_insts)
        return x->sum.lane_insts < y->sum.lane_insts ? 1 : -1;
    return strcmp(x->name, y->name);
}

static double ratio(uint64_t a, uint64_t b)
{
    return b ? (double)a / (double)b : 0;
}

static void print_table(FILE *to)
{
    fprintf(to, "vgpu: %-36s %8s %9s %12s %14s %7s %7s %9s %8s %8s %8s %9s\n", "kernel", "launches",
            "blocks", "warp insts", "lane insts", "sec/ld", "sec/st", "conflicts", "diverged",
            "barriers", "atomics", "ms");
    for (size_t k = 0; k < report.nkernels; k++) {
        const Counters *c = &report.kernels[k].sum;
        fprintf(
            to, "vgpu: %-36s %8llu %9llu %12llu %14llu %7.2f %7.2f %9llu %8llu %8llu %8llu %9.3f\n",
            report.kernels[k].name, (unsigned long long)c->launches, (unsigned long long)c->blocks,
            (unsigned long long)c->warp_insts, (unsigned long long)c->lane_insts,
            ratio(c->load_sectors, c->load_requests), ratio(c->store_sectors, c->store_requests),
            (unsigned long long)c->shared_conflicts, (unsigned long long)c->divergent_branches,
            (unsigned long long)c->barriers, (unsigned long long)c->atomics, (double)c->ns * 1e-6);
    }
}

static void json_text(FILE *to, const char *text)
{
    fputc('"', to);
    for (const unsigned char *s = (const unsigned char *)text; *s; s++) {
        if (*s == '"' || *s == '\\')
            fprintf(to, "\\%c", *s);
        else if (*s < 0x20)
            fprintf(to, "\\u%04x", *s);
        else
            fputc(*s, to);
    }
    fputc('"', to);
}

static void json_count(FILE *to, const char *name, uint64_t n)
{
    fprintf(to, ", \"%s\": %llu", name, (unsigned long long)n);
}

static void json_kernel(FILE *to, const KernelCounters *k)
{
    const Counters *c = &k->sum;
    fprintf(to, "    {\"name\": ");
    json_text(to, k->name);
    json_count(to, "launches", c->launches);
    json_count(to, "blocks", c->blocks);
    json_count(to, "warp_insts", c->warp_insts);
    json_count(to, "lane_insts", c->lane_insts);
    fprintf(to, ", \"kinds\": {");
    for (int j = 0; j < COUNT_KINDS; j++)
        fprintf(to, "%s\"%s\": %llu", j ? ", " : "", count_names[j],
                (unsigned long long)c->kinds[j]);
    fprintf(to, "}");
    json_count(to, "load_requests", c->load_requests);
    json_count(to, "load_sectors", c->load_sectors);
    json_count(to, "load_bytes", c->load_bytes);
    json_count(to, "store_requests", c->store_requests);
    json_count(to, "store_sectors", c->store_sectors);
    json_count(to, "store_bytes", c->store_bytes);
    json_count(to, "shared_requests", c->shared_requests);
    json_count(to, "shared_conflicts", c->shared_conflicts);
    json_count(to, "branches", c->branches);
    json_count(to, "divergent_branches", c->divergent_branches);
    json_count(to, "barriers", c->barriers);
    json_count(to, "atomics", c->atomics);
    json_count(to, "ns", c->ns);
    json_count(to, "cpu_ns", c->cpu_ns);
    fprintf(to, "}");
}

static void print_json(FILE *to)
{
    fprintf(to, "{\n  \"sm\": %d,\n  \"seed\": %llu,\n  \"findings\": [", options()->capability,
            (unsigned long long)options()->seed);
    for (int k = 0; k < FINDINGS_KEPT && report.kept[k].text; k++) {
        fprintf(to, "%s\n    {\"kind\": \"%s\", \"text\": ", k ? "," : "",
                kind_names[report.kept[k].kind]);
        json_text(to, report.kept[k].text);
        fprintf(to, "}");
    }
    fprintf(to, "\n  ],\n  \"kernels\": [");
    for (size_t k = 0; k < report.nkernels; k++) {
        fprintf(to, "%s\n", k ? "," : "");
        json_kernel(to, &report.kernels[k]);
    }
    fprintf(to, "\n  ]\n}\n");
}

/** The file of VGPU_REPORT; "%p" in it is the process, for programs of several; "-": stderr. */
static void write_report(const char *name)
{
    char path[4096];
    if (!strcmp(name, "-")) {
        print_json(stderr);
        return;
    }
    const char *mark = strstr(name, "%p");
    if (mark)
        snprintf(path, sizeof path, "%.*s%ld%s", (int)(mark - name), name, (long)getpid(),
                 mark + 2);
    FILE *to = fopen(mark ? path : name, "w");
    if (!to) {
        fprintf(stderr, "vgpu: VGPU_REPORT=%s cannot be written\n", name);
        _exit(86);
    }
    print_json(to);
    fclose(to);
}

void report_exit(void (*leaks)(void))
{
    report.leaks = leaks;
    report.pid = getpid();
}

/* Runs after the program's own atexit functions. A child that never used the driver says nothing.
 */
__attribute__((destructor)) static void end(void)
{
    if (report.ended || (report.pid && report.pid != getpid()))
        return;
    report.ended = true;
    if (report.leaks)
        report.leaks();
    if (report.nkernels)
        qsort(report.kernels, report.nkernels, sizeof *report.kernels, by_lanes);
    if (report.nkernels && options()->table)
        print_table(stderr);
    if (report.pid && options()->report)
        write_report(options()->report);
    if (!finding_count())
        return;
    fflush(NULL);
    fprintf(stderr, "vgpu: %llu finding%s (VGPU_SEED=%llu); exit status 86\n",
            (unsigned long long)finding_count(), finding_count() == 1 ? "" : "s",
            (unsigned long long)options()->seed);
    _exit(86);
}
