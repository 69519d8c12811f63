/* files_npz.c: a zip archive of npy files. Reading is libzip's, deflated or stored. Writing is
 * ours: stored entries, one fixed date, no extra fields beside those of large files, so that the
 * same arrays give the same bytes. SPDX-License-Identifier: MIT */
#include "runtime/files_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zip.h>

/* Reads the whole entry; a message says why not. */
static int read_entry(zip_file_t *f, void *to, uint64_t bytes, const char *what,
                      struct tn__err *err)
{
    for (uint64_t done = 0; done < bytes;) {
        const zip_int64_t n = zip_fread(f, (char *)to + done, bytes - done);
        if (n < 0)
            return tn__file_fail(err, what, "is damaged: %s", zip_file_strerror(f));
        if (n == 0)
            return tn__file_fail(err, what, "is truncated");
        done += (uint64_t)n;
    }
    return 0;
}

/* Data after the header: part of it was read along with the header. */
static int read_data(zip_file_t *f, const tn__npy *h, const char *start, size_t have, uint64_t size,
                     void **data, const char *what, struct tn__err *err)
{
    if (size != h->header + (uint64_t)h->bytes)
        return tn__file_fail(err, what, "has %lld bytes of data where its shape and dtype need %zu",
                             (long long)size - (long long)h->header, h->bytes);
    char *const to = *data = tn__array_alloc(h->bytes);
    if (!to)
        return tn__file_fail(err, what, "out of memory: %zu bytes wanted", h->bytes);
    have -= h->header;
    memcpy(to, start + h->header, have);
    if (read_entry(f, to + have, h->bytes - have, what, err))
        return -1;
    char beyond; /* the check sum is compared where the entry ends */
    if (zip_fread(f, &beyond, 1) != 0)
        return tn__file_fail(err, what, "is damaged: %s", zip_file_strerror(f));
    if (tn__npy_order(h, to))
        return tn__file_fail(err, what, "out of memory");
    return 0;
}

static int load_entry(tn__arrays *out, zip_t *z, uint64_t i, const char *path, struct tn__err *err)
{
    zip_stat_t st;
    if (zip_stat_index(z, i, 0, &st) || !(st.valid & ZIP_STAT_NAME) || !(st.valid & ZIP_STAT_SIZE))
        return tn__file_fail(err, path, "is damaged: %s", zip_strerror(z));
    char name[400], what[1000];
    const size_t n = strlen(st.name);
    if (n && st.name[n - 1] == '/')
        return 0; /* a folder */
    if (n <= 4 || n - 4 >= sizeof name || strcmp(st.name + n - 4, ".npy"))
        return tn__file_fail(err, path, "has an entry that is not an npy array: '%.100s'", st.name);
    memcpy(name, st.name, n - 4);
    name[n - 4] = 0;
    const size_t long_path = strlen(path) > 300 ? strlen(path) - 300 : 0;
    snprintf(what, sizeof what, "%s: array '%.100s'", path + long_path, name);
    zip_file_t *f = zip_fopen_index(z, i, 0);
    if (!f)
        return tn__file_fail(err, what, "cannot be read: %s", zip_strerror(z));
    char start[TN__NPY_MAX_HEADER];
    const size_t have = st.size < sizeof start ? (size_t)st.size : sizeof start;
    tn__npy h;
    void *data = NULL;
    int status = read_entry(f, start, have, what, err);
    status = status ? status : tn__npy_parse(&h, start, have, what, err);
    status = status ? status : read_data(f, &h, start, have, st.size, &data, what, err);
    zip_fclose(f);
    if (status) {
        free(data);
        return -1;
    }
    tn__array x = {.dtype = h.dtype, .rank = h.rank, .data = data, .bytes = h.bytes};
    memcpy(x.shape, h.shape, sizeof x.shape);
    return tn__arrays_append(out, path, name, &x, err);
}

int tn__load_npz(tn__arrays *out, const char *path, struct tn__err *err)
{
    int code = 0;
    zip_t *z = zip_open(path, ZIP_RDONLY, &code);
    if (!z) {
        zip_error_t e;
        zip_error_init_with_code(&e, code);
        tn__file_fail(err, path,
                      code == ZIP_ER_NOZIP ? "is not an npz file, or is truncated: %s"
                                           : "cannot be read: %s",
                      zip_error_strerror(&e));
        zip_error_fini(&e);
        return -1;
    }
    const zip_int64_t n = zip_get_num_entries(z, 0);
    int status = 0;
    for (zip_int64_t i = 0; i < n && !status; i++)
        status = load_entry(out, z, (uint64_t)i, path, err);
    zip_discard(z);
    return status;
}

/* The check sum of zip files, eight bytes at a time. */
typedef struct {
    uint32_t at[8][256];
} Crc;

static void crc_make(Crc *t)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++)
            c = c >> 1 ^ (c & 1 ? 0xedb88320u : 0u);
        t->at[0][i] = c;
    }
    for (int k = 1; k < 8; k++)
        for (int i = 0; i < 256; i++)
            t->at[k][i] = t->at[k - 1][i] >> 8 ^ t->at[0][t->at[k - 1][i] & 255];
}

static uint32_t crc_add(const Crc *t, uint32_t c, const void *data, size_t n)
{
    const unsigned char *p = data;
    for (; n >= 8; n -= 8, p += 8) {
        const uint32_t a =
            c ^ (p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
        c = t->at[7][a & 255] ^ t->at[6][a >> 8 & 255] ^ t->at[5][a >> 16 & 255] ^
            t->at[4][a >> 24] ^ t->at[3][p[4]] ^ t->at[2][p[5]] ^ t->at[1][p[6]] ^ t->at[0][p[7]];
    }
    for (; n; n--, p++)
        c = c >> 8 ^ t->at[0][(c ^ *p) & 255];
    return c;
}

typedef struct {
    char name[300];
    size_t name_bytes;
    uint32_t crc;
    uint64_t size, offset;
} Entry;

/* A record of a zip file: little-endian fields. */
typedef struct {
    unsigned char at[128];
    size_t n;
} Record;

static void field(Record *r, int bytes, uint64_t value)
{
    for (int i = 0; i < bytes; i++)
        r->at[r->n++] = (unsigned char)(value >> 8 * i);
}

enum { ZIP_DATE = 0x21 /* 1980-01-01, the first there is */ };
#define ZIP_LIMIT UINT64_C(0xffffffff)

/* The part that local and central headers share. Sizes beyond 32 bits are in an extra field. */
static void common_fields(Record *r, const Entry *e, bool large, size_t extra)
{
    field(r, 2, large ? 45 : 20); /* version needed */
    field(r, 2, 0x800);           /* names are UTF-8 */
    field(r, 2, 0);               /* stored */
    field(r, 2, 0);
    field(r, 2, ZIP_DATE);
    field(r, 4, e->crc);
    field(r, 4, large ? ZIP_LIMIT : e->size);
    field(r, 4, large ? ZIP_LIMIT : e->size);
    field(r, 2, e->name_bytes);
    field(r, 2, extra);
}

static void write_local(tn__writer *w, Entry *e)
{
    const bool large = e->size >= ZIP_LIMIT;
    Record r = {.n = 0};
    e->offset = w->offset;
    field(&r, 4, 0x04034b50);
    common_fields(&r, e, large, large ? 20 : 0);
    tn__write(w, r.at, r.n);
    tn__write(w, e->name, e->name_bytes);
    if (large) {
        r.n = 0;
        field(&r, 2, 1);
        field(&r, 2, 16);
        field(&r, 8, e->size);
        field(&r, 8, e->size);
        tn__write(w, r.at, r.n);
    }
}

static void write_central(tn__writer *w, const Entry *e)
{
    const bool large = e->size >= ZIP_LIMIT, far = e->offset >= ZIP_LIMIT;
    const size_t data = (large ? 16u : 0u) + (far ? 8u : 0u);
    Record r = {.n = 0};
    field(&r, 4, 0x02014b50);
    field(&r, 2, 3 << 8 | 45); /* made by: attributes are Unix ones */
    common_fields(&r, e, large, data ? data + 4 : 0);
    field(&r, 2, 0);
    field(&r, 2, 0);
    field(&r, 2, 0);
    field(&r, 4, 0100644u << 16);
    field(&r, 4, far ? ZIP_LIMIT : e->offset);
    tn__write(w, r.at, r.n);
    tn__write(w, e->name, e->name_bytes);
    r.n = 0;
    if (data) {
        field(&r, 2, 1);
        field(&r, 2, data);
    }
    if (large) {
        field(&r, 8, e->size);
        field(&r, 8, e->size);
    }
    if (far)
        field(&r, 8, e->offset);
    tn__write(w, r.at, r.n);
}

static void write_end(tn__writer *w, uint64_t n, uint64_t start)
{
    const uint64_t end = w->offset, bytes = end - start;
    Record r = {.n = 0};
    if (n >= 0xffff || start >= ZIP_LIMIT || bytes >= ZIP_LIMIT) {
        field(&r, 4, 0x06064b50);
        field(&r, 8, 44);
        field(&r, 2, 3 << 8 | 45);
        field(&r, 2, 45);
        field(&r, 8, 0);
        field(&r, 8, n);
        field(&r, 8, n);
        field(&r, 8, bytes);
        field(&r, 8, start);
        field(&r, 4, 0x07064b50);
        field(&r, 4, 0);
        field(&r, 8, end);
        field(&r, 4, 1);
    }
    field(&r, 4, 0x06054b50);
    field(&r, 4, 0);
    field(&r, 2, n < 0xffff ? n : 0xffff);
    field(&r, 2, n < 0xffff ? n : 0xffff);
    field(&r, 4, bytes < ZIP_LIMIT ? bytes : ZIP_LIMIT);
    field(&r, 4, start < ZIP_LIMIT ? start : ZIP_LIMIT);
    field(&r, 2, 0);
    tn__write(w, r.at, r.n);
}

static void write_arrays(tn__writer *w, const tn__arrays *in, Entry *entries)
{
    char header[TN__NPY_MAX_HEADER];
    Crc crc;
    crc_make(&crc);
    for (int i = 0; i < in->n; i++) {
        const tn__array *x = &in->at[i];
        Entry *e = &entries[i];
        const size_t n = tn__npy_header(x, header);
        e->name_bytes = (size_t)snprintf(e->name, sizeof e->name, "%s.npy", x->name);
        e->size = n + (uint64_t)x->bytes;
        e->crc = ~crc_add(&crc, crc_add(&crc, 0xffffffffu, header, n), x->data, x->bytes);
        write_local(w, e);
        tn__write(w, header, n);
        tn__write(w, x->data, x->bytes);
    }
    const uint64_t start = w->offset;
    for (int i = 0; i < in->n; i++)
        write_central(w, &entries[i]);
    write_end(w, (uint64_t)in->n, start);
}

int tn__save_npz(const tn__arrays *in, const char *path, struct tn__err *err)
{
    for (int i = 0; i < in->n; i++) {
        if (in->at[i].dtype == TN_BF16)
            return tn__file_fail(err, path,
                                 "array '%.100s': npz files have no bf16: use .safetensors",
                                 in->at[i].name);
        if (strlen(in->at[i].name) > 255)
            return tn__file_fail(err, path, "array '%.100s...': names have at most 255 bytes",
                                 in->at[i].name);
    }
    Entry *entries = calloc((size_t)in->n + 1, sizeof *entries);
    if (!entries)
        return tn__file_fail(err, path, "out of memory");
    tn__writer *w = tn__writer_open(path, err);
    int status = -1;
    if (w) {
        write_arrays(w, in, entries);
        status = tn__writer_close(w, err);
    }
    free(entries);
    return status;
}
