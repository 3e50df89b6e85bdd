#include "k8s/bind/bind_answer.h"

#include <jansson.h>
#include <string.h>

#include "proto/formats/http_head.h"
#include "proto/parcel/request.h"

enum {
    BODY_MAX = 4096, /* Of an answer that refuses. */
};

struct body {
    char text[BODY_MAX];
    size_t len;
};

static void
on_body(void *ctx, const char *data, size_t len)
{
    struct body *body = ctx;
    size_t room = sizeof body->text - body->len;
    size_t kept = len < room ? len : room;

    memcpy(body->text + body->len, data, kept);
    body->len += kept;
}

void
wp_bind_answer_set(struct wp_bind_answer *out, enum wp_status status, bool lost,
                   struct wp_str reason)
{
    static const char intro[] = "binding: ";
    size_t len = sizeof intro - 1;

    *out = (struct wp_bind_answer){.status = status, .lost = lost};
    memcpy(out->reason, intro, len);
    for (size_t i = 0; i < reason.len && len < WP_BIND_REASON_MAX; i++) {
        char c = reason.ptr[i];

        out->reason[len++] = (char)(c >= ' ' && c <= '~' ? c : '?');
    }
    out->reason[len] = '\0';
}

/* The words of {"error":"..."}. */
static void
refuse(const struct wp_http_message *message, const struct body *body,
       struct wp_bind_answer *out)
{
    bool lost = message->status == 409 || message->status == 422;
    json_t *tree = json_loadb(body->text, body->len, 0, NULL);
    const json_t *error = json_object_get(tree, "error");
    struct wp_str text = {json_string_value(error), json_string_length(error)};

    if (!lost) {
        /* Whatever serves there does not speak of bindings. */
        text = WP_STR("the sandbox's server takes none");
    } else if (text.ptr == NULL) {
        text = WP_STR("the sandbox did not take all of it");
    }
    wp_bind_answer_set(out, WP_FAILED_PRECONDITION, lost, text);
    out->other = message->status == 409;
    json_decref(tree);
}

/* False: its body is not whole yet. */
static bool
read_refusal(struct wp_http_message *message, struct wp_str rest, bool ended,
             struct wp_bind_answer *out)
{
    struct body body = {.len = 0};
    bool whole = ended || message->done;

    message->on_body = on_body;
    message->ctx = &body;
    if (!message->done && rest.len > 0) {
        whole =
            wp_http_message_body(message, rest) < 0 || message->done || ended;
    }
    message->ctx = NULL; /* It ends here. */
    if (!whole && body.len < sizeof body.text) {
        return false;
    }
    refuse(message, &body, out);
    return true;
}

static bool
confirms(const struct wp_http_message *message, const char *fingerprint)
{
    const struct wp_http_field *field = wp_http_field(message, WP_BIND_FIELD);

    return message->status == 200 &&
           (fingerprint == NULL ||
            (field != NULL && wp_str_is(field->value, fingerprint)));
}

/* A server of an older version takes no identity, and says nothing of it. */
static void
take(const struct wp_http_message *message,
     const struct wp_bind_brought *brought, struct wp_bind_answer *out)
{
    if (brought->identity &&
        wp_http_field(message, WP_IDENTITY_FIELD) == NULL) {
        wp_bind_answer_set(out, WP_FAILED_PRECONDITION, true,
                           WP_STR("the sandbox's server takes no identity"));
    } else {
        *out = (struct wp_bind_answer){.status = WP_OK};
    }
}

bool
wp_bind_answer_read(struct wp_str bytes, bool ended,
                    const struct wp_bind_brought *brought,
                    struct wp_bind_answer *out)
{
    size_t head = wp_http_head_len(bytes);
    struct wp_http_message message;
    const char *why;

    if (head == 0 && !ended) {
        return false;
    }
    if (head == 0) {
        wp_bind_answer_set(out, WP_UNAVAILABLE, false,
                           WP_STR("the sandbox's server did not answer"));
        return true;
    }
    if (head == SIZE_MAX ||
        !wp_http_parse_response(&message, (struct wp_str){bytes.ptr, head},
                                false, &why)) {
        wp_bind_answer_set(out, WP_FAILED_PRECONDITION, false,
                           WP_STR("the sandbox's server answered nonsense"));
        return true;
    }
    if (confirms(&message, brought->fingerprint)) {
        take(&message, brought, out);
        return true;
    }
    return read_refusal(&message,
                        (struct wp_str){bytes.ptr + head, bytes.len - head},
                        ended || bytes.len >= WP_BIND_ANSWER_MAX, out);
}
