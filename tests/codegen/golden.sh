#!/bin/sh
# golden.sh [--bless] EXPECTED PRINTED: the two are equal; with --bless EXPECTED is replaced.
# SPDX-License-Identifier: MIT
if [ "$1" = --bless ]; then
    cp "$3" "$2"
    exit
fi
exec diff -u "$1" "$2"
