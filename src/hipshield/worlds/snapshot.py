"""Snapshots: the whole state of a world as named arrays, in memory or in a file.

Files are safetensors: readable by others, and nothing in them is ever executed.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from hipshield.errors import SnapshotError

FORMAT = "hipshield-snapshot-1"
_WORD = (1 << 64) - 1


@dataclass(frozen=True)
class Snapshot:
    """A saved world: the task's name and arrays by name, one row a robot."""

    task: str
    arrays: dict[str, np.ndarray]

    def write(self, path: str | Path) -> None:
        """Write a file, all of it or none of it."""
        path = Path(path)
        part = path.with_name(path.name + ".part")
        arrays = {k: np.ascontiguousarray(v) for k, v in self.arrays.items()}
        save_file(arrays, part, metadata={"format": FORMAT, "task": self.task})
        os.replace(part, path)

    @classmethod
    def read(cls, path: str | Path) -> "Snapshot":
        """Read a file that `write` wrote.

        Raises:
            SnapshotError: it is missing, damaged, or something else.
        """
        try:
            with safe_open(str(path), framework="numpy") as file:
                meta = file.metadata() or {}
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except FileNotFoundError:
            raise SnapshotError(f"There is no snapshot at '{path}'.") from None
        except (SafetensorError, OSError) as error:
            raise SnapshotError(f"'{path}' is not a readable snapshot: {error}") from None
        if meta.get("format") != FORMAT:
            raise SnapshotError(f"'{path}' is not a snapshot that this version can read.")
        return cls(meta["task"], arrays)


def generator_state(rng: np.random.Generator) -> np.ndarray:
    """Return the state of a PCG64 generator as six 64-bit words."""
    state = rng.bit_generator.state
    big, inc = state["state"]["state"], state["state"]["inc"]
    words = [big >> 64, big & _WORD, inc >> 64, inc & _WORD, state["has_uint32"]]
    return np.array([*words, state["uinteger"]], np.uint64)


def restored_generator(words: np.ndarray) -> np.random.Generator:
    """Return the generator whose state `generator_state` gave."""
    high, low, inc_high, inc_low, has, uinteger = (int(w) for w in words)
    bits = np.random.PCG64()
    bits.state = {
        "bit_generator": "PCG64",
        "state": {"state": high << 64 | low, "inc": inc_high << 64 | inc_low},
        "has_uint32": has,
        "uinteger": uinteger,
    }
    return np.random.Generator(bits)
