/* absent.c: where there is no GPU, or none is visible: what is missing is said, the CPU is used.
 * SPDX-License-Identifier: MIT */
#include "tests/runtime/cuda/world.h"

static void test_absent(void **state)
{
    tn_context *ctx;
    tn_model *m;
    tn_stream *s;
    tn_model_options o = {.size = sizeof o};
    float x[] = {1, 2, 3, 4, 5, 6}, y[6];
    (void)state;
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    ok(tn_context_create(NULL, &ctx));
    assert_int_equal(tn_device_count(ctx, kDLCUDA), 0);
    assert_int_equal(tn_device_available(ctx, gpu), TN_UNSUPPORTED);
    assert_int_equal(strncmp(tn_last_error(), "cuda:0: the CUDA driver ", 24), 0);
    assert_true(strstr(tn_last_error(), "(libcuda.so.1) was not found") ||
                strstr(tn_last_error(), "sees no GPU (CUDA_VISIBLE_DEVICES is '')"));
    assert_int_equal(tn_device_default(ctx).device_type, kDLCPU);
    ok(tn_model_create(ctx, &pair_desc, &o, &m));
    assert_int_equal(tn_model_device(m).device_type, kDLCPU);
    ok(tn_stream_create(ctx, &s));
    assert_null(tn_stream_native(s));
    const DLTensor xd = host(x, shape_23), yd = host(y, shape_23);
    const DLTensor *args[] = {&xd, &yd};
    ok(tn_call(m, s, CONSTANT, args, 2, NULL));
    assert_true(y[5] == 42);
    tn_stream_destroy(s);
    tn_model_destroy(m);
    o.device = gpu;
    assert_int_equal(tn_model_create(ctx, &pair_desc, &o, &m), TN_UNSUPPORTED);
    assert_null(m);
    assert_int_equal(tn_model_create(ctx, &only_cuda, NULL, &m), TN_UNSUPPORTED);
    assert_non_null(strstr(tn_last_error(), "the CUDA driver "));
    void *p; /* ordinary memory */
    ok(tn_host_alloc(ctx, 100, &p));
    memset(p, 1, 100);
    ok(tn_host_register(ctx, x, sizeof x));
    ok(tn_host_unregister(ctx, x));
    assert_int_equal(tn_memory_allocated(ctx, cpu), 192);
    tn_host_free(ctx, p);
    assert_int_equal(tn_memory_allocated(ctx, cpu), 0);
    ok(tn_memory_empty_cache(ctx, cpu));
    ok(tn_device_synchronize(ctx, cpu));
    char text[100];
    assert_true(tn_memory_snapshot(ctx, cpu, text, sizeof text) < sizeof text);
    assert_int_equal(strncmp(text, "{\"device\": \"cpu\"", 16), 0);
    tn_context_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_absent)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
