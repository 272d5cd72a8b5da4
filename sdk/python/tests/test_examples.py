"""Runs examples/python-* as their READMEs say, with the scripted model."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import Person
from service import ENVIRONMENT, Service

import countersign
from countersign import Choice, Gate

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("python-*"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_example(example: Path, tmp_path: Path) -> None:
    service = Service((example / "policy.toml").read_text())
    try:
        service.run("person", "add", "ana", "--in", "approvers")
        ana = Person(Gate(service.url, service.token("--person", "ana", "--scope", "read,decide")))
        environment = {
            **ENVIRONMENT,
            "COUNTERSIGN_SERVER": service.url,
            "COUNTERSIGN_TOKEN": service.token("--agent", "support", "--scope", "agent"),
            "PYTHONPATH": os.pathsep.join([str(Path(countersign.__file__).parents[1]), str(example)]),
        }
        command = [sys.executable, str(example / "agent.py")]
        agent = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True)
        try:
            decide(ana, agent)
            printed, _ = agent.communicate(timeout=60)
        finally:
            agent.kill()
        assert agent.returncode == 0
        assert "Maria has her money back." in printed
        # Claude Code does not print what hooks tell the model, and ADK only its beginning.
        assert "ana changed" in printed or example.name in ("python-claude-agent-sdk", "python-google-adk")
        done = sorted((tmp_path / "done.jsonl").read_text().splitlines())
        assert done == ['["refund", "A-17", 30]', '["send_email", "maria@acme.com", "Your refund"]']
    finally:
        service.stop()


def decide(ana: Person, agent: subprocess.Popen[str]) -> None:
    """Approves everything, and lowers the refund."""
    deadline = time.monotonic() + 60
    decided = 0
    while decided < 2 and agent.poll() is None and time.monotonic() < deadline:
        for approval in ana.pending():
            lower = {"order": "A-17", "amount": 30}
            choices = [Choice(True, lower if call.tool.endswith("refund") else None) for call in approval.calls]
            ana.gate.decide(approval.id, True, choices=choices)
            decided += len(choices)
        time.sleep(0.05)
