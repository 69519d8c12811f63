/* texts.h: files of runtime/kernels as strings, made while building (embed.c).
 * SPDX-License-Identifier: MIT */
#ifndef TENON_TEXTS_H
#define TENON_TEXTS_H

extern const char codegen_math_text[];
extern const char codegen_number_text[];
extern const char codegen_program_text[]; /* runtime/include/tenon_program.h */
extern const char codegen_reducers_text[];

#endif
