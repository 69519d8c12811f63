/* cc.c: runs the C compiler, and finds it. SPDX-License-Identifier: MIT */
#include "codegen/cc.h"

#include "codegen/output.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

const char *cc_name(void)
{
    const char *cc = getenv("CC");
    return cc && *cc ? cc : "cc";
}

const char *cc_identity(Arena *a)
{
    const char *name = cc_name(), *path = getenv("PATH");
    struct stat st;
    if (strchr(name, '/'))
        path = "";
    for (const char *p = path ? path : "/usr/bin:/bin";; p++) {
        size_t n = strcspn(p, ":");
        const char *file = arena_printf(a, "%.*s%s%s", (int)n, p, n ? "/" : "", name);
        if (!stat(file, &st) && S_ISREG(st.st_mode) && !access(file, X_OK))
            return arena_printf(a, "%s %lld %lld", file, (long long)st.st_size,
                                (long long)st.st_mtime);
        p += n;
        if (!*p)
            return NULL;
    }
}

/* What was written to the file, at most 16 KiB. */
static const char *read_back(Arena *a, int fd)
{
    char *text = arena_alloc(a, 16385);
    ssize_t n = pread(fd, text, 16384, 0);
    text[n > 0 ? n : 0] = 0;
    return text;
}

static int open_log(void)
{
    const char *dir = getenv("TMPDIR");
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/tenon-cc-XXXXXX", dir && *dir ? dir : "/tmp");
    if (n < 0 || n >= (int)sizeof path)
        return -1;
    int fd = mkstemp(path);
    if (fd >= 0)
        unlink(path);
    return fd;
}

static int spawn_cc(char *const *argv, int log, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    int e = posix_spawn_file_actions_init(&actions);
    if (e)
        return e;
    e = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    if (!e)
        e = posix_spawn_file_actions_adddup2(&actions, log, 1);
    if (!e)
        e = posix_spawn_file_actions_adddup2(&actions, log, 2);
    if (!e)
        e = posix_spawnp(pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return e;
}

static int wait_for(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int codegen_cc(Arena *a, const char *const *args, const char **log)
{
    size_t n = 0;
    while (args[n])
        n++;
    char **argv = arena_array(a, char *, n + 2);
    argv[0] = arena_strdup(a, cc_name());
    for (size_t i = 0; i < n; i++)
        argv[i + 1] = arena_strdup(a, args[i]);
    int fd = open_log();
    if (fd < 0) {
        *log = arena_printf(a, "no temporary file: %s", strerror(errno));
        return 1;
    }
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    pid_t pid = 0;
    int e = spawn_cc(argv, fd, &pid), status = e ? 3 : 0;
    if (e)
        *log = arena_printf(a, "cannot run the C compiler %s: %s (set CC, or install gcc)", argv[0],
                            strerror(e));
    else if (wait_for(pid) != 0) {
        status = 4;
        *log = read_back(a, fd);
    }
    close(fd);
    return status;
}
