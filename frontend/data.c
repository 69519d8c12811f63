/* data.c: named arrays over the runtime's files. SPDX-License-Identifier: MIT */
#include "frontend/data.h"

#include "frontend/message.h"
#include "ir/base/strbuf.h"
#include "runtime/files.h"
#include "runtime/rt.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What must be freed at the end: a loaded file, or memory of ours. */
typedef struct {
    tn__arrays file;
    void *memory;
} Owned;

Arrays *arrays_create(Arena *a)
{
    Arrays *s = arena_new(a, Arrays);
    s->a = a;
    return s;
}

static Owned *own(Arrays *s)
{
    if (s->nowned == s->owned_cap) {
        const int cap = s->owned_cap ? 2 * s->owned_cap : 16;
        void **more = arena_array(s->a, void *, cap);
        if (s->nowned)
            memcpy(more, s->owned, sizeof *more * (size_t)s->nowned);
        s->owned = more;
        s->owned_cap = cap;
    }
    Owned *o = arena_new(s->a, Owned);
    s->owned[s->nowned++] = o;
    return o;
}

void arrays_destroy(Arrays *s)
{
    if (!s)
        return;
    for (int i = 0; i < s->nowned; i++) {
        Owned *o = s->owned[i];
        tn__arrays_free(&o->file);
        free(o->memory);
    }
    s->nowned = s->n = 0;
}

void arrays_adopt(Arrays *s, Arrays *from)
{
    for (int i = 0; i < from->nowned; i++)
        *own(s) = *(Owned *)from->owned[i];
    from->nowned = 0;
}

void arrays_add(Arrays *s, const char *name, DLTensor t)
{
    if (s->n == s->cap) {
        const int cap = s->cap ? 2 * s->cap : 16;
        Array *more = arena_array(s->a, Array, cap);
        if (s->n)
            memcpy(more, s->at, sizeof *more * (size_t)s->n);
        s->at = more;
        s->cap = cap;
    }
    s->at[s->n++] = (Array){arena_strdup(s->a, name), t};
}

const char *arrays_load(Arrays *s, const char *path, const char *npy_name)
{
    Owned *o = own(s);
    struct tn__err err;
    if (tn__arrays_load(&o->file, path, &err))
        return arena_strdup(s->a, err.text);
    const size_t n = strlen(path);
    const bool is_npy = n > 4 && !strcmp(path + n - 4, ".npy");
    for (int i = 0; i < o->file.n; i++) {
        tn__array *x = &o->file.at[i];
        DLTensor t = {.data = x->data, .ndim = x->rank, .shape = x->shape, .device = {kDLCPU, 0}};
        tn__dl_type(x->dtype, &t.dtype);
        arrays_add(s, is_npy ? npy_name : x->name, t);
    }
    return NULL;
}

const char *arrays_can_save(Arena *a, const char *path)
{
    static const char *const ends[] = {".npy", ".npz", ".safetensors"};
    const size_t n = strlen(path);
    bool known = false;
    for (int i = 0; i < 3; i++) {
        const size_t k = strlen(ends[i]);
        known = known || (n > k && !strcmp(path + n - k, ends[i]));
    }
    if (!known)
        return arena_printf(a, "%s: the name must end in .npy, .npz or .safetensors", path);
    const char *slash = strrchr(path, '/');
    const char *folder = !slash          ? "."
                         : slash == path ? "/"
                                         : arena_strndup(a, path, (size_t)(slash - path));
    return access(folder, W_OK)
               ? arena_printf(a, "%s: cannot write into %s: %s", path, folder, strerror(errno))
               : NULL;
}

const char *arrays_save(const Arrays *s, const char *path)
{
    tn__arrays list = {.n = s->n};
    list.at = arena_array(s->a, tn__array, s->n + 1);
    for (int i = 0; i < s->n; i++) {
        const DLTensor *t = &s->at[i].tensor;
        tn__array *x = &list.at[i];
        x->name = arena_strdup(s->a, s->at[i].name);
        x->dtype = tn__dtype_of(t->dtype);
        x->rank = t->ndim;
        for (int k = 0; k < t->ndim; k++)
            x->shape[k] = t->shape[k];
        x->data = (char *)t->data + t->byte_offset;
        x->bytes = tensor_bytes(t);
    }
    struct tn__err err;
    return tn__arrays_save(&list, path, &err) ? arena_strdup(s->a, err.text) : NULL;
}

const Array *arrays_find(const Arrays *s, const char *name)
{
    for (int i = 0; i < s->n; i++)
        if (!strcmp(s->at[i].name, name))
            return &s->at[i];
    return NULL;
}

DLTensor arrays_make(Arrays *s, int dtype, int rank, const int64_t *shape)
{
    DLTensor t = {.ndim = rank, .device = {kDLCPU, 0}};
    tn__dl_type(dtype, &t.dtype);
    t.shape = arena_array(s->a, int64_t, rank + 1);
    for (int i = 0; i < rank; i++)
        t.shape[i] = shape[i];
    int64_t bytes = (int64_t)tn__dtype_size(dtype);
    for (int i = 0; i < rank; i++)
        if (__builtin_mul_overflow(bytes, shape[i], &bytes))
            return t;
    Owned *o = own(s);
    t.data = o->memory = calloc(bytes ? (size_t)bytes : 1, 1);
    return t;
}

uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15ull;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ z >> 27) * 0x94D049BB133111EBull;
    return z ^ z >> 31;
}

int64_t tensor_numel(const DLTensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->ndim; i++)
        n *= t->shape[i];
    return n;
}

int data_dtype(const DLTensor *t)
{
    return tn__dtype_of(t->dtype);
}

size_t tensor_bytes(const DLTensor *t)
{
    return (size_t)tensor_numel(t) * tn__dtype_size(data_dtype(t));
}

const char *tensor_text(Arena *a, const DLTensor *t)
{
    StrBuf b = {.a = a};
    sb_printf(&b, "%s[", tn__dtype_name(data_dtype(t)));
    for (int i = 0; i < t->ndim; i++)
        sb_printf(&b, "%s%lld", i ? ", " : "", (long long)t->shape[i]);
    sb_putc(&b, ']');
    return sb_text(&b);
}

static double half_value(uint16_t h, bool bf16)
{
    if (bf16) {
        const uint32_t bits = (uint32_t)h << 16;
        float f;
        memcpy(&f, &bits, 4);
        return (double)f;
    }
    const int exponent = h >> 10 & 31, fraction = h & 1023;
    double v = exponent == 0 ? fraction * 0x1p-24 : (1024 + fraction) * 0x1p-25;
    for (int i = 1; i < exponent && exponent < 31; i++)
        v *= 2;
    if (exponent == 0)
        return h & 0x8000 ? -v : v;
    v *= 2;
    if (exponent == 31)
        v = fraction ? 0.0 / 0.0 : 1e308 * 10;
    return h & 0x8000 ? -v : v;
}

double tensor_get(const DLTensor *t, int64_t i)
{
    const int dtype = data_dtype(t);
    const char *at = (const char *)t->data + t->byte_offset + (size_t)i * tn__dtype_size(dtype);
    switch (dtype) {
    case TN_F64: {
        double v;
        memcpy(&v, at, 8);
        return v;
    }
    case TN_F32: {
        float v;
        memcpy(&v, at, 4);
        return (double)v;
    }
    case TN_BF16:
    case TN_F16: {
        uint16_t v;
        memcpy(&v, at, 2);
        return half_value(v, dtype == TN_BF16);
    }
    case TN_I64: {
        int64_t v;
        memcpy(&v, at, 8);
        return (double)v;
    }
    case TN_U64: {
        uint64_t v;
        memcpy(&v, at, 8);
        return (double)v;
    }
    case TN_I32: {
        int32_t v;
        memcpy(&v, at, 4);
        return v;
    }
    case TN_I16: {
        int16_t v;
        memcpy(&v, at, 2);
        return v;
    }
    case TN_I8:
        return *(const int8_t *)at;
    default:
        return *(const uint8_t *)at;
    }
}

void tensor_set(DLTensor *t, int64_t i, double v)
{
    const int dtype = data_dtype(t);
    tn__dtype_store(dtype, v, (char *)t->data + t->byte_offset + (size_t)i * tn__dtype_size(dtype));
}

const char *number_text(char text[NUMBER_TEXT], double v, int digits, bool general)
{
    if (isnan(v))
        return "nan"; /* printf shows the sign, which says nothing */
    snprintf(text, NUMBER_TEXT, general ? "%.*g" : "%.*f", digits, v);
    return text;
}

enum { SHOWN = 8 };

static void show_long(const DLTensor *t, int64_t i)
{
    uint64_t bits;
    memcpy(&bits, (const char *)t->data + t->byte_offset + (size_t)i * 8, 8);
    if (data_dtype(t) == TN_U64)
        printf(" %llu", (unsigned long long)bits);
    else
        printf(" %lld", (long long)bits);
}

void tensor_show(void *unused, const char *name, const DLTensor *t)
{
    (void)unused;
    char text[NUMBER_TEXT];
    const int64_t n = tensor_numel(t);
    const int dtype = data_dtype(t);
    const bool is_float = dtype >= TN_F64 && dtype <= TN_F16;
    printf("%s%s%s[", name, *name ? ": " : "", tn__dtype_name(dtype));
    for (int i = 0; i < t->ndim; i++)
        printf("%s%lld", i ? ", " : "", (long long)t->shape[i]);
    fputs("] =", stdout);
    for (int64_t i = 0; i < n; i++) {
        if (n > 2 * SHOWN && i == SHOWN) {
            fputs(" ...", stdout);
            i = n - SHOWN;
        }
        if (is_float)
            printf(" %s", number_text(text, tensor_get(t, i), 6, true));
        else if (dtype == TN_I64 || dtype == TN_U64) /* a double would round large ones */
            show_long(t, i);
        else
            printf(" %lld", (long long)tensor_get(t, i));
    }
    putchar('\n');
}

/* "'y'[40] is 10" of the first element that holds a number; NULL if none does. */
static const char *holder_text(Arena *a, const Array *x, int number)
{
    const DLTensor *t = &x->tensor;
    const int dtype = data_dtype(t);
    const int64_t n = dtype >= TN_I64 && dtype <= TN_U8 ? tensor_numel(t) : 0;
    int64_t e = 0;
    while (e < n && tensor_get(t, e) != (double)number)
        e++;
    if (e == n)
        return NULL;
    StrBuf s = {.a = a};
    sb_printf(&s, "'%s'%s", x->name, t->ndim ? "[" : "");
    for (int64_t k = 0, rest = e, inner = n; k < t->ndim; k++) {
        inner /= t->shape[k];
        sb_printf(&s, "%s%lld", k ? ", " : "", (long long)(rest / inner));
        rest %= inner;
    }
    sb_printf(&s, "%s is %d", t->ndim ? "]" : "", number);
    return sb_text(&s);
}

/* Where the index that a kernel refused comes from, if one argument alone holds it. */
static const char *index_holder(Arena *a, const char *message, const CallSite *site)
{
    const char *at = strstr(message, "index "), *found = NULL;
    int index, size;
    if (!at || sscanf(at, "index %d is out of range: the axis has %d", &index, &size) != 2)
        return NULL;
    for (int i = 0; i < site->nargs; i++) {
        const char *holder = holder_text(a, &site->args[i], index);
        if (holder && found)
            return NULL;
        found = holder ? holder : found;
    }
    return found;
}

int runtime_error(Arena *a, int status, const CallSite *site)
{
    const char *text = tn_last_error();
    const char *holder = status == TN_INDEX ? index_holder(a, text, site) : NULL;
    for (int i = 0; i < site->nfiles; i++) {
        /* compiled models keep a file's last name only: they are the same in every folder */
        const char *slash = strrchr(site->files[i], '/'),
                   *base = slash ? slash + 1 : site->files[i];
        const size_t n = strlen(base);
        if (strncmp(text, base, n) || text[n] != ':')
            continue;
        text = arena_printf(a, "%s%s", site->files[i], text + n);
        break;
    }
    const bool lacks = status == TN_MEMORY || status == TN_UNSUPPORTED;
    return message_error(lacks ? 3 : 1, "%s%s%s", text, holder ? "; " : "", holder ? holder : "");
}
