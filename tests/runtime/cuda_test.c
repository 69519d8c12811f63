/* cuda_test.c: the CUDA backend on whatever libcuda.so.1 is found: the virtual GPU in the test
 * suite, a real one elsewhere. SPDX-License-Identifier: MIT */
#include "tests/runtime/cuda_tables.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/state_files.h"

static const DLDevice cpu = {kDLCPU, 0}, gpu = {kDLCUDA, 0};
static const DLDataType f32_type = {kDLFloat, 32, 1};

typedef struct {
    tn_context *ctx;
    tn_model *m; /* on the GPU */
    tn_stream *s;
} World;

static void ok(tn_status s)
{
    if (s)
        fail_msg("%s: %s", tn_strerror(s), tn_last_error());
}

static int begin(void **state)
{
    static World w;
    const tn_context_options o = {.size = sizeof o, .threads = 2};
    const tn_model_options mo = {.size = sizeof mo, .device = gpu};
    ok(tn_context_create(&o, &w.ctx));
    ok(tn_model_create(w.ctx, &pair_desc, &mo, &w.m));
    w.s = tn_stream_default(w.ctx, gpu);
    assert_non_null(w.s);
    *state = &w;
    return 0;
}

static int end(void **state)
{
    World *w = *state;
    tn_model_destroy(w->m);
    ok(tn_device_synchronize(w->ctx, gpu));
    size_t library = 0; /* workspaces of cuBLAS stay with their streams */
    char text[4096];
    assert_true(tn_memory_snapshot(w->ctx, gpu, text, sizeof text) < sizeof text);
    if (strstr(text, "\"use\": \"libraries\""))
        library = (size_t)32 << 20;
    assert_true(tn_memory_allocated(w->ctx, gpu) <= library);
    assert_null(strstr(text, "\"use\": \"copies\""));
    assert_null(strstr(text, "\"use\": \"tapes\""));
    assert_null(strstr(text, "\"use\": \"results\""));
    assert_null(strstr(text, "\"use\": \"state\""));
    assert_int_equal(tn_memory_allocated(w->ctx, cpu), 0);
    tn_context_destroy(w->ctx);
    return 0;
}

static DLTensor host(void *data, int64_t *shape)
{
    return (DLTensor){.data = data, .device = cpu, .ndim = 2, .dtype = f32_type, .shape = shape};
}

static DLTensor device(World *w, int64_t rows, int64_t cols)
{
    const int64_t shape[] = {rows, cols};
    DLTensor t;
    ok(tn_tensor_create(w->ctx, gpu, f32_type, 2, shape, &t));
    return t;
}

static DLTensor upload(World *w, float *data, int64_t rows, int64_t cols)
{
    int64_t shape[] = {rows, cols};
    DLTensor t = device(w, rows, cols), h = host(data, shape);
    ok(tn_copy(&t, &h, w->s, 0));
    return t;
}

static void download(World *w, const DLTensor *t, float *out)
{
    DLTensor h = host(out, t->shape);
    ok(tn_copy(&h, t, w->s, 0));
}

static float times_m[] = {1, 0, 0, 1, 1, 1};
static int64_t shape_m[] = {3, 2}, shape_23[] = {2, 3}, shape_22[] = {2, 2};

static tn_status forward(World *w, tn_stream *s, const DLTensor *x, DLTensor *y, DLTensor *z)
{
    const DLTensor m = host(times_m, shape_m);
    const DLTensor *args[] = {x, &m, y, z};
    return tn_call(w->m, s, FORWARD, args, 4, NULL);
}

/* --- devices -------------------------------------------------------------------------------------
 */

static void test_devices(void **state)
{
    World *w = *state;
    tn_device_info info = {.size = sizeof info};
    char name[256];
    assert_true(tn_device_count(w->ctx, kDLCUDA) >= 1);
    assert_int_equal(tn_device_count(w->ctx, kDLCPU), 1);
    ok(tn_device_available(w->ctx, gpu));
    ok(tn_device_properties(w->ctx, gpu, &info));
    assert_true(info.major >= 7 && info.warp == 32 && info.multiprocessors > 0);
    assert_true(info.memory > 0 && info.driver >= 11000 && info.max_threads_per_block == 1024);
    ok(tn_device_name(w->ctx, gpu, name, sizeof name));
    assert_string_equal(name, info.name);
    ok(tn_device_name(w->ctx, cpu, name, sizeof name));
    assert_true(name[0] != 0);
    assert_int_equal(tn_device_available(w->ctx, (DLDevice){kDLCUDA, 99}), TN_UNSUPPORTED);
    assert_int_equal(strncmp(tn_last_error(), "cuda:99: there ", 15), 0);
    assert_int_equal(tn_device_available(w->ctx, (DLDevice){kDLVulkan, 0}), TN_UNSUPPORTED);
    assert_int_equal(tn_device_default(w->ctx).device_type, kDLCUDA);
    ok(tn_device_set_default(w->ctx, cpu));
    assert_int_equal(tn_device_default(w->ctx).device_type, kDLCPU);
    assert_int_equal(tn_device_set_default(w->ctx, (DLDevice){kDLCUDA, 99}), TN_UNSUPPORTED);
    assert_int_equal(tn_device_default(w->ctx).device_type, kDLCPU);
    int peer = 9;
    ok(tn_device_can_access_peer(w->ctx, gpu, gpu, &peer));
    assert_int_equal(peer, 1);
}

static void test_choice(void **state)
{
    World *w = *state;
    tn_model *m;
    tn_model_options o = {.size = sizeof o};
    ok(tn_model_create(w->ctx, &pair_desc, &o, &m)); /* CUDA is compiled in, and there */
    assert_int_equal(tn_model_device(m).device_type, kDLCUDA);
    tn_model_destroy(m);
    o.device = cpu;
    ok(tn_model_create(w->ctx, &pair_desc, &o, &m));
    assert_int_equal(tn_model_device(m).device_type, kDLCPU);
    tn_model_destroy(m);
    ok(tn_model_create(w->ctx, &only_cuda, NULL, &m));
    assert_int_equal(tn_model_device(m).device_type, kDLCUDA);
    tn_model_destroy(m);
    assert_int_equal(tn_model_create(w->ctx, &only_cuda, &o, &m), TN_UNSUPPORTED);
    assert_string_equal(tn_last_error(), "m was compiled for CUDA only");
    tn_model_desc other = pair_desc;
    other.cuda = NULL;
    o.device = gpu;
    assert_int_equal(tn_model_create(w->ctx, &other, &o, &m), TN_UNSUPPORTED);
    assert_string_equal(tn_last_error(), "m was compiled without CUDA");
    o.device.device_id = 99;
    assert_int_equal(tn_model_create(w->ctx, &pair_desc, &o, &m), TN_UNSUPPORTED);
    tn_model_desc fewer = only_cuda;
    fewer.nprograms--;
    other.cuda = &fewer;
    assert_int_equal(tn_model_create(w->ctx, &other, NULL, &m), TN_ABI);
}

static void test_images(void **state)
{
    World *w = *state;
    tn_model *m;
    tn_image x[3] = {only_cuda.images[0], only_cuda.images[0], only_cuda.images[0]};
    tn_model_desc d = only_cuda;
    d.images = x;
    x[0].arch = 999; /* newer than any GPU: passed over */
    d.nimages = 2;
    ok(tn_model_create(w->ctx, &d, NULL, &m));
    tn_model_destroy(m);
    x[1].arch = 998;
    assert_int_equal(tn_model_create(w->ctx, &d, NULL, &m), TN_UNSUPPORTED);
    assert_non_null(strstr(tn_last_error(), "compile it with -arch=sm_"));
    /* a file that is no device code */
    static const char junk[] = "this is no PTX";
    x[1] = (tn_image){.arch = 75, .is_ptx = 1, .data = junk, .bytes = sizeof junk};
    assert_int_equal(tn_model_create(w->ctx, &d, NULL, &m), TN_DRIVER);
    assert_non_null(strstr(tn_last_error(), "m: the PTX for sm_75 does not load on cuda:0 (sm_"));
    /* packed, but not by us */
    x[1].whole = 100;
    assert_int_equal(tn_model_create(w->ctx, &d, NULL, &m), TN_ABI);
    tn_kernel kernels[4];
    memcpy(kernels, only_cuda.kernels, sizeof kernels);
    kernels[2].name = "nowhere";
    d = only_cuda;
    d.kernels = kernels;
    assert_int_equal(tn_model_create(w->ctx, &d, NULL, &m), TN_DRIVER);
    assert_int_equal(strncmp(tn_last_error(), "m: kernel nowhere is not in its device code", 43),
                     0);
}

/* --- calls ---------------------------------------------------------------------------------------
 */

static void test_host_tensors(void **state)
{
    World *w = *state;
    float x[] = {1, 2, 3, 4, 5, 6}, y[6];
    const float want[] = {4, 5, 10, 11};
    const DLTensor xd = host(x, shape_23);
    DLTensor yd = host(y, shape_23), zd = {0};
    ok(forward(w, NULL, &xd, &yd, &zd));
    for (int i = 0; i < 6; i++)
        assert_true(y[i] == 2 * x[i]);
    assert_int_equal(zd.device.device_type, kDLCPU); /* all others are in memory of the host */
    assert_memory_equal(zd.data, want, sizeof want);
    tn_tensor_release(&zd);
    assert_int_equal(zd.device.device_type, 0);

    zd.device = gpu; /* asked for */
    ok(forward(w, NULL, &xd, &yd, &zd));
    assert_int_equal(zd.device.device_type, kDLCUDA);
    float z[4];
    download(w, &zd, z);
    assert_memory_equal(z, want, sizeof want);
    tn_tensor_release(&zd);
}

static void test_device_tensors(void **state)
{
    World *w = *state;
    float x[] = {1, 2, 3, 4, 5, 6}, y[6], z[4];
    const float want[] = {4, 5, 10, 11};
    DLTensor xd = upload(w, x, 2, 3), yd = device(w, 2, 3), zd = {0};
    const DLTensor m = upload(w, times_m, 3, 2);
    const DLTensor *args[] = {&xd, &m, &yd, &zd};
    ok(tn_call(w->m, NULL, FORWARD, args, 4, NULL));
    assert_int_equal(zd.device.device_type, kDLCUDA);
    download(w, &yd, y);
    download(w, &zd, z);
    for (int i = 0; i < 6; i++)
        assert_true(y[i] == 2 * x[i]);
    assert_memory_equal(z, want, sizeof want);
    tn_tensor_release(&zd);

    zd.device = cpu;
    ok(tn_call(w->m, NULL, FORWARD, args, 4, NULL));
    assert_int_equal(zd.device.device_type, kDLCPU);
    assert_memory_equal(zd.data, want, sizeof want);
    tn_tensor_release(&zd);
    args[2] = NULL; /* a result that nobody wants */
    ok(tn_call(w->m, NULL, FORWARD, args, 4, NULL));
    download(w, &zd, z);
    assert_memory_equal(z, want, sizeof want);
    tn_tensor_release(&zd);
    tn_tensor_release((DLTensor *)(uintptr_t)&m);
    tn_tensor_release(&xd);
    tn_tensor_release(&yd);
}

/* Transposed views, and pieces that begin anywhere, in and out, on both sides. */
static void test_strided(void **state)
{
    World *w = *state;
    float x[] = {-1, 1, 4, 2, 5, 3, 6}, y[7], z[4];
    int64_t strides[] = {1, 2};
    for (int on_device = 0; on_device < 2; on_device++) {
        DLTensor xs = on_device ? upload(w, x, 1, 7) : host(x, shape_23);
        for (int i = 0; i < 7; i++)
            y[i] = -1;
        DLTensor ys = on_device ? upload(w, y, 1, 7) : host(y, shape_23), zd = {0};
        DLTensor xd = xs, yd = ys;
        xd.ndim = yd.ndim = 2;
        xd.shape = yd.shape = shape_23;
        xd.strides = yd.strides = strides;
        xd.byte_offset = yd.byte_offset = 4;
        zd.device = cpu;
        ok(forward(w, NULL, &xd, &yd, &zd));
        if (on_device)
            download(w, &ys, y);
        for (int i = 0; i < 7; i++)
            assert_true(y[i] == (i ? 2 * x[i] : -1));
        memcpy(z, zd.data, sizeof z);
        assert_true(z[0] == 4 && z[1] == 5 && z[2] == 10 && z[3] == 11);
        tn_tensor_release(&zd);
        if (on_device) {
            tn_tensor_release(&xs);
            tn_tensor_release(&ys);
        }
    }
}

static void test_empty(void **state)
{
    World *w = *state;
    float x[1], y[1];
    int64_t shape[] = {0, 3};
    const DLTensor xd = host(x, shape);
    DLTensor yd = host(y, shape), zd = {0};
    ok(forward(w, NULL, &xd, &yd, &zd));
    assert_int_equal(zd.shape[0], 0);
    tn_tensor_release(&zd);
}

static void test_inout(void **state)
{
    World *w = *state;
    float h[] = {1, 2, 3, 4, 5, 6}, got[6];
    DLTensor hd = host(h, shape_23), dd = upload(w, h, 2, 3);
    const DLTensor *args[] = {&hd, &hd}, *dargs[] = {&dd, &dd};
    ok(tn_call(w->m, NULL, INOUT, args, 2, NULL));
    for (int i = 0; i < 6; i++)
        assert_true(h[i] == 2 * (i + 1));
    ok(tn_call(w->m, NULL, INOUT, dargs, 2, NULL));
    download(w, &dd, got);
    for (int i = 0; i < 6; i++)
        assert_true(got[i] == 2 * (i + 1));
    tn_tensor_release(&dd);
}

static void test_fill(void **state)
{
    World *w = *state;
    DLTensor r[5] = {{0}};
    const DLTensor *args[] = {&r[0], &r[1], &r[2], &r[3], &r[4]};
    ok(tn_call(w->m, NULL, FILL, args, 5, NULL));
    for (int i = 0; i < 5; i++) {
        assert_true(((double *)r[0].data)[i] == 1.1);
        assert_true(((int8_t *)r[1].data)[i] == 3);
        assert_true(((uint16_t *)r[2].data)[i] == 0x3f80);
        assert_true(((int64_t *)r[3].data)[i] == -1);
        assert_true(((float *)r[4].data)[i] == 0.5f);
    }
    for (int i = 0; i < 5; i++)
        tn_tensor_release(&r[i]);
}

static void test_constant(void **state)
{
    World *w = *state;
    float x[] = {1, 2, 3, 4, 5, 6};
    const DLTensor xd = host(x, shape_23);
    for (int round = 0; round < 2; round++) {
        DLTensor yd = {0};
        const DLTensor *args[] = {&xd, &yd};
        ok(tn_call(w->m, NULL, CONSTANT, args, 2, NULL));
        for (int i = 0; i < 6; i++)
            assert_true(((float *)yd.data)[i] == 7 * x[i]);
        tn_tensor_release(&yd);
    }
}

static void see(void *user, const char *text, const DLTensor *value)
{
    float *sum = user;
    assert_string_equal(text, "wx");
    assert_int_equal(value->device.device_type, kDLCPU);
    for (int i = 0; i < 6; i++)
        *sum += ((float *)value->data)[i];
}

static void test_print(void **state)
{
    World *w = *state;
    float x[] = {1, 2, 3, 4, 5, 6}, sum = 0;
    const DLTensor xd = host(x, shape_23);
    const DLTensor *args[] = {&xd};
    tn_context_set_print(w->ctx, see, &sum);
    ok(tn_call(w->m, NULL, PRINT, args, 1, NULL));
    assert_true(sum == 42);
}

static void test_tape(void **state)
{
    World *w = *state;
    float x[] = {1, 2, 3, 4, 5, 6}, got[6];
    const DLTensor xd = host(x, shape_23), m = host(times_m, shape_m);
    DLTensor yd = {0}, zd = {0}, dx = {.device = gpu}, dt = {0};
    const DLTensor *args[] = {&xd, &m, &yd, &zd}, *back[] = {&xd, &dx, &dt};
    tn_tape *tape = NULL, *late = NULL;
    ok(tn_call(w->m, NULL, TRAIN, args, 4, &tape));
    tn_tensor_release(&yd);
    tn_tensor_release(&zd);
    ok(tn_call(w->m, NULL, TRAIN, args, 4, &late));
    ok(tn_call(w->m, NULL, BACKWARD, back, 3, &tape));
    assert_null(tape);
    download(w, &dx, got);
    assert_int_equal(dt.device.device_type, kDLCPU);
    for (int i = 0; i < 6; i++) {
        assert_true(got[i] == 2 * x[i]);
        assert_true(((float *)dt.data)[i] == 2 * x[i]);
    }
    tn_tensor_release(&dx);
    tn_tensor_release(&dt);
    tn_tensor_release(&yd);
    tn_tensor_release(&zd);
    ok(tn_call(w->m, NULL, UPDATE, NULL, 0, NULL));
    assert_int_equal(tn_call(w->m, NULL, BACKWARD, back, 3, &late), TN_STATE);
    ok(tn_call(w->m, NULL, TRAIN, args, 4, &tape));
    tn_tape_release(tape);
    tn_tensor_release(&yd);
    tn_tensor_release(&zd);
}

static void test_mistakes(void **state)
{
    World *w = *state;
    float x[6] = {0}, y[6];
    DLTensor xd = host(x, shape_23), yd = host(y, shape_23), zd = {0};
    xd.device = (DLDevice){kDLCUDA, 1};
    assert_int_equal(forward(w, NULL, &xd, &yd, &zd), TN_DEVICE);
    assert_string_equal(tn_last_error(), "forward: 'x' must be in host memory or on cuda:0, where "
                                         "the model is");
    xd = device(w, 2, 3);
    yd = xd;
    assert_int_equal(forward(w, NULL, &xd, &yd, &zd), TN_OVERLAP);
    assert_null(zd.data);
    tn_tensor_release(&xd);
    tn_stream *s;
    ok(tn_stream_create_on(w->ctx, cpu, &s));
    xd = host(x, shape_23);
    yd = host(y, shape_23);
    assert_int_equal(forward(w, s, &xd, &yd, &zd), TN_DEVICE);
    tn_stream_destroy(s);
}

/* --- what kernels report -------------------------------------------------------------------------
 */

static void test_index_errors(void **state)
{
    static const char message[] =
        "m.tn:5: gather: index 7 is out of range: the axis has 3 elements";
    World *w = *state;
    float x[] = {1, 2, 3, 4, 5, 6};
    int32_t index[] = {2, 0};
    int64_t shape[] = {2};
    const DLTensor xd = host(x, shape_23);
    DLTensor id = {
        .data = index, .device = cpu, .ndim = 1, .dtype = {kDLInt, 32, 1}, .shape = shape};
    DLTensor rd = {0}, on_device;
    const DLTensor *args[] = {&xd, &id, &rd};
    ok(tn_call(w->m, NULL, GATHER, args, 3, NULL));
    assert_true(((float *)rd.data)[0] == 3 && ((float *)rd.data)[1] == 4);
    tn_tensor_release(&rd);

    index[1] = 7; /* results on the host: the call itself says it */
    assert_int_equal(tn_call(w->m, NULL, GATHER, args, 3, NULL), TN_INDEX);
    assert_string_equal(tn_last_error(), message);
    assert_null(rd.data);

    /* all on the device: a synchronisation says it */
    DLTensor xg = upload(w, x, 2, 3);
    ok(tn_tensor_create(w->ctx, gpu, id.dtype, 1, shape, &on_device));
    ok(tn_copy(&on_device, &id, w->s, 0));
    const DLTensor *there[] = {&xg, &on_device, &rd};
    ok(tn_call(w->m, NULL, GATHER, there, 3, NULL));
    tn_tensor_release(&rd);
    assert_int_equal(tn_stream_synchronize(w->s), TN_INDEX);
    assert_string_equal(tn_last_error(), message);
    ok(tn_stream_synchronize(w->s)); /* once */

    ok(tn_call(w->m, NULL, GATHER, there, 3, NULL));
    tn_tensor_release(&rd);
    assert_int_equal(tn_device_synchronize(w->ctx, gpu), TN_INDEX);

    /* or the next call, when the work is done by then */
    ok(tn_call(w->m, NULL, GATHER, there, 3, NULL));
    tn_tensor_release(&rd);
    tn_event *e;
    ok(tn_event_create(w->ctx, &e));
    ok(tn_event_record(e, w->s));
    ok(tn_event_synchronize(e));
    tn_event_destroy(e);
    assert_int_equal(tn_call(w->m, NULL, UPDATE, NULL, 0, NULL), TN_INDEX);
    index[1] = 1;
    ok(tn_copy(&on_device, &id, w->s, 0));
    ok(tn_call(w->m, NULL, GATHER, there, 3, NULL));
    ok(tn_stream_synchronize(w->s));
    tn_tensor_release(&rd);
    tn_tensor_release(&xg);
    tn_tensor_release(&on_device);
}

/* --- state ---------------------------------------------------------------------------------------
 */

static float read_w(World *w)
{
    tn_state_entry e;
    float v = 0;
    int64_t shape[] = {1};
    ok(tn_model_state_find(w->m, "w", &e));
    assert_int_equal(e.tensor.device.device_type, kDLCUDA);
    assert_non_null(e.grad.data);
    DLTensor h = {.data = &v, .device = cpu, .ndim = 1, .dtype = f32_type, .shape = shape};
    ok(tn_copy(&h, &e.tensor, w->s, 0));
    return v;
}

static void test_state(void **state)
{
    World *w = *state;
    double v = 0;
    assert_true(read_w(w) == 2);
    ok(tn_call(w->m, NULL, UPDATE, NULL, 0, NULL));
    assert_true(read_w(w) == 3);
    ok(tn_model_get_number(w->m, "loss.lr", &v));
    assert_true(v == 0.1);
    ok(tn_model_set_number(w->m, "loss.lr", 0.3));
    ok(tn_model_get_number(w->m, "loss.lr", &v));
    assert_true(v == 0.3);
    ok(tn_model_get_number(w->m, "loss.t", &v));
    assert_true(v == 4);
    ok(tn_model_set_number(w->m, "loss.t", 9));
    ok(tn_model_get_number(w->m, "loss.t", &v));
    assert_true(v == 9);
    ok(tn_model_zero_grad(w->m));
    ok(tn_model_seed(w->m, 77));
    ok(tn_model_init(w->m, 5));
    assert_true(read_w(w) == 2);
}

/* A file is the same whoever wrote it, and moves between devices. */
static void test_files(void **state)
{
    World *w = *state;
    char path[64], other[64];
    snprintf(path, sizeof path, "/tmp/tenon-cuda-%ld.safetensors", (long)getpid());
    snprintf(other, sizeof other, "/tmp/tenon-cpu-%ld.safetensors", (long)getpid());
    tn_model *on_cpu;
    const tn_model_options o = {.size = sizeof o, .device = cpu};
    ok(tn_call(w->m, NULL, UPDATE, NULL, 0, NULL));
    ok(tn_model_save(w->m, path));
    ok(tn_model_create(w->ctx, &pair_desc, &o, &on_cpu));
    ok(tn_model_load(on_cpu, path));
    tn_state_entry e;
    ok(tn_model_state_find(on_cpu, "w", &e));
    assert_true(*(float *)e.tensor.data == 3);
    ok(tn_model_save(on_cpu, other));
    FILE *f = fopen(path, "rb"), *g = fopen(other, "rb");
    assert_true(f && g);
    int a, b;
    do {
        a = getc(f);
        b = getc(g);
        assert_int_equal(a, b);
    } while (a != EOF);
    fclose(f);
    fclose(g);
    *(float *)e.tensor.data = 11;
    ok(tn_model_save(on_cpu, other));
    double v;
    ok(tn_model_set_number(w->m, "loss.t", 1));
    ok(tn__model_load(w->m, other, true, NULL, 0));
    assert_true(read_w(w) == 11);
    ok(tn_model_get_number(w->m, "loss.t", &v));
    assert_true(v == 4);
    tn_model_destroy(on_cpu);
    unlink(path);
    unlink(other);
}

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
    const struct CMUnitTest tests[] = {
        T(test_devices),       T(test_choice),         T(test_images),
        T(test_host_tensors),  T(test_device_tensors), T(test_strided),
        T(test_empty),         T(test_inout),          T(test_fill),
        T(test_constant),      T(test_print),          T(test_tape),
        T(test_mistakes),      T(test_index_errors),   T(test_state),
        T(test_files),         T(test_two_streams),    T(test_tape_over_streams),
        T(test_events),        T(test_wrapped_stream), T(test_steady_memory),
        T(test_out_of_memory), T(test_record_stream),  T(test_pinned),
        T(test_copies),        T(test_two_devices),    T(test_cpu_model_on_gpu_stream)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
