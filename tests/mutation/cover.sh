#!/bin/sh
# Compiles as it is told, and the product's files so that they count which lines
# are executed: cover.sh COMPILER ARGUMENT... (tests/mutation/coverage.py).
for word in "$@"; do
    case "$word" in
    "$WP_COVER_ROOT"/build/*) ;;
    "$WP_COVER_ROOT"/allocator/*.c | "$WP_COVER_ROOT"/k8s/*.c | \
        "$WP_COVER_ROOT"/local/*.c | "$WP_COVER_ROOT"/pool/*.c | \
        "$WP_COVER_ROOT"/proto/*.c | "$WP_COVER_ROOT"/runtime/*.c)
        exec "$@" --coverage
        ;;
    esac
done
exec "$@"
