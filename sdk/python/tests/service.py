"""Starts the real service for the tests, and makes the credentials that they use.

Input: COUNTERSIGN_BIN, the binary to test. Each service has a folder of its own, which `stop` removes.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

BINARY = os.environ.get("COUNTERSIGN_BIN", "countersign")
STARTS_WITHIN = 60.0

# A variable such as COUNTERSIGN_STORE of the person who runs the tests must not reach the service.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("COUNTERSIGN_")}


class Service:
    def __init__(self, policy: str, config: str = "", variables: dict[str, str] | None = None) -> None:
        """`config` is the service's configuration file, `variables` are added to its environment."""
        self._folder = Path(tempfile.mkdtemp(prefix="countersign-python."))
        self._config = self._folder / "serve.toml"
        self._config.write_text(config)
        self._environment = ENVIRONMENT | (variables or {})
        self._policy = self._folder / "policy.toml"
        self._policy.write_text(policy)
        self._store = self._folder / "countersign.db"
        self._listen = "127.0.0.1:0"
        self._process: subprocess.Popen[str] | None = None
        self.url = ""
        self.up()

    def up(self) -> None:
        """Starts the process, at the same address as before if there was one."""
        command = [
            BINARY,
            "serve",
            "--listen",
            self._listen,
            "--store",
            str(self._store),
            "--policy",
            str(self._policy),
            "--config",
            str(self._config),
        ]
        with open(self._folder / "log", "a") as log:
            self._process = subprocess.Popen(
                command, cwd=self._folder, env=self._environment, stdout=subprocess.PIPE, stderr=log, text=True
            )
        port = self._read_port(self._process)
        self._listen = f"127.0.0.1:{port}"
        self.url = f"http://{self._listen}"

    def down(self) -> None:
        """Ends the process; everything that it acknowledged is in the store."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(timeout=60)
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None

    def stop(self) -> None:
        self.down()
        shutil.rmtree(self._folder, ignore_errors=True)

    def run(self, *words: str) -> str:
        command = [BINARY, *words, "--store", str(self._store)]
        return subprocess.run(command, env=ENVIRONMENT, check=True, capture_output=True, text=True).stdout.strip()

    def token(self, *options: str) -> str:
        return self.run("token", "create", *options)

    def _read_port(self, process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        deadline = time.monotonic() + STARTS_WITHIN
        printed = ""
        while time.monotonic() < deadline and process.poll() is None:
            if select.select([process.stdout], [], [], 0.2)[0]:
                printed += process.stdout.readline()
            if found := re.search(r"http://localhost:(\d+)/approvals", printed):
                return found[1]
        process.kill()
        raise RuntimeError(f"the service did not start: {printed}{(self._folder / 'log').read_text()}")
