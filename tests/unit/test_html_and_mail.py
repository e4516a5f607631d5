"""HTML and mails: what is shown, and no more."""

import pytest

from app.domain.errors import DocumentFault
from app.domain.warnings import WarningCode
from app.ports.reading import Mode
from tests.support.office import html, mail
from tests.support.reading import hiding, text_file, texts_of
from tests.support.sample_documents import SENTENCE

PARTS = b'MIME-Version: 1.0\r\nContent-Type: multipart/%s; boundary="%s"\r\n\r\n'


def part(body: bytes, *, kind: str = "text/plain", **fields: str) -> bytes:
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items())
    return f"Content-Type: {kind}\r\n{head}\r\n".encode() + body + b"\r\n"


def multipart(*parts: bytes, kind: str = "mixed", boundary: str = "b") -> bytes:
    mark = boundary.encode()
    told = b"".join(b"--" + mark + b"\r\n" + each for each in parts)
    return PARTS % (kind.encode(), mark) + told + b"--" + mark + b"--\r\n"


def test_blocks_are_lines_and_what_is_within_them_is_not() -> None:
    body = (
        "<h1>Title</h1><p>a <b>bold</b>\n  <i>word</i></p><ul><li>one<li>two</ul>x<br>y<hr>z<div></div>&euro;&#128512;"
    )
    assert texts_of(html(body)) == ["Title\na bold word\none\ntwo\nx\ny\nz\n€\N{GRINNING FACE}"]


def test_tables_are_rows_of_tabs_and_those_for_layout_are_lines() -> None:
    rows = "<table><tr><th>a<th>b<tr><td>1 <p>2<td>3</table>"
    layout = f"<table><tr><td>menu<td><p>one<p>two<p>three<p>four{rows}</table>"
    assert texts_of(html(rows)) == ["a\tb\n1 2\t3"]
    assert texts_of(html(layout)) == ["menu\none\ntwo\nthree\nfour\na\tb\n1 2\t3"]


def test_preformatted_text_keeps_its_blanks() -> None:
    assert texts_of(html("<pre>a\n  b</pre>c   d")) == ["a\n  b\nc d"]


def test_scripts_styles_and_comments_are_no_text() -> None:
    body = "<script>if (a<b) x()</script><style>p{}</style><noscript>x</noscript><template>x</template><!-- x -->seen"
    assert texts_of(html(body)) == ["seen"]
    assert hiding(html(body)) == []


@pytest.mark.parametrize(
    "attribute",
    [
        "hidden",
        'style="display:none"',
        'style="color:red; DISPLAY : none !important"',
        'style="visibility:hidden"',
        'style="mso-hide:all"',
        'style="font-size:0px"',
        'style="opacity:0"',
    ],
)
def test_what_the_page_hides_is_left_out_and_the_page_says_so(attribute: str) -> None:
    body = f"<p>seen<div {attribute}>secret <p>and <b>more</b></p></div>seen too"
    assert texts_of(html(body)) == ["seen\nseen too"]
    assert hiding(html(body)) == [1]


def test_what_only_looks_like_hiding_is_shown() -> None:
    assert texts_of(html('<p style="font-size:0.9em;opacity:0.5;display:inline">seen')) == ["seen"]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"<html><p>caf\xc3\xa9", "café"),
        (b"<html><meta charset='iso-8859-2'><p>\xb1\xe6\xea", "ąćę"),
        (b"<html><meta charset='iso-8859-1'><p>caf\xc3\xa9", "café"),
        (b'<html><meta http-equiv="x" content="text/html; charset=windows-1251"><p>\xcf\xf0', "Пр"),
        ("<html><p>café".encode("utf-16"), "café"),
    ],
)
def test_html_is_read_in_the_character_set_that_it_has(content: bytes, text: str) -> None:
    assert texts_of(content) == [text]


def test_a_mail_tells_who_when_and_what() -> None:
    content = mail(fields="Date: Mon, 1 Jan 2024 10:00:00 +0000\r\nX-Spam: no\r\n")
    head = "From: Ann <ann@example.org>\nTo: bob@example.org\nDate: Mon, 1 Jan 2024 10:00:00 +0000\nSubject: Fox"
    assert texts_of(content) == [f"{head}\n\n{SENTENCE}"]


@pytest.mark.parametrize(
    ("subject", "told"),
    [
        ("=?utf-8?q?Caf=C3=A9?=", "Café"),
        ("=?iso-8859-1?b?Q2Fm6Q==?= =?utf-8?q?_and?=", "Café and"),
        ("Café", "Café"),
        ("folded\r\n line", "folded line"),
        ("=?nonsense?q?Caf=C3=A9?=", "Café"),
    ],
)
def test_the_subject_of_a_mail_is_told_as_it_was_written(subject: str, told: str) -> None:
    content = f"From: a\r\nMessage-ID: 1\r\nSubject: {subject}\r\n\r\nbody".encode()
    assert f"Subject: {told}" in texts_of(content)[0]


def test_the_best_body_of_a_mail_is_read() -> None:
    plain, rich = part(b"plain"), part(b"<p>rich", kind="text/html")
    assert texts_of(mail(multipart(plain, rich, kind="alternative")))[0].endswith("plain")
    assert texts_of(mail(multipart(part(b" "), rich, kind="alternative")))[0].endswith("rich")
    related = multipart(rich, part(b"x", kind="image/png"), kind="related", boundary="c")
    assert "rich" in texts_of(mail(multipart(part(b""), related, kind="alternative")))[0]
    assert hiding(mail(part(b"<p hidden>secret<p>seen", kind="text/html"))) == [1]


def test_bodies_are_decoded_in_whatever_way_they_came() -> None:
    quoted = part(b"caf=E9", kind="text/plain; charset=iso-8859-1", Content_Transfer_Encoding="quoted-printable")
    coded = part(b"Y2Fmw6k=", kind="text/plain; charset=utf-8", Content_Transfer_Encoding="base64")
    wrong = part("café".encode("cp1252"), kind="text/plain; charset=utf-8")
    for each in (quoted, coded, wrong):
        assert texts_of(mail(each))[0].split()[-1].startswith("caf")
    assert texts_of(mail(quoted))[0].endswith("café")
    assert texts_of(mail(coded))[0].endswith("café")


def test_attachments_are_named_in_the_text_and_in_a_warning() -> None:
    attached = part(b"x", kind="application/pdf", Content_Disposition='attachment; filename="bill.pdf"')
    foreign = part(b"x", kind="text/plain; name*=utf-8''caf%C3%A9.txt", Content_Disposition="attachment")
    forwarded = part(mail(), kind="message/rfc822")
    file = text_file(mail(multipart(part(b"see"), attached, foreign, forwarded)))
    [warning] = file.warnings
    assert warning.code is WarningCode.HAS_ATTACHMENTS
    assert warning.detail.endswith("(bill.pdf, café.txt, Fox.eml)")
    assert file.read(1, mode=Mode.AUTO).text.endswith("see\n\nAttachments: bill.pdf, café.txt, Fox.eml")


@pytest.mark.parametrize(
    "fields",
    ["Content-Type: application/pkcs7-mime; smime-type=enveloped-data\r\n", "Content-Type: multipart/encrypted\r\n"],
)
def test_a_sealed_mail_is_encrypted(fields: str) -> None:
    with pytest.raises(DocumentFault) as fault:
        text_file(mail(fields=fields))
    assert fault.value.code == "encrypted"
