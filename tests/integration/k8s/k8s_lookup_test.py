"""Where the daemon looks for its API server when no setting says it.

Run by ctest: k8s_lookup_test.py WARMPOOLD FAKE_API [unittest arguments].
"""

import os
import subprocess
import sys
import unittest

import k8s_rig
from fake_api_rig import PATIENCE, eventually
from k8s_rig import Case

UNSAID = ("KUBECONFIG", "HOME", "KUBERNETES_SERVICE_HOST",
          "KUBERNETES_SERVICE_PORT")


class Unsaid(k8s_rig.Daemon):
    """Without --kubeconfig: its configuration lies at place, and its environment
    says no more of it than this; DIR is its directory."""

    def __init__(self, api, place, said, *flags):
        self.place = place
        self.said = said
        super().__init__(api, *flags)

    def start(self):
        self.args = [one for one in self.args
                     if not one.startswith("--kubeconfig")]
        self.config = self.place.replace("DIR", self.dir)
        os.makedirs(os.path.dirname(self.config), exist_ok=True)
        self.environment = {key: value for key, value in os.environ.items()
                            if key not in UNSAID}
        for key, value in self.said.items():
            self.environment[key] = value.replace("DIR", self.dir)
        super().start()


class Lookup(Case):
    def begin(self, place, *flags, **said):
        daemon = Unsaid(self.api, place, said, *flags)
        self.daemons.append(daemon)
        self.addCleanup(self.clean, daemon)
        return daemon

    def works(self, daemon):
        self.make_pool(replicas=1)
        self.wait_filled(replicas=1)
        eventually(daemon.ready, "the daemon to be ready")

    def test_kubeconfig(self):
        self.works(self.begin("DIR/other", KUBECONFIG="DIR/other",
                              HOME="/nonexistent"))

    def test_home(self):
        self.works(self.begin("DIR/.kube/config", HOME="DIR"))

    def refused(self, daemon, words):
        self.assertIn(daemon.process.wait(PATIENCE), (1, 2))
        self.assertIn(words, daemon.messages())

    def test_nowhere(self):
        self.refused(self.begin("DIR/other", HOME="DIR"), "/.kube/config: No")
        self.refused(self.begin("DIR/other"), " /.kube/config: No such")

    def test_context_that_is_not_there(self):
        self.refused(self.begin("DIR/other", "--kube-context=none",
                                KUBECONFIG="DIR/other"), "'none'")

    @unittest.skipIf(os.path.exists("/var/run/secrets/kubernetes.io"),
                     "this is a Pod")
    def test_in_a_pod(self):
        """Whose service account's token is not mounted."""
        pod = {"KUBERNETES_SERVICE_HOST": "127.0.0.1",
               "KUBERNETES_SERVICE_PORT": "1"}
        self.refused(self.begin("DIR/other", KUBECONFIG="DIR/other", **pod),
                     "/var/run/secrets/kubernetes.io/serviceaccount: ")
        self.refused(self.begin("DIR/other", "--kube-context=c", **pod),
                     "setting 'kube_context': expected 'kubeconfig' beside it "
                     "in a Pod")


if __name__ == "__main__":
    k8s_rig.PROGRAMS["warmpoold"] = os.path.abspath(sys.argv.pop(1))
    k8s_rig.PROGRAMS["fake_api"] = os.path.abspath(sys.argv.pop(1))
    unittest.main()
