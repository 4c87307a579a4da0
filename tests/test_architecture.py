"""The house rules that a machine can check."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))

# What each room may import of the others. Rooms that do not exist yet have no rows.
BASICS = {"errors", "files", "mlp"}
KNOWS = {
    "worlds": {"errors"},
    "models": BASICS | {"worlds"},
    "safety": BASICS | {"worlds", "models"},
    "learning": BASICS | {"worlds", "models", "safety"},
    "lab": BASICS | {"worlds", "models", "safety", "learning"},
}


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("room", KNOWS)
def test_rooms_know_only_what_they_may(room):
    for path in (ROOT / "src/hipshield" / room).rglob("*.py"):
        for module in imports(path):
            parts = module.split(".")
            if parts[0] == "hipshield" and len(parts) > 1:
                assert parts[1] in KNOWS[room] | {room}, f"{path} imports {module}"


def test_nothing_is_unpickled():
    for path in SOURCES:
        assert not {"pickle", "dill", "joblib", "shelve"} & set(imports(path)), path
        assert "allow_pickle=True" not in path.read_text(), path


def test_sizes():
    for path in SOURCES:
        assert len(path.read_text().splitlines()) <= 400, f"{path}: is it still one idea?"
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                doc = ast.get_docstring(node, clean=False)
                lines = node.end_lineno - node.lineno + 1 - (doc.count("\n") + 1 if doc else 0)
                assert lines <= 60, f"{path}: {node.name} has {lines} lines"


def test_pins_are_plain():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert lines
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+==[A-Za-z0-9.+!]+", line) for line in lines)


def test_pins_satisfy_the_ranges():
    import tomllib

    from packaging.requirements import Requirement

    pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines())
    pins = {name.lower().replace("_", "-"): version for name, version in pins.items()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    for requirement in map(Requirement, wanted):
        name = requirement.name.lower().replace("_", "-")
        assert name in pins, f"{name} has no pin"
        assert requirement.specifier.contains(pins[name]), f"{name}=={pins[name]}"


def test_no_registry_is_named():
    names = "|".join(
        ("py" + "pi" + r"\.org", "python" + "hosted", "npm" + "js", "conda" + r"\.org")
    )
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    for name in filter(None, files.stdout.split("\0")):
        path = ROOT / name
        if path.suffix in (".npz", ".png", ".mp4") or not path.is_file():
            continue
        assert not re.search(names, path.read_text(errors="ignore")), name
