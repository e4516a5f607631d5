"""The pages to read: a folder of pictures with their texts, or pages set in type here."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from tests.support.typesetting import (
    LETTER,
    PROSE,
    Line,
    Printed,
    blurred,
    compressed,
    faded,
    grainy,
    inverted,
    leaning,
    paragraph,
    printed,
    speckled,
    table,
    turned,
)  # fmt: skip

SUFFIXES = (".png", ".tif", ".tiff", ".jpg", ".jpeg")
ROWS = (
    ("Item", "Description", "Qty", "Unit price", "Amount"),
    ("A-1001", "Brass fitting 15 mm", "12", "4.20", "50.40"),
    ("A-1002", "Copper pipe 3 m", "4", "18.75", "75.00"),
    ("B-2210", "Sealing compound", "2", "9.95", "19.90"),
    ("B-2214", "Ball valve DN 20", "6", "13.40", "80.40"),
    ("C-0031", "Pressure gauge", "1", "42.00", "42.00"),
    ("C-0077", "Hose clamp", "25", "0.85", "21.25"),
    ("D-4410", "Delivery", "1", "15.00", "15.00"),
)
COLUMNS = (60, 130, 300, 380, 470)
TICKET = (226, 400)
NOTE = (
    "Payment is due within thirty days. Please quote the invoice number with your transfer to account 40817 22 at "
    "the Yorkshire Bank."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    name: str
    group: str
    file: Path
    text: str
    """The page's true text."""
    is_upright: bool = True


def found(folder: Path) -> list[Sample]:
    """Pictures `x.png` (or tif, jpg) with their true text in `x.txt`."""
    pictures = sorted(file for file in folder.iterdir() if file.suffix.lower() in SUFFIXES)
    return [
        Sample(name=file.name, group=file.name, file=file, text=truth.read_text())
        for file in pictures
        if (truth := file.with_suffix(".txt")).exists()
    ]


def made(folder: Path, *, fonts: Sequence[Path], quick: bool) -> list[Sample]:
    """Draw pages as PNG files in the folder, with their resolution in them."""
    return [_kept(folder, name, group, page) for name, group, page in _worn(fonts, quick=quick)]


def _kept(folder: Path, name: str, group: str, page: Printed) -> Sample:
    file = folder / f"{name}.png"
    page.image.save(file, dpi=(page.dpi, page.dpi))
    return Sample(name=name, group=group, file=file, text=page.text, is_upright="turned" not in group)


def _worn(fonts: Sequence[Path], *, quick: bool) -> Iterator[tuple[str, str, Printed]]:
    makers = dict(_makers(fonts))
    for kind in ("letter", "invoice") if quick else makers:
        make = makers[kind]
        for dpi in (200,) if quick else (100, 150, 200, 300):
            yield f"{kind} {dpi} dpi", f"{dpi} dpi", make(dpi)
        page = make(200)
        for quarters in (1, 2) if quick else (1, 2, 3):
            yield f"{kind} turned {quarters * 90}", "turned", turned(page, quarters)
        for degrees in (5.0,) if quick else (5.0, -5.0):
            yield f"{kind} leaning {degrees:g}", "leaning", leaning(page, degrees)
            yield f"{kind} turned 90 leaning {degrees:g}", "turned and leaning", leaning(turned(page, 1), degrees)
        if not quick:
            yield f"{kind} turned 180 leaning 5", "turned and leaning", leaning(turned(page, 2), 5)
            yield f"{kind} turned 270 leaning -5", "turned and leaning", leaning(turned(page, 3), -5)
        yield f"{kind} speckled", "speckled", speckled(page, 0.02)
        if not quick:
            yield f"{kind} grainy", "grainy", grainy(page, 40)
            yield f"{kind} blurred", "blurred", blurred(page, 1.6)
            yield f"{kind} faded", "faded, JPEG 15", compressed(faded(page), 15)
            yield f"{kind} inverted", "inverted", inverted(page)


def _makers(fonts: Sequence[Path]) -> Iterator[tuple[str, "Maker"]]:
    yield "letter", Maker(_letter(None), None)
    for font in fonts:
        yield f"letter in {font.stem}", Maker(_letter(str(font)), str(font))
    yield "two columns", Maker(_columns(2, 9.5), None)
    yield "three columns", Maker(_columns(3, 8.5), None)
    yield "table", Maker([Line(60, 60, "Price list", 16), *table(ROWS, columns=COLUMNS, y=100)], None)
    yield "invoice", Maker(_invoice(), None)
    yield "till receipt", Maker(_receipt(), None, TICKET)
    yield "fine print", Maker([Line(60, 50, "Terms and conditions", 14), *paragraph(PROSE * 2, y=80, size=6)], None)


@dataclass(frozen=True, slots=True)
class Maker:
    lines: Sequence[Line]
    font: str | None
    paper: tuple[float, float] = LETTER

    def __call__(self, dpi: int) -> Printed:
        return printed(self.lines, dpi=dpi, font=self.font, paper=self.paper)


def _letter(font: str | None) -> list[Line]:
    head = [Line(60, 60, "Harbour & Quay Surveyors Ltd", 16), Line(60, 84, "12 Dock Road, Port Ellen PA42 7DJ", 9)]
    return [*head, *paragraph(PROSE, y=140, size=10, font=font)]


def _columns(count: int, size: float) -> list[Line]:
    lines = [Line(60, 50, "The Harbour Gazette", 20)]
    width = (LETTER[0] - 120 - 18 * (count - 1)) / count
    each = len(PROSE) * 2 // count
    for column in range(count):
        words = (PROSE * 2)[column * each : (column + 1) * each]
        lines += paragraph(words, x=60 + column * (width + 18), y=90, width=width, size=size)
    return lines


def _invoice() -> list[Line]:
    """An invoice without text beside text, because the reading order of neighbouring addresses is a matter of taste."""
    left = ("Bill to:", "Marlow Brewing Company", "3 Mill Street", "Bath BA1 5LR")
    right = ("Invoice number: KD-20417", "Invoice date: 14 March 2025", "Due date: 13 April 2025", "Order: PO 88123")
    sums = (("Subtotal", "303.95"), ("VAT 20 %", "60.79"), ("Total GBP", "364.74"))
    return [
        Line(60, 50, "Kestrel & Doyle Instruments Ltd", 15),
        Line(60, 72, "14 Foundry Lane, Sheffield S3 8BX", 9),
        Line(60, 110, "INVOICE", 18),
        *(Line(60, 145 + 14 * row, text, 10) for row, text in enumerate(left)),
        *(Line(60, 220 + 14 * row, text, 10) for row, text in enumerate(right)),
        *table(ROWS, columns=COLUMNS, y=310),
        *table(sums, columns=COLUMNS[3:], y=480),
        *paragraph(NOTE.split(), y=560, size=9),
    ]


def _receipt() -> list[Line]:
    sold = (("Milk 2 l", "1.85"), ("Rye bread", "2.40"), ("Coffee 250 g", "4.95"), ("Apples 1.2 kg", "3.12"),
            ("Oat biscuits", "1.50"), ("TOTAL", "13.82"), ("CASH", "20.00"), ("CHANGE", "6.18"))  # fmt: skip
    return [
        Line(60, 20, "CORNER SHOP", 12),
        Line(50, 38, "7 High Street, Leeds", 8),
        *table(sold, columns=(20, 160), y=70, size=9),
        Line(20, 260, "Date: 03/11/2024 17:42", 8),
        Line(20, 274, "Till 4 Cashier: MARA", 8),
        Line(40, 300, "Thank you, come again!", 9),
    ]


def scan_of(pages: Sequence[Image.Image], file: Path) -> Path:
    """A TIFF of many pages."""
    pages[0].save(file, save_all=True, append_images=list(pages[1:]), dpi=(200, 200))
    return file
