/* files.c: lists of arrays, the choice of a file format, and files that appear complete or not at
 * all. SPDX-License-Identifier: MIT */
#include "runtime/files.h"

#include "runtime/files_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int tn__file_fail(struct tn__err *err, const char *path, const char *fmt, ...)
{
    if (!err)
        return -1;
    /* a long path loses its beginning, never the message its end */
    const size_t n = strlen(path), most = 200;
    const int at = snprintf(err->text, sizeof err->text, "%s%s: ", n > most ? "..." : "",
                            n > most ? path + n - most : path);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err->text + at, sizeof err->text - (size_t)at, fmt, ap);
    va_end(ap);
    return -1;
}

bool tn__array_bytes(int dtype, int rank, const int64_t *shape, size_t *bytes)
{
    size_t n = tn__dtype_size(dtype);
    for (int i = 0; i < rank; i++)
        if (shape[i] < 0 || __builtin_mul_overflow(n, (uint64_t)shape[i], &n))
            return false;
    *bytes = n;
    return n <= PTRDIFF_MAX;
}

void *tn__array_alloc(size_t bytes)
{
    enum { ALIGN = 64 };
    return bytes <= PTRDIFF_MAX ? aligned_alloc(ALIGN, bytes / ALIGN * ALIGN + ALIGN) : NULL;
}

void tn__array_clean_bools(tn__array *x)
{
    unsigned char *const b = x->data;
    if (x->dtype == TN_BOOL)
        for (size_t i = 0; i < x->bytes; i++)
            if (b[i] > 1)
                b[i] = 1;
}

bool tn__arrays_is_mapped(const tn__arrays *list, const void *p)
{
    const uintptr_t at = (uintptr_t)p, map = (uintptr_t)list->map;
    return list->map && at >= map && at < map + list->map_bytes;
}

static int append(tn__arrays *list, const char *name, const tn__array *x)
{
    if (!(list->n & (list->n - 1))) { /* a power of two: full */
        tn__array *more = realloc(list->at, (size_t)(list->n ? 2 * list->n : 1) * sizeof *more);
        if (!more)
            return -1;
        list->at = more;
    }
    char *copy = malloc(strlen(name) + 1);
    if (!copy)
        return -1;
    strcpy(copy, name);
    list->at[list->n] = *x;
    list->at[list->n++].name = copy;
    return 0;
}

int tn__arrays_append(tn__arrays *list, const char *path, const char *name, const tn__array *x,
                      struct tn__err *err)
{
    int status = 0;
    if (tn__arrays_find(list, name))
        status = tn__file_fail(err, path, "two arrays are called '%.100s'", name);
    else if (append(list, name, x))
        status = tn__file_fail(err, path, "out of memory");
    if (status && !tn__arrays_is_mapped(list, x->data))
        free(x->data);
    return status;
}

const tn__array *tn__arrays_find(const tn__arrays *list, const char *name)
{
    for (int i = 0; i < list->n; i++)
        if (!strcmp(list->at[i].name, name))
            return &list->at[i];
    return NULL;
}

void tn__arrays_free(tn__arrays *list)
{
    if (list->owns) {
        for (int i = 0; i < list->n; i++) {
            free(list->at[i].name);
            if (!tn__arrays_is_mapped(list, list->at[i].data))
                free(list->at[i].data);
        }
        for (int i = 0; i < list->nmetadata; i++) {
            free(list->metadata[i].key);
            free(list->metadata[i].value);
        }
        free(list->at);
        free(list->metadata);
        if (list->map)
            munmap(list->map, list->map_bytes);
    }
    memset(list, 0, sizeof *list);
}

typedef struct {
    const char *extension;
    int (*load)(tn__arrays *out, const char *path, struct tn__err *err);
    int (*save)(const tn__arrays *in, const char *path, struct tn__err *err);
} Format;

static const Format formats[] = {{".npy", tn__load_npy, tn__save_npy},
                                 {".npz", tn__load_npz, tn__save_npz},
                                 {".safetensors", tn__load_safetensors, tn__save_safetensors}};

static const Format *format_of_name(const char *path)
{
    const size_t n = strlen(path);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        const size_t e = strlen(formats[i].extension);
        if (n >= e && !strcmp(path + n - e, formats[i].extension))
            return &formats[i];
    }
    return NULL;
}

/* For files without a telling extension: by the first bytes; what is neither is tried as
 * safetensors. */
static const Format *format_of_file(const char *path)
{
    char start[6] = {0};
    FILE *f = fopen(path, "rb");
    if (!f)
        return &formats[2];
    const size_t n = fread(start, 1, sizeof start, f);
    fclose(f);
    if (n == 6 && !memcmp(start, "\x93NUMPY", 6))
        return &formats[0];
    return n >= 4 && !memcmp(start, "PK\3\4", 4) ? &formats[1] : &formats[2];
}

int tn__arrays_load(tn__arrays *out, const char *path, struct tn__err *err)
{
    memset(out, 0, sizeof *out);
    out->owns = 1;
    struct stat st;
    if (stat(path, &st))
        return tn__file_fail(err, path, "%s", strerror(errno));
    if (S_ISDIR(st.st_mode))
        return tn__file_fail(err, path, "is a folder");
    const Format *f = format_of_name(path);
    if ((f ? f : format_of_file(path))->load(out, path, err)) {
        tn__arrays_free(out);
        return -1;
    }
    for (int i = 0; i < out->n; i++)
        tn__array_clean_bools(&out->at[i]);
    return 0;
}

static int check_list(const tn__arrays *in, const char *path, struct tn__err *err)
{
    for (int i = 0; i < in->n; i++) {
        const tn__array *x = &in->at[i];
        size_t bytes;
        if (x->rank < 0 || x->rank > TN__ARRAY_RANK || !tn__dtype_size(x->dtype) ||
            !tn__array_bytes(x->dtype, x->rank, x->shape, &bytes) || bytes != x->bytes)
            return tn__file_fail(err, path, "array '%.100s' has no valid shape or dtype", x->name);
        if (tn__arrays_find(in, x->name) != x)
            return tn__file_fail(err, path, "two arrays are called '%.100s'", x->name);
    }
    return 0;
}

int tn__arrays_save(const tn__arrays *in, const char *path, struct tn__err *err)
{
    const Format *f = format_of_name(path);
    if (!f)
        return tn__file_fail(
            err, path, "unknown kind of file: the name must end in .npy, .npz or .safetensors");
    if (check_list(in, path, err))
        return -1;
    return f->save(in, path, err);
}

/* Opens a file beside the target that did not exist. */
static int open_temp(tn__writer *w)
{
    const size_t n = strlen(w->target) + 40;
    w->temp = malloc(n);
    if (!w->temp)
        return -1;
    for (int i = 0; i < 1000; i++) {
        snprintf(w->temp, n, "%s.tmp-%ld-%d", w->target, (long)getpid(), i);
        w->fd = open(w->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (w->fd >= 0 || errno != EEXIST)
            break;
    }
    return w->fd < 0 ? -1 : 0;
}

tn__writer *tn__writer_open(const char *path, struct tn__err *err)
{
    tn__writer *w = malloc(sizeof *w);
    if (!w)
        return tn__file_fail(err, path, "out of memory"), NULL;
    *w = (tn__writer){.path = path, .fd = -1};
    struct stat st;
    const bool there = !stat(path, &st);
    int status;
    if (there && !S_ISREG(st.st_mode)) { /* a device or pipe has to be written as it is */
        w->fd = open(path, O_WRONLY | O_CLOEXEC);
        status = w->fd < 0 ? -1 : 0;
    } else {
        w->target = there ? realpath(path, NULL) : strdup(path); /* through links */
        status = w->target ? open_temp(w) : -1;
    }
    if (status) {
        tn__file_fail(err, path, "cannot be written: %s", strerror(errno));
        free(w->temp);
        free(w->target);
        free(w);
        return NULL;
    }
    return w;
}

static void write_all(tn__writer *w, const char *p, size_t n)
{
    while (n && !w->error) {
        const ssize_t done = write(w->fd, p, n < (1u << 30) ? n : 1u << 30);
        if (done < 0 && errno != EINTR)
            w->error = errno;
        else if (done > 0) {
            p += done;
            n -= (size_t)done;
        }
    }
}

static void flush(tn__writer *w)
{
    write_all(w, w->buffer, w->used);
    w->used = 0;
}

void tn__write(tn__writer *w, const void *data, size_t bytes)
{
    w->offset += bytes;
    if (!bytes)
        return;
    if (bytes > sizeof w->buffer - w->used)
        flush(w);
    if (bytes > sizeof w->buffer) {
        write_all(w, data, bytes);
    } else {
        memcpy(w->buffer + w->used, data, bytes);
        w->used += bytes;
    }
}

static void release(tn__writer *w)
{
    free(w->temp);
    free(w->target);
    free(w);
}

/* The new name itself must survive a crash; a folder that cannot be synced is not an error. */
static void sync_folder(const char *target)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(target, '/');
    const size_t n = slash ? (size_t)(slash - target) : 0;
    if (n >= sizeof folder)
        return;
    memcpy(folder, target, n);
    folder[n] = 0;
    const int fd = open(n ? folder : slash ? "/" : ".", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
}

int tn__writer_close(tn__writer *w, struct tn__err *err)
{
    flush(w);
    if (!w->error && w->temp && fsync(w->fd))
        w->error = errno;
    if (close(w->fd) && !w->error)
        w->error = errno;
    if (!w->error && w->temp) {
        if (rename(w->temp, w->target))
            w->error = errno;
        else
            sync_folder(w->target);
    }
    const int error = w->error;
    if (error) {
        tn__file_fail(err, w->path, "cannot be written: %s", strerror(error));
        if (w->temp)
            unlink(w->temp);
    }
    release(w);
    return error ? -1 : 0;
}

void tn__writer_abandon(tn__writer *w)
{
    close(w->fd);
    if (w->temp)
        unlink(w->temp);
    release(w);
}
