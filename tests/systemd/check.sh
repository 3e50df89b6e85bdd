#!/bin/bash
# tests/systemd/check.sh - inside run.py's machine: what the unit does under systemd.
# shellcheck disable=SC2016,SC2317 # bash -c expands it; called by name.
set -uo pipefail
failed=0

# check WHAT COMMAND...
check() {
    local what=$1 said
    shift
    if said=$("$@" 2>&1); then
        echo "ok   $what"
    else
        echo "FAIL $what: $said"
        failed=$((failed + 1))
    fi
}
show() { systemctl show --value --property="$1" warmpoold.service; }
is() { [ "$(show "$1")" = "$2" ] || { echo "$1: $(show "$1"), expected $2"; false; }; }
within() { # within SECONDS COMMAND...: waits for a state.
    local end=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$end" ] || { "$@"; return 1; }
        sleep 0.2
    done
}

finish() {
    [ "$failed" -eq 0 ] ||
        journalctl --no-pager --output=cat --unit=warmpoold.service |
            grep -v '# default$' | tail -n 60
    echo "systemd check: $failed failed"
    exit 0
}

systemctl --version | head -n 1
cp "$TREE/quickstart.yaml" /etc/warmpool/
sed -i 's/replicas: 8/replicas: 2/' /etc/warmpool/quickstart.yaml
# As the unit says for systemd before 254.
printf '%s\n' 'manifests: /etc/warmpool/quickstart.yaml' 'sandbox_outlive: false' \
    'stop_leaves: nothing' 'log_level: debug' >/etc/warmpool/warmpoold.yaml

check "starts" systemctl start warmpoold.service
check "is up" is ActiveState active
[ "$failed" -eq 0 ] || finish
check "no word of systemd about a setting" \
    bash -c '! journalctl --no-pager -o cat _PID=1 | grep -iE "unknown|failed to parse|ignoring"'
check "runs below its own group, out of the sandboxes' way" \
    bash -c "[[ \$(sed -n 's/^0:://p' /proc/$(show MainPID)/cgroup) == \
/system.slice/warmpoold.service/warmpoold.self ]]"
check "no new privileges" is NoNewPrivileges yes
check "delegates" is Delegate yes
check "claims" within 60 warmpoolctl claim quickstart --id one --ttl 10m
check "runs a command" bash -c '[ "$(warmpoolctl exec one -- echo hello)" = hello ]'
[ "$failed" -eq 0 ] || finish
check "limits by control group" bash -c \
    'find /sys/fs/cgroup/system.slice/warmpoold.service -name memory.max |
     xargs grep -qx 268435456'
systemd-analyze security --no-pager warmpoold.service | tail -n 1
check "reloads" systemctl reload warmpoold.service

before=$(show MainPID)
kill -9 "$before"
check "comes back after a kill" within 60 warmpoolctl claim quickstart --id two --ttl 10m
check "is another process" bash -c "[ $(show MainPID) != $before ]"
check "restarts" systemctl restart warmpoold.service
check "claims after that" within 60 warmpoolctl claim quickstart --id three --ttl 10m

# A later systemd's setting must not hurt this one.
mkdir -p /etc/systemd/system/warmpoold.service.d
cp "$TREE/subgroup.conf" /etc/systemd/system/warmpoold.service.d/
systemctl daemon-reload
check "starts with subgroup.conf, too" systemctl restart warmpoold.service
check "and serves" within 60 warmpoolctl claim quickstart --id four --ttl 10m
check "releases" warmpoolctl release four
check "stops" systemctl stop warmpoold.service
check "is down for a good reason" is Result success
check "leaves no process behind" bash -c \
    '[ -z "$(find /sys/fs/cgroup/system.slice/warmpoold.service -name cgroup.procs \
        -exec cat {} + 2>/dev/null)" ]'

# What leases and their sandboxes outlive, with this systemd and the default settings.
rm /etc/systemd/system/warmpoold.service.d/subgroup.conf
cp "$TREE/sandboxes.conf" /etc/systemd/system/warmpoold.service.d/
printf '%s\n' 'manifests: /etc/warmpool/quickstart.yaml' >/etc/warmpool/warmpoold.yaml
systemctl daemon-reload
check "starts with sandboxes.conf" systemctl start warmpoold.service
check "claims there" within 60 warmpoolctl claim quickstart --id five --ttl 10m
check "keeps a file in the sandbox" warmpoolctl exec five -- sh -c 'echo kept >mark'
check "has the sandboxes in the other service's group, with limits" bash -c \
    'find /sys/fs/cgroup/system.slice/warmpoold-sandboxes.service -name memory.max |
     xargs grep -qx 268435456'
kept() { [ "$(warmpoolctl exec five -- cat mark)" = kept ]; }
before=$(show MainPID)
kill -9 "$before"
check "holds the lease and its sandbox after a kill" within 60 kept
check "in another process" bash -c "[ $(show MainPID) != $before ]"
check "has limits for new ones" within 60 warmpoolctl claim quickstart --id six
check "restarts beside its sandboxes" systemctl restart warmpoold.service
check "holds the lease after that" within 60 kept
check "stops, and leaves them" systemctl stop warmpoold.service
check "starts beside them" systemctl start warmpoold.service
check "holds the lease still" within 60 kept
check "ends with the sandboxes' service" systemctl stop warmpoold-sandboxes.service
check "and nothing of them is left" bash -c \
    '[ -z "$(find /sys/fs/cgroup/system.slice/warmpoold-sandboxes.service \
        -name cgroup.procs -exec cat {} + 2>/dev/null)" ]'
printf 'no_such_setting: 1\n' >/etc/warmpool/warmpoold.yaml
check "refuses a wrong setting" bash -c '! systemctl start warmpoold.service'
check "and does not try again" is ActiveState failed
check "not once" is NRestarts 0
finish
