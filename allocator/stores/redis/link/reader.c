/* Reading answers: the thread that does it for a set of links, and a writer
 * that waits for its own. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include <hiredis/read.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "allocator/stores/redis/link/link_impl.h"
#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "pool/base/log.h"

enum {
    TICK_MS = 50,     /* How late a timeout is seen at most. */
    ACTIVE_MS = 2000, /* After the last reply it ticks for so long. */
    READ_BUFFER = 2 * WP_REDIS_RECORD_MAX,
    EVENTS = 32,
    /* A writer waits for so long: most answers of a Redis nearby are there. */
    AWAIT_NS = 200000,
    MISSED_MAX = 8, /* In a row; each doubles how many are passed over. */
};

/* --- replies: hiredis parses, these fill the link's one reply --- */

static void *
create_text(const redisReadTask *task, char *text, size_t len)
{
    struct wp_redis_link *link = task->privdata;

    if (task->parent == NULL) {
        size_t n = len < sizeof link->text ? len : sizeof link->text;

        memcpy(link->text, text, n);
        link->reply.text = (struct wp_str){link->text, n};
        link->reply.kind = task->type == REDIS_REPLY_ERROR    ? WP_REPLY_ERROR
                           : task->type == REDIS_REPLY_STRING ? WP_REPLY_TEXT
                                                              : WP_REPLY_OTHER;
    }
    return &link->reply;
}

static void *
create_number(const redisReadTask *task, long long number)
{
    struct wp_redis_link *link = task->privdata;

    if (task->parent == NULL) {
        link->reply.kind = WP_REPLY_NUMBER;
        link->reply.number = number;
    }
    return &link->reply;
}

static void *
create_other(const redisReadTask *task)
{
    struct wp_redis_link *link = task->privdata;

    link->reply.kind = WP_REPLY_OTHER;
    return &link->reply;
}

static void *
create_array(const redisReadTask *task, int n)
{
    (void)n;
    return create_other(task);
}

static void
free_nothing(void *object)
{
    (void)object;
}

static redisReplyObjectFunctions reply_functions = {
    .createString = create_text,
    .createArray = create_array,
    .createInteger = create_number,
    .createNil = create_other,
    .freeObject = free_nothing,
};

bool
wp_link_reader_init(struct wp_redis_link *link)
{
    redisReader *reader = redisReaderCreateWithFunctions(&reply_functions);

    if (reader == NULL) {
        return false;
    }
    reader->privdata = link;
    reader->maxbuf = 0; /* Keeps its buffer: nothing is allocated later. */
    link->reader = reader;
    return true;
}

void
wp_link_reader_fini(struct wp_redis_link *link)
{
    if (link->reader != NULL) {
        redisReaderFree(link->reader);
        link->reader = NULL;
    }
}

/* --- calls --- */

static bool
take_call(struct wp_redis_link *link, struct wp_link_call *out)
{
    uint32_t head = atomic_load_explicit(&link->head, memory_order_relaxed);

    /* Pairs with the writer's store: the entry is whole. */
    if (head == atomic_load_explicit(&link->tail, memory_order_acquire)) {
        return false;
    }
    *out = link->calls[head & (link->links->calls_max - 1)];
    /* The entry may be used again. */
    atomic_store_explicit(&link->head, head + 1, memory_order_release);
    return true;
}

void
wp_link_end_calls(struct wp_redis_link *link)
{
    struct wp_redis_links *links = link->links;
    struct wp_link_call call;

    while (take_call(link, &call)) {
        /* A command that did not leave whole cannot have been executed. */
        bool sent = call.end <= link->stream_sent;

        if (call.call == NULL) {
            continue;
        }
        if (sent) {
            WP_LINK_COUNT(links->unknown);
        }
        links->hooks.on_end(links->hooks.ctx, call.call,
                            sent ? WP_UNKNOWN_OUTCOME : WP_UNAVAILABLE);
    }
}

/* Connections are lost together: one line for all of them. */
static void
tell_lost(struct wp_redis_links *links, const char *why)
{
    int64_t now_ns = wp_link_now_ns();

    if (links->lost_logged_ns == 0 ||
        now_ns - links->lost_logged_ns > WP_NS_PER_S) {
        links->lost_logged_ns = now_ns;
        wp_log_warn("redis connection lost", wp_kv_str("why", why),
                    wp_kv_int("connections", links->n));
    }
}

void
wp_link_close(struct wp_redis_link *link)
{
    (void)pthread_mutex_lock(&link->lock);
    link->state = WP_LINK_BROKEN;
    link->batch.n = 0; /* Its calls are ended with the others. */
    if (link->stream.fd >= 0) {
        /* Closing alone would leave it there while a process that is being
         * started has a copy, with events for a link that leads elsewhere by
         * then. */
        (void)epoll_ctl(link->links->epoll_fd, EPOLL_CTL_DEL, link->stream.fd,
                        NULL);
    }
    wp_redis_stream_close(&link->stream);
    (void)pthread_mutex_unlock(&link->lock);
    wp_link_end_calls(link);
    wp_link_reader_fini(link);
    (void)pthread_mutex_lock(&link->lock);
    link->broken = NULL;
    link->state = WP_LINK_DOWN;
    (void)pthread_mutex_unlock(&link->lock);
}

/* Reading thread; `reading` is held. Nothing more is sent, and the doubt comes
 * before the calls end: what is tried again then looks for the server. */
static void
lose_link(struct wp_redis_link *link, const char *why)
{
    struct wp_redis_links *links = link->links;

    (void)pthread_mutex_lock(&link->lock);
    wp_link_break(link);
    (void)pthread_mutex_unlock(&link->lock);
    WP_LINK_COUNT(links->disconnects);
    tell_lost(links, why);
    if (links->config.router != NULL) {
        links->config.router->doubt(links->config.router->self, WP_STR(""));
    }
    wp_link_close(link);
    (void)pthread_mutex_lock(&links->down_lock);
    links->some_down = true;
    (void)pthread_cond_signal(&links->down_cond);
    (void)pthread_mutex_unlock(&links->down_lock);
}

static void
take_down(struct wp_redis_link *link, const char *why)
{
    (void)pthread_mutex_lock(&link->reading);
    lose_link(link, why);
    (void)pthread_mutex_unlock(&link->reading);
}

/* The answer to the call at this place of its command: its digit, or what all
 * of them are told. A text of any other length says nothing to anybody. */
static struct wp_redis_reply
answer_at(const struct wp_redis_reply *reply, uint32_t place, uint32_t n)
{
    struct wp_redis_reply answer = *reply;

    answer.place = place;
    if (n > 1 && reply->kind == WP_REPLY_TEXT) {
        int digit = reply->text.len == n ? reply->text.ptr[place] - '0' : -1;

        answer.kind =
            digit >= 0 && digit <= 9 ? WP_REPLY_NUMBER : WP_REPLY_OTHER;
        answer.number = digit;
    }
    return answer;
}

/* NULL, or why the link is to be taken down. */
static const char *
take_replies(struct wp_redis_link *link)
{
    struct wp_redis_links *links = link->links;

    for (;;) {
        struct wp_link_call call;
        void *reply = NULL;
        uint32_t n = 1;

        if (redisReaderGetReply(link->reader, &reply) != REDIS_OK) {
            return "the answer is not what Redis says";
        }
        if (reply == NULL) {
            return NULL;
        }
        for (uint32_t i = 0; i < n; i++) {
            struct wp_redis_reply answer;

            if (!take_call(link, &call)) {
                return "an answer to nothing";
            }
            n = i == 0 ? call.n : n;
            if (call.call == NULL) {
                continue; /* ASKING's. */
            }
            answer = answer_at(&link->reply, i, n);
            links->hooks.on_reply(links->hooks.ctx, link->index, call.call,
                                  call.tag, &answer);
        }
    }
}

/* NULL, or why the link is to be taken down; `reading` is held. */
static const char *
read_answers(struct wp_redis_link *link)
{
    char bytes[READ_BUFFER];
    const char *why = NULL;
    ssize_t n;

    do {
        n = wp_redis_stream_receive(&link->stream, bytes, sizeof bytes, &why);
        if (n > 0) {
            why = redisReaderFeed(link->reader, bytes, (size_t)n) == REDIS_OK
                      ? take_replies(link)
                      : "no memory";
        }
        /* A short read has emptied the socket, or is one record of TLS. */
    } while (why == NULL && n == (ssize_t)sizeof bytes);
    return why;
}

static void
on_readable(struct wp_redis_link *link)
{
    const char *why;

    (void)pthread_mutex_lock(&link->reading);
    why = link->broken != NULL ? link->broken : read_answers(link);
    if (why != NULL) {
        lose_link(link, why);
    }
    (void)pthread_mutex_unlock(&link->reading);
}

void
wp_link_await(struct wp_redis_link *link)
{
    const struct timespec most = {.tv_nsec = AWAIT_NS};
    struct pollfd answer = {.fd = link->stream.fd, .events = POLLIN};
    const char *why = NULL;
    bool owed = true;

    while (why == NULL && owed && ppoll(&answer, 1, &most, NULL) > 0) {
        why = read_answers(link);
        owed = wp_link_in_flight(link) > 0;
    }
    (void)pthread_mutex_lock(&link->lock);
    link->awaited = false;
    /* Under the lock: a call that is not seen here has yet to be sent. */
    if (wp_link_in_flight(link) > 0) {
        wp_link_watch(link, EPOLLIN | (link->wants_write ? EPOLLOUT : 0));
        link->n_missed += link->n_missed < MISSED_MAX;
        link->n_passed = 2U << link->n_missed;
    } else {
        link->n_missed = 0;
    }
    if (why != NULL) {
        link->broken = why;
        wp_link_break(link);
    }
    (void)pthread_mutex_unlock(&link->lock);
}

static void
on_writable(struct wp_redis_link *link)
{
    (void)pthread_mutex_lock(&link->lock);
    if (link->state == WP_LINK_UP) {
        (void)wp_link_send(link);
    }
    (void)pthread_mutex_unlock(&link->lock);
}

/* --- time --- */

/* The lock is held, and something in flight. */
static int64_t
oldest_call_ns(const struct wp_redis_link *link)
{
    uint32_t head = atomic_load_explicit(&link->head, memory_order_acquire);

    return link->calls[head & (link->links->calls_max - 1)].at_ns;
}

/* renew: whatever leads to the server of before is closed, once what it was
 * asked is answered. */
static void
check_link(struct wp_redis_link *link, int64_t now_ns, bool renew)
{
    struct wp_redis_links *links = link->links;
    const char *why = NULL;
    int64_t owed_ns = 0;
    bool quiet;
    bool up;

    (void)pthread_mutex_lock(&link->lock);
    up = link->stream.fd >= 0;
    link->renew = up && (link->renew || renew);
    renew = link->renew;
    quiet = wp_link_in_flight(link) == 0;
    if (!quiet) {
        /* Answered by now, perhaps, but not used again: that takes the lock. */
        owed_ns = now_ns - oldest_call_ns(link);
    }
    if (link->state == WP_LINK_UP && wp_link_has_gathered(link) &&
        !link->wants_write) {
        (void)wp_link_send(link); /* Its thread forgot to flush. */
    }
    (void)pthread_mutex_unlock(&link->lock);
    if (!up) {
        return;
    }
    if (renew && quiet) {
        why = "the server is looked for again";
    } else if (owed_ns > links->config.commit_timeout_ns) {
        why = "no answer in time";
        WP_LINK_COUNT(links->timeouts);
        atomic_store(&links->breaker, true);
    }
    if (why != NULL) {
        take_down(link, why);
    }
}

static void
check_links(struct wp_redis_links *links, int64_t now_ns)
{
    bool renew = atomic_exchange(&links->renew, false);

    atomic_store(&links->check, false);
    for (uint32_t i = 0; i < links->n; i++) {
        check_link(&links->links[i], now_ns, renew);
    }
}

/* How long to sleep: with nothing in flight for a while, until woken. */
static int
sleep_ms(struct wp_redis_links *links, int64_t active_ns, int64_t now_ns)
{
    if (now_ns - active_ns < ACTIVE_MS * WP_NS_PER_MS ||
        !wp_redis_links_are_quiet(links)) {
        return TICK_MS;
    }
    atomic_store(&links->asleep, true);
    if (!wp_redis_links_are_quiet(links)) {
        atomic_store(&links->asleep, false);
        return TICK_MS;
    }
    return -1;
}

void *
wp_redis_reader_run(void *arg)
{
    struct wp_redis_links *links = arg;
    struct epoll_event events[EVENTS];
    int64_t active_ns = wp_link_now_ns();
    int64_t checked_ns = active_ns;

    while (!atomic_load(&links->stop)) {
        int n = epoll_wait(links->epoll_fd, events, EVENTS,
                           sleep_ms(links, active_ns, wp_link_now_ns()));
        int64_t now_ns = wp_link_now_ns();

        atomic_store_explicit(&links->asleep, false, memory_order_relaxed);
        for (int i = 0; i < n; i++) {
            struct wp_redis_link *link = events[i].data.ptr;

            active_ns = now_ns;
            if (link == NULL) {
                uint64_t woken;

                (void)!read(links->wake_fd, &woken, sizeof woken);
                continue;
            }
            if ((events[i].events & EPOLLOUT) != 0) {
                on_writable(link);
            }
            if ((events[i].events & ~(uint32_t)EPOLLOUT) != 0) {
                on_readable(link);
            }
        }
        if (now_ns - checked_ns >= TICK_MS * WP_NS_PER_MS ||
            atomic_load_explicit(&links->renew, memory_order_relaxed) ||
            atomic_load_explicit(&links->check, memory_order_relaxed)) {
            check_links(links, now_ns);
            checked_ns = now_ns;
        }
    }
    return NULL;
}
