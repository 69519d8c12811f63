#!/bin/bash
# steady.sh: builds and runs steady.c. TENON is the compiler; libtenon.a and the headers are beside it and in
# the tree. SPDX-License-Identifier: MIT
set -eu
tenon=$(realpath "${TENON:?set TENON to the compiler}")
here=$(realpath "$(dirname "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
"$tenon" -target=cpu -c "$here/steady.tn" -o steady.o
${CC:-cc} ${CFLAGS:-} -O1 -std=c11 -Wall -Wextra -I. -I"$here/../../runtime/include" "$here/steady.c" steady.o \
    -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc,--wrap=posix_memalign \
    "$(dirname "$tenon")/libtenon.a" -lm -lpthread -ldl -o steady
TENON_THREADS=2 ./steady
