/* program.h: host IR as the const tables of runtime/include/tenon_program.h, and the typed entry
 * points over them. SPDX-License-Identifier: MIT */
#ifndef TENON_CODEGEN_PROGRAM_H
#define TENON_CODEGEN_PROGRAM_H

#include "codegen/c.h"
#include "ir/host.h"

/** The model's name as the beginning of C identifiers. */
const char *model_prefix(Arena *a, const HostModel *m);
/** "lltm.tn" of the file that the model stands in. */
const char *model_source(Arena *a, const HostModel *m);
/** "lltm.tn:12" of a place; "" for nowhere. */
const char *where_text(const Program *p, Arena *a, Span at);
/** A string as a C (and JSON) literal, with its quotes. */
const char *quoted(Arena *a, const char *s);

/* Which tables, beside the model and its printed kernels. */
typedef struct {
    bool second; /* of the same file as the CPU's: names begin with cuda_, and state is shared */
    const char
        *cuda_desc; /* of the same model for CUDA, printed before: "&lltm_cuda_desc"; or NULL */
    int nimages;    /* of a model for CUDA; the table `images` is printed before */
} TableOptions;

/** The tables of all programs, of state and of kernels, and `const tn_model_desc MODEL_desc`
 * (MODEL_cuda_desc for the second). The functions of `kernels` (one for each of the model's) have
 * been printed before. */
void program_tables(const HostModel *m, const PrintedKernel *kernels, const TableOptions *o,
                    StrBuf *out);
/** The tables of state alone, once in a file. */
void program_state(const HostModel *m, StrBuf *out);

/** The bodies of the functions that header.c declares. */
void program_entries(const HostModel *m, StrBuf *out);

/* Code of sizes, shared by the programs of a model. */
typedef struct {
    Interner *lines;            /* "TN_D_SYM, 0, TN_D_END," */
    VEC(const char *) comments; /* "B", of each line */
    VEC(uint32_t) starts;       /* word at which each line begins */
    uint32_t words;             /* of all lines */
} SizeCode;

/* One program's tables, and its element of the table of programs (program_tables.c). Adds to the
 * code of sizes, which is printed behind the tables. */
void program_table(const HostModel *m, const HostProgram *h, const char *prefix, SizeCode *code,
                   StrBuf *out, StrBuf *element);
void program_size_code(const SizeCode *code, const char *prefix, StrBuf *out);

/** Whether callers see the program as a function; init and tests they do not. */
bool program_is_entry(const HostProgram *h);
/** The C parameter of argument or result `i`. */
const char *entry_arg_name(Arena *a, const HostModel *m, const HostProgram *h, uint32_t i);
/** Whether this result is an argument that is updated in place: its pointer stands for both. */
bool entry_is_updated(const HostProgram *h, uint32_t result);
/** "tn_status lltm_forward(lltm *m, tn_stream *s, const DLTensor *x, DLTensor *y)", unbroken. */
const char *entry_prototype(Arena *a, const HostModel *m, const HostProgram *h);

#endif
