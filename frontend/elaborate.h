/* elaborate.h: from syntax trees to tensor IR: runs module structure, traces methods.
 * SPDX-License-Identifier: MIT */
#ifndef TENON_ELABORATE_H
#define TENON_ELABORATE_H

#include "frontend/ast.h"
#include "ir/tensor.h"

typedef struct {
    const char *name, *value; /* -D NAME=VALUE */
} Define;

/* A tensor of a file. */
typedef struct {
    DType dtype;
    uint32_t rank;
    int64_t shape[MAX_RANK];
    const void *data; /* row-major */
} LoadedArray;

typedef struct {
    /** Reads `name` (NULL: the only one) of a file; NULL, or why not. NULL: nothing can be read. */
    const char *(*load)(Arena *a, const char *path, const char *name, LoadedArray *out);
    const Define *defines;
    int ndefines;
    const char *const *include_dirs; /* -I */
    int ninclude_dirs;
    const char *std_dir;      /* overrides the built-in standard library; or NULL */
    const char *device;       /* -device=: "cpu", "cuda", "cuda:1"; NULL or "auto": not fixed */
    int gpus;                 /* -fplace=auto: modules may be spread over so many; 0: they stay */
    DType default_float;      /* DT_none: f32 */
    DType amp;                /* -famp=: bf16 or f16; DT_none: no casts */
    const char *instantiate;  /* -m 'LLTM(32, 128)': made instead of the file's models, or NULL */
    const char *only_model;   /* elaborate just this model, or NULL for all */
    bool inference_gradients; /* TRAINING graphs are traced with training = false (-run -grad) */
    bool check;               /* also what no model uses, as far as possible */
    bool tests;               /* also elaborate `test` declarations (TEST graphs) */
    bool no_outline;          /* attention that is written out stays so in STEP graphs */
    bool f64_tests;           /* with `tests`: gradcheck graphs are made in f64 */
} ElabOptions;

/** A method that its model does not export, and why: a clause. */
typedef struct {
    const char *model, *name, *why;
} InnerMethod;

typedef struct {
    VEC(Program *) models;
    VEC(InnerMethod) inner;
    VEC(const char *) files; /* every file read, for -MD (not the standard library) */
} Elaborated;

/** Elaborates the file (already read into cx->sources). False after diagnostics.
 * Each model becomes a Program whose graphs are METHOD (training = false) and TRAINING (true) for
 * every exported method, STEP and UPDATE for every `train`, INIT for its state, TEST for tests. */
bool elaborate(Ctx *cx, uint32_t file, const ElabOptions *o, Elaborated *out);

/** The text of a standard library file ("nn", "optim", "prelude"), or NULL. Generated from
 * frontend/std by the build. */
const char *std_text(const char *name);

#endif
