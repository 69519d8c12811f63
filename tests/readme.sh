#!/bin/bash
# readme.sh: what the READMEs promise is true: their models compile, their messages are printed, their commands
# work.   TENON=build/tenon tests/readme.sh
# SPDX-License-Identifier: MIT
. "$(dirname "$0")/expect.sh"
root=$(realpath "$here/..")
export TENON_CACHE=$work/cache
# the tree as the commands see it, with nothing of ours in it afterwards
cp -r "$root/models" models
ln -s "$(dirname "$tenon")" build
ln -s "$root/runtime" runtime

# blocks FILE PREFIX: each fenced block of a text as PREFIX1, PREFIX2, ...
blocks() { awk -v p="$2" '/^```/ { open = !open; if (open) n++; next } open { print > p n }' "$1"; }

blocks "$root/README.md" readme
expect 0 '!warning' -- "$tenon" -check readme1
# the lines of models/digits.tn, in order, without comments and blank lines
check "README.md shows models/digits.tn" python3 - <<END
def text(path): return [l for l in open(path).read().split("\n") if l.strip() and not l.strip().startswith("#")]
shown, whole = text("readme1"), text("$root/models/digits.tn")
assert whole[:len(shown)] == shown and len(shown) > 20, [p for p in zip(shown, whole) if p[0] != p[1]]
END
for model in models/*.tn; do check "$model brings no warning" "$tenon" -check -Wall -Werror "$model"; done
mkdir wrong && sed 's/\[3 \* state, features + state\]/[3 * state, 2 * state]/' models/lltm.tn >wrong/lltm.tn
(cd wrong && "$tenon" -check lltm.tn 2>message)
check "the message of README.md" diff readme2 wrong/message

# the reference's files; a fragment shows declarations only
blocks "$root/frontend/LANGUAGE.md" language
expect 0 '!warning' -- "$tenon" -check language1
npz points.npz x=f32:40:wave target=f32:40:wave
expect 0 'epoch 10' -- "$tenon" -train language1 points.npz

# every example of it compiles, with what the text around it speaks of
for block in language[0-9]*; do
    {
        for name in nn optim; do grep -q "^import $name" "$block" || echo "import $name"; done
        grep -q 'm\.loss' "$block" && cat <<END
module M {
    embed = nn.Linear(8, 8)
    out = nn.Linear(8, 10)
    fn loss(x: [B, 8], y: i64[B]) -> (loss: []) { return cross_entropy(out(embed(x)), y) }
}
model m = M()
END
        cat "$block"
    } >"$block.tn"
    check "LANGUAGE.md: $(head -1 "$block")" "$tenon" -check "$block.tn"
done
[ "$(echo language*.tn | wc -w)" -ge 10 ] || check "LANGUAGE.md has examples" false

# commands: four spaces, then the command, which a comment may follow
npz x.npz x=f32:5x64:wave
python3 -c 'import zipfile; open("x.npy", "wb").write(zipfile.ZipFile("x.npz").read("x.npy"))'
count=0
while IFS= read -r line; do
    count=$((count + 1))
    case $line in
    *-device=cuda*) # without a GPU it must say what is missing
        [ -e /dev/nvidiactl ] || { expect 3 'CUDA driver' -- bash -c "$line"; continue; } ;;
    esac
    check "README.md: $line" bash -c "$line"
done < <(sed -n -E 's/^    (build\/tenon|make) /\1 /p' "$root/README.md")
# how to link: a program that makes a model, and one that also saves it
check "an object" "$tenon" -c models/lltm.tn -target=cpu
check "a library" "$tenon" -shared models/lltm.tn -target=cpu
while IFS= read -r line; do
    rm -f a.out
    save=0
    case $line in *tenon_files*) line_files=$line; save='tn_model_save(lltm_model(m), "kept.npz")' ;; esac
    cat >main.c <<END
#include "lltm.h"
int main(void)
{
    tn_context *ctx = NULL;
    lltm *m = NULL;
    return tn_context_create(NULL, &ctx) || lltm_create(ctx, NULL, &m) || $save;
}
END
    check "README.md: $line" bash -c "$line"
    check "and what it made runs" env LD_LIBRARY_PATH=build:. ./a.out
    links=$((${links-0} + 1))
done < <(sed -n -E 's/^    (cc) /\1 /p' "$root/README.md")
# the call from C, linked with the last command: it makes, loads what was kept, and runs
{
    cat readme3
    echo 'int main(void) { return step("kept.npz") != TN_OK || new_h[0] == 0; }'
} >main.c
check "README.md: a call from C" bash -c "$line_files"
check "and it runs" ./a.out
check "README.md says how to link" test "${links-0}" = 3 -a -s kept.npz
check "README.md has commands" test "$count" -ge 8
for f in digits.safetensors out.npz out/lltm.cu models/lltm/lltm; do
    check "and they write $f" test -s "$f"
done
finish
