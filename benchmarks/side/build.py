"""Build the side environments, in which safety-gymnasium 1.0.0 runs next to this library.

The peer library pins MuJoCo 2.3.3 and Gymnasium 0.28.1, which cannot share an interpreter with
the versions used here, so it gets a virtual environment of its own. OmniSafe 0.5.0, the peer of the
learners, needs the same versions and many more packages (PyTorch alone takes 0.8 GB), so it gets
a second one. Only the standard library is used, so any interpreter can build them:

    python benchmarks/side/build.py [PATH]             # PATH: .venv-side in the repository
    python benchmarks/side/build.py --omnisafe [PATH]  # PATH: .venv-omnisafe in the repository
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
OMNISAFE_REQUIREMENTS = HERE / "requirements-omnisafe.txt"
OMNISAFE_PATH = HERE.parents[1] / ".venv-omnisafe"

# The newest Python for which MuJoCo 2.3.3 and NumPy 1.23.5 have wheels, and the oldest one that
# this library supports.
PYTHON_VERSION = (3, 11)

_STAMP = "side-environment.sha256"
_PROBE = "import sys; print(*sys.version_info[:2])"


class SideEnvironmentError(RuntimeError):
    """The side environment cannot be built here; the message says why."""


def side_python(
    path: str | os.PathLike[str] = DEFAULT_PATH,
    requirements: str | os.PathLike[str] = REQUIREMENTS,
) -> Path:
    """Return the Python of the side environment at `path`, building it when needed.

    Args:
        path: Where the virtual environment is or shall be.
        requirements: The file of its pinned packages. An environment at `path` that was built
            from other requirements is replaced.

    Returns:
        The path of its Python executable.

    Raises:
        SideEnvironmentError: If the environment cannot be built.
    """
    root = Path(path).expanduser().absolute()
    python = _executable(root)
    pins = Path(requirements).expanduser().absolute()
    if not _is_complete(root, pins):
        _refuse_foreign_directory(root)
        base = _find_base_python()
        _run([base, "-m", "venv", "--clear", str(root)], "create the virtual environment")
        _install(python, pins)
        (root / _STAMP).write_text(_fingerprint(pins) + "\n", encoding="ascii")
    return python


def _executable(root: Path) -> Path:
    return root / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def _fingerprint(requirements: Path) -> str:
    try:
        return hashlib.sha256(requirements.read_bytes()).hexdigest()
    except OSError as error:
        raise SideEnvironmentError(f"cannot read the requirements: {error}") from error


def _is_complete(root: Path, requirements: Path) -> bool:
    # The stamp is written last, so an interrupted installation or one from other requirements is
    # never mistaken for a complete one.
    stamp, fingerprint = root / _STAMP, _fingerprint(requirements)
    if not (stamp.is_file() and _executable(root).exists()):
        return False
    return stamp.read_text(encoding="ascii").strip() == fingerprint


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


def _install(python: Path, requirements: Path) -> None:
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    # Every package is pinned, so the dependency resolver has nothing to decide, and leaving it out
    # keeps the pin on pygame 2.1.0 from failing the installation. Wheels only: nothing is compiled.
    options = ["--no-deps", "--only-binary", ":all:", "--requirement", str(requirements)]
    _run([*pip, *options], "install the pinned packages")


def _run(command: list[str], purpose: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        output = (done.stdout + done.stderr).strip()
        raise SideEnvironmentError(f"could not {purpose}:\n{output[-2000:]}")


def main(arguments: list[str]) -> int:
    """Build the environment at the path given, and print the path of its Python.

    Args:
        arguments: The command line without the program's name: `--omnisafe` for the learners'
            environment, and at most the path.

    Returns:
        The exit code.
    """
    omnisafe = arguments[:1] == ["--omnisafe"]
    paths = arguments[omnisafe:]
    if len(paths) > 1 or any(path.startswith("-") for path in paths):
        asked_for_help = arguments in (["-h"], ["--help"])
        usage = "usage: build.py [--omnisafe] [PATH]"
        print(usage, file=sys.stdout if asked_for_help else sys.stderr)
        return 0 if asked_for_help else 2
    default = OMNISAFE_PATH if omnisafe else DEFAULT_PATH
    requirements = OMNISAFE_REQUIREMENTS if omnisafe else REQUIREMENTS
    try:
        print(side_python(*(paths or [default]), requirements=requirements))
    except SideEnvironmentError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
