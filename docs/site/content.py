"""What is done to a page's HTML: pictures in it, formulas as MathML, names of parts and recipes as links."""

from __future__ import annotations

import html as entities
import posixpath
import re
from collections.abc import Mapping
from pathlib import Path

from latex2mathml.converter import convert

PICTURE = re.compile(r'<img alt="([^"]*)" src="([^"]+\.svg)" ?/?>')
FORMULA = re.compile(r'<(span|div) class="arithmatex">(.*?)</\1>', re.DOTALL)
NAME = re.compile(r"<pre.*?</pre>|<a\b.*?</a>|<h\d.*?</h\d>|<code>([\w./-]+)</code>", re.DOTALL)


def with_pictures(html: str, page: str, docs: Path) -> str:
    """An SVG of ours stands in the page itself, so that it takes the page's colours, light or dark."""

    def drawn(found: re.Match[str]) -> str:
        said, source = found.groups()
        svg = (docs / posixpath.dirname(page) / source).read_text(encoding="utf-8")
        if 'class="cbr-picture"' not in svg:
            return found[0]
        return f'<span class="cbr-frame" role="img" aria-label="{said}">{svg.strip()}</span>'

    return PICTURE.sub(drawn, html)


def with_formulas(html: str) -> str:
    """TeX as MathML, which browsers draw by themselves."""

    def converted(found: re.Match[str]) -> str:
        block = found[1] == "div"
        formula = convert(entities.unescape(found[2]).strip()[2:-2], display="block" if block else "inline")
        return f'<div class="cbr-formula">{formula}</div>' if block else formula

    return FORMULA.sub(converted, html).replace(" ± ", "\u00a0±\u00a0")


def with_links(html: str, page: str, names: Mapping[str, str]) -> str:
    """`cbr_vq/vq` and `recipes/quickstart.yaml`, wherever they are named, lead to what they are. Lines may
    end after a slash."""

    def linked(found: re.Match[str]) -> str:
        target = names.get(found[1] or "")
        code = found[0].replace("/", "/<wbr>", found[1].count("/")) if found[1] else found[0]
        if target is None or target.partition("#")[0] == page:
            return code
        file, _, anchor = target.partition("#")
        way = posixpath.relpath(file, posixpath.dirname(page) or ".").removesuffix(".md")
        return f'<a href="{way}.html#{anchor}">{code}</a>'

    return NAME.sub(linked, html)
