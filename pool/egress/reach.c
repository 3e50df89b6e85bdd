#include "pool/egress/reach.h"

#include <netinet/in.h>
#include <string.h>

struct range {
    struct wp_network network;
    enum wp_reach reach;
};

#define V4(a, b, c, d, prefix, reach)                                          \
    {                                                                          \
        {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, a, b, c, d},               \
         96 + (prefix)},                                                       \
            WP_REACH_##reach                                                   \
    }

/* The first that has an address decides. */
static const struct range ranges[] = {
    V4(169, 254, 169, 254, 32, METADATA),
    V4(169, 254, 170, 2, 32, METADATA),
    V4(100, 100, 100, 200, 32, METADATA),
    V4(192, 0, 0, 192, 32, METADATA),
    V4(168, 63, 129, 16, 32, METADATA),
    V4(0, 0, 0, 0, 8, RESERVED),
    V4(10, 0, 0, 0, 8, PRIVATE),
    V4(100, 64, 0, 0, 10, SHARED),
    V4(127, 0, 0, 0, 8, LOOPBACK),
    V4(169, 254, 0, 0, 16, LINK_LOCAL),
    V4(172, 16, 0, 0, 12, PRIVATE),
    V4(192, 0, 0, 0, 24, RESERVED),
    V4(192, 0, 2, 0, 24, RESERVED),
    V4(192, 88, 99, 0, 24, TRANSLATED),
    V4(192, 168, 0, 0, 16, PRIVATE),
    V4(198, 18, 0, 0, 15, RESERVED),
    V4(198, 51, 100, 0, 24, RESERVED),
    V4(203, 0, 113, 0, 24, RESERVED),
    V4(224, 0, 0, 0, 4, MULTICAST),
    V4(240, 0, 0, 0, 4, RESERVED),
    V4(0, 0, 0, 0, 0, PUBLIC), /* All other IPv4. */
    {{{0xFD, 0, 0x0E, 0xC2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x02, 0x54}, 128},
     WP_REACH_METADATA},
    {{{0xFD, 0x20, 0, 0xCE, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x02, 0x54}, 128},
     WP_REACH_METADATA},
    {{{[15] = 1}, 128}, WP_REACH_LOOPBACK},
    {{{[15] = 0}, 128}, WP_REACH_RESERVED},
    {{{[15] = 0}, 96}, WP_REACH_TRANSLATED},
    {{{0, 0x64, 0xFF, 0x9B}, 96}, WP_REACH_TRANSLATED},
    {{{0, 0x64, 0xFF, 0x9B, 0, 1}, 48}, WP_REACH_TRANSLATED},
    {{{0x20, 0x01, 0, 0}, 32}, WP_REACH_TRANSLATED},
    {{{0x20, 0x01, 0, 0}, 23}, WP_REACH_RESERVED},
    {{{0x20, 0x01, 0x0D, 0xB8}, 32}, WP_REACH_RESERVED},
    {{{0x20, 0x02}, 16}, WP_REACH_TRANSLATED},
    {{{0x3F, 0xFF}, 20}, WP_REACH_RESERVED},
    {{{0x20}, 3}, WP_REACH_PUBLIC}, /* All other IPv6 that is given out. */
    {{{0xFC}, 7}, WP_REACH_PRIVATE},
    {{{0xFE, 0x80}, 10}, WP_REACH_LINK_LOCAL},
    {{{0xFE, 0xC0}, 10}, WP_REACH_PRIVATE},
    {{{0xFF}, 8}, WP_REACH_MULTICAST},
};

enum wp_reach
wp_reach_of(const struct sockaddr *address)
{
    for (size_t i = 0; i < WP_ARRAY_LEN(ranges); i++) {
        if (wp_network_has(&ranges[i].network, address)) {
            return ranges[i].reach;
        }
    }
    return WP_REACH_RESERVED;
}

const char *
wp_reach_text(enum wp_reach reach)
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

    return texts[reach];
}

bool
wp_reach_all_public(const struct wp_network *network)
{
    bool inside = false;

    for (size_t i = 0; i < WP_ARRAY_LEN(ranges); i++) {
        const struct wp_network *range = &ranges[i].network;

        if (ranges[i].reach == WP_REACH_PUBLIC) {
            inside = inside || wp_network_within(network, range);
        } else if (wp_network_within(network, range) ||
                   wp_network_within(range, network)) {
            return false;
        }
    }
    return inside;
}
