"""The Helm chart, rendered. `python -m tests.deploy.charts` writes the manifests in deploy/kubernetes anew."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.services.go_tools import helm

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy/helm/spanfuse"
EXAMPLE = ROOT / "deploy/kubernetes"
KUBERNETES = "1.34.0"
"""The Kubernetes that charts are rendered for."""
_HEAD = "# Rendered from the chart by `make kubernetes`; do not edit. README.md says in which order they are applied.\n"


def values_files() -> list[Path]:
    """Those of the chart's `ci` folder, each of which has to work."""
    return sorted((CHART / "ci").glob("*-values.yaml"))


def run_helm(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Helm, whatever it says."""
    return subprocess.run([helm(), *map(str, arguments)], capture_output=True, text=True, timeout=60)


def rendered(*arguments: str | Path, name: str = "spanfuse") -> str:
    """The chart's manifests as text."""
    done = run_helm("template", name, CHART, "--kube-version", KUBERNETES, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def documents(text: str) -> list[dict[str, Any]]:
    """The objects in a file of manifests."""
    return [document for document in yaml.safe_load_all(text) if document]


def of_kind(found: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """Those of one kind."""
    return [document for document in found if document["kind"] == kind]


def pods(found: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The specification of each pod that is made, by the name of what makes it."""
    specs = {}
    for document in found:
        if document["kind"] == "Pod":
            specs[document["metadata"]["name"]] = document["spec"]
        elif "template" in document.get("spec", {}):
            specs[document["metadata"]["name"]] = document["spec"]["template"]["spec"]
    return specs


def example() -> dict[str, str]:
    """The content of each file in deploy/kubernetes that is rendered."""
    common = ("--namespace", "spanfuse", "--values", EXAMPLE / "values.yaml")
    return {
        "topics.yaml": _HEAD + rendered(*common, "--show-only", "templates/topics.yaml"),
        "spanfuse.yaml": _HEAD + rendered(*common, "--no-hooks"),
    }


if __name__ == "__main__":
    for file, content in example().items():
        (EXAMPLE / file).write_text(content)
