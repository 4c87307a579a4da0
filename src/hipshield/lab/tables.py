"""Tables as CSV: written whole, read back with numbers as numbers."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hipshield.errors import HipshieldError
from hipshield.files import write_whole

Row = dict[str, Any]


def write_table(path: Path, rows: Sequence[Row]) -> None:
    """Write rows; columns are all that any row has, in the order of their first appearance."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({k: _short(v) for k, v in row.items()} for row in rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text.getvalue().encode())


def read_table(path: Path) -> list[Row]:
    """Read what `write_table` wrote; cells that are numbers become numbers."""
    try:
        with open(path, newline="", encoding="utf-8") as file:
            return [{k: _value(v) for k, v in row.items()} for row in csv.DictReader(file)]
    except FileNotFoundError:
        raise HipshieldError(f"There is no table at '{path}'.") from None


def _short(value: Any) -> Any:
    return f"{value:.6g}" if isinstance(value, float) else value


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"True": True, "False": False}.get(text, text)
