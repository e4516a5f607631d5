"""What is written for those who deploy, as values: compose, Kubernetes, systemd, AWS."""

import configparser
import re
from collections import ChainMap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = ROOT / "docker-compose.yml"
BASE = DEPLOY / "kubernetes" / "base"
TEMPLATE = DEPLOY / "aws" / "daira.yaml"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))

Document = dict[str, Any]


def every_yaml() -> list[Path]:
    return [COMPOSE, *sorted(path for path in DEPLOY.rglob("*") if path.suffix in {".yml", ".yaml"})]


def read(path: Path) -> list[Document]:
    """All documents of a file; CloudFormation's tags are read as what they are put before."""
    return [document for document in yaml.load_all(path.read_text(), Loader=_Loader) if document]


def compose() -> Document:
    return read(COMPOSE)[0]


def services() -> dict[str, Document]:
    return dict(compose()["services"])


def filled(text: str, **values: str) -> str:
    """As compose replaces `${NAME:-default}`."""
    return re.sub(r"\$\{(\w+):-([^}]*)\}", lambda found: values.get(found[1]) or found[2], text)


def settings_of(service: Document, **env_file: str) -> dict[str, str]:
    """What a container of compose gets: what is named for it wins over the file."""
    named = {name: filled(str(value), **env_file) for name, value in service.get("environment", {}).items()}
    return dict(ChainMap(named, env_file))


def objects() -> Iterator[Document]:
    """Kubernetes' objects of the base, as they are written there."""
    for path in sorted(BASE.glob("*.yaml")):
        yield from (document for document in read(path) if document["kind"] != "Kustomization")


def pods() -> dict[str, Document]:
    """The pods of the base, by the name of their container."""
    specs = [each["spec"]["template"]["spec"] for each in objects() if each["kind"] in {"Deployment", "Job"}]
    return {spec["containers"][0]["name"]: spec for spec in specs}


def unit(path: Path) -> dict[str, str]:
    """What a unit says of its service; of a key that is there several times, the last."""
    parser = configparser.RawConfigParser(strict=False, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(path)
    return dict(parser["Service"])


def seconds(text: str) -> int:
    return int(text.removesuffix("s"))


def mebibytes(text: str) -> int:
    """`3584M`, `3584Mi`, `2G`, `1Gi`."""
    found = re.fullmatch(r"(\d+)([MG])i?", text)
    assert found is not None, text
    return int(found[1]) * (1024 if found[2] == "G" else 1)


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """Safe, and knows `!Ref` and its like for the value behind them."""


def _untagged(loader: _Loader, _suffix: str, node: yaml.Node) -> Any:
    if isinstance(node, yaml.ScalarNode):
        return loader.construct_scalar(node)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    return loader.construct_mapping(node, deep=True)


_Loader.add_multi_constructor("!", _untagged)
