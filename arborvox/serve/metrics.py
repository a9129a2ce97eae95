"""Counts for Prometheus, in its text format."""

from collections import defaultdict
from collections.abc import Callable

SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)

Labels = tuple[tuple[str, str], ...]


class Metrics:
    """What happened since the start, and what is the case now."""

    def __init__(self) -> None:
        """Start from nought."""
        self._counts: dict[str, dict[Labels, float]] = defaultdict(lambda: defaultdict(float))
        self._helps: dict[str, str] = {}
        self._read: dict[str, tuple[str, str, Callable[[], float]]] = {}
        self._seconds: dict[str, tuple[str, list[int], list[float]]] = {}

    def count(self, name: str, text: str, amount: float = 1.0, **labels: str) -> None:
        """Add to a counter."""
        self._helps[name] = text
        self._counts[name][tuple(sorted(labels.items()))] += amount

    def read(self, name: str, text: str, value: Callable[[], float]) -> None:
        """Tell a value that is read when it is asked for; *_total only ever grows."""
        kind = "counter" if name.endswith("_total") else "gauge"
        self._read[name] = (text, kind, value)

    def time(self, name: str, text: str, seconds: float) -> None:
        """Add to a histogram of seconds."""
        _, buckets, total = self._seconds.setdefault(name, (text, [0] * (len(SECONDS) + 1), [0.0]))
        total[0] += seconds
        buckets[sum(seconds > bound for bound in SECONDS)] += 1

    def render(self) -> str:
        """Write it all down."""
        lines: list[str] = []
        for name, values in sorted(self._counts.items()):
            lines += _head(name, self._helps[name], "counter")
            lines += [
                f"{name}{_show(labels)} {value:g}" for labels, value in sorted(values.items())
            ]
        for name, (text, kind, value_of) in sorted(self._read.items()):
            lines += [*_head(name, text, kind), f"{name} {value_of():g}"]
        for name, (text, buckets, total) in sorted(self._seconds.items()):
            lines += _head(name, text, "histogram")
            sums = [sum(buckets[: n + 1]) for n in range(len(buckets))]
            for bound, below in zip((*map(str, SECONDS), "+Inf"), sums, strict=True):
                lines.append(f'{name}_bucket{{le="{bound}"}} {below}')
            lines += [f"{name}_sum {total[0]:.6f}", f"{name}_count {sums[-1]}"]
        return "\n".join(lines) + "\n"


def _head(name: str, text: str, kind: str) -> list[str]:
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]


def _show(labels: Labels) -> str:
    inside = ",".join(f'{key}="{value}"' for key, value in labels)
    return f"{{{inside}}}" if inside else ""
