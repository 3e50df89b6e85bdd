/* allocator/stores/redis/link/link.h - pipelined connections to Redis servers.
 *
 * A set of links, each one connection with a writer (one thread at a time), one
 * thread that reads the replies of all of them and one that connects. A writer
 * appends a command to the link's buffer and an entry to its queue of calls in
 * flight, and sends what is gathered with one system call. Replies come in the
 * order of the commands; each is given to on_reply, on the reading thread or on
 * that of a writer which waits for it.
 *
 * Every call ends exactly once: with a reply; UNAVAILABLE when it certainly
 * never reached Redis whole; UNKNOWN_OUTCOME when it may have, and the
 * connection broke or stayed silent for the commit timeout. A silent server
 * opens the circuit breaker: commands to it are refused at once, on every link,
 * until a new connection has been made and has answered.
 *
 * Nothing is allocated once the set stands. Secrets are never logged. */
#ifndef WP_ALLOCATOR_STORES_REDIS_LINK_LINK_H
#define WP_ALLOCATOR_STORES_REDIS_LINK_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "allocator/conf/redis_url.h"
#include "pool/base/status.h"
#include "pool/base/str.h"

enum {
    WP_REDIS_RUN_ID_MAX = 40,
    WP_REDIS_REPLY_MAX = 4096, /* Longer texts in replies are cut. */
    WP_REDIS_ARGS_MAX = 16,
    WP_REDIS_LINKS_MAX = 128,
    WP_REDIS_BATCH_MAX = 64, /* Calls of one command. */
};

/* Finds servers, for Sentinel and Cluster. Called by the connecting thread and
 * by what blocks anyway; may block for the connect timeout. */
struct wp_redis_router {
    void *self;
    /* Where the keys of this key's slot are written now. */
    enum wp_status (*find)(void *self, struct wp_str key,
                           struct wp_redis_server *out, struct wp_err *err);
    /* What is known may be old: a connection was lost, a server answered that
     * it is not the one. reply is its error, or empty. Any thread, cheap. */
    void (*doubt)(void *self, struct wp_str reply);
};

struct wp_redis_tls; /* tls.h */

struct wp_redis_config {
    struct wp_redis_server server; /* Used when router is NULL. */
    const struct wp_redis_router *router;
    bool cluster; /* Keys are on several servers: router finds each. */
    const struct wp_redis_tls *tls; /* NULL: without. Not on a Unix socket. */
    const char *user;               /* "" and NULL: the default user. */
    const char *password;           /* "" and NULL: no AUTH is sent. */
    int db;
    const char *client_name;    /* "" and NULL: "warmpoold". */
    uint32_t pending_max;       /* Calls in flight on a link; 0: 4096. */
    int64_t connect_timeout_ns; /* 0: 1 s; of each step. */
    int64_t commit_timeout_ns;  /* 0: 1 s */
    int64_t backoff_min_ns;     /* 0: 20 ms; between attempts to connect. */
    int64_t backoff_max_ns;     /* 0: 2 s */
};

struct wp_redis_stats {
    uint32_t links;
    uint32_t links_up;
    bool breaker_open;
    uint64_t connects;
    uint64_t connect_failures;
    uint64_t disconnects;
    uint64_t timeouts;
    uint64_t refused; /* Commands refused while a link was not up. */
    uint64_t full;    /* Commands refused because a link was full. */
    uint64_t unknown; /* Calls whose outcome was lost. */
};

struct wp_redis_reply {
    enum {
        WP_REPLY_NUMBER,
        WP_REPLY_TEXT,
        WP_REPLY_ERROR,
        WP_REPLY_OTHER, /* Null, a status, an array. */
    } kind;
    int64_t number;
    struct wp_str text; /* Until the hook returns; TEXT and ERROR. */
    /* Which call of its command this is the answer to, from 0. */
    uint32_t place;
};

/* One call of a command that several may share. Calls share a command when
 * they follow one another on a link, their ids and tags are the same, and no
 * key of one is another's too. Its words are head, the number of all keys, all
 * keys, then the rest of each. Borrowed while it is gathered. */
struct wp_redis_entry {
    uint64_t id; /* Says that heads are the same. */
    const struct wp_str *head;
    const struct wp_str *keys;
    const struct wp_str *rest;
    uint32_t n_head;
    uint32_t n_keys;
    uint32_t n_rest;
};

/* Called without a lock that sending takes. call and tag are those of the
 * command. */
struct wp_redis_hooks {
    void *ctx;
    /* Reading thread, or the one that waits in wp_redis_flush_and_wait; may
     * send again on the same link. */
    void (*on_reply)(void *ctx, uint32_t link, void *call, uint32_t tag,
                     const struct wp_redis_reply *reply);
    /* There will be no reply: UNAVAILABLE or UNKNOWN_OUTCOME. Reading thread,
     * or who destroys the set. */
    void (*on_end)(void *ctx, void *call, enum wp_status status);
    /* The links are about to lead to this server process for the first time.
     * Connecting thread. May be NULL. */
    void (*on_server)(void *ctx, const char *run_id);
};

struct wp_redis_links;

/* n links, 1..WP_REDIS_LINKS_MAX, to the server that holds key; they are made
 * in the background. config's texts, tls and router must outlive the
 * set; key is
 * copied. */
enum wp_status wp_redis_links_create(const struct wp_redis_config *config,
                                     const struct wp_redis_hooks *hooks,
                                     struct wp_str key, uint32_t n,
                                     struct wp_redis_links **out,
                                     struct wp_err *err);
/* Ends the threads: they call no hook any more. Only destroy may follow, and
 * what the threads of other sets still send here. */
void wp_redis_links_stop(struct wp_redis_links *links);
/* Asks the threads to end, without waiting for them. True once they have: then
 * every connection is closed, every call has ended, and the set refuses
 * commands, of any thread; until then it is to be called again. One thread at a
 * time closes and reopens a set, and none of its own. */
WP_MUST_CHECK bool wp_redis_links_close(struct wp_redis_links *links);
/* Once closed: the links lead to this server (there is no router) from now on.
 * A thread that has not heard of it may still send what was meant for the one
 * before. RESOURCE_EXHAUSTED: it stays closed. */
WP_MUST_CHECK enum wp_status
wp_redis_links_reopen(struct wp_redis_links *links,
                      const struct wp_redis_server *server, struct wp_err *err);
/* Nothing is in flight just now. Any thread. */
bool wp_redis_links_are_quiet(struct wp_redis_links *links);
/* Stops; ends the calls in flight. NULL is allowed. */
void wp_redis_links_destroy(struct wp_redis_links *links);

/* Appends a command; PENDING, or UNAVAILABLE when the link is not up, full, or
 * the breaker open: then no hook is called. flush: sends at once what the link
 * has gathered. Any thread, but a link used by one thread only never waits. */
WP_MUST_CHECK enum wp_status
wp_redis_send(struct wp_redis_links *links, uint32_t link, void *call,
              uint32_t tag, const struct wp_str *args, uint32_t n, bool flush);
/* The same behind ASKING, as one, and at once: for a slot that is on its way to
 * this server. The answer to ASKING is kept from the hooks. */
WP_MUST_CHECK enum wp_status
wp_redis_send_asking(struct wp_redis_links *links, uint32_t link, void *call,
                     uint32_t tag, const struct wp_str *args, uint32_t n);
/* The same for a call that may share its command, which holds
 * WP_REDIS_BATCH_MAX calls at most and is whole at the next flush. To a command
 * that several share Redis answers with a text of as many digits, each its
 * call's number; any other answer is one to each. */
WP_MUST_CHECK enum wp_status
wp_redis_gather(struct wp_redis_links *links, uint32_t link, void *call,
                uint32_t tag, const struct wp_redis_entry *entry, bool flush);
/* Sends what the link has gathered. What nobody flushes goes out within a
 * twentieth of a second. */
void wp_redis_flush(struct wp_redis_links *links, uint32_t index);
/* The same; when this is one call and no other is in flight on the link, waits
 * for its answer for at most a fifth of a millisecond, and on_reply is called
 * here: no other thread needs to be woken. After several calls were in flight
 * at once it does not wait for the next 8; after an answer that did not come in
 * time for 4, after more in a row for 8, 16, up to 512: a server far away costs
 * next to nothing. For a thread that has nothing else to do, with a link of its
 * own; not for a hook. */
void wp_redis_flush_and_wait(struct wp_redis_links *links, uint32_t index);

/* The server is not the right one any more: nothing is sent again on these
 * connections; each is closed once it is quiet, and made again. Any thread. */
void wp_redis_links_renew(struct wp_redis_links *links);
/* The same of those only that lead to another server than this one. A link that
 * is just being made may still come to lead elsewhere: ask again. */
void wp_redis_links_lead_to(struct wp_redis_links *links,
                            const struct wp_redis_server *server);

void wp_redis_links_read_stats(struct wp_redis_links *links,
                               struct wp_redis_stats *out);

#endif
