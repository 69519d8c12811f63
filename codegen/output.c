/* output.c: files. Each is written under a temporary name, synced and renamed; if a later one
 * fails, the earlier ones of the same call are removed. SPDX-License-Identifier: MIT */
#include "codegen/output.h"
#include "codegen/header.h"
#include "codegen/images.h"
#include "codegen/program.h"
#include "ir/base/die.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- single files --------------------------------------------------------------------------------
 */

static bool write_all(int fd, const char *data, size_t n)
{
    while (n) {
        ssize_t k = write(fd, data, n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return false;
        data += k;
        n -= (size_t)k;
    }
    return true;
}

/* A file that is written but not yet under its name. */
typedef struct {
    const char *path, *temp;
    int fd;
} Pending;

static const char *cannot_write(Arena *a, const char *path, int error)
{
    return arena_printf(a, "cannot write %s: %s", path, strerror(error));
}

static const char *pending_drop(Arena *a, Pending *f, int error)
{
    if (f->fd >= 0)
        close(f->fd);
    f->fd = -1;
    unlink(f->temp);
    return cannot_write(a, f->path, error);
}

static const char *pending_start(Arena *a, Pending *f, const char *path, const void *data, size_t n)
{
    *f = (Pending){.path = path, .temp = arena_printf(a, "%s.tmp%ld", path, (long)getpid())};
    f->fd = open(f->temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (f->fd < 0)
        return cannot_write(a, path, errno);
    return write_all(f->fd, data, n) ? NULL : pending_drop(a, f, errno);
}

static const char *pending_finish(Arena *a, Pending *f)
{
    const int fd = f->fd;
    if (fsync(fd) != 0)
        return pending_drop(a, f, errno);
    f->fd = -1;
    if (close(fd) != 0 || rename(f->temp, f->path) != 0)
        return pending_drop(a, f, errno);
    return NULL;
}

const char *codegen_write_file(Arena *a, const char *path, const void *data, size_t n)
{
    Pending f;
    const char *wrong = pending_start(a, &f, path, data, n);
    return wrong ? wrong : pending_finish(a, &f);
}

/* mkdir -p */
static const char *make_dirs(Arena *a, const char *path)
{
    char *copy = arena_strdup(a, path);
    for (char *p = copy + 1; *p; p++)
        if (*p == '/') {
            *p = 0;
            if (mkdir(copy, 0777) != 0 && errno != EEXIST)
                return arena_printf(a, "cannot make the directory %s: %s", copy, strerror(errno));
            *p = '/';
        }
    return NULL;
}

/* --- several files -------------------------------------------------------------------------------
 */

typedef struct {
    Arena *a;
    OutputResult r;
} Writer;

static void fail(Writer *w, int status, const char *message)
{
    w->r.status = status;
    w->r.message = message;
    for (uint32_t i = 0; i < w->r.files.n; i++)
        unlink(w->r.files.at[i]);
    w->r.files.n = 0;
}

static void put_file(Writer *w, const char *path, const StrBuf *text)
{
    if (w->r.status)
        return;
    const char *wrong = codegen_write_file(w->a, path, sb_text(text), text->n);
    if (wrong)
        fail(w, 1, wrong);
    else
        vec_push(w->a, &w->r.files, path);
}

/* All are written before the first one waits for the disk: it then has the others' data too. */
static void put_files(Writer *w, const char *const *paths, const StrBuf *texts, int n)
{
    Pending *files = arena_array(w->a, Pending, n);
    const char *wrong = NULL;
    int started = 0, done = 0;
    for (; started < n && !wrong; started++)
        wrong = pending_start(w->a, &files[started], paths[started], sb_text(&texts[started]),
                              texts[started].n);
    for (; done < n && !wrong; done++) {
        wrong = pending_finish(w->a, &files[done]);
        if (!wrong)
            vec_push(w->a, &w->r.files, paths[done]);
    }
    if (!wrong)
        return;
    for (int i = done; i < started; i++)
        if (files[i].fd >= 0)
            pending_drop(w->a, &files[i], 0);
    fail(w, 1, wrong);
}

static const HostModel *either(const Output *o)
{
    return o->cpu ? o->cpu : o->cuda;
}

static void write_sources(Writer *w, const Output *o)
{
    static const char *const exts[] = {"cu", "c", "h", "json", "py"};
    StrBuf texts[] = {{.a = w->a}, {.a = w->a}, {.a = w->a}, {.a = w->a}, {.a = w->a}};
    const char *name = model_prefix(w->a, either(o)), *dir = o->out ? o->out : "";
    const char *paths[ARRAY_LEN(exts)];
    const CText text = {.cpu = o->cpu, .cuda = o->cuda, .entries = true, .cu = &texts[0]};
    size_t n = strlen(dir);
    const char *slash = n && dir[n - 1] != '/' ? "/" : "";
    codegen_c_text(&text, &texts[1]);
    header_text(either(o), &texts[2]);
    manifest_text(o->cuda ? o->cuda : o->cpu, &texts[3]);
    if (o->python)
        python_text(either(o), arena_printf(w->a, "lib%s.so", name), o->runtime, &texts[4]);
    const char *wrong = make_dirs(w->a, arena_printf(w->a, "%s%s", dir, slash));
    if (wrong) {
        fail(w, 1, wrong);
        return;
    }
    const int n_texts = o->python ? 5 : 4;
    for (int i = 0; i < n_texts; i++)
        paths[i] = arena_printf(w->a, "%s%s%s.%s", dir, slash, name, exts[i]);
    const int first = o->cuda ? 0 : 1;
    put_files(w, paths + first, texts + first, n_texts - first);
}

/* --- objects -------------------------------------------------------------------------------------
 */

typedef struct {
    Arena *a;
    VEC(const char *) at;
} Args;

static void arg(Args *x, const char *text)
{
    vec_push(x->a, &x->at, text);
}

/* -O2 with loops made into vectors is a third of the size of -O3 and about as fast. */
static void common_args(Args *x, int level, const char *march)
{
    arg(x, "-std=c11");
    if (level < 2) {
        arg(x, level == 0 ? "-O0" : "-O1");
    } else {
        arg(x, level == 2 ? "-O2" : "-O3");
        arg(x, "-ftree-vectorize");
        arg(x, "-fvect-cost-model=dynamic");
    }
    arg(x, "-ffp-contract=off");
    arg(x, "-fno-math-errno");
    arg(x, "-fno-trapping-math");
    arg(x, "-fPIC");
    if (march) {
        arg(x, arena_printf(x->a, "-march=%s", march));
#if defined __x86_64__
        arg(x, "-mprefer-vector-width=512");
#endif
        arg(x, "-DTN_ONE_TARGET");
    }
}

/* tenon.h beside this program: in the tree it was built in, or where it is installed. */
static void own_includes(Args *x)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n <= 0)
        return;
    path[n] = 0;
    static const char *const places[] = {"../runtime/include", "../include", "include"};
    char *slash = strrchr(path, '/');
    *slash = 0;
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        const char *dir = arena_printf(x->a, "%s/%s", path, places[i]);
        if (access(arena_printf(x->a, "%s/tenon_program.h", dir), R_OK) == 0)
            arg(x, arena_printf(x->a, "-I%s", dir));
    }
}

/* Objects without unwinding tables and local names, unless somebody wants to debug. */
static void object_args(Args *x, const Output *o)
{
    if (o->kind == OUTPUT_SHARED) {
        arg(x, "-shared");
        return;
    }
    if (o->debug) {
        arg(x, "-c");
        return;
    }
    static const char *const small[] = {"-r",
                                        "-nostdlib",
                                        "-Wl,-x",
                                        "-fmerge-all-constants",
                                        "-fno-asynchronous-unwind-tables",
                                        "-falign-functions=1",
                                        "-falign-loops=1",
                                        "-falign-jumps=1",
                                        "-falign-labels=1",
                                        "-fno-tree-pre",
                                        "-fno-gcse",
                                        "--param=vect-epilogues-nomask=0"};
    for (size_t i = 0; i < ARRAY_LEN(small); i++)
        arg(x, small[i]);
}

int codegen_image_files(Arena *a, const Output *o, const char *prefix, CText *text,
                        const char **message)
{
    StrBuf cu = {.a = a};
    const char *name = arena_printf(a, "%s.cu", model_prefix(a, o->cuda));
    codegen_cuda(o->cuda, &cu);
    const DeviceImages made = images_make(a, sb_text(&cu), name, o->archs, o->narchs, o->debug);
    ImageFile *files = arena_array(a, ImageFile, made.at.n + 1);
    text->images = files;
    *message = made.message;
    if (made.status)
        return made.status;
    for (uint32_t i = 0; i < made.at.n; i++) {
        const DeviceImage *image = &made.at.at[i];
        size_t n = 0;
        const void *packed = image_pack(a, image, &n);
        files[i] = (ImageFile){image->arch, image->is_ptx, arena_printf(a, "%s%u", prefix, i),
                               packed ? n : image->n, packed ? image->n : 0};
        text->nimages++;
        *message =
            codegen_write_file(a, files[i].file, packed ? packed : image->data, files[i].bytes);
        if (*message)
            return 1;
    }
    return 0;
}

void codegen_image_files_remove(const CText *text)
{
    for (int i = 0; i < text->nimages; i++)
        unlink(text->images[i].file);
}

static const char *write_texts(Writer *w, const Output *o, const CText *text, const char *source,
                               const char *header)
{
    StrBuf c = {.a = w->a}, h = {.a = w->a};
    codegen_c_text(text, &c);
    header_text(either(o), &h);
    const char *wrong = codegen_write_file(w->a, source, sb_text(&c), c.n);
    return wrong ? wrong : codegen_write_file(w->a, header, sb_text(&h), h.n);
}

static const char *directory_of(Arena *a, const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? arena_strndup(a, path, (size_t)(slash - path + 1)) : "";
}

static void compile_text(Writer *w, const Output *o, const char *source, const char *to)
{
    const char *log = "";
    Args x = {.a = w->a};
    common_args(&x, o->level, o->march);
    for (int i = 0; i < o->ninclude_dirs; i++)
        arg(&x, arena_printf(w->a, "-I%s", o->include_dirs[i]));
    own_includes(&x);
    if (o->debug) { /* the temporary folder's name is not for the object */
        arg(&x, "-g");
        arg(&x, arena_printf(w->a, "-ffile-prefix-map=%s=", directory_of(w->a, source)));
    }
    object_args(&x, o);
    arg(&x, "-o");
    arg(&x, to);
    arg(&x, source);
    if (o->kind == OUTPUT_SHARED) /* so that who links with the library need not know of it */
        arg(&x, "-lm");
    arg(&x, NULL);
    const int status = codegen_cc(w->a, x.at.at, &log);
    if (status == 4)
        log = arena_printf(w->a, "the C compiler refused the generated code:\n%s", log);
    if (status)
        fail(w, status, log);
}

static void compile_object(Writer *w, const Output *o, const char *dir, const char *to)
{
    const char *name = model_prefix(w->a, either(o));
    const char *source = arena_printf(w->a, "%s/%s.c", dir, name);
    const char *header = arena_printf(w->a, "%s/%s.h", dir, name);
    CText text = {.cpu = o->cpu, .cuda = o->cuda, .entries = true};
    if (o->cuda) {
        const char *wrong = NULL;
        const int status =
            codegen_image_files(w->a, o, arena_printf(w->a, "%s/image", dir), &text, &wrong);
        if (status)
            fail(w, status, wrong);
    }
    if (!w->r.status) {
        const char *wrong = write_texts(w, o, &text, source, header);
        if (wrong)
            fail(w, 1, wrong);
        else
            compile_text(w, o, source, to);
    }
    unlink(source);
    unlink(header);
    codegen_image_files_remove(&text);
}

/* NAME.h goes beside the object, under the object's name: models/lltm.o -> models/lltm.h */
static const char *header_path(Arena *a, const Output *o, const char *object)
{
    if (o->kind == OUTPUT_SHARED)
        return arena_printf(a, "%s%s.h", directory_of(a, object), model_prefix(a, either(o)));
    size_t n = strlen(object);
    if (n > 2 && !strcmp(object + n - 2, ".o"))
        n -= 2;
    return arena_printf(a, "%.*s.h", (int)n, object);
}

static void write_compiled(Writer *w, const Output *o)
{
    const char *name = model_prefix(w->a, either(o));
    const char *to =
        o->out ? o->out : arena_printf(w->a, o->kind == OUTPUT_SHARED ? "lib%s.so" : "%s.o", name);
    const char *tmp = getenv("TMPDIR");
    char *dir = arena_printf(w->a, "%s/tenon-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    char *temp = arena_printf(w->a, "%s.tmp%ld", to, (long)getpid());
    if (!mkdtemp(dir)) {
        fail(w, 1, arena_printf(w->a, "cannot make a temporary directory: %s", strerror(errno)));
        return;
    }
    compile_object(w, o, dir, temp);
    rmdir(dir);
    if (w->r.status) {
        unlink(temp);
        return;
    }
    if (rename(temp, to) != 0) {
        fail(w, 1, arena_printf(w->a, "cannot write %s: %s", to, strerror(errno)));
        unlink(temp);
        return;
    }
    vec_push(w->a, &w->r.files, to);
    StrBuf h = {.a = w->a};
    header_text(either(o), &h);
    put_file(w, header_path(w->a, o, to), &h);
    if (!o->python)
        return;
    const char *slash = strrchr(to, '/');
    StrBuf py = {.a = w->a};
    python_text(either(o), slash ? slash + 1 : to, o->runtime, &py);
    put_file(w, arena_printf(w->a, "%s%s.py", directory_of(w->a, to), name), &py);
}

OutputResult codegen_write(Arena *a, const Output *o)
{
    Writer w = {.a = a};
    if (o->kind == OUTPUT_SOURCES)
        write_sources(&w, o);
    else
        write_compiled(&w, o);
    return w.r;
}
