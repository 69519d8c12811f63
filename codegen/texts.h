/* texts.h: files of runtime/kernels as strings, made while building (embed.c).
 * SPDX-License-Identifier: MIT */
#ifndef TENON_TEXTS_H
#define TENON_TEXTS_H

#include <stddef.h>

/* A function of one of the texts: what stands behind the line that names it. */
typedef struct {
    const char *name, *text;
    size_t ntext;
} TextPiece;

/* All of them, in the order of strcmp. */
extern const TextPiece codegen_pieces[];
extern const size_t codegen_npieces;

extern const char codegen_math_text[];
extern const char codegen_number_text[];
extern const char codegen_program_text[]; /* runtime/include/tenon_program.h */
extern const char codegen_reducers_text[];
extern const char codegen_tile_text[];
extern const char codegen_last_text[];
extern const char codegen_scatter_text[], codegen_cuda_scatter_text[];
extern const char codegen_cumulate_text[], codegen_cuda_cumulate_text[];
extern const char codegen_attention_text[], codegen_cuda_attention_text[];
extern const char codegen_module_text[]; /* module.py */
extern const char codegen_sort_text[], codegen_cuda_sort_text[];

#endif
