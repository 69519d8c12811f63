/* files.h: named arrays in files: .npy, .npz and .safetensors. Not part of the core: these need
 * libzip and cJSON. SPDX-License-Identifier: MIT */
#ifndef TENON_RUNTIME_FILES_H
#define TENON_RUNTIME_FILES_H

#include "runtime/dtype.h"

#include <stddef.h>
#include <stdint.h>

enum { TN__ARRAY_RANK = 8 };

typedef struct {
    char *name;
    int dtype; /* TN_F32 and so on */
    int rank;
    int64_t shape[TN__ARRAY_RANK];
    void *data; /* row-major, aligned to the element at least; may be written to */
    size_t bytes;
} tn__array;

typedef struct {
    char *key, *value;
} tn__metadata;

typedef struct {
    tn__array *at;
    int n;
    tn__metadata *metadata; /* safetensors only */
    int nmetadata;
    /* of loaded lists: what is freed with them */
    void *map;
    size_t map_bytes;
    int owns;
} tn__arrays;

/** Text of a failure: one line, lower case, beginning with the file's name. */
struct tn__err {
    char text[512];
};

/** Reads all arrays of a file; its kind is told by the extension, else by the first bytes. An .npy
 * file has one array, with the name of the file without folder and extension. Numbers are in the
 * byte order of this machine and row-major whatever the file has; names are unique. Returns 0, or
 * -1 with a message and an empty list. `out` is freed by tn__arrays_free. */
int tn__arrays_load(tn__arrays *out, const char *path, struct tn__err *err);

/** Writes arrays (and metadata) to a file of the kind that the extension tells; an .npy file takes
 * one array. The same arrays give the same bytes. The file appears under its name when it is
 * complete, and stays as it was after a failure. Returns 0, or -1 with a message. The arrays of the
 * list are only read: a caller may fill in a list of its own. */
int tn__arrays_save(const tn__arrays *in, const char *path, struct tn__err *err);

/** The array of this name or NULL. */
const tn__array *tn__arrays_find(const tn__arrays *list, const char *name);

/** Frees what load made and empties the list. */
void tn__arrays_free(tn__arrays *list);

#endif
