"""The egress proxy where each sandbox shows a pass: what it reaches by that, and
how passes are shown by programs of others."""
import base64
import os
import subprocess
import sys
import tempfile
import unittest
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "../../support/egress"))

import passes
from egress_rig import BINARY, PAGE, Case, main, wait_until

KEY = passes.key_of("team")


class Passes(Case):
    def setUp(self):
        super().setUp()
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)
        self.keys = passes.key_file(self.dir.name, KEY)

    def asking(self, policy, *args):
        return self.proxy(policy, "--passes", self.keys, *args)

    def token(self, policy=None, by="", key=KEY, address="127.0.0.1"):
        return passes.write(key, "team", "box-1", address,
                            self.here if policy is None else policy, by)

    def field(self, token, scheme="Basic"):
        text = base64.b64encode(b"sandbox:" + token.encode()).decode()
        return f"Proxy-Authorization: {scheme} {text}"

    def get(self, proxy, token, to=None):
        return proxy.get(f"http://{to or self.here}/", self.field(token))

    def refusal(self, answer, status, *words):
        self.assertEqual(answer[0], status, answer)
        for word in words:
            self.assertIn(word, answer[2].decode())
        self.assertEqual(self.origin.asked, [])


class Shown(Passes):
    def test_without_one(self):
        proxy = self.asking(self.here)
        answer = proxy.get(f"http://{self.here}/")
        self.refusal(answer, 407, "a pass was expected")
        self.assertIn(b'Proxy-Authenticate: Basic realm="warmpool-egress"',
                      answer[1])
        status, sock = proxy.tunnel(self.here)
        sock.close()
        self.assertEqual(status, 407)
        for field in ("Basic", "Basic ", "Basic %", "Bearer abc", "Basic " +
                      base64.b64encode(b"no colon").decode(),
                      "Basic " + "A" * 15000):
            self.refusal(proxy.get(f"http://{self.here}/",
                                   "Proxy-Authorization: " + field), 407)

    def test_with_one(self):
        proxy = self.asking(self.here)
        for scheme in ("Basic", "basic"):
            status, _, body = proxy.get(f"http://{self.here}/",
                                        self.field(self.token(), scheme))
            self.assertEqual((status, body), (200, PAGE))
        for _, fields, _ in self.origin.asked:
            self.assertFalse([name for name in fields
                              if name.lower().startswith("proxy")])
        line = wait_until(lambda: proxy.lines("egress"), "a line")[0]
        self.assertEqual((line["sandbox"], line["verdict"]),
                         ("team/box-1", "allowed"))
        self.assertNotIn(self.token()[:64], proxy.log())

    def test_of_somebody_else(self):
        proxy = self.asking(self.here)
        good = self.token()
        for bad in (self.token(key=passes.key_of("other")), good[:-2],
                    good + "00", good[:64], good[:62] + "zz" + good[64:], "x",
                    good[:-2] + "%02x" % (int(good[-2:], 16) ^ 1)):
            self.refusal(self.get(proxy, bad), 403, "none of this proxy's")
        self.refusal(self.get(proxy, self.token(address="127.0.0.2")), 403,
                     "team/box-1", "good from 127.0.0.2 only",
                     "from 127.0.0.1")
        self.refusal(self.get(proxy, self.token(address="::1")), 403)
        self.refusal(self.get(proxy, self.token(address="nowhere")), 403)

    def test_over_both_families(self):
        """One socket for both: an IPv4 address is within an IPv6 one there."""
        proxy = self.asking(self.here, "--listen", "[::]:0")
        self.assertEqual(self.get(proxy, self.token())[0], 200)
        self.origin.asked.clear()
        self.refusal(self.get(proxy, self.token(address="127.0.0.3")), 403)


class Reaches(Passes):
    def test_what_pool_and_claim_allow(self):
        other = "127.0.0.1:1"
        proxy = self.asking(f"{self.here} {other}")
        both = f"{self.here} {other}"
        self.assertEqual(self.get(proxy, self.token(both, self.here))[0], 200)
        self.origin.asked.clear()
        self.refusal(self.get(proxy, self.token(both, other)), 403,
                     "the policy of this sandbox, '127.0.0.1:1'")
        self.refusal(self.get(proxy, self.token(both, "none")), 403)
        self.refusal(self.get(proxy, self.token("none")), 403)
        # A claim that asks for more than its pool has was not let in; nor here.
        self.refusal(self.get(proxy, self.token(other, self.here)), 403,
                     "is not within the pool's policy")
        self.refusal(self.get(proxy, self.token("a b:99999")), 403)

    def test_no_more_than_the_proxy_allows(self):
        proxy = self.asking("127.0.0.1:1")
        self.refusal(self.get(proxy, self.token()), 403,
                     f"'{self.here}', within that of the proxy, '127.0.0.1:1'")
        self.refusal(self.get(proxy, self.token("open " + self.here)), 403)
        self.refusal(self.get(self.asking("none"), self.token()), 403)

    def test_packages_are_the_proxys(self):
        proxy = self.asking("packages", "--packages", self.here)
        self.assertEqual(self.get(proxy, self.token("packages", "packages"))[0],
                         200)
        self.origin.asked.clear()
        self.refusal(self.get(proxy, self.token("packages", "none")), 403)

    def test_many_policies_at_once(self):
        """Each is kept as long as somebody uses it, and no longer."""
        proxy = self.asking(" ".join([self.here] + [
            f"h{i}.test" for i in range(100)]))
        for turn in range(2):
            for i in range(100):
                self.assertEqual(self.get(proxy, self.token(
                    f"{self.here} h{i}.test"))[0], 200, turn)


class Programs(Passes):
    """Of others: the pass is in the URL that their variables have."""

    def url(self, proxy, **token):
        return f"http://sandbox:{self.token(**token)}@127.0.0.1:{proxy.port}"

    def run_with(self, url, *command):
        env = {"PATH": os.environ["PATH"], "HOME": self.dir.name, "no_proxy": ""}
        for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
            env[name] = url
        return subprocess.run(command, env=env, capture_output=True, timeout=90,
                              check=False)

    def test_curl(self):
        proxy = self.asking(self.here)
        url = self.url(proxy)
        to = f"http://{self.here}/"
        for options in ((), ("-p",), ("--proxy-anyauth",)):
            done = self.run_with(url, "curl", "-sS", *options, to)
            self.assertEqual(done.stdout, PAGE, (options, done.stderr))
        done = self.run_with(self.url(proxy, by="none"), "curl", "-sS", "-f", to)
        self.assertIn(b"403", done.stderr)

    def test_git(self):
        """Asks without its credentials first, until it is told of them."""
        proxy = self.asking(self.here)
        done = self.run_with(self.url(proxy), "git", "ls-remote",
                             f"http://{self.here}/repo.git")
        self.assertIn("GET /repo.git/info/refs?service=git-upload-pack HTTP/1.1",
                      [line for line, _, _ in self.origin.asked], done.stderr)

    def test_python(self):
        proxy = self.asking(self.here)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler(
            {"http": self.url(proxy)}))
        with opener.open(f"http://{self.here}/", timeout=90) as answer:
            self.assertEqual(answer.read(), PAGE)
        done = self.run_with(self.url(proxy), sys.executable, "-c",
                             "import sys; from pip._vendor import requests; "
                             "sys.stdout.buffer.write(requests.get(sys.argv[1])"
                             ".content)", f"http://{self.here}/")
        self.assertEqual(done.stdout, PAGE, done.stderr)


class Options(Passes):
    def refused(self, *args):
        done = subprocess.run([BINARY, *args], capture_output=True, text=True,
                              timeout=90, check=False)
        self.assertNotEqual(done.returncode, 0)
        return done.stderr

    def test_bad_keys(self):
        usual = ("--listen", "127.0.0.1:0", "--policy", "none", "--passes")
        path = os.path.join(self.dir.name, "bad")
        for text in ("", "5a" * 31, "5a" * 33, "zz" * 32, "5a" * 32 + "\n\n"):
            with open(path, "w", encoding="ascii") as handle:
                handle.write(text)
            os.chmod(path, 0o600)
            self.assertIn("64 hexadecimal digits were expected",
                          self.refused(*usual, path))
        os.chmod(self.keys, 0o644)
        self.assertIn("others cannot read", self.refused(*usual, self.keys))
        self.assertIn("No such file", self.refused(*usual, path + "none"))
        self.assertIn("--listen was expected", self.refused(
            "--policy", "none", "--passes", self.keys))


if __name__ == "__main__":
    main()
