#include "runtime/mcp/mcp_answer.h"

#include <stdlib.h>

#include "proto/formats/json_text.h"

void
wp_mcp_answer_text(const struct wp_mcp_answer *answer, json_t *text)
{
    answer->done(answer->user, wp_mcp_text_result(text, false), 0, NULL);
}

void
wp_mcp_answer_failure(const struct wp_mcp_answer *answer, const char *text)
{
    answer->done(answer->user,
                 wp_mcp_text_result(wp_json_from_text(text), true), 0, NULL);
}

void
wp_mcp_answer_json(const struct wp_mcp_answer *answer, json_t *value)
{
    char *text = value != NULL ? json_dumps(value, JSON_COMPACT) : NULL;

    json_decref(value);
    wp_mcp_answer_text(answer, text != NULL ? json_string(text) : NULL);
    free(text);
}
