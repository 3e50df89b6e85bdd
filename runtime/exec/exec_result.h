/* runtime/exec/exec_result.h - a finished command as the JSON its clients know.
 * */
#ifndef WP_RUNTIME_EXEC_EXEC_RESULT_H
#define WP_RUNTIME_EXEC_EXEC_RESULT_H

#include <jansson.h>

#include "runtime/exec/process.h"

/* Tells of what was dropped, by a last line of stderr. */
void wp_exec_result_note(const struct wp_process_result *result);
/* {"stdout","stderr","exit_code"}. What was dropped is told by a last line of
 * stderr. NULL on no memory. */
json_t *wp_exec_result_json(const struct wp_process_result *result,
                            int exit_code);
/* Logs lengths and exit code, never contents. */
void wp_exec_result_log(const char *how,
                        const struct wp_process_result *result);

#endif
