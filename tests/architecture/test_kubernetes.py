"""What Kubernetes is told: nothing that a pod does not need, nothing public but the API, replicas by the table."""

import configparser
import re

import pytest

from app.domain.doorbells import LANE_OF_KIND, Lane
from app.settings import Role, Settings
from app.wiring import ConnectionBudget, connection_budget
from tests.support.deployments import DEPLOY, objects, pods, read

KUBERNETES = DEPLOY / "kubernetes"
ADMITTED = 97
"""Connections of a Postgres with max_connections = 100, less three that are reserved for superusers."""

SCALED = read(KUBERNETES / "components/keda/worker.yaml")[0]["spec"]


@pytest.mark.parametrize("name", ["web", "worker", "migrate"])
def test_a_pod_may_do_nothing_but_its_work(name: str) -> None:
    pod = pods()[name]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["volumeMounts"] == [{"name": "tmp", "mountPath": "/tmp"}]  # noqa: S108 - within the pod
        assert {"cpu", "memory"} <= container["resources"]["requests"].keys()
        assert "memory" in container["resources"]["limits"]


@pytest.mark.parametrize("name", ["web", "worker", "migrate"])
def test_no_service_is_told_to_a_pod_as_a_setting(name: str) -> None:
    """DAIRA_WEB_PORT=tcp://… would be an unknown one, and each start the last."""
    assert pods()[name]["enableServiceLinks"] is False


def test_what_selects_a_pod_selects_one() -> None:
    component = "app.kubernetes.io/component"
    specs = [each["spec"] for each in objects() if "spec" in each]
    known = {spec["template"]["metadata"]["labels"][component] for spec in specs if "template" in spec}
    assert known == set(pods())
    selectors = [spec.get("podSelector") or spec.get("selector") or {} for spec in specs]
    chosen = {selector.get("matchLabels", selector).get(component) for selector in selectors}
    assert chosen - {None} == {"web", "worker"}


def test_both_tiers_survive_the_loss_of_a_node() -> None:
    budgets = {each["metadata"]["name"] for each in objects() if each["kind"] == "PodDisruptionBudget"}
    assert budgets == {"daira-web", "daira-worker"}


def test_workers_are_scaled_by_the_table_and_never_by_the_length_of_a_queue() -> None:
    queries = [trigger["metadata"]["query"] for trigger in SCALED["triggers"]]
    assert [trigger["type"] for trigger in SCALED["triggers"]] == ["prometheus", "prometheus"]
    used = {name for query in queries for name in re.findall(r"daira_\w+", query)}
    assert used == {"daira_jobs_due", "daira_jobs_running", "daira_oldest_due_seconds"}
    kinds = {kind for query in queries for kind in re.findall(r'kind="(\w+)"', query)}
    assert {LANE_OF_KIND[kind] for kind in kinds} == {Lane.OCR}


def test_a_replica_is_asked_for_as_many_jobs_as_a_worker_has_slots() -> None:
    due = next(trigger for trigger in SCALED["triggers"] if trigger["name"] == "due")
    (worker,) = pods()["worker"]["containers"]
    told = next(each["value"] for each in worker["env"] if each["name"] == "DAIRA_LANES")
    assert told.startswith(f"ocr={due['metadata']['threshold']},")
    assert int(due["metadata"]["threshold"]) == Settings.model_fields["lanes"].default[Lane.OCR]
    assert int(worker["resources"]["requests"]["cpu"]) == int(due["metadata"]["threshold"])


def test_the_connections_at_the_largest_scale_fit_into_an_ordinary_server() -> None:
    scaler = next(each for each in objects() if each["kind"] == "HorizontalPodAutoscaler")
    # One more of each, while they are replaced.
    webs, workers = scaler["spec"]["maxReplicas"] + 1, SCALED["maxReplicaCount"] + 1
    web, worker = (budget(role) for role in (Role.WEB, Role.WORKER))
    pooler = configparser.ConfigParser()
    pooler.read(KUBERNETES / "components/pgbouncer/pgbouncer.ini")
    clients = webs * sum(web.pooled.values()) + workers * sum(worker.pooled.values())
    assert clients <= int(pooler["pgbouncer"]["max_client_conn"])
    direct = webs * sum(web.direct.values()) + workers * sum(worker.direct.values())
    assert direct + int(pooler["pgbouncer"]["default_pool_size"]) <= ADMITTED


def budget(role: Role) -> ConnectionBudget:
    """With the queue in Postgres, which takes most."""
    (secret, *_) = read(KUBERNETES / "overlays/example/secrets.yaml")
    urls = {name.removeprefix("DAIRA_").lower(): url for name, url in secret["stringData"].items()}
    return connection_budget(Settings(_env_file=None, role=role, **urls))


def test_the_public_reach_the_api_alone() -> None:
    (ingress,) = read(KUBERNETES / "overlays/example/ingress.yaml")
    paths = [path["path"] for rule in ingress["spec"]["rules"] for path in rule["http"]["paths"]]
    assert paths == ["/v1"]
    policies = [each["spec"] for each in objects() if each["kind"] == "NetworkPolicy"]
    assert any(not policy.get("ingress") for policy in policies), "what is not let in stays out"
