/* k8s/watch/reflector_impl.h - what the reflector*.c files share; private to
 * them.
 *
 * reflector.c        begin and end, pauses, the timer
 * reflector_list.c   lists, and probes of the version
 * reflector_watch.c  watches and their events */
#ifndef WP_K8S_WATCH_REFLECTOR_IMPL_H
#define WP_K8S_WATCH_REFLECTOR_IMPL_H

#include "k8s/watch/line.h"
#include "k8s/watch/reflector.h"
#include "k8s/watch/watch_event.h"
#include "pool/base/rng.h"

enum {
    WP_CONTINUE_MAX = 1024,
};

/*   LIST_SOON --> LISTING --> WATCH_SOON --> WATCHING
 *       ^            |  ^      |  ^   ^         |
 *       +-- failed --+  |      v  |   +- ended -+
 *       |         next page    PROBING          |
 *       +---- went back -------+                |
 *       +---- version gone, stalled ------------+
 * The timer belongs to LIST_SOON and WATCH_SOON, where it ends a pause, and to
 * WATCHING, where it looks whether the watch stands still. */
enum wp_reflector_state {
    WP_REFLECTOR_LIST_SOON,
    WP_REFLECTOR_LISTING,
    WP_REFLECTOR_WATCH_SOON,
    WP_REFLECTOR_PROBING,
    WP_REFLECTOR_WATCHING,
    /* The client was destroyed: nothing can be asked any more. */
    WP_REFLECTOR_ENDED,
};

struct wp_reflector {
    struct wp_reflector_config config;
    enum wp_reflector_state state;
    bool stopped; /* Freed when the list or probe under way has ended. */
    struct event *timer;
    struct wp_rng rng;
    uint32_t failures; /* In a row; until a watch has proved itself. */
    bool silent;       /* The last of them had no answer. */
    uint32_t doubts;   /* About the version, since a list or progress. */
    uint32_t page_limit;
    char version[WP_VERSION_MAX]; /* Where a watch goes on. */
    char cont[WP_CONTINUE_MAX]; /* The next page of a list; "" is its first. */
    struct wp_http_stream *stream; /* While WATCHING. */
    struct wp_line line;
    int64_t watch_begun_ns;
    int64_t watch_asked_ns; /* How long the server was asked to watch. */
    int64_t line_ns;        /* The last whole line. */
    bool went_back;         /* The server, since the last whole list. */
    bool heard;             /* Others know that it did. */
    bool unsure;      /* Whether it is the same server: its connection broke. */
    bool progress;    /* This watch told a new version. */
    bool doubtful;    /* on_doubt was told so. */
    bool list_needed; /* Once this watch has ended. */
    bool line_broken; /* It was ended for what it told. */
    bool line_last;   /* on_bytes has ended it. */
    struct wp_reflector_stats stats;
};

/* --- reflector.c --- */

int64_t wp_reflector_now_ns(const struct wp_reflector *self);
/* Of its kind, for logs. */
const char *wp_reflector_plural(const struct wp_reflector *self);
/* What its lists and watches are of. */
struct wp_api_target wp_reflector_target(const struct wp_reflector *self);
void wp_reflector_set_timer(struct wp_reflector *self, int64_t after_ns);
/* Makes the next pause longer. code: the HTTP status; 0: no answer. A server
 * that answers after silence has just come back: its pauses begin anew. */
void wp_reflector_note_failure(struct wp_reflector *self, int code);
/* state: LIST_SOON or WATCH_SOON. At once when nothing has failed.
 * asked_pause_ns: for how long the server wants to be left alone; -1: it did
 * not say. */
void wp_reflector_go_on(struct wp_reflector *self,
                        enum wp_reflector_state state, int64_t asked_pause_ns);
/* Is what is known what the server has? A watch that ends before its time may
 * have been of another server, or of one whose storage was another. */
void wp_reflector_doubt(struct wp_reflector *self, bool doubtful);
/* NULL: it makes no sense, which was said; the rest goes on without it. */
struct wp_object *wp_reflector_read(struct wp_reflector *self,
                                    const json_t *json);
/* Versions' numbers grow on every known server; where one is none, false. */
bool wp_reflector_is_before(const char *version, const char *other);
void wp_reflector_free(struct wp_reflector *self);

/* --- reflector_list.c --- */

/* Asks for a list's first page, or the next. */
void wp_reflector_list(struct wp_reflector *self);
/* Whoever answers now may be a server whose storage was brought back from a
 * backup. Its watch would be silent until its versions have come this far, and
 * then leave out what is different; its version tells. */
void wp_reflector_probe(struct wp_reflector *self);

/* --- reflector_watch.c --- */

void wp_reflector_watch(struct wp_reflector *self);
/* It is time to look whether the watch stands still. That is seen by its lines,
 * not by its bytes: what drips and never becomes a line helps nobody. */
void wp_reflector_check_watch(struct wp_reflector *self);

#endif
