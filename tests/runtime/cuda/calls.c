/* calls.c: the CUDA backend on whatever libcuda.so.1 is found: the virtual GPU in the test
 * suite, a real one elsewhere. Devices, code, calls, state. SPDX-License-Identifier: MIT */
#include "tests/runtime/cuda/world.h"

#include "runtime/backend.h"
#include "runtime/state_files.h"

#include <unistd.h>

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
    /* code for another GPU: an error where a GPU is asked for, else the CPU's code runs */
    tn_image newer = only_cuda.images[0];
    tn_model_desc not_this = only_cuda;
    newer.arch = 998;
    not_this.images = &newer;
    other.cuda = &not_this;
    o.device = gpu;
    assert_int_equal(tn_model_create(w->ctx, &other, &o, &m), TN_UNSUPPORTED);
    assert_non_null(strstr(tn_last_error(), "compile it with -arch=sm_"));
    ok(tn_model_create(w->ctx, &other, NULL, &m));
    assert_int_equal(tn_model_device(m).device_type, kDLCPU);
    ok(tn_call(m, NULL, UPDATE, NULL, 0, NULL));
    tn_model_destroy(m);
    o.device.device_id = 99;
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

/* Code for this very GPU that its driver does not take, as the virtual GPU takes none: the PTX. */
static void test_fallback(void **state)
{
    static const unsigned char elf[64] = {0x7f, 'E', 'L', 'F', 2, 1, 1};
    World *w = *state;
    tn_model *m;
    tn_device_info info = {.size = sizeof info};
    tn_model_desc d = only_cuda;
    tn_image x[2] = {only_cuda.images[0], {0}};
    if (!getenv("VGPU_DEVICES"))
        return;
    ok(tn_device_properties(w->ctx, gpu, &info));
    x[1] = (tn_image){.arch = info.major * 10 + info.minor, .data = elf};
    d.images = x;
    d.nimages = 2;
    ok(tn_model_create(w->ctx, &d, NULL, &m));
    tn_model_destroy(m);
    x[0].arch = 998; /* which there is not: what the driver says */
    assert_int_equal(tn_model_create(w->ctx, &d, NULL, &m), TN_DRIVER);
    assert_non_null(strstr(tn_last_error(), "CUDA_ERROR_NO_BINARY_FOR_GPU (209)"));
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

/* Where a result may be; after a failure its descriptor is as it was. */
static void test_wishes(void **state)
{
    World *w = *state;
    float x[] = {1, 2, 3, 4, 5, 6};
    const DLTensor xd = host(x, shape_23);
    DLTensor y = {.device = gpu, .byte_offset = 8}, z = {.device = {kDLCUDA, 1}};
    assert_int_equal(forward(w, NULL, &xd, &y, &z), TN_DEVICE);
    assert_string_equal(tn_last_error(), "forward: 'z' is wanted on another device: it may be in "
                                         "host memory or on cuda:0");
    assert_true(!y.data && !z.data && y.byte_offset == 8);
    assert_int_equal(y.device.device_type, kDLCUDA);
    assert_int_equal(z.device.device_id, 1);
    z.device = (DLDevice){kDLCUDAHost, 0};
    assert_int_equal(forward(w, NULL, &xd, &y, &z), TN_DEVICE);
    assert_non_null(strstr(tn_last_error(), "pass memory of tn_host_alloc"));
    assert_int_equal(z.device.device_type, kDLCUDAHost);
    z.device = gpu;
    ok(forward(w, NULL, &xd, &y, &z));
    assert_true(y.device.device_type == kDLCUDA && z.device.device_type == kDLCUDA);
    tn_tensor_release(&y);
    tn_tensor_release(&z);
    tn_model *m;
    const tn_model_options o = {.size = sizeof o, .device = cpu};
    ok(tn_model_create(w->ctx, &pair_desc, &o, &m));
    const DLTensor *args[] = {&xd, &y};
    y.device = gpu;
    assert_int_equal(tn_call(m, NULL, CONSTANT, args, 2, NULL), TN_DEVICE);
    assert_string_equal(tn_last_error(),
                        "constant: 'y' is wanted on another device: it may be in host memory");
    tn_model_destroy(m);
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

/* A mistake is said once, and not lost by whoever asks for it too early or moves the instance. */
static void test_mistakes_stay(void **state)
{
    World *w = *state;
    float x[] = {1, 2, 3, 4, 5, 6};
    int32_t index[] = {2, 7};
    int64_t shape[] = {2};
    DLTensor id = {
        .data = index, .device = cpu, .ndim = 1, .dtype = {kDLInt, 32, 1}, .shape = shape};
    DLTensor rd = {0}, xg = upload(w, x, 2, 3), on_device;
    ok(tn_tensor_create(w->ctx, gpu, id.dtype, 1, shape, &on_device));
    ok(tn_copy(&on_device, &id, w->s, 0));
    const DLTensor *args[] = {&xg, &on_device, &rd};
    tn__device *d = tn__device_get(w->ctx, gpu);
    int seen = 0;
    ok(tn_call(w->m, NULL, GATHER, args, 3, NULL));
    tn_tensor_release(&rd);
    /* as another thread does, whose synchronisation ended before that call */
    seen += d->ops->mistakes_on(d, w->s->id) == TN_INDEX;
    seen += tn_stream_synchronize(w->s) == TN_INDEX;
    seen += tn_stream_synchronize(w->s) == TN_INDEX;
    assert_int_equal(seen, 1);

    ok(tn_call(w->m, NULL, GATHER, args, 3, NULL));
    tn_tensor_release(&rd);
    assert_int_equal(tn_model_to(w->m, cpu), TN_INDEX);
    assert_int_equal(tn_model_device(w->m).device_type, kDLCUDA);
    ok(tn_model_to(w->m, cpu));
    ok(tn_model_to(w->m, gpu));
    tn_tensor_release(&xg);
    tn_tensor_release(&on_device);
}

/* Hundreds of bad indices: one is reported, and its words belong together. */
static void test_many_index_errors(void **state)
{
    enum { N = 600 };
    World *w = *state;
    static float x[N * 3];
    static int32_t index[N];
    int64_t rows[] = {N, 3};
    const DLTensor xd = host(x, rows);
    DLTensor id = {
        .data = index, .device = cpu, .ndim = 1, .dtype = {kDLInt, 32, 1}, .shape = rows};
    DLTensor rd = {0};
    const DLTensor *args[] = {&xd, &id, &rd};
    for (int i = 0; i < N; i++)
        index[i] = i;
    assert_int_equal(tn_call(w->m, NULL, GATHER, args, 3, NULL), TN_INDEX);
    int got = -1;
    assert_int_equal(sscanf(tn_last_error(), "m.tn:5: gather: index %d is out of range", &got), 1);
    assert_true(got >= 3 && got < N);
}

/* --- state ---------------------------------------------------------------------------------------
 */

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

/* From one device to another and back, with all of the state; tapes stay behind. */
static void test_moves(void **state)
{
    World *w = *state;
    float x[] = {1, 2, 3, 4, 5, 6};
    const DLTensor xd = host(x, shape_23), m = host(times_m, shape_m);
    DLTensor y = {0}, z = {0};
    const DLTensor *args[] = {&xd, &m, &y, &z}, *back[] = {&xd, NULL, NULL};
    static const DLDevice places[] = {{kDLCPU, 0}, {kDLCUDA, 0}, {kDLCUDA, 0}, {kDLCPU, 0}, {0}};
    tn_tape *tape = NULL;
    double v = 0;
    ok(tn_model_set_number(w->m, "loss.t", 8));
    ok(tn_call(w->m, NULL, TRAIN, args, 4, &tape));
    tn_tensor_release(&y);
    tn_tensor_release(&z);
    assert_int_equal(tn_model_to(w->m, (DLDevice){kDLCUDA, 99}), TN_UNSUPPORTED);
    for (int i = 0; i < 5; i++) {
        ok(tn_call(w->m, NULL, UPDATE, NULL, 0, NULL));
        ok(tn_model_to(w->m, places[i]));
        assert_int_equal(tn_model_device(w->m).device_type,
                         places[i].device_type ? places[i].device_type : kDLCUDA);
        ok(forward(w, NULL, &xd, &y, &z));
        for (int k = 0; k < 6; k++)
            assert_true(((float *)y.data)[k] == (float)(i + 3) * x[k]);
        tn_tensor_release(&y);
        tn_tensor_release(&z);
        ok(tn_model_get_number(w->m, "loss.t", &v));
        assert_true(v == 8);
    }
    assert_int_equal(tn_call(w->m, NULL, BACKWARD, back, 3, &tape), TN_STATE);
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

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {
        T(test_devices),       T(test_choice),       T(test_images),
        T(test_fallback),      T(test_host_tensors), T(test_device_tensors),
        T(test_strided),       T(test_empty),        T(test_inout),
        T(test_fill),          T(test_constant),     T(test_print),
        T(test_tape),          T(test_mistakes),     T(test_wishes),
        T(test_mistakes_stay), T(test_index_errors), T(test_many_index_errors),
        T(test_state),         T(test_moves),        T(test_files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
