#!/usr/bin/env bash
# Installs what the tests need, builds, runs every level, and ends with the time
# of each step and one line of real counts. With --fast: only the debug build's
# unit, lint and corpus tests.
#
#   tests/run.sh            everything (this is what CI runs)
#   tests/run.sh --fast     the inner loop
#
# Settings: FUZZ_SECONDS, time for each fuzz target (default 10);
# WP_JOBS, parallel jobs (default: the number of processors).
# shellcheck disable=SC2317 # Steps and checks are called by their names.
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit 1
fast=false
case "${1:-}" in
"") ;;
--fast) fast=true ;;
*)
    sed -n '2,10s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
jobs=${WP_JOBS:-$(nproc)}
fuzz_seconds=${FUZZ_SECONDS:-10}
results=$(mktemp -d)
# Where ccache is: one cache for all copies of the tree.
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1

lanes=()

# What takes part in a run ends with it.
leave() {
    local lane
    for lane in "${lanes[@]}"; do
        kill -TERM -- "-$lane" 2>/dev/null
    done
    wait
    rm -rf "$results"
}
trap leave EXIT
trap 'exit 130' INT TERM

# count PASSED FAILED SKIPPED: from any lane; the sum is made at the end.
count() { echo "$*" >>"$results/counts"; }

finish() {
    local passed failed skipped
    echo
    printf '%7s %7s %7s  %s\n' seconds from cpu step
    cat "$results/times"
    printf '%7d %15s  %s\n' "$SECONDS" "" "all of it"
    echo
    read -r passed failed skipped < <(awk '{ p += $1; f += $2; s += $3 }
        END { print p + 0, f + 0, s + 0 }' "$results/counts")
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" -eq 0 ] || exit 1
    exit 0
}

# step NAME COMMAND...: what it says is shown when it ends, in one piece, since
# two lanes may have something to say; how long it took is kept.
step() {
    local name=$1 start=$SECONDS out status before after
    out=$(mktemp -p "$results")
    shift
    echo "   second $start: $name ..."
    times >"$out"
    before=$(cpu_seconds "$out")
    "$@" >"$out" 2>&1
    status=$?
    times >"$out.times"
    after=$(cpu_seconds "$out.times")
    printf '%7d %7d %7d  %s\n' $((SECONDS - start)) "$start" \
        $((after - before)) "$name" >>"$results/times"
    {
        flock 9
        printf '\n== %s (%d s, from second %d)\n' "$name" \
            $((SECONDS - start)) "$start"
        cat "$out"
    } 9>"$results/lock"
    return "$status"
}

# cpu_seconds TIMES: what the children of a lane used of the processors, from
# what its `times` said.
cpu_seconds() {
    awk 'NR == 2 { split($1 $2, t, /[ms]/)
        printf "%d", t[1] * 60 + t[2] + t[3] * 60 + t[4] }' "$1"
}

# One check that is not a ctest test: check NAME COMMAND...
check() {
    local name=$1 out
    out=$(mktemp -p "$results")
    shift
    if "$@" >"$out" 2>&1; then
        count 1 0 0
        return 0
    fi
    count 0 1 0
    echo "FAILED: $name"
    tail -n 60 "$out"
    return 1
}

configure_and_build() {
    cmake --preset "$1" && cmake --build --preset "$1" -j "$jobs"
}

build() { check "build $1" configure_and_build "$1"; }

# run PRESET CTEST-ARGUMENTS...: counts come from ctest's own report; what a
# passing program had to leave out (it says SKIP:, or skipped=N) counts, too.
run() {
    local preset=$1 xml
    xml=$(mktemp -p "$results")
    shift
    ctest --test-dir "build/$preset" --output-junit "$xml" \
        --output-on-failure --test-output-size-passed 1048576 \
        --no-tests=error "$@" 2>&1 |
        grep -Ev '^ *(Start|Test project|[0-9]+/[0-9]+ Test .* Passed)' |
        sed '/^$/d'
    # shellcheck disable=SC2046 # Three numbers.
    count $(
        python3 - "$xml" <<'PY'
import re, sys, xml.etree.ElementTree as tree
passed = failed = skipped = 0
try:
    for case in tree.parse(sys.argv[1]).getroot().iter("testcase"):
        status = case.get("status")
        if case.find("skipped") is not None or status == "notrun":
            if status in ("notrun", "disabled") and case.find("skipped") is not \
                    None and "SKIP" not in (case.find("skipped").get("message")
                                            or "").upper():
                failed += 1
            else:
                skipped += 1
        elif status == "run":
            passed += 1
            said = case.findtext("system-out") or ""
            skipped += max(said.count("SKIP: "),
                           sum(map(int, re.findall(r"skipped=(\d+)", said))))
        else:
            failed += 1
except (OSError, tree.ParseError):
    failed = 1
print(passed, failed, skipped)
PY
    )
}

# fuzz TARGET CORPUS: leaves its output and its exit code beside each other.
fuzz() {
    local work
    work=$(mktemp -d -p "$results")
    "build/fuzz/tests/$1" \
        -max_total_time="$fuzz_seconds" -timeout=60 -rss_limit_mb=2048 \
        -print_final_stats=1 -artifact_prefix="$results/" "$work" "$2" \
        >"$results/$1.out" 2>&1
    echo $? >"$results/$1.code"
}

fuzzed() {
    cat "$results/$1.out"
    [ "$(cat "$results/$1.code")" = 0 ]
}

# Every target, as many at a time as there are jobs; each is a check.
fuzz_all() {
    local target corpus
    while IFS='=' read -r target corpus; do
        while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do
            wait -n
        done
        fuzz "$target" "$corpus" </dev/null &
    done <build/fuzz/fuzz_targets.txt
    wait
    while IFS='=' read -r target _; do
        check "fuzz $target" fuzzed "$target"
    done <build/fuzz/fuzz_targets.txt
}

# The lane of what waits: processes that start, watch and die. A few of them at a
# time leave room for the other lane.
waiting_lane() {
    local built
    set +m
    [ ! -e "$results/release" ] ||
        step "a cluster; kills, stops and cuts" run release -j 3 -L 'e2e|chaos'
    step "debug build: integration" run dev -j 3 -L integration
    # The other lane says when it is built.
    read -r built <"$results/asan"
    [ "$built" = no ] ||
        step "sanitizers: integration" run asan -j 3 -L integration
    step "quickstart, as a user runs it" check "quickstart" deploy/quickstart.sh
}

# The lane of what computes; it gives way to the other, whose processes want to
# answer at once.
computing_lane() {
    local built=no
    set +m
    renice -n 5 -p "$BASHPID" >/dev/null
    # However it ends, the other lane does not wait for ever.
    trap 'echo no >&8' EXIT
    step "build with address and undefined-behaviour sanitizers" build asan &&
        built=yes
    # Opened to read and write, so that no reader has to be there.
    echo "$built" >&8
    step "debug build: unit, simulation, lint, corpora" \
        run dev -j "$jobs" -L 'unit|sim|lint|fuzz'
    [ "$built" = no ] || step "sanitizers: unit, simulation, stress, corpora" \
        run asan -j "$jobs" -L 'unit|sim|fuzz|stress'
    step "build with the thread sanitizer" build tsan &&
        step "thread sanitizer on the core" \
            run tsan -j "$jobs" -L 'unit|stress'
    step "build for fuzzing" build fuzz &&
        step "fuzzing, ${fuzz_seconds}s a target" fuzz_all
    step "clang-tidy" build tidy
    step "model of the lease protocol" run dev -L model
    [ ! -e "$results/release" ] ||
        step "release build: claim path, instruction guard" \
            run release -j "$jobs" -L 'unit|bench-guard'
}

step "packages" check "install packages" \
    deploy/install-packages.sh run build test || finish
step "debug build" build dev || finish
if $fast; then
    step "unit, lint, corpora" run dev -j "$jobs" -L 'unit|lint|fuzz'
    finish
fi
step "release build" build release && touch "$results/release"

mkfifo "$results/asan"
exec 8<>"$results/asan"
set -m # A process group for each lane, so that all of it can be ended.
computing_lane </dev/null &
lanes+=($!)
waiting_lane </dev/null &
lanes+=($!)
set +m
wait
lanes=()
finish
