/* place.c: relative to the running command, so that an installation can be moved.
 * SPDX-License-Identifier: MIT */
#include "frontend/place.h"

#include <string.h>
#include <unistd.h>

/* The folder of the command itself; "." where the system does not say. */
static const char *own_folder(Arena *a)
{
    char path[4096];
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n <= 0)
        return ".";
    path[n] = 0;
    char *slash = strrchr(path, '/');
    if (slash)
        *slash = 0;
    return arena_strdup(a, *path ? path : "/");
}

static const char *find(Arena *a, const char *const *places, int n, const char *name)
{
    for (int i = 0; i < n; i++) {
        const char *path = arena_printf(a, "%s%s%s", own_folder(a), places[i], name);
        if (!access(path, R_OK))
            return path;
    }
    return NULL;
}

int place_include_dirs(Arena *a, const char **out, int max)
{
    /* installed, installed by Debian's layout, and a build folder inside the sources */
    static const char *const places[] = {"/../include/", "/../runtime/include/"};
    const char *found = find(a, places, 2, "tenon.h");
    if (!found || max < 1)
        return 0;
    out[0] = arena_strndup(a, found, strlen(found) - strlen("/tenon.h"));
    return 1;
}

const char *place_library(Arena *a, const char *name)
{
    static const char *const places[] = {"/", "/../lib/", "/../lib64/",
                                         "/../lib/x86_64-linux-gnu/"};
    return find(a, places, 4, name);
}
