/* data.h: named arrays of the command line: files (npz, npy, safetensors) and values made on the
 * spot; a thin layer over the runtime's files. SPDX-License-Identifier: MIT */
#ifndef TENON_DATA_H
#define TENON_DATA_H

#include "ir/base/arena.h"
#include "runtime/include/tenon.h"

#include <stdbool.h>

enum { NUMBER_TEXT = 400 };

typedef struct {
    const char *name;
    DLTensor tensor; /* contiguous, row-major, host memory */
} Array;

typedef struct {
    Array *at;
    int n, cap;
    Arena *a;
    void **owned; /* files and memory that the arrays point into */
    int nowned, owned_cap;
} Arrays;

Arrays *arrays_create(Arena *a);
void arrays_destroy(Arrays *s); /* frees what was loaded */

/** Reads every array of a file (an .npy file's array is called `npy_name`). NULL on success, else
 * the message. */
const char *arrays_load(Arrays *s, const char *path, const char *npy_name);
/** Whether arrays can be written there, by the name's end and the folder: better said before a long
 * computation. NULL: yes. */
const char *arrays_can_save(Arena *a, const char *path);
/** Writes them, atomically. NULL on success. */
const char *arrays_save(const Arrays *s, const char *path);
/** What `from` owns becomes s's. */
void arrays_adopt(Arrays *s, Arrays *from);
const Array *arrays_find(const Arrays *s, const char *name);
/** Adds an array; the memory stays the caller's. */
void arrays_add(Arrays *s, const char *name, DLTensor t);
/** A zeroed array of our own; its data is NULL where there is no memory of that size. */
DLTensor arrays_make(Arrays *s, int dtype, int rank, const int64_t *shape);

/** The next number of a stream that shuffles and makes test data: splitmix64 (Steele, Lea, Flood
 * 2014). */
uint64_t random_next(uint64_t *state);

int64_t tensor_numel(const DLTensor *t);
size_t tensor_bytes(const DLTensor *t);
/** "f32[3, 4]" */
const char *tensor_text(Arena *a, const DLTensor *t);
/** TN_F32 and so on; 0: none of ours. */
int data_dtype(const DLTensor *t);
/** Shows a tensor on standard output: name, type, and its elements, the middle of many left out.
 * Fits tn_context_set_print. */
void tensor_show(void *unused, const char *name, const DLTensor *t);

/** An element, by its row-major number, as a double. */
double tensor_get(const DLTensor *t, int64_t i);
void tensor_set(DLTensor *t, int64_t i, double v);

/** What a call was given, to explain its failure. */
typedef struct {
    const char *const *files; /* of the model, as the user named them */
    int nfiles;
    const Array *args; /* in memory of the host */
    int nargs;
} CallSite;

/** Says why a call of the runtime failed: the place in the text with the file as the user named it;
 * which argument holds an index that is out of range. The exit status. */
int runtime_error(Arena *a, int status, const CallSite *site);

/** A number as it is shown: printf's %.*f or, with `general`, %.*g; never "-nan". */
const char *number_text(char text[NUMBER_TEXT], double v, int digits, bool general);

#endif
