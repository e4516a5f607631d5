"""`docs/reference.md` says what the OpenAPI document says."""

from tests.architecture.test_openapi import CONTRACT, anonymous
from tests.support.api_reference import PATH, render


def test_the_page_is_the_one_drawn_from_the_document() -> None:
    assert PATH.read_text() == render(), "run `python -m tests.support.api_reference`"


def test_every_operation_has_its_section() -> None:
    headings = [line.removeprefix("### ") for line in PATH.read_text().splitlines() if line.startswith("### ")]
    assert {anonymous(heading) for heading in headings if "/" in heading} == CONTRACT
