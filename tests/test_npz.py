"""Arrays in .npz files."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from fornaxc.errors import CacheError, UsageError
from fornaxc.npz import load_npz, save_npz, with_dtypes


def test_arrays_of_every_kind_come_back(tmp_path: Path) -> None:
    arrays = {
        "file": np.arange(6, dtype=np.float32).reshape(2, 3),
        "a/b:0": np.array(True),
        "half": np.array([1.5, -2], ml_dtypes.bfloat16),
        "empty": np.zeros((0, 3), np.int64),
    }
    save_npz(tmp_path / "a.npz", arrays)
    loaded = with_dtypes(load_npz(tmp_path / "a.npz", "inputs"), {"half": np.dtype(ml_dtypes.bfloat16)})
    assert list(loaded) == list(arrays)
    for name, array in arrays.items():
        assert loaded[name].dtype == array.dtype
        np.testing.assert_array_equal(loaded[name], array)
    with np.load(tmp_path / "a.npz") as data:
        np.testing.assert_array_equal(data["file"], arrays["file"])
    assert [p.name for p in tmp_path.iterdir()] == ["a.npz"]


def test_only_raw_bytes_of_the_right_size_change_type() -> None:
    arrays = {"x": np.zeros(2, np.uint16), "y": np.zeros(2, "V2")}
    typed = with_dtypes(arrays, {name: np.dtype(ml_dtypes.bfloat16) for name in arrays})
    assert (typed["x"].dtype, typed["y"].dtype) == (np.uint16, ml_dtypes.bfloat16)


@pytest.mark.parametrize(
    ("content", "code"), [(None, "FX223"), (b"", "FX224"), (b"text", "FX224"), (b"PK\x03\x04cut", "FX224")]
)
def test_files_that_are_no_npz(tmp_path: Path, content: bytes | None, code: str) -> None:
    path = tmp_path / "in.npz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        load_npz(path, "inputs")
    assert caught.value.code == code
    assert str(path) in caught.value.message


def test_a_single_array_is_not_enough(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros(3))
    with pytest.raises(UsageError, match="without a name"):
        load_npz(tmp_path / "x.npy", "inputs")


def test_objects_are_not_unpickled(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.array([{"a": 1}], dtype=object))
    with pytest.raises(UsageError):
        load_npz(tmp_path / "x.npz", "inputs")


def test_places_that_are_none(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing" / "o.npz"):
        with pytest.raises(UsageError):
            save_npz(path, {})


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno

    path = tmp_path / "o.npz"
    save_npz(path, {"x": np.zeros(3)})
    before = path.read_bytes()

    def full(*arguments: object, **options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array", full)
    with pytest.raises(CacheError) as caught:
        save_npz(path, {"x": np.ones(3)})
    assert caught.value.code == "FX601"
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["o.npz"]


def test_a_file_of_another_kind_is_no_reason_to_load_pickles(tmp_path: Path) -> None:
    (tmp_path / "in.npz").write_bytes(b"import numpy")
    with pytest.raises(UsageError, match="neither a zip file") as raised:
        load_npz(tmp_path / "in.npz", "inputs")
    assert "pickle" not in raised.value.message
