"""What must hold at every version of a cluster's history, whatever failed."""

import json


def controller(obj):
    for owner in obj["metadata"].get("ownerReferences") or []:
        if owner.get("controller"):
            return owner["kind"], owner["uid"]
    return None, None


def ready(obj):
    for one in obj.get("status", {}).get("conditions") or []:
        if one["type"] == "Ready":
            return one["status"] == "True"
    return False


def leased(sandbox):
    """The claim id of the gRPC lease that is written on it; None."""
    note = sandbox["metadata"].get("annotations", {}).get(
        "warmpool.dev/lease")
    return json.loads(note)["claimId"] if note else None


def assigned(claim):
    return claim.get("status", {}).get("sandbox", {}).get("name")


class Judge:
    """Reads a history event by event; breaches collects what was wrong."""

    def __init__(self, leases=0):
        """leases: how many of gRPC may not be written yet, at any time."""
        self.leases = leases
        self.leader = None  # The token of the process that has the Lease.
        self.late = set()  # Sandboxes made by one that had it no more: uids.
        self.left = 0  # Claims that went before they owned a sandbox.
        self.breaches = []
        self.now = {}  # (kind, ns, name) -> object
        self.holder = {}  # Sandbox's uid -> the claim that had it.
        self.names = {}  # (ns, sandbox's name) -> uid of the claim it is for.
        self.most = {}  # Pool's uid -> the largest target it ever had.
        self.pool_sizes = {}  # Pool's uid -> the largest number it ever had.

    def breach(self, event, text):
        meta = event["object"]["metadata"]
        self.breaches.append(
            f"version {event['version']}, {event['type']} {event['kind']} "
            f"{meta.get('namespace')}/{meta['name']}: {text}")

    def on_lease(self, event, obj):
        self.leader = event["by"] if obj["spec"].get("holderIdentity") else None

    def on_sandbox(self, event, obj):
        if event["type"] == "ADDED" and event["by"] not in ("", self.leader):
            self.late.add(obj["metadata"]["uid"])
        kind, uid = controller(obj)
        if leased(obj):
            uid = f"{leased(obj)} of gRPC" if kind is None else uid
        if kind == "SandboxClaim" or leased(obj):
            held = self.holder.setdefault(obj["metadata"]["uid"], uid)
            if held != uid:
                self.breach(event, f"belonged to claim {held}, now to {uid}")
        elif obj["metadata"]["uid"] in self.holder:
            self.breach(event, "was a claim's and is not any more")
        if kind == "SandboxWarmPool":
            size = sum(controller(other)[1] == uid
                       and "deletionTimestamp" not in other["metadata"]
                       and other["metadata"]["uid"] not in self.late
                       for key, other in self.now.items()
                       if key[0] == "sandboxes")
            self.pool_sizes[uid] = max(size, self.pool_sizes.get(uid, 0))
            # One that was taken counts here until its adoption is written, or
            # until it goes, where its claim went first.
            most = self.most.get(uid, size) + self.leases \
                + self.claims_without() + self.left
            if size > most:
                self.breach(event, f"the pool has {size} sandboxes, at most "
                                   f"{most} were wanted")

    def owners(self):
        return {controller(obj)[1] for key, obj in self.now.items()
                if key[0] == "sandboxes"}

    def claims_without(self):
        """Claims that own no sandbox."""
        owners = self.owners()
        return sum(obj["metadata"]["uid"] not in owners
                   for key, obj in self.now.items()
                   if key[0] == "sandboxclaims")

    def on_gone(self, kind, obj):
        if kind == "sandboxclaims":
            self.left += obj["metadata"]["uid"] not in \
                self.owners() | set(self.holder.values())
        elif kind == "sandboxes" and self.left > 0 and \
                controller(obj)[0] == "SandboxWarmPool" and \
                obj["metadata"]["uid"] not in self.late:
            self.left -= 1

    def on_claim(self, event, obj):
        meta = obj["metadata"]
        name = assigned(obj)
        if not name:
            return
        held = self.names.setdefault((meta["namespace"], name), meta["uid"])
        if held != meta["uid"]:
            self.breach(event, f"got sandbox {name}, which claim {held} had")
        sandbox = self.now.get(("sandboxes", meta["namespace"], name))
        if ready(obj) and sandbox is not None and \
                controller(sandbox) != ("SandboxClaim", meta["uid"]):
            self.breach(event, f"is Ready with {name}, which belongs to "
                               f"{controller(sandbox)}")

    def on_pool(self, obj):
        uid = obj["metadata"]["uid"]
        self.most[uid] = max(self.most.get(uid, 0), obj["spec"]["replicas"])

    def read(self, history):
        for event in history:
            obj = event["object"]
            key = (event["kind"], obj["metadata"].get("namespace"),
                   obj["metadata"]["name"])
            if event["type"] == "DELETED":
                self.now.pop(key, None)
                self.on_gone(event["kind"], obj)
                continue
            self.now[key] = obj
            if event["kind"] == "sandboxes":
                self.on_sandbox(event, obj)
            elif event["kind"] == "leases":
                self.on_lease(event, obj)
            elif event["kind"] == "sandboxclaims":
                self.on_claim(event, obj)
            elif event["kind"] == "sandboxwarmpools":
                self.on_pool(obj)
        return self.breaches
