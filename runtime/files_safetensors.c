/* files_safetensors.c: 8 bytes of length, a JSON header, data:
 *   {"__metadata__": {"k": "v"}, "w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}
 * The file is mapped and arrays point into it (changes stay in memory); one whose place does not
 * suit its elements is copied. A file is refused unless every byte of data belongs to exactly one
 * array. SPDX-License-Identifier: MIT */
#include "runtime/files_internal.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_HEADER = 100000000 };

static const struct {
    char name[5];
    int dtype;
} dtypes[] = {{"F64", TN_F64}, {"F32", TN_F32},   {"BF16", TN_BF16}, {"F16", TN_F16},
              {"I64", TN_I64}, {"I32", TN_I32},   {"I16", TN_I16},   {"I8", TN_I8},
              {"U8", TN_U8},   {"BOOL", TN_BOOL}, {"U64", TN_U64}};

static uint64_t read_u64(const unsigned char *p)
{
    uint64_t x = 0;
    for (int i = 7; i >= 0; i--)
        x = x << 8 | p[i];
    return x;
}

static int map_file(tn__arrays *out, const char *path, struct tn__err *err)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st)) {
        tn__file_fail(err, path, "cannot be opened: %s", strerror(errno));
        if (fd >= 0)
            close(fd);
        return -1;
    }
    int status = 0;
    if (!S_ISREG(st.st_mode)) {
        status = tn__file_fail(err, path, "is not a regular file");
    } else if (st.st_size < 8) {
        status = tn__file_fail(err, path, "is truncated: it has %jd bytes", (intmax_t)st.st_size);
    } else {
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED) {
            status = tn__file_fail(err, path, "cannot be mapped: %s", strerror(errno));
        } else {
            out->map = p;
            out->map_bytes = (size_t)st.st_size;
        }
    }
    close(fd);
    return status;
}

/* A whole number of JSON that a double holds exactly. */
static bool whole_number(const cJSON *x, int64_t *to)
{
    if (!cJSON_IsNumber(x) || !(x->valuedouble >= 0.0 && x->valuedouble <= 9007199254740991.0))
        return false;
    *to = (int64_t)x->valuedouble;
    return (double)*to == x->valuedouble;
}

static int read_metadata(tn__arrays *out, const cJSON *object, const char *path,
                         struct tn__err *err)
{
    const int n = cJSON_GetArraySize(object);
    if (!cJSON_IsObject(object) || out->metadata)
        return tn__file_fail(err, path, "has damaged metadata");
    out->metadata = calloc((size_t)n + 1, sizeof *out->metadata);
    if (!out->metadata)
        return tn__file_fail(err, path, "out of memory");
    const cJSON *e;
    cJSON_ArrayForEach(e, object)
    {
        if (!cJSON_IsString(e))
            return tn__file_fail(err, path, "has metadata '%.100s' that is not a string",
                                 e->string);
        tn__metadata *m = &out->metadata[out->nmetadata++];
        m->key = strdup(e->string);
        m->value = strdup(e->valuestring);
        if (!m->key || !m->value)
            return tn__file_fail(err, path, "out of memory");
    }
    return 0;
}

/* Where an array lies among the data. */
typedef struct {
    uint64_t begin, end;
    const char *name;
} Piece;

static int read_shape(tn__array *x, const cJSON *shape, const char *name, const char *path,
                      struct tn__err *err)
{
    const int rank = cJSON_GetArraySize(shape);
    if (!cJSON_IsArray(shape))
        return tn__file_fail(err, path, "array '%.100s' has no shape", name);
    if (rank > TN__ARRAY_RANK)
        return tn__file_fail(err, path, "array '%.100s' has more than %d dimensions", name,
                             TN__ARRAY_RANK);
    const cJSON *e;
    cJSON_ArrayForEach(e, shape)
    {
        if (!whole_number(e, &x->shape[x->rank++]))
            return tn__file_fail(err, path, "array '%.100s' has a damaged shape", name);
    }
    return 0;
}

static int read_entry(tn__array *x, Piece *piece, const cJSON *e, const char *path,
                      uint64_t data_bytes, struct tn__err *err)
{
    const char *const name = e->string;
    const cJSON *const dtype = cJSON_GetObjectItemCaseSensitive(e, "dtype");
    const cJSON *const offsets = cJSON_GetObjectItemCaseSensitive(e, "data_offsets");
    int64_t begin, end;
    if (!cJSON_IsObject(e) || !cJSON_IsString(dtype) || cJSON_GetArraySize(offsets) != 2 ||
        !whole_number(cJSON_GetArrayItem(offsets, 0), &begin) ||
        !whole_number(cJSON_GetArrayItem(offsets, 1), &end))
        return tn__file_fail(err, path, "array '%.100s' has a damaged description", name);
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (!strcmp(dtypes[i].name, dtype->valuestring))
            x->dtype = dtypes[i].dtype;
    if (!x->dtype)
        return tn__file_fail(err, path, "array '%.100s': dtype '%.20s' is not supported", name,
                             dtype->valuestring);
    if (read_shape(x, cJSON_GetObjectItemCaseSensitive(e, "shape"), name, path, err))
        return -1;
    if (!tn__array_bytes(x->dtype, x->rank, x->shape, &x->bytes))
        return tn__file_fail(err, path, "array '%.100s' has a shape larger than memory can be",
                             name);
    if (begin > end || (uint64_t)end > data_bytes)
        return tn__file_fail(err, path,
                             "array '%.100s' ends beyond the file, which may be truncated: "
                             "bytes %" PRId64 " to %" PRId64 " of %" PRIu64,
                             name, begin, end, data_bytes);
    if ((uint64_t)(end - begin) != x->bytes)
        return tn__file_fail(err, path,
                             "array '%.100s' has %" PRId64 " bytes where its shape and dtype "
                             "need %zu",
                             name, end - begin, x->bytes);
    *piece = (Piece){(uint64_t)begin, (uint64_t)end, name};
    return 0;
}

static int compare_pieces(const void *a, const void *b)
{
    const Piece *const x = a, *const y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

static int check_pieces(Piece *pieces, int n, uint64_t bytes, const char *path, struct tn__err *err)
{
    uint64_t at = 0;
    qsort(pieces, (size_t)n, sizeof *pieces, compare_pieces);
    for (int i = 0; i < n; i++) {
        if (pieces[i].begin < at)
            return tn__file_fail(err, path, "array '%.100s' overlaps another", pieces[i].name);
        if (pieces[i].begin > at)
            return tn__file_fail(err, path, "has data that belong to no array before '%.100s'",
                                 pieces[i].name);
        at = pieces[i].end;
    }
    if (at != bytes)
        return tn__file_fail(err, path, "has %" PRIu64 " bytes of data that belong to no array",
                             bytes - at);
    return 0;
}

static int add_array(tn__arrays *out, tn__array *x, const Piece *piece, char *data,
                     const char *path, struct tn__err *err)
{
    x->data = data + piece->begin;
    if (!x->bytes || (uintptr_t)x->data % tn__dtype_size(x->dtype)) {
        void *copy = tn__array_alloc(x->bytes);
        if (!copy)
            return tn__file_fail(err, path, "out of memory");
        memcpy(copy, x->data, x->bytes);
        x->data = copy;
    }
    return tn__arrays_append(out, path, piece->name, x, err);
}

static int read_header(tn__arrays *out, const cJSON *header, uint64_t start, const char *path,
                       struct tn__err *err)
{
    const uint64_t bytes = out->map_bytes - start;
    if (!cJSON_IsObject(header))
        return tn__file_fail(err, path, "has a damaged header");
    Piece *pieces = calloc((size_t)cJSON_GetArraySize(header) + 1, sizeof *pieces);
    if (!pieces)
        return tn__file_fail(err, path, "out of memory");
    int n = 0, status = 0;
    const cJSON *e;
    cJSON_ArrayForEach(e, header)
    {
        tn__array x = {0};
        if (!strcmp(e->string, "__metadata__"))
            status = read_metadata(out, e, path, err);
        else if (!(status = read_entry(&x, &pieces[n], e, path, bytes, err)))
            status = add_array(out, &x, &pieces[n++], (char *)out->map + start, path, err);
        if (status)
            break;
    }
    if (!status)
        status = check_pieces(pieces, n, bytes, path, err);
    free(pieces);
    return status;
}

int tn__load_safetensors(tn__arrays *out, const char *path, struct tn__err *err)
{
    if (map_file(out, path, err))
        return -1;
    const uint64_t n = read_u64(out->map);
    if (n > MAX_HEADER || n > out->map_bytes - 8)
        return tn__file_fail(err, path,
                             n > MAX_HEADER ? "is not a safetensors file"
                                            : "is truncated: it ends within the header");
    const char *const text = (const char *)out->map + 8, *end = NULL;
    cJSON *header = n && text[0] == '{' ? cJSON_ParseWithLengthOpts(text, n, &end, 0) : NULL;
    while (header && end < text + n && *end == ' ')
        end++;
    int status;
    if (!header || end != text + n)
        status = tn__file_fail(err, path, "has a damaged header");
    else
        status = read_header(out, header, 8 + n, path, err);
    cJSON_Delete(header);
    return status;
}

/* A JSON string; anything that JSON does not allow as it is, is escaped. */
static void write_string(FILE *f, const char *s)
{
    putc('"', f);
    for (; *s; s++) {
        const unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            fprintf(f, "\\%c", c);
        else if (c < 0x20)
            fprintf(f, "\\u%04x", c);
        else
            putc(c, f);
    }
    putc('"', f);
}

static const char *name_of(int dtype)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (dtypes[i].dtype == dtype)
            return dtypes[i].name;
    return "";
}

static void write_entry(FILE *f, const tn__array *x, uint64_t offset)
{
    write_string(f, x->name);
    fprintf(f, ":{\"dtype\":\"%s\",\"shape\":[", name_of(x->dtype));
    for (int i = 0; i < x->rank; i++)
        fprintf(f, i ? ",%" PRId64 : "%" PRId64, x->shape[i]);
    fprintf(f, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", offset, offset + x->bytes);
}

/* Large elements first: then all are aligned without gaps. Within a size the order is the list's.
 */
static void order_of(const tn__arrays *in, const tn__array **order)
{
    int n = 0;
    for (size_t size = 8; size; size /= 2)
        for (int i = 0; i < in->n; i++)
            if (tn__dtype_size(in->at[i].dtype) == size)
                order[n++] = &in->at[i];
}

/* The header with its length, in memory that the caller frees; NULL: out of memory. */
static char *make_header(const tn__arrays *in, const tn__array *const *order, size_t *bytes)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, bytes);
    if (!f)
        return NULL;
    fwrite("\0\0\0\0\0\0\0\0{", 1, 9, f);
    const char *comma = "";
    for (int i = 0; i < in->nmetadata; i++) {
        fputs(i ? "," : "\"__metadata__\":{", f);
        write_string(f, in->metadata[i].key);
        putc(':', f);
        write_string(f, in->metadata[i].value);
    }
    if (in->nmetadata) {
        putc('}', f);
        comma = ",";
    }
    uint64_t offset = 0;
    for (int i = 0; i < in->n; i++, comma = ",") {
        fputs(comma, f);
        write_entry(f, order[i], offset);
        offset += order[i]->bytes;
    }
    putc('}', f);
    fflush(f);
    for (size_t n = *bytes; n % 8; n++)
        putc(' ', f);
    const bool failed = ferror(f) || fflush(f);
    if (fclose(f) || failed) {
        free(text);
        return NULL;
    }
    for (int i = 0; i < 8; i++)
        text[i] = (char)((*bytes - 8) >> 8 * i);
    return text;
}

int tn__save_safetensors(const tn__arrays *in, const char *path, struct tn__err *err)
{
    if (tn__arrays_find(in, "__metadata__"))
        return tn__file_fail(err, path, "no array can be called '__metadata__'");
    const tn__array **order = calloc((size_t)in->n + 1, sizeof *order);
    size_t bytes = 0;
    if (order)
        order_of(in, order);
    char *const header = order ? make_header(in, order, &bytes) : NULL;
    int status = -1;
    if (!header) {
        tn__file_fail(err, path, "out of memory");
    } else {
        tn__writer *w = tn__writer_open(path, err);
        if (w) {
            tn__write(w, header, bytes);
            for (int i = 0; i < in->n; i++)
                tn__write(w, order[i]->data, order[i]->bytes);
            status = tn__writer_close(w, err);
        }
    }
    free(header);
    free(order);
    return status;
}
