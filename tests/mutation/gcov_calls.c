/* The library's functions that gcov calls when it writes counts. Tests put fakes in
 * the place of some of them (-Wl,--wrap), which gcov must not meet: they note each
 * call, let it fail, or end the process. In coverage.py's copy of gcov's library
 * these have the place of open and the others. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#define REAL(type, name, parameters, arguments)                                \
    type wp_gcov_##name parameters;                                            \
    type wp_gcov_##name parameters                                             \
    {                                                                          \
        static type(*real) parameters;                                         \
                                                                               \
        if (real == NULL) {                                                    \
            *(void **)&real = dlsym(RTLD_NEXT, #name);                         \
        }                                                                      \
        if (real == NULL) { /* As in a program that is linked statically. */   \
            return name arguments;                                             \
        }                                                                      \
        return real arguments;                                                 \
    }

REAL(int, access, (const char *path, int mode), (path, mode))
REAL(void *, calloc, (size_t n, size_t size), (n, size))
REAL(int, close, (int fd), (fd))
REAL(int, fclose, (FILE * file), (file))
REAL(int, fcntl, (int fd, int what, void *more), (fd, what, more))
REAL(FILE *, fdopen, (int fd, const char *mode), (fd, mode))
REAL(FILE *, fopen, (const char *path, const char *mode), (path, mode))
REAL(size_t, fread, (void *to, size_t size, size_t n, FILE *file),
     (to, size, n, file))
REAL(void, free, (void *at), (at))
REAL(int, fseek, (FILE * file, long to, int from), (file, to, from))
REAL(size_t, fwrite, (const void *from, size_t size, size_t n, FILE *file),
     (from, size, n, file))
REAL(char *, getenv, (const char *name), (name))
REAL(pid_t, getpid, (void), ())
REAL(void *, malloc, (size_t size), (size))
REAL(int, mkdir, (const char *path, mode_t mode), (path, mode))
REAL(void *, mmap, (void *at, size_t len, int may, int how, int fd, off_t from),
     (at, len, may, how, fd, from))
REAL(int, open, (const char *path, int flags, mode_t mode), (path, flags, mode))
