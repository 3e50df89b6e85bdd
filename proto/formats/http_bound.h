/* proto/formats/http_bound.h - what waits in the input of one side of a
 * connection is bounded. Private to the HTTP server and the exchange. */
#ifndef WP_PROTO_FORMATS_HTTP_BOUND_H
#define WP_PROTO_FORMATS_HTTP_BOUND_H

#include <event2/bufferevent.h>
#include <stdbool.h>

/* Of a side's input: reading is off while WP_HTTP_BUFFER bytes wait in it. The
 * high mark alone would not do: libevent then calls the reader again and again
 * until it takes some. */
struct wp_http_bound {
    struct bufferevent *bev;
    bool held; /* Reading is off for that, and goes on once there is room. */
};

/* Both marks of bev. bound lives as long as bev calls back. */
void wp_http_bound_set(struct wp_http_bound *bound, struct bufferevent *bev);
/* Reads, as soon as there is room; or not, until this is called again. */
void wp_http_bound_read(struct wp_http_bound *bound, bool on);

#endif
