"""Which styles of a DOCX hide their text, by themselves or by the style that they build on."""

from collections.abc import Mapping

OFF = frozenset({"0", "false", "off"})


class Styles:
    """A walker of styles.xml."""

    def __init__(self) -> None:
        self._style = ""
        self._bases: dict[str, str] = {}
        self._says: dict[str, bool] = {}

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        value = attributes.get("val", "")
        if tag == "style":
            self._style = attributes.get("styleId", "")
        elif tag == "basedOn":
            self._bases[self._style] = value
        elif tag == "vanish" and self._style:
            self._says[self._style] = value.lower() not in OFF

    def end(self, tag: str) -> None:
        if tag == "style":
            self._style = ""

    def data(self, text: str) -> None: ...

    def hidden(self) -> frozenset[str]:
        """Their ids."""
        return frozenset(style for style in {*self._bases, *self._says} if self._is_hidden(style))

    def _is_hidden(self, style: str) -> bool:
        seen: set[str] = set()
        while style not in self._says and style in self._bases and style not in seen:
            seen.add(style)
            style = self._bases[style]
        return self._says.get(style, False)
