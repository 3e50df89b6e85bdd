/* k8s/controllers/webhook/pairs.h - the certificates of the webhook as they
 * stand in the Secret: the newest, and the one before it.
 *
 * All are trusted, and the newest is shown once everybody has had the time to
 * hear of it. Pure. */
#ifndef WP_K8S_CONTROLLERS_WEBHOOK_PAIRS_H
#define WP_K8S_CONTROLLERS_WEBHOOK_PAIRS_H

#include <jansson.h>

#include "k8s/convert/certificate.h"

struct wp_webhook_pair {
    struct wp_certificate pem;
    int64_t made_s; /* 0: there is none that is any good. */
    int64_t until_s;
};

struct wp_webhook_pairs {
    struct wp_webhook_pair newest;
    struct wp_webhook_pair before;
    const char *names[WP_CERTIFICATE_NAMES_MAX]; /* Borrowed. */
    size_t n_names;
};

/* From the Secret; what is no good, or not good for the names, or over, counts
 * as absent. */
void wp_webhook_pairs_read(struct wp_webhook_pairs *pairs, const json_t *secret,
                           int64_t now_s);
/* Is it time for another one? */
bool wp_webhook_pairs_are_due(const struct wp_webhook_pairs *pairs,
                              int64_t now_s);
/* Makes it; the newest becomes the one before. */
WP_MUST_CHECK enum wp_status
wp_webhook_pairs_renew(struct wp_webhook_pairs *pairs, int64_t now_s,
                       struct wp_err *err);
/* The one to show now; NULL when there is none. */
const struct wp_certificate *
wp_webhook_pairs_shown(const struct wp_webhook_pairs *pairs, int64_t now_s);
/* The Secret's data; a new reference. */
json_t *wp_webhook_pairs_data(const struct wp_webhook_pairs *pairs);
/* What the API server is to trust: all of them, in base64. A new reference. */
json_t *wp_webhook_pairs_bundle(const struct wp_webhook_pairs *pairs);
void wp_webhook_pairs_clear(struct wp_webhook_pairs *pairs);

#endif
