"""Stemming: by which rules of Postgres a language's words become the terms that are looked up."""

import re
from collections.abc import Mapping

SIMPLE = "simple"
"""Words as they are, in small letters: for languages that Postgres has no rules of."""

CHARACTERS = "characters"
"""Ours: each character is a word, for scripts that put no blanks between words."""

NAMES: Mapping[str, str] = {
    "arabic": "ara",
    "armenian": "hye arm",
    "basque": "eus baq",
    "catalan": "cat",
    "danish": "dan",
    "dutch": "nld dut",
    "english": "eng",
    "finnish": "fin",
    "french": "fra fre",
    "german": "deu ger frk",
    "greek": "ell gre",
    "hindi": "hin",
    "hungarian": "hun",
    "indonesian": "ind",
    "irish": "gle",
    "italian": "ita",
    "lithuanian": "lit",
    "nepali": "nep",
    "norwegian": "nor nob nno",
    "portuguese": "por",
    "romanian": "ron rum",
    "russian": "rus",
    "serbian": "srp",
    "spanish": "spa",
    "swedish": "swe",
    "tamil": "tam",
    "turkish": "tur",
    "yiddish": "yid",
    CHARACTERS: "chi zho jpn",
}
"""Those of Postgres 15, which later versions have too, by ISO 639-2 and what Tesseract calls some languages."""

OF_LANGUAGE = {code: name for name, codes in NAMES.items() for code in codes.split()}

ALL = (SIMPLE, *NAMES)

UNSPACED = "⺀-⿟々-〇぀-ヿㇰ-ㇿ㐀-䶿一-鿿豈-﫿𠀀-𯿿"
"""Han, Hiragana and Katakana, as ranges of a regular expression's class; the same to Python and to Postgres."""

_CHARACTER = re.compile(f"([{UNSPACED}])")

MOST = 3
"""Of one page: each costs as much room as the first."""


def stemmings(language: str) -> tuple[str, ...]:
    """Of a page in `deu`, `chi_sim`, or `deu+eng`, which may have words of both; in the order of the languages."""
    codes = [code.partition("_")[0].lower() for code in language.split("+")]
    return tuple(dict.fromkeys(OF_LANGUAGE.get(code, SIMPLE) for code in codes))[:MOST]


def config_of(stemming: str) -> str:
    """What Postgres calls it."""
    return SIMPLE if stemming == CHARACTERS else stemming


def spaced(text: str, stemming: str) -> str:
    """Text of a query as the stemming needs it: `請求書` as three words."""
    if stemming != CHARACTERS or not _CHARACTER.search(text):
        return text
    return " ".join(_CHARACTER.sub(r" \1 ", text).split())
