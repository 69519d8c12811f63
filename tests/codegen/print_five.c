/* print_five.c: prints the kernels of five.c: `print_five c` or `print_five cuda`, whole files.
 * SPDX-License-Identifier: MIT */
#include "codegen/cuda.h"
#include "codegen/paste.h"
#include "tests/codegen/five.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    bool cuda = argc > 1 && !strcmp(argv[1], "cuda");
    Five f = five_make(cuda);
    StrBuf kernels = {.a = f.cx->perm}, out = {.a = f.cx->perm};
    for (uint32_t i = 0; i < f.kernels.n; i++) {
        const char *wrong = kernel_verify(f.p, f.kernels.at[i]);
        if (wrong)
            fprintf(stderr, "kernel %u: %s\n", i, wrong);
        if (cuda)
            cuda_kernel(f.p, f.kernels.at[i], i, &kernels);
        else
            c_kernel(f.p, f.kernels.at[i], i, RUNS_OFTEN, &kernels);
    }
    if (!cuda)
        sb_puts(&out, "#include <math.h>\n#include <stdint.h>\n#include <string.h>\n\n"
                      "#include \"tenon_program.h\"\n\n");
    if (cuda)
        cuda_vectors(f.cx->perm, sb_text(&kernels), &out);
    paste_functions(f.cx->perm, cuda ? TARGET_CUDA : TARGET_C, sb_text(&kernels), &out);
    sb_puts(&out, sb_text(&kernels));
    fputs(sb_text(&out), stdout);
    five_free(&f);
    return 0;
}
