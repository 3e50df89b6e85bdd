#include "k8s/controllers/template/checker.h"

#include <stdio.h>
#include <stdlib.h>

#include "k8s/controllers/template/pod_check.h"
#include "k8s/controllers/verdicts.h"
#include "k8s/objects/json.h"
#include "pool/base/assert.h"
#include "pool/base/log.h"

enum {
    CHECKS_AT_ONCE = 2,
};

#define BACKOFF_MIN_NS (1 * WP_NS_PER_S)
#define BACKOFF_MAX_NS (300 * WP_NS_PER_S)
#define REFUSED_AGAIN_NS (300 * WP_NS_PER_S)

struct wp_template_checker {
    struct wp_parts *parts;
    struct wp_work_queue *queue; /* Keys are templates. */
    json_t *due; /* When refused ones are asked about again, by uid. */
};

/* One template that is being asked about. */
struct check {
    struct wp_template_checker *checker;
    struct wp_work *work;
    const struct wp_object *template_;      /* Counted. */
    char unknown[WP_VERDICT_WORDS_MAX / 2]; /* Fields; "": none. */
};

static int64_t
now_of(const struct wp_template_checker *checker)
{
    return wp_clock_mono_ns(checker->parts->clock);
}

/* --- What people are told --- */

static void
tell(struct check *check, bool warning, const char *reason, const char *what,
     const char *words)
{
    const struct wp_event event = {
        .controller = "sandboxtemplate-controller",
        .action = "Checking",
        .reason = reason,
        .warning = warning,
    };
    const struct wp_object *about = check->template_;

    wp_events_record(check->checker->parts->events, about, &event, "%s%s%s",
                     what, words[0] != '\0' ? ": " : "", words);
    if (warning) {
        wp_log_warn("a SandboxTemplate has a mistake, or could not be checked",
                    wp_kv_str("namespace", about->ns),
                    wp_kv_str("template", about->name),
                    wp_kv_str("reason", reason), wp_kv_str("words", words));
    }
}

static void
end(struct check *check, enum wp_work_outcome outcome, int64_t after_ns)
{
    struct wp_work *work = check->work;

    wp_object_unref(check->template_);
    free(check);
    wp_work_done(work, outcome, after_ns);
}

/* Fields that are left out are told of once for each generation. */
static void
taken(struct check *check)
{
    struct wp_verdicts *verdicts = check->checker->parts->verdicts;
    bool is_news = !wp_verdicts_have(verdicts, check->template_);

    if (wp_verdicts_set(verdicts, check->template_, NULL)) {
        tell(check, false, "PodAccepted",
             "The API server takes Pods of this template again", "");
    }
    if (check->unknown[0] != '\0' && is_news) {
        tell(check, true, "UnknownPodFields",
             "The API server leaves out what it does not know", check->unknown);
    }
    end(check, WP_WORK_OK, 0);
}

static void
refused(struct check *check, const char *words)
{
    char both[WP_VERDICT_WORDS_MAX];

    (void)snprintf(both, sizeof(both), "%s%s%s", check->unknown,
                   check->unknown[0] != '\0' ? "; " : "", words);
    if (wp_verdicts_set(check->checker->parts->verdicts, check->template_,
                        both)) {
        tell(check, true, "PodRefused",
             "The API server refuses every Pod of this template", both);
    }
    wp_json_set(check->checker->due, check->template_->uid,
                json_integer(now_of(check->checker) + REFUSED_AGAIN_NS));
    end(check, WP_WORK_AFTER, REFUSED_AGAIN_NS);
}

/* That is not the template's fault, as far as is known. */
static void
not_allowed(struct check *check, const char *words)
{
    if (!wp_verdicts_have(check->checker->parts->verdicts, check->template_)) {
        /* What was said of an earlier generation is not known of this one. */
        wp_verdicts_forget(check->checker->parts->verdicts, check->template_);
    }
    tell(check, true, "PodNotChecked",
         "Whether the API server takes Pods of this template is not known",
         words);
    end(check, WP_WORK_FAILED, 0);
}

/* --- Asking --- */

static void ask(struct check *check, bool strict);

static void
answered(void *ctx, const struct wp_api_result *result)
{
    struct check *check = ctx;
    char words[WP_VERDICT_WORDS_MAX / 2];

    /* A template goes with its namespace: there is nothing to tell. */
    if (result->status == WP_CANCELLED || result->namespace_leaves) {
        end(check, WP_WORK_OK, 0);
        return;
    }
    switch (wp_pod_check_read(result, words, sizeof(words))) {
    case WP_POD_TAKEN:
        taken(check);
        return;
    case WP_POD_UNKNOWN_FIELDS:
        /* They are left out when a Pod is made: does it start without them? */
        if (check->unknown[0] == '\0') {
            (void)snprintf(check->unknown, sizeof(check->unknown), "%s", words);
            ask(check, false);
            return;
        }
        refused(check, words);
        return;
    case WP_POD_REFUSED:
        refused(check, words);
        return;
    case WP_POD_NOT_ALLOWED:
        not_allowed(check, words);
        return;
    case WP_POD_UNANSWERED:
        end(check, WP_WORK_FAILED, 0);
        return;
    }
}

static void
ask(struct check *check, bool strict)
{
    const struct wp_api_target target = {.kind = WP_KIND_POD,
                                         .ns = check->template_->ns,
                                         .priority = WP_HTTP_SPARE};
    json_t *pod = wp_pod_check_build(
        check->template_, check->checker->parts->config.default_tier);

    if (pod == NULL) {
        refused(check, "spec.podTemplate.spec: expected an object");
        return;
    }
    wp_api_check(check->checker->parts->api, &target, pod, strict, answered,
                 check);
}

/* How long the verdict on this generation of it stands yet; 0: to be asked. */
static int64_t
stands_ns(const struct wp_template_checker *checker,
          const struct wp_object *template_)
{
    const struct wp_verdicts *verdicts = checker->parts->verdicts;
    int64_t left_ns;

    if (!wp_verdicts_have(verdicts, template_)) {
        return 0;
    }
    if (wp_verdicts_refusal(verdicts, template_) == NULL) {
        return WP_TIME_NEVER;
    }
    left_ns =
        json_integer_value(json_object_get(checker->due, template_->uid)) -
        now_of(checker);
    return left_ns > 0 ? left_ns : 0;
}

static void
reconcile(void *ctx, struct wp_work *work, const char *ns, const char *name)
{
    struct wp_template_checker *checker = ctx;
    struct wp_parts *parts = checker->parts;
    const struct wp_object *template_ =
        wp_store_find(parts->stores[WP_KIND_SANDBOX_TEMPLATE], ns, name);
    int64_t left_ns = template_ == NULL || template_->deleting
                          ? WP_TIME_NEVER
                          : stands_ns(checker, template_);
    struct check *check;

    if (left_ns > 0) {
        wp_work_done(work,
                     left_ns == WP_TIME_NEVER ? WP_WORK_OK : WP_WORK_AFTER,
                     left_ns);
        return;
    }
    check = calloc(1, sizeof(*check));
    WP_ASSERT(check != NULL);
    check->checker = checker;
    check->work = work;
    check->template_ = wp_object_ref(template_);
    ask(check, true);
}

/* --- Life --- */

struct wp_template_checker *
wp_template_checker_create(struct wp_parts *parts)
{
    struct wp_template_checker *checker = calloc(1, sizeof(*checker));

    if (checker == NULL) {
        return NULL;
    }
    checker->parts = parts;
    checker->queue = wp_work_queue_create(&(struct wp_work_queue_config){
        .base = parts->base,
        .clock = parts->clock,
        .workers_max = CHECKS_AT_ONCE,
        .seed = parts->seed,
        .backoff_min_ns = BACKOFF_MIN_NS,
        .backoff_max_ns = BACKOFF_MAX_NS,
        .reconcile = reconcile,
        .ctx = checker,
    });
    checker->due = json_object();
    if (checker->queue == NULL || checker->due == NULL) {
        wp_template_checker_destroy(checker);
        return NULL;
    }
    wp_work_pause(checker->queue, true);
    return checker;
}

void
wp_template_checker_destroy(struct wp_template_checker *checker)
{
    if (checker != NULL) {
        wp_work_queue_destroy(checker->queue);
        json_decref(checker->due);
        free(checker);
    }
}

void
wp_template_checker_look(struct wp_template_checker *checker,
                         const struct wp_object *template_)
{
    /* One that was refused is asked about again in its own time. */
    if (!wp_verdicts_have(checker->parts->verdicts, template_)) {
        wp_work_add(checker->queue, template_->ns, template_->name, false);
    }
}

void
wp_template_checker_forget(struct wp_template_checker *checker,
                           const struct wp_object *template_)
{
    wp_verdicts_forget(checker->parts->verdicts, template_);
    (void)json_object_del(checker->due, template_->uid);
    wp_work_forget(checker->queue, template_->ns, template_->name);
}

void
wp_template_checker_pause(struct wp_template_checker *checker, bool paused)
{
    wp_work_pause(checker->queue, paused);
}
