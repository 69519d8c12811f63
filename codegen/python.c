/* python.c: the Python module of a model: module.py with the model's names in it.
 * SPDX-License-Identifier: MIT */
#include "codegen/header.h"
#include "codegen/program.h"
#include "codegen/texts.h"

#include <string.h>

/* A string of Python, also within a comment string: nothing in it ends that. */
static void put_string(StrBuf *out, const char *text)
{
    sb_putc(out, '"');
    for (const char *s = text; *s; s++) {
        if ((unsigned char)*s < ' ') {
            sb_printf(out, "\\x%02x", (unsigned)*s);
            continue;
        }
        if (*s == '"' || *s == '\\')
            sb_putc(out, '\\');
        sb_putc(out, *s);
    }
    sb_putc(out, '"');
}

/* What stands for one of the names between two @ of module.py. */
static bool put_named(const HostModel *m, const char *word, size_t n, const char *library,
                      const char *runtime, StrBuf *out)
{
    Arena *a = out->a;
    if (n == 5 && !memcmp(word, "MODEL", n))
        sb_puts(out, model_prefix(a, m));
    else if (n == 7 && !memcmp(word, "LIBRARY", n))
        put_string(out, library);
    else if (n == 6 && !memcmp(word, "SOURCE", n))
        put_string(out, model_source(a, m));
    else if (n == 7 && !memcmp(word, "VERSION", n))
        sb_puts(out, TENON_VERSION);
    else if (n == 7 && !memcmp(word, "RUNTIME", n) && runtime)
        put_string(out, runtime);
    else if (n == 7 && !memcmp(word, "RUNTIME", n))
        sb_puts(out, "None");
    else
        return false;
    return true;
}

void python_text(const HostModel *m, const char *library, const char *runtime, StrBuf *out)
{
    for (const char *s = codegen_module_text; *s;) {
        const size_t n = *s == '@' ? strspn(s + 1, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") : 0;
        if (n && s[n + 1] == '@' && put_named(m, s + 1, n, library, runtime, out)) {
            s += n + 2;
            continue;
        }
        sb_putc(out, *s++);
    }
}
