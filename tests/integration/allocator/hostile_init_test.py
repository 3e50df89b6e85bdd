"""A sandbox's init that was taken over says anything to the daemon, and sends any
descriptors along. The daemon serves on, and keeps none of them.

Run by ctest: hostile_init_test.py WARMPOOLD GENERATED_DIR DEPLOY_DIR [unittest
arguments]. Needs a host that lets it make sandboxes; exits with 77 elsewhere.
"""

import os
import random
import sys
import tempfile
import unittest

from daemon_test import POOL, Daemon, end_all, eventually, host_can, pb

# What takes the place of warmpool-init. Each sandbox has a user of its own, so SEED
# and that user give the same messages again.
INIT = '''#!/usr/bin/python3 -I
import os, random, socket, sys, time
rng = random.Random(SEED * 1000003 + os.getuid())
control = socket.socket(fileno=int(sys.argv[sys.argv.index("--control") + 1]))
control.setblocking(False)
listener = socket.socket(socket.AF_UNIX)
listener.bind("\\0" + str(rng.random()))
listener.listen()
fds = [os.open("/dev/null", os.O_RDWR), listener.fileno(), *os.pipe(),
       os.memfd_create("x")]
if rng.random() < 0.7:
    control.send(b"H")
for _ in range(rng.randrange(2000)):
    text = rng.choice((b"", b"0", b"1", b"99999999999999999999", b"-1", b"\\0",
                       b"x" * rng.randrange(300), rng.randbytes(30)))
    message = bytes([rng.choice(b"HOYNXFDUEZPTKBRILW?\\0")]) * rng.randrange(2)
    if message[:1] in (b"X", b"F", b"U") and rng.random() < 0.9:
        continue  # Its end.
    message += text if message else b""
    if not message and rng.random() < 0.99:
        continue  # Looks like its end, too.
    along = rng.sample(fds, rng.choice((0, 0, 0, 1, 2, 3, 5)))
    try:
        socket.send_fds(control, [message], along)
    except BlockingIOError:
        time.sleep(0.001)
    except OSError:
        break
if rng.random() < 0.5:
    time.sleep(5)
'''


class HostileInit(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="wp-hostile-")
        self.daemons = []
        self.addCleanup(lambda: end_all(self, self.daemons, self.dir))

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.daemons[0].process.pid}/fd"))

    def target(self, daemon, n):
        daemon.rpc("PoolAdmin/SetPool",
                   pb.SetPoolRequest(pool=POOL, target=n), pb.Pool)

    def test_any_messages(self):
        seed = random.randrange(1 << 30)
        print("seed", seed, flush=True)
        path = os.path.join(self.dir, "init")
        with open(path, "w", encoding="ascii") as script:
            script.write(INIT.replace("SEED", str(seed)))
        os.chmod(path, 0o755)
        daemon = Daemon("--init-path=" + path, directory=self.dir, replicas=0)
        self.daemons.append(daemon)
        eventually(daemon.ready, "ready")
        before = self.descriptors()
        self.target(daemon, 8)

        def served():
            """Each answer can be read, whatever has been said by then."""
            self.assertEqual(daemon.get("/healthz")[0], 200)
            return daemon.pool().failed_total > 8
        eventually(served, "the end of some sandboxes")
        self.target(daemon, 0)
        eventually(lambda: daemon.pool().ready + daemon.pool().warming == 0,
                   "no sandbox")
        eventually(lambda: self.descriptors() <= before + 2,
                   "the descriptors that came are closed")
        self.assertLess(daemon.messages().count("\n"), 500)
        self.assertIsNone(daemon.process.poll())


if __name__ == "__main__":
    reason = host_can()
    if reason:
        print("SKIP:", reason)
        sys.exit(77)
    unittest.main(argv=[sys.argv[0]] + sys.argv[4:], verbosity=2)
