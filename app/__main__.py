"""`daira`, also as `python -m app` and through the launcher `./daira`."""

import os
import signal
import sys
from types import FrameType


def main() -> None:
    if os.getpid() == 1:
        # The first process of a container ignores SIGTERM until it says otherwise, and the imports take seconds.
        signal.signal(signal.SIGTERM, _leave)
    try:
        # Ctrl-C may come while this is still being read, which takes its time.
        from app.cli.program import run

        # Told by the launcher, so that what is printed for copying works where it is pasted.
        run(program=os.environ.pop("DAIRA_PROGRAM", "daira"))
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)


def _leave(_signal: int, _frame: FrameType | None) -> None:
    sys.exit(128 + signal.SIGTERM)


if __name__ == "__main__":
    main()
