"""Draws a result (JSON) as SVG; runs in the peers' environment, which has matplotlib: `plot.py JSON SVG`."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt

mpl.use("svg")

OURS, OTHERS, RAW = "#0b6e4f", "#8d99ae", "#d9dce3"


def draw(run: Mapping[str, Any], file: Path) -> None:
    panels = run["panels"]
    figure, axes = plt.subplots(len(panels), 1, figsize=(8, 0.9 + sum(_height(panel) for panel in panels)),
                                height_ratios=[_height(panel) for panel in panels], squeeze=False)  # fmt: skip
    for axis, panel in zip(axes[:, 0], panels, strict=True):
        _bars(axis, panel)
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})


def _height(panel: Mapping[str, Any]) -> float:
    return 0.75 + 0.3 * len(panel["bars"])


def _bars(axis: Any, panel: Mapping[str, Any]) -> None:
    bars = panel["bars"]
    names = [bar["name"] for bar in bars]
    values = [bar["value"] for bar in bars]
    errors = [
        [bar["value"] - bar.get("least", bar["value"]) for bar in bars],
        [bar.get("most", bar["value"]) - bar["value"] for bar in bars],
    ]
    colours = [OURS if name.startswith("daira") else RAW if name.startswith("raw") else OTHERS for name in names]
    drawn = axis.barh(names, values, xerr=errors, color=colours, error_kw={"lw": 0.8, "capsize": 2})
    axis.bar_label(drawn, labels=[panel["format"].format(value) for value in values], padding=8, fontsize=8)
    axis.set_title(panel["title"], loc="left", fontsize=10)
    axis.invert_yaxis()
    axis.margins(x=0.15)
    axis.tick_params(labelsize=8)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


if __name__ == "__main__":
    draw(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
