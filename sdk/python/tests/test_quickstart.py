"""Runs the code of docs/quickstart as it is written there, with a fake model in place of the real one."""

from __future__ import annotations

import asyncio
import importlib
import re
from pathlib import Path
from typing import Any

import pytest
from cases import FakeCall
from conftest import Person
from service import Service

import countersign

FOLDER = Path(__file__).parents[3] / "docs" / "quickstart"
CALL = FakeCall("c1", "send_email", '{"to": "alice@acme.com", "subject": "Welcome"}')


def blocks(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (FOLDER / page).read_text(), re.DOTALL | re.MULTILINE)


@pytest.fixture
def environment(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Does what the commands of every page do."""
    commands = {re.findall(r"\$\((countersign token create [^)]*)\)", page.read_text())[0] for page in pages()}
    [command] = commands
    monkeypatch.setenv("COUNTERSIGN_SERVER", service.url)
    monkeypatch.setenv("COUNTERSIGN_TOKEN", service.run(*command.split()[1:]))


def pages() -> list[Path]:
    return sorted(FOLDER.glob("python*.md"))


def run(code: str, **given: Any) -> dict[str, Any]:
    """Runs a block. Of what it gives a name to, `given` is used instead."""
    for name in given:
        code, count = re.subn(rf"^{name} = .*$", "", code, flags=re.MULTILINE)
        assert count == 1, f"the page does not set `{name}`"
    namespace: dict[str, Any] = {"__name__": "quickstart", **given}
    exec(compile(code, "quickstart", "exec"), namespace)
    return namespace


def test_python(environment: None, ana: Person, capsys: pytest.CaptureFixture[str]) -> None:
    first, refund, again, protocol, *_ = blocks("python.md")
    ana.approves(tool="send_email")
    namespace = run(first)
    assert capsys.readouterr().out == "sent to alice@acme.com\n"
    exec(refund, namespace)
    ana.approves("ticket-17", tool="refund")
    exec(again, namespace)
    exec(again, namespace)
    assert capsys.readouterr().out == "refunded 20.0 for A-1\n" * 2
    ana.approves("ticket-18", tool="send_email")
    exec(protocol, namespace)
    [approval] = namespace["gate"].approvals(run_id="ticket-18")
    assert approval.calls[0].result == {"sent": "bo@acme.com"}


FRAMEWORKS = ["crewai", "smolagents", "llama_index.core", "agent_framework"]


@pytest.mark.parametrize("index, module", list(enumerate(FRAMEWORKS, 4)))
def test_the_decorator_in_frameworks(index: int, module: str, environment: None, ana: Person) -> None:
    # These frameworks are large, and not among what CI installs.
    pytest.importorskip(module)
    namespace = {"gate": countersign.Gate(), "__name__": __name__}
    code = blocks("python.md")[index]
    exec(compile(code, "quickstart", "exec"), namespace)
    tool = namespace.get("tool") if module == "llama_index.core" else namespace["send_email"]
    given = {"to": "alice@acme.com", "subject": "Welcome"}

    def call() -> str:
        kind: Any = tool
        if module == "crewai":
            return str(kind.run(**given))
        if module == "smolagents":
            return str(kind(**given))
        if module == "llama_index.core":
            return str(asyncio.run(kind.acall(**given)))
        return "".join(content.text for content in asyncio.run(kind.invoke(arguments=given)))

    ana.approves(tool="send_email")
    assert "sent to alice@acme.com" in call()
    ana.denies("not her", tool="send_email")
    assert "not her" in call()


def test_langchain(environment: None, ana: Person, capsys: pytest.CaptureFixture[str]) -> None:
    from test_langchain import FakeModel, said

    first, _ = blocks("python-langchain.md")
    ana.approves(tool="send_email")
    run(first, model=FakeModel(responses=[said([CALL]), said("done")]))
    assert capsys.readouterr().out == "done\n"


def test_openai_agents(environment: None, ana: Person, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from agents.testing import ScriptedModel
    from test_openai_agents import said

    first, later = blocks("python-openai-agents.md")
    script = ScriptedModel([{"output": said([CALL]), "response_id": "r1"}, said("done")])
    ana.approves(tool="send_email")
    namespace = run(first, model=script)
    assert capsys.readouterr().out == "done\n"

    gated = namespace["Countersign"](pause_after=0)
    exec(later, namespace)
    agent = gated.agent(namespace["Agent"](name="Support", model=script, tools=[namespace["send_email"]]))
    script.extend([said([CALL]), said("done")])
    asyncio.run(namespace["first"](gated, agent, str(tmp_path / "state")))
    ana.gate.decide(ana.next("ticket-17").id, True)
    assert asyncio.run(namespace["later"](gated, agent, str(tmp_path / "state"))) == "done"


def test_pydantic_ai(environment: None, ana: Person, capsys: pytest.CaptureFixture[str]) -> None:
    from pydantic_ai import Agent, DeferredToolRequests
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    from countersign.pydantic_ai import Countersign

    def said(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(messages) > 1:
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(parts=[ToolCallPart(CALL.tool, CALL.text, tool_call_id=CALL.id)])

    first, later = blocks("python-pydantic-ai.md")
    ana.approves(tool="send_email")
    namespace = run(first, model=FunctionModel(said))
    assert capsys.readouterr().out == "done\n"

    exec(later, namespace)
    agent = Agent(
        FunctionModel(said),
        tools=[namespace["send_email"]],
        output_type=[str, DeferredToolRequests],
        capabilities=[Countersign(pause_after=0)],
    )
    paused = agent.run_sync("Welcome alice@acme.com")
    assert isinstance(paused.output, DeferredToolRequests)
    ana.gate.decide(ana.next(tool="send_email").id, True)
    assert namespace["go_on"](agent, paused.all_messages_json(), paused.output) == "done"


def test_google_adk(environment: None, ana: Person, capsys: pytest.CaptureFixture[str]) -> None:
    from test_google_adk import FakeModel

    [first] = blocks("python-google-adk.md")
    ana.approves(tool="send_email")
    run(first, model=FakeModel(model="fake", script=[[CALL], "done"]))
    assert "done" in capsys.readouterr().out


def test_claude_agent_sdk(
    environment: None, ana: Person, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from scripted import ScriptedAnthropic

    tool = {"type": "tool_use", "id": "c1", "name": "mcp__mail__send_email", "input": CALL.text}
    fake = ScriptedAnthropic([[tool], [{"type": "text", "text": "all done"}]])
    monkeypatch.setenv("ANTHROPIC_BASE_URL", fake.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
    ana.approves(tool="mcp__mail__send_email")
    run(blocks("python-claude-agent-sdk.md")[0])
    fake.stop()
    printed = capsys.readouterr().out
    assert "sent to alice@acme.com" in printed and "all done" in printed


def test_every_page_is_tested() -> None:
    here = Path(__file__).read_text()
    for page in pages():
        assert f'"{page.name}"' in here, f"{page.name} is not run by a test"
        for name in re.findall(r"^from (countersign[.\w]*) import", page.read_text(), re.MULTILINE):
            importlib.import_module(name)
