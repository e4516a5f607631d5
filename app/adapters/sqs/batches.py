"""Requests to SQS in batches of ten entries. An entry counts as done only if the answer says so."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

SIZE = 10
"""Entries in a request; a limit of SQS."""

AT_ONCE = 8
"""Simultaneous requests for one call."""

SqsEntry = Mapping[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedEntry:
    entry: SqsEntry
    code: str


async def in_batches(
    call: Callable[[list[SqsEntry]], Awaitable[Mapping[str, Any]]], entries: Sequence[SqsEntry]
) -> list[RefusedEntry]:
    """Send the entries and return those that failed or that no answer mentions.

    The first error of a request is raised once the requests under way have ended.
    """
    refused: list[RefusedEntry] = []
    batches = [list(part) for part in _parts(entries, SIZE)]
    for wave in _parts(batches, AT_ONCE):
        # All requests of a wave are awaited: an error must leave none running.
        results = await asyncio.gather(*(_one(call, batch) for batch in wave), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
            refused += result
    return refused


async def _one(
    call: Callable[[list[SqsEntry]], Awaitable[Mapping[str, Any]]], batch: Sequence[SqsEntry]
) -> list[RefusedEntry]:
    named = {str(number): entry for number, entry in enumerate(batch)}
    answer = await call([{**entry, "Id": name} for name, entry in named.items()])
    failed = {failure.get("Id"): failure.get("Code", "unknown") for failure in answer.get("Failed", [])}
    done = {success.get("Id") for success in answer.get("Successful", [])} - failed.keys()
    return [
        RefusedEntry(entry=entry, code=failed.get(name, "unanswered"))
        for name, entry in named.items()
        if name not in done
    ]


def _parts(sequence: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(sequence), size):
        yield sequence[start : start + size]
