#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""cheetah doctor on this machine, on captured trees, on hostile ones, and on what other tools wrote."""
import gzip
import http.server
import json
import os
import pathlib
import re
import subprocess
import tempfile
import threading
import time
import unittest

from program import SOURCE, ProgramTest, run

TREES = SOURCE / "tests" / "doctor"
SERVER = ["--purpose", "train", "--multi-node", "--pid", "4242", "--data", "/data", "--checkpoints", "/ckpt",
          "--config", "etc/job.yaml"]
FAULTS = ["GPU-09", "GPU-05", "CTR-05", "GPU-12", "JOB-02", "JOB-03", "HST-24", "HST-37", "GPU-15",
          "CTR-08", "CFG-01", "HST-08", "HST-14", "NET-05", "HST-01", "HST-04", "STO-02", "STO-01", "CTR-25", "GPU-03"]


def expanded(path, text, depth=1):
    """The braces of a tree's paths, as src/doctor/fixture.h reads them."""
    found = re.search(r"\{([^}]*)\}", path)
    if not found:
        return [(path, text)]
    inside, every = found.group(1), []
    span = re.fullmatch(r"(\d+)-(\d+)", inside)
    values = [str(i) for i in range(int(span[1]), int(span[2]) + 1)] if span else inside.split(",")
    for value in values:
        mark = f"<{depth}>"
        filled = (path[:found.start()] + value + path[found.end():]).replace(mark, value)
        every += expanded(filled, text.replace(mark, value), depth + 1)
    return every


def write_tree(root, name):
    """A tree file as real files and links below root."""
    files, links, path = [], [], None
    for line in (TREES / name).read_text().splitlines():
        if line.startswith("#"):
            continue
        if line.startswith("== "):
            path = line[3:]
            files.append([path, ""])
        elif line.startswith("-> "):
            path = None
            links += expanded(*line[3:].split(" ", 1))
        elif path is not None and (line or files[-1][1]):
            files[-1][1] += line + "\n"
    for link, target in links:
        place = pathlib.Path(root, link)
        if place.is_symlink() or target.startswith("/"):
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        there = pathlib.Path(os.path.normpath(place.parent / target))
        if not str(there).startswith(str(root)):
            continue
        there.mkdir(parents=True, exist_ok=True)
        os.symlink(target, place)
    for link, target in links:
        place = pathlib.Path(root, link)
        if target.startswith("/") and not place.is_symlink():
            place.parent.mkdir(parents=True, exist_ok=True)
            os.symlink(target, place)
    for brace_path, brace_text in files:
        for file, text in expanded(brace_path, brace_text):
            place = pathlib.Path(root, file)
            place.parent.mkdir(parents=True, exist_ok=True)
            data = text.encode()
            if text.startswith("%"):
                data = bytearray()
                for offset, digits in (line[1:].split() for line in text.splitlines()):
                    start, part = int(offset, 16), bytes.fromhex(digits)
                    data.extend(b"\0" * max(0, start + len(part) - len(data)))
                    data[start:start + len(part)] = part
            place.write_bytes(data)


def troubles(report):
    return [f["id"] for f in report["findings"] if f["goodput_at_risk"] > 0]


class Machine(ProgramTest):
    def test_this_machine_is_examined_within_three_seconds(self):
        begin = time.monotonic()
        report = self.ok_json("doctor", "--json")
        took = time.monotonic() - begin
        self.assertGreaterEqual(len(report["findings"]), 150)
        self.assertLess(took, 30)  # 3 s on an idle machine; tests share theirs
        for finding in report["findings"]:
            self.assertTrue(finding["found"], finding["id"])

    def test_nothing_is_written(self):
        with tempfile.TemporaryDirectory() as folder:
            self.ok("doctor", cwd=folder)
            self.assertEqual(os.listdir(folder), [])

    def test_forms_of_output(self):
        self.assertIn("goodput at risk", self.ok("doctor"))
        self.assertIn("| Status | Found |", self.ok("doctor", "--markdown"))
        sarif = self.ok_json("doctor", "--sarif")
        self.assertEqual(sarif["version"], "2.1.0")
        self.assertIn("HST-01", self.ok("doctor", "--only", "HST-01", "-v"))
        self.fails(2, "doctor", "--only", "XXX-99", mentions=["XXX-99"])
        self.fails(1, "doctor", "--root", "/no/such", mentions=["/no/such"])

    def test_a_snapshot_gives_the_same_report(self):
        with tempfile.TemporaryDirectory() as folder:
            first = self.ok_json("doctor", "--json", "--save", f"{folder}/a.json")
            second = self.ok_json("doctor", "--json", "--from", f"{folder}/a.json")
            self.assertEqual([(f["id"], f["status"]) for f in first["findings"]],
                             [(f["id"], f["status"]) for f in second["findings"]])
            self.assertIn("agree", self.ok("doctor", "diff", f"{folder}/a.json", f"{folder}/a.json"))
            text = pathlib.Path(folder, "a.json").read_text()
            self.assertNotIn("SECRET", text)

    def test_secrets_of_the_environment_are_never_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            env = dict(os.environ, MY_SECRET="hush-hush", NCCL_API_KEY="hush-hush", NCCL_DEBUG="TRACE")
            self.ok("doctor", "--save", f"{folder}/a.json", env=env)
            text = pathlib.Path(folder, "a.json").read_text()
            self.assertNotIn("hush-hush", text)
            self.assertIn("NCCL_DEBUG=TRACE", text)


class Server(ProgramTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.good, cls.bad = f"{cls.folder.name}/good", f"{cls.folder.name}/bad"
        write_tree(cls.good, "server.tree")
        write_tree(cls.bad, "server.tree")
        write_tree(cls.bad, "faults.tree")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_a_healthy_server_has_no_trouble(self):
        report = self.ok_json("doctor", "--root", self.good, *SERVER, "--json", "--fail-on", "warn")
        self.assertEqual(troubles(report), [])

    def test_twenty_planted_faults_the_dearest_first(self):
        done = run("doctor", "--root", self.bad, *SERVER, "--json", "--fail-on", "fail")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(troubles(json.loads(done.out)), FAULTS)

    def test_the_fix_plan_is_a_script_that_does_nothing_by_itself(self):
        plan = self.ok("doctor", "fix-plan", "--root", self.bad, *SERVER)
        with tempfile.NamedTemporaryFile("w", suffix=".sh") as file:
            file.write(plan)
            file.flush()
            self.assertEqual(subprocess.run(["sh", "-n", file.name], check=False).returncode, 0)
            self.assertEqual(subprocess.run(["sh", file.name], check=False, stderr=subprocess.DEVNULL).returncode, 2)
        self.assertIn("run swapoff /dev/nvme8n1p3", plan)
        self.assertIn("put '9000' '1500' '9000", plan)

    def test_fixes_are_applied_and_undone_to_the_byte(self):
        def contents(folder):
            return {str(p.relative_to(folder)): p.read_bytes() for p in pathlib.Path(folder).rglob("*")
                    if p.is_file() and not p.is_symlink() and "var" not in p.parts}

        with tempfile.TemporaryDirectory() as folder:
            root = f"{folder}/root"
            write_tree(root, "server.tree")
            write_tree(root, "faults.tree")
            before = contents(root)
            self.fails(2, "doctor", "--root", root, *SERVER, "--fix", mentions=["--yes"])
            self.fails(2, "doctor", "--root", root, *SERVER, "--yes", mentions=["--fix"])
            only = ["--only", "HST-04,HST-08,NET-05,STO-01,STO-02"]
            out = self.ok("doctor", "--root", root, *SERVER, *only, "--fix", "--lasting", "--yes")
            self.assertIn("0 failed", out)
            self.assertEqual(pathlib.Path(root, "sys/class/net/rail1/mtu").read_text(), "9000\n")
            self.assertTrue(pathlib.Path(root, "etc/udev/rules.d/90-cheetah-STO-01.rules").exists())
            report = self.ok_json("doctor", "--root", root, *SERVER, *only, "--json")
            self.assertEqual(troubles(report), [])
            self.assertIn("0 failed", self.ok("doctor", "--root", root, "--undo", "--yes"))
            self.assertEqual(contents(root), before)
            self.assertIn("empty", self.ok("doctor", "--root", root, "--undo", "--yes"))

    def test_a_sites_profile_and_a_history(self):
        with tempfile.TemporaryDirectory() as folder:
            site, history = f"{folder}/site.yaml", f"{folder}/history.db"
            pathlib.Path(site).write_text(self.ok("doctor", "baseline", "--root", self.good, *SERVER))
            only = ["--only", "SITE-01,SITE-02", "--json"]
            self.assertEqual(troubles(self.ok_json("doctor", "--root", self.good, *SERVER, "--expect", site, *only)), [])
            bad = self.ok_json("doctor", "--root", self.bad, *SERVER, "--expect", site, *only)
            self.assertEqual(troubles(bad), ["SITE-01"])
            self.assertIn("580.82.07 instead of", bad["findings"][0]["found"])
            watch = ["doctor", "watch", "--root", self.bad, *SERVER, "--history", history]
            out = self.ok(*watch, "--count", "2", "--interval", "0.1")
            self.assertEqual(out.count("came HST-01"), 1)
            self.assertIn("no error counter", self.ok(*watch, "--rates"))
            self.ok("doctor", "--root", self.bad, *SERVER, "--history", history, "--only", "SITE-02")
            self.fails(1, "doctor", "--history", f"{folder}/none.db", mentions=["none.db"])
            self.fails(1, "doctor", "--expect", history, mentions=["history.db"])

    def test_hosts_that_differ(self):
        with tempfile.TemporaryDirectory() as folder:
            self.ok("doctor", "--root", self.good, *SERVER, "--save", f"{folder}/a.json")
            self.ok("doctor", "--root", self.bad, *SERVER, "--save", f"{folder}/b.json")
            done = run("doctor", "diff", f"{folder}/a.json", f"{folder}/b.json")
            self.assertEqual(done.returncode, 1)
            for word in ("driver", "580.82.07", "governor", "powersave"):
                self.assertIn(word, done.out)


class Hostile(ProgramTest):
    def test_a_tree_of_pipes_links_and_noise(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for path in ("proc/self", "proc/sys/vm", "sys/block", "sys/class/net", "sys/bus/pci/devices", "etc"):
                (root / path).mkdir(parents=True)
            os.mkfifo(root / "proc/swaps")
            os.symlink("loop", root / "sys/class/infiniband")
            os.symlink("infiniband", root / "sys/class/loop")
            os.symlink("/", root / "sys/kernel")
            os.symlink(".", root / "sys/block/sda")
            (root / "proc/meminfo").write_bytes(os.urandom(100000))
            (root / "proc/self/mountinfo").write_bytes(b"\0" * 100000)
            (root / "proc/sys/vm/swappiness").write_bytes(b"9" * 5000000)
            (root / "etc/slurm").write_bytes(b"file, not folder")
            (root / "var/lib/kubelet").mkdir(parents=True)
            (root / "var/lib/kubelet/config.yaml").write_bytes(b"a: &a [*a, *a]\n[[[[")
            for i in range(300):
                (root / f"sys/class/net/\x1b[31m{i}").mkdir()
            os.chmod(root / "proc/meminfo", 0)
            done = run("doctor", "--root", folder, *SERVER, "-v", timeout=60)
            self.assertEqual(done.returncode, 0, done.err)
            self.assertNotIn("\x1b[31m", done.out)

    def test_no_control_character_of_a_host_is_printed(self):
        with tempfile.TemporaryDirectory() as folder:
            write_tree(folder, "server.tree")
            log = pathlib.Path(folder, "cheetah/dmesg")
            log.parent.mkdir(exist_ok=True)
            log.write_bytes(b"[ 9.0] NVRM: Xid (PCI:0000:13:00): 79, \x1b]0;title\x07 \x9b31m \xc2\x9b31m fallen\n")
            pathlib.Path(folder, "proc/sys/kernel/osrelease").write_bytes(b"6.8\x1b[31m\x07\n")
            for form in ([], ["-v"], ["--json"], ["--markdown"], ["--sarif"]):
                out = run("doctor", "--root", folder, *SERVER, *form).out
                self.assertIn("Xid 79", out)
                self.assertFalse(any(ord(c) < 32 and c != "\n" or 0x7f <= ord(c) < 0xa0 for c in out), form)

    def test_files_that_are_no_pods_engines_or_profiles(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, data in (("a", b""), ("b", b"\xff" * 1000), ("c", b"[" * 100000), ("d", b"a: b\n\tc: d")):
                pathlib.Path(folder, name).write_bytes(data)
                for command in ("pod", "engine", "profile", "diff"):
                    more = [f"{folder}/{name}"] if command == "diff" else []
                    self.fails(1, "doctor", command, f"{folder}/{name}", *more)
            self.fails(1, "doctor", "--from", f"{folder}/b")
            self.fails(1, "doctor", "pod", f"{folder}/missing")


class Inputs(ProgramTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        write_tree(cls.folder.name, "tools.tree")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_a_pod(self):
        report = self.ok_json("doctor", "pod", f"{self.folder.name}/pod.yaml", "--json")
        self.assertEqual(troubles(report), [])
        text = pathlib.Path(self.folder.name, "pod.yaml").read_text().replace("nvidia.com/gpu: 2", "nvidia.com/gpu: 0.5")
        pathlib.Path(self.folder.name, "bad.yaml").write_text(text)
        done = run("doctor", "pod", f"{self.folder.name}/bad.yaml", "--fail-on", "fail")
        self.assertEqual(done.returncode, 1)
        self.assertIn("POD-03", done.out)

    def test_an_engine_by_file_and_by_url(self):
        metrics = pathlib.Path(self.folder.name, "metrics.txt").read_bytes()
        report = self.ok_json("doctor", "engine", f"{self.folder.name}/metrics.txt", "--json", "--slo-ttft", "1000")
        self.assertEqual(troubles(report), [])

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200 if self.path == "/metrics" else 404)
                self.end_headers()
                self.wfile.write(metrics.replace(b'perc{model="m"} 0.6', b'perc{model="m"} 0.97'))

            def log_message(self, *args):
                pass

        server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            url = f"http://127.0.0.1:{server.server_port}"
            report = self.ok_json("doctor", "engine", url, "--interval", "0.1", "--json")
            self.assertIn("MET-04", troubles(report))
            self.fails(1, "doctor", "engine", url + "/nothing", mentions=["404"])
        finally:
            server.shutdown()
            server.server_close()
        self.fails(1, "doctor", "engine", "http://127.0.0.1:1/metrics", mentions=["127.0.0.1:1"])

    def test_a_packed_trace_of_two_gpus(self):
        events = [{"ph": "X", "cat": "kernel", "name": "nvjet_bf16", "ts": i * 10, "dur": 10, "args": {"device": 0}}
                  for i in range(50)]
        events.append({"ph": "X", "cat": "kernel", "name": "nvjet_bf16", "ts": 0, "dur": 10, "args": {"device": 1}})
        path = pathlib.Path(self.folder.name, "trace.json.gz")
        path.write_bytes(gzip.compress(json.dumps({"traceEvents": events}).encode()))
        report = self.ok_json("doctor", "profile", path, "--json")
        self.assertEqual(troubles(report)[0], "PRF-01")
        self.assertIn("GPU 1", report["findings"][0]["found"])
        path.write_bytes(path.read_bytes()[:40])
        self.fails(1, "doctor", "profile", path, mentions=["gzip"])

    def test_counters_and_logs(self):
        for name in ("counters.csv", "run.log"):
            report = self.ok_json("doctor", "profile", f"{self.folder.name}/{name}", "--json")
            self.assertEqual(troubles(report), [], name)

    def test_a_trace(self):
        events = [{"ph": "X", "cat": "kernel", "name": "sgemm", "ts": i * 100, "dur": 10} for i in range(50)]
        path = pathlib.Path(self.folder.name, "trace.json")
        path.write_text(json.dumps({"traceEvents": events}))
        report = self.ok_json("doctor", "profile", path, "--json")
        self.assertEqual(troubles(report)[0], "PRF-01")
        self.assertIn("PRF-23", troubles(report))


class Others(ProgramTest):
    def test_explain_and_checklist(self):
        self.assertIn("GPU-12", self.ok("doctor", "explain"))
        self.assertIn("why", self.ok("doctor", "explain", "GPU-12"))
        self.fails(2, "doctor", "explain", "NOPE", mentions=["NOPE"])
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn("181 items", self.ok("doctor", "checklist", cwd=folder))
            out = self.ok("doctor", "checklist", "--answer", "A06", "done", "--by", "Ada", "--note", "it's: \"fine\"", cwd=folder)
            self.assertIn("done by Ada", out)
            self.assertIn("done by Ada", self.ok("doctor", "checklist", cwd=folder))
            self.fails(1, "doctor", "checklist", "--answer", "Z99", "done", "--by", "Ada", cwd=folder, mentions=["Z99"])

    def test_active_tests_say_what_is_missing(self):
        with tempfile.TemporaryDirectory() as folder:
            report = self.ok_json("doctor", "test", "--seconds", "1", "--folder", folder, "--history", f"{folder}/h.db", "--json",
                                  timeout=180)
            again = self.ok_json("doctor", "test", "--seconds", "1", "--folder", folder, "--history", f"{folder}/h.db", "--json",
                                 timeout=180)
        self.assertIn("ACT-01", [f["id"] for f in report["findings"]])
        before = {f["id"]: f["status"] for f in again["findings"]}
        self.assertNotEqual(before["ACT-07"], "n/a")

    def test_measure_is_short_and_leaves_nothing_behind(self):
        with tempfile.TemporaryDirectory() as folder:
            report = self.ok_json("doctor", "measure", "--folder", folder, "--no-gpu", "--json", timeout=120)
            self.assertEqual(os.listdir(folder), [])
        measured = {f["id"]: f for f in report["findings"]}
        for check in ("MSR-25", "MSR-08", "MSR-07", "MSR-13"):
            self.assertNotEqual(measured[check]["status"], "n/a", measured[check]["found"])


if __name__ == "__main__":
    unittest.main()
