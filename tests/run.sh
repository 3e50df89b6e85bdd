#!/usr/bin/env bash
# Installs what the tests need, builds, runs every level, and ends with the time
# of each step and one line of real counts. With --fast: only the debug build's
# unit, lint and corpus tests, without the few labelled "slow".
#
#   tests/run.sh            everything (this is what CI runs)
#   tests/run.sh --fast     the inner loop
#
# Settings: FUZZ_SECONDS, time for each fuzz target that has changed (default 10);
# WP_JOBS, parallel jobs (default: the number of processors).
# shellcheck disable=SC2317 # Steps and checks are called by their names.
set -uo pipefail

# The caller's terminal and environment do not reach what is tested.
exec </dev/null
umask 022
export LC_ALL=C.UTF-8
unset CDPATH LANGUAGE DESTDIR MAKEFLAGS NOTIFY_SOCKET KUBECONFIG KUBERNETES_SERVICE_HOST
for name in "${!WARMPOOL_@}"; do
    [ "$name" = WARMPOOL_E2E_CACHE ] || unset "$name"
done
# What the tests start is on this machine, whatever proxy leads out of it.
export no_proxy=${no_proxy:+$no_proxy,}localhost,127.0.0.1,::1
export NO_PROXY=$no_proxy

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
# The tree may be another user's, as in a container that mounts it.
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0=$root

# usable NAME: does the variable name a folder, or one that can be made, for files?
usable() { [ -n "${!1:-}" ] && mkdir -p "${!1}" 2>/dev/null && [ -w "${!1}" ]; }

# Without a home that can be written, caches last as long as this run.
# shellcheck disable=SC2034 # By its name.
default_cache=${HOME:-}/.cache
if ! usable HOME || ! usable default_cache; then
    export HOME=$results/home GOFLAGS=-modcacherw
    mkdir -p "$HOME"
fi
for name in XDG_CACHE_HOME CCACHE_DIR WARMPOOL_E2E_CACHE; do
    usable "$name" || unset "$name"
done

lanes=()
memory= # A folder in memory, for tests.

# memory_for_tests: there, where it has room and runs programs. A sandbox's root is
# hundreds of links: on a disk without a journal, making those after others were
# removed takes more time than all else these tests do.
memory_for_tests() {
    memory=$(mktemp -d -p /dev/shm wp-XXXXXX 2>/dev/null) || return
    if [ "$(df -k --output=avail "$memory" | tail -n 1)" -ge 2097152 ] &&
        cp /bin/true "$memory" && "$memory/true" 2>/dev/null; then
        chmod 1777 "$memory"
    else
        rm -rf "$memory"
        memory=
    fi
}

# What takes part in a run ends with it.
leave() {
    local lane
    for lane in "${lanes[@]}"; do
        kill -TERM -- "-$lane" 2>/dev/null
    done
    wait
    rm -rf "$results" ${memory:+"$memory"}
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

# fuzz TARGET CORPUS: leaves its output and its exit code beside each other. A
# program that has passed before, and is the same to the byte, gets a fifth of the
# time.
fuzz() {
    local work sum code seconds=$fuzz_seconds passed=$fuzz_passed/$1
    work=$(mktemp -d -p "$results")
    sum=$(sha256sum <"build/fuzz/tests/$1")
    [ "$(cat "$passed" 2>/dev/null)" != "$sum" ] ||
        seconds=$(((fuzz_seconds + 4) / 5))
    "build/fuzz/tests/$1" \
        -max_total_time="$seconds" -timeout=60 -rss_limit_mb=2048 \
        -print_final_stats=1 -artifact_prefix="$results/" "$work" "$2" \
        >"$results/$1.out" 2>&1
    code=$?
    [ "$code" -ne 0 ] || echo "$sum" >"$passed"
    echo "$code" >"$results/$1.code"
}

fuzzed() {
    cat "$results/$1.out"
    [ "$(cat "$results/$1.code")" = 0 ]
}

# Every target, as many at a time as there are jobs; each is a check.
fuzz_all() {
    local target corpus fuzz_passed
    fuzz_passed=${XDG_CACHE_HOME:-$HOME/.cache}/warmpool-fuzzed
    mkdir -p "$fuzz_passed"
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

# tell NAME WORD, hear NAME: between lanes, once each; hear waits for it. However a
# lane ends, nobody waits for ever: it says "no" at its end to all it may be asked.
tell() { echo "$2" >"$results/$1.said" && : >"$results/$1"; }
hear() {
    until [ -e "$results/$1" ]; do sleep 0.2; done
    [ "$(head -n 1 "$results/$1.said")" = yes ]
}
tell_no() {
    local name
    for name in "$@"; do
        [ -e "$results/$name" ] || tell "$name" no
    done
}

# The programs of the control plane, where they are not built yet: some 15 minutes of
# a processor, so this begins first. What goes wrong is told by the test that builds
# them, which else finds them.
plane_lane() {
    set +m
    renice -n 5 -p "$BASHPID" >/dev/null
    trap 'tell_no plane' EXIT
    step "the control plane's programs" tests/e2e/tools/build.sh upstream conformance
    tell plane yes
}

# The lane of what waits: processes that start, watch and die. Those of a debug build
# use little of a processor, so there are several at a time.
waiting_lane() {
    set +m
    [ -z "$memory" ] || export TMPDIR=$memory
    step "debug build: integration, model of the lease protocol" \
        run dev -j 6 -L 'integration|model'
    # The lane that computes says when it is built.
    ! hear asan ||
        step "sanitizers: integration" run asan -j 5 -L integration
    # What follows lies where a user's does, on the disk.
    unset TMPDIR
    if hear release && [ ! -e "$results/plane" ]; then
        step "kills, stops and cuts; attacks" run release -j 4 -L 'chaos|attack|clients'
        hear plane
        step "a cluster" run release -j 3 -L 'e2e|conformance'
    elif hear release; then
        step "a cluster; kills, stops and cuts; attacks" \
            run release -j 4 -L 'e2e|conformance|chaos|attack|clients'
    fi
    step "quickstart, as a user runs it" check "quickstart" deploy/quickstart.sh
}

# The lane of what computes; it gives way to the others, whose processes want to
# answer at once.
computing_lane() {
    set +m
    renice -n 5 -p "$BASHPID" >/dev/null
    trap 'tell_no release asan' EXIT
    step "release build" build release && tell release yes
    tell_no release
    step "build with address and undefined-behaviour sanitizers" build asan &&
        tell asan yes
    tell_no asan
    step "debug build: unit, simulation, lint, corpora" \
        run dev -j "$jobs" -L 'unit|sim|lint|fuzz'
    ! hear asan || step "sanitizers: unit, simulation, stress, corpora" \
        run asan -j "$jobs" -L 'unit|sim|fuzz|stress'
    step "build with the thread sanitizer" build tsan &&
        step "thread sanitizer on the core" \
            run tsan -j "$jobs" -L 'unit|stress'
    step "build for fuzzing" build fuzz &&
        step "fuzzing, ${fuzz_seconds}s a changed target" fuzz_all
    step "clang-tidy" build tidy
    ! hear release ||
        step "release build: claim path, instruction guard, hardening" \
            run release -j "$jobs" -L 'unit|bench-guard|hardening'
}

step "packages" check "install packages" \
    deploy/install-packages.sh run build test || finish
set -m # A process group for each lane, so that all of it can be ended.
if ! $fast; then
    plane_lane &
    lanes+=($!)
fi
set +m
step "debug build" build dev || finish
if $fast; then
    # Most of them wait more than they compute.
    step "unit, lint, corpora" run dev -j $((jobs * 3)) -L 'unit|lint|fuzz' -LE slow
    finish
fi
memory_for_tests
set -m
computing_lane &
lanes+=($!)
waiting_lane &
lanes+=($!)
set +m
wait
lanes=()
finish
