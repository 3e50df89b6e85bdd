#include "allocator/http/session_request.h"

#include <stdio.h>
#include <string.h>

#include <jansson.h>

static const struct wp_str sessions = {"/api/sessions/", 14};

bool
wp_session_is(struct wp_str path)
{
    return wp_str_starts_with(path, sessions);
}

/* ------------------------------------------------------------------- texts */

static int
hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Percent-decoded and terminated; in_query: '+' is a space. False when it is
 * malformed, longer than fits or not printable. */
static bool
decode(struct wp_str text, bool in_query, char *out, size_t cap)
{
    size_t n = 0;

    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];

        if (n + 1 == cap || (c == '%' && text.len - i < 3)) {
            return false;
        }
        if (c == '%') {
            int high = hex_digit(text.ptr[i + 1]);
            int low = hex_digit(text.ptr[i + 2]);

            if (high < 0 || low < 0) {
                return false;
            }
            c = (char)(high << 4 | low);
            i += 2;
        } else if (c == '+' && in_query) {
            c = ' ';
        }
        out[n++] = c;
    }
    out[n] = '\0';
    return wp_str_is_printable((struct wp_str){out, n});
}

/* The value of a key of the query, decoded. *given: it is there, once or more
 * often; the first counts. */
static bool
query_value(struct wp_str query, const char *key, char *out, size_t cap,
            bool *given)
{
    struct wp_str name = wp_str_from(key);
    size_t at = 0;

    *given = false;
    out[0] = '\0';
    while (at < query.len) {
        const char *end = memchr(query.ptr + at, '&', query.len - at);
        size_t len =
            end != NULL ? (size_t)(end - query.ptr) - at : query.len - at;
        struct wp_str part = {query.ptr + at, len};

        at += len + 1;
        if (wp_str_starts_with(part, name) && part.len > name.len &&
            part.ptr[name.len] == '=') {
            *given = true;
            return decode((struct wp_str){part.ptr + name.len + 1,
                                          part.len - name.len - 1},
                          true, out, cap);
        }
    }
    return true;
}

static bool
refuse(char why[WP_SESSION_WHY_MAX], const char *text)
{
    (void)snprintf(why, WP_SESSION_WHY_MAX, "%s", text);
    return false;
}

/* -------------------------------------------------------- what is asked for */

/* Takes one of the names that choose a pool. Given twice, they must agree. */
static bool
take_name(const char *key, struct wp_str value, size_t max, char *out,
          char why[WP_SESSION_WHY_MAX])
{
    if (!wp_str_is_dns_name(value, max)) {
        (void)snprintf(why, WP_SESSION_WHY_MAX,
                       "Failed to read the request: %s: expected a DNS name of "
                       "at most %zu characters",
                       key, max);
        return false;
    }
    if (out[0] != '\0' && !wp_str_is(value, out)) {
        (void)snprintf(why, WP_SESSION_WHY_MAX,
                       "Failed to read the request: %s: the query and the body "
                       "differ",
                       key);
        return false;
    }
    return wp_str_copy(value, out, max + 1);
}

/* What a request may name, and where it goes. */
struct choice {
    const char *key;
    size_t max;
    char *out;
};

enum {
    CHOICES = 3,
};

static void
choices_of(struct wp_session_request *out, struct choice choice[CHOICES])
{
    choice[0] = (struct choice){"namespace", WP_NAMESPACE_MAX, out->ns};
    choice[1] = (struct choice){"pool", WP_POOL_NAME_MAX, out->pool};
    choice[2] =
        (struct choice){"template", WP_TEMPLATE_NAME_MAX, out->template_name};
}

static bool
read_query(struct wp_str query, struct wp_session_request *out,
           char why[WP_SESSION_WHY_MAX])
{
    struct choice choice[CHOICES];
    char value[WP_TEMPLATE_NAME_MAX + 2];
    bool given;

    choices_of(out, choice);
    for (size_t i = 0; i < CHOICES; i++) {
        if (!query_value(query, choice[i].key, value, sizeof value, &given)) {
            value[0] = '\0';
        }
        if (given && !take_name(choice[i].key, wp_str_from(value),
                                choice[i].max, choice[i].out, why)) {
            return false;
        }
    }
    return true;
}

bool
wp_session_read_body(struct wp_str body, struct wp_session_request *out,
                     char why[WP_SESSION_WHY_MAX])
{
    struct choice choice[CHOICES];
    json_t *object;
    const char *key;
    json_t *value;
    bool good = true;

    if (body.len == 0) {
        return true;
    }
    object = json_loadb(body.ptr, body.len, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(object)) {
        json_decref(object);
        return refuse(why, "Failed to read the request: the body: expected "
                           "nothing, or a JSON object");
    }
    choices_of(out, choice);
    json_object_foreach(object, key, value)
    {
        size_t i = 0;

        while (i < CHOICES && strcmp(key, choice[i].key) != 0) {
            i++;
        }
        if (i == CHOICES || !json_is_string(value)) {
            good = refuse(why, "Failed to read the request: the body: expected "
                               "only namespace, pool and template, each a "
                               "string");
            break;
        }
        good = take_name(choice[i].key,
                         (struct wp_str){json_string_value(value),
                                         json_string_length(value)},
                         choice[i].max, choice[i].out, why);
        if (!good) {
            break;
        }
    }
    json_decref(object);
    return good;
}

/* --------------------------------------------------------------- who it is */

/* "team/coder", or as Python agents are called, "team__NS__coder" with '_' for
 * '-'. What names no template is no agent of ours: it chooses nothing. */
static void
read_agent(const struct wp_http_message *request,
           struct wp_session_request *out)
{
    static const char parting[] = "__NS__";
    const struct wp_http_field *field = wp_http_field(request, "X-Agent-Name");
    char text[WP_NAMESPACE_MAX + WP_TEMPLATE_NAME_MAX + sizeof parting];
    char *name = text;
    char *slash;
    int len;

    if (field == NULL || !wp_str_copy(field->value, text, sizeof text)) {
        return;
    }
    slash = strstr(text, parting);
    if (slash != NULL) {
        name = slash + sizeof parting - 1;
        *slash = '\0';
    } else if ((slash = strchr(text, '/')) != NULL) {
        name = slash + 1;
        *slash = '\0';
    }
    for (char *c = text; c < name + strlen(name); c++) {
        if (*c == '_') {
            *c = '-';
        }
    }
    if (slash != NULL &&
        wp_str_is_dns_name(wp_str_from(text), WP_NAMESPACE_MAX)) {
        (void)!wp_str_copy(wp_str_from(text), out->agent_ns,
                           sizeof out->agent_ns);
    }
    len = snprintf(out->agent_template, sizeof out->agent_template,
                   "%s-sandbox", name);
    if ((size_t)len >= sizeof out->agent_template ||
        !wp_str_is_dns_name(wp_str_from(out->agent_template),
                            WP_TEMPLATE_NAME_MAX)) {
        out->agent_template[0] = '\0';
        out->agent_ns[0] = '\0';
    }
}

static bool
read_user(const struct wp_http_message *request, struct wp_str query,
          char out[WP_CLAIM_ID_MAX + 1], char why[WP_SESSION_WHY_MAX])
{
    const struct wp_http_field *field = wp_http_field(request, "X-User-Id");
    char text[WP_CLAIM_ID_MAX + 1] = "";
    bool in_query;

    if (!query_value(query, "user_id", out, WP_CLAIM_ID_MAX + 1, &in_query) ||
        (field != NULL && (!wp_str_copy(field->value, text, sizeof text) ||
                           !wp_str_is_printable(wp_str_from(text))))) {
        return refuse(why, "Failed to get user ID: expected printable text of "
                           "at most 128 bytes");
    }
    if (in_query && text[0] != '\0' && strcmp(out, text) != 0) {
        return refuse(why,
                      "Failed to get user ID: X-User-Id and user_id differ");
    }
    if (text[0] != '\0') {
        memcpy(out, text, sizeof text);
    }
    return out[0] != '\0' ||
           refuse(why, "Failed to get user ID: expected the header X-User-Id "
                       "or the query's user_id");
}

static void
put_part(char out[WP_CLAIM_ID_MAX + 1], size_t *len, const char *text,
         bool *fits)
{
    for (; *text != '\0'; text++) {
        const char *as = *text == '%' ? "%25" : *text == '/' ? "%2F" : NULL;
        size_t more = as != NULL ? 3 : 1;

        if (*len + more > WP_CLAIM_ID_MAX) {
            *fits = false;
            return;
        }
        memcpy(out + *len, as != NULL ? as : text, more);
        *len += more;
        out[*len] = '\0';
    }
}

static bool
make_id(const char *user, const char *session, char out[WP_CLAIM_ID_MAX + 1],
        char why[WP_SESSION_WHY_MAX])
{
    size_t len = sizeof "session/" - 1;
    bool fits = true;

    memcpy(out, "session/", len + 1);
    put_part(out, &len, user, &fits);
    if (len < WP_CLAIM_ID_MAX) {
        out[len++] = '/';
    }
    put_part(out, &len, session, &fits);
    return (fits && out[len - 1] != '/') ||
           refuse(why, "Failed to get session ID: with the user's it is longer "
                       "than 119 bytes");
}

bool
wp_session_read_head(const struct wp_http_message *request,
                     struct wp_session_request *out, bool *found,
                     char why[WP_SESSION_WHY_MAX])
{
    struct wp_str target = request->target;
    const char *mark = memchr(target.ptr, '?', target.len);
    struct wp_str path = {target.ptr, mark != NULL ? (size_t)(mark - target.ptr)
                                                   : target.len};
    struct wp_str query = {target.ptr + path.len, target.len - path.len};
    struct wp_str rest = {path.ptr + sessions.len, path.len - sessions.len};
    const char *slash = memchr(rest.ptr, '/', rest.len);
    struct wp_str id = {rest.ptr,
                        slash != NULL ? (size_t)(slash - rest.ptr) : rest.len};
    char session[WP_CLAIM_ID_MAX + 1];
    char user[WP_CLAIM_ID_MAX + 1];

    memset(out, 0, sizeof *out);
    rest = (struct wp_str){rest.ptr + id.len, rest.len - id.len};
    out->is_sandbox = wp_str_is(rest, "/sandbox");
    *found = out->is_sandbox || rest.len == 0;
    if (!*found) {
        return refuse(why, "no such page; there is "
                           "/api/sessions/SESSION/sandbox");
    }
    if (query.len > 0) {
        query = (struct wp_str){query.ptr + 1, query.len - 1};
    }
    if (!decode(id, false, session, sizeof session) || session[0] == '\0') {
        return refuse(why, "Failed to get session ID: expected printable text "
                           "of at most 128 bytes");
    }
    read_agent(request, out);
    return read_user(request, query, user, why) &&
           make_id(user, session, out->claim_id, why) &&
           read_query(query, out, why);
}
