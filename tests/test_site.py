"""The site is built strictly: no dead link, nothing from elsewhere, everything that is installed is in it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from html import unescape
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from doc_pages import PAGES, PLUGIN_PAGES, ROOT, name_of
from report_pages import shown

from cbr_show.describing import WRITTEN, describe
from cbrcore import __all__ as names
from cbrcore.plugins import load_plugins
from cbrcore.recipe.model import settings_class
from cbrcore.registry import HOOK_OF_KIND, KINDS

DONE = 'document.body.dataset.drawn = "1";'
"""The pages draw nothing by themselves that a probe would have to wait for."""
SOURCES = [page for page in PAGES if page.is_relative_to(ROOT / "docs")]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The built pages. A warning of the builder is an error."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


def html(site: Path) -> dict[str, str]:
    return {path.relative_to(site).as_posix(): path.read_text() for path in site.rglob("*.html")}


def test_every_page_is_built_and_has_a_title_and_a_place_in_the_navigation(site):
    first = (site / "index.html").read_text()
    for page in SOURCES:
        built = page.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
        assert (site / built).exists()
        assert f'href="{built}"' in first or built == "index.html", f"mkdocs.yml: nav lacks {name_of(page)}"
    assert not list(site.rglob("*.py"))


def test_every_plugin_has_a_page_and_every_kind(site):
    assert {path.stem for path in site.glob("plugins/*.html")} == {page.parent.name for page in PLUGIN_PAGES}
    assert {path.stem for path in site.glob("kinds/*.html")} == set(KINDS)
    for kind in KINDS:
        page = (site / "kinds" / f"{kind}.html").read_text()
        assert HOOK_OF_KIND[kind] in page
        assert "my_plugin/__init__.py" in page
        assert "Suite" in page


def test_every_part_is_in_the_reference_with_every_setting(site):
    parts = [component for component in load_plugins().registry if component.kind in WRITTEN]
    assert len(parts) > 30
    for component in parts:
        page = (site / "reference" / f"{component.kind}.html").read_text()
        assert f'id="{component.plugin}-{component.name}"' in page
        lost = [
            each.path for each in describe(settings_class(component)) if f"<code>{each.path}</code>" not in page
        ]
        assert lost == [], component.qualified


def test_every_public_name_is_in_the_reference(site):
    page = (site / "reference" / "python.html").read_text()
    assert [name for name in names if name != "__version__" and not re.search(rf"\b{name}\b", page)] == []


def test_every_recipe_is_in_the_reference_as_it_is(site):
    page = unescape(re.sub(r"<[^>]+>", "", (site / "reference" / "recipes.html").read_text()))
    text = (ROOT / "recipes" / "quickstart.yaml").read_text()
    assert all(line in page for line in text.splitlines())
    files = [path for path in ROOT.glob("recipes/**/*.yaml") if path.name != "paper.yaml"]
    assert [path for path in files if path.relative_to(ROOT).as_posix() not in page] == []


def test_the_names_of_parts_and_recipes_are_links(site):
    """Links that are made after the builder has checked its own: each leads to an element that there is."""
    pages = html(site)
    found = 0
    for name, text in pages.items():
        for file, anchor in re.findall(r'<a href="([\w./-]+\.html)#([\w.-]*)"><code>', text):
            there = os.path.normpath(os.path.join(os.path.dirname(name), file))
            assert there in pages, (name, file)
            assert not anchor or f'id="{anchor}"' in pages[there], (name, file, anchor)
            found += 1
    assert found > 50


def test_the_first_page_is_readme_with_its_picture(site):
    page = html(site)["index.html"]
    picture = re.search(r'<img alt="A heat map[^"]*" src="([^"]+)"', page)
    assert picture
    assert (site / picture[1]).is_file()
    assert "Install and test" in page


LOADS = re.compile(r'<(?:script|img|iframe|source)\b[^>]*\bsrc="([^"]+)"|<link\b[^>]*\bhref="([^"]+)"')


def test_nothing_is_loaded_from_elsewhere(site):
    for name, text in html(site).items():
        loaded = [one or other for one, other in LOADS.findall(text)]
        assert len(loaded) > 3
        assert [each for each in loaded if re.match(r"(https?:)?//", each)] == [], name
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import )[\"']?(https?:)?//", sheet.read_text()), sheet


def test_formulas_and_pictures_stand_in_the_pages(site):
    pages = {name: text for name, text in html(site).items() if name.startswith("paper/")}
    assert all('class="arithmatex"' not in text for text in pages.values())
    assert sum("<math" in text for text in pages.values()) >= 5
    for page in (ROOT / "docs" / "paper").glob("*.md"):
        if page.name not in ("index.md", "readings.md"):
            assert 'class="cbr-picture"' in pages[f"paper/{page.stem}.html"], page


def pictures() -> dict[str, str]:
    """Name -> SVG, as docs/site/pictures.py draws it."""
    code = "import json, pictures; print(json.dumps({p.__name__: p().svg() for p in pictures.PICTURES}))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT / "docs" / "site", capture_output=True, check=True
    )
    return json.loads(done.stdout)


def test_the_pictures_are_those_that_the_script_draws_and_nothing_is_cut_off():
    drawn = pictures()
    assert {path.stem for path in (ROOT / "docs" / "images").glob("*.svg")} == set(drawn)
    for name, svg in drawn.items():
        mended = f"python docs/site/pictures.py draws {name}.svg anew"
        assert (ROOT / "docs" / "images" / f"{name}.svg").read_text() == svg, mended
        words = r'<text class="(\w*)" x="([\d.]+)" y="([\d.]+)" text-anchor="(\w+)">(.*?)</text>'
        height = float(re.search(r'viewBox="0 0 440 (\d+)"', svg)[1])
        for style, x, y, anchor, said in re.findall(words, svg):
            width = len(unescape(said)) * (6.2 if style == "small" else 7.3)
            left = float(x) - {"start": 0, "middle": width / 2, "end": width}[anchor]
            assert left >= 0, (name, said)
            assert left + width <= 440, (name, said)
            assert float(y) < height - 3, (name, said)


def test_every_picture_says_what_is_on_it(site):
    for page in SOURCES:
        assert all(len(said) > 40 for said in re.findall(r"!\[(.*?)\]\(", page.read_text())), page
    framed = re.findall(r'role="img" aria-label="([^"]+)"', (site / "paper" / "cycle.html").read_text())
    assert len(framed) == 1


@pytest.fixture(scope="module")
def served(site) -> Iterator[str]:
    """The address of the built pages."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("size", ["390,844", "1280,900"])
@pytest.mark.parametrize("page", ["index", "paper/quantization", "results/twc", "reference/context_encoder"])
def test_a_page_fits_its_window_and_has_no_faults(site, served, page, size):
    """In a browser, on a phone and a desk: no error of a script, nothing wider than the window."""
    file = site / f"{page}.html"
    address = f"{served}/{file.parent.relative_to(site).as_posix()}".removesuffix("/.")
    found = shown(
        file, file.parent, f"{DONE} return {{scheme: document.body.dataset.mdColorScheme}}",
        f"--window-size={size}", "--blink-settings=preferredColorScheme=0", address=address,
    )  # fmt: skip
    assert found["scheme"] == "slate"


def test_the_search_knows_the_words_of_every_kind_of_page(site):
    found = json.loads((site / "search" / "search_index.json").read_text())["docs"]
    for page, words in (("reference/quantizer.html", "commitment"), ("plugins/cbr_lsh.html", "hyperplanes")):
        assert any(words in each["text"] for each in found if each["location"].startswith(page)), page
