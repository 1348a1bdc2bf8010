"""The site: whole, without a link that leads nowhere, and without another host."""

from __future__ import annotations

import importlib.util
import logging
import posixpath
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from tests.house.site import ROOT, Built, Read, build


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def pages(built: Built) -> dict[str, Read]:
    """Path of each page on the site, such as `rules/cycle/index.html`, and what is in it."""
    found = {str(page.relative_to(built.folder)): Read(page) for page in built.folder.rglob("*.html")}
    found.pop("404.html")  # says where it is from the root on, since nobody knows where it is shown
    return found


def leads_to(page: str, link: str) -> str:
    """The file that a relative link names: of a folder its `index.html`."""
    path = unquote(urlsplit(link).path)
    whole = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page
    return posixpath.normpath(posixpath.join(whole, "index.html")) if path.endswith(("/", ".")) else whole


def test_it_is_built_without_a_warning(built: Built) -> None:
    """Every page is in the navigation, every link and anchor is there: `--strict` takes a warning for an error."""
    assert not built.failed, built.said
    assert "WARNING" not in built.said


def test_every_page_of_docs_is_on_it(pages: dict[str, Read]) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        path = page.relative_to(ROOT / "docs")
        shown = path.parent / "index.html" if path.name == "README.md" else path.with_suffix("") / "index.html"
        assert str(shown) in pages


def test_it_asks_no_other_host(built: Built, pages: dict[str, Read]) -> None:
    """Neither pages nor style sheets load anything from elsewhere."""
    assert {link for page in pages.values() for link in page.loaded if urlsplit(link).netloc} == set()
    for sheet in built.folder.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import )['\"]?(?:https?:)?//", sheet.read_text(encoding="utf-8")), sheet


def test_every_link_leads_to_a_page_and_an_anchor(built: Built, pages: dict[str, Read]) -> None:
    """Those into the repository, too, and those between its files."""
    lost = []
    for name, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = leads_to(name, link)
            anchors = pages[target].anchors if target in pages else set()
            if not (built.folder / target).is_file() or not {unquote(parts.fragment)} <= {"", *anchors}:
                lost.append((name, link))
    assert lost == []


def test_files_of_the_repository_that_pages_link_to_are_shown(built: Built) -> None:
    shown = (built.folder / "repository" / "examples" / "worker.yaml" / "index.html").read_text(encoding="utf-8")
    assert "KAFKA_BROKERS" in shown
    assert "looplet.py" in (built.folder / "repository/bench/peers/index.html").read_text(encoding="utf-8")


def test_a_link_to_what_is_not_in_the_repository_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """So that `--strict` fails. Links into docs are MkDocs' own to judge, and code is no link."""
    spec = importlib.util.spec_from_file_location("hooks", ROOT / "docs" / "site" / "hooks.py")
    assert spec is not None
    assert spec.loader is not None
    hooks: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    page = SimpleNamespace(file=SimpleNamespace(src_uri="rules/near.md"))
    text = "[a](../../examples/worker.yaml) [b](../client.md#kafka)\n```\n[c](../../gone.py)\n```\n"
    with caplog.at_level(logging.WARNING):
        changed = hooks.on_page_markdown(text, page, None, None)
        assert not caplog.records
        hooks.on_page_markdown("[d](../../gone.py)", page, None, None)
    assert changed == text.replace("../../examples/worker.yaml", "../repository/examples/worker.yaml.md")
    assert "gone.py, which is not in the repository" in caplog.text


def test_lists_and_tables_are_some(built: Built) -> None:
    """Python's Markdown wants an empty line before a list, which GitHub does not."""
    for page in built.folder.rglob("index.html"):
        if "repository" in page.parts:
            continue
        for text in re.findall(r"<p>(.*?)</p>", page.read_text(encoding="utf-8"), re.DOTALL):
            assert not re.search(r"^(?:[-*] |\d\. |\|.*\|$)", text, re.MULTILINE), (page, text)


def test_the_drawing_is_part_of_its_page(built: Built) -> None:
    """It takes the page's colours, and its words are found."""
    page = (built.folder / "architecture" / "index.html").read_text(encoding="utf-8")
    assert '<svg xmlns="http://www.w3.org/2000/svg" class="drawn"' in page
    assert "spanfuse.control</text>" in page


def test_the_search_knows_pages_and_no_files(built: Built) -> None:
    index = (built.folder / "search" / "search_index.json").read_text(encoding="utf-8")
    assert '"location":"runbook/#a-wrong-block"' in index
    assert '"location":"repository/' not in index


def test_what_readme_links_to_in_docs_is_on_it(pages: dict[str, Read]) -> None:
    for link in re.findall(
        r"\]\(docs/([\w./-]+\.md)(?:#([\w-]+))?\)", Path(ROOT / "README.md").read_text(encoding="utf-8")
    ):
        path, anchor = link
        page = pages[leads_to("index.html", "./" + path.removesuffix(".md").removesuffix("README") + "/")]
        assert not anchor or anchor in page.anchors, link
