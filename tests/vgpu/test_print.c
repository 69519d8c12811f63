/* test_print.c: printf of device code, from the calls that compilers make of it: what arrives on
 * stdout. SPDX-License-Identifier: MIT */
#include "tests/vgpu/user.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Arguments lie in local memory, each on a multiple of its size; strings in device memory. */
static const char kernel[] =
    ".version 8.0\n.target sm_75\n.address_size 64\n"
    ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
    ".global .align 1 .b8 text[] = {37, 100, 124, 37, 45, 53, 117, 124, 37, 54, 46, 50, 102, 124, "
    "37, 115,\n"
    " 124, 37, 99, 124, 37, 37, 124, 37, 108, 108, 100, 124, 37, 48, 56, 120, 124, 37, 112, 10, "
    "0};\n"
    ".global .align 1 .b8 word[] = {119, 111, 114, 100, 0};\n"
    ".global .align 1 .b8 bare[] = {98, 97, 114, 101, 37, 10, 0};\n"
    ".visible .entry say(.param .u64 out) {\n"
    ".local .align 8 .b8 depot[64];\n.reg .b64 %d<10>; .reg .b32 %r<8>; .reg .f64 %f<3>; .reg "
    ".pred %p<2>;\n"
    "mov.u64 %d1, depot; cvta.local.u64 %d2, %d1;\n"
    "mov.u32 %r1, %tid.x; sub.s32 %r2, %r1, 2; st.local.u32 [depot], %r2; st.local.u32 [depot+4], "
    "%r1;\n"
    "cvt.rn.f64.u32 %f1, %r1; mul.f64 %f1, %f1, 0d3FF8000000000000; st.local.f64 [depot+8], %f1;\n"
    "mov.u64 %d3, word; cvta.global.u64 %d4, %d3; st.local.u64 [depot+16], %d4;\n"
    "add.u32 %r3, %r1, 65; st.local.u32 [depot+24], %r3;\n"
    "st.local.u64 [depot+32], -5000000000; st.local.u32 [depot+40], 48879; st.local.u64 "
    "[depot+48], 4096;\n"
    "mov.u64 %d5, text; cvta.global.u64 %d6, %d5;\n"
    "{ .param .b64 p0; .param .b64 p1; .param .b32 q;\n st.param.b64 [p0], %d6; st.param.b64 [p1], "
    "%d2;\n"
    "call.uni (q), vprintf, (p0, p1); ld.param.b32 %r4, [q]; }\n"
    "setp.ne.u32 %p1, %r1, 1; @%p1 bra end; mov.u64 %d7, bare; cvta.global.u64 %d8, %d7;\n"
    "{ .param .b64 p0; .param .b64 p1; .param .b32 q;\n st.param.b64 [p0], %d8; st.param.b64 [p1], "
    "0;\n"
    "call.uni (q), vprintf, (p0, p1); }\n"
    "end: ld.param.u64 %d9, [out]; mul.wide.u32 %d1, %r1, 4; add.u64 %d9, %d9, %d1;\n"
    "st.global.u32 [%d9], %r4; ret; }\n";

static const char expected[] = "-2|0    |  0.00|word|A|%|-5000000000|0000beef|0x1000\n"
                               "-1|1    |  1.50|word|B|%|-5000000000|0000beef|0x1000\n"
                               "0|2    |  3.00|word|C|%|-5000000000|0000beef|0x1000\n"
                               "bare%\n";

static void launch(int results[3])
{
    CUmodule m;
    CUdeviceptr out = user_alloc(3 * sizeof *results);
    void *args[] = {&out};
    CHECK(cuModuleLoadData(&m, kernel));
    CHECK(cuLaunchKernel(user_function(m, "say"), 1, 1, 1, 3, 1, 1, 0, NULL, args, NULL));
    CHECK(cuCtxSynchronize());
    CHECK(cuMemcpyDtoH(results, out, 3 * sizeof *results));
    CHECK(cuMemFree(out));
    CHECK(cuModuleUnload(m));
}

int main(void)
{
    char got[1024] = "";
    int results[3] = {0, 0, 0}, real = dup(STDOUT_FILENO);
    FILE *file = tmpfile();
    if (!file || real < 0)
        return 1;
    user_context();
    fflush(stdout);
    dup2(fileno(file), STDOUT_FILENO);
    launch(results);
    fflush(stdout);
    dup2(real, STDOUT_FILENO);
    rewind(file);
    got[fread(got, 1, sizeof got - 1, file)] = '\0';
    CHECK(cuDevicePrimaryCtxRelease(0));
    if (strcmp(got, expected)) {
        fprintf(stderr, "printed:\n%s\nexpected:\n%s\n", got, expected);
        return 1;
    }
    for (int k = 0; k < 3; k++)
        if (results[k] < 0) {
            fprintf(stderr, "vprintf returned %d\n", results[k]);
            return 1;
        }
    return 0;
}
