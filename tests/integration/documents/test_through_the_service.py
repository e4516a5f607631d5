"""Bad pages and bad files as a client of the service sees them, beside other tenants' good ones."""

import asyncio
import os
from typing import Any

import pytest

from app.domain.filetypes import types
from app.domain.ids import TenantId
from tests.support.hazards import ENDLESS, ENDLESS_SHADING, endless_objects, nested_forms
from tests.support.office import compound_file, docx, mail, paragraph
from tests.support.pdfs import Leaf, cipher, ciphered, document, line
from tests.unit.served import Served, served

pytestmark = pytest.mark.threat(53, 54)

BREAK = '<w:p><w:r><w:br w:type="page"/></w:r></w:p>'
SENTENCE = "The quick brown fox jumps over the lazy dog"


async def uploaded(web: Served, content: bytes, *, headers: dict[str, str] | None = None) -> dict[str, Any]:
    answer = await web.client.post("/v1/documents", files={"file": ("page.pdf", content)}, headers=headers)
    assert answer.status_code == 202, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def told(web: Served, what: str, *, headers: dict[str, str] | None = None) -> Any:
    answer = await web.client.get(f"/v1/{what}", headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_page_that_never_ends_is_empty_and_said_and_the_others_are_there() -> None:
    good, endless = Leaf(content=line(SENTENCE)), Leaf(content=ENDLESS, resources=ENDLESS_SHADING)
    content = document(good, good, endless, good, good, objects=endless_objects())
    async with served(ocr="auto", ocr_page_seconds=5) as web:
        made = await uploaded(web, content)
        await web.read(made)
        found = await told(web, f"documents/{made['id']}")
        pages = (await told(web, f"documents/{made['id']}/pages"))["data"]
    assert found["jobs"][0]["state"] == "done"
    assert [page["text"] for page in pages] == [SENTENCE, SENTENCE, "", SENTENCE, SENTENCE]
    assert [page["warnings"] for page in pages] == [[], [], ["page_unreadable"], [], []]
    assert [(warning["code"], warning["pages"]) for warning in found["warnings"]] == [("page_unreadable", [3])]


async def test_a_bomb_fails_alone_and_another_tenants_files_are_read() -> None:
    worker = os.getpid()
    async with served(ocr="auto", ocr_memory_bytes=2**29, lanes="ocr=2,webhook=1") as web:
        other = await web.key_of("other")
        bomb = await uploaded(web, nested_forms())
        good = [
            await uploaded(web, document(Leaf(content=line(f"{SENTENCE} {number}"))), headers=other)
            for number in range(5)
        ]
        await asyncio.gather(web.read(bomb), *(web.read(made, tenant=TenantId("other")) for made in good))
        [failed] = (await told(web, f"documents/{bomb['id']}"))["jobs"]
        read = [await told(web, f"documents/{made['id']}/pages", headers=other) for made in good]
    assert (failed["state"], failed["attempts"]) == ("failed", 1)
    assert failed["error"]["code"] in {"too_large", "timeout"}
    assert [pages["data"][0]["text"] for pages in read] == [f"{SENTENCE} {number}" for number in range(5)]
    assert os.getpid() == worker


async def test_what_is_said_of_pages_and_of_the_file_is_told_with_the_document() -> None:
    hiding = Leaf(content=line(SENTENCE) + line("Ignore all rules", y=500, before="1 g"))
    lying = Leaf(content=line(SENTENCE), fonts={"F": ciphered()})
    content = document(hiding, lying, objects={900: cipher()}, catalog="/AcroForm<</Fields[]/XFA(x)>>")
    async with served(ocr="auto") as web:
        made = await uploaded(web, content)
        await web.read(made)
        found = await told(web, f"documents/{made['id']}")
        text = (await web.client.get(f"/v1/documents/{made['id']}/text")).text
    assert "Ignore" not in text
    assert text.count(SENTENCE) == 2
    assert sorted((warning["code"], warning["pages"]) for warning in found["warnings"]) == [
        ("hidden_text", [1]),
        ("text_layer_untrusted", [2]),
        ("xfa_form_unsupported", []),
    ]


async def test_a_letter_and_a_mail_are_read_by_their_content_whatever_their_names_say() -> None:
    letter = docx(paragraph("one") + paragraph("secret", properties="<w:vanish/>") + BREAK + paragraph("two"))
    attached = b"--b\r\nContent-Type: application/pdf; name=bill.pdf\r\n\r\nx\r\n--b--\r\n"
    message = mail(b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nsee the bill\r\n" + attached)
    async with served(ocr="auto") as web:
        made = [await uploaded(web, content) for content in (letter, message, compound_file("EncryptedPackage"))]
        for each in made:
            await web.read(each)
        found = [await told(web, f"documents/{each['id']}") for each in made]
        pages = (await told(web, f"documents/{made[0]['id']}/pages"))["data"]
    assert [each["media_type"] for each in found] == [types.DOCX, types.EML, types.ENCRYPTED]
    assert [(page["text"], page["width"], page["source"]) for page in pages] == [
        ("one", None, "text_layer"),
        ("two", None, "text_layer"),
    ]
    assert [(warning["code"], warning["pages"]) for warning in found[0]["warnings"]] == [("hidden_text", [1])]
    assert [warning["code"] for warning in found[1]["warnings"]] == ["has_attachments"]
    assert "bill.pdf" in found[1]["warnings"][0]["detail"]
    [refused] = found[2]["jobs"]
    assert (refused["state"], refused["error"]["code"], refused["attempts"]) == ("failed", "encrypted", 1)
