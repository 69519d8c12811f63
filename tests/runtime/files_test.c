/* files_test.c: arrays written and read again in all formats; files that others write (byte orders,
 * column order, versions, deflated); damaged files, of which every one gives a message that names
 * it; files that stay as they were when writing fails. SPDX-License-Identifier: MIT */
#include "runtime/files.h"

#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zip.h>

#include <cmocka.h>

/* Allocations of the files' code go through here (linked with --wrap); the one when `fail_at`
 * reaches 0 fails. */
static long fail_at = -1;
static bool fails(void)
{
    return fail_at >= 0 && fail_at-- == 0;
}
#define WRAP(type, name, parameters, arguments)                                                    \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters                                                                  \
    {                                                                                              \
        return fails() ? NULL : __real_##name arguments;                                           \
    }
WRAP(void *, malloc, (size_t n), (n))
WRAP(void *, calloc, (size_t n, size_t size), (n, size))
WRAP(void *, realloc, (void *p, size_t n), (p, n))
WRAP(void *, aligned_alloc, (size_t unit, size_t n), (unit, n))
WRAP(char *, strdup, (const char *s), (s))
WRAP(FILE *, open_memstream, (char **text, size_t *n), (text, n))

/* A folder of its own for each test; the working folder while it runs. */
static int enter_folder(void **state)
{
    char *folder = strdup("/tmp/tenon-files-XXXXXX");
    *state = folder;
    return mkdtemp(folder) && !chdir(folder) ? 0 : -1;
}

static int count_files(void)
{
    DIR *d = opendir(".");
    int n = 0;
    for (struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static int leave_folder(void **state)
{
    DIR *d = opendir(".");
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.')
            remove(e->d_name);
    closedir(d);
    const int status = chdir("/") || rmdir(*state) ? -1 : 0;
    free(*state);
    return status;
}

static void put(const char *path, const void *data, size_t bytes)
{
    unlink(path); /* file systems flush a file that is written over */
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, bytes, f), bytes);
    assert_int_equal(fclose(f), 0);
}

static char *get(const char *path, size_t *bytes)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    char *data = malloc(1 << 20);
    *bytes = fread(data, 1, 1 << 20, f);
    fclose(f);
    return data;
}

static void refuse(const char *path, const char *part)
{
    tn__arrays list;
    struct tn__err err = {""};
    assert_int_equal(tn__arrays_load(&list, path, &err), -1);
    assert_int_equal(list.n, 0);
    assert_null(list.at);
    if (!strstr(err.text, part) || strncmp(err.text, path, strlen(path))) {
        print_error("message: %s\nwanted: %s: .. %s\n", err.text, path, part);
        fail();
    }
}

static double f64s[6] = {1, -2, 3.5, 1e300, 0, -0.0};
static float f32s[3] = {1.5f, -1e-40f, 3e38f};
static uint16_t halves[4] = {0x3c00, 0x7c00, 0x8001, 0x7e00};
static int64_t i64s[2] = {INT64_MIN, INT64_MAX};
static int32_t i32s[2] = {-1, 7};
static int16_t i16s[3] = {-300, 5, 6};
static int8_t i8s[1] = {-128};
static uint8_t u8s[5] = {0, 255, 1, 2, 3}, bools[3] = {1, 0, 1};
static uint64_t u64s[1] = {UINT64_MAX};

static tn__array all[] = {
    {"u8", TN_U8, 1, {5}, u8s, 5},
    {"f64", TN_F64, 2, {2, 3}, f64s, 48},
    {"f32", TN_F32, 1, {3}, f32s, 12},
    {"f16", TN_F16, 4, {1, 2, 1, 2}, halves, 8},
    {"layer.0/w", TN_I64, 1, {2}, i64s, 16},
    {"i32", TN_I32, 2, {2, 1}, i32s, 8},
    {"i16", TN_I16, 1, {3}, i16s, 6},
    {"scalar \"x\"\n", TN_I8, 0, {0}, i8s, 1},
    {"bool", TN_BOOL, 1, {3}, bools, 3},
    {"u64", TN_U64, 8, {1, 1, 1, 1, 1, 1, 1, 1}, u64s, 8},
    {"empty", TN_F32, 2, {0, 3}, NULL, 0},
    {"bf16", TN_BF16, 1, {4}, halves, 8}, /* last: npz has none */
};
enum { ALL = sizeof all / sizeof *all };

static void check_same(const tn__arrays *got, const tn__array *want, int n)
{
    assert_int_equal(got->n, n);
    for (int i = 0; i < n; i++) {
        const tn__array *x = tn__arrays_find(got, want[i].name);
        assert_non_null(x);
        assert_int_equal(x->dtype, want[i].dtype);
        assert_int_equal(x->rank, want[i].rank);
        assert_int_equal(x->bytes, want[i].bytes);
        assert_memory_equal(x->shape, want[i].shape, (size_t)x->rank * sizeof *x->shape);
        assert_non_null(x->data);
        assert_int_equal((uintptr_t)x->data % tn__dtype_size(x->dtype), 0);
        if (x->bytes)
            assert_memory_equal(x->data, want[i].data, x->bytes);
    }
}

static void test_round_trip(void **state)
{
    (void)state;
    static const char *const paths[] = {"a.npz", "a.safetensors"};
    for (int i = 0; i < 2; i++) {
        struct tn__err err = {""};
        tn__metadata metadata[] = {{"format", "tenon"}, {"odd\t\"key\"", "a\\b"}};
        const tn__arrays in = {
            .at = all, .n = i ? ALL : ALL - 1, .metadata = metadata, .nmetadata = 2};
        assert_int_equal(tn__arrays_save(&in, paths[i], &err), 0);
        tn__arrays out;
        if (tn__arrays_load(&out, paths[i], &err))
            print_error("%s\n", err.text);
        check_same(&out, all, in.n);
        assert_int_equal(out.nmetadata, i ? 2 : 0);
        if (i) {
            assert_string_equal(out.metadata[1].key, metadata[1].key);
            assert_string_equal(out.metadata[1].value, metadata[1].value);
        }
        ((float *)tn__arrays_find(&out, "f32")->data)[0] = 9; /* allowed, and not in the file */
        size_t n, m;
        char *const first = get(paths[i], &n);
        assert_int_equal(tn__arrays_save(&in, paths[i], &err), 0);
        char *const second = get(paths[i], &m);
        assert_int_equal(n, m);
        assert_memory_equal(first, second, n);
        free(first);
        free(second);
        tn__arrays_free(&out);
    }
    assert_int_equal(count_files(), 2);
}

static void test_npy_round_trip(void **state)
{
    (void)state;
    for (int i = 0; i < ALL - 1; i++) {
        struct tn__err err;
        tn__array x = all[i];
        x.name = "x.y";
        const tn__arrays in = {.at = &x, .n = 1};
        assert_int_equal(tn__arrays_save(&in, "./x.y.npy", &err), 0);
        tn__arrays out;
        assert_int_equal(tn__arrays_load(&out, "./x.y.npy", &err), 0);
        check_same(&out, &x, 1);
        tn__arrays_free(&out);
    }
}

static void test_empty_list(void **state)
{
    (void)state;
    const tn__arrays in = {0};
    struct tn__err err;
    tn__arrays out;
    assert_int_equal(tn__arrays_save(&in, "e.npz", &err), 0);
    assert_int_equal(tn__arrays_load(&out, "e.npz", &err), 0);
    assert_int_equal(out.n, 0);
    tn__arrays_free(&out);
    assert_int_equal(tn__arrays_save(&in, "e.safetensors", &err), 0);
    assert_int_equal(tn__arrays_load(&out, "e.safetensors", &err), 0);
    assert_int_equal(out.n, 0);
    tn__arrays_free(&out);
    assert_int_equal(tn__arrays_save(&in, "e.npy", &err), -1);
    assert_non_null(strstr(err.text, "one array"));
}

/* An npy file of a given version and dictionary. */
static size_t make_npy(char *to, int version, const char *dictionary, const void *data,
                       size_t bytes)
{
    const size_t n = strlen(dictionary), at = version == 1 ? 10 : 12;
    memcpy(to, "\x93NUMPY", 6);
    to[6] = (char)version;
    to[7] = 0;
    for (size_t i = 8; i < at; i++)
        to[i] = (char)(n >> 8 * (i - 8));
    memcpy(to + at, dictionary, n);
    memcpy(to + at + n, data, bytes);
    return at + n + bytes;
}

static void check_npy(int version, const char *dictionary, const void *data, size_t bytes,
                      const tn__array *want)
{
    char file[1000];
    put("v.npy", file, make_npy(file, version, dictionary, data, bytes));
    tn__arrays out;
    struct tn__err err = {""};
    if (tn__arrays_load(&out, "v.npy", &err))
        print_error("%s\n", err.text);
    check_same(&out, want, 1);
    tn__arrays_free(&out);
}

static void test_npy_of_others(void **state)
{
    (void)state;
    static int16_t rows[6] = {1, 2, 3, 4, 5, 6};
    const tn__array want = {"v", TN_I16, 2, {2, 3}, rows, 12};
    check_npy(1, "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }   \n",
              "\1\0\2\0\3\0\4\0\5\0\6\0", 12, &want);
    check_npy(2, "{\"shape\":(2,3),\"descr\":\">i2\",\"fortran_order\":False}",
              "\0\1\0\2\0\3\0\4\0\5\0\6", 12, &want);
    check_npy(3, "{'descr': '<i2', 'fortran_order': True, 'shape': (2L, 3L)}",
              "\1\0\4\0\2\0\5\0\3\0\6\0", 12, &want);
    static uint8_t cube[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    const tn__array cubic = {"v", TN_U8, 3, {2, 3, 2}, cube, 12};
    check_npy(1, "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3, 2), }",
              "\1\7\3\11\5\13\2\10\4\12\6\14", 12, &cubic);
    static uint8_t truth[2] = {1, 0};
    const tn__array bytes = {"v", TN_BOOL, 1, {2}, truth, 2};
    check_npy(1, "{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }", "\377\0", 2, &bytes);
    static float one[1] = {1};
    const tn__array scalar = {"v", TN_F32, 0, {0}, one, 4};
    check_npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (), }", "\0\0\x80\x3f", 4,
              &scalar);
}

static void refuse_npy(int version, const char *dictionary, size_t bytes, const char *part)
{
    char file[1000];
    static const char zeros[100];
    put("bad.npy", file, make_npy(file, version, dictionary, zeros, bytes));
    refuse("bad.npy", part);
}

static void test_damaged_npy(void **state)
{
    (void)state;
    const char *const good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
    refuse_npy(1, good, 23, "has 23 bytes of data where its shape and dtype need 24");
    refuse_npy(1, good, 25, "has 25 bytes");
    refuse_npy(4, good, 24, "version 4.0");
    refuse_npy(1, "{'descr': '<c8', 'fortran_order': False, 'shape': (2,), }", 16, "dtype '<c8'");
    refuse_npy(1, "{'descr': '<V2', 'fortran_order': False, 'shape': (2,), }", 4,
               "use safetensors");
    refuse_npy(1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", 8,
               "records");
    refuse_npy(1, "{'descr': '<f4', 'fortran_order': 0, 'shape': (2,), }", 8, "damaged npy header");
    refuse_npy(1, "{'descr': '<f4', 'fortran_order': False}", 8, "damaged npy header");
    refuse_npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2), }", 8,
               "damaged npy header");
    refuse_npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }", 8,
               "damaged npy header");
    refuse_npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'shape': (2,)}", 8,
               "damaged");
    refuse_npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': 1}", 8, "damaged");
    refuse_npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x", 8, "damaged");
    refuse_npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}", 4,
               "more than 8 dimensions");
    refuse_npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296,4294967296)}", 4,
               "larger than memory");
    refuse_npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", 4,
               "damaged");
    char file[200];
    const size_t n = make_npy(file, 1, good, "", 0);
    for (size_t i = 0; i < n; i++) { /* every truncation */
        put("cut.npy", file, i);
        refuse("cut.npy", i < 10 ? "not an npy array" : i < n ? "truncated" : "bytes of data");
    }
    put("text.npy", "hello, world", 12);
    refuse("text.npy", "is not an npy array");
    refuse("missing.npy", "No such file");
    assert_int_equal(mkdir("folder.npy", 0777), 0);
    refuse("folder.npy", "is a folder");
}

static void make_zip(const char *path, const char *name, const void *data, size_t bytes,
                     bool deflate)
{
    zip_t *z = zip_open(path, ZIP_CREATE | ZIP_TRUNCATE, NULL);
    assert_non_null(z);
    zip_source_t *s = zip_source_buffer(z, data, bytes, 0);
    const zip_int64_t i = zip_file_add(z, name, s, 0);
    assert_true(i >= 0);
    assert_int_equal(
        zip_set_file_compression(z, (zip_uint64_t)i, deflate ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0),
        0);
    assert_int_equal(zip_close(z), 0);
}

static void test_npz_of_others(void **state)
{
    (void)state;
    static int32_t values[1000];
    for (int i = 0; i < 1000; i++)
        values[i] = i % 10;
    const tn__array want = {"many", TN_I32, 1, {1000}, values, 4000};
    char file[5000];
    const size_t n =
        make_npy(file, 1, "{'descr': '<i4', 'fortran_order': False, 'shape': (1000,), }\n", values,
                 sizeof values);
    for (int deflate = 0; deflate < 2; deflate++) {
        make_zip("z.npz", "many.npy", file, n, deflate);
        tn__arrays out;
        struct tn__err err = {""};
        assert_int_equal(tn__arrays_load(&out, "z.npz", &err), 0);
        check_same(&out, &want, 1);
        tn__arrays_free(&out);
    }
    make_zip("r.npz", "readme.txt", "x", 1, false);
    refuse("r.npz", "not an npy array: 'readme.txt'");
    make_zip("s.npz", "many.npy", file, n - 1, false);
    refuse("s.npz", "array 'many': has 3999 bytes of data where its shape and dtype need 4000");
    make_zip("h.npz", "many.npy", file, 30, true);
    refuse("h.npz", "array 'many': is truncated");
    const tn__arrays in = {.at = all, .n = ALL - 1};
    struct tn__err err;
    assert_int_equal(tn__arrays_save(&in, "a.npz", &err), 0);
    /* ours is a zip file to libzip */
    zip_t *z = zip_open("a.npz", ZIP_CHECKCONS | ZIP_RDONLY, NULL);
    assert_non_null(z);
    assert_int_equal(zip_get_num_entries(z, 0), ALL - 1);
    zip_discard(z);
}

static void test_damaged_npz(void **state)
{
    (void)state;
    const tn__arrays in = {.at = all, .n = 3};
    struct tn__err err;
    assert_int_equal(tn__arrays_save(&in, "a.npz", &err), 0);
    size_t n;
    char *const file = get("a.npz", &n);
    for (size_t i = 0; i < n; i += i < 100 ? 1 : 13) { /* every truncation */
        put("cut.npz", file, i);
        refuse("cut.npz", "");
    }
    file[10 + 30 + 6 + 118] ^= 1; /* a byte of data: the check sum tells */
    put("bit.npz", file, n);
    refuse("bit.npz", "array 'u8': is damaged");
    free(file);
    put("empty.npz", "", 0);
    refuse("empty.npz", "");
    put("text.npz", "hello, this is no archive", 25);
    refuse("text.npz", "is not an npz file, or is truncated");
}

/* A safetensors file with this header and so many bytes of data. */
static void put_safetensors(const char *path, const char *header, size_t bytes)
{
    char file[2000] = {0};
    const size_t n = strlen(header);
    for (int i = 0; i < 8; i++)
        file[i] = (char)(n >> 8 * i);
    memcpy(file + 8, header, n);
    for (size_t i = 0; i < bytes; i++)
        file[8 + n + i] = (char)i;
    put(path, file, 8 + n + bytes);
}

static void refuse_safetensors(const char *header, size_t bytes, const char *part)
{
    put_safetensors("bad.safetensors", header, bytes);
    refuse("bad.safetensors", part);
}

static void test_damaged_safetensors(void **state)
{
    (void)state;
#define ENTRY(name, dtype, shape, begin, end)                                                      \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" begin "," end   \
    "]}"
    refuse_safetensors("{" ENTRY("a", "F32", "[2]", "0", "8") "}", 7,
                       "array 'a' ends beyond the file");
    refuse_safetensors("{" ENTRY("a", "F32", "[2]", "0", "8") "}", 9,
                       "1 bytes of data that belong to no array");
    refuse_safetensors("{" ENTRY("a", "F32", "[3]", "0", "8") "}", 8,
                       "has 8 bytes where its shape and dtype need 12");
    refuse_safetensors("{" ENTRY("a", "F32", "[2]", "8", "0") "}", 8, "ends beyond the file");
    refuse_safetensors("{" ENTRY("a", "F8_E4M3", "[8]", "0", "8") "}", 8,
                       "dtype 'F8_E4M3' is not supported");
    refuse_safetensors("{" ENTRY("a", "F32", "[-2]", "0", "8") "}", 8, "damaged shape");
    refuse_safetensors("{" ENTRY("a", "F32", "[1.5]", "0", "8") "}", 8, "damaged shape");
    refuse_safetensors("{" ENTRY("a", "F32", "2", "0", "8") "}", 8, "has no shape");
    refuse_safetensors("{" ENTRY("a", "F32", "[4294967296,4294967296]", "0", "8") "}", 8,
                       "larger than memory");
    refuse_safetensors("{" ENTRY("a", "U8", "[1,1,1,1,1,1,1,1,1]", "0", "1") "}", 1,
                       "more than 8 dimensions");
    refuse_safetensors(
        "{" ENTRY("a", "U8", "[4]", "0", "4") "," ENTRY("b", "U8", "[4]", "3", "7") "}", 7,
        "'b' overlaps");
    refuse_safetensors(
        "{" ENTRY("a", "U8", "[4]", "0", "4") "," ENTRY("b", "U8", "[4]", "5", "9") "}", 9,
        "before 'b'");
    refuse_safetensors(
        "{" ENTRY("a", "U8", "[4]", "0", "4") "," ENTRY("a", "U8", "[4]", "4", "8") "}", 8,
        "two arrays are called 'a'");
    refuse_safetensors("{" ENTRY("a", "U8", "[4]", "0", "4") "", 4, "damaged header");
    refuse_safetensors("{} x", 0, "damaged header");
    refuse_safetensors("[]", 0, "damaged header");
    refuse_safetensors("{\"a\":3}", 0, "array 'a' has a damaged description");
    refuse_safetensors("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}}", 1,
                       "damaged description");
    refuse_safetensors("{\"__metadata__\":{\"k\":1}}", 0, "metadata 'k'");
    refuse_safetensors("{\"__metadata__\":7}", 0, "damaged metadata");
    put("short.safetensors", "1234567", 7);
    refuse("short.safetensors", "is truncated");
    put("long.safetensors", "\xff\0\0\0\0\0\0\0{}", 10);
    refuse("long.safetensors", "ends within the header");
    put("text.safetensors", "hello, this is text", 19);
    refuse("text.safetensors", "is not a safetensors file");
    /* data that is not aligned to its elements is fine */
    put_safetensors(
        "odd.safetensors",
        "{" ENTRY("a", "U8", "[1]", "0", "1") "," ENTRY("b", "F64", "[1]", "1", "9") "} ", 9);
    tn__arrays out;
    struct tn__err err = {""};
    assert_int_equal(tn__arrays_load(&out, "odd.safetensors", &err), 0);
    assert_memory_equal(tn__arrays_find(&out, "b")->data, "\1\2\3\4\5\6\7\10", 8);
    assert_int_equal((uintptr_t)tn__arrays_find(&out, "b")->data % 8, 0);
    tn__arrays_free(&out);
}

static void refuse_save(const tn__arrays *in, const char *path, const char *part)
{
    struct tn__err err = {""};
    assert_int_equal(tn__arrays_save(in, path, &err), -1);
    if (!strstr(err.text, part) || strncmp(err.text, path, strlen(path))) {
        print_error("message: %s\nwanted: %s: .. %s\n", err.text, path, part);
        fail();
    }
}

static void test_refused_saves(void **state)
{
    (void)state;
    const tn__arrays bf16 = {.at = &all[ALL - 1], .n = 1};
    refuse_save(&bf16, "b.npz", "array 'bf16': npz files have no bf16");
    refuse_save(&bf16, "b.npy", "npy files have no bf16");
    refuse_save(&bf16, "b.txt", "unknown kind of file");
    refuse_save(&bf16, "no/such/b.safetensors", "cannot be written: No such file");
    tn__array two[] = {all[0], all[0]};
    refuse_save(&(tn__arrays){.at = two, .n = 2}, "t.npz", "two arrays are called 'u8'");
    two[0].bytes = 4;
    refuse_save(&(tn__arrays){.at = two, .n = 1}, "t.npz", "no valid shape");
    two[1].name = "__metadata__";
    refuse_save(&(tn__arrays){.at = two + 1, .n = 1}, "t.safetensors", "'__metadata__'");
    assert_int_equal(count_files(), 0);
}

/* Writing that fails leaves the old file and nothing else. */
static void test_no_space(void **state)
{
    (void)state;
    static double large[40000];
    tn__array x = {"x", TN_F64, 1, {40000}, large, sizeof large};
    const tn__arrays in = {.at = &x, .n = 1}, old = {.at = all, .n = 3};
    static const char *const paths[] = {"d.npz", "d.npy", "d.safetensors"};
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit before, limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    for (int i = 0; i < 3; i++) {
        struct tn__err err;
        const tn__arrays small = {.at = all, .n = i == 1 ? 1 : old.n};
        assert_int_equal(tn__arrays_save(&small, paths[i], &err), 0);
        size_t n, m;
        char *const was = get(paths[i], &n);
        limit = before;
        limit.rlim_cur = 100000;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        refuse_save(&in, paths[i], "cannot be written: File too large");
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        char *const is = get(paths[i], &m);
        assert_int_equal(n, m);
        assert_memory_equal(was, is, n);
        free(was);
        free(is);
    }
    assert_int_equal(count_files(), 3);
    assert_int_equal(symlink("/dev/full", "full.npz"), 0); /* a device is written, not replaced */
    refuse_save(&in, "full.npz", "No space left");
    struct stat st;
    assert_true(!lstat("full.npz", &st) && S_ISLNK(st.st_mode));
    assert_int_equal(symlink("d.npz", "link.npz"), 0);
    struct tn__err err;
    assert_int_equal(tn__arrays_save(&in, "link.npz", &err), 0);
    assert_true(!lstat("link.npz", &st) && S_ISLNK(st.st_mode));
    assert_true(!lstat("d.npz", &st) && st.st_size > (off_t)sizeof large);
}

static void test_by_content(void **state)
{
    (void)state;
    struct tn__err err;
    tn__arrays out;
    const tn__arrays in = {.at = all, .n = 1};
    static const char *const names[] = {"a.npy", "a.npz", "a.safetensors"};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(tn__arrays_save(&in, names[i], &err), 0);
        assert_int_equal(rename(names[i], "u8"), 0);
        assert_int_equal(tn__arrays_load(&out, "u8", &err), 0);
        check_same(&out, all, 1);
        tn__arrays_free(&out);
    }
}

/* Each allocation fails once: a message, no leak (run under a sanitizer), the old file stays. */
static void test_no_memory(void **state)
{
    (void)state;
    static const char *const paths[] = {"a.npz", "a.safetensors", "a.npy"};
    tn__metadata metadata[] = {{"a", "b"}, {"c", "d"}};
    for (int i = 0; i < 3; i++) {
        struct tn__err err = {""};
        tn__arrays in = {
            .at = all, .n = i == 2 ? 1 : ALL - 1, .metadata = metadata, .nmetadata = 2};
        assert_int_equal(tn__arrays_save(&in, paths[i], &err), 0);
        int failures = 0;
        for (long at = 0;; at++) {
            fail_at = at;
            tn__arrays out;
            const int status = tn__arrays_load(&out, paths[i], &err);
            const bool reached = fail_at < 0;
            fail_at = -1;
            if (!reached) {
                assert_int_equal(status, 0);
                tn__arrays_free(&out);
                break;
            }
            assert_int_equal(status, -1);
            assert_non_null(strstr(err.text, "memory"));
            failures++;
        }
        assert_true(failures >= (i == 2 ? 3 : ALL));
        for (long at = 0;; at++) {
            fail_at = at;
            const int status = tn__arrays_save(&in, paths[i], &err);
            const bool reached = fail_at < 0;
            fail_at = -1;
            if (!reached) {
                assert_int_equal(status, 0);
                break;
            }
            assert_int_equal(status, -1);
            assert_int_equal(count_files(), i + 1);
        }
    }
}

/* Files with random damage are read or refused with a message; what is read has its memory. */
static void test_random_damage(void **state)
{
    (void)state;
    static const char *const paths[] = {"a.npz", "a.safetensors", "a.npy"};
    uint32_t seed = 12345;
    for (int i = 0; i < 3; i++) {
        struct tn__err err;
        const tn__arrays in = {.at = all, .n = i == 2 ? 1 : i == 1 ? ALL : 4};
        assert_int_equal(tn__arrays_save(&in, paths[i], &err), 0);
        size_t n;
        char *const file = get(paths[i], &n), *const bad = malloc(n + 1);
        int refused = 0;
        for (int round = 0; round < 1500; round++) {
            memcpy(bad, file, n);
            for (int k = 0; k <= round % 4; k++) {
                seed = seed * 1664525u + 1013904223u;
                const size_t at = i ? (seed >> 8) % (n < 1200 ? n : 1200) : (seed >> 8) % n;
                const char digits[] = "0123456789[]{}\",:'<f\xff\0";
                bad[at] = round % 2 ? (char)(seed >> 24) : digits[(seed >> 24) % sizeof digits];
            }
            put(paths[i], bad, n - (round % 5 == 0 ? seed % n : 0));
            tn__arrays out;
            err.text[0] = 0;
            if (tn__arrays_load(&out, paths[i], &err)) {
                refused++;
                assert_true(strlen(err.text) > strlen(paths[i]) + 2);
                continue;
            }
            unsigned sum = 0;
            for (int k = 0; k < out.n; k++)
                for (size_t b = 0; b < out.at[k].bytes; b++)
                    sum += ((unsigned char *)out.at[k].data)[b];
            assert_true(sum < 1u << 30);
            tn__arrays_free(&out);
        }
        assert_true(refused > 300);
        free(file);
        free(bad);
    }
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, enter_folder, leave_folder)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_round_trip),    IN_FOLDER(test_npy_round_trip),
        IN_FOLDER(test_empty_list),    IN_FOLDER(test_npy_of_others),
        IN_FOLDER(test_damaged_npy),   IN_FOLDER(test_npz_of_others),
        IN_FOLDER(test_damaged_npz),   IN_FOLDER(test_damaged_safetensors),
        IN_FOLDER(test_refused_saves), IN_FOLDER(test_no_space),
        IN_FOLDER(test_by_content),    IN_FOLDER(test_random_damage),
        IN_FOLDER(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
