"""The committed types are those of docs/openapi.json."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from generate_types import SCHEMA, TYPES, generate  # noqa: E402


def test_the_committed_types_are_those_of_the_schema(tmp_path: Path) -> None:
    if "CallEndWord" not in SCHEMA.read_text():
        pytest.skip("docs/openapi.json is that of an older service")
    generate(tmp_path / "types.py")
    assert (tmp_path / "types.py").read_text() == TYPES.read_text(), "run `scripts/sdk-python --types`"
