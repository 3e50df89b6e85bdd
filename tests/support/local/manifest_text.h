/* tests/support/local/manifest_text.h - manifests of which a test writes the
 * part that it is about. */
#ifndef WP_TESTS_SUPPORT_LOCAL_MANIFEST_TEXT_H
#define WP_TESTS_SUPPORT_LOCAL_MANIFEST_TEXT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "local/manifest/manifest.h"

/* The head and the tail of a template whose middle is under test. */
#define MANIFEST_HEAD                                                          \
    "apiVersion: extensions.agents.x-k8s.io/v1beta1\n"                         \
    "kind: SandboxTemplate\n"                                                  \
    "metadata: {name: python}\n"                                               \
    "spec:\n"                                                                  \
    "  podTemplate:\n"                                                         \
    "    spec:\n"
#define MANIFEST_CONTAINER                                                     \
    "      containers:\n"                                                      \
    "      - name: c\n"                                                        \
    "        image: host\n"                                                    \
    "        command: [server]\n"                                              \
    "        ports: [{containerPort: 8080}]\n"
#define MANIFEST_MAP                                                           \
    "apiVersion: v1\n"                                                         \
    "kind: ConfigMap\n"                                                        \
    "metadata: {name: c}\n"                                                    \
    "data: {a: alpha}\n"                                                       \
    "---\n"
#define MANIFEST_POOL                                                          \
    "apiVersion: extensions.agents.x-k8s.io/v1beta1\n"                         \
    "kind: SandboxWarmPool\n"                                                  \
    "metadata:\n"                                                              \
    "  name: fast\n"

/* The document, as "f.yaml", into a manifest of its own, which is the caller's
 * whatever the status. */
static inline enum wp_status
manifest_text_read(struct wp_manifest **manifest, const char *text,
                   struct wp_err *err)
{
    enum wp_status status;

    *manifest = wp_manifest_create();
    assert_non_null(*manifest);
    err->msg[0] = '\0';
    status = wp_manifest_add_bytes(*manifest, "f.yaml", wp_str_from(text), err);
    return status == WP_OK ? wp_manifest_check(*manifest, err) : status;
}

#endif
