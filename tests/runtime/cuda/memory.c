/* memory.c: the CUDA backend: streams, events, memory, copies.
 * SPDX-License-Identifier: MIT */
#include "tests/runtime/cuda/world.h"

/* --- streams, events, memory ---------------------------------------------------------------------
 */

/* Calls of one instance keep their order over streams, without a wait of the caller's. */
static void test_two_streams(void **state)
{
    World *w = *state;
    float x[] = {1, 2, 3, 4, 5, 6}, y[6];
    DLTensor xd = upload(w, x, 2, 3), yd = device(w, 2, 3);
    const DLTensor m = upload(w, times_m, 3, 2);
    tn_stream *s[2];
    for (int i = 0; i < 2; i++) {
        ok(tn_stream_create(w->ctx, &s[i]));
        assert_int_equal(tn_stream_device(s[i]).device_type, kDLCUDA);
        ok(tn_stream_wait_stream(s[i], w->s));
    }
    for (int round = 0; round < 3; round++) {
        DLTensor z = {0};
        const DLTensor *args[] = {&xd, &m, &yd, &z};
        ok(tn_call(w->m, s[0], UPDATE, NULL, 0, NULL));
        ok(tn_call(w->m, s[1], FORWARD, args, 4, NULL));
        tn_tensor_release(&z);
    }
    ok(tn_stream_wait_stream(w->s, s[1]));
    download(w, &yd, y);
    for (int i = 0; i < 6; i++)
        assert_true(y[i] == 5 * x[i]);
    tn_stream_destroy(s[0]);
    ok(tn_call(w->m, s[1], UPDATE, NULL, 0, NULL)); /* its last stream but one is gone */
    tn_stream_destroy(s[1]);
    assert_true(read_w(w) == 6);
    tn_tensor_release(&xd);
    tn_tensor_release(&yd);
    tn_tensor_release((DLTensor *)(uintptr_t)&m);
}

/* A tape from one stream is used on another, and its memory by neither too early. */
static void test_tape_over_streams(void **state)
{
    World *w = *state;
    float x[] = {1, 2, 3, 4, 5, 6}, got[6];
    DLTensor xd = upload(w, x, 2, 3), m = upload(w, times_m, 3, 2), dx = device(w, 2, 3),
             dt = device(w, 2, 3);
    tn_stream *a, *b;
    ok(tn_stream_create(w->ctx, &a));
    ok(tn_stream_create(w->ctx, &b));
    ok(tn_stream_wait_stream(a, w->s));
    ok(tn_stream_wait_stream(b, w->s));
    for (int round = 0; round < 4; round++) {
        DLTensor y = {.device = gpu}, z = {.device = gpu};
        const DLTensor *args[] = {&xd, &m, &y, &z}, *back[] = {&xd, &dx, &dt};
        tn_tape *tape = NULL;
        ok(tn_call(w->m, a, TRAIN, args, 4, &tape));
        ok(tn_call(w->m, b, BACKWARD, back, 3, &tape));
        tn_tensor_release(&y);
        tn_tensor_release(&z);
    }
    ok(tn_stream_wait_stream(w->s, b));
    download(w, &dt, got);
    for (int i = 0; i < 6; i++)
        assert_true(got[i] == 2 * x[i]);
    tn_stream_destroy(a);
    tn_stream_destroy(b);
    tn_tensor_release(&xd);
    tn_tensor_release(&m);
    tn_tensor_release(&dx);
    tn_tensor_release(&dt);
}

static void test_events(void **state)
{
    World *w = *state;
    tn_event *a, *b, *none;
    double ms = -1;
    ok(tn_event_create(w->ctx, &a));
    ok(tn_event_create(w->ctx, &b));
    ok(tn_event_create(w->ctx, &none));
    assert_int_equal(tn_event_elapsed_ms(a, b, &ms), TN_STATE);
    ok(tn_event_record(a, w->s));
    ok(tn_call(w->m, NULL, UPDATE, NULL, 0, NULL));
    ok(tn_event_record(b, w->s));
    ok(tn_event_elapsed_ms(a, b, &ms));
    assert_true(ms >= 0);
    ok(tn_stream_wait_event(w->s, none));
    assert_int_equal(tn_event_synchronize(none), TN_STATE);
    ok(tn_event_record(a, tn_stream_default(w->ctx, cpu)));
    assert_int_equal(tn_event_elapsed_ms(a, b, &ms), TN_DEVICE);
    ok(tn_event_record(a, w->s));
    tn_event_destroy(a);
    tn_event_destroy(b);
    tn_event_destroy(none);
}

static void test_wrapped_stream(void **state)
{
    World *w = *state;
    tn_stream *owner, *wrapped;
    ok(tn_stream_create(w->ctx, &owner));
    assert_non_null(tn_stream_native(owner));
    ok(tn_stream_wrap(w->ctx, gpu, tn_stream_native(owner), &wrapped));
    assert_ptr_equal(tn_stream_native(wrapped), tn_stream_native(owner));
    ok(tn_call(w->m, wrapped, UPDATE, NULL, 0, NULL));
    tn_stream_destroy(wrapped); /* the CUstream stays */
    ok(tn_call(w->m, owner, UPDATE, NULL, 0, NULL));
    tn_stream_destroy(owner);
    ok(tn_stream_wrap(w->ctx, gpu, NULL, &wrapped)); /* CUDA's own default stream */
    ok(tn_call(w->m, wrapped, UPDATE, NULL, 0, NULL));
    tn_stream_destroy(wrapped);
    assert_true(read_w(w) == 5);
    assert_int_equal(tn_stream_wrap(w->ctx, cpu, NULL, &wrapped), TN_INVALID);
}

static void test_steady_memory(void **state)
{
    World *w = *state;
    float x[] = {1, 2, 3, 4, 5, 6};
    const DLTensor xd = host(x, shape_23);
    size_t reserved = 0, allocated = 0;
    for (int i = 0; i < 5; i++) {
        DLTensor yd = {0}, zd = {0};
        ok(forward(w, NULL, &xd, &yd, &zd));
        tn_tensor_release(&yd);
        tn_tensor_release(&zd);
        if (i == 1) {
            reserved = tn_memory_reserved(w->ctx, gpu);
            allocated = tn_memory_allocated(w->ctx, gpu);
        }
    }
    assert_int_equal(tn_memory_reserved(w->ctx, gpu), reserved);
    assert_int_equal(tn_memory_allocated(w->ctx, gpu), allocated);
    assert_true(tn_memory_max_allocated(w->ctx, gpu) > allocated);
    assert_true(tn_memory_max_reserved(w->ctx, gpu) >= reserved);
    tn_memory_reset_peak(w->ctx, gpu);
    assert_int_equal(tn_memory_max_allocated(w->ctx, gpu), allocated);
    DLTensor big = device(w, 1 << 20, 8);
    tn_tensor_release(&big);
    const char *plain = getenv("TENON_NO_CACHE");
    if (!plain || !strcmp(plain, "0"))
        assert_true(tn_memory_reserved(w->ctx, gpu) >= reserved + (32u << 20));
    ok(tn_memory_empty_cache(w->ctx, gpu));
    assert_true(tn_memory_reserved(w->ctx, gpu) <= reserved);
    char text[2000];
    assert_true(tn_memory_snapshot(w->ctx, gpu, text, sizeof text) < sizeof text);
    assert_int_equal(strncmp(text, "{\"device\": \"cuda:0\", \"allocated\": ", 34), 0);
    assert_non_null(strstr(text, "\"use\": \"state\""));
    assert_true(tn_memory_snapshot(w->ctx, gpu, text, 10) > 100);
}

static void test_out_of_memory(void **state)
{
    World *w = *state;
    tn_device_info info = {.size = sizeof info};
    ok(tn_device_properties(w->ctx, gpu, &info));
    const int64_t shape[] = {(int64_t)(info.memory / 4 / 8 * 5)};
    DLTensor a, b;
    ok(tn_tensor_create(w->ctx, gpu, f32_type, 1, shape, &a));
    assert_int_equal(tn_tensor_create(w->ctx, gpu, f32_type, 1, shape, &b), TN_MEMORY);
    assert_int_equal(strncmp(tn_last_error(), "out of memory on cuda:0: ", 25), 0);
    assert_non_null(strstr(tn_last_error(), "held here: state 1 MiB"));
    assert_non_null(strstr(tn_last_error(), "results "));
    tn_tensor_release(&a);
    ok(tn_tensor_create(w->ctx, gpu, f32_type, 1, shape, &b)); /* from the cache, or again */
    tn_tensor_release(&b);
    ok(tn_memory_empty_cache(w->ctx, gpu));
    ok(tn_call(w->m, NULL, UPDATE, NULL, 0, NULL));
}

static void test_record_stream(void **state)
{
    World *w = *state;
    tn_stream *s;
    ok(tn_stream_create(w->ctx, &s));
    float x[] = {1, 2, 3, 4, 5, 6}, got[6];
    DLTensor h = host(x, shape_23), t = device(w, 2, 3), u = device(w, 2, 3);
    ok(tn_copy(&t, &h, w->s, 0));
    ok(tn_stream_wait_stream(s, w->s));
    ok(tn_copy(&u, &t, s, 1)); /* reads t on s */
    ok(tn_tensor_record_stream(&t, s));
    const void *was = t.data;
    tn_tensor_release(&t);
    t = device(w, 2, 3); /* another place, or the same when s is done */
    float zeros[6] = {0};
    DLTensor zero = host(zeros, shape_23);
    ok(tn_copy(&t, &zero, w->s, 0));
    (void)was;
    ok(tn_stream_synchronize(s));
    download(w, &u, got);
    assert_memory_equal(got, x, sizeof x);
    assert_int_equal(tn_tensor_record_stream(&h, s), TN_INVALID);
    tn_tensor_release(&t);
    tn_tensor_release(&u);
    tn_stream_destroy(s);
}

static void test_pinned(void **state)
{
    World *w = *state;
    void *p, *q;
    ok(tn_host_alloc(w->ctx, 24, &p));
    ok(tn_host_alloc(w->ctx, 24, &q));
    float *x = p, *y = q;
    for (int i = 0; i < 6; i++)
        x[i] = (float)i;
    DLTensor h = host(x, shape_23), g = host(y, shape_23), t = device(w, 2, 3);
    h.device.device_type = g.device.device_type = kDLCUDAHost;
    ok(tn_copy(&t, &h, w->s, 1));
    ok(tn_copy(&g, &t, w->s, 1));
    ok(tn_stream_synchronize(w->s));
    assert_memory_equal(x, y, 24);
    tn_tensor_release(&t);
    tn_host_free(w->ctx, p);
    void *mine = aligned_alloc(4096, 8192);
    assert_non_null(mine);
    ok(tn_host_register(w->ctx, mine, 8192));
    ok(tn_host_unregister(w->ctx, mine));
    free(mine);
    tn_host_free(w->ctx, q);
    tn_host_free(w->ctx, NULL);
}

/* All kinds of copies, elements of all sizes, strides of any sign. */
static void test_copies(void **state)
{
    World *w = *state;
    static const DLDataType types[] = {
        {kDLInt, 8, 1}, {kDLFloat, 16, 1}, {kDLFloat, 32, 1}, {kDLFloat, 64, 1}};
    for (int k = 0; k < 4; k++) {
        enum { N = 24 };
        const size_t size = (size_t)types[k].bits / 8;
        unsigned char from[N * 8], to[N * 8] = {0}, want[N * 8];
        for (size_t i = 0; i < sizeof from; i++)
            from[i] = (unsigned char)(i * 7 + 1);
        int64_t flat[] = {N}, shape[] = {4, 3, 2}, strides[] = {-6, 1, 3};
        DLTensor h = {.data = from, .device = cpu, .ndim = 1, .dtype = types[k], .shape = flat};
        DLTensor back = h, d, e;
        back.data = to;
        ok(tn_tensor_create(w->ctx, gpu, types[k], 1, flat, &d));
        ok(tn_tensor_create(w->ctx, gpu, types[k], 3, shape, &e));
        ok(tn_copy(&d, &h, w->s, 1));
        ok(tn_copy(&back, &d, w->s, 0));
        assert_memory_equal(to, from, N * size);
        DLTensor view = d; /* first axis backwards, the others exchanged */
        view.ndim = 3;
        view.shape = shape;
        view.strides = strides;
        view.byte_offset = 18 * size;
        ok(tn_copy(&e, &view, w->s, 0));
        size_t n = 0;
        for (int a = 0; a < 4; a++)
            for (int b = 0; b < 3; b++)
                for (int c = 0; c < 2; c++, n++)
                    memcpy(want + n * size, from + (size_t)(18 - 6 * a + b + 3 * c) * size, size);
        back.ndim = 3;
        back.shape = shape;
        ok(tn_copy(&back, &e, w->s, 0));
        assert_memory_equal(to, want, N * size);
        memset(to, 0, sizeof to);
        ok(tn_copy(&back, &view, w->s, 0)); /* strided from the device */
        assert_memory_equal(to, want, N * size);
        DLTensor hv = view; /* and from the host, to a strided place */
        hv.data = from;
        hv.device = cpu;
        memset(to, 0, sizeof to);
        ok(tn_copy(&view, &hv, w->s, 0));
        back.ndim = 1;
        back.shape = flat;
        ok(tn_copy(&back, &d, w->s, 0));
        assert_memory_equal(to, from, N * size);
        tn_tensor_release(&d);
        tn_tensor_release(&e);
    }
    float a[6] = {1, 2, 3, 4, 5, 6}, b[6];
    DLTensor ah = host(a, shape_23), bh = host(b, shape_23), ch = host(b, shape_22);
    ok(tn_copy(&bh, &ah, NULL, 0));
    assert_memory_equal(a, b, sizeof a);
    assert_int_equal(tn_copy(&ch, &ah, NULL, 0), TN_SHAPE);
    ch = bh;
    ch.dtype.code = kDLInt;
    assert_int_equal(tn_copy(&ch, &ah, NULL, 0), TN_DTYPE);
    DLTensor d = device(w, 2, 3);
    assert_int_equal(tn_copy(&d, &ah, NULL, 0), TN_DEVICE);
    tn_tensor_release(&d);
}

/* Pieces that begin at any byte: on the device, from it, to it, and as an argument. */
static void test_any_byte(void **state)
{
    static const DLDataType types[] = {{kDLFloat, 16, 1}, {kDLFloat, 32, 1}, {kDLFloat, 64, 1}};
    World *w = *state;
    enum { N = 6 };
    int64_t shape[] = {2, 3}, strides[] = {1, 2}, flat[] = {8 * N + 8};
    for (int k = 0; k < 3; k++)
        for (size_t offset = 0; offset < 8; offset++) {
            const size_t size = (size_t)types[k].bits / 8;
            unsigned char from[8 * N + 8], to[8 * N + 8] = {0}, want[8 * N];
            for (size_t i = 0; i < sizeof from; i++)
                from[i] = (unsigned char)(i * 5 + offset);
            for (size_t i = 0; i < N; i++)
                memcpy(want + i * size, from + offset + (i / 3 + i % 3 * 2) * size, size);
            DLTensor h = {
                .data = from, .device = cpu, .ndim = 1, .dtype = {kDLUInt, 8, 1}, .shape = flat};
            DLTensor bytes, packed, back = h;
            ok(tn_tensor_create(w->ctx, gpu, h.dtype, 1, flat, &bytes));
            ok(tn_tensor_create(w->ctx, gpu, types[k], 2, shape, &packed));
            ok(tn_copy(&bytes, &h, w->s, 0));
            DLTensor view = bytes;
            view.ndim = 2;
            view.dtype = types[k];
            view.shape = shape;
            view.strides = strides;
            view.byte_offset = offset;
            back.ndim = 2;
            back.dtype = types[k];
            back.shape = shape;
            back.data = to;
            ok(tn_copy(&packed, &view, w->s, 0));
            ok(tn_copy(&back, &packed, w->s, 0));
            assert_memory_equal(to, want, N * size);
            memset(to, 0, sizeof to);
            ok(tn_copy(&back, &view, w->s, 0));
            assert_memory_equal(to, want, N * size);
            memset(from, 0, sizeof from);
            ok(tn_copy(&bytes, &h, w->s, 0));
            ok(tn_copy(&view, &packed, w->s, 0));
            memset(to, 0, sizeof to);
            ok(tn_copy(&back, &view, w->s, 0));
            assert_memory_equal(to, want, N * size);
            tn_tensor_release(&bytes);
            tn_tensor_release(&packed);
        }
}

static void test_argument_at_any_byte(void **state)
{
    World *w = *state;
    float x[] = {1, 2, 3, 4, 5, 6}, y[6];
    int64_t flat[] = {27};
    unsigned char bytes[27] = {0};
    const DLTensor m = host(times_m, shape_m);
    for (size_t offset = 1; offset < 4; offset++) {
        DLTensor h = {
            .data = bytes, .device = cpu, .ndim = 1, .dtype = {kDLUInt, 8, 1}, .shape = flat};
        DLTensor from, to;
        memcpy(bytes + offset, x, sizeof x);
        ok(tn_tensor_create(w->ctx, gpu, h.dtype, 1, flat, &from));
        ok(tn_tensor_create(w->ctx, gpu, h.dtype, 1, flat, &to));
        ok(tn_copy(&from, &h, w->s, 0));
        DLTensor xd = from, yd = to;
        xd.ndim = yd.ndim = 2;
        xd.dtype = yd.dtype = f32_type;
        xd.shape = yd.shape = shape_23;
        xd.strides = yd.strides = NULL;
        xd.byte_offset = yd.byte_offset = offset;
        const DLTensor *args[] = {&xd, &m, &yd, NULL};
        ok(tn_call(w->m, NULL, FORWARD, args, 4, NULL));
        download(w, &yd, y);
        for (int i = 0; i < 6; i++)
            assert_true(y[i] == 2 * x[i]);
        tn_tensor_release(&from);
        tn_tensor_release(&to);
    }
}

static void test_two_devices(void **state)
{
    World *w = *state;
    const DLDevice second = {kDLCUDA, 1};
    if (tn_device_count(w->ctx, kDLCUDA) < 2)
        return;
    float x[] = {1, 2, 3, 4, 5, 6}, got[6];
    DLTensor a = upload(w, x, 2, 3), b;
    ok(tn_tensor_create(w->ctx, second, f32_type, 2, shape_23, &b));
    ok(tn_copy(&b, &a, w->s, 0));
    ok(tn_stream_wait_stream(tn_stream_default(w->ctx, second), w->s));
    DLTensor h = host(got, shape_23);
    ok(tn_copy(&h, &b, tn_stream_default(w->ctx, second), 0));
    assert_memory_equal(got, x, sizeof x);
    int peer = -1;
    ok(tn_device_can_access_peer(w->ctx, gpu, second, &peer));
    assert_true(peer == 0 || peer == 1);
    tn_model *m;
    const tn_model_options o = {.size = sizeof o, .device = second};
    ok(tn_model_create(w->ctx, &pair_desc, &o, &m));
    DLTensor y = {0}, z = {0};
    const DLTensor xm = host(times_m, shape_m);
    const DLTensor *args[] = {&b, &xm, &y, &z};
    ok(tn_call(m, NULL, FORWARD, args, 4, NULL));
    assert_int_equal(z.device.device_id, 1);
    assert_int_equal(tn_call(m, w->s, FORWARD, args, 4, NULL), TN_DEVICE);
    tn_tensor_release(&y);
    tn_tensor_release(&z);
    tn_model_destroy(m);
    tn_tensor_release(&a);
    tn_tensor_release(&b);
}

/* A model on the CPU follows a stream of the GPU. */
static void test_cpu_model_on_gpu_stream(void **state)
{
    World *w = *state;
    const tn_model_options o = {.size = sizeof o, .device = cpu};
    tn_model *m;
    ok(tn_model_create(w->ctx, &pair_desc, &o, &m));
    void *p;
    ok(tn_host_alloc(w->ctx, 24, &p));
    float x[] = {1, 2, 3, 4, 5, 6}, y[6];
    DLTensor d = upload(w, x, 2, 3), h = host(p, shape_23), yd = host(y, shape_23);
    h.device.device_type = kDLCUDAHost;
    ok(tn_copy(&h, &d, w->s, 1));
    const DLTensor *args[] = {&h, &yd};
    ok(tn_call(m, w->s, CONSTANT, args, 2, NULL));
    for (int i = 0; i < 6; i++)
        assert_true(y[i] == 7 * x[i]);
    tn_host_free(w->ctx, p);
    tn_tensor_release(&d);
    tn_model_destroy(m);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {T(test_two_streams),
                                       T(test_tape_over_streams),
                                       T(test_events),
                                       T(test_wrapped_stream),
                                       T(test_steady_memory),
                                       T(test_out_of_memory),
                                       T(test_record_stream),
                                       T(test_pinned),
                                       T(test_copies),
                                       T(test_any_byte),
                                       T(test_argument_at_any_byte),
                                       T(test_two_devices),
                                       T(test_cpu_model_on_gpu_stream)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
