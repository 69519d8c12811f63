/* unpack.c: see unpack.h. A block is a row of sequences: a token (lengths, 4 bits each; 15: more
 * bytes follow, up to the first below 255), literals, an offset of 2 bytes, a copy from so far
 * back; the last sequence ends behind its literals (LZ4's block format description).
 * SPDX-License-Identifier: MIT */
#include "runtime/unpack.h"

#include <stdint.h>
#include <string.h>

enum { MANY = 15, SHORTEST_COPY = 4 };

typedef struct {
    const uint8_t *at, *end;
} Input;

/* A length: the token's 4 bits and the bytes that follow. False at the end of the input. */
static bool read_length(Input *in, size_t bits, size_t *length)
{
    *length = bits;
    if (bits < MANY)
        return true;
    uint8_t byte;
    do {
        if (in->at == in->end || *length > SIZE_MAX - 255)
            return false;
        byte = *in->at++;
        *length += byte;
    } while (byte == 255);
    return true;
}

/* One copy: offset and length, from what was written already; both may overlap. */
static bool copy_back(Input *in, size_t bits, const uint8_t *begin, uint8_t **to, size_t room)
{
    if (in->end - in->at < 2)
        return false;
    const size_t offset = (size_t)in->at[0] | (size_t)in->at[1] << 8;
    size_t length;
    in->at += 2;
    if (!read_length(in, bits, &length) || offset == 0 || offset > (size_t)(*to - begin) ||
        room < SHORTEST_COPY || length > room - SHORTEST_COPY)
        return false;
    for (length += SHORTEST_COPY; length; length--, (*to)++)
        **to = (*to)[-(ptrdiff_t)offset];
    return true;
}

bool tn__unpack(const void *from, size_t n, void *to, size_t whole)
{
    Input in = {from, (const uint8_t *)from + n};
    uint8_t *begin = to, *out = to, *end = begin + whole;
    while (in.at < in.end) {
        const size_t token = *in.at++;
        size_t literals;
        if (!read_length(&in, token >> 4, &literals) || literals > (size_t)(in.end - in.at) ||
            literals > (size_t)(end - out))
            return false;
        memcpy(out, in.at, literals);
        in.at += literals;
        out += literals;
        if (in.at < in.end && !copy_back(&in, token & MANY, begin, &out, (size_t)(end - out)))
            return false;
    }
    return out == end;
}
