"""YAML as recipes mean it: `no` is a language, `5e-5` a number, and a key stands once.

PyYAML follows YAML 1.1, where `no` is false and `5e-5` is text; both have spoiled experiments.
"""

import re
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any

import yaml

from arborvox.errors import ArborvoxError, one_line

# What a text may hold when its aliases are written out; our longest recipe has a fiftieth of it.
MAX_CHARACTERS = 200_000
MAX_NODES = 100_000
MAX_DEPTH = 50
MAX_DIGITS = 18  # of whole numbers


class _Loader(yaml.SafeLoader):
    """The safe loader with YAML 1.2's scalars, no tags, no repeated keys, and a bounded size."""

    def __init__(self, text: str, *, aliases: bool = True) -> None:
        super().__init__(text)
        self._aliases = aliases
        self._depth = 0
        self._extents: dict[int, tuple[int, int]] = {}  # of each node: nodes and levels in all

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose a node; refuse what would grow beyond all bounds when it is built."""
        event: yaml.Event = self.peek_event()  # type: ignore[no-untyped-call]
        alias = self._check_event(event)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        assert node is not None
        if not alias:
            self._extents[id(node)] = _extent_of(node, self._extents)
        elif id(node) not in self._extents:  # an alias of what it stands in
            raise _mistake("it contains itself", event)
        num_nodes, levels = self._extents[id(node)]
        if num_nodes > MAX_NODES:
            raise _mistake(f"more than {MAX_NODES:,} values, its aliases written out", event)
        if levels > MAX_DEPTH:
            raise _mistake(f"nested deeper than {MAX_DEPTH} levels", event)
        return node

    def _check_event(self, event: yaml.Event) -> bool:
        """Refuse what has no place in a recipe; say whether it is an alias."""
        alias = isinstance(event, yaml.AliasEvent)
        if self._depth >= MAX_DEPTH:
            raise _mistake(f"nested deeper than {MAX_DEPTH} levels", event)
        if not self._aliases and getattr(event, "anchor", None) is not None:
            raise _mistake("anchors and aliases (& and *) are not allowed here", event)
        if (tag := getattr(event, "tag", None)) is not None:
            raise _mistake(f"tags such as {tag} are not allowed", event)
        if isinstance(event, yaml.ScalarEvent) and _NO_TEXT.search(event.value):
            raise _mistake("it has a character that is part of no text", event)
        return alias

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise _mistake("a key must be a word", key_node)
            if key_node.value in seen:
                line = key_node.start_mark.line + 1
                problem = f"the key {key_node.value} stands twice (again in line {line})"
                raise _mistake(problem, key_node)
            seen.add(key_node.value)
        return super().construct_mapping(node, deep)

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        if len(node.value) > MAX_DIGITS:
            raise _mistake(f"a whole number has at most {MAX_DIGITS} digits here", node)
        return int(node.value)  # 010 is ten, not eight


# Control characters and halves of a surrogate pair.
_NO_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


def _mistake(problem: str, thing: Any) -> yaml.MarkedYAMLError:
    """Make an error at the start of an event or a node."""
    return yaml.MarkedYAMLError(problem=problem, problem_mark=thing.start_mark)


def _extent_of(node: yaml.Node, extents: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """Count the nodes and levels of a node whose inner nodes are counted."""
    if isinstance(node, yaml.MappingNode):
        inner = [extents[id(part)] for pair in node.value for part in pair]
    elif isinstance(node, yaml.SequenceNode):
        inner = [extents[id(part)] for part in node.value]
    else:
        inner = []
    return 1 + sum(n for n, _ in inner), 1 + max((levels for _, levels in inner), default=0)


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)
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
    """The safe dumper with the same scalars and no aliases, so that what is shown loads back."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.yaml_implicit_resolvers = _Loader.yaml_implicit_resolvers


def parse_yaml(text: str, name: str, *, aliases: bool = True) -> Any:
    """Parse YAML text; a mistake is told with its line. Without `aliases`, & and * are refused."""
    with _explained(name, text):
        loader = _Loader(text, aliases=aliases)
        node = loader.get_single_node()
        return None if node is None else loader.construct_document(node)


def dump_yaml(value: Any) -> str:
    """Return block-style YAML in the order of the keys."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
    return text


def key_lines(text: str, name: str) -> dict[tuple[str, ...], int]:
    """Map each key path of a YAML text to the line it stands in."""
    lines: dict[tuple[str, ...], int] = {}
    with _explained(name, text):
        stack: list[tuple[tuple[str, ...], Any]] = [((), _Loader(text).get_single_node())]
    while stack:
        path, node = stack.pop()
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                inner = (*path, str(key.value))
                lines[inner] = key.start_mark.line + 1
                stack.append((inner, value))
        elif isinstance(node, yaml.SequenceNode):
            for position, value in enumerate(node.value):
                stack.append(((*path, str(position)), value))
    return lines


@contextmanager
def _explained(name: str, text: str) -> Iterator[None]:
    """Turn whatever the YAML library says of a text into one sentence."""
    if len(text) > MAX_CHARACTERS:
        raise ArborvoxError(f"{name} has more than {MAX_CHARACTERS:,} characters.")
    try:
        yield
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        problem = one_line(error.problem or "not valid YAML")
        raise ArborvoxError(f"{name}, line {line}: {problem}.") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ArborvoxError(
            f"{name}, line {line}: it has a character that is part of no text."
        ) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # such as "\UFFFFFFFF"
        raise ArborvoxError(f"{name}: not valid YAML ({one_line(str(error))}).") from None
