"""Writes the pages that a docs engine builds (`site.py prepare`), and checks the site that it built (`site.py check`).

Any docs engine can be used: it finds plain pages in build/docs, whose links lead to each other. The check fails on an
address of another server from which a browser would fetch something when it shows a page.
"""

import os
import re
import shutil
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES, SITE = Path("build/docs"), Path("build/site")

OUTSIDE = {
    "README.md": "project.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "reporting.md",
}
"""Pages of the repository outside docs/, and their names on the site. One that is missing is left out."""

RECORDS = "decisions/index.md"

FENCED_OR_LINK = re.compile(
    r"^```.*?^```$|(?P<image>!?)\[(?P<text>[^]\n]*)\]\((?P<target>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)",
    re.MULTILINE | re.DOTALL,
)
ELSEWHERE = re.compile(r"[a-z][a-z+.-]*:|//")
MARK = re.compile(r"^<!-- (?:run|not run).*? -->\n", re.MULTILINE)
"""Instructions to tests/support/snippets.py, which readers don't need."""

SERVER = r"(?:(?:https?|wss?):)?//[\w.$-]"
IN_STYLE = re.compile(rf"""(?:url\(|@import)\s*["']?({SERVER}[^"')\s;]*)""", re.IGNORECASE)
STYLE_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
IN_SCRIPT = re.compile(
    rf"""(?:\b(?:fetch|import|importScripts|sendBeacon)\s*\(\s*"""
    rf"""|\bnew\s+(?:Worker|SharedWorker|EventSource|WebSocket|Request)\s*\(\s*"""
    rf"""|\.open\(\s*["'`][A-Za-z]+["'`]\s*,\s*|\b(?:from|import)\s*|\.src\s*=\s*)["'`]({SERVER}[^"'`]*)"""
)
FILE_IN_SCRIPT = re.compile(rf"""["'`]({SERVER}[^"'`\s]*\.(?:m?js|css|json|wasm|woff2?)(?:[?#][^"'`]*)?)["'`]""")
"""The address of a file, whatever the script does with it: a loader may have any name in a minified bundle."""

UNUSED = {
    # Loaded for a page with a Mermaid diagram.
    "https://unpkg.com/mermaid@": re.compile(r'class="(?:[^"]* )?mermaid[ "]'),
    # Loaded in browsers of before 2020, which lack ResizeObserver.
    "https://unpkg.com/resize-observer-polyfill": None,
    # Requested for a repository's stars where the header links to one.
    "https://api.github.com/": re.compile(r'data-md-component="source"'),
}
"""Addresses in mkdocs-material's own script, with the mark on a page without which the script requests none of them."""

NOT_FETCHED = {"alternate", "author", "canonical", "help", "license", "next", "prev", "search"}
"""Relations of `<link>` that a browser does not fetch."""


def prepare(pages: Path) -> None:
    """Replaces the folder by the pages of docs/, those outside it and the list of the decision records."""
    shutil.rmtree(pages, ignore_errors=True)
    shutil.copytree(ROOT / "docs", pages)
    for source, name in OUTSIDE.items():
        if (ROOT / source).exists():
            shutil.copy(ROOT / source, pages / name)
    (pages / RECORDS).write_text(_records())
    for source, name in _sources(pages):
        (pages / name).write_text(MARK.sub("", with_links(pages.joinpath(name).read_text(), source=source, name=name)))


def _sources(pages: Path) -> Iterator[tuple[str, str]]:
    """Yields each page's path in the repository and its name on the site."""
    outside = {name: source for source, name in OUTSIDE.items()}
    for path in sorted(pages.rglob("*.md")):
        name = path.relative_to(pages).as_posix()
        yield outside.get(name, f"docs/{name}"), name


def with_links(text: str, *, source: str, name: str) -> str:
    """The page's text with each link led to the page of the site; one to a file that is no page becomes plain text."""

    def led(found: re.Match[str]) -> str:
        target = found["target"]
        if target is None or ELSEWHERE.match(target):
            return found[0]
        there = _on_the_site(os.path.normpath(Path(source).parent / target))
        if there is None:
            return str(found["text"])
        relative = os.path.relpath(there, Path(name).parent)
        return f"{found['image']}[{found['text']}]({relative}{found['anchor'] or ''})"

    return FENCED_OR_LINK.sub(led, text)


def _on_the_site(path: str) -> str | None:
    if path == "docs/decisions":
        return RECORDS
    return OUTSIDE.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else None)


def _records() -> str:
    paths = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
    titles = {path.name: path.read_text().split("\n", 1)[0].removeprefix("# ") for path in paths}
    return "# Decisions\n\n" + "\n".join(f"- [{title}]({name})" for name, title in titles.items()) + "\n"


def check(site: Path) -> list[str]:
    """The addresses that a browser would fetch from another server, a line for each, with the file that requests it."""
    pages = sorted(site.rglob("*.html"))
    if not pages:
        return [f"{site} has no pages: build the site before it is checked"]
    texts = {path: path.read_text() for path in site.rglob("*") if path.suffix in {".html", ".css", ".js", ".svg"}}
    marks = [(address, mark) for address, mark in UNUSED.items() if mark]
    used = {address for address, mark in marks if any(mark.search(texts[page]) for page in pages)}
    return [
        f"{path}: {address}"
        for path, text in sorted(texts.items())
        for address in fetched(text, kind=path.suffix)
        if not any(address.startswith(known) and known not in used for known in UNUSED)
    ] + [f"{path}: {address} is used by a page" for path, text in texts.items() for address in used if address in text]


def fetched(text: str, *, kind: str) -> list[str]:
    """The addresses of other servers that the text of a page, picture, style or script requests."""
    match kind:
        case ".css":
            return IN_STYLE.findall(STYLE_COMMENT.sub("", text))
        case ".js":
            return [*IN_SCRIPT.findall(text), *FILE_IN_SCRIPT.findall(text)]
        case _:
            page = _Page()
            page.feed(text)
            page.close()
            return page.found


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._within = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._within = {"script": ".js", "style": ".css"}.get(tag, "")
        given = {name: value or "" for name, value in attrs}
        self.found += IN_STYLE.findall(given.get("style", ""))
        self.found += [address for address in _asked(tag, given) if re.match(SERVER, address.strip())]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self._within = ""

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002 - the parser passes it
        self._within = ""

    def handle_data(self, data: str) -> None:
        if self._within:
            self.found += fetched(data, kind=self._within)


def _asked(tag: str, given: dict[str, str]) -> list[str]:
    """The values of attributes that a browser fetches at once; not the `href` of links."""
    asked = [given.get("src", ""), given.get("poster", ""), given.get("data", "") if tag == "object" else ""]
    asked += [part.strip().split(" ")[0] for part in given.get("srcset", "").split(",")]
    if tag in {"image", "use", "feimage"}:
        asked += [given.get("href", ""), given.get("xlink:href", "")]
    if tag == "link" and not set(given.get("rel", "").lower().split()) <= NOT_FETCHED:
        asked.append(given.get("href", ""))
    return asked


def main(arguments: list[str]) -> int:
    match arguments:
        case ["prepare"]:
            prepare(ROOT / PAGES)
            return 0
        case ["check"]:
            found = check(ROOT / SITE)
            for line in found:
                print(f"fetched from another server: {line}")
            return 1 if found else 0
        case _:
            print("usage: site.py prepare | check", file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
