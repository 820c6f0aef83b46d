"""Writing files so that a reader sees the old file or the new one, never a part."""

import csv
import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def replacing(path: str | os.PathLike) -> Iterator[Path]:
    """Give a temporary path beside `path`, and rename it to `path` on success.

    On an error the temporary file is removed and `path` is left as it was. The data is flushed to
    disk first, so that a power failure cannot leave an empty file under the final name.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.partial")
    try:
        yield temporary
        with open(temporary, "rb+") as handle:
            os.fsync(handle.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def canonical_json(value: Any) -> str:
    """`value` as canonical JSON: sorted keys, UTF-8, two spaces. ValueError for NaN, infinities."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def write_json(path: str | os.PathLike, value: Any) -> None:
    """Write `value` to `path` as canonical JSON, atomically."""
    write_text(path, canonical_json(value))


def write_text(path: str | os.PathLike, text: str) -> None:
    """Write `text` to `path` as UTF-8 with `\\n` line ends, atomically."""
    with replacing(path) as temporary:
        temporary.write_bytes(text.encode("utf-8"))


def read_json(path: str | os.PathLike) -> Any:
    """The value stored in the JSON file `path`."""
    return json.loads(Path(path).read_text(encoding="utf-8"))


def write_csv(path: str | os.PathLike, header: Iterable[str], rows: Iterable[Iterable]) -> None:
    """Write a table as CSV with line feeds, atomically."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    write_text(path, text.getvalue())


def write_weights(weights: Mapping[str, Any], path: str | os.PathLike) -> None:
    """Write arrays as a safetensors file, atomically: no pickle, and same weights, same bytes."""
    import numpy as np
    from safetensors.numpy import save

    arrays = {k: np.ascontiguousarray(v, np.float32) for k, v in sorted(weights.items())}
    # Written here, so that a full disk is the system's error and not the library's own.
    content = save(arrays, metadata={"format": "pt"})
    with replacing(path) as temporary:
        temporary.write_bytes(content)
