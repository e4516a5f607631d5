"""Paragraphs and tables, assembled from a walker's events. Text boxes and tables may lie within one another."""

from app.reading.office.pagination import PageWriter

_LAYOUT_LINES = 3
"""Lines of a cell from which a table is taken for page layout rather than for rows and columns."""


class BlockWriter:
    """Writes paragraphs and rows as lines to `pages`. A tab separates the cells of a row."""

    def __init__(self, pages: PageWriter) -> None:
        self._pages = pages
        self._paragraphs: list[list[str]] = []
        self._rows: list[list[list[str]]] = []
        """The open rows, outer tables first. A row is a list of cells, a cell a list of lines."""

    def begin_paragraph(self) -> None:
        self._paragraphs.append([])

    def text(self, text: str) -> None:
        if self._paragraphs:
            self._paragraphs[-1].append(text)

    def end_paragraph(self, *, keep_blank: bool = True) -> None:
        if self._paragraphs:
            line = "".join(self._paragraphs.pop())
            if keep_blank or line.strip():
                self.put(line)

    def put(self, line: str) -> None:
        """Write a complete paragraph."""
        if not self._rows:
            self._pages.line(line)
            return
        row = self._rows[-1]
        if not row:
            row.append([])
        row[-1].append(line)

    def break_page(self) -> None:
        """End the page, unless it is blank or a table is open, which has no good place for a break."""
        if self._rows or (self._pages.is_blank and not any(map(str.strip, self._open_text()))):
            return
        if self._paragraphs:
            self._pages.write("".join(self._paragraphs[-1]))
            self._paragraphs[-1].clear()
        self._pages.end_page()

    def begin_row(self) -> None:
        self._rows.append([])

    def begin_cell(self) -> None:
        if self._rows:
            self._rows[-1].append([])

    def end_row(self) -> None:
        if not self._rows:
            return
        row = self._rows.pop()
        cells = [[line.strip() for line in cell if line.strip()] for cell in row]
        if any(len(cell) > _LAYOUT_LINES for cell in cells):
            for line in (line for cell in cells for line in cell):
                self.put(line)
        elif any(cells):
            self.put("\t".join(" ".join(cell).replace("\t", " ").replace("\n", " ") for cell in cells).rstrip("\t"))

    def _open_text(self) -> list[str]:
        return self._paragraphs[-1] if self._paragraphs else []
