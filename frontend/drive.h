/* drive.h: what each mode of the command does, between options and stages. SPDX-License-Identifier:
 * MIT */
#ifndef TENON_DRIVE_H
#define TENON_DRIVE_H

#include "frontend/compile.h"
#include "frontend/message.h"
#include "frontend/options.h"

enum { STATUS_DONE, STATUS_INPUT, STATUS_USAGE, STATUS_MACHINE };

typedef struct {
    const Options *o;
    Compile *c;
    Arena *a;
    int said;           /* messages that were printed */
    const char *method; /* of -run, without the model's name; or NULL */
} Drive;

/** Runs the mode that the options name. The exit status. */
int drive(Drive *d);

/* drive_show.c */
int drive_show(Drive *d);   /* -E */
int drive_report(Drive *d); /* -report */
/* drive_code.c */
int drive_code(Drive *d); /* -c, -S, -shared, executable */
int drive_run(Drive *d);
int drive_train(Drive *d);
/* drive_test.c */
int drive_test(Drive *d);

/** Messages since the last time to standard error. STATUS_INPUT if one is an error, else
 * STATUS_DONE. */
int drive_messages(Drive *d);
/** Reads, elaborates, and runs the tensor passes. STATUS_DONE, or the status after messages. */
int drive_front(Drive *d);
/** The program of the one model that -run, -train and executables take. NULL after a message. */
Program *drive_model(Drive *d);
/** Why nothing can be written to $TMPDIR, or NULL (drive_code.c). */
const char *drive_bad_temporary_folder(Arena *a);
/** Writes a text where -o or -MF says: a file whole or not at all, or a pipe or terminal. */
int drive_write(Drive *d, const char *path, const StrBuf *text);

#endif
