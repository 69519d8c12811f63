/* embed.c: build tool: prints files as C strings. embed [NAME FILE]... to standard output.
 * SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>

static int embed(const char *name, const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) {
        perror(path);
        return 1;
    }
    printf("extern const char %s[];\nconst char %s[] = {", name, name);
    int c, n = 0;
    while ((c = getc(f)) != EOF)
        printf("%s%d,", n++ % 24 ? "" : "\n    ", c);
    printf("0};\n");
    int bad = ferror(f);
    return fclose(f) || bad;
}

int main(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2)
        if (embed(argv[i], argv[i + 1]))
            return EXIT_FAILURE;
    return fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}
