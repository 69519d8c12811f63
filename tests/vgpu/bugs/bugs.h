/* bugs.h: programs with one mistake, and what the virtual GPU has to say about each.
 * SPDX-License-Identifier: MIT */
#ifndef VGPU_BUGS_H
#define VGPU_BUGS_H

#include "tests/vgpu/user.h"

#include <stdbool.h>

typedef struct {
    const char *name;
    const char *kind; /* of the only finding: "bounds" in error[bounds] */
    const char *says; /* also in its text, or NULL */
    const char *line; /* mark "planted: ..." of the source line it names, or NULL */
    void (*run)(CUmodule m, int wrong);
    const char *settings; /* "VGPU_FAIL=cuMemAlloc:2", for the wrong run; or NULL */
    int status;           /* of the wrong run: 86, or what the program makes of a failed call */
    int seeds;            /* how many are tried, each in each order of streams; 0: one */
    const char *always;   /* settings of both runs, or NULL */
    int findings;         /* how many there are; 0: one */
} Bug;

extern const Bug bugs_kernel[], bugs_host[]; /* each ends with a row without a name */

/** A program that watches for errors: prints a failed call; the exit status becomes 3. */
void expect(CUresult r, const char *what);
void failure(const char *what, const char *name);
#define EXPECT(call) expect(call, #call)

/** One launch on the default stream of blocks x threads, and wait. */
CUresult launch(CUmodule m, const char *kernel, unsigned blocks, unsigned threads, void **args);

#endif
