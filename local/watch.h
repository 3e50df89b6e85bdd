/* local/watch.h - one descriptor in the event loop of warmpool-init. */
#ifndef WP_LOCAL_WATCH_H
#define WP_LOCAL_WATCH_H

#include <stdint.h>

/* Embedded in what owns the descriptor; epoll's data pointer is its address. */
struct wp_watch {
    void (*on_events)(struct wp_watch *watch, uint32_t epoll_events);
};

#endif
