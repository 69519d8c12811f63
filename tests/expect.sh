# expect.sh: for scripts that run the compiler with wrong or unusual command lines; they source it. Makes a
# folder to work in, and gives `expect` and `finish`. SPDX-License-Identifier: MIT
set -u
tenon=$(realpath "${TENON:?set TENON to the compiler}")
here=$(realpath "$(dirname "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
npz() { python3 "$here/npz.py" "$@"; }

right=0 wrong=0
# expect STATUS REGEX... -- COMMAND...: status; every regex somewhere in the output, none of those that
# begin with '!'; nothing left in the folder `out`.
expect() {
    local status=$1 want=() got=0 r
    shift
    while [ "$1" != -- ]; do
        want+=("$1")
        shift
    done
    shift
    rm -rf out
    mkdir out
    "$@" >log 2>&1 </dev/null || got=$?
    local bad=""
    [ "$got" = "$status" ] || bad="exit status $got, expected $status"
    for r in "${want[@]}"; do
        if [ "${r#!}" != "$r" ]; then
            ! grep -qE -- "${r#!}" log || bad="$bad; there is '${r#!}'"
        else
            grep -qE -- "$r" log || bad="$bad; no '$r'"
        fi
    done
    [ -z "$(ls -A out)" ] || bad="$bad; left behind: $(ls -A out)"
    verdict "$bad" "$*"
}

# check WHAT COMMAND...: the command succeeds.
check() {
    local what=$1 bad=""
    shift
    "$@" >log 2>&1 </dev/null || bad="exit status $?"
    verdict "$bad" "$what"
}

verdict() { # "" or what is wrong, of what
    if [ -z "$1" ]; then
        right=$((right + 1))
    else
        wrong=$((wrong + 1))
        echo "$(basename "$0" .sh): $2 : $1"
        sed 's/^/    /' log
    fi
}

finish() {
    echo "$right as expected, $wrong not"
    [ "$wrong" = 0 ] && [ "$right" -gt 0 ]
}
