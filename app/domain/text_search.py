"""Stemming: the rules of Postgres by which a language's words become search terms."""

import re
from collections.abc import Mapping

SIMPLE = "simple"
"""Words unchanged but in lower case, for languages that Postgres has no rules for."""

CHARACTERS = "characters"
"""Daira's own configuration: each character is a word, for scripts without spaces between words."""

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
"""The configurations of Postgres 15, which later versions have too, by ISO 639-2 codes and Tesseract's own language
names."""

OF_LANGUAGE = {code: name for name, codes in NAMES.items() for code in codes.split()}

ALL = (SIMPLE, *NAMES)

UNSPACED = "⺀-⿟々-〇぀-ヿㇰ-ㇿ㐀-䶿一-鿿豈-﫿𠀀-𯿿"
"""Han, Hiragana and Katakana, as ranges of a regular expression's class.
They mean the same to Python and to Postgres."""

_CHARACTER = re.compile(f"([{UNSPACED}])")

MOST = 3
"""The most stemmings of one page. Each takes as much space as the first."""


def stemmings(language: str) -> tuple[str, ...]:
    """Return the stemmings of a page in `deu`, `chi_sim` or `deu+eng` (both languages), in that order."""
    codes = [code.partition("_")[0].lower() for code in language.split("+")]
    return tuple(dict.fromkeys(OF_LANGUAGE.get(code, SIMPLE) for code in codes))[:MOST]


def config_of(stemming: str) -> str:
    """Return the name of the configuration in Postgres."""
    return SIMPLE if stemming == CHARACTERS else stemming


def with_spaces(text: str, stemming: str) -> str:
    """Return a query's text as the stemming needs it, for example `請求書` as three words."""
    if stemming != CHARACTERS or not _CHARACTER.search(text):
        return text
    return " ".join(_CHARACTER.sub(r" \1 ", text).split())
