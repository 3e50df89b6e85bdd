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

/* Both ends of each range, and what is beside it. */
static const struct {
    const char *address;
    enum wp_reach reach;
} reaches[] = {
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
    {"0.255.255.255", WP_REACH_RESERVED},
    {"1.0.0.0", WP_REACH_PUBLIC},
    {"100.100.100.199", WP_REACH_SHARED},
    {"100.100.100.201", WP_REACH_SHARED},
    {"126.255.255.255", WP_REACH_PUBLIC},
    {"127.0.0.0", WP_REACH_LOOPBACK},
    {"127.255.255.255", WP_REACH_LOOPBACK},
    {"128.0.0.0", WP_REACH_PUBLIC},
    {"168.63.129.15", WP_REACH_PUBLIC},
    {"168.63.129.16", WP_REACH_METADATA},
    {"168.63.129.17", WP_REACH_PUBLIC},
    {"169.253.255.255", WP_REACH_PUBLIC},
    {"169.254.0.0", WP_REACH_LINK_LOCAL},
    {"169.254.169.253", WP_REACH_LINK_LOCAL},
    {"169.254.169.255", WP_REACH_LINK_LOCAL},
    {"169.254.170.1", WP_REACH_LINK_LOCAL},
    {"169.254.170.3", WP_REACH_LINK_LOCAL},
    {"169.254.255.255", WP_REACH_LINK_LOCAL},
    {"169.255.0.0", WP_REACH_PUBLIC},
    {"191.255.255.255", WP_REACH_PUBLIC},
    {"192.0.0.0", WP_REACH_RESERVED},
    {"192.0.0.191", WP_REACH_RESERVED},
    {"192.0.0.192", WP_REACH_METADATA},
    {"192.0.0.193", WP_REACH_RESERVED},
    {"192.0.0.255", WP_REACH_RESERVED},
    {"192.0.1.0", WP_REACH_PUBLIC},
    {"192.0.1.255", WP_REACH_PUBLIC},
    {"192.0.2.0", WP_REACH_RESERVED},
    {"192.0.2.255", WP_REACH_RESERVED},
    {"192.0.3.0", WP_REACH_PUBLIC},
    {"192.88.98.255", WP_REACH_PUBLIC},
    {"192.88.99.0", WP_REACH_TRANSLATED},
    {"192.88.99.255", WP_REACH_TRANSLATED},
    {"192.88.100.0", WP_REACH_PUBLIC},
    {"192.167.255.255", WP_REACH_PUBLIC},
    {"192.168.0.0", WP_REACH_PRIVATE},
    {"192.168.255.255", WP_REACH_PRIVATE},
    {"198.17.255.255", WP_REACH_PUBLIC},
    {"198.18.0.0", WP_REACH_RESERVED},
    {"198.19.255.255", WP_REACH_RESERVED},
    {"198.51.99.255", WP_REACH_PUBLIC},
    {"198.51.100.0", WP_REACH_RESERVED},
    {"198.51.100.255", WP_REACH_RESERVED},
    {"198.51.101.0", WP_REACH_PUBLIC},
    {"203.0.112.255", WP_REACH_PUBLIC},
    {"203.0.113.0", WP_REACH_RESERVED},
    {"203.0.113.255", WP_REACH_RESERVED},
    {"203.0.114.0", WP_REACH_PUBLIC},
    {"223.255.255.255", WP_REACH_PUBLIC},
    {"224.0.0.0", WP_REACH_MULTICAST},
    {"240.0.0.0", WP_REACH_RESERVED},
    {"::2", WP_REACH_TRANSLATED},
    {"::ffff:ffff", WP_REACH_TRANSLATED},
    {"::1:0:0", WP_REACH_RESERVED},
    {"::fffe:1.1.1.1", WP_REACH_RESERVED},
    {"64:ff9b::", WP_REACH_TRANSLATED},
    {"64:ff9b::ffff:ffff", WP_REACH_TRANSLATED},
    {"64:ff9b::1:0:0", WP_REACH_RESERVED},
    {"64:ff9b:1:ffff:ffff:ffff:ffff:ffff", WP_REACH_TRANSLATED},
    {"64:ff9b:2::", WP_REACH_RESERVED},
    {"1fff:ffff::", WP_REACH_RESERVED},
    {"2000::", WP_REACH_PUBLIC},
    {"2001::", WP_REACH_TRANSLATED},
    {"2001:0:ffff:ffff:ffff:ffff:ffff:ffff", WP_REACH_TRANSLATED},
    {"2001:1::", WP_REACH_RESERVED},
    {"2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", WP_REACH_RESERVED},
    {"2001:200::", WP_REACH_PUBLIC},
    {"2001:db7:ffff::", WP_REACH_PUBLIC},
    {"2001:db8::", WP_REACH_RESERVED},
    {"2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", WP_REACH_RESERVED},
    {"2001:db9::", WP_REACH_PUBLIC},
    {"2001:ffff::", WP_REACH_PUBLIC},
    {"2002::", WP_REACH_TRANSLATED},
    {"2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", WP_REACH_TRANSLATED},
    {"2003::", WP_REACH_PUBLIC},
    {"3ffe:ffff::", WP_REACH_PUBLIC},
    {"3fff::", WP_REACH_RESERVED},
    {"3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", WP_REACH_RESERVED},
    {"3fff:1000::", WP_REACH_PUBLIC},
    {"3fff:ffff::", WP_REACH_PUBLIC},
    {"4000::", WP_REACH_RESERVED},
    {"fbff:ffff::", WP_REACH_RESERVED},
    {"fc00::", WP_REACH_PRIVATE},
    {"fd00:ec2::253", WP_REACH_PRIVATE},
    {"fd00:ec2::255", WP_REACH_PRIVATE},
    {"fd20:ce::253", WP_REACH_PRIVATE},
    {"fd20:ce::254", WP_REACH_METADATA},
    {"fd20:ce::255", WP_REACH_PRIVATE},
    {"fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", WP_REACH_PRIVATE},
    {"fe00::", WP_REACH_RESERVED},
    {"fe7f:ffff::", WP_REACH_RESERVED},
    {"fe80::", WP_REACH_LINK_LOCAL},
    {"febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff", WP_REACH_LINK_LOCAL},
    {"fec0::", WP_REACH_PRIVATE},
    {"feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", WP_REACH_PRIVATE},
    {"ff00::", WP_REACH_MULTICAST},
    {"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", WP_REACH_MULTICAST},
};

/* Goal: what is not public is known as what it is, at both ends of each
 * range. */
static void
test_reach(void **state)
{
    struct sockaddr_storage other = {.ss_family = AF_UNIX};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(reaches); i++) {
        if (reach_of(reaches[i].address) != reaches[i].reach) {
            fail_msg("%s is %s", reaches[i].address,
                     wp_reach_text(reach_of(reaches[i].address)));
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
}

/* Goal: public networks are taken up to the border of the next other one. */
static void
test_public_networks(void **state)
{
    static const struct {
        const char *network;
        bool is_public;
    } rows[] = {
        {"1.1.1.1", true},
        {"8.0.0.0/7", true},
        {"11.0.0.0/8", true},
        {"8.0.0.0/6", false},
        {"10.0.0.0/8", false},
        {"10.1.0.0/16", false},
        {"0.0.0.0/0", false},
        {"169.254.169.254", false},
        {"192.0.0.0/23", false},
        {"192.0.1.0/24", true},
        {"192.88.99.0/24", false},
        {"192.88.98.0/24", true},
        {"172.32.0.0/11", true},
        {"172.0.0.0/12", true},
        {"172.16.0.0/12", false},
        {"2600::/12", true},
        {"2a00::/16", true},
        {"2000::/3", false},
        {"2001::/16", false},
        {"2001:200::/23", true},
        {"2001:db8::/32", false},
        {"3fff::/20", false},
        {"3fff:1000::/20", true},
        /* Nobody was given these. */
        {"4000::/3", false},
        {"fd00::/8", false},
        {"::/0", false},
        {"::", false},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_network net;

        assert_int_equal(
            wp_network_parse(wp_str_from(rows[i].network), &net, NULL), WP_OK);
        if (wp_reach_all_public(&net) != rows[i].is_public) {
            fail_msg("%s: not %d", rows[i].network, rows[i].is_public);
        }
    }
}

static void
test_reach_texts(void **state)
{
    static const char *const texts[] = {
        [WP_REACH_PUBLIC] = "public",
        [WP_REACH_METADATA] = "metadata",
        [WP_REACH_LOOPBACK] = "loopback",
        [WP_REACH_LINK_LOCAL] = "link-local",
        [WP_REACH_PRIVATE] = "private",
        [WP_REACH_SHARED] = "shared",
        [WP_REACH_MULTICAST] = "multicast",
        [WP_REACH_TRANSLATED] = "translated",
        [WP_REACH_RESERVED] = "reserved",
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(texts); i++) {
        assert_string_equal(wp_reach_text((enum wp_reach)i), texts[i]);
    }
}

/* The longest that a label may be. */
#define LABEL_63                                                               \
    "a23456789012345678901234567890123456789012345678901234567890123"

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
        {"ABCXYZ.abcxyz0189", "abcxyz.abcxyz0189"},
        {"z", "z"},
        {"a--z.9a", "a--z.9a"},
        {"0xg", "0xg"},
        {"0xf.example", "0xf.example"},
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
        {"-", NULL},
        {"a.-", NULL},
        {"[", NULL},
        {"[]", NULL},
        {"@", NULL},
        {"`", NULL},
        {"{", NULL},
        {"/", NULL},
        {":", NULL},
        {"0x", NULL},
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
    assert_string_equal(name_of(LABEL_63), LABEL_63);
    assert_string_equal(name_of(LABEL_63 ".b"), LABEL_63 ".b");
    assert_null(name_of("x" LABEL_63 ".example"));
}

/* Goal: the longest name is taken, with its dot; a longer one is none. */
static void
test_longest(void **state)
{
    struct wp_host host;
    char text[sizeof host.name + 1];
    const char *why = "";

    (void)state;
    memset(text, 'a', sizeof text);
    for (size_t i = 63; i < sizeof text; i += 64) {
        text[i] = '.';
    }
    text[sizeof host.name - 1] = '.';
    text[sizeof host.name - 2] = 'a';
    assert_true(
        wp_host_parse((struct wp_str){text, sizeof host.name}, &host, &why));
    assert_int_equal(strlen(host.name), sizeof host.name - 1);
    assert_memory_equal(host.name, text, sizeof host.name - 1);
    text[sizeof host.name - 1] = 'a';
    assert_false(
        wp_host_parse((struct wp_str){text, sizeof host.name}, &host, &why));
}

/* Goal: who is refused is told what of. */
static void
test_reasons(void **state)
{
    static const struct {
        const char *text;
        const char *why;
    } rows[] = {
        {"[1.2.3.4]:1", "an IPv6 address was expected in the brackets"},
        {"[]:1", "a host was expected: labels of letters, digits and hyphens, "
                 "international ones as xn--..., or an address"},
        {"a b:1", "a host was expected: labels of letters, digits and "
                  "hyphens, international ones as xn--..., or an address"},
        {"1.2.3.256:1", "the host ends in a number but is no IPv4 address"},
        {"a.b", "a port was expected behind the host"},
        {"a.b:", "a port from 1 to 65535 was expected behind the host"},
        {"a.b:0", "a port from 1 to 65535 was expected behind the host"},
        {"a.b:65536", "a port from 1 to 65535 was expected behind the host"},
        {"a.b:000001", "a port from 1 to 65535 was expected behind the host"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_host host;
        uint16_t port;
        const char *why = "";

        assert_false(wp_host_port_parse(wp_str_from(rows[i].text), 0, &host,
                                        &port, &why));
        assert_string_equal(why, rows[i].why);
    }
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
    assert_true(
        wp_host_port_parse(WP_STR("a.example:1"), 80, &host, &port, &why));
    assert_int_equal(port, 1);
    assert_string_equal(host.name, "a.example");
    assert_true(wp_host_port_parse(WP_STR("a9:65535"), 80, &host, &port, &why));
    assert_int_equal(port, 65535);
    assert_true(wp_host_port_parse(WP_STR("a9:00001"), 80, &host, &port, &why));
    assert_int_equal(port, 1);
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
        cmocka_unit_test(test_reach),
        cmocka_unit_test(test_all_public),
        cmocka_unit_test(test_public_networks),
        cmocka_unit_test(test_reach_texts),
        cmocka_unit_test(test_longest),
        cmocka_unit_test(test_reasons),
        cmocka_unit_test(test_spellings),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_one_form),
        cmocka_unit_test(test_ports),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
