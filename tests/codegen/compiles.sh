#!/bin/sh
# compiles.sh NVRTC_CHECK FILE.cu: NVRTC takes the file for several architectures without a word.
# SPDX-License-Identifier: MIT
"$1" sm_75,sm_80,sm_90,sm_100 "$2"
status=$?
[ $status = 3 ] && exit 77
exit $status
