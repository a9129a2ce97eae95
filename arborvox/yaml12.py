"""YAML as recipes mean it: `no` is a language, `5e-5` a number, and a key stands once.

PyYAML follows YAML 1.1, where `no` is false and `5e-5` is text; both have spoiled experiments.
"""

import re
from collections.abc import Hashable
from typing import Any

import yaml

from arborvox.errors import ArborvoxError


class _Loader(yaml.SafeLoader):
    """The safe loader with YAML 1.2's scalars and no repeated keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise yaml.MarkedYAMLError(
                    problem="a key must be a word", problem_mark=key_node.start_mark
                )
            if key_node.value in seen:
                line = key_node.start_mark.line + 1
                raise yaml.MarkedYAMLError(
                    problem=f"the key {key_node.value} stands twice (again in line {line})",
                    problem_mark=key_node.start_mark,
                )
            seen.add(key_node.value)
        return super().construct_mapping(node, deep)


_SCALARS = (
    ("null", r"^(?:~|null|)$", ["~", "n", ""]),
    ("bool", r"^(?:true|false)$", list("tf")),
    ("int", r"^[-+]?[0-9]+$", list("-+0123456789")),
    (
        "float",
        r"^(?:[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan)$",
        list("-+0123456789."),
    ),
)
_Loader.yaml_implicit_resolvers = {}
for _name, _pattern, _first in _SCALARS:
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", re.compile(_pattern), _first)


class _Dumper(yaml.SafeDumper):
    """The safe dumper with the same scalars, so that what is shown loads back."""


_Dumper.yaml_implicit_resolvers = _Loader.yaml_implicit_resolvers


def parse_yaml(text: str, name: str) -> Any:
    """Parse YAML text; a mistake is told with its line."""
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ArborvoxError(f"{name}, line {line}: {error.problem}.") from None
    except yaml.YAMLError as error:
        raise ArborvoxError(f"{name}: not valid YAML ({error}).") from None


def dump_yaml(value: Any) -> str:
    """Return block-style YAML in the order of the keys."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
    return text


def key_lines(text: str, name: str) -> dict[tuple[str, ...], int]:
    """Map each key path of a YAML text to the line it stands in."""
    lines: dict[tuple[str, ...], int] = {}
    root = yaml.compose(text, Loader=_Loader)
    stack: list[tuple[tuple[str, ...], tuple[Any, ...]]] = [((), (root,))]
    while stack:
        path, (*around, node) = stack.pop()
        if node in around:  # an alias of what it stands in
            raise ArborvoxError(f"{name}, line {node.start_mark.line + 1}: it contains itself.")
        way = (*around, node)
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                inner = (*path, str(key.value))
                lines[inner] = key.start_mark.line + 1
                stack.append((inner, (*way, value)))
        elif isinstance(node, yaml.SequenceNode):
            for position, value in enumerate(node.value):
                stack.append(((*path, str(position)), (*way, value)))
    return lines
