/* test_driver.c: runs the cases of test_driver_*.c: each in a child, with its environment, and
 * compares the exit status and what was said on stderr. Without arguments all, else the named ones.
 * SPDX-License-Identifier: MIT */
#include "tests/vgpu/test_driver.h"

#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const Case *const suites[] = {driver_cases, graph_cases, order_cases, misuse_cases};

enum { SUITES = sizeof suites / sizeof *suites, SEEDS = 20, FOUND = 86, PROGRAMS = 90 };

/* --- what cases use -------------------------------------------------------------------------- */

void gives(CUresult got, CUresult want, const char *call, const char *file, int line)
{
    if (got == want)
        return;
    fprintf(stderr, "%s:%d: %s gave %d, not %d\n", file, line, call, (int)got, (int)want);
    _exit(1);
}

void holds(bool true_, const char *what, const char *file, int line)
{
    if (true_)
        return;
    fprintf(stderr, "%s:%d: not so: %s\n", file, line, what);
    _exit(1);
}

void begin(void)
{
    CUcontext c;
    CUdevice d;
    OK(cuInit(0));
    OK(cuDeviceGet(&d, 0));
    OK(cuDevicePrimaryCtxRetain(&c, d));
    OK(cuCtxSetCurrent(c));
}

void end(void)
{
    OK(cuDevicePrimaryCtxRelease(0));
}

/* i = block * threads + thread; done when i >= n; %rd9: 4 * i */
#define INDEX                                                                                      \
    ".reg .pred %p1;\n.reg .b32 %r<9>;\n.reg .b64 %rd<10>;\n"                                      \
    "ld.param.u32 %r1, [n];\nmov.u32 %r2, %ctaid.x;\nmov.u32 %r3, %ntid.x;\n"                      \
    "mov.u32 %r4, %tid.x;\nmad.lo.s32 %r5, %r2, %r3, %r4;\nsetp.ge.u32 %p1, %r5, %r1;\n"           \
    "@%p1 bra $done;\nmul.wide.u32 %rd9, %r5, 4;\n"

const char kernels_ptx[] =
    "// kernels of the tests\n.version 7.0\n.target sm_75\n.address_size 64\n"
    ".visible .entry set(.param .u64 p, .param .u32 n, .param .u32 v)\n{\n" INDEX
    "ld.param.u64 %rd1, [p];\nld.param.u32 %r6, [v];\ncvta.to.global.u64 %rd2, %rd1;\n"
    "add.s64 %rd3, %rd2, %rd9;\nst.global.u32 [%rd3], %r6;\n$done:\nret;\n}\n"
    ".visible .entry add(.param .u64 q, .param .u64 p, .param .u32 n, .param .u32 v)\n{\n" INDEX
    "ld.param.u64 %rd1, [q];\nld.param.u64 %rd2, [p];\nld.param.u32 %r6, [v];\n"
    "cvta.to.global.u64 %rd3, %rd1;\ncvta.to.global.u64 %rd4, %rd2;\n"
    "add.s64 %rd5, %rd3, %rd9;\nadd.s64 %rd6, %rd4, %rd9;\nld.global.u32 %r7, [%rd6];\n"
    "add.s32 %r8, %r7, %r6;\nst.global.u32 [%rd5], %r8;\n$done:\nret;\n}\n"
    ".visible .entry wild()\n{\n.reg .b64 %rd<2>;\n.reg .b32 %r<2>;\nmov.u64 %rd1, 64;\n"
    "mov.u32 %r1, 1;\nst.global.u32 [%rd1], %r1;\nret;\n}\n";

Kernels load_kernels(void)
{
    Kernels k;
    OK(cuModuleLoadData(&k.module, kernels_ptx));
    OK(cuModuleGetFunction(&k.set, k.module, "set"));
    OK(cuModuleGetFunction(&k.add, k.module, "add"));
    OK(cuModuleGetFunction(&k.wild, k.module, "wild"));
    return k;
}

void launch_set(const Kernels *k, CUdeviceptr p, unsigned n, unsigned v, CUstream s)
{
    void *args[] = {&p, &n, &v};
    OK(cuLaunchKernel(k->set, (n + 63) / 64, 1, 1, 64, 1, 1, 0, s, args, NULL));
}

void launch_add(const Kernels *k, CUdeviceptr q, CUdeviceptr p, unsigned n, unsigned v, CUstream s)
{
    void *args[] = {&q, &p, &n, &v};
    OK(cuLaunchKernel(k->add, (n + 63) / 64, 1, 1, 64, 1, 1, 0, s, args, NULL));
}

CUdeviceptr device_words(unsigned n)
{
    CUdeviceptr p;
    OK(cuMemAlloc(&p, n * sizeof(unsigned)));
    return p;
}

bool words_are(CUdeviceptr p, unsigned n, unsigned v)
{
    unsigned *host = calloc(n, sizeof *host);
    bool same = host != NULL;
    OK(cuMemcpyDtoH(host, p, n * sizeof *host));
    for (unsigned k = 0; k < n && same; k++)
        same = host[k] == v;
    free(host);
    return same;
}

/* --- running --------------------------------------------------------------------------------- */

static void set_env(const char *list)
{
    char *copy = strdup(list), *save = NULL;
    for (char *one = strtok_r(copy, " ", &save); one; one = strtok_r(NULL, " ", &save)) {
        char *value = strchr(one, '=');
        *value++ = '\0';
        setenv(one, value, 1);
    }
    free(copy);
}

static void clear_env(void)
{
    static const char *const names[] = {"VGPU_DEVICES", "VGPU_SM",   "VGPU_MEMORY", "VGPU_ORDER",
                                        "VGPU_CHECK",   "VGPU_FAIL", "VGPU_REPORT", "VGPU_TABLE",
                                        "VGPU_BUDGET",  "VGPU_KEEP", "VGPU_TRACE",  "VGPU_SEED"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        unsetenv(names[k]);
}

/** Runs the case in a child with this environment; its stderr, ended by a zero, to be freed. */
static char *run_child(const Case *c, const char *env, int *status)
{
    FILE *to = tmpfile();
    if (!to)
        abort();
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        dup2(fileno(to), 2);
        clear_env();
        if (c->env)
            set_env(c->env);
        set_env(env);
        alarm(60);
        c->run();
        exit(0);
    }
    waitpid(child, status, 0);
    long n = (fseek(to, 0, SEEK_END), ftell(to));
    char *text = calloc(1, (size_t)n + 1);
    rewind(to);
    if (!text || fread(text, 1, (size_t)n, to) != (size_t)n)
        abort();
    fclose(to);
    return text;
}

static int count(const char *text, const char *what)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, what)); at++)
        n++;
    return n;
}

bool run_once(const Case *c, const char *env)
{
    int status = 0, want = c->finding ? FOUND : 0;
    char *text = run_child(c, env, &status);
    int findings = count(text, "vgpu: error[");
    bool good = WIFEXITED(status) && WEXITSTATUS(status) == want &&
                (c->finding ? findings >= 1 && strstr(text, c->finding) : findings == 0);
    if (!good)
        printf("%s (%s): status 0x%x, wanted %d%s%s\n%s", c->name, env, (unsigned)status, want,
               c->finding ? " and " : "", c->finding ? c->finding : "", text);
    free(text);
    return good;
}

static bool run_case(const Case *c)
{
    if (!c->every_order)
        return run_once(c, "VGPU_SEED=1");
    bool good = run_once(c, "VGPU_ORDER=lazy") && run_once(c, "VGPU_ORDER=eager");
    for (int seed = 1; seed <= SEEDS && good; seed++) {
        char env[40];
        snprintf(env, sizeof env, "VGPU_SEED=%d", seed);
        good = run_once(c, env);
    }
    return good;
}

static bool is_named(const char *name, int argc, char **argv)
{
    for (int k = 1; k < argc; k++)
        if (!strcmp(argv[k], name))
            return true;
    return argc < 2;
}

int main(int argc, char **argv)
{
    int failed = 0, ran = 0;
    for (int s = 0; s < SUITES; s++)
        for (const Case *c = suites[s]; c->name; c++)
            if (is_named(c->name, argc, argv)) {
                failed += !run_case(c);
                ran++;
            }
    if (is_named("random programs", argc, argv)) {
        int ordered;
        failed += !random_programs(0, PROGRAMS, &ordered);
        printf("%d random programs, %d of them ordered\n", PROGRAMS, ordered);
        failed += ordered < PROGRAMS / 5 || ordered > PROGRAMS / 5 * 4; /* both kinds */
        ran++;
    }
    printf("%d of %d cases failed\n", failed, ran);
    return failed || !ran;
}
