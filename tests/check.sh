# check.sh: for scripts that run whole models; they source it. Makes a folder to work in, and gives `check`,
# `status_is` and `finish`. SPDX-License-Identifier: MIT
set -u
tenon=$(realpath "${TENON:?set TENON to the compiler}")
build=$(dirname "$tenon")
root=$(realpath "$(dirname "${BASH_SOURCE[0]}")/..")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

right=0 wrong=0
# What the command says is in the file `log`, what the one before it said in `last`.
check() { # WHAT COMMAND...
    local what=$1
    shift
    [ ! -e log ] || cp log last
    if "$@" >log 2>&1 </dev/null; then
        right=$((right + 1))
    else
        wrong=$((wrong + 1))
        echo "$(basename "$0" .sh): $what"
        sed 's/^/    /' log | tail -n 40
    fi
}
status_is() { # STATUS COMMAND...
    local want=$1 got=0
    shift
    "$@" || got=$?
    [ "$got" = "$want" ] || { echo "status $got, expected $want"; return 1; }
}
finish() {
    echo "$right right, $wrong wrong"
    [ "$wrong" = 0 ] && [ "$right" -gt 0 ]
}
