"""The jars of Apache Kafka, fetched once through Maven into the checkout's `.cache/`."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

_HERE = Path(__file__).parent / "kafka"
_CACHE = Path(__file__).parents[2] / ".cache"

POM = _HERE / "pom.xml"
LOG4J = _HERE / "log4j2.properties"


class MissingTool(RuntimeError):
    """Java or Maven is not installed; the message says how to install it."""


def tool(name: str, package: str) -> str:
    """Path of a program.

    Raises:
        MissingTool: it is not installed.
    """
    found = shutil.which(name)
    if found is None:
        raise MissingTool(f"a real Apache Kafka is started, which needs `{name}`: apt-get install {package}")
    return found


def java() -> str:
    """Path of `java`, of JAVA_HOME first."""
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return str(Path(home) / "bin" / "java")
    return tool("java", "openjdk-17-jre-headless")


def class_path() -> str:
    """Class path of a Kafka broker; fetches the jars when `pom.xml` changed since they were fetched.

    Raises:
        MissingTool: Maven is not installed.
        RuntimeError: Maven failed; with its output.
    """
    jars = _CACHE / f"kafka-{hashlib.sha256(POM.read_bytes()).hexdigest()[:12]}"
    if not jars.is_dir():
        _fetch(jars)
    return str(jars / "*")


def _fetch(jars: Path) -> None:
    maven = tool("mvn", "maven")
    _CACHE.mkdir(exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix="kafka-", dir=_CACHE))
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={partial}", "-DincludeScope=runtime"]
    done = subprocess.run([maven, "-q", "-B", "-f", str(POM), *goal], capture_output=True, text=True, timeout=900)
    if done.returncode:
        shutil.rmtree(partial)
        raise RuntimeError(f"Maven could not fetch Apache Kafka:\n{done.stdout[-3000:]}{done.stderr[-1000:]}")
    try:
        partial.rename(jars)
    except OSError:  # another run was faster
        shutil.rmtree(partial)
