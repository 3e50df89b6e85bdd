#!/usr/bin/env bash
# From nothing to a claimed sandbox: installs what is missing, builds, starts
# warmpoold with the example pool, claims a sandbox over gRPC, works in it,
# releases it, and measures a few hundred claims.
#
#   deploy/quickstart.sh           show it and clean up
#   deploy/quickstart.sh --keep    leave the daemon running and say how to use it
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
keep=false
case "${1:-}" in
"") ;;
--keep) keep=true ;;
*)
    sed -n '2,8s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac

bold=$(tput bold 2>/dev/null || true)
plain=$(tput sgr0 2>/dev/null || true)
say() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
show() {
    local words="${1##*/}" word
    for word in "${@:2}"; do
        case $word in
        *[[:space:]\$\;]*) words+=" '$word'" ;;
        *) words+=" $word" ;;
        esac
    done
    printf '  $ %s\n' "$words"
    "$@" | sed 's/^/    /'
}

deploy/install-packages.sh run build

say "Building"
log=$(mktemp)
{ cmake --preset quickstart &&
    cmake --build --preset quickstart -j "$(nproc)" &&
    cmake --install build/quickstart --prefix build/quickstart/installed; } \
    >"$log" 2>&1 || {
    tail -n 30 "$log"
    exit 1
}
rm -f "$log"
bin=$root/build/quickstart/installed/bin
warmpoold=$root/build/quickstart/installed/sbin/warmpoold
echo "  $("$warmpoold" --version)"

# A tmpfs, as the daemon's own default is: sandboxes start faster on it.
base=${TMPDIR:-/tmp}
[ ! -w "${XDG_RUNTIME_DIR:-/nowhere}" ] || base=$XDG_RUNTIME_DIR
[ ! -w /run ] || base=/run
run=$(mktemp -d "$base/warmpool.XXXXXX")
chmod 755 "$run" # Sandboxes run as another user and must reach their folders.
export WARMPOOL_ADDRESS=unix:$run/warmpoold.sock
export WARMPOOL_HTTP=unix:$run/http.sock
daemon=

clean_up() {
    local status=$?
    if [ -n "$daemon" ] && kill -0 "$daemon" 2>/dev/null; then
        kill -TERM "$daemon"
        wait "$daemon" || status=$?
    fi
    [ "$status" -eq 0 ] || tail -n 20 "$run/warmpoold.log" >&2
    rm -rf "$run"
    exit "$status"
}
trap clean_up EXIT

# start FLAG...: false when the daemon ended before it was ready.
start() {
    "$warmpoold" --manifests=deploy/examples/quickstart.yaml \
        --state_dir="$run/state" --listen="$WARMPOOL_ADDRESS" \
        --http_listen="$WARMPOOL_HTTP" --stop_leaves=nothing "$@" \
        >"$run/warmpoold.log" 2>&1 &
    daemon=$!
    for _ in $(seq 300); do
        curl -fs --unix-socket "$run/http.sock" http://localhost/readyz \
            >/dev/null && return
        kill -0 "$daemon" 2>/dev/null || return 1
        sleep 0.1
    done
}

say "Starting warmpoold with deploy/examples/quickstart.yaml"
if ! start; then
    grep -q 'sandbox_limits: best_effort' "$run/warmpoold.log" || exit 1
    echo "  This machine cannot enforce the limits that the example states:"
    sed -n 's/.*\(limits\..*\)/    \1/p' "$run/warmpoold.log"
    echo "  The quickstart accepts less, with --sandbox_limits=best_effort."
    start --sandbox_limits=best_effort || exit 1
fi
show "$bin/warmpoolctl" pools

say "Claiming a sandbox"
show "$bin/warmpoolctl" claim quickstart --id demo --ttl 10m --wait 10s

say "Working in it"
# shellcheck disable=SC2016 # Expanded inside the sandbox.
show "$bin/warmpoolctl" exec demo -- sh -c \
    'echo "I am $(id -u) on $(hostname), process $$, alone:"; ls /proc | grep -c "^[0-9]"'
printf 'print(sum(range(10)))\n' >"$run/sum.py"
show "$bin/warmpoolctl" cp "$run/sum.py" demo:sum.py
show "$bin/warmpoolctl" exec demo -- sh -c 'echo "written inside" > note.txt; cat sum.py'
show "$bin/warmpoolctl" cp demo:note.txt "$run/note.txt"
sed 's/^/    /' "$run/note.txt"
echo '  It cannot write to the system, nor see the network:'
show "$bin/warmpoolctl" exec demo -- sh -c \
    'touch /etc/x 2>&1; ls /sys/class/net 2>/dev/null || cat /proc/net/dev | tail -n +3 | cut -d: -f1'

say "Releasing it"
show "$bin/warmpoolctl" release demo
show "$bin/warmpoolctl" list

say "Measuring: the default configuration, state on $(stat -f -c %T "$run"), 20 ms between claims"
show "$bin/warmpool-load" quickstart -q --claims 300 --pause 20ms

if $keep; then
    say "warmpoold keeps running as process $daemon"
    cat <<EOF
  export WARMPOOL_ADDRESS=$WARMPOOL_ADDRESS WARMPOOL_HTTP=$WARMPOOL_HTTP
  export PATH=$bin:\$PATH
  warmpoolctl pools                         the pools
  warmpoolctl claim quickstart --id mine    a sandbox of your own
  warmpoolctl exec mine -- python3          a shell or program in it
  warmpoolctl --help                        everything else
  curl --unix-socket $run/http.sock http://localhost/metrics
  kill $daemon                              the end; nothing is left behind
EOF
    trap - EXIT
    exit 0
fi
say "Stopping: nothing is left behind"
kill -TERM "$daemon"
wait "$daemon"
daemon=
left=$(find "$run/state/sandboxes" -mindepth 1 2>/dev/null | wc -l)
echo "  $left sandbox folders left"
[ "$left" -eq 0 ]
