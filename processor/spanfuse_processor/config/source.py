"""A YAML file as data, with the line of every key, and with references to the environment replaced.

YAML is read by the rules of 1.2, as the Collector does: `off`, `on`, `yes` and `no` are words, and 010 is ten.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Self

import yaml

Path = tuple[str | int, ...]
"""Keys and list indices from the root."""

MAX_DEPTH: Final = 32
"""Deepest nesting; more is an alias that contains itself."""
MAX_VALUES: Final = 20_000
"""Most values, with all aliases replaced by what they stand for: ten lines of aliases of aliases can stand for billions. A file
with a thousand policies has some ten thousand."""

SECTIONS: Final = "sections (receivers, detectors, …), each with its settings"

_WORDS: Final = {"": None, "~": None, "null": None, "Null": None, "NULL": None} | {
    word: value for value in (True, False) for word in (str(value), str(value).lower(), str(value).upper())
}
_INT: Final = re.compile(r"[-+]?[0-9]+")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_REFERENCE: Final = re.compile(r"\$\$|\$\{([^}]*)(\}?)")
_VARIABLE: Final = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)
_TAGS: Final = frozenset(f"tag:yaml.org,2002:{name}" for name in ("str", "map", "seq"))


class _TooLarge(Exception):
    """There are more values than `MAX_VALUES`."""


class _Loader(yaml.SafeLoader):
    """Leaves it to `Source` what a plain scalar means."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012


def dotted(path: Path) -> str:
    """A path as people write it: `policies[0].rules.cycle`."""
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)
    return text.removeprefix(".")


class Source:
    """A file that was read.

    Args:
        name: of the file, for messages.
        env: the environment.
    """

    def __init__(self, name: str, env: Mapping[str, str]) -> None:
        self.name = name
        self.problems: list[tuple[int, str]] = []
        """What is wrong with it so far: line, and what to print."""
        self.spoilt: set[Path] = set()
        """Values that could not be read; whatever else is said of them is misleading."""
        self._env = env
        self._lines: dict[Path, int] = {}
        self._values = 0

    @classmethod
    def read(cls, name: str, text: str, env: Mapping[str, str], holds: str = SECTIONS) -> tuple[Self, dict[str, Any]]:
        """Parse.

        Args:
            holds: what is in the file, for messages.

        Returns:
            The source, and its data: empty where the file is, or is no mapping.
        """
        source = cls(name, env)
        try:
            root = _Loader(text).get_single_node()
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            source.problem(mark.line + 1 if mark else 1, (), _one_line(f"not YAML: {error.problem or error.context}"))
            return source, {}
        except yaml.YAMLError as error:
            source.problem(1, (), _one_line(f"not YAML: {error}"))
            return source, {}
        except RecursionError:
            source.problem(1, (), "nested too deep")
            return source, {}
        if root is None:
            return source, {}
        try:
            data = source._value(root, ())
        except _TooLarge:
            source.problems.clear()  # whatever was found so far, found again in each copy
            source.problem(1, (), f"more than {MAX_VALUES} values, counting what aliases stand for")
            return source, {}
        if data is None or isinstance(data, dict):
            return source, data or {}
        source.problem(root.start_mark.line + 1, (), f"must be {holds}")
        return source, {}

    def problem(self, line: int, path: Path, message: str) -> None:
        """Note a problem."""
        where = f"{self.name}:{line}: " + (f"{dotted(path)}: " if path else "")
        self.problems.append((line, where + message))

    def has(self, path: Path) -> bool:
        """Whether the file has this key."""
        return path in self._lines

    def line_of(self, path: Path) -> int:
        """The line of a key, or of the nearest above it that the file has."""
        while path and path not in self._lines:
            path = path[:-1]
        return self._lines.get(path, 1)

    def _value(self, node: yaml.Node, path: Path) -> Any:
        self._values += 1
        if self._values > MAX_VALUES:
            raise _TooLarge
        line = node.start_mark.line + 1
        self._lines.setdefault(path, line)
        if node.tag not in _TAGS or len(path) > MAX_DEPTH:
            self.spoilt.add(path)
            self.problem(
                line, path[:4], f"tag {node.tag} is not used here" if node.tag not in _TAGS else "nested too deep"
            )
            return None
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self._value(item, (*path, index)) for index, item in enumerate(node.value)]
        return self._scalar(node, path) if isinstance(node, yaml.ScalarNode) else None

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                self.problem(line, path, "a key must be a word")
            elif key_node.value == "<<" and key_node.style is None:
                merged = self._merged(value_node, path) | merged
            elif key_node.value in found:
                first = self._lines[(*path, key_node.value)]
                self.problem(line, (*path, key_node.value), f"duplicate key, first on line {first}")
            else:
                self._lines[(*path, key_node.value)] = line
                found[key_node.value] = self._value(value_node, (*path, key_node.value))
        return merged | found

    def _merged(self, node: yaml.Node, path: Path) -> dict[str, Any]:
        """What `<<: *anchor` brings in."""
        found = self._value(node, path)
        if isinstance(found, dict):
            return found
        self.problem(node.start_mark.line + 1, path, "<< must name a mapping")
        return {}

    def _scalar(self, node: yaml.ScalarNode, path: Path) -> Any:
        text = str(node.value)
        if "$" in text:
            return self._replaced(node, text, path)
        return plain(text) if node.style is None else text

    def _replaced(self, node: yaml.ScalarNode, text: str, path: Path) -> Any:
        """With the environment's values; they stay text, which the field's own type then reads."""
        faults: list[str] = []
        replaced = _REFERENCE.sub(lambda match: self._reference(match, faults), text)
        for fault in faults:
            self.problem(node.start_mark.line + 1, path, fault)
        if faults:
            self.spoilt.add(path)
        return None if node.style is None and not replaced else replaced

    def _reference(self, match: re.Match[str], faults: list[str]) -> str:
        if match[0] == "$$":
            return "$"
        variable = _VARIABLE.fullmatch(match[1]) if match[2] else None
        if variable is None:
            faults.append("a reference is written ${env:VAR} or ${env:VAR:-default}, and a $ before a brace $$")
            return ""
        name, default = variable.groups()
        value = self._env.get(name)
        if value is None and default is None:
            faults.append(f"environment variable {name} is not set; set it, or write ${{env:{name}:-default}}")
        return value or default or ""


def plain(text: str) -> Any:
    """What a scalar without quotes means."""
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text) and len(text) < 20:
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def _one_line(text: str) -> str:
    return " ".join(text.split())
