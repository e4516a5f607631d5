"""Hostile files made in code, damage done to any file at random, and what reading one may end in."""

import random
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from tests.support.pdfs import (
    HELVETICA,
    Leaf,
    cipher,
    ciphered,
    deflated,
    document,
    filed,
    form,
    line,
    paragraph,
    picture,
    placed,
    stream,
    unmapped,
)
from tests.support.sample_documents import SENTENCE, drawn, encoded, encrypted_pdf

OUTCOMES = frozenset({"done", "encrypted", "corrupt", "empty", "too_many_pages", "too_large", "unsupported", "timeout"})
"""All that reading a file may end in."""


def nested_forms(*, levels: int = 9, uses: int = 10) -> bytes:
    """Forms that draw forms: two kilobytes, a thousand million lines."""
    objects: dict[int, str | bytes] = {}
    for level in range(levels):
        content = "/N Do " * uses if level + 1 < levels else line("Hello") * uses
        objects[900 + level] = form(content, things=f"/N {901 + level} 0 R")
    return document(Leaf(content="/N Do", resources="/XObject<</N 900 0 R>>"), objects=objects)


ENDLESS = "/P sh\n"
"""A shading whose colour takes a long calculation for each pixel: much time, little memory."""
ENDLESS_SHADING = "/Shading<</P 900 0 R>>"


def endless_objects() -> dict[int, str | bytes]:
    shading = "<</ShadingType 1/ColorSpace/DeviceRGB/Domain[0 1 0 1]/Matrix[612 0 0 792 0 0]/Function 901 0 R>>"
    program = "{ pop " + "2 mul 0.5 mul " * 20_000 + "dup dup }"
    return {900: shading, 901: stream(program, "/FunctionType 4/Domain[0 1 0 1]/Range[0 1 0 1 0 1]")}


def endless_page() -> bytes:
    return document(Leaf(content=ENDLESS, resources=ENDLESS_SHADING), objects=endless_objects())


def long_content(*, lines: int = 2_000_000) -> bytes:
    return filed(_page(deflated("0 0 m 600 700 l S 1 0 0 RG\n" * lines)))


def deflated_twice(*, megabytes: int = 3_000) -> bytes:
    """A few kilobytes that unpack to gigabytes."""
    packed = zlib.compress(_packed(b" " * 1_000_000, times=megabytes), 9)
    return filed(_page(stream(packed, "/Filter[/FlateDecode/FlateDecode]")))


def wide_image(*, side: int = 32_768) -> bytes:
    """A thousand million grey pixels in a megabyte."""
    packed = _packed(b"\x80" * side * 64, times=side // 64)
    head = f"/Type/XObject/Subtype/Image/Width {side}/Height {side}/ColorSpace/DeviceGray/BitsPerComponent 8"
    image = stream(packed, f"{head}/Filter/FlateDecode")
    return document(Leaf(content=placed("I", x=0, y=0, width=612, height=792), things={"I": image}))


def lying_image(*, side: int = 2_000_000_000) -> bytes:
    head = f"/Type/XObject/Subtype/Image/Width {side}/Height {side}/ColorSpace/DeviceGray/BitsPerComponent 8"
    body = deflated(b"\0" * 100, head)
    return document(Leaf(content=placed("I", x=0, y=0, width=612, height=792), things={"I": body}))


def many_pages(count: int) -> bytes:
    """Of one page, named again and again."""
    bodies = _page(b"<</Length 0>>stream\n\nendstream")
    bodies[2] = f"<</Type/Pages/Kids[{'10 0 R ' * count}]/Count {count}>>".encode()
    return filed(bodies)


def looping_tree() -> bytes:
    return filed(
        {
            1: b"<</Type/Catalog/Pages 2 0 R>>",
            2: b"<</Type/Pages/Kids[3 0 R 2 0 R]/Count 5/Parent 3 0 R>>",
            3: b"<</Type/Pages/Kids[2 0 R]/Count 4/Parent 2 0 R>>",
        }
    )


def looping_form() -> bytes:
    return document(
        Leaf(content=line(SENTENCE) + "/N Do", resources="/XObject<</N 900 0 R>>"),
        objects={900: form("/N Do " + line("Within"), things="/N 900 0 R")},
    )


def odd_resources(what: str) -> bytes:
    return document(Leaf(content=line(SENTENCE) + "/I Do /G gs /C cs /P scn 0 0 9 9 re f", resources=what))


@cache
def samples() -> tuple[bytes, ...]:
    """Small files with something of everything, to be damaged."""
    font, shown, glyphs = unmapped("Quick foxes jump")
    page = {"I": picture(drawn("Scanned", size=(400, 150)))}
    small = drawn("Number one", size=(420, 160))
    return (
        document(Leaf(content=paragraph([SENTENCE, "Second line"])), Leaf(content=line("Another page"))),
        document(Leaf(content=placed("I", x=72, y=300, width=288, height=108) + line(SENTENCE), things=page)),
        document(Leaf(content=paragraph([SENTENCE]), fonts={"F": ciphered()}), objects={900: cipher()}),
        document(Leaf(content=f"BT /F 14 Tf 72 700 Td {shown} ET", fonts={"F": font}), objects=glyphs),
        document(
            Leaf(
                content=line(SENTENCE) + line("Unseen", y=500, before="1 g") + "/M Do",
                things={"M": form(line("In a form", y=400))},
            )
        ),
        document(Leaf(content=line(SENTENCE), fonts={"F": HELVETICA}), catalog="/AcroForm<</Fields[]/XFA(x)>>"),
        encrypted_pdf(),
        looping_form(),
        many_pages(5),
        encoded(small),
        encoded(small, "JPEG"),
        encoded(small.convert("1"), "TIFF", save_all=True, append_images=[small.convert("1")]),
        encoded(small, "WEBP"),
        encoded(small.convert("P"), "GIF"),
        encoded(small, "BMP"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    name: str
    content: bytes


def mutations(count: int, *, seed: int, extra: Iterable[bytes] = ()) -> Iterable[Mutation]:
    """The same ones for the same seed."""
    chosen = random.Random(seed)  # noqa: S311 - to be repeatable, not secret
    files = [*samples(), *(content for content in extra if content)]
    ways = (_flipped, _cut, _spliced, _doubled, _numbers_changed, _words_swapped)
    for number in range(count):
        content, way = chosen.choice(files), chosen.choice(ways)
        yield Mutation(
            name=f"{seed}-{number}-{way.__name__.strip('_')}", content=way(content, chosen.choice(files), chosen)
        )


def _flipped(content: bytes, _: bytes, chosen: random.Random) -> bytes:
    changed = bytearray(content)
    for _number in range(chosen.choice((1, 3, 10, 100))):
        changed[chosen.randrange(len(changed))] = chosen.randrange(256)
    return bytes(changed)


def _cut(content: bytes, _: bytes, chosen: random.Random) -> bytes:
    start = 0 if chosen.random() < 0.7 else chosen.randrange(len(content))
    return content[start : start + chosen.randrange(1, len(content) + 1)]


def _spliced(content: bytes, other: bytes, chosen: random.Random) -> bytes:
    at = chosen.randrange(len(content))
    return content[:at] + other[chosen.randrange(len(other)) :]


def _doubled(content: bytes, _: bytes, chosen: random.Random) -> bytes:
    first, last = sorted(chosen.randrange(len(content)) for _number in range(2))
    return content[:last] + content[first:]


_NUMBERS = (
    b"0",
    b"-1",
    b"65536",
    b"2147483647",
    b"-2147483648",
    b"4294967296",
    b"1e30",
    b"99999999999999999999",
    b"nan",
)
_WORDS = (
    b"/Type", b"/Page", b"/Pages", b"/Kids", b"/Parent", b"/Count", b"/Font", b"/Contents", b"/Length", b"/Filter",
    b"/FlateDecode", b"/Width", b"/Height", b"/MediaBox", b"/Resources", b"/XObject", b"/Subtype", b"/ToUnicode",
    b"/BaseFont", b"obj", b"endobj", b"stream", b"endstream", b"BT", b"ET", b"Tj", b"Td", b"Tf", b"Do", b"cm", b"q",
    b"Q", b"<<", b">>", b"[", b"]", b"xref", b"trailer", b" R",
)  # fmt: skip


def _numbers_changed(content: bytes, _: bytes, chosen: random.Random) -> bytes:
    """Of a PDF, digits become numbers that nobody expects; of others, four bytes at a time do."""
    changed = bytearray(content)
    for _number in range(chosen.choice((1, 3, 10))):
        at = chosen.randrange(len(changed))
        digits = next((place for place in range(at, min(at + 200, len(changed))) if chr(changed[place]).isdigit()), at)
        changed[digits : digits + 1] = chosen.choice(_NUMBERS)
    return bytes(changed)


def _words_swapped(content: bytes, _: bytes, chosen: random.Random) -> bytes:
    for _number in range(chosen.choice((1, 2, 5))):
        before = chosen.choice(_WORDS)
        at = content.find(before, chosen.randrange(len(content)))
        if at >= 0:
            content = content[:at] + chosen.choice(_WORDS) + content[at + len(before) :]
    return content


def _packed(block: bytes, *, times: int) -> bytes:
    """Compressed once and repeated, which is quicker than compressing gigabytes; the checksum at the end is wrong."""
    packer = zlib.compressobj(9)
    first, again = (packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    return first + again * (times - 1) + packer.flush()


def _page(content: bytes, resources: str = "") -> dict[int, bytes]:
    return {
        1: b"<</Type/Catalog/Pages 2 0 R>>",
        2: b"<</Type/Pages/Kids[10 0 R]/Count 1>>",
        10: f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 11 0 R/Resources<<{resources}>>>>".encode(),
        11: content,
    }
