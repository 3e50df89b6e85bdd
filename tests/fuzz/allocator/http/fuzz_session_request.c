/* Requests of the session API: a head, an empty line, a body. What is taken is
 * in bounds, and no two sessions have one claim id. */
#include <stdlib.h>
#include <string.h>

#include "allocator/http/session_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void
check_taken(const struct wp_session_request *asked)
{
    struct wp_str id = wp_str_from(asked->claim_id);
    const char *user = asked->claim_id + sizeof "session/" - 1;
    const char *slash;

    check(id.len > 0 && id.len <= WP_CLAIM_ID_MAX && wp_str_is_printable(id));
    check(wp_str_starts_with(id, WP_STR("session/")));
    /* One slash between the two, neither of which is empty. */
    slash = strchr(user, '/');
    check(slash != NULL && slash > user && slash[1] != '\0' &&
          strchr(slash + 1, '/') == NULL);
    check(asked->pool[0] == '\0' ||
          wp_str_is_dns_name(wp_str_from(asked->pool), WP_POOL_NAME_MAX));
    check(asked->ns[0] == '\0' ||
          wp_str_is_dns_name(wp_str_from(asked->ns), WP_NAMESPACE_MAX));
    check(asked->agent_template[0] == '\0' ||
          wp_str_is_dns_name(wp_str_from(asked->agent_template),
                             WP_TEMPLATE_NAME_MAX));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct wp_http_message message;
    struct wp_str bytes = {(const char *)data, size};
    char why[WP_SESSION_WHY_MAX] = "";
    size_t head = wp_http_head_len(bytes);
    struct wp_session_request asked;
    const char *bad;
    bool found = false;

    if (head == 0 || head == SIZE_MAX ||
        !wp_http_parse_request(&message, (struct wp_str){bytes.ptr, head},
                               &bad)) {
        return 0;
    }
    if (!wp_session_is(message.target)) {
        return 0;
    }
    if (!wp_session_read_head(&message, &asked, &found, why)) {
        check(why[0] != '\0');
        return 0;
    }
    check(found);
    check_taken(&asked);
    if (wp_session_read_body(
            (struct wp_str){bytes.ptr + head, bytes.len - head}, &asked, why)) {
        check_taken(&asked);
    } else {
        check(why[0] != '\0');
    }
    return 0;
}
