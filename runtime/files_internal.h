/* files_internal.h: shared by the file formats. SPDX-License-Identifier: MIT */
#ifndef TENON_RUNTIME_FILES_INTERNAL_H
#define TENON_RUNTIME_FILES_INTERNAL_H

#include "runtime/files.h"

#include <stdbool.h>

/** Sets the message, which begins with the path; returns -1. */
int tn__file_fail(struct tn__err *err, const char *path, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/** Bytes of an array of this shape; false if there cannot be so many. */
bool tn__array_bytes(int dtype, int rank, const int64_t *shape, size_t *bytes);

/** Appends an array with copies of the name; its data is the list's from now on (also after a
 * failure). -1: no memory, or the name is there already. */
int tn__arrays_append(tn__arrays *list, const char *path, const char *name, const tn__array *x,
                      struct tn__err *err);

/** Memory for array data; never NULL for 0 bytes. */
void *tn__array_alloc(size_t bytes);

/** Makes every bool byte 0 or 1. */
void tn__array_clean_bools(tn__array *x);

/** Whether the pointer lies in memory that the list mapped. */
bool tn__arrays_is_mapped(const tn__arrays *list, const void *p);

/* A file that is being written: to a temporary name, unless the path is a device or pipe. */
typedef struct {
    const char *path;    /* as the user wrote it */
    char *target, *temp; /* temp NULL: written directly */
    int fd;
    int error; /* errno of the first failure */
    uint64_t offset;
    size_t used;
    char buffer[1 << 16];
} tn__writer;

tn__writer *tn__writer_open(const char *path, struct tn__err *err); /* NULL after a failure */
void tn__write(tn__writer *w, const void *data, size_t bytes); /* failures are kept for the end */
int tn__writer_close(tn__writer *w, struct tn__err *err);      /* fsync and rename; or -1 */
void tn__writer_abandon(tn__writer *w);

/* npy: the header of a file in memory. */
typedef struct {
    int dtype;
    int rank;
    int64_t shape[TN__ARRAY_RANK];
    bool swapped;  /* the other byte order */
    bool columns;  /* the first index runs fastest */
    size_t header; /* bytes before the data */
    size_t bytes;  /* of data */
} tn__npy;

enum { TN__NPY_MAX_HEADER = 1 << 16 };

/** Reads a header from the first bytes of a file. `what` names file and array in messages. */
int tn__npy_parse(tn__npy *out, const void *start, size_t bytes, const char *what,
                  struct tn__err *err);
/** Brings data as it stands in a file into our order, in place (from a copy if it must be). -1: no
 * memory. */
int tn__npy_order(const tn__npy *h, void *data);
/** Writes the header (a multiple of 64 bytes) to `to`, which has TN__NPY_MAX_HEADER bytes; its
 * length, or 0 for a dtype that npy files do not have. */
size_t tn__npy_header(const tn__array *x, char *to);

int tn__load_npy(tn__arrays *out, const char *path, struct tn__err *err);
int tn__save_npy(const tn__arrays *in, const char *path, struct tn__err *err);
int tn__load_npz(tn__arrays *out, const char *path, struct tn__err *err);
int tn__save_npz(const tn__arrays *in, const char *path, struct tn__err *err);
int tn__load_safetensors(tn__arrays *out, const char *path, struct tn__err *err);
int tn__save_safetensors(const tn__arrays *in, const char *path, struct tn__err *err);

#endif
