/* The times of Kubernetes objects, which are RFC 3339. */
#include "k8s/objects/json.h"
#include "pool/base/civil.h"
#include "pool/base/clock.h"

bool
wp_json_time(const char *text, int64_t *wall_ms)
{
    int64_t seconds;
    int32_t ns;

    if (!wp_civil_parse_time(wp_str_from(text), &seconds, &ns)) {
        return false;
    }
    *wall_ms = seconds * 1000 + ns / WP_NS_PER_MS;
    return true;
}
