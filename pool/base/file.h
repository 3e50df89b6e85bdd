/* pool/base/file.h - a small file read whole, the entries of a folder, and the
 * standard streams. */
#ifndef WP_BASE_FILE_H
#define WP_BASE_FILE_H

#include <dirent.h>
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

/* The folder of that name in dir_fd, to be read; "." is dir_fd itself, with a
 * place of its own in it. A link is no folder: ENOTDIR. The caller's, until
 * wp_folder_close; NULL with errno. Any thread; blocks. */
DIR *wp_folder_open(int dir_fd, const char *name);

/* The next entry but "." and "..", which stands until the next call. NULL at
 * the end, with errno 0, and NULL with another errno when the rest cannot be
 * read. One thread for one folder; blocks. */
const struct dirent *wp_folder_next(DIR *folder);

/* NULL: nothing. Keeps errno. */
void wp_folder_close(DIR *folder);

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
