#!/bin/bash
# cuda.sh: models on the virtual GPU beside the CPU: training, gradients, programs, missing libraries,
# failing drivers.
#   TENON=build/tenon VGPU=build/tests/vgpu tests/cuda/cuda.sh [PART]...
# SPDX-License-Identifier: MIT
unset LD_LIBRARY_PATH # the parts below say themselves who has a GPU
vgpu=$(realpath "${VGPU:?set VGPU to the folder of the virtual libcuda.so.1}")
. "$(realpath "$(dirname "$0")/../check.sh")"
gpu() { LD_LIBRARY_PATH=$vgpu "$@"; }
# Losses of each epoch and of the test set, to 1e-4.
same_curve() {
    paste <(grep -oE '(loss|accuracy) +[0-9.]+' "$1") <(grep -oE '(loss|accuracy) +[0-9.]+' "$2") |
        awk 'function off(a, b) { return a > b ? a - b : b - a }
             $1 != $3 || off($2, $4) > 1.01e-4 { print; bad = 1 } END { exit bad || NR < 4 }'
}

train() {
    local digits=("$tenon" -train "$root/models/digits.tn" "$root/models/data/digits.npz" -batch 64)
    check "digits on the CPU" "${digits[@]}" -epochs 2 -device=cpu -save cpu.npz
    cp log cpu.log
    check "digits on the GPU" gpu "${digits[@]}" -epochs 2 -device=cuda -save gpu.npz
    cp log gpu.log
    check "the curves are the same" same_curve cpu.log gpu.log
    check "the parameters are the same to 1e-3" python3 "$root/tests/cuda/compare.py" 1e-3 cpu.npz gpu.npz
    check "another order of streams" env VGPU_SEED=7 VGPU_ORDER=lazy LD_LIBRARY_PATH="$vgpu" "${digits[@]}" \
        -epochs 2 -device=cuda -save again.npz
    check "gives the same bits" cmp gpu.npz again.npz
    check "one epoch" gpu "${digits[@]}" -epochs 1 -device=cuda -save half.npz
    check "and one more" gpu "${digits[@]}" -epochs 2 -device=cuda -resume half.npz -save resumed.npz
    check "give the bits of two" cmp gpu.npz resumed.npz
    check "on the CPU the state goes on" "${digits[@]}" -epochs 2 -device=cpu -resume half.npz -save mixed.npz
    check "with the same numbers to 1e-3" python3 "$root/tests/cuda/compare.py" 1e-3 cpu.npz mixed.npz
}

gradients() {
    local run=("$tenon" -run "$root/models/lltm.tn" forward B=5 x=randn h=randn c=randn
        -grad d_new_h=randn d_new_c=ones -seed 3)
    check "lltm on the CPU" "${run[@]}" -device=cpu -o cpu.npz
    check "lltm on the GPU" gpu "${run[@]}" -device=cuda -o gpu.npz
    check "the same to 1e-5" python3 "$root/tests/cuda/compare.py" 1e-5 cpu.npz gpu.npz
    for sm in 75 80 90 100; do
        check "lltm on sm_$sm" env VGPU_SM=$sm LD_LIBRARY_PATH="$vgpu" "${run[@]}" -device=cuda -o gpu.npz
        check "the same to 1e-5" python3 "$root/tests/cuda/compare.py" 1e-5 cpu.npz gpu.npz
    done
    check "the second of two devices" env VGPU_DEVICES=2 LD_LIBRARY_PATH="$vgpu" "${run[@]}" -device=cuda:1 -o gpu.npz
    check "the same to 1e-5" python3 "$root/tests/cuda/compare.py" 1e-5 cpu.npz gpu.npz
    check "there is no third" env VGPU_DEVICES=2 LD_LIBRARY_PATH="$vgpu" bash -c \
        '"$@"; [ $? = 3 ]' - "${run[@]}" -device=cuda:2
}

program() {
    cp -r "$root/models/lltm" "$root/models/lltm.tn" .
    mkdir run && mv lltm run/ && mv lltm.tn run/
    check "make" make -C run/lltm TENON="$tenon" BUILD="$build" INCLUDE="-I$root/runtime/include"
    check "without a GPU" run/lltm/lltm
    cp log cpu.log
    check "with one" gpu run/lltm/lltm
    cp log gpu.log
    check "the losses fall alike" same_numbers cpu.log gpu.log
    check "nothing links with CUDA" sh -c "! ldd run/lltm/lltm '$tenon' | grep -iE 'cuda|cublas|nvrtc'"
}
same_numbers() {
    paste <(grep -oE '[0-9]+\.[0-9]+' "$1") <(grep -oE '[0-9]+\.[0-9]+' "$2") |
        awk '{ d = $1 - $2; if (d > 2e-3 || d < -2e-3) { print; bad = 1 } } END { exit bad || NR == 0 }'
}

executable() {
    check "lltm becomes a program" "$tenon" "$root/models/lltm.tn" -o lltm
    local args=(x=ones h=zeros c=zeros B=2 -seed 1)
    check "on the CPU" ./lltm "${args[@]}" -o cpu.npz
    check "on the GPU" env VGPU_TABLE=1 LD_LIBRARY_PATH="$vgpu" ./lltm "${args[@]}" -o gpu.npz
    cp log table.log
    check "which ran it" grep -q lltm_k table.log
    check "the same to 1e-5" python3 "$root/tests/cuda/compare.py" 1e-5 cpu.npz gpu.npz
    check "for CUDA alone" "$tenon" -target=cuda "$root/models/lltm.tn" -o lltm
    check "it runs on the GPU" gpu ./lltm "${args[@]}" -o gpu.npz
    check "the same to 1e-5" python3 "$root/tests/cuda/compare.py" 1e-5 cpu.npz gpu.npz
    check "and says what is missing without" bash -c './lltm "$@" 2>err; [ $? != 0 ] && grep -q libcuda err' - "${args[@]}"
}

missing() {
    local run=("$tenon" -run "$root/models/lltm.tn" forward B=2 x=ones h=zeros c=zeros)
    check "auto is the CPU where there is no driver" "${run[@]}"
    check "-device=cuda is an error there" status_is 3 "${run[@]}" -device=cuda
    cp log error.log
    check "which names the driver" grep -q 'libcuda\.so\.1' error.log
    check "no device is visible" env CUDA_VISIBLE_DEVICES= LD_LIBRARY_PATH="$vgpu" bash -c '"$@"; [ $? = 3 ]' - "${run[@]}" -device=cuda
    export TENON_CACHE=$work/cache
    check "the cache is filled" gpu "${run[@]}" -device=cuda
    check "then no C compiler is needed" env CC=/nonexistent LD_LIBRARY_PATH="$vgpu" "${run[@]}" -device=cuda
    unset TENON_CACHE
}

report() {
    local lltm=$root/models/lltm.tn
    check "-report knows the registers" sh -c "'$tenon' -report=json -target=cuda '$lltm' B=64 >report.json"
    check "lltm runs" env VGPU_REPORT=counters.json LD_LIBRARY_PATH="$vgpu" "$tenon" -run "$lltm" forward B=64 \
        x=randn h=randn c=randn -device=cuda -o out.npz
    check "what -report says of it is so" python3 "$root/tests/cuda/report.py" forward report.json counters.json lltm_k3_new_h
}

# A method on the CPU and, with these flags, on the GPU.
both() { # FILE TOLERANCE FLAGS METHOD ARGUMENTS...
    local file=$1 tolerance=$2 flags=$3 method=$4
    shift 4
    local run=("$tenon" -run "$root/tests/cuda/$file.tn" "$method" "$@")
    check "$method on the CPU" "${run[@]}" -device=cpu -o cpu.npz
    check "$method on the GPU $flags" env VGPU_REPORT=counters.json LD_LIBRARY_PATH="$vgpu" "${run[@]}" \
        $flags -device=cuda -o gpu.npz
    check "$method: the same to $tolerance" python3 "$root/tests/cuda/compare.py" "$tolerance" cpu.npz gpu.npz
    check "$method: no bank conflicts" python3 "$root/tests/cuda/counts.py" counters.json
}
products() {
    local m call
    for m in even odd; do
        both products 1e-5 -fno-cublas $m.chain B=70 x=randn r=randn -grad d_y=randn
        both products 3e-3 "-fno-cublas -ftf32" $m.chain B=70 x=randn r=randn -grad d_y=randn
        both products 3e-3 -ftf32 $m.chain B=70 x=randn r=randn -grad d_y=randn
        # gradients of a bias, beside a product: of rows of one operand, of columns of the other; whole, or in shares
        both products 1e-5 -fno-cublas $m.biased B=33 x=randn -grad d_y=randn
        both products 3e-2 -fno-cublas $m.half_sums B=33 x=randn w=randn c=randn -grad d_y=randn
        for call in "rows B=40" "rows B=1" "columns B=40 w=randn c=randn"; do
            both products 1e-5 -fno-cublas $m.$call x=randn -grad d_y=randn
            both products 3e-3 "-fno-cublas -ftf32" $m.$call x=randn -grad d_y=randn
        done
        both products 1e-5 "" $m.biased B=33 x=randn -grad d_y=randn
        check "no kernel adds the bias of $m" sh -c '! grep -q _y counters.json'
        for call in cublasLtCreate cublasLtMatmulAlgoGetHeuristic; do
            check "$call fails: the result begins as the bias" env VGPU_FAIL=$call:1+ LD_LIBRARY_PATH="$vgpu" \
                "$tenon" -run "$root/tests/cuda/products.tn" $m.biased B=33 x=randn -grad d_y=randn -device=cuda -o gpu.npz
            check "and is the same to 1e-5" python3 "$root/tests/cuda/compare.py" 1e-5 cpu.npz gpu.npz
        done
        both products 1e-5 -fno-cublas $m.dropped -training B=33 x=randn -grad d_y=randn
        both products 1e-5 -fno-cublas $m.pieces B=33 x=randn h=randn w=randn -grad d_y=randn
        both products 1e-5 -fno-cublas $m.batches B=2 M=20 N=32 x=randn y=randn -grad d_z=randn
        both products 1e-2 -fno-cublas $m.halves M=20 N=33 x=randn y=randn -grad d_z=randn
        both products 1e-2 -fno-cublas $m.floats M=20 N=32 x=randn y=randn -grad d_z=randn
        both products 1e-2 "" $m.halves M=20 N=33 x=randn y=randn -grad d_z=randn
        both products 1e-6 -fno-cublas $m.doubles M=20 N=32 x=randn y=randn -grad d_z=randn
    done
    both products 1e-5 -fno-cublas even.chain B=64 x=randn r=randn
    check "a product and what follows it are one kernel" python3 "$root/tests/cuda/counts.py" counters.json _y
    check "sm_75" env VGPU_SM=75 LD_LIBRARY_PATH="$vgpu" "$tenon" -run "$root/tests/cuda/products.tn" even.halves \
        M=20 N=32 x=ones y=ones -fno-cublas -device=cuda -o gpu.npz
}

convolutions() {
    local m flags
    for m in even odd; do
        for flags in "" -fno-cublas -tune; do
            both convolutions 1e-5 "$flags" $m.plain B=3 H=12 W=20 x=randn r=randn -grad d_y=randn
            both convolutions 1e-5 "$flags" $m.apart B=5 x=randn -grad d_y=randn
            both convolutions 1e-5 "$flags" $m.along B=3 N=40 x=randn -grad d_y=randn
        done
        both convolutions 1e-5 "" $m.plain B=2 H=9 W=7 x=randn r=randn
        both convolutions 3e-3 -ftf32 $m.plain B=2 H=12 W=20 x=randn r=randn
        both convolutions 3e-3 -ftf32 $m.apart B=5 x=randn -grad d_y=randn
        both convolutions 1e-2 "" $m.half B=3 x=randn w=randn -grad d_y=randn
        both convolutions 1e-2 -fno-cublas $m.half B=3 x=randn w=randn -grad d_y=randn
    done
    both convolutions 1e-5 "" even.apart B=0 x=randn -grad d_y=randn
    check "sm_75 has no tensor cores for it" env VGPU_SM=75 LD_LIBRARY_PATH="$vgpu" "$tenon" -run \
        "$root/tests/cuda/convolutions.tn" even.apart B=5 x=randn -ftf32 -device=cuda -o gpu.npz
}

graphs() {
    check "a chain of steps" "$tenon" -c "$root/tests/cuda/graph.tn" -o chain.o
    check "its program" "${CC:-cc}" -std=c11 -I. -I"$root/runtime/include" "$root/tests/cuda/graph.c" chain.o \
        "$build/libtenon.a" -lm -lpthread -ldl -o graph
    local env=(env LD_LIBRARY_PATH="$vgpu")
    check "graphs follow the tensors" "${env[@]}" VGPU_TRACE=1 ./graph
    cp log trace.log
    check "calls are launched as graphs" sh -c '[ "$(grep -c cuGraphLaunch trace.log)" -ge 20 ]'
    check "pointers are changed in place" grep -q cuGraphExecKernelNodeSetParams trace.log
    check "in another order" "${env[@]}" VGPU_ORDER=lazy VGPU_SEED=5 ./graph
    check "without graphs" "${env[@]}" VGPU_TRACE=1 TENON_NO_GRAPHS=1 ./graph
    cp log trace.log
    check "there are none then" sh -c 'grep -q cuLaunchKernel trace.log && ! grep -q cuGraph trace.log'
    local call
    for call in cuGraphCreate:1 cuGraphAddKernelNode:2 cuGraphAddChildGraphNode:1 cuStreamBeginCapture:2 \
        cuGraphInstantiateWithFlags:1 cuGraphExecKernelNodeSetParams:2 cublasSetStream:2; do
        check "$call fails: the steps one by one" "${env[@]}" VGPU_FAIL=$call ./graph
    done
    local digits=("$tenon" -train "$root/models/digits.tn" "$root/models/data/digits.npz" -batch 64 -epochs 1 -device=cuda)
    check "training by graphs" gpu "${digits[@]}" -save graphs.npz
    check "training without" env TENON_NO_GRAPHS=1 LD_LIBRARY_PATH="$vgpu" "${digits[@]}" -save steps.npz
    check "gives the same bits" cmp graphs.npz steps.npz
}

tune() {
    check "a chain with alternatives" "$tenon" -tune -c "$root/tests/cuda/graph.tn" -o chain.o
    check "its program" "${CC:-cc}" -std=c11 -I. -I"$root/runtime/include" "$root/tests/cuda/graph.c" chain.o \
        "$build/libtenon.a" -lm -lpthread -ldl -o graph
    local env=(env LD_LIBRARY_PATH="$vgpu" VGPU_TRACE=1)
    check "the first calls are measured" "${env[@]}" TENON_TUNE=answers ./graph nearly
    cp log trace.log
    check "by events" sh -c '[ "$(grep -c cuEventRecord trace.log)" -gt 100 ]'
    check "each choice of each size has its answer" sh -c '[ "$(wc -l <answers)" = 6 ]'
    cp answers before
    check "they are known to the next process" "${env[@]}" TENON_TUNE=answers ./graph
    cp log trace.log
    check "which measures nothing" sh -c '[ "$(grep -c cuEventRecord trace.log)" -lt 60 ]'
    check "and writes nothing" cmp answers before
    sed -i 's/ [01]$/ 1/' answers
    check "and no library" "${env[@]}" TENON_TUNE=answers ./graph
    cp log trace.log
    check "makes a product" sh -c 'grep -q cuLaunchKernel trace.log && ! grep -q cublasGemm trace.log'
    check "TENON_TUNE=0: the library" "${env[@]}" TENON_TUNE=0 ./graph
    cp log trace.log
    check "multiplies" grep -q cublasGemm trace.log
    check "-O3 has alternatives too" sh -c '"$0" -O3 -S -target=cuda "$1" -o o3/ && grep -q TN_G_CHOICE o3/chain.c' "$tenon" "$root/tests/cuda/graph.tn"
}

maps() { # bit by bit; NAME: that kernel touches whole sectors
    counted() {
        both maps "$@"
        check "$3: whole sectors" python3 "$root/tests/cuda/counts.py" counters.json "_$name"
    }
    local name=y
    counted 0 "" one_axis N=8192 x=randn
    both maps 0 "" one_axis N=8195 x=randn
    counted 0 "" short N=64 x=randn b=randn
    counted 0 "" heads B=2 S=9 x=randn
    counted 0 "" turned_half N=64 x=randn
    both maps 0 "" turned_half N=45 x=randn
    # one axis is short: whole tiles of it, in order
    counted 0 "" channels_first N=2 H=16 W=32 x=arange
    both maps 0 "" channels_first N=3 H=7 W=9 x=arange
    counted 0 "" channels_last N=2 M=512 x=randn
    both maps 0 "" channels_last N=2 M=333 x=randn
    counted 0 "" few_first M=512 x=randn
    both maps 0 "" few_first M=77 x=randn
    counted 0 "" few_halves M=256 x=arange
    both maps 0 "" few_halves M=250 x=arange
    # more than fits into shared memory
    both maps 0 "" turned_wide N=45 M=70 a=randn b=randn c=randn d=randn e=randn f=randn
    counted 0 "" bias -training N=5 x=randn b=randn r=randn
    check "four neighbours draw one block" sh -c '"$0" -S -target=cuda "$1" -o printed/ &&
        [ "$(grep -c "tn_uniform4(v" printed/maps.cu)" -ge 2 ] && ! grep -q "tn_uniform(" printed/maps.cu' \
        "$tenon" "$root/tests/cuda/maps.tn"
    name=z
    counted 0 "" odd_axis x=randn y=randn
    counted 0 "" halves N=9 x=randn y=randn
    counted 0 "" turned N=64 M=96 x=randn y=randn
    both maps 0 "" turned N=77 M=130 x=randn y=randn
    counted 0 "" few_last M=512 x=randn y=randn
    both maps 0 "" few_last M=211 x=randn y=randn
    counted 0 "" few_wide M=256 x=randn y=randn
    both maps 0 "" few_wide M=99 x=randn y=randn
    name=y
    counted 0 "" rows N=50 i=arange w=randn
    counted 1e-5 "" soft N=9 x=randn
    counted 1e-5 "" norm N=9 x=randn
    name=attention
    counted 1e-5 "" attend S=72 q=randn k=randn v=randn
    name=attention_grad
    counted 1e-5 "" attend S=72 q=randn k=randn v=randn -grad d_y=randn
    name=y
    # rows of any length: one version where vectors divide it, one for the others
    counted 1e-5 "" softs N=9 L=640 x=randn
    check "softs, L=640: 16 bytes a lane" python3 -c 'import json, sys
k = json.load(open("counters.json"))["kernels"][0]
sys.exit(k["load_bytes"] != 512 * k["load_requests"])'
    both maps 1e-5 "" softs N=9 L=641 x=randn
    both maps 1e-5 "" softs N=9 L=3 x=randn
    both maps 1e-5 "" softs N=9 L=4 x=randn
}

failures() {
    local run=("$tenon" -run "$root/models/lltm.tn" forward B=2 x=ones h=zeros c=zeros -device=cuda)
    check "it runs" gpu "${run[@]}"
    local call n
    for call in cuInit cuDeviceGet cuDevicePrimaryCtxRetain cuMemAlloc cuModuleLoadDataEx \
        cuModuleGetFunction cuLaunchKernel cuMemcpyHtoDAsync cuMemcpyDtoHAsync cuStreamCreate cuStreamSynchronize; do
        for n in 1 2; do
            check "$call fails at call $n" env VGPU_FAIL=$call:$n LD_LIBRARY_PATH="$vgpu" bash -c '
                "$@" 2>err; status=$?
                cat err
                [ "$0" = 2 ] || ! grep -q "never came" err || exit 1
                case $status in
                0) ! grep -q error err ;;
                1 | 3) [ "$(grep -c "error:" err)" = 1 ] ;;
                *) exit 1 ;;
                esac' "$n" "${run[@]}"
        done
    done
}

for part in "${@:-gradients}"; do
    case $part in
    train | gradients | program | executable | missing | report | graphs | tune | maps | products | convolutions | failures) "$part" ;;
    *) echo "cuda.sh: there is no part $part" >&2; exit 2 ;;
    esac
done
finish
