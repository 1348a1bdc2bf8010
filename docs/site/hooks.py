"""What the site adds to the pages as they lie in docs/: folders in the navigation, files of the repository, drawings.

MkDocs calls the functions `on_…`; what is warned of here fails a build with `--strict`.
"""

from __future__ import annotations

import logging
import os
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = "docs/"
SHOWN: Final = "repository/"
"""Where on the site the files of the repository are shown that pages link to."""

_LINK: Final = re.compile(r"(?<=\]\()(?![a-z]+:)([^)#\s]+)")
_IMAGE: Final = re.compile(r'<p><img alt="([^"]*)" src="([^"]+\.svg)" ?/?></p>')
_ICON: Final = "processor/spanfuse_processor/page/static/icon.svg"
_LANGUAGES: Final = {".yml": "yaml", ".jsonl": "json", ".lua": "lua", ".tpl": "yaml", ".py": "python", ".sh": "sh"}
_MAX_COLOURED: Final = 100_000
"""Characters above which a file is shown without colours: pages of markup in place of one of text."""

_log = logging.getLogger("mkdocs.hooks.spanfuse")


def on_config(config: MkDocsConfig) -> None:
    """A folder's README in the navigation stands for the folder, in the order in which it lists its pages."""
    config.nav = [_expanded(entry) for entry in config.nav or []]


def _expanded(entry: Any) -> Any:
    if not isinstance(entry, dict):
        return entry
    ((title, target),) = entry.items()
    if isinstance(target, list):
        return {title: [_expanded(one) for one in target]}
    folder = posixpath.dirname(target)
    if not folder or posixpath.basename(target) != "README.md":
        return entry
    listed = dict.fromkeys(link for link in _LINK.findall(_text(DOCS + target)) if re.fullmatch(r"[\w.-]+\.md", link))
    return {title: [target, *(f"{folder}/{page}" for page in listed)]}


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Files and folders of the repository that pages link to become pages of the site."""
    files.append(File.generated(config, "site/icon.svg", abs_src_path=str(ROOT / _ICON)))
    waiting = [(DOCS + page.src_uri, page.content_string) for page in files.documentation_pages()]
    done: set[str] = set()
    while waiting:
        for path in _outside(*waiting.pop()):
            if path in done:
                continue
            done.add(path)
            text = _shown(path)
            files.append(File.generated(config, _page(path), content=text, inclusion=InclusionLevel.NOT_IN_NAV))
            waiting.append((path, text))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """A link leads to where the site has what it names."""
    source = page.file.src_uri
    shown = source.startswith(SHOWN)
    written_at = source.removeprefix(SHOWN).removesuffix(".md") if shown else DOCS + source

    def on_site(path: str) -> str:
        target = path.removeprefix(DOCS) if path.startswith(DOCS) else _page(path)
        return posixpath.relpath(target, posixpath.dirname(source) or ".")

    def link(found: re.Match[str]) -> str:
        path = _target(written_at, found[0])
        outside = not path.startswith(DOCS)
        if outside and not (ROOT / path).exists():
            _log.warning("%s links to %s, which is not in the repository", written_at, found[0])
        return on_site(path) if outside or shown else found[0]

    return "".join(part if i % 2 else _LINK.sub(link, part) for i, part in enumerate(_parts(markdown)))


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """A drawing is part of its page, so that it has the page's colours and its words are found."""

    def drawn(found: re.Match[str]) -> str:
        source = DOCS + posixpath.normpath(posixpath.join(posixpath.dirname(page.file.src_uri), Path(found[2]).name))
        page.meta["hide"] = ["toc"]  # it needs the width
        return f'<figure class="drawing" role="img" aria-label="{found[1]}">{_text(source)}</figure>'

    return _IMAGE.sub(drawn, html)


def _outside(written_at: str, markdown: str) -> Iterator[str]:
    """Paths in the repository, but not in docs/, that a text links to."""
    for prose in _parts(markdown)[::2]:
        for link in _LINK.findall(prose):
            path = _target(written_at, link)
            if not path.startswith(DOCS) and (ROOT / path).exists():
                yield path


def _parts(markdown: str) -> list[str]:
    """Prose and blocks of code in turn: what stands in code is no link."""
    return re.split(r"(^ *```.*?^ *```+$)", markdown, flags=re.M | re.S)


def _target(written_at: str, link: str) -> str:
    """Path in the repository of what a link names. A folder of docs/ keeps its slash, and is no page."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(written_at), link))
    return path + "/" if path == "docs" or link.endswith("/") else path


def _page(path: str) -> str:
    """Where a file of the repository is on the site."""
    return f"{SHOWN}{path.rstrip('/')}.md"


def _shown(path: str) -> str:
    """A file or a folder of the repository as a page; the search leaves it out."""
    head = "---\nsearch: {exclude: true}\n---\n\n"
    whole = ROOT / path
    if whole.is_dir():
        inside = sorted(str(one.relative_to(whole)) for one in whole.rglob("*") if _is_source(one))
        base = posixpath.basename(path.rstrip("/"))
        return f"{head}# {path.rstrip('/')}/\n\n" + "\n".join(f"- [{one}]({base}/{one})" for one in inside) + "\n"
    text = _text(path)
    if whole.suffix == ".md":
        return head + text
    language = _LANGUAGES.get(whole.suffix, whole.suffix.lstrip(".") or "text") if len(text) < _MAX_COLOURED else "text"
    return f"{head}# {path}\n\n````{language}\n{text.rstrip()}\n````\n"


def _is_source(path: Path) -> bool:
    return path.is_file() and "__pycache__" not in path.parts and not path.name.startswith(".")


def _text(path: str) -> str:
    return (ROOT / os.fspath(path)).read_text(encoding="utf-8")
