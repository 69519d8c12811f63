#!/bin/bash
# devices.sh: models over several devices on virtual GPUs: the numbers are those of one device, copies and
# lanes wait for what they need (the virtual GPU says where they do not), and what is missing is said.
#   TENON=build/tenon VGPU=build/tests/vgpu tests/cuda/devices.sh [PART]...
# SPDX-License-Identifier: MIT
unset LD_LIBRARY_PATH
vgpu=$(realpath "${VGPU:?set VGPU to the folder of the virtual libcuda.so.1}")
. "$(realpath "$(dirname "$0")/../check.sh")"
text=$root/tests/cuda/devices.tn
gpus() { # NUMBER COMMAND...: memory that is freed goes back, so that each block is watched by itself
    local n=$1
    shift
    env VGPU_DEVICES="$n" TENON_NO_CACHE=1 LD_LIBRARY_PATH="$vgpu" "$@"
}
says() { grep -q -- "$1" last || { echo "no '$1' in:"; cat last; return 1; }; } # what was run before
same() { # FILE...: equal bits in all arrays
    python3 "$root/tests/cuda/compare.py" 0 "$@"
}
mixes=(two one far_cpu near_cpu)

numbers() {
    python3 "$root/tests/npz.py" index.npz i=i64:2:mod2
    for m in here "${mixes[@]}"; do
        check "$m.forward" gpus 2 "$tenon" -run "$text" $m.forward x=randn T=3 B=2 -o f$m.npz
        check "$m.loss and gradients" gpus 2 env VGPU_ORDER=lazy "$tenon" -run "$text" $m.loss x=randn T=3 B=2 -grad -o g$m.npz
        check "$m.noisy" gpus 2 "$tenon" -run "$text" $m.noisy x=randn B=2 -training -o n$m.npz
        check "$m.turned" gpus 2 env VGPU_SEED=3 "$tenon" -run "$text" $m.turned x=randn i=@index.npz:i -o t$m.npz
        check "$m.step" gpus 2 "$tenon" -run "$text" $m.step x=randn n=1 -o s$m.npz
    done
    for m in two one far_cpu near_cpu; do
        check "$m.host" gpus 2 env VGPU_SEED=2 VGPU_ORDER=lazy "$tenon" -run "$text" $m.host x=randn B=2 -o h$m.npz
        for what in f g n t s; do
            check "$m: $what has the bits of the CPU" same ${what}here.npz $what$m.npz
        done
        check "$m: copies to the CPU have the same bits" same htwo.npz h$m.npz
    done
    for m in here one two mixed three; do
        check "chunks_$m" gpus 2 env VGPU_ORDER=lazy "$tenon" -run "$text" chunks_$m.loss x=randn target=ones B=8 -grad -o c$m.npz
    done
    check "chunks over two GPUs have the bits of one" same cone.npz ctwo.npz
    check "and of the CPU" same cone.npz chere.npz
    check "so have chunks over GPU, CPU and GPU" same cthree.npz cmixed.npz
    check "TwoGPU" gpus 2 "$tenon" -run "$root/models/two_gpu.tn" forward x=randn B=4 -m 'TwoGPU(64)' -o two.npz
    check "on one GPU" gpus 1 "$tenon" -run "$root/models/two_gpu.tn" forward x=randn B=4 -m 'TwoGPU(64, cuda:0, cuda:0)' -o one.npz
    check "on the CPU" "$tenon" -run "$root/models/two_gpu.tn" forward x=randn B=4 -m 'TwoGPU(64, cpu, cpu)' -o cpu.npz
    check "the same bits on two and one" same one.npz two.npz
    check "and nearly on the CPU" python3 "$root/tests/cuda/compare.py" 1e-5 cpu.npz two.npz
}

training() {
    python3 "$root/tests/npz.py" data.npz x=f32:64x16:wave target=f32:64x16:mod3
    local fit=("$tenon" -train "$text" data.npz -batch 16 -epochs 3)
    for m in pipe short long longer clipped unclipped whole cut; do
        check "$m trains" gpus 2 "${fit[@]}" -m $m -save $m.npz
    done
    check "two stages on two GPUs have the bits of one" same short.npz pipe.npz
    check "so have four stages" same longer.npz long.npz
    check "a norm over GPUs is the norm" python3 "$root/tests/cuda/compare.py" 1e-5 unclipped.npz clipped.npz
    check "eight slices are the batch" python3 "$root/tests/cuda/compare.py" 1e-5 whole.npz cut.npz
    check "another order of streams" gpus 2 env VGPU_SEED=5 VGPU_ORDER=lazy "${fit[@]}" -m long -save again.npz
    check "changes no bit" same long.npz again.npz
    check "two epochs" gpus 2 "$tenon" -train "$text" data.npz -batch 16 -epochs 2 -m pipe -save half.safetensors
    check "and one more, on one GPU" gpus 1 "${fit[@]}" -m short -resume half.safetensors -save resumed.npz
    check "give the bits of three" same short.npz resumed.npz
    check "a batch that slices do not divide is refused" status_is 1 gpus 2 "$tenon" -train "$text" data.npz -batch 10 -m pipe
    check "by name" says 'B must be a multiple of 4'
    check "the pipeline of the models learns" gpus 2 "$tenon" -train "$root/models/pipeline.tn" "$root/models/data/digits.npz" \
        -m digits -epochs 5 -batch 32
    check "94 of 100 digits" awk '$1 == "test" && $2 == "accuracy" && $3 >= 0.94 { ok = 1 } END { exit !ok }' last
}

order() { # steps of the second GPU stand between those of the first: both work
    check "steps of a pipeline" gpus 2 "$tenon" -E=host "$text" -m long
    check "the second slice begins before the first one's gradient" \
        awk '/loss_step/ { on = 1 } on && / copy / { n++ } on && /gemm dot/ { exit !(n >= 4) }' last
}

placing() {
    python3 "$root/tests/npz.py" data.npz x=f32:32x16:wave target=f32:32x16:mod3
    local fit=("$tenon" -train "$text" data.npz -batch 16 -epochs 2)
    check "deep on one GPU" gpus 1 "${fit[@]}" -m deep -save one.npz
    check "deep over two" gpus 2 "${fit[@]}" -m deep -fplace=auto -save two.npz
    cp log said
    check "which it says" says 'blocks\[0..2\] on cuda:0 (3.2 MB), blocks\[3..5\] on cuda:1 (3.2 MB)'
    check "and how to keep it" grep -q 'cuda:0, cuda:0, cuda:0, cuda:1, cuda:1, cuda:1\]\[i\]' said
    check "deep over three, from cuda:1 on" gpus 3 env VGPU_ORDER=lazy "${fit[@]}" -m deep -fplace=auto -device=cuda:1 -save three.npz
    check "blocks lie in a row" says 'blocks\[0..1\] on cuda:1 .*blocks\[2..3\] on cuda:0 .*blocks\[4..5\] on cuda:2'
    check "two GPUs change no bit" same one.npz two.npz
    check "nor do three" same one.npz three.npz
    check "little work" gpus 2 "${fit[@]}" -m tiny -fplace=auto
    check "stays on the CPU" says 'it goes to the CPU (-device=cpu keeps that)'
}

missing() {
    local run=("$tenon" -run "$root/models/two_gpu.tn" forward x=ones B=2 -m 'TwoGPU(16)')
    check "one GPU is not two" status_is 3 gpus 1 "${run[@]}"
    check "which is said" says 'needs a device that is not there: cuda:1: there is 1 CUDA device'
    check "no GPU at all" status_is 3 "${run[@]}"
    check "is said, too" says 'the model uses cuda:0: .*libcuda'
    check "no code for it with -target=cpu" status_is 2 "$tenon" -c "$root/models/two_gpu.tn" -m 'TwoGPU(16)' -target=cpu -o two.o
    check "for a reason" says 'the model uses cuda:0: -target=cpu makes no code for it'
    python3 "$root/tests/npz.py" index.npz i=i64:2:5
    for m in two far_cpu; do
        check "$m: an index out of range on the second device" status_is 1 gpus 2 "$tenon" -run "$text" $m.turned x=randn i=@index.npz:i
        check "is reported" says 'turned: index 5 is out of range: the axis has 2 elements'
        check "$m prints from both devices" gpus 2 "$tenon" -run "$text" $m.shown x=1
        check "in the order of the text" bash -c 'grep -E "^(near|far)" last | tr "\n" " " | grep -q "near.*1.*far.*2.*near.*3"'
    done
    for call in cuMemAlloc cuMemcpyPeerAsync cuEventCreate cuStreamCreate cuLaunchKernel; do
        for nth in 1 3 6; do
            check "$call fails the $nth. time: an error, and nothing is left" \
                gpus 2 env VGPU_FAIL=$call:$nth bash -c '"$@" >out 2>&1; s=$?; cat out; [ $s != 86 ] && [ $s -lt 100 ] && { [ $s = 0 ] || grep -q "tenon: error" out; }' - "${run[@]}"
        done
    done
}

program() {
    check "an object for two GPUs" "$tenon" -c "$root/models/two_gpu.tn" -m 'TwoGPU(64)' -o "$work/"
    # shellcheck disable=SC2086
    check "a program with it" ${CC:-cc} ${SANITIZE:+-fsanitize=$SANITIZE} -std=c11 -Wall -Wextra -O1 -I. -I"$root/runtime/include" "$root/tests/cuda/devices.c" TwoGPU.o \
        "$build/libtenon_run.a" -lzip -lcjson -lm -lpthread -ldl -o devices
    check "calls, tapes and steps" gpus 2 ./devices
    check "in another order of streams" gpus 2 env VGPU_SEED=4 VGPU_ORDER=lazy ./devices
    check "with memory that is kept" env VGPU_DEVICES=2 LD_LIBRARY_PATH="$vgpu" ./devices
}

for part in "${@:-numbers training order placing missing program}"; do
    for one in $part; do
        $one
    done
done
finish
