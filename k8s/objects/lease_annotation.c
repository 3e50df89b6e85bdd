#include "k8s/objects/lease_annotation.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "k8s/objects/json.h"
#include "pool/base/assert.h"
#include "pool/base/str.h"
#include "pool/claim.h"

void
wp_lease_note_write(const struct wp_lease_note *note,
                    char out[WP_LEASE_NOTE_MAX])
{
    json_t *json = json_object();
    char request[17];
    size_t len;

    (void)wp_json_set_text(json, "claimId", note->claim_id);
    (void)wp_json_set_text(json, "tenant", note->tenant);
    (void)wp_json_set(json, "fence", json_integer((json_int_t)note->fence));
    (void)wp_json_set(json, "deadline",
                      json_integer((json_int_t)note->deadline_wall_ms));
    (void)wp_json_set(json, "until",
                      json_integer((json_int_t)note->until_wall_ms));
    (void)wp_json_set(json, "granted",
                      json_integer((json_int_t)note->granted_wall_ms));
    (void)wp_json_set_text(json, "pool", note->pool);
    (void)snprintf(request, sizeof request, "%016" PRIx64, note->fingerprint);
    (void)wp_json_set_text(json, "request", request);
    (void)wp_json_set(json, "served", json_integer((json_int_t)note->served));
    if (note->audience[0] != '\0') {
        (void)wp_json_set_text(json, "audience", note->audience);
        (void)wp_json_set(json, "identityTtl",
                          json_integer((json_int_t)note->identity_ttl_ms));
        (void)wp_json_set_text(json, "identitySeal", note->identity_seal);
    }
    len = json_dumpb(json, out, WP_LEASE_NOTE_MAX, JSON_COMPACT);
    WP_ASSERT(len > 0 && len < WP_LEASE_NOTE_MAX);
    out[len] = '\0';
    json_decref(json);
}

static bool
read_text(const json_t *json, const char *key, char *out, size_t cap)
{
    const json_t *value = json_object_get(json, key);

    /* A text with a NUL in it is longer than it looks. */
    return json_is_string(value) &&
           strlen(json_string_value(value)) == json_string_length(value) &&
           wp_str_copy(wp_str_from(json_string_value(value)), out, cap);
}

static bool
read_number(const json_t *json, const char *key, int64_t *out)
{
    const json_t *value = json_object_get(json, key);

    *out = json_integer_value(value);
    return json_is_integer(value) && *out >= 0;
}

/* What not every version writes; what makes no sense counts as not said. */
static void
read_optional(const json_t *json, struct wp_lease_note *note)
{
    const char *request = wp_json_text(json, "request", NULL);
    char *end = NULL;
    int64_t served = 0;

    if (!read_number(json, "until", &note->until_wall_ms) ||
        note->until_wall_ms < note->deadline_wall_ms) {
        note->until_wall_ms = note->deadline_wall_ms;
    }
    if (!read_number(json, "granted", &note->granted_wall_ms)) {
        note->granted_wall_ms = 0;
    }
    if (!read_text(json, "pool", note->pool, sizeof note->pool)) {
        note->pool[0] = '\0';
    }
    if (read_number(json, "served", &served) && served <= WP_SERVED_COLD) {
        note->served = (uint32_t)served;
    }
    note->fingerprint = strtoull(request, &end, 16);
    if (*end != '\0') {
        note->fingerprint = 0;
    }
}

static void
read_identity(const json_t *json, struct wp_lease_note *note)
{
    if (!read_text(json, "audience", note->audience, sizeof note->audience) ||
        !read_number(json, "identityTtl", &note->identity_ttl_ms) ||
        !read_text(json, "identitySeal", note->identity_seal,
                   sizeof note->identity_seal) ||
        note->audience[0] == '\0') {
        memset(note->audience, 0, sizeof note->audience);
        memset(note->identity_seal, 0, sizeof note->identity_seal);
        note->identity_ttl_ms = 0;
    }
}

bool
wp_lease_note_read(const char *text, struct wp_lease_note *note)
{
    size_t len = strnlen(text, WP_LEASE_NOTE_MAX + 1);
    json_t *json;
    int64_t fence = 0;
    bool whole;

    memset(note, 0, sizeof *note);
    if (len > WP_LEASE_NOTE_MAX) {
        return false;
    }
    json = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
    whole = json_is_object(json) &&
            read_text(json, "claimId", note->claim_id, sizeof note->claim_id) &&
            note->claim_id[0] != '\0' &&
            read_text(json, "tenant", note->tenant, sizeof note->tenant) &&
            read_number(json, "fence", &fence) &&
            read_number(json, "deadline", &note->deadline_wall_ms);
    note->fence = (uint64_t)fence;
    if (whole) {
        read_optional(json, note);
        read_identity(json, note);
    }
    json_decref(json);
    return whole;
}
