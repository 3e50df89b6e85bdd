/* allocator/ctl/sandbox/brought.h - the files that a claim brings along: single
 * ones, all of a folder's, and those of tar archives.
 *
 * Plain files only: a link or a device in a folder or an archive is refused.
 * What lies on this machine is read when it is sent, and must have the size
 * then that it had when it was added. Its mode is 0755 where its owner may
 * execute it, else 0644; an archive's files have the modes that it tells. The
 * files of a folder are in the order of their names, so that the same claim
 * made again brings the same. One thread. */
#ifndef WP_ALLOCATOR_CTL_SANDBOX_BROUGHT_H
#define WP_ALLOCATOR_CTL_SANDBOX_BROUGHT_H

#include <stdint.h>

#include "pool/base/arena.h"
#include "pool/base/status.h"
#include "pool/base/str.h"

enum {
    WP_BROUGHT_FILES_MAX = 65536,
};
#define WP_BROUGHT_BYTES_MAX (UINT64_C(1) << 30)

struct wp_brought_file {
    const char *path; /* Below the workspace. */
    const char *from; /* Where it is here; NULL: content has it. */
    struct wp_str content;
    uint64_t size;
    uint32_t mode;
};

/* Zeroed, it is empty. */
struct wp_brought {
    struct wp_region region; /* All that the files point to. */
    struct wp_brought_file *files;
    uint32_t n;
    uint32_t cap;
    uint64_t bytes; /* Of all files. */
};

void wp_brought_fini(struct wp_brought *brought);

/* Adds the file `local` as path, or all files of the folder `local` below it
 * (path ".": into the workspace itself); "-" is standard input. All that follow
 * return INVALID_ARGUMENT, and err names the file. */
WP_MUST_CHECK enum wp_status wp_brought_add(struct wp_brought *brought,
                                            const char *local, const char *path,
                                            struct wp_err *err);
/* Adds the files of a tar archive, plain or packed by gzip, below dir (empty:
 * the workspace). */
WP_MUST_CHECK enum wp_status wp_brought_add_archive(struct wp_brought *brought,
                                                    const char *local,
                                                    const char *dir,
                                                    struct wp_err *err);
/* Is each path that of one file only? */
WP_MUST_CHECK enum wp_status wp_brought_check(struct wp_brought *brought,
                                              struct wp_err *err);
/* Reads what lies on this machine into content, for all files. */
WP_MUST_CHECK enum wp_status wp_brought_read(struct wp_brought *brought,
                                             struct wp_err *err);

#endif
