/* steady.c: calls with tensors on the GPU allocate nothing and wait for nothing once they have run,
 * shown by the driver calls that they make; and instances in several threads.
 * SPDX-License-Identifier: MIT */
#include "tests/runtime/cuda/world.h"

#include <pthread.h>
#include <unistd.h>

/* --- what a call asks the driver for -------------------------------------------------------------
 */

/* What the driver was called for, in a file that the virtual GPU's trace goes to. */
static FILE *begin_trace(int *saved)
{
    FILE *f = tmpfile();
    assert_non_null(f);
    fflush(stderr);
    *saved = dup(2);
    assert_true(*saved >= 0 && dup2(fileno(f), 2) == 2);
    return f;
}

static void end_trace(int saved)
{
    fflush(stderr);
    assert_int_equal(dup2(saved, 2), 2);
    close(saved);
}

static bool waits_or_allocates(const char *call)
{
    static const char *const bad[] = {"Alloc",        "Free",         "Synchronize", "Create",
                                      "Destroy",      "HtoD",         "ModuleLoad",  "ModuleGet",
                                      "HostRegister", "SetWorkspace", "GetInfo"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (strstr(call, bad[i]))
            return true;
    return false;
}

static void test_steady_calls(void **state)
{
    World *w = *state;
    float x[] = {1, 2, 3, 4, 5, 6};
    int32_t index[] = {1, 2};
    int64_t two[] = {2};
    DLTensor xd = upload(w, x, 2, 3), m = upload(w, times_m, 3, 2), y = device(w, 2, 3),
             z = device(w, 2, 2), dx = device(w, 2, 3), dt = device(w, 2, 3), i, r;
    const DLTensor ih = {
        .data = index, .device = cpu, .ndim = 1, .dtype = {kDLInt, 32, 1}, .shape = two};
    ok(tn_tensor_create(w->ctx, gpu, ih.dtype, 1, two, &i));
    ok(tn_tensor_create(w->ctx, gpu, f32_type, 1, two, &r));
    ok(tn_copy(&i, &ih, w->s, 0));
    const DLTensor *args[] = {&xd, &m, &y, &z}, *back[] = {&xd, &dx, &dt}, *g[] = {&xd, &i, &r};
    int saved = -1, lines = 0, launches = 0;
    FILE *f = NULL;
    for (int round = 0; round < 4; round++) {
        tn_tape *tape = NULL;
        if (round == 2)
            f = begin_trace(&saved);
        tn_status s = tn_call(w->m, NULL, TRAIN, args, 4, &tape);
        s = s ? s : tn_call(w->m, NULL, BACKWARD, back, 3, &tape);
        s = s ? s : tn_call(w->m, NULL, GATHER, g, 3, NULL);
        s = s ? s : tn_call(w->m, NULL, UPDATE, NULL, 0, NULL);
        s = s ? s : tn_model_set_number(w->m, "loss.lr", 0.5);
        s = s ? s : tn_model_zero_grad(w->m);
        if (f && (round == 3 || s))
            end_trace(saved);
        ok(s);
    }
    char line[512], first[512] = "";
    rewind(f);
    while (fgets(line, sizeof line, f)) {
        lines++;
        launches += strstr(line, "cuLaunchKernel") != NULL;
        if (waits_or_allocates(line) && !*first)
            memcpy(first, line, sizeof first);
    }
    fclose(f);
    if (getenv("VGPU_TRACE")) {
        assert_string_equal(first, "");
        assert_int_equal(launches, 8);
        assert_true(lines > 20);
    }
    DLTensor *const made[] = {&xd, &m, &y, &z, &dx, &dt, &i, &r};
    for (size_t k = 0; k < sizeof made / sizeof *made; k++)
        tn_tensor_release(made[k]);
}

/* --- threads -------------------------------------------------------------------------------------
 */

enum { THREADS = 4, ROUNDS = 12 };

typedef struct {
    tn_context *ctx;
    int number;
    float seen[6];
    tn_status status;
    char message[200];
} Worker;

/* An instance of its own, on a stream of its own or on the default one that all share. */
static tn_status work(Worker *k)
{
    const tn_model_options o = {.size = sizeof o, .device = gpu};
    tn_model *m = NULL;
    tn_stream *s = NULL;
    float x[6], y[6];
    tn_status e = tn_model_create(k->ctx, &pair_desc, &o, &m);
    if (!e && k->number % 2)
        e = tn_stream_create_on(k->ctx, gpu, &s);
    for (int i = 0; i < ROUNDS && !e; i++) {
        for (int j = 0; j < 6; j++)
            x[j] = (float)(k->number * 100 + i * 10 + j);
        const DLTensor xd = host(x, shape_23), mm = host(times_m, shape_m);
        DLTensor yd = host(y, shape_23), zd = {.device = gpu};
        const DLTensor *args[] = {&xd, &mm, &yd, &zd};
        e = tn_call(m, s, FORWARD, args, 4, NULL);
        tn_tensor_release(&zd);
        for (int j = 0; j < 6 && !e; j++)
            if (y[j] != (float)(i + 2) * x[j])
                k->seen[j] = 1;
        if (!e)
            e = tn_call(m, s, UPDATE, NULL, 0, NULL);
        if (!e && i % 4 == 3)
            e = tn_device_synchronize(k->ctx, gpu);
    }
    tn_model_destroy(m);
    tn_stream_destroy(s);
    return e;
}

static void *thread(void *of)
{
    Worker *k = of;
    k->status = work(k);
    snprintf(k->message, sizeof k->message, "%s", tn_last_error());
    return NULL;
}

static void test_threads(void **state)
{
    World *w = *state;
    pthread_t threads[THREADS];
    Worker workers[THREADS] = {{0}};
    for (int i = 0; i < THREADS; i++) {
        workers[i].ctx = w->ctx;
        workers[i].number = i;
        assert_int_equal(pthread_create(&threads[i], NULL, thread, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        if (workers[i].status)
            fail_msg("thread %d: %s", i, workers[i].message);
        for (int j = 0; j < 6; j++)
            assert_true(workers[i].seen[j] == 0);
    }
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {T(test_steady_calls), T(test_threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
