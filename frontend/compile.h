/* compile.h: the stages in order, each timed: read, elaborate, passes, lower.
 * SPDX-License-Identifier: MIT */
#ifndef TENON_COMPILE_H
#define TENON_COMPILE_H

#include "frontend/elaborate.h"
#include "ir/host.h"
#include "passes/pass.h"

enum { STAGE_TIMES = 64 };

typedef struct {
    const char *name;
    double ms;
    size_t bytes; /* of the compiler's memory, so far */
} StageTime;

typedef struct {
    Ctx *cx;
    const char *path;
    uint32_t file;
    ElabOptions elab;
    PassOptions pass;
    LowerOptions lower; /* `cuda` is set by compile_lower */
    bool debug;         /* -g */
    Elaborated models;
    StageTime times[STAGE_TIMES];
    int ntimes;
} Compile;

/** A compilation of one file with all defaults. */
Compile *compile_create(const char *path);
void compile_destroy(Compile *c);

/** Each returns false after diagnostics (in c->cx->diags). Later ones need the earlier ones. */
bool compile_read(Compile *c);
bool compile_elaborate(Compile *c);
bool compile_passes(Compile *c);
/** Host and kernel IR of one model for one target; NULL after diagnostics. */
HostModel *compile_lower(Compile *c, Program *p, bool cuda);

/** Notes the time since `from` (compile_now) under a name. */
void compile_time(Compile *c, const char *name, double from);
double compile_now(void); /* milliseconds */
/** The table of -bench. */
void compile_print_times(const Compile *c, StrBuf *out);

#endif
