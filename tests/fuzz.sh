#!/bin/bash
# fuzz.sh: breaks the texts of the project at random and checks them: the compiler may complain (exit
# status 1) or not (0), and must do so within ten seconds; anything else is a fault, and the text is
# kept.   TENON=build-asan/tenon tests/fuzz.sh [SECONDS [SEED]]
# SPDX-License-Identifier: MIT
exec python3 - "$(realpath "${TENON:?set TENON to the compiler}")" "$(realpath "$(dirname "$0")/..")" \
    "${1:-60}" "${2:-$RANDOM}" <<'PY'
import glob, os, random, re, subprocess, sys, tempfile, time

tenon, root, seconds, seed = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
rng = random.Random(seed)
texts = [open(f).read() for d in ("models", "tests/numeric", "tests/diag", "frontend/std")
         for f in sorted(glob.glob(os.path.join(root, d, "*.tn")))]
token = re.compile(r"\s+|#[^\n]*|\w+|\"[^\"\n]*\"|->|\*\*|//|==|!=|<=|>=|.", re.S)
pool = sorted({t for text in texts for t in token.findall(text) if not t.isspace()})


def mutate(text):
    words = token.findall(text)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        i, how = rng.randrange(len(words)), rng.randrange(6)
        if how == 0:
            del words[i:i + rng.choice([1, 1, 3])]
        elif how == 1:
            words.insert(i, rng.choice(pool))
        elif how == 2:
            words[i] = rng.choice(pool)
        elif how == 3:
            j = rng.randrange(len(words))
            words[i], words[j] = words[j], words[i]
        elif how == 4:
            words[i:i] = words[i:i + rng.randrange(1, 30)]
        else:
            words[i] = re.sub(r"\d+", lambda m: rng.choice(["0", "-1", "9223372036854775807", "3"]), words[i])
        words = words or [" "]
    return "".join(words)


print(f"fuzz: seed {seed}", flush=True)
end, runs, faults = time.time() + seconds, 0, 0
with tempfile.TemporaryDirectory() as d:
    path = os.path.join(d, "t.tn")
    while time.time() < end:
        text = mutate(rng.choice(texts))
        open(path, "w").write(text)
        try:
            p = subprocess.run([tenon, "-check", path], capture_output=True, timeout=10)
            bad = p.returncode not in (0, 1)
            why = f"exit status {p.returncode}: " + p.stderr.decode(errors="replace")[-2000:]
        except subprocess.TimeoutExpired:
            bad, why = True, "more than ten seconds"
        runs += 1
        if bad:
            faults += 1
            kept = f"fuzz-{seed}-{runs}.tn"
            open(kept, "w").write(text)
            print(f"fuzz: {kept}: {why}", flush=True)
            if faults >= 10:
                break
print(f"fuzz: {runs} texts, {faults} faults")
sys.exit(faults > 0)
PY
