/* text_test.c: the texts that printers paste function by function: each function is marked, names
 * exactly the functions it calls, comes after them, and ends at the first brace in column 0. usage:
 * text_test math.h number.h. SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 200, NAME = 32 };

typedef struct {
    char name[NAME];
    char needs[16][NAME];
    bool used[16];
    int nneeds;
} Function;

typedef struct {
    const char *const *paths;
    Function functions[MOST];
    int n;
} Texts;

static int find(const Texts *t, const char *name, size_t length)
{
    for (int i = 0; i < t->n; i++)
        if (strlen(t->functions[i].name) == length && !memcmp(t->functions[i].name, name, length))
            return i;
    return -1;
}

/* A line: slash, star, at, blank, name, colon, needs. */
static void read_mark(Texts *t, char *line)
{
    assert_true(t->n < MOST);
    Function *f = &t->functions[t->n];
    char *colon = strchr(line, ':'), *end = strstr(line, "*/");
    assert_true(colon && end && colon < end);
    *colon = *end = 0;
    assert_true(strlen(line + 4) < NAME && find(t, line + 4, strlen(line + 4)) < 0);
    strcpy(f->name, line + 4);
    for (char *word = strtok(colon + 1, " "); word; word = strtok(NULL, " ")) {
        if (find(t, word, strlen(word)) < 0) {
            print_error("%s needs %s, which does not stand before it\n", f->name, word);
            fail();
        }
        assert_true(f->nneeds < 16);
        strcpy(f->needs[f->nneeds++], word);
    }
    t->n++;
}

/* Calls of our functions in a line of the last function's text. */
static void read_calls(Texts *t, const char *line)
{
    Function *f = &t->functions[t->n - 1];
    for (const char *p = line; (p = strstr(p, "tn_")); p++) {
        size_t n = 0;
        while (isalnum((unsigned char)p[3 + n]) || p[3 + n] == '_')
            n++;
        if (p[3 + n] != '(' || (strlen(f->name) == n && !memcmp(p + 3, f->name, n)))
            continue;
        bool named = false;
        for (int i = 0; i < f->nneeds; i++)
            if (strlen(f->needs[i]) == n && !memcmp(f->needs[i], p + 3, n))
                named = f->used[i] = true;
        if (!named) {
            print_error("%s calls tn_%.*s without naming it\n", f->name, (int)n, p + 3);
            fail();
        }
    }
}

static void read_file(Texts *t, const char *path)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    char line[400], want[100] = "";
    bool inside = false;
    while (fgets(line, sizeof line, file)) {
        if (!strncmp(line, "/*@ ", 4)) {
            assert_false(inside);
            read_mark(t, line);
            snprintf(want, sizeof want, " tn_%s(", t->functions[t->n - 1].name);
            assert_non_null(fgets(line, sizeof line, file));
            assert_int_equal(strncmp(line, "TN_FN ", 6), 0);
            assert_non_null(strstr(line, want));
            inside = true;
        } else if (inside) {
            read_calls(t, line);
            inside = line[0] != '}';
        } else {
            assert_int_not_equal(strncmp(line, "TN_FN ", 6), 0); /* no function without a mark */
        }
    }
    assert_false(inside);
    fclose(file);
}

static void test_marks(void **state)
{
    Texts *t = *state;
    for (int i = 0; t->paths[i]; i++)
        read_file(t, t->paths[i]);
    assert_true(t->n > 60);
    for (int i = 0; i < t->n; i++)
        for (int k = 0; k < t->functions[i].nneeds; k++)
            if (!t->functions[i].used[k]) {
                print_error("%s names %s but does not call it\n", t->functions[i].name,
                            t->functions[i].needs[k]);
                fail();
            }
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    Texts *t = calloc(1, sizeof *t);
    if (!t)
        return 2;
    t->paths = (const char *const *)argv + 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(test_marks, t)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(t);
    return failed;
}
