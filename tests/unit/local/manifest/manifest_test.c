/* tests/unit/local/manifest/manifest_test.c - what manifests say, and what mistakes are told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "local/manifest/expand.h"
#include "local/manifest/manifest.h"

/* The head and the tail of a template whose middle is under test. */
#define HEAD                                                                   \
    "apiVersion: extensions.agents.x-k8s.io/v1beta1\n"                         \
    "kind: SandboxTemplate\n"                                                  \
    "metadata: {name: python}\n"                                               \
    "spec:\n"                                                                  \
    "  podTemplate:\n"                                                         \
    "    spec:\n"
#define CONTAINER                                                              \
    "      containers:\n"                                                      \
    "      - name: c\n"                                                        \
    "        image: host\n"                                                    \
    "        command: [server]\n"                                              \
    "        ports: [{containerPort: 8080}]\n"
#define MAP                                                                    \
    "apiVersion: v1\n"                                                         \
    "kind: ConfigMap\n"                                                        \
    "metadata: {name: c}\n"                                                    \
    "data: {a: alpha}\n"                                                       \
    "---\n"
#define POOL                                                                   \
    "apiVersion: extensions.agents.x-k8s.io/v1beta1\n"                         \
    "kind: SandboxWarmPool\n"                                                  \
    "metadata:\n"                                                              \
    "  name: fast\n"

static enum wp_status
read_text(struct wp_manifest **manifest, const char *text, struct wp_err *err)
{
    enum wp_status status;

    *manifest = wp_manifest_create();
    assert_non_null(*manifest);
    err->msg[0] = '\0';
    status = wp_manifest_add_bytes(*manifest, "f.yaml", wp_str_from(text), err);
    return status == WP_OK ? wp_manifest_check(*manifest, err) : status;
}

static void
accepts(struct wp_manifest **manifest, const char *text)
{
    struct wp_err err;

    if (read_text(manifest, text, &err) != WP_OK) {
        fail_msg("%s", err.msg);
    }
}

/* --- What is read --- */

static void
test_template_is_read(void **state)
{
    const struct wp_template *tmpl;
    struct wp_manifest *manifest;

    (void)state;
    accepts(&manifest,
            "apiVersion: extensions.agents.x-k8s.io/v1beta1\n"
            "kind: SandboxTemplate\n"
            "metadata:\n"
            "  name: python\n"
            "  namespace: agents\n"
            "  labels: {a: b}\n"
            "spec:\n"
            "  podTemplate:\n"
            "    metadata: {labels: {x: y}}\n"
            "    spec:\n"
            "      containers:\n"
            "      - name: main\n"
            "        image: debian/12\n"
            "        command: [serve, --port, \"$(PORT)\"]\n"
            "        args: ['$(MISSING)', $$(PORT)]\n"
            "        workingDir: /srv\n"
            "        env:\n"
            "        - {name: PORT, value: \"9000\"}\n"
            "        - {name: URL, value: \"http://x:$(PORT)\"}\n"
            "        - {name: EMPTY}\n"
            "        ports:\n"
            "        - {containerPort: 9000, name: http, protocol: TCP}\n"
            "        readinessProbe: {httpGet: {path: /ok, port: http}}\n"
            "        resources:\n"
            "          limits: {cpu: 1.5, memory: 1Gi}\n"
            "          requests: {cpu: 1}\n"
            "        volumeMounts:\n"
            "        - {name: w, mountPath: /workspace}\n"
            "        - {name: c, mountPath: /cache, readOnly: true}\n"
            "      volumes:\n"
            "      - {name: w, emptyDir: {sizeLimit: 64Mi, medium: Memory}}\n"
            "      - {name: c, emptyDir: {}}\n");
    assert_int_equal(wp_manifest_templates(manifest, &tmpl), 1);
    assert_string_equal(tmpl->name, "python");
    assert_string_equal(tmpl->template_namespace, "agents");
    assert_string_equal(tmpl->image, "debian/12");
    assert_string_equal(tmpl->argv[0], "serve");
    assert_string_equal(tmpl->argv[2], "9000");
    assert_string_equal(tmpl->argv[3], "$(MISSING)");
    assert_string_equal(tmpl->argv[4], "$(PORT)");
    assert_null(tmpl->argv[5]);
    assert_string_equal(tmpl->env[0], "PORT=9000");
    assert_string_equal(tmpl->env[1], "URL=http://x:9000");
    assert_string_equal(tmpl->env[2], "EMPTY=");
    assert_null(tmpl->env[3]);
    assert_string_equal(tmpl->working_dir, "/srv");
    assert_int_equal(tmpl->port, 9000);
    assert_int_equal(tmpl->probe, WP_READY_HTTP);
    assert_string_equal(tmpl->probe_path, "/ok");
    assert_int_equal(tmpl->cpu_milli, 1500);
    assert_int_equal(tmpl->memory_bytes, UINT64_C(1) << 30);
    assert_int_equal(tmpl->mounts_len, 2);
    assert_string_equal(tmpl->mounts[0].path, "/workspace");
    assert_int_equal(tmpl->mounts[0].size_bytes, 64 << 20);
    assert_false(tmpl->mounts[0].read_only);
    assert_string_equal(tmpl->mounts[1].path, "/cache");
    assert_int_equal(tmpl->mounts[1].size_bytes, 0);
    assert_true(tmpl->mounts[1].read_only);
    assert_int_equal(tmpl->runtime_class, WP_RUNTIME_BWRAP);
    assert_int_equal(wp_manifest_notes_count(manifest), 0);
    wp_manifest_destroy(manifest);
}

/* Its program can live with what claims bring, unless it says so. */
static void
test_template_that_is_never_bound(void **state)
{
    static const struct {
        const char *value;
        bool unbound;
    } rows[] = {{"none", true}, {"allowed", false}, {"", false}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct wp_template *tmpl;
        struct wp_manifest *manifest;
        char text[1024];

        (void)snprintf(text, sizeof text,
                       "apiVersion: extensions.agents.x-k8s.io/v1beta1\n"
                       "kind: SandboxTemplate\n"
                       "metadata:\n  name: python\n  annotations:\n"
                       "    example.com/other: none\n"
                       "    template.warmpool.io/binding: %s\n"
                       "spec:\n  podTemplate:\n    spec:\n" CONTAINER,
                       rows[i].value);
        accepts(&manifest, text);
        assert_int_equal(wp_manifest_templates(manifest, &tmpl), 1);
        assert_int_equal(tmpl->unbound, rows[i].unbound);
        wp_manifest_destroy(manifest);
    }
}

static void
expect_file(const struct wp_template_mount *mount, uint32_t i, const char *path,
            const char *bytes, uint32_t mode)
{
    assert_true(i < mount->files_len);
    assert_string_equal(mount->files[i].path, path);
    assert_int_equal(mount->files[i].bytes.len, strlen(bytes));
    assert_memory_equal(mount->files[i].bytes.ptr, bytes, strlen(bytes));
    assert_int_equal(mount->files[i].mode, mode);
}

/* Files of objects that come before and after their template. */
static void
test_files_are_read(void **state)
{
    const struct wp_template *tmpl;
    struct wp_manifest *manifest;

    (void)state;
    accepts(&manifest, MAP HEAD CONTAINER
            "        volumeMounts:\n"
            "        - {name: all, mountPath: /all}\n"
            "        - {name: some, mountPath: /some}\n"
            "        - {name: key, mountPath: /etc/key, subPath: id}\n"
            "        - {name: some, mountPath: /below, subPath: deep}\n"
            "        - {name: none, mountPath: /none}\n"
            "        - {name: none, mountPath: /nothing, subPath: x}\n"
            "      volumes:\n"
            "      - {name: all, configMap: {name: c}}\n"
            "      - name: some\n"
            "        secret:\n"
            "          secretName: s\n"
            "          defaultMode: 0400\n"
            "          items:\n"
            "          - {key: id, path: deep/er/id}\n"
            "          - {key: pin, path: pin, mode: 288}\n"
            "      - {name: key, secret: {secretName: s, defaultMode: 256}}\n"
            "      - {name: none, configMap: {name: x, optional: true}}\n"
            "---\n"
            "apiVersion: v1\n"
            "kind: Secret\n"
            "metadata: {name: s}\n"
            "type: Opaque\n"
            "data: {id: aGlkZGVu, pin: MQ==}\n"
            "stringData: {pin: \"1234\"}\n");
    assert_int_equal(wp_manifest_templates(manifest, &tmpl), 1);
    assert_int_equal(tmpl->mounts_len, 6);
    assert_int_equal(tmpl->mounts[0].kind, WP_MOUNT_FILES);
    assert_true(tmpl->mounts[0].read_only);
    assert_int_equal(tmpl->mounts[0].files_len, 1);
    expect_file(&tmpl->mounts[0], 0, "a", "alpha", 0644);
    assert_int_equal(tmpl->mounts[1].files_len, 2);
    expect_file(&tmpl->mounts[1], 0, "deep/er/id", "hidden", 0400);
    expect_file(&tmpl->mounts[1], 1, "pin", "1234", 0440);
    assert_int_equal(tmpl->mounts[2].kind, WP_MOUNT_FILE);
    assert_int_equal(tmpl->mounts[2].files_len, 1);
    expect_file(&tmpl->mounts[2], 0, "", "hidden", 0400);
    assert_int_equal(tmpl->mounts[3].kind, WP_MOUNT_FILES);
    assert_int_equal(tmpl->mounts[3].files_len, 1);
    expect_file(&tmpl->mounts[3], 0, "er/id", "hidden", 0400);
    assert_int_equal(tmpl->mounts[4].kind, WP_MOUNT_FILES);
    assert_int_equal(tmpl->mounts[4].files_len, 0);
    assert_int_equal(tmpl->mounts[5].kind, WP_MOUNT_NONE);
    assert_int_equal(wp_manifest_notes_count(manifest), 0);
    wp_manifest_destroy(manifest);
}

static void
test_inits_are_read(void **state)
{
    const struct wp_template *tmpl;
    struct wp_manifest *manifest;

    (void)state;
    accepts(&manifest, HEAD CONTAINER
            "        env: [{name: A, value: main}]\n"
            "        readinessProbe:\n"
            "          exec: {command: [test, -e, /data/done]}\n"
            "          timeoutSeconds: 5\n"
            "        volumeMounts:\n"
            "        - {name: data, mountPath: /data, readOnly: true}\n"
            "      initContainers:\n"
            "      - name: one\n"
            "        image: host\n"
            "        command: [sh, -c]\n"
            "        args: [\"echo $(A) >/data/done\"]\n"
            "        env: [{name: A, value: init}]\n"
            "        workingDir: /srv\n"
            "        volumeMounts:\n"
            "        - {name: data, mountPath: /data}\n"
            "        - {name: own, mountPath: /own}\n"
            "      - {name: two, image: host, command: [\"true\"]}\n"
            "      volumes:\n"
            "      - {name: data, emptyDir: {}}\n"
            "      - {name: own, emptyDir: {sizeLimit: 1Mi}}\n");
    assert_int_equal(wp_manifest_templates(manifest, &tmpl), 1);
    assert_int_equal(tmpl->probe, WP_READY_EXEC);
    assert_string_equal(tmpl->probe_argv[2], "/data/done");
    assert_null(tmpl->probe_argv[3]);
    assert_int_equal(tmpl->probe_timeout_s, 5);
    assert_int_equal(tmpl->port, 8080);
    assert_int_equal(tmpl->inits_len, 2);
    assert_string_equal(tmpl->inits[0].name, "one");
    assert_string_equal(tmpl->inits[0].argv[2], "echo init >/data/done");
    assert_string_equal(tmpl->inits[0].env[0], "A=init");
    assert_null(tmpl->inits[0].env[1]);
    assert_string_equal(tmpl->inits[0].working_dir, "/srv");
    assert_string_equal(tmpl->inits[1].argv[0], "true");
    assert_null(tmpl->inits[1].env[0]);
    assert_string_equal(tmpl->env[0], "A=main");
    /* The container may not write what its init container prepares. */
    assert_int_equal(tmpl->mounts_len, 2);
    assert_true(tmpl->mounts[0].read_only && tmpl->mounts[0].prepared);
    assert_string_equal(tmpl->mounts[1].path, "/own");
    assert_true(tmpl->mounts[1].read_only && tmpl->mounts[1].prepared);
    assert_int_equal(tmpl->mounts[1].size_bytes, 1 << 20);
    wp_manifest_destroy(manifest);
}

static void
test_pool_is_read(void **state)
{
    const struct wp_pool_spec *pool;
    struct wp_manifest *manifest;
    struct wp_pool_spec defaults;

    (void)state;
    /* The pool may come before its template; empty documents are nothing. */
    accepts(&manifest, "---\n" POOL "  annotations:\n"
                       "    example.com/other: anything\n"
                       "    pool.warmpool.io/cold-start: allowed\n"
                       "    pool.warmpool.io/ttl-default: 500s\n"
                       "    pool.warmpool.io/ttl-max: 2h\n"
                       "    pool.warmpool.io/wait-max: 1500ms\n"
                       "    pool.warmpool.io/ready-within: 2m\n"
                       "    pool.warmpool.io/waiters-max: \"7\"\n"
                       "    pool.warmpool.io/tenant-waiters-max: \"3\"\n"
                       "    pool.warmpool.io/tenant-leases-max: \"4\"\n"
                       "    pool.warmpool.io/tenant-claims-per-minute: \"90\"\n"
                       "    pool.warmpool.io/fair-share: \"false\"\n"
                       "    pool.warmpool.io/create-inflight-max: \"5\"\n"
                       "    pool.warmpool.io/egress: packages, *.a.test\n"
                       "    autoscale.warmpool.io/schedule: >-\n"
                       "      0 8 * * mon-fri for 10h at least 20;\n"
                       "      0 0 1 * * for 1d at least 5\n"
                       "    autoscale.warmpool.io/time-zone: Europe/Zurich\n"
                       "    autoscale.warmpool.io/objective: 99.9%\n"
                       "    autoscale.warmpool.io/max: \"500\"\n"
                       "spec:\n"
                       "  replicas: 12\n"
                       "  sandboxTemplateRef: {name: python}\n"
                       "  updateStrategy: {type: OnReplenish}\n"
                       "---\n"
                       "---\n" HEAD CONTAINER "---\n"
                       "apiVersion: extensions.agents.x-k8s.io/v1beta1\n"
                       "kind: SandboxWarmPool\n"
                       "metadata: {name: plain}\n"
                       "spec: {sandboxTemplateRef: {name: python}}\n");
    assert_int_equal(wp_manifest_pools(manifest, &pool), 2);
    assert_string_equal(pool->name, "fast");
    assert_string_equal(pool->pool_namespace, "default");
    assert_string_equal(pool->template_name, "python");
    assert_int_equal(pool->target, 12);
    assert_int_equal(pool->cold_start, WP_COLD_ALLOWED);
    assert_int_equal(pool->ttl_default_ns, 500 * WP_NS_PER_S);
    assert_int_equal(pool->ttl_max_ns, 7200 * WP_NS_PER_S);
    assert_int_equal(pool->wait_max_ns, 1500 * WP_NS_PER_MS);
    assert_int_equal(pool->ready_within_ns, 120 * WP_NS_PER_S);
    assert_int_equal(pool->waiters_max, 7);
    assert_int_equal(pool->tenant_waiters_max, 3);
    assert_int_equal(pool->tenant_leases_max, 4);
    assert_int_equal(pool->tenant_claims_per_minute, 90);
    assert_false(pool->fair_share);
    assert_int_equal(pool->create_inflight_max, 5);
    assert_string_equal(pool->egress, "packages, *.a.test");
    assert_true(pool->scale.hit_rate == 0.999);
    assert_int_equal(pool->scale.max, 500);
    assert_int_equal(pool->scale.n_floors, 2);
    assert_string_equal(wp_time_zone_name(pool->scale.floors[1].zone),
                        "Europe/Zurich");
    wp_pool_spec_init(&defaults);
    assert_int_equal(pool[1].target, 1);
    assert_int_equal(pool[1].ttl_default_ns, defaults.ttl_default_ns);
    assert_int_equal(pool[1].cold_start, WP_COLD_NEVER);
    wp_manifest_destroy(manifest);
}

/* Satisfied anyway: no note. Meaningless here: one note each. */
static void
test_security_and_notes(void **state)
{
    struct wp_manifest *manifest;

    (void)state;
    accepts(&manifest,
            HEAD CONTAINER "        securityContext:\n"
                           "          runAsNonRoot: true\n"
                           "          readOnlyRootFilesystem: true\n"
                           "          allowPrivilegeEscalation: false\n"
                           "          privileged: false\n"
                           "          capabilities: {drop: [ALL]}\n"
                           "          seccompProfile: {type: RuntimeDefault}\n"
                           "      hostNetwork: false\n"
                           "      initContainers: []\n"
                           "      nodeSelector: {disk: ssd}\n"
                           "      automountServiceAccountToken: false\n"
                           "  networkPolicyManagement: Managed\n");
    assert_int_equal(wp_manifest_notes_count(manifest), 3);
    assert_string_equal(wp_manifest_note(manifest, 0),
                        "f.yaml:21: SandboxTemplate python: spec.podTemplate"
                        ".spec.nodeSelector: not enforced on one machine");
    assert_null(wp_manifest_note(manifest, 3));
    wp_manifest_destroy(manifest);
}

static void
test_shipped_example(void **state)
{
    const struct wp_template *tmpl;
    const struct wp_pool_spec *pool;
    struct wp_manifest *manifest = wp_manifest_create();
    struct wp_err err = {.msg = ""};

    (void)state;
    if (wp_manifest_add_file(manifest, WP_TEST_QUICKSTART, &err) != WP_OK ||
        wp_manifest_check(manifest, &err) != WP_OK) {
        fail_msg("%s", err.msg);
    }
    assert_int_equal(wp_manifest_templates(manifest, &tmpl), 1);
    assert_string_equal(tmpl->argv[0], "warmpool-runtime");
    assert_string_equal(tmpl->image, "host");
    assert_int_equal(tmpl->port, 8080);
    assert_int_equal(wp_manifest_pools(manifest, &pool), 1);
    assert_string_equal(pool->name, "quickstart");
    assert_int_equal(pool->target, 8);
    assert_int_equal(wp_manifest_notes_count(manifest), 0);
    wp_manifest_destroy(manifest);
}

/* --- What is refused, and in which words --- */

static const struct {
    const char *text;
    const char *words;
} mistakes[] = {
    {"- a\n- b\n", "f.yaml:1: a map was expected, not a list"},
    {"just words\n", "f.yaml:1: a map was expected, not a string"},
    {"a: b\nc: [\n", "not YAML"},
    {"a: 1\na: 2\n", "f.yaml:2: the key 'a' is there twice (first in line 1)"},
    {"a: &x 1\nb: *x\n", "f.yaml:1: anchors are not allowed"},
    {"b: *x\n", "aliases are not allowed"},
    {"a: &x {}\n", "anchors and tags are not allowed"},
    {"a: !!str 1\n", "tags are not allowed"},
    {"a: !!binary {}\n", "anchors and tags are not allowed"},
    {"<<: {a: b}\n", "merge keys"},
    {"{a: b}: c\n", "a key was expected to be a word"},
    {"kind: Pod\napiVersion: v1\n",
     "f.yaml:1: kind: SandboxTemplate, SandboxWarmPool, ConfigMap or Secret was"
     " expected, not 'Pod'"},
    {"apiVersion: v1\n", "kind: SandboxTemplate, SandboxWarmPool, ConfigMap"},
    {"apiVersion: extensions.agents.x-k8s.io/v1alpha1\nkind: SandboxTemplate\n",
     "f.yaml:1: SandboxTemplate: apiVersion: "
     "'extensions.agents.x-k8s.io/v1beta1'"
     " was expected"},
    {"apiVersion: extensions.agents.x-k8s.io/v1beta1\n"
     "kind: SandboxWarmPool\nmetadata: {name: a}\n",
     "SandboxWarmPool: spec: missing, but required"},
    {"apiVersion: extensions.agents.x-k8s.io/v1beta1\n"
     "kind: SandboxWarmPool\nmetadata: {name: Big}\nspec: {}\n",
     "metadata: name: a DNS name of at most 54 characters was expected, not"
     " 'Big'"},
    {"apiVersion: extensions.agents.x-k8s.io/v1beta1\n"
     "kind: SandboxWarmPool\nmetadata: {generateName: a}\nspec: {}\n",
     "metadata.generateName: not supported"},
    {"apiVersion: extensions.agents.x-k8s.io/v1beta1\n"
     "kind: SandboxWarmPool\nmetadata: {name: a, namespace: 7}\nspec: {}\n",
     "metadata.namespace: a string was expected, not a whole number; put quotes"
     " around 7"},
    {POOL "spec: {sandboxTemplateRef: {name: nobody}}\n",
     "f.yaml:1: SandboxWarmPool fast: spec.sandboxTemplateRef.name: no"
     " SandboxTemplate 'nobody' in namespace 'default'"},
    {POOL "spec:\n  replicas: many\n",
     "f.yaml:6: SandboxWarmPool fast: spec.replicas: a whole number was"
     " expected, not a string"},
    {POOL "spec:\n  replicas: -1\n",
     "spec.replicas: a number from 0 to 1048576 was expected"},
    {POOL "spec:\n  replicas: 99999999999999999999\n",
     "spec.replicas: a number from 0"},
    {POOL "spec:\n  replica: 1\n",
     "spec.replica: unknown field; expected one of replicas,"},
    {POOL "spec:\n  Replicas: 1\n",
     "spec.Replicas: unknown field; 'replicas' was expected"},
    {POOL "spec: {replicas: 1}\n",
     "spec.sandboxTemplateRef: missing, but required"},
    {POOL "spec:\n  sandboxTemplateRef: {name: a}\n"
          "  updateStrategy: {type: Rolling}\n",
     "spec.updateStrategy.type: one of OnReplenish, Recreate was expected, not"
     " 'Rolling'"},
    {"apiVersion: extensions.agents.x-k8s.io/v1beta1\n"
     "kind: SandboxTemplate\n"
     "metadata: {name: a, annotations: {template.warmpool.io/binding: no-}}\n"
     "spec: {}\n",
     "metadata.annotations: template.warmpool.io/binding: 'allowed' or 'none' "
     "was expected, not 'no-'"},
    {"apiVersion: extensions.agents.x-k8s.io/v1beta1\n"
     "kind: SandboxTemplate\n"
     "metadata: {name: a, annotations: {template.warmpool.io/bind: none}}\n"
     "spec: {}\n",
     "metadata.annotations: template.warmpool.io/bind: unknown annotation"},
    {POOL "  annotations: {pool.warmpool.io/ttl: 1h}\n"
          "spec: {sandboxTemplateRef: {name: a}}\n",
     "metadata.annotations: pool.warmpool.io/ttl: unknown annotation; did you "
     "mean "
     "pool.warmpool.io/ttl-max?"},
    {POOL "  annotations: {pool.warmpool.io/wait-max: 5}\n"
          "spec: {sandboxTemplateRef: {name: a}}\n",
     "a string was expected, not a whole number; put quotes around 5"},
    {POOL "  annotations: {pool.warmpool.io/wait-max: 5 minutes}\n"
          "spec: {sandboxTemplateRef: {name: a}}\n",
     "a duration such as 500ms"},
    {POOL "  annotations: {pool.warmpool.io/ttl-max: 400d}\n"
          "spec: {sandboxTemplateRef: {name: a}}\n",
     "pool.warmpool.io/ttl-max: a duration from 1000ms to 2592000s was "
     "expected"},
    {POOL "  annotations:\n"
          "    pool.warmpool.io/ttl-default: 2h\n"
          "    pool.warmpool.io/ttl-max: 1h\n"
          "spec: {sandboxTemplateRef: {name: a}}\n",
     "pool.warmpool.io/ttl-default: at most the longest lease, which is 3600 "
     "s"},
    {POOL "  annotations: {pool.warmpool.io/cold-start: sometimes}\n"
          "spec: {sandboxTemplateRef: {name: a}}\n",
     "one of never, allowed was expected, not 'sometimes'"},
    {POOL "  annotations: {pool.warmpool.io/egress: a.test b/c}\n"
          "spec: {sandboxTemplateRef: {name: a}}\n",
     "pool.warmpool.io/egress: 'b/c': expected a name, *.NAME, an address "
     "or a network, perhaps with :PORT, or packages, or key:NAME"},
    {POOL "  annotations: {pool.warmpool.io/redy-within: 30s}\n"
          "spec: {sandboxTemplateRef: {name: a}}\n",
     "redy-within: unknown annotation; did you mean "
     "pool.warmpool.io/ready-within?"},
    {POOL "  annotations: {autoscaler.warmpool.io/objective: 99.9%}\n"
          "spec: {sandboxTemplateRef: {name: a}}\n",
     "autoscaler.warmpool.io/objective: unknown group of annotations; did you "
     "mean autoscale.warmpool.io/?"},
    {POOL "  annotations: {pool.warmpol.io/fair-share: 'true'}\n"
          "spec: {sandboxTemplateRef: {name: a}}\n",
     "did you mean pool.warmpool.io/?"},
    {POOL "  annotations: {autoscale.warmpool.io/objectif: 99.9%}\n"
          "spec: {sandboxTemplateRef: {name: a}}\n",
     "SandboxWarmPool fast: metadata.annotations: annotations of autoscale."
     "warmpool.io/: objectif: unknown key; the nearest known one is objective; "
     "all of them: "
     "warmpool-autoscale(7)"},
    {POOL "  annotations: {autoscale.warmpool.io/objective: 99}\n"
          "spec: {sandboxTemplateRef: {name: a}}\n",
     "a string was expected, not a whole number; put quotes around 99"},
    {POOL "  annotations:\n"
          "    autoscale.warmpool.io/objective: 99%\n"
          "    autoscale.warmpool.io/schedule: 0 8 30 2 * for 1h at least 1\n"
          "spec: {sandboxTemplateRef: {name: a}}\n",
     "autoscale.warmpool.io/: schedule: floor 1: day of month: no month of "
     "these "
     "has such a day"},
    {POOL "  annotations: {autoscale.warmpool.io/max: '5'}\n"
          "spec: {sandboxTemplateRef: {name: a}}\n",
     "autoscale.warmpool.io/: max: an objective beside it expected"},
    {HEAD CONTAINER "---\n" HEAD CONTAINER,
     "SandboxTemplate python: a second template of this name in namespace"
     " 'default'"},
    {HEAD "      containers: []\n", "one container was expected"},
    {HEAD CONTAINER "      - {name: d, image: host, command: [x]}\n",
     "spec.podTemplate.spec.containers[1]: more than one container is not "
     "supported on one machine: let this one's command start what it needs "
     "beside it"},
    {HEAD "      containers: [{name: c, image: host}]\n",
     "containers[0].command: missing, but required"},
    {HEAD "      containers: [{name: c, command: [a]}]\n",
     "containers[0].image: missing, but required"},
    {HEAD "      containers: [{image: host, command: [sleep, 1]}]\n",
     "containers[0].command[1]: a string was expected, not a whole number; put"
     " quotes around 1"},
    {HEAD "      containers: [{image: host, command: [yes]}]\n",
     "a string was expected, not a boolean; put quotes around yes"},
    {HEAD "      containers: [{image: host, command: [a]}]\n",
     "containers[0].ports: one containerPort was expected"},
    {HEAD "      containers: [{image: host, command: []}]\n",
     "containers[0].command: a program was expected"},
    {HEAD CONTAINER "        comand: [a]\n",
     "containers[0].comand: unknown field"},
    {HEAD CONTAINER "        envFrom: [{}]\n",
     "containers[0].envFrom: not supported on one machine: name the variables "
     "in env, with their values, or mount the ConfigMap or Secret"},
    {HEAD CONTAINER "        env: [{name: A=B, value: x}]\n",
     "env[0].name: the name of a variable was expected"},
    {HEAD CONTAINER "        securityContext: {privileged: true}\n",
     "securityContext.privileged: not supported on one machine"},
    {HEAD CONTAINER
     "        securityContext: {allowPrivilegeEscalation: true}\n",
     "allowPrivilegeEscalation: not supported"},
    {HEAD CONTAINER
     "        securityContext: {capabilities: {add: [SYS_ADMIN]}}\n",
     "capabilities.add: not supported"},
    {HEAD CONTAINER
     "        securityContext: {seccompProfile: {type: Unconfined}}\n",
     "only RuntimeDefault is supported on one machine, not 'Unconfined'"},
    {HEAD CONTAINER "        workingDir: srv\n",
     "workingDir: an absolute path was expected"},
    {HEAD CONTAINER "        readinessProbe: {exec: {command: []}}\n",
     "readinessProbe.exec.command: a program was expected"},
    {HEAD CONTAINER "        readinessProbe: {exec: {command: [a]}, tcpSocket: "
                    "{port: 8080}}\n",
     "readinessProbe: one kind of probe was expected"},
    {HEAD CONTAINER
     "        readinessProbe: {exec: {command: [a]}, timeoutSeconds: 0}\n",
     "readinessProbe.timeoutSeconds: a number from 1 to 3600 was expected"},
    {HEAD CONTAINER "        readinessProbe: {exec: {command: [a]}}\n"
                    "      runtimeClassName: gvisor\n",
     "readinessProbe.exec: not supported with runtimeClassName gvisor on one "
     "machine: use httpGet or tcpSocket"},
    {HEAD CONTAINER "        readinessProbe: {grpc: {port: 8080}}\n",
     "readinessProbe.grpc: not supported on one machine: use tcpSocket with "
     "the same port"},
    {HEAD CONTAINER "        readinessProbe: {periodSeconds: 1}\n",
     "readinessProbe: httpGet, tcpSocket or exec was expected"},
    {HEAD CONTAINER "        readinessProbe: {tcpSocket: {port: 81}}\n",
     "the first containerPort (8080) was expected"},
    {HEAD CONTAINER "        readinessProbe: {httpGet: {port: web}}\n",
     "no port is named 'web'"},
    {HEAD CONTAINER
     "        readinessProbe: {httpGet: {port: 8080, path: a b}}\n",
     "a path that starts with /"},
    {HEAD CONTAINER "        resources: {limits: {memory: lots}}\n",
     "resources.limits.memory: a number of bytes such as 256Mi"},
    {HEAD CONTAINER "        resources: {limits: {cpu: -1}}\n",
     "resources.limits.cpu: a quantity of CPU"},
    {HEAD CONTAINER "        resources: {limits: {gpu: 1}}\n",
     "resources.limits.gpu: unknown field"},
    {HEAD CONTAINER "        volumeMounts: [{name: w, mountPath: /w}]\n",
     "no volume is named 'w'"},
    {HEAD CONTAINER
     "        volumeMounts: [{name: w, mountPath: /w/../../etc}]\n",
     "an absolute path without '.', '..'"},
    {HEAD CONTAINER "        volumeMounts: [{name: w, mountPath: /etc/.}]\n",
     "an absolute path without '.', '..'"},
    {HEAD CONTAINER "        volumeMounts: [{name: w, mountPath: /.}]\n",
     "an absolute path without '.', '..'"},
    {HEAD CONTAINER "        volumeMounts: [{name: w, mountPath: /}]\n",
     "an absolute path without '.', '..'"},
    {HEAD CONTAINER "        volumeMounts: [{name: w, mountPath: /dev/x}]\n",
     "/dev/x is the sandbox's own"},
    {HEAD CONTAINER "        volumeMounts: [{name: w, mountPath: /opt}]\n",
     "/opt is the sandbox's own"},
    {HEAD CONTAINER
     "        volumeMounts: [{name: w, mountPath: /opt/warmpool/bin}]\n",
     "/opt/warmpool/bin is the sandbox's own"},
    {HEAD CONTAINER "        volumeMounts: [{name: w, mountPath: /proc}]\n",
     "/proc is the sandbox's own"},
    {HEAD "      volumes: [{name: v, hostPath: {path: /}}]\n",
     "f.yaml:7: SandboxTemplate python: spec.podTemplate.spec.volumes[0]"
     ".hostPath: not supported on one machine"},
    {HEAD "      volumes: [{name: v, secret: {}}]\n",
     "volumes[0].secret.secretName: missing, but required"},
    {HEAD
     "      volumes: [{name: v, configMap: {name: c}, secret: {secretName: "
     "c}}]\n",
     "volumes[0].secret: one kind of volume was expected"},
    {HEAD "      volumes: [{name: v, configMap: {name: c}, emptyDir: {}}]\n",
     "volumes[0]: one kind of volume was expected"},
    {HEAD "      volumes: [{name: v, configMap: {name: c, defaultMode: "
          "01000}}]\n",
     "configMap.defaultMode: a mode from 0000 to 0777 was expected"},
    {HEAD "      volumes: [{name: v, configMap: {name: c, items: [{key: a, "
          "path: ../a}]}}]\n",
     "items[0].path: a relative path without '.' and '..' was expected"},
    {HEAD "      volumes: [{name: v, configMap: {name: c, items: [{key: a, "
          "path: a}, {key: b, path: a}]}}]\n",
     "items[1]: a second item at 'a'"},
    {HEAD "      volumes: [{name: v, projected: {}}]\n",
     "volumes[0].projected: not supported on one machine: mount each ConfigMap "
     "or Secret by a volume of its own"},
    {HEAD CONTAINER "        volumeMounts: [{name: v, mountPath: /v}]\n"
                    "      volumes: [{name: v, configMap: {name: c}}]\n",
     "f.yaml:12: SandboxTemplate python: spec.podTemplate.spec.containers[0]."
     "volumeMounts[0]: no ConfigMap 'c' in namespace 'default': add it to the "
     "manifests"},
    {MAP HEAD CONTAINER "        volumeMounts: [{name: v, mountPath: /v}]\n"
                        "      volumes: [{name: v, secret: {secretName: c}}]\n",
     "no Secret 'c' in namespace 'default'"},
    {MAP HEAD CONTAINER
     "        volumeMounts: [{name: v, mountPath: /v}]\n"
     "      volumes: [{name: v, configMap: {name: c, items: [{key: x, path: "
     "yy}]}}]\n",
     "volumeMounts[0]: ConfigMap 'c' has no key 'x'"},
    {MAP HEAD CONTAINER
     "        volumeMounts: [{name: v, mountPath: /v, subPath: x}]\n"
     "      volumes: [{name: v, configMap: {name: c}}]\n",
     "volumeMounts[0]: subPath: the volume has no file 'x'"},
    {MAP HEAD CONTAINER
     "        volumeMounts: [{name: v, mountPath: /v}]\n"
     "      volumes: [{name: v, configMap: {name: c, items: [{key: a, path: "
     "yy}, {key: a, path: yy/z}]}}]\n",
     "'yy' is a file, and 'yy/z' is below it"},
    {MAP HEAD CONTAINER
     "        volumeMounts: [{name: v, mountPath: /v, subPath: /x}]\n",
     "subPath: a relative path without"},
    {MAP MAP, "ConfigMap c: a second ConfigMap of this name in namespace"},
    {"apiVersion: v2\nkind: Secret\n", "Secret: apiVersion: 'v1' was expected"},
    {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a/b: c}\n",
     "ConfigMap c: data.a/b: a key of letters, digits"},
    {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"
     "data: {a: b}\nbinaryData: {a: Yg==}\n",
     "ConfigMap c: binaryData.a: the key is in data, too"},
    {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndate: {a: b}\n",
     "ConfigMap c: date: unknown field"},
    {"apiVersion: v1\nkind: Secret\nmetadata: {name: c}\ndata: {a: b}\n",
     "Secret c: data.a: base64 was expected"},
    /* Never the value itself. */
    {"apiVersion: v1\nkind: Secret\nmetadata: {name: c}\n"
     "stringData: {pin: 1234}\n",
     "Secret c: stringData.pin: a string was expected, in quotes"},
    {HEAD "      volumes: [{name: v, persistentVolumeClaim: {}}]\n",
     "persistentVolumeClaim: not supported on one machine: use emptyDir"},
    {HEAD "      volumes: [{name: v}]\n",
     "volumes[0]: emptyDir, configMap or secret was expected"},
    {HEAD "      hostNetwork: true\n",
     "spec.podTemplate.spec.hostNetwork: not supported"},
    {HEAD "      hostPID: true\n", "hostPID: not supported"},
    {HEAD "      initContainers: [{}]\n",
     "initContainers[0].name: missing, but required"},
    {HEAD CONTAINER
     "      initContainers: [{name: i, image: host, command: [a], "
     "restartPolicy: Always}]\n",
     "initContainers[0].restartPolicy: a sidecar is not supported on one "
     "machine: let the container's command start it"},
    {HEAD CONTAINER
     "      initContainers: [{name: i, image: other, command: [a]}]\n",
     "podTemplate.spec.initContainers[0].image: the container's image 'host' "
     "was expected"},
    {HEAD CONTAINER "      initContainers: [{name: i, image: host, command: "
                    "[a], livenessProbe: {}}]\n",
     "initContainers[0].livenessProbe: not supported on one machine: leave it "
     "out"},
    {HEAD CONTAINER "      initContainers:\n"
                    "      - {name: i, image: host, command: [a]}\n"
                    "      - {name: i, image: host, command: [a]}\n",
     "initContainers[1]: a second init container 'i'"},
    {HEAD CONTAINER "        volumeMounts: [{name: v, mountPath: /a}]\n"
                    "      initContainers: [{name: i, image: host, command: "
                    "[a], volumeMounts: [{name: v, mountPath: /b}]}]\n"
                    "      volumes: [{name: v, emptyDir: {}}]\n",
     "initContainers[0].volumeMounts[0]"},
    {HEAD CONTAINER
     "        volumeMounts: [{name: v, mountPath: /a}]\n"
     "      initContainers: [{name: i, image: host, command: [a], "
     "volumeMounts: [{name: w, mountPath: /a}]}]\n"
     "      volumes: [{name: v, emptyDir: {}}, {name: w, emptyDir: {}}]\n",
     "another volume is mounted at /a"},
    {HEAD CONTAINER "      runtimeClassName: gvisor\n"
                    "      initContainers: [{name: i, image: host, command: "
                    "[a]}]\n",
     "initContainers: not supported with runtimeClassName gvisor"},
    {HEAD "      initContainers: x\n", "initContainers: a list was expected"},
    {HEAD "      runtimeClassName: kata\n",
     "'gvisor', or none for bubblewrap, was expected, not 'kata'"},
};

static void
test_mistakes_are_told(void **state)
{
    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(mistakes); i++) {
        struct wp_manifest *manifest;
        struct wp_err err;
        enum wp_status status = read_text(&manifest, mistakes[i].text, &err);

        if (status != WP_INVALID_ARGUMENT ||
            strstr(err.msg, mistakes[i].words) == NULL) {
            fail_msg("case %zu: status %d, '%s' does not say '%s'", i,
                     (int)status, err.msg, mistakes[i].words);
        }
        wp_manifest_destroy(manifest);
    }
}

/* --- Bounds --- */

static void
refuses_bytes(char *text, size_t len, const char *words)
{
    struct wp_manifest *manifest = wp_manifest_create();
    struct wp_err err = {.msg = ""};

    assert_int_equal(wp_manifest_add_bytes(manifest, "big",
                                           (struct wp_str){text, len}, &err),
                     WP_INVALID_ARGUMENT);
    if (strstr(err.msg, words) == NULL) {
        fail_msg("'%s' does not say '%s'", err.msg, words);
    }
    wp_manifest_destroy(manifest);
}

static void
test_bounds(void **state)
{
    size_t cap = WP_MANIFEST_BYTES_MAX + 1;
    char *text = malloc(cap);
    size_t len = 0;

    (void)state;
    assert_non_null(text);
    memset(text, ' ', cap);
    refuses_bytes(text, cap, "at most 4194304 bytes");
    memset(text, '[', 1000);
    refuses_bytes(text, 1000, "nested more than 32 deep");
    for (len = 0; len < 400000; len += 2) {
        memcpy(text + len, len == 0 ? " [" : "1,", 2);
    }
    refuses_bytes(text, len, "more than 100000 values");
    for (len = 0; len < 40000;) {
        len += (size_t)sprintf(text + len, "k%zu: 1\n", len);
    }
    refuses_bytes(text, len, "a map has more than 1024 keys");
    for (len = 0; len < 4 * 1100; len += 4) {
        memcpy(text + len, "---\n", 4);
    }
    refuses_bytes(text, len, "more than 1024 documents");
    free(text);
}

static void
test_files(void **state)
{
    struct wp_manifest *manifest = wp_manifest_create();
    struct wp_err err;

    (void)state;
    assert_int_equal(
        wp_manifest_add_file(manifest, "/nonexistent/f.yaml", &err),
        WP_NOT_FOUND);
    assert_non_null(strstr(err.msg, "/nonexistent/f.yaml"));
    assert_int_equal(wp_manifest_add_file(manifest, "/", &err),
                     WP_INVALID_ARGUMENT);
    wp_manifest_destroy(manifest);
}

static void
test_expansion_is_bounded(void **state)
{
    const char *const env[] = {"A=0123456789", NULL};
    struct wp_region region = {.blocks = NULL};

    (void)state;
    assert_string_equal(wp_expand(&region, "$(A)$(A", env, 100),
                        "0123456789$(A");
    assert_null(wp_expand(&region, "$(A)$(A)$(A)", env, 25));
    assert_string_equal(wp_expand(&region, "$$$(A)$", env, 100),
                        "$0123456789$");
    wp_region_free(&region);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_template_is_read),
        cmocka_unit_test(test_files_are_read),
        cmocka_unit_test(test_inits_are_read),
        cmocka_unit_test(test_template_that_is_never_bound),
        cmocka_unit_test(test_pool_is_read),
        cmocka_unit_test(test_security_and_notes),
        cmocka_unit_test(test_shipped_example),
        cmocka_unit_test(test_mistakes_are_told),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_expansion_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
