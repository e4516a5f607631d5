"""Dockerfile, compose and deploy/ say what the program says: its settings, its graces, its paths, its memory."""

import re
from pathlib import Path

import pytest

from app.cli.serving import HTTP_GRACE
from app.domain.doorbells import Lane
from app.reading.engines.choose import MEMORY_BYTES
from app.settings import PREFIX, Settings
from app.web.routes import health
from tests.support.deployments import (
    COMPOSE,
    DEPLOY,
    ROOT,
    UNITS,
    compose,
    every_yaml,
    mebibytes,
    pods,
    read,
    seconds,
    services,
    settings_of,
    unit,
)
from tests.support.snippets import PAGES

NAMED = re.compile(r"\bdeploy/(?!daira-)[\w./@*-]+")
"""Files of the repository: `deploy/daira-web` is what kubectl calls a deployment."""

KNOWN = {PREFIX + name.upper() for name in Settings.model_fields}
GRACE = Settings.model_fields["grace_seconds"].default
SPARE = 10
"""Seconds to give back what is not done, and to close what is open."""

SERVING = ("web", "worker")
DOCKERFILES = [ROOT / "Dockerfile", *sorted(DEPLOY.rglob("*.Dockerfile"))]
OF_THE_PROGRAM = 512
"""Mebibytes, and generous: a process takes 130 to 200."""


def mentioned(path: Path) -> set[str]:
    return set(re.findall(r"\bDAIRA_[A-Z_]*[A-Z]\b", path.read_text()))


def written() -> list[Path]:
    return [path for path in DEPLOY.rglob("*") if path.is_file()] + [COMPOSE, *DOCKERFILES]


def test_every_file_for_those_who_deploy_can_be_read() -> None:
    assert all(read(path) for path in every_yaml())
    assert UNITS


def test_each_setting_that_is_named_exists() -> None:
    assert {path: mentioned(path) - KNOWN for path in written() if mentioned(path) - KNOWN} == {}


@pytest.mark.parametrize("chosen", [{}, {"DAIRA_QUEUE_URL": "sqs://daira", "DAIRA_BLOB_URL": "s3://daira-documents/x"}])
def test_the_settings_of_compose_are_accepted(
    chosen: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for service in (*SERVING, "roles", "migrate"):
        with monkeypatch.context() as alone:
            for name, value in settings_of(services()[service], **chosen).items():
                alone.setenv(name, value)
            settings = Settings()
        assert settings.env == "production"
        assert not settings.embedded
    assert settings_of(services()["web"], **chosen)["DAIRA_QUEUE_URL"] == chosen.get(
        "DAIRA_QUEUE_URL", "redis://valkey:6379/0"
    )


def test_only_who_makes_roles_and_schema_has_passwords_that_can() -> None:
    able = {"DAIRA_MIGRATION_DATABASE_URL", "DAIRA_ADMIN_DATABASE_URL"}
    assert {name for name, service in services().items() if able & settings_of(service).keys()} == {"roles", "migrate"}
    secrets = {name: pod["containers"][0]["envFrom"] for name, pod in pods().items()}
    assert {name for name, sources in secrets.items() if "daira-migration" in str(sources)} == {"migrate"}


@pytest.mark.parametrize("name", services())
def test_each_service_of_compose_is_kept_down(name: str) -> None:
    service = services()[name]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert {"cpus", "memory"} <= service["deploy"]["resources"]["limits"].keys()
    assert service.get("read_only") or name == "llm", "models are loaded into its own folders"
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


def test_volumes_of_compose_are_named_or_are_files_of_ours() -> None:
    named = compose()["volumes"].keys()
    for service in services().values():
        for volume in service.get("volumes", []):
            source, *_, mode = volume.split(":")
            assert source in named or (source.startswith("./deploy/") and mode == "ro")


def test_nobody_is_killed_within_the_grace() -> None:
    needed = HTTP_GRACE + GRACE + SPARE
    assert [name for name in SERVING if seconds(services()[name]["stop_grace_period"]) < needed] == []
    assert [path for path in UNITS if int(unit(path)["TimeoutStopSec"]) < needed] == []
    for name in SERVING:
        container = pods()[name]["containers"][0]
        pause = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        assert pods()[name]["terminationGracePeriodSeconds"] >= pause + needed


def test_the_grace_that_kubernetes_sets_is_the_default() -> None:
    (settings,) = [each for each in read(DEPLOY / "kubernetes/base/settings.yaml") if each["kind"] == "ConfigMap"]
    assert int(settings["data"]["DAIRA_GRACE_SECONDS"]) == GRACE


def test_probes_ask_for_paths_that_are_served_without_a_key() -> None:
    served = {getattr(route, "path", "") for route in health.router.routes}
    for name in SERVING:
        container = pods()[name]["containers"][0]
        assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
        assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
        assert {container[probe]["httpGet"]["path"] for probe in container if probe.endswith("Probe")} <= served
    assert "/healthz" in (ROOT / "Dockerfile").read_text()


def test_a_worker_may_take_as_much_memory_as_its_readers_may() -> None:
    readers = Settings.model_fields["lanes"].default[Lane.OCR]
    needed = readers * MEMORY_BYTES // 2**20 + OF_THE_PROGRAM
    limits = [
        services()["worker"]["deploy"]["resources"]["limits"]["memory"],
        pods()["worker"]["containers"][0]["resources"]["limits"]["memory"],
        *(unit(path)["MemoryMax"] for path in UNITS),
    ]
    assert [limit for limit in limits if mebibytes(limit) < needed] == []


def test_the_units_of_systemd_differ_in_role_and_port_alone() -> None:
    web, worker = (unit(path) for path in UNITS)
    assert "DAIRA_ROLE=web" in web.pop("Environment")
    assert "DAIRA_ROLE=worker" in worker.pop("Environment")
    assert web == worker
    assert web["RestartPreventExitStatus"] == "78"


def test_the_command_of_the_operator_has_the_settings_and_the_program_of_the_units() -> None:
    script = (DEPLOY / "systemd" / "daira").read_text()
    for path in UNITS:
        assert f"\n. {unit(path)['EnvironmentFile']}\n" in script
        program = unit(path)["ExecStart"].removesuffix(" serve")
        assert f' -- {program} "$@"\n' in script


def test_what_the_pages_say_to_install_is_there() -> None:
    named = {path.rstrip(".") for page in PAGES for path in NAMED.findall((ROOT / page).read_text())}
    assert {"deploy/nginx/daira.conf", "deploy/systemd/daira", "deploy/systemd/*.service"} <= named
    assert sorted(path for path in named if not list(ROOT.glob(path))) == []
