"""Find the cause of a wrong number; make a small model that fails alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fornaxc.api.requests import cache_at, check_is_model, choice_of, request_of
from fornaxc.phases import Progress, silent

if TYPE_CHECKING:
    from fornaxc.diagnosis.reduction import Reduction
    from fornaxc.diagnosis.session import Bisection


def bisect(
    model: str | Path,
    *,
    target: str | None = None,
    inputs: str | Path | None = None,
    dims: Mapping[str, int] | None = None,
    seed: int = 0,
    rtol: float | None = None,
    atol: float | None = None,
    tolerances: str | Path | None = None,
    cache_dir: Path | None = None,
    host_fallback: bool = True,
    timeout: float | None = None,
    optimization: int | None = None,
    entry: str | None = None,
    freeze: str | Path | None = None,
    failing: Sequence[str] = (),
    oracles: Sequence[str] = (),
    growth: str | Path | None = None,
    progress: Progress = silent,
) -> Bisection:
    """Find where a model's numbers go wrong: in the import, in a pass, or at the first node that the device computes wrongly.

    Every intermediate value is fetched from the device and compared. The options mean what they mean to `verify`; of the samples given, or
    of generated ones and edge sets, the first is taken whose label is among `failing`. `growth` is an HTML file to write, with the error of
    every node. A target that cannot run here is replaced by this CPU. Raises what `verify` raises, and UsageError for an artifact and where
    `growth` is a file that is read.
    """
    from fornaxc.compiler import model_path
    from fornaxc.diagnosis.session import bisect_model
    from fornaxc.places import check_places
    from fornaxc.verification.tolerances import tolerances_file

    path = model_path(model)
    check_is_model(path, "bisection")
    level = 1 if optimization is None else optimization
    request = request_of(target or "cpu", dims, host_fallback, timeout, None, None, (), level, choice_of(entry, freeze))
    given = Path(inputs) if inputs is not None else None
    stated = Path(tolerances) if tolerances is not None else None
    page = Path(growth) if growth is not None else None
    check_places([page], [path], [given, stated or tolerances_file(path), request.choice.freeze])
    found = bisect_model(
        path,
        request,
        cache_at(cache_dir),
        inputs=given,
        seed=seed,
        rtol=rtol,
        atol=atol,
        tolerances=stated,
        failing=failing,
        oracles=oracles,
        progress=progress,
    )
    if page is not None:
        from fornaxc.diagnosis.page import write_page

        write_page(found, path.name, page)
    return found


def reduce(
    model: str | Path,
    output: str | Path,
    *,
    check: str = "verify",
    target: str = "cpu",
    inputs: str | Path | None = None,
    edge_cases: bool = False,
    dims: Mapping[str, int] | None = None,
    seed: int = 0,
    rtol: float | None = None,
    atol: float | None = None,
    tolerances: str | Path | None = None,
    cache_dir: Path | None = None,
    timeout: float | None = None,
    optimization: int = 1,
    entry: str | None = None,
    freeze: str | Path | None = None,
    progress: Progress = silent,
) -> Reduction:
    """Make a small ONNX model, `output`, that fails as `model` (also a StableHLO one) does, with its inputs (.npz), a report (.md) and, where a file
    states some, tolerances beside it.

    `check` is `verify` (wrong numbers), `compile` (MAX fails or crashes) or a command line that ends with a status other than 0. `timeout` bounds
    the seconds of each of MAX's compiles, or of each run of the command. Names of the model are not in the files, and its numbers only where
    it does not fail with seeded ones. Inputs and tolerances are those of `verify`, each sample of a folder among them. Raises UsageError where the
    model passes the check or a file that is read would be overwritten, and what `verify` raises.
    """
    from fornaxc.compiler import model_path
    from fornaxc.diagnosis.reduction import Start, reduce_model

    path = model_path(model)
    check_is_model(path, "reduction")
    request = request_of(target, dims, True, timeout, None, None, (), optimization, choice_of(entry, freeze))
    given, stated = (Path(file) if file is not None else None for file in (inputs, tolerances))
    start = Start(given, seed, edge_cases, rtol, atol, stated)
    return reduce_model(path, request, cache_at(cache_dir), start, check=check, output=Path(output), progress=progress)
