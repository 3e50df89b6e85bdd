/* runtime/egress/client.c - who a connection is of, and what one client may
 * take of what all share: connections, and lines of the log. */
#include "runtime/egress/egress_impl.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "pool/base/address.h"
#include "pool/base/log.h"
#include "pool/base/rng.h"
#include "pool/base/siphash.h"

enum {
    LINES_PER_SECOND = 50,
};

static const char too_many[] = "too many connections at once";

/* --- Lines of the log --- */

void
wp_egress_lines_flush(struct wp_egress_lines *lines)
{
    if (lines->unsaid > 0) {
        wp_log_warn("egress not told of", wp_kv_str("sandbox", lines->who),
                    wp_kv_int("requests", lines->unsaid));
        lines->unsaid = 0;
    }
}

bool
wp_egress_may_log(struct wp_egress *egress,
                  const struct wp_egress_client *client, const char *who)
{
    struct wp_egress_lines *lines =
        client->source->name[0] != '\0'
            ? &client->source->lines
            : &egress->guest_lines[client->ticket.entry];
    int64_t now_ns = wp_clock_mono_ns(wp_clock_system());

    if (now_ns - lines->since_ns >= WP_NS_PER_S) {
        lines->since_ns = now_ns;
        lines->n = 0;
        wp_egress_lines_flush(lines);
    }
    if (lines->n == LINES_PER_SECOND) {
        lines->unsaid++;
        (void)snprintf(lines->who, sizeof lines->who, "%s", who);
        return false;
    }
    lines->n++;
    return true;
}

/* --- Connections --- */

/* Each address is one: of Pods many may be in one network. */
static struct wp_peer
guest_of(const struct wp_egress *egress, const struct wp_address *address)
{
    const struct sockaddr_in6 *v6 =
        (const struct sockaddr_in6 *)(const void *)&address->sa;
    struct wp_peer peer =
        wp_peer_from_address((const struct sockaddr *)&address->sa);

    if (address->sa.ss_family == AF_INET6 && peer.kind == WP_PEER_IPV6) {
        peer.id = wp_siphash128(egress->guest_key, &v6->sin6_addr,
                                sizeof v6->sin6_addr)
                      .low;
    }
    return peer;
}

/* Names the client of a socket that is for many, by its address. */
static struct wp_peer
meet(const struct wp_egress *egress, struct wp_egress_client *client, int fd,
     const struct sockaddr *sa)
{
    struct wp_address address = {.is_unix = sa->sa_family == AF_UNIX};

    if (address.is_unix) {
        struct ucred cred = {.uid = (uid_t)-1};
        socklen_t len = sizeof cred;

        (void)getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len);
        (void)snprintf(client->who, sizeof client->who, "uid %u",
                       (unsigned)cred.uid);
        return wp_peer_from_uid(cred.uid, false);
    }
    address.len = sa->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                            : sizeof(struct sockaddr_in);
    memcpy(&address.sa, sa, address.len);
    client->address = address.sa;
    (void)wp_address_format(&address, client->who, sizeof client->who);
    return guest_of(egress, &address);
}

const char *
wp_egress_admit(struct wp_http_req *conn, int fd, const struct sockaddr *sa)
{
    struct wp_egress *egress = wp_http_app(conn);
    struct wp_egress_client *client = wp_http_peer(conn);
    struct wp_egress_source *source = egress->sources[wp_http_roles(conn)];

    client->source = source;
    (void)snprintf(client->who, sizeof client->who, "%s", source->name);
    if (source->name[0] == '\0') {
        return wp_peer_limits_enter(egress->guests,
                                    meet(egress, client, fd, sa),
                                    &client->ticket) == WP_PEER_ADMITTED
                   ? NULL
                   : too_many;
    }
    if (source->conns >= egress->config.source_conns_max) {
        return too_many;
    }
    source->conns++;
    return NULL;
}

void
wp_egress_left(struct wp_http_req *conn)
{
    struct wp_egress *egress = wp_http_app(conn);
    struct wp_egress_client *client = wp_http_peer(conn);

    if (client->source->name[0] == '\0') {
        wp_peer_limits_leave(egress->guests, client->ticket);
    } else {
        client->source->conns--;
    }
}

/* --- Guests --- */

bool
wp_egress_guests_init(struct wp_egress *egress)
{
    const struct wp_peer_limits_config limits = {
        .all_max = egress->config.conns_max,
        .peer_max = egress->config.source_conns_max,
    };
    struct wp_err err;

    wp_random_bytes(&egress->guest_key, sizeof egress->guest_key);
    egress->guests = wp_peer_limits_create(&limits, &err);
    if (egress->guests == NULL) {
        return false;
    }
    egress->guest_lines = calloc(wp_peer_limits_entries(egress->guests),
                                 sizeof *egress->guest_lines);
    return egress->guest_lines != NULL;
}

void
wp_egress_guests_fini(struct wp_egress *egress)
{
    for (uint32_t i = 0; egress->guest_lines != NULL &&
                         i < wp_peer_limits_entries(egress->guests);
         i++) {
        wp_egress_lines_flush(&egress->guest_lines[i]);
    }
    free(egress->guest_lines);
    wp_peer_limits_destroy(egress->guests);
}
