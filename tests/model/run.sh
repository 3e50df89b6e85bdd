#!/usr/bin/env bash
# Visits every state of the model of a lease (lease.pml): first as it is, within
# several bounds; then with one rule less each time, which Spin must notice.
#
#   tests/model/run.sh        everything; 77 when spin is missing
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if ! command -v spin >/dev/null || ! command -v gcc >/dev/null; then
    echo "SKIP: spin and gcc are needed (deploy/install-packages.sh test build)"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# How a search is compiled: that takes longer than most of them run. Those that visit
# every state are optimized, those that end at the first fault are not.
optimize=-O1

# search NAME COMPILER-OPTION RUN-OPTIONS SWITCHES...: leaves Spin's report in
# $work/NAME/out.
search() {
    local dir=$work/$1 compile=$2 options=$3
    shift 3
    mkdir "$dir" && cd "$dir" || return 1
    # shellcheck disable=SC2086 # Several options.
    spin "$@" -a "$here/lease.pml" >spin.out 2>&1 &&
        gcc "$optimize" "$compile" -DCOLLAPSE -DMEMLIM=2000 -o pan pan.c >gcc.out 2>&1 &&
        ./pan -m200000 $options >out 2>&1
}

explore() { search "$1" -DSAFETY "" "${@:2}"; }

# expect PROPERTY NAME SWITCHES...: as explore, for what comes in the end, with
# weak fairness.
expect() { search "$2" -DNFAIR=4 "-a -f -N $1" -DIN_THE_END "${@:3}"; }

complain() {
    echo "FAILED: $1"
    cat "$work/$2"/{spin.out,gcc.out,out} 2>/dev/null | tail -n 20
    failed=$((failed + 1))
}

states() { awk '/states, stored/ { print $1 }' "$work/$1/out"; }

# holds NAME SWITCHES...: every state was visited and nothing is wrong.
holds() {
    explore "$@"
    is_well "$1"
}

# comes PROPERTY NAME SWITCHES...: so it is in the end, whatever happens.
comes() {
    expect "$@"
    is_well "$2"
}

is_well() {
    if grep -q 'errors: 0' "$work/$1/out" &&
        ! grep -qE 'not completed|max search depth too small' "$work/$1/out"
    then
        echo "holds in all $(states "$1") states: $1"
    else
        complain "$1 does not hold" "$1"
    fi
}

# without STEP PROPERTY SWITCHES...: then it does not come about.
without() {
    optimize=-O0 expect "$2" "$2-$1" "-DSTOP_$1" "${@:3}"
    if grep -q 'acceptance cycle' "$work/$2-$1/out"; then
        echo "found after $(states "$2-$1") states: not $2 without $1"
    else
        complain "$2 comes about without the step $1" "$2-$1"
    fi
}

# needed RULE SWITCHES...: without this rule, a property is violated.
needed() {
    optimize=-O0 explore "$1" "-DBREAK_$1" "${@:2}"
    if grep -q 'assertion violated' "$work/$1/out"; then
        echo "found after $(states "$1") states: a fault without $1"
    else
        complain "nothing is found without the rule $1" "$1"
    fi
}

holds crowd -DSANDBOXES=1 -DCLIENTS=2 -DDEADLINES=2
holds renewals -DSANDBOXES=1 -DCLIENTS=1 -DDEADLINES=3
holds deaths -DSANDBOXES=1 -DCLIENTS=1 -DDEADLINES=2 -DDEATH
holds choice -DSANDBOXES=2 -DCLIENTS=2 -DDEADLINES=1 -DFENCES=1 -DNO_STRAGGLER

for rule in FENCE EXPIRE OFFER UNDO GRANT REPEAT CONFIRM FORGET RESTART \
    UNKNOWN_GRANT UNKNOWN_WITHDRAW; do
    needed "$rule" -DSANDBOXES=1 -DCLIENTS=2 -DDEADLINES=2
done
needed RENEW -DSANDBOXES=1 -DCLIENTS=1 -DDEADLINES=3
needed LOOKUP -DSANDBOXES=2 -DCLIENTS=1 -DDEADLINES=1 -DFENCES=1

for property in replied reclaimed swept; do
    comes $property $property -DSANDBOXES=1 -DCLIENTS=2 -DDEADLINES=2 -DDEATH
done
comes reclaimed choice-reclaimed -DSANDBOXES=2 -DCLIENTS=1 -DDEADLINES=1 \
    -DFENCES=1 -DCALLS=2
one=(-DSANDBOXES=1 -DCLIENTS=1 -DDEADLINES=2)
without HANG_UP replied "${one[@]}"
without DOUBT replied "${one[@]}"
without EXPIRE reclaimed "${one[@]}"
without DESTROY reclaimed "${one[@]}"
without TAKE_OVER reclaimed "${one[@]}"
without SWEEP swept "${one[@]}"
without TAKE_OVER swept "${one[@]}"
[ "$failed" -eq 0 ]
