#!/bin/bash
# bench/leases.sh - what a lease costs that survives: warmpoold with each lease store.
#
#   bench/leases.sh [--quick] [BUILD_DIR] >report.md
#
# The whole daemon on synthetic sandboxes (files, so that making them is not what is
# measured), clients over gRPC on a Unix socket, the stores one after the other and that
# several times over, a bare gRPC echo in every round. Redis is Debian's redis-server,
# started here, on a Unix socket, appendonly yes, appendfsync everysec. Two minutes;
# --quick takes half of one. Exits 1 when a duplicate was granted or a call failed.
set -uo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
rounds=3 claims=20000 serial=3000 held=10000
if [ "${1:-}" = --quick ]; then
    rounds=1 claims=4000 serial=500 held=2000
    shift
fi
build=${1:-build/release}
failed=0
base=$(mktemp -d)
state=$(mktemp -d /dev/shm/wpb.XXXXXX) # Sandboxes are files: on memory.
redis=
daemon=
echo_pid=
trap 'kill $redis $daemon $echo_pid 2>/dev/null; rm -rf "$base" "$state"' EXIT

step() { printf '%s (%ds)\n' "$1" "$SECONDS" >&2; }
fail() {
    failed=1
    printf '\n**failed: %s**\n' "$1"
}

cat >"$base/pool.yaml" <<YAML
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
  replicas: STOCK
  sandboxTemplateRef: {name: bench}
YAML

start_redis() {
    redis-server --port 0 --unixsocket "$base/redis.sock" --dir "$base" --appendonly yes \
        --appendfsync everysec --save '' >"$base/redis.log" &
    redis=$!
    for _ in $(seq 100); do
        redis-cli -s "$base/redis.sock" ping >/dev/null 2>&1 && return
        sleep 0.05
    done
    fail "redis-server did not start"
}

# sandboxes STATE: how many of the pool's are in it, by the daemon's own metrics.
sandboxes() {
    curl -s --unix-socket "$base/run/warmpoold-http.sock" http://daemon/metrics |
        sed -n "s/^warmpool_sandboxes{.*pool=\"bench\",state=\"$1\"} //p"
}

# start_daemon STORE STOCK: waits until the stock is ready.
start_daemon() {
    sed "s/STOCK/$2/" "$base/pool.yaml" >"$base/p.yaml"
    "$build/allocator/warmpoold" --manifests="$base/p.yaml" --backend=synthetic \
        --synthetic-ready=0 --lease-store="$1" --redis-url="unix:$base/redis.sock" \
        --lease-store-path="$base/leases.db" --slots-max=70000 --claims-max=140000 \
        --runtime-dir="$base/run" --state-dir="$state" 2>"$base/log" &
    daemon=$!
    for _ in $(seq 600); do
        [ "$(sandboxes ready)" = "$2" ] && return
        kill -0 "$daemon" 2>/dev/null || break
        sleep 0.1
    done
    fail "warmpoold with $1 did not get ready"
    tail -n 3 "$base/log"
}

stop_daemon() {
    kill -9 "$daemon"
    wait "$daemon" 2>/dev/null
    daemon=
    rm -rf "${state:?}"/* "$base"/leases.db* "$base/run"
    redis-cli -s "$base/redis.sock" flushall >/dev/null
}

# drive NAME ARG...: one load; its Claim row and rate go to a line of results.
drive() {
    local name=$1
    shift
    "$build/bench/ladder" drive "$@" >"$base/drive" 2>"$base/drive.err" ||
        fail "$name: $(tail -n 1 "$base/drive.err")"
    awk -F'[ |,;]+' -v name="$name" '
        /^\| (Claim|Echo) / {p50 = $4; p99 = $5; p999 = $6}
        / calls\/s;/ {rate = $1; dup = $NF}
        END {print name, p50, p99, p999, rate, dup}' \
        "$base/drive" >>"$base/results"
}

round() {
    "$build/bench/echo_server" --unix "$base/echo.sock" >/dev/null 2>&1 &
    echo_pid=$!
    for _ in $(seq 50); do
        [ -S "$base/echo.sock" ] && break
        sleep 0.05
    done
    drive echo-1 --target "unix:$base/echo.sock" --echo --in-flight 1 --claims "$serial"
    drive echo-64 --target "unix:$base/echo.sock" --echo --in-flight 64 --claims "$claims"
    kill "$echo_pid"
    wait "$echo_pid" 2>/dev/null
    for store in memory sqlite redis; do
        step "round $1: $store"
        start_daemon "$store" $((claims + serial + 200))
        drive "$store-1" --target "unix:$base/run/warmpoold.sock" --pool default/bench \
            --in-flight 1 --claims "$serial" --keep
        drive "$store-64" --target "unix:$base/run/warmpoold.sock" --pool default/bench \
            --in-flight 64 --claims "$claims" --keep
        stop_daemon
        start_daemon "$store" 2000
        drive "$store-pairs-64" --target "unix:$base/run/warmpoold.sock" \
            --pool default/bench --in-flight 64 --seconds 2 --wait-ms 5000
        stop_daemon
    done
    # One round trip: what a script costs that does next to nothing.
    redis-benchmark -s "$base/redis.sock" -c 1 -n "$serial" -q --csv \
        eval "return redis.call('HMGET',KEYS[1],'a','b')" 1 k 2>/dev/null |
        awk -F'"' '/eval/ {print "rtt " $10 * 1000, $14 * 1000, 0, $4, 0}' \
            >>"$base/results"
    # What a commit costs a client that does nothing else, and blocks in read().
    "$build/bench/bench_store_redis" "$base/redis.sock" 1 1 bare |
        awk '/^bare/ {print "commit", $4, $5, 0, $6, 0}' >>"$base/results"
    redis-cli -s "$base/redis.sock" flushall >/dev/null
}

# restart STORE: with held leases, killed, until the first answer.
restart() {
    step "restart: $1"
    start_daemon "$1" "$held"
    "$build/bench/ladder" drive --target "unix:$base/run/warmpoold.sock" --pool default/bench \
        --in-flight 64 --claims "$((held - 100))" --keep >/dev/null 2>&1
    kill -9 "$daemon"
    wait "$daemon" 2>/dev/null
    local begin end took
    begin=$(date +%s%N)
    "$build/allocator/warmpoold" --manifests="$base/p.yaml" --backend=synthetic \
        --synthetic-ready=0 --lease-store="$1" --redis-url="unix:$base/redis.sock" \
        --lease-store-path="$base/leases.db" --slots-max=70000 --claims-max=140000 \
        --runtime-dir="$base/run" --state-dir="$state" 2>"$base/log" &
    daemon=$!
    until "$build/allocator/ctl/warmpoolctl" --address "unix:$base/run/warmpoold.sock" pools \
        >"$base/pools" 2>/dev/null; do
        kill -0 "$daemon" 2>/dev/null || { fail "restart with $1"; break; }
        sleep 0.005
    done
    end=$(date +%s%N)
    took=$(((end - begin) / 1000000))
    printf '| %s | %s | %s | %s ms |\n' "$1" "$(sandboxes leased)" \
        "$(sed -n 's/.*leases taken up.*took_ms=\([0-9.]*\).*/\1 ms/p' "$base/log")" "$took"
    stop_daemon
}

[ -x "$build/bench/ladder" ] || {
    printf 'bench/leases.sh: no %s/bench/ladder: build the release preset first\n' "$build" >&2
    exit 2
}
start_redis
for r in $(seq "$rounds"); do round "$r"; done
printf '## What a lease costs that survives\n\nMedians of %d rounds; load average %s.\n\n' \
    "$rounds" "$(cut -d' ' -f1-3 /proc/loadavg)"
python3 - "$base/results" <<'PY' || failed=1
import collections, statistics, sys
found = collections.defaultdict(list)
bad = 0
for line in open(sys.argv[1]):
    part = line.split()
    if len(part) == 6:
        found[part[0]].append([float(x) for x in part[1:5]])
        bad += part[5] not in ("0", "0.0")
print("| load | p50 us | p99 us | p99.9 us | calls/s (least - most) | against memory |")
print("|---|---|---|---|---|---|")
mid = {n: [statistics.median(c) for c in zip(*r)] for n, r in found.items()}
for name, row in mid.items():
    rates = sorted(r[3] for r in found[name])
    base = mid.get("memory" + name[name.find("-"):]) if name.split("-")[0] in (
        "sqlite", "redis") else None
    share = f"{100 * row[3] / base[3]:.0f} %" if base else ""
    print(f"| {name} | {row[0]:.0f} | {row[1]:.0f} | {row[2]:.0f} | {row[3]:.0f} "
          f"({rates[0]:.0f} - {rates[-1]:.0f}) | {share} |")
if {"rtt", "commit", "redis-1"} <= mid.keys():
    over = mid["redis-1"][0] - mid["echo-1"][0]
    print(f"\nSerial Claim with Redis: {over:.0f} us over the echo, "
          f"{over / mid['rtt'][0]:.2f} round trips of {mid['rtt'][0]:.0f} us; a bare "
          f"client's commit takes {mid['commit'][0]:.0f} us, "
          f"{mid['commit'][0] / mid['rtt'][0]:.2f} round trips.")
print(f"\nDuplicates: {'none' if not bad else 'FOUND'}.")
sys.exit(bad != 0)
PY
printf '\n| restart with | leases | taken up in | process start to first answer |\n|---|---|---|---|\n'
restart sqlite
restart redis
exit "$failed"
