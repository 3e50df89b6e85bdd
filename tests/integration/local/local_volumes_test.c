/* tests/integration/local/local_volumes_test.c - files of ConfigMaps and
 * Secrets, init containers and a probe that is a program, from a manifest to
 * what is seen inside. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/manifest/manifest.h"
#include "tests/support/local/local_rig.h"

static struct wp_host_report host;

#define OBJECTS                                                                \
    "apiVersion: v1\n"                                                         \
    "kind: ConfigMap\n"                                                        \
    "metadata: {name: settings}\n"                                             \
    "data: {colour: blue, \"app.ini\": \"[app]\\nsize = 3\\n\"}\n"             \
    "binaryData: {bytes: AAEC}\n"                                              \
    "---\n"                                                                    \
    "apiVersion: v1\n"                                                         \
    "kind: Secret\n"                                                           \
    "metadata: {name: keys}\n"                                                 \
    "stringData: {token: hush-hush-7731}\n"                                    \
    "---\n"

#define TEMPLATE                                                               \
    "apiVersion: extensions.agents.x-k8s.io/v1beta1\n"                         \
    "kind: SandboxTemplate\n"                                                  \
    "metadata: {name: t}\n"                                                    \
    "spec:\n"                                                                  \
    "  podTemplate:\n"                                                         \
    "    spec:\n"

#define CONTAINER                                                              \
    "      containers:\n"                                                      \
    "      - name: c\n"                                                        \
    "        image: host\n"                                                    \
    "        command: [warmpool-runtime, --port, \"8080\", --workspace, "      \
    "/workspace]\n"                                                            \
    "        ports: [{containerPort: 8080}]\n"

#define VOLUMES                                                                \
    "        volumeMounts:\n"                                                  \
    "        - {name: settings, mountPath: /settings}\n"                       \
    "        - {name: keys, mountPath: /keys}\n"                               \
    "        - {name: settings, mountPath: /etc/app/app.ini, subPath: "        \
    "app.ini}\n"                                                               \
    "        - {name: gone, mountPath: /gone}\n"                               \
    "      volumes:\n"                                                         \
    "      - {name: settings, configMap: {name: settings}}\n"                  \
    "      - name: keys\n"                                                     \
    "        secret:\n"                                                        \
    "          secretName: keys\n"                                             \
    "          items: [{key: token, path: deep/token, mode: 0400}]\n"          \
    "      - {name: gone, secret: {secretName: nobodys, optional: true}}\n"

/* The rig's one template from a manifest, which lives as long. */
static struct wp_manifest *
begin(struct local_rig *rig, const char *text)
{
    struct wp_manifest *manifest = wp_manifest_create();
    const struct wp_template *templates;
    struct wp_err err = {.msg = ""};

    assert_non_null(manifest);
    if (wp_manifest_add_bytes(manifest, "f.yaml", wp_str_from(text), &err) !=
            WP_OK ||
        wp_manifest_check(manifest, &err) != WP_OK) {
        fail_msg("%s", err.msg);
    }
    assert_int_equal(wp_manifest_templates(manifest, &templates), 1);
    local_rig_init_runtime(rig);
    rig->tmpl = templates[0];
    return manifest;
}

static void
check_files(struct local_rig *rig)
{
    local_rig_start_one(rig);
    local_rig_check_inside(rig, "cat /settings/colour", "blue");
    /* ls and stat of this machine may not work inside gVisor. */
    local_rig_check_inside(
        rig,
        "find /settings -type f -printf \"%f %m,\\n\" | sort | tr -d \"\\n\"",
        "app.ini 644,bytes 644,colour 644,");
    local_rig_check_inside(rig, "od -An -tx1 /settings/bytes", " 00 01 02");
    local_rig_check_inside(rig, "cat /keys/deep/token", "hush-hush-7731");
    local_rig_check_inside(rig, "tail -n 1 /etc/app/app.ini", "size = 3");
    local_rig_check_inside(rig, "find /gone -mindepth 1 | wc -l", "0");
    local_rig_check_inside(rig, "(echo x >/settings/x) 2>/dev/null || echo no",
                           "no");
    local_rig_check_inside(
        rig, "(echo x >/etc/app/app.ini) 2>/dev/null || echo no", "no");
    /* Nobody's command line has it. */
    assert_int_equal(local_rig_count_processes("hush-hush"), 0);
}

static void
test_files(void **state)
{
    static struct local_rig rig;
    struct wp_manifest *manifest =
        begin(&rig, OBJECTS TEMPLATE CONTAINER VOLUMES);

    (void)state;
    check_files(&rig);
    local_rig_check_inside(&rig, "find /keys/deep/token -printf %m", "400");
    local_rig_fini(&rig);
    wp_manifest_destroy(manifest);
}

static void
test_files_with_gvisor(void **state)
{
    static struct local_rig rig;
    struct wp_manifest *manifest;

    (void)state;
    if (!host.runsc) {
        (void)printf("SKIP: runsc is not installed\n");
        skip();
    }
    manifest = begin(&rig, OBJECTS TEMPLATE
                     "      runtimeClassName: gvisor\n" CONTAINER VOLUMES);
    check_files(&rig);
    local_rig_fini(&rig);
    wp_manifest_destroy(manifest);
}

/* What they make is there when the container begins, which cannot change it. */
static void
test_init_containers(void **state)
{
    static struct local_rig rig;
    struct wp_manifest *manifest = begin(
        &rig, OBJECTS TEMPLATE
        "      initContainers:\n"
        "      - name: copy\n"
        "        image: host\n"
        "        command: [sh, -c, \"cp /keys/token /skills/$NAME; sleep "
        "1000 & exit 0\"]\n"
        "        env: [{name: NAME, value: hush-hush-name}]\n"
        "        volumeMounts:\n"
        "        - {name: skills, mountPath: /skills}\n"
        "        - {name: keys, mountPath: /keys}\n"
        "      - name: next\n"
        "        image: host\n"
        "        command: [sh, -c, \"mv hush-hush-name done\"]\n"
        "        workingDir: /skills\n"
        "        volumeMounts: [{name: skills, mountPath: /skills}]\n" CONTAINER
        "        readinessProbe: {exec: {command: [test, -e, /skills/done]}}\n"
        "        volumeMounts: [{name: skills, mountPath: /skills, readOnly: "
        "true}]\n"
        "      volumes:\n"
        "      - {name: skills, emptyDir: {}}\n"
        "      - {name: keys, secret: {secretName: keys}}\n");

    (void)state;
    local_rig_start_one(&rig);
    local_rig_check_inside(&rig, "cat /skills/done", "hush-hush-7731");
    if (host.landlock_abi > 0) {
        local_rig_check_inside(
            &rig, "(echo x >/skills/x) 2>/dev/null || echo no", "no");
    }
    local_rig_check_inside(&rig, "echo \"[$NAME]\"", "[]");
    assert_int_equal(local_rig_count_processes("hush-hush"), 0);
    /* Nothing of the former programs keeps the first process awake. */
    local_rig_check_inside(
        &rig,
        "used() { set -- $(cat /proc/1/stat); echo $((${14} + ${15})); }; "
        "a=$(used); sleep 1; test $(($(used) - a)) -lt 30 && echo at rest",
        "at rest");
    local_rig_fini(&rig);
    wp_manifest_destroy(manifest);
}

static void
test_an_init_container_fails(void **state)
{
    static struct local_rig rig;
    struct wp_manifest *manifest =
        begin(&rig, TEMPLATE "      initContainers:\n"
                             "      - {name: fetch, image: host, command: [sh, "
                             "-c, \"echo no network; exit 7\"]}\n" CONTAINER);

    (void)state;
    local_rig_start(&rig);
    local_rig_create(&rig, 0, PATIENCE_MS);
    local_rig_wait(&rig, 0, RIG_LOST, PATIENCE_MS);
    assert_string_equal(
        rig.slots[0].reason,
        "init container 'fetch' exited with status 7: no network");
    local_rig_destroy(&rig, 0);
    local_rig_wait(&rig, 0, RIG_DESTROYED, PATIENCE_MS);
    local_rig_fini(&rig);
    wp_manifest_destroy(manifest);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_files_with_gvisor),
        cmocka_unit_test(test_init_containers),
        cmocka_unit_test(test_an_init_container_fails),
    };

    if (!local_rig_begin(argc, argv, &host)) {
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
