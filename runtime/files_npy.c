/* files_npy.c: one array with a header that is a Python dictionary:
 *   "\x93NUMPY" major minor length {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } ..\n
 * SPDX-License-Identifier: MIT */
#include "runtime/files_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct {
    char text[3];
    int dtype;
} descrs[] = {{"f8", TN_F64}, {"f4", TN_F32}, {"f2", TN_F16}, {"i8", TN_I64},  {"i4", TN_I32},
              {"i2", TN_I16}, {"i1", TN_I8},  {"u1", TN_U8},  {"b1", TN_BOOL}, {"u8", TN_U64}};

static bool little_endian(void)
{
    const uint16_t one = 1;
    unsigned char first;
    memcpy(&first, &one, 1);
    return first == 1;
}

/* The header's text and where we are in it. */
typedef struct {
    const char *p, *end;
} Text;

static void skip_blanks(Text *t)
{
    while (t->p < t->end && (*t->p == ' ' || *t->p == '\n' || *t->p == '\t' || *t->p == '\r'))
        t->p++;
}

static bool take(Text *t, char c)
{
    skip_blanks(t);
    if (t->p == t->end || *t->p != c)
        return false;
    t->p++;
    return true;
}

static bool take_word(Text *t, const char *word)
{
    const size_t n = strlen(word);
    skip_blanks(t);
    if ((size_t)(t->end - t->p) < n || memcmp(t->p, word, n))
        return false;
    t->p += n;
    return true;
}

/* A string in either kind of quotes, without escapes. */
static bool take_string(Text *t, char *to, size_t size)
{
    skip_blanks(t);
    if (t->p == t->end || (*t->p != '\'' && *t->p != '"'))
        return false;
    const char quote = *t->p++;
    size_t n = 0;
    while (t->p < t->end && *t->p != quote) {
        if (*t->p == '\\' || *t->p == '\n' || n + 1 >= size)
            return false;
        to[n++] = *t->p++;
    }
    to[n] = 0;
    return take(t, quote);
}

static bool take_number(Text *t, int64_t *to)
{
    skip_blanks(t);
    const char *const start = t->p;
    int64_t n = 0;
    while (t->p < t->end && *t->p >= '0' && *t->p <= '9')
        if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, *t->p++ - '0', &n))
            return false;
    if (t->p > start && t->p < t->end && *t->p == 'L') /* files from Python 2 */
        t->p++;
    *to = n;
    return t->p > start;
}

/* (), (3,), (3, 4), (3, 4,); false with *rank > TN__ARRAY_RANK: too many */
static bool take_shape(Text *t, int *rank, int64_t *shape)
{
    *rank = 0;
    if (!take(t, '('))
        return false;
    while (!take(t, ')')) {
        int64_t n;
        if (!take_number(t, &n) || ++*rank > TN__ARRAY_RANK)
            return false;
        shape[*rank - 1] = n;
        if (!take(t, ',')) {
            if (*rank == 1) /* (3) is not a tuple */
                return false;
            return take(t, ')');
        }
    }
    return true;
}

static int parse_descr(tn__npy *out, const char *descr, const char *what, struct tn__err *err)
{
    const char order = descr[0];
    if (order == '<' || order == '>' || order == '|' || order == '=') {
        for (size_t i = 0; i < sizeof descrs / sizeof *descrs; i++)
            if (!strcmp(descr + 1, descrs[i].text)) {
                out->dtype = descrs[i].dtype;
                out->swapped =
                    tn__dtype_size(out->dtype) > 1 &&
                    ((order == '<' && !little_endian()) || (order == '>' && little_endian()));
                return 0;
            }
        if (!strcmp(descr + 1, "V2"))
            return tn__file_fail(err, what,
                                 "numbers of dtype '%s' (bf16?) have no meaning in npy files: "
                                 "use safetensors",
                                 descr);
    }
    return tn__file_fail(err, what, "numbers of dtype '%s' are not supported", descr);
}

static int parse_dictionary(tn__npy *out, Text *t, const char *what, struct tn__err *err)
{
    bool has_descr = false, has_order = false, has_shape = false, ok = take(t, '{');
    while (ok && !take(t, '}')) {
        char key[32], descr[32];
        ok = take_string(t, key, sizeof key) && take(t, ':');
        if (!ok)
            break;
        if (!strcmp(key, "descr") && !has_descr) {
            has_descr = true;
            skip_blanks(t);
            if (t->p < t->end && *t->p == '[')
                return tn__file_fail(err, what, "arrays of records are not supported");
            ok = take_string(t, descr, sizeof descr);
            if (ok && parse_descr(out, descr, what, err))
                return -1;
        } else if (!strcmp(key, "fortran_order") && !has_order) {
            has_order = true;
            out->columns = take_word(t, "True");
            ok = out->columns || take_word(t, "False");
        } else if (!strcmp(key, "shape") && !has_shape) {
            has_shape = true;
            ok = take_shape(t, &out->rank, out->shape);
            if (out->rank > TN__ARRAY_RANK)
                return tn__file_fail(err, what, "has more than %d dimensions", TN__ARRAY_RANK);
        } else {
            ok = false;
        }
        if (ok && !take(t, ',')) {
            ok = take(t, '}');
            break;
        }
    }
    skip_blanks(t);
    if (!ok || t->p != t->end || !has_descr || !has_order || !has_shape)
        return tn__file_fail(err, what, "has a damaged npy header");
    return 0;
}

int tn__npy_parse(tn__npy *out, const void *start, size_t bytes, const char *what,
                  struct tn__err *err)
{
    const unsigned char *const s = start;
    memset(out, 0, sizeof *out);
    if (bytes < 10 || memcmp(s, "\x93NUMPY", 6))
        return tn__file_fail(err, what, "is not an npy array");
    size_t at, n;
    if (s[6] == 1) {
        at = 10;
        n = s[8] | (size_t)s[9] << 8;
    } else if ((s[6] == 2 || s[6] == 3) && bytes >= 12) {
        at = 12;
        n = s[8] | (size_t)s[9] << 8 | (size_t)s[10] << 16 | (size_t)s[11] << 24;
    } else {
        return tn__file_fail(err, what, "has npy version %d.%d, which is not known", s[6], s[7]);
    }
    if (n > TN__NPY_MAX_HEADER - at)
        return tn__file_fail(err, what, "has an npy header of %zu bytes", n);
    if (n > bytes - at)
        return tn__file_fail(err, what, "is truncated: it ends within the npy header");
    Text t = {(const char *)s + at, (const char *)s + at + n};
    if (parse_dictionary(out, &t, what, err))
        return -1;
    out->header = at + n;
    if (!tn__array_bytes(out->dtype, out->rank, out->shape, &out->bytes))
        return tn__file_fail(err, what, "has a shape larger than memory can be");
    return 0;
}

static void swap_bytes(unsigned char *p, size_t bytes, size_t size)
{
    for (size_t i = 0; i < bytes; i += size)
        for (size_t k = 0; k < size / 2; k++) {
            const unsigned char b = p[i + k];
            p[i + k] = p[i + size - 1 - k];
            p[i + size - 1 - k] = b;
        }
}

int tn__npy_order(const tn__npy *h, void *data)
{
    const size_t size = tn__dtype_size(h->dtype);
    if (h->swapped)
        swap_bytes(data, h->bytes, size);
    if (!h->columns || h->rank < 2 || !h->bytes)
        return 0;
    char *copy = malloc(h->bytes);
    if (!copy)
        return -1;
    memcpy(copy, data, h->bytes);
    int64_t at[TN__ARRAY_RANK] = {0}, step[TN__ARRAY_RANK], from = 0;
    for (int i = 0; i < h->rank; i++)
        step[i] = i ? step[i - 1] * h->shape[i - 1] : 1;
    for (size_t to = 0; to < h->bytes; to += size) {
        memcpy((char *)data + to, copy + (size_t)from * size, size);
        for (int i = h->rank - 1; i >= 0; i--) { /* the next index in row-major order */
            from += step[i];
            if (++at[i] < h->shape[i])
                break;
            from -= step[i] * at[i];
            at[i] = 0;
        }
    }
    free(copy);
    return 0;
}

size_t tn__npy_header(const tn__array *x, char *to)
{
    enum { START = 10, UNIT = 64 };
    const char *descr = NULL;
    for (size_t i = 0; i < sizeof descrs / sizeof *descrs; i++)
        if (descrs[i].dtype == x->dtype)
            descr = descrs[i].text;
    if (!descr)
        return 0;
    const char order = tn__dtype_size(x->dtype) == 1 ? '|' : little_endian() ? '<' : '>';
    size_t n = START;
    n += (size_t)sprintf(to + n, "{'descr': '%c%s', 'fortran_order': False, 'shape': (", order,
                         descr);
    for (int i = 0; i < x->rank; i++)
        n += (size_t)sprintf(to + n, i ? " %" PRId64 "%s" : "%" PRId64 "%s", x->shape[i],
                             i + 1 < x->rank || x->rank == 1 ? "," : "");
    n += (size_t)sprintf(to + n, "), }");
    const size_t whole = (n + 1 + UNIT - 1) / UNIT * UNIT;
    memset(to + n, ' ', whole - n - 1);
    to[whole - 1] = '\n';
    memcpy(to, "\x93NUMPY\1\0", 8);
    to[8] = (char)((whole - START) & 255);
    to[9] = (char)((whole - START) >> 8);
    return whole;
}

/* The file's name without folder and extension. */
static char *stem_of(const char *path)
{
    const char *const slash = strrchr(path, '/'), *const name = slash ? slash + 1 : path;
    const char *const dot = strrchr(name, '.');
    const size_t n = dot && dot > name ? (size_t)(dot - name) : strlen(name);
    char *stem = malloc(n + 1);
    if (stem) {
        memcpy(stem, name, n);
        stem[n] = 0;
    }
    return stem;
}

/* As many bytes as there are, up to n; -1 for an error. */
static ssize_t read_some(int fd, void *to, size_t n)
{
    size_t done = 0;
    while (done < n) {
        const ssize_t k = read(fd, (char *)to + done, n - done < (1u << 30) ? n - done : 1u << 30);
        if (k < 0 && errno != EINTR)
            return -1;
        if (k == 0)
            break;
        done += k > 0 ? (size_t)k : 0;
    }
    return (ssize_t)done;
}

static int read_array(int fd, const char *path, tn__npy *h, void **data, struct tn__err *err)
{
    char start[TN__NPY_MAX_HEADER];
    const ssize_t n = read_some(fd, start, sizeof start);
    struct stat st;
    if (n < 0 || fstat(fd, &st))
        return tn__file_fail(err, path, "cannot be read: %s", strerror(errno));
    if (tn__npy_parse(h, start, (size_t)n, path, err))
        return -1;
    if (S_ISREG(st.st_mode) && (uint64_t)st.st_size != h->header + (uint64_t)h->bytes)
        return tn__file_fail(err, path, "has %jd bytes of data where its shape and dtype need %zu",
                             (intmax_t)st.st_size - (intmax_t)h->header, h->bytes);
    char *const to = *data = tn__array_alloc(h->bytes);
    if (!to)
        return tn__file_fail(err, path, "out of memory: %zu bytes wanted", h->bytes);
    size_t have = (size_t)n - h->header;
    have = have < h->bytes ? have : h->bytes;
    memcpy(to, start + h->header, have);
    const ssize_t more = read_some(fd, to + have, h->bytes - have);
    if (more < 0)
        return tn__file_fail(err, path, "cannot be read: %s", strerror(errno));
    if ((size_t)more != h->bytes - have)
        return tn__file_fail(err, path, "is truncated");
    if (tn__npy_order(h, to))
        return tn__file_fail(err, path, "out of memory");
    return 0;
}

int tn__load_npy(tn__arrays *out, const char *path, struct tn__err *err)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return tn__file_fail(err, path, "cannot be opened: %s", strerror(errno));
    tn__npy h;
    void *data = NULL;
    const int status = read_array(fd, path, &h, &data, err);
    close(fd);
    char *const name = status ? NULL : stem_of(path);
    if (!name) {
        free(data);
        return status ? -1 : tn__file_fail(err, path, "out of memory");
    }
    tn__array x = {.dtype = h.dtype, .rank = h.rank, .data = data, .bytes = h.bytes};
    memcpy(x.shape, h.shape, sizeof x.shape);
    const int added = tn__arrays_append(out, path, name, &x, err);
    free(name);
    return added;
}

int tn__save_npy(const tn__arrays *in, const char *path, struct tn__err *err)
{
    if (in->n != 1)
        return tn__file_fail(err, path, "an npy file holds one array, not %d: use .npz", in->n);
    char header[TN__NPY_MAX_HEADER];
    const size_t n = tn__npy_header(&in->at[0], header);
    if (!n)
        return tn__file_fail(err, path, "npy files have no %s: use .safetensors",
                             tn__dtype_name(in->at[0].dtype));
    tn__writer *w = tn__writer_open(path, err);
    if (!w)
        return -1;
    tn__write(w, header, n);
    tn__write(w, in->at[0].data, in->at[0].bytes);
    return tn__writer_close(w, err);
}
