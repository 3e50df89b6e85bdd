/* Any bytes as a record of trust, which is written again as it was read, and as
 * a tree image whose files are looked at. */
#include <stdlib.h>
#include <string.h>

#include "proto/checkout/trust_look.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check(bool holds)
{
    if (!holds) {
        abort();
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct wp_trust_record record;
    static struct wp_trust_record again;
    static char text[WP_TRUST_TEXT_MAX + 1];
    struct wp_str bytes = {(const char *)data, size};
    const struct wp_trust_covers covers = {.n = 2, .dirs = {"a", "b/c"}};
    char why[WP_TRUST_WHY_MAX];
    struct wp_err err = {.msg = ""};
    bool more;

    if (wp_trust_record_read(bytes, &record)) {
        size_t len = wp_trust_record_write(&record, text);

        check(wp_trust_record_read((struct wp_str){text, len}, &again));
        check(memcmp(&record, &again, sizeof record) == 0);
        check(wp_trust_record_same(&record, &again, &more, why) && !more);
    }
    if (wp_trust_files_parse(bytes, &record, &err) != WP_OK) {
        check(err.msg[0] != '\0');
    }
    check(wp_trust_files_parse(WP_STR("a, a/b, c/d/e"), &record, &err) ==
          WP_OK);
    if (wp_trust_look(data, size, &covers, &record)) {
        check(wp_trust_record_same(&again, &record, &more, why) ==
              (why[0] == '\0'));
        check(strlen(why) < sizeof why);
    }
    return 0;
}
