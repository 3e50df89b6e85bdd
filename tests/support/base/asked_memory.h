/* tests/support/base/asked_memory.h - how much memory a unit asks for and has not
 * given back. For one test's only source, which is linked with --wrap of calloc,
 * realloc, free, mmap and munmap. Nothing is given for 0 bytes, as the standard
 * allows. */
#ifndef WP_TESTS_SUPPORT_BASE_ASKED_MEMORY_H
#define WP_TESTS_SUPPORT_BASE_ASKED_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>

enum {
    ASKED_PIECES_MAX = 16,
};

static struct {
    struct {
        void *at;
        size_t bytes;
    } piece[ASKED_PIECES_MAX];
    int refuse; /* The how many-th from now is refused, from 1; 0: none. */
} asked;

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);
void __real_free(void *memory);
void __wrap_free(void *memory);
void *__real_mmap(void *at, size_t size, int prot, int flags, int fd,
                  off_t from);
void *__wrap_mmap(void *at, size_t size, int prot, int flags, int fd,
                  off_t from);
int __real_munmap(void *at, size_t size);
int __wrap_munmap(void *at, size_t size);

static size_t
asked_bytes(void)
{
    size_t bytes = 0;

    for (int i = 0; i < ASKED_PIECES_MAX; i++) {
        bytes += asked.piece[i].bytes;
    }
    return bytes;
}

static bool
asked_refuses(void)
{
    return asked.refuse > 0 && --asked.refuse == 0;
}

/* The piece at old is one of so many bytes at `at` now; NULL: there is none. */
static void
asked_change(const void *old, void *at, size_t bytes)
{
    for (int i = 0; i < ASKED_PIECES_MAX; i++) {
        if (asked.piece[i].at == old) {
            asked.piece[i].at = at;
            asked.piece[i].bytes = bytes;
            return;
        }
    }
    abort();
}

void *
__wrap_calloc(size_t n, size_t size)
{
    void *at = NULL;

    if (!asked_refuses() && n * size > 0) {
        at = __real_calloc(n, size);
        asked_change(NULL, at, n * size);
    }
    return at;
}

void *
__wrap_realloc(void *old, size_t size)
{
    void *at = NULL;

    if (!asked_refuses()) {
        at = __real_realloc(old, size);
        asked_change(old, at, size);
    }
    return at;
}

void
__wrap_free(void *memory)
{
    if (memory != NULL) {
        asked_change(memory, NULL, 0);
    }
    __real_free(memory);
}

void *
__wrap_mmap(void *at, size_t size, int prot, int flags, int fd, off_t from)
{
    void *map = MAP_FAILED;

    if (!asked_refuses()) {
        map = __real_mmap(at, size, prot, flags, fd, from);
        asked_change(NULL, map, size);
    }
    return map;
}

int
__wrap_munmap(void *at, size_t size)
{
    for (int i = 0; i < ASKED_PIECES_MAX; i++) {
        if (asked.piece[i].at == at && asked.piece[i].bytes != size) {
            abort();
        }
    }
    asked_change(at, NULL, 0);
    return __real_munmap(at, size);
}

#endif
