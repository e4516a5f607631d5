"""Whatever error a request meets, the table of statuses knows it, or it is one of the worker's own."""

from collections.abc import Iterable, Iterator

import pytest

from app.domain import errors as domain
from app.domain.errors import AttemptOver, Collided, DairaError, DocumentFault, Misconfigured
from app.web.errors import FRAMEWORK_CODES, STATUS, TITLES

OF_THE_WORKER: set[type[DairaError]] = {AttemptOver, DocumentFault}
"""Never raised in a request: there they are as unforeseen as any other exception, and answered like one."""

ALIKE: set[type[DairaError]] = {Collided, Misconfigured}
"""A caller sees no difference to its parent, and is told no more."""


def all_errors(kind: type[DairaError] = DairaError) -> Iterator[type[DairaError]]:
    for each in kind.__subclasses__():
        yield each
        yield from all_errors(each)


def named(kinds: Iterable[type[DairaError]]) -> list[type[DairaError]]:
    return sorted(kinds, key=lambda kind: kind.__name__)


ERRORS = named(set(all_errors()))


@pytest.mark.parametrize("kind", [kind for kind in ERRORS if kind not in OF_THE_WORKER])
def test_every_error_has_a_status_of_its_own(kind: type[DairaError]) -> None:
    assert 400 <= STATUS[kind] < 600


@pytest.mark.parametrize("kind", named(OF_THE_WORKER))
def test_the_workers_errors_have_none(kind: type[DairaError]) -> None:
    assert not set(kind.__mro__) & set(STATUS)


def test_the_table_lists_no_error_that_is_none() -> None:
    assert set(STATUS) <= set(ERRORS)


@pytest.mark.parametrize("kind", list(STATUS))
def test_every_code_has_a_title(kind: type[DairaError]) -> None:
    assert TITLES[kind.code]


def test_the_codes_of_the_frameworks_errors_have_titles_too() -> None:
    assert set(FRAMEWORK_CODES.values()) <= set(TITLES)


def test_codes_are_told_apart() -> None:
    codes = [kind.code for kind in STATUS if kind not in ALIKE]
    assert len(set(codes)) == len(codes)


@pytest.mark.parametrize("kind", ERRORS)
def test_every_error_is_drawn_in_the_tree(kind: type[DairaError]) -> None:
    assert f"── {kind.__name__} " in (domain.__doc__ or "")


def test_all_errors_stand_in_one_file() -> None:
    assert {kind.__module__ for kind in ERRORS} == {domain.__name__}
