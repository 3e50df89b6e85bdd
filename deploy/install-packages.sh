#!/usr/bin/env bash
# Installs what is missing of the packages for the named purposes, from the one
# list in packages.txt: deploy/install-packages.sh run build test
# Says nothing and needs no rights when nothing is missing.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

if [ $# -eq 0 ]; then
    echo "usage: ${0##*/} PURPOSE...   (run, build, test, browser, extra)" >&2
    exit 2
fi

missing=()
for purpose in "$@"; do
    while read -r name; do
        status=$(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null || true)
        [ "$status" = installed ] || missing+=("$name")
    done < <(awk -v p="$purpose" '$1 == p { print $2 }' "$here/packages.txt")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    as_root=(sudo)
    command -v sudo >/dev/null || {
        echo "These packages are missing and only root can install them:" >&2
        echo "  apt-get install ${missing[*]}" >&2
        exit 1
    }
fi
echo "Installing ${#missing[@]} packages: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { "${as_root[@]}" apt-get update -q &&
    "${as_root[@]}" apt-get install -y -q --no-install-recommends \
        "${missing[@]}"; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "Installing the packages failed." >&2
    exit 1
fi
