/* op_call.c: printf and assert of device code, which compilers leave to the system. Their arguments
 * lie in local memory: Inst.list holds the offsets. SPDX-License-Identifier: MIT */
#include "tests/vgpu/access.h"
#include "tests/vgpu/op.h"

#include <inttypes.h>

/* n bytes at a local offset; NULL after a finding. */
static const uint8_t *local(Warp *w, const Inst *i, int lane, uint64_t offset, uint32_t n)
{
    return lane_memory(w, i, lane, SPACE_LOCAL, offset, n, LANE_READ, NULL);
}

static uint64_t argument(Warp *w, const Inst *i, int lane, int k, uint32_t bytes)
{
    uint64_t v = 0;
    const uint8_t *at = local(w, i, lane, i->list[k], bytes);
    if (at)
        memcpy(&v, at, bytes);
    return v;
}

/* A string of device code, as far as its allocation goes. */
static void text_at(uint64_t address, char *out, size_t size)
{
    const Alloc *a = memory_find(address);
    size_t n = 0;
    if (a && !a->freed)
        while (n + 1 < size && address + n < a->end && a->data[address - a->base + n]) {
            out[n] = (char)a->data[address - a->base + n];
            n++;
        }
    out[n] = '\0';
}

/* __assertfail(message, file, line, function, bytes of a character) */
void exec_assert(Warp *w, const Inst *i, uint32_t mask)
{
    char message[256], file[256], function[256];
    const int lane = __builtin_ctz(mask);
    text_at(argument(w, i, lane, 0, 8), message, sizeof message);
    text_at(argument(w, i, lane, 1, 8), file, sizeof file);
    text_at(argument(w, i, lane, 3, 8), function, sizeof function);
    finding_kernel(FINDING_ASSERT, w, i, lane, 0, "%s:%u: %s: assertion '%s' fails", file,
                   (unsigned)argument(w, i, lane, 2, 4), function, message);
    grid_fail(w, 710);
}

/* --- printf ---------------------------------------------------------------------------------- */

typedef struct {
    Warp *w;
    const Inst *i;
    int lane;
    uint64_t next; /* offset of the next argument */
} Arguments;

static uint64_t next_argument(Arguments *a, uint32_t bytes)
{
    uint64_t v = 0;
    a->next = (a->next + bytes - 1) & ~(uint64_t)(bytes - 1);
    const uint8_t *at = local(a->w, a->i, a->lane, a->next, bytes);
    if (at)
        memcpy(&v, at, bytes);
    a->next += bytes;
    return v;
}

/* One conversion from its flags to its letter; the flags have been checked to be flags. */
static void print_one(Arguments *a, const char *spec, size_t n, bool wide)
{
    char format[40], text[256];
    const char letter = spec[n - 1];
    size_t flags = n - 1;
    while (flags > 0 && strchr("hlzjt", spec[flags - 1]))
        flags--;
    if (strchr("diuoxX", letter)) {
        uint64_t v = next_argument(a, wide ? 8 : 4);
        if (strchr("di", letter))
            v = wide ? v : (uint64_t)(int64_t)(int32_t)v;
        snprintf(format, sizeof format, "%.*sll%c", (int)flags, spec, letter);
        printf(format, (unsigned long long)v);
    } else if (strchr("eEfFgGaA", letter)) {
        snprintf(format, sizeof format, "%.*s%c", (int)flags, spec, letter);
        printf(format, bits_double(next_argument(a, 8)));
    } else if (letter == 's') {
        snprintf(format, sizeof format, "%.*ss", (int)flags, spec);
        text_at(next_argument(a, 8), text, sizeof text);
        printf(format, text);
    } else if (letter == 'p') {
        printf("0x%" PRIx64, next_argument(a, 8));
    } else { /* c */
        snprintf(format, sizeof format, "%.*sc", (int)flags, spec);
        printf(format, (int)next_argument(a, 4));
    }
}

static void print_lane(Arguments *a, const char *format)
{
    while (*format) {
        size_t plain = strcspn(format, "%");
        printf("%.*s", (int)plain, format);
        format += plain;
        if (!*format)
            return;
        size_t n = 1 + strspn(format + 1, "-+ #0123456789.");
        size_t length = strspn(format + n, "hlzjt");
        bool wide = memchr(format + n, 'l', length) || memchr(format + n, 'z', length) ||
                    memchr(format + n, 'j', length) || memchr(format + n, 't', length);
        n += length;
        if (format[n] && strchr("diuoxXeEfFgGaAspc", format[n]) && n < 24) {
            print_one(a, format, n + 1, wide);
            format += n + 1;
        } else { /* %% and what is no conversion */
            printf("%%");
            format += format[1] == '%' ? 2 : 1;
        }
    }
}

/* vprintf(format, arguments): the lanes one after the other. */
void exec_print(Warp *w, const Inst *i, uint32_t mask)
{
    EACH_LANE if (IS_ON(mask, l))
    {
        char format[1024];
        text_at(argument(w, i, l, 0, 8), format, sizeof format);
        uint64_t arguments = argument(w, i, l, 1, 8);
        Arguments a = {w, i, l, arguments - LOCAL_WINDOW};
        print_lane(&a, format);
        if (i->imm >= 0) {
            uint32_t one = 1;
            uint8_t *to = lane_memory(w, i, l, SPACE_LOCAL, (uint64_t)i->imm, 4, LANE_WRITE,
                                      (const uint8_t *)&one);
            if (to)
                memcpy(to, &one, sizeof one);
        }
    }
    fflush(stdout);
}
