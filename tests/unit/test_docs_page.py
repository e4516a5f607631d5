"""The page to try the API at: whole without any other host."""

import re

from tests.unit.served import Served


async def test_all_that_the_page_loads_is_served_here(web: Served) -> None:
    page = await web.client.get("/docs", headers={"Authorization": ""})
    assert page.headers["Content-Type"].startswith("text/html")
    loaded = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(loaded) == 3
    assert "://" not in page.text
    for address in loaded:
        if not address.startswith("data:"):
            part = await web.client.get(address, headers={"Authorization": ""})
            assert part.status_code == 200
            assert len(part.content) > 100_000


async def test_nothing_else_may_run_on_it_or_be_told_the_key(web: Served) -> None:
    policy = (await web.client.get("/docs")).headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "http" not in policy


async def test_a_part_that_is_not_there_is_a_problem_like_any_other(web: Served) -> None:
    for path in ("/docs/static/nothing.js", "/docs/static/..%2f__init__.py", "/docs/static/"):
        answer = await web.client.get(path)
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
