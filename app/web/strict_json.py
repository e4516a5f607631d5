"""JSON from outside that is kept: nothing in it that the database or an answer can't hold."""

import json
import math

NESTING = 100
"""Levels of JSON that are kept; the encoder of answers gives up at 255."""

DIGITS = 300
"""Of a whole number: as many as another kind of number can have too."""

BYTE_ORDER_MARK = "\ufeff"
"""At the beginning of what Windows writes. RFC 8259 allows to pass over it."""


def parse_json(text: str) -> object:
    """Raises ValueError, in words for who has sent it; also for NaN."""
    try:
        value: object = json.loads(
            text.removeprefix(BYTE_ORDER_MARK), parse_constant=_no_constant, parse_int=_int, parse_float=_float
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    _look_through(value, NESTING)
    return value


def whole(number: object) -> object:
    """To JSON Schema, 150.0 is an integer."""
    return int(number) if isinstance(number, float) and number.is_integer() else number


def _no_constant(constant: str) -> object:
    raise ValueError(f"{constant} is not JSON")


def _int(digits: str) -> int:
    if len(digits) > DIGITS:
        raise ValueError(f"a number has more than {DIGITS} digits")
    return int(digits)


def _float(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError("a number is too large to be kept")
    return number


def _look_through(value: object, levels: int) -> None:
    if levels == 0:
        raise ValueError(f"it is nested more than {NESTING} levels deep")
    match value:
        case str():
            _look_at(value)
        case list():
            for part in value:
                _look_through(part, levels - 1)
        case dict():
            for name, part in value.items():
                _look_at(name)
                _look_through(part, levels - 1)
        case _:
            pass


def _look_at(text: str) -> None:
    if "\x00" in text:
        raise ValueError("a NUL character can't be stored")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("half of a surrogate pair is no character") from None
