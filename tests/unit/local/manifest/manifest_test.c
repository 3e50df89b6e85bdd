/* tests/unit/local/manifest/manifest_test.c - what manifests say, and what becomes of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "local/manifest/expand.h"
#include "pool/annotations/tier.h"
#include "tests/support/local/manifest_text.h"

static void
accepts(struct wp_manifest **manifest, const char *text)
{
    struct wp_err err;

    if (manifest_text_read(manifest, text, &err) != WP_OK) {
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
                       "spec:\n  podTemplate:\n    spec:\n" MANIFEST_CONTAINER,
                       rows[i].value);
        accepts(&manifest, text);
        assert_int_equal(wp_manifest_templates(manifest, &tmpl), 1);
        assert_int_equal(tmpl->unbound, rows[i].unbound);
        wp_manifest_destroy(manifest);
    }
}

/* What a tier asks for is so on one machine, but for gVisor. */
static void
test_tiers(void **state)
{
    (void)state;
    for (int i = 0; i < WP_TIERS; i++) {
        const struct wp_tier_info *info = wp_tier_info((enum wp_tier)i);
        const struct wp_template *tmpl;
        struct wp_manifest *manifest;
        char text[1024];

        (void)snprintf(text, sizeof text,
                       "apiVersion: extensions.agents.x-k8s.io/v1beta1\n"
                       "kind: SandboxTemplate\n"
                       "metadata:\n  name: python\n  annotations:\n"
                       "    template.warmpool.io/tier: %s\n"
                       "spec:\n  podTemplate:\n    spec:\n" MANIFEST_CONTAINER,
                       info->name);
        accepts(&manifest, text);
        assert_int_equal(wp_manifest_templates(manifest, &tmpl), 1);
        assert_int_equal(tmpl->runtime_class, i == WP_TIER_T4
                                                  ? WP_RUNTIME_GVISOR
                                                  : WP_RUNTIME_BWRAP);
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
    accepts(&manifest, MANIFEST_MAP MANIFEST_HEAD MANIFEST_CONTAINER
            "        volumeMounts:\n"
            "        - {name: all, mountPath: /all}\n"
            "        - {name: some, mountPath: /some}\n"
            "        - {name: key, mountPath: /etc/key, subPath: id}\n"
            "        - {name: some, mountPath: /below, subPath: deep}\n"
            "        - {name: none, mountPath: /none}\n"
            "        - {name: none, mountPath: /nothing, subPath: x}\n"
            "        - {name: plain, mountPath: /plain}\n"
            "      volumes:\n"
            "      - {name: all, configMap: {name: c}}\n"
            "      - name: some\n"
            "        secret:\n"
            "          secretName: s\n"
            "          defaultMode: 0400\n"
            "          items:\n"
            "          - {key: id, path: deep/er/id}\n"
            "          - {key: id, path: same/id}\n"
            "          - {key: id, path: deeper/id}\n"
            "          - {key: pin, path: pin, mode: 288}\n"
            "          - {key: id, path: open, mode: 0o777}\n"
            "          - {key: not-there, path: none}\n"
            "          optional: true\n"
            "      - {name: key, secret: {secretName: s, defaultMode: 256}}\n"
            "      - {name: none, configMap: {name: x, optional: true}}\n"
            "      - {name: plain, secret: {secretName: s}}\n"
            "---\n"
            "apiVersion: v1\n"
            "kind: Secret\n"
            "metadata: {name: s}\n"
            "type: Opaque\n"
            "data: {id: aGlkZGVu, pin: MQ==}\n"
            "stringData: {pin: \"1234\"}\n");
    assert_int_equal(wp_manifest_templates(manifest, &tmpl), 1);
    assert_int_equal(tmpl->mounts_len, 7);
    assert_int_equal(tmpl->mounts[0].kind, WP_MOUNT_FILES);
    assert_true(tmpl->mounts[0].read_only);
    assert_int_equal(tmpl->mounts[0].files_len, 1);
    expect_file(&tmpl->mounts[0], 0, "a", "alpha", 0644);
    assert_int_equal(tmpl->mounts[1].files_len, 5);
    expect_file(&tmpl->mounts[1], 0, "deep/er/id", "hidden", 0400);
    expect_file(&tmpl->mounts[1], 1, "same/id", "hidden", 0400);
    expect_file(&tmpl->mounts[1], 2, "deeper/id", "hidden", 0400);
    expect_file(&tmpl->mounts[1], 3, "pin", "1234", 0440);
    expect_file(&tmpl->mounts[1], 4, "open", "hidden", 0777);
    assert_int_equal(tmpl->mounts[2].kind, WP_MOUNT_FILE);
    assert_int_equal(tmpl->mounts[2].files_len, 1);
    expect_file(&tmpl->mounts[2], 0, "", "hidden", 0400);
    assert_int_equal(tmpl->mounts[3].kind, WP_MOUNT_FILES);
    assert_int_equal(tmpl->mounts[3].files_len, 1);
    expect_file(&tmpl->mounts[3], 0, "er/id", "hidden", 0400);
    assert_int_equal(tmpl->mounts[4].kind, WP_MOUNT_FILES);
    assert_int_equal(tmpl->mounts[4].files_len, 0);
    assert_int_equal(tmpl->mounts[5].kind, WP_MOUNT_NONE);
    assert_int_equal(tmpl->mounts[6].files_len, 2);
    expect_file(&tmpl->mounts[6], 0, "id", "hidden", 0644);
    expect_file(&tmpl->mounts[6], 1, "pin", "1234", 0644);
    assert_int_equal(wp_manifest_notes_count(manifest), 0);
    wp_manifest_destroy(manifest);
}

static void
test_inits_are_read(void **state)
{
    const struct wp_template *tmpl;
    struct wp_manifest *manifest;

    (void)state;
    accepts(&manifest, MANIFEST_HEAD MANIFEST_CONTAINER
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

/* What an init container may not write it does not prepare. */
static void
test_mounts_that_inits_only_read(void **state)
{
    const struct wp_template *tmpl;
    struct wp_manifest *manifest;

    (void)state;
    accepts(&manifest, MANIFEST_MAP MANIFEST_HEAD MANIFEST_CONTAINER
            "        volumeMounts:\n"
            "        - {name: x, mountPath: /x, subPath: \"\"}\n"
            "        - {name: c, mountPath: /c}\n"
            "        readinessProbe: {exec: {command: [a]}}\n"
            "      initContainers:\n"
            "      - name: one\n"
            "        image: host\n"
            "        command: [a]\n"
            "        volumeMounts:\n"
            "        - {name: x, mountPath: /x, readOnly: true}\n"
            "        - {name: c, mountPath: /c}\n"
            "        - {name: z, mountPath: /z, readOnly: true}\n"
            "        - {name: c, mountPath: /d}\n"
            "      volumes:\n"
            "      - {name: x, emptyDir: {}}\n"
            "      - {name: z, emptyDir: {}}\n"
            "      - {name: c, configMap: {name: c}}\n");
    assert_int_equal(wp_manifest_templates(manifest, &tmpl), 1);
    assert_int_equal(tmpl->mounts_len, 4);
    for (uint32_t i = 0; i < tmpl->mounts_len; i++) {
        assert_false(tmpl->mounts[i].prepared);
        assert_int_equal(tmpl->mounts[i].read_only, i > 0);
    }
    assert_int_equal(tmpl->probe_timeout_s, 1);
    wp_manifest_destroy(manifest);
}

/* An init container sees a part of a volume where the container does. */
static void
test_same_place_is_the_same_part(void **state)
{
    static const struct {
        const char *own;
        const char *init;
        bool read;
    } rows[] = {{"", "", true},
                {", subPath: a", ", subPath: a", true},
                {", subPath: a", ", subPath: b", false},
                {", subPath: a", "", false},
                {"", ", subPath: a", false}};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_manifest *manifest;
        struct wp_err err;
        char text[2048];

        (void)snprintf(
            text, sizeof text,
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {a: "
            "x, b: z}}\n---\n" MANIFEST_HEAD MANIFEST_CONTAINER
            "        volumeMounts: [{name: c, mountPath: /c%s}]\n"
            "      initContainers: [{name: i, image: host, command: [a], "
            "volumeMounts: [{name: c, mountPath: /c%s}]}]\n"
            "      volumes: [{name: c, configMap: {name: c}}]\n",
            rows[i].own, rows[i].init);
        if ((manifest_text_read(&manifest, text, &err) == WP_OK) !=
                rows[i].read ||
            (!rows[i].read &&
             strstr(err.msg, "another volume is mounted at /c") == NULL)) {
            fail_msg("row %zu: '%s'", i, err.msg);
        }
        wp_manifest_destroy(manifest);
    }
}

static void
test_ports(void **state)
{
    const struct wp_template *tmpl;
    struct wp_manifest *manifest;

    (void)state;
    accepts(&manifest,
            MANIFEST_HEAD "      containers:\n"
                          "      - name: c\n"
                          "        image: host\n"
                          "        command: [a]\n"
                          "        readinessProbe: {httpGet: {port: 65535}}\n");
    (void)wp_manifest_templates(manifest, &tmpl);
    assert_int_equal(tmpl->port, 65535);
    assert_string_equal(tmpl->probe_path, "/");
    assert_int_equal(wp_manifest_notes_count(manifest), 0);
    wp_manifest_destroy(manifest);
    accepts(&manifest, MANIFEST_HEAD
            "      containers:\n"
            "      - name: c\n"
            "        image: host\n"
            "        command: [a]\n"
            "        ports: [{containerPort: 1}, {containerPort: 2}]\n");
    (void)wp_manifest_templates(manifest, &tmpl);
    assert_int_equal(tmpl->port, 1);
    assert_int_equal(wp_manifest_notes_count(manifest), 1);
    assert_non_null(strstr(wp_manifest_note(manifest, 0),
                           "ports[1]: claims reach the first port only"));
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
    accepts(&manifest, "---\n" MANIFEST_POOL "  annotations:\n"
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
                       "---\n" MANIFEST_HEAD MANIFEST_CONTAINER "---\n"
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
    accepts(&manifest, MANIFEST_HEAD MANIFEST_CONTAINER
            "        securityContext:\n"
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
        cmocka_unit_test(test_tiers),
        cmocka_unit_test(test_template_is_read),
        cmocka_unit_test(test_files_are_read),
        cmocka_unit_test(test_inits_are_read),
        cmocka_unit_test(test_template_that_is_never_bound),
        cmocka_unit_test(test_mounts_that_inits_only_read),
        cmocka_unit_test(test_same_place_is_the_same_part),
        cmocka_unit_test(test_ports),
        cmocka_unit_test(test_pool_is_read),
        cmocka_unit_test(test_security_and_notes),
        cmocka_unit_test(test_shipped_example),
        cmocka_unit_test(test_expansion_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
