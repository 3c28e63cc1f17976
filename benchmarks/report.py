"""Results as a page in Markdown."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from statistics import geometric_mean, median
from typing import Any

from benchmarks.engines import FORNAXC, PEERS

TITLES = {peer.name: peer.title for peer in PEERS}
CLOSE = 1e-3  # a larger difference of outputs, as a share of the largest element, is told
MEMORY = "Megabytes that the process held at most: after loading, and after the runs that measured latency. Files that are mapped count as far as they were read."
METHOD = """\
Each engine runs in a process of its own. Latency is from numpy arrays to numpy arrays, of a model whose sizes are all known, on seeded inputs. The engines take turns in blocks
of up to ten runs; before each block everything rests for 0.1 s, because threads of some engines go on spinning after a run, and the first three runs of a block do not count (one of a slow model).
A ratio is taken block by block, of the block's median to that of the reference's block beside it: below 1, the engine is faster than the reference. What stands here is the
median of these ratios and, in brackets, the least and the largest; of times, the median, and in brackets the least and the 95th percentile (of loading and hits, the largest). All engines are kept to the first processors of the machine, as many as there are threads.

Compiling cold is the whole process of `fornaxc compile` with an empty cache, that of MAX included; a hit is the same command again. Of the other engines it is the time from the model's
file to what can run: onnxruntime's session, OpenVINO's `compile_model`, IREE's import and compilation. Loading is from the call that loads to the first result, in a fresh process whose import of the engine is done; what that takes is the table's last line.
Compiling and loading may use all processors. OpenVINO computes in f32, as the others do. IREE's flags: `{flags}`."""


def render(document: Mapping[str, Any], origins: Mapping[str, str]) -> str:
    """The page of the results that `Results.to_json` gives; `origins` says what each model is."""
    header, units = document["header"], document["units"]
    sections = [
        "# Benchmarks",
        "Made by `python -m benchmarks`; the numbers behind the tables are in the JSON file beside this page.",
        _environment(header, units),
        *_latencies(units),
        *_section("## Compiling", "", _compiling(_of(units, "compile"))),
        *_section("## Loading", "", _loading(_of(units, "load"))),
        *_section("## Memory", MEMORY, _memory(_of(units, "load"), _running(units))),
        *_growth(units),
        *_section("## Left out", "", _bullets(document["skipped"])),
        *_section("## The models", "", _bullets({n: o for n, o in origins.items() if _measured(n, units)})),
        "## How it is measured",
        _method(),
    ]
    return "\n\n".join(sections) + "\n"


def _method() -> str:
    from benchmarks.engines import IREE_FLAGS

    return METHOD.format(flags=" ".join(IREE_FLAGS))


def _measured(name: str, units: Mapping[str, Any]) -> bool:
    return any(unit.startswith(f"{name}/") for unit in units)


def _section(title: str, text: str, body: str) -> list[str]:
    return [part for part in (title, text, body) if part] if body else []


def _bullets(entries: Mapping[str, str]) -> str:
    return "\n".join(f"- `{name}`: {text}" for name, text in entries.items())


def _environment(header: Mapping[str, Any], units: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in header["versions"].items())
    busy = _merged({note for unit in units.values() for note in unit.get("notes", ())})
    lines = [
        f"- target: `{header['target']}`",
        f"- machine: {header['processor']}, {header['processors']} processors, {header['system']}",
        f"- software: {versions}",
    ]
    dates = sorted(unit["when"][:10] for unit in units.values() if "when" in unit)
    if dates:
        lines.append(f"- measured: {dates[0] if dates[0] == dates[-1] else f'{dates[0]} to {dates[-1]}'}")
    return "\n".join([*lines, *(f"- **caution**: {note}" for note in busy)])


def _merged(notes: Collection[str]) -> list[str]:
    """The notes, those that differ in a load average alone as one with the largest."""
    found: dict[str, str] = {}
    for note in sorted(notes, key=lambda n: [float(number) for number in re.findall(r"\d+\.\d+", n)]):
        found[re.sub(r"\d+\.\d+", "", note)] = note
    return list(found.values())


def _of(units: Mapping[str, Any], measure: str) -> dict[str, Mapping[str, Any]]:
    """The results of one measure by model."""
    found = {}
    for name, unit in units.items():
        model, _, rest = name.partition("/")
        if rest == measure and model != "growth":
            found[model] = unit["engines"]
    return found


def _engines(rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The engines that have a result in any row, in the table's order."""
    present = {name for row in rows.values() for name in row}
    return [peer.name for peer in PEERS if peer.name in present]


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table: the first column to the left, numbers to the right."""
    lines = ["| " + " | ".join(titles) + " |", "|---|" + "---:|" * (len(titles) - 1)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def _latencies(units: Mapping[str, Any]) -> Iterator[str]:
    for count in _threads(units):
        rows = _of(units, f"latency/{count}")
        yield from _section(f"## Latency, {count} thread{'s' * (count > 1)}", "", latency_table(rows))


def _threads(units: Mapping[str, Any]) -> list[int]:
    """The numbers of threads with which latency was measured."""
    return sorted({int(name.rsplit("/", 1)[1]) for name in units if _is_latency(name)})


def _is_latency(name: str) -> bool:
    parts = name.split("/")
    return len(parts) == 3 and parts[1] == "latency"


def latency_table(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Milliseconds of the reference and ratios of the others to it, with the geometric mean of each engine's ratios and the largest."""
    engines = _engines(rows)
    if not engines:
        return ""
    reference = next((n for n in engines if n != FORNAXC), "")
    others = [n for n in engines if n != reference]
    titles = ["model", *([f"{TITLES[reference]}, ms"] if reference else []), f"{TITLES[FORNAXC]}, ms"]
    titles += [f"{TITLES[n]} / {TITLES[reference]}" for n in others] if reference else []
    body = []
    for model, row in rows.items():
        cells = [_cell(row.get(n), _milliseconds) for n in ([reference] if reference else []) + [FORNAXC]]
        cells += [_cell(row.get(n), _ratio) for n in others] if reference else []
        body.append([model, *cells])
    if reference:
        for label, fold in (("geometric mean", geometric_mean), ("largest", max)):
            folded = [_folded(rows, n, fold) for n in others]
            body.append([f"*{label}*", "", "", *folded])
    return table(titles, body)


def _folded(rows: Mapping[str, Mapping[str, Any]], engine: str, fold: Callable[[list[float]], float]) -> str:
    ratios = [row[engine]["ratio"]["median"] for row in rows.values() if "ratio" in row.get(engine, {})]
    return f"{fold(ratios):.2f} of {len(ratios)}" if ratios else ""


def _cell(entry: Mapping[str, Any] | None, show: Callable[[Mapping[str, Any]], str]) -> str:
    if entry is None:
        return ""
    return f"failed: {_plain(entry['failed'])}" if "failed" in entry else show(entry)


def _plain(text: str) -> str:
    """A short text that does not break a table."""
    flat = " ".join(text.split()).replace("|", "\\|")
    return flat if len(flat) <= 80 else f"{flat[:79]}…"


def _milliseconds(entry: Mapping[str, Any]) -> str:
    found = entry["latency"]
    middle, lowest, highest = (_three_digits(found[k] * 1e3) for k in ("p50", "lowest", "p95"))
    return f"{middle} [{lowest}, {highest}]"


def _three_digits(number: float) -> str:
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}"


def _ratio(entry: Mapping[str, Any]) -> str:
    if "ratio" not in entry:
        return "no reference"
    found, difference = entry["ratio"], entry["difference"]
    text = f"{found['median']:.2f} [{found['lowest']:.2f}, {found['highest']:.2f}]"
    if difference is None:
        return f"{text}, other outputs"
    return text if difference <= CLOSE else f"{text}, outputs differ by {difference:.1g}"


def _compiling(rows: Mapping[str, Mapping[str, Any]]) -> str:
    engines = [n for n in _engines(rows) if n != FORNAXC]
    if not rows:
        return ""
    titles = ["model", "cold, s", "hit, s", "import and optimise, s", "MAX, s", "artifact, MB"]
    titles += [f"{TITLES[n]}, s" for n in engines]
    body = []
    for model, row in rows.items():
        ours = row.get(FORNAXC)
        cells = _ours(ours) if ours and "failed" not in ours else [_cell(ours, str), *[""] * 4]
        body.append([model, *cells, *(_cell(row.get(n), lambda e: f"{e['cold']:.2f}") for n in engines)])
    return table(titles, body)


def _ours(entry: Mapping[str, Any]) -> list[str]:
    phases = entry["phases"]
    prepared = phases.get("import", 0.0) + phases.get("optimize", 0.0)
    return [
        f"{entry['cold']:.1f}",
        f"{entry['hits']['median']:.2f} [{entry['hits']['lowest']:.2f}, {entry['hits']['highest']:.2f}]",
        f"{prepared:.2f}",
        f"{phases.get('compile', 0.0):.1f}",
        f"{entry['artifact'] / 1e6:.1f}",
    ]


def _loading(rows: Mapping[str, Mapping[str, Any]]) -> str:
    engines = _engines(rows)
    if not engines:
        return ""
    body = [
        [model, *(_cell(row.get(n), lambda e: _seconds(e["load"])) for n in engines)] for model, row in rows.items()
    ]
    imports = {n: [row[n]["import"]["median"] for row in rows.values() if "import" in row.get(n, {})] for n in engines}
    body.append(
        ["the import before, once a process", *(f"{median(imports[n]):.3f}" if imports[n] else "" for n in engines)]
    )
    return table(["model", *(f"{TITLES[n]}, s" for n in engines)], body)


def _running(units: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The latencies by model, at the largest number of threads."""
    return _of(units, f"latency/{max(_threads(units), default=0)}")


def _memory(loaded: Mapping[str, Mapping[str, Any]], ran: Mapping[str, Mapping[str, Any]]) -> str:
    engines = _engines(loaded)
    if not engines:
        return ""
    body = []
    for model, row in loaded.items():
        sizes = [(row.get(n, {}).get("memory"), ran.get(model, {}).get(n, {}).get("peak_memory")) for n in engines]
        body.append([model, *(", ".join(_megabytes(size) for size in pair if size is not None) for pair in sizes)])
    return table(["model", *(TITLES[n] for n in engines)], body)


def _seconds(found: Mapping[str, float]) -> str:
    return f"{found['median']:.3f} [{found['lowest']:.3f}, {found['highest']:.3f}]"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.0f}"


def _growth(units: Mapping[str, Any]) -> Iterator[str]:
    curves: dict[str, dict[str, Any]] = {}
    for name, unit in units.items():
        first, _, rest = name.partition("/")
        if first == "growth":
            curve, _, size = rest.partition("/")
            curves.setdefault(curve, {})[size] = unit["engines"]
    if curves:
        yield "## Growth"
    yield from _section("### Nodes", "Processor seconds of one process.", _by_nodes(curves.get("nodes", {})))
    yield from _section("### Equal layers, compiled cold", "", _compiling(curves.get("layers", {})))
    yield from _section("### Batch, one artifact for all", "", latency_table(curves.get("batch", {})))


def _by_nodes(rows: Mapping[str, Mapping[str, float]]) -> str:
    if not rows:
        return ""
    titles = ["nodes", "import, s", "optimise, s", "µs a node", "onnx's checks, s", "onnxruntime's session, s"]
    body = [
        [
            size,
            f"{row['import']:.2f}",
            f"{row['optimize']:.2f}",
            f"{(row['import'] + row['optimize']) / row['nodes'] * 1e6:.0f}",
            f"{row['onnx_checks']:.2f}",
            f"{row['onnxruntime_session']:.2f}",
        ]
        for size, row in rows.items()
    ]
    return table(titles, body)
