# SPDX-License-Identifier: MIT
"""cheetah cluster up: what happens to its processes when one hangs, when their files are gone, when it is killed itself."""
import http.client
import json
import os
import signal
import subprocess
import time
import unittest

from program import PROGRAM
from test_cluster import PATIENCE, Cluster, post, prompt, texts


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as file:
        return file.read().split(") ")[1][0] != "Z"


class Supervision(unittest.TestCase):
    def test_files_may_vanish_and_a_hung_worker_is_replaced(self):
        cluster = Cluster(1, 1)
        try:
            for name in ("secret", "peers.txt", "decode-0.log"):
                os.remove(os.path.join(cluster.folder, name))
            os.kill(cluster.pid_of("decode-0"), signal.SIGKILL)
            cluster.wait_for(r"(?s)decode-0 was ended by signal 9.*decode-0 started")
            cluster.wait_until_answers()
            cluster.wait_for("decode-0 is back")  # one that still loads its model does not hang
            os.kill(cluster.pid_of("decode-0"), signal.SIGSTOP)
            cluster.wait_for(r"(?s)decode-0 hangs: silent for 1\d s, killed.*decode-0 started")
            cluster.wait_until_answers()
            look = [PROGRAM, "cluster", "status", "--cluster", f"peers:{cluster.folder}/peers.txt", "--secret-file",
                    cluster.folder + "/secret", "--wait", "20"]
            self.assertEqual(subprocess.run(look, capture_output=True, timeout=PATIENCE).returncode, 0)
            os.kill(cluster.pid_of("prefill-0"), signal.SIGSTOP)
            seen = subprocess.run([*look[:-1], "1"], capture_output=True, text=True, timeout=PATIENCE)
            self.assertEqual(seen.returncode, 1, seen)
            self.assertRegex(seen.stdout, r"prefill-0 +prefill .*hung")
        finally:
            self.assertEqual(cluster.stop(), 0)

    def test_streams_end_whole_when_the_supervisor_is_killed(self):
        cluster = Cluster(1, 1)
        try:
            pids = [cluster.pid_of(name) for name in ("prefill-0", "decode-0", "router")]
            case = {"prompt": prompt(200), "temperature": 0, "max_tokens": 700, "ignore_eos": True}
            expected = texts(post(cluster.port, case)[1])
            connection = http.client.HTTPConnection("127.0.0.1", cluster.port, timeout=PATIENCE)
            connection.request("POST", "/v1/completions", json.dumps({"model": "cub-1m", **case, "stream": True}), {"Content-Type": "application/json"})
            text, killed = "", False
            for line in connection.getresponse():
                if line.startswith(b"data: {"):
                    text += json.loads(line[6:])["choices"][0]["text"]
                    if not killed:
                        killed = True
                        cluster.process.kill()
            connection.close()
            self.assertEqual([text], expected)
            end = time.monotonic() + PATIENCE
            while any(alive(pid) for pid in pids):
                self.assertLess(time.monotonic(), end, "a process outlives its supervisor")
                time.sleep(0.05)
        finally:
            cluster.stop(signal.SIGKILL)


if __name__ == "__main__":
    unittest.main()
