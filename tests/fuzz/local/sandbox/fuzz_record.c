/* Any bytes as the record of a sandbox: refused, or understood as something
 * that is written and read again to the same. */
#include <stdlib.h>
#include <string.h>

#include "local/sandbox/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool
same(const struct wp_record *a, const struct wp_record *b)
{
    return a->outer_pid == b->outer_pid && a->outer_start == b->outer_start &&
           a->inner_pid == b->inner_pid && a->inner_start == b->inner_start &&
           strcmp(a->boot_id, b->boot_id) == 0 &&
           memcmp(a->uid, b->uid, WP_UID_LEN) == 0 &&
           strcmp(a->pool_namespace, b->pool_namespace) == 0 &&
           strcmp(a->pool, b->pool) == 0 &&
           strcmp(a->template_name, b->template_name) == 0 &&
           a->template_hash == b->template_hash &&
           strcmp(a->name, b->name) == 0 &&
           strcmp(a->endpoint, b->endpoint) == 0 &&
           a->host_uid == b->host_uid && a->roots == b->roots &&
           a->ready == b->ready && strcmp(a->egress, b->egress) == 0 &&
           strcmp(a->narrowed, b->narrowed) == 0 &&
           strcmp(a->audience, b->audience) == 0 &&
           a->identity_ttl_ms == b->identity_ttl_ms &&
           strcmp(a->volumes, b->volumes) == 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wp_record record;
    struct wp_record again;
    char text[WP_RECORD_BYTES_MAX];
    size_t len;

    if (!wp_record_parse((const char *)data, size, &record)) {
        return 0;
    }
    if (record.outer_pid < 0 || record.inner_pid < 0 ||
        (record.version != WP_RECORD_VERSION && record.ready)) {
        abort();
    }
    if (record.version == WP_RECORD_VERSION) {
        len = wp_record_format(&record, text);
        if (!wp_record_parse(text, len, &again) || !same(&record, &again)) {
            abort();
        }
    }
    return 0;
}
