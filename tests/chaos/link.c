#include "tests/chaos/link.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/assert.h"
#include "pool/base/clock.h"

enum {
    ARENA_SIZE = 16384
};

/* Between two tries to connect. */
#define RECONNECT_NS (20 * WP_NS_PER_MS)

struct call {
    struct wp_h2_call h2;
    uint8_t request[WP_H2_FRAME_HEAD + WP_H2_MESSAGE_MAX];
    uint8_t reply[WP_H2_FRAME_HEAD + WP_H2_MESSAGE_MAX];
    struct wp_list node; /* In its replica's calls, or among the free. */
    struct wp_link *link;
    void *owner;
    int64_t timeout_at_ns;
    struct wp_link_call view;
};

struct replica {
    const char *target;
    struct wp_h2 *h2; /* NULL: not connected. */
    struct wp_list calls;
    int64_t retry_at_ns;
    bool cut; /* To be dropped when no callback is running. */
};

struct wp_link {
    struct wp_link_config config;
    struct replica replicas[WP_LINK_REPLICAS_MAX];
    unsigned methods[WP_CHAOS_DONE];
    struct wp_list free;
    int64_t next_look_ns; /* When a call may time out or a replica be tried. */
    char arena_memory[ARENA_SIZE];
    struct wp_arena arena;
};

static int64_t
now_ns(void)
{
    return wp_clock_mono_ns(wp_clock_system());
}

static void
note(struct wp_link *link, const struct wp_chaos_event *event)
{
    if (!wp_chaos_write(link->config.history_fd, event)) {
        perror("chaos_client: history");
        exit(2); /* A history with holes proves nothing. */
    }
}

/* --- Calls --- */

/* Takes the answer apart. A status of OK with bytes that make no sense becomes
 * INTERNAL, which the checker does not forgive. */
static void
read_reply(struct call *call)
{
    struct wp_arena *arena = &call->link->arena;
    const uint8_t *bytes = call->h2.reply + WP_H2_FRAME_HEAD;
    struct wp_link_call *view = &call->view;
    enum wp_status status = WP_INTERNAL;
    struct wp_wire_claim_response claim;
    struct wp_wire_renew_response renew;
    struct wp_wire_release_response release;
    struct wp_claim_info info;
    int64_t deadline_ms = 0;

    wp_arena_reset(arena);
    switch (view->what) {
    case WP_CHAOS_CLAIM:
        status = wp_wire_unpack_claim_response(arena, bytes, call->h2.reply_len,
                                               &claim, NULL);
        if (status == WP_OK) {
            view->grant = claim.grant;
            view->token = claim.grant->token;
            view->replayed = claim.replayed;
            deadline_ms = claim.grant->deadline_wall_ms;
        }
        break;
    case WP_CHAOS_RENEW:
        status = wp_wire_unpack_renew_response(arena, bytes, call->h2.reply_len,
                                               &renew, NULL);
        if (status == WP_OK) {
            struct wp_grant *grant = wp_arena_alloc(arena, sizeof *grant);

            WP_ASSERT(grant != NULL);
            memset(grant, 0, sizeof *grant);
            memcpy(grant->token, renew.token, WP_TOKEN_LEN);
            grant->fence = renew.fence;
            view->grant = grant;
            view->token = grant->token;
            deadline_ms = renew.deadline_wall_ms;
        }
        break;
    case WP_CHAOS_RELEASE:
        status = wp_wire_unpack_release_response(
            arena, bytes, call->h2.reply_len, &release, NULL);
        view->was_held = status == WP_OK && release.was_held;
        break;
    case WP_CHAOS_GET:
        status = wp_wire_unpack_claim_info(arena, bytes, call->h2.reply_len,
                                           &info, NULL);
        if (status == WP_OK) {
            struct wp_grant *grant = wp_arena_alloc(arena, sizeof *grant);

            WP_ASSERT(grant != NULL);
            memset(grant, 0, sizeof *grant);
            memcpy(grant->endpoint, info.endpoint, sizeof grant->endpoint);
            grant->fence = info.fence;
            view->grant = grant;
            deadline_ms = info.deadline_wall_ms;
        }
        break;
    case WP_CHAOS_DONE:
    case WP_CHAOS_ENDED:
    case WP_CHAOS_LEFT:
    default:
        WP_ASSERT(false);
    }
    view->deadline_ns = now_ns() + deadline_ms * WP_NS_PER_MS -
                        wp_clock_wall_ns(wp_clock_system());
    if (status != WP_OK) {
        view->status = 13;
    }
}

/* Ends a call in whatever way view.status says. */
static void
finish(struct call *call)
{
    struct wp_link *link = call->link;
    struct wp_link_call *view = &call->view;
    struct wp_chaos_event event = {.started_ns = view->started_ns,
                                   .claim = view->claim,
                                   .what = (uint8_t)view->what,
                                   .edge = WP_CHAOS_END,
                                   .replica = view->replica};

    wp_list_remove(&call->node);
    if (view->status == 0) {
        read_reply(call);
    }
    event.status = view->status;
    event.at_ns = now_ns();
    if (view->grant != NULL) {
        event.fence = view->grant->fence;
        event.deadline_ns = view->deadline_ns;
    }
    event.flags = (uint8_t)((view->replayed ? WP_CHAOS_REPLAYED : 0) |
                            (view->was_held ? WP_CHAOS_WAS_HELD : 0));
    link->config.done(call->owner, view, &event);
    note(link, &event);
    wp_list_push_back(&link->free, &call->node);
}

static void
on_answer(struct wp_h2_call *h2)
{
    struct call *call = WP_CONTAINER_OF(h2, struct call, h2);

    call->view.status = h2->status == WP_H2_NO_STATUS ? WP_CHAOS_NO_ANSWER
                                                      : (uint8_t)h2->status;
    finish(call);
}

static struct call *
new_call(struct wp_link *link, void *owner, int replica, uint64_t claim,
         enum wp_chaos_what what)
{
    struct wp_list *node = wp_list_pop_front(&link->free);
    struct call *call;

    if (node != NULL) {
        call = WP_CONTAINER_OF(node, struct call, node);
    } else {
        call = malloc(sizeof *call);
        WP_ASSERT(call != NULL);
    }
    call->link = link;
    call->owner = owner;
    call->view = (struct wp_link_call){
        .what = what, .replica = (uint8_t)replica, .claim = claim};
    call->h2 = (struct wp_h2_call){
        .method = link->methods[what],
        .done = on_answer,
        .request = call->request,
        .reply = call->reply,
        .reply_cap = sizeof call->reply,
    };
    return call;
}

/* ttl_ns: of a CLAIM. */
static void
start(struct call *call, int64_t timeout_ns, int64_t ttl_ns)
{
    struct wp_link *link = call->link;
    struct replica *replica = &link->replicas[call->view.replica];
    struct wp_chaos_event event = {.claim = call->view.claim,
                                   .deadline_ns = ttl_ns,
                                   .what = (uint8_t)call->view.what,
                                   .edge = WP_CHAOS_START,
                                   .replica = call->view.replica};

    event.at_ns = call->view.started_ns = now_ns();
    call->timeout_at_ns = wp_time_add(event.at_ns, timeout_ns);
    if (call->timeout_at_ns < link->next_look_ns) {
        link->next_look_ns = call->timeout_at_ns;
    }
    note(link, &event);
    wp_list_push_back(&replica->calls, &call->node);
    WP_ASSERT(wp_h2_start(replica->h2, &call->h2));
}

#define DEFINE_START(name, kind, type)                                         \
    void wp_link_##name(struct wp_link *link, void *owner, int replica,        \
                        uint64_t claim, const struct type *request,            \
                        int64_t timeout_ns)                                    \
    {                                                                          \
        struct call *call = new_call(link, owner, replica, claim, kind);       \
                                                                               \
        call->h2.request_len =                                                 \
            PACK_##name(request, call->h2.request + WP_H2_FRAME_HEAD);         \
        start(call, timeout_ns, TTL_NS_##name(request));                       \
    }
#define TTL_NS_claim(request) ((request)->ttl_ms * WP_NS_PER_MS)
#define TTL_NS_renew(request) 0
#define TTL_NS_release(request) 0
#define TTL_NS_get(request) 0
#define PACK_claim wp_wire_pack_claim_request
#define PACK_renew wp_wire_pack_renew_request
#define PACK_release wp_wire_pack_release_request
#define PACK_get wp_wire_pack_get_claim_request

DEFINE_START(claim, WP_CHAOS_CLAIM, wp_wire_claim_request)
DEFINE_START(renew, WP_CHAOS_RENEW, wp_wire_renew_request)
DEFINE_START(release, WP_CHAOS_RELEASE, wp_wire_release_request)
DEFINE_START(get, WP_CHAOS_GET, wp_wire_get_claim_request)

void
wp_link_claim_over(struct wp_link *link, uint64_t claim)
{
    const struct wp_chaos_event event = {
        .at_ns = now_ns(), .claim = claim, .what = WP_CHAOS_DONE};

    note(link, &event);
}

/* --- Connections --- */

static void
drop(struct wp_link *link, struct replica *replica)
{
    struct wp_list calls;
    struct wp_list *node;

    wp_h2_close(replica->h2);
    replica->h2 = NULL;
    replica->cut = false;
    replica->retry_at_ns = now_ns() + RECONNECT_NS;
    link->next_look_ns = 0;
    /* An owner may start its next call at once, on another replica. */
    wp_list_init(&calls);
    while ((node = wp_list_pop_front(&replica->calls)) != NULL) {
        wp_list_push_back(&calls, node);
    }
    while ((node = wp_list_pop_front(&calls)) != NULL) {
        struct call *call = WP_CONTAINER_OF(node, struct call, node);

        call->view.status = WP_CHAOS_NO_ANSWER;
        finish(call);
    }
}

static void
connect_replica(struct wp_link *link, struct replica *replica)
{
    static const char *const paths[WP_CHAOS_DONE] = {
        [WP_CHAOS_CLAIM] = "/warmpool.v1.Allocator/Claim",
        [WP_CHAOS_RENEW] = "/warmpool.v1.Allocator/Renew",
        [WP_CHAOS_RELEASE] = "/warmpool.v1.Allocator/Release",
        [WP_CHAOS_GET] = "/warmpool.v1.Allocator/GetClaim",
    };
    struct wp_err err;

    replica->h2 = wp_h2_connect(replica->target, 1, &err);
    if (replica->h2 == NULL) {
        replica->retry_at_ns = now_ns() + RECONNECT_NS;
        return;
    }
    for (int i = WP_CHAOS_CLAIM; i < WP_CHAOS_DONE; i++) {
        link->methods[i] = wp_h2_method(replica->h2, paths[i]);
    }
}

int
wp_link_choose(struct wp_link *link, uint64_t r, int other)
{
    int n = (int)link->config.n_targets;
    int last = -1;

    for (int i = 0; i < n; i++) {
        int at = (int)((r + (uint64_t)i) % (uint64_t)n);

        if (link->replicas[at].h2 != NULL && !link->replicas[at].cut) {
            if (at != other) {
                return at;
            }
            last = at;
        }
    }
    return last;
}

void
wp_link_cut(struct wp_link *link, int replica)
{
    link->replicas[replica].cut = true;
    link->next_look_ns = 0;
}

/* --- The turn --- */

/* Gives up calls whose time is over, drops and makes connections; says when to
 * look again. */
static void
look(struct wp_link *link, int64_t at_ns)
{
    link->next_look_ns = WP_TIME_NEVER;
    for (unsigned i = 0; i < link->config.n_targets; i++) {
        struct replica *replica = &link->replicas[i];
        struct wp_list over;
        struct wp_list *node;

        if (replica->h2 != NULL && replica->cut) {
            drop(link, replica);
        }
        if (replica->h2 == NULL && replica->retry_at_ns <= at_ns) {
            connect_replica(link, replica);
        }
        if (replica->h2 == NULL && replica->retry_at_ns < link->next_look_ns) {
            link->next_look_ns = replica->retry_at_ns;
        }
        wp_list_init(&over);
        for (node = replica->calls.next; node != &replica->calls;) {
            struct call *call = WP_CONTAINER_OF(node, struct call, node);

            node = node->next;
            if (call->timeout_at_ns <= at_ns) {
                wp_list_remove(&call->node);
                wp_list_push_back(&over, &call->node);
            } else if (call->timeout_at_ns < link->next_look_ns) {
                link->next_look_ns = call->timeout_at_ns;
            }
        }
        while ((node = wp_list_pop_front(&over)) != NULL) {
            struct call *call = WP_CONTAINER_OF(node, struct call, node);

            wp_h2_cancel(replica->h2, &call->h2);
            call->view.status = WP_CHAOS_NO_ANSWER;
            finish(call);
        }
    }
}

static void
wait_for_any(struct wp_link *link, int64_t until_ns)
{
    struct pollfd fds[WP_LINK_REPLICAS_MAX];
    struct timespec limit = {0, 0};
    nfds_t n = 0;
    int64_t left_ns = until_ns - now_ns();

    for (unsigned i = 0; i < link->config.n_targets; i++) {
        if (link->replicas[i].h2 != NULL) {
            fds[n++] =
                (struct pollfd){wp_h2_fd(link->replicas[i].h2), POLLIN, 0};
        }
    }
    if (left_ns > 0) {
        limit.tv_sec = left_ns / WP_NS_PER_S;
        limit.tv_nsec = left_ns % WP_NS_PER_S;
    }
    (void)ppoll(fds, n, &limit, NULL);
}

void
wp_link_turn(struct wp_link *link, int64_t until_ns)
{
    struct wp_err err;

    for (int waited = 0; waited < 2; waited++) {
        for (unsigned i = 0; i < link->config.n_targets; i++) {
            struct replica *replica = &link->replicas[i];

            if (replica->h2 != NULL &&
                wp_h2_turn(replica->h2, 0, &err) != WP_OK) {
                drop(link, replica);
            }
        }
        if (link->next_look_ns <= now_ns()) {
            look(link, now_ns());
        }
        if (waited == 0) {
            wait_for_any(link, until_ns < link->next_look_ns
                                   ? until_ns
                                   : link->next_look_ns);
        }
    }
}

struct wp_link *
wp_link_create(const struct wp_link_config *config)
{
    struct wp_link *link = calloc(1, sizeof *link);

    WP_ASSERT(link != NULL && config->n_targets <= WP_LINK_REPLICAS_MAX);
    link->config = *config;
    wp_list_init(&link->free);
    wp_arena_init(&link->arena, link->arena_memory, ARENA_SIZE);
    for (unsigned i = 0; i < config->n_targets; i++) {
        link->replicas[i].target = config->targets[i];
        wp_list_init(&link->replicas[i].calls);
    }
    return link;
}

void
wp_link_destroy(struct wp_link *link)
{
    struct wp_list *node;

    for (unsigned i = 0; i < link->config.n_targets; i++) {
        wp_h2_close(link->replicas[i].h2);
        while ((node = wp_list_pop_front(&link->replicas[i].calls)) != NULL) {
            free(WP_CONTAINER_OF(node, struct call, node));
        }
    }
    while ((node = wp_list_pop_front(&link->free)) != NULL) {
        free(WP_CONTAINER_OF(node, struct call, node));
    }
    free(link);
}
