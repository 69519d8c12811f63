/* test_driver_order.c: work on several streams: what is not ordered is found, in every order of
 * running; what is ordered is not. SPDX-License-Identifier: MIT */
#include "tests/vgpu/test_driver.h"

#include <semaphore.h>
#include <string.h>

enum { N = 1000 };

/* Two streams that do not wait for the default one, two buffers, two events. */
typedef struct {
    Kernels k;
    CUstream a, b;
    CUdeviceptr p, q;
    CUevent e, f;
} Two;

static Two two_streams(void)
{
    Two t;
    begin();
    t.k = load_kernels();
    OK(cuStreamCreate(&t.a, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&t.b, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&t.e, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&t.f, CU_EVENT_DISABLE_TIMING));
    t.p = device_words(N);
    t.q = device_words(N);
    launch_set(&t.k, t.p, N, 1, t.a);
    launch_set(&t.k, t.q, N, 1, t.a);
    OK(cuStreamSynchronize(t.a));
    return t;
}

static void finish(Two *t)
{
    OK(cuCtxSynchronize());
    OK(cuMemFree(t->p));
    OK(cuMemFree(t->q));
    OK(cuEventDestroy(t->e));
    OK(cuEventDestroy(t->f));
    OK(cuStreamDestroy(t->a));
    OK(cuStreamDestroy(t->b));
    OK(cuModuleUnload(t->k.module));
    end();
}

static void after(Two *t, CUstream first, CUstream second)
{
    OK(cuEventRecord(t->e, first));
    OK(cuStreamWaitEvent(second, t->e, 0));
}

static void waits(void)
{
    Two t = two_streams();
    for (unsigned k = 0; k < 5; k++) {
        launch_set(&t.k, t.p, N, k, t.a);
        after(&t, t.a, t.b);
        launch_add(&t.k, t.q, t.p, N, 1, t.b);
        after(&t, t.b, t.a);
    }
    launch_add(&t.k, t.p, t.q, N, 1, t.a);
    OK(cuStreamSynchronize(t.a));
    HOLDS(words_are(t.p, N, 6));
    finish(&t);
}

static void read_too_early(void)
{
    Two t = two_streams();
    launch_set(&t.k, t.p, N, 7, t.a);
    OK(cuEventRecord(t.e, t.a));
    launch_add(&t.k, t.q, t.p, N, 1, t.b);
    finish(&t);
}

static void write_too_early(void)
{
    Two t = two_streams();
    launch_add(&t.k, t.q, t.p, N, 1, t.a);
    launch_set(&t.k, t.p, N, 7, t.b);
    finish(&t);
}

static void write_twice(void)
{
    Two t = two_streams();
    launch_set(&t.k, t.p, N, 1, t.a);
    launch_set(&t.k, t.p, N, 2, t.b);
    finish(&t);
}

/* Both streams read; the write that follows waits for one of them only. */
static void one_of_two_readers(void)
{
    Two t = two_streams();
    CUdeviceptr r = device_words(N);
    launch_add(&t.k, t.q, t.p, N, 1, t.a);
    launch_add(&t.k, r, t.p, N, 1, t.b);
    launch_set(&t.k, t.p, N, 2, t.b);
    OK(cuCtxSynchronize());
    OK(cuMemFree(r));
    finish(&t);
}

static void event_before_the_write(void)
{
    Two t = two_streams();
    OK(cuEventRecord(t.e, t.a));
    launch_set(&t.k, t.p, N, 7, t.a);
    OK(cuStreamWaitEvent(t.b, t.e, 0));
    launch_add(&t.k, t.q, t.p, N, 1, t.b);
    finish(&t);
}

/* A wait counts for the record before it, not for a later one of the same event. */
static void event_recorded_again(void)
{
    Two t = two_streams();
    OK(cuEventRecord(t.e, t.a));
    OK(cuStreamWaitEvent(t.b, t.e, 0));
    launch_set(&t.k, t.p, N, 7, t.a);
    OK(cuEventRecord(t.e, t.a));
    launch_add(&t.k, t.q, t.p, N, 1, t.b);
    finish(&t);
}

static void halves(void)
{
    Two t = two_streams();
    launch_set(&t.k, t.p, N / 2, 7, t.a);
    launch_set(&t.k, t.p + 4 * (N / 2), N / 2, 8, t.b);
    OK(cuMemsetD8Async(t.q, 1, 5, t.a)); /* neighbours in one word */
    OK(cuMemsetD8Async(t.q + 5, 2, 3, t.b));
    OK(cuCtxSynchronize());
    HOLDS(words_are(t.p, N / 2, 7) && words_are(t.p + 4 * (N / 2), N / 2, 8));
    finish(&t);
}

static void bytes_of_a_word(void)
{
    Two t = two_streams();
    OK(cuMemsetD8Async(t.q, 1, 6, t.a));
    OK(cuMemsetD8Async(t.q + 5, 2, 3, t.b));
    finish(&t);
}

static void host_waits(void)
{
    Two t = two_streams();
    launch_set(&t.k, t.p, N, 3, t.a);
    OK(cuStreamSynchronize(t.a));
    launch_add(&t.k, t.q, t.p, N, 1, t.b);
    OK(cuEventRecord(t.e, t.b));
    OK(cuEventSynchronize(t.e));
    launch_set(&t.k, t.p, N, 4, t.a);
    OK(cuEventRecord(t.f, t.a));
    while (cuEventQuery(t.f) == CUDA_ERROR_NOT_READY)
        ;
    launch_add(&t.k, t.q, t.p, N, 1, t.b);
    while (cuStreamQuery(t.b) == CUDA_ERROR_NOT_READY)
        ;
    launch_set(&t.k, t.p, N, 5, t.a);
    OK(cuStreamSynchronize(t.a));
    HOLDS(words_are(t.q, N, 5));
    finish(&t);
}

static void default_stream(void)
{
    Two t = two_streams();
    CUstream s;
    OK(cuStreamCreate(&s, CU_STREAM_DEFAULT));
    launch_set(&t.k, t.p, N, 3, s);
    launch_add(&t.k, t.q, t.p, N, 1, NULL);
    launch_add(&t.k, t.p, t.q, N, 1, s);
    OK(cuStreamSynchronize(s));
    HOLDS(words_are(t.p, N, 5));
    OK(cuStreamDestroy(s));
    finish(&t);
}

/* What a destroyed stream had queued runs, and the default stream comes after it. */
static void streams_come_and_go(void)
{
    Two t = two_streams();
    for (unsigned k = 0; k < 300; k++) {
        CUstream s;
        OK(cuStreamCreate(&s, CU_STREAM_DEFAULT));
        launch_set(&t.k, t.p, N, k, s);
        OK(cuStreamDestroy(s));
        if (k % 3)
            launch_add(&t.k, t.p, t.p, N, 1, NULL);
        else
            OK(cuCtxSynchronize());
    }
    HOLDS(words_are(t.p, N, 300));
    finish(&t);
}

static void default_stream_is_not_waited_for(void)
{
    Two t = two_streams();
    launch_set(&t.k, t.p, N, 3, NULL);
    launch_add(&t.k, t.q, t.p, N, 1, t.a);
    finish(&t);
}

static void copy_to_another_stream(void)
{
    Two t = two_streams();
    unsigned host[N] = {0};
    OK(cuMemcpyHtoD(t.p, host, sizeof host)); /* has left `host`, need not have arrived */
    launch_add(&t.k, t.q, t.p, N, 1, t.a);
    finish(&t);
}

/* --- host memory ----------------------------------------------------------------------------- */

static void pageable_is_staged(void)
{
    Two t = two_streams();
    unsigned host[N];
    for (int k = 0; k < N; k++)
        host[k] = 9;
    OK(cuMemcpyHtoDAsync(t.p, host, sizeof host, t.a));
    memset(host, 0, sizeof host);
    OK(cuMemcpyDtoHAsync(host, t.p, sizeof host, t.a)); /* pageable: has ended */
    HOLDS(host[0] == 9 && host[N - 1] == 9);
    finish(&t);
}

static void pinned(void)
{
    Two t = two_streams();
    unsigned *host;
    OK(cuMemHostAlloc((void **)&host, N * 4, 0));
    for (unsigned v = 0; v < 3; v++) {
        for (int k = 0; k < N; k++)
            host[k] = v;
        OK(cuMemcpyHtoDAsync(t.p, host, N * 4, t.a));
        launch_add(&t.k, t.q, t.p, N, 1, t.a);
        OK(cuMemcpyDtoHAsync(host, t.q, N * 4, t.a)); /* over the source: in the stream's order */
        OK(cuMemcpyHtoDAsync(t.p, host, N * 4, t.a));
        OK(cuStreamSynchronize(t.a));
        HOLDS(host[0] == v + 1 && words_are(t.p, N, v + 1));
    }
    OK(cuMemFreeHost(host));
    finish(&t);
}

static void pinned_too_early(void)
{
    Two t = two_streams();
    unsigned *host;
    OK(cuMemAllocHost((void **)&host, N * 4));
    memset(host, 0, N * 4);
    OK(cuMemcpyHtoDAsync(t.p, host, N * 4, t.a));
    host[N / 2] = 1;
    OK(cuStreamSynchronize(t.a));
    OK(cuMemFreeHost(host));
    finish(&t);
}

/* A host that does not wait for a copy finds nothing that looks right. */
static void pinned_read_too_early(void)
{
    Two t = two_streams();
    unsigned *host;
    OK(cuMemAllocHost((void **)&host, N * 4));
    OK(cuMemcpyDtoHAsync(host, t.p, N * 4, t.a));
    OK(cuStreamSynchronize(t.a));
    HOLDS(host[0] == 1);
    launch_set(&t.k, t.p, N, 1, t.a);
    OK(cuMemcpyDtoHAsync(host, t.p, N * 4, t.a));
    HOLDS(host[0] == 0xffffffff && host[N - 1] == 0xffffffff);
    OK(cuStreamSynchronize(t.a));
    HOLDS(host[0] == 1 && host[N - 1] == 1);
    OK(cuMemFreeHost(host));
    finish(&t);
}

/* --- memory in the order of streams ---------------------------------------------------------- */

static void alloc_and_free(void)
{
    Two t = two_streams();
    for (unsigned k = 0; k < 10; k++) {
        CUdeviceptr r;
        OK(cuMemAllocAsync(&r, N * 4, t.a));
        launch_set(&t.k, r, N, k, t.a);
        after(&t, t.a, t.b);
        launch_add(&t.k, t.q, r, N, 1, t.b);
        OK(cuMemFreeAsync(r, t.b));
    }
    OK(cuStreamSynchronize(t.b));
    HOLDS(words_are(t.q, N, 10));
    finish(&t);
}

static void used_before_alloc(void)
{
    Two t = two_streams();
    CUdeviceptr r;
    OK(cuMemAllocAsync(&r, N * 4, t.a));
    launch_set(&t.k, r, N, 1, t.b);
    OK(cuCtxSynchronize());
    OK(cuMemFree(r));
    finish(&t);
}

static void freed_too_early(void)
{
    Two t = two_streams();
    CUdeviceptr r;
    OK(cuMemAllocAsync(&r, N * 4, t.a));
    launch_set(&t.k, r, N, 1, t.a);
    OK(cuMemFreeAsync(r, t.b));
    cuCtxSynchronize(); /* an access to freed memory breaks the context when it comes last */
}

/* --- two devices ----------------------------------------------------------------------------- */

/* A stream of one device fills, one of the other copies over and works on, with a wait or without.
 */
static void over_there(bool wait)
{
    CUcontext here, there;
    CUstream a, b;
    CUevent e;
    begin();
    OK(cuCtxGetCurrent(&here));
    Kernels k = load_kernels();
    CUdeviceptr p = device_words(N);
    OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    launch_set(&k, p, N, 4, a);
    OK(cuEventRecord(e, a));
    OK(cuDevicePrimaryCtxRetain(&there, 1));
    OK(cuCtxPushCurrent(there));
    Kernels l = load_kernels();
    CUdeviceptr q = device_words(N);
    OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    if (wait)
        OK(cuStreamWaitEvent(b, e, 0));
    OK(cuMemcpyPeerAsync(q, there, p, here, N * 4, b));
    launch_add(&l, q, q, N, 3, b);
    OK(cuStreamSynchronize(b));
    HOLDS(!wait || words_are(q, N, 7));
    OK(cuMemFree(q));
    OK(cuStreamDestroy(b));
    OK(cuModuleUnload(l.module));
    OK(cuCtxPopCurrent(NULL));
    OK(cuDevicePrimaryCtxRelease(1));
    OK(cuMemFree(p));
    OK(cuEventDestroy(e));
    OK(cuStreamDestroy(a));
    OK(cuModuleUnload(k.module));
    end();
}

static void other_device_waits(void)
{
    over_there(true);
}

static void other_device_too_early(void)
{
    over_there(false);
}

/* --- host functions -------------------------------------------------------------------------- */

typedef struct {
    int next, good;
} Sequence;

static void CUDA_CB first(void *with)
{
    Sequence *s = with;
    s->good += s->next++ == 0;
}

static void CUDA_CB second(CUstream stream, CUresult status, void *with)
{
    Sequence *s = with;
    (void)stream;
    s->good += s->next++ == 1 && !status;
}

static void CUDA_CB third(void *with)
{
    Sequence *s = with;
    s->good += s->next++ == 2;
}

static void host_functions(void)
{
    Two t = two_streams();
    Sequence s = {0};
    OK(cuLaunchHostFunc(t.a, first, &s));
    OK(cuStreamAddCallback(t.a, second, &s, 0));
    after(&t, t.a, t.b);
    OK(cuLaunchHostFunc(t.b, third, &s));
    OK(cuStreamSynchronize(t.b));
    HOLDS(s.good == 3);
    finish(&t);
}

/* A host function that waits for what the program does after it has queued it. */
static void CUDA_CB wait_for_gate(void *gate)
{
    sem_wait(gate);
}

static void gate(void)
{
    Two t = two_streams();
    sem_t s;
    HOLDS(sem_init(&s, 0, 0) == 0);
    OK(cuLaunchHostFunc(t.a, wait_for_gate, &s));
    launch_set(&t.k, t.p, N, 2, t.a);
    launch_set(&t.k, t.q, N, 3, t.b);
    OK(cuStreamSynchronize(t.b));
    for (int k = 0; k < 10; k++)
        GIVES(CUDA_ERROR_NOT_READY, cuStreamQuery(t.a));
    sem_post(&s);
    OK(cuStreamSynchronize(t.a));
    HOLDS(words_are(t.p, N, 2) && words_are(t.q, N, 3));
    finish(&t);
}

const Case order_cases[] = {
    {"waits", waits, NULL, NULL, true},
    {"read too early", read_too_early, "read by kernel add", NULL, true},
    {"write too early", write_too_early, "error[order]", NULL, true},
    {"write twice", write_twice, "is not ordered after the write by kernel set", NULL, true},
    {"one of two readers", one_of_two_readers, "error[order]", NULL, true},
    {"event before the write", event_before_the_write, "error[order]", NULL, true},
    {"event recorded again", event_recorded_again, "error[order]", NULL, true},
    {"halves", halves, NULL, NULL, true},
    {"bytes of a word", bytes_of_a_word, "error[order]", NULL, true},
    {"host waits", host_waits, NULL, NULL, true},
    {"default stream", default_stream, NULL, NULL, true},
    {"streams come and go", streams_come_and_go, NULL, NULL, true},
    {"default stream is not waited for", default_stream_is_not_waited_for, "error[order]", NULL,
     true},
    {"copy to another stream", copy_to_another_stream, "cuMemcpyHtoD", NULL, true},
    {"order unchecked", read_too_early, NULL, "VGPU_CHECK=uninit,race", false},
    {"pageable is staged", pageable_is_staged, NULL, NULL, true},
    {"pinned", pinned, NULL, NULL, true},
    {"pinned too early", pinned_too_early, "the host wrote byte 2000 of pinned memory", NULL, true},
    {"pinned read too early", pinned_read_too_early, NULL, "VGPU_ORDER=lazy", false},
    {"alloc and free", alloc_and_free, NULL, NULL, true},
    {"used before alloc", used_before_alloc, "after the allocation by cuMemAllocAsync", NULL, true},
    {"freed too early", freed_too_early, "error[", NULL, true},
    {"other device waits", other_device_waits, NULL, "VGPU_DEVICES=2", true},
    {"other device too early", other_device_too_early, "read by cuMemcpyPeerAsync",
     "VGPU_DEVICES=2 VGPU_CHECK=order", true},
    {"gate", gate, NULL, NULL, true},
    {"host functions", host_functions, NULL, NULL, true},
    {0},
};
