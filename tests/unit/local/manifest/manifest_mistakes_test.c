/* What manifests may not say, and what is told of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/base/golden.h"
#include "tests/support/base/temp_dir.h"
#include "tests/support/local/manifest_text.h"

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
    {MANIFEST_POOL "spec: {sandboxTemplateRef: {name: nobody}}\n",
     "f.yaml:1: SandboxWarmPool fast: spec.sandboxTemplateRef.name: no"
     " SandboxTemplate 'nobody' in namespace 'default'"},
    {MANIFEST_POOL "spec:\n  replicas: many\n",
     "f.yaml:6: SandboxWarmPool fast: spec.replicas: a whole number was"
     " expected, not a string"},
    {MANIFEST_POOL "spec:\n  replicas: -1\n",
     "spec.replicas: a number from 0 to 1048576 was expected"},
    {MANIFEST_POOL "spec:\n  replicas: 99999999999999999999\n",
     "spec.replicas: a number from 0"},
    {MANIFEST_POOL "spec:\n  replica: 1\n",
     "spec.replica: unknown field; expected one of replicas,"},
    {MANIFEST_POOL "spec:\n  Replicas: 1\n",
     "spec.Replicas: unknown field; 'replicas' was expected"},
    {MANIFEST_POOL "spec: {replicas: 1}\n",
     "spec.sandboxTemplateRef: missing, but required"},
    {MANIFEST_POOL "spec:\n  sandboxTemplateRef: {name: a}\n"
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
     "metadata: {name: a, annotations: {template.warmpool.io/tier: t1}}\n"
     "spec: {}\n",
     "metadata.annotations: template.warmpool.io/tier: T0 to T4 was expected, "
     "not 't1'"},
    {"apiVersion: extensions.agents.x-k8s.io/v1beta1\n"
     "kind: SandboxTemplate\n"
     "metadata: {name: a, annotations: {template.warmpool.io/bind: none}}\n"
     "spec: {}\n",
     "metadata.annotations: template.warmpool.io/bind: unknown annotation"},
    {MANIFEST_POOL "  annotations: {pool.warmpool.io/ttl: 1h}\n"
                   "spec: {sandboxTemplateRef: {name: a}}\n",
     "metadata.annotations: pool.warmpool.io/ttl: unknown annotation; did you "
     "mean "
     "pool.warmpool.io/ttl-max?"},
    {MANIFEST_POOL "  annotations: {pool.warmpool.io/wait-max: 5}\n"
                   "spec: {sandboxTemplateRef: {name: a}}\n",
     "a string was expected, not a whole number; put quotes around 5"},
    {MANIFEST_POOL "  annotations: {pool.warmpool.io/wait-max: 5 minutes}\n"
                   "spec: {sandboxTemplateRef: {name: a}}\n",
     "a duration such as 500ms"},
    {MANIFEST_POOL "  annotations: {pool.warmpool.io/ttl-max: 400d}\n"
                   "spec: {sandboxTemplateRef: {name: a}}\n",
     "pool.warmpool.io/ttl-max: a duration from 1000ms to 2592000s was "
     "expected"},
    {MANIFEST_POOL "  annotations:\n"
                   "    pool.warmpool.io/ttl-default: 2h\n"
                   "    pool.warmpool.io/ttl-max: 1h\n"
                   "spec: {sandboxTemplateRef: {name: a}}\n",
     "pool.warmpool.io/ttl-default: at most the longest lease, which is 3600 "
     "s"},
    {MANIFEST_POOL "  annotations: {pool.warmpool.io/cold-start: sometimes}\n"
                   "spec: {sandboxTemplateRef: {name: a}}\n",
     "one of never, allowed was expected, not 'sometimes'"},
    {MANIFEST_POOL "  annotations: {pool.warmpool.io/egress: a.test b/c}\n"
                   "spec: {sandboxTemplateRef: {name: a}}\n",
     "pool.warmpool.io/egress: 'b/c': expected a name, *.NAME, an address "
     "or a network, perhaps with :PORT, or packages, or key:NAME"},
    {MANIFEST_POOL "  annotations: {pool.warmpool.io/redy-within: 30s}\n"
                   "spec: {sandboxTemplateRef: {name: a}}\n",
     "redy-within: unknown annotation; did you mean "
     "pool.warmpool.io/ready-within?"},
    {MANIFEST_POOL "  annotations: {autoscaler.warmpool.io/objective: 99.9%}\n"
                   "spec: {sandboxTemplateRef: {name: a}}\n",
     "autoscaler.warmpool.io/objective: unknown group of annotations; did you "
     "mean autoscale.warmpool.io/?"},
    {MANIFEST_POOL "  annotations: {pool.warmpol.io/fair-share: 'true'}\n"
                   "spec: {sandboxTemplateRef: {name: a}}\n",
     "did you mean pool.warmpool.io/?"},
    {MANIFEST_POOL "  annotations: {autoscale.warmpool.io/objectif: 99.9%}\n"
                   "spec: {sandboxTemplateRef: {name: a}}\n",
     "SandboxWarmPool fast: metadata.annotations: annotations of autoscale."
     "warmpool.io/: objectif: unknown key; the nearest known one is objective; "
     "all of them: "
     "warmpool-autoscale(7)"},
    {MANIFEST_POOL "  annotations: {autoscale.warmpool.io/objective: 99}\n"
                   "spec: {sandboxTemplateRef: {name: a}}\n",
     "a string was expected, not a whole number; put quotes around 99"},
    {MANIFEST_POOL
     "  annotations:\n"
     "    autoscale.warmpool.io/objective: 99%\n"
     "    autoscale.warmpool.io/schedule: 0 8 30 2 * for 1h at least 1\n"
     "spec: {sandboxTemplateRef: {name: a}}\n",
     "autoscale.warmpool.io/: schedule: floor 1: day of month: no month of "
     "these "
     "has such a day"},
    {MANIFEST_POOL "  annotations: {autoscale.warmpool.io/max: '5'}\n"
                   "spec: {sandboxTemplateRef: {name: a}}\n",
     "autoscale.warmpool.io/: max: an objective beside it expected"},
    {MANIFEST_HEAD MANIFEST_CONTAINER "---\n" MANIFEST_HEAD MANIFEST_CONTAINER,
     "SandboxTemplate python: a second template of this name in namespace"
     " 'default'"},
    {MANIFEST_HEAD "      containers: []\n", "one container was expected"},
    {MANIFEST_HEAD MANIFEST_CONTAINER
     "      - {name: d, image: host, command: [x]}\n",
     "spec.podTemplate.spec.containers[1]: more than one container is not "
     "supported on one machine: let this one's command start what it needs "
     "beside it"},
    {MANIFEST_HEAD "      containers: [{name: c, image: host}]\n",
     "containers[0].command: missing, but required"},
    {MANIFEST_HEAD "      containers: [{name: c, command: [a]}]\n",
     "containers[0].image: missing, but required"},
    {MANIFEST_HEAD "      containers: [{image: host, command: [sleep, 1]}]\n",
     "containers[0].command[1]: a string was expected, not a whole number; put"
     " quotes around 1"},
    {MANIFEST_HEAD "      containers: [{image: host, command: [yes]}]\n",
     "a string was expected, not a boolean; put quotes around yes"},
    {MANIFEST_HEAD "      containers: [{image: host, command: [a]}]\n",
     "containers[0].ports: one containerPort was expected"},
    {MANIFEST_HEAD "      containers: [{image: host, command: []}]\n",
     "containers[0].command: a program was expected"},
    {MANIFEST_HEAD MANIFEST_CONTAINER "        comand: [a]\n",
     "containers[0].comand: unknown field"},
    {MANIFEST_HEAD MANIFEST_CONTAINER "        envFrom: [{}]\n",
     "containers[0].envFrom: not supported on one machine: name the variables "
     "in env, with their values, or mount the ConfigMap or Secret"},
    {MANIFEST_HEAD MANIFEST_CONTAINER "        env: [{name: A=B, value: x}]\n",
     "env[0].name: the name of a variable was expected"},
    {MANIFEST_HEAD MANIFEST_CONTAINER
     "        securityContext: {privileged: true}\n",
     "securityContext.privileged: not supported on one machine"},
    {MANIFEST_HEAD MANIFEST_CONTAINER
     "        securityContext: {allowPrivilegeEscalation: true}\n",
     "allowPrivilegeEscalation: not supported"},
    {MANIFEST_HEAD MANIFEST_CONTAINER
     "        securityContext: {capabilities: {add: [SYS_ADMIN]}}\n",
     "capabilities.add: not supported"},
    {MANIFEST_HEAD MANIFEST_CONTAINER
     "        securityContext: {seccompProfile: {type: Unconfined}}\n",
     "only RuntimeDefault is supported on one machine, not 'Unconfined'"},
    {MANIFEST_HEAD MANIFEST_CONTAINER "        workingDir: srv\n",
     "workingDir: an absolute path was expected"},
    {MANIFEST_HEAD MANIFEST_CONTAINER
     "        readinessProbe: {exec: {command: []}}\n",
     "readinessProbe.exec.command: a program was expected"},
    {MANIFEST_HEAD MANIFEST_CONTAINER
     "        readinessProbe: {exec: {command: [a]}, tcpSocket: "
     "{port: 8080}}\n",
     "readinessProbe: one kind of probe was expected"},
    {MANIFEST_HEAD MANIFEST_CONTAINER
     "        readinessProbe: {exec: {command: [\"\"]}}\n",
     "readinessProbe.exec.command: a program was expected"},
    {MANIFEST_HEAD MANIFEST_CONTAINER
     "        readinessProbe: {exec: {command: [a]}, timeoutSeconds: 3601}\n",
     "readinessProbe.timeoutSeconds: a number from 1 to 3600 was expected"},
    {MANIFEST_HEAD MANIFEST_CONTAINER
     "        readinessProbe: {httpGet: {port: 8080, path: /a b}}\n",
     "httpGet.path: a path that starts with / and has no spaces was expected"},
    {MANIFEST_HEAD MANIFEST_CONTAINER
     "        readinessProbe: {httpGet: {port: 8080, path: ok}}\n",
     "httpGet.path: a path that starts with / and has no spaces was expected"},
    {MANIFEST_HEAD MANIFEST_CONTAINER
     "        readinessProbe: {httpGet: {port: 8080, path: \"/\\x01\"}}\n",
     "httpGet.path: a path that starts with / and has no spaces was expected"},
    {MANIFEST_HEAD MANIFEST_CONTAINER
     "        readinessProbe: {tcpSocket: {port: 0}}\n",
     "readinessProbe: a number from 1 to 65535 was expected"},
    {MANIFEST_HEAD "      containers: [{name: c, image: host, command: [a], "
                   "ports: [{containerPort: 0}]}]\n",
     "ports[0].containerPort: a number from 1 to 65535 was expected"},
    {MANIFEST_HEAD MANIFEST_CONTAINER
     "        volumeMounts: [{name: w, mountPath: ww}]\n",
     "an absolute path without '.', '..'"},
    {MANIFEST_HEAD MANIFEST_CONTAINER
     "        readinessProbe: {exec: {command: [a]}, timeoutSeconds: 0}\n",
     "readinessProbe.timeoutSeconds: a number from 1 to 3600 was expected"},
    {MANIFEST_HEAD MANIFEST_CONTAINER
     "        readinessProbe: {exec: {command: [a]}}\n"
     "      runtimeClassName: gvisor\n",
     "readinessProbe.exec: not supported with runtimeClassName gvisor on one "
     "machine: use httpGet or tcpSocket"},
    {MANIFEST_HEAD MANIFEST_CONTAINER
     "        readinessProbe: {grpc: {port: 8080}}\n",
     "readinessProbe.grpc: not supported on one machine: use tcpSocket with "
     "the same port"},
    {MANIFEST_HEAD MANIFEST_CONTAINER
     "        readinessProbe: {periodSeconds: 1}\n",
     "readinessProbe: httpGet, tcpSocket or exec was expected"},
    {MANIFEST_HEAD MANIFEST_CONTAINER
     "        readinessProbe: {tcpSocket: {port: 81}}\n",
     "the first containerPort (8080) was expected"},
    {MANIFEST_HEAD MANIFEST_CONTAINER
     "        readinessProbe: {httpGet: {port: web}}\n",
     "no port is named 'web'"},
    {MANIFEST_HEAD MANIFEST_CONTAINER
     "        readinessProbe: {httpGet: {port: 8080, path: a b}}\n",
     "a path that starts with /"},
    {MANIFEST_HEAD MANIFEST_CONTAINER
     "        resources: {limits: {memory: lots}}\n",
     "resources.limits.memory: a number of bytes such as 256Mi"},
    {MANIFEST_HEAD MANIFEST_CONTAINER
     "        resources: {limits: {cpu: -1}}\n",
     "resources.limits.cpu: a quantity of CPU"},
    {MANIFEST_HEAD MANIFEST_CONTAINER "        resources: {limits: {gpu: 1}}\n",
     "resources.limits.gpu: unknown field"},
    {MANIFEST_HEAD MANIFEST_CONTAINER
     "        volumeMounts: [{name: w, mountPath: /w}]\n",
     "no volume is named 'w'"},
    {MANIFEST_HEAD MANIFEST_CONTAINER
     "        volumeMounts: [{name: w, mountPath: /w/../../etc}]\n",
     "an absolute path without '.', '..'"},
    {MANIFEST_HEAD MANIFEST_CONTAINER
     "        volumeMounts: [{name: w, mountPath: /etc/.}]\n",
     "an absolute path without '.', '..'"},
    {MANIFEST_HEAD MANIFEST_CONTAINER
     "        volumeMounts: [{name: w, mountPath: /.}]\n",
     "an absolute path without '.', '..'"},
    {MANIFEST_HEAD MANIFEST_CONTAINER
     "        volumeMounts: [{name: w, mountPath: /}]\n",
     "an absolute path without '.', '..'"},
    {MANIFEST_HEAD MANIFEST_CONTAINER
     "        volumeMounts: [{name: w, mountPath: /dev/x}]\n",
     "/dev/x is the sandbox's own"},
    {MANIFEST_HEAD MANIFEST_CONTAINER
     "        volumeMounts: [{name: w, mountPath: /opt}]\n",
     "/opt is the sandbox's own"},
    {MANIFEST_HEAD MANIFEST_CONTAINER
     "        volumeMounts: [{name: w, mountPath: /opt/warmpool/bin}]\n",
     "/opt/warmpool/bin is the sandbox's own"},
    {MANIFEST_HEAD MANIFEST_CONTAINER
     "        volumeMounts: [{name: w, mountPath: /proc}]\n",
     "/proc is the sandbox's own"},
    {MANIFEST_HEAD "      volumes: [{name: v, hostPath: {path: /}}]\n",
     "f.yaml:7: SandboxTemplate python: spec.podTemplate.spec.volumes[0]"
     ".hostPath: not supported on one machine"},
    {MANIFEST_HEAD "      volumes: [{name: v, secret: {}}]\n",
     "volumes[0].secret.secretName: missing, but required"},
    {MANIFEST_HEAD
     "      volumes: [{name: v, configMap: {name: c}, secret: {secretName: "
     "c}}]\n",
     "volumes[0].secret: one kind of volume was expected"},
    {MANIFEST_HEAD
     "      volumes: [{name: v, configMap: {name: c}, emptyDir: {}}]\n",
     "volumes[0]: one kind of volume was expected"},
    {MANIFEST_HEAD
     "      volumes: [{name: v, configMap: {name: c, defaultMode: "
     "01000}}]\n",
     "configMap.defaultMode: a mode from 0000 to 0777 was expected"},
    {MANIFEST_HEAD
     "      volumes: [{name: v, configMap: {name: c, defaultMode: 09}}]\n",
     "configMap.defaultMode: a mode from 0000 to 0777 was expected"},
    {MANIFEST_HEAD
     "      volumes: [{name: v, configMap: {name: c, defaultMode: 0x1}}]\n",
     "configMap.defaultMode: a mode from 0000 to 0777 was expected"},
    {MANIFEST_HEAD "      volumes: [{name: v, configMap: {name: \"\"}}]\n",
     "configMap.name: the name of an object was expected"},
    {MANIFEST_HEAD
     "      volumes: [{name: v, configMap: {name: c, items: [{key: a, "
     "path: ../a}]}}]\n",
     "items[0].path: a relative path without '.' and '..' was expected"},
    {MANIFEST_HEAD
     "      volumes: [{name: v, configMap: {name: c, items: [{key: a, "
     "path: a}, {key: b, path: a}]}}]\n",
     "items[1]: a second item at 'a'"},
    {MANIFEST_HEAD "      volumes: [{name: v, projected: {}}]\n",
     "volumes[0].projected: not supported on one machine: mount each ConfigMap "
     "or Secret by a volume of its own"},
    {MANIFEST_HEAD MANIFEST_CONTAINER
     "        volumeMounts: [{name: v, mountPath: /v}]\n"
     "      volumes: [{name: v, configMap: {name: c}}]\n",
     "f.yaml:12: SandboxTemplate python: spec.podTemplate.spec.containers[0]."
     "volumeMounts[0]: no ConfigMap 'c' in namespace 'default': add it to the "
     "manifests"},
    {MANIFEST_MAP MANIFEST_HEAD MANIFEST_CONTAINER
     "        volumeMounts: [{name: v, mountPath: /v}]\n"
     "      volumes: [{name: v, secret: {secretName: c}}]\n",
     "no Secret 'c' in namespace 'default'"},
    {MANIFEST_MAP MANIFEST_HEAD MANIFEST_CONTAINER
     "        volumeMounts: [{name: v, mountPath: /v}]\n"
     "      volumes: [{name: v, configMap: {name: c, items: [{key: x, path: "
     "yy}]}}]\n",
     "volumeMounts[0]: ConfigMap 'c' has no key 'x'"},
    {MANIFEST_MAP MANIFEST_HEAD MANIFEST_CONTAINER
     "        volumeMounts: [{name: v, mountPath: /v, subPath: x}]\n"
     "      volumes: [{name: v, configMap: {name: c}}]\n",
     "volumeMounts[0]: subPath: the volume has no file 'x'"},
    {MANIFEST_MAP MANIFEST_HEAD MANIFEST_CONTAINER
     "        volumeMounts: [{name: v, mountPath: /v}]\n"
     "      volumes: [{name: v, configMap: {name: c, items: [{key: a, path: "
     "yy}, {key: a, path: yy/z}]}}]\n",
     "'yy' is a file, and 'yy/z' is below it"},
    {MANIFEST_MAP MANIFEST_HEAD MANIFEST_CONTAINER
     "        volumeMounts: [{name: v, mountPath: /v, subPath: /x}]\n",
     "subPath: a relative path without"},
    {MANIFEST_MAP MANIFEST_MAP,
     "ConfigMap c: a second ConfigMap of this name in namespace"},
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
    {MANIFEST_HEAD "      volumes: [{name: v, persistentVolumeClaim: {}}]\n",
     "persistentVolumeClaim: not supported on one machine: use emptyDir"},
    {MANIFEST_HEAD "      volumes: [{name: v}]\n",
     "volumes[0]: emptyDir, configMap or secret was expected"},
    {MANIFEST_HEAD "      hostNetwork: true\n",
     "spec.podTemplate.spec.hostNetwork: not supported"},
    {MANIFEST_HEAD "      hostPID: true\n", "hostPID: not supported"},
    {MANIFEST_HEAD "      initContainers: [{}]\n",
     "initContainers[0].name: missing, but required"},
    {MANIFEST_HEAD MANIFEST_CONTAINER
     "      initContainers: [{name: i, image: host, command: [a], "
     "restartPolicy: Always}]\n",
     "initContainers[0].restartPolicy: a sidecar is not supported on one "
     "machine: let the container's command start it"},
    {MANIFEST_HEAD MANIFEST_CONTAINER
     "      initContainers: [{name: i, image: other, command: [a]}]\n",
     "podTemplate.spec.initContainers[0].image: the container's image 'host' "
     "was expected"},
    {MANIFEST_HEAD MANIFEST_CONTAINER
     "      initContainers: [{name: i, image: host, command: "
     "[a], livenessProbe: {}}]\n",
     "initContainers[0].livenessProbe: not supported on one machine: leave it "
     "out"},
    {MANIFEST_HEAD MANIFEST_CONTAINER
     "      initContainers:\n"
     "      - {name: i, image: host, command: [a]}\n"
     "      - {name: i, image: host, command: [a]}\n",
     "initContainers[1]: a second init container 'i'"},
    {MANIFEST_HEAD MANIFEST_CONTAINER
     "        volumeMounts: [{name: v, mountPath: /a}]\n"
     "      initContainers: [{name: i, image: host, command: "
     "[a], volumeMounts: [{name: v, mountPath: /b}]}]\n"
     "      volumes: [{name: v, emptyDir: {}}]\n",
     "initContainers[0].volumeMounts[0]"},
    {MANIFEST_HEAD MANIFEST_CONTAINER
     "        volumeMounts: [{name: v, mountPath: /a}]\n"
     "      initContainers: [{name: i, image: host, command: [a], "
     "volumeMounts: [{name: w, mountPath: /a}]}]\n"
     "      volumes: [{name: v, emptyDir: {}}, {name: w, emptyDir: {}}]\n",
     "another volume is mounted at /a"},
    {MANIFEST_HEAD MANIFEST_CONTAINER
     "      runtimeClassName: gvisor\n"
     "      initContainers: [{name: i, image: host, command: "
     "[a]}]\n",
     "initContainers: not supported with runtimeClassName gvisor"},
    {MANIFEST_HEAD "      initContainers: x\n",
     "initContainers: a list was expected"},
    {"apiVersion: extensions.agents.x-k8s.io/v1beta1\n"
     "kind: SandboxWarmPool\nspec: {}\n",
     "f.yaml:1: SandboxWarmPool: metadata: missing, but required"},
    {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: A}\n",
     "metadata: namespace: a DNS label was expected, not 'A'"},
    {MANIFEST_POOL "spec: {sandboxTemplateRef: {name: a}}\n"
                   "---\n" MANIFEST_POOL
                   "spec: {sandboxTemplateRef: {name: a}}\n",
     "SandboxWarmPool fast: a second pool of this name in namespace"
     " 'default'"},
    {MANIFEST_POOL "spec: {sandboxTemplateRef: {name: A b}}\n",
     "sandboxTemplateRef.name: a DNS name of at most 63 characters was "
     "expected"},
    {MANIFEST_HEAD MANIFEST_CONTAINER
     "        readinessProbe: {httpGet: {port: 8080, scheme: HTTPS}}\n",
     "httpGet.scheme: one of HTTP was expected, not 'HTTPS'"},
    {MANIFEST_HEAD MANIFEST_CONTAINER
     "      securityContext: {seccompProfile: {type: Unconfined}}\n",
     "spec.podTemplate.spec.securityContext.seccompProfile.type: only"},
    {MANIFEST_HEAD MANIFEST_CONTAINER "      securityContext: {sysctls: []}\n",
     "securityContext.sysctls: not supported on one machine: leave it out: the "
     "kernel is shared"},
    {MANIFEST_HEAD MANIFEST_CONTAINER
     "      volumes: [{name: a_b, emptyDir: {}}]\n",
     "volumes[0].name: a DNS label was expected"},
    {MANIFEST_HEAD MANIFEST_CONTAINER
     "      volumes: [{name: v, emptyDir: {}}, {name: v, emptyDir: {}}]\n",
     "volumes[1]: a second volume named 'v'"},
    {MANIFEST_HEAD MANIFEST_CONTAINER
     "        volumeMounts: [{name: v, mountPath: /a}, {name: v, mountPath: "
     "/a}]\n"
     "      volumes: [{name: v, emptyDir: {}}]\n",
     "volumeMounts[1]: a second mount at /a"},
    {MANIFEST_HEAD MANIFEST_CONTAINER
     "        volumeMounts: [{name: v, mountPath: /a, subPath: b}]\n"
     "      volumes: [{name: v, emptyDir: {}}]\n",
     "subPath of an emptyDir is not supported on one machine: mount the whole "
     "volume"},
    {MANIFEST_HEAD MANIFEST_CONTAINER
     "        env: [{name: A, valueFrom: {resourceFieldRef: {resource: "
     "limits.cpu}}}]\n",
     "valueFrom.resourceFieldRef: the container has no limits.cpu: give it one,"
     " or give a value"},
    {MANIFEST_HEAD "      containers: [{name: c, image: \"\"}]\n",
     "containers[0].image: the name of an image was expected"},
    {MANIFEST_HEAD MANIFEST_CONTAINER
     "      initContainers: [{name: A b, image: host, command: [a]}]\n",
     "initContainers[0].name: a DNS label was expected"},
    {"kind: SandboxTemplate\nmetadata: {name: a}\napiVersion: v1\n",
     "f.yaml:3: SandboxTemplate: apiVersion: "},
    {"kind: ConfigMap\nmetadata: {name: a}\napiVersion: v2\n",
     "f.yaml:3: ConfigMap: apiVersion: "},
    {MANIFEST_HEAD "      runtimeClassName: kata\n",
     "'gvisor', or none for bubblewrap, was expected, not 'kata'"},
};

/* Each by its words, and all of them whole in golden/mistakes.txt. */
static void
test_mistakes_are_told(void **state)
{
    static struct golden golden;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(mistakes); i++) {
        struct wp_manifest *manifest;
        struct wp_err err;
        enum wp_status status =
            manifest_text_read(&manifest, mistakes[i].text, &err);

        if (status != WP_INVALID_ARGUMENT ||
            strstr(err.msg, mistakes[i].words) == NULL) {
            fail_msg("case %zu: status %d, '%s' does not say '%s'", i,
                     (int)status, err.msg, mistakes[i].words);
        }
        golden_add(&golden, "%s\n", err.msg);
        wp_manifest_destroy(manifest);
    }
    golden_compare(golden.text, WP_TEST_GOLDEN "/mistakes.txt");
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

/* As large as may be, and a byte more. */
static void
test_largest_file(void **state)
{
    char dir[256];
    char path[300];
    char *text = malloc(WP_MANIFEST_BYTES_MAX + 1);

    (void)state;
    assert_non_null(text);
    memset(text, '\n', WP_MANIFEST_BYTES_MAX + 1);
    temp_dir_make(dir, sizeof dir);
    (void)snprintf(path, sizeof path, "%s/f.yaml", dir);
    for (size_t more = 0; more < 2; more++) {
        struct wp_manifest *manifest = wp_manifest_create();
        FILE *file = fopen(path, "we");
        struct wp_err err;

        assert_non_null(file);
        assert_int_equal(fwrite(text, WP_MANIFEST_BYTES_MAX + more, 1, file),
                         1);
        assert_int_equal(fclose(file), 0);
        assert_int_equal(wp_manifest_add_file(manifest, path, &err),
                         more == 0 ? WP_OK : WP_INVALID_ARGUMENT);
        assert_true(more == 0 ||
                    strstr(err.msg, "at most 4194304 bytes") != NULL);
        wp_manifest_destroy(manifest);
    }
    temp_dir_remove(dir);
    free(text);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mistakes_are_told),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_largest_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
