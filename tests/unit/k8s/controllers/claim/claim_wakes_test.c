/* When SandboxClaims are looked at: what wakes which of them, and what happens
 * while nobody leads, as claim_wakes.txt has it. */
#include "k8s/controllers/verdicts.h"
#include "k8s/objects/json.h"
#include "tests/unit/k8s/controllers/claim/claim_told.h"

/* --- Leading --- */

static void
leads_no_more(void)
{
    begin_silent(1);
    wp_claim_rig_claim(&rig, "a", NULL);
    wp_claim_rig_claim(&rig, "b", NULL);
    wp_claim_rig_claim(&rig, "c", NULL);
    tell_numbers();
    told_pauses = true;
    rig.parts.active = false;
    wp_claim_controller_ops.deactivate(rig.controller);
    told_pauses = false;
    tell_numbers();
    wp_recorder_remove(rig.api, WP_KIND_SANDBOX_CLAIM, "ns", "c");
    put("d", "");
    merge(WP_KIND_SANDBOX_CLAIM, "b", SPEC(RED));
    (void)wp_recorder_merge(rig.api, WP_KIND_SANDBOX_TEMPLATE, "ns", "t",
                            SPEC("\"x\":1"));
    (void)wp_recorder_merge(rig.api, WP_KIND_SANDBOX_WARM_POOL, "ns", "p",
                            SPEC("\"x\":1"));
    wp_recorder_remove(rig.api, WP_KIND_SANDBOX, "ns",
                       wp_claim_rig_sandbox(&rig, "a"));
    wp_claim_rig_settle(&rig);
    tell_calls("nothing is done");
    (void)fprintf(story, "-- it leads again\n");
    told_pauses = true;
    rig.parts.active = true;
    wp_claim_controller_ops.activate(rig.controller);
    told_pauses = false;
    wp_claim_rig_settle(&rig);
    tell_numbers();
    tell_end();
}

/* It leads no more while a call is under way. */
static void
stops_in_between(void)
{
    for (int steps = 0; steps < 4; steps++) {
        begin_silent(1);
        (void)fprintf(story, "== after %d answers\n", steps);
        put("a", "");
        put("b", ENDS("Delete"));
        go_on();
        for (int i = 0; i < steps; i++) {
            step();
        }
        rig.parts.active = false;
        wp_claim_controller_ops.deactivate(rig.controller);
        wp_claim_rig_settle(&rig);
        tell_calls("at the end");
        end();
    }
}

/* --- What is looked at --- */

static const struct change {
    const char *what;
    enum wp_kind kind;
    const char *name; /* NULL: an object is put. */
    const char *text; /* NULL: it is removed. */
} changes[] = {
    {"a label of a claim", WP_KIND_SANDBOX_CLAIM, "waits",
     "{\"metadata\":{\"labels\":{\"x\":\"1\"}}}"},
    {"its creator", WP_KIND_SANDBOX_CLAIM, "waits",
     "{\"metadata\":{\"labels\":{\"" WP_LABEL_CREATED_BY "\":\"x\"}}}"},
    {"its creator again", WP_KIND_SANDBOX_CLAIM, "waits",
     "{\"metadata\":{\"labels\":{\"" WP_LABEL_CREATED_BY
     "\":\"x\",\"y\":\"1\"}}}"},
    {"no creator", WP_KIND_SANDBOX_CLAIM, "waits",
     "{\"metadata\":{\"labels\":{\"" WP_LABEL_CREATED_BY "\":null}}}"},
    {"an annotation", WP_KIND_SANDBOX_CLAIM, "waits",
     "{\"metadata\":{\"annotations\":{\"x\":\"1\"}}}"},
    {"its sandbox's name", WP_KIND_SANDBOX_CLAIM, "waits",
     "{\"metadata\":{\"annotations\":{\"" WP_ANNOTATION_SANDBOX_NAME
     "\":\"gone\"}}}"},
    {"no sandbox's name", WP_KIND_SANDBOX_CLAIM, "waits",
     "{\"metadata\":{\"annotations\":{\"" WP_ANNOTATION_SANDBOX_NAME
     "\":null}}}"},
    {"what it brings", WP_KIND_SANDBOX_CLAIM, "waits",
     "{\"metadata\":{\"annotations\":{\"" WP_ANNOTATION_CLAIM_COMMAND
     "\":\"x\"}}}"},
    {"what it brings no more", WP_KIND_SANDBOX_CLAIM, "waits",
     "{\"metadata\":{\"annotations\":{\"" WP_ANNOTATION_CLAIM_COMMAND
     "\":null}}}"},
    {"its spec", WP_KIND_SANDBOX_CLAIM, "waits", "{\"spec\":{\"x\":1}}"},
    {"its status", WP_KIND_SANDBOX_CLAIM, "waits", "{\"status\":{\"x\":1}}"},
    {"one with a sandbox: its name", WP_KIND_SANDBOX_CLAIM, "bound",
     "{\"metadata\":{\"annotations\":{\"" WP_ANNOTATION_SANDBOX_NAME
     "\":\"gone\"}}}"},
    {"what that brings", WP_KIND_SANDBOX_CLAIM, "bound",
     "{\"metadata\":{\"annotations\":{\"" WP_ANNOTATION_CLAIM_COMMAND
     "\":\"x\"}}}"},
    {"its creator", WP_KIND_SANDBOX_CLAIM, "bound",
     "{\"metadata\":{\"labels\":{\"" WP_LABEL_CREATED_BY "\":\"x\"}}}"},
    {"its spec", WP_KIND_SANDBOX_CLAIM, "bound", "{\"spec\":{\"x\":1}}"},
    {"it goes", WP_KIND_SANDBOX_CLAIM, "bound",
     "{\"metadata\":{\"finalizers\":[\"x\"],\"deletionTimestamp\":\"2026-01-"
     "01T00:00:00Z\"}}"},
    {"it does not", WP_KIND_SANDBOX_CLAIM, "bound",
     "{\"metadata\":{\"deletionTimestamp\":null}}"},
    {"another one of its name", WP_KIND_SANDBOX_CLAIM, "bound",
     "{\"metadata\":{\"uid\":\"other\"}}"},
    {"it as before", WP_KIND_SANDBOX_CLAIM, "bound",
     "{\"metadata\":{\"uid\":\"bound-u\"}}"},
    {"a label of a sandbox", WP_KIND_SANDBOX, "made",
     "{\"metadata\":{\"labels\":{\"x\":\"1\"}}}"},
    {"an address", WP_KIND_SANDBOX, "made",
     "{\"status\":{\"podIPs\":[\"1.1.1.1\"]}}"},
    {"two", WP_KIND_SANDBOX, "made",
     "{\"status\":{\"podIPs\":[\"1.1.1.1\",\"::1\"]}}"},
    {"the second is another", WP_KIND_SANDBOX, "made",
     "{\"status\":{\"podIPs\":[\"1.1.1.1\",\"::2\"]}}"},
    {"as before", WP_KIND_SANDBOX, "made",
     "{\"status\":{\"x\":1,\"podIPs\":[\"1.1.1.1\",\"::2\"]}}"},
    {"the first alone", WP_KIND_SANDBOX, "made",
     "{\"status\":{\"podIPs\":[\"1.1.1.1\"]}}"},
    {"a service", WP_KIND_SANDBOX, "made",
     "{\"status\":{\"serviceFQDN\":\"x\"}}"},
#define CONDITIONS(type, status, reason, message, time)                        \
    "{\"status\":{\"conditions\":[{\"type\":\"" type "\",\"status\":\"" status \
    "\",\"reason\":\"" reason "\",\"message\":\"" message                      \
    "\",\"lastTransitionTime\":\"2026-01-01T00:00:" time "Z\"}]}}"
    {"a condition", WP_KIND_SANDBOX, "made",
     CONDITIONS("Ready", "False", "a", "m", "01")},
    {"its status", WP_KIND_SANDBOX, "made",
     CONDITIONS("Ready", "Unknown", "a", "m", "01")},
    {"its reason", WP_KIND_SANDBOX, "made",
     CONDITIONS("Ready", "Unknown", "b", "m", "01")},
    {"its message", WP_KIND_SANDBOX, "made",
     CONDITIONS("Ready", "Unknown", "b", "n", "01")},
    {"its time", WP_KIND_SANDBOX, "made",
     CONDITIONS("Ready", "Unknown", "b", "n", "02")},
    {"another condition", WP_KIND_SANDBOX, "made",
     CONDITIONS("Finished", "Unknown", "b", "n", "02")},
    {"its status", WP_KIND_SANDBOX, "made",
     CONDITIONS("Finished", "True", "b", "n", "02")},
    {"its reason", WP_KIND_SANDBOX, "made",
     CONDITIONS("Finished", "True", "c", "n", "02")},
    {"its message", WP_KIND_SANDBOX, "made",
     CONDITIONS("Finished", "True", "c", "o", "02")},
    {"its time", WP_KIND_SANDBOX, "made",
     CONDITIONS("Finished", "True", "c", "o", "03")},
    {"any other", WP_KIND_SANDBOX, "made",
     "{\"status\":{\"conditions\":[{\"type\":\"Finished\",\"status\":"
     "\"True\",\"reason\":\"c\",\"message\":\"o\",\"lastTransitionTime\":"
     "\"2026-01-01T00:00:03Z\"},{\"type\":\"X\",\"status\":\"True\"}]}}"},
    {"it goes", WP_KIND_SANDBOX, "made",
     "{\"metadata\":{\"finalizers\":[\"x\"],\"deletionTimestamp\":\"2026-01-"
     "01T00:00:00Z\"}}"},
    {"another one", WP_KIND_SANDBOX, "made",
     "{\"metadata\":{\"deletionTimestamp\":null,\"uid\":\"new\"}}"},
#define OWNED(kind, name, uid)                                                 \
    "{\"metadata\":{\"ownerReferences\":[{\"apiVersion\":"                     \
    "\"extensions.agents.x-k8s.io/v1beta1\",\"kind\":\"" kind                  \
    "\",\"name\":\"" name "\",\"uid\":\"" uid "\",\"controller\":true}]}}"
    {"of another claim", WP_KIND_SANDBOX, "made",
     OWNED("SandboxClaim", "waits", "waits-u")},
    {"of one that is gone", WP_KIND_SANDBOX, "made",
     OWNED("SandboxClaim", "waits", "other")},
    {"of none", WP_KIND_SANDBOX, "made", OWNED("Job", "waits", "waits-u")},
    {"of one again", WP_KIND_SANDBOX, "made",
     OWNED("SandboxClaim", "bound", "bound-u")},
    {"it is gone", WP_KIND_SANDBOX, "made", NULL},
    {"one of a claim's name", WP_KIND_SANDBOX, NULL,
     "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"waits\"},\"spec\":{}}"},
    {"it changes", WP_KIND_SANDBOX, "waits", "{\"spec\":{\"x\":1}}"},
    {"it is gone", WP_KIND_SANDBOX, "waits", NULL},
    {"one of a bound claim's name", WP_KIND_SANDBOX, NULL,
     "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"bound\"},\"spec\":{}}"},
    {"it is gone", WP_KIND_SANDBOX, "bound", NULL},
    {"an alias", WP_KIND_ALIAS, NULL,
     "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"waits\",\"labels\":{"
     "\"" WP_LABEL_ALIAS "\":\"x\"}},\"spec\":{}}"},
    {"it is gone", WP_KIND_ALIAS, "waits", NULL},
    {"an alias of a bound one", WP_KIND_ALIAS, NULL,
     "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"bound\",\"labels\":{"
     "\"" WP_LABEL_ALIAS "\":\"x\"}},\"spec\":{}}"},
    {"it is gone", WP_KIND_ALIAS, "bound", NULL},
    {"a label of the pool", WP_KIND_SANDBOX_WARM_POOL, "p",
     "{\"metadata\":{\"labels\":{\"x\":\"1\"}}}"},
    {"its spec", WP_KIND_SANDBOX_WARM_POOL, "p", "{\"spec\":{\"x\":1}}"},
    {"another of its template", WP_KIND_SANDBOX_WARM_POOL, NULL,
     "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"r\"},\"spec\":{"
     "\"sandboxTemplateRef\":{\"name\":\"t\"}}}"},
    {"one that is missing", WP_KIND_SANDBOX_WARM_POOL, NULL,
     "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"none\"},\"spec\":{"
     "\"sandboxTemplateRef\":{\"name\":\"v\"}}}"},
    {"elsewhere", WP_KIND_SANDBOX_WARM_POOL, NULL,
     "{\"metadata\":{\"namespace\":\"else\",\"name\":\"p\"},\"spec\":{"
     "\"sandboxTemplateRef\":{\"name\":\"t\"}}}"},
    {"it is gone", WP_KIND_SANDBOX_WARM_POOL, "r", NULL},
    {"a label of the template", WP_KIND_SANDBOX_TEMPLATE, "t",
     "{\"metadata\":{\"labels\":{\"x\":\"1\"}}}"},
    {"its spec", WP_KIND_SANDBOX_TEMPLATE, "t", "{\"spec\":{\"x\":1}}"},
    {"its labels for Pods", WP_KIND_SANDBOX_TEMPLATE, "t",
     "{\"spec\":{\"podTemplate\":{\"metadata\":{\"labels\":{\"n\":\"1\"}}}}}"},
    {"it is gone", WP_KIND_SANDBOX_TEMPLATE, "t", NULL},
    {"it is there", WP_KIND_SANDBOX_TEMPLATE, NULL,
     "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"t\"},\"spec\":{}}"},
    {"elsewhere", WP_KIND_SANDBOX_TEMPLATE, NULL,
     "{\"metadata\":{\"namespace\":\"else\",\"name\":\"t\"},\"spec\":{}}"},
    {"one that is missing", WP_KIND_SANDBOX_TEMPLATE, NULL,
     "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"nowhere\"},\"spec\":{}}"},
    {"a claim is gone", WP_KIND_SANDBOX_CLAIM, "waits", NULL},
};

static void
put_one(const char *ns, const char *name, const char *pool, const char *spec,
        const char *metadata)
{
    char text[1024];

    (void)snprintf(text, sizeof text,
                   "{\"metadata\":{\"namespace\":\"%s\",\"name\":\"%s\","
                   "\"uid\":\"%s-u\"%s},\"spec\":{\"warmPoolRef\":{\"name\":"
                   "\"%s\"}%s%s}}",
                   ns, name, name, metadata, pool, spec[0] != '\0' ? "," : "",
                   spec);
    (void)wp_recorder_put(rig.api, WP_KIND_SANDBOX_CLAIM, text);
    wp_claim_rig_settle(&rig);
}

#define SECRET_ENV "\"env\":[{\"name\":\"B\",\"value\":\"2\"}]"
#define VOLUMES "\"volumeClaimTemplates\":[{\"metadata\":{\"name\":\"x\"}}]"

/* One claim of each kind. */
static void
put_all(void)
{
    put_pool("q", "nowhere", "");
    put_sandbox("made", "", "SandboxClaim", "bound", "bound-u");
    wp_claim_rig_settle(&rig);
    put_one("ns", "bound", "p", "", "");
    put_one("ns", "warm", "p", "", "");
    put_one("ns", "by-template", "shadow-pool-t", "", "");
    put_one("ns", "waits", "p", "", "");
    put_one("ns", "waits-red", "p", RED, "");
    put_one("ns", "waits-by-template", "shadow-pool-t", "", "");
    put_one("ns", "env", "p", SECRET_ENV, "");
    put_one("ns", "volumes", "p", VOLUMES, "");
    put_one("ns", "no-pool", "none", "", "");
    put_one("ns", "no-template", "q", SECRET_ENV, "");
    put_one("ns", "no-template-named", "shadow-pool-nowhere", "", "");
    put_one("ns", "unsigned", "p", "",
            ",\"annotations\":{\"" WP_ANNOTATION_CLAIM_IDENTITY "\":\"aud\"}");
    put_one("ns", "brings", "p", "",
            ",\"annotations\":{\"" WP_ANNOTATION_CLAIM_COMMAND "\":\"x\"}");
    put_one("else", "away", "p", RED, "");
    put_one("else", "away-named", "shadow-pool-t", "", "");
}

static void
looked_at(void)
{
    told = 0;
    wp_claim_rig_init(&rig);
    rig.parts.config.cold_start = false;
    rig.parts.config.claim_events = false;
    wp_claim_rig_start(&rig, 2);
    put_all();
    tell_calls("all of them");
    for (uint32_t i = 0;
         i < wp_recorder_objects(rig.api, WP_KIND_SANDBOX_CLAIM); i++) {
        tell_ready(wp_json_text(
            wp_recorder_object_at(rig.api, WP_KIND_SANDBOX_CLAIM, i),
            "metadata", "name", NULL));
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(changes); i++) {
        const struct change *at = &changes[i];

        (void)fprintf(story, "-- %s\n", at->what);
        if (at->name == NULL) {
            (void)wp_recorder_put(rig.api, at->kind, at->text);
        } else if (at->text == NULL) {
            wp_recorder_remove(rig.api, at->kind, "ns", at->name);
        } else {
            (void)wp_recorder_merge(rig.api, at->kind, "ns", at->name,
                                    at->text);
        }
        wp_recorder_notify(rig.api);
    }
    (void)fprintf(story, "-- keys\n");
    rig.parts.on_keys(rig.parts.on_keys_ctx);
    (void)fprintf(story, "-- a verdict\n");
    (void)wp_verdicts_set(
        rig.parts.verdicts,
        wp_store_find(rig.parts.stores[WP_KIND_SANDBOX_TEMPLATE], "ns", "t"),
        "no Pod of it");
    wp_claim_rig_settle(&rig);
    end();
}

static void
claims_are_looked_at_when_something_is_new(void **state)
{
    static const struct wp_story_life lives[] = {
        {"leads no more", leads_no_more},
        {"stops in between", stops_in_between},
        {"looked at", looked_at},
    };

    (void)state;
    wp_story_tell(&story, lives, WP_ARRAY_LEN(lives), WP_TEST_STORY);
}

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(claims_are_looked_at_when_something_is_new),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
