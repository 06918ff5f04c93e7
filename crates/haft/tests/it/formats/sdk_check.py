"""Holds what haft writes against the types of the official Python libraries, and makes responses with them.

Reads {"definitions": [...], "results": [...]} from standard input; writes {"n_definitions", "responses"} to standard
output. Any mismatch ends it with a traceback that names the place.
"""

import json
import sys

import anthropic.types
import google.genai.types
import mcp.types
import openai.types.chat
import openai.types.responses
import openai.types.responses.response_input_item_param as responses_items
import pydantic
import typing_extensions
from anthropic.types import user_message_param


def check_keys(kind, value, place):
    """TypedDicts let unknown keys pass, so they are looked for here, one level deep in named types."""
    unknown = set(value) - set(typing_extensions.get_type_hints(kind))
    if unknown:
        raise ValueError(f"{place}: {kind.__name__} has no {sorted(unknown)}")


ADAPTERS = {}


def typed_dict(kind, value, place):
    """Validates against a TypedDict, keys included."""
    check_keys(kind, value, place)
    if kind not in ADAPTERS:
        ADAPTERS[kind] = pydantic.TypeAdapter(kind)
    # Python mode keeps iterables lazy; writing them out forces each item through its type.
    validated = ADAPTERS[kind].validate_python(value, strict=True)
    ADAPTERS[kind].dump_json(validated, warnings="error")


def anthropic_tool(tool, place):
    typed_dict(anthropic.types.ToolParam, tool, place)
    assert tool["input_schema"]["type"] == "object", place


def openai_tool(tool, place):
    typed_dict(openai.types.chat.ChatCompletionFunctionToolParam, tool, place)
    typed_dict(openai.types.shared_params.FunctionDefinition, tool["function"], place)


def responses_tool(tool, place):
    typed_dict(openai.types.responses.FunctionToolParam, tool, place)


def gemini_tool(tool, place):
    # Extra keys are forbidden there at every level.
    google.genai.types.Tool.model_validate(tool)


def mcp_tool(tool, place):
    read = mcp.types.Tool.model_validate(tool)
    written = read.model_dump(by_alias=True, mode="json", exclude_none=True)
    assert written == tool, f"{place}: {written} is not {tool}"


TOOLS = {
    "anthropic": anthropic_tool,
    "openai": openai_tool,
    "openai-responses": responses_tool,
    "gemini": gemini_tool,
    "mcp": mcp_tool,
}


def check_definitions(entry):
    name = entry["format"] + (" strict" if entry["strict"] else "")
    for number, tool in enumerate(entry["tools"]):
        TOOLS[entry["format"]](tool, f"{name} [{number}]")
    if entry["format"] == "gemini":
        return sum(len(tool["functionDeclarations"]) for tool in entry["tools"])
    return len(entry["tools"])


BLOCKS = {
    "text": anthropic.types.TextBlockParam,
    "image": anthropic.types.ImageBlockParam,
    "document": anthropic.types.DocumentBlockParam,
}
PARTS = {
    "input_text": openai.types.responses.ResponseInputTextContentParam,
    "input_image": openai.types.responses.ResponseInputImageContentParam,
    "input_file": openai.types.responses.ResponseInputFileContentParam,
}


def anthropic_results(messages):
    [message] = messages
    typed_dict(user_message_param.UserMessageParam, message, "anthropic message")
    for block in message["content"]:
        typed_dict(anthropic.types.ToolResultBlockParam, block, "anthropic result")
        for inner in block["content"]:
            typed_dict(BLOCKS[inner["type"]], inner, "anthropic block")


def openai_results(messages):
    for message in messages:
        if message["role"] == "tool":
            typed_dict(openai.types.chat.ChatCompletionToolMessageParam, message, "openai tool message")
        else:
            typed_dict(openai.types.chat.ChatCompletionUserMessageParam, message, "openai user message")
    roles = [message["role"] for message in messages]
    assert roles == sorted(roles), roles


def responses_results(items):
    for item in items:
        typed_dict(responses_items.FunctionCallOutput, item, "responses item")
        if not isinstance(item["output"], str):
            for part in item["output"]:
                typed_dict(PARTS[part["type"]], part, "responses part")


def gemini_results(contents):
    for content in contents:
        google.genai.types.Content.model_validate(content)


def mcp_results(items):
    for item in items:
        read = mcp.types.CallToolResult.model_validate(item)
        written = read.model_dump(by_alias=True, mode="json", exclude_none=True)
        written.pop("resultType", None)
        assert written == item, f"{written} is not {item}"


RESULTS = {
    "anthropic": anthropic_results,
    "openai": openai_results,
    "openai-responses": responses_results,
    "gemini": gemini_results,
    "mcp": mcp_results,
}


def anthropic_response():
    return anthropic.types.Message.model_validate(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude",
            "stop_reason": "tool_use",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
            "content": [
                {"type": "text", "text": "I look.", "citations": None},
                {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a.txt"}},
                {"type": "tool_use", "id": "toolu_2", "name": "list", "input": {}},
            ],
        }
    )


def openai_response():
    def call(number, name, arguments):
        function = {"name": name, "arguments": arguments}
        return {"id": f"call_{number}", "type": "function", "function": function}

    message = {
        "role": "assistant",
        "content": None,
        "refusal": None,
        "tool_calls": [call(1, "read", '{"path": "a.txt"}'), call(2, "list", "{}")],
    }
    choice = {"index": 0, "finish_reason": "tool_calls", "logprobs": None, "message": message}
    whole = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt", "choices": [choice]}
    return openai.types.chat.ChatCompletion.model_validate(whole)


def responses_response():
    def call(number, name, arguments):
        return {
            "type": "function_call",
            "id": f"fc_{number}",
            "call_id": f"call_{number}",
            "name": name,
            "arguments": arguments,
            "status": "completed",
        }

    return openai.types.responses.Response.model_validate(
        {
            "id": "resp_1",
            "object": "response",
            "created_at": 1,
            "model": "gpt",
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "output": [
                {"type": "reasoning", "id": "rs_1", "summary": []},
                call(1, "read", '{"path": "a.txt"}'),
                call(2, "list", "{}"),
            ],
        }
    )


def gemini_response():
    return google.genai.types.GenerateContentResponse.model_validate(
        {
            "candidates": [
                {
                    "content": {
                        "role": "model",
                        "parts": [
                            {"text": "I look."},
                            {"functionCall": {"name": "read", "args": {"path": "a.txt"}}},
                            {"functionCall": {"id": "fc-2", "name": "list", "args": {}}},
                        ],
                    },
                    "finishReason": "STOP",
                }
            ]
        }
    )


def mcp_requests():
    def request(arguments, name):
        params = mcp.types.CallToolRequestParams(name=name, arguments=arguments)
        return mcp.types.CallToolRequest(params=params).model_dump(by_alias=True, mode="json")

    return [request({"path": "a.txt"}, "read"), request(None, "list")]


def dumps(response):
    """As the library writes it to the wire, and as people log it."""
    yield response.model_dump(by_alias=True, mode="json", exclude_none=True)
    yield response.model_dump(mode="json")


def main():
    given = json.load(sys.stdin)
    n_definitions = sum(check_definitions(entry) for entry in given["definitions"])
    for entry in given["results"]:
        RESULTS[entry["format"]](entry["results"])
    responses = {
        "anthropic": list(dumps(anthropic_response())),
        "openai": list(dumps(openai_response())),
        "openai-responses": list(dumps(responses_response())),
        "gemini": list(dumps(gemini_response())),
        "mcp": [mcp_requests()],
    }
    json.dump({"n_definitions": n_definitions, "responses": responses}, sys.stdout)


main()
