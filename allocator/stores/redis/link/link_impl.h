/* allocator/stores/redis/link/link_impl.h - what the threads of a set of links
 * share.
 *
 * link.c is the writers' side, batch.c the commands that gather,
 * reader.c the reading thread, connect.c the connecting thread.
 *
 *            connected                    broken
 *   DOWN ----------------> UP -----------------------> BROKEN
 *    ^   connecting thread     writer or reading thread   |
 *    '----------------------------------------------------'
 *           reading thread: closed, every call ended
 *
 * wp_redis_links_close brings each to DOWN once the threads have ended.
 *
 * Answers are read by the reading thread, or by the writer that waits for the
 * only one that is owed: whoever holds `reading`. */
#ifndef WP_ALLOCATOR_STORES_REDIS_LINK_LINK_IMPL_H
#define WP_ALLOCATOR_STORES_REDIS_LINK_LINK_IMPL_H

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>

#include "allocator/stores/redis/link/link.h"
#include "allocator/stores/redis/link/stream.h"
#include "pool/base/compiler.h"
#include "pool/base/rng.h"

struct redisReader;

enum {
    WP_LINK_BUFFER = 256 * 1024,
    WP_LINK_BATCH_HEAD = 512,
    WP_LINK_BATCH_KEYS = 16 * 1024,
    WP_LINK_BATCH_REST = 32 * 1024,
    WP_LINK_BATCH_BITS = 16384,
};

enum wp_link_state {
    WP_LINK_DOWN,
    WP_LINK_UP,
    WP_LINK_BROKEN,
};

struct wp_link_call {
    void *call;
    uint64_t end; /* Of its command in the stream of bytes. */
    int64_t at_ns;
    uint32_t tag;
    uint32_t n; /* Calls that its command answers, of the first of them. */
};

/* What was gathered since it was opened; see batch.c. */
struct wp_link_batch {
    uint32_t n; /* Calls; 0: it is closed, and nothing below counts. */
    uint32_t first;
    uint32_t tag; /* The same for all of them, and so is id. */
    uint32_t n_words;
    uint32_t n_keys;
    uint64_t id;
    size_t head_len;
    size_t keys_len;
    size_t rest_len;
    char *keys; /* WP_LINK_BATCH_KEYS */
    char *rest; /* WP_LINK_BATCH_REST */
    /* A bit for each key: no two calls of a command may have one in common. */
    uint64_t met[WP_LINK_BATCH_BITS / 64];
    char head[WP_LINK_BATCH_HEAD];
};

struct wp_redis_link {
    /* Guards what follows up to `head`; taken by the writer for each command,
     * by the other threads only when the link changes or is behind. */
    pthread_mutex_t lock;
    enum wp_link_state state;
    struct wp_redis_stream stream;
    bool renew;       /* No more commands: closed when the last is answered. */
    bool wants_write; /* The socket was full: the reading thread goes on. */
    bool awaited;     /* The writer reads the answers itself. */
    uint32_t watched; /* EPOLLIN, EPOLLOUT: of what the reading thread hears. */
    uint32_t n_missed; /* Answers in a row that did not come while awaited. */
    uint32_t n_passed; /* Calls still to be sent without waiting. */
    char *out;
    size_t out_len;
    size_t out_sent;
    uint64_t stream_len; /* Bytes ever appended since it came up; and sent. */
    uint64_t stream_sent;
    struct wp_link_batch batch;
    struct wp_redis_server server; /* Where it leads, or led at last. */

    /* The calls in flight: a ring that the writer fills, under the lock, and
     * who reads the answers empties. */
    struct wp_link_call *calls;
    alignas(WP_CACHELINE) _Atomic(uint32_t) head; /* Who reads. */
    alignas(WP_CACHELINE) _Atomic(uint32_t) tail;

    /* Guards what follows up to `index`, and closing the connection. Taken
     * before the link's lock, or only if it is free. */
    pthread_mutex_t reading;
    struct redisReader *reader;
    const char *broken; /* Why a writer that read has given the link up. */
    struct wp_redis_reply reply;
    char text[WP_REDIS_REPLY_MAX];
    uint32_t index;
    struct wp_redis_links *links;
    long long client_id; /* Connecting thread: the server's name for it; 0. */
};

struct wp_redis_links {
    struct wp_redis_config config;
    struct wp_redis_hooks hooks;
    char key[512];
    size_t key_len;
    uint32_t n;
    uint32_t calls_max; /* A power of two. */
    struct wp_redis_link *links;

    int epoll_fd;
    int wake_fd;
    _Atomic(bool) asleep; /* The reading thread waits without a limit. */
    _Atomic(bool) stop;
    _Atomic(bool) breaker;
    _Atomic(bool) renew; /* All of them. */
    _Atomic(bool) check; /* Some: they say so. */

    int64_t lost_logged_ns; /* Reading thread: last word about a lost link. */

    pthread_mutex_t down_lock; /* Guards some_down. */
    pthread_cond_t down_cond;
    bool some_down; /* There may be a link to connect. */
    pthread_t reader;
    pthread_t connector;
    bool reader_runs;
    bool connector_runs;
    struct wp_rng rng; /* Connecting thread. */
    char run_id[WP_REDIS_RUN_ID_MAX + 1];
    int64_t logged_ns; /* When it last said that Redis is out of reach. */
    bool logged;

    _Atomic(uint64_t) connects;
    _Atomic(uint64_t) connect_failures;
    _Atomic(uint64_t) disconnects;
    _Atomic(uint64_t) timeouts;
    _Atomic(uint64_t) refused;
    _Atomic(uint64_t) full;
    _Atomic(uint64_t) unknown;
};

#define WP_LINK_COUNT(counter)                                                 \
    atomic_fetch_add_explicit(&(counter), 1, memory_order_relaxed)

/* --- any thread --- */

/* Calls without an answer. Sequentially consistent against `asleep`. */
static inline uint32_t
wp_link_in_flight(struct wp_redis_link *link)
{
    uint32_t head = atomic_load(&link->head);

    return atomic_load(&link->tail) - head;
}

/* --- the link's lock is held --- */

/* Bytes that the words take at most. */
static inline size_t
wp_link_words_len(const struct wp_str *words, uint32_t n)
{
    size_t len = 0;

    for (uint32_t i = 0; i < n; i++) {
        len += words[i].len + 32;
    }
    return len;
}
static inline bool
wp_link_has_gathered(const struct wp_redis_link *link)
{
    return link->out_len > 0 || link->batch.n > 0;
}
size_t wp_link_put_number(char *out, size_t number);
/* "*3\r\n"; returns its end, as does the next one. */
char *wp_link_put_count(char *out, char kind, size_t count);
char *wp_link_put_words(char *out, const struct wp_str *words, uint32_t n);
/* So many bytes behind what the buffer has. */
bool wp_link_make_room(struct wp_redis_link *link, size_t need);
/* It is up, and one more may be in flight; counts what it refuses. */
bool wp_link_takes_calls(struct wp_redis_link *link);
void wp_link_push_call(struct wp_redis_link *link, void *call, uint32_t tag,
                       uint64_t end);
/* Puts the batch into the buffer, if one is open. */
void wp_link_batch_close(struct wp_redis_link *link);
/* Sends what the socket takes, the batch with it; false: the link broke. */
bool wp_link_send(struct wp_redis_link *link);
/* What the reading thread hears of besides the end of the connection. */
void wp_link_watch(struct wp_redis_link *link, uint32_t events);
/* Closes the link to writers; the reading thread does the rest. */
void wp_link_break(struct wp_redis_link *link);

/* --- reading is held, the link's lock is not --- */

/* Closes the connection, if there is one, and ends every call: DOWN. Reading
 * thread, or who has ended it. */
void wp_link_close(struct wp_redis_link *link);

/* Waits a moment for the one answer that is owed, and gives it to its hook on
 * this thread; what does not come in time is the reading thread's. */
void wp_link_await(struct wp_redis_link *link);

/* --- any thread --- */

bool wp_link_batch_init(struct wp_link_batch *batch);
void wp_link_batch_fini(struct wp_link_batch *batch);
/* Ends a call's way into the buffer, which went so (status, returned): sends if
 * it is to be sent now or much is gathered, unlocks the link, and rouses. */
enum wp_status wp_link_appended(struct wp_redis_link *link,
                                enum wp_status status, bool flush);
/* After the reading thread: ends every call of the link. */
void wp_link_end_calls(struct wp_redis_link *link);

/* Milliseconds are precise enough for timeouts, and cost less. */
int64_t wp_link_now_ns(void);

void *wp_redis_reader_run(void *arg);
void *wp_redis_connector_run(void *arg);
bool wp_link_reader_init(struct wp_redis_link *link);
void wp_link_reader_fini(struct wp_redis_link *link);

#endif
