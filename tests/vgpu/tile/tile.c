/* tile.c: the tile skeleton of runtime/kernels/tile.cuh against sums in double: every kind of
 * product and layout, sizes that are no multiples of anything. With "counts" (the virtual GPU
 * alone): no bank conflicts, and stores that fill their sectors.
 *
 *     tile tile.cu [counts]
 *
 * SPDX-License-Identifier: MIT */
#include "tests/vgpu/user.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

typedef enum { F32, TF32, BF16, F16, F64 } Kind;

typedef struct {
    const char *name;
    Kind kind;
    int size, threads; /* of a tile, of its block */
    bool a_k, b_k;     /* operands lie along k */
    bool odd;          /* takes sizes that are no multiples of 8 */
    int least;         /* compute capability */
} Kernel;

static const Kernel kernels[] = {
    {"f32_kk", F32, 64, 256, true, true, false, 75},
    {"f32_kn", F32, 64, 256, true, false, false, 75},
    {"f32_mk", F32, 64, 256, false, true, false, 75},
    {"f32_mn", F32, 64, 256, false, false, false, 75},
    {"f32_odd_kk", F32, 64, 256, true, true, true, 75},
    {"f32_odd_kn", F32, 64, 256, true, false, true, 75},
    {"f32_odd_mk", F32, 64, 256, false, true, true, 75},
    {"f32_odd_mn", F32, 64, 256, false, false, true, 75},
    {"f64_odd_kn", F64, 64, 256, true, false, true, 75},
    {"f16_plain_kk", F16, 64, 256, true, true, true, 75},
    {"f32_large_kn", F32, 128, 256, true, false, false, 80},
    {"tf32_kk", TF32, 64, 128, true, true, false, 80},
    {"tf32_kn", TF32, 64, 128, true, false, false, 80},
    {"tf32_mk", TF32, 64, 128, false, true, false, 80},
    {"tf32_mn", TF32, 64, 128, false, false, false, 80},
    {"tf32_odd_kk", TF32, 64, 128, true, true, true, 80},
    {"tf32_odd_mn", TF32, 64, 128, false, false, true, 80},
    {"tf32_large_kk", TF32, 128, 256, true, true, false, 80},
    {"bf16_kk", BF16, 64, 128, true, true, false, 80},
    {"bf16_kn", BF16, 64, 128, true, false, false, 80},
    {"bf16_mk", BF16, 64, 128, false, true, false, 80},
    {"bf16_mn", BF16, 64, 128, false, false, false, 80},
    {"bf16_odd_mk", BF16, 64, 128, false, true, true, 80},
    {"bf16_large_kk", BF16, 128, 256, true, true, false, 80},
    {"f16_kk", F16, 64, 128, true, true, false, 80},
    {"f16_odd_kn", F16, 64, 128, true, false, true, 80},
};
enum { KERNELS = sizeof kernels / sizeof kernels[0] };

/* --- elements ------------------------------------------------------------------------------------
 */

static int size_of(Kind k)
{
    return k == F64 ? 8 : k == BF16 || k == F16 ? 2 : 4;
}

/* Numbers of few digits, so that all kinds hold them exactly: n / 64, n of -128 .. 127. */
static float digit(float x)
{
    return rintf(x * 127.0f) / 64.0f;
}

static void put(Kind kind, void *to, size_t i, float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    const double wide = (double)x;
    const int e = (int)(bits >> 23 & 255) - 127;
    uint16_t half = (uint16_t)(bits >> 16);
    if (kind == F16) /* normal numbers and 0 */
        half = (uint16_t)((bits >> 16 & 0x8000) |
                          (x == 0.0f ? 0 : (uint32_t)(e + 15) << 10 | (bits >> 13 & 0x3ff)));
    if (kind == F64)
        memcpy((char *)to + 8 * i, &wide, 8);
    else if (kind == BF16 || kind == F16)
        memcpy((char *)to + 2 * i, &half, 2);
    else
        memcpy((char *)to + 4 * i, &x, 4);
}

static CUdeviceptr upload(Kind kind, const float *x, size_t n)
{
    void *memory = user_malloc(n * (size_t)size_of(kind));
    for (size_t i = 0; i < n; i++)
        put(kind, memory, i, x[i]);
    CUdeviceptr d = user_upload(memory, n * (size_t)size_of(kind));
    free(memory);
    return d;
}

static float *digits(size_t n, unsigned seed)
{
    float *x = user_numbers(n, seed);
    for (size_t i = 0; i < n; i++)
        x[i] = digit(x[i]);
    return x;
}

/* --- runs ----------------------------------------------------------------------------------------
 */

static int compare(const Kernel *k, const float *a, const float *b, const char *c, int m, int n,
                   int depth)
{
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            double sum = 0, got;
            for (int l = 0; l < depth; l++)
                sum += (double)a[k->a_k ? i * depth + l : l * m + i] *
                       (double)b[k->b_k ? j * depth + l : l * n + j];
            if (k->kind == F64) {
                memcpy(&got, c + 8 * ((size_t)i * (size_t)n + (size_t)j), 8);
            } else {
                float x;
                memcpy(&x, c + 4 * ((size_t)i * (size_t)n + (size_t)j), 4);
                got = (double)x;
            }
            if (!(fabs(got - sum) <= 1e-5 * (1 + depth))) {
                fprintf(stderr, "%s %d x %d x %d: (%d, %d) is %g, not %g\n", k->name, m, n, depth,
                        i, j, got, sum);
                return 1;
            }
        }
    return 0;
}

static int run(CUmodule module, const Kernel *k, int m, int n, int depth)
{
    const size_t na = (size_t)m * (size_t)depth, nb = (size_t)n * (size_t)depth;
    const size_t bytes = (size_t)m * (size_t)n * (k->kind == F64 ? 8 : 4);
    float *a = digits(na, 1), *b = digits(nb, 2);
    CUdeviceptr da = upload(k->kind, a, na), db = upload(k->kind, b, nb), dc = user_alloc(bytes);
    void *args[] = {&da, &db, &dc, &m, &n, &depth};
    const unsigned tiles =
        (unsigned)((m + k->size - 1) / k->size) * (unsigned)((n + k->size - 1) / k->size);
    char *c = user_malloc(bytes);
    CHECK(cuLaunchKernel(user_function(module, k->name), tiles, 1, 1, (unsigned)k->threads, 1, 1, 0,
                         NULL, args, NULL));
    CHECK(cuMemcpyDtoH(c, dc, bytes));
    const int bad = compare(k, a, b, c, m, n, depth);
    CHECK(cuMemFree(da));
    CHECK(cuMemFree(db));
    CHECK(cuMemFree(dc));
    free(a);
    free(b);
    free(c);
    return bad;
}

static int run_all(const char *file)
{
    static const int even[][3] = {{64, 64, 64}, {72, 136, 40}, {8, 200, 96}};
    static const int odd[][3] = {{1, 1, 1}, {65, 67, 33}, {7, 130, 75}};
    CUmodule m;
    size_t n;
    int bad = 0, runs = 0;
    CUcontext context = user_context();
    const int sm = user_capability();
    char *image = user_compile(file, sm, &n);
    CHECK(cuModuleLoadData(&m, image));
    free(image);
    for (int i = 0; i < KERNELS; i++)
        for (int s = 0; s < 3 && sm >= kernels[i].least; s++, runs++) {
            const int *size = kernels[i].odd ? odd[s] : even[s];
            bad += run(m, &kernels[i], size[0], size[1], size[2]);
        }
    CHECK(cuModuleUnload(m));
    (void)context;
    CHECK(cuDevicePrimaryCtxRelease(0));
    printf("%d products, %d wrong\n", runs, bad);
    return bad || !runs;
}

/* --- counts --------------------------------------------------------------------------------------
 */

static double counter_of(const char *object, const char *counter)
{
    char key[96];
    snprintf(key, sizeof key, "\"%s\": ", counter);
    const char *at = object ? strstr(object, key) : NULL;
    return at ? strtod(at + strlen(key), NULL) : -1;
}

static int check_counts(const char *report)
{
    int bad = 0;
    for (int i = 0; i < KERNELS; i++) {
        char key[96];
        snprintf(key, sizeof key, "{\"name\": \"%s\"", kernels[i].name);
        const char *object = strstr(report, key);
        const double conflicts = counter_of(object, "shared_conflicts");
        const double sectors = counter_of(object, "store_sectors") * 32;
        const double bytes = counter_of(object, "store_bytes");
        /* odd ones store single elements: rows begin anywhere, but neighbours are stored together */
        const bool single = kernels[i].odd && (kernels[i].kind == F32 || kernels[i].kind == F64);
        if (conflicts != 0 || bytes <= 0 || (!kernels[i].odd && sectors != bytes) ||
            (single && sectors > 2 * bytes)) {
            fprintf(stderr, "%s: %g bank conflicts, %g bytes stored to %g of sectors\n",
                    kernels[i].name, conflicts, bytes, sectors);
            bad++;
        }
    }
    printf("%d kernels counted, %d wrong\n", (int)KERNELS, bad);
    return bad;
}

/* The report is written when a process ends. */
static int count(const char *file)
{
    char path[64];
    int status = 0;
    const int fd = memfd_create("report", 0); /* the child has it too */
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const pid_t child = fork();
    if (fd < 0 || child < 0)
        return 1;
    if (!child) {
        setenv("VGPU_REPORT", path, 1);
        execl("/proc/self/exe", "tile", file, (char *)NULL);
        _exit(127);
    }
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    size_t n;
    char *report = user_read(path, &n);
    const int bad = check_counts(report);
    free(report);
    close(fd);
    return bad ? 1 : 0;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fputs("usage: tile tile.cu [counts]\n", stderr);
        return 2;
    }
    return argc > 2 ? count(argv[1]) : run_all(argv[1]);
}
