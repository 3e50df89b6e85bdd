/* The Pod that is made for a Sandbox, and how its metadata follows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "k8s/objects/json.h"
#include "k8s/controllers/sandbox/child.h"
#include "k8s/controllers/sandbox/pod.h"
#include "proto/formats/sandbox_token.h"
#include "k8s/controllers/sandbox/volume.h"
#include "tests/support/k8s/object_text.h"

#define HASH "'agents.x-k8s.io/sandbox-name-hash':'0a1b2c3d'"
#define POOL_OWNER                                                             \
    "'ownerReferences':[{'apiVersion':'extensions.agents.x-k8s.io/v1beta1',"   \
    "'kind':'SandboxWarmPool','name':'p','uid':'pu','controller':true}]"
#define CLAIM_OWNER                                                            \
    "'ownerReferences':[{'apiVersion':'extensions.agents.x-k8s.io/v1beta1',"   \
    "'kind':'SandboxClaim','name':'c','uid':'cu','controller':true}]"
#define OURS                                                                   \
    "'ownerReferences':[{'apiVersion':'agents.x-k8s.io/v1beta1','kind':"       \
    "'Sandbox','name':'s','uid':'su','controller':true,"                       \
    "'blockOwnerDeletion':true}]"
#define POD_META "'name':'s','namespace':'n','uid':'ou'"
#define SANDBOX_LABELS                                                         \
    "'agents.x-k8s.io/warm-pool-sandbox':'aa',"                                \
    "'agents.x-k8s.io/sandbox-template-ref-hash':'bb',"                        \
    "'agents.x-k8s.io/created-by':'controller'"

static void
sandbox_text(char *out, size_t cap, const char *metadata, const char *template)
{
    (void)snprintf(out, cap,
                   "{'metadata':{'name':'s','namespace':'n','uid':'su',%s},"
                   "'spec':{'podTemplate':{%s}}}",
                   metadata, template);
}

static size_t wiped; /* Bytes. */

void __wrap_explicit_bzero(void *data, size_t len);
void __real_explicit_bzero(void *data, size_t len);
void __wrap___explicit_bzero_chk(void *data, size_t len, size_t room);

void
__wrap_explicit_bzero(void *data, size_t len)
{
    wiped += len;
    __real_explicit_bzero(data, len);
}

void
__wrap___explicit_bzero_chk(void *data, size_t len, size_t room)
{
    assert_true(len <= room);
    __wrap_explicit_bzero(data, len);
}

/* What a sandbox of a pool gets: the system's labels by the system's own rules,
 * the template's without those that only the system may set. */
static void
pool_pod(void **state)
{
    char text[4096];
    json_t *json;
    struct wp_object *sandbox;

    (void)state;
    sandbox_text(text, sizeof text, "'labels':{" SANDBOX_LABELS "}," POOL_OWNER,
                 "'metadata':{'labels':{'app':'x','a/b':'y',"
                 "'agents.x-k8s.io/claim-uid':'evil',"
                 "'agents.x-k8s.io/sandbox-name-hash':'evil',"
                 "'extensions.agents.x-k8s.io/z':'evil'},"
                 "'annotations':{'note':'1','opentelemetry.io/trace-context':"
                 "'t','agents.x-k8s.io/propagated-labels':'evil'}},"
                 "'spec':{'containers':[{'name':'main'}]}");
    json = json_of(text);
    sandbox = object_of_json(WP_KIND_SANDBOX, json);
    assert_json(wp_sandbox_pod_build(sandbox, json, "0a1b2c3d"),
                "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'s',"
                "'namespace':'n','labels':{'app':'x','a/b':'y'," HASH
                "," SANDBOX_LABELS "},'annotations':{'note':'1',"
                "'agents.x-k8s.io/propagated-labels':'a/b,app',"
                "'agents.x-k8s.io/propagated-annotations':'note'}," OURS
                "},'spec':{'containers':[{'name':'main'}]}}");
    wp_object_unref(sandbox);
    json_decref(json);
}

/* A sandbox that a user made has no say about pools and network policies, and
 * an unknown maker is called so. */
static void
user_pod(void **state)
{
    char text[4096];
    json_t *json;
    struct wp_object *sandbox;

    (void)state;
    sandbox_text(text, sizeof text,
                 "'labels':{'agents.x-k8s.io/warm-pool-sandbox':'aa',"
                 "'agents.x-k8s.io/sandbox-template-ref-hash':'bb',"
                 "'agents.x-k8s.io/created-by':'me'}",
                 "'spec':{}");
    json = json_of(text);
    sandbox = object_of_json(WP_KIND_SANDBOX, json);
    assert_json(
        wp_sandbox_pod_build(sandbox, json, "0a1b2c3d"),
        "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'s',"
        "'namespace':'n','labels':{" HASH
        ",'agents.x-k8s.io/created-by':'unknown'},'annotations':{}," OURS
        "},'spec':{}}");
    wp_object_unref(sandbox);
    json_decref(json);
}

/* One that a gRPC client holds is nobody's, and its next Pod is as isolated as
 * the first was. */
static void
leased_pod(void **state)
{
    char text[4096];
    json_t *json;
    json_t *made;
    struct wp_object *sandbox;

    (void)state;
    sandbox_text(text, sizeof text,
                 "'labels':{'agents.x-k8s.io/warm-pool-sandbox':'aa',"
                 "'agents.x-k8s.io/sandbox-template-ref-hash':'bb'},"
                 "'annotations':{'warmpool.dev/lease':'x'},"
                 "'ownerReferences':[]",
                 "'spec':{}");
    json = json_of(text);
    sandbox = object_of_json(WP_KIND_SANDBOX, json);
    made = wp_sandbox_pod_build(sandbox, json, "0a1b2c3d");
    assert_json(json_incref(wp_json_at(made, "metadata", "labels", NULL)),
                "{" HASH ",'agents.x-k8s.io/sandbox-template-ref-hash':'bb'}");
    json_decref(made);
    wp_object_unref(sandbox);
    json_decref(json);
}

/* The spec of the Pod, with tokens, for a sandbox with these annotations. */
static json_t *
spec_with_tokens(const char *annotations, const char *spec, const uint8_t *key)
{
    char text[4096];
    char metadata[256];
    char template[1024];
    json_t *json;
    json_t *pod;
    json_t *made;
    struct wp_object *sandbox;

    (void)snprintf(metadata, sizeof metadata, "'annotations':{%s}",
                   annotations);
    (void)snprintf(template, sizeof template, "'spec':%s", spec);
    sandbox_text(text, sizeof text, metadata, template);
    json = json_of(text);
    sandbox = object_of_json(WP_KIND_SANDBOX, json);
    pod = wp_sandbox_pod_build(sandbox, json, "0a1b2c3d");
    wp_sandbox_pod_add_token(pod, sandbox, key);
    made = json_incref(json_object_get(pod, "spec"));
    json_decref(pod);
    wp_object_unref(sandbox);
    json_decref(json);
    return made;
}

/* Each container of a pool's Pod has the digest of its sandbox's token, unless
 * its template says one. Other sandboxes are left as they are. */
static void
tokens(void **state)
{
    static const uint8_t key[WP_SANDBOX_KEY_LEN] = {1};
    static const char spec[] =
        "{'containers':[{'name':'a'},"
        "{'name':'b','env':[{'name':'X','value':'1'}]},"
        "{'name':'c','env':[{'name':'WARMPOOL_RUNTIME_TOKEN_DIGEST',"
        "'value':'own'}]}],'initContainers':[{'name':'d'}]}";
    char token[WP_SANDBOX_TOKEN_TEXT + 1];
    char digest[WP_SANDBOX_TOKEN_TEXT + 1];
    char ours[160];
    char want[1024];

    (void)state;
    wp_sandbox_token(key, "n", "s", token);
    wp_sandbox_token_digest(wp_str_from(token), digest);
    (void)snprintf(ours, sizeof ours,
                   "{'name':'WARMPOOL_RUNTIME_TOKEN_DIGEST','value':'%s'}",
                   digest);
    (void)snprintf(want, sizeof want,
                   "{'containers':[{'name':'a','env':[%s]},"
                   "{'name':'b','env':[{'name':'X','value':'1'},%s]},"
                   "{'name':'c','env':[{'name':"
                   "'WARMPOOL_RUNTIME_TOKEN_DIGEST','value':'own'}]}],"
                   "'initContainers':[{'name':'d','env':[%s]}]}",
                   ours, ours, ours);
    wiped = 0;
    assert_json(spec_with_tokens("'warmpool.dev/uid':'00'", spec, key), want);
    assert_true(wiped >= sizeof token);
    assert_json(spec_with_tokens("'warmpool.dev/brings':'1'", spec, key), want);
    assert_json(spec_with_tokens("", spec, key), spec);
}

/* Volume claims take the place of volumes of their name, the others stay. */
static void
volumes(void **state)
{
    json_t *json = json_of(
        "{'metadata':{'name':'s','namespace':'n','uid':'su'},'spec':{"
        "'podTemplate':{'spec':{'volumes':[{'name':'data','emptyDir':{}},"
        "{'name':'tmp','emptyDir':{}}]}},'volumeClaimTemplates':["
        "{'metadata':{'name':'data','labels':{'l':'1'},'annotations':"
        "{'a':'2'}},'spec':{'accessModes':['ReadWriteOnce']}},"
        "{'metadata':{'name':'more'}},{'metadata':{}}]}}");
    struct wp_object *sandbox = object_of_json(WP_KIND_SANDBOX, json);
    json_t *pod = wp_sandbox_pod_build(sandbox, json, "0a1b2c3d");
    char name[WP_VOLUME_CLAIM_NAME_MAX + 1];

    (void)state;
    assert_json(json_incref(wp_json_at(pod, "spec", "volumes", NULL)),
                "[{'name':'tmp','emptyDir':{}},{'name':'data',"
                "'persistentVolumeClaim':{'claimName':'data-s'}},"
                "{'name':'more','persistentVolumeClaim':"
                "{'claimName':'more-s'}}]");
    json_decref(pod);
    assert_true(wp_sandbox_volume_name(sandbox, json, 0, name));
    assert_string_equal(name, "data-s");
    assert_false(wp_sandbox_volume_name(sandbox, json, 2, name));
    assert_json(wp_sandbox_volume_build(sandbox, json, 0, "data-s", "0a1b2c3d"),
                "{'apiVersion':'v1','kind':'PersistentVolumeClaim','metadata':"
                "{'name':'data-s','namespace':'n','labels':{'l':'1'," HASH
                "},'annotations':{'a':'2'}," OURS
                "},'spec':{'accessModes':['ReadWriteOnce']}}");
    wp_object_unref(sandbox);
    json_decref(json);
}

/* What is no spec, or none at all, is an empty one. */
static void
no_spec(void **state)
{
    static const char *const templates[] = {"", "'spec':7", "'spec':[]",
                                            "'spec':{}"};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(templates); i++) {
        char text[512];
        json_t *json;
        json_t *made;
        struct wp_object *sandbox;

        sandbox_text(text, sizeof text, "'labels':{}", templates[i]);
        json = json_of(text);
        sandbox =
            object_of(WP_KIND_SANDBOX,
                      "{'metadata':{'name':'s','namespace':'n','uid':'su'}}");
        made = wp_sandbox_pod_build(sandbox, json, "0a1b2c3d");
        assert_json(json_incref(json_object_get(made, "spec")), "{}");
        json_decref(made);
        wp_object_unref(sandbox);
        json_decref(json);
    }
}

/* The longest name of a volume claim, and one more. */
static void
volume_names(void **state)
{
    static const size_t lens[] = {
        1, WP_VOLUME_CLAIM_NAME_MAX - 3, WP_VOLUME_CLAIM_NAME_MAX - 2,
        WP_VOLUME_CLAIM_NAME_MAX - 1, WP_VOLUME_CLAIM_NAME_MAX + 9};
    struct wp_object *sandbox =
        object_of(WP_KIND_SANDBOX,
                  "{'metadata':{'name':'s','namespace':'n','uid':'su'}}");

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(lens); i++) {
        char given[WP_VOLUME_CLAIM_NAME_MAX + 10];
        char want[WP_VOLUME_CLAIM_NAME_MAX + 16];
        char name[WP_VOLUME_CLAIM_NAME_MAX + 1];
        json_t *json;
        json_t *volumes;
        bool fits = lens[i] + 2 <= WP_VOLUME_CLAIM_NAME_MAX;

        memset(given, 'x', lens[i]);
        given[lens[i]] = '\0';
        json = json_pack("{s:{s:[{s:{s:s}}]}}", "spec", "volumeClaimTemplates",
                         "metadata", "name", given);
        assert_int_equal(wp_sandbox_volume_name(sandbox, json, 0, name), fits);
        (void)snprintf(want, sizeof want, "%s-s", given);
        if (fits) {
            assert_string_equal(name, want);
        }
        volumes = wp_sandbox_volumes(sandbox, json);
        assert_int_equal(json_array_size(volumes), fits ? 1 : 0);
        json_decref(volumes);
        json_decref(json);
    }
    wp_object_unref(sandbox);
}

static const struct follow_row {
    const char *name;
    const char *metadata;     /* Of the sandbox. */
    const char *template;     /* Its pod template's metadata. */
    const char *pod_metadata; /* After name, namespace and uid. */
    const char *patch;        /* NULL: nothing to write. */
} follow_rows[] = {
    {"as it was made", "'labels':{" SANDBOX_LABELS "}," POOL_OWNER,
     "'labels':{'app':'x'}",
     "'labels':{'app':'x'," HASH "," SANDBOX_LABELS "},'annotations':"
     "{'agents.x-k8s.io/propagated-labels':'app'}",
     NULL},
    {"what others put there stays", "'labels':{}", "",
     "'labels':{" HASH ",'other':'1'},'annotations':{'cni':'2'}", NULL},
    /* One patch after an adoption: out of the pool, not to be evicted, and
     * labelled for the claim. */
    {"adopted",
     "'labels':{'agents.x-k8s.io/sandbox-template-ref-hash':'bb',"
     "'agents.x-k8s.io/claim-uid':'cu'}," CLAIM_OWNER,
     "'labels':{'app':'x','team':'t','agents.x-k8s.io/claim-uid':'cu'}",
     "'labels':{'app':'x'," HASH "," SANDBOX_LABELS "},'annotations':"
     "{'cluster-autoscaler.kubernetes.io/safe-to-evict':'true',"
     "'agents.x-k8s.io/propagated-labels':'app',"
     "'agents.x-k8s.io/propagated-annotations':"
     "'cluster-autoscaler.kubernetes.io/safe-to-evict'}",
     "{'metadata':{'labels':{'team':'t','agents.x-k8s.io/claim-uid':'cu',"
     "'agents.x-k8s.io/warm-pool-sandbox':null,"
     "'agents.x-k8s.io/created-by':null},'annotations':{"
     "'cluster-autoscaler.kubernetes.io/safe-to-evict':null,"
     "'agents.x-k8s.io/propagated-labels':'app,team',"
     "'agents.x-k8s.io/propagated-annotations':''}}}"},
    {"what an older controller let through goes", "'labels':{}", "",
     "'labels':{'agents.x-k8s.io/claim-uid':'e'," HASH
     "},'annotations':{'agents.x-k8s.io/propagated-labels':"
     "'agents.x-k8s.io/claim-uid,agents.x-k8s.io/sandbox-name-hash,,'}",
     "{'metadata':{'labels':{'agents.x-k8s.io/claim-uid':null},"
     "'annotations':{'agents.x-k8s.io/propagated-labels':''}}}"},
    {"a Sandbox that a tenant made says nothing of claims",
     "'labels':{'agents.x-k8s.io/claim-uid':'cu'}", "", "'labels':{" HASH "}",
     NULL},
    {"values change", "'labels':{}",
     "'labels':{'app':'new'},'annotations':{'note':'new'}",
     "'labels':{'app':'old'," HASH "},'annotations':{'note':'old',"
     "'agents.x-k8s.io/propagated-labels':'app',"
     "'agents.x-k8s.io/propagated-annotations':'note'}",
     "{'metadata':{'labels':{'app':'new'},'annotations':{'note':'new'}}}"},
    {"nobody's sandbox keeps its isolation",
     "'labels':{'agents.x-k8s.io/sandbox-template-ref-hash':'bb'}", "",
     "'labels':{'agents.x-k8s.io/sandbox-template-ref-hash':'bb'," HASH "}",
     NULL},
    {"but it cannot choose another one",
     "'labels':{'agents.x-k8s.io/sandbox-template-ref-hash':'cc'}", "",
     "'labels':{'agents.x-k8s.io/sandbox-template-ref-hash':'bb'," HASH "}",
     "{'metadata':{'labels':{"
     "'agents.x-k8s.io/sandbox-template-ref-hash':null}}}"},
};

static void
follow(void **state)
{
    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(follow_rows); i++) {
        const struct follow_row *row = &follow_rows[i];
        char template[2048];
        char text[4096];
        char pod_text[4096];

        print_message("  %s\n", row->name);
        (void)snprintf(template, sizeof template, "'metadata':{%s}",
                       row->template);
        sandbox_text(text, sizeof text, row->metadata, template);
        (void)snprintf(pod_text, sizeof pod_text,
                       "{'metadata':{" POD_META ",%s}}", row->pod_metadata);

        json_t *json = json_of(text);
        struct wp_object *sandbox = object_of_json(WP_KIND_SANDBOX, json);
        struct wp_object *pod = object_of(WP_KIND_POD, pod_text);
        json_t *patch = json_of("{'metadata':{}}");

        assert_int_equal(
            wp_sandbox_pod_metadata(sandbox, json, "0a1b2c3d", pod, patch),
            row->patch != NULL);
        assert_json(patch, row->patch != NULL ? row->patch : "{'metadata':{}}");
        wp_object_unref(pod);
        wp_object_unref(sandbox);
        json_decref(json);
    }
}

/* Whose is it, may it be taken over, and what the takeover says. */
static void
ownership(void **state)
{
    struct wp_object *sandbox =
        object_of(WP_KIND_SANDBOX,
                  "{'metadata':{'name':'s','namespace':'n','uid':'su'}}");
    struct wp_object *ours =
        object_of(WP_KIND_POD, "{'metadata':{" POD_META "," OURS "}}");
    struct wp_object *foreign =
        object_of(WP_KIND_POD, "{'metadata':{" POD_META "," POOL_OWNER "}}");
    json_t *json =
        json_of("{'metadata':{" POD_META ",'resourceVersion':'7','labels':"
                "{'agents.x-k8s.io/adoptable':'true'},"
                "'ownerReferences':[{'apiVersion':'v1','kind':"
                "'Node','name':'x','uid':'y'}]}}");
    struct wp_object *offered = object_of_json(WP_KIND_POD, json);
    struct wp_object *tracked = object_of(
        WP_KIND_POD, "{'metadata':{" POD_META ",'labels':{" HASH "}}}");
    char why[512];

    (void)state;
    assert_int_equal(wp_child_owner(ours, sandbox), WP_CHILD_OURS);
    assert_int_equal(wp_child_owner(foreign, sandbox), WP_CHILD_FOREIGN);
    assert_int_equal(wp_child_owner(offered, sandbox), WP_CHILD_UNOWNED);
    assert_true(wp_child_adoptable(offered, "0a1b2c3d"));
    assert_true(wp_child_adoptable(tracked, "0a1b2c3d"));
    assert_false(wp_child_adoptable(tracked, "99999999"));
    wp_child_refusal(foreign, sandbox, why, sizeof why);
    assert_non_null(strstr(why, "SandboxWarmPool p (uid pu)"));
    assert_json(wp_child_adoption(json, sandbox, "0a1b2c3d"),
                "{'metadata':{'uid':'ou','resourceVersion':'7','labels':{" HASH
                "},'ownerReferences':[{'apiVersion':'v1','kind':'Node',"
                "'name':'x','uid':'y'},{'apiVersion':"
                "'agents.x-k8s.io/v1beta1','kind':'Sandbox','name':'s','uid':"
                "'su','controller':true,'blockOwnerDeletion':true}]}}");
    wp_object_unref(sandbox);
    wp_object_unref(ours);
    wp_object_unref(foreign);
    wp_object_unref(offered);
    wp_object_unref(tracked);
    json_decref(json);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pool_pod),   cmocka_unit_test(user_pod),
        cmocka_unit_test(leased_pod), cmocka_unit_test(tokens),
        cmocka_unit_test(volumes),    cmocka_unit_test(follow),
        cmocka_unit_test(no_spec),    cmocka_unit_test(volume_names),
        cmocka_unit_test(ownership),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
