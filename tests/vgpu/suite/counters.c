/* counters.c: what VGPU_REPORT says of kernels whose accesses are known by count.
 *
 *     counters counters.cu
 *
 * SPDX-License-Identifier: MIT */
#include "tests/vgpu/user.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 128, NUMBERS = 8 * THREADS };

/* A counter's value; LOW: at least. */
typedef struct {
    const char *kernel, *counter;
    double value;
    enum { IS, LOW } how;
} Expected;

static const Expected expected[] = {
    {"neighbours", "launches", 1, IS},        {"neighbours", "blocks", 1, IS},
    {"neighbours", "load_requests", 4, IS},   {"neighbours", "load_sectors", 16, IS},
    {"neighbours", "load_bytes", 512, IS},    {"neighbours", "store_requests", 4, IS},
    {"neighbours", "store_sectors", 16, IS},  {"neighbours", "divergent_branches", 0, IS},
    {"neighbours", "barriers", 0, IS},        {"shifted", "load_sectors", 20, IS},
    {"far_apart", "load_sectors", 128, IS},   {"far_apart", "load_bytes", 512, IS},
    {"one_place", "load_sectors", 4, IS},     {"four_at_once", "load_requests", 4, IS},
    {"four_at_once", "load_sectors", 64, IS}, {"four_at_once", "store_bytes", 2048, IS},
    {"columns", "shared_requests", 8, IS},    {"columns", "shared_conflicts", 8 * 31, IS},
    {"columns", "barriers", 4, IS},           {"padded", "shared_requests", 8, IS},
    {"padded", "shared_conflicts", 0, IS},    {"padded", "barriers", 8, IS},
    {"parted", "divergent_branches", 4, LOW}, {"counts", "atomics", 4, IS},
    {"counts", "lane_insts", THREADS, LOW},
};

/* The text of a kernel's object. */
static const char *object_of(const char *report, const char *kernel)
{
    char key[96];
    snprintf(key, sizeof key, "{\"name\": \"%s\"", kernel);
    return strstr(report, key);
}

static double counter_of(const char *object, const char *counter)
{
    char key[96];
    snprintf(key, sizeof key, "\"%s\": ", counter);
    const char *at = object ? strstr(object, key) : NULL;
    return at ? strtod(at + strlen(key), NULL) : -1;
}

static int compare(const char *report)
{
    int bad = 0;
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        const Expected *e = &expected[i];
        double got = counter_of(object_of(report, e->kernel), e->counter);
        if (e->how == LOW ? got >= e->value : got == e->value)
            continue;
        fprintf(stderr, "%s: %s is %g, not %g\n", e->kernel, e->counter, got, e->value);
        bad++;
    }
    printf("%zu counters, %d wrong\n", sizeof expected / sizeof expected[0], bad);
    return bad;
}

/* Each kernel once. */
static int run_all(const char *file)
{
    CUmodule m;
    size_t n;
    user_context();
    char *image = user_compile(file, user_capability(), &n);
    CHECK(cuModuleLoadData(&m, image));
    free(image);
    float *x = user_numbers(NUMBERS, 1);
    CUdeviceptr in = user_upload(x, NUMBERS * 4), out = user_upload(x, NUMBERS * 4);
    void *args[] = {&in, &out};
    const char *last = "";
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        if (strcmp(expected[i].kernel, last))
            CHECK(cuLaunchKernel(user_function(m, expected[i].kernel), 1, 1, 1, THREADS, 1, 1, 0,
                                 NULL, args, NULL));
        last = expected[i].kernel;
    }
    CHECK(cuCtxSynchronize());
    CHECK(cuMemFree(in));
    CHECK(cuMemFree(out));
    CHECK(cuModuleUnload(m));
    CHECK(cuDevicePrimaryCtxRelease(0));
    free(x);
    return 0;
}

int main(int argc, char **argv)
{
    char path[64];
    int status, fd;
    if (argc == 3)
        return run_all(argv[1]);
    if (argc != 2) {
        fprintf(stderr, "usage: counters counters.cu\n");
        return 2;
    }
    fd = memfd_create("report", 0); /* the child has it too */
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    pid_t child = fork();
    if (fd < 0 || child < 0)
        return 1;
    if (!child) {
        setenv("VGPU_REPORT", path, 1);
        execl("/proc/self/exe", "counters", argv[1], "run", (char *)NULL);
        _exit(127);
    }
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    size_t n;
    char *report = user_read(path, &n);
    int bad = compare(report);
    free(report);
    close(fd);
    return bad ? 1 : 0;
}
