/* tests/unit/allocator/stores/redis/redis_looks_test.c - looks at sentinels and
 * clusters: who is asked what, in which order, whose answer counts, and who is
 * in doubt after it. No thread looks, and the test answers for every server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include "allocator/stores/redis/topology/topology_impl.h"
#include "tests/support/pool/manual_clock.h"
#include "tests/unit/allocator/stores/redis/journal.h"

enum {
    SERVERS = 10,
    EVENTS = 8,
};

/* What a server says, by the command's last known word. NULL: nothing. */
struct fake {
    bool unreachable;
    int reached_for; /* So many times more, then not; 0: always. */
    bool no_login;
    const char *info;
    const char *slots;
    const char *role;
    const char *master;
    const char *address;
    const char *id;
    const char *others;
    const char *subscribe;
};

static struct wp_redis_topology t;
static struct fake fakes[SERVERS]; /* By port. */
static char handles[64];           /* A connection: its number. */
static uint16_t ports[64];         /* Where it leads. */
static uint32_t n_open;
static int64_t clock_ns;
static int64_t step_ns; /* What each connection takes. */
static int stops_after; /* So many connections; 0: it does not. */
static const char *events[EVENTS];
static uint32_t n_events;
static bool events_broken;
static bool events_over;
static int n_replies; /* That nobody has freed. */
static int n_locked;

void __real_freeReplyObject(void *reply);
void __wrap_freeReplyObject(void *reply);
int __real_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);
int __real_pthread_mutex_unlock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock);

enum wp_status __wrap_wp_redis_sync_reach(const struct wp_redis_server *server,
                                          const struct wp_redis_tls *tls,
                                          int64_t timeout_ns,
                                          struct wp_redis_sync **out,
                                          struct wp_err *err);
void __wrap_wp_redis_sync_close(struct wp_redis_sync *sync);
enum wp_status __wrap_wp_redis_sync_log_in(struct wp_redis_sync *sync,
                                           const char *user,
                                           const char *password,
                                           struct wp_err *err);
struct redisReply *__wrap_wp_redis_sync_ask(struct wp_redis_sync *sync,
                                            const struct wp_str *args,
                                            uint32_t n, struct wp_err *err);
bool __wrap_wp_redis_sync_take_in(struct wp_redis_sync *sync);
bool __wrap_wp_redis_sync_next(struct wp_redis_sync *sync,
                               struct redisReply **out);
bool __wrap_wp_redis_sync_is_broken(const struct wp_redis_sync *sync);
int __wrap_wp_redis_sync_fd(const struct wp_redis_sync *sync);
void __wrap_wp_log_emit(enum wp_log_level level, const char *event,
                        const struct wp_kv *kvs);
const struct wp_clock *__wrap_wp_clock_system(void);

static int
number_of(const struct wp_redis_sync *sync)
{
    return (int)((const char *)(const void *)sync - handles);
}

enum wp_status
__wrap_wp_redis_sync_reach(const struct wp_redis_server *server,
                           const struct wp_redis_tls *tls, int64_t timeout_ns,
                           struct wp_redis_sync **out, struct wp_err *err)
{
    journal_note("reach %s:%u tls=%d within %lld", server->host, server->port,
                 tls != NULL, (long long)timeout_ns);
    clock_ns += step_ns;
    if (stops_after > 0 && --stops_after == 0) {
        t.stop = true;
    }
    if (server->port < SERVERS && fakes[server->port].reached_for > 0 &&
        fakes[server->port].reached_for-- == 1) {
        fakes[server->port].unreachable = true;
    } else if (server->port >= SERVERS || fakes[server->port].unreachable) {
        return wp_err_set(err, WP_UNAVAILABLE, "%s:%u is away", server->host,
                          server->port);
    }
    if (++n_open == sizeof handles) {
        abort();
    }
    ports[n_open] = server->port;
    *out = (struct wp_redis_sync *)(void *)&handles[n_open];
    return WP_OK;
}

void
__wrap_wp_redis_sync_close(struct wp_redis_sync *sync)
{
    journal_note("close %d", number_of(sync));
}

enum wp_status
__wrap_wp_redis_sync_log_in(struct wp_redis_sync *sync, const char *user,
                            const char *password, struct wp_err *err)
{
    journal_note("log in %d as '%s' with '%s'", number_of(sync), user,
                 password);
    return fakes[ports[number_of(sync)]].no_login
               ? wp_err_set(err, WP_UNAVAILABLE, "who are you")
               : WP_OK;
}

static const char *
answer_of(const struct fake *fake, struct wp_str verb, struct wp_str word)
{
    const struct {
        const char *verb;
        const char *word;
        const char *answer;
    } table[] = {
        {"ROLE", "", fake->role},
        {"CLUSTER", "INFO", fake->info},
        {"CLUSTER", "SLOTS", fake->slots},
        {"SENTINEL", "MASTER", fake->master},
        {"SENTINEL", "GET-MASTER-ADDR-BY-NAME", fake->address},
        {"SENTINEL", "MYID", fake->id},
        {"SENTINEL", "SENTINELS", fake->others},
        {"SUBSCRIBE", "+switch-master", fake->subscribe},
    };

    for (size_t i = 0; i < WP_ARRAY_LEN(table); i++) {
        if (wp_str_is(verb, table[i].verb) && wp_str_is(word, table[i].word)) {
            return table[i].answer;
        }
    }
    return NULL;
}

static struct redisReply *
read_reply(const char *text)
{
    redisReader *reader = redisReaderCreate();
    void *reply = NULL;

    if (redisReaderFeed(reader, text, strlen(text)) != REDIS_OK ||
        redisReaderGetReply(reader, &reply) != REDIS_OK || reply == NULL) {
        abort();
    }
    redisReaderFree(reader);
    n_replies++;
    return reply;
}

void
__wrap_freeReplyObject(void *reply)
{
    n_replies -= reply != NULL;
    __real_freeReplyObject(reply);
}

int
__wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
    n_locked++;
    return __real_pthread_mutex_lock(lock);
}

int
__wrap_pthread_mutex_unlock(pthread_mutex_t *lock)
{
    if (n_locked-- != 1) {
        journal_note("unlocked %d times", n_locked);
    }
    return __real_pthread_mutex_unlock(lock);
}

struct redisReply *
__wrap_wp_redis_sync_ask(struct wp_redis_sync *sync, const struct wp_str *args,
                         uint32_t n, struct wp_err *err)
{
    const struct fake *fake = &fakes[ports[number_of(sync)]];
    const char *answer = answer_of(fake, args[0], n > 1 ? args[1] : WP_STR(""));

    journal_put("ask %d:", number_of(sync));
    journal_words(args, n);
    if (answer == NULL) {
        (void)wp_err_set(err, WP_UNAVAILABLE, "no answer");
        return NULL;
    }
    return read_reply(answer);
}

bool
__wrap_wp_redis_sync_take_in(struct wp_redis_sync *sync)
{
    journal_note("take in %d", number_of(sync));
    return !events_over;
}

bool
__wrap_wp_redis_sync_next(struct wp_redis_sync *sync, struct redisReply **out)
{
    journal_note("next %d", number_of(sync));
    *out = NULL;
    if (n_events == 0) {
        return !events_broken;
    }
    *out = read_reply(events[--n_events]);
    return true;
}

bool
__wrap_wp_redis_sync_is_broken(const struct wp_redis_sync *sync)
{
    (void)sync;
    return events_broken;
}

int
__wrap_wp_redis_sync_fd(const struct wp_redis_sync *sync)
{
    return 1000 + number_of(sync);
}

void
__wrap_wp_log_emit(enum wp_log_level level, const char *event,
                   const struct wp_kv *kvs)
{
    journal_log(level, event, kvs);
}

const struct wp_clock *
__wrap_wp_clock_system(void)
{
    static struct wp_clock_manual clock;

    wp_clock_manual_init(&clock, clock_ns, 0);
    return &clock.clock;
}

/* --- the rig --- */

static struct wp_redis_server
node(uint16_t port)
{
    struct wp_redis_server server = {.host = "h", .port = port};

    return server;
}

static void
begin(enum wp_redis_kind kind, uint32_t n_seeds)
{
    memset(&t, 0, sizeof t);
    memset(fakes, 0, sizeof fakes);
    n_open = 0;
    clock_ns = WP_NS_PER_S;
    step_ns = 0;
    stops_after = 0;
    n_events = 0;
    events_broken = false;
    events_over = false;
    t.url.kind = kind;
    t.wake_fd = -1;
    t.config.timeout_ns = 100;
    t.config.tls = (const struct wp_redis_tls *)(const void *)&t;
    (void)strcpy(t.url.master, "m");
    (void)strcpy(t.url.user, "user");
    (void)strcpy(t.url.password, "password");
    (void)strcpy(t.url.sentinel_user, "watcher");
    (void)strcpy(t.url.sentinel_password, "word");
    t.url.n_seeds = n_seeds;
    t.n_sentinels = n_seeds;
    for (uint32_t i = 0; i < n_seeds; i++) {
        t.url.seeds[i] = node((uint16_t)(i + 1));
        t.sentinels[i].server = t.url.seeds[i];
    }
    (void)pthread_mutex_init(&t.lock, NULL);
    (void)pthread_cond_init(&t.known, NULL);
    wp_redis_slot_map_clear(&t.map);
}

static void
note_topology(enum wp_status status, const struct wp_err *err)
{
    journal_note("= %s '%s' %s", wp_status_name(status), err->msg,
                 wp_status_name(err->status));
    journal_put("epoch=%llu hint=%u turn=%u look=%d changes=%u doubts=%llu:",
                (unsigned long long)t.epoch, t.hint.port, t.turn, t.look,
                (unsigned)t.stats.changes, (unsigned long long)t.last_doubt);
    for (uint32_t i = 0; i < t.map.n_nodes; i++) {
        journal_put(" %s:%u", t.map.nodes[i].host, t.map.nodes[i].port);
        if (t.doubts[i] != 0) {
            journal_put("?%llu", (unsigned long long)t.doubts[i]);
        }
    }
    journal_put("\n");
    if (n_replies != 0 || n_locked != 0) {
        journal_note("left: %d replies, %d locks", n_replies, n_locked);
    }
    if (t.url.kind == WP_REDIS_SENTINEL) {
        journal_put("sentinels");
        for (uint32_t i = 0; i < t.n_sentinels; i++) {
            journal_put(" %s:%u%s(%s)", t.sentinels[i].server.host,
                        t.sentinels[i].server.port,
                        t.sentinels[i].learned ? "+" : "", t.sentinels[i].id);
        }
        journal_note(" events=%d from %u",
                     t.events != NULL ? number_of(t.events) : 0,
                     t.events_from.port);
    }
}

static void
look(const char *why)
{
    struct wp_err err = {.status = WP_OK};
    enum wp_status status;
    uint64_t doubt = t.last_doubt;

    journal_note("# %s", why);
    t.look = false;
    status = t.url.kind == WP_REDIS_CLUSTER
                 ? wp_redis_topology_look_cluster(&t, doubt, &err)
                 : wp_redis_topology_look_sentinel(&t, doubt, &err);
    note_topology(status, &err);
}

/* --- a cluster --- */

/* Which node has the slots 0 to 9, and from 10 on. */
#define SLOTS(a, b)                                                            \
    "*2\r\n*3\r\n:0\r\n:9\r\n*2\r\n$1\r\nh\r\n:" a                             \
    "\r\n*3\r\n:10\r\n:16383\r\n*2\r\n$1\r\nh\r\n:" b "\r\n"
#define MASTER "*1\r\n$6\r\nmaster\r\n"
#define SLAVE "*1\r\n$5\r\nslave\r\n"

/* CLUSTER INFO as Redis writes it. */
static const char *
info(const char *state, unsigned epoch)
{
    static char texts[SERVERS][256];
    static unsigned next;
    char *text = texts[next++ % SERVERS];
    char body[128];

    (void)snprintf(body, sizeof body,
                   "cluster_state:%s\r\ncluster_slots_assigned:16384\r\n"
                   "cluster_current_epoch:%u\r\ncluster_my_epoch:9\r\n",
                   state, epoch);
    (void)snprintf(text, sizeof texts[0], "$%zu\r\n%s\r\n", strlen(body), body);
    return text;
}

static void
serves(uint16_t port, const char *state, unsigned epoch, const char *slots)
{
    fakes[port] = (struct fake){
        .info = info(state, epoch), .slots = slots, .role = MASTER};
}

static void
test_the_first_that_is_whole_is_believed(void **state)
{
    (void)state;
    begin(WP_REDIS_CLUSTER, 3);
    look("nobody answers");
    fakes[1].unreachable = true;
    fakes[2].no_login = true;
    fakes[3].info = ":5\r\n";
    look("away, no login, no text");
    serves(2, "ok", 5, SLOTS("4", "5"));
    look("the second does");
    look("the nodes are asked now, then the seeds");
    serves(4, "ok", 5, SLOTS("4", "5"));
    look("as new as before");
    serves(4, "ok", 4, SLOTS("6", "5"));
    serves(5, "ok", 6, SLOTS("5", "6"));
    look("the first is older");
    serves(5, "fail", 7, SLOTS("7", "7"));
    serves(6, "ok", 6, SLOTS("5", "6"));
    look("the first is not whole");
    fakes[6].slots = NULL;
    look("the second has no slots");
    fakes[6].slots = "*0\r\n";
    look("or knows no node");
    fakes[6].info = NULL;
    look("or no state");
    journal_compare("looks_whole");
}

static void
test_of_those_that_are_not_whole_the_newest_is_believed(void **state)
{
    (void)state;
    begin(WP_REDIS_CLUSTER, 4);
    serves(1, "fail", 5, SLOTS("5", "5"));
    serves(2, "fail", 7, SLOTS("6", "6"));
    serves(3, "fail", 7, SLOTS("7", "7"));
    serves(4, "fail", 6, SLOTS("8", "8"));
    look("all fail");
    begin(WP_REDIS_CLUSTER, 4);
    t.epoch = 9;
    serves(1, "ok", 5, SLOTS("5", "5"));
    serves(2, "ok", 8, SLOTS("6", "6"));
    serves(3, "ok", 8, SLOTS("7", "7"));
    serves(4, "fail", 10, SLOTS("8", "8"));
    look("all are older");
    begin(WP_REDIS_CLUSTER, 4);
    t.epoch = 9;
    serves(1, "fail", 9, SLOTS("5", "5"));
    serves(2, "ok", 8, SLOTS("6", "6"));
    serves(3, "ok", 9, SLOTS("7", "7"));
    look("one is as new");
    journal_compare("looks_newest");
}

/* "cluster_state:ok" has to be there, and the number behind its name. */
static void
test_what_a_node_says_of_itself(void **state)
{
    static const char *const infos[] = {
        "$0\r\n\r\n",
        "$16\r\ncluster_state:ok\r\n",
        "$16\r\ncluster_state:no\r\n",
        "$23\r\ncluster_current_epoch:7\r\n",
        "$22\r\ncluster_current_epoch:\r\n",
        "$24\r\ncluster_current_epoch:12\r\n",
        "+cluster_state:ok\r\n",
        "*0\r\n",
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(infos); i++) {
        begin(WP_REDIS_CLUSTER, 2);
        serves(1, "", 0, SLOTS("5", "5"));
        fakes[1].info = infos[i];
        serves(2, "fail", 6, SLOTS("6", "6"));
        look("of two");
    }
    journal_compare("looks_info");
}

static void
test_whom_to_ask_first(void **state)
{
    struct wp_redis_server second = node(5);

    (void)state;
    begin(WP_REDIS_CLUSTER, 1);
    serves(1, "ok", 5, SLOTS("4", "5"));
    look("a seed");
    fakes[1].unreachable = true;
    serves(6, "ok", 5, SLOTS("4", "5"));
    t.hint = node(6);
    look("whom MOVED named");
    fakes[6].unreachable = true;
    t.hint = node(6);
    look("nobody");
    wp_redis_topology_failed(&t, NULL);
    wp_redis_topology_verified(&t, &second, t.last_doubt);
    look("nodes in doubt come after others");
    journal_compare("looks_order");
}

static void
test_a_look_ends_in_time(void **state)
{
    (void)state;
    begin(WP_REDIS_CLUSTER, 8);
    step_ns = 100;
    look("four timeouts and one");
    begin(WP_REDIS_CLUSTER, 8);
    step_ns = 400;
    look("just four");
    begin(WP_REDIS_CLUSTER, 8);
    step_ns = 401;
    look("one too many");
    begin(WP_REDIS_CLUSTER, 8);
    stops_after = 2;
    look("it stops");
    begin(WP_REDIS_CLUSTER, 8);
    stops_after = 1;
    serves(1, "fail", 5, SLOTS("4", "5"));
    look("it stops with an answer");
    journal_compare("looks_time");
}

#define SLOTS_3                                                                \
    "*3\r\n*3\r\n:0\r\n:9\r\n*2\r\n$1\r\nh\r\n:4\r\n"                          \
    "*3\r\n:10\r\n:19\r\n*2\r\n$1\r\nh\r\n:5\r\n"                              \
    "*3\r\n:20\r\n:29\r\n*2\r\n$1\r\nh\r\n:6\r\n"

static void
test_nodes_in_doubt_are_looked_at(void **state)
{
    (void)state;
    begin(WP_REDIS_CLUSTER, 1);
    serves(1, "ok", 5, SLOTS_3);
    look("three nodes");
    wp_redis_topology_failed(&t, NULL);
    fakes[4].role = SLAVE;
    fakes[5].role = MASTER;
    fakes[6].no_login = true;
    look("a slave, a master, nobody");
    fakes[4].role = ":5\r\n";
    fakes[6] = (struct fake){.role = "*0\r\n"};
    look("no such answers");
    fakes[4].role = "*1\r\n:5\r\n";
    fakes[6].role = MASTER;
    for (int i = 0; i < 3; i++) {
        wp_redis_topology_failed(&t, NULL);
        step_ns = 200 * (i + 1) + (i == 2);
        t.hint = node(1);
        look("by turns, as far as there is time");
    }
    step_ns = 0;
    fakes[4].role = "*2\r\n$6\r\nmaster\r\n:3\r\n";
    look("all are well");
    wp_redis_topology_failed(&t, NULL);
    stops_after = 5;
    look("it stops");
    journal_compare("looks_doubt");
}

/* --- sentinels --- */

#define EPOCH(n)                                                               \
    "*6\r\n$4\r\nname\r\n$1\r\nm\r\n$12\r\nconfig-epoch\r\n$1\r\n" n           \
    "\r\n$19\r\nnum-other-sentinels\r\n$1\r\n1\r\n"
#define ADDRESS(port) "*2\r\n$1\r\nh\r\n$1\r\n" port "\r\n"
#define OTHER(ip, port, id)                                                    \
    "*6\r\n$2\r\nip\r\n" ip "$4\r\nport\r\n" port "$5\r\nrunid\r\n" id

static void
watches(uint16_t port, const char *epoch, const char *address)
{
    fakes[port] = (struct fake){
        .master = epoch,
        .address = address,
        .id = port == 1 ? "$3\r\none\r\n" : "$3\r\ntwo\r\n",
        .others = "*0\r\n",
        .subscribe = "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n",
    };
}

static void
test_the_first_sentinel_that_knows_is_believed(void **state)
{
    (void)state;
    begin(WP_REDIS_SENTINEL, 2);
    look("nobody answers");
    watches(2, EPOCH("5"), ADDRESS("4"));
    fakes[1].unreachable = true;
    look("its master is no master");
    fakes[4].role = MASTER;
    look("it is");
    look("the same again");
    fakes[2].unreachable = true;
    watches(1, EPOCH("6"), ADDRESS("5"));
    fakes[5].role = MASTER;
    fakes[1].subscribe = NULL;
    look("another one, that cannot be followed");
    fakes[1].id = NULL;
    look("nor tells who it is");
    fakes[1].id = ":5\r\n";
    fakes[1].others = NULL;
    look("nor of others");
    fakes[1].id = "$41\r\n01234567890123456789012345678901234567890\r\n";
    fakes[1].others = ":5\r\n";
    look("too long a name");
    fakes[1].id = "$40\r\n0123456789012345678901234567890123456789\r\n";
    fakes[5].unreachable = true;
    look("its master is away");
    journal_compare("looks_sentinel");
}

static void
test_what_is_no_master_of_a_sentinel(void **state)
{
    static const char *const addresses[] = {
        "*-1\r\n",
        ":5\r\n",
        "*1\r\n$1\r\nh\r\n",
        "*3\r\n$1\r\nh\r\n$1\r\n4\r\n$1\r\n4\r\n",
        "*2\r\n:5\r\n$1\r\n4\r\n",
        "*2\r\n$1\r\nh\r\n:4\r\n",
        "*2\r\n$0\r\n\r\n$1\r\n4\r\n",
        "*2\r\n$2\r\nh\x01\r\n$1\r\n4\r\n",
        "*2\r\n$1\r\nh\r\n$1\r\n0\r\n",
        "*2\r\n$1\r\nh\r\n$2\r\n-4\r\n",
        "*2\r\n$1\r\nh\r\n$2\r\n4x\r\n",
        "*2\r\n$1\r\nh\r\n$5\r\n65536\r\n",
        "*2\r\n$1\r\nh\r\n$5\r\n65535\r\n",
        "*2\r\n$1\r\nh\r\n$1\r\n1\r\n",
    };
    static const char *const masters[] = {
        ":5\r\n",
        "*0\r\n",
        "*1\r\n$12\r\nconfig-epoch\r\n",
        "*2\r\n$12\r\nconfig-epoch\r\n:7\r\n",
        "*2\r\n:7\r\n$1\r\n7\r\n",
        "*2\r\n$12\r\nconfig-epoch\r\n$2\r\n17\r\n",
        "*3\r\n$1\r\nx\r\n$12\r\nconfig-epoch\r\n$2\r\n17\r\n",
        "*2\r\n$13\r\nconfig-epoch2\r\n$2\r\n17\r\n",
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(addresses); i++) {
        begin(WP_REDIS_SENTINEL, 1);
        watches(1, EPOCH("5"), addresses[i]);
        look("an address");
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(masters); i++) {
        begin(WP_REDIS_SENTINEL, 1);
        watches(1, masters[i], ADDRESS("4"));
        fakes[4].role = MASTER;
        look("an epoch");
    }
    begin(WP_REDIS_SENTINEL, 1);
    watches(1, NULL, ADDRESS("4"));
    look("none");
    fakes[1] = (struct fake){.no_login = true};
    look("no login");
    journal_compare("looks_answers");
}

/* Of three that count from lower: how many say so, and how many there are. */
static void
test_sentinels_of_before(void **state)
{
    static const char *const numbers[] = {"0", "1", "2", "3", "9"};
    char epochs[3][128];

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(numbers); i++) {
        begin(WP_REDIS_SENTINEL, 3);
        t.epoch = 7;
        for (int k = 0; k < 3; k++) {
            (void)snprintf(epochs[k], sizeof epochs[k],
                           "*4\r\n$12\r\nconfig-epoch\r\n$1\r\n%c\r\n"
                           "$19\r\nnum-other-sentinels\r\n$1\r\n%s\r\n",
                           "463"[k], numbers[i]);
            watches((uint16_t)(k + 1), epochs[k],
                    k == 0   ? ADDRESS("4")
                    : k == 1 ? ADDRESS("5")
                             : ADDRESS("6"));
        }
        fakes[4].role = fakes[6].role = MASTER;
        fakes[5].role = i == 1 ? SLAVE : MASTER;
        look("all are older");
        fakes[3].unreachable = true;
        t.epoch = 7;
        look("two are");
        fakes[2].unreachable = true;
        t.epoch = 7;
        look("one is");
    }
    begin(WP_REDIS_SENTINEL, 2);
    t.epoch = 7;
    watches(1, EPOCH("6"), ADDRESS("4"));
    watches(2, EPOCH("6"), ADDRESS("5"));
    fakes[4].role = MASTER;
    fakes[5].role = MASTER;
    look("of two that are as old the first");
    begin(WP_REDIS_SENTINEL, 2);
    t.epoch = 7;
    watches(1, EPOCH("6"), ADDRESS("4"));
    watches(2, EPOCH("7"), ADDRESS("5"));
    fakes[4].role = MASTER;
    fakes[5].role = MASTER;
    look("one is as new as before");
    t.epoch = 7;
    fakes[5].role = SLAVE;
    look("and its master is none");
    begin(WP_REDIS_SENTINEL, 3);
    stops_after = 1;
    look("it stops");
    journal_compare("looks_older");
}

static void
test_others_are_learned(void **state)
{
    static char many[8192];
    size_t at;

    (void)state;
    begin(WP_REDIS_SENTINEL, 3);
    fakes[4].role = MASTER;
    watches(2, EPOCH("5"), ADDRESS("4"));
    fakes[2].others = "*10\r\n" OTHER("$1\r\nh\r\n", "$1\r\n1\r\n",
                                      "$1\r\na\r\n")         /* Known. */
        OTHER("$1\r\nh\r\n", "$1\r\n7\r\n", "$3\r\ntwo\r\n") /* It itself. */
        OTHER("$1\r\nh\r\n", "$1\r\n8\r\n", "$5\r\neight\r\n")
            OTHER("$1\r\nh\r\n", "$1\r\n9\r\n", "$5\r\neight\r\n") /* Again. */
        OTHER("$1\r\ni\r\n", "$1\r\n1\r\n", ":5\r\n") /* It has no name. */
        OTHER("$1\r\nj\r\n", "$1\r\n1\r\n", "$0\r\n\r\n")
            OTHER("$1\r\nk\r\n", "$1\r\n0\r\n", "$1\r\nk\r\n") /* No port. */
        OTHER(":5\r\n", "$1\r\n5\r\n", "$1\r\nl\r\n")          /* No host. */
        OTHER("$1\r\nm\r\n", "$1\r\n1\r\n",
              "$41\r\n01234567890123456789012345678901234567890\r\n") ":5\r\n";
    look("seven others");
    look("the same again");
    fakes[2].others =
        "*1\r\n" OTHER("$1\r\nn\r\n", "$1\r\n1\r\n", "$1\r\nn\r\n");
    look("it has forgotten them");
    at = (size_t)snprintf(many, sizeof many, "*20\r\n");
    for (int i = 10; i < 30; i++) {
        at += (size_t)snprintf(many + at, sizeof many - at,
                               "*4\r\n$2\r\nip\r\n$1\r\no\r\n$4\r\nport\r\n"
                               "$2\r\n%d\r\n",
                               i);
    }
    fakes[2].others = many;
    look("more than there is room for");
    fakes[2].unreachable = true;
    watches(3, EPOCH("5"), ADDRESS("4"));
    fakes[3].id = "$5\r\nthree\r\n";
    fakes[3].others = NULL;
    look("another one comes first, the learned ones stay");
    journal_compare("looks_learned");
}

static void
test_failovers_are_told(void **state)
{
    (void)state;
    begin(WP_REDIS_SENTINEL, 1);
    fakes[4].role = MASTER;
    watches(1, EPOCH("5"), ADDRESS("4"));
    look("followed");
    assert_int_equal(wp_redis_topology_events_fd(&t),
                     1000 + number_of(t.events));
    journal_note("nothing: %d", wp_redis_topology_read_events(&t));
#define TELL(text)                                                             \
    do {                                                                       \
        events[0] = text;                                                      \
        n_events = 1;                                                          \
        journal_note("told: %d", wp_redis_topology_read_events(&t));           \
    } while (0)
#define ABOUT(name) "*3\r\n$1\r\na\r\n$1\r\nb\r\n" name
    TELL(ABOUT("$3\r\nm x\r\n"));
    TELL(ABOUT("$2\r\nm \r\n"));
    TELL(ABOUT("$1\r\nm\r\n"));
    TELL(ABOUT("$4\r\nmm x\r\n"));
    TELL(ABOUT("$3\r\nn x\r\n"));
    TELL(ABOUT(":5\r\n"));
    TELL(":5\r\n");
    TELL("*2\r\n$1\r\na\r\n$3\r\nm x\r\n");
    TELL("*4\r\n$1\r\na\r\n$1\r\nb\r\n$3\r\nm x\r\n$1\r\nc\r\n");
    events[1] = ABOUT("$3\r\nm x\r\n");
    events[0] = ABOUT("$3\r\nn x\r\n");
    n_events = 2;
    journal_note("ours and another: %d", wp_redis_topology_read_events(&t));
    events_broken = true;
    journal_note("broken: %d", wp_redis_topology_read_events(&t));
    assert_null(t.events);
    events_broken = false;
    look("followed again");
    events_over = true;
    journal_note("over: %d", wp_redis_topology_read_events(&t));
    assert_null(t.events);
    wp_redis_topology_close_events(&t);
    fakes[1].no_login = false;
    look("and again");
    wp_redis_topology_close_events(&t);
    assert_null(t.events);
    fakes[1].reached_for = 1;
    look("just now it was there");
    assert_null(t.events);
    assert_int_equal(n_replies, 0);
    assert_int_equal(n_locked, 0);
    journal_compare("looks_told");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_that_is_whole_is_believed),
        cmocka_unit_test(
            test_of_those_that_are_not_whole_the_newest_is_believed),
        cmocka_unit_test(test_what_a_node_says_of_itself),
        cmocka_unit_test(test_whom_to_ask_first),
        cmocka_unit_test(test_a_look_ends_in_time),
        cmocka_unit_test(test_nodes_in_doubt_are_looked_at),
        cmocka_unit_test(test_the_first_sentinel_that_knows_is_believed),
        cmocka_unit_test(test_what_is_no_master_of_a_sentinel),
        cmocka_unit_test(test_sentinels_of_before),
        cmocka_unit_test(test_others_are_learned),
        cmocka_unit_test(test_failovers_are_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
