/* main.c: runs every program with a mistake as a process of its own, wrong and right, and compares
 * what the virtual GPU says: exactly the finding that is expected, or none.
 *
 *     bugs bugs.cu [NAME]...
 *
 * SPDX-License-Identifier: MIT */
#include "tests/vgpu/bugs/bugs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static bool failed; /* of the one program that this process runs */

void expect(CUresult r, const char *what)
{
    const char *name = NULL;
    if (r == CUDA_SUCCESS)
        return;
    cuGetErrorName(r, &name);
    failure(what, name ? name : "?");
}

void failure(const char *what, const char *name)
{
    fprintf(stderr, "bugs: %s: %s\n", what, name);
    failed = true;
}

CUresult launch(CUmodule m, const char *kernel, unsigned blocks, unsigned threads, void **args)
{
    CUresult r =
        cuLaunchKernel(user_function(m, kernel), blocks, 1, 1, threads, 1, 1, 0, NULL, args, NULL);
    return r != CUDA_SUCCESS ? r : cuCtxSynchronize();
}

static const Bug *find(const char *name)
{
    for (const Bug *b = bugs_kernel; b->name; b++)
        if (!strcmp(b->name, name))
            return b;
    for (const Bug *b = bugs_host; b->name; b++)
        if (!strcmp(b->name, name))
            return b;
    return NULL;
}

/* One program, in a process of its own. */
static int run(const Bug *b, int wrong, const char *ptx)
{
    CUmodule m;
    CUcontext c = user_context();
    CUdevice d = 0;
    char *image = user_read(ptx, NULL);
    (void)c;
    CHECK(cuModuleLoadData(&m, image));
    free(image);
    b->run(m, wrong);
    cuModuleUnload(m);
    cuDevicePrimaryCtxRelease(d);
    return failed ? 3 : 0;
}

/* --- the other side: what came of it
 * ------------------------------------------------------------------- */

typedef struct {
    char text[65536]; /* stderr */
    int status;
} Result;

static void set(const char *settings)
{
    char copy[128];
    if (!settings)
        return;
    snprintf(copy, sizeof copy, "%s", settings);
    char *value = strchr(copy, '=');
    *value++ = 0;
    setenv(copy, value, 1);
}

static void set_up(const Bug *b, int wrong, const char *order, int seed)
{
    char number[16];
    snprintf(number, sizeof number, "%d", seed);
    setenv("VGPU_SEED", number, 1);
    setenv("VGPU_ORDER", order, 1);
    set(b->always);
    set(wrong ? b->settings : NULL);
}

static Result start(const char *self, const Bug *b, int wrong, const char *ptx, const char *order,
                    int seed)
{
    static Result r;
    int ends[2];
    if (pipe(ends))
        exit(1);
    pid_t child = fork();
    if (child < 0)
        exit(1);
    if (!child) {
        dup2(ends[1], 2);
        dup2(ends[1], 1);
        close(ends[0]);
        close(ends[1]);
        set_up(b, wrong, order, seed);
        execl(self, self, "--run", b->name, wrong ? "1" : "0", ptx, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    size_t n = 0;
    for (ssize_t got; (got = read(ends[0], r.text + n, sizeof r.text - 1 - n)) > 0;)
        n += (size_t)got;
    r.text[n] = 0;
    close(ends[0]);
    waitpid(child, &r.status, 0);
    r.status = WIFEXITED(r.status) ? WEXITSTATUS(r.status) : 128 + WTERMSIG(r.status);
    return r;
}

static int count(const char *text, const char *what)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, what)); at++)
        n++;
    return n;
}

/* Whether the text names a line of the source that is marked. */
static bool names_line(const char *text, const char *source, const char *mark)
{
    char what[128], place[64];
    int line = 1;
    bool any = false;
    const char *from = source;
    snprintf(what, sizeof what, "// planted: %s\n", mark);
    for (const char *at = source; (at = strstr(at, what)); at++) {
        for (; from < at; from++)
            line += *from == '\n';
        snprintf(place, sizeof place, "bugs.cu:%d:", line);
        if (strstr(text, place))
            return true;
        any = true;
    }
    if (!any) {
        fprintf(stderr, "bugs.cu has no line marked %s\n", mark);
        exit(1);
    }
    return false;
}

static const char *judge_wrong(const Bug *b, const Result *r, const char *source)
{
    char kind[64];
    int wanted = !b->kind ? 0 : b->findings ? b->findings : 1;
    snprintf(kind, sizeof kind, "vgpu: error[%s]: ", b->kind ? b->kind : "");
    if (r->status != b->status)
        return "another exit status";
    if (count(r->text, "vgpu: error[") != wanted)
        return "not as many findings";
    if (b->kind && count(r->text, kind) != wanted)
        return "a finding of another kind";
    if (b->says && !strstr(r->text, b->says))
        return "the text is another one";
    if (b->line && !names_line(r->text, source, b->line))
        return "the source line is missing";
    return NULL;
}

static bool report(const Bug *b, int wrong, const char *order, int seed, const Result *r,
                   const char *why)
{
    if (!why)
        return true;
    printf("%s (%s, VGPU_ORDER=%s VGPU_SEED=%d): %s. Exit status %d, and it said:\n%s\n", b->name,
           wrong ? "wrong" : "right", order, seed, why, r->status, r->text);
    return false;
}

static bool check(const char *self, const Bug *b, const char *ptx, const char *source)
{
    static const char *const orders[] = {"random", "lazy", "eager"};
    bool ok = true;
    int norders = b->seeds ? 3 : 1, seeds = b->seeds ? b->seeds : 1;
    for (int o = 0; o < norders; o++)
        for (int seed = 1; seed <= seeds; seed++) {
            Result r = start(self, b, 1, ptx, orders[o], seed);
            ok = report(b, 1, orders[o], seed, &r, judge_wrong(b, &r, source)) && ok;
            r = start(self, b, 0, ptx, orders[o], seed);
            const char *why = r.status || *r.text ? "something to say" : NULL;
            ok = report(b, 0, orders[o], seed, &r, why) && ok;
        }
    return ok;
}

static int check_all(const char *self, const Bug *b, const char *ptx, const char *source, int *n)
{
    int bad = 0;
    for (; b->name; b++, ++*n)
        bad += !check(self, b, ptx, source);
    return bad;
}

int main(int argc, char **argv)
{
    if (argc == 5 && !strcmp(argv[1], "--run"))
        return run(find(argv[2]), atoi(argv[3]), argv[4]);
    if (argc < 2) {
        fprintf(stderr, "usage: bugs bugs.cu [NAME]...\n");
        return 2;
    }
    const char *sm = getenv("VGPU_SM");
    size_t bytes;
    char *image = user_compile(argv[1], sm ? atoi(sm) : 80, &bytes),
         *source = user_read(argv[1], NULL);
    char ptx[64];
    int fd = memfd_create("bugs.ptx", 0), bad = 0, n = 0; /* the programs have it too */
    if (fd < 0 || write(fd, image, bytes) != (ssize_t)bytes) {
        fprintf(stderr, "bugs: no memory for the PTX\n");
        return 1;
    }
    snprintf(ptx, sizeof ptx, "/proc/self/fd/%d", fd);
    for (int i = 2; i < argc; i++, n++) {
        const Bug *b = find(argv[i]);
        bad += !b || !check("/proc/self/exe", b, ptx, source);
    }
    if (argc == 2) {
        bad += check_all("/proc/self/exe", bugs_kernel, ptx, source, &n);
        bad += check_all("/proc/self/exe", bugs_host, ptx, source, &n);
    }
    close(fd);
    free(image);
    free(source);
    printf("%d mistakes, %d not found as they should be\n", n, bad);
    return bad ? 1 : 0;
}
