"""Figures as complete Vega-Lite specifications: clean text, our colours, a size that fits; and as files."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cbr_report.charts import HOVER, INSTALL, can_draw
from cbr_report.texts import shown
from cbr_report.theme import LIGHT, config, parameters
from cbrcore import CbrError, Figure, Section
from cbrcore.runs.folder import write_atomically

FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'
ON_PAPER = "Helvetica, Arial, Liberation Sans, DejaVu Sans, sans-serif"
WIDTH = 1080
"""Pixels of a figure in a file."""


def specification(figure: Figure) -> dict[str, Any]:
    """The figure's chart as plain JSON-able data with our look where it has none of its own.

    Raises:
        CbrError: the chart is none.
    """
    chart = figure.chart.to_dict() if hasattr(figure.chart, "to_dict") else figure.chart
    if not isinstance(chart, Mapping):
        raise CbrError(
            f"figure {figure.id!r}: its chart is {type(chart).__name__}, neither of altair nor a mapping"
        )
    try:
        text = json.dumps(_drawable(chart), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise CbrError(f"figure {figure.id!r}: its chart is not JSON: {error}") from error
    found: dict[str, Any] = json.loads(text)
    found.pop("$schema", None)
    found.setdefault("description", figure.title)
    given = {each.get("name") for each in found.get("params", ())}
    found["params"] = [
        *found.get("params", ()),
        *(each for each in parameters(LIGHT) if each["name"] not in given),
    ]
    found["config"] = _merged(config(FONT), found.get("config", {}))
    return found


def _drawable(data: Any) -> Any:
    """The same with null for numbers that JSON does not know, and texts that end no line of an expression."""
    if isinstance(data, Mapping):
        return {_drawable(str(key)): _drawable(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_drawable(value) for value in data]
    if isinstance(data, str):
        return re.sub("[\u2028\u2029]", " ", shown(data))
    return None if isinstance(data, float) and not abs(data) < float("inf") else data


def _merged(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    """Theirs where both say something, mapping by mapping."""
    both = {
        key: _merged(ours[key], value)
        if isinstance(value, Mapping) and isinstance(ours.get(key), Mapping)
        else value
        for key, value in theirs.items()
    }
    return {**ours, **both}


def fitted(spec: Mapping[str, Any], room: float) -> dict[str, Any]:
    """As many panels and entries of the legend side by side as there is room for; a grid keeps whole rows.

    figures.js does the same for the page.
    """
    told, found, inner = spec.get("usermeta") or {}, dict(spec), spec.get("spec")
    if "panel" in told and isinstance(inner, Mapping) and "columns" in spec:
        beside = told["panel"] - inner["width"]
        columns = int(spec["columns"])
        while columns > 1 and (
            columns * (beside + 0.75 * inner["width"]) > room or (told.get("grid") and spec["columns"] % columns)
        ):
            columns -= 1
        width = max(110, min(inner["width"], room // columns - beside))
        found |= {"columns": columns, "spec": {**inner, "width": width}}
    if "entry" in told:
        found["config"] = _merged(spec["config"], {"legend": {"columns": max(1, int(room // told["entry"]))}})
    return found


def write_figures(figures: Sequence[Figure], folder: Path) -> list[str]:
    """Every figure as SVG and as PDF, named by its id; what could not be drawn, in words.

    Raises:
        CbrError: what draws is not installed.
    """
    if not can_draw():
        raise CbrError("figures need altair and vl-convert-python", hint=INSTALL)
    import vl_convert

    folder.mkdir(parents=True, exist_ok=True)
    problems = []
    for figure in figures:
        try:
            spec = _without_hover(fitted(specification(figure), WIDTH))
            spec["config"] = _merged(spec["config"], {"font": ON_PAPER, "background": "white"})
            if spec.get("width") == "container":
                spec["width"] = WIDTH // 2
            svg = vl_convert.vegalite_to_svg(spec, allowed_base_urls=[])
            write_atomically(folder / f"{figure.id}.svg", svg)
            write_atomically(folder / f"{figure.id}.pdf", vl_convert.svg_to_pdf(svg))
        except OSError:
            raise
        except (Exception, SystemExit) as error:  # a plugin's chart may be anything
            problems.append(f"figure {figure.id!r} cannot be drawn: {_short(error)}")
    return problems


def _without_hover(spec: Any) -> Any:
    """Without the layers that only a pointer meets."""
    if isinstance(spec, list):
        return [_without_hover(each) for each in spec if not _is_hover(each)]
    return {key: _without_hover(value) for key, value in spec.items()} if isinstance(spec, Mapping) else spec


def _is_hover(part: Any) -> bool:
    mark = part.get("mark") if isinstance(part, Mapping) else None
    return isinstance(mark, Mapping) and mark.get("style") == HOVER


def figure_data(sections: Sequence[Section]) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """(id -> specification of every figure that can be shown, what is wrong with the others)."""
    found: dict[str, dict[str, Any]] = {}
    problems: list[str] = []
    for figure in (part for section in sections for part in section.parts if isinstance(part, Figure)):
        if can_draw():
            try:
                found[figure.id] = specification(figure)
            except (Exception, SystemExit) as error:  # a plugin's chart may be anything
                problems.append(f"figure {figure.id!r} is left out: {_short(error)}")
    return found, problems


def page_script() -> str:
    """Vega-Embed, Vega-Lite and Vega as one script that fetches nothing."""
    import vl_convert

    bundle: str = vl_convert.javascript_bundle()  # type: ignore[call-arg]  # its stub is behind
    return re.sub(
        r"</(?=script)|<!(?=--)", lambda found: {"</": r"<\/", "<!": r"<\!"}[found[0]], bundle, flags=re.IGNORECASE
    )


def _short(error: BaseException) -> str:
    message = getattr(error, "message", None) or f"{type(error).__name__}: {error}"
    return " ".join(str(message).split())[:300]
