#!/bin/bash
# tests/e2e/tools/build.sh - the programs of a control plane, for the end-to-end tests.
#
#   tests/e2e/tools/build.sh             prints the folder that has them
#   tests/e2e/tools/build.sh upstream    the same, with agent-sandbox's own controllers
#   tests/e2e/tools/build.sh conformance the same, with its tests and its load harness
#
# etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubectl and kwok are built
# from their Go modules at the versions of go.mod, once: into a cache outside the tree
# ($WARMPOOL_E2E_CACHE, else ~/.cache/warmpool-e2e), in a folder for each set of versions.
# With KUBEBUILDER_ASSETS the programs that it has are used as they are. Ends with 77 and
# says why when it cannot be done: no Go of the version that the modules need, or no
# module proxy within reach.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${WARMPOOL_E2E_CACHE:-${XDG_CACHE_HOME:-${HOME:-}/.cache}/warmpool-e2e}
# Programs lie in a folder for each module; this one has links to all of them.
bin=$cache/bin-$(cat "$here"/*/go.mod "$here"/*/go.sum - <<<"${KUBEBUILDER_ASSETS:-}" |
    sha256sum | cut -c1-16)

unable() {
    printf 'SKIP: no control plane: %s\n' "$1" >&2
    exit 77
}

# build MODULE FLAGS NAME=PACKAGE...: each that is not there yet. A NAME that ends with
# .test is the package's tests. Built in the folder $from, else in the module's own.
build() {
    local module=$here/$1 flags=$2 dir package name verb
    dir=$cache/$1-$(cat "$module/go.mod" "$module/go.sum" - <<<"$flags" |
        sha256sum | cut -c1-16)
    mkdir -p "$dir"
    shift 2
    for package in "$@"; do
        name=${package%%=*} package=${package#*=}
        if [ -n "${KUBEBUILDER_ASSETS:-}" ] && [ -x "$KUBEBUILDER_ASSETS/$name" ]; then
            ln -sf "$KUBEBUILDER_ASSETS/$name" "$bin/$name"
            continue
        fi
        if [ ! -x "$dir/$name" ]; then
            command -v go >/dev/null || unable "Go is not installed"
            printf 'building %s\n' "$name" >&2
            verb=(build)
            [ "$name" = "${name%.test}" ] || verb=(test -c)
            # Without symbols: half the time to link.
            (cd "${from:-$module}" &&
                go "${verb[@]}" -ldflags="-s -w $flags" -o "$dir/.new" "$package") ||
                unable "$name does not build (Go $(go env GOVERSION), see above)"
            mv "$dir/.new" "$dir/$name"
        fi
        ln -sf "$dir/$name" "$bin/$name"
    done
}

mkdir -p "$bin" || unable "$cache cannot be written; WARMPOOL_E2E_CACHE names another"
exec 9>"$cache/.lock"
flock 9 # Tests that start together build once.
release=$(awk '$2 == "k8s.io/kubernetes" {print $3} $1 == "k8s.io/kubernetes" {print $2}' \
    "$here/kubernetes/go.mod" | head -n 1)
version=k8s.io/component-base/version
command=k8s.io/kubernetes/cmd
build kubernetes "-X $version.gitVersion=$release -X $version.gitMajor=1
    -X $version.gitMinor=$(cut -d. -f2 <<<"$release")" \
    kube-apiserver=$command/kube-apiserver \
    kube-controller-manager=$command/kube-controller-manager \
    kube-scheduler=$command/kube-scheduler kubectl=$command/kubectl
build etcd "" etcd=go.etcd.io/etcd/server/v3
build kwok "" kwok=sigs.k8s.io/kwok/cmd/kwok
if [ -n "${1:-}" ]; then
    command -v go >/dev/null || unable "Go is not installed"
    # go.sum is checked by this; the cache's copy is what was published, unmodified.
    from=$(cd "$here/upstream" && go mod download sigs.k8s.io/agent-sandbox &&
        go list -m -f '{{.Dir}}' sigs.k8s.io/agent-sandbox) ||
        unable "agent-sandbox cannot be had"
    ln -sfn "$from" "$bin/agent-sandbox"
    for part in "$@"; do
        case $part in
        upstream)
            build upstream "" agent-sandbox-controller=./cmd/agent-sandbox-controller
            ;;
        conformance)
            build upstream "" agent-sandbox-stress=./test/stress core.test=./test/e2e \
                extensions.test=./test/e2e/extensions
            ;;
        esac
    done
fi
printf '%s\n' "$bin"
