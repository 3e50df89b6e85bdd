"""Passes for the egress proxy, by an implementation of the tests' own."""
import hashlib
import hmac
import os

INSTALLATION = bytes(range(32))


def key_of(namespace, installation=INSTALLATION):
    return hmac.new(installation, namespace.encode(), hashlib.sha256).digest()


def write(key, namespace, sandbox, address, policy, by=""):
    text = "\0".join((namespace, sandbox, address, policy, by)).encode()
    return (hmac.new(key, text, hashlib.sha256).digest() + text).hex()


def read(key, text):
    """(namespace, sandbox, address, policy, by); None: it is not of that key."""
    whole = bytes.fromhex(text)
    mac = hmac.new(key, whole[32:], hashlib.sha256).digest()
    return tuple(whole[32:].decode().split("\0")) if mac == whole[:32] else None


def key_file(directory, key):
    path = os.path.join(directory, "pass-key")
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w",
              encoding="ascii") as handle:
        handle.write(key.hex() + "\n")
    return path
