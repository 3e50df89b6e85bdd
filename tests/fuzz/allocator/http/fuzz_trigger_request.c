/* Bodies of triggers. What is taken is in bounds, names a claim that Kubernetes
 * can have, and says what its type needs; what is not says why. */
#include <stdlib.h>
#include <string.h>

#include "allocator/http/trigger_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check(bool ok)
{
    if (!ok) {
        abort();
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct wp_trigger trigger;
    char why[WP_TRIGGER_WHY_MAX] = "";
    char name[WP_SANDBOX_NAME_MAX + 1];
    int status = wp_trigger_read((struct wp_str){(const char *)data, size},
                                 &trigger, why);

    if (status != 0) {
        check((status == 400 || status == 422) && why[0] != '\0');
        check(wp_str_is_printable(wp_str_from(why)));
        return 0;
    }
    check(trigger.n_marks >= 2 && trigger.n_marks <= WP_TRIGGER_MARKS_MAX);
    for (uint32_t i = 0; i < trigger.n_marks; i++) {
        struct wp_str value = wp_str_from(trigger.marks[i].value);

        check(wp_str_starts_with(wp_str_from(trigger.marks[i].key),
                                 WP_STR("trigger-")));
        check(value.len > 0 && wp_str_is_printable(value));
    }
    check(strlen(trigger.stem) <= WP_TRIGGER_STEM_MAX);
    memcpy(name, trigger.stem, strlen(trigger.stem));
    memcpy(name + strlen(trigger.stem), "-0a1b2c", sizeof "-0a1b2c");
    check(wp_str_is_dns_name(wp_str_from(name), WP_SANDBOX_NAME_MAX));
    check(trigger.ns[0] == '\0' ||
          wp_str_is_dns_name(wp_str_from(trigger.ns), WP_NAMESPACE_MAX));
    check(trigger.ttl_ns > 0 && trigger.ttl_ns <= WP_TTL_MAX_NS);
    return 0;
}
