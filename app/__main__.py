"""`daira`, also as `python -m app` and through the launcher `./daira`."""

import os

from app.cli.program import run


def main() -> None:
    # Told by the launcher, so that what is printed for copying works where it is pasted.
    run(program=os.environ.pop("DAIRA_PROGRAM", "daira"))


if __name__ == "__main__":
    main()
