#include "runtime/http/json_reply.h"

#include <stdlib.h>

static void
free_text(const void *data, size_t len, void *arg)
{
    (void)data;
    (void)len;
    free(arg);
}

void
wp_http_reply_json(struct wp_http_req *req, int status, json_t *body)
{
    char *text = body != NULL ? json_dumps(body, JSON_COMPACT) : NULL;
    struct evbuffer *out = evbuffer_new();

    json_decref(body);
    if (text != NULL && out != NULL &&
        evbuffer_add_reference(out, text, strlen(text), free_text, text) == 0) {
        wp_http_reply_buffer(req, status, "application/json", out);
    } else {
        free(text);
        wp_http_reply_error(req, 500, "out of memory");
    }
    if (out != NULL) {
        evbuffer_free(out);
    }
}
