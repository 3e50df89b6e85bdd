#!/usr/bin/env bash
# Every C file of the tree is as clang-format 14 with the tree's .clang-format
# writes it. Ends with 77 where that program is not.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
command -v clang-format-14 >/dev/null || {
    echo "SKIP: clang-format-14 is not installed"
    exit 77
}
git ls-files -z '*.c' '*.h' |
    xargs -0 -n 40 -P "$(nproc)" clang-format-14 --dry-run --Werror
