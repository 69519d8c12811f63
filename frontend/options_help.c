/* options_help.c: the text of --help, from the rows of options.def. SPDX-License-Identifier: MIT */
#include "frontend/options.h"

#include <string.h>

/* Help text in a column, broken between words. */
static void put_wrapped(StrBuf *out, const char *text, int indent, int width)
{
    int col = indent;
    while (*text) {
        const int n = (int)strcspn(text, " ");
        if (col > indent && col + 1 + n > width) {
            sb_printf(out, "\n%*s", indent, "");
            col = indent;
        } else if (col > indent) {
            sb_putc(out, ' ');
            col++;
        }
        sb_write(out, text, (size_t)n);
        col += n;
        text += n + (text[n] == ' ');
    }
    sb_putc(out, '\n');
}

void options_help(StrBuf *out)
{
    enum { INDENT = 26, WIDTH = 96 };
    sb_puts(out, "tenon: an ahead-of-time compiler for models\n\n"
                 "usage: tenon [options] FILE.tn\n"
                 "       tenon -run FILE.tn METHOD NAME=VALUE... [-grad d_NAME=VALUE...]\n"
                 "       tenon -train FILE.tn DATA.npz\n");
    OptionRow row;
    for (int i = 0; options_row(i, &row); i++) {
        if (row.section) {
            sb_printf(out, "\n%s\n", row.section);
            continue;
        }
        const size_t before = out->n;
        sb_printf(out, "  %s%s%s", row.spelling, row.separator, row.argument);
        const int used = (int)(out->n - before);
        if (used + 2 > INDENT)
            sb_printf(out, "\n%*s", INDENT, "");
        else
            sb_printf(out, "%*s", INDENT - used, "");
        put_wrapped(out, row.help, INDENT, WIDTH);
    }
    sb_puts(out, "\nExit status: 0 done; 1 the input is wrong, or a loss at the end is no finite "
                 "number; 2 the\n"
                 "command line is wrong; 3 the machine lacks something; 4 an error inside tenon; "
                 "130 or 143\n"
                 "-train was stopped by Ctrl-C or SIGTERM, after it saved.\n");
}
