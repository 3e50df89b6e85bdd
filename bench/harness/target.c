#include "bench/harness/target.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "bench/harness/lane.h"
#include "bench/load/signals.h"
#include "pool/base/clock.h"

/* Of address space; pages that are not written cost nothing. */
#define ARENA_SIZE ((size_t)1 << 28)
#define PATIENCE_NS (60 * WP_NS_PER_S)
/* Of one try of a question. A signal is heeded after it. */
#define QUICK_NS (2 * WP_NS_PER_S)

static void
rest(const struct wp_target *target)
{
    const struct timespec pause = {0, (target->objects.api != NULL ? 200 : 20) *
                                          WP_NS_PER_MS};

    (void)nanosleep(&pause, NULL);
}

/* The certificate's name: as said, or the address' host. */
static void
name_of(const struct wp_rpc_target *rpc, char *out, size_t cap)
{
    const char *colon = strrchr(rpc->address, ':');
    const char *host = rpc->address;
    size_t len = colon != NULL ? (size_t)(colon - host) : strlen(host);

    if (len > 2 && host[0] == '[') { /* IPv6 */
        host++;
        len -= 2;
    }
    (void)snprintf(out, cap, "%.*s",
                   rpc->tls_name != NULL ? (int)cap : (int)len,
                   rpc->tls_name != NULL ? rpc->tls_name : host);
}

/* What warmpoolctl's client checks, it checks at its first call; it is made
 * now, so that nothing is sent in clear before. */
static enum wp_status
open_clients(struct wp_target *target, const struct wp_rpc_target *rpc,
             struct wp_err *err)
{
    char name[256];

    target->ctl.rpc = wp_rpc_client_open(rpc, err);
    if (target->ctl.rpc == NULL ||
        wp_rpc_target_token(rpc, target->authorization, err) != WP_OK) {
        return err->status;
    }
    if (rpc->tls_ca != NULL) {
        name_of(rpc, name, sizeof name);
        target->tls = wp_h2_tls_create(rpc->tls_ca, rpc->tls_cert, rpc->tls_key,
                                       name, err);
        if (target->tls == NULL) {
            return err->status;
        }
    }
    return WP_OK;
}

static const char *
either(const char *said, const char *otherwise)
{
    return said != NULL ? said : otherwise;
}

/* The second is another context, or another file's current one. */
static enum wp_status
open_objects(struct wp_target *target, const struct wp_plan *plan, bool second,
             struct wp_err *err)
{
    bool other_file = second && strchr(plan->against, '/') != NULL;
    const char *file = other_file ? plan->against : plan->kubeconfig;
    const char *context = !second      ? plan->context
                          : other_file ? NULL
                                       : plan->against;
    enum wp_status status =
        plan->in_cluster
            ? wp_api_config_in_cluster(&target->server, NULL, err)
            : wp_api_config_read(&target->server, file, context, err);

    if (status != WP_OK) {
        return status;
    }
    (void)snprintf(target->address, sizeof target->address, "%.500s%s%.60s",
                   target->server.server, context != NULL ? " " : "",
                   context != NULL ? context : "");
    return wp_claim_objects_open(&target->objects, &target->server, plan, err);
}

static enum wp_status
open_grpc(struct wp_target *target, const struct wp_plan *plan, bool second,
          struct wp_err *err)
{
    struct wp_ctl_options *options = &target->ctl.options;
    struct wp_ctl_target_text text;
    struct wp_rpc_target rpc;
    enum wp_status status;

    target->memory = mmap(NULL, ARENA_SIZE, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (target->memory == MAP_FAILED) {
        target->memory = NULL;
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "out of memory");
    }
    wp_arena_init(&target->ctl.arena, target->memory, ARENA_SIZE);
    target->ctl.out = stdout;
    target->ctl.errors = stderr;
    wp_ctl_options_init(options);
    options->timeout_ns = QUICK_NS;
    target->patience_ns = plan->timeout_ns;
    options->address =
        second ? plan->against : either(plan->address, options->address);
    options->tls_ca = plan->tls_ca;
    options->tls_cert = plan->tls_cert;
    options->tls_key = plan->tls_key;
    options->tls_name = plan->tls_name;
    options->access_token_file =
        either(plan->access_token_file, options->access_token_file);
    options->tenant = either(plan->tenant, options->tenant);
    status = wp_ctl_target(options, &text, &rpc, err);
    if (status != WP_OK) {
        return status;
    }
    if (!wp_str_copy(wp_str_from(rpc.address), target->address,
                     sizeof target->address)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT, "address: too long");
    }
    return open_clients(target, &rpc, err);
}

enum wp_status
wp_target_open(struct wp_target *target, const struct wp_plan *plan,
               bool second, struct wp_err *err)
{
    memset(target, 0, sizeof *target);
    target->echo = plan->echo;
    target->blind = plan->blind;
    return wp_plan_has_objects(plan) ? open_objects(target, plan, second, err)
                                     : open_grpc(target, plan, second, err);
}

void
wp_target_close(struct wp_target *target)
{
    wp_claim_objects_close(&target->objects);
    wp_api_config_fini(&target->server);
    wp_rpc_client_close(target->ctl.rpc);
    wp_h2_tls_destroy(target->tls);
    explicit_bzero(target->authorization, sizeof target->authorization);
    if (target->memory != NULL) {
        (void)munmap(target->memory, ARENA_SIZE);
    }
}

static struct wp_wire_pool_ref
pool_of(const struct wp_plan *plan)
{
    return (struct wp_wire_pool_ref){wp_str_from(plan->pool_namespace),
                                     wp_str_from(plan->pool)};
}

/* When a question that is asked now has waited long enough. */
static int64_t
patience_end_ns(const struct wp_target *target, bool quick)
{
    return quick ? 0 : wp_lane_now_ns() + target->patience_ns;
}

/* Is the question, which had this answer, to be asked once more? Each may be: it
 * asks for the same again. */
static bool
is_asked_again(enum wp_status status, int64_t end_ns)
{
    return status == WP_DEADLINE_EXCEEDED && wp_lane_now_ns() < end_ns &&
           !wp_signals_pending();
}

bool
wp_target_pool(struct wp_target *target, const struct wp_plan *plan, bool quick,
               struct wp_pool_stats *out, struct wp_err *err)
{
    const struct wp_wire_get_pool_request request = {.pool = pool_of(plan)};
    int64_t end_ns = patience_end_ns(target, quick);
    struct wp_ctl_call call = {.wait_ns = 0};
    enum wp_status status;

    if (target->echo || target->blind) {
        (void)wp_err_set(err, WP_PERMISSION_DENIED, "the target does not tell");
        return false;
    }
    if (target->objects.api != NULL) {
        bool told = wp_claim_objects_pool(&target->objects, plan, out, err);

        target->blind = !told && err->status == WP_PERMISSION_DENIED;
        return told;
    }
    do {
        wp_arena_reset(&target->ctl.arena);
        status = wp_ctl_call_get_pool(&target->ctl, &request, out, &call);
    } while (is_asked_again(status, end_ns));
    if (status != WP_OK) {
        *err = call.err;
        err->status = status;
        target->blind =
            status == WP_PERMISSION_DENIED || status == WP_UNAUTHENTICATED;
        return false;
    }
    return true;
}

static enum wp_status
set_size(struct wp_target *target, const struct wp_plan *plan, uint32_t size,
         struct wp_err *err)
{
    const struct wp_wire_set_pool_request request = {
        .pool = pool_of(plan), .has_target = true, .target = size};
    int64_t end_ns = patience_end_ns(target, false);
    struct wp_ctl_call call = {.wait_ns = 0};
    struct wp_pool_stats stats;
    enum wp_status status;

    if (target->objects.api != NULL) {
        return wp_claim_objects_resize(&target->objects, plan, size, err);
    }
    do {
        wp_arena_reset(&target->ctl.arena);
        status = wp_ctl_call_set_pool(&target->ctl, &request, &stats, &call);
    } while (is_asked_again(status, end_ns));
    if (status != WP_OK) {
        *err = call.err;
        return wp_err_wrap(err, "pool-size");
    }
    return WP_OK;
}

/* Who does not answer in time is not there; the client only says that it was
 * too late. */
static enum wp_status
no_pool(const struct wp_target *target, struct wp_err *err)
{
    return err->status == WP_DEADLINE_EXCEEDED
               ? wp_err_set(err, WP_UNAVAILABLE,
                            "%.120s does not answer: it has not told of its "
                            "pool in time",
                            target->address)
               : err->status;
}

enum wp_status
wp_target_prepare(struct wp_target *target, const struct wp_plan *plan,
                  struct wp_err *err)
{
    struct wp_pool_stats stats;
    int64_t end_ns = wp_lane_now_ns() + PATIENCE_NS;
    uint32_t ready = UINT32_MAX;
    enum wp_status status;

    if (target->echo) {
        return WP_OK;
    }
    if (!wp_target_pool(target, plan, false, &stats, err)) {
        return target->blind && !plan->has_pool_size ? WP_OK
                                                     : no_pool(target, err);
    }
    if (plan->has_pool_size && stats.spec.target != plan->pool_size) {
        if (!target->has_size) {
            target->has_size = true;
            target->size = stats.spec.target;
        }
        status = set_size(target, plan, plan->pool_size, err);
        if (status != WP_OK) {
            return status;
        }
    }
    do {
        if (!wp_target_pool(target, plan, false, &stats, err)) {
            return no_pool(target, err);
        }
        if (stats.ready == stats.spec.target ||
            (!plan->has_pool_size && stats.ready > stats.spec.target)) {
            return WP_OK;
        }
        if (stats.ready != ready) {
            ready = stats.ready;
            end_ns = wp_lane_now_ns() + PATIENCE_NS;
        }
        rest(target);
    } while (wp_lane_now_ns() < end_ns && !wp_signals_pending());
    return wp_err_set(err, WP_UNAVAILABLE,
                      "the pool has %u of %u sandboxes ready and makes no more",
                      stats.ready, stats.spec.target);
}

enum wp_status
wp_target_restore(struct wp_target *target, const struct wp_plan *plan,
                  struct wp_err *err)
{
    if (!target->has_size) {
        return WP_OK;
    }
    target->has_size = false;
    return set_size(target, plan, target->size, err);
}

/* --- What is left. --- */

static bool
is_ours(const struct wp_claim_info *claim, uint32_t tag)
{
    char form[WP_LANE_ID_MAX];

    (void)wp_lane_claim_id(tag, 0, 0, form);
    return strncmp(claim->claim_id, form, 14) == 0; /* "load-TTTTTTTT-" */
}

/* The same id again gets the same lease; its token ends it. */
static bool
end_claim(struct wp_target *target, const struct wp_claim_info *claim,
          struct wp_err *err)
{
    const struct wp_wire_claim_request request = {
        .pool = {wp_str_from(claim->pool_namespace), wp_str_from(claim->pool)},
        .claim_id = wp_str_from(claim->claim_id),
        .tenant = wp_str_from(claim->tenant),
    };
    struct wp_wire_claim_response response;
    struct wp_wire_release_request release;
    struct wp_wire_release_response released;
    struct wp_ctl_call call = {.wait_ns = 0};

    if (wp_ctl_call_claim(&target->ctl, &request, &response, &call) == WP_OK) {
        memcpy(release.token, response.grant->token, sizeof release.token);
        if (wp_ctl_call_release(&target->ctl, &release, &released, &call) ==
            WP_OK) {
            return true;
        }
    }
    *err = call.err;
    return false;
}

/* One walk over the list; not WP_OK when the target does not tell. */
static enum wp_status
walk(struct wp_target *target, const struct wp_plan *plan, uint32_t tag,
     struct wp_leftovers *out, bool *any)
{
    struct wp_wire_list_claims_request request = {.pool = pool_of(plan),
                                                  .page_size = WP_PAGE_MAX};
    struct wp_wire_list_claims_response page;
    char token[256] = "";

    *any = false;
    do {
        struct wp_ctl_call call = {.wait_ns = 0};
        enum wp_status status;

        wp_arena_reset(&target->ctl.arena);
        request.page_token = wp_str_from(token);
        status = wp_ctl_call_list_claims(&target->ctl, &request, &page, &call);
        if (status == WP_OK &&
            !wp_str_copy(page.next_page_token, token, sizeof token)) {
            status =
                wp_err_set(&call.err, WP_INTERNAL, "next_page_token: too long");
        }
        if (status != WP_OK) {
            out->why = call.err;
            return status;
        }
        for (uint32_t i = 0; i < page.n_claims; i++) {
            if (!is_ours(&page.claims[i], tag)) {
                continue;
            }
            *any = true;
            if (page.claims[i].waiting) {
                continue; /* Its call is gone: it is about to go, too. */
            }
            out->found++;
            out->ended += end_claim(target, &page.claims[i], &out->why);
        }
    } while (token[0] != '\0');
    return WP_OK;
}

void
wp_target_settle(struct wp_target *target, const struct wp_plan *plan,
                 uint32_t tag, bool quick, struct wp_leftovers *out)
{
    int64_t end_ns = patience_end_ns(target, quick);
    enum wp_status status;
    bool any = true;

    *out = (struct wp_leftovers){.known = false};
    if (!target->asked) {
        out->known = true;
        return;
    }
    if (plan->leave || plan->blind) {
        (void)wp_err_set(&out->why, WP_UNIMPLEMENTED, "nobody was to ask");
        return;
    }
    if (quick) {
        target->patience_ns = 0;
    }
    if (target->objects.api != NULL) {
        wp_claim_objects_settle(&target->objects, plan, tag, out);
        return;
    }
    if (target->echo) {
        (void)wp_err_set(&out->why, WP_UNIMPLEMENTED, "an echo holds nothing");
        return;
    }
    for (int i = 0; any && i < 100; i++) {
        if (i > 0) {
            rest(target);
        }
        do {
            status = walk(target, plan, tag, out, &any);
        } while (is_asked_again(status, end_ns));
        if (status != WP_OK) {
            return;
        }
        if (any && wp_signals_pending()) {
            (void)wp_err_set(&out->why, WP_UNAVAILABLE, "a signal came");
            return;
        }
    }
    out->known = true;
}
