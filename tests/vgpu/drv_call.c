/* drv_call.c: what all entry points have in common: the lock, injected failures (VGPU_FAIL), the
 * trace of calls, checks of the context. SPDX-License-Identifier: MIT */
#include "tests/vgpu/drv.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;

static _Thread_local struct {
    const char *full; /* "cuMemAlloc_v2" */
    char name[80];    /* "cuMemAlloc" */
    char note[200];
    bool in_host_function;
    CUresult late; /* injected, for when the call has done its work */
} call;

static bool initialised;

void *drv_alloc(size_t bytes)
{
    void *p = calloc(1, bytes ? bytes : 1);
    if (!p) {
        fprintf(stderr, "vgpu: out of host memory\n");
        abort();
    }
    return p;
}

void *drv_grow(void *p, size_t bytes)
{
    void *grown = realloc(p, bytes ? bytes : 1);
    if (!grown) {
        fprintf(stderr, "vgpu: out of host memory\n");
        abort();
    }
    return grown;
}

void *drv_copy(const void *p, size_t bytes)
{
    void *copy = drv_alloc(bytes);
    if (bytes)
        memcpy(copy, p, bytes);
    return copy;
}

const char *drv_intern(const char *text)
{
    static struct {
        char **at;
        size_t n;
    } texts;
    for (size_t k = 0; k < texts.n; k++)
        if (!strcmp(texts.at[k], text))
            return texts.at[k];
    texts.at = drv_grow(texts.at, (texts.n + 1) * sizeof *texts.at);
    return texts.at[texts.n++] = drv_copy(text, strlen(text) + 1);
}

static bool ends_with(const char *text, size_t n, const char *end)
{
    size_t k = strlen(end);
    return n > k && !memcmp(text + n - k, end, k);
}

/** "cuMemcpyHtoDAsync_v2_ptsz" -> "cuMemcpyHtoDAsync". */
static void base_name(const char *full, char *to, size_t room)
{
    size_t n = strlen(full);
    if (ends_with(full, n, "_ptsz") || ends_with(full, n, "_ptds"))
        n -= 5;
    if (n > 3 && full[n - 3] == '_' && full[n - 2] == 'v' && full[n - 1] >= '2' &&
        full[n - 1] <= '9')
        n -= 3;
    snprintf(to, room, "%.*s", (int)n, full);
}

/* --- injected failures ----------------------------------------------------------------------- */

/* VGPU_FAIL=cuMemAlloc:3,cuLaunchKernel:1+:700 — the third cuMemAlloc; every cuLaunchKernel, with
 * 700. */
typedef struct {
    char name[80];
    uint64_t nth, calls;
    bool all_after, done;
    int code; /* 0: what that call fails with as a rule */
} Failure;

static struct {
    Failure *at;
    size_t n;
    bool read;
} failures;

static void bad_failure(const char *text)
{
    fprintf(stderr, "vgpu: VGPU_FAIL=%s: expected name:number[+][:result], ...\n", text);
    fflush(NULL);
    _exit(86);
}

static void read_failures(void)
{
    failures.read = true;
    for (const char *at = options()->fail; at && *at;) {
        Failure f = {.nth = 1};
        size_t n = strcspn(at, ":,");
        char full[80];
        snprintf(full, sizeof full, "%.*s", (int)n, at);
        base_name(full, f.name, sizeof f.name);
        char *end = (char *)(uintptr_t)at + n;
        if (*end == ':')
            f.nth = strtoull(end + 1, &end, 10);
        if (*end == '+') {
            f.all_after = true;
            end++;
        }
        if (*end == ':')
            f.code = (int)strtol(end + 1, &end, 10);
        if (n == 0 || f.nth == 0 || (*end && *end != ','))
            bad_failure(options()->fail);
        failures.at = drv_grow(failures.at, (failures.n + 1) * sizeof *failures.at);
        failures.at[failures.n++] = f;
        at = *end ? end + 1 : end;
    }
}

/** What a call fails with when its test does not say. */
static CUresult usual_failure(const char *name)
{
    static const struct {
        const char *begin;
        CUresult result;
    } usual[] = {
        {"cuInit", CUDA_ERROR_NO_DEVICE},
        {"cuMemAlloc", CUDA_ERROR_OUT_OF_MEMORY},
        {"cuMemHost", CUDA_ERROR_OUT_OF_MEMORY},
        {"cuMemPool", CUDA_ERROR_OUT_OF_MEMORY},
        {"cuCtxCreate", CUDA_ERROR_OUT_OF_MEMORY},
        {"cuDevicePrimaryCtxRetain", CUDA_ERROR_OUT_OF_MEMORY},
        {"cuStreamCreate", CUDA_ERROR_OUT_OF_MEMORY},
        {"cuEventCreate", CUDA_ERROR_OUT_OF_MEMORY},
        {"cuModuleLoad", CUDA_ERROR_INVALID_IMAGE},
        {"cuLibraryLoad", CUDA_ERROR_INVALID_IMAGE},
        {"cuModuleGet", CUDA_ERROR_NOT_FOUND},
        {"cuLaunch", CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES},
        {"cuGraph", CUDA_ERROR_OUT_OF_MEMORY},
        {"cuDeviceGet", CUDA_ERROR_INVALID_DEVICE},
        {"cuMemcpy", CUDA_ERROR_INVALID_VALUE},
        {"cuMemset", CUDA_ERROR_INVALID_VALUE},
    };
    for (size_t k = 0; k < sizeof usual / sizeof *usual; k++)
        if (!strncmp(name, usual[k].begin, strlen(usual[k].begin)))
            return usual[k].result;
    return CUDA_ERROR_UNKNOWN;
}

/** Counts the call; its injected result, or 0. */
static CUresult injected(const char *name)
{
    if (!failures.read)
        read_failures();
    CUresult r = CUDA_SUCCESS;
    for (size_t k = 0; k < failures.n; k++) {
        Failure *f = &failures.at[k];
        if (strcmp(f->name, name))
            continue;
        f->calls++;
        if (f->calls == f->nth || (f->all_after && f->calls > f->nth)) {
            f->done = true;
            r = f->code ? (CUresult)f->code : usual_failure(name);
        }
    }
    return r;
}

/** A failure that never came: the test does not test what it says. */
static void unused_failures(void)
{
    for (size_t k = 0; k < failures.n; k++)
        if (!failures.at[k].done)
            fprintf(stderr, "vgpu: VGPU_FAIL: %s was called %llu times, call %llu never came\n",
                    failures.at[k].name, (unsigned long long)failures.at[k].calls,
                    (unsigned long long)failures.at[k].nth);
}

bool vgpu_call_fails(const char *name)
{
    char base[80];
    base_name(name, base, sizeof base);
    pthread_mutex_lock(&lock);
    bool fails = injected(base) != CUDA_SUCCESS;
    pthread_mutex_unlock(&lock);
    if (options()->trace)
        fprintf(stderr, "vgpu: %s%s\n", name, fails ? " fails (VGPU_FAIL)" : "");
    return fails;
}

/* --- calls ----------------------------------------------------------------------------------- */

static void at_exit(void)
{
    unused_failures();
    if (options()->leaks)
        leaks_report(NULL, "at exit");
}

static CUresult start(void)
{
    if (options()->devices == 0)
        return CUDA_ERROR_NO_DEVICE;
    if (!initialised)
        report_exit(at_exit);
    initialised = true;
    return CUDA_SUCCESS;
}

/** A call that gives something back does so also when it fails with an error of earlier work. */
static bool gives_back(const char *name)
{
    return strstr(name, "Free") || strstr(name, "Destroy") || strstr(name, "Unload") ||
           strstr(name, "Release") || strstr(name, "Unregister");
}

static CUresult check(Needs needs)
{
    CUresult r = injected(call.name);
    if (r && gives_back(call.name)) {
        call.late = r;
        call_note("injected");
    } else if (r) {
        Context *c = context_current();
        if (c && result_is_sticky(r))
            context_break(c, r);
        call_note("injected");
        return r;
    }
    if (call.in_host_function && needs != ALWAYS)
        return misuse(CUDA_ERROR_NOT_PERMITTED, "called from a host function of a stream");
    if (!strcmp(call.name, "cuInit"))
        return start();
    if (needs >= INIT && !initialised)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (needs < CURRENT)
        return CUDA_SUCCESS;
    Context *c = context_current();
    if (!c)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (c->h.dead)
        return misuse(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the current context was destroyed");
    return needs == WORKING ? c->error : CUDA_SUCCESS;
}

CUresult call_enter(const char *name, Needs needs)
{
    pthread_mutex_lock(&lock);
    call.full = name;
    call.note[0] = '\0';
    call.late = CUDA_SUCCESS;
    base_name(name, call.name, sizeof call.name);
    return check(needs);
}

CUresult call_leave(CUresult r)
{
    if (call.late && !r)
        r = call.late;
    if (options()->trace) {
        const char *text = result_name(r);
        fprintf(stderr, "vgpu: %s(%s) = %s\n", call.full, call.note, text ? text : "?");
    }
    call.name[0] = '\0';
    pthread_mutex_unlock(&lock);
    return r;
}

const char *call_name(void)
{
    return call.name;
}

void call_note(const char *fmt, ...)
{
    if (!options()->trace)
        return;
    va_list args;
    va_start(args, fmt);
    vsnprintf(call.note, sizeof call.note, fmt, args);
    va_end(args);
}

CUresult misuse(CUresult r, const char *fmt, ...)
{
    char text[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    finding(FINDING_API, "%s: %s", call.name, text);
    return r;
}

void call_lock(void)
{
    pthread_mutex_lock(&lock);
}

void call_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

void call_wait(void)
{
    pthread_cond_wait(&ended, &lock);
}

void call_wake(void)
{
    pthread_cond_broadcast(&ended);
}

void call_in_host_function(bool in)
{
    call.in_host_function = in;
}
