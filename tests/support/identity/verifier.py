"""What another party does with an identity: it has the set of keys, and openssl."""

import base64
import json
import os
import subprocess

# SubjectPublicKeyInfo of P-256, up to the point.
P256 = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d03010703420004")


def unpack(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def integer(number):
    """DER of an unsigned number."""
    number = number.lstrip(b"\0")
    if number[0] & 128:
        number = b"\0" + number
    return b"\x02" + bytes([len(number)]) + number


class Verifier:
    def __init__(self, keys, place):
        self.keys = {key["kid"]: key for key in json.loads(keys)["keys"]}
        self.place = place

    def file(self, name, content):
        path = os.path.join(self.place, name)
        with open(path, "wb") as handle:
            handle.write(content)
        return path

    def good(self, token):
        """Its claims; None: the signature is none."""
        head, claims, signature = token.split(".")
        header = json.loads(unpack(head))
        assert header["alg"] == "ES256", header
        key = self.keys[header["kid"]]
        public = base64.encodebytes(P256 + unpack(key["x"]) + unpack(key["y"]))
        raw = unpack(signature)
        assert len(raw) == 64
        pair = integer(raw[:32]) + integer(raw[32:])
        done = subprocess.run(
            ["openssl", "dgst", "-sha256", "-verify", self.file(
                "key", b"-----BEGIN PUBLIC KEY-----\n" + public +
                b"-----END PUBLIC KEY-----\n"), "-signature",
             self.file("sig", b"\x30" + bytes([len(pair)]) + pair),
             self.file("text", f"{head}.{claims}".encode())],
            capture_output=True, check=False)
        return json.loads(unpack(claims)) if done.returncode == 0 else None
