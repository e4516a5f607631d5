"""Jobs a second through each product's own client: one by one in transactions of their own, and in bulk."""

import statistics
from dataclasses import dataclass

from benchmarks.race.competitor import Competitor
from benchmarks.race.program import Order


@dataclass(frozen=True, kw_only=True)
class Enqueue:
    competitor: str
    how: str
    jobs: int
    seconds: float
    p50_ms: float | None = None
    """Milliseconds of one call, the median."""
    p99_ms: float | None = None

    @property
    def rate(self) -> float:
        return self.jobs / self.seconds


ALONE, TOGETHER, BULK = "1 connection", "{} connections", "bulk"


async def enqueue(competitor: Competitor, *, jobs: int, connections: int, seconds: float) -> list[Enqueue]:
    """Measure enqueueing without a worker, so that only the client and the server count."""
    await competitor.forget()
    async with competitor.programs.adder(competitor.dsn, connections=connections) as adder:
        await adder.ask(Order(do="one_by_one", count=100, connections=connections))
        rows = []
        for how, width in ((ALONE, 1), (TOGETHER.format(connections), connections)):
            said = await adder.ask(Order(do="one_by_one", count=jobs, connections=width, seconds=seconds))
            cuts = statistics.quantiles(said["each_ms"], n=100)
            rows.append(_row(competitor, how, said, p50_ms=cuts[49], p99_ms=cuts[98]))
        if competitor.about["bulk"]:
            said = await adder.ask(Order(do="bulk", count=jobs, seconds=seconds))
            rows.append(_row(competitor, BULK, said))
    return rows


def _row(competitor: Competitor, how: str, said: dict[str, float], **more: float) -> Enqueue:
    return Enqueue(competitor=competitor.name, how=how, jobs=int(said["count"]), seconds=said["seconds"], **more)
