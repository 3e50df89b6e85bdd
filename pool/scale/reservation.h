/* pool/scale/reservation.h - demand that was announced to one pool.
 *
 * A small table by id; it grows as reservations come, up to a bound. Claims use
 * up what is announced, the one that ends first before the others. One owner.
 */
#ifndef WP_POOL_SCALE_RESERVATION_H
#define WP_POOL_SCALE_RESERVATION_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/scale/scaler.h"

struct wp_reservations {
    struct wp_scale_reservation *all; /* Owned; n of cap. */
    uint32_t n;
    uint32_t cap;
    int64_t next_end_ns; /* Wall; nothing ends before. */
};

void wp_reservations_init(struct wp_reservations *reservations);
void wp_reservations_fini(struct wp_reservations *reservations);
/* See wp_scaler_reserve. */
enum wp_status wp_reservations_add(struct wp_reservations *reservations,
                                   const struct wp_scale_reservation *added,
                                   struct wp_err *err);
enum wp_status wp_reservations_remove(struct wp_reservations *reservations,
                                      struct wp_str id);
/* Those that are over at wall_ns go. O(1) as long as none is. */
void wp_reservations_expire(struct wp_reservations *reservations,
                            int64_t wall_ns);
/* Up to n claims at wall_ns use up what is announced for now, or for up to
 * early_ns from now. Returns how many did. */
uint32_t wp_reservations_use(struct wp_reservations *reservations,
                             int64_t wall_ns, int64_t early_ns, uint32_t n);
/* How many must be in stock, or on order, at wall_ns, ordered ahead_ns before
 * they are wanted; and when that changes next (wall; WP_TIME_NEVER: never). */
uint32_t wp_reservations_due(const struct wp_reservations *reservations,
                             int64_t wall_ns, int64_t ahead_ns,
                             int64_t *changes_at_ns);

#endif
