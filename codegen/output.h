/* output.h: what the command writes: sources, objects, libraries; and models compiled into this
 * process. Nothing is left behind or half written after a failure. SPDX-License-Identifier: MIT */
#ifndef TENON_CODEGEN_OUTPUT_H
#define TENON_CODEGEN_OUTPUT_H

#include "ir/host.h"

/* --- texts ---------------------------------------------------------------------------------------
 */

/** The whole C file: banner, scalar functions, kernels, tables, entry points. Without `entries` it
 * stands alone: the tables' header is pasted, nothing of the runtime is called. */
void codegen_c(const HostModel *cpu, bool entries, StrBuf *out);

/* Device code in a file, as the C text embeds it. */
typedef struct {
    int arch;
    bool is_ptx;
    const char *file;
    size_t bytes, whole; /* whole != 0: packed, of so many bytes */
} ImageFile;

/* The C file of a model for one or both targets. */
typedef struct {
    const HostModel *cpu, *cuda; /* one may be NULL */
    bool entries;
    const ImageFile *images; /* for cuda. Without: with a CPU model, a cubin that macros name when
                                the text is compiled; else none, the loader fills them in */
    int nimages;
    StrBuf *cu; /* gets the CUDA file as well: one printing is enough. May be NULL */
} CText;

void codegen_c_text(const CText *t, StrBuf *out);
/** The whole CUDA file: banner, scalar functions, kernels. */
void codegen_cuda(const HostModel *cuda, StrBuf *out);

/* --- files ---------------------------------------------------------------------------------------
 */

typedef enum {
    OUTPUT_SOURCES, /* DIR/NAME.c .h .json, and .cu where there is a CUDA model */
    OUTPUT_OBJECT,  /* NAME.o and NAME.h */
    OUTPUT_SHARED   /* libNAME.so and NAME.h */
} OutputKind;

typedef struct {
    OutputKind kind;
    const HostModel *cpu; /* one of the two may be NULL */
    const HostModel *cuda;
    const char *const *archs; /* for CUDA: "sm_80"; used unless kind is SOURCES */
    int narchs;
    const char *out; /* SOURCES: directory ("" or NULL: the current one), made if missing; else
                        the file (NULL: by the model's name) */
    int level;       /* of -O */
    bool debug;      /* -g */
    const char *march; /* of the C compiler: for such processors only; NULL: for all of the kind */
    const char *const *include_dirs; /* further places of tenon.h */
    int ninclude_dirs;
    bool python;         /* with SOURCES and SHARED: NAME.py as well */
    const char *runtime; /* libtenon.so, for NAME.py; may be NULL */
} Output;

/* Like exit statuses: 0 done, 1 a file cannot be written, 3 the machine lacks something, 4 a
 * compiler refused what was generated. */
typedef struct {
    int status;
    const char *message;     /* status != 0 */
    VEC(const char *) files; /* written, in order */
} OutputResult;

OutputResult codegen_write(Arena *a, const Output *o);

/** Makes device code of o->cuda for o->archs, packed, in files PREFIX0, PREFIX1 .. for `text` to
 * embed when it is compiled; afterwards, and also on failure, they are to be removed. Status as
 * above, with *message. */
int codegen_image_files(Arena *a, const Output *o, const char *prefix, CText *text,
                        const char **message);
void codegen_image_files_remove(const CText *text);

/** Runs the C compiler ($CC, else cc) without a shell. `args`: NULL-terminated, without the
 * compiler. On failure *log is what it said. Status as above. */
int codegen_cc(Arena *a, const char *const *args, const char **log);

/** Writes a whole file: temporary name, fsync, rename. NULL, or why not. */
const char *codegen_write_file(Arena *a, const char *path, const void *data, size_t n);

/* --- in memory -----------------------------------------------------------------------------------
 */

typedef struct {
    int status; /* as above */
    const char *message;
    const void *desc; /* const tn_model_desc *, valid while the process runs */
    bool cached;      /* it was compiled before */
} LoadedModel;

/** Compiles the model for this processor and loads it; the result is kept in $TENON_CACHE, else
 * $XDG_CACHE_HOME/tenon, else ~/.cache/tenon. Safe with several processes at once; a damaged entry
 * is made anew. */
LoadedModel codegen_load(Arena *a, const HostModel *cpu, int level);

/** The same for a model with kernels for CUDA, and perhaps some for the CPU: device code for one architecture (80: a cubin, and PTX
 * where a driver refuses that), made by NVRTC and kept in the same place. */
LoadedModel codegen_load_cuda(Arena *a, const HostModel *cuda, int arch, int level);

#endif
