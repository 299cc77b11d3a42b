# SPDX-License-Identifier: MIT
"""What Kubernetes takes: for each kind that deploy/ uses the fields its API server knows, strictly. An unknown field, a wrong
type or a missing required one is an error, as kubeconform -strict has it.

A type is a name of a function below, a set (these words), a list of one type, {"*": type} (a map), or a dict of fields; a
field that ends in "!" is required."""
import re

QUANTITY = re.compile(r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|e[0-9]+)?$")
NAME = re.compile(r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
LABEL_KEY = re.compile(r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$")
LABEL = re.compile(r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$")


def text(value):
    return isinstance(value, str)


def whole(value):
    return isinstance(value, int) and not isinstance(value, bool)


def flag(value):
    return isinstance(value, bool)


def port_number(value):
    return whole(value) and 1 <= value <= 65535


def port(value):
    return port_number(value) or (text(value) and bool(re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?", value)))


def whole_or_text(value):
    return whole(value) or text(value)


def quantity(value):
    return whole(value) or (text(value) and bool(QUANTITY.match(value)))


def name(value):
    return text(value) and len(value) <= 253 and bool(NAME.match(value))


def file_mode(value):
    return whole(value) and 0 <= value <= 0o777


def labels(value):
    return isinstance(value, dict) and all(LABEL_KEY.match(key) and text(each) and LABEL.match(each) for key, each in value.items())


def annotations(value):
    return isinstance(value, dict) and all(LABEL_KEY.match(key) and text(each) for key, each in value.items())


METADATA = {"name!": name, "namespace": name, "labels": labels, "annotations": annotations}
POD_METADATA = {"name": name, "labels": labels, "annotations": annotations}
SELECTOR = {"matchLabels": labels, "matchExpressions": [{"key!": text, "operator!": {"In", "NotIn", "Exists", "DoesNotExist"}, "values": [text]}]}
HTTP_GET = {"path": text, "port!": port, "scheme": {"HTTP", "HTTPS"}, "host": text, "httpHeaders": [{"name!": text, "value!": text}]}
HANDLER = {"httpGet": HTTP_GET, "exec": {"command": [text]}, "tcpSocket": {"port!": port, "host": text}}
PROBE = {**HANDLER, "grpc": {"port!": port_number, "service": text}, "initialDelaySeconds": whole, "periodSeconds": whole, "timeoutSeconds": whole,
         "successThreshold": whole, "failureThreshold": whole, "terminationGracePeriodSeconds": whole}
KEY_OF = {"name!": name, "key!": text, "optional": flag}
ENV = [{"name!": text, "value": text, "valueFrom": {"fieldRef": {"fieldPath!": text, "apiVersion": text}, "secretKeyRef": KEY_OF, "configMapKeyRef": KEY_OF,
                                                    "resourceFieldRef": {"resource!": text, "containerName": text, "divisor": quantity}}}]
RESOURCES = {"requests": {"*": quantity}, "limits": {"*": quantity}, "claims": [{"name!": text, "request": text}]}
CAPABILITIES = {"add": [text], "drop": [text]}
SECCOMP = {"type!": {"RuntimeDefault", "Unconfined", "Localhost"}, "localhostProfile": text}
CONTAINER = {
    "name!": name, "image!": text, "imagePullPolicy": {"Always", "IfNotPresent", "Never"}, "command": [text], "args": [text], "env": ENV,
    "envFrom": [{"prefix": text, "secretRef": {"name!": name, "optional": flag}, "configMapRef": {"name!": name, "optional": flag}}],
    "ports": [{"name": port, "containerPort!": port_number, "protocol": {"TCP", "UDP", "SCTP"}, "hostPort": port_number, "hostIP": text}],
    "startupProbe": PROBE, "readinessProbe": PROBE, "livenessProbe": PROBE, "resources": RESOURCES, "workingDir": text, "restartPolicy": {"Always"},
    "lifecycle": {"preStop": {**HANDLER, "sleep": {"seconds!": whole}}, "postStart": HANDLER},
    "securityContext": {"allowPrivilegeEscalation": flag, "readOnlyRootFilesystem": flag, "privileged": flag, "runAsUser": whole, "runAsGroup": whole,
                        "runAsNonRoot": flag, "capabilities": CAPABILITIES, "seccompProfile": SECCOMP},
    "volumeMounts": [{"name!": name, "mountPath!": text, "readOnly": flag, "subPath": text}], "terminationMessagePolicy": {"File", "FallbackToLogsOnError"}}
ITEMS = [{"key!": text, "path!": text, "mode": file_mode}]
VOLUME = {
    "name!": name, "emptyDir": {"medium": {"", "Memory"}, "sizeLimit": quantity}, "configMap": {"name!": name, "items": ITEMS, "defaultMode": file_mode, "optional": flag},
    "secret": {"secretName!": name, "items": ITEMS, "defaultMode": file_mode, "optional": flag},
    "persistentVolumeClaim": {"claimName!": name, "readOnly": flag}, "hostPath": {"path!": text, "type": text}}
TOLERATIONS = [{"key": text, "operator": {"Exists", "Equal"}, "value": text, "effect": {"NoSchedule", "PreferNoSchedule", "NoExecute"}, "tolerationSeconds": whole}]
POD = {
    "serviceAccountName": name, "automountServiceAccountToken": flag, "terminationGracePeriodSeconds": whole, "restartPolicy": {"Always", "OnFailure", "Never"},
    "nodeSelector": labels, "tolerations": TOLERATIONS, "priorityClassName": name, "runtimeClassName": name, "hostIPC": flag, "hostNetwork": flag,
    "imagePullSecrets": [{"name!": name}], "affinity": {"*": dict},
    "securityContext": {"runAsNonRoot": flag, "runAsUser": whole, "runAsGroup": whole, "fsGroup": whole, "seccompProfile": SECCOMP,
                        "fsGroupChangePolicy": {"Always", "OnRootMismatch"}, "supplementalGroups": [whole]},
    "topologySpreadConstraints": [{"maxSkew!": whole, "topologyKey!": text, "whenUnsatisfiable!": {"ScheduleAnyway", "DoNotSchedule"}, "labelSelector": SELECTOR,
                                   "minDomains": whole}],
    "containers!": [CONTAINER], "initContainers": [CONTAINER], "volumes": [VOLUME]}
TEMPLATE = {"metadata": POD_METADATA, "spec!": POD}
NETWORK_PEER = {"podSelector": SELECTOR, "namespaceSelector": SELECTOR, "ipBlock": {"cidr!": text, "except": [text]}}
NETWORK_PORT = [{"port": port, "protocol": {"TCP", "UDP", "SCTP"}, "endPort": port_number}]
HPA_TARGET = {"type!": {"AverageValue", "Value", "Utilization"}, "averageValue": quantity, "value": quantity, "averageUtilization": whole}
HPA_METRIC = {"name!": text, "selector": SELECTOR}
HPA_RULES = {"stabilizationWindowSeconds": whole, "selectPolicy": {"Max", "Min", "Disabled"},
             "policies": [{"type!": {"Pods", "Percent"}, "value!": whole, "periodSeconds!": whole}]}
CLAIM = {"accessModes": [{"ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"}], "resources": {"requests": {"*": quantity}, "limits": {"*": quantity}},
         "storageClassName": text, "volumeName": text, "volumeMode": {"Filesystem", "Block"}}
KINDS = {
    ("v1", "Namespace"): {"spec": {}},
    ("v1", "ServiceAccount"): {"automountServiceAccountToken": flag, "imagePullSecrets": [{"name!": name}]},
    ("v1", "ConfigMap"): {"data": {"*": text}, "binaryData": {"*": text}, "immutable": flag},
    ("v1", "Secret"): {"data": {"*": text}, "stringData": {"*": text}, "type": text, "immutable": flag},
    ("v1", "PersistentVolumeClaim"): {"spec!": CLAIM},
    ("v1", "Service"): {"spec!": {
        "selector": labels, "type": {"ClusterIP", "NodePort", "LoadBalancer"}, "clusterIP": text, "publishNotReadyAddresses": flag, "loadBalancerClass": text,
        "sessionAffinity": {"None", "ClientIP"}, "internalTrafficPolicy": {"Cluster", "Local"}, "externalTrafficPolicy": {"Cluster", "Local"},
        "ports": [{"name": port, "port!": port_number, "targetPort": port, "protocol": {"TCP", "UDP", "SCTP"}, "nodePort": port_number, "appProtocol": text}]}},
    ("apps/v1", "Deployment"): {"spec!": {
        "replicas": whole, "selector!": SELECTOR, "template!": TEMPLATE, "minReadySeconds": whole, "revisionHistoryLimit": whole, "progressDeadlineSeconds": whole,
        "strategy": {"type": {"RollingUpdate", "Recreate"}, "rollingUpdate": {"maxSurge": whole_or_text, "maxUnavailable": whole_or_text}}}},
    ("apps/v1", "StatefulSet"): {"spec!": {
        "replicas": whole, "selector!": SELECTOR, "template!": TEMPLATE, "serviceName!": name, "podManagementPolicy": {"OrderedReady", "Parallel"},
        "minReadySeconds": whole, "volumeClaimTemplates": [{"metadata!": METADATA, "spec!": CLAIM}],
        "updateStrategy": {"type": {"RollingUpdate", "OnDelete"}, "rollingUpdate": {"partition": whole, "maxUnavailable": whole_or_text}}}},
    ("batch/v1", "Job"): {"spec!": {"template!": TEMPLATE, "backoffLimit": whole, "ttlSecondsAfterFinished": whole, "completions": whole, "parallelism": whole,
                                    "activeDeadlineSeconds": whole}},
    ("policy/v1", "PodDisruptionBudget"): {"spec!": {"maxUnavailable": whole_or_text, "minAvailable": whole_or_text, "selector": SELECTOR,
                                                     "unhealthyPodEvictionPolicy": {"IfHealthyBudget", "AlwaysAllow"}}},
    ("networking.k8s.io/v1", "NetworkPolicy"): {"spec!": {
        "podSelector!": SELECTOR, "policyTypes": [{"Ingress", "Egress"}], "ingress": [{"from": [NETWORK_PEER], "ports": NETWORK_PORT}],
        "egress": [{"to": [NETWORK_PEER], "ports": NETWORK_PORT}]}},
    ("autoscaling/v2", "HorizontalPodAutoscaler"): {"spec!": {
        "scaleTargetRef!": {"apiVersion": text, "kind!": text, "name!": name}, "minReplicas": whole, "maxReplicas!": whole,
        "behavior": {"scaleUp": HPA_RULES, "scaleDown": HPA_RULES},
        "metrics": [{"type!": {"External", "Resource", "Pods", "Object", "ContainerResource"}, "external": {"metric!": HPA_METRIC, "target!": HPA_TARGET},
                     "pods": {"metric!": HPA_METRIC, "target!": HPA_TARGET}, "resource": {"name!": text, "target!": HPA_TARGET}}]}},
    ("inference.networking.k8s.io/v1", "InferencePool"): {"spec!": {
        "selector!": {"matchLabels!": labels}, "targetPorts!": [{"number!": port_number}],
        "endpointPickerRef!": {"group": text, "kind": text, "name!": name, "port": {"number!": port_number}, "failureMode": {"FailOpen", "FailClose"}}}},
    ("monitoring.coreos.com/v1", "ServiceMonitor"): {"spec!": {
        "selector!": SELECTOR, "namespaceSelector": {"any": flag, "matchNames": [name]}, "jobLabel": text, "podTargetLabels": [text], "targetLabels": [text],
        "endpoints!": [{"port": port, "path": text, "interval": text, "scrapeTimeout": text, "scheme": {"http", "https"},
                        "authorization": {"type": text, "credentials": KEY_OF}}]}},
    ("monitoring.coreos.com/v1", "PodMonitor"): {"spec!": {
        "selector!": SELECTOR, "namespaceSelector": {"any": flag, "matchNames": [name]}, "jobLabel": text, "podTargetLabels": [text],
        "podMetricsEndpoints!": [{"port": port, "path": text, "interval": text, "scrapeTimeout": text, "scheme": {"http", "https"},
                                  "authorization": {"type": text, "credentials": KEY_OF}}]}},
}


def problems_of(value, wanted, where):
    """What is wrong with a value, a sentence each."""
    if isinstance(wanted, set):
        return [] if any(value == word for word in wanted) else [f"{where}: {value!r}: expected one of {sorted(wanted)}"]
    if isinstance(wanted, list):
        if not isinstance(value, list):
            return [f"{where}: {value!r}: expected a list"]
        return [each for i, item in enumerate(value) for each in problems_of(item, wanted[0], f"{where}[{i}]")]
    if wanted is dict:
        return [] if isinstance(value, dict) else [f"{where}: {value!r}: expected fields"]
    if not isinstance(wanted, dict):
        return [] if wanted(value) else [f"{where}: {value!r}: expected {wanted.__name__.replace('_', ' ')}"]
    if not isinstance(value, dict):
        return [f"{where}: {value!r}: expected fields"]
    if "*" in wanted:
        return [each for key, item in value.items() for each in problems_of(item, wanted["*"], f"{where}.{key}")]
    found = [f"{where}.{key[:-1]}: is missing" for key in wanted if key.endswith("!") and key[:-1] not in value]
    for key, item in value.items():
        known = wanted.get(key, wanted.get(key + "!"))
        found += [f"{where}.{key}: there is no such field"] if known is None else problems_of(item, known, f"{where}.{key}")
    return found


def check_object(document):
    """Of one object."""
    kind = (document.get("apiVersion"), document.get("kind"))
    if kind not in KINDS:
        return [f"{kind}: a kind that this schema does not know"]
    found = problems_of(document, {"apiVersion!": text, "kind!": text, "metadata!": METADATA, **KINDS[kind]}, f"{kind[1]}/{document.get('metadata', {}).get('name')}")
    spec = document.get("spec", {})
    pod = spec.get("template", {}).get("spec") if isinstance(spec, dict) else None
    if pod and not found:
        found += pod_problems(document, spec, pod)
    return found


def pod_problems(document, spec, pod):
    """What the API server checks across fields."""
    where, found = document["metadata"]["name"], []
    if "selector" in spec and not (spec["selector"].get("matchLabels") or {}).items() <= spec["template"]["metadata"]["labels"].items():
        found.append(f"{where}: the selector does not choose the template's pods")
    volumes = {volume["name"] for volume in pod.get("volumes", [])} | {claim["metadata"]["name"] for claim in spec.get("volumeClaimTemplates", [])}
    for container in pod["containers"] + pod.get("initContainers", []):
        for mount in container.get("volumeMounts", []):
            if mount["name"] not in volumes:
                found.append(f"{where}: mounts {mount['name']}, which is no volume")
        names = {each["name"] for each in container.get("ports", []) if "name" in each}
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            aim = (container.get(probe, {}).get("httpGet") or container.get(probe, {}).get("tcpSocket") or {}).get("port")
            if isinstance(aim, str) and aim not in names:
                found.append(f"{where}: {probe} asks the port {aim}, which the container does not have")
        for resource, limit in container.get("resources", {}).get("limits", {}).items():
            if "/" in resource and container["resources"].get("requests", {}).get(resource, limit) != limit:
                found.append(f"{where}: {resource} is requested and limited differently")
    return found
