"""Parsing of a model's answer: exactly one JSON value that fits its schema, or it is refused."""

import json
import math
import re
from typing import Any

from app.domain.text import scrub
from app.handlers.llm.schema_validation import SchemaValidator, TooMuchWorkError, schema_place

FENCED_BLOCK = re.compile(r"```(?:json)?[ \t]*\n(?P<inside>.*)\n[ \t]*```", re.DOTALL | re.IGNORECASE)
DEEPEST = 60


class UnusableAnswer(ValueError):
    """An answer that is refused.

    Its message is in Daira's own words only. The model gets it, and so does the caller if there is no other answer.
    """


def read_answer(text: str, validator: SchemaValidator) -> Any:
    value = parse_answer(text)
    try:
        fault = next(validator.faults(value), None)
    except TooMuchWorkError:
        raise UnusableAnswer("the answer takes too long to be checked") from None
    if fault is not None:
        raise UnusableAnswer(f"the answer does not fit the schema at {schema_place(fault)[:300]}")
    return value


def parse_answer(text: str) -> object:
    """Parse one JSON value. A fence around the whole answer is removed; nothing is repaired, completed or cut off."""
    fenced = FENCED_BLOCK.fullmatch(text.strip())
    try:
        value: object = json.loads(
            fenced["inside"] if fenced else text,
            object_pairs_hook=_object,
            parse_constant=_refuse_constant,
            parse_float=_finite,
        )
    except UnusableAnswer:
        raise
    except RecursionError:
        raise UnusableAnswer("the answer is nested too deeply") from None
    except ValueError:
        raise UnusableAnswer("the answer is not one JSON value and nothing else") from None
    if not _fits(value, DEEPEST):
        raise UnusableAnswer("the answer is nested too deeply")
    return scrub(value) if isinstance(value, str) else _scrubbed_list(value)


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Build an object. Names are scrubbed here and not at the end, where two could become one and a value be lost."""
    made: dict[str, object] = {}
    for name, value in pairs:
        clean = scrub(name)
        if clean in made:
            raise UnusableAnswer("the answer has a name twice in one object")
        made[clean] = scrub(value) if isinstance(value, str) else _scrubbed_list(value)
    return made


def _scrubbed_list(value: object) -> object:
    """Scrub the texts of a list. Objects inside were scrubbed when they were built."""
    if not isinstance(value, list):
        return value
    return [scrub(each) if isinstance(each, str) else _scrubbed_list(each) for each in value]


def _refuse_constant(name: str) -> object:
    raise UnusableAnswer(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise UnusableAnswer("the answer has a number that is too large")
    return number


def _fits(value: object, levels: int) -> bool:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels > 0 and all(_fits(part, levels - 1) for part in parts)
