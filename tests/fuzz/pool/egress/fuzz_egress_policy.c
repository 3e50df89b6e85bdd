/* Any three lines: two policies and a target. What is taken must be consistent:
 * `none` allows nothing, an open policy no port but the standard ones unless a
 * rule has it, nothing but a named address that is not public; two policies
 * narrowed by each other allow nothing that one of them refuses; where a claim
 * may narrow the first by the second, the second allows nothing more; and a
 * host's own spelling is one that means the same. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/egress/policy.h"

#define PACKAGES "index.test *.files.test"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check(bool truth)
{
    if (!truth) {
        abort();
    }
}

static struct wp_str
next_line(struct wp_str *rest)
{
    const char *end = rest->len > 0 ? memchr(rest->ptr, '\n', rest->len) : NULL;
    struct wp_str line = {rest->ptr,
                          end != NULL ? (size_t)(end - rest->ptr) : rest->len};
    size_t used = line.len + (end != NULL ? 1 : 0);

    rest->ptr += used;
    rest->len -= used;
    return line;
}

static bool
read_policy(struct wp_str text, struct wp_egress_policy *out)
{
    struct wp_err err = {.msg = ""};

    if (wp_egress_policy_parse(text, WP_STR(PACKAGES), out, &err) == WP_OK) {
        check(out->rules_len <= WP_EGRESS_RULES_MAX);
        return true;
    }
    check(err.status == WP_INVALID_ARGUMENT && err.msg[0] != '\0');
    return false;
}

static void
check_spelling(const struct wp_host *host)
{
    char text[WP_HOST_MAX + 3];
    struct wp_host again;
    const char *why;
    bool v6 = host->is_address && host->address.ss_family == AF_INET6;

    (void)snprintf(text, sizeof text, v6 ? "[%s]" : "%s", host->name);
    check(wp_host_parse(wp_str_from(text), &again, &why));
    check(memcmp(&again, host, sizeof again) == 0);
}

static bool
is_named(const struct wp_egress_policy *policy, const struct wp_host *host)
{
    for (uint32_t i = 0; i < policy->rules_len; i++) {
        if (policy->rules[i].kind == WP_EGRESS_NETWORK &&
            wp_network_has(&policy->rules[i].network,
                           (const struct sockaddr *)&host->address)) {
            return true;
        }
    }
    return false;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct wp_egress_policy policies[2];
    static struct wp_egress_policy both;
    static struct wp_egress_policy narrowed;
    struct wp_str lines[2];
    bool within;
    struct wp_str rest = {(const char *)data, size};
    struct wp_host host;
    uint16_t port;
    const char *why = NULL;

    for (int i = 0; i < 2; i++) {
        lines[i] = next_line(&rest);
        if (!read_policy(lines[i], &policies[i])) {
            return 0;
        }
    }
    if (!wp_host_port_parse(next_line(&rest), WP_EGRESS_HTTP_PORT, &host, &port,
                            &why)) {
        check(why != NULL);
        return 0;
    }
    check_spelling(&host);
    if (wp_egress_policy_narrow(&policies[0], &policies[1], &both, NULL) !=
        WP_OK) {
        return 0;
    }
    within = lines[1].len > 0 && wp_egress_policy_parse_narrowed(
                                     lines[0], lines[1], WP_STR(PACKAGES),
                                     &narrowed, NULL) == WP_OK;
    for (int secure = 0; secure < 2; secure++) {
        const struct sockaddr *sa = (const struct sockaddr *)&host.address;
        bool first = false;
        bool each = true;

        for (int i = 0; i < 2; i++) {
            const struct wp_egress_policy *policy = &policies[i];
            bool allows =
                wp_egress_allows_host(policy, &host, port, secure != 0);

            check(!allows || policy->mode != WP_EGRESS_NONE);
            check(!allows || !host.is_address ||
                  wp_reach_of(sa) == WP_REACH_PUBLIC ||
                  is_named(policy, &host));
            each = each && allows;
            first = i == 0 ? allows : first;
            check(i == 0 || !within || !allows || first);
        }
        check(each || !wp_egress_allows_host(&both, &host, port, secure != 0));
        check(each || !within ||
              !wp_egress_allows_host(&narrowed, &host, port, secure != 0));
    }
    return 0;
}
