#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""One server with several models: loaded when asked for, unloaded for others, asleep and awake."""
import concurrent.futures
import os
import shutil
import subprocess
import tempfile
import unittest

from program import MODELS, PROGRAM
from server import Server


def completion(model, tokens=8, **more):
    return {"model": model, "prompt": "Once upon a time", "max_tokens": tokens, "temperature": 0, **more}


class ManyModels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(MODELS / "cub-1m", MODELS / "cub-7m", "--kv-memory", "8MiB", "--models-max", "1")

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0, cls.server.log()

    def state(self, model):
        return self.server.json("GET", f"/v1/models/{model}")[1]["status"]["value"]

    def test_each_call_gets_its_model_whatever_else_is_asked_for(self):
        expected = {model: self.server.json("POST", "/v1/completions", completion(model))[1]["choices"]
                    for model in ("cub-1m", "cub-7m")}
        self.assertNotEqual(expected["cub-1m"], expected["cub-7m"])
        wanted = [("cub-1m", "cub-7m")[i % 2] for i in range(12)]
        with concurrent.futures.ThreadPoolExecutor(6) as threads:
            answers = list(threads.map(lambda model: self.server.json("POST", "/v1/completions", completion(model)), wanted))
        for model, (status, answer) in zip(wanted, answers):
            self.assertEqual((status, answer["model"], answer["choices"]), (200, model, expected[model]))

    def test_lists_and_control_of_each_server_know_them(self):
        self.server.ask("POST", "/v1/completions", completion("cub-1m"))
        self.assertEqual([m["id"] for m in self.server.json("GET", "/v1/models")[1]["data"]], ["cub-1m", "cub-7m"])
        self.assertEqual((self.state("cub-1m"), self.state("cub-7m")), ("loaded", "unloaded"))
        self.assertEqual([m["name"] for m in self.server.json("GET", "/api/ps")[1]["models"]], ["cub-1m"])
        self.assertEqual(len(self.server.json("GET", "/api/tags")[1]["models"]), 2)
        self.assertEqual(self.server.json("POST", "/sleep", {})[0], 200)
        self.assertTrue(self.server.json("GET", "/is_sleeping")[1]["is_sleeping"])
        self.assertEqual(self.state("cub-1m"), "sleeping")
        self.assertEqual(self.server.json("POST", "/wake_up", {})[0], 200)
        self.assertEqual(self.state("cub-1m"), "loaded")
        self.assertEqual(self.server.json("POST", "/models/unload", {"model": "cub-1m"}), (200, {"success": True}))
        self.assertEqual(self.state("cub-1m"), "unloaded")
        status, answer = self.server.json("POST", "/v1/completions", completion("gpt-9"))
        self.assertEqual(status, 404)
        self.assertIn('this server has "cub-1m", "cub-7m"', answer["error"]["message"])

    def test_metrics_name_the_models(self):
        self.server.ask("POST", "/v1/completions", completion("cub-7m"))
        text = self.server.ask("GET", "/metrics")[2].decode()
        self.assertIn('cheetah_model_loaded{model_name="cub-7m"} 1', text)
        self.assertIn('cheetah_model_loaded{model_name="cub-1m"} 0', text)


class ModelFolders(unittest.TestCase):
    def test_a_folder_of_models_and_one_that_is_broken(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(MODELS / "cub-1m", f"{folder}/good")
            shutil.copytree(MODELS / "cub-1m", f"{folder}/bad")
            os.truncate(f"{folder}/bad/model.safetensors", 100)
            with Server("--models-dir", folder, "--kv-memory", "8MiB") as server:
                self.assertEqual([m["id"] for m in server.json("GET", "/v1/models")[1]["data"]], ["bad", "good"])
                status, answer = server.json("POST", "/v1/completions", completion("bad"))
                self.assertEqual((status, answer["error"]["code"]), (503, "model_load_failed"), answer)
                self.assertEqual(server.json("POST", "/v1/completions", completion("good"))[0], 200)
                failed = server.json("GET", "/v1/models/bad")[1]["status"]
                self.assertTrue(failed["failed"], failed)

    def test_wrong_words_are_refused_before_anything_starts(self):
        for args, said in ((("--models-dir", "/no/such/folder"), "--models-dir"),
                           ((str(MODELS / "cub-1m"), str(MODELS / "cub-1m")), "two models are called"),
                           ((str(MODELS / "cub-1m"), str(MODELS / "cub-7m"), "--served-model-name", "a"), "1 names for 2"),
                           ((str(MODELS / "cub-1m"), "no-such-model"), "no-such-model")):
            done = subprocess.run([PROGRAM, "serve", "--port", "0", *args], capture_output=True, text=True, timeout=60,
                                  stdin=subprocess.DEVNULL, check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(said, done.stderr)


if __name__ == "__main__":
    unittest.main()
