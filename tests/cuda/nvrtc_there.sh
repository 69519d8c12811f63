#!/bin/sh
# nvrtc_there.sh: exit status 0 where codegen/nvrtc.c would find NVRTC.
# SPDX-License-Identifier: MIT
for dir in "${CUDA_HOME:-/usr/local/cuda}/lib64" /usr/local/cuda/lib64; do
    ls "$dir"/libnvrtc.so* >/dev/null 2>&1 && exit 0
done
ldconfig -p 2>/dev/null | grep -q 'libnvrtc\.so'
