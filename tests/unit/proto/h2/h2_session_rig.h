/* h2_session_rig.h - one HTTP/2 connection with the real library below it, which
 * fails when it is told to: frames go in as bytes, and what the handler is told
 * and what comes out is written into the journal. */
#ifndef WP_TESTS_UNIT_PROTO_H2_H2_SESSION_RIG_H
#define WP_TESTS_UNIT_PROTO_H2_H2_SESSION_RIG_H

#include "proto/h2/internal.h"

#define LIT(text)                                                              \
    {                                                                          \
        (text), sizeof(text) - 1                                               \
    }
/* GET http://h/ */
#define RIG_GET "\x82\x86\x84\x41\x01h"

enum {
    RIG_STREAMS = 2,
    RIG_METADATA_MAX = 200,
};

struct session_rig {
    struct wp_h2_server server;
    struct wp_h2_worker worker;
    struct wp_h2_conn *conn;
    struct wp_h2_stream *last; /* The latest that was opened. */
    bool refuses;
    uint8_t in[64 << 10]; /* What the peer says next. */
    size_t in_len;
    const char *failing; /* A function of the library. */
    unsigned fails_in;
    int fails_with;
    int made;   /* Sets of callbacks and options, less those deleted. */
    int mapped; /* Memory for streams. */
    bool tells; /* Of what is asked of the library. */
};

extern struct session_rig rig;

int rig_begin(void **state);
int rig_end(void **state);
/* A new connection in place of the one that has ended. */
void rig_anew(void);
/* The nth call of this function fails, from now on. */
void rig_fail(const char *function, unsigned nth, int with);
/* The peer says these bytes, or this frame, next. */
void rig_put(const void *bytes, size_t len);
void rig_frame(uint8_t type, uint8_t flags, uint32_t id, const void *payload,
               size_t len);
void rig_put_ask(uint32_t id, bool ends);
/* It has said them: what comes of it. */
void rig_say(const char *what);
void rig_hello(void);
void rig_ask(uint32_t id, bool ends);
/* What is known of the connection, once bytes were said and written. */
void rig_show(void);

#endif
