#include "proto/formats/http_bound.h"

#include <event2/buffer.h>

#include "proto/formats/http_server.h"

void
wp_http_bound_read(struct wp_http_bound *bound, bool on)
{
    bool full = evbuffer_get_length(bufferevent_get_input(bound->bev)) >=
                WP_HTTP_BUFFER;

    bound->held = on && full;
    if (on && !full) {
        (void)bufferevent_enable(bound->bev, EV_READ);
    } else {
        (void)bufferevent_disable(bound->bev, EV_READ);
    }
}

static void
on_input_size(struct evbuffer *in, const struct evbuffer_cb_info *info,
              void *ctx)
{
    struct wp_http_bound *bound = ctx;
    bool full = evbuffer_get_length(in) >= WP_HTTP_BUFFER;
    bool reads = (bufferevent_get_enabled(bound->bev) & EV_READ) != 0;

    (void)info;
    /* Reading that is off for another reason stays off. */
    if (bound->held ? !full : full && reads) {
        wp_http_bound_read(bound, true);
    }
}

void
wp_http_bound_set(struct wp_http_bound *bound, struct bufferevent *bev)
{
    *bound = (struct wp_http_bound){.bev = bev};
    bufferevent_setwatermark(bev, EV_READ, 0, WP_HTTP_BUFFER);
    bufferevent_setwatermark(bev, EV_WRITE, WP_HTTP_BUFFER / 2, 0);
    (void)evbuffer_add_cb(bufferevent_get_input(bev), on_input_size, bound);
}
