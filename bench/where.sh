#!/bin/bash
# bench/where.sh - where the microseconds of a claim go on this machine.
#
#   bench/where.sh [BUILD_DIR [STORE ...]]      stores: memory, sqlite
#
# Starts warmpoold on synthetic sandboxes with each lease store, loads it with
# warmpool-load, one call in flight, one after 20 ms of rest, and then 64, and prints for
# each claim: what the client saw, what the daemon's own metrics say of the RPC and of the store, how often its
# threads were woken, and its system calls (perf or strace, where they may attach). What
# is left between the client's time and the RPC's is the transport and the scheduler. With
# perf it ends with the functions that took most. Needs a release build.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${1:-build/release}
shift || true
[ $# -gt 0 ] || set -- memory sqlite
load=$build/bench/harness/warmpool-load
dir=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill "$pid" 2>/dev/null || true; wait; rm -rf "$dir"' EXIT

cat >"$dir/pool.yaml" <<'END'
apiVersion: extensions.agents.x-k8s.io/v1beta1
kind: SandboxTemplate
metadata: {name: bench}
spec:
  podTemplate:
    spec:
      containers:
        - {name: c, image: host, command: ["true"], ports: [{containerPort: 80}]}
---
apiVersion: extensions.agents.x-k8s.io/v1beta1
kind: SandboxWarmPool
metadata: {name: bench}
spec:
  replicas: 8192
  sandboxTemplateRef: {name: bench}
END

metric() { # NAME-AND-LABELS, as a regular expression: its value, 0 when there is none
    python3 - "$dir/run/warmpoold-http.sock" "$1" <<'END'
import re, socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(b"GET /metrics HTTP/1.0\r\nHost: x\r\n\r\n")
text = s.makefile("rb").read().decode()
found = re.findall(rf"(?m)^{sys.argv[2]} (\S+)$", text)
print(found[0] if found else 0)
END
}

wakes() { # Times that a thread of the daemon slept and was woken.
    cat "/proc/$pid/task/"*/status | awk '/^voluntary/ {n += $2} END {print n + 0}'
}

# The load: $1 in flight, $2 of rest, $3 claims. Leaves the client's mean latency in us in
# $dir/mean.
run() {
    "$load" bench -a "unix:$dir/run/warmpoold.sock" -q -c "$1" --pause "$2" -n "$3" \
        -o jsonl |
        python3 -c '
import json, sys
took = [(r["done_s"] - r["sent_s"]) * 1e6 for r in map(json.loads, sys.stdin)]
print(sum(took) / len(took))' >"$dir/mean"
}

# System calls of the daemon for each claim of the same load, or "-".
syscalls() {
    local -a command=("$load" bench -a "unix:$dir/run/warmpoold.sock" -q -c "$1"
        --pause "$2" -n "$3")
    if perf stat -e raw_syscalls:sys_enter -p "$pid" -x, -o "$dir/perf" -- \
        "${command[@]}" >/dev/null 2>&1; then
        awk -F, -v c="$3" '/sys_enter/ && $1 ~ /^[0-9]/ {printf "%.2f\n", $1 / c; f = 1}
            END {if (!f) print "-"}' "$dir/perf"
    elif command -v strace >/dev/null; then
        strace -f -c -o "$dir/strace" -p "$pid" 2>/dev/null &
        local tracer=$!
        sleep 0.5 # Until it has attached to all threads.
        "${command[@]}" >/dev/null
        kill -INT $tracer
        wait $tracer || true
        awk -v c="$3" '$NF == "total" {printf "%.2f\n", $4 / c}' "$dir/strace"
    else
        echo -
    fi
}

rpc='warmpool_rpc_duration_seconds_%s\{method="warmpool.v1.Allocator/Claim",code="OK"\}'
printf '| store, in flight, rest | client us | RPC us | of it store us | way there and back us '
printf '| wake-ups | system calls |\n|---|---|---|---|---|---|---|\n'
for store in "$@"; do
    rm -rf "$dir/run" "$dir/state"
    "$build/allocator/warmpoold" --synthetic --synthetic-ready=0 --slots-max=32768 \
        --lease-store="$store" --manifests="$dir/pool.yaml" --runtime-dir="$dir/run" \
        --state-dir="$dir/state" >"$dir/log" 2>&1 &
    pid=$!
    for _ in $(seq 600); do
        [ "$(metric 'warmpool_sandboxes\{.*state="ready"\}' 2>/dev/null)" != 8192 ] || break
        kill -0 "$pid" || { cat "$dir/log" >&2; exit 1; }
        sleep 0.1
    done
    for load_case in "1 0s 4000" "1 20ms 200" "64 0s 4000"; do
        read -r in_flight rest claims <<<"$load_case"
        # shellcheck disable=SC2059 # The name is a format.
        before="$(metric "$(printf "$rpc" sum)") $(metric "$(printf "$rpc" count)")
            $(metric 'warmpool_lease_commit_seconds_sum')
            $(metric 'warmpool_lease_commit_seconds_count') $(wakes)"
        run "$in_flight" "$rest" "$claims"
        # shellcheck disable=SC2059
        after="$(metric "$(printf "$rpc" sum)") $(metric "$(printf "$rpc" count)")
            $(metric 'warmpool_lease_commit_seconds_sum')
            $(metric 'warmpool_lease_commit_seconds_count') $(wakes)"
        # shellcheck disable=SC2086 # Words of one line.
        echo $before $after "$(cat "$dir/mean")" \
            "$(syscalls "$in_flight" "$rest" "$claims")" |
            awk -v name="$store, $in_flight, $rest" -v c="$claims" '{
                rpc = ($6 - $1) / ($7 - $2) * 1e6
                store = $9 > $4 ? ($8 - $3) / ($9 - $4) * 1e6 : 0
                printf "| %s | %.1f | %.1f | %.1f | %.1f | %.2f | %s |\n", name, $11, rpc,
                    store, $11 - rpc, ($10 - $5) / c, $12}'
    done
    if perf record -q -F 999 --call-graph fp -p "$pid" -o "$dir/perf.data" -- \
        "$load" bench -a "unix:$dir/run/warmpoold.sock" -q -c 64 -n 20000 \
        >/dev/null 2>&1; then
        perf report -i "$dir/perf.data" --no-children -g none --percent-limit 2 --stdio \
            2>/dev/null | awk 'NF && !/^#/' | head -12 | sed 's/^/    /' >"$dir/top.$store"
    fi
    kill "$pid"
    wait "$pid" || true
    pid=
done
for store in "$@"; do
    [ ! -s "$dir/top.$store" ] || {
        printf '\nMost processor time, %s, 64 in flight:\n\n' "$store"
        cat "$dir/top.$store"
    }
done
