/* The line of those who wait for room to run a command. */
#include "runtime/exec/process.h"

#include "pool/base/assert.h"
#include "runtime/exec/process_internal.h"

bool
wp_process_has_room(const struct wp_process_table *table)
{
    return table->running_count < table->limits.running_max &&
           table->waiting_count == 0;
}

static void
leave(struct wp_process_wait *wait)
{
    WP_ASSERT(wait->table != NULL);
    wp_list_remove(&wait->link);
    wait->table->waiting_count--;
    wait->table = NULL;
}

static void
on_room(evutil_socket_t fd, short what, void *arg)
{
    struct wp_process_table *table = arg;

    (void)fd;
    (void)what;
    while (table->waiting_count > 0 &&
           table->running_count < table->limits.running_max) {
        struct wp_process_wait *wait =
            WP_CONTAINER_OF(table->waiting.next, struct wp_process_wait, link);

        leave(wait);
        wait->room(wait->user);
    }
}

struct event *
wp_process_room_event(struct wp_process_table *table)
{
    return evtimer_new(table->base, on_room, table);
}

void
wp_process_room_check(struct wp_process_table *table)
{
    if (table->waiting_count > 0) {
        event_active(table->room, EV_TIMEOUT, 0);
    }
}

enum wp_status
wp_process_wait(struct wp_process_table *table, struct wp_process_wait *wait,
                struct wp_err *err)
{
    if (table->waiting_count >= table->limits.waiting_max) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                          "%u commands are running and %u wait, which is the "
                          "limit",
                          table->running_count, table->waiting_count);
    }
    wait->table = table;
    wp_list_push_back(&table->waiting, &wait->link);
    table->waiting_count++;
    return WP_OK;
}

void
wp_process_wait_cancel(struct wp_process_wait *wait)
{
    if (wait->table != NULL) {
        leave(wait);
    }
}
