"""A server that asks for passwords, which the tests' own does not: the roles log in with what stands in the URLs."""

from collections.abc import Iterator

import pytest

from app.adapters.postgres.engine import administer
from app.adapters.postgres.isolation.roles import make_roles
from app.adapters.postgres.migrations import migrate
from app.domain.errors import Unavailable
from tests.support.tcp_postgres import running_postgres

ADMIN = "ADMIN_SECRET"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with running_postgres(password=ADMIN) as port:
        yield port


# The second one is p@ss/w%rd:é#?&'\ and the third one, literally, p%40.
@pytest.mark.parametrize("secret", ["plain", "p%40ss%2Fw%25rd%3A%C3%A9%23%3F%26%27%5C", "p%2540"])
async def test_roles_log_in_with_any_password_that_is_percent_encoded_in_the_urls(port: int, secret: str) -> None:
    owner, app = (f"postgresql://daira_{role}:{secret}@127.0.0.1:{port}/daira" for role in ("owner", "app"))
    await make_roles(f"postgresql://postgres:{ADMIN}@127.0.0.1:{port}/postgres", owner_url=owner, app_url=app)
    await migrate(owner)
    async with administer(app) as login:
        assert await login.fetchval("select current_user::text") == "daira_app"
    with pytest.raises(Unavailable, match="password authentication failed"):
        async with administer(app.replace(secret, "another")):
            pass
