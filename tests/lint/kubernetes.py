#!/usr/bin/env python3
"""What deploy/ gives a cluster, checked without one.

Every YAML file parses; the roles allow what k8s/ calls and nothing else (the table
ACCESS below, which a change of k8s/ has to change too); the Helm chart renders to what
the kustomize base says; settings are known to warmpoold, whose path may be given:

    kubernetes.py [path of warmpoold]
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import yaml
except ImportError:
    print("SKIP: python3-yaml is missing (deploy/packages.txt, test)")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DEPLOY = ROOT / "deploy"
BASE = DEPLOY / "kubernetes" / "base"
CHART = DEPLOY / "helm" / "warmpool"
WATCH = "get list watch"

# What the code calls, by whom. "resource@name": these names only, in the own namespace.
ACCESS = {
    # watches, pools, claims, the sandbox controller
    "agents.x-k8s.io/sandboxes": f"{WATCH} create patch delete",
    "agents.x-k8s.io/sandboxes/status": "patch",
    # the claim controller
    # create: triggers, k8s/cluster/claim_make.c
    "extensions.agents.x-k8s.io/sandboxclaims": f"{WATCH} create patch delete",
    "extensions.agents.x-k8s.io/sandboxclaims/status": "patch",
    # the template controller: its label
    "extensions.agents.x-k8s.io/sandboxtemplates": f"{WATCH} patch",
    # the pool controller; implicit pools
    "extensions.agents.x-k8s.io/sandboxwarmpools": f"{WATCH} create delete",
    "extensions.agents.x-k8s.io/sandboxwarmpools/status": "patch",
    # blockOwnerDeletion, where the admission plugin asks
    "agents.x-k8s.io/sandboxes/finalizers": "update",
    "extensions.agents.x-k8s.io/sandboxclaims/finalizers": "update",
    "extensions.agents.x-k8s.io/sandboxtemplates/finalizers": "update",
    "extensions.agents.x-k8s.io/sandboxwarmpools/finalizers": "update",
    # the sandbox controller
    "/pods": f"{WATCH} create patch delete",
    "/services": f"{WATCH} create patch delete",
    "/persistentvolumeclaims": f"{WATCH} create patch",
    # the template controller
    "networking.k8s.io/networkpolicies": f"{WATCH} create update delete",
    # k8s/controllers/events.c
    "events.k8s.io/events": "create patch",
    # k8s/lead/competitor.c: other installations
    "coordination.k8s.io/leases": "list",
    # k8s/controllers/webhook
    **{f"apiextensions.k8s.io/customresourcedefinitions@{name}": "get patch"
       for name in ("sandboxes.agents.x-k8s.io",
                    "sandboxclaims.extensions.agents.x-k8s.io",
                    "sandboxtemplates.extensions.agents.x-k8s.io",
                    "sandboxwarmpools.extensions.agents.x-k8s.io")},
}
# With watch_namespace: the same there. Leases of all namespaces are not seen then, and
# definitions of kinds are not changed.
NAMESPACED_ACCESS = {key: verbs for key, verbs in ACCESS.items()
                     if key != "coordination.k8s.io/leases"
                     and not key.startswith("apiextensions.k8s.io/")}
OWN_ACCESS = {
    # k8s/lead/election.c
    "coordination.k8s.io/leases": "create",
    "coordination.k8s.io/leases@warmpool-controller": "get update",
    # k8s/lead/competitor.c
    "coordination.k8s.io/leases@a3317529.agent-sandbox.x-k8s.io": "get",
    "apps/deployments@agent-sandbox-controller": "get",
    # k8s/controllers/webhook
    "/secrets@warmpool-webhook": "get patch",
    # k8s/controllers/identity
    "/secrets@warmpool-identity": "get patch",
}

# deploy/kubernetes/repositories: k8s/bind/trust.c
REPOSITORIES_ACCESS = {"/configmaps": "create get list patch"}

failures = []


def fail(text):
    failures.append(text)


def load_all(text, name):
    try:
        return [doc for doc in yaml.safe_load_all(text) if doc is not None]
    except yaml.YAMLError as error:
        fail(f"{name}: {error}")
        return []


# --- Roles ---


def granted(rules):
    """{"group/resource[@name]": {verbs}} of a role's rules."""
    out = {}
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for name in rule.get("resourceNames", [None]):
                    key = f"{group}/{resource}" + (f"@{name}" if name else "")
                    out.setdefault(key, set()).update(rule["verbs"])
    return out


def check_roles(roles, table, where):
    if len(roles) != 1:
        fail(f"{where}: {len(roles)} roles; expected 1")
        return
    has = granted(roles[0]["rules"])
    for key in sorted(set(has) | set(table)):
        wanted = set(table.get(key, "").split())
        if has.get(key, set()) != wanted:
            fail(f"{where}: {roles[0]['kind']} allows {key} "
                 f"{sorted(has.get(key, set()))}; the code needs "
                 f"{sorted(wanted)}")


def check_access(docs, where):
    for kind, table in (("ClusterRole", ACCESS), ("Role", OWN_ACCESS)):
        check_roles([doc for doc in docs if doc["kind"] == kind], table, where)


def check_namespaced_access(docs, where, watched, own):
    """Roles alone: one for what is watched, one for the daemon's own namespace, each
    bound to the account of the Deployment."""
    roles = [doc for doc in docs if doc["kind"] == "Role"]
    bindings = [doc for doc in docs if doc["kind"] == "RoleBinding"]
    accounts = [doc for doc in docs if doc["kind"] == "ServiceAccount"]
    for doc in docs:
        if doc["kind"].startswith("Cluster"):
            fail(f"{where}: a {doc['kind']}, where Roles are enough")
    if len(accounts) != 1 or len(roles) != 2:
        fail(f"{where}: {len(roles)} Roles and {len(accounts)} accounts; "
             "expected 2 and 1")
        return
    account = accounts[0]["metadata"]["name"]
    check_roles([r for r in roles if r["metadata"]["name"] == account],
                OWN_ACCESS, where)
    check_roles([r for r in roles if r["metadata"]["name"] != account],
                NAMESPACED_ACCESS, where)
    for role in roles:
        place = own if role["metadata"]["name"] == account else watched
        bound = [b for b in bindings
                 if b["metadata"]["name"] == role["metadata"]["name"]]
        if role["metadata"].get("namespace") != place or len(bound) != 1:
            fail(f"{where}: a Role and a RoleBinding {role['metadata']['name']} "
                 f"in {place} were expected")
        elif (bound[0]["metadata"].get("namespace") != place
              or bound[0]["roleRef"] != {
                  "apiGroup": "rbac.authorization.k8s.io", "kind": "Role",
                  "name": role["metadata"]["name"]}
              or bound[0]["subjects"] != [{"kind": "ServiceAccount",
                                           "name": account, "namespace": own}]):
            fail(f"{where}: RoleBinding {role['metadata']['name']} binds "
                 "something else")


def check_kinds_are_covered():
    """Each kind of k8s/objects/kind.h appears in the tables, under its group and plural."""
    text = (ROOT / "k8s" / "objects" / "kind.h").read_text()
    table = re.findall(r'X\(\w+,\s*"([^"]*)",\s*"[^"]*",\s*"[^"]*",\s*"([^"]*)"\)',
                       re.sub(r"\\\n\s*", " ", text))
    if len(table) < 10:
        fail("k8s/objects/kind.h: the table of kinds was not found")
    for group, plural in table:
        if not any(key.split("@")[0] == f"{group}/{plural}"
                   for key in [*ACCESS, *OWN_ACCESS, *REPOSITORIES_ACCESS]):
            fail(f"k8s/objects/kind.h: {group}/{plural} is in no role")


# --- The chart, as far as it uses Go's templates ---

TOKEN = re.compile(r"(\{\{-?)\s*(.*?)\s*(-?\}\})", re.S)


class Chart:
    """Renders: values, if, range, toYaml, nindent, sha256sum. No more is used."""

    def __init__(self, values, namespace):
        self.root = {"Values": values,
                     "Release": {"Name": "warmpool", "Namespace": namespace}}

    def look_up(self, path, dot):
        if path == ".":
            return dot
        value = self.root
        for part in path.strip(".").split("."):
            # A setting that is not said is empty.
            value = (value.get(part, "") if path.startswith(".Values.config.")
                     else value[part])
        return value

    def evaluate(self, words, dot):
        parts = [part.strip() for part in words.split("|")]
        value = None
        for number, part in enumerate(parts):
            name, *args = part.split()
            if name == "not":
                value = not self.look_up(args[0], dot)
            elif number == 0 and name.startswith((".", "$.")):
                value = self.look_up(name.lstrip("$"), dot)
            elif name == "toYaml":
                value = yaml.safe_dump(self.look_up(args[0], dot)).rstrip("\n")
            elif name == "nindent":
                pad = "\n" + " " * int(args[0])
                value = pad + value.replace("\n", pad)
            elif name == "sha256sum":
                value = "0" * 64
            elif name == "gt" and part == "gt (int .Values.replicas) 1":
                value = self.root["Values"]["replicas"] > 1
            else:
                raise ValueError(f"the chart uses '{part}', unknown to this test")
        return value

    def tokens(self, text):
        out, at = [], 0
        for match in TOKEN.finditer(text):
            before = text[at:match.start()]
            if match.group(1) == "{{-":
                before = before.rstrip()
            if out and out[-1] == ("trim",):
                out.pop()
                before = before.lstrip()
            out += [("text", before), ("code", match.group(2))]
            if match.group(3) == "-}}":
                out.append(("trim",))
            at = match.end()
        return out + [("text", text[at:])]

    def render(self, text):
        tokens = self.tokens(text)
        out, end = self.block(tokens, 0, None)
        if end != len(tokens):
            raise ValueError("an end too many")
        return out

    def block(self, tokens, at, dot):
        out = ""
        while at < len(tokens):
            kind, *rest = tokens[at]
            at += 1
            if kind == "text":
                out += rest[0]
            elif kind == "code":
                word = rest[0]
                if word == "end":
                    return out, at
                if word.startswith("/*"):
                    continue
                verb, _, words = word.partition(" ")
                if verb in ("if", "range"):
                    value = self.evaluate(words, dot)
                    rounds = value if verb == "range" else [dot] * bool(value)
                    for item in rounds:
                        out += self.block(tokens, at, item)[0]
                    at = self.block(tokens, at, dot)[1]
                else:
                    out += str(self.evaluate(word, dot))
        return out, at


def render_chart(values, namespace="agent-sandbox-system"):
    docs = []
    for path in sorted((CHART / "templates").glob("*.yaml")):
        text = Chart(values, namespace).render(path.read_text())
        docs += load_all(text, path.relative_to(ROOT))
    return docs


def plain(doc):
    """Without what the two ways of installing do differently on purpose."""
    doc = yaml.safe_load(yaml.safe_dump(doc))
    doc["metadata"].pop("namespace", None)
    for subject in doc.get("subjects", []):
        subject.pop("namespace", None)
    if doc["kind"] == "Deployment":
        template = doc["spec"]["template"]
        template["metadata"].pop("annotations", None)
        for container in template["spec"]["containers"]:
            container["image"] = "image"
        for volume in template["spec"]["volumes"]:
            if volume["name"] == "config":
                volume["configMap"]["name"] = "config"
    return doc


def meets(value, schema, where):
    """The part of JSON Schema that values.schema.json uses."""
    types = {"object": dict, "string": str, "boolean": bool, "array": list,
             "integer": int, "number": (int, float)}
    known = {"$schema", "title", "description", "type", "additionalProperties",
             "required", "properties", "pattern", "minLength", "minimum", "items"}
    if set(schema) - known:
        return [f"{where}: the schema uses {set(schema) - known}"]
    wanted = schema.get("type", list(types))
    wanted = [wanted] if isinstance(wanted, str) else wanted
    if not any(isinstance(value, types[name]) and not (
            isinstance(value, bool) and name in ("integer", "number"))
            for name in wanted):
        return [f"{where}: {value!r}; expected {wanted}"]
    out = []
    if isinstance(value, dict):
        out += [f"{where}: {key} is missing"
                for key in schema.get("required", []) if key not in value]
        other = schema.get("additionalProperties", {})
        for key, item in value.items():
            each = schema.get("properties", {}).get(key, other)
            out += ([f"{where}: {key} is unknown"] if each is False
                    else meets(item, each, f"{where}.{key}"))
    if isinstance(value, list):
        for item in value:
            out += meets(item, schema.get("items", {}), where)
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        out.append(f"{where}: {value!r} does not match")
    if isinstance(value, int) and value < schema.get("minimum", value):
        out.append(f"{where}: {value} is too small")
    return out


def check_values(values):
    schema = json.loads((CHART / "values.schema.json").read_text())
    for text in meets(values, schema, "values.yaml"):
        fail(text)
    for bad in ({"grcp": False}, {"grpc": "no"}, {"replicas": -1},
                {"name": "A"}, {"config": []}, {"extraArgs": ["x"]},
                {"repositories": {"enabled": "yes", "image": "x"}}):
        if not meets({**values, **bad}, schema, "values"):
            fail(f"the chart's schema takes {bad}")


def check_repositories(values):
    """The chart has what the component adds, and says where the socket is."""
    docs = render_chart({**values, "repositories": {
        "enabled": True, "image": "warmpool-fetch"}})
    chart = [doc for doc in docs if doc["kind"] == "Deployment"][0]
    path = DEPLOY / "kubernetes" / "repositories" / "deployment.yaml"
    ours = load_all(path.read_text(), path.name)[0]
    has, adds = (doc["spec"]["template"]["spec"] for doc in (chart, ours))
    for mount in adds["containers"][0]["volumeMounts"]:
        if mount not in has["containers"][0]["volumeMounts"]:
            fail(f"the chart: the daemon lacks the mount {mount}")
    if has["containers"][1:] != adds["containers"][1:] or any(
            volume not in has["volumes"] for volume in adds["volumes"]):
        fail("the chart's repositories are not those of deploy/kubernetes")
    path = path.with_name("role.yaml")
    rights = load_all(path.read_text(), path.name)
    check_roles(rights[:1], REPOSITORIES_ACCESS, "deploy/kubernetes/repositories")
    made = [doc for doc in docs if doc["metadata"]["name"] == "warmpool-trust"]
    if [doc["metadata"].pop("namespace") for doc in made] != 2 * [
            "agent-sandbox-system"] or made != rights:
        fail("the chart's rights to records are not those of deploy/kubernetes")
    config = [doc for doc in docs if doc["kind"] == "ConfigMap"][0]
    socket = yaml.safe_load(config["data"]["warmpoold.yaml"]).get("fetch_socket")
    if socket != adds["containers"][1]["args"][1]:
        fail(f"the chart: fetch_socket is {socket}")


def check_chart(base):
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    chart = {(doc["kind"], doc["metadata"]["name"]): doc
             for doc in render_chart(values)}
    ours = {(doc["kind"], doc["metadata"]["name"]): doc for doc in base
            if doc["kind"] not in ("Namespace", "Kustomization")}
    for key in sorted(set(ours) | set(chart)):
        if key[0] == "ConfigMap":
            continue
        if key not in ours or key not in chart:
            fail(f"{key[0]} {key[1]}: only in {'chart' if key in chart else 'base'}")
        elif plain(ours[key]) != plain(chart[key]):
            fail(f"{key[0]} {key[1]}: the chart and the base differ")
    small = render_chart({**values, "grpc": False, "replicas": 1})
    if any(doc["kind"] == "PodDisruptionBudget" for doc in small):
        fail("the chart: one replica with a disruption budget blocks every drain")
    for docs, path in ((chart.values(), BASE),
                       (small, DEPLOY / "kubernetes" / "overlays" / "memory")):
        config = [doc for doc in docs if doc["kind"] == "ConfigMap"][0]
        if yaml.safe_load(config["data"]["warmpoold.yaml"]) != yaml.safe_load(
                (path / "warmpoold.yaml").read_text()):
            fail(f"the chart's settings are not those of {path.relative_to(ROOT)}")
    check_values(values)
    notes = (CHART / "templates" / "NOTES.txt").read_text()
    for grpc in (True, False):
        text = Chart({**values, "grpc": grpc}, "agent-sandbox-system").render(notes)
        if ("warmpool-redis" in text) != grpc or "{{" in text:
            fail("the chart's NOTES.txt says what is not so")
    refusing = render_chart({**values, "refuseWeakerTemplates": True})
    policy = DEPLOY / "kubernetes" / "tiers" / "policy.yaml"
    if [doc for doc in refusing if doc["kind"].startswith("Validating")] != load_all(
            policy.read_text(), policy.name):
        fail("the chart's policy of tiers is not that of deploy/kubernetes/tiers")
    readers = [doc for doc in render_chart(
        {**values, "claimSecretsNamespaces": ["team-a"]})
        if doc["metadata"]["name"] == "warmpool-claim-secrets"]
    role = DEPLOY / "kubernetes" / "claim-secrets" / "role.yaml"
    ours = load_all(role.read_text(), role.name)
    for doc in ours:
        doc["metadata"]["namespace"] = "team-a"
    if readers != ours:
        fail("the chart's claim-secrets are not those of deploy/kubernetes")
    check_repositories(values)
    volumes = [doc for doc in small if doc["kind"] == "Deployment"][0][
        "spec"]["template"]["spec"]["volumes"]
    if any("secret" in volume for volume in volumes):
        fail("the chart: grpc=false still wants Secrets")
    watching = {**values, "config": {**values["config"],
                                     "watch_namespace": "team-a"}}
    check_namespaced_access(render_chart(watching), "the chart, watch_namespace",
                            "team-a", "agent-sandbox-system")
    names = sorted(p.name for p in (CHART / "crds").glob("*.yaml"))
    if names != sorted(
            p.name for p in (DEPLOY / "kubernetes" / "crds").glob("*.yaml")):
        fail("the chart's CRDs are not those of deploy/kubernetes/crds")


def check_definitions():
    """v1alpha1 of each kind is what its program makes of v1beta1."""
    made = subprocess.run(
        [sys.executable, DEPLOY / "kubernetes" / "v1alpha1.py", "--check"],
        capture_output=True, text=True, check=False)
    if made.returncode != 0:
        fail(f"deploy/kubernetes/crds: {made.stderr.strip()}")


# --- The overlay for one namespace ---


def patched(doc, operations):
    """doc after a JSON patch; as much of one as the overlay uses."""
    doc = json.loads(json.dumps(doc))
    for operation in operations:
        *path, last = operation["path"].strip("/").split("/")
        place = doc
        for part in path:
            place = place[int(part) if isinstance(place, list) else part]
        if isinstance(place, list):
            last = len(place) if last == "-" else int(last)
        if operation["op"] == "test":
            if place[last] != operation["value"]:
                raise ValueError(f"{operation['path']} is {place[last]}")
        elif operation["op"] == "remove":
            del place[last]
        elif operation["op"] == "add" and isinstance(place, list):
            place.insert(last, operation["value"])
        elif operation["op"] == "replace" and last in place:
            place[last] = operation["value"]
        else:
            raise ValueError(f"'{operation['op']}' of {operation['path']}")
    return doc


def overlaid(base):
    """The base with the patches of overlays/namespaced, in its namespace."""
    overlay = DEPLOY / "kubernetes" / "overlays" / "namespaced"
    said = yaml.safe_load((overlay / "kustomization.yaml").read_text())
    docs = []
    for doc in base:
        for patch in said["patches"]:
            operations = yaml.safe_load(patch["patch"])
            if patch["target"]["kind"] != doc["kind"]:
                continue
            doc = (None if isinstance(operations, dict)
                   and operations.get("$patch") == "delete"
                   else patched(doc, operations))
            break
        if doc is not None:
            doc["metadata"]["namespace"] = said["namespace"]
            docs.append(doc)
    return docs, said["namespace"]


def check_overlay(base):
    docs, namespace = overlaid(base)
    check_namespaced_access(docs, "overlays/namespaced", namespace, namespace)
    container = [doc for doc in docs if doc["kind"] == "Deployment"][0][
        "spec"]["template"]["spec"]["containers"][0]
    if "--watch-namespace=$(POD_NAMESPACE)" not in container["args"] or not any(
            entry.get("valueFrom") == {"fieldRef": {
                "fieldPath": "metadata.namespace"}}
            for entry in container["env"] if entry["name"] == "POD_NAMESPACE"):
        fail("overlays/namespaced: it does not watch its own namespace only")


# --- The Pods ---


def check_pod(docs):
    """Pod Security "restricted", from the fields that its standard names."""
    spec = [doc for doc in docs if doc["kind"] == "Deployment"][0][
        "spec"]["template"]["spec"]
    pod = spec["securityContext"]
    if not pod.get("runAsNonRoot") or pod["seccompProfile"] != {
            "type": "RuntimeDefault"}:
        fail("the Deployment's Pod is not restricted")
    for container in spec["containers"]:
        context = container["securityContext"]
        if (context["allowPrivilegeEscalation"] is not False
                or context["capabilities"] != {"drop": ["ALL"]}
                or context["readOnlyRootFilesystem"] is not True):
            fail(f"container {container['name']} is not restricted")
    mounted = {volume["name"] for volume in spec["volumes"]}
    for container in spec["containers"]:
        for mount in container["volumeMounts"]:
            if mount["name"] not in mounted:
                fail(f"no volume {mount['name']}")


def mounted_paths(docs):
    spec = [doc for doc in docs if doc["kind"] == "Deployment"][0][
        "spec"]["template"]["spec"]
    return [mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"]]


def check_redis(base):
    """The Redis that is shipped: only the daemon's Pods reach it, in TLS, and its
    password is in no command line."""
    path = DEPLOY / "examples" / "kubernetes" / "redis.yaml"
    docs = {doc["kind"]: doc for doc in load_all(path.read_text(), path.name)}
    labels = docs["StatefulSet"]["spec"]["template"]["metadata"]["labels"]
    container = docs["StatefulSet"]["spec"]["template"]["spec"]["containers"][0]
    words = " ".join(container["command"])
    policy = docs["NetworkPolicy"]["spec"]
    pod = [doc for doc in base if doc["kind"] == "Deployment"][0]["spec"]["template"]
    if policy["podSelector"]["matchLabels"].items() - labels.items():
        fail(f"{path.name}: the NetworkPolicy is not for Redis")
    for rule in policy["ingress"]:
        peers = rule.get("from", [{}])
        if not all(peer.keys() == {"podSelector"} and
                   peer["podSelector"].get("matchLabels") and
                   not peer["podSelector"]["matchLabels"].items() -
                   pod["metadata"]["labels"].items() for peer in peers):
            fail(f"{path.name}: the NetworkPolicy lets in others than warmpoold")
    if set(policy["policyTypes"]) != {"Ingress", "Egress"} or "egress" in policy:
        fail(f"{path.name}: Redis may call others")
    if "--requirepass" in words or "\nport 0\n" not in words:
        fail(f"{path.name}: a password in a command line, or a port without TLS")


def make_secrets(folder):
    """What the check of the settings reads itself."""
    folder.mkdir()
    (folder / "password").write_text("sesame")
    (folder / "password").chmod(0o600)
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
         "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=ca", "-keyout",
         folder / "ca.key", "-out", folder / "ca.crt"],
        check=True, capture_output=True, timeout=30)


def check_settings(path, docs, daemon):
    settings = yaml.safe_load(path.read_text())
    for name, value in settings.items():
        if isinstance(value, str) and value.startswith("/") and not any(
                value.startswith(mount) for mount in mounted_paths(docs)):
            fail(f"{path.relative_to(ROOT)}: {name}: nothing is mounted at {value}")
    if daemon is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        text = re.sub(r"(/etc/warmpool|/run/warmpool)", folder, path.read_text())
        make_secrets(pathlib.Path(folder) / "redis")
        (pathlib.Path(folder) / "c.yaml").write_text(text)
        run = subprocess.run(
            [daemon, "--check-config", f"--config={folder}/c.yaml"],
            capture_output=True, text=True, timeout=30, check=False,
            env={**os.environ, "KUBERNETES_SERVICE_HOST": "127.0.0.1",
                 "KUBERNETES_SERVICE_PORT": "1"})
        if run.returncode != 0:
            fail(f"{path.relative_to(ROOT)}: {run.stderr.strip()}")


def check_runbook():
    """Every metric that the runbook sends people to is one that we have."""
    text = (DEPLOY / "runbook.md").read_text()
    code = "".join(path.read_text() for path in (ROOT / "allocator").rglob("*.c"))
    names = set(re.findall(r"\b((?:warmpool|agent_sandbox)_[a-z_]+)\b", text))
    if len(names) < 10:
        fail("deploy/runbook.md: no metrics were found")
    for name in sorted(names):
        if f'"{name}"' not in code:
            fail(f"deploy/runbook.md: no metric {name}")


def check_self():
    """Each check sees a breach."""
    docs = [{"kind": "ClusterRole", "rules": [
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]},
        {"kind": "Role", "rules": []}]
    count = len(failures)
    check_access(docs, "self-test")
    seen = failures[count:]
    del failures[count:]
    if not any("/secrets" in text for text in seen) or not any(
            "/pods" in text for text in seen):
        fail("self-test: a role too wide and too narrow was not seen")
    wide = [{"kind": "ClusterRole", "metadata": {"name": "x"}, "rules": []}]
    check_namespaced_access(wide, "self-test", "a", "b")
    seen = failures[count:]
    del failures[count:]
    if not any("a ClusterRole, where" in text for text in seen):
        fail("self-test: a ClusterRole where Roles are enough was not seen")
    text = "a:{{ if .Values.x }} 1{{ else_ }}{{ end }}"
    try:
        Chart({"x": True}, "ns").render(text)
        fail("self-test: an unknown word of the chart was not seen")
    except (ValueError, KeyError):
        pass
    text = "a:\n  {{- range .Values.l }}\n  - {{ . }}\n  {{- end }}\nb: c\n"
    if yaml.safe_load(Chart({"l": [1, 2]}, "ns").render(text)) != {
            "a": [1, 2], "b": "c"}:
        fail("self-test: range")


def main():
    daemon = sys.argv[1] if len(sys.argv) > 1 else None
    files = [path for path in sorted(DEPLOY.rglob("*"))
             if (path.suffix == ".yaml" or path.name == "Kustomization")
             and "templates" not in path.parts]
    for path in files:
        load_all(path.read_text(), path.relative_to(ROOT))
    base = []
    for path in sorted(BASE.glob("*.yaml")):
        if path.name not in ("kustomization.yaml", "warmpoold.yaml"):
            base += load_all(path.read_text(), path.relative_to(ROOT))
    check_self()
    check_kinds_are_covered()
    check_definitions()
    check_access(base, "deploy/kubernetes/base")
    check_chart(base)
    check_overlay(base)
    check_pod(base)
    check_redis(base)
    check_runbook()
    for path in sorted((DEPLOY / "kubernetes").rglob("warmpoold.yaml")):
        check_settings(path, base, daemon)
    for text in failures:
        print(text)
    print(f"{len(files)} files, {len(failures)} breaches")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
