"""A server that asks for passwords, which the tests' own does not: the roles log in with what stands in the URLs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.service import run
from tests.support.tcp_postgres import running_postgres

ADMIN = "ADMIN_SECRET"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with running_postgres(password=ADMIN) as port:
        yield port


def urls(port: int, secret: str) -> dict[str, str]:
    return {
        "DAIRA_ADMIN_DATABASE_URL": f"postgresql://postgres:{ADMIN}@127.0.0.1:{port}/postgres",
        "DAIRA_MIGRATION_DATABASE_URL": f"postgresql://daira_owner:{secret}@127.0.0.1:{port}/daira",
        "DAIRA_DATABASE_URL": f"postgresql://daira_app:{secret}@127.0.0.1:{port}/daira",
    }


# The second one is p@ss/w%rd:é#?&'\ and the third one, literally, p%40.
@pytest.mark.parametrize("secret", ["plain", "p%40ss%2Fw%25rd%3A%C3%A9%23%3F%26%27%5C", "p%2540"])
def test_roles_log_in_with_any_password_that_is_percent_encoded_in_the_urls(
    port: int, secret: str, tmp_path: Path
) -> None:
    ours = urls(port, secret)
    for command in (["db", "init"], ["migrate"], ["tenant", "list"]):
        done = run(*command, cwd=tmp_path, **ours)
        assert done.returncode == 0, done.stderr
    refused = run("tenant", "list", cwd=tmp_path, **urls(port, "another"))
    assert refused.returncode == 1
    assert "password authentication failed" in refused.stderr


def test_a_password_that_is_not_percent_encoded_is_told_and_not_repeated(port: int, tmp_path: Path) -> None:
    for secret in ("se/cret", "se?cret", "se#cret", "se@cret"):
        refused = run("db", "init", cwd=tmp_path, **urls(port, secret))
        assert refused.returncode == 2, secret
        assert "DAIRA_DATABASE_URL" in refused.stderr
        assert "percent-encoded" in refused.stderr
        assert "cret" not in refused.stderr
