/* local/egress_env.h - how a program in a sandbox finds its egress proxy.
 *
 * Clients read one spelling or the other, so both are set. What the template
 * sets stays. */
#ifndef WP_LOCAL_EGRESS_ENV_H
#define WP_LOCAL_EGRESS_ENV_H

#define WP_EGRESS_PROXY_PORT 3128
#define WP_EGRESS_PROXY_URL "http://127.0.0.1:3128"
#define WP_EGRESS_NO_PROXY "localhost,127.0.0.1,::1"

/* X(name, value) */
#define WP_EGRESS_ENV(X)                                                       \
    X("http_proxy", WP_EGRESS_PROXY_URL)                                       \
    X("HTTP_PROXY", WP_EGRESS_PROXY_URL)                                       \
    X("https_proxy", WP_EGRESS_PROXY_URL)                                      \
    X("HTTPS_PROXY", WP_EGRESS_PROXY_URL)                                      \
    X("no_proxy", WP_EGRESS_NO_PROXY)                                          \
    X("NO_PROXY", WP_EGRESS_NO_PROXY)

#endif
