#!/usr/bin/env bash
# Installs what the tests need, builds, runs every level, and ends with one line
# of real counts. With --fast: only the debug build's unit, lint and corpus tests.
#
#   tests/run.sh            everything (this is what CI runs)
#   tests/run.sh --fast     the inner loop
#
# Settings: FUZZ_SECONDS, time for each fuzz target (default 10);
# WP_JOBS, parallel jobs (default: the number of processors; integration tests
# run one more at a time).
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
# Tests of whole processes wait for most of their time.
waiting_jobs=$((jobs + 1))
fuzz_seconds=${FUZZ_SECONDS:-10}
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
passed=0 failed=0 skipped=0

finish() {
    echo
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" -eq 0 ] || exit 1
    exit 0
}

step() { printf '\n== %s (%ds)\n' "$1" "$SECONDS"; }

# One check that is not a ctest test: check NAME COMMAND...
check() {
    local name=$1
    shift
    if "$@" >"$results/out" 2>&1; then
        passed=$((passed + 1))
        return 0
    fi
    failed=$((failed + 1))
    echo "FAILED: $name"
    tail -n 60 "$results/out"
    return 1
}

# shellcheck disable=SC2317 # Called through check.
build() {
    cmake --preset "$1" >"$results/out" 2>&1 &&
        cmake --build --preset "$1" -j "$jobs" >"$results/out" 2>&1
}

# run PRESET CTEST-ARGUMENTS...: counts come from ctest's own report; what a
# passing program had to leave out (it says SKIP:, or skipped=N) counts, too.
run() {
    local preset=$1 xml=$results/$1.$RANDOM.xml
    shift
    ctest --test-dir "build/$preset" --output-junit "$xml" \
        --output-on-failure --test-output-size-passed 1048576 \
        --no-tests=error "$@" 2>&1 |
        grep -Ev '^ *(Start|Test project|[0-9]+/[0-9]+ Test .* Passed)' |
        sed '/^$/d'
    read -r p f s < <(
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
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

# fuzz TARGET CORPUS: leaves its output and its exit code beside each other.
fuzz() {
    local work
    work=$(mktemp -d -p "$results")
    "$(find build/fuzz -type f -name "$1")" \
        -max_total_time="$fuzz_seconds" -timeout=60 -rss_limit_mb=2048 \
        -print_final_stats=1 -artifact_prefix="$results/" "$work" "$2" \
        >"$results/$1.out" 2>&1
    echo $? >"$results/$1.code"
}

# shellcheck disable=SC2317 # Called through check.
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

step "packages"
check "install packages" deploy/install-packages.sh run build test
[ "$failed" -eq 0 ] || finish

step "debug build"
check "build dev" build dev
[ "$failed" -eq 0 ] || finish
if $fast; then
    run dev -j "$jobs" -L 'unit|lint|fuzz'
    finish
fi
step "debug build: unit, simulation, lint, corpora"
run dev -j "$jobs" -L 'unit|sim|lint|fuzz'
step "model of the lease protocol; debug build: integration"
run dev -j "$waiting_jobs" -L 'model|integration'

step "address and undefined-behaviour sanitizers"
if check "build asan" build asan; then
    run asan -j "$jobs" -L 'unit|sim|fuzz|stress'
    run asan -j "$waiting_jobs" -L 'integration'
fi

step "thread sanitizer on the core"
check "build tsan" build tsan && run tsan -L 'unit|stress'

step "fuzzing, ${fuzz_seconds}s a target"
check "build fuzz" build fuzz && fuzz_all

step "clang-tidy"
check "clang-tidy" build tidy

step "release build: claim path, instruction guard; kills, stops and cuts; a cluster"
check "build release" build release && run release -j "$jobs" \
    -L 'unit|bench-guard|chaos|e2e'

step "quickstart, as a user runs it"
check "quickstart" deploy/quickstart.sh
finish
