"""The one program: commands by what they are for, faults as one line and an exit status.

0 done · 1 failed · 2 wrong usage · 75 not reached in DAIRA_START_TIMEOUT · 78 refused to start
"""

import os
import sys
from pathlib import Path
from typing import NoReturn

import httpx
import typer
from pydantic import ValidationError
from rich.console import Console
from rich.markup import escape

from app.client.faults import ApiFault
from app.domain.errors import DairaError

app = typer.Typer(
    name="daira",
    help="Document processing that never loses a job: upload a document, get its text.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with `daira up`. Settings are DAIRA_ variables; .env.example describes them all.",
)
CLIENT_COMMANDS = frozenset({"upload", "download", "jobs", "search", "usage"})
"""They need nothing of the service's own modules, whose import takes a second."""


def add_client_commands() -> None:
    from app.cli import downloads, jobs, search, usage
    from app.cli.upload import command

    app.command("upload", rich_help_panel="Use")(command.upload)
    app.command("download", rich_help_panel="Use")(downloads.download)
    app.command("search", rich_help_panel="Use")(search.search)
    app.command("usage", rich_help_panel="Use")(usage.usage)
    app.add_typer(jobs.jobs, name="jobs", rich_help_panel="Use")


def add_service_commands() -> None:
    from app.cli import administration, backlog, bulk_jobs, keys, operate, selftest, serving, tenants

    app.command("up", rich_help_panel="Start")(serving.up)
    app.command("serve", rich_help_panel="Start")(serving.serve)
    app.command("backlog", rich_help_panel="Operate")(backlog.backlog)
    app.add_typer(bulk_jobs.job, name="job", rich_help_panel="Operate")
    app.command("sweep", rich_help_panel="Operate")(operate.sweep)
    app.command("purge", rich_help_panel="Operate")(operate.purge)
    app.command("doctor", rich_help_panel="Operate")(operate.doctor)
    app.command("selftest", rich_help_panel="Operate")(selftest.selftest)
    app.command("migrate", rich_help_panel="Administer")(administration.migrate)
    app.add_typer(administration.db, name="db", rich_help_panel="Administer")
    app.add_typer(tenants.tenant, name="tenant", rich_help_panel="Administer")
    app.add_typer(keys.key, name="key", rich_help_panel="Administer")


def run(*, program: str) -> None:
    _have_streams()
    add_client_commands()
    if not CLIENT_COMMANDS.intersection(sys.argv[1:2]):
        add_service_commands()
    try:
        app(prog_name=program)
    except BrokenPipeError:
        sys.exit(1)
    except ValidationError as error:
        _end("; ".join(_setting_fault(fault["loc"], fault["msg"]) for fault in error.errors()), status=2)
    except UnicodeDecodeError:
        _end("something that was read, such as the file .env, is not in UTF-8", status=2)
    except UnicodeEncodeError as error:
        _end(_unwritable(error), status=2)
    except httpx.TransportError as error:
        _end(f"the service can't be reached ({error}): is it running? `daira up` starts one here", status=1)
    except (DairaError, ApiFault, OSError) as error:
        _end(str(error), status=1)


def _end(fault: str, *, status: int) -> NoReturn:
    Console(stderr=True).print(f"[bold red]daira:[/] {escape(fault)}", highlight=False, soft_wrap=True)
    sys.exit(status)


def _have_streams() -> None:
    """Replace closed standard streams (`>&-`) by the null device, so that no opened file takes their place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 - as long as the program


def _unwritable(error: UnicodeEncodeError) -> str:
    if error.encoding == "utf-8":
        return "an argument is not in UTF-8"
    return f"{error.encoding} has not all characters of what is to be printed: set PYTHONIOENCODING=utf-8"


def _setting_fault(location: tuple[int | str, ...], message: str) -> str:
    name = "".join(f"DAIRA_{str(part).upper()}: " for part in location[:1])
    return name + message.removeprefix("Value error, ")
