/* pool/base/file.h - a small file read whole, and the standard streams. */
#ifndef WP_BASE_FILE_H
#define WP_BASE_FILE_H

#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

/* Reads the file from its beginning into out, at most cap bytes: give one more
 * than the file may have, and cap says that it is too long. open_flags: 0, or
 * O_NONBLOCK where a pipe without a writer must not hold the caller up. st,
 * when not NULL, becomes that of the file that was read; st_mode 0: it could
 * not be opened. Gives the bytes read, or -1 with errno. Any thread; blocks. */
ssize_t wp_path_read(const char *path, int open_flags, void *out, size_t cap,
                     struct stat *st);

/* Opens /dev/null in place of each standard stream that is closed. Else one of
 * the program's own descriptors becomes that stream: it is read as input, and
 * the log is written to it. Input is then at its end; what is written fails, so
 * that no output is lost unseen.
 *
 * To be run once, before the constructors of libraries, which open descriptors,
 * and before sanitizers; so it makes system calls only. A program says so with
 * WP_OPENS_STREAMS beside its main. */
void wp_file_open_streams(void);

#define WP_OPENS_STREAMS                                                       \
    __attribute__((section(".preinit_array"),                                  \
                   used)) static void (*const wp_before_libraries)(void) =     \
        wp_file_open_streams

#endif
