#!/usr/bin/env bash
# tests/clients/setup.sh - the clients of others that the tests run, at pinned versions.
#
#   tests/clients/setup.sh       prints the folder that has them
#
# In that folder: PYTHON/bin/python3 has the packages of PYTHON/requirements.txt, where
# PYTHON is python, or python-mcp-server for agent-sandbox's MCP server;
# node/NAME/node_modules has those of each node/NAME/package-lock.json; go/NAME is the
# program of each module go/NAME; java/NAME has the jars of java/NAME/pom.xml, unless
# there is no Maven that brings them. All is made once, in a cache outside the tree
# ($WARMPOOL_CLIENTS_CACHE, else ~/.cache/warmpool-clients), in a folder for each set of
# versions. Ends with 77 and says why when it cannot be done: no Node.js, no Go, or no
# package registry within reach.
set -euo pipefail
shopt -s nullglob

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${WARMPOOL_CLIENTS_CACHE:-${XDG_CACHE_HOME:-${HOME:-}/.cache}/warmpool-clients}
python=/usr/bin/python3

unable() {
    printf 'SKIP: no clients of others: %s\n' "$1" >&2
    exit 77
}

# sum FILE...: what a folder of the cache is named by.
sum() { cat "$@" | sha256sum | cut -c1-16; }

# keep NAME KEY COMMAND...: makes $cache/NAME-KEY by the command, whole or not at all,
# and links it into the folder of this set. The command gets the new folder's path.
keep() {
    local name=$1 made=$cache/${1//\//-}-$2
    shift 2
    if [ ! -e "$made/.whole" ]; then
        rm -rf "$made"
        mkdir -p "$made"
        "$@" "$made" >&2 || unable "$name cannot be made, see above"
        : >"$made/.whole"
    fi
    mkdir -p "$(dirname "$all/$name")"
    ln -sfn "$made" "$all/$name"
}

# A virtual environment may not move, so it is made where it stays.
make_python() {
    "$python" -m venv "$2" &&
        "$2/bin/pip" install --quiet --disable-pip-version-check --no-deps \
            --only-binary=:all: --require-hashes -r "$here/$1/requirements.txt"
}

make_node() {
    cp "$here/$1/package.json" "$here/$1/package-lock.json" "$2/" &&
        (cd "$2" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
}

make_go() {
    (cd "$here/$1" && CGO_ENABLED=0 go build -ldflags="-s -w" -o "$2/${1##*/}" .)
}

make_java() {
    cp "$here/$1/pom.xml" "$2/" &&
        (cd "$2" && mvn -q -B dependency:copy-dependencies -DoutputDirectory="$2/lib")
}

mkdir -p "$cache" || unable "$cache cannot be written; WARMPOOL_CLIENTS_CACHE names another"
exec 9>"$cache/.lock"
flock 9 # Tests that start together make it once.
all=$cache/all-$(cd "$here" && find . -mindepth 2 -type f -print0 | sort -z |
    xargs -0 cat | sha256sum | cut -c1-16)
mkdir -p "$all"
for name in python python-mcp-server; do
    keep "$name" "$(sum "$here/$name/requirements.txt")" make_python "$name"
done
for dir in "$here"/node/*/; do
    command -v npm >/dev/null || unable "Node.js with npm is not installed"
    name=node/$(basename "$dir")
    keep "$name" "$(sum "$dir"/package*.json)" make_node "$name"
done
for dir in "$here"/go/*/; do
    command -v go >/dev/null || unable "Go is not installed"
    name=go/$(basename "$dir")
    keep "$name" "$(sum "$dir"/*)" make_go "$name"
done
for dir in "$here"/java/*/; do
    name=java/$(basename "$dir")
    if command -v mvn >/dev/null; then
        (keep "$name" "$(sum "$dir/pom.xml")" make_java "$name") || true
    fi
done
printf '%s\n' "$all"
