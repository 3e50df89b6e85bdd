#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "pool/base/assert.h"
#include "pool/base/extreme.h"
#include "pool/base/file.h"
#include "pool/policy/time_zone_impl.h"

enum {
    PATH_LEN_MAX = 4096,
    /* Local times are ahead of, or behind, each other by less. */
    REACH_S = 2 * WP_ZONE_OFFSET_MAX_S,
};

static const struct wp_time_zone utc = {.name = "UTC"};

/* Every zone that was asked for, in no order. guards: zones, n_zones,
 * directory. */
static pthread_mutex_t zones_lock = PTHREAD_MUTEX_INITIALIZER;
static struct wp_time_zone *zones[WP_TIME_ZONES_MAX];
static uint32_t n_zones;
static const char *directory = "/usr/share/zoneinfo";

/* --- What time it is --- */

int64_t
wp_time_zone_offset_s(const struct wp_time_zone *zone, int64_t utc_s,
                      int64_t *until_s)
{
    uint32_t low = 0;
    uint32_t high;

    WP_ASSERT(utc_s >= -2 * WP_ZONED_MAX_S && utc_s <= 2 * WP_ZONED_MAX_S);
    *until_s = INT64_MAX;
    if (zone == NULL) {
        return 0;
    }
    /* low: how many changes have been by then. */
    for (high = zone->n_changes; low < high;) {
        uint32_t middle = low + (high - low) / 2;

        if (zone->changes[middle].at_s <= utc_s) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low < zone->n_changes) {
        *until_s = zone->changes[low].at_s;
    } else if (zone->has_rule) {
        return wp_zone_rule_offset_s(&zone->rule, utc_s, until_s);
    }
    return low == 0 ? zone->first_s : zone->changes[low - 1].offset_s;
}

int64_t
wp_time_zone_to_local_s(const struct wp_time_zone *zone, int64_t utc_s)
{
    int64_t until_s;
    int64_t latest_s = INT64_MIN;

    WP_ASSERT(utc_s >= -WP_ZONED_MAX_S && utc_s <= WP_ZONED_MAX_S);
    for (int64_t at_s = utc_s - REACH_S; at_s <= utc_s; at_s = until_s) {
        int64_t offset_s = wp_time_zone_offset_s(zone, at_s, &until_s);
        int64_t last_s = wp_min_i64(until_s - 1, utc_s);

        latest_s = wp_max_i64(latest_s, last_s + offset_s);
    }
    return latest_s;
}

int64_t
wp_time_zone_from_local_s(const struct wp_time_zone *zone, int64_t local_s)
{
    int64_t at_s = local_s - WP_ZONE_OFFSET_MAX_S;

    WP_ASSERT(local_s >= -WP_ZONED_MAX_S && local_s <= WP_ZONED_MAX_S);
    for (;;) {
        int64_t until_s;
        int64_t offset_s = wp_time_zone_offset_s(zone, at_s, &until_s);
        int64_t then_s = wp_max_i64(local_s - offset_s, at_s);

        if (then_s < until_s) {
            return then_s;
        }
        at_s = until_s;
    }
}

/* --- Finding zones --- */

const char *
wp_time_zone_name(const struct wp_time_zone *zone)
{
    return zone != NULL ? zone->name : utc.name;
}

void
wp_time_zone_use_directory(const char *path)
{
    (void)pthread_mutex_lock(&zones_lock);
    directory = path;
    (void)pthread_mutex_unlock(&zones_lock);
}

/* Names become paths: nothing leads out of the directory. */
static bool
name_is_fine(struct wp_str name)
{
    bool begins = true;

    if (name.len == 0 || name.len > WP_TIME_ZONE_NAME_MAX) {
        return false;
    }
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                    (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '_';

        if (!word && (begins || (c != '/' && c != '.'))) {
            return false;
        }
        begins = c == '/';
    }
    return !begins;
}

static enum wp_status
load(const char *name, struct wp_time_zone **out, struct wp_err *err)
{
    static uint8_t buf[WP_TIME_ZONE_BYTES_MAX + 1]; /* Under zones_lock. */
    char path[PATH_LEN_MAX];
    int path_len = snprintf(path, sizeof path, "%s/%s", directory, name);
    struct stat st;
    ssize_t len;

    if (path_len < 0 || (size_t)path_len >= sizeof path) {
        return wp_err_set(err, WP_INVALID_ARGUMENT, "too long a path");
    }
    /* A FIFO there must not hold us up. */
    len = wp_path_read(path, O_NONBLOCK, buf, sizeof buf, &st);
    if (st.st_mode != 0 && !S_ISREG(st.st_mode)) {
        len = -1;
        errno = EINVAL;
    }
    if (len < 0 && errno == ENOENT && access(directory, F_OK) != 0) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "there is no %.100s on this machine: package tzdata "
                          "has it",
                          directory);
    }
    if (len < 0 && (errno == ENOENT || errno == ENOTDIR || errno == EINVAL)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "no such zone in %.100s; a name such as "
                          "Europe/Zurich or UTC expected",
                          directory);
    }
    if (len < 0) {
        return wp_err_sys(err, WP_INVALID_ARGUMENT, errno, "reading %.150s",
                          path);
    }
    return wp_time_zone_parse(wp_str_from(name), buf, (size_t)len, out, err);
}

static enum wp_status
find_locked(const char *name, const struct wp_time_zone **out,
            struct wp_err *err)
{
    enum wp_status status;

    for (uint32_t i = 0; i < n_zones; i++) {
        if (strcmp(zones[i]->name, name) == 0) {
            *out = zones[i];
            return WP_OK;
        }
    }
    if (n_zones == WP_TIME_ZONES_MAX) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                          "%d zones are in use, which is the most",
                          WP_TIME_ZONES_MAX);
    }
    status = load(name, &zones[n_zones], err);
    if (status == WP_OK) {
        *out = zones[n_zones++];
    }
    return status;
}

enum wp_status
wp_time_zone_find(struct wp_str name, const struct wp_time_zone **out,
                  struct wp_err *err)
{
    char copy[WP_TIME_ZONE_NAME_MAX + 1];
    enum wp_status status;

    if (wp_str_is(name, utc.name)) {
        *out = &utc;
        return WP_OK;
    }
    if (!name_is_fine(name) || !wp_str_copy(name, copy, sizeof copy)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "a name such as Europe/Zurich or UTC expected, of "
                          "letters, digits and +-_/ and at most %d characters",
                          WP_TIME_ZONE_NAME_MAX);
    }
    (void)pthread_mutex_lock(&zones_lock);
    status = find_locked(copy, out, err);
    (void)pthread_mutex_unlock(&zones_lock);
    return status;
}
