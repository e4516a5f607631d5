"""Commit messages have a short subject with its area, and a body with the reason."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.ci_scripts import load

subjects = load("subjects")

BODY = "\n\nThe problem, and the reason.\n"
GOOD = (
    "web: build problem+json in one place",
    "docs/decisions: name versions",
    "tests,ci: one helper",
    "s3: x" + "y" * 67,
)
BAD = {
    "Web: build problem+json in one place": "is not `area",
    "a sentence without an area": "is not `area",
    "web:no blank": "is not `area",
    "web: a full stop.": "is not `area",
    "two words: are no area": "is not `area",
    ": nothing": "is not `area",
    "s3: x" + "y" * 68: "has 73 characters",
}


class Repository:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *arguments: str, text: str = "") -> str:
        ours = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "PATH": os.environ["PATH"]}
        for role in ("AUTHOR", "COMMITTER"):
            ours |= {f"GIT_{role}_NAME": "n", f"GIT_{role}_EMAIL": "n@example.org"}
        command = ["git", "-C", str(self.folder), *arguments]
        return subprocess.run(command, env=ours, input=text, capture_output=True, text=True, check=True).stdout.strip()

    def commit(self, message: str) -> str:
        self.git("commit", "--quiet", "--allow-empty", "--file=-", text=message)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


@pytest.mark.parametrize("subject", GOOD)
def test_a_subject_with_its_area_is_accepted(subject: str) -> None:
    assert subjects.faults(subject + BODY) == []


@pytest.mark.parametrize(("subject", "fault"), BAD.items(), ids=BAD)
def test_another_subject_is_refused(subject: str, fault: str) -> None:
    [found] = subjects.faults(subject + BODY)
    assert fault in found


def test_a_message_needs_a_body_after_an_empty_line() -> None:
    assert len(subjects.faults("web: x\n")) == 1
    assert len(subjects.faults("web: x\nThe reason.\n")) == 1


def test_each_bad_commit_after_the_base_is_printed(repository: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    repository.commit("An old sentence.")
    base = repository.commit("The last of the old sentences.")
    repository.commit("web: good" + BODY)
    assert subjects.main(repository.folder, base=base) == 0
    repository.commit("Bad" + BODY)
    repository.commit("web: no body")
    assert subjects.main(repository.folder, base=base) == 1
    printed = capsys.readouterr().out
    assert "['Bad']: the subject is not" in printed
    assert "['web: no body']: the message has no body" in printed
    assert "old sentence" not in printed
    assert "3 commits checked, 2 faults" in printed


def test_a_merge_is_exempt(repository: Repository) -> None:
    base = repository.commit("The base.")
    repository.git("checkout", "--quiet", "-b", "side")
    repository.commit("web: good" + BODY)
    repository.git("checkout", "--quiet", "main")
    repository.git("merge", "--quiet", "--no-ff", "--message=Merge branch 'side'", "side")
    assert subjects.main(repository.folder, base=base) == 0


def test_a_clone_without_the_base_is_checked_as_far_as_it_goes(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.commit("web: good" + BODY)
    assert subjects.main(repository.folder) == 0
    assert "not in this clone's history" in capsys.readouterr().out
    repository.commit("Bad" + BODY)
    assert subjects.main(repository.folder) == 1
