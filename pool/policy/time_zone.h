/* pool/policy/time_zone.h - local time in a zone of the system's database.
 *
 * Zones are read from TZif files (RFC 8536, versions 1 to 4), each once in the
 * life of the process: a newer database counts from the next start on. What
 * comes after a file's last transition follows its footer, a rule as in POSIX'
 * TZ variable. A zone is never changed nor freed: pointers to it may be copied
 * and compared, and two of one name are the same.
 *
 * Local clocks go forward and back. Both questions below are of a clock that
 * does not go back: it stands still until the other has caught up. So each
 * local time is reached once: one that is skipped at the moment after the gap,
 * one that comes twice at the first of the two. */
#ifndef WP_POOL_POLICY_TIME_ZONE_H
#define WP_POOL_POLICY_TIME_ZONE_H

#include <stddef.h>
#include <stdint.h>

#include "pool/base/status.h"
#include "pool/base/str.h"

enum {
    WP_TIME_ZONE_NAME_MAX = 63,
    WP_TIME_ZONE_BYTES_MAX = 64 << 10, /* Of one file; real ones have 4 kB. */
    WP_TIME_ZONES_MAX = 1024,          /* In one process. */
};

struct wp_time_zone; /* Opaque. */

/* The zone of that name, such as "Europe/Zurich". "UTC" needs no file.
 * INVALID_ARGUMENT: a malformed name, none of that name, or no zone file (those
 * with leap seconds, "right/...", are not for wall clocks: refused).
 * RESOURCE_EXHAUSTED: memory, or too many. Any thread; reads the disk. */
enum wp_status wp_time_zone_find(struct wp_str name,
                                 const struct wp_time_zone **out,
                                 struct wp_err *err);
/* Where to read zones not yet read; "/usr/share/zoneinfo" at first. For tests:
 * no other thread uses zones, and path outlives their use. */
void wp_time_zone_use_directory(const char *path);
const char *wp_time_zone_name(const struct wp_time_zone *zone);

/* The contents of a zone file; err names what is wrong. For wp_time_zone_find
 * and tests: whoever calls this frees it by wp_time_zone_destroy. */
enum wp_status wp_time_zone_parse(struct wp_str name, const void *bytes,
                                  size_t len, struct wp_time_zone **out,
                                  struct wp_err *err);
void wp_time_zone_destroy(struct wp_time_zone *zone); /* NULL is fine. */

/* All below: any thread; times are seconds since 1970 within WP_ZONED_MAX_S of
 * it, in UTC or as a local clock shows them. zone NULL: UTC. */

#define WP_ZONED_MAX_S (INT64_C(1) << 40)

/* What local clocks are ahead of UTC by at utc_s, and until when (later than
 * utc_s; INT64_MAX: for ever, or longer than matters). */
int64_t wp_time_zone_offset_s(const struct wp_time_zone *zone, int64_t utc_s,
                              int64_t *until_s);
/* The latest local time that has been reached by utc_s. */
int64_t wp_time_zone_to_local_s(const struct wp_time_zone *zone, int64_t utc_s);
/* The first moment by which local_s has been reached. */
int64_t wp_time_zone_from_local_s(const struct wp_time_zone *zone,
                                  int64_t local_s);

#endif
