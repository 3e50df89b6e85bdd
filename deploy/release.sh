#!/usr/bin/env bash
# Makes what is released, from a build: an archive with the programs, the unit, the
# manual and the list of what they are made of; that list by itself; and SHA256SUMS
# of both. The same build gives the same bytes.
#
#   deploy/release.sh BUILD_DIRECTORY VERSION OUT_DIRECTORY
#
# CMake's target "release_files" runs it.
set -euo pipefail

[ $# -eq 3 ] || {
    sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
    exit 2
}
build=$1
name=warmpool-$2-$(uname -s | tr '[:upper:]' '[:lower:]')-$(uname -m)
out=$3
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
: "${SOURCE_DATE_EPOCH:=$(git -C "$here" log -1 --format=%ct 2>/dev/null || date +%s)}"
export SOURCE_DATE_EPOCH
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

cmake --install "$build" --prefix "$stage/$name" >/dev/null
mkdir -p "$stage/$name/share/warmpool"
cp -r "$here/systemd" "$here/man" "$here/examples" "$stage/$name/share/warmpool/"
mkdir -p "$out"
tar -C "$stage" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 \
    --numeric-owner -cf - "$name" | gzip -n >"$out/$name.tar.gz"
cp "$stage/$name/share/doc/warmpool/warmpool.spdx.json" "$out/$name.spdx.json"
(cd "$out" && sha256sum "$name.tar.gz" "$name.spdx.json" >SHA256SUMS)
echo "$out: $name.tar.gz, $name.spdx.json, SHA256SUMS"
