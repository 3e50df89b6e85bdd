#include "allocator/http/answers.h"

#include <time.h>

#include "pool/base/clock.h"
#include "pool/base/log.h"

enum {
    END_WAIT_S = 30, /* For whoever still has calls. */
    END_LOOK_NS = 1000000,
};

void
wp_http_answers_init(struct wp_http_answers *answers, struct wp_loop *loop,
                     void (*take)(struct wp_linked_message *message))
{
    answers->loop = loop;
    answers->take = take;
    wp_linked_init(&answers->channel);
}

void
wp_http_answers_take(struct wp_http_answers *answers)
{
    struct wp_linked_message *message = wp_linked_receive(&answers->channel);

    while (message != NULL) {
        struct wp_linked_message *next = message->next;

        answers->take(message);
        message = next;
    }
}

static void
take_posted(void *ctx, uint64_t a, uint64_t b)
{
    (void)a;
    (void)b;
    wp_http_answers_take(ctx);
}

void
wp_http_answers_put(struct wp_http_answers *answers,
                    struct wp_linked_message *message)
{
    /* When the loop's channel is full, who has calls looks by itself. */
    if (wp_linked_send(&answers->channel, message) == WP_LINKED_WAKE) {
        (void)!wp_loop_post(answers->loop, take_posted, answers, 0, 0);
    }
}

static void
take_all(void *ctx)
{
    wp_http_answers_take(ctx);
}

bool
wp_http_answers_end(struct wp_http_answers *answers, const uint32_t *n_calls)
{
    const struct timespec pause = {0, END_LOOK_NS};

    /* Each look is a turn of the loop: what was posted is run before. */
    wp_loop_call(answers->loop, take_all, answers);
    for (int64_t left = END_WAIT_S * WP_NS_PER_S; *n_calls > 0 && left > 0;
         left -= END_LOOK_NS) {
        (void)nanosleep(&pause, NULL);
        wp_loop_call(answers->loop, take_all, answers);
    }
    if (*n_calls > 0) {
        wp_log_warn("requests of HTTP clients are not answered yet; their "
                    "memory stays");
    }
    return *n_calls == 0;
}
