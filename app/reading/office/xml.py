"""XML passed to a walker as it is parsed, so that memory does not grow with it: no DTD, entities or outside sources."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Protocol

from lxml import etree
from typing_extensions import override

from app.reading.faults import damaged, too_large

_MOST_NAMES = 10_000
"""Names in the cache at most. The formats have a few hundred."""
_NOTHING: Mapping[str, str] = MappingProxyType({})


class XmlWalker(Protocol):
    """Receives each element and text. Names have no namespaces, because these differ between editions of the formats.

    Only the ids of OOXML's relations keep a prefix, as `r:id`, because their elements have another attribute `id`.
    """

    def start(self, tag: str, attributes: Mapping[str, str]) -> None: ...

    def end(self, tag: str) -> None: ...

    def data(self, text: str) -> None: ...


def walk(chunks: Iterable[bytes], walker: XmlWalker, *, what: str = "document") -> None:
    """Parse the XML and pass it to the walker. Raises DocumentFault (corrupt, too_large)."""
    parser = etree.XMLParser(
        target=_WalkerTarget(walker),
        resolve_entities=False,
        load_dtd=False,
        no_network=True,
        dtd_validation=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )
    try:
        for chunk in chunks:
            parser.feed(chunk)
        parser.close()
    except etree.XMLSyntaxError as error:
        if error.code == etree.ErrorTypes.ERR_NO_MEMORY:
            raise MemoryError from error
        if "huge" in str(error).lower():
            raise too_large("A text or a nesting in the document is too large") from error
        raise damaged(what) from error


class _WalkerTarget:
    """The target that lxml calls, millions of times for a large sheet; methods and names are cached for speed."""

    def __init__(self, walker: XmlWalker) -> None:
        self._start = walker.start
        self._end = walker.end
        self.data = walker.data
        self._tags = _LocalNames()
        self._attributes = _LocalAttributes()

    def doctype(self, _name: str, _public: str | None, _system: str | None) -> None:
        # Neither OOXML nor ODF has a doctype, and one could define entities that grow without end.
        raise damaged("document")

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        names = self._attributes
        self._start(
            self._tags[tag], {names[name]: value for name, value in attributes.items()} if attributes else _NOTHING
        )

    def end(self, tag: str) -> None:
        self._end(self._tags[tag])

    def close(self) -> None:
        """Do nothing. lxml calls this at the end, also of a truncated document."""


class _LocalNames(dict[str, str]):
    """A cache of names without their namespaces."""

    def __missing__(self, name: str) -> str:
        if len(self) > _MOST_NAMES:
            self.clear()
        self[name] = self._cut(name)
        return self[name]

    def _cut(self, name: str) -> str:
        return name.rpartition("}")[2]


class _LocalAttributes(_LocalNames):
    @override
    def _cut(self, name: str) -> str:
        namespace, _, bare = name.rpartition("}")
        return f"r:{bare}" if namespace.endswith("/relationships") else bare
