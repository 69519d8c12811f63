#!/bin/bash
# command.sh: the command line as a careless user types it: options at the wrong place, sizes that are fixed,
# training that diverges or is stopped, outputs that cannot be written.   TENON=build/tenon tests/command.sh
# SPDX-License-Identifier: MIT
. "$(dirname "$0")/expect.sh"
digits=$(realpath "$here/../models/digits.tn")
export TENON_CACHE=$work/cache
npz good.npz x=f32:48x64:wave y=i64:48:mod10 x_test=f32:20x64:wave y_test=i64:20:mod10
train() { "$tenon" -train "$digits" good.npz -batch 16 "$@"; }
run() { "$tenon" -run "$digits" "$@"; }

# --- the batch -----------------------------------------------------------------------------------------
expect 0 'test accuracy' 'fixed at 16: of 20 examples of the test set 16 are used' '!left out' -- \
    "$tenon" -train "$digits" good.npz -epochs 1 -D B=16
expect 0 'fixed at 13: 9 of 48 examples are left out' -- "$tenon" -train "$digits" good.npz -epochs 1 -D B=13
expect 1 "-batch 4: the batch of loss is fixed, 'x' is f32\[13, 64\]" -- \
    "$tenon" -train "$digits" good.npz -D B=13 -batch 4
expect 1 'good.npz holds 48 examples: the batch of loss is fixed at 49' -- \
    "$tenon" -train "$digits" good.npz -D B=49
npz short.npz x=f32:48x64:wave y=i64:16:mod10
expect 1 "'y' has 16 examples, others have 48" -- "$tenon" -train "$digits" short.npz -D B=16
expect 0 '-batch 1000000000: there are 48 examples' 'epoch' -- \
    "$tenon" -train "$digits" good.npz -epochs 1 -batch 1000000000
for n in 0 -5 1e3 4294967297 99999999999999999999 ''; do
    expect 2 '-batch wants' -- "$tenon" -train "$digits" good.npz -batch "$n"
done
npz five.npz x=f32:5x64:wave
expect 1 "'x' is f32\[5, 64\], but 'x' of forward is f32\[4, 64\]" -- run forward x=@five.npz -D B=4
expect 1 "B=4 says B = 4, but it is 5" -- run forward x=@five.npz B=4

# --- validation, divergence ----------------------------------------------------------------------------
expect 0 '-val 0.001 of 48 examples is less than one: there is no validation' -- train -epochs 1 -val 0.001
expect 0 'val loss' '!warning' -- train -epochs 1 -val 0.1
expect 1 '-val 0.999999 of 48 examples' -- train -epochs 1 -val 0.99 -D B=16 -val 0.999999 -batch 16
expect 2 '0 <= X < 1' -- train -val 1
expect 0 '0 <= X < 1' -- "$tenon" --help
expect 1 'warning: loss is nan in epoch 1, step 2' 'epoch  3  loss nan' '!-nan' \
    'test loss nan' 'no finite number at the end; so it was saved in lost.npz' -- \
    train -epochs 3 -lr 1e30 -save lost.npz
check "it was saved" test -s lost.npz
expect 0 '!warning' -- train -epochs 1

# --- stopped -------------------------------------------------------------------------------------------
# A signal in the middle of an epoch: it saves, says so by its status, and the rest gives the same bits.
cat >slow.tn <<'END'
import optim
module Slow {
    param w: [64] = ones
    fn loss(x: [B, 64]) -> (loss: []) {
        print("step", x[0, 0])
        return (dropout(x, 0.5) * w).square().mean()
    }
}
model slow = Slow()
train slow.loss with optim.Adam(lr = 0.01)
END
npz slow.npz x=f32:4000x64:wave
slow=("$tenon" -train slow.tn slow.npz -batch 2 -epochs 2)
stop() { # SIGNAL: after some steps; python starts it, since a shell has background jobs ignore Ctrl-C
    rm -f part.npz
    python3 - "$1" "${slow[@]}" -save part.npz <<'END'
import signal, subprocess, sys
number = getattr(signal, sys.argv[1])
signal.signal(number, signal.SIG_DFL) # nohup has it ignored
p = subprocess.Popen(sys.argv[2:], stdout=subprocess.PIPE, bufsize=0)
while p.stdout.read(64).count(b"\n") == 0:
    pass
p.send_signal(number)
tail = p.stdout.read()
sys.stdout.write(tail[-200:].decode().split("\n", 1)[-1])
sys.exit(p.wait())
END
}
check "slow trains" "${slow[@]}" -save whole.npz
for at in 2:SIGINT 15:SIGTERM 1:SIGHUP; do
    expect $((128 + ${at%:*})) 'stopped in epoch 1' 'go on with: -resume part.npz' -- stop "${at#*:}"
    check "resumes after ${at#*:}" "${slow[@]}" -resume part.npz -save resumed.npz
    check "with the same bits" cmp whole.npz resumed.npz
done

# --- resuming ------------------------------------------------------------------------------------------
check "seeded" train -epochs 1 -seed 7 -save seven.npz
check "the same seed again" train -epochs 2 -seed 7 -resume seven.npz -save again.npz
check "or none" train -epochs 2 -resume seven.npz -save none.npz
check "is the same" cmp again.npz none.npz
expect 1 'seven.npz goes on with -seed 7, with which it began: leave out -seed 8' -- \
    train -epochs 2 -seed 8 -resume seven.npz
expect 2 '-load and -resume: choose one' -- train -load seven.npz -resume seven.npz

for place in 'epoch -1' 'epoch 0' 'epoch 99999999999' 'batch -3' 'batch 3' 'batch 4000000000000000000' 'batch_size 0'; do
    npz --set seven.npz placed.npz "tenon.${place% *}" "${place#* }"
    expect 1 'placed.npz: .* is no place in' -- train -epochs 4 -resume placed.npz
done
check "a run goes on in its own file" train -epochs 2 -resume seven.npz -save seven.npz
check "which is what it should be" cmp seven.npz none.npz

# --- arguments with a default --------------------------------------------------------------------------
cat >default.tn <<'END'
import optim
module Default {
    param w: [3] = ones
    fn loss(x: [B, 3], y: [B], scale: [] = 2.0, bias: [3] = none) -> (loss: []) {
        if bias != none { x = x + bias }
        return mse_loss((x * w * scale).sum(1), y)
    }
}
model m = Default()
train m.loss with optim.SGD(lr = 0.01)
END
npz xy.npz x=f32:48x3:wave y=f32:48:one
npz all.npz x=f32:48x3:wave y=f32:48:one scale=f32::3
expect 0 'epoch  1' 'val loss' '!warning' -- "$tenon" -train default.tn xy.npz -epochs 1 -val 0.2
expect 0 "all.npz: 'scale' is not used" -- "$tenon" -train default.tn all.npz -epochs 1

cat >carry.tn <<'END'
import optim
module Carry {
    param w: [3] = ones
    fn loss(x: [B, 3], h: [B, 3] = ones) -> (loss: [], h) {
        h = h + x * w
        return h.square().mean(), h
    }
}
model m = Carry()
train m.loss with optim.SGD(lr = 0.1)
END
npz xh.npz x=f32:20x3:wave h=f32:20x3:one
expect 0 'epoch  1' '!warning' -- "$tenon" -train carry.tn xy.npz -epochs 1
expect 0 "'h' is not used: it begins with zeros" -- "$tenon" -train carry.tn xh.npz -epochs 1
expect 0 'loss: f32\[\] = 9' 'h: f32\[2, 3\] = 3 3' -- "$tenon" -run carry.tn loss x=ones h=2 B=2
expect 0 'loss: f32\[\] = 4' 'h: f32\[2, 3\] = 2 2' -- "$tenon" -run carry.tn loss x=ones B=2
expect 0 'd_x: f32\[2, 3\]' -- "$tenon" -run carry.tn loss x=ones B=2 -grad

# results that are no scalars are not shown, which is said once; a count is a mean, too: (20*20 + 20*20 + 8*8) / 48
cat >shown.tn <<'END'
import optim
module Shown {
    param w: [3] = ones
    fn loss(x: [B, 3], y: [B]) -> (loss: [], count: i64[], all: [B]) {
        all = (x * w).sum(1)
        count = (y > 0.5).to(i64).sum()
        return mse_loss(all, y), count, all
    }
}
model m = Shown()
train m.loss with optim.SGD(lr = 0.01)
END
expect 0 "warning: result 'all' of loss is no scalar: -train does not show it" 'epoch  2 .* count 18.0000 ' '!  all ' -- \
    "$tenon" -train shown.tn xy.npz -epochs 2 -batch 20
shown_once() { "$tenon" -train shown.tn xy.npz -epochs 2 2>&1 | grep -c "'all'"; }
expect 0 '^1$' -- shown_once

# --- -fgrad --------------------------------------------------------------------------------------------
lltm=$(realpath "$here/../models/lltm.tn")
expect 1 "-fgrad=nosuch: no method has a float argument 'nosuch'" -- "$tenon" -c "$lltm" -o out/l.o -fgrad=nosuch
expect 1 "-fgrad=x,weigths: no method has a float argument 'weigths'; did you mean 'weights'" -- \
    "$tenon" -check "$lltm" -fgrad=x,weigths
expect 1 "no method has a float argument ''" -- "$tenon" -check "$lltm" -fgrad=x,
expect 1 "no method has a float argument 'y'" -- "$tenon" -check "$digits" -fgrad=y
expect 0 'd_x: ' '!d_h: ' 'd_c: ' -- "$tenon" -run "$lltm" forward x=ones h=zeros c=zeros B=2 -grad d_new_h=1 d_new_c=1 -fgrad=x,c
for list in all none weights x,h,c; do
    expect 0 -- "$tenon" -check "$lltm" -fgrad=$list
done

# --- -only ---------------------------------------------------------------------------------------------
expect 0 'graph @init' '@loss.step step' '!loss.update update' '!of forward' '!backward' '!grad of' -- \
    "$tenon" -E=ir:split "$digits" -only=loss.step
expect 0 'forward_train of forward' 'backward of forward' '!of loss' '!@loss.step step' '!of accuracy' -- \
    "$tenon" -E=ir:split "$digits" -only=forward
expect 0 -- "$tenon" -c "$digits" -target=cpu -only=loss.step -o only.o
expect 0 'digits_loss_step' '!digits_forward' '!digits_loss_update' -- cat only.h
cat >defaults.tn <<'END'
module M {
    fn f(x: [B], y: [B] = ones) -> [B] { return x + y }
    fn g(x: [B]) -> [B] { return x }
}
model m = M()
END
expect 0 'f_without_y' '!@g method' -- "$tenon" -E=ir:split defaults.tn -only=f
expect 0 '= 2 2' -- "$tenon" -run defaults.tn f x=ones B=2
expect 1 "-only=los.step: there is no method or training step 'los.step'; did you mean 'loss.step'" -- \
    "$tenon" -S "$digits" -only=los.step -o out/
expect 1 "there is no method or training step ''" -- "$tenon" -S "$digits" -only=loss, -o out/
expect 2 '-only' -- "$tenon" -train "$digits" good.npz -only=loss

# --- what the library gives at its edges ---------------------------------------------------------------
cat >edges.tn <<'END'
import nn
import optim
module M {
    lin = nn.Linear(3, 2)
    param w: [] = 0
    fn one(theta: [N, 2, 3]) -> (y: [N, 1, 3, 2]) { return affine_grid(theta, [1, 1, 1, 3], align_corners = true) }
    fn loss(x: []) -> (loss: []) { return w * x }
    fn taught(x: [B, 3]) -> (y: []) { return square(functional_call(lin, averages(lin), x)).sum() }
}
model m = M()
train m.loss with optim.SGD(lr = optim.cosine_restarts(0.1, 2, 10)) { average = optim.ema() }
test "averages in f64" { assert gradcheck(m.taught, randn([2, 3])) }
END
expect 0 'y: f32\[1, 1, 3, 2\] = 0 0 1 1 2 2' -- "$tenon" -run edges.tn one theta=ones N=1 # of one row the middle
expect 0 -- "$tenon" -check edges.tn # numbers of steps beyond 64 bits
expect 0 '1 passed' -- "$tenon" -test edges.tn

# --- values of a run -----------------------------------------------------------------------------------
loss() { run loss x=zeros B=2 "$@"; }
expect 0 'loss: f32\[\] =' -- loss y=3
expect 1 "y=1.5: 'y' is i64: expected a whole number" -- loss y=1.5
expect 1 "y=99999999999999999999: 'y' is i64, which cannot hold this number" -- loss y=99999999999999999999
expect 1 "y=randn: 'y' is i64: randn makes fractions" -- loss y=randn
expect 1 "y=nine: expected @FILE, a whole number, zeros, ones or arange" -- loss y=nine
expect 1 "y=: expected" -- loss y=
expect 1 "loss needs y=VALUE .it is i64\[B\]" -- loss
expect 1 "'y' is given twice" -- loss y=1 y=2
expect 1 "y=@: expected the name of a file behind the @" -- loss y=@
expect 1 "x=1e50: 'x' is f32, which cannot hold this number" -- run forward B=2 x=1e50
expect 0 "nan" '!-nan' -- run forward B=2 x=nan
expect 1 "x=one: expected @FILE, a number, zeros, ones, arange or randn" -- run forward B=2 x=one
expect 1 "the size B of 'x' is not known: give B=N" -- run forward x=ones
expect 1 "B=-1: expected a size" -- run forward x=ones B=-1
expect 1 "B=2x: expected a size" -- run forward x=ones B=2x
expect 3 "out of memory" -- run forward x=ones B=900000000000000
expect 3 "out of memory for 'x'" -- run forward x=ones B=9223372036854775807
cat >kinds.tn <<'END'
module Kinds {
    fn forward(a: i8[N], b: u8[N], c: bool[N], d: i32[N], e: i64[N], h: f16[N]) ->
        (a: i8[N], b: u8[N], c: bool[N], d: i32[N], e: i64[N], h: f16[N]) { return a, b, c, d, e, h }
}
model kinds = Kinds()
END
kinds() { "$tenon" -run kinds.tn N=2 "a=${a--128}" "b=${b-255}" "c=${c-true}" "d=${d-7}" "e=${e-9007199254740993}" "h=${h-1.5}"; }
expect 0 'a: i8\[2\] = -128 -128' 'b: u8\[2\] = 255' 'c: bool\[2\] = 1 1' 'e: i64\[2\] = 9007199254740993' -- kinds
a=128 expect 1 "a=128: 'a' is i8, which cannot hold" -- kinds
b=-1 expect 1 "b=-1: 'b' is u8, which cannot hold" -- kinds
c=2 expect 1 "c=2: 'c' is bool: expected true, false, 0 or 1" -- kinds
c=yes expect 1 "c=yes: 'c' is bool" -- kinds
d=2147483648 expect 1 "'d' is i32, which cannot hold" -- kinds
h=70000 expect 1 "'h' is f16, which cannot hold" -- kinds

expect 1 "forward has no argument or size 'xs' .it has: x, B" -- run forward xs=1
expect 1 "loss has no argument or size 'd_loss'; gradients of results stand behind -grad" -- loss y=1 d_loss=2
expect 1 "'d_loss' is given twice" -- loss y=1 -grad d_loss=2 d_loss=3
expect 1 "there is no model ''" -- run .forward x=1
for o in -O -W -fno-; do
    expect 2 "$o wants .* right behind it" -- "$tenon" $o "$digits"
done
expect 2 '-threads wants a number of at most 256' -- run forward x=1 -threads 257

# a product for each piece of an operand: more steps than the CPU runs block by block
pieces=$(seq -f 'x%g' -s ', ' 18)
printf 'module M { fn f(%s: [N, 32], w: [576, 64]) -> (y: [N, 64]) { return relu(concat([%s], 1) @ w) } }\nmodel m = M()\n' \
    "${pieces//,/: [N, 32],}" "$pieces" >pieces.tn
expect 0 'y: f32\[40, 64\] = 576 576' -- "$tenon" -run pieces.tn f N=40 $(seq -f 'x%g=ones' 18) w=ones

# an output may take the place of an input
npz x.npy x=f32:3x64:wave
check "npy" sh -c "python3 -c 'import zipfile; open(\"x.npy\", \"wb\").write(zipfile.ZipFile(\"five.npz\").read(\"x.npy\"))'"
check "over its input" "$tenon" -run "$digits" forward x=@x.npy -o x.npy
expect 1 "'x' is f32\[5, 10\]" -- run forward x=@x.npy

# --- indices -------------------------------------------------------------------------------------------
npz range.npz x=f32:48x64:wave y=i64:48:mod11
mkdir sub && cp "$digits" sub/digits.tn
expect 1 "sub/digits.tn:[0-9]+: loss_step: index 10 is out of range: the axis has 10 elements; 'y'\[10\] is 10" -- \
    "$tenon" -train sub/digits.tn range.npz
expect 1 "error: sub/digits.tn:[0-9]+: loss: index 10 .*; 'y'\[0\] is 10" -- "$tenon" -run sub/digits.tn loss x=ones y=10 B=1
cat >places.tn <<'END'
module M {
    fn add(x: [N, 3], i: i64[E], u: [E, 3]) -> (y: [N, 3]) { y = x.index_add(0, i, u) }
    fn put(x: [N, 3], i: i64[], u: [3]) -> (y: [N, 3]) {
        y = x
        y[i] = u
    }
    fn one(x: [N, 3], i: i64[], u: []) -> (y: [N, 3]) {
        y = x
        y[i, 1] = u
    }
    fn row(i: i64[E], w: [N, 3]) -> (y: [E, 3]) { return embedding(i, w) }
    fn hot(i: i64[E]) -> (y: i64[E, 5]) { return one_hot(i, 5) }
    fn mixed(i: i64[E], w: [5, 3]) -> (y: [E, 3]) { return one_hot(i, 5).to(f32) @ w }
    fn ctc(x: [7, E, 4], t: i64[E, 3], i: i64[E], k: i64[E]) -> (y: []) { return ctc_loss(x.log_softmax(2), t, i, k) }
}
model m = M()
END
expect 1 "places.tn:2: add: index 7 is out of range: the axis has 5 elements; 'i'\[0\] is 7" -- \
    "$tenon" -run places.tn add x=ones i=7 u=ones N=5 E=2
expect 1 "places.tn:5: put: index 5 is out of range: the axis has 5 elements; 'i' is 5" -- \
    "$tenon" -run places.tn put x=ones i=5 u=ones N=5
expect 1 "places.tn:9: one: index -1 is out of range: the axis has 5 elements" -- \
    "$tenon" -run places.tn one x=ones i=-6 u=1 N=5
expect 1 "places.tn:11: row: index 5 is out of range: the axis has 5 elements" -- \
    "$tenon" -run places.tn row i=5 w=ones N=5 E=2
expect 1 "places.tn:12: hot: index 5 is out of range: the axis has 5 elements; 'i'\[0\] is 5" -- \
    "$tenon" -run places.tn hot i=5 E=2
expect 1 "places.tn:13: mixed: index -1 is out of range: the axis has 5 elements; 'i'\[0\] is -1" -- \
    "$tenon" -run places.tn mixed i=-1 w=ones E=2
expect 1 "places.tn:14: ctc: index 8 is out of range: the axis has 8 elements; 'i'\[0\] is 8" -- \
    "$tenon" -run places.tn ctc x=randn t=1 i=8 k=3 E=2
expect 1 "places.tn:14: ctc: index 4 is out of range: the axis has 4 elements; 'k'\[0\] is 4" -- \
    "$tenon" -run places.tn ctc x=randn t=1 i=7 k=4 E=2

# --- where things go -----------------------------------------------------------------------------------
c() { "$tenon" -c "$digits" -o out/d.o "$@"; }
expect 3 'TMPDIR=/nowhere: No such file' -- env TMPDIR=/nowhere "$tenon" -c "$digits" -o out/d.o
expect 3 'TMPDIR=/nowhere: No such file' -- env TMPDIR=/nowhere TENON_CACHE=/dev/null/x "$tenon" -run "$digits" forward x=ones B=1
expect 1 'cannot write into /nowhere' -- c -MD -MF /nowhere/d.d
expect 2 '-MF .*: it is a folder' -- c -MD -MF "$work"
expect 1 'cannot write /dev/full' -- c -MD -MF /dev/full
expect 2 '-MF names the file that -MD writes' -- c -MF out/d.d
expect 2 '/dev/null is a device or a pipe, not a file' -- "$tenon" -c "$digits" -o /dev/null
check "/dev/null is what it was" test -c /dev/null
expect 0 -- "$tenon" -E "$digits" -o /dev/null
expect 2 'is a folder, not a file' -- "$tenon" -c "$digits" -o "$work"
expect 2 'digits.tn would be written over: it is an input' -- "$tenon" -E sub/digits.tn -o sub/digits.tn
check "-c writes" "$tenon" -c "$digits" -o d.o -MD -v
check "all three" test -s d.o -a -s d.h -a -s d.d
check "an executable has dependencies too" sh -c "'$tenon' '$digits' -o d -MD && grep -q digits.tn d.d"

# a closed stream is not taken for a file
expect 1 'cannot write the output' -- sh -c "'$tenon' -run '$digits' forward x=ones B=1 >&-"
closed() { "$tenon" -train "$digits" good.npz -epochs 1 -save closed.npz >&-; }
expect 1 'cannot write the output' -- closed
check "what was saved is whole" "$tenon" -run "$digits" forward x=ones B=1 -load closed.npz
# what -o says is looked at before anything is computed
expect 1 'r.txt: the name must end in .npy, .npz or .safetensors' -- run forward x=ones B=1 -o out/r.txt
expect 1 'cannot write into /nowhere' -- run forward x=ones B=1 -o /nowhere/r.npz
expect 1 'w.npy: expected a name that ends in .safetensors or .npz' -- train -epochs 1 -save out/w.npy
expect 2 '/dev/null is no folder' -- "$tenon" -S "$digits" -o /dev/null
# stopped while it compiles: a compiler that takes its time, and then is asked to stop
cat >cc.sh <<'END'
#!/bin/sh
case "$*" in *-o*) touch started; sleep 1;; esac
exec cc "$@"
END
chmod +x cc.sh
stop_compiling() {
    rm -f started
    mkdir -p temporary
    TMPDIR=$work/temporary CC=$work/cc.sh "$tenon" "$@" &
    while [ ! -e started ]; do sleep 0.05; done
    kill -TERM $!
    wait $!
}
expect 143 -- stop_compiling -c "$digits" -o out/d.o -MD
expect 143 -- stop_compiling -shared "$digits" -o out/libdigits.so
expect 143 -- stop_compiling "$digits" -o out/digits
check "no temporary files stay" rmdir temporary

# --- several models ------------------------------------------------------------------------------------
cat >two.tn <<'END'
import optim
module Line(n: int) {
    param w: [3] = ones
    fn forward(x: [B, 3]) -> (y: [B]) { return (x * w).sum(1) * n }
    fn loss(x: [B, 3], y: [B]) -> (loss: []) { return mse_loss(forward(x), y) }
}
module Point {
    param v: [] = 1.0
    fn only(x: [B]) -> (y: [B]) { return x * v }
}
model a = Line(1)
model b = Line(2)
model p = Point()
train b.loss with optim.SGD(lr = 0.01)
END
expect 0 'y: f32\[2\] = 6 6' -- "$tenon" -run two.tn b.forward x=ones B=2
expect 0 'y: f32\[2\] = 3 3' -- "$tenon" -run two.tn forward x=ones B=2 -m a
expect 0 'y: f32\[2\] = 1 1' -- "$tenon" -run two.tn only x=ones B=2
expect 1 'two.tn has 2 models to choose from .a, b.: choose one with -m NAME' -- "$tenon" -run two.tn forward x=ones B=2
expect 1 "there is no model 'c'" -- "$tenon" -run two.tn c.forward x=ones B=2
expect 1 "has no method 'onyl'" -- "$tenon" -run two.tn onyl x=ones B=2
expect 0 'epoch  1' -- "$tenon" -train two.tn xy.npz -epochs 1
expect 1 'nothing trains model a' -- "$tenon" -train two.tn xy.npz -epochs 1 -m a
expect 1 'two.tn has 3 models to choose from' -- "$tenon" two.tn -o out/two
check "one of them" "$tenon" two.tn -m p -o point
expect 0 'y: f32\[2\] = 4 4' -- ./point only x=4 B=2
expect 0 'usage: ./point .METHOD. NAME=VALUE' -- ./point --help
expect 2 "unknown option '-nope'" 'usage: ./point' -- ./point -nope
expect 2 "'again' is one word too many" -- ./point only again
expect 2 '-seed wants a whole number' -- ./point only x=4 B=2 -seed x
expect 2 '-device=gpu wants cpu, cuda, cuda:N or auto' -- ./point only x=4 B=2 -device=gpu
expect 2 '-device=cuda:x wants' -- ./point only x=4 B=2 -device=cuda:x
expect 0 'y: f32\[2\] = 4 4' -- ./point only x=4 B=2 -device=cpu
expect 0 'y: f32\[2\] = 4 4' -- ./point only x=4 B=2 -device=auto
expect 3 'cuda:63' -- ./point only x=4 B=2 -device=cuda:63

cat >>two.tn <<'END'
test "a and b" { assert allclose(b(ones(2, 3)), 2 * a(ones(2, 3))) }
test "wrong" { assert allclose(b(ones(2, 3)), a(ones(2, 3))) }
END
expect 1 'ok   a and b' 'FAIL wrong' 'two.tn:16: does not hold' '1 passed, 1 failed' -- "$tenon" -test two.tn
sed 's/sum(1) \* n/sum(1) * q/' two.tn >once.tn
message_once() { "$tenon" -test once.tn 2>&1 | grep -c "error: unknown name"; }
expect 0 '^1$' -- message_once

# --- reports -------------------------------------------------------------------------------------------
expect 0 'target cpu   B=3$' -- "$tenon" -report "$digits" B=3
expect 2 "has no size 'Q'" -- "$tenon" -report "$digits" Q=3
expect 2 "has no size 'Batch'.*B" -- "$tenon" -report "$digits" Batch=3
cat >square.tn <<'END'
module S { fn forward(x: [B, B], y: [B, B]) -> (z: [B, B]) { return (x @ y).exp() @ x } }
model s = S()
END
expect 0 '"flops": 9223372036854775807|9223372036854775807 FLOPs' '!-[0-9]' -- "$tenon" -report square.tn B=2147483647
expect 2 "'B=2147483648': expected SIZE=NUMBER" -- "$tenon" -report square.tn B=2147483648
expect 2 "'B=x': expected SIZE=NUMBER" -- "$tenon" -report "$digits" B=x
expect 2 "'B=99999999999999999999': expected SIZE=NUMBER" -- "$tenon" -report "$digits" B=99999999999999999999
expect 2 "the size B is given twice" -- "$tenon" -report "$digits" B=1 B=2

# each line once, in order, under its own file
reported() { "$tenon" -report=json "$digits" B=4 | python3 -c '
import json, sys
texts = [k["lines"] for m in json.load(sys.stdin)["methods"] for k in m["kernels"]]
for text in texts:
    for part in text.split():
        lines = [int(n) for n in part.rsplit(":", 1)[1].split(",")]
        assert lines == sorted(set(lines)), text
assert any("," in t for t in texts), texts'; }
check "-report says each line once" reported

# --- libraries -----------------------------------------------------------------------------------------
check "-shared" "$tenon" -shared "$lltm" -target=cpu
needed() { readelf -d liblltm.so | grep NEEDED; }
expect 0 'libm\.so' -- needed
expect 0 'Those of the results .before' -- cat lltm.h

# --- sizes of which only an entry check says that they are equal ---------------------------------------
cat >halves.tn <<'END'
module M {
    fn forward(x: [B, H]) -> (y: [B, H]) {
        let a = x.view(B, H // 2, 2).sum(2)
        y = x + cat([a, a], axis = 1)
    }
    fn rows(x: [B, H], z: [B, 2 * (H // 2)]) -> (y: [2 * B, H]) { y = cat([x, z], axis = 0) * 2 }
}
model m = M()
END
expect 0 'y: f32\[2, 4\] = 3 3 3 3' -- "$tenon" -run halves.tn forward x=ones B=2 H=4
expect 0 'y: f32\[2, 4\] = 2 2 2 2 2 2 2 2' -- "$tenon" -run halves.tn rows x=ones z=ones B=1 H=4
expect 1 'must be' 'halves.tn:3' -- "$tenon" -run halves.tn forward x=ones B=2 H=5
cat >pairs.tn <<'END'
module M {
    fn forward(x: [B, H, 2], w: [H, 3]) -> (y: [B, 3]) { y = x.view(B, H // 2, 2, 2).flatten(1, 2)[:, :, 0] @ w }
    fn pooled(x: [B, 2, H], w: [H, 3]) -> (y: []) {
        return einsum("bch,hk->bck", repeat_interleave(max_pool1d(x, 3, stride = 2, padding = 1), 2, -1), w).sum()
    }
    fn attend(x: [B, H, 2]) -> (y: [B, H, 2]) { y = attention(x, x.view(B, H // 2, 2, 2).flatten(1, 2), x) }
    fn put(x: [B, H, 2]) -> (y: [B, H, 2]) {
        let z = x.view(B, H // 2, 2, 2).flatten(1, 2)
        z[:, :, 1] = 2 * x[:, :, 0]
        y = z
        scan t in range(2) { y = z + y }
    }
    fn times(x: [B, H, 2], v: [H]) -> (y: []) { y = (v * x.view(B, H // 2, 2, 2).flatten(1, 2)[0, :, 0]).sum() }
}
model m = M()
END
expect 0 'd_v: f32\[4\] = 1 1 1 1' -- "$tenon" -run pairs.tn times x=ones v=ones B=1 H=4 -grad
expect 0 'y: f32\[2, 3\] = 4 4 4 4 4 4' -- "$tenon" -run pairs.tn forward x=ones w=ones B=2 H=4
expect 1 'must be' 'pairs.tn:2' -- "$tenon" -run pairs.tn forward x=ones w=ones B=2 H=5
expect 0 'y: f32\[\] = 48' -- "$tenon" -run pairs.tn pooled x=ones w=ones B=2 H=4
expect 1 'must be' 'pairs.tn:4' -- "$tenon" -run pairs.tn pooled x=ones w=ones B=2 H=5
expect 0 'y: f32\[1, 2, 2\] = 1 1 1 1' -- "$tenon" -run pairs.tn attend x=ones B=1 H=2
expect 0 'y: f32\[1, 2, 2\] = 3 6 3 6' -- "$tenon" -run pairs.tn put x=ones B=1 H=2
expect 1 'must be' 'pairs.tn:[78]' -- "$tenon" -run pairs.tn put x=ones B=1 H=3
expect 0 'd_w: f32\[4, 3\] = 2 2 2' -- "$tenon" -run pairs.tn forward x=ones w=ones B=2 H=4 -grad d_y=ones
expect 1 'H is 5, but divided by 2 must leave 0' -- "$tenon" -run pairs.tn forward x=ones w=ones B=2 H=5 -grad d_y=ones

# an equality that is no fact of one size: what is added or joined still gets one shape
cat >thirds.tn <<'END'
fn halves(x) { return repeat_interleave(max_pool1d(x, 2), 2, -1) }
fn thirds(x) { return repeat_interleave(max_pool1d(x, 3), 3, -1) }
module M {
    param k: [2, 2, 3] = 0.5
    fn add(x: [B, 2, H]) -> (y: []) { y = (halves(x) + thirds(x)).sum() }
    fn join(x: [B, 2, H]) -> (y: []) { y = cat([halves(x), thirds(x)], axis = 1).sum() }
    fn dots(x: [B, 2, H]) -> (y: []) { y = (halves(x) @ thirds(x).mT).sum() }
    fn sums(x: [B, 2, H]) -> (y: []) { y = einsum("bch,bch->bc", halves(x), thirds(x)).sum() }
    fn both(x: [B, 2, H]) -> (y: []) { y = conv1d(halves(x) * 2 + thirds(x), k, padding = 1).sum() }
    fn att(x: [B, 2, H]) -> (y: []) {
        let q = halves(x).mT.unsqueeze(1)
        y = attention(q, thirds(x).mT.unsqueeze(1), q).sum()
    }
    fn put(x: [B, 2, H]) -> (y: []) {
        let h = halves(x)
        let z = h
        z[:, 0] = thirds(x)[:, 1]
        y = (z * h).sum() + where(h > 1, thirds(x), h).sum()
    }
    fn scatters(x: [B, 2, H]) -> (y: []) {
        let h = halves(x) * thirds(x)
        let idx = argsort(thirds(x), -1)
        y = scatter_add(h, 2, idx, thirds(x)).sum() + gather(h, 2, idx).sum()
    }
}
model m = M()
END
while read -r method y grad line; do
    expect 0 "y: f32\[\] = $y" "d_x: f32\[1, 2, 6\] = $grad" -- "$tenon" -run thirds.tn "$method" x=ones B=1 H=6 -grad
    expect 1 'must be' "$line" -- "$tenon" -run thirds.tn "$method" x=ones B=1 H=8
done <<'END'
add 24 5.0.2.3.2.0.5.0.2.3.2.0 thirds.tn:5
join 24 5.0.2.3.2.0.5.0.2.3.2.0 thirds.tn:6
dots 24 10.0.4.6.4.0.10.0.4.6.4.0 thirds.tn:7
sums 12 5.0.2.3.2.0.5.0.2.3.2.0 thirds.tn:8
both 96 18.0.12.8.10.0.18.0.12.8.10.0 thirds.tn:9
att 12 2.0.2.0.2.0.2.0.2.0.2.0 thirds.tn:12
put 24 4.0.4.0.4.0.9.0.6.3.6.0 thirds.tn:1[67]
scatters 36 13.0.4.9.4.0.13.0.4.9.4.0 thirds.tn:
END

# --- the Python module ---------------------------------------------------------------------------------
expect 2 '-python' -- "$tenon" -c -python "$digits" -o out/r.o
expect 0 -- "$tenon" -S -python -target=cpu "$digits" -o python/
check "is Python" python3 -m py_compile python/digits.py
check "loads the library" grep -q '"libdigits.so"' python/digits.py

# --- --help, --explain ---------------------------------------------------------------------------------
expect 0 '@FILE.npz:NAME' -- "$tenon" --help
expect 0 'E0401.*shape_mismatch.*error' 'operands do not fit' 'fdiagnostics=json' -- "$tenon" --explain E0401
expect 0 'W0001.*broadcast.*warning' '-Wno-broadcast' -- "$tenon" --explain W0001
expect 0 'W0002.*unused.*warning' '-Wunused' '-Wall' -- "$tenon" --explain W0002
expect 2 "there is no message 'E0410'" 'fdiagnostics=json' -- "$tenon" --explain E0410
printf 'module M { fn f(x: [3], y: [4]) -> (z: [3]) { return x @ y } }\nmodel m = M()\n' >code.tn
explained() { "$tenon" --explain "$("$tenon" -check -fdiagnostics=json code.tn 2>&1 | grep -oE '[EW]0[0-9]{3}' | head -1)"; }
expect 0 '^E04' -- explained

# the header names an argument that is updated in place once
cat >updated.tn <<'END'
module C {
    fn next(x: [B], keys: [S, B], at: i64[]) -> (y: [B], keys) {
        keys[at] = x
        y = keys.sum(0)
    }
}
model c = C()
END
"$tenon" -S -target=cpu updated.tn -o updated
expect 0 'updated in place. +at: i64.. +-> +y: f32.B.$' -- grep 'keys: .*->' updated/c.h
finish
