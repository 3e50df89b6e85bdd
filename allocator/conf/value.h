/* allocator/conf/value.h - one setting's text and value. Private to conf_*. */
#ifndef WP_ALLOCATOR_CONF_VALUE_H
#define WP_ALLOCATOR_CONF_VALUE_H

#include "allocator/conf/conf.h"

/* "30s" and the like; plain "0" too. False when it is none or overflows. */
WP_MUST_CHECK bool wp_conf_duration_parse(struct wp_str text, int64_t *out_ns);
/* The shortest such text; returns out. */
const char *wp_conf_duration_format(int64_t duration_ns, char out[32]);
/* "4096", "256KiB"; units KiB, MiB, GiB. */
WP_MUST_CHECK bool wp_conf_size_parse(struct wp_str text, int64_t *out_bytes);
const char *wp_conf_size_format(int64_t bytes, char out[32]);

/* The setting of that name, '-' and '_' alike; WP_SETTINGS when there is
 * none. */
enum wp_setting_id wp_setting_find(struct wp_str name);
/* The name most like it, or NULL when none is near. */
const char *wp_setting_nearest(struct wp_str name);

/* Checks items (one for anything but a list) and, unless a stronger source has
 * spoken before, keeps them. err is without the source's name. */
enum wp_status wp_conf_set(struct wp_conf *conf, enum wp_setting_id id,
                           const struct wp_str *items, uint32_t n,
                           struct wp_conf_origin origin, struct wp_err *err);
/* The same from one text: lists are split at commas. append: a list keeps what
 * the same source gave before. */
enum wp_status wp_conf_set_text(struct wp_conf *conf, enum wp_setting_id id,
                                struct wp_str text,
                                struct wp_conf_origin origin,
                                struct wp_err *err);

/* "a whole number from 1 to 64": what is expected; returns out. */
const char *wp_setting_expected(const struct wp_setting *setting, char *out,
                                size_t cap);

#endif
