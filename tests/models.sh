#!/bin/bash
# models.sh: whole models. The digits learn, with the same bits at any number of threads, in every run,
# and after a stop; every sample trains, with a loss that falls; the C program runs.
#   TENON=build/tenon tests/models.sh [digits|lenet|vae|gcn|moe|samples|program]...
# SPDX-License-Identifier: MIT
set -u
tenon=$(realpath "${TENON:?set TENON to the compiler}")
build=$(dirname "$tenon")
root=$(realpath "$(dirname "$0")/..")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

right=0 wrong=0
check() { # WHAT COMMAND...
    local what=$1
    shift
    if "$@" >log 2>&1 </dev/null; then
        right=$((right + 1))
    else
        wrong=$((wrong + 1))
        echo "models: $what"
        sed 's/^/    /' log
    fi
}
# The result that a line of the training's report names is at least, or at most, a number.
reaches() { awk -v name="$2" -v least="$3" '$1 == "test" && $2 == name && $3 + 0 >= least { ok = 1 } END { exit !ok }' "$1"; }
falls() { # FILE: the first result of the last epoch is below that of the first
    awk '$1 == "epoch" { last = $4; if (!n++) first = $4 } END { print "first", first, "last", last; exit !(n > 1 && last < first) }' "$1"
}

digits() {
    local train=("$tenon" -train "$root/models/digits.tn" "$root/models/data/digits.npz" -batch 64)
    check "digits trains" "${train[@]}" -epochs 20 -threads 1 -save one.safetensors
    cp log digits.log
    check "digits reaches 0.96: $(tail -n 2 digits.log)" reaches digits.log accuracy 0.96
    check "digits trains on two threads" "${train[@]}" -epochs 20 -threads 2 -save two.safetensors
    check "one thread and two give the same bits" cmp one.safetensors two.safetensors
    check "half of it" "${train[@]}" -epochs 10 -threads 2 -save half.safetensors
    check "the other half" "${train[@]}" -epochs 20 -resume half.safetensors -save resumed.safetensors
    check "stopping half way changes nothing" cmp one.safetensors resumed.safetensors
    check "another seed" "${train[@]}" -epochs 1 -seed 7 -save seven.safetensors
    check "which gives other numbers" sh -c "! cmp -s one.safetensors seven.safetensors"
    check "the trained model runs" "$tenon" -run "$root/models/digits.tn" forward x=zeros B=3 -load one.safetensors -o out.npz
}

lenet() {
    check "lenet trains" "$tenon" -train "$root/models/lenet.tn" "$root/models/data/mnist.npz" -epochs 2 -save lenet.safetensors
    cp log lenet.log
    check "lenet reaches 0.975: $(tail -n 2 lenet.log)" reaches lenet.log accuracy 0.975
    check "the trained model runs" "$tenon" -run "$root/models/lenet.tn" forward x=zeros B=3 -load lenet.safetensors -o out.npz
}

gcn() {
    check "gcn trains" "$tenon" -train "$root/models/gcn.tn" "$root/models/data/karate.npz" -epochs 300
    cp log gcn.log
    check "gcn knows 0.94 of the club: $(tail -n 2 gcn.log)" reaches gcn.log accuracy 0.94
}

moe() {
    local train=("$tenon" -train "$root/models/moe.tn" "$root/models/data/digits.npz" -epochs 15 -batch 50)
    check "moe trains" "${train[@]}" -threads 1 -save one.safetensors
    cp log moe.log
    check "moe reaches 0.96: $(tail -n 3 moe.log)" reaches moe.log accuracy 0.96
    check "moe trains on two threads" "${train[@]}" -threads 2 -save two.safetensors
    check "one thread and two give the same bits" cmp one.safetensors two.safetensors
}

charlstm() {
    check "charlstm trains" "$tenon" -train "$root/models/charlstm.tn" "$root/models/data/kjv.npz" -epochs 2 -batch 64
    cp log charlstm.log
    check "charlstm pays less than 2.6 bits: $(grep '^test bits' charlstm.log)" awk '$1 == "test" && $2 == "bits" && $3 < 2.6 { ok = 1 } END { exit !ok }' charlstm.log
}
gpt() {
    check "gpt trains" "$tenon" -train "$root/models/gpt.tn" "$root/models/data/kjv.npz" -epochs 1 -batch 32
    cp log gpt.log
    check "gpt pays less than 3.2 bits: $(grep '^test bits' gpt.log)" awk '$1 == "test" && $2 == "bits" && $3 < 3.2 { ok = 1 } END { exit !ok }' gpt.log
}

gpt2() {
    "$tenon" -E "$root/models/gpt2.tn" >gpt2.log 2>&1
    check "gpt2 has 124,439,808 parameters" grep -q 'parameters 124,439,808' gpt2.log
}

vae() {
    check "vae trains" "$tenon" -train "$root/models/vae.tn" "$root/models/data/mnist.npz" -epochs 1
    cp log vae.log
    check "vae stays below 160: $(grep '^test loss' vae.log)" awk '$1 == "test" && $2 == "loss" && $3 < 160 { ok = 1 } END { exit !ok }' vae.log
}

sample() { # FILE EPOCHS ARRAY...
    local file=$1 epochs=$2
    shift 2
    python3 "$root/tests/npz.py" data.npz "$@"
    check "$file trains" "$tenon" -train "$root/$file" data.npz -epochs "$epochs" -batch 16 -save out.npz
    cp log train.log
    check "$file: the loss falls" falls train.log
}
samples() {
    sample models/ste.tn 8 x=f32:96x64:wave y=i64:96:mod10
    sample models/finetune.tn 8 x=f32:96x64:wave y=i64:96:mod10
    sample tests/sources/attention.tn 8 x=f32:48x5x6:wave
    sample tests/sources/autoencoder.tn 8 x=f32:96x64:wave beta=f32::one
    sample tests/sources/normalised.tn 8 x=f32:96x64:wave y=i64:96:mod10
    sample tests/sources/mixer.tn 8 x=f32:96x64:wave y=i64:96:mod10
    sample tests/sources/recurrent.tn 8 x=f32:48x5x3:wave
    sample tests/sources/adversaries.tn 8 x=f32:96x2:wave
}

program() {
    cp -r "$root/models/lltm" "$root/models/lltm.tn" .
    mkdir run && mv lltm run/ && mv lltm.tn run/
    local make=(make -C run/lltm TENON="$tenon" BUILD="$build" INCLUDE="-I$root/runtime/include")
    # what libtenon.a was made with, the program is linked with
    [ -z "${SANITIZE:-}" ] || make+=(CFLAGS="-fsanitize=$SANITIZE")
    check "make" "${make[@]}"
    check "lltm trains" run/lltm/lltm
    check "nothing to do twice" sh -c "${make[*]} | grep -q 'up to date'"
    sleep 1
    touch run/lltm.tn
    check "a newer .tn builds again" sh -c "${make[*]} | grep -q tenon"
}

for part in "${@:-digits}"; do
    case $part in
    digits | lenet | gcn | charlstm | gpt | gpt2 | moe | vae | samples | program) "$part" ;;
    *) echo "models.sh: there is no part $part" >&2; exit 2 ;;
    esac
done
echo "$right right, $wrong wrong"
[ "$wrong" = 0 ] && [ "$right" -gt 0 ]
