#!/usr/bin/env python3
"""Makes v1alpha1 of the kinds from their v1beta1.

    deploy/kubernetes/v1alpha1.py            writes it into the files of crds/
    deploy/kubernetes/v1alpha1.py --check    fails where it is not what they have

v1beta1 is written by hand; what stands below the mark in each file is this program's.
Both versions have the same fields but for those that are named here, as upstream's have.
A webhook of warmpoold converts (k8s/convert): it fills in caBundle, so that is not here.
"""

import copy
import sys
from pathlib import Path

import yaml

CRDS = Path(__file__).parent / "crds"
MARK = "    # v1alpha1, by ../v1alpha1.py from the above.\n"
SERVICE = {"name": "agent-sandbox-webhook-service", "namespace": "agent-sandbox-system",
           "path": "/convert"}
REPLICAS = {"type": "integer", "format": "int32", "minimum": 0}


class Plain(yaml.SafeDumper):
    """Without anchors: a reader sees each schema whole."""

    def ignore_aliases(self, data):
        return True


def sandbox(version, spec, status):
    del spec["properties"]["operatingMode"]
    spec["properties"]["replicas"] = {
        "description": "0: the Pod is deleted, volumes and Service stay.",
        **REPLICAS, "maximum": 1, "default": 1}
    del status["properties"]["nodeName"]
    status["properties"]["replicas"] = dict(REPLICAS)
    version["subresources"]["scale"] = {
        "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector"}


def claim(_version, spec, _status):
    del spec["properties"]["warmPoolRef"]
    del spec["properties"]["volumeClaimTemplates"]
    spec["required"] = ["sandboxTemplateRef"]
    spec["properties"] = {
        "sandboxTemplateRef": {
            "description": "The SandboxTemplate, in the claim's namespace.",
            "type": "object", "required": ["name"],
            "properties": {"name": {"type": "string"}}},
        "warmpool": {
            "description": "default: any SandboxWarmPool of the template; none: a sandbox "
                           "of its own; else that pool.",
            "type": "string", "default": "default"},
        **spec["properties"]}


def template(_version, spec, _status):
    del spec["properties"]["volumeClaimTemplatesPolicy"]


def warm_pool(_version, spec, status):
    spec["required"] = ["replicas", "sandboxTemplateRef"]
    del spec["properties"]["replicas"]["default"]
    del status["properties"]["observedGeneration"]


CHANGES = {"Sandbox": sandbox, "SandboxClaim": claim, "SandboxTemplate": template,
           "SandboxWarmPool": warm_pool}


def below_mark(text):
    """What belongs below the mark of a file of this text."""
    definition = yaml.safe_load(text)
    spec = definition["spec"]
    kind, group = spec["names"]["kind"], spec["group"]
    version = copy.deepcopy(spec["versions"][0])
    fields = version["schema"]["openAPIV3Schema"]["properties"]
    version.update(
        name="v1alpha1", storage=False, deprecated=True,
        deprecationWarning=f"{group}/v1alpha1 {kind} is deprecated; use {group}/v1beta1 {kind} "
                           "instead")
    CHANGES[kind](version, fields["spec"], fields.get("status"))
    dumped = yaml.dump([version], Dumper=Plain, sort_keys=False, width=100)
    conversion = {"conversion": {"strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"], "clientConfig": {"service": SERVICE}}}}
    tail = yaml.dump(conversion, Dumper=Plain, sort_keys=False, width=100)
    return (MARK + "".join("    " + line + "\n" for line in dumped.splitlines())
            + "".join("  " + line + "\n" for line in tail.splitlines()))


def main():
    stale = []
    for path in sorted(CRDS.glob("*.yaml")):
        text = path.read_text(encoding="utf-8")
        above = text.split(MARK)[0]
        wanted = above + below_mark(above)
        if wanted != text:
            stale.append(path.name)
            if "--check" not in sys.argv[1:]:
                path.write_text(wanted, encoding="utf-8")
    if stale and "--check" in sys.argv[1:]:
        sys.exit(f"{', '.join(stale)}: run deploy/kubernetes/v1alpha1.py")


if __name__ == "__main__":
    main()
