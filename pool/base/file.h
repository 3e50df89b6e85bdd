/* pool/base/file.h - a small file read whole. */
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

#endif
