/* allocator/http/answers.h - answers that come on any thread, brought to the
 * loop whose calls asked for them. */
#ifndef WP_ALLOCATOR_HTTP_ANSWERS_H
#define WP_ALLOCATOR_HTTP_ANSWERS_H

#include "pool/base/channel.h"
#include "proto/loop/loop.h"

/* Every answer is in the object of a call, which is its bound. */
struct wp_http_answers {
    struct wp_loop *loop;
    void (*take)(struct wp_linked_message *message); /* Loop thread. */
    struct wp_linked_channel channel;
};

void wp_http_answers_init(struct wp_http_answers *answers, struct wp_loop *loop,
                          void (*take)(struct wp_linked_message *message));
/* Has it taken; the call may be gone when this returns. Any thread. */
void wp_http_answers_put(struct wp_http_answers *answers,
                         struct wp_linked_message *message);
/* Takes what is there, the oldest first. Who has calls looks by itself ten
 * times a second, too: the loop's channel may have been full. Loop thread. */
void wp_http_answers_take(struct wp_http_answers *answers);
/* When no new call comes: waits until *n_calls, which the loop counts, is 0.
 * False: some were not answered in 30 s, which is logged, and still use their
 * memory. Any thread but the loop's. */
WP_MUST_CHECK bool wp_http_answers_end(struct wp_http_answers *answers,
                                       const uint32_t *n_calls);

#endif
