"""The quickstarts of the docs: the first script of each, run as a process, and what the page says that it prints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

PAGES = Path(__file__).parents[2] / "docs" / "quickstarts"
TIMEOUT_S = 90.0


def ran(page: str, folder: Path, *arguments: str, **environment: str) -> tuple[str, str]:
    """Run a page's script.

    Args:
        page: name of the page, without its end.
        folder: where it runs, and may write.
        arguments: of its command line.
        environment: beside the present one.

    Returns:
        What it printed, and what the page says.
    """
    text = (PAGES / f"{page}.md").read_text()
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S)
    script = next(block for kind, block in blocks if kind == "python")
    said = next(block for kind, block in blocks if not kind)
    (folder / "quickstart.py").write_text(script)
    done = subprocess.run(
        [sys.executable, "quickstart.py", *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(PAGES.parents[1]), "HOME": str(folder)} | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, said
