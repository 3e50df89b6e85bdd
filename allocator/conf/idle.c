/* allocator/conf/idle.c - settings that do nothing with the chosen backend. */
#include <stdio.h>
#include <string.h>

#include "allocator/conf/conf.h"

struct row {
    const char *title; /* Or NULL: a setting. */
    enum wp_setting_id id;
};

static const struct row rows[] = {
#define WP_GROUP(text) {text, WP_SETTINGS},
#define WP_SETTING(type, name, ...) {NULL, WP_SET_##name},
#include "allocator/conf/settings.def"
#undef WP_SETTING
#undef WP_GROUP
};

size_t
wp_conf_idle(const struct wp_conf *conf, char *out, size_t cap)
{
    const char *idle_group = wp_conf_is_cluster(conf)
                                 ? WP_CONF_LOCAL_GROUP
                                 : WP_CONF_KUBERNETES_GROUP;
    bool idle = false;
    size_t n = 0;
    size_t len = 0;

    out[0] = '\0';
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        const char *name;
        size_t need;

        if (rows[i].title != NULL) {
            idle = strcmp(rows[i].title, idle_group) == 0;
            continue;
        }
        if (!idle || rows[i].id == WP_SET_backend ||
            conf->origin[rows[i].id].source == WP_CONF_DEFAULT) {
            continue;
        }
        name = wp_setting_get(rows[i].id)->name;
        need = strlen(name) + (n > 0 ? 2 : 0);
        n++;
        if (need >= cap - len) {
            cap = len + 1; /* Nothing more is added: names stay whole. */
            continue;
        }
        len += (size_t)snprintf(out + len, cap - len, "%s%s", n > 1 ? ", " : "",
                                name);
    }
    return n;
}
