"""The image is built of what is locked, by whom it must be, and of nothing else."""

import re
from pathlib import Path

from app.settings import PREFIX, Settings
from tests.support.deployments import ROOT, pods

DOCKERFILE = (ROOT / "Dockerfile").read_text()
LAST_STAGE = DOCKERFILE[DOCKERFILE.rindex("\nFROM") :]
REQUIREMENTS = ROOT / "requirements"


def let_in() -> set[str]:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in lines
    return {line.removeprefix("!") for line in lines if line.startswith("!")}


def pinned(path: Path) -> set[str]:
    """`name==version`, without the marker that says where it is wanted."""
    return set(re.findall(r"^([\w.\-\[\],]+==[\w.]+)", path.read_text(), re.MULTILINE))


def test_what_it_copies_is_let_in() -> None:
    copies = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)
    sources = {source.split("/")[0] for line in copies for source in line.split()}
    assert sources == let_in()


def test_every_installation_is_hashed_or_takes_nothing_from_outside() -> None:
    commands = re.split(r"&&|\n", DOCKERFILE.replace("\\\n", ""))
    installs = [command for command in commands if re.search(r"\bpip\b.* (install|wheel) ", command)]
    assert len(installs) == 4
    for install in installs:
        assert "--require-hashes" in install or "--no-deps" in install


def test_the_second_engine_comes_with_the_same_versions_of_all_else() -> None:
    assert pinned(REQUIREMENTS / "production.txt") < pinned(REQUIREMENTS / "rapidocr.txt")
    assert any(name.startswith("rapidocr==") for name in pinned(REQUIREMENTS / "rapidocr.txt"))


def test_it_runs_as_the_account_that_kubernetes_names() -> None:
    user = re.search(r"^USER (\d+):(\d+)$", LAST_STAGE, re.MULTILINE)
    assert user is not None
    for pod in pods().values():
        security = pod["securityContext"]
        assert security["runAsNonRoot"] is True
        assert (security["runAsUser"], security["runAsGroup"]) == (int(user[1]), int(user[2]))


def test_signals_reach_the_program_itself() -> None:
    assert 'ENTRYPOINT ["daira"]' in LAST_STAGE
    assert 'CMD ["serve"]' in LAST_STAGE


def test_it_is_for_production_unless_told_otherwise() -> None:
    told = dict(re.findall(rf"{PREFIX}(\w+)=(\S+)", LAST_STAGE.split("\nENV")[1].split("\nWORKDIR")[0]))
    assert told["ENV"] == "production"
    assert {name.lower() for name in told} <= Settings.model_fields.keys()
