#include "k8s/controllers/webhook/pairs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "k8s/objects/json.h"

#define DAY_S INT64_C(86400)
#define RENEW_BEFORE_S (30 * DAY_S)
/* So long a new one is trusted before it is shown. */
#define HEARD_S 600

static const char *const keys[2][2] = {{"tls.crt", "tls.key"},
                                       {"before.crt", "before.key"}};

static void
read_pair(struct wp_webhook_pairs *pairs, struct wp_webhook_pair *pair,
          const json_t *data, const char *const key[2], int64_t now_s)
{
    const char *cert = wp_json_text(data, key[0], NULL);
    const char *secret = wp_json_text(data, key[1], NULL);
    struct wp_err err;

    if (!wp_base64_decode(wp_str_from(cert), pair->pem.cert,
                          sizeof pair->pem.cert) ||
        !wp_base64_decode(wp_str_from(secret), pair->pem.key,
                          sizeof pair->pem.key) ||
        wp_certificate_check(&pair->pem, pairs->names, pairs->n_names,
                             &pair->made_s, &pair->until_s, &err) != WP_OK ||
        pair->until_s <= now_s) {
        explicit_bzero(pair, sizeof *pair);
    }
}

void
wp_webhook_pairs_read(struct wp_webhook_pairs *pairs, const json_t *secret,
                      int64_t now_s)
{
    const json_t *data = json_object_get(secret, "data");

    read_pair(pairs, &pairs->newest, data, keys[0], now_s);
    read_pair(pairs, &pairs->before, data, keys[1], now_s);
}

bool
wp_webhook_pairs_are_due(const struct wp_webhook_pairs *pairs, int64_t now_s)
{
    return pairs->newest.made_s == 0 ||
           pairs->newest.until_s - now_s < RENEW_BEFORE_S;
}

enum wp_status
wp_webhook_pairs_renew(struct wp_webhook_pairs *pairs, int64_t now_s,
                       struct wp_err *err)
{
    struct wp_webhook_pair made;
    enum wp_status status = wp_certificate_make(&made.pem, pairs->names,
                                                pairs->n_names, now_s, err);

    if (status == WP_OK) {
        made.made_s = now_s;
        made.until_s = now_s + WP_CERTIFICATE_DAYS * DAY_S;
        if (pairs->newest.made_s != 0) {
            pairs->before = pairs->newest;
        }
        pairs->newest = made;
    }
    explicit_bzero(&made, sizeof made);
    return status;
}

const struct wp_certificate *
wp_webhook_pairs_shown(const struct wp_webhook_pairs *pairs, int64_t now_s)
{
    bool wait =
        pairs->before.made_s != 0 && now_s - pairs->newest.made_s < HEARD_S;

    if (pairs->newest.made_s == 0 || wait) {
        return pairs->before.made_s != 0 ? &pairs->before.pem : NULL;
    }
    return &pairs->newest.pem;
}

static json_t *
encoded(const char *text)
{
    char *base64 = wp_base64_encode(wp_str_from(text));
    json_t *json = base64 != NULL ? json_string(base64) : NULL;

    if (base64 != NULL) {
        explicit_bzero(base64, strlen(base64));
    }
    free(base64);
    return json;
}

json_t *
wp_webhook_pairs_data(const struct wp_webhook_pairs *pairs)
{
    const struct wp_webhook_pair *const all[] = {&pairs->newest,
                                                 &pairs->before};
    json_t *data = json_object();

    for (size_t i = 0; i < 2; i++) {
        bool some = all[i]->made_s != 0;

        (void)wp_json_set(data, keys[i][0],
                          some ? encoded(all[i]->pem.cert) : json_null());
        (void)wp_json_set(data, keys[i][1],
                          some ? encoded(all[i]->pem.key) : json_null());
    }
    return data;
}

json_t *
wp_webhook_pairs_bundle(const struct wp_webhook_pairs *pairs)
{
    char both[2 * WP_CERTIFICATE_PEM_MAX];

    (void)snprintf(both, sizeof both, "%s%s", pairs->newest.pem.cert,
                   pairs->before.pem.cert);
    return encoded(both);
}

void
wp_webhook_pairs_clear(struct wp_webhook_pairs *pairs)
{
    explicit_bzero(&pairs->newest, sizeof pairs->newest);
    explicit_bzero(&pairs->before, sizeof pairs->before);
}
