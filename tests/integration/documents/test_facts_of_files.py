"""What is said of a PDF as a whole: attached files, forms, signatures; and what its title can't do to anybody."""

import io

import pikepdf
import pytest

from app.domain.warnings import DETAILS, WarningCode
from tests.support.pdfs import Leaf, document, line
from tests.support.reading import Reader

pytestmark = pytest.mark.asyncio(loop_scope="module")

SENTENCE = "Please wait while the form is opened"
PLAIN = document(Leaf(content=line(SENTENCE)))


def portfolio(*names: str) -> bytes:
    out = io.BytesIO()
    with pikepdf.open(io.BytesIO(PLAIN)) as file:
        for name in names:
            file.attachments[name] = pikepdf.AttachedFileSpec(file, PLAIN, filename=name)
        file.Root.Collection = pikepdf.Dictionary(Type=pikepdf.Name.Collection)
        file.save(out)
    return out.getvalue()


async def test_attached_files_are_named(reader: Reader) -> None:
    read = await reader.read(portfolio("invoice.pdf", "Überblick.pdf"))
    [warning] = read.warnings
    assert warning.code is WarningCode.HAS_ATTACHMENTS
    assert warning.detail == f"{DETAILS[WarningCode.HAS_ATTACHMENTS]} (invoice.pdf, Überblick.pdf)"
    assert read.text == SENTENCE


async def test_of_many_attached_files_some_are_named(reader: Reader) -> None:
    [warning] = (await reader.read(portfolio(*[f"file {n:03}.pdf" for n in range(30)], "x" * 500))).warnings
    assert "file 019.pdf, 11 more" in warning.detail
    assert len(warning.detail) < 600


async def test_a_name_that_is_no_text_is_made_one(reader: Reader) -> None:
    files = "/Names<</EmbeddedFiles<</Names[<FEFFD800000A0041> 900 0 R]>>>>"
    [warning] = (
        await reader.read(document(Leaf(content=line(SENTENCE)), catalog=files, objects={900: "<<>>"}))
    ).warnings
    assert warning.detail.encode()
    assert "\n" not in warning.detail


@pytest.mark.parametrize("rendering", ["", "/NeedsRendering true"])
async def test_an_xfa_form_is_said(reader: Reader, rendering: str) -> None:
    content = document(Leaf(content=line(SENTENCE)), catalog=f"/AcroForm<</Fields[]/XFA(<xdp/>)>>{rendering}")
    read = await reader.read(content)
    assert [warning.code for warning in read.warnings] == [WarningCode.XFA_FORM_UNSUPPORTED]
    assert read.text == SENTENCE


async def test_an_ordinary_form_is_not_and_its_values_are_read(reader: Reader) -> None:
    field = (
        "<</Type/Annot/Subtype/Widget/FT/Tx/T(name)/V(Gwendolyn)/F 4/Rect[72 600 300 620]/AP<</N 901 0 R>>/P 10 0 R>>"
    )
    look = (
        "<</Type/XObject/Subtype/Form/BBox[0 0 228 20]/Resources<</Font<</F <</Type/Font/Subtype/Type1"
        "/BaseFont/Helvetica>>>>>>/Length 36>>stream\nBT /F 12 Tf 2 4 Td (Gwendolyn) Tj ET\nendstream"
    )
    content = document(
        Leaf(content=line(SENTENCE), extra="/Annots[900 0 R]"),
        objects={900: field, 901: look},
        catalog="/AcroForm<</Fields[900 0 R]>>",
    )
    read = await reader.read(content)
    assert read.warnings == []
    assert read.text.split() == [*SENTENCE.split(), "Gwendolyn"]


async def test_a_signature_is_said(reader: Reader) -> None:
    field = "<</FT/Sig/T(signature)/V 901 0 R/Subtype/Widget/Rect[0 0 0 0]>>"
    signature = (
        f"<</Type/Sig/Filter/Adobe.PPKLite/SubFilter/adbe.pkcs7.detached/ByteRange[0 9 9 9]/Contents<{'00' * 64}>>>"
    )
    content = document(
        Leaf(content=line(SENTENCE)),
        objects={900: field, 901: signature},
        catalog="/AcroForm<</Fields[900 0 R]/SigFlags 3>>",
    )
    assert [warning.code for warning in (await reader.read(content)).warnings] == [WarningCode.SIGNED]


@pytest.mark.parametrize(
    "title", [r"(A\000B)", "<FEFF0041D8000042>", "<FEFFD835DC00>", "(" + "x" * 500_000 + ")", r"(\377\376A)"]
)
async def test_no_title_hurts(reader: Reader, title: str) -> None:
    read = await reader.read(document(Leaf(content=line(SENTENCE)), info=f"<</Title{title}/Author{title}>>"))
    assert (read.text, read.warnings) == (SENTENCE, [])
