/* Any bytes as HTTP messages. The first byte says whether they are requests or
 * responses and in which pieces bodies come; the rest is the stream. Checked:
 * views stay inside the head, framing agrees with itself however the bytes are
 * cut, and what was refused says why. */
#include <stdlib.h>

#include "proto/formats/http_head.h"
#include "allocator/http/route.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void
check_inside(struct wp_str view, struct wp_str head)
{
    check(view.len == 0 ||
          (view.ptr >= head.ptr && view.ptr + view.len <= head.ptr + head.len));
}

static void
check_message(const struct wp_http_message *m, struct wp_str head)
{
    struct wp_http_route route;
    const char *why = NULL;

    check(m->n_fields <= WP_HTTP_FIELDS_MAX);
    check(!(m->chunked && m->has_length));
    for (uint32_t i = 0; i < m->n_fields; i++) {
        check_inside(m->fields[i].name, head);
        check_inside(m->fields[i].value, head);
        check(m->fields[i].name.len > 0);
        check(memchr(m->fields[i].name.ptr, ' ', m->fields[i].name.len) ==
              NULL);
        (void)wp_http_field_stays(m, &m->fields[i]);
    }
    if (m->target.len == 0) {
        return; /* A response. */
    }
    check_inside(m->target, head);
    check(m->target.ptr[0] == '/');
    if (wp_http_route(m, &route, &why)) {
        check_inside(route.path, head);
        check_inside(route.rest, head);
        check_inside(route.sandbox, head);
        check_inside(route.bearer, head);
        check(!route.proxy || route.sandbox.len > 0);
    } else {
        check(why != NULL && why[0] != '\0');
    }
}

/* How far the body goes when it comes in pieces of step bytes; -1: broken. */
static int64_t
body_len(struct wp_http_message *m, struct wp_str rest, size_t step)
{
    int64_t total = 0;

    while (!m->done && rest.len > 0) {
        size_t n = step < rest.len ? step : rest.len;
        int64_t used = wp_http_message_body(m, (struct wp_str){rest.ptr, n});

        if (used < 0) {
            return -1;
        }
        check((size_t)used <= n && (m->done || (size_t)used == n));
        total += used;
        rest.ptr += used;
        rest.len -= (size_t)used;
    }
    return total;
}

static bool
parse(struct wp_http_message *m, struct wp_str head, uint8_t kind)
{
    const char *why = NULL;
    bool ok = (kind & 1) != 0
                  ? wp_http_parse_response(m, head, (kind & 2) != 0, &why)
                  : wp_http_parse_request(m, head, &why);

    check(ok || (why != NULL && why[0] != '\0'));
    return ok;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct wp_http_message m;
    static struct wp_http_message again;
    struct wp_str rest;

    if (size == 0) {
        return 0;
    }
    rest = (struct wp_str){(const char *)data + 1, size - 1};
    for (;;) {
        size_t len = wp_http_head_len(rest);
        struct wp_str head = {rest.ptr, len};
        int64_t whole;

        if (len == 0 || len == SIZE_MAX || !parse(&m, head, data[0])) {
            return 0;
        }
        check(len <= WP_HTTP_HEAD_MAX);
        check_message(&m, head);
        rest.ptr += len;
        rest.len -= len;
        check(parse(&again, head, data[0]));
        whole = body_len(&m, rest, rest.len + 1);
        check(body_len(&again, rest, (size_t)(data[0] >> 4) + 1) == whole);
        check(whole < 0 || again.done == m.done);
        if (whole < 0 || !m.done) {
            (void)(whole >= 0 && wp_http_message_eof(&m));
            return 0;
        }
        rest.ptr += whole;
        rest.len -= (size_t)whole;
    }
}
