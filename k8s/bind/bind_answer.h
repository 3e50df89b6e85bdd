/* k8s/bind/bind_answer.h - what the server in a Pod says of a parcel that it
 * was brought (proto/parcel/request.h). Pure; any thread. */
#ifndef WP_K8S_BIND_BIND_ANSWER_H
#define WP_K8S_BIND_BIND_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/base/compiler.h"
#include "pool/base/status.h"
#include "pool/base/str.h"
#include "pool/limits.h"

enum {
    /* Bytes of an answer that are looked at: with 200 its head only. */
    WP_BIND_ANSWER_MAX = 32 << 10,
};

struct wp_bind_answer {
    /* OK: all is bound. FAILED_PRECONDITION: it was refused. UNAVAILABLE: there
     * is no answer. */
    enum wp_status status;
    bool lost; /* The sandbox is good for nobody. */
    /* It has another binding, whole; with lost. */
    bool other;
    char reason[WP_BIND_REASON_MAX + 1]; /* Unless OK; printable ASCII. */
};

/* What was brought, as the answer has to confirm it. */
struct wp_bind_brought {
    const char *fingerprint; /* NULL: an identity by itself. */
    bool identity;
};

/* Reads what has come; ended: no more will. False: it is not whole yet, and it
 * has not ended. */
WP_MUST_CHECK bool wp_bind_answer_read(struct wp_str bytes, bool ended,
                                       const struct wp_bind_brought *brought,
                                       struct wp_bind_answer *out);
/* Sets what is not OK; reason is cut and made printable. */
void wp_bind_answer_set(struct wp_bind_answer *out, enum wp_status status,
                        bool lost, struct wp_str reason);

#endif
