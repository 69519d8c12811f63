/* failures.c: every call of the driver and of cuBLAS fails once, at each place: the runtime then
 * says so, leaks nothing and does not crash. The virtual GPU makes the failures (VGPU_FAIL), and
 * watches for leaks; each case is a process of its own. SPDX-License-Identifier: MIT */
#include "tests/runtime/cuda/world.h"

#include <errno.h>
#include <spawn.h>
#include <sys/wait.h>

enum { DONE = 0, FAILED = 3 };

/* --- what runs with a failure in it --------------------------------------------------------------
 */

typedef struct {
    World w;
    tn_stream *s;
    tn_event *from, *to;
    void *pinned;
    DLTensor x, y, z, r, index, dx, dt;
    tn_tape *tape;
} Scene;

static tn_status prepare(Scene *c)
{
    const tn_model_options o = {.size = sizeof o, .device = gpu};
    tn_status s = tn_model_create(c->w.ctx, &pair_desc, &o, &c->w.m);
    if (!s)
        s = tn_stream_create_on(c->w.ctx, gpu, &c->s);
    if (!s)
        s = tn_host_alloc(c->w.ctx, 24, &c->pinned);
    if (!s)
        s = tn_tensor_create(c->w.ctx, gpu, f32_type, 2, shape_23, &c->x);
    return s;
}

static tn_status forth_and_back(Scene *c)
{
    const DLTensor m = host(times_m, shape_m);
    const DLTensor *args[] = {&c->x, &m, &c->y, &c->z}, *back[] = {&c->x, &c->dx, &c->dt};
    tn_status s = tn_call(c->w.m, c->s, TRAIN, args, 4, &c->tape);
    if (!s)
        s = tn_call(c->w.m, NULL, BACKWARD, back, 3, &c->tape);
    return s;
}

static tn_status check_index(Scene *c)
{
    static int32_t index[] = {1, 2};
    static int64_t shape[] = {2};
    c->index = (DLTensor){
        .data = index, .device = cpu, .ndim = 1, .dtype = {kDLInt, 32, 1}, .shape = shape};
    const DLTensor *args[] = {&c->x, &c->index, &c->r};
    return tn_call(c->w.m, NULL, GATHER, args, 3, NULL);
}

static tn_status timed(Scene *c)
{
    double ms, v;
    tn_status s = tn_event_create(c->w.ctx, &c->from);
    if (!s)
        s = tn_event_create(c->w.ctx, &c->to);
    if (!s)
        s = tn_event_record(c->from, c->s);
    if (!s)
        s = tn_event_record(c->to, c->s);
    if (!s)
        s = tn_event_elapsed_ms(c->from, c->to, &ms);
    if (!s)
        s = tn_model_get_number(c->w.m, "loss.lr", &v);
    if (!s)
        s = tn_stream_synchronize(c->s);
    return s ? s : tn_device_synchronize(c->w.ctx, gpu);
}

static tn_status play(Scene *c)
{
    float *data;
    tn_status s = prepare(c);
    if (s)
        return s;
    data = c->pinned;
    for (int i = 0; i < 6; i++)
        data[i] = (float)i;
    const DLTensor h = host(data, shape_23);
    s = tn_copy(&c->x, &h, tn_stream_default(c->w.ctx, gpu), 0);
    if (!s)
        s = tn_stream_wait_stream(c->s, tn_stream_default(c->w.ctx, gpu));
    if (!s)
        s = forth_and_back(c);
    if (!s)
        s = tn_call(c->w.m, c->s, UPDATE, NULL, 0, NULL);
    if (!s)
        s = check_index(c);
    return s ? s : timed(c);
}

static int child(void)
{
    Scene c = {.s = NULL};
    if (tn_context_create(NULL, &c.w.ctx))
        return 9;
    const tn_status s = play(&c);
    char message[512];
    snprintf(message, sizeof message, "%s", tn_last_error());
    tn_tape_release(c.tape);
    DLTensor *const made[] = {&c.x, &c.y, &c.z, &c.r, &c.dx, &c.dt};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        tn_tensor_release(made[i]);
    tn_host_free(c.w.ctx, c.pinned);
    tn_event_destroy(c.from);
    tn_event_destroy(c.to);
    tn_model_destroy(c.w.m);
    tn_stream_destroy(c.s);
    tn_context_destroy(c.w.ctx);
    if (!s)
        return DONE;
    printf("%s\n", message);
    const bool named = strstr(message, "CUDA_ERROR_") || strstr(message, "CUBLAS_STATUS_") ||
                       strstr(message, "out of memory on cuda:0") ||
                       strstr(message, "the CUDA driver ");
    return named ? FAILED : 9;
}

/* --- what is called once more after a failure ---------------------------------------------------
 */

#define TWICE(call) (s = s ? s : (s = call) ? call : TN_OK)

static bool right(const DLTensor *y, const DLTensor *z, const DLTensor *k)
{
    static const float want_z[] = {2, 3, 8, 9};
    bool same = !memcmp(z->data, want_z, sizeof want_z);
    for (int i = 0; i < 6; i++)
        same =
            same && ((float *)y->data)[i] == 2 * (float)i && ((float *)k->data)[i] == 7 * (float)i;
    return same;
}

/* Whatever fails once, the second call does what the first did not. */
static int again(void)
{
    static float x[] = {0, 1, 2, 3, 4, 5};
    const tn_model_options o = {.size = sizeof o, .device = gpu};
    Scene c = {.y = {.device = cpu}, .z = {.device = cpu}, .r = {.device = cpu}};
    const DLTensor h = host(x, shape_23), m = host(times_m, shape_m);
    const DLTensor *args[] = {&c.x, &m, &c.y, &c.z}, *constant[] = {&c.x, &c.r};
    tn_status s = tn_context_create(NULL, &c.w.ctx);
    TWICE(tn_model_create(c.w.ctx, &pair_desc, &o, &c.w.m));
    TWICE(tn_stream_create_on(c.w.ctx, gpu, &c.s));
    TWICE(tn_tensor_create(c.w.ctx, gpu, f32_type, 2, shape_23, &c.x));
    TWICE(tn_copy(&c.x, &h, c.s, 0));
    TWICE(tn_call(c.w.m, c.s, CONSTANT, constant, 2, NULL));
    TWICE(tn_call(c.w.m, c.s, FORWARD, args, 4, NULL));
    if (s)
        printf("%s\n", tn_last_error());
    const int status = s ? FAILED : right(&c.y, &c.z, &c.r) ? DONE : 9;
    DLTensor *const made[] = {&c.x, &c.y, &c.z, &c.r};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        tn_tensor_release(made[i]);
    tn_model_destroy(c.w.m);
    tn_stream_destroy(c.s);
    tn_context_destroy(c.w.ctx);
    return status;
}

/* --- and who runs it -----------------------------------------------------------------------------
 */

static int run_with(const char *what, const char *failure, const char *blocking)
{
    extern char **environ;
    char self[] = "/proc/self/exe", word[8], *args[] = {self, word, NULL};
    snprintf(word, sizeof word, "%s", what);
    pid_t pid;
    int status = 0;
    setenv("VGPU_FAIL", failure, 1);
    setenv("CUDA_LAUNCH_BLOCKING", blocking, 1);
    assert_int_equal(posix_spawn(&pid, self, NULL, NULL, args, environ), 0);
    while (waitpid(pid, &status, 0) < 0)
        assert_int_equal(errno, EINTR);
    if (!WIFEXITED(status))
        fail_msg("%s: a signal", failure);
    return WEXITSTATUS(status);
}

static void test_each(void **state)
{
    static const char *const calls[] = {"cuInit",
                                        "cuDeviceGetCount",
                                        "cuDeviceGet",
                                        "cuDeviceGetAttribute",
                                        "cuMemAlloc",
                                        "cuMemHostAlloc",
                                        "cuMemcpyHtoDAsync",
                                        "cuMemcpyDtoHAsync",
                                        "cuMemcpyDtoDAsync",
                                        "cuMemsetD8Async",
                                        "cuMemsetD32Async",
                                        "cuStreamCreate",
                                        "cuEventCreate",
                                        "cuStreamWaitEvent",
                                        "cuEventRecord",
                                        "cuStreamSynchronize",
                                        "cuEventSynchronize",
                                        "cuEventElapsedTime",
                                        "cuModuleLoadDataEx",
                                        "cuModuleGetFunction",
                                        "cuLaunchKernel",
                                        "cuCtxSynchronize",
                                        "cublasCreate",
                                        "cublasSetStream",
                                        "cublasSetWorkspace",
                                        "cublasSetMathMode",
                                        "cublasGemmEx",
                                        "cuDevicePrimaryCtxRetain",
                                        "cuEventQuery"};
    (void)state;
    int failed = 0;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        /* some failures are survived (memory, once more); after two there are no more calls */
        for (int n = 1, survived = 0; survived < 2 && n <= 12; n++) {
            char failure[64];
            snprintf(failure, sizeof failure, "%s:%d", calls[i], n);
            const int status = run_with("child", failure, n % 2 ? "0" : "1");
            if (status != DONE && status != FAILED)
                fail_msg("%s: exit status %d", failure, status);
            survived = status == DONE ? survived + 1 : 0;
            failed += status == FAILED;
        }
    }
    assert_true(failed > 60);
}

static void test_again(void **state)
{
    static const struct {
        const char *call;
        int times;
    } failures[] = {{"cublasCreate", 1},      {"cublasSetStream", 1},   {"cublasSetWorkspace", 1},
                    {"cublasSetMathMode", 1}, {"cublasGemmEx", 1},      {"cuMemAlloc", 8},
                    {"cuMemcpyHtoDAsync", 6}, {"cuMemcpyDtoHAsync", 3}, {"cuStreamSynchronize", 5}};
    (void)state;
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++)
        for (int n = 1; n <= failures[i].times; n++) {
            char failure[64];
            snprintf(failure, sizeof failure, "%s:%d", failures[i].call, n);
            const int status = run_with("again", failure, "0");
            if (status != DONE)
                fail_msg("%s: exit status %d", failure, status);
        }
}

/* The message names the kernel and its line. */
static void test_kernel_is_named(void **state)
{
    (void)state;
    tn_context *ctx;
    tn_model *m;
    const tn_model_options o = {.size = sizeof o, .device = gpu};
    ok(tn_context_create(NULL, &ctx));
    ok(tn_model_create(ctx, &pair_desc, &o, &m)); /* init launches one kernel */
    assert_int_equal(tn_call(m, NULL, UPDATE, NULL, 0, NULL), TN_DRIVER);
    assert_int_equal(
        strncmp(tn_last_error(), "update: kernel bump (m.tn:3) failed on cuda:0: CUDA_ERROR_", 58),
        0);
    /* what is left of the state is not known: it must be made anew */
    assert_int_equal(tn_call(m, NULL, UPDATE, NULL, 0, NULL), TN_STATE);
    assert_string_equal(tn_last_error(), "update: an earlier call of m failed while it changed the "
                                         "state: load or init it first");
    ok(tn_model_init(m, 1));
    ok(tn_call(m, NULL, UPDATE, NULL, 0, NULL));
    tn_model_destroy(m);
    tn_context_destroy(ctx);
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "child"))
        return child();
    if (argc > 1 && !strcmp(argv[1], "again"))
        return again();
    setenv("VGPU_FAIL", "cuLaunchKernel:2", 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kernel_is_named),
                                       cmocka_unit_test(test_each), cmocka_unit_test(test_again)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
