#!/bin/bash
# bench/run.sh - every measurement of bench/README.md, as one report in Markdown.
#
#   bench/run.sh [--quick] [BUILD_DIR] >report.md
#
# Needs a release build (cmake --preset release && ninja -C build/release) and a machine
# that does nothing else: the report says how busy it was before and after. About ten
# minutes; --quick takes two and is good for seeing that everything works. Exits 1 when a
# duplicate was granted, an answer was wrong, or a guard's bound was passed.
set -uo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
quick=false
if [ "${1:-}" = --quick ]; then
    quick=true
    shift
fi
build=${1:-build/release}
bin=$build/bench
failed=0

if $quick; then
    min_time=0.02 repetitions=1 reps=2 seconds=0.2 claims=50
else
    min_time=0.3 repetitions=5 reps=9 seconds=1 claims=1000
fi

step() { printf '%s (%ds)\n' "$1" "$SECONDS" >&2; }

# Runs a command and remembers when it fails.
guarded() {
    "$@" || {
        failed=1
        printf '\n**failed: %s**\n' "${1##*/}"
    }
}

load() { cut -d' ' -f1-3 /proc/loadavg; }

# The medians of a Google Benchmark program as a table. The columns shown: the time of
# one iteration, and the counters named.
micro() {
    step "$1"
    printf '\n### %s\n\n' "$1"
    "$bin/$1" --benchmark_format=csv --benchmark_min_time="$min_time" \
        --benchmark_repetitions="$repetitions" ${2:+--benchmark_filter="$2"} \
        2>/dev/null | python3 -c '
import csv, sys
rows = [r for r in csv.reader(sys.stdin)]
start = next(i for i, r in enumerate(rows) if r and r[0] == "name")
head, rows = rows[start], rows[start + 1:]
extra = head[10:]
runs = {}
for row in rows:
    name = row[0].strip("\"")
    if name.rsplit("_", 1)[-1] in ("mean", "median", "stddev", "cv"):
        continue
    runs.setdefault(name.replace("/manual_time", "").replace("/real_time", ""),
                    []).append(row)
def median(values):
    values = sorted(float(v) for v in values if v)
    return values[len(values) // 2] if values else None
def show(value):
    return "" if value is None else f"{value:.1f}" if value < 1000 else f"{value:.0f}"
print("| benchmark | ns | least | most |" + "".join(f" {e} |" for e in extra))
print("|---|---|---|---|" + "---|" * len(extra))
for name, found in runs.items():
    times = sorted(float(r[2]) for r in found)
    cells = [show(times[len(times) // 2]), show(times[0]), show(times[-1])]
    cells += [show(median(r[10 + i] for r in found)) for i in range(len(extra))]
    print(f"| {name} | " + " | ".join(cells) + " |")
'
}

# The sum of the context switches of all threads of a process.
switches() { awk '/ctxt_switches/ {n += $2} END {print n}' /proc/"$1"/task/*/status; }
ticks() { awk '{print $14 + $15}' "/proc/$1/stat"; }

# start_daemon REPLICAS: the quickstart's pool with that many sandboxes; sets dir, pid.
start_daemon() {
    dir=$(mktemp -d)
    chmod 755 "$dir"
    sed "s/replicas: 8/replicas: $1/" deploy/examples/quickstart.yaml >"$dir/pool.yaml"
    PATH=$PWD/$build/runtime:$PATH "$build/allocator/warmpoold" \
        --manifests="$dir/pool.yaml" --slots-max=$(($1 < 64 ? 64 : $1)) \
        --runtime-dir="$dir/run" --state-dir="$dir/state" \
        --lease-store=memory --sandbox-limits=best_effort 2>"$dir/log" &
    pid=$!
    for _ in $(seq 100); do
        [ -S "$dir/run/warmpoold.sock" ] && break
        sleep 0.1
    done
}

stop_daemon() {
    kill -TERM "$pid"
    wait "$pid" || { failed=1; cat "$dir/log"; }
    rm -rf "$dir"
}

# How many are ready, by the daemon's own metrics.
ready() {
    curl -s --unix-socket "$dir/run/warmpoold-http.sock" http://daemon/metrics |
        awk '/^warmpool_.*ready.*quickstart/ {print int($NF); exit}'
}

# real CORE OPTION...: claims of the quickstart's pool, by a client on that core, or on
# any when it is "-".
real() {
    local pinned=()
    [ "$1" = - ] || pinned=(taskset -c "$1")
    shift
    printf '```\n'
    guarded "${pinned[@]}" "$build/bench/harness/warmpool-load" quickstart -q \
        -a "unix:$dir/run/warmpoold.sock" "$@"
    printf '```\n'
}

# Real sandboxes: claims one after the other from a stock that lasts, then claims with
# pauses from the quickstart's eight, then rest.
daemon() {
    local dir pid before_switches before_ticks seconds=10 burst=150
    step "daemon with real sandboxes"
    printf '\n## The whole daemon, real sandboxes, serial\n\n'
    if ! command -v bwrap >/dev/null; then
        printf 'Not measured: bubblewrap is not installed.\n'
        return
    fi
    start_daemon $((burst * 2))
    for _ in $(seq 120); do
        [ "$(ready)" = $((burst * 2)) ] && break
        sleep 0.5
    done
    printf '%d claims back to back, both sides on one core:\n\n' "$burst"
    taskset -acp 0 "$pid" >/dev/null
    real 0 -n "$burst" --leave
    printf '\nThe same, on two cores:\n\n'
    real 1 -n $((burst - 10)) --leave
    stop_daemon

    start_daemon 8
    printf '\nClaim, release, 50 ms of rest; not pinned:\n\n'
    real - -n "$claims" --pause 50ms --wait 10s --warmup 3s
    $quick && seconds=2
    sleep 3
    before_switches=$(switches "$pid")
    before_ticks=$(ticks "$pid")
    sleep "$seconds"
    printf '\nIdle with 8 warm sandboxes: %s of resident memory; in %d s its threads were
switched to %d times and used %d ms of processor time.\n' \
        "$(awk '/VmRSS/ {printf "%.1f MiB", $2 / 1024}' "/proc/$pid/status")" \
        "$seconds" "$(($(switches "$pid") - before_switches))" \
        "$((($(ticks "$pid") - before_ticks) * 1000 / $(getconf CLK_TCK)))"
    stop_daemon
}

if ! [ -x "$bin/echo_server" ]; then
    printf 'bench/run.sh: no %s/echo_server: build the release preset first\n' "$bin" >&2
    exit 2
fi
printf '# Measurements of %s\n\nLoad average before: %s.\n' \
    "$(git describe --always --dirty 2>/dev/null)" "$(load)"
printf '\n## In the process\n\nMedian, least and most of %d runs.\n' "$repetitions"
micro bench_claim
micro bench_ready_queue
micro bench_scaler
micro bench_slot
micro bench_wire
step "memory"
printf '\n## Memory\n\n'
guarded "$bin/bench_memory"
step "echo"
printf '\n## Echo against Claim and Release\n\n'
guarded bench/echo.py --reps "$reps" --seconds "$seconds" "$build" 2>/dev/null
step "instructions"
printf '\n## Instructions\n\n'
guarded bench/instructions.sh "$build"
daemon
printf '\nLoad average after: %s.\n' "$(load)"
step "done"
exit "$failed"
