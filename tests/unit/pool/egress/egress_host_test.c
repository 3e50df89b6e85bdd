/* Hosts in every spelling, and what kinds of addresses there are. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "pool/base/compiler.h"
#include "pool/base/rng.h"
#include "pool/egress/host.h"
#include "pool/egress/reach.h"

static struct sockaddr_storage
address_of(const char *text)
{
    struct sockaddr_storage out = {.ss_family = AF_INET6};
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};

    if (strchr(text, ':') != NULL) {
        assert_int_equal(inet_pton(AF_INET6, text, &in6.sin6_addr), 1);
        memcpy(&out, &in6, sizeof in6);
    } else {
        assert_int_equal(inet_pton(AF_INET, text, &in.sin_addr), 1);
        memcpy(&out, &in, sizeof in);
    }
    return out;
}

static enum wp_reach
reach_of(const char *text)
{
    struct sockaddr_storage address = address_of(text);

    return wp_reach_of((const struct sockaddr *)&address);
}

/* Goal: what is not public is known as what it is, at both ends of each
 * range. */
static void
test_reach(void **state)
{
    static const struct {
        const char *address;
        enum wp_reach reach;
    } rows[] = {
        {"1.1.1.1", WP_REACH_PUBLIC},
        {"8.8.8.8", WP_REACH_PUBLIC},
        {"9.255.255.255", WP_REACH_PUBLIC},
        {"10.0.0.0", WP_REACH_PRIVATE},
        {"10.255.255.255", WP_REACH_PRIVATE},
        {"11.0.0.0", WP_REACH_PUBLIC},
        {"100.63.255.255", WP_REACH_PUBLIC},
        {"100.64.0.0", WP_REACH_SHARED},
        {"100.127.255.255", WP_REACH_SHARED},
        {"100.128.0.0", WP_REACH_PUBLIC},
        {"100.100.100.200", WP_REACH_METADATA},
        {"127.0.0.1", WP_REACH_LOOPBACK},
        {"127.255.255.254", WP_REACH_LOOPBACK},
        {"0.0.0.0", WP_REACH_RESERVED},
        {"0.1.2.3", WP_REACH_RESERVED},
        {"169.254.0.1", WP_REACH_LINK_LOCAL},
        {"169.254.169.254", WP_REACH_METADATA},
        {"169.254.170.2", WP_REACH_METADATA},
        {"172.15.255.255", WP_REACH_PUBLIC},
        {"172.16.0.0", WP_REACH_PRIVATE},
        {"172.31.255.255", WP_REACH_PRIVATE},
        {"172.32.0.0", WP_REACH_PUBLIC},
        {"192.0.2.1", WP_REACH_RESERVED},
        {"192.168.0.1", WP_REACH_PRIVATE},
        {"192.169.0.0", WP_REACH_PUBLIC},
        {"198.18.0.1", WP_REACH_RESERVED},
        {"198.20.0.0", WP_REACH_PUBLIC},
        {"224.0.0.1", WP_REACH_MULTICAST},
        {"239.255.255.255", WP_REACH_MULTICAST},
        {"240.0.0.1", WP_REACH_RESERVED},
        {"255.255.255.255", WP_REACH_RESERVED},
        {"::", WP_REACH_RESERVED},
        {"::1", WP_REACH_LOOPBACK},
        {"::7f00:1", WP_REACH_TRANSLATED},
        {"::ffff:127.0.0.1", WP_REACH_LOOPBACK},
        {"::ffff:169.254.169.254", WP_REACH_METADATA},
        {"::ffff:1.1.1.1", WP_REACH_PUBLIC},
        {"64:ff9b::7f00:1", WP_REACH_TRANSLATED},
        {"64:ff9b::101:101", WP_REACH_TRANSLATED},
        {"64:ff9b:1::1", WP_REACH_TRANSLATED},
        {"100::1", WP_REACH_RESERVED},
        {"2001::1", WP_REACH_TRANSLATED},
        {"2001:db8::1", WP_REACH_RESERVED},
        {"2001:4860:4860::8888", WP_REACH_PUBLIC},
        {"2002:7f00:1::", WP_REACH_TRANSLATED},
        {"2606:4700::1111", WP_REACH_PUBLIC},
        {"fc00::1", WP_REACH_PRIVATE},
        {"fd00:ec2::254", WP_REACH_METADATA},
        {"fd00::1", WP_REACH_PRIVATE},
        {"fe80::1", WP_REACH_LINK_LOCAL},
        {"fec0::1", WP_REACH_PRIVATE},
        {"ff02::1", WP_REACH_MULTICAST},
        {"4000::1", WP_REACH_RESERVED},
    };
    struct sockaddr_storage other = {.ss_family = AF_UNIX};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        if (reach_of(rows[i].address) != rows[i].reach) {
            fail_msg("%s is %s", rows[i].address,
                     wp_reach_text(reach_of(rows[i].address)));
        }
    }
    assert_int_equal(wp_reach_of((const struct sockaddr *)&other),
                     WP_REACH_RESERVED);
}

/* Goal: a network is public as a whole only if each address in it is. */
static void
test_all_public(void **state)
{
    static const char *const nets[] = {
        "0.0.0.0/0",  "8.0.0.0/7",   "10.0.0.0/8",  "11.0.0.0/8", "::/0",
        "2000::/3",   "2600::/12",   "192.0.0.0/8", "1.1.1.1",    "fd00::/8",
        "64.0.0.0/2", "128.0.0.0/4", "224.0.0.0/4", "2001::/16",  "2a00::/16",
    };
    struct wp_rng rng;

    (void)state;
    wp_rng_init(&rng, 7);
    for (size_t i = 0; i < WP_ARRAY_LEN(nets); i++) {
        struct wp_network net;
        bool all = true;

        assert_int_equal(wp_network_parse(wp_str_from(nets[i]), &net, NULL),
                         WP_OK);
        for (int k = 0; k < 20000; k++) {
            struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
            uint64_t bits[2] = {wp_rng_next(&rng), wp_rng_next(&rng)};

            memcpy(&in6.sin6_addr, bits, sizeof bits);
            for (unsigned b = 0; b < net.bits; b++) {
                uint8_t mask = (uint8_t)(0x80U >> (b % 8));
                uint8_t *to = &in6.sin6_addr.s6_addr[b / 8];

                *to = (uint8_t)((*to & ~mask) | (net.address[b / 8] & mask));
            }
            all = all &&
                  wp_reach_of((const struct sockaddr *)&in6) == WP_REACH_PUBLIC;
        }
        /* Sampling may miss a small hole; it never finds one that is none. */
        if (wp_reach_all_public(&net)) {
            assert_true(all);
        }
    }
    assert_true(wp_reach_all_public(&(struct wp_network){
        {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 1, 1, 1, 1}, 128}));
}

static const char *
name_of(const char *text)
{
    static struct wp_host host;
    const char *why;

    return wp_host_parse(wp_str_from(text), &host, &why) ? host.name : NULL;
}

/* Goal: all spellings of one host are one, and what is none is refused. */
static void
test_spellings(void **state)
{
    static const struct {
        const char *text;
        const char *name; /* NULL: refused. */
    } rows[] = {
        {"Example.ORG", "example.org"},
        {"example.org.", "example.org"},
        {"a-b.example", "a-b.example"},
        {"_dmarc.example.org", "_dmarc.example.org"},
        {"xn--bcher-kva.example", "xn--bcher-kva.example"},
        {"localhost", "localhost"},
        {"127.0.0.1", "127.0.0.1"},
        {"127.1", "127.0.0.1"},
        {"2130706433", "127.0.0.1"},
        {"0x7f000001", "127.0.0.1"},
        {"0X7F.1", "127.0.0.1"},
        {"017700000001", "127.0.0.1"},
        {"0251.0376.0251.0376", "169.254.169.254"},
        {"169.254.43518", "169.254.169.254"},
        {"127.0.0.1.", "127.0.0.1"},
        {"[::1]", "::1"},
        {"[::ffff:127.0.0.1]", "127.0.0.1"},
        {"[0:0:0:0:0:ffff:a9fe:a9fe]", "169.254.169.254"},
        {"", NULL},
        {".", NULL},
        {"..", NULL},
        {"a..b", NULL},
        {"example.org..", NULL},
        {"-a.example", NULL},
        {"a-.example", NULL},
        {"exa mple.org", NULL},
        {"user@example.org", NULL},
        {"example.org/", NULL},
        {"ex%61mple.org", NULL},
        {"b\xc3\xbc"
         "cher.example",
         NULL},
        {"::1", NULL},
        {"[::1", NULL},
        {"[fe80::1%eth0]", NULL},
        {"[127.0.0.1]", NULL},
        {"256.256.256.256", NULL},
        {"1.2.3.4.5", NULL},
        {"example.123", NULL},
        {"0x100000000", NULL},
        {"08.0.0.1", NULL},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        const char *name = name_of(rows[i].text);

        if ((name == NULL) != (rows[i].name == NULL) ||
            (name != NULL && strcmp(name, rows[i].name) != 0)) {
            fail_msg("'%s' is '%s'", rows[i].text, name != NULL ? name : "-");
        }
    }
    assert_null(name_of("a2345678901234567890123456789012345678901234567890"
                        "12345678901234.example"));
}

/* Goal: equal hosts are equal bytes, so that they can be compared and hashed. */
static void
test_one_form(void **state)
{
    struct wp_host once;
    struct wp_host again;
    const char *why;

    (void)state;
    memset(&once, 1, sizeof once);
    memset(&again, 2, sizeof again);
    assert_true(wp_host_parse(WP_STR("00000000000000000026"), &once, &why));
    assert_true(wp_host_parse(WP_STR("0.0.0.22"), &again, &why));
    assert_memory_equal(&once, &again, sizeof once);
}

/* Goal: each number is the address that it names, however it is written. */
static void
test_numbers(void **state)
{
    struct wp_rng rng;

    (void)state;
    wp_rng_init(&rng, 11);
    for (int i = 0; i < 2000; i++) {
        uint32_t number = (uint32_t)wp_rng_next(&rng);
        struct in_addr address = {htonl(number)};
        char expected[INET_ADDRSTRLEN];
        char texts[4][64];

        assert_non_null(
            inet_ntop(AF_INET, &address, expected, sizeof expected));
        (void)snprintf(texts[0], sizeof texts[0], "%u", number);
        (void)snprintf(texts[1], sizeof texts[1], "0x%x", number);
        (void)snprintf(texts[2], sizeof texts[2], "0%o", number);
        (void)snprintf(texts[3], sizeof texts[3], "0%o.0x%X", number >> 24,
                       number & 0xFFFFFF);
        for (size_t k = 0; k < WP_ARRAY_LEN(texts); k++) {
            assert_string_equal(name_of(texts[k]), expected);
        }
    }
}

/* Goal: ports are taken from behind the host, within brackets too. */
static void
test_ports(void **state)
{
    struct wp_host host;
    uint16_t port;
    const char *why;

    (void)state;
    assert_true(
        wp_host_port_parse(WP_STR("a.example:8443"), 0, &host, &port, &why));
    assert_int_equal(port, 8443);
    assert_true(wp_host_port_parse(WP_STR("[::1]:80"), 0, &host, &port, &why));
    assert_string_equal(host.name, "::1");
    assert_true(
        wp_host_port_parse(WP_STR("a.example"), 80, &host, &port, &why));
    assert_int_equal(port, 80);
    static const char *const bad[] = {
        "a.example", "a.example:",         "a.example:0", "a.example:65536",
        ":80",       "a.example:+80",      "a:b:80",      "a.example:443:443",
        "::1:80",    "a.example:00000443", "[::1]",
    };
    for (size_t i = 0; i < WP_ARRAY_LEN(bad); i++) {
        if (wp_host_port_parse(wp_str_from(bad[i]), 0, &host, &port, &why)) {
            fail_msg("'%s' was taken", bad[i]);
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reach),     cmocka_unit_test(test_all_public),
        cmocka_unit_test(test_spellings), cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_one_form),  cmocka_unit_test(test_ports),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
