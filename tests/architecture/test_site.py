"""The documentation's site has all pages, and asks no other server for anything."""

from pathlib import Path

import pytest

from tests.support.ci_scripts import load

ROOT = Path(__file__).parents[2]
site = load("site")

PLANTED = {
    "a script": ("x.html", '<script src="https://cdn.example/x.js"></script>'),
    "a picture": ("x.html", '<img alt="x" src="//cdn.example/x.png">'),
    "a set of pictures": ("x.html", '<img srcset="a.png 1x, https://cdn.example/x.png 2x">'),
    "a style sheet": ("x.html", '<link rel="stylesheet" href="https://cdn.example/x.css">'),
    "an early connection": ("x.html", '<link rel="preconnect" href="https://cdn.example">'),
    "a script within a page": ("x.html", '<script>fetch("https://cdn.example/x")</script>'),
    "a style within a page": ("x.html", "<style>@import 'https://cdn.example/x.css';</style>"),
    "an attribute": ("x.html", '<p style="background: url(https://cdn.example/x.png)">'),
    "a font": ("x.css", "@font-face { src: url('https://cdn.example/x.woff2') }"),
    "an imported style": ("x.css", '@import "//cdn.example/x.css";'),
    "fetch": ("x.js", 'r(),fetch("https://cdn.example/x")'),
    "an imported script": ("x.js", 'import x from"https://cdn.example/x"'),
    "a script imported late": ("x.js", "await import(`https://cdn.example/x`)"),
    "a worker": ("x.js", 'new Worker("https://cdn.example/x")'),
    "a socket": ("x.js", "new WebSocket('wss://cdn.example/x')"),
    "a request": ("x.js", 'r.open("GET", "https://cdn.example/x")'),
    "a source": ("x.js", 'i.src="https://cdn.example/x.gif"'),
    "a file for a loader of any name": ("x.js", '_t("https://cdn.example/x.min.js")'),
    "part of a drawing": ("x.svg", '<svg><image href="https://cdn.example/x.png"/></svg>'),
}

HARMLESS = {
    "a link": ("x.html", '<a href="https://example.org/x.js">x</a>'),
    "a canonical address": ("x.html", '<link rel="canonical" href="https://example.org/">'),
    "code that is shown": ("x.html", '<code>fetch("https://example.org/x.js")</code>'),
    "a namespace": ("x.svg", '<svg xmlns="http://www.w3.org/2000/svg"><use href="#a"/></svg>'),
    "a picture in the page": ("x.css", 'a { background: url("data:image/svg+xml;charset=utf-8,<svg xmlns='),
    "a licence": ("x.js", "/*! x.js MIT https://example.org/x.js */ // see https://example.org/y.js"),
    "a script's namespace": ("x.js", 'd.createElementNS("http://www.w3.org/2000/svg","svg")'),
    "the site's own file": ("x.js", 'fetch("search/search_index.json"),new Worker(u.worker)'),
    "a feature that no page uses": ("x.js", '_t("https://unpkg.com/mermaid@11/dist/mermaid.min.js")'),
}


@pytest.fixture
def built(tmp_path: Path) -> Path:
    (tmp_path / "index.html").write_text("<p>A page.</p>")
    return tmp_path


@pytest.mark.parametrize(("name", "text"), PLANTED.values(), ids=PLANTED)
def test_a_site_that_asks_another_server_is_refused(built: Path, name: str, text: str) -> None:
    (built / name).write_text(text)
    [line, *_] = site.check(built)
    assert line.startswith(f"{built / name}: ")
    assert "cdn.example" in line


@pytest.mark.parametrize(("name", "text"), HARMLESS.values(), ids=HARMLESS)
def test_an_address_that_no_browser_asks_for_is_no_fault(built: Path, name: str, text: str) -> None:
    (built / name).write_text(text)
    assert site.check(built) == []


def test_a_feature_that_a_page_uses_is_a_fault(built: Path) -> None:
    (built / "x.js").write_text('_t("https://unpkg.com/mermaid@11/dist/mermaid.min.js")')
    (built / "x.html").write_text('<pre class="mermaid"><code>graph</code></pre>')
    assert len(site.check(built)) == 2


def test_a_site_that_was_not_built_is_not_passed(tmp_path: Path) -> None:
    assert site.check(tmp_path) == [f"{tmp_path} has no pages: build the site before it is checked"]


def test_the_pages_to_build_are_those_of_the_repository(tmp_path: Path) -> None:
    site.prepare(tmp_path / "docs")
    ours = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.*") if path.is_file()}
    outside = {name for source, name in site.OUTSIDE.items() if (ROOT / source).exists()}
    there = {path.relative_to(tmp_path / "docs").as_posix() for path in (tmp_path / "docs").rglob("*.*")}
    assert there == ours | outside | {"decisions/index.md"}
    assert "<!-- run" not in (tmp_path / "docs" / "project.md").read_text()


@pytest.mark.parametrize(
    ("source", "name", "link", "led"),
    [
        ("README.md", "project.md", "[x](docs/llm.md#a)", "[x](llm.md#a)"),
        ("README.md", "project.md", "![x](docs/pictures/x.svg)", "![x](pictures/x.svg)"),
        ("README.md", "project.md", "[x](docs/decisions/)", "[x](decisions/index.md)"),
        ("README.md", "project.md", "[Apache](LICENSE)", "Apache"),
        ("docs/how-to/wait.md", "how-to/wait.md", "[x](../../README.md#b)", "[x](../project.md#b)"),
        ("docs/how-to/wait.md", "how-to/wait.md", "[x](../decisions/)", "[x](../decisions/index.md)"),
        ("docs/llm.md", "llm.md", "[x](https://example.org/LICENSE)", "[x](https://example.org/LICENSE)"),
        ("docs/llm.md", "llm.md", "[x](#here)", "[x](#here)"),
        ("docs/llm.md", "llm.md", "```md\n[x](../LICENSE)\n```", "```md\n[x](../LICENSE)\n```"),
    ],
)
def test_a_link_leads_to_the_page_of_the_site(source: str, name: str, link: str, led: str) -> None:
    assert site.with_links(link, source=source, name=name) == led
