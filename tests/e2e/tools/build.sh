#!/bin/bash
# tests/e2e/tools/build.sh - the programs of a control plane, for the end-to-end tests.
#
#   tests/e2e/tools/build.sh        prints the folder that has them
#
# etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubectl and kwok are built
# from their Go modules at the versions of go.mod, once: into a cache outside the tree,
# named after those versions ($WARMPOOL_E2E_CACHE, else ~/.cache/warmpool-e2e). With
# KUBEBUILDER_ASSETS the programs that it has are used as they are. Ends with 77 and says
# why when it cannot be done: no Go of the version that the modules need, or no module
# proxy within reach.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${WARMPOOL_E2E_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/warmpool-e2e}
key=$(cat "$here"/build.sh "$here"/*/go.mod "$here"/*/go.sum | sha256sum | cut -c1-16)
dir=$cache/$key

unable() {
    printf 'SKIP: no control plane: %s\n' "$1" >&2
    exit 77
}

# build MODULE NAME=PACKAGE...: each that is not there yet.
build() {
    local module=$1 package name
    shift
    for package in "$@"; do
        name=${package%%=*} package=${package#*=}
        if [ -x "$dir/$name" ]; then
            continue
        fi
        if [ -n "${KUBEBUILDER_ASSETS:-}" ] && [ -x "$KUBEBUILDER_ASSETS/$name" ]; then
            ln -sf "$KUBEBUILDER_ASSETS/$name" "$dir/$name"
            continue
        fi
        command -v go >/dev/null || unable "Go is not installed"
        printf 'building %s\n' "$name" >&2
        # Without symbols: half the time to link. The version is what clients check.
        (cd "$here/$module" && go build -ldflags="-s -w $flags" -o "$dir/.$name.new" "$package") ||
            unable "$name does not build (Go $(go env GOVERSION), see above)"
        mv "$dir/.$name.new" "$dir/$name"
    done
}

mkdir -p "$dir"
exec 9>"$dir/.lock"
flock 9 # Tests that start together build once.
release=$(awk '$2 == "k8s.io/kubernetes" {print $3} $1 == "k8s.io/kubernetes" {print $2}' \
    "$here/kubernetes/go.mod" | head -n 1)
flags="-X k8s.io/component-base/version.gitVersion=$release"
flags+=" -X k8s.io/component-base/version.gitMajor=1"
flags+=" -X k8s.io/component-base/version.gitMinor=$(cut -d. -f2 <<<"$release")"
command=k8s.io/kubernetes/cmd
build kubernetes kube-apiserver=$command/kube-apiserver \
    kube-controller-manager=$command/kube-controller-manager \
    kube-scheduler=$command/kube-scheduler kubectl=$command/kubectl
flags=
build etcd etcd=go.etcd.io/etcd/server/v3
build kwok kwok=sigs.k8s.io/kwok/cmd/kwok
printf '%s\n' "$dir"
