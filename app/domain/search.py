"""Search: what is asked for in words, and what is found."""

import html
import re
import unicodedata
from dataclasses import dataclass
from typing import NamedTuple

from typing_extensions import override

from app.domain.errors import Invalid
from app.domain.ids import DocumentId
from app.domain.text import scrub
from app.domain.text_search import spaced

LONGEST = 200
"""Characters of a query."""

MOST_WORDS = 32
"""Of a query: each is looked up in an index."""

MOST_ALTERNATIVES = 8

MOST_RANK = 1000

OPEN, CLOSE = "\x02", "\x03"
"""Around what was found, in a snippet: no snippet has them in its text."""

PART = re.compile(r'(-?)"([^"]*)"?|([^\s"]+)')
WORD = re.compile(r"\w")
AS_TYPED = str.maketrans("“”„«»<", '""""" ', "\N{SOFT HYPHEN}")


class Term(NamedTuple):
    """A word, or several that are to stand one after the other."""

    text: str
    phrase: bool = False
    excluded: bool = False

    @override
    def __str__(self) -> str:
        text = f'"{self.text}"' if self.phrase else self.text
        return f"-{text}" if self.excluded else text


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """Terms that a page must have, and such as it must not have."""

    terms: tuple[Term, ...]

    def written(self, stemming: str) -> str:
        """As `websearch_to_tsquery` reads it in this stemming."""
        return " ".join(str(_spaced(term, stemming)) for term in self.terms)

    @property
    def words(self) -> int:
        return sum(len(term.text.split()) for term in self.terms)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchQuery:
    """A page is found where it fits one of the alternatives."""

    alternatives: tuple[Alternative, ...]


class SearchPosition(NamedTuple):
    """Where a page of results ended: best first, then the newest document, then in order of pages."""

    rank: int
    document_id: DocumentId
    page: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHit:
    document_id: DocumentId
    filename: str
    page: int
    rank: int
    """1 to MOST_RANK: how often the words stand on the page, measured by its length."""
    snippet: str
    """Text around the words, which stand between OPEN and CLOSE."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResults:
    hits: list[SearchHit]
    more: SearchPosition | None
    """Where to go on; also where there are fewer hits than wanted, for one look goes through no more than so many."""


def parse(text: str) -> SearchQuery:
    """Words, "phrases", `or` between alternatives, `-` before what must not be there.

    Raises Invalid where there is nothing to look for.
    """
    if scrub(text) != text:
        raise _refused("the query has characters that no text has (NUL, half of a surrogate pair): leave them out")
    if len(text) > LONGEST:
        raise _refused(f"the query has more than {LONGEST} characters: ask for the few words that matter")
    normal = unicodedata.normalize("NFKC", text).translate(AS_TYPED)
    alternatives = [Alternative(terms=tuple(terms)) for terms in _split(normal) if terms]
    if not alternatives:
        raise _refused("the query has no word: ask for one at least")
    if any(all(term.excluded for term in alternative.terms) for alternative in alternatives):
        raise _refused("the query only says what must not be there: add a word that must")
    if len(alternatives) > MOST_ALTERNATIVES or sum(a.words for a in alternatives) > MOST_WORDS:
        raise _refused(f"the query has more than {MOST_WORDS} words or {MOST_ALTERNATIVES} alternatives: ask for fewer")
    return SearchQuery(alternatives=tuple(alternatives))


def nothing_but_stop_words() -> Invalid:
    return _refused("the query has only words that are on almost every page: add one that says more")


def marked_up(snippet: str) -> str:
    """HTML to put into a page as it is: the text is escaped, what was found stands in `<mark>`."""
    return html.escape(" ".join(snippet.split())).replace(OPEN, "<mark>").replace(CLOSE, "</mark>")


def _split(text: str) -> list[list[Term]]:
    alternatives: list[list[Term]] = [[]]
    for minus, phrase, word in PART.findall(text):
        if word.lower() == "or":
            alternatives.append([])
        elif WORD.search(phrase):
            alternatives[-1].append(Term(phrase.strip(), phrase=True, excluded=bool(minus)))
        elif WORD.search(word):
            alternatives[-1].append(_word(word))
    return alternatives


def _word(word: str) -> Term:
    return Term(word.strip('"-'), excluded=word.startswith("-"))


def _spaced(term: Term, stemming: str) -> Term:
    """A word of several characters, where each is one, is a phrase."""
    text = spaced(term.text, stemming)
    return term._replace(text=text, phrase=term.phrase or text != term.text)


def _refused(why: str) -> Invalid:
    return Invalid(why, pointer="/q")
