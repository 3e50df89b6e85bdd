"""One attacker: attacker.py ATTACK SECONDS TARGET-AS-JSON

Says "begins"; ends when its standard input does, or after so many seconds at most,
with one line of JSON: what it did. See wire.py for a target.
"""

import json
import resource
import sys
import threading

import grpc_attacks
import http_attacks
import wire

ATTACKS = {a.__name__: a for a in grpc_attacks.ALL + http_attacks.ALL}


def main():
    name, seconds, target = sys.argv[1:4]
    target = json.loads(target)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    wire.become(target)
    attack = wire.Attack(target, float(seconds))

    def until_told():
        sys.stdin.read()
        attack.end = 0
    threading.Thread(target=until_told, daemon=True).start()
    print("begins", flush=True)
    ATTACKS[name](attack)
    print(json.dumps({"sent": attack.sent, "opened": attack.opened,
                      "cut": attack.cut, "refused": attack.refused}))


if __name__ == "__main__":
    main()
