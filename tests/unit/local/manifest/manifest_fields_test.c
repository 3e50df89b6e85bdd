/* tests/unit/local/manifest/manifest_fields_test.c - what becomes of every
 * field of a manifest when it has a value of each kind: golden/fields.txt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/base/golden.h"
#include "tests/support/local/manifest_text.h"

enum {
    FIELDS_MAX = 48,
    PAIRS_MAX = 5,
    TEXT_MAX = 4096,
    OUTCOME_MAX = 600,
};

/* A map in a manifest: what is around it, what it needs, what it may have. */
struct place {
    const char *name;
    const char *before;
    const char *after;
    struct {
        const char *key;
        const char *value;
    } pairs[PAIRS_MAX];
    const char *fields[FIELDS_MAX];
};

#define API "extensions.agents.x-k8s.io/v1beta1"
#define CONTAINERS                                                             \
    "{containers: [{name: c, image: host, command: [a], ports: "               \
    "[{containerPort: 8080}]}]}"
#define OF_TEMPLATE "apiVersion: " API "\nkind: SandboxTemplate\n"
#define OF_POOL "apiVersion: " API "\nkind: SandboxWarmPool\n"
/* So that a pool has its template. */
#define BESIDE_POOL "---\n" MANIFEST_HEAD MANIFEST_CONTAINER
#define IN_CONTAINER MANIFEST_HEAD MANIFEST_CONTAINER

static const struct place places[] = {
    {"template",
     "{",
     "}\n",
     {{"apiVersion", API},
      {"kind", "SandboxTemplate"},
      {"metadata", "{name: python}"},
      {"spec", "{podTemplate: {spec: " CONTAINERS "}}"}},
     {"apiVersion", "kind", "metadata", "spec", "status", "data", "Spec"}},
    {"template.metadata",
     OF_TEMPLATE "metadata: {",
     "}\nspec: {podTemplate: {spec: " CONTAINERS "}}\n",
     {{"name", "python"}},
     {"name", "namespace", "annotations", "labels", "uid", "resourceVersion",
      "generation", "creationTimestamp", "managedFields", "ownerReferences",
      "finalizers", "selfLink", "generateName", "nam"}},
    {"template.metadata.annotations",
     OF_TEMPLATE "metadata:\n  name: python\n  annotations: {",
     "}\nspec: {podTemplate: {spec: " CONTAINERS "}}\n",
     {{NULL, NULL}},
     {"template.warmpool.io/binding", "template.warmpool.io/tier",
      "template.warmpool.io/other", "example.com/other"}},
    {"template.metadata.labels",
     OF_TEMPLATE "metadata:\n  name: python\n  labels: {",
     "}\nspec: {podTemplate: {spec: " CONTAINERS "}}\n",
     {{NULL, NULL}},
     {"a"}},
    {"template.spec",
     OF_TEMPLATE "metadata: {name: python}\nspec: {",
     "}\n",
     {{"podTemplate", "{spec: " CONTAINERS "}"}},
     {"podTemplate", "volumeClaimTemplates", "service", "networkPolicy",
      "networkPolicyManagement", "envVarsInjectionPolicy",
      "volumeClaimTemplatesPolicy", "podTemplat"}},
    {"template.spec.podTemplate",
     OF_TEMPLATE "metadata: {name: python}\nspec: {podTemplate: {",
     "}}\n",
     {{"spec", CONTAINERS}},
     {"spec", "metadata", "kind"}},
    {"pod",
     OF_TEMPLATE "metadata: {name: python}\nspec:\n  podTemplate:\n    spec: {",
     "}\n",
     {{"containers",
       "[{name: c, image: host, command: [a], ports: [{containerPort: 1}]}]"}},
     {"containers",
      "volumes",
      "runtimeClassName",
      "securityContext",
      "hostNetwork",
      "hostPID",
      "hostIPC",
      "shareProcessNamespace",
      "initContainers",
      "ephemeralContainers",
      "resourceClaims",
      "activeDeadlineSeconds",
      "affinity",
      "automountServiceAccountToken",
      "dnsConfig",
      "dnsPolicy",
      "enableServiceLinks",
      "hostAliases",
      "hostUsers",
      "hostname",
      "imagePullSecrets",
      "nodeName",
      "nodeSelector",
      "os",
      "overhead",
      "preemptionPolicy",
      "priority",
      "priorityClassName",
      "readinessGates",
      "resources",
      "restartPolicy",
      "schedulerName",
      "schedulingGates",
      "serviceAccount",
      "serviceAccountName",
      "setHostnameAsFQDN",
      "subdomain",
      "terminationGracePeriodSeconds",
      "tolerations",
      "topologySpreadConstraints",
      "nodeSelectors",
      "topologySpreadConstraint",
      "CONTAINERS"}},
    {"container",
     MANIFEST_HEAD "      containers:\n      - {",
     "}\n",
     {{"name", "c"},
      {"image", "host"},
      {"command", "[a]"},
      {"ports", "[{containerPort: 8080}]"}},
     {"name",          "image",
      "command",       "args",
      "env",           "workingDir",
      "ports",         "readinessProbe",
      "resources",     "volumeMounts",
      "volumeDevices", "securityContext",
      "livenessProbe", "imagePullPolicy",
      "startupProbe",  "lifecycle",
      "resizePolicy",  "restartPolicy",
      "stdin",         "stdinOnce",
      "tty",           "terminationMessagePath",
      "envFrom",       "terminationMessagePolicy",
      "volumeMount",   "startupProb"}},
    {"initContainer",
     MANIFEST_HEAD MANIFEST_CONTAINER "      initContainers:\n      - {",
     "}\n",
     {{"name", "i"}, {"image", "host"}, {"command", "[a]"}},
     {"name",         "image",
      "command",      "args",
      "env",          "workingDir",
      "ports",        "readinessProbe",
      "resources",    "volumeMounts",
      "envFrom",      "volumeDevices",
      "startupProbe", "securityContext",
      "lifecycle",    "imagePullPolicy",
      "resizePolicy", "livenessProbe",
      "stdin",        "restartPolicy",
      "tty",          "stdinOnce",
      "comand",       "terminationMessagePath",
      "stdinonce",    "terminationMessagePolicy"}},
    {"container.securityContext",
     IN_CONTAINER "        securityContext: {",
     "}\n",
     {{NULL, NULL}},
     {"allowPrivilegeEscalation", "runAsNonRoot", "readOnlyRootFilesystem",
      "capabilities", "seccompProfile", "privileged", "runAsUser", "runAsGroup",
      "appArmorProfile", "seLinuxOptions", "procMount", "windowsOptions",
      "fsGroup"}},
    {"container.securityContext.capabilities",
     IN_CONTAINER "        securityContext: {capabilities: {",
     "}}\n",
     {{NULL, NULL}},
     {"drop", "add", "keep"}},
    {"container.securityContext.seccompProfile",
     IN_CONTAINER "        securityContext: {seccompProfile: {",
     "}}\n",
     {{"type", "RuntimeDefault"}},
     {"type", "localhostProfile", "other"}},
    {"pod.securityContext",
     IN_CONTAINER "      securityContext: {",
     "}\n",
     {{NULL, NULL}},
     {"runAsNonRoot", "seccompProfile", "runAsUser", "runAsGroup", "fsGroup",
      "fsGroupChangePolicy", "supplementalGroups", "supplementalGroupsPolicy",
      "appArmorProfile", "seLinuxOptions", "seLinuxChangePolicy", "sysctls",
      "windowsOptions", "privileged"}},
    {"container.port",
     MANIFEST_HEAD "      containers:\n"
                   "      - {image: host, command: [a], ports: [{",
     "}]}\n",
     {{"containerPort", "80"}},
     {"containerPort", "name", "protocol", "hostPort", "hostIP", "port"}},
    {"container.readinessProbe",
     IN_CONTAINER "        readinessProbe: {",
     "}\n",
     {{"tcpSocket", "{port: 8080}"}},
     {"httpGet", "tcpSocket", "exec", "grpc", "initialDelaySeconds",
      "periodSeconds", "successThreshold", "failureThreshold", "timeoutSeconds",
      "terminationGracePeriodSeconds", "http"}},
    {"container.readinessProbe.httpGet",
     IN_CONTAINER "        readinessProbe: {httpGet: {",
     "}}\n",
     {{"port", "8080"}},
     {"path", "port", "scheme", "host", "httpHeaders", "url"}},
    {"container.readinessProbe.tcpSocket",
     IN_CONTAINER "        readinessProbe: {tcpSocket: {",
     "}}\n",
     {{"port", "8080"}},
     {"port", "host", "path"}},
    {"container.readinessProbe.exec",
     IN_CONTAINER "        readinessProbe: {exec: {",
     "}}\n",
     {{"command", "[a]"}},
     {"command", "args"}},
    {"container.resources",
     IN_CONTAINER "        resources: {",
     "}\n",
     {{NULL, NULL}},
     {"limits", "requests", "claims", "limit"}},
    {"container.resources.limits",
     IN_CONTAINER "        resources: {limits: {",
     "}}\n",
     {{NULL, NULL}},
     {"cpu", "memory", "ephemeral-storage", "gpu"}},
    {"container.env",
     IN_CONTAINER "        env: [{",
     "}]\n",
     {{"name", "A"}},
     {"name", "value", "valueFrom", "from"}},
    {"container.env.valueFrom",
     IN_CONTAINER "        env: [{name: A, valueFrom: {",
     "}}]\n",
     {{"fieldRef", "{fieldPath: metadata.namespace}"}},
     {"configMapKeyRef", "secretKeyRef", "fieldRef", "resourceFieldRef",
      "fileKeyRef", "value"}},
    {"container.env.valueFrom.configMapKeyRef",
     MANIFEST_MAP IN_CONTAINER
     "        env: [{name: A, valueFrom: {configMapKeyRef: {",
     "}}}]\n",
     {{"name", "c"}, {"key", "a"}},
     {"name", "key", "optional", "value"}},
    {"container.env.valueFrom.secretKeyRef",
     IN_CONTAINER "        env: [{name: A, valueFrom: {secretKeyRef: {",
     "}}}]\n",
     {{"name", "s"}, {"key", "k"}, {"optional", "true"}},
     {"name", "key", "optional", "value"}},
    {"container.env.valueFrom.fieldRef",
     IN_CONTAINER "        env: [{name: A, valueFrom: {fieldRef: {",
     "}}}]\n",
     {{"fieldPath", "metadata.namespace"}},
     {"fieldPath", "apiVersion", "value"}},
    {"container.env.valueFrom.resourceFieldRef",
     IN_CONTAINER "        resources: {limits: {cpu: 1}}\n"
                  "        env: [{name: A, valueFrom: {resourceFieldRef: {",
     "}}}]\n",
     {{"resource", "limits.cpu"}},
     {"resource", "divisor", "containerName", "value"}},
    {"volume",
     IN_CONTAINER "      volumes: [{",
     "}]\n",
     {{"name", "v"}, {"emptyDir", "{}"}},
     {"name",      "emptyDir",  "configMap",   "secret",
      "hostPath",  "projected", "downwardAPI", "persistentVolumeClaim",
      "ephemeral", "csi",       "nfs",         "image",
      "gitRepo",   "iscsi",     "fc",          "rbd",
      "cephfs",    "glusterfs", "flexVolume",  "local",
      "disk"}},
    {"volume.emptyDir",
     IN_CONTAINER "      volumes: [{name: v, emptyDir: {",
     "}}]\n",
     {{NULL, NULL}},
     {"sizeLimit", "medium", "size"}},
    {"volume.configMap",
     IN_CONTAINER "      volumes: [{name: v, configMap: {",
     "}}]\n",
     {{"name", "c"}},
     {"name", "items", "defaultMode", "optional", "secretName"}},
    {"volume.secret",
     IN_CONTAINER "      volumes: [{name: v, secret: {",
     "}}]\n",
     {{"secretName", "c"}},
     {"secretName", "items", "defaultMode", "optional", "name"}},
    {"volume.configMap.item",
     IN_CONTAINER "      volumes: [{name: v, configMap: {name: c, items: [{",
     "}]}}]\n",
     {{"key", "a"}, {"path", "a"}},
     {"key", "path", "mode", "name"}},
    {"container.volumeMount",
     MANIFEST_MAP IN_CONTAINER "        volumeMounts: [{",
     "}]\n      volumes: [{name: v, configMap: {name: c}}]\n",
     {{"name", "v"}, {"mountPath", "/v"}},
     {"name", "mountPath", "readOnly", "subPath", "subPathExpr",
      "mountPropagation", "recursiveReadOnly", "path"}},
    {"pool",
     "{",
     "}\n" BESIDE_POOL,
     {{"apiVersion", API},
      {"kind", "SandboxWarmPool"},
      {"metadata", "{name: fast}"},
      {"spec", "{sandboxTemplateRef: {name: python}}"}},
     {"apiVersion", "kind", "metadata", "spec", "status", "specs"}},
    {"pool.metadata",
     OF_POOL "metadata: {",
     "}\nspec: {sandboxTemplateRef: {name: python}}\n" BESIDE_POOL,
     {{"name", "fast"}},
     {"name", "namespace", "annotations", "labels", "generateName"}},
    {"pool.metadata.annotations",
     OF_POOL "metadata: {name: fast, annotations: {",
     "}}\nspec: {sandboxTemplateRef: {name: python}}\n" BESIDE_POOL,
     {{NULL, NULL}},
     {"pool.warmpool.io/waiters-max", "autoscale.warmpool.io/max",
      "pool.warmpool.io/none", "example.com/other"}},
    {"pool.spec",
     OF_POOL "metadata: {name: fast}\nspec: {",
     "}\n" BESIDE_POOL,
     {{"sandboxTemplateRef", "{name: python}"}},
     {"replicas", "sandboxTemplateRef", "updateStrategy", "selector"}},
    {"pool.spec.sandboxTemplateRef",
     OF_POOL "metadata: {name: fast}\nspec: {sandboxTemplateRef: {",
     "}}\n" BESIDE_POOL,
     {{"name", "python"}},
     {"name", "namespace"}},
    {"pool.spec.updateStrategy",
     OF_POOL "metadata: {name: fast}\n"
             "spec: {sandboxTemplateRef: {name: python}, updateStrategy: {",
     "}}\n" BESIDE_POOL,
     {{"type", "Recreate"}},
     {"type", "rolling"}},
    {"ConfigMap",
     "{",
     "}\n",
     {{"apiVersion", "v1"}, {"kind", "ConfigMap"}, {"metadata", "{name: c}"}},
     {"apiVersion", "kind", "metadata", "data", "binaryData", "immutable",
      "type", "stringData"}},
    {"Secret",
     "{",
     "}\n",
     {{"apiVersion", "v1"}, {"kind", "Secret"}, {"metadata", "{name: c}"}},
     {"apiVersion", "kind", "metadata", "data", "stringData", "immutable",
      "type", "binaryData"}},
    {"ConfigMap.data",
     "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {",
     "}\n",
     {{NULL, NULL}},
     {"a", "a b", ".", "..a", ".a", "-Z_0.9", "AZaz09", "a@", "a[", "a`",
      "a/"}},
    {"Secret.data",
     "apiVersion: v1\nkind: Secret\nmetadata: {name: c}\ndata: {",
     "}\n",
     {{NULL, NULL}},
     {"a"}},
    {"Namespace",
     "{",
     "}\n",
     {{"apiVersion", "v1"}, {"kind", "Namespace"}},
     {"kind", "spec"}},
};

static void
write_text(const struct place *place, const char *field, const char *value,
           char *text)
{
    int n = snprintf(text, TEXT_MAX, "%s", place->before);

    for (size_t i = 0; i < PAIRS_MAX && place->pairs[i].key != NULL; i++) {
        if (strcmp(place->pairs[i].key, field) != 0) {
            n += snprintf(text + n, TEXT_MAX - (size_t)n, "%s: %s, ",
                          place->pairs[i].key, place->pairs[i].value);
        }
    }
    n += snprintf(text + n, TEXT_MAX - (size_t)n, "\"%s\": %s%s", field, value,
                  place->after);
    assert_true(n < TEXT_MAX);
}

static void
look(const struct place *place, const char *field, const char *value,
     char *outcome)
{
    char text[TEXT_MAX];
    struct wp_manifest *manifest;
    struct wp_err err;
    int n;

    write_text(place, field, value, text);
    if (manifest_text_read(&manifest, text, &err) != WP_OK) {
        n = snprintf(outcome, OUTCOME_MAX, "%s", err.msg);
    } else {
        n = snprintf(outcome, OUTCOME_MAX, "taken");
        for (size_t i = 0; i < wp_manifest_notes_count(manifest); i++) {
            n += snprintf(outcome + n, OUTCOME_MAX - (size_t)n, "; note: %s",
                          wp_manifest_note(manifest, i));
        }
    }
    assert_true(n < OUTCOME_MAX);
    wp_manifest_destroy(manifest);
}

static const struct {
    const char *text;
    const char *kind; /* As messages have it; NULL: in none. */
} values[] = {{"null", NULL},
              {"true", "not a boolean"},
              {"7", "not a whole number"},
              {"word", "not a string"},
              {"[]", "not a list"},
              {"{}", "not a map"}};

/* So that values of several kinds come to the same words. */
static void
generalize(char *outcome, size_t value)
{
    const char *kind = values[value].kind;
    char *at = kind != NULL ? strstr(outcome, kind) : NULL;

    if (at != NULL && at[strlen(kind)] == '\0') {
        memcpy(at, "not that", sizeof "not that");
    }
}

/* A line for values that come to the same. */
static void
tell(struct golden *golden, const struct place *place, const char *field)
{
    char outcomes[WP_ARRAY_LEN(values)][OUTCOME_MAX];

    golden_add(golden, "%s: %s\n", place->name, field);
    for (size_t i = 0; i < WP_ARRAY_LEN(values); i++) {
        look(place, field, values[i].text, outcomes[i]);
        generalize(outcomes[i], i);
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(values); i++) {
        bool first = true;

        for (size_t j = 0; j < i; j++) {
            first &= strcmp(outcomes[i], outcomes[j]) != 0;
        }
        for (size_t j = i; first && j < WP_ARRAY_LEN(values); j++) {
            if (strcmp(outcomes[i], outcomes[j]) == 0) {
                golden_add(golden, "%s%s", j == i ? "    " : ", ",
                           values[j].text);
            }
        }
        if (first) {
            golden_add(golden, ": %s\n", outcomes[i]);
        }
    }
}

static void
test_every_field_takes_what_it_took(void **state)
{
    static struct golden golden;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(places); i++) {
        for (size_t f = 0; f < FIELDS_MAX && places[i].fields[f] != NULL; f++) {
            tell(&golden, &places[i], places[i].fields[f]);
        }
    }
    golden_compare(golden.text, WP_TEST_GOLDEN "/fields.txt");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_field_takes_what_it_took),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
