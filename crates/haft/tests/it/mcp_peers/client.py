"""The official Python client before haft: plays that assert what a client of both eras sees.

    client.py '{"play": "tools", "server": {"url": …} or {"command": …, "args": …, "cwd": …, "env": …}, "folder": …}'

Prints a line for each play and era that went well; whatever does not ends with a traceback and exit code 1.
"""

import json
import re
import sys
import warnings
from pathlib import Path

import anyio
import mcp_types as types
from mcp import Client, MCPError, StdioServerParameters

ERAS = ("legacy", "auto")
MODERN = "2026-07-28"
# Far longer than anything here takes; only a play that fails waits for it.
TIMEOUT = 30


class Stage:
    """Where a play is played: one server, one era, one folder."""

    def __init__(self, server, era, folder):
        self.server, self.era, self.folder = server, era, Path(folder)

    def client(self, **callbacks):
        server = self.server.get("url") or StdioServerParameters(**self.server)
        # Without its cache every question reaches the server.
        return Client(server, mode=self.era, cache=None, read_timeout_seconds=TIMEOUT, **callbacks)

    @property
    def is_modern(self):
        return self.era != "legacy"


def text(result):
    return "\n".join(block.text for block in result.content if block.type == "text")


async def refusal(awaitable):
    try:
        result = await awaitable
    except MCPError as error:
        return error.error
    raise AssertionError(f"no error: {result}")


async def tools(stage):
    """Every tool of the profile, errors, resources, prompts, completion and log level."""
    (stage.folder / "a.txt").write_text("one\ntwo\nthree\n")
    async with stage.client() as client:
        assert client.server_info is not None and client.server_info.name == "haft", client.server_info
        assert "workspace" in client.instructions, client.instructions
        assert client.protocol_version == (MODERN if stage.is_modern else "2025-11-25"), client

        await every_tool(client)
        failed = await client.call_tool("read", {"path": "nothing.txt"})
        assert failed.is_error and "there is no `nothing.txt`" in text(failed), failed
        unknown = await refusal(client.call_tool("no_such_tool", {}))
        assert unknown.code == types.INVALID_PARAMS and "no_such_tool" in unknown.message, unknown

        await looking_around(stage, client)
        if not stage.is_modern:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                await client.set_logging_level("warning")
                await client.send_ping()


async def recorded(stage):
    """Every tool of the profile and nothing else: what a recording has to give again."""
    async with stage.client() as client:
        await every_tool(client)


REPOSITORY = """set -e; git init -q -b topic repo; cd repo; echo one > file; git add .
git -c user.name=Ada -c user.email=ada@example.org commit -q -m First; echo two >> file
git config user.name Ada; git config user.email ada@example.org; echo done"""


async def every_tool(client):
    """The SDK itself holds structured content against the schema of the tool."""
    listed = {tool.name: tool for tool in (await client.list_tools()).tools}
    calls = [
        ("hello", {"name": "Ada"}),
        ("make_directory", {"path": "made"}),
        ("write", {"path": "made/new.txt", "content": "x\n"}),
        ("edit", {"path": "a.txt", "old_string": "two", "new_string": "TWO"}),
        ("read", {"path": "a.txt"}),
        ("edit_lines", {"path": "a.txt", "patches": [{"start_line": 1, "end_line": 1, "content": "ONE"}]}),
        ("patch", {"patch": "*** Begin Patch\n*** Update File: a.txt\n-three\n+THREE\n*** End Patch"}),
        ("list", {}),
        ("glob", {"pattern": "*.txt"}),
        ("grep", {"pattern": "T[WH]"}),
        ("stat", {"path": "a.txt"}),
        ("move", {"from": "made/new.txt", "to": "made/moved.txt"}),
        ("delete", {"path": "made", "recursive": True}),
        ("changes", {}),
        ("undo", {}),
        ("changes", {}),
        ("redo", {}),
        ("todo_write", {"todos": [{"content": "Call Ada"}]}),
        ("todo_read", {}),
        ("session", {"operation": "patch", "title": "A test"}),
        ("bash", {"command": "seq 1 9000"}),
        ("output_read", {"start_line": 4000, "end_line": 4010}),
        ("output_search", {"pattern": "^777$"}),
        ("bash", {"command": REPOSITORY}),
        ("process", {"action": "list"}),
        ("git_status", {"directory": "repo"}),
        ("git_diff", {"directory": "repo"}),
        ("git_log", {"directory": "repo"}),
        ("git_show", {"directory": "repo", "revision": "HEAD"}),
        ("git_blame", {"directory": "repo", "path": "repo/file"}),
        ("git_commit", {"directory": "repo", "message": "Second", "all": True}),
        ("git_branch", {"directory": "repo", "action": "list"}),
        ("git_worktree", {"directory": "repo", "action": "list"}),
    ]
    version = output = newest = None
    for name, arguments in calls:
        if name == "edit_lines":
            arguments["expected_version"] = version
        if name in ("undo", "redo"):
            # By number: over HTTP a client of the later era has another session for every request.
            arguments["changes"] = [newest]
        if name.startswith("output_"):
            arguments["id"] = output
        result = await client.call_tool(name, arguments)
        assert not result.is_error, f"{name}: {text(result)}"
        assert text(result), f"{name} says nothing"
        assert listed[name].output_schema and result.structured_content is not None, name
        version = result.structured_content.get("version", version)
        if name == "changes":
            newest = result.structured_content["changes"][0]["number"]
        kept = re.search("out_[0-9a-f]+", text(result))
        output = kept.group() if kept else output
    # A remote that a sandbox lets nobody write to is no remote, and there is no web here: web.rs serves one.
    elsewhere = {"git_push", "web_fetch", "web_search", "http_request"}
    unplayed = listed.keys() - {name for name, _ in calls} - elsewhere
    assert not unplayed, f"give these a call in client.py: {unplayed}"


async def looking_around(stage, client):
    a_txt = (stage.folder / "a.txt").resolve().as_uri()
    resources = (await client.list_resources()).resources
    assert a_txt in [str(resource.uri) for resource in resources], resources
    contents = (await client.read_resource(a_txt)).contents
    assert contents[0].text == "ONE\nTWO\nTHREE\n" or contents[0].text == "ONE\nTWO\nTHREE", contents
    missing = await refusal(client.read_resource(a_txt + ".gone"))
    expected = types.INVALID_PARAMS if stage.is_modern else -32002
    assert missing.code == expected and missing.data["uri"] == a_txt + ".gone", missing
    outside = await refusal(client.read_resource("file:///etc/passwd"))
    assert "/etc/passwd" in outside.message, outside

    (template,) = (await client.list_resource_templates()).resource_templates
    reference = types.ResourceTemplateReference(type="ref/resource", uri=template.uri_template)
    completed = await client.complete(reference, {"name": "path", "value": "a"})
    assert completed.completion.values == ["a.txt"], completed

    (prompt,) = (await client.list_prompts()).prompts
    got = await client.get_prompt(prompt.name)
    assert "`read`" in got.messages[0].content.text, got
    absent = await refusal(client.get_prompt("no_such_prompt"))
    assert absent.code == types.INVALID_PARAMS, absent


async def approvals(stage):
    """What needs a yes is asked through the client: once, no with words, and nobody to ask."""
    doomed = stage.folder / "doomed.txt"
    asked = []

    def answering(action, **content):
        async def answer(_context, params):
            asked.append(params)
            return types.ElicitResult(action=action, content=content or None)

        return answer

    async def delete(**callbacks):
        doomed.write_text("x")
        async with stage.client(**callbacks) as client:
            return await client.call_tool("delete", {"path": "doomed.txt"})

    result = await delete(elicitation_callback=answering("accept", decision="once"))
    assert not result.is_error and not doomed.exists(), text(result)
    assert "doomed.txt" in asked[-1].message, asked
    decision = asked[-1].requested_schema["properties"]["decision"]
    assert decision["enum"][0] == "once" and decision["enum"][-1] == "no", decision

    result = await delete(elicitation_callback=answering("accept", decision="no", note="keep it for Ada"))
    assert result.is_error and doomed.exists() and "keep it for Ada" in text(result), text(result)
    # A question that is put away is no decision.
    for action, kind in (("decline", "approval_denied"), ("cancel", "approval_unavailable")):
        result = await delete(elicitation_callback=answering(action))
        assert result.is_error and doomed.exists() and kind in text(result), text(result)
    assert len(asked) == 4, asked

    result = await delete()
    assert result.is_error and doomed.exists(), text(result)
    assert "approval_unavailable" in text(result) and "delete" in text(result), text(result)
    await remembered(stage, doomed, answering, asked)


async def remembered(stage, doomed, answering, asked):
    """A yes for the session holds for the second call. Over HTTP there are no sessions from 2026-07-28 on."""
    if stage.is_modern and "url" in stage.server:
        return
    before = len(asked)
    async with stage.client(elicitation_callback=answering("accept", decision="session-0")) as client:
        for _ in range(2):
            doomed.write_text("x")
            result = await client.call_tool("delete", {"path": "doomed.txt"})
            assert not result.is_error and not doomed.exists(), text(result)
    assert len(asked) == before + 1, asked[before:]


async def roots(stage):
    """The client's own folder is worked in, wherever the server was started."""
    (stage.folder / "in_root.txt").write_text("found in the root\n")

    async def given(_context):
        return types.ListRootsResult(roots=[types.Root(uri=stage.folder.resolve().as_uri())])

    async with stage.client(list_roots_callback=given) as client:
        result = await client.call_tool("read", {"path": "in_root.txt"})
        assert not result.is_error and "found in the root" in text(result), text(result)
    async with stage.client() as client:
        result = await client.call_tool("read", {"path": "in_root.txt"})
        assert result.is_error and "there is no" in text(result), text(result)


async def example(stage):
    """What haft's own tools do not do: long work, log lines, questions to the model, a list that changes."""
    logged, asked = [], []

    async def log(params):
        logged.append(params.data)

    async def sample(_context, params):
        asked.append(params)
        content = types.TextContent(type="text", text="Paris")
        return types.CreateMessageResult(role="assistant", content=content, model="none")

    async def fill_in(_context, params):
        asked.append(params)
        return types.ElicitResult(action="accept", content={"username": "ada", "email": "ada@example.org"})

    callbacks = {"logging_callback": log, "sampling_callback": sample, "elicitation_callback": fill_in}
    async with stage.client(log_level="info", **callbacks) as client:
        await hears_progress(client)
        if not stage.is_modern:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                await client.set_logging_level("info")
        await client.call_tool("test_tool_with_logging", {})
        await until(lambda: len(logged) >= 3)
        assert logged[0] == "Tool execution started", logged

        result = await client.call_tool("test_sampling", {"prompt": "What is the capital of France?"})
        assert text(result) == "LLM response: Paris", result
        result = await client.call_tool("test_elicitation", {"message": "Who are you?"})
        assert "ada@example.org" in text(result), result
        assert len(asked) == 2, asked

        mixed = await client.call_tool("test_multiple_content_types", {})
        assert [block.type for block in mixed.content] == ["text", "image", "resource"], mixed
        assert json.loads(mixed.content[2].resource.text) == {"test": "data", "value": 123}, mixed
    await answers_wrongly(stage)
    await calls_off(stage)


async def answers_wrongly(stage):
    """A form that is not filled in as it was asked for does not reach the tool."""

    async def fill_in(_context, _params):
        return types.ElicitResult(action="accept", content={"username": 7})

    async def decline(_context, _params):
        return types.ElicitResult(action="decline")

    async with stage.client(elicitation_callback=fill_in) as client:
        call = client.call_tool("test_elicitation", {"message": "Who are you?"})
        if stage.is_modern:
            wrong = await refusal(call)
            assert wrong.code == types.INVALID_PARAMS, wrong
            message = wrong.message
        else:
            result = await call
            assert result.is_error, result
            message = text(result)
        assert "is invalid" in message and "username" in message and "email" in message, message
    async with stage.client(elicitation_callback=decline) as client:
        result = await client.call_tool("test_elicitation", {"message": "Who are you?"})
        assert not result.is_error and 'action="decline"' in text(result), result


async def hears_progress(client):
    steps = []

    async def hear(progress, total, message):
        steps.append((progress, total, message))

    await client.call_tool("test_tool_with_progress", {}, progress_callback=hear)
    assert [step[:2] for step in steps] == [(0, 100), (50, 100), (100, 100)], steps


async def calls_off(stage):
    """A call that is called off ends at the server, which tells those who watch."""
    watched = "test://watched-resource"
    heard = []

    async def hear(message):
        heard.append(message)

    async with stage.client(message_handler=hear) as client:

        async def count():
            return int((await client.read_resource(watched)).contents[0].text.split()[0])

        before = await count()
        if stage.is_modern:
            async with client.listen(resource_subscriptions=[watched]) as changes:
                await begin_and_call_off(client)
                with anyio.fail_after(TIMEOUT):
                    async for _change in changes:
                        break
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                await client.subscribe_resource(watched)
            await begin_and_call_off(client)
            await until(lambda: any(isinstance(m, types.ResourceUpdatedNotification) for m in heard))
        assert await count() == before + 1


async def begin_and_call_off(client):
    began = anyio.Event()

    async def hear(_progress, _total, _message):
        began.set()

    async with anyio.create_task_group() as work:
        work.start_soon(lambda: client.call_tool("test_wait", {}, progress_callback=hear))
        with anyio.fail_after(TIMEOUT):
            await began.wait()
        work.cancel_scope.cancel()


async def until(holds):
    with anyio.fail_after(TIMEOUT):
        while not holds():
            await anyio.sleep(0.005)


async def main():
    wanted = json.loads(sys.argv[1])
    plays = {"tools": tools, "recorded": recorded, "approvals": approvals, "roots": roots, "example": example}
    play = plays[wanted["play"]]
    for era in wanted.get("eras", ERAS):
        with anyio.fail_after(2 * TIMEOUT):
            await play(Stage(wanted["server"], era, wanted["folder"]))
        print(f"{wanted['play']} {era}: ok", flush=True)


anyio.run(main)
