/* options.h: the command line of `tenon`; its rows are in options.def.
 * SPDX-License-Identifier: MIT */
#ifndef TENON_OPTIONS_H
#define TENON_OPTIONS_H

#include "frontend/elaborate.h"
#include "ir/base/diag.h"
#include "ir/base/strbuf.h"
#include "ir/base/vec.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum {
    MODE_executable, /* none was given */
    MODE_compile,    /* -c */
    MODE_source,     /* -S */
    MODE_shared,
    MODE_run,
    MODE_train,
    MODE_test,
    MODE_check,
    MODE_show, /* -E */
    MODE_report,
    MODE_help, /* these two before anything else */
    MODE_version,
    MODE_explain,
} Mode;

typedef enum { SHOW_model, SHOW_ast, SHOW_ir, SHOW_kernels, SHOW_host, SHOW_dot } ShowStage;
typedef enum { REPORT_text, REPORT_json, REPORT_html } ReportForm;

typedef struct {
    const char *name;
    bool on;
} WarningSwitch;

typedef VEC(const char *) Texts;

typedef struct {
    Mode mode;
    ShowStage show;
    const char *show_pass; /* -E=ir:PASS; NULL: after all */
    ReportForm report;
    bool bench, python;

    const char *file;   /* the .tn file; never NULL but for help, version, explain */
    const char *method; /* -run: the word after the file, or NULL */
    Texts operands;     /* NAME=VALUE of -run and -report */
    Texts cotangents;   /* d_NAME=VALUE behind -grad */
    const char *data;   /* -train: the file of arrays */

    const char *output; /* or NULL */
    Texts include_dirs;
    VEC(Define) defines;
    const char *instantiate;
    bool depend;
    const char *depend_file;

    bool target_given, cpu, cuda; /* without -target both are set */
    Texts arch;
    const char *march;  /* -march: for such processors only; NULL: for all of the kind */
    const char *device; /* "cpu", "cuda", "cuda:N" or "auto" */
    bool place_auto;

    DType dtype; /* DT_none: not given */
    DType amp;   /* DT_none: off */
    bool tune;   /* -tune */
    bool fast_math, tf32, deterministic, cublas;
    const char *only;      /* -only, or NULL */
    const char *gradients; /* -fgrad, or NULL */
    const char *remat;     /* -fremat, or NULL */

    int level;
    Texts disabled; /* passes */
    bool debug;

    VEC(WarningSwitch) warnings;
    bool werror, no_warnings, json;
    const char *explain;

    bool grad, training;
    const char *load, *save, *resume;
    bool seed_given;
    uint64_t seed;
    int epochs, batch; /* 0: not given */
    double lr;         /* 0: not given */
    double val;
    int threads; /* 0: not given */
    bool verbose;
} Options;

/** Reads the command line; argv[0] is skipped. False when it is wrong: `message` then holds what to
 * say, one line, and the exit status is 2. */
bool options_parse(Arena *a, int argc, char *const *argv, Options *out, StrBuf *message);

/** Hands the -W options to where messages are collected. */
void options_warnings(const Options *o, Diags *d);

/** The text of --help. */
void options_help(StrBuf *out);

/** Row by row, for documentation and tests: false past the last. */
typedef struct {
    const char *section, *spelling, *separator, *argument, *help;
} OptionRow;
bool options_row(int i, OptionRow *out);

#endif
