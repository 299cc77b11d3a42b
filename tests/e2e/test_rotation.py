#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Secrets and certificates are replaced node by node under load: no stream is lost, and what was withdrawn opens nothing."""
import json
import os
import pathlib
import shutil
import unittest

from authority import Authority
from fault_case import ClusterCase, Load
from fault_cluster import ListedCluster, wait_until
from program import run

OLD, NEW = "0123456789abcdef" * 4, "fedcba9876543210" * 4


def replace(path, text):
    """As careful operators do it: whole or not at all."""
    new = pathlib.Path(f"{path}.new")
    new.touch(0o600)
    new.write_text(text)
    os.rename(new, path)


class RotatedCluster(ListedCluster):
    """Every node has files of its own, and pages go over sockets that need the same proof as links."""

    def __init__(self):
        super().__init__(prefill=1, decode=2, flags=("--transfer", "tcp"))

    def files(self, name, kind):
        return f"{self.folder}/{name}.{kind}"

    def look(self, *credentials):
        """How many nodes somebody with these sees."""
        done = run("cluster", "status", "--json", "--cluster", self.url_for("observer"), *credentials, "--wait", "1")
        return sum(worker["linked"] for worker in json.loads(done.out)["workers"]), done.err


class SecretCluster(RotatedCluster):
    def __init__(self):
        super().__init__()
        for name in (*self.ports, "observer"):
            replace(self.files(name, "secret"), OLD + "\n")

    def credentials_for(self, name):
        return ("--secret-file", self.files(name, "secret"))


class CertificateCluster(RotatedCluster):
    def __init__(self):
        super().__init__()
        self.first, self.second = Authority(f"{self.folder}/first"), Authority(f"{self.folder}/second")
        for name in (*self.ports, "observer"):
            self.trust(name, self.first)
            self.issue(name, self.first)

    def trust(self, name, *authorities):
        replace(self.files(name, "ca"), "".join(authority.path.read_text() for authority in authorities))

    def issue(self, name, authority):
        certificate, key = authority.issue(name)
        replace(self.files(name, "pem"), certificate.read_text())
        replace(self.files(name, "key"), key.read_text())

    def credentials_for(self, name):
        return ("--cluster-cert", self.files(name, "pem"), "--cluster-key", self.files(name, "key"), "--cluster-ca", self.files(name, "ca"))


class Rotated(ClusterCase):
    """Node after node takes the next step; between two of them workers start again, so that links are made in every mixture."""

    def step(self, change):
        names = ["observer", *self.cluster.ports]
        for number, name in enumerate(names):
            change(name)
            if number in (2, 3):  # the router and the prefill worker are ahead of the decode workers, or one of these is
                self.cluster.nodes[f"decode-{number - 2}"].restart()
                self.cluster.wait_links()
        self.cluster.nodes["prefill-0"].restart()
        self.cluster.wait_links()

    def run_steps(self, *steps):
        with Load(self.oracle, self.cluster.router.port) as load:
            for change in steps:
                self.step(change)
        self.check_load(load)
        self.settle()
        self.assertGreater(self.total("decode", "cheetah_cluster_slabs_imported_total"), 0, "pages have crossed")


class Secrets(Rotated):
    @classmethod
    def make(cls):
        return SecretCluster()

    def test_a_secret_is_replaced_while_streams_run(self):
        cluster = self.cluster

        def lines(*secrets):
            return lambda name: replace(cluster.files(name, "secret"), "".join(secret + "\n" for secret in secrets))
        self.run_steps(lines(OLD, NEW), lines(NEW, OLD), lines(NEW))
        self.assertEqual(cluster.look(*cluster.credentials_for("observer"))[0], 4)
        lines(OLD)("thief")
        seen, why = cluster.look(*cluster.credentials_for("thief"))
        self.assertEqual(seen, 0, "the old secret opens nothing")
        self.assertIn("it knows another secret", why)
        # What cannot be used changes nothing and is told.
        decoder = cluster.nodes["decode-0"]
        lines(OLD, NEW, OLD[::-1])("decode-0")
        cluster.nodes["decode-1"].restart()
        cluster.nodes["prefill-0"].restart()
        cluster.wait_links()
        wait_until(lambda: "3 secrets: expected one, or two while one replaces the other" in decoder.output(), "the bad file to be told")


class Certificates(Rotated):
    @classmethod
    def make(cls):
        return CertificateCluster()

    def test_certificates_and_their_authority_are_replaced_while_streams_run(self):
        cluster = self.cluster
        old = [shutil.copy(cluster.files("observer", kind), f"{cluster.folder}/old.{kind}") for kind in ("pem", "key", "ca")]
        self.run_steps(lambda name: cluster.trust(name, cluster.first, cluster.second), lambda name: cluster.issue(name, cluster.second),
                       lambda name: cluster.trust(name, cluster.second))
        self.assertEqual(cluster.look(*cluster.credentials_for("observer"))[0], 4)
        cluster.trust("old", cluster.first, cluster.second)
        seen, why = cluster.look("--cluster-cert", old[0], "--cluster-key", old[1], "--cluster-ca", old[2])
        self.assertEqual(seen, 0, "the old authority's certificates open nothing")
        self.assertIn("it does not accept the authority of this worker's certificate", why)


if __name__ == "__main__":
    unittest.main()
