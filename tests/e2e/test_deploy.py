#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""deploy/: every file can be read, says what it must, and names only metrics and settings that exist."""
import configparser
import copy
import json
import re
import tempfile
import tomllib
import unittest

try:
    import yaml
    import helm_template
except ImportError:
    yaml = None

from kubernetes_schema import check_object
from program import MODELS, SOURCE, ProgramTest, run
from server import Server

DEPLOY = SOURCE / "deploy"
ROLES = ("router", "prefill", "decode")
SEVERITIES = {"info", "warning", "critical"}
# What other exporters bring: the GPUs' (dcgm-exporter), etcd's, Prometheus's own.
FOREIGN = re.compile(r"DCGM_FI_[A-Z_]+|etcd_server_has_leader|up$")
METRIC = re.compile(r"\b(?:cheetah_\w+|vllm:\w+|DCGM_\w+|etcd_\w+|up\b)")
STRINGS = re.compile(r'"(?:\\.|[^"\\])*"')
DURATION = re.compile(r"^\d+[smhd]$")


def documents(path):
    return [document for document in yaml.safe_load_all(path.read_text()) if document is not None]


def metrics_in(expression):
    """The metrics a query names; what stands in quotes or braces is labels."""
    return set(METRIC.findall(re.sub(r"\{[^}]*\}", "", STRINGS.sub("", expression))))


def metrics_of_the_cluster():
    """Those that only the node of a cluster exports, from its source."""
    names = set()
    for path in (SOURCE / "src" / "cluster").rglob("*.cpp"):
        if not path.name.endswith("_test.cpp"):
            names |= set(re.findall(r'"(cheetah_[a-z_]+)"', path.read_text()))
    counters = re.search(r"counter_name\(.*?\{(.*?)\n\}", (SOURCE / "src" / "cluster" / "core" / "ports.cpp").read_text(), re.DOTALL)
    return names | {f"cheetah_cluster_{name}_total" for name in re.findall(r'"([a-z_]+)"', counters[1])}


def metrics_of_a_server():
    with Server(MODELS / "cub-1m", "--kv-memory", "8MiB") as server:
        text = server.ask("GET", "/metrics")[2].decode()
    names = set()
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE):
        names |= {name + part for part in ("_bucket", "_sum", "_count")} if kind == "histogram" else {name}
    return names


class Package(unittest.TestCase):
    """What the package, the units, the image and the manifests say about each other."""
    version = re.search(r"project\(cheetah VERSION (\S+)", (SOURCE / "CMakeLists.txt").read_text())[1]

    def test_every_file_names_the_version_of_the_program(self):
        containerfile = (SOURCE / "Containerfile").read_text()
        self.assertEqual({self.version, f"{self.version}-cuda"}, set(re.findall(r"-t cheetah:(\S+)", containerfile)))
        kustomization = (DEPLOY / "kubernetes" / "kustomization.yaml").read_text()
        self.assertEqual(f"{self.version}-cuda", re.search(r"newTag: (\S+)", kustomization)[1])
        self.assertEqual(self.version, re.search(r"^## \[([\d.]+)\]", (SOURCE / "CHANGELOG.md").read_text(), re.MULTILINE)[1])

    def test_the_package_creates_the_user_of_the_unit_and_installs_what_it_starts(self):
        unit = (DEPLOY / "systemd" / "cheetah@.service").read_text()
        user = re.search(r"^User=(\S+)$", unit, re.MULTILINE)[1]
        postinst = (DEPLOY / "debian" / "postinst").read_text()
        self.assertRegex(postinst, rf"adduser --system --group .* {user} ")
        self.assertIn("install -d -m 750 -o root -g cheetah /etc/cheetah", postinst)
        install = (SOURCE / "cmake" / "Install.cmake").read_text()
        self.assertIn("set(CPACK_PACKAGING_INSTALL_PREFIX /usr)", install)
        self.assertIn("ExecStart=/usr/bin/cheetah ", unit)

    def test_the_image_runs_the_program_as_the_user_of_the_manifests(self):
        containerfile = (SOURCE / "Containerfile").read_text()
        self.assertIn('ENTRYPOINT ["/usr/bin/cheetah"]', containerfile)
        users = set(re.findall(r"^USER (\d+)$", containerfile, re.MULTILINE))
        for role in ROLES:
            text = (DEPLOY / "kubernetes" / f"{role}.yaml").read_text()
            self.assertEqual(users, set(re.findall(r"runAsUser: (\d+)", text)), role)
            self.assertIn("image: cheetah\n", text)


@unittest.skipIf(yaml is None, "python3-yaml is not installed here")
class Kubernetes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = DEPLOY / "kubernetes"
        cls.all = [d for path in sorted(cls.folder.glob("*.yaml")) if path.name != "kustomization.yaml"
                   for d in documents(path)]

    def named(self, kind, name):
        found = [d for d in self.all if d["kind"] == kind and d["metadata"]["name"] == name]
        self.assertEqual(len(found), 1, f"{kind} {name}")
        return found[0]

    def test_every_file_is_listed_and_every_object_is_whole(self):
        listed = documents(self.folder / "kustomization.yaml")[0]["resources"]
        self.assertEqual(sorted(listed), sorted(p.name for p in self.folder.glob("*.yaml") if p.name != "kustomization.yaml"))
        seen = set()
        for document in self.all:
            key = (document["apiVersion"], document["kind"], document["metadata"]["name"])
            self.assertNotIn(key, seen)
            seen.add(key)

    def test_every_object_is_one_that_kubernetes_takes(self):
        for document in [*self.all, *documents(DEPLOY / "gateway" / "inference-pool.yaml")]:
            self.assertEqual(check_object(document), [])

    def test_a_mistake_in_an_object_is_found(self):
        pod = self.named("Deployment", "router")
        for path, value, why in ((("spec", "replica"), 2, "there is no such field"), (("spec", "replicas"), "2", "expected whole"),
                                 (("spec", "template", "spec", "containers", 0, "livenessProbe", "httpGet", "port"), "htp", "asks the port htp"),
                                 (("spec", "template", "spec", "containers", 0, "resources", "limits", "cpu"), "4 cores", "expected quantity"),
                                 (("spec", "template", "metadata", "labels"), {"a": "b"}, "does not choose"),
                                 (("spec", "template", "spec", "volumes"), [], "is no volume")):
            broken = copy.deepcopy(pod)
            place = broken
            for step in path[:-1]:
                place = place[step]
            place[path[-1]] = value
            self.assertIn(why, " ".join(check_object(broken)), path)

    def test_the_doctor_has_nothing_to_say(self):
        for path in sorted(self.folder.glob("*.yaml")):
            if not any(d["kind"] in ("Deployment", "StatefulSet", "Job", "HorizontalPodAutoscaler") for d in documents(path)):
                continue
            report = json.loads(run("doctor", "pod", path, "--json").out)
            self.assertEqual([each["found"] for each in report["findings"] if each["status"] in ("warn", "fail")], [], path.name)

    def test_no_secret_lies_in_the_repository(self):
        self.assertEqual([d for d in self.all if d["kind"] == "Secret"], [])
        ignored = (self.folder / ".gitignore").read_text().split()
        for generator in documents(self.folder / "kustomization.yaml")[0]["secretGenerator"]:
            for file in generator["files"]:
                self.assertIn(file.split("=")[-1].split("/")[0], ignored)

    def test_every_role_is_a_pool_that_is_probed_drained_and_protected(self):
        for role in ROLES:
            pool = self.named("Deployment", role)["spec"]
            labels = pool["template"]["metadata"]["labels"]
            self.assertEqual(pool["selector"]["matchLabels"], labels)
            self.assertEqual(self.named("PodDisruptionBudget", role)["spec"]["selector"]["matchLabels"], labels)
            pod = pool["template"]["spec"]
            container = pod["containers"][0]
            self.assertIn(f"--role={role}", container["args"])
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                self.assertTrue(container[probe]["httpGet"]["path"].startswith("/health/"), (role, probe))
            timeout = next(int(a.split("=")[1]) for a in container["args"] if a.startswith("--shutdown-timeout="))
            pause = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
            self.assertGreater(pod["terminationGracePeriodSeconds"], timeout + pause)
            self.assertTrue(pod["securityContext"]["runAsNonRoot"])
            self.assertFalse(container["securityContext"]["allowPrivilegeEscalation"])
            mounts = {m["name"] for m in container["volumeMounts"]}
            self.assertEqual(mounts, {v["name"] for v in pod["volumes"]})
            self.assertIn("memory", container["resources"]["limits"])

    def test_the_pools_follow_the_planner(self):
        rule = documents(DEPLOY / "prometheus" / "adapter.yaml")[0]["externalRules"][0]
        for role in ("prefill", "decode"):
            scaler = self.named("HorizontalPodAutoscaler", role)["spec"]
            self.assertEqual(scaler["scaleTargetRef"]["name"], role)
            metric = scaler["metrics"][0]["external"]["metric"]
            self.assertEqual(metric["name"], rule["name"]["as"])
            self.assertEqual(metric["selector"]["matchLabels"], {"pool": role})

    def test_what_is_not_named_is_forbidden(self):
        nothing = self.named("NetworkPolicy", "nothing-else")["spec"]
        self.assertEqual(nothing, {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]})
        ports = {p["containerPort"] for kind in ("Deployment", "StatefulSet") for d in self.all if d["kind"] == kind
                 for c in d["spec"]["template"]["spec"]["containers"] for p in c["ports"]}
        opened = {p["port"] for d in self.all if d["kind"] == "NetworkPolicy"
                  for rule in d["spec"].get("ingress", []) for p in rule.get("ports", [])}
        self.assertLessEqual(opened, ports)

    def test_services_are_three_with_a_budget(self):
        for name in ("etcd", "nats"):
            members = self.named("StatefulSet", name)["spec"]
            self.assertEqual((members["replicas"], members["serviceName"]), (3, name))
            self.assertEqual(self.named("Service", name)["spec"]["clusterIP"], "None")
            self.assertEqual(self.named("PodDisruptionBudget", name)["spec"]["maxUnavailable"], 1)


@unittest.skipIf(yaml is None, "python3-yaml is not installed here")
class Chart(unittest.TestCase):
    """deploy/helm/cheetah, with its own values and with everything turned on."""
    folder = DEPLOY / "helm" / "cheetah"
    everything = {"certificates": {"enabled": True}, "tls": {"enabled": True}, "autoscaling": {"enabled": True}, "podMonitor": {"enabled": True},
                  "gateway": {"enabled": True}, "cluster": {"policy": '[routing]\noffload_policy = "always"\n'}, "image": {"pullSecrets": ["registry"]}}

    def objects(self, values=None):
        return helm_template.Chart(self.folder, values).objects()

    def named(self, objects, kind, name):
        return next(each for each in objects if each["kind"] == kind and each["metadata"]["name"] == name)

    def test_every_object_is_one_that_kubernetes_takes_and_the_doctor_likes(self):
        for values, count in (({}, 22), (self.everything, 29), ({"services": {"url": "etcd://e1"}}, 14), ({"networkPolicy": {"enabled": False}, "disruptionBudgets": False}, 14)):
            objects = self.objects(values)
            self.assertEqual(len(objects), count, values)
            self.assertEqual([problem for each in objects for problem in check_object(each)], [], values)
            self.assertEqual(len({(each["kind"], each["metadata"]["name"]) for each in objects}), count)
            with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
                yaml.safe_dump_all(objects, file)
                file.flush()
                report = json.loads(run("doctor", "pod", file.name, "--json").out)
                self.assertEqual([each["found"] for each in report["findings"] if each["status"] in ("warn", "fail")], [], values)

    def test_it_says_what_the_manifests_say(self):
        """The same containers: flags, probes, mounts; the same network."""
        ours, chart = [d for path in sorted((DEPLOY / "kubernetes").glob("*.yaml")) if path.name != "kustomization.yaml" for d in documents(path)], self.objects(
            {"gateway": {"enabled": True}})
        for kind, names in (("Deployment", ROLES), ("StatefulSet", ("etcd", "nats"))):
            for name in names:
                wanted, made = (self.named(objects, kind, name)["spec"]["template"]["spec"] for objects in (ours, chart))
                for pod in (wanted, made):
                    for each in pod["containers"]:
                        del each["image"]
                        each.pop("imagePullPolicy", None)
                        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                            each.get(probe, {}).get("httpGet", {}).pop("scheme", None)
                    for spread in pod.get("topologySpreadConstraints", []):
                        del spread["labelSelector"]
                self.assertEqual(made, wanted, name)
        for policy in (each for each in ours if each["kind"] == "NetworkPolicy"):
            self.assertEqual(self.named(chart, "NetworkPolicy", policy["metadata"]["name"])["spec"], policy["spec"])

    def test_values_reach_what_they_name(self):
        objects = self.objects(self.everything)
        container = self.named(objects, "Deployment", "decode")["spec"]["template"]["spec"]["containers"][0]
        for flag in ("--cluster-cert=/etc/cheetah-node/tls.crt", "--tls-key=/etc/cheetah-tls/tls.key", "--policy-file=/etc/cheetah-config/policy.toml"):
            self.assertIn(flag, container["args"])
        self.assertNotIn("--secret-file=/etc/cheetah/cluster-secret", container["args"])
        self.assertEqual(container["readinessProbe"]["httpGet"]["scheme"], "HTTPS")
        self.assertNotIn("replicas", self.named(objects, "Deployment", "decode")["spec"], "the autoscaler has them")
        self.assertIn("offload_policy", self.named(objects, "ConfigMap", "cheetah-config")["data"]["policy.toml"])
        self.assertIn("--endpoint-picker-port=9002", self.named(objects, "Deployment", "router")["spec"]["template"]["spec"]["containers"][0]["args"])
        small = self.objects({"pools": {"prefill": {"enabled": False}, "decode": {"gpus": 0, "args": ["--ctx-size=4096"], "replicas": 5}}})
        self.assertNotIn("prefill", {each["metadata"]["name"] for each in small if each["kind"] == "Deployment"})
        decode = self.named(small, "Deployment", "decode")["spec"]
        self.assertEqual((decode["replicas"], decode["template"]["spec"]["containers"][0]["args"][-1]), (5, "--ctx-size=4096"))
        self.assertNotIn("nvidia.com/gpu", decode["template"]["spec"]["containers"][0]["resources"]["limits"])

    def test_mistakes_are_told(self):
        with self.assertRaisesRegex(helm_template.ChartError, "model.path: name the model"):
            self.objects({"model": {"path": ""}})
        template = helm_template.Template
        for text in ("{{ if .Values.a }}", "{{ end }}", "{{ else }}"):
            with self.assertRaises(helm_template.ChartError, msg=text):
                template(text, "x")

    def test_the_versions_are_the_programs(self):
        chart = yaml.safe_load((self.folder / "Chart.yaml").read_text())
        self.assertEqual({chart["version"], chart["appVersion"]}, {Package.version})

    def test_only_settings_that_exist_are_used(self):
        known = {line.split()[0] for line in run("serve", "--print-config").out.splitlines() if line.strip()}
        used = set(re.findall(r"- --([a-z-]+)[={]", (self.folder / "templates" / "pools.yaml").read_text()))
        self.assertGreater(len(used), 10)
        self.assertEqual(used - known, set())


class Systemd(unittest.TestCase):
    def test_units_are_whole(self):
        for path in sorted((DEPLOY / "systemd").glob("*.service")):
            unit = configparser.RawConfigParser(strict=False, delimiters="=")
            unit.optionxform = str
            unit.read_string(path.read_text())
            self.assertEqual(unit.sections(), ["Unit", "Service", "Install"], path.name)
            self.assertTrue(unit["Service"]["ExecStart"].startswith("/usr/"), path.name)
            self.assertIn(unit["Service"]["Restart"], ("always", "on-failure"))
            self.assertEqual(unit["Service"]["NoNewPrivileges"], "yes")

    def test_the_stop_is_longer_than_the_drain(self):
        text = (DEPLOY / "systemd" / "cheetah@.service").read_text()
        stop = int(re.search(r"^TimeoutStopSec=(\d+)$", text, re.MULTILINE)[1])
        for role in ROLES:
            settings = tomllib.loads((DEPLOY / "systemd" / f"{role}.toml").read_text())
            self.assertEqual(settings["role"], role)
            self.assertLess(settings["shutdown-timeout"], stop)


class Settings(ProgramTest):
    def test_only_settings_that_exist_are_used(self):
        known = {line.split()[0] for line in self.ok("serve", "--print-config").splitlines() if line.strip()}
        if "role" not in known:
            self.skipTest("this program has no roles")
        used = set()
        for role in ROLES:
            used |= set(tomllib.loads((DEPLOY / "systemd" / f"{role}.toml").read_text()))
            used |= set(re.findall(r"^ +- --([a-z-]+)=", (DEPLOY / "kubernetes" / f"{role}.yaml").read_text(), re.MULTILINE))
        self.assertEqual(sorted(used - known), [])


@unittest.skipIf(yaml is None, "python3-yaml is not installed here")
class Monitoring(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.known = metrics_of_a_server() | metrics_of_the_cluster()
        cls.groups = documents(DEPLOY / "prometheus" / "alerts.yaml")[0]["groups"]
        cls.rules = [rule for group in cls.groups for rule in group["rules"]]
        cls.board = json.loads((DEPLOY / "grafana" / "cheetah.json").read_text())
        cls.panels = [p for p in cls.board["panels"] if p["type"] != "row"]

    def check_known(self, expression, where):
        names = metrics_in(expression)
        self.assertTrue(names, f"{where}: {expression}")
        unknown = {name for name in names if name not in self.known and not FOREIGN.match(name)}
        self.assertEqual(unknown, set(), where)

    def test_alerts_are_whole_and_name_metrics_that_exist(self):
        self.assertEqual(len({rule["alert"] for rule in self.rules}), len(self.rules))
        for rule in self.rules:
            self.check_known(rule["expr"], rule["alert"])
            self.assertIn(rule["labels"]["severity"], SEVERITIES)
            self.assertRegex(rule.get("for", "1s"), DURATION)
            self.assertEqual(set(rule["annotations"]), {"summary", "action"})
            self.assertEqual(rule["expr"].count("("), rule["expr"].count(")"), rule["alert"])

    def test_counters_are_looked_at_over_a_window(self):
        inside = re.compile(r"\b(?:rate|increase)\((\w[\w:]*)(?:\{[^}]*\})?\[\d+[smhd]\]\)")
        for where, expression in [(r["alert"], r["expr"]) for r in self.rules] + [
                (p["title"], t["expr"]) for p in self.panels for t in p["targets"]]:
            bare = {n for n in metrics_in(inside.sub("", expression)) if n.endswith(("_total", "_bucket", "_TOTAL"))}
            self.assertEqual(bare, set(), where)

    def test_the_conditions_of_the_book_are_there(self):
        by_name = {rule["alert"]: (rule["expr"], rule["labels"]["severity"]) for rule in self.rules}
        for alert, end, severity in (("GpuIdle", "< 10", "info"), ("GpuBusy", "> 90", "info"), ("GpuMemoryHigh", "> 0.80", "warning"),
                                     ("GpuMemoryFull", "> 0.95", "critical"), ("GpuHot", "> 85", "warning"),
                                     ("GpuTooHot", "> 95", "critical"), ("NvlinkReplay", "> 0", "critical"),
                                     ("NvlinkCrc", "> 100", "critical"), ("PcieReplay", "> 0", "critical"),
                                     ("EccUncorrectable", "> 0", "critical")):
            expression, level = by_name[alert]
            self.assertTrue(expression.endswith(end), alert)
            self.assertEqual(level, severity, alert)

    def test_the_board_has_panels_that_do_not_overlap_and_show_what_exists(self):
        ids = [panel["id"] for panel in self.board["panels"]]
        self.assertEqual(len(set(ids)), len(ids))
        taken = set()
        for panel in self.board["panels"]:
            place = panel["gridPos"]
            cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
            self.assertFalse(cells & taken, panel["title"])
            self.assertLessEqual(place["x"] + place["w"], 24)
            taken |= cells
        for panel in self.panels:
            for target in panel["targets"]:
                self.check_known(target["expr"], panel["title"])

    def test_scraping_is_configured_for_every_source(self):
        jobs = {job["job_name"] for job in documents(DEPLOY / "prometheus" / "scrape.yaml")[0]["scrape_configs"]}
        self.assertEqual(jobs, {"cheetah", "etcd", "dcgm"})


if __name__ == "__main__":
    unittest.main()
