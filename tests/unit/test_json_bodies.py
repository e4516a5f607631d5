"""JSON that is kept: what can't be is refused in words for who has sent it."""

import pytest

from app.web.bodies import parse_json

WORDS_OF_PYTHON = ("codec", "sys.", "float", "utf-8-sig", "int")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("NaN", "NaN is not JSON"),
        ("[1e999]", "too large"),
        ('{"a": -1e999}', "too large"),
        ("9" * 10_000, "digits"),
        ('"\\ud800"', "surrogate"),
        ('{"\\udfff": 1}', "surrogate"),
        ('"\\u0000"', "NUL"),
        ('{"a": [{"\\u0000": 1}]}', "NUL"),
        ("[" * 100_000, "too deeply"),
        ("[" * 101 + "]" * 101, "100 levels"),
    ],
    ids=lambda text: text[:12],
)
def test_what_cannot_be_kept_is_refused_in_plain_words(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as refused:
        parse_json(text)
    assert not [word for word in WORDS_OF_PYTHON if word in str(refused.value)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"pattern": "[^\\\\u0000]*"}', {"pattern": r"[^\u0000]*"}),
        ('"\\ud83e\\udd8a"', "🦊"),
        ('\ufeff{"kind": "ocr"}', {"kind": "ocr"}),
        ("123456789012345678901234567890", 123456789012345678901234567890),
        ("1e-999", 0.0),
        ("[" * 99 + "]" * 99, None),
    ],
    ids=["a backslash and u0000", "a pair", "byte order mark", "30 digits", "next to nothing", "99 levels"],
)
def test_what_can_be_kept_is_kept(text: str, value: object) -> None:
    assert value is None or parse_json(text) == value
