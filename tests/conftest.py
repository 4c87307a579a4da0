"""Settings for every test: one CPU device, and no files left behind in the working tree."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import pytest
from hypothesis import settings

# Deadlines would turn a busy machine into a failing test; the number of examples is the budget.
settings.register_profile("hipshield", deadline=None, max_examples=40, derandomize=True)
settings.load_profile("hipshield")


@pytest.fixture(autouse=True)
def _in_temporary_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
