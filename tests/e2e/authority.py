# SPDX-License-Identifier: MIT
"""A certificate authority, as `openssl` on the command line makes one."""
import os
import pathlib
import subprocess

KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, timeout=60)


class Authority:
    def __init__(self, folder, name="authority"):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.key, self.path, self.count = self.folder / f"{name}.key", self.folder / f"{name}.pem", 0
        openssl("req", "-x509", *KEY, "-days", "1", "-subj", f"/CN={name}", "-keyout", self.key, "-out", self.path)

    def issue(self, name, alternatives=None):
        """A certificate for clients and servers, and its key: two paths. Whoever has it is `name`."""
        self.count += 1
        path = self.folder / f"{self.path.stem}-{self.count}"
        key, certificate, request, extensions = (path.with_suffix(end) for end in (".key", ".pem", ".csr", ".ext"))
        extensions.write_text(f"subjectAltName={alternatives or f'DNS:{name}'}\nextendedKeyUsage=serverAuth,clientAuth\n")
        openssl("req", *KEY, "-subj", f"/CN={name}", "-keyout", key, "-out", request)
        openssl("x509", "-req", "-in", request, "-CA", self.path, "-CAkey", self.key, "-CAcreateserial", "-days", "1",
                "-extfile", extensions, "-out", certificate)
        os.chmod(key, 0o600)
        return certificate, key
