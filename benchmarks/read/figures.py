"""The figures of a run, from the readings."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from benchmarks.race.figures import Target
from benchmarks.read.overhead import Overhead
from benchmarks.read.pages import Sample
from benchmarks.read.readers import Read
from benchmarks.read.score import Score

PLAIN = "tesseract"
EFFICIENCY, SPEED_UP, MOST_WRONG = 0.97, 1.8, 0.02
"""The targets."""
EVERY_ORDER = {"200 dpi", "turned", "leaning", "turned and leaning"}
"""Groups of clean pages at 200 dpi, in every orientation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    reader: str
    sample: Sample
    read: Read
    score: Score


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    pages: int
    word_f1: float
    bare_f1: float
    cer: float
    cer_any_order: float
    cpu_seconds: float
    peak_mib: float
    """The maximum, not the mean."""


def mean(readings: Iterable[Reading]) -> Mean:
    each = list(readings)
    return Mean(
        pages=len(each),
        word_f1=fmean(one.score.word_f1 for one in each),
        bare_f1=fmean(one.score.bare_f1 for one in each),
        cer=fmean(one.score.cer for one in each),
        cer_any_order=fmean(one.score.cer_any_order for one in each),
        cpu_seconds=fmean(one.read.cpu_seconds for one in each),
        peak_mib=max(one.read.peak_mib for one in each),
    )


def by_reader(readings: Sequence[Reading]) -> Mapping[str, Mean]:
    names = dict.fromkeys(one.reader for one in readings)
    return {name: mean(one for one in readings if one.reader == name) for name in names}


def by_group(readings: Sequence[Reading]) -> Mapping[str, Mapping[str, Mean]]:
    groups = dict.fromkeys(one.sample.group for one in readings)
    return {group: by_reader([one for one in readings if one.sample.group == group]) for group in groups}


def targets(readings: Sequence[Reading], overhead: Overhead | None, *, made: bool) -> Iterator[Target]:
    if any(one.reader == PLAIN for one in readings):
        for name in dict.fromkeys(one.reader for one in readings if one.reader.startswith("daira")):
            yield _at_least_plain(name, readings)
            yield _better_in_the_mean(name, readings)
    if made:
        for name in dict.fromkeys(one.reader for one in readings if one.reader.startswith("daira")):
            yield _in_every_order(name, readings)
    if overhead is not None:
        yield _reached("pages a CPU second by the recognizer, of the engine alone", overhead.efficiency, EFFICIENCY)
        yield _reached("two children, times as fast as one", overhead.speed_up, SPEED_UP)


def _reached(what: str, figure: float, least: float) -> Target:
    return Target(text=f"{what}: at least {least:g}", figure=f"{figure:.3f}", met=figure >= least)


def _at_least_plain(name: str, readings: Sequence[Reading]) -> Target:
    plain = {one.sample.name: one.score.word_f1 for one in readings if one.reader == PLAIN}
    ours = [one for one in readings if one.reader == name]
    fine = sum(one.score.word_f1 >= plain[one.sample.name] for one in ours)
    return _all(f"{name}: word F1 at least plain tesseract's, file by file", fine, len(ours))


def _better_in_the_mean(name: str, readings: Sequence[Reading]) -> Target:
    means = by_reader(readings)
    ours, plain = means[name].word_f1, means[PLAIN].word_f1
    text = f"{name}: word F1 better than plain tesseract's in the mean"
    return Target(text=text, figure=f"{ours:.4f} to {plain:.4f}", met=ours > plain)


def _in_every_order(name: str, readings: Sequence[Reading]) -> Target:
    clean = [one for one in readings if one.reader == name and one.sample.group in EVERY_ORDER]
    fine = sum(one.score.cer <= MOST_WRONG for one in clean)
    return _all(f"{name}: CER at most 2 % at 200 dpi, turned or leaning", fine, len(clean))


def _all(text: str, fine: int, of: int) -> Target:
    return Target(text=text, figure=f"{fine} of {of}", met=fine == of)
