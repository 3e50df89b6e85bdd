/* tests/unit/allocator/stores/redis/redis_reader_test.c - the reading thread of
 * a set of links, and a writer that waits: which answers reach whom, how calls
 * of a lost connection end, what happens when. The test runs the thread, and
 * acts while it sleeps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <hiredis/read.h>
#include <sys/epoll.h>

#include "allocator/stores/redis/link/link_impl.h"
#include "pool/base/clock.h"
#include "tests/unit/allocator/stores/redis/journal.h"

enum {
    LINKS = 2,
    CALLS = 8,
    EPOLL_FD = 30,
    WAKE_FD = 31,
};

typedef int step(struct epoll_event *events);

static struct wp_redis_links links;
static struct wp_redis_link of_set[LINKS];
static struct wp_link_call calls[LINKS][CALLS];
static int64_t clock_ns;
static int n_reading;
static int n_lock;
static int n_down;
/* What happens during each sleep; behind the last one the thread ends. */
static step *const *steps;
/* What is received next: "" is nothing yet, NULL the end. */
static const char *const *received;
static const char *quiet; /* A digit for each time that somebody asks. */
static const char *polls;
static bool no_memory; /* The same of what is ready. */

int __wrap_clock_gettime(clockid_t id, struct timespec *out);
int __wrap_epoll_wait(int epoll_fd, struct epoll_event *events, int max,
                      int timeout_ms);
int __wrap_epoll_ctl(int epoll_fd, int op, int fd, struct epoll_event *event);
int __wrap_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *most,
                 const sigset_t *mask);
ssize_t __real_read(int fd, void *out, size_t len);
ssize_t __wrap_read(int fd, void *out, size_t len);
int __wrap_pthread_cond_signal(pthread_cond_t *cond);
int __real_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);
int __real_pthread_mutex_unlock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock);
void __wrap_wp_log_emit(enum wp_log_level level, const char *event,
                        const struct wp_kv *kvs);
ssize_t __wrap_wp_redis_stream_receive(const struct wp_redis_stream *stream,
                                       char *bytes, size_t cap,
                                       const char **why);
void __wrap_wp_redis_stream_close(struct wp_redis_stream *stream);
bool __wrap_wp_link_send(struct wp_redis_link *link);
void __wrap_wp_link_break(struct wp_redis_link *link);
void __wrap_wp_link_watch(struct wp_redis_link *link, uint32_t events);
bool __wrap_wp_redis_links_are_quiet(struct wp_redis_links *set);
redisReader *
__real_redisReaderCreateWithFunctions(redisReplyObjectFunctions *functions);
redisReader *
__wrap_redisReaderCreateWithFunctions(redisReplyObjectFunctions *functions);

/* A line, with the locks that are held. */
#define told(fmt, ...)                                                         \
    journal_note(fmt "%s%s%s", __VA_ARGS__, n_reading ? " (reading)" : "",     \
                 n_lock ? " (lock)" : "", n_down ? " (down)" : "")

int
__wrap_clock_gettime(clockid_t id, struct timespec *out)
{
    (void)id;
    out->tv_sec = clock_ns / WP_NS_PER_S;
    out->tv_nsec = clock_ns % WP_NS_PER_S;
    return 0;
}

static int *
held(const pthread_mutex_t *lock)
{
    for (uint32_t i = 0; i < LINKS; i++) {
        if (lock == &of_set[i].lock) {
            return &n_lock;
        }
        if (lock == &of_set[i].reading) {
            return &n_reading;
        }
    }
    assert_ptr_equal(lock, &links.down_lock);
    return &n_down;
}

int
__wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
    assert_int_equal((*held(lock))++, 0);
    return __real_pthread_mutex_lock(lock);
}

int
__wrap_pthread_mutex_unlock(pthread_mutex_t *lock)
{
    assert_int_equal((*held(lock))--, 1);
    return __real_pthread_mutex_unlock(lock);
}

int
__wrap_pthread_cond_signal(pthread_cond_t *cond)
{
    assert_ptr_equal(cond, &links.down_cond);
    told("signal, some_down=%d", links.some_down);
    return 0;
}

void
__wrap_wp_log_emit(enum wp_log_level level, const char *event,
                   const struct wp_kv *kvs)
{
    journal_log(level, event, kvs);
}

static int
at(const struct wp_redis_link *link)
{
    return (int)(link - of_set);
}

static void
tell_links(void)
{
    for (uint32_t i = 0; i < LINKS; i++) {
        struct wp_redis_link *l = &of_set[i];

        told("  link %u: state=%d fd=%d renew=%d awaited=%d missed=%u "
             "passed=%u batch=%u in flight=%u reader=%d broken=%s",
             i, l->state, l->stream.fd, l->renew, l->awaited, l->n_missed,
             l->n_passed, l->batch.n, wp_link_in_flight(l), l->reader != NULL,
             l->broken != NULL ? l->broken : "no");
    }
    told("  disconnects=%d timeouts=%d unknown=%d breaker=%d renew=%d "
         "check=%d some_down=%d",
         (int)atomic_load(&links.disconnects),
         (int)atomic_load(&links.timeouts), (int)atomic_load(&links.unknown),
         atomic_load(&links.breaker), atomic_load(&links.renew),
         atomic_load(&links.check), links.some_down);
}

int
__wrap_epoll_wait(int epoll_fd, struct epoll_event *events, int max,
                  int timeout_ms)
{
    assert_int_equal(epoll_fd, EPOLL_FD);
    told("sleep of %d ms, for %d, asleep=%d", timeout_ms, max,
         atomic_load(&links.asleep));
    if (*steps == NULL) {
        atomic_store(&links.stop, true);
        return -1;
    }
    return (*steps++)(events);
}

int
__wrap_epoll_ctl(int epoll_fd, int op, int fd, struct epoll_event *event)
{
    assert_null(event);
    told("epoll %d del=%d %d", epoll_fd, op == EPOLL_CTL_DEL, fd);
    return 0;
}

int
__wrap_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *most,
             const sigset_t *mask)
{
    assert_null(mask);
    assert_int_equal(n, 1);
    told("poll %d in=%d for %d.%09ld", fds[0].fd, fds[0].events == POLLIN,
         (int)most->tv_sec, most->tv_nsec);
    return *polls++ - '0';
}

ssize_t
__wrap_read(int fd, void *out, size_t len)
{
    if (fd != WAKE_FD) {
        return __real_read(fd, out, len);
    }
    told("woken, %zu", len);
    return (ssize_t)len;
}

ssize_t
__wrap_wp_redis_stream_receive(const struct wp_redis_stream *stream,
                               char *bytes, size_t cap, const char **why)
{
    const char *text = *received++;
    size_t len;

    told("receive from %d at most %zu", stream->fd, cap);
    if (text == NULL) {
        *why = "it is over";
        return WP_REDIS_OVER;
    }
    len = strlen(text);
    if (len == 0) {
        return WP_REDIS_AGAIN;
    }
    memcpy(bytes, text, len);
    if (text[0] != '$' || strchr(text, '\n') == NULL || text[len - 1] != 'x') {
        return (ssize_t)len;
    }
    /* The beginning of a long one fills the buffer. */
    memset(bytes + len, 'x', cap - len);
    return (ssize_t)cap;
}

void
__wrap_wp_redis_stream_close(struct wp_redis_stream *stream)
{
    told("close %d", stream->fd);
    stream->fd = -1;
}

bool
__wrap_wp_link_send(struct wp_redis_link *link)
{
    told("send on %d", at(link));
    link->out_len = 0;
    link->batch.n = 0;
    return true;
}

void
__wrap_wp_link_break(struct wp_redis_link *link)
{
    told("break %d", at(link));
    link->state = WP_LINK_BROKEN;
}

void
__wrap_wp_link_watch(struct wp_redis_link *link, uint32_t events)
{
    told("watch %d in=%d out=%d", at(link), (events & EPOLLIN) != 0,
         (events & EPOLLOUT) != 0);
}

bool
__wrap_wp_redis_links_are_quiet(struct wp_redis_links *set)
{
    assert_ptr_equal(set, &links);
    told("quiet? %c, asleep=%d", *quiet, atomic_load(&links.asleep));
    return *quiet++ == '1';
}

redisReader *
__wrap_redisReaderCreateWithFunctions(redisReplyObjectFunctions *functions)
{
    return no_memory ? NULL : __real_redisReaderCreateWithFunctions(functions);
}

static void
on_reply(void *ctx, uint32_t link, void *call, uint32_t tag,
         const struct wp_redis_reply *reply)
{
    static const char *const kinds[] = {"number", "text", "error", "other"};
    bool is_text =
        reply->kind == WP_REPLY_TEXT || reply->kind == WP_REPLY_ERROR;

    assert_ptr_equal(ctx, &steps);
    told("link %u call %d tag %u place %u: %s %lld '%.*s' of %zu", link,
         (int)(intptr_t)call, tag, reply->place, kinds[reply->kind],
         (long long)reply->number, is_text ? (int)(reply->text.len % 80) : 0,
         is_text ? reply->text.ptr : "", is_text ? reply->text.len : 0);
}

static void
on_end(void *ctx, void *call, enum wp_status status)
{
    assert_ptr_equal(ctx, &steps);
    told("call %d ends %d, states %d %d", (int)(intptr_t)call, (int)status,
         of_set[0].state, of_set[1].state);
}

static void
doubt(void *self, struct wp_str reply)
{
    assert_ptr_equal(self, &links);
    told("doubt '%.*s'", WP_STR_ARG(reply));
}

static struct wp_redis_router router = {.self = &links, .doubt = doubt};

static void
owe(uint32_t link, int call, uint64_t end, uint32_t n)
{
    struct wp_redis_link *l = &of_set[link];
    uint32_t tail = atomic_load(&l->tail);

    l->calls[tail % CALLS] = (struct wp_link_call){
        .call = (void *)(intptr_t)call,
        .end = end,
        .at_ns = clock_ns,
        .tag = 50 + (uint32_t)call,
        .n = n,
    };
    atomic_store(&l->tail, tail + 1);
}

static void
bring_up(struct wp_redis_link *l)
{
    if (l->reader == NULL) {
        assert_true(wp_link_reader_init(l));
    }
    l->state = WP_LINK_UP;
    l->stream.fd = at(l) * 41; /* 0 is one as well. */
    l->stream_sent = 100;
}

static int
setup(void **state)
{
    (void)state;
    memset(&links, 0, sizeof links);
    memset(of_set, 0, sizeof of_set);
    clock_ns = 100 * WP_NS_PER_S;
    n_reading = n_lock = n_down = 0;
    (void)journal_told();
    links.links = of_set;
    links.n = LINKS;
    links.calls_max = CALLS;
    links.epoll_fd = EPOLL_FD;
    links.wake_fd = WAKE_FD;
    links.hooks = (struct wp_redis_hooks){
        .ctx = (void *)&steps, .on_reply = on_reply, .on_end = on_end};
    links.config.commit_timeout_ns = 300 * WP_NS_PER_MS;
    links.config.router = &router;
    (void)pthread_mutex_init(&links.down_lock, NULL);
    for (uint32_t i = 0; i < LINKS; i++) {
        (void)pthread_mutex_init(&of_set[i].lock, NULL);
        (void)pthread_mutex_init(&of_set[i].reading, NULL);
        of_set[i].links = &links;
        of_set[i].index = i;
        of_set[i].calls = calls[i];
        /* The numbers of calls wrap. */
        atomic_store(&of_set[i].head, UINT32_MAX - 1);
        atomic_store(&of_set[i].tail, UINT32_MAX - 1);
        bring_up(&of_set[i]);
    }
    return 0;
}

static int
teardown(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < LINKS; i++) {
        wp_link_reader_fini(&of_set[i]);
        (void)pthread_mutex_destroy(&of_set[i].lock);
        (void)pthread_mutex_destroy(&of_set[i].reading);
    }
    (void)pthread_mutex_destroy(&links.down_lock);
    return 0;
}

static void
run(step *const *during, const char *const *texts, const char *asked,
    const char *golden)
{
    steps = during;
    received = texts;
    quiet = asked;
    assert_null(wp_redis_reader_run(&links));
    assert_int_equal(n_reading + n_lock + n_down, 0);
    tell_links();
    journal_compare(golden);
}

/* --- what happens while it sleeps --- */

static int
event(struct epoll_event *events, uint32_t what, struct wp_redis_link *link)
{
    *events = (struct epoll_event){.events = what, .data.ptr = link};
    return 1;
}

static int
readable(struct epoll_event *events)
{
    return event(events, EPOLLIN, &of_set[1]);
}

/* The next loss is logged. */
static int
readable_later(struct epoll_event *events)
{
    links.lost_logged_ns = 0;
    return readable(events);
}

static int
hung_up(struct epoll_event *events)
{
    return event(events, EPOLLRDHUP, &of_set[0]);
}

static int
writable(struct epoll_event *events)
{
    return event(events, EPOLLOUT, &of_set[0]);
}

static int
everything(struct epoll_event *events)
{
    (void)event(events, EPOLLOUT | EPOLLIN, &of_set[1]);
    (void)event(events + 1, EPOLLIN, NULL);
    (void)event(events + 2, EPOLLOUT, &of_set[0]);
    return 3;
}

static int
broken_by_its_writer(struct epoll_event *events)
{
    links.lost_logged_ns = 0;
    bring_up(&of_set[1]);
    of_set[1].broken = "the writer says so";
    of_set[1].state = WP_LINK_BROKEN;
    (void)event(events, EPOLLOUT | EPOLLHUP, &of_set[1]);
    return 1;
}

static int
passes(int64_t ns)
{
    clock_ns += ns;
    tell_links();
    return 0;
}

static int
a_nanosecond(struct epoll_event *events)
{
    (void)events;
    return passes(1);
}

static int
nearly_a_tick(struct epoll_event *events)
{
    (void)events;
    of_set[0].out_len = 5; /* Its thread forgets to flush. */
    of_set[1].out_len = 5;
    of_set[1].wants_write = true;
    return passes(50 * WP_NS_PER_MS - 1);
}

static int
the_timeout(struct epoll_event *events)
{
    (void)events;
    owe(1, 9, 100, 1);
    return passes(300 * WP_NS_PER_MS);
}

static int
check(struct epoll_event *events)
{
    (void)events;
    atomic_store(&links.check, true);
    return passes(1);
}

static int
renew(struct epoll_event *events)
{
    (void)events;
    atomic_store(&links.renew, true);
    owe(1, 10, 100, 1);
    of_set[0].batch.n = 2;
    return passes(1);
}

static int
answered(struct epoll_event *events)
{
    (void)events;
    links.lost_logged_ns = 0;
    atomic_store(&of_set[1].head, atomic_load(&of_set[1].tail));
    return passes(50 * WP_NS_PER_MS);
}

static int
two_seconds(struct epoll_event *events)
{
    (void)events;
    clock_ns += 2000 * WP_NS_PER_MS - 1;
    return -1;
}

static int
a_moment(struct epoll_event *events)
{
    (void)events;
    clock_ns++;
    return 0;
}

static int
woken(struct epoll_event *events)
{
    return event(events, EPOLLIN, NULL);
}

static int
up_again(struct epoll_event *events)
{
    bring_up(&of_set[0]);
    bring_up(&of_set[1]);
    clock_ns += WP_NS_PER_S;
    (void)event(events, EPOLLIN, &of_set[0]);
    return 1;
}

static int
and_a_moment_later(struct epoll_event *events)
{
    clock_ns++;
    return event(events, EPOLLIN, &of_set[1]);
}

/* --- tests --- */

static void
test_each_answer_reaches_its_calls(void **state)
{
    static step *const during[] = {readable, readable, NULL};
    static const char *const texts[] = {
        ":7\r\n$-1\r\n$3\r\nabc\r\n-ERR no\r\n+OK\r\n*2\r\n:1\r\n$1\r\na\r\n:-",
        "8\r\n"};
    static const char *const batches[] = {"+OK\r\n$3\r\n019\r\n",
                                          "$2\r\n01\r\n", ":5\r\n$1\r\n0\r\n",
                                          "$3\r\n/:4\r\n:1\r\n"};
    static step *const in_batches[] = {readable, NULL};

    (void)state;
    for (int i = 1; i <= 7; i++) {
        owe(1, i, 100, 1);
    }
    run(during, texts, "", "reader_kinds");
    atomic_store(&links.stop, false);
    owe(1, 0, 100, 1); /* ASKING */
    for (int i = 1; i <= 3; i++) {
        owe(1, i, 100, i == 1 ? 3 : 77);
    }
    run(in_batches, batches, "", "reader_batch");
    atomic_store(&links.stop, false);
    for (int i = 1; i <= 3; i++) {
        owe(1, i, 100, i == 1 ? 3 : 77);
    }
    run(in_batches, batches + 1, "", "reader_batch_short");
    atomic_store(&links.stop, false);
    for (int i = 1; i <= 3; i++) {
        owe(1, i, 100, i == 1 ? 3 : 77);
    }
    owe(1, 4, 100, 1);
    run(in_batches, batches + 2, "", "reader_batch_number");
    atomic_store(&links.stop, false);
    for (int i = 1; i <= 3; i++) {
        owe(1, i, 100, i == 1 ? 3 : 77);
    }
    run(in_batches, batches + 3, "", "reader_batch_no_digits");
}

static void
test_a_long_answer_is_cut_and_read_on(void **state)
{
    static step *const during[] = {readable, NULL};
    static char rest[40000 + 16];
    static const char *const texts[] = {"$40000\r\nx", rest};
    size_t had = 2 * WP_REDIS_RECORD_MAX - 8;

    (void)state;
    assert_true(had < 40000);
    memset(rest, 'y', 40000 - had);
    memcpy(rest + 40000 - had, "\r\n", 3);
    owe(1, 1, 100, 1);
    run(during, texts, "", "reader_long");
    assert_int_equal(of_set[1].reader->maxbuf, 0); /* It keeps its buffer. */
}

static void
test_what_is_lost_ends_its_calls(void **state)
{
    static step *const during[] = {
        hung_up,  readable_later,     broken_by_its_writer,
        up_again, and_a_moment_later, NULL};
    static const char *const texts[] = {NULL, "!no\r\n", NULL, ":3\r\n"};

    (void)state;
    owe(0, 1, 99, 1);
    owe(0, 0, 100, 1);
    owe(0, 2, 100, 1);
    owe(0, 3, 101, 1);
    owe(0, 4, UINT64_MAX, 1);
    of_set[0].batch.n = 1;
    run(during, texts, "", "reader_lost");
}

static void
test_events_lead_to_what_they_say(void **state)
{
    static step *const during[] = {writable, everything, NULL};
    static const char *const texts[] = {""};

    (void)state;
    links.config.router = NULL;
    run(during, texts, "", "reader_events");
}

static void
test_what_is_late_or_leads_elsewhere_is_closed(void **state)
{
    static step *const during[] = {nearly_a_tick, a_nanosecond, the_timeout,
                                   check, NULL};
    static step *const anew[] = {renew, answered, NULL};

    (void)state;
    run(during, NULL, "", "reader_late");
    atomic_store(&links.stop, false);
    bring_up(&of_set[0]);
    bring_up(&of_set[1]);
    run(anew, NULL, "", "reader_renew");
}

static void
test_it_sleeps_only_when_all_is_quiet(void **state)
{
    static step *const during[] = {two_seconds, a_moment, a_moment,
                                   a_moment,    woken,    NULL};

    (void)state;
    run(during, NULL, "01011", "reader_sleep");
}

static void
test_a_writer_waits_for_one_answer(void **state)
{
    static const char *const texts[] = {"", ":1\r\n", "", NULL};
    struct wp_redis_link *l = &of_set[1];

    (void)state;
    received = texts;
    owe(1, 1, 100, 1);
    l->awaited = true;
    l->n_missed = 3;
    polls = "11";
    wp_link_await(l);
    tell_links();
    owe(1, 2, 100, 1);
    for (l->n_missed = 0; l->n_missed < 8;) {
        l->awaited = true;
        l->wants_write = l->n_missed % 2 != 0;
        polls = "0";
        wp_link_await(l);
        told("missed %u passed %u", l->n_missed, l->n_passed);
    }
    polls = "10";
    wp_link_await(l);
    tell_links();
    polls = "1";
    wp_link_await(l);
    tell_links();
    journal_compare("reader_await");
}

/* Who closes a set does not break its links before. */
static void
test_a_link_that_is_closed_refuses_while_its_calls_end(void **state)
{
    (void)state;
    owe(1, 1, 100, 1);
    wp_link_close(&of_set[1]);
    tell_links();
    journal_compare("reader_close");
    no_memory = true;
    assert_false(wp_link_reader_init(&of_set[1]));
    no_memory = false;
    assert_null(of_set[1].reader);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_each_answer_reaches_its_calls,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_long_answer_is_cut_and_read_on,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_lost_ends_its_calls, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_events_lead_to_what_they_say,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(
            test_what_is_late_or_leads_elsewhere_is_closed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_it_sleeps_only_when_all_is_quiet,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(
            test_a_link_that_is_closed_refuses_while_its_calls_end, setup,
            teardown),
        cmocka_unit_test_setup_teardown(test_a_writer_waits_for_one_answer,
                                        setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
