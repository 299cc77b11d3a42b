# SPDX-License-Identifier: MIT
"""Credentials of NATS as its tools make them: an operator, accounts and a user, each a signed claim (JWT), and the user's file."""
import base64
import json
import os
import pathlib
import subprocess
import tempfile

SEED = 18 << 3
KINDS = {"operator": 14 << 3, "account": 0, "user": 20 << 3}  # of a key, as its first letter shows it: O, A, U
UNLIMITED = {**{name: -1 for name in ("subs", "data", "payload", "imports", "exports", "conn", "leaf")}, "wildcards": True}
STREAMS = {name: -1 for name in ("mem_storage", "disk_storage", "streams", "consumer")}


def crc16(data):
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1) ^ 0x1021 if crc & 0x8000 else crc << 1
        crc &= 0xffff
    return crc.to_bytes(2, "little")


def base32(data):
    return base64.b32encode(data + crc16(data)).decode().rstrip("=")


def base64url(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


class Key:
    """Ed25519, by openssl."""

    def __init__(self, kind):
        self.kind = kind
        self.der = subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-outform", "DER"], check=True, capture_output=True, timeout=60).stdout
        public = subprocess.run(["openssl", "pkey", "-inform", "DER", "-pubout", "-outform", "DER"], input=self.der, check=True, capture_output=True, timeout=60).stdout
        self.public = base32(bytes([KINDS[kind]]) + public[-32:])
        first = KINDS[kind]
        self.seed = base32(bytes([SEED | first >> 5, (first & 31) << 3]) + self.der[-32:])

    def sign(self, data):
        with tempfile.TemporaryDirectory() as folder:
            key, text = pathlib.Path(folder, "key"), pathlib.Path(folder, "text")
            key.write_bytes(self.der)
            text.write_bytes(data)
            return subprocess.run(["openssl", "pkeyutl", "-sign", "-rawin", "-inkey", key, "-keyform", "DER", "-in", text], check=True, capture_output=True, timeout=60).stdout

    def claim(self, subject, name, **more):
        """What this key says of another."""
        head = base64url(json.dumps({"typ": "JWT", "alg": "ed25519-nkey"}).encode())
        body = base64url(json.dumps({"jti": base64.b32encode(os.urandom(20)).decode(), "iat": 1700000000, "iss": self.public, "name": name, "sub": subject.public,
                                     "nats": {"type": subject.kind, "version": 2, **more}}).encode())
        return f"{head}.{body}.{base64url(self.sign(f'{head}.{body}'.encode()))}"


def set_up(folder):
    """The lines of a server's configuration, and the path of a credentials file that it knows."""
    operator, system, account, user = Key("operator"), Key("account"), Key("account"), Key("user")
    preload = {key.public: operator.claim(key, name, limits={**UNLIMITED, **more}, default_permissions={"pub": {}, "sub": {}})
               for key, name, more in ((system, "SYS", {}), (account, "nodes", STREAMS))}
    permissions = {"pub": {}, "sub": {}, "subs": -1, "data": -1, "payload": -1}
    path = pathlib.Path(folder, "nodes.creds")
    path.write_text(f"-----BEGIN NATS USER JWT-----\n{account.claim(user, 'node', **permissions)}\n------END NATS USER JWT------\n\n"
                    f"-----BEGIN USER NKEY SEED-----\n{user.seed}\n------END USER NKEY SEED------\n")
    os.chmod(path, 0o600)
    lines = [f"operator: {operator.claim(operator, 'operator', system_account=system.public)}", f"system_account: {system.public}", "resolver: MEMORY",
             "resolver_preload: {", *(f"  {public}: {claim}" for public, claim in preload.items()), "}"]
    return "\n".join(lines) + "\n", path
