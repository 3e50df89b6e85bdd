/* Addresses of names, from a name server in the same loop that answers as each
 * test wants. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <event2/event.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "pool/base/compiler.h"
#include "runtime/egress/resolver.h"

enum {
    HEAD = 12,
    TYPE_A = 1,
    NXDOMAIN = 3,
    MESSAGE_MAX = 512,
    ANSWER = 16, /* Bytes of an address' record. */
};

/* What is said of any name. */
static struct {
    unsigned lost;  /* Questions that get no answer, before the others do. */
    unsigned rcode; /* 0, or NXDOMAIN. */
    unsigned addresses; /* 10.0.0.1 and on; of IPv6 there is none. */
    unsigned questions;
} said;

static struct event_base *base;
static struct event *on_question;
static int server = -1;
static struct wp_resolver *resolver;

static void
answer(evutil_socket_t fd, short what, void *ctx)
{
    uint8_t bytes[MESSAGE_MAX];
    struct sockaddr_in from;
    socklen_t from_len = sizeof from;
    ssize_t got = recvfrom(fd, bytes, sizeof bytes, 0, (struct sockaddr *)&from,
                           &from_len);
    size_t len = HEAD;
    unsigned n;

    (void)what;
    (void)ctx;
    said.questions++;
    if (said.lost > 0) {
        said.lost--;
        return;
    }
    assert_true(got > HEAD + 5);
    while (bytes[len] != 0) {
        len += 1U + bytes[len];
    }
    n = bytes[len + 2] == TYPE_A && said.rcode == 0 ? said.addresses : 0;
    len += 5;
    assert_true(len + (size_t)n * ANSWER <= sizeof bytes);
    bytes[2] = 0x81;
    bytes[3] = (uint8_t)(0x80 | said.rcode);
    memset(bytes + 6, 0, 6);
    bytes[7] = (uint8_t)n;
    for (unsigned i = 0; i < n; i++) {
        const uint8_t record[ANSWER] = {
            0xc0, HEAD, 0, TYPE_A, 0,  1, 0, 0,
            0,    60,   0, 4,      10, 0, 0, (uint8_t)(i + 1)};

        memcpy(bytes + len, record, sizeof record);
        len += sizeof record;
    }
    (void)sendto(fd, bytes, len, 0, (struct sockaddr *)&from, from_len);
}

static int
set_up(void **state)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t at_len = sizeof at;
    char servers[32];
    struct wp_err err;

    (void)state;
    memset(&said, 0, sizeof said);
    base = event_base_new();
    server = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(base != NULL && server >= 0);
    assert_int_equal(bind(server, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(server, (struct sockaddr *)&at, &at_len), 0);
    on_question = event_new(base, server, EV_READ | EV_PERSIST, answer, NULL);
    assert_int_equal(event_add(on_question, NULL), 0);
    (void)snprintf(servers, sizeof servers, "127.0.0.1:%u", ntohs(at.sin_port));
    resolver = wp_resolver_create(base, servers, &err);
    assert_non_null(resolver);
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    wp_resolver_destroy(resolver);
    event_free(on_question);
    event_base_free(base);
    (void)close(server);
    return 0;
}

/* What done() was told. */
struct told {
    unsigned times;
    struct wp_resolved found;
};

static void
done(void *ctx, const struct wp_resolved *found)
{
    struct told *told = ctx;

    told->times++;
    told->found = *found;
    (void)event_base_loopbreak(base);
}

static struct told
resolve(const char *name)
{
    const struct timeval limit = {20, 0};
    struct told told = {.times = 0};

    assert_non_null(wp_resolver_lookup(resolver, name, done, &told));
    assert_int_equal(told.times, 0); /* From the loop only. */
    (void)event_base_loopexit(base, &limit);
    (void)event_base_dispatch(base);
    assert_int_equal(told.times, 1);
    return told;
}

static void
tells_addresses(void **state)
{
    struct told told;

    (void)state;
    said.addresses = 3;
    told = resolve("three.example");
    assert_int_equal(told.found.len, 3);
    assert_null(told.found.error);
    for (uint32_t i = 0; i < 3; i++) {
        const struct sockaddr_in *at =
            (const struct sockaddr_in *)&told.found.addresses[i];

        assert_int_equal(at->sin_family, AF_INET);
        assert_int_equal(ntohl(at->sin_addr.s_addr) >> 8, 0x0a0000);
    }
}

static void
looks_at_so_many_only(void **state)
{
    (void)state;
    said.addresses = WP_RESOLVED_MAX + 5;
    assert_int_equal(resolve("many.example").found.len, WP_RESOLVED_MAX);
}

static void
says_why_there_is_none(void **state)
{
    struct told told;

    (void)state;
    said.rcode = NXDOMAIN;
    told = resolve("none.example");
    assert_int_equal(told.found.len, 0);
    assert_string_equal(told.found.error, "Domain name not found");
    said.rcode = 0;
    told = resolve("empty.example");
    assert_int_equal(told.found.len, 0);
    assert_non_null(told.found.error);
}

/* The question is asked once more after a while, by the resolver's timer. */
static void
asks_again(void **state)
{
    struct told told;

    (void)state;
    said.addresses = 1;
    said.lost = 2; /* For IPv4 and IPv6. */
    told = resolve("lost.example");
    assert_int_equal(told.found.len, 1);
    assert_true(said.questions >= 3);
}

static void
is_not_told_once_cancelled(void **state)
{
    const struct timeval limit = {0, 100000};
    struct told told = {.times = 0};
    struct wp_lookup *lookup;

    (void)state;
    said.addresses = 1;
    lookup = wp_resolver_lookup(resolver, "cancelled.example", done, &told);
    assert_non_null(lookup);
    wp_lookup_cancel(lookup);
    (void)event_base_loopexit(base, &limit);
    (void)event_base_dispatch(base);
    assert_int_equal(told.times, 0);
}

static void
refuses_what_is_no_server(void **state)
{
    struct wp_err err;

    (void)state;
    assert_null(wp_resolver_create(base, "not an address", &err));
    assert_non_null(strstr(err.msg, "name servers not an address"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(tells_addresses, set_up, tear_down),
        cmocka_unit_test_setup_teardown(looks_at_so_many_only, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(says_why_there_is_none, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(asks_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(is_not_told_once_cancelled, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(refuses_what_is_no_server, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
