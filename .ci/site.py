"""For mkdocs, beyond mkdocs.yml: pages that lie outside docs/, and that nothing is fetched from elsewhere."""

import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]

OUTSIDE = {"project.md": "README.md", "changelog.md": "CHANGELOG.md", "reporting.md": "SECURITY.md"}
"""Pages of the site, and where they lie in the repository."""

RECORDS = "decisions/index.md"
LICENCE = re.compile(r"\[([^]]+)\]\(LICENSE\)")
MARK = re.compile(r"^<!-- (?:run|not run).*? -->\n", re.MULTILINE)
FETCHED = re.compile(
    r"""(?:<(?:script|img|iframe|source)[^>]+src=|<link[^>]+href=|url\()["']?((?:https?:)?//[^"')\s>]+)"""
)


def on_files(files: Files, config: Any) -> Files:
    for page, source in OUTSIDE.items():
        files.append(File.generated(config, page, content=_from_the_root((ROOT / source).read_text())))
    files.append(File.generated(config, RECORDS, content=_records()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    up = "../" * page.file.src_uri.count("/")
    for name, source in OUTSIDE.items():
        markdown = markdown.replace(f"]({up}../{source}", f"]({up}{name}")
    return MARK.sub("", re.sub(r"\]\(((?:\.\./)*)decisions/\)", rf"](\1{RECORDS})", markdown))


def on_post_build(config: Any) -> None:
    """Raises PluginError for a page or style that would have a browser ask another server."""
    for path in sorted(Path(config["site_dir"]).rglob("*")):
        if path.suffix in {".html", ".css"} and (found := FETCHED.findall(path.read_text())):
            raise PluginError(f"{path} fetches {found[0]}")


def _from_the_root(text: str) -> str:
    for name, source in OUTSIDE.items():
        text = text.replace(f"]({source}", f"]({name}")
    return LICENCE.sub(r"\1", text.replace("](docs/", "]("))


def _records() -> str:
    titles = {path.name: path.read_text().split("\n", 1)[0].removeprefix("# ") for path in _files()}
    return "# Decisions\n\n" + "\n".join(f"- [{title}]({name})" for name, title in titles.items()) + "\n"


def _files() -> list[Path]:
    return sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
