#include "k8s/api/api_answer.h"

#include <stdio.h>
#include <string.h>

#include "k8s/objects/json_read.h"

/* What is not named here is decided by its class. 409 depends on the reason. */
static const struct {
    int code;
    enum wp_status status;
} codes[] = {
    {401, WP_UNAUTHENTICATED},   {403, WP_PERMISSION_DENIED},
    {404, WP_NOT_FOUND},         {409, WP_ABORTED},
    {410, WP_DEADLINE_EXCEEDED}, {429, WP_RESOURCE_EXHAUSTED},
    {503, WP_UNAVAILABLE},
};

/* Of one that is no 2xx. */
static enum wp_status
status_of(int code, const char *reason)
{
    if (code == 409 && strcmp(reason, "AlreadyExists") == 0) {
        return WP_ALREADY_EXISTS;
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(codes); i++) {
        if (codes[i].code == code) {
            return codes[i].status;
        }
    }
    return code >= 500 ? WP_UNKNOWN_OUTCOME : WP_INVALID_ARGUMENT;
}

static const char *
text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text != NULL ? text : "";
}

static bool
has_cause(const json_t *status, const char *reason)
{
    size_t i;
    json_t *cause;

    json_array_foreach(
        json_object_get(json_object_get(status, "details"), "causes"), i, cause)
    {
        if (strcmp(text_of(cause, "reason"), reason) == 0) {
            return true;
        }
    }
    return false;
}

/* Fills what a metav1.Status says; others leave it as it is. */
static void
read_refusal(struct wp_api_result *result, struct wp_api_words *words)
{
    const json_t *object = result->object;
    const char *message = text_of(object, "message");
    json_t *seconds = json_object_get(json_object_get(object, "details"),
                                      "retryAfterSeconds");
    json_int_t retry_s = json_integer_value(seconds);

    result->status = status_of(result->code, text_of(object, "reason"));
    result->namespace_leaves = has_cause(object, "NamespaceTerminating");
    if (message[0] != '\0') {
        result->message = message;
    } else {
        (void)snprintf(words->text, sizeof words->text,
                       "the API server answered %d", result->code);
        result->message = words->text;
    }
    if (result->retry_after_ns < 0 && retry_s > 0 && retry_s <= 86400) {
        result->retry_after_ns = (int64_t)retry_s * WP_NS_PER_S;
    }
}

void
wp_api_answer_read(const struct wp_http_answer *answer,
                   struct wp_api_result *result, struct wp_api_words *words)
{
    json_t *json = NULL;

    *result = (struct wp_api_result){.status = answer->status,
                                     .code = answer->code,
                                     .message = answer->error,
                                     .retry_after_ns = answer->retry_after_ns};
    if (answer->status != WP_OK) {
        return;
    }
    if (answer->body.len > 0) {
        json = wp_json_read(answer->body, NULL);
    }
    if (json_is_object(json)) {
        result->object = json;
    } else {
        json_decref(json);
    }
    if (answer->code < 200 || answer->code >= 300) {
        read_refusal(result, words);
    } else if (answer->body.len > 0 && result->object == NULL) {
        result->status = WP_UNKNOWN_OUTCOME;
        result->message = "the API server's answer is no JSON object";
    }
}
