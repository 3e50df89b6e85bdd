/* runtime/sandboxd/rest.h - the file and runtime calls that clients of sandboxd
 * know:
 *
 *   GET /v1/files/PATH      a file, or a folder as {"path","entries"}; with
 *                           Range one range of a file
 *   PUT /v1/files/PATH      writes a file, which appears whole; ?mode=0755
 *   DELETE /v1/files/PATH   a file or an empty folder; ?recursive=true
 *   GET /v1/health          {"status","uptime_seconds"}
 *   GET /v1/metadata        {"env"}: the variables that begin with SANDBOX_
 *
 * Errors are {"code","message"}. All paths lie in the workspace; an absolute
 * one is taken from there. Loop thread only. */
#ifndef WP_RUNTIME_SANDBOXD_REST_H
#define WP_RUNTIME_SANDBOXD_REST_H

#include "runtime/runtime.h"

extern const struct wp_http_ops wp_sandboxd_get_ops;
extern const struct wp_http_ops wp_sandboxd_put_ops;
extern const struct wp_http_ops wp_sandboxd_delete_ops;
extern const struct wp_http_ops wp_sandboxd_health_ops;
extern const struct wp_http_ops wp_sandboxd_metadata_ops;

/* --- What the files of the REST calls share. --- */

/* Answers an error. */
void wp_sandboxd_fail(struct wp_http_req *req, int status, const char *code,
                      const char *message);
/* The same for an errno met on a path of the workspace. */
void wp_sandboxd_fail_errno(struct wp_http_req *req, int os_errno);
/* The path of a request below /v1/files, relative to the workspace; "." is the
 * workspace itself. False when answered. */
WP_MUST_CHECK bool wp_sandboxd_path(struct wp_http_req *req,
                                    char out[WP_WORKSPACE_PATH_MAX]);
/* The same for text that is not encoded: 0 or an errno. */
WP_MUST_CHECK int wp_sandboxd_path_plain(const struct wp_workspace *workspace,
                                         const char *path,
                                         char out[WP_WORKSPACE_PATH_MAX]);

#endif
