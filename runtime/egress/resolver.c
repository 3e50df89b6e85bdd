#include "runtime/egress/resolver.h"

#include <ares.h>
#include <event2/event.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/compiler.h"
#include "pool/base/list.h"

enum {
    QUERY_TIMEOUT_MS = 2000,
    QUERY_TRIES = 2,
};

/* A socket of the library's, watched as it asks. */
struct watch {
    struct wp_list node;
    struct wp_resolver *resolver;
    struct event *event;
    ares_socket_t fd;
};

struct wp_resolver {
    struct event_base *base;
    ares_channel channel;
    bool has_channel;
    struct event *timer;
    struct wp_list watches;
};

struct wp_lookup {
    struct event *ready;
    void (*done)(void *ctx, const struct wp_resolved *found);
    void *ctx;
    struct wp_resolved found;
    bool cancelled; /* Who asked is not to be told. */
};

static void
arm_timer(struct wp_resolver *resolver)
{
    struct timeval wait;

    if (ares_timeout(resolver->channel, NULL, &wait) != NULL) {
        (void)event_add(resolver->timer, &wait);
    } else {
        (void)event_del(resolver->timer);
    }
}

static void
on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct wp_resolver *resolver = arg;

    (void)fd;
    (void)what;
    ares_process_fd(resolver->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
    arm_timer(resolver);
}

static void
on_socket(evutil_socket_t fd, short what, void *arg)
{
    struct wp_resolver *resolver = arg;

    ares_process_fd(resolver->channel,
                    (what & EV_READ) != 0 ? fd : ARES_SOCKET_BAD,
                    (what & EV_WRITE) != 0 ? fd : ARES_SOCKET_BAD);
    arm_timer(resolver);
}

static void
watch_free(struct watch *watch)
{
    wp_list_remove(&watch->node);
    event_free(watch->event);
    free(watch);
}

/* The library wants to read from or write to fd, or has closed it. A socket
 * that cannot be watched runs into its query's timeout. */
static void
on_state(void *arg, ares_socket_t fd, int readable, int writable)
{
    struct wp_resolver *resolver = arg;
    short wanted =
        (short)((readable ? EV_READ : 0) | (writable ? EV_WRITE : 0));
    struct watch *watch;

    WP_LIST_FOREACH (node, &resolver->watches) {
        watch = WP_CONTAINER_OF(node, struct watch, node);
        if (watch->fd == fd) {
            watch_free(watch);
            break;
        }
    }
    watch = wanted != 0 ? calloc(1, sizeof *watch) : NULL;
    if (watch == NULL) {
        return;
    }
    watch->fd = fd;
    watch->event = event_new(resolver->base, fd, (short)(wanted | EV_PERSIST),
                             on_socket, resolver);
    if (watch->event == NULL || event_add(watch->event, NULL) != 0) {
        if (watch->event != NULL) {
            event_free(watch->event);
        }
        free(watch);
        return;
    }
    wp_list_push_back(&resolver->watches, &watch->node);
}

struct wp_resolver *
wp_resolver_create(struct event_base *base, const char *servers,
                   struct wp_err *err)
{
    struct wp_resolver *resolver = calloc(1, sizeof *resolver);
    struct ares_options options = {
        .flags = ARES_FLAG_NOSEARCH,
        .timeout = QUERY_TIMEOUT_MS,
        .tries = QUERY_TRIES,
        .sock_state_cb = on_state,
        .sock_state_cb_data = resolver,
    };
    int status = ARES_ENOMEM;

    if (resolver != NULL) {
        resolver->base = base;
        wp_list_init(&resolver->watches);
        resolver->timer = evtimer_new(base, on_timer, resolver);
    }
    if (resolver != NULL && resolver->timer != NULL) {
        status = ares_library_init(ARES_LIB_INIT_ALL);
    }
    if (status == ARES_SUCCESS) {
        status = ares_init_options(&resolver->channel, &options,
                                   ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS |
                                       ARES_OPT_TRIES | ARES_OPT_SOCK_STATE_CB);
        resolver->has_channel = status == ARES_SUCCESS;
    }
    if (status == ARES_SUCCESS && servers != NULL) {
        status = ares_set_servers_ports_csv(resolver->channel, servers);
    }
    if (status != ARES_SUCCESS) {
        (void)wp_err_set(err, WP_INVALID_ARGUMENT, "name servers%s%s: %s",
                         servers != NULL ? " " : "",
                         servers != NULL ? servers : "", ares_strerror(status));
        wp_resolver_destroy(resolver);
        return NULL;
    }
    return resolver;
}

void
wp_resolver_destroy(struct wp_resolver *resolver)
{
    if (resolver == NULL) {
        return;
    }
    if (resolver->has_channel) {
        ares_destroy(resolver->channel);
    }
    while (!wp_list_empty(&resolver->watches)) {
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it leaves the list. */
        watch_free(WP_CONTAINER_OF(resolver->watches.next, struct watch, node));
    }
    if (resolver->timer != NULL) {
        event_free(resolver->timer);
    }
    free(resolver);
}

static void
lookup_free(struct wp_lookup *lookup)
{
    event_free(lookup->ready);
    free(lookup);
}

static void
on_ready(evutil_socket_t fd, short what, void *arg)
{
    struct wp_lookup *lookup = arg;

    (void)fd;
    (void)what;
    if (!lookup->cancelled) {
        lookup->done(lookup->ctx, &lookup->found);
    }
    lookup_free(lookup);
}

static void
on_answer(void *arg, int status, int timeouts, struct ares_addrinfo *answer)
{
    struct wp_lookup *lookup = arg;
    struct wp_resolved *found = &lookup->found;

    (void)timeouts;
    for (const struct ares_addrinfo_node *node = answer != NULL ? answer->nodes
                                                                : NULL;
         node != NULL && found->len < WP_RESOLVED_MAX; node = node->ai_next) {
        if ((size_t)node->ai_addrlen <= sizeof found->addresses[0]) {
            memcpy(&found->addresses[found->len++], node->ai_addr,
                   (size_t)node->ai_addrlen);
        }
    }
    if (found->len == 0) {
        found->error = status == ARES_SUCCESS ? "it has no address"
                                              : ares_strerror(status);
    }
    ares_freeaddrinfo(answer);
    if (status == ARES_EDESTRUCTION) {
        lookup_free(lookup); /* Cancelled before, as the header demands. */
        return;
    }
    /* It may be known at once; who asked is told from the loop. */
    event_active(lookup->ready, EV_TIMEOUT, 0);
}

struct wp_lookup *
wp_resolver_lookup(struct wp_resolver *resolver, const char *name,
                   void (*done)(void *ctx, const struct wp_resolved *found),
                   void *ctx)
{
    const struct ares_addrinfo_hints hints = {
        .ai_family = AF_UNSPEC,
        .ai_socktype = SOCK_STREAM,
    };
    struct wp_lookup *lookup = calloc(1, sizeof *lookup);

    if (lookup != NULL) {
        lookup->ready = event_new(resolver->base, -1, 0, on_ready, lookup);
    }
    if (lookup == NULL || lookup->ready == NULL) {
        free(lookup);
        return NULL;
    }
    lookup->done = done;
    lookup->ctx = ctx;
    ares_getaddrinfo(resolver->channel, name, NULL, &hints, on_answer, lookup);
    arm_timer(resolver);
    return lookup;
}

void
wp_lookup_cancel(struct wp_lookup *lookup)
{
    lookup->cancelled = true;
}
