/* load.c: a model compiled into this process, with a cache of what was compiled before.
 * An entry is a shared library with 16 more bytes behind it: a mark and the hash of the rest.
 * SPDX-License-Identifier: MIT */
#include "codegen/cc.h"
#include "codegen/images.h"
#include "codegen/output.h"
#include "codegen/program.h"
#include "runtime/include/tenon_program.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert((int)STRIP_MAX_STEPS == (int)TN_STRIP_STEPS &&
                   (int)STRIP_MAX_BUFFERS == (int)TN_STRIP_BUFFERS,
               "what lowering makes is what the runtime takes");

static const char mark[8] = {'t', 'e', 'n', 'o', 'n', 's', 'o', '1'};

static const char *const flags[] = {"-std=c11",
                                    "-ffp-contract=off",
                                    "-fno-math-errno",
                                    "-fPIC",
                                    "-fno-trapping-math",
                                    "-shared",
                                    "-w",
                                    NULL};
/* Kernels are compiled for the processor at hand; a text without kernels serves all of a kind. */
static const char *const native_flags[] = {"-march=native", "-DTN_ONE_TARGET",
#if defined __x86_64__
                                           "-mprefer-vector-width=512", /* where there are any */
#endif
                                           NULL};

static const char *level_flag(int level)
{
    static const char *const names[] = {"-O0", "-O1", "-O2", "-O3"};
    return names[level < 0 ? 0 : level > 3 ? 3 : level];
}

/* As in objects (output.c): -O2 with loops made into vectors is compiled in a quarter of the time
 * that -O3 takes, is a third as large, and about as fast. */
static const char *const vector_flags[] = {"-ftree-vectorize", "-fvect-cost-model=dynamic", NULL};

/* --- the key -------------------------------------------------------------------------------------
 */

/* The processor as the kernel names it: -march=native depends on it, and a home may be shared. */
static uint64_t hash_processor(uint64_t h)
{
    char line[4096];
    FILE *f = fopen("/proc/cpuinfo", "r");
    if (!f)
        return h;
    for (int found = 0; found < 2 && fgets(line, sizeof line, f);)
        if (!strncmp(line, "model name", 10) || !strncmp(line, "flags", 5)) {
            h = hash_bytes(h, line, strlen(line));
            found++;
        }
    fclose(f);
    return h;
}

static void hash_text(uint64_t h[2], const char *text, size_t n)
{
    for (int i = 0; i < 2; i++)
        h[i] = hash_bytes(h[i], text, n);
}

/* The name of an entry: what it was made from, and behind a '-' what made it. */
typedef struct {
    uint64_t from[2], by;
    bool any; /* nothing here can make it: take what others made */
} Key;

static const char *key_text(Arena *a, const Key *k)
{
    return arena_printf(a, "%016llx%016llx-", (unsigned long long)k->from[0],
                        (unsigned long long)k->from[1]);
}

static const char *entry_path(Arena *a, const char *dir, const Key *k, const char *ext)
{
    const char *text = key_text(a, k);
    if (!k->any)
        return arena_printf(a, "%s/%s%016llx%s", dir, text, (unsigned long long)k->by, ext);
    const size_t n = strlen(text), end = strlen(ext);
    const char *found = NULL;
    DIR *d = opendir(dir);
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
        const size_t length = strlen(e->d_name);
        if (length > n + end && !strncmp(e->d_name, text, n) &&
            !strcmp(e->d_name + length - end, ext) && (!found || strcmp(e->d_name, found) < 0))
            found = arena_strdup(a, e->d_name);
    }
    if (d)
        closedir(d);
    return found ? arena_printf(a, "%s/%s", dir, found)
                 : arena_printf(a, "%s/%s%s", dir, text, ext);
}

static Key text_key(const StrBuf *text, int level, bool native, const char *compiler)
{
    Key k = {{HASH_START, HASH_START ^ 0x9e3779b97f4a7c15u}, HASH_START, !compiler && !native};
    hash_text(k.from, sb_text(text), text->n);
    hash_text(k.from, level_flag(level), 3);
    for (int i = 0; level >= 2 && vector_flags[i]; i++)
        hash_text(k.from, vector_flags[i], strlen(vector_flags[i]) + 1);
    for (int i = 0; flags[i]; i++)
        hash_text(k.from, flags[i], strlen(flags[i]) + 1);
    for (int i = 0; native && native_flags[i]; i++)
        hash_text(k.from, native_flags[i], strlen(native_flags[i]) + 1);
    if (compiler)
        k.by = hash_bytes(k.by, compiler, strlen(compiler));
    if (native)
        k.by = hash_processor(k.by);
    return k;
}

/* --- the directory -------------------------------------------------------------------------------
 */

static bool make_dir(char *path)
{
    for (char *p = path + 1; *p; p++)
        if (*p == '/') {
            *p = 0;
            mkdir(path, 0777);
            *p = '/';
        }
    return mkdir(path, 0777) == 0 || errno == EEXIST;
}

/* NULL: there is none that can be written to. */
static const char *cache_dir(Arena *a)
{
    const char *own = getenv("TENON_CACHE"), *xdg = getenv("XDG_CACHE_HOME"),
               *home = getenv("HOME");
    char *dir = own && *own     ? arena_strdup(a, own)
                : xdg && *xdg   ? arena_printf(a, "%s/tenon", xdg)
                : home && *home ? arena_printf(a, "%s/.cache/tenon", home)
                                : NULL;
    return dir && make_dir(dir) && access(dir, W_OK | X_OK) == 0 ? dir : NULL;
}

/* --- entries -------------------------------------------------------------------------------------
 */

static char *read_file(Arena *a, const char *path, size_t *n)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    char *data = NULL;
    if (fstat(fd, &st) == 0 && st.st_size > 0) {
        size_t size = (size_t)st.st_size, got = 0;
        data = arena_alloc(a, size);
        while (got < size) {
            ssize_t k = read(fd, data + got, size - got);
            if (k <= 0)
                break;
            got += (size_t)k;
        }
        *n = got;
        if (got != size)
            data = NULL;
    }
    close(fd);
    return data;
}

static bool is_whole(Arena *a, const char *path)
{
    size_t n = 0;
    const char *data = read_file(a, path, &n);
    if (!data || n <= 16 || memcmp(data + n - 16, mark, 8))
        return false;
    uint64_t h = hash_bytes(HASH_START, data, n - 16);
    return !memcmp(data + n - 8, &h, 8);
}

/* Appends the mark and the hash. */
static bool seal(Arena *a, const char *path)
{
    size_t n = 0;
    const char *data = read_file(a, path, &n);
    if (!data)
        return false;
    char tail[16];
    uint64_t h = hash_bytes(HASH_START, data, n);
    memcpy(tail, mark, 8);
    memcpy(tail + 8, &h, 8);
    int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool ok = write(fd, tail, sizeof tail) == (ssize_t)sizeof tail;
    return close(fd) == 0 && ok;
}

static int compile(Arena *a, const StrBuf *text, int level, bool native, const char *dir,
                   const char *to, const char **message)
{
    char *source = arena_printf(a, "%s/source-XXXXXX.c", dir);
    int fd = mkstemps(source, 2);
    if (fd < 0) {
        *message = arena_printf(a, "cannot write to %s: %s", dir, strerror(errno));
        return 1;
    }
    close(fd);
    *message = codegen_write_file(a, source, sb_text(text), text->n);
    int status = *message ? 1 : 0;
    if (!status) {
        VEC(const char *) args = {0};
        vec_push(a, &args, level_flag(level));
        for (int i = 0; level >= 2 && vector_flags[i]; i++)
            vec_push(a, &args, vector_flags[i]);
        for (int i = 0; flags[i]; i++)
            vec_push(a, &args, flags[i]);
        for (int i = 0; native && native_flags[i]; i++)
            vec_push(a, &args, native_flags[i]);
        if (strstr(sb_text(text), "\n#line ")) /* whoever names the model's lines wants them */
            vec_push(a, &args, "-g");
        vec_push(a, &args, "-o");
        vec_push(a, &args, to);
        vec_push(a, &args, source);
        vec_push(a, &args, "-lm");
        vec_push(a, &args, NULL);
        const char *log = "";
        status = codegen_cc(a, args.at, &log);
        *message = status == 4
                       ? arena_printf(a, "the C compiler refused the generated code:\n%s", log)
                       : log;
    }
    unlink(source);
    return status;
}

static LoadedModel open_entry(Arena *a, const char *path, const char *model)
{
    LoadedModel r = {.status = 4};
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library)
        r.desc = dlsym(library, arena_printf(a, "%s_desc", model));
    if (r.desc)
        r.status = 0;
    else
        r.message = arena_printf(a, "cannot load the compiled model: %s", dlerror());
    return r;
}

/* Compiles to `to`, by way of a name of this process. */
static int build_entry(Arena *a, const StrBuf *text, int level, bool native, const char *dir,
                       const char *to, const char **message)
{
    char *temp = arena_printf(a, "%s/build-XXXXXX", dir);
    int fd = mkstemp(temp);
    if (fd < 0) {
        *message = arena_printf(a, "cannot write to %s: %s", dir, strerror(errno));
        return 1;
    }
    close(fd);
    int status = compile(a, text, level, native, dir, temp, message);
    if (!status && (!seal(a, temp) || chmod(temp, 0755) != 0 || rename(temp, to) != 0)) {
        *message = arena_printf(a, "cannot write %s: %s", to, strerror(errno));
        status = 1;
    }
    if (status)
        unlink(temp);
    return status;
}

static LoadedModel load_private(Arena *a, const StrBuf *text, int level, bool native,
                                const char *model)
{
    const char *tmp = getenv("TMPDIR");
    char *dir = arena_printf(a, "%s/tenon-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    LoadedModel r = {.status = 1};
    if (!mkdtemp(dir)) {
        r.message = arena_printf(a, "cannot make a temporary directory: %s", strerror(errno));
        return r;
    }
    const char *path = arena_printf(a, "%s/model.so", dir);
    r.status = build_entry(a, text, level, native, dir, path, &r.message);
    if (!r.status)
        r = open_entry(a, path, model);
    unlink(path);
    rmdir(dir);
    return r;
}

/* The text compiled, from the cache or into it. */
static LoadedModel load_text(Arena *a, const StrBuf *text, int level, bool native,
                             const char *model)
{
    const char *compiler = cc_identity(a), *dir = cache_dir(a);
    if (!dir)
        return load_private(a, text, level, native, model);
    const Key key = text_key(text, level, native, compiler);
    const char *path = entry_path(a, dir, &key, ".so");
    bool cached = is_whole(a, path);
    LoadedModel r = {0};
    if (!cached)
        r.status = build_entry(a, text, level, native, dir, path, &r.message);
    if (r.status == 1) /* the cache is full, say */
        return load_private(a, text, level, native, model);
    if (!r.status)
        r = open_entry(a, path, model);
    r.cached = cached;
    return r;
}

LoadedModel codegen_load(Arena *a, const HostModel *cpu, int level)
{
    StrBuf text = {.a = a};
    codegen_c(cpu, false, &text);
    return load_text(a, &text, level, true, model_prefix(a, cpu));
}

/* --- device code ---------------------------------------------------------------------------------
 */

static bool read_image(Arena *a, const char *path, int arch, bool is_ptx, DeviceImages *r)
{
    size_t n = 0;
    const char *data = is_whole(a, path) ? read_file(a, path, &n) : NULL;
    if (!data)
        return false;
    const DeviceImage image = {arch, is_ptx, data, n - 16};
    vec_push(a, &r->at, image);
    return true;
}

/* Into the cache; that this fails is no failure of the call. */
static void keep_image(Arena *a, const char *dir, const char *path, const DeviceImage *image)
{
    char *temp = arena_printf(a, "%s/image-XXXXXX", dir);
    const int fd = mkstemp(temp);
    if (fd < 0)
        return;
    close(fd);
    if (codegen_write_file(a, temp, image->data, image->n) || !seal(a, temp) ||
        rename(temp, path) != 0)
        unlink(temp);
}

static DeviceImages load_images(Arena *a, const StrBuf *text, const char *name, const char *arch)
{
    DeviceImages r = {.status = 0};
    const char *why = NULL, *dir = cache_dir(a), *compiler = images_compiler(a, &why);
    const char *paths[2] = {NULL, NULL};
    Key key = {{HASH_START, HASH_START ^ 0x9e3779b97f4a7c15u}, HASH_START, !compiler};
    hash_text(key.from, sb_text(text), text->n);
    hash_text(key.from, arch, strlen(arch));
    if (compiler)
        key.by = hash_bytes(key.by, compiler, strlen(compiler));
    for (int i = 0; i < 2 && dir; i++)
        paths[i] = entry_path(a, dir, &key, i ? ".ptx" : ".cubin");
    const int number = atoi(arch + strlen("sm_"));
    if (paths[0] && read_image(a, paths[0], number, false, &r) &&
        read_image(a, paths[1], number, true, &r))
        return r;
    r = images_make(a, sb_text(text), name, &arch, 1, true);
    for (uint32_t i = 0; i < r.at.n && paths[0]; i++)
        keep_image(a, dir, paths[r.at.at[i].is_ptx], &r.at.at[i]);
    return r;
}

LoadedModel codegen_load_cuda(Arena *a, const HostModel *cuda, int arch, int level)
{
    bool host = false; /* it has kernels for the CPU */
    for (uint32_t i = 0; i < cuda->kernels.n; i++)
        host |= !cuda->kernels.at[i]->cuda;
    StrBuf text = {.a = a}, cu = {.a = a};
    const CText what = {.cuda = cuda, .cu = &cu};
    const char *model = model_prefix(a, cuda);
    codegen_c_text(&what, &text);
    LoadedModel r = {.status = 0};
    const DeviceImages made =
        load_images(a, &cu, arena_printf(a, "%s.cu", model), arena_printf(a, "sm_%d", arch));
    if (made.status) {
        r.status = made.status;
        r.message = made.message;
        return r;
    }
    r = load_text(a, &text, host ? level : 0, host, model);
    if (r.status)
        return r;
    tn_image *images = arena_array(a, tn_image, made.at.n);
    for (uint32_t i = 0; i < made.at.n; i++)
        images[i] = (tn_image){.arch = made.at.at[i].arch,
                               .is_ptx = made.at.at[i].is_ptx,
                               .data = made.at.at[i].data,
                               .bytes = made.at.at[i].n};
    tn_model_desc *desc = arena_new(a, tn_model_desc);
    *desc = *(const tn_model_desc *)r.desc;
    desc->images = images;
    desc->nimages = (int32_t)made.at.n;
    r.desc = desc;
    return r;
}
