#include "pool/scale/reservation.h"

#include <stdlib.h>
#include <string.h>

#include "pool/base/assert.h"

void
wp_reservations_init(struct wp_reservations *reservations)
{
    *reservations = (struct wp_reservations){.next_end_ns = WP_TIME_NEVER};
}

void
wp_reservations_fini(struct wp_reservations *reservations)
{
    free(reservations->all);
    wp_reservations_init(reservations);
}

static struct wp_scale_reservation *
find(const struct wp_reservations *reservations, struct wp_str id)
{
    if (id.len == 0 || id.len >= sizeof reservations->all[0].id ||
        memchr(id.ptr, '\0', id.len) != NULL) {
        return NULL;
    }
    for (uint32_t i = 0; i < reservations->n; i++) {
        const char *known = reservations->all[i].id;

        if (memcmp(known, id.ptr, id.len) == 0 && known[id.len] == '\0') {
            return &reservations->all[i];
        }
    }
    return NULL;
}

static bool
grow(struct wp_reservations *reservations)
{
    uint32_t cap = reservations->cap == 0 ? 4 : 2 * reservations->cap;
    struct wp_scale_reservation *all;

    all = realloc(reservations->all, cap * sizeof *all);
    if (all == NULL) {
        return false;
    }
    reservations->all = all;
    reservations->cap = cap;
    return true;
}

enum wp_status
wp_reservations_add(struct wp_reservations *reservations,
                    const struct wp_scale_reservation *added,
                    struct wp_err *err)
{
    const struct wp_scale_reservation *old =
        find(reservations, wp_str_from(added->id));

    if (old != NULL) {
        if (old->n == added->n && old->from_wall_ns == added->from_wall_ns &&
            old->until_wall_ns == added->until_wall_ns) {
            return WP_OK;
        }
        return wp_err_set(err, WP_ALREADY_EXISTS,
                          "reservation '%s' exists with other numbers: cancel "
                          "it first, or take another id",
                          added->id);
    }
    if (reservations->n == WP_SCALE_RESERVATIONS_MAX) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                          "the pool has %d reservations already, the most it "
                          "can have",
                          WP_SCALE_RESERVATIONS_MAX);
    }
    if (reservations->n == reservations->cap && !grow(reservations)) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "out of memory");
    }
    reservations->all[reservations->n++] = *added;
    if (added->until_wall_ns < reservations->next_end_ns) {
        reservations->next_end_ns = added->until_wall_ns;
    }
    return WP_OK;
}

static void
remove_at(struct wp_reservations *reservations, uint32_t i)
{
    memmove(&reservations->all[i], &reservations->all[i + 1],
            (reservations->n - i - 1) * sizeof reservations->all[0]);
    reservations->n--;
}

enum wp_status
wp_reservations_remove(struct wp_reservations *reservations, struct wp_str id)
{
    const struct wp_scale_reservation *found = find(reservations, id);

    if (found == NULL) {
        return WP_NOT_FOUND;
    }
    remove_at(reservations, (uint32_t)(found - reservations->all));
    return WP_OK;
}

void
wp_reservations_expire(struct wp_reservations *reservations, int64_t wall_ns)
{
    if (wall_ns < reservations->next_end_ns) {
        return;
    }
    reservations->next_end_ns = WP_TIME_NEVER;
    for (uint32_t i = reservations->n; i > 0; i--) {
        int64_t end_ns = reservations->all[i - 1].until_wall_ns;

        if (end_ns <= wall_ns) {
            remove_at(reservations, i - 1);
        } else if (end_ns < reservations->next_end_ns) {
            reservations->next_end_ns = end_ns;
        }
    }
}

/* Of those whose time has come and that have any left, the one that ends first.
 * Never one that is over. */
static struct wp_scale_reservation *
first_ending(struct wp_reservations *reservations, int64_t wall_ns,
             int64_t early_ns)
{
    struct wp_scale_reservation *found = NULL;

    for (uint32_t i = 0; i < reservations->n; i++) {
        struct wp_scale_reservation *one = &reservations->all[i];

        if (one->left > 0 && one->until_wall_ns > wall_ns &&
            one->from_wall_ns <= wp_time_add(wall_ns, early_ns) &&
            (found == NULL || one->until_wall_ns < found->until_wall_ns)) {
            found = one;
        }
    }
    return found;
}

uint32_t
wp_reservations_use(struct wp_reservations *reservations, int64_t wall_ns,
                    int64_t early_ns, uint32_t n)
{
    uint32_t used = 0;

    while (used < n) {
        struct wp_scale_reservation *one =
            first_ending(reservations, wall_ns, early_ns);
        uint32_t take;

        if (one == NULL) {
            break;
        }
        take = one->left < n - used ? one->left : n - used;
        one->left -= take;
        used += take;
    }
    return used;
}

uint32_t
wp_reservations_due(const struct wp_reservations *reservations, int64_t wall_ns,
                    int64_t ahead_ns, int64_t *changes_at_ns)
{
    uint64_t due = 0;

    WP_ASSERT(ahead_ns >= 0);
    *changes_at_ns = WP_TIME_NEVER;
    for (uint32_t i = 0; i < reservations->n; i++) {
        const struct wp_scale_reservation *one = &reservations->all[i];
        int64_t order_ns = one->from_wall_ns > INT64_MIN + ahead_ns
                               ? one->from_wall_ns - ahead_ns
                               : INT64_MIN;
        int64_t change_ns = one->until_wall_ns;

        if (one->until_wall_ns <= wall_ns) {
            continue;
        }
        if (order_ns > wall_ns) {
            change_ns = order_ns;
        } else {
            due += one->left;
        }
        if (change_ns < *changes_at_ns) {
            *changes_at_ns = change_ns;
        }
    }
    return due < UINT32_MAX ? (uint32_t)due : UINT32_MAX;
}
