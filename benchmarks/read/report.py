"""The tables, and the run as a file."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.race.figures import Target
from benchmarks.read.figures import Mean, Reading, by_group, by_reader
from benchmarks.read.overhead import Overhead

WIDTH = 120
"""Characters of a table's lines in a file or a pipe."""


def show(
    readings: Sequence[Reading], overhead: Overhead | None, reached: Sequence[Target], conditions: Mapping[str, Any]
) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    console.print(_means(by_reader(readings)))
    for title, what in (("Word F1, %", "word_f1"), ("Bare F1, %", "bare_f1"), ("CER, %", "cer")):
        console.print(_groups(title, by_group(readings), what))
    if overhead is not None:
        console.print(_overhead(overhead))
    console.print(_targets(reached))
    console.print(f"Machine: {', '.join(f'{name} {value}' for name, value in conditions['machine'].items())}")
    for note in conditions["notes"]:
        console.print(note, highlight=False)


def record(
    readings: Sequence[Reading], overhead: Overhead | None, reached: Sequence[Target], conditions: Mapping[str, Any]
) -> dict[str, Any]:
    """Every figure, without the texts, which may be private."""
    return {
        **conditions,
        "targets": [asdict(target) for target in reached],
        "panels": list(_panels(readings)),
        "overhead": None if overhead is None else asdict(overhead),
        "readings": [
            {"reader": one.reader, "file": one.sample.name, "group": one.sample.group, **_figures(one)}
            for one in readings
        ],
    }


def _figures(one: Reading) -> dict[str, Any]:
    read = asdict(one.read)
    del read["text"]
    return {**asdict(one.score), **read}


def _panels(readings: Sequence[Reading]) -> Iterator[dict[str, Any]]:
    means = by_reader(readings)
    panels = (
        ("Word F1, mean of the pages, %", "{:.1f}", "word_f1", 100),
        ("Characters wrong (CER), mean, %", "{:.1f}", "cer", 100),
        ("CPU seconds a page, mean", "{:.2f}", "cpu_seconds", 1),
        ("Memory of the largest process, MiB", "{:.0f}", "peak_mib", 1),
    )
    for title, form, what, times in panels:
        bars = [{"name": name, "value": times * getattr(mean, what)} for name, mean in means.items()]
        yield {"title": title, "format": form, "bars": bars}


def _means(means: Mapping[str, Mean]) -> Table:
    heads = ("pages", "word F1 %", "bare F1 %", "CER %", "any order", "CPU s/page", "peak MiB")
    table = _table("All pages", *heads)
    for name, mean in means.items():
        shares = (mean.word_f1, mean.bare_f1, mean.cer, mean.cer_any_order)
        cost = (f"{mean.cpu_seconds:.2f}", f"{mean.peak_mib:.0f}")
        table.add_row(name, str(mean.pages), *(f"{100 * share:.2f}" for share in shares), *cost)
    return table


def _groups(title: str, groups: Mapping[str, Mapping[str, Mean]], what: str) -> Table:
    names = list(dict.fromkeys(name for means in groups.values() for name in means))
    table = _table(title, "pages", *names)
    for group, means in groups.items():
        pages = max(mean.pages for mean in means.values())
        cells = [f"{100 * getattr(means[name], what):.1f}" if name in means else "" for name in names]
        table.add_row(group, str(pages), *cells)
    return table


def _overhead(overhead: Overhead) -> Table:
    table = _table(f"Overhead, a scan of {overhead.pages} pages, every round", "figures")
    lines = {
        "engine alone, CPU s a page": overhead.alone,
        "recognizer, CPU s a page": overhead.recognizer,
        "one child, s": overhead.one_child,
        "two children, s": overhead.two_children,
    }
    for name, values in lines.items():
        table.add_row(name, ", ".join(f"{value:.3f}" for value in values))
    return table


def _targets(targets: Sequence[Target]) -> Table:
    table = _table("Targets", "measured", "")
    for target in targets:
        table.add_row(target.text, target.figure, "[green]met[/]" if target.met else "[red]not met[/]")
    return table


def _table(title: str, *right: str) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for name in right:
        table.add_column(name, justify="right")
    return table
