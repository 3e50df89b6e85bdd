"""The daemon's conversion webhook, asked by a client of another stack (curl)."""

import json
import re
import subprocess
import sys
import unittest

import k8s_rig
from fake_api_rig import eventually

EXTENSIONS = "extensions.agents.x-k8s.io"


def review(objects, desired="v1alpha1"):
    return json.dumps({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": {"uid": "u", "desiredAPIVersion": f"{EXTENSIONS}/{desired}",
                    "objects": objects}})


def claim(name):
    return {"apiVersion": f"{EXTENSIONS}/v1beta1", "kind": "SandboxClaim",
            "metadata": {"name": name, "labels": {"l": "x" * 60}},
            "spec": {"warmPoolRef": {"name": "shadow-pool-t"}}}


class Webhook(k8s_rig.Case):
    def begin(self):
        daemon = self.daemon("--webhook-listen=127.0.0.1:0")

        def address():
            found = re.search(r"protocol=webhook address=(\S+)", daemon.messages())
            return found and found.group(1)
        return f"https://{eventually(address, 'the webhook to listen')}"

    def ask(self, url, body=None, *options):
        """(HTTP status, "000" without one; body)"""
        command = ["curl", "--silent", "--insecure", "--http2", "--max-time", "60",
                   "--write-out", "\n%{http_code}", *options, url]
        if body is not None:
            command[1:1] = ["--data-binary", "@-",
                            "--header", "content-type: application/json"]
        run = subprocess.run(command, input=body, text=True, check=False,
                             stdout=subprocess.PIPE)
        text, _, code = run.stdout.rpartition("\n")
        return code, text

    def test_what_it_answers(self):
        url = self.begin()
        many = [claim(f"c{number}") for number in range(3000)]
        for objects in (many[:1], many):
            code, text = self.ask(url + "/convert?timeout=30s", review(objects))
            self.assertEqual(code, "200")
            answer = json.loads(text)["response"]
            self.assertEqual((answer["uid"], answer["result"]["status"]),
                             ("u", "Success"))
            self.assertEqual([o["metadata"]["name"] for o in answer["convertedObjects"]],
                             [o["metadata"]["name"] for o in objects])
            self.assertEqual(answer["convertedObjects"][-1]["spec"], {
                "sandboxTemplateRef": {"name": "t"}, "warmpool": "default"})
        code, text = self.ask(url + "/convert", review([{"kind": "Pod"}]))
        self.assertEqual(json.loads(text)["response"]["result"]["status"], "Failure")

    def test_what_it_refuses(self):
        url = self.begin()
        self.assertEqual(self.ask(url + "/")[0], "404")
        self.assertEqual(self.ask(url + "/converted")[0], "404")
        self.assertEqual(self.ask(url + "/convert")[0], "405")
        self.assertEqual(self.ask(url + "/convert", "nonsense")[0], "000")
        # More than a whole cluster's list: the stream ends, and no other.
        self.assertEqual(self.ask(url + "/convert", "x" * (33 << 20))[0], "000")
        self.assertNotEqual(self.ask(url.replace("https", "http") + "/convert",
                                     review([]))[0], "200")
        self.assertEqual(self.ask(url + "/convert", review([]))[0], "200")


if __name__ == "__main__":
    k8s_rig.PROGRAMS["warmpoold"] = sys.argv.pop(1)
    k8s_rig.PROGRAMS["fake_api"] = sys.argv.pop(1)
    unittest.main()
