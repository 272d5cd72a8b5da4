"""Writes src/countersign/_types.py, the service's JSON as types, from docs/openapi.json. For `scripts/sdk-python --types`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
SCHEMA = HERE.parents[1] / "docs" / "openapi.json"
TYPES = HERE / "src" / "countersign" / "_types.py"


def generate(output: Path, schema: Path = SCHEMA) -> None:
    command = [
        str(Path(sys.executable).with_name("datamodel-codegen")),
        *("--input", str(schema), "--input-file-type", "openapi", "--output", str(output)),
        *("--output-model-type", "typing.TypedDict", "--target-python-version", "3.10"),
        *("--use-standard-collections", "--use-union-operator", "--enum-field-as-literal", "all"),
        *("--use-schema-description", "--collapse-root-models", "--disable-timestamp", "--formatters", "builtin"),
    ]
    subprocess.run(command, check=True, capture_output=True)


if __name__ == "__main__":
    generate(TYPES, *map(Path, sys.argv[1:]))
