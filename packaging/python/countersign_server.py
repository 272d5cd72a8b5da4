"""Runs the `countersign` binary of this package, for `pipx run countersign-server` and `python -m countersign_server`."""

import os
import sys
import sysconfig


def find_binary() -> str:
    """Returns the path of the installed binary."""
    candidates = [
        sysconfig.get_path("scripts"),
        sysconfig.get_path("scripts", f"{os.name}_user"),
        # `pip install --target FOLDER` puts the scripts into FOLDER/bin.
        os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bin"),
    ]
    for folder in candidates:
        path = os.path.join(folder, "countersign")
        if os.path.isfile(path):
            return path
    raise FileNotFoundError(f"the binary `countersign` is in none of {', '.join(candidates)}; install the package again")


def main() -> None:
    """Replaces this process by the binary, so that signals and the exit code are its own."""
    binary = find_binary()
    os.execv(binary, [binary, *sys.argv[1:]])
