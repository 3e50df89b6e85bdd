/* Addresses of names, from a name server in the same loop that answers as each
 * test wants, by a clock that only the test moves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <event2/event.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "pool/base/compiler.h"
#include "runtime/egress/resolver.h"
#include "tests/support/base/descriptors.h"

enum {
    HEAD = 12,
    TYPE_A = 1,
    TYPE_AAAA = 28,
    NXDOMAIN = 3,
    MESSAGE_MAX = 512,
    ANSWER = 12,       /* Bytes of an address' record, without the address. */
    TIMEOUT_MS = 2000, /* Of a question asked first; twice that of the next. */
    PATIENCE_MS = 60000,
};

/* What is said of any name. */
static struct {
    unsigned lost;  /* Questions that get no answer, before the others do. */
    unsigned rcode; /* 0, or NXDOMAIN. */
    unsigned addresses;  /* 10.0.0.1 and on. */
    unsigned addresses6; /* fd00::1 and on. */
    unsigned questions;
} said;

/* What every clock of this program says. */
static int64_t now_ms = 1000000;

int
clock_gettime(clockid_t id, struct timespec *ts)
{
    (void)id;
    ts->tv_sec = now_ms / 1000;
    ts->tv_nsec = now_ms % 1000 * 1000000;
    return 0;
}

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
    uint8_t type;

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
    type = bytes[len + 2];
    n = type == TYPE_A ? said.addresses : said.addresses6;
    n = said.rcode == 0 ? n : 0;
    len += 5;
    bytes[2] = 0x81;
    bytes[3] = (uint8_t)(0x80 | said.rcode);
    memset(bytes + 6, 0, 6);
    bytes[7] = (uint8_t)n;
    for (unsigned i = 0; i < n; i++) {
        const uint8_t address_len = type == TYPE_A ? 4 : 16;
        const uint8_t record[ANSWER] = {0xc0, HEAD, 0, type, 0, 1,
                                        0,    0,    0, 60,   0, address_len};

        assert_true(len + ANSWER + address_len <= sizeof bytes);
        memcpy(bytes + len, record, ANSWER);
        len += ANSWER;
        memset(bytes + len, 0, address_len);
        bytes[len] = type == TYPE_A ? 10 : 0xfd;
        len += address_len;
        bytes[len - 1] = (uint8_t)(i + 1);
    }
    (void)sendto(fd, bytes, len, 0, (struct sockaddr *)&from, from_len);
}

static size_t descriptors_before;

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
    descriptors_before = descriptors_count();
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
    return descriptors_count() != descriptors_before;
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
}

/* All that can happen without time passing. */
static void
serve(void)
{
    for (int i = 0; i < 20; i++) {
        assert_int_equal(event_base_loop(base, EVLOOP_NONBLOCK), 0);
    }
}

/* The same once so much has happened; the network may need a moment. */
static void
serve_until(const unsigned *count, unsigned n)
{
    for (int i = 0; i < PATIENCE_MS && *count < n; i++) {
        assert_int_equal(event_base_loop(base, EVLOOP_NONBLOCK), 0);
        (void)poll(NULL, 0, 1);
    }
    serve();
    assert_int_equal(*count, n);
}

static int
events(void)
{
    return event_base_get_num_events(base, EVENT_BASE_COUNT_ADDED);
}

/* What comes of it; nothing is left of it. */
static struct told
resolve(const char *name)
{
    size_t descriptors = descriptors_count();
    struct told told = {.times = 0};

    assert_int_equal(events(), 1);
    assert_non_null(wp_resolver_lookup(resolver, name, done, &told));
    assert_int_equal(told.times, 0); /* From the loop only. */
    while (told.times == 0) {
        assert_int_equal(event_base_loop(base, EVLOOP_ONCE), 0);
    }
    serve();
    assert_int_equal(told.times, 1);
    assert_int_equal(events(), 1);
    assert_int_equal(descriptors_count(), descriptors);
    return told;
}

/* In whatever order: 10.0.0.1 to 10.0.0.LEN4, fd00::1 to fd00::LEN6. */
static void
check_addresses(const struct wp_resolved *found, unsigned len4, unsigned len6)
{
    unsigned seen4 = 0;
    unsigned seen6 = 0;

    assert_int_equal(found->len, len4 + len6);
    assert_null(found->error);
    for (uint32_t i = 0; i < found->len; i++) {
        const struct sockaddr_in *in =
            (const struct sockaddr_in *)&found->addresses[i];
        const struct sockaddr_in6 *in6 =
            (const struct sockaddr_in6 *)&found->addresses[i];

        if (in->sin_family == AF_INET) {
            uint32_t address = ntohl(in->sin_addr.s_addr);

            assert_int_equal(address >> 8, 0x0a0000);
            seen4 |= 1U << (address & 0xff);
        } else {
            assert_int_equal(in6->sin6_family, AF_INET6);
            assert_int_equal(in6->sin6_addr.s6_addr[0], 0xfd);
            seen6 |= 1U << in6->sin6_addr.s6_addr[15];
        }
    }
    assert_int_equal(seen4, (2U << len4) - 2);
    assert_int_equal(seen6, (2U << len6) - 2);
}

static void
tells_addresses(void **state)
{
    struct told told;

    (void)state;
    said.addresses = 3;
    said.addresses6 = 2;
    for (int i = 0; i < 2; i++) {
        told = resolve("three.example");
        check_addresses(&told.found, 3, 2);
        assert_int_equal(said.questions, 2 * (i + 1));
    }
}

static void
looks_at_so_many_only(void **state)
{
    struct told told;

    (void)state;
    said.addresses = WP_RESOLVED_MAX;
    told = resolve("max.example");
    check_addresses(&told.found, WP_RESOLVED_MAX, 0);
    said.addresses = WP_RESOLVED_MAX + 1;
    assert_int_equal(resolve("one.more.example").found.len, WP_RESOLVED_MAX);
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
    assert_string_equal(told.found.error,
                        "DNS server returned answer with no data");
}

static void
asks_again(void **state)
{
    struct told told = {.times = 0};

    (void)state;
    said.addresses = 1;
    said.lost = 2; /* For IPv4 and IPv6. */
    assert_non_null(wp_resolver_lookup(resolver, "lost.example", done, &told));
    serve_until(&said.questions, 2);
    now_ms += TIMEOUT_MS - 1;
    serve();
    assert_int_equal(said.questions, 2);
    now_ms += 2;
    serve_until(&said.questions, 4);
    serve_until(&told.times, 1);
    check_addresses(&told.found, 1, 0);
    assert_int_equal(events(), 1);
}

static void
asks_twice_and_no_more(void **state)
{
    struct told told = {.times = 0};

    (void)state;
    said.lost = 100;
    assert_non_null(
        wp_resolver_lookup(resolver, "silent.example", done, &told));
    serve_until(&said.questions, 2);
    now_ms += TIMEOUT_MS + 1;
    serve_until(&said.questions, 4);
    assert_int_equal(told.times, 0);
    now_ms += 2 * TIMEOUT_MS + 1;
    serve();
    assert_int_equal(said.questions, 4);
    assert_int_equal(told.times, 1);
    assert_int_equal(told.found.len, 0);
    assert_string_equal(told.found.error,
                        "Timeout while contacting DNS servers");
    assert_int_equal(events(), 1);
}

static void
is_not_told_once_cancelled(void **state)
{
    struct told told = {.times = 0};
    struct wp_lookup *lookup;

    (void)state;
    said.addresses = 1;
    lookup = wp_resolver_lookup(resolver, "cancelled.example", done, &told);
    assert_non_null(lookup);
    wp_lookup_cancel(lookup);
    serve_until(&said.questions, 2);
    while (events() > 1) { /* It is answered, for nobody. */
        assert_int_equal(event_base_loop(base, EVLOOP_ONCE), 0);
    }
    assert_int_equal(told.times, 0);
    /* Others of the same name are told. */
    assert_int_equal(resolve("cancelled.example").times, 1);
    /* Also one that is under way when all ends. */
    lookup = wp_resolver_lookup(resolver, "late.example", done, &told);
    assert_non_null(lookup);
    wp_lookup_cancel(lookup);
}

static void
refuses_what_is_no_server(void **state)
{
    size_t descriptors = descriptors_count();
    struct wp_resolver *system_s;
    struct wp_err err;

    (void)state;
    assert_null(wp_resolver_create(base, "not an address", &err));
    assert_int_equal(err.status, WP_INVALID_ARGUMENT);
    assert_string_equal(err.msg, "name servers not an address: Misformatted "
                                 "string");
    system_s = wp_resolver_create(base, NULL, &err);
    assert_non_null(system_s);
    assert_int_equal(events(), 1);
    wp_resolver_destroy(system_s);
    wp_resolver_destroy(NULL);
    assert_int_equal(descriptors_count(), descriptors);
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
        cmocka_unit_test_setup_teardown(asks_twice_and_no_more, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(is_not_told_once_cancelled, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(refuses_what_is_no_server, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
