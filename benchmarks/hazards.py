"""Hostile and damaged files: the outcome of reading each, the time, and the memory that a reader uses.

Run: ./daira bench hazards FOLDER
     ./daira bench hazards FOLDER --mutations 500 --seed 1 [--keep DIRECTORY]

Every file of the folder is read by the real recognizer, with one reader. With --mutations, samples made in code and
the folder's files are damaged at random (bytes changed, cut, spliced, numbers and words swapped), the same way for
the same seed. Fails if a file ends in anything but done or a job's error code, takes more than --limit seconds,
needs more memory than a reader may have, or leaves a reader behind.
"""

import argparse
import asyncio
import sys
import tempfile
from collections import Counter
from pathlib import Path

import structlog

from tests.support.hazard_runs import Hazards, hazards
from tests.support.hazards import mutations

_LARGEST = 2_000_000
"""Bytes of the largest file that is damaged; in a larger one, damage rarely hits anything."""


async def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--mutations", type=int, default=0, help="number of damaged files to read instead")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--limit", type=float, default=30.0, help="seconds that a file may take")
    arguments.add_argument("--keep", type=Path, help="folder to keep the files in that failed")
    options = arguments.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    files = sorted(path for path in options.folder.iterdir() if path.is_file())
    async with hazards() as watched:
        if options.mutations:
            return await _damaged(watched, files, options)
        return await _as_they_are(watched, files, limit=options.limit)


async def _as_they_are(watched: Hazards, files: list[Path], *, limit: float) -> int:
    failed = 0
    print(f"{'file':<28} {'outcome':<16} {'seconds':>8} {'CPU s':>7} {'peak MiB':>9}  detail")
    for path in files:
        run = await watched.run(path)
        faults = watched.faults(run, seconds=limit)
        failed += bool(faults)
        detail = "; ".join(["FAILED", *faults]) if faults else run.detail
        print(
            f"{path.name:<28} {run.outcome:<16} {run.seconds:>8.2f} {run.cpu:>7.2f} {run.peak:>9.0f}  {detail}",
            flush=True,
        )
    print(f"{len(files)} files, {failed} failed")
    return 1 if failed else 0


async def _damaged(watched: Hazards, files: list[Path], options: argparse.Namespace) -> int:
    extra = [path.read_bytes() for path in files if path.stat().st_size <= _LARGEST]
    outcomes: Counter[str] = Counter()
    failed, slowest, largest = 0, 0.0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        for mutation in mutations(options.mutations, seed=options.seed, extra=extra):
            path = Path(folder, "damaged")
            path.write_bytes(mutation.content)  # noqa: ASYNC240 - nothing else waits for this loop
            run = await watched.run(path)
            outcomes[run.outcome] += 1
            slowest, largest = max(slowest, run.seconds), max(largest, run.peak)
            if faults := watched.faults(run, seconds=options.limit):
                failed += 1
                print(f"{mutation.name}: {'; '.join(faults)}", flush=True)
                if options.keep:
                    options.keep.mkdir(parents=True, exist_ok=True)
                    (options.keep / mutation.name).write_bytes(mutation.content)
    print(", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common()))
    print(f"{options.mutations} files, {failed} failed, slowest {slowest:.1f} s, most memory {largest:.0f} MiB")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
