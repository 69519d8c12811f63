/* suite.c: runs the kernels of suite.cu and checks what they compute; and measures how many
 * instructions of lanes a second the virtual GPU executes while it does.
 *
 *     suite suite.cu            everything once, small
 *     suite suite.cu bench      larger; prints a table of rates
 *
 * SPDX-License-Identifier: MIT */
#include "tests/vgpu/suite/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void run(Suite *s, const char *kernel, Shape shape, void **args)
{
    CUfunction f = user_function(s->module, kernel);
    user_check(cuLaunchKernel(f, shape.gx, shape.gy, shape.gz, shape.bx, shape.by, shape.bz, 0,
                              NULL, args, NULL),
               kernel);
    user_check(cuCtxSynchronize(), kernel);
    s->kernels++;
}

void wrong(Suite *s, const char *kernel, size_t at, double got, double expected)
{
    if (s->failures++ < 20)
        fprintf(stderr, "%s: element %zu is %.9g, not %.9g\n", kernel, at, got, expected);
}

void near(Suite *s, const char *kernel, size_t at, double got, double expected, double tolerance)
{
    if (!(fabs(got - expected) <= tolerance * (1 + fabs(expected))))
        wrong(s, kernel, at, got, expected);
}

void *download(CUdeviceptr from, size_t bytes)
{
    void *to = user_malloc(bytes);
    CHECK(cuMemcpyDtoH(to, from, bytes));
    return to;
}

/* --- what the counters of a process say
 * ---------------------------------------------------------------- */

typedef struct {
    char name[64];
    double lanes, warps, ns;
} Rate;

static double number_behind(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    return at ? strtod(at + strlen(key), NULL) : 0;
}

static int read_rates(const char *path, Rate *rates, int most)
{
    int n = 0;
    char *text = user_read(path, NULL);
    for (char *at = strstr(text, "\"kernels\""); at && n < most; n++) {
        at = strstr(at, "{\"name\": \"");
        if (!at)
            break;
        at += strlen("{\"name\": \"");
        snprintf(rates[n].name, sizeof rates[n].name, "%.*s", (int)strcspn(at, "\""), at);
        rates[n].lanes = number_behind(at, "\"lane_insts\": ");
        rates[n].warps = number_behind(at, "\"warp_insts\": ");
        rates[n].ns = number_behind(at, "\"cpu_ns\": ");
    }
    free(text);
    return n;
}

static void print_rates(const char *what, const Rate *rates, int n)
{
    double lanes = 0, warps = 0, ns = 0;
    printf("%s\n%-16s %16s %10s %10s %12s\n", what, "kernel", "lane instr.", "ms", "G lanes/s",
           "ns per warp");
    for (int i = 0; i < n; i++) {
        printf("%-16s %16.0f %10.2f %10.2f %12.2f\n", rates[i].name, rates[i].lanes,
               rates[i].ns * 1e-6, rates[i].lanes / rates[i].ns, rates[i].ns / rates[i].warps);
        lanes += rates[i].lanes;
        warps += rates[i].warps;
        ns += rates[i].ns;
    }
    printf("%-16s %16.0f %10.2f %10.2f %12.2f\n", "all", lanes, ns * 1e-6, lanes / ns, ns / warps);
}

/* The suite in a process of its own, under these settings. */
static int bench_once(const char *file, const char *threads, const char *checks, const char *what)
{
    Rate rates[64];
    char path[64];
    snprintf(path, sizeof path, "vgpu-bench-%ld.json", (long)getpid());
    fflush(stdout);
    pid_t child = fork();
    if (child < 0)
        return 1;
    if (!child) {
        setenv("VGPU_REPORT", path, 1);
        setenv("VGPU_CHECK", checks, 1);
        if (threads)
            setenv("VGPU_THREADS", threads, 1);
        execl("/proc/self/exe", "suite", file, "large", (char *)NULL);
        _exit(127);
    }
    int status;
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    print_rates(what, rates, read_rates(path, rates, 64));
    unlink(path);
    return 0;
}

static int bench(const char *file)
{
    int bad = bench_once(file, "1", "uninit,race", "bounds, uninitialised reads, shared races");
    if (!bad)
        bad = bench_once(file, "1", "none", "bounds only");
    if (!bad)
        bad = bench_once(file, "1", "all", "everything");
    return bad ? bad : bench_once(file, NULL, "all", "everything, on all cores");
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: suite suite.cu [large|bench]\n");
        return 2;
    }
    if (argc > 2 && !strcmp(argv[2], "bench"))
        return bench(argv[1]);
    Suite s = {.scale = argc > 2 && !strcmp(argv[2], "large") ? 8 : 1};
    size_t n;
    user_context();
    s.capability = user_capability();
    char *image = user_compile(argv[1], s.capability, &n);
    CHECK(cuModuleLoadData(&s.module, image));
    free(image);
    suite_floats(&s);
    suite_matrices(&s);
    suite_others(&s);
    CHECK(cuModuleUnload(s.module));
    CHECK(cuDevicePrimaryCtxRelease(0));
    printf("%d kernels for sm_%d, %d wrong numbers\n", s.kernels, s.capability, s.failures);
    return s.failures ? 1 : 0;
}
