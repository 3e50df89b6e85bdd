/* From which pool a session gets its sandbox. */
#include "allocator/http/session_call.h"

#include <stdio.h>
#include <string.h>

#include "allocator/http/http_claim.h"

/* A pool of the template, as wp_http_pool_of has it. */
static bool
find_pool(struct wp_session_call *call, const char *ns,
          const char *template_name)
{
    return wp_http_pool_of(call->sessions->config.pools, ns, template_name,
                           call->pool) &&
           wp_str_copy(wp_str_from(ns), call->ns, sizeof call->ns);
}

/* The default pool's namespace, and where nothing else is said, everybody's. */
static void
split_default(const struct wp_session_call *call, char ns[WP_NAMESPACE_MAX + 1],
              char pool[WP_POOL_NAME_MAX + 1])
{
    const char *text = call->sessions->config.pool;
    const char *slash = strchr(text, '/');
    struct wp_str where = {text, slash != NULL ? (size_t)(slash - text) : 0};

    (void)!wp_str_copy(wp_str_from(slash != NULL ? slash + 1 : text), pool,
                       WP_POOL_NAME_MAX + 1);
    if (slash == NULL || !wp_str_copy(where, ns, WP_NAMESPACE_MAX + 1)) {
        (void)snprintf(ns, WP_NAMESPACE_MAX + 1, "default");
    }
}

bool
wp_session_choose_pool(struct wp_session_call *call)
{
    const struct wp_session_request *asked = &call->asked;
    char ns[WP_NAMESPACE_MAX + 1];
    char pool[WP_POOL_NAME_MAX + 1];
    char why[WP_SESSION_WHY_MAX];

    split_default(call, ns, pool);
    if (asked->ns[0] != '\0') {
        memcpy(ns, asked->ns, sizeof ns);
    }
    if (asked->pool[0] != '\0') {
        memcpy(call->ns, ns, sizeof ns);
        memcpy(call->pool, asked->pool, sizeof call->pool);
        return true;
    }
    if (asked->template_name[0] != '\0') {
        if (find_pool(call, ns, asked->template_name)) {
            return true;
        }
        (void)snprintf(why, sizeof why,
                       "TemplateNotFound: no pool of '%s' has "
                       "the template '%s'",
                       ns, asked->template_name);
        wp_session_error(call, 500, wp_session_what_failed(call), why);
        return false;
    }
    if (asked->agent_template[0] != '\0' &&
        find_pool(call, asked->agent_ns[0] != '\0' ? asked->agent_ns : ns,
                  asked->agent_template)) {
        return true;
    }
    if (pool[0] != '\0') {
        memcpy(call->ns, ns, sizeof ns);
        memcpy(call->pool, pool, sizeof pool);
        return true;
    }
    wp_session_error(
        call, 400,
        asked->agent_template[0] != '\0'
            ? "Workspace is not enabled for this agent"
            : "Session has no agent reference",
        "no pool has the agent's template, none was asked for, and "
        "the setting session_pool names none");
    return false;
}

bool
wp_session_matches(const struct wp_session_call *call)
{
    struct wp_pools *pools = call->sessions->config.pools;
    const struct wp_session_request *asked = &call->asked;
    const struct wp_claim_info *info = &call->info;
    struct wp_pool_stats stats;
    uint32_t index;

    if ((asked->ns[0] != '\0' &&
         strcmp(asked->ns, info->pool_namespace) != 0) ||
        (asked->pool[0] != '\0' && strcmp(asked->pool, info->pool) != 0)) {
        return false;
    }
    index = asked->template_name[0] != '\0'
                ? wp_pools_index(pools, wp_str_from(info->pool_namespace),
                                 wp_str_from(info->pool))
                : UINT32_MAX;
    if (index == UINT32_MAX) {
        return true;
    }
    wp_pools_stats(pools, index, &stats);
    return strcmp(stats.spec.template_name, asked->template_name) == 0;
}
