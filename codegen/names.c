/* names.c: see names.h. SPDX-License-Identifier: MIT */
#include "codegen/names.h"

#include "ir/base/die.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* sorted, for bsearch */
static const char *const reserved[] = {
    "acos",
    "alignas",
    "alignof",
    "and",
    "arrived",
    "asin",
    "asm",
    "atan",
    "atan2",
    "auto",
    "blockDim",
    "blockIdx",
    "bool",
    "break",
    "case",
    "catch",
    "ceil",
    "ceilf",
    "char",
    "class",
    "const",
    "constexpr",
    "continue",
    "cos",
    "cosh",
    "decltype",
    "default",
    "delete",
    "do",
    "double",
    "dynamic_cast",
    "else",
    "enum",
    "erf",
    "erfc",
    "errno",
    "error",
    "exp",
    "exp2",
    "explicit",
    "expm1",
    "export",
    "extern",
    "fabs",
    "false",
    "float",
    "floor",
    "floorf",
    "fma",
    "fmaf",
    "fmod",
    "fmodf",
    "for",
    "friend",
    "goto",
    "gridDim",
    "hi",
    "if",
    "inline",
    "int",
    "int16_t",
    "int32_t",
    "int64_t",
    "int8_t",
    "lo",
    "log",
    "log10",
    "log1p",
    "log2",
    "long",
    "main",
    "memcpy",
    "mutable",
    "namespace",
    "new",
    "noexcept",
    "not",
    "nullptr",
    "operator",
    "or",
    "pow",
    "private",
    "protected",
    "public",
    "register",
    "reinterpret_cast",
    "restrict",
    "return",
    "rint",
    "rintf",
    "short",
    "signed",
    "sin",
    "sinh",
    "sizeof",
    "sqrt",
    "sqrtf",
    "static",
    "static_assert",
    "static_cast",
    "struct",
    "switch",
    "tan",
    "tanh",
    "template",
    "this",
    "threadIdx",
    "thread_local",
    "throw",
    "true",
    "trunc",
    "truncf",
    "try",
    "typedef",
    "typeid",
    "typename",
    "uint16_t",
    "uint32_t",
    "uint64_t",
    "uint8_t",
    "union",
    "unix",
    "unsigned",
    "using",
    "virtual",
    "void",
    "volatile",
    "wchar_t",
    "while",
    "xor",
};

static int compare(const void *a, const void *b)
{
    return strcmp(a, *(const char *const *)b);
}

bool name_is_reserved(const char *name)
{
    return bsearch(name, reserved, ARRAY_LEN(reserved), sizeof *reserved, compare) != NULL;
}

const char *name_upper(Arena *a, const char *name)
{
    char *upper = arena_strdup(a, name);
    for (char *c = upper; *c; c++)
        *c = (char)toupper((unsigned char)*c);
    return upper;
}

const char *name_clean(Arena *a, const char *wanted)
{
    if (!wanted || !*wanted)
        wanted = "t";
    bool digit = isdigit((unsigned char)*wanted);
    char *name = arena_printf(a, "%s%s", digit ? "t" : "", wanted);
    for (char *p = name; *p; p++)
        if (!isalnum((unsigned char)*p) && *p != '_')
            *p = '_';
    return name_is_reserved(name) ? arena_printf(a, "%s_", name) : name;
}

static bool is_taken(const Names *n, const char *name)
{
    for (uint32_t i = 0; i < n->taken.n; i++)
        if (!strcmp(n->taken.at[i], name))
            return true;
    return false;
}

bool name_take(Names *n, const char *name)
{
    if (is_taken(n, name))
        return false;
    vec_push(n->a, &n->taken, arena_strdup(n->a, name));
    return true;
}

const char *name_unique(Names *n, const char *wanted)
{
    const char *base = name_clean(n->a, wanted);
    if (name_take(n, base))
        return base;
    size_t len = strlen(base);
    const char *sep = isdigit((unsigned char)base[len - 1]) ? "_" : "";
    for (int i = 2;; i++) {
        const char *name = arena_printf(n->a, "%s%s%d", base, sep, i);
        if (name_take(n, name))
            return name;
    }
}
