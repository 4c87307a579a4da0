"""Files that are written whole or not at all: bytes, and arrays with facts about them.

Arrays go into safetensors files, never pickles, with one JSON record of facts beside them.
"""

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from hipshield.errors import HipshieldError

Facts = dict[str, Any]


def write_whole(path: Path, data: bytes) -> None:
    """Replace a file by new contents, or leave it untouched.

    Raises:
        HipshieldError: it cannot be written, for instance because the disk is full.
    """
    part = path.with_name(path.name + ".part")
    try:
        with open(part, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise HipshieldError(
            f"Cannot write '{path}': {error.strerror}. What was there before is intact."
        ) from None


def write_arrays(path: Path, arrays: dict[str, np.ndarray], facts: Facts) -> None:
    """Write arrays by name, and facts that JSON can hold."""
    # One entry only: the library writes several in an order that changes from run to run.
    write_whole(path, save(arrays, metadata={"hipshield": json.dumps(facts)}))


def read_arrays(path: Path, what: str = "checkpoint") -> tuple[dict[str, np.ndarray], Facts]:
    """Read what `write_arrays` wrote.

    Raises:
        HipshieldError: it is missing or damaged; `what` says what it should be.
    """
    try:
        with safe_open(str(path), framework="numpy") as file:
            names = file.keys()
            facts = json.loads((file.metadata() or {}).get("hipshield", "{}"))
            return {n: file.get_tensor(n) for n in names}, facts
    except FileNotFoundError:
        raise HipshieldError(f"There is no {what} at '{path}'.") from None
    except (SafetensorError, OSError, ValueError) as error:
        raise HipshieldError(f"'{path}' is not a readable {what}: {error}") from None
