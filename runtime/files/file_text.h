/* runtime/files/file_text.h - whole files, read and written for the tools. */
#ifndef WP_RUNTIME_FILES_FILE_TEXT_H
#define WP_RUNTIME_FILES_FILE_TEXT_H

#include <jansson.h>
#include <stddef.h>

#include "pool/base/compiler.h"
#include "pool/base/status.h"
#include "pool/base/str.h"

/* Reads path into a JSON string (see json_text.h). A pipe is not waited for.
 * Error text: "open PATH: no such file or directory" and the like; more than
 * max bytes is FAILED_PRECONDITION. */
WP_MUST_CHECK enum wp_status wp_file_read(const char *path, size_t max,
                                          json_t **out, struct wp_err *err);
/* The first max bytes, terminated; malloc'ed. NULL on any error. */
char *wp_file_read_head(const char *path, size_t max, size_t *len);
/* Creates (0644) or truncates path. Error text as above; what was written
 * before an error stays, as a full disk may have left it. */
WP_MUST_CHECK enum wp_status
wp_file_write(const char *path, struct wp_str content, struct wp_err *err);
/* mkdir -p with mode 0755. Error text: "mkdir PATH: ...". */
WP_MUST_CHECK enum wp_status wp_file_make_dirs(const char *path,
                                               struct wp_err *err);

#endif
