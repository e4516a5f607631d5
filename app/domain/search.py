"""Search queries, parsed from words, and their results."""

import html
import re
import unicodedata
from dataclasses import dataclass
from typing import NamedTuple

from typing_extensions import override

from app.domain.errors import Invalid
from app.domain.ids import DocumentId
from app.domain.text import scrub
from app.domain.text_search import with_spaces

LONGEST = 200
"""Characters of a query."""

MOST_WORDS = 32
"""Words of a query. Each one is looked up in an index."""

MOST_ALTERNATIVES = 8

MOST_RANK = 1000

OPEN, CLOSE = "\x02", "\x03"
"""Marks around each match in a snippet. A snippet's own text never contains them."""

PART = re.compile(r'(-?)"([^"]*)"?|([^\s"]+)')
WORD = re.compile(r"\w")
AS_TYPED = str.maketrans("“”„«»<", '""""" ', "\N{SOFT HYPHEN}")


class SearchTerm(NamedTuple):
    """A word, or several words that must follow one another."""

    text: str
    phrase: bool = False
    excluded: bool = False

    @override
    def __str__(self) -> str:
        text = f'"{self.text}"' if self.phrase else self.text
        return f"-{text}" if self.excluded else text


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchAlternative:
    """Terms that a page must have, and terms that it must not have."""

    terms: tuple[SearchTerm, ...]

    def written(self, stemming: str) -> str:
        """Return the text that `websearch_to_tsquery` reads in this stemming."""
        return " ".join(str(_spaced(term, stemming)) for term in self.terms)

    @property
    def words(self) -> int:
        return sum(len(term.text.split()) for term in self.terms)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchQuery:
    """A parsed query. A page matches if it fits one of the alternatives."""

    alternatives: tuple[SearchAlternative, ...]


class SearchPosition(NamedTuple):
    """The last hit of a page of results: best rank first, then the newest document, then in order of pages."""

    rank: int
    document_id: DocumentId
    page: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHit:
    document_id: DocumentId
    filename: str
    page: int
    rank: int
    """1 to MOST_RANK: the frequency of the words on the page, relative to its length."""
    snippet: str
    """Text around the matched words, each between OPEN and CLOSE."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResults:
    hits: list[SearchHit]
    more: SearchPosition | None
    """The position to continue from; None at the end.
    It may be set with fewer hits than requested, because one query reads only a limited number of pages."""


def parse_query(text: str) -> SearchQuery:
    """Parse words, "phrases", `or` between alternatives, and `-` before terms that must be absent.

    Raises Invalid where there is nothing to look for.
    """
    if scrub(text) != text:
        raise _refused("the query has invalid characters (NUL, half of a surrogate pair): remove them")
    if len(text) > LONGEST:
        raise _refused(f"the query has more than {LONGEST} characters: use fewer words")
    normal = unicodedata.normalize("NFKC", text).translate(AS_TYPED)
    alternatives = [SearchAlternative(terms=tuple(terms)) for terms in _split(normal) if terms]
    if not alternatives:
        raise _refused("the query has no word: add at least one")
    if any(all(term.excluded for term in alternative.terms) for alternative in alternatives):
        raise _refused("the query only excludes words: add one to search for")
    if len(alternatives) > MOST_ALTERNATIVES or sum(a.words for a in alternatives) > MOST_WORDS:
        raise _refused(f"the query has more than {MOST_WORDS} words or {MOST_ALTERNATIVES} alternatives: use fewer")
    return SearchQuery(alternatives=tuple(alternatives))


def nothing_but_stop_words() -> Invalid:
    return _refused("the query has only words that are on almost every page: add a more specific one")


def snippet_html(snippet: str) -> str:
    """Return HTML that is safe to insert into a page: the text is escaped, and each match stands in `<mark>`."""
    return html.escape(" ".join(snippet.split())).replace(OPEN, "<mark>").replace(CLOSE, "</mark>")


def _split(text: str) -> list[list[SearchTerm]]:
    alternatives: list[list[SearchTerm]] = [[]]
    for minus, phrase, word in PART.findall(text):
        if word.lower() == "or":
            alternatives.append([])
        elif WORD.search(phrase):
            alternatives[-1].append(SearchTerm(phrase.strip(), phrase=True, excluded=bool(minus)))
        elif WORD.search(word):
            alternatives[-1].append(_word(word))
    return alternatives


def _word(word: str) -> SearchTerm:
    return SearchTerm(word.strip('"-'), excluded=word.startswith("-"))


def _spaced(term: SearchTerm, stemming: str) -> SearchTerm:
    """Split a word where each of its characters counts as a word; the word becomes a phrase."""
    text = with_spaces(term.text, stemming)
    return term._replace(text=text, phrase=term.phrase or text != term.text)


def _refused(reason: str) -> Invalid:
    return Invalid(reason, pointer="/q")
