#!/bin/bash
# models.sh: whole models. The digits learn, with the same bits at any number of threads, in every run,
# and after a stop; every sample trains, with a loss that falls; the C program runs.
#   TENON=build/tenon tests/models.sh PART...     the parts: at the end
# SPDX-License-Identifier: MIT
. "$(realpath "$(dirname "$0")/check.sh")"
# The result that a line of the training's report names is at least, or at most, a number.
reaches() { awk -v name="$2" -v least="$3" '$1 == "test" && $2 == name && $3 + 0 >= least { ok = 1 } END { exit !ok }' "$1"; }
stays() { awk -v name="$2" -v most="$3" '$1 == "test" && $2 == name && $3 + 0 <= most { ok = 1 } END { exit !ok }' "$1"; }
# learns MODEL DATA ROWS reaches|stays RESULT NUMBER OPTION...: what the file promises of all its data, by the first ROWS of them.
learns() {
    local model=$1 data=$2 n=$3 how=$4 result=$5 number=$6
    shift 6
    python3 "$root/tests/npz.py" --part "$root/models/data/$data.npz" "$model.npz" "$n"
    check "$model trains" "$tenon" -train "$root/models/$model.tn" "$model.npz" "$@"
    cp log "$model.log"
    check "$model: $result $how $number: $(grep '^test' "$model.log")" "$how" "$model.log" "$result" "$number"
}
counts() { # MODEL PARAMETERS [NAME]
    "$tenon" -E "$root/models/$1.tn" -m "${3:-$1}" >"$1.params" 2>&1
    check "$1 has $2 parameters" grep -q "parameters $2," "$1.params"
}
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

charlstm() { learns charlstm kjv 5649 stays bits 2.6 -epochs 2 -batch 64; }
gpt() { learns gpt kjv 5649 stays bits 3.2 -epochs 1 -batch 32; }
gpt2() { counts gpt2 124,439,808; }
bert() {
    counts bert 109,514,298
    learns bert kjv 5649 stays bits 3.1 -m letters -epochs 1 -batch 16
}
mamba() { learns mamba kjv 5649 stays bits 2.3 -epochs 1 -batch 32; }
vit() {
    counts vit 86,567,656
    learns vit mnist 8000 reaches accuracy 0.87 -m digits -epochs 2
}
resnet18() {
    counts resnet18 11,689,512
    learns resnet18 mnist 8000 reaches accuracy 0.9 -m digits -epochs 1
}
mobilenetv2() {
    counts mobilenetv2 3,504,872 mobilenet
    learns mobilenetv2 mnist 8000 reaches accuracy 0.9 -m digits -epochs 1
}
unet() {
    counts unet 583,681
    learns unet mnist 2400 stays loss 0.15 -m digits -epochs 1
}
dcgan() { learns dcgan mnist 8000 stays d_loss.apart 0.1 -m digits -epochs 1; }
vae() { learns vae mnist 8000 stays loss 160 -epochs 1; }

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
    digits | lenet | gcn | charlstm | gpt | gpt2 | bert | mamba | moe | vae | vit | resnet18 | mobilenetv2 | unet | dcgan | samples | program) "$part" ;;
    *) echo "models.sh: there is no part $part" >&2; exit 2 ;;
    esac
done
finish
