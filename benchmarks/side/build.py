"""Build the side environment, in which safety-gymnasium 1.0.0 runs next to this library.

The peer library pins MuJoCo 2.3.3 and Gymnasium 0.28.1, which cannot share an interpreter with
the versions used here, so it gets a virtual environment of its own. Only the standard library is
used, so any interpreter can build it:

    python benchmarks/side/build.py [PATH]      # PATH defaults to .venv-side in the repository
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
REQUIREMENTS = HERE / "requirements.txt"
DEFAULT_PATH = HERE.parents[1] / ".venv-side"

# The newest Python for which MuJoCo 2.3.3 and NumPy 1.23.5 have wheels, and the oldest one that
# this library supports.
PYTHON_VERSION = (3, 11)

_STAMP = "side-environment.sha256"
_PROBE = "import sys; print(*sys.version_info[:2])"


class SideEnvironmentError(RuntimeError):
    """The side environment cannot be built here; the message says why."""


def side_python(path: str | os.PathLike[str] = DEFAULT_PATH) -> Path:
    """Return the Python of the side environment at `path`, building it when needed.

    Args:
        path: Where the virtual environment is or shall be.

    Returns:
        The path of its Python executable.

    Raises:
        SideEnvironmentError: If the environment cannot be built.
    """
    root = Path(path).expanduser().absolute()
    python = _executable(root)
    if not _is_complete(root):
        _refuse_foreign_directory(root)
        base = _find_base_python()
        _run([base, "-m", "venv", "--clear", str(root)], "create the virtual environment")
        _install(python)
        (root / _STAMP).write_text(_fingerprint() + "\n", encoding="ascii")
    return python


def _executable(root: Path) -> Path:
    return root / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def _fingerprint() -> str:
    return hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()


def _is_complete(root: Path) -> bool:
    # The stamp is written last, so an interrupted installation or one from other requirements is
    # never mistaken for a complete one.
    stamp = root / _STAMP
    if not (stamp.is_file() and _executable(root).exists()):
        return False
    return stamp.read_text(encoding="ascii").strip() == _fingerprint()


def _refuse_foreign_directory(root: Path) -> None:
    # Building clears the directory, so it must not hold anything but a virtual environment.
    if not root.exists():
        return
    if not root.is_dir():
        raise SideEnvironmentError(f"{root} is not a directory")
    if any(root.iterdir()) and not (root / "pyvenv.cfg").is_file():
        raise SideEnvironmentError(f"{root} is not empty and not a virtual environment")


def _find_base_python() -> str:
    name = "python{}.{}".format(*PYTHON_VERSION)
    for candidate in (sys.executable, shutil.which(name), shutil.which("python3")):
        if candidate and _version_of(candidate) == PYTHON_VERSION:
            return candidate
    raise SideEnvironmentError(
        f"{name} is needed: MuJoCo 2.3.3, which safety-gymnasium 1.0.0 pins, has no wheel for "
        "newer versions"
    )


def _version_of(python: str) -> tuple[int, ...] | None:
    # Version managers put launchers on the PATH for Pythons that are not selected, so being found
    # there does not mean that it starts.
    try:
        done = subprocess.run([python, "-c", _PROBE], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return tuple(int(part) for part in done.stdout.split()) if done.returncode == 0 else None


def _install(python: Path) -> None:
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    # Every package is pinned, so the dependency resolver has nothing to decide, and leaving it out
    # keeps the pin on pygame 2.1.0 from failing the installation. Wheels only: nothing is compiled.
    options = ["--no-deps", "--only-binary", ":all:", "--requirement", str(REQUIREMENTS)]
    _run([*pip, *options], "install the pinned packages")


def _run(command: list[str], purpose: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        output = (done.stdout + done.stderr).strip()
        raise SideEnvironmentError(f"could not {purpose}:\n{output[-2000:]}")


def main(arguments: list[str]) -> int:
    """Build the environment at the path given, and print the path of its Python.

    Args:
        arguments: The command line without the program's name: at most the path.

    Returns:
        The exit code.
    """
    if len(arguments) > 1 or any(argument.startswith("-") for argument in arguments):
        asked_for_help = arguments in (["-h"], ["--help"])
        print("usage: build.py [PATH]", file=sys.stdout if asked_for_help else sys.stderr)
        return 0 if asked_for_help else 2
    try:
        print(side_python(*arguments))
    except SideEnvironmentError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
