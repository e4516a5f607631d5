"""`daira`, also as `python -m app`."""

from app.cli.program import run


def main() -> None:
    run()


if __name__ == "__main__":
    main()
