//! Properties of every tool in every format, tested with schemas that servers really send
//! (`tests/foreign/schemas.json`) and random ones. `rules.rs` is a second implementation of the
//! providers' rules.

mod foreign;
mod properties;
mod rules;

use serde_json::{Value, json};

use super::{FormatOptions, ModelFormat, ToolDefinition, ToolDefinitions, definitions};

/// All combinations of formats and options.
fn combinations() -> impl Iterator<Item = (ModelFormat, FormatOptions)> {
    ModelFormat::ALL.iter().flat_map(|format| {
        let strict = format.knows_strict().then(FormatOptions::strict);
        [Some(FormatOptions::default()), strict]
            .into_iter()
            .flatten()
            .map(|options| (*format, options))
    })
}

/// Writes one tool and checks it against the provider's rules.
fn declared(format: ModelFormat, options: FormatOptions, tool: &ToolDefinition) -> ToolDefinitions {
    let declared = definitions(format, std::slice::from_ref(tool), &options);
    rules::check(format, options, &declared);
    declared
}

/// Returns the declaration of a single tool.
fn declaration(format: ModelFormat, declared: &ToolDefinitions) -> Option<&Value> {
    match format {
        ModelFormat::Gemini => declared.tools.pointer("/0/functionDeclarations/0"),
        ModelFormat::OpenAi => declared.tools.pointer("/0/function"),
        _ => declared.tools.get(0),
    }
}

/// Returns the schema of a declaration as JSON Schema.
fn json_schema(format: ModelFormat, declaration: &Value) -> Value {
    match format {
        ModelFormat::Anthropic => declaration["input_schema"].clone(),
        ModelFormat::OpenAi | ModelFormat::OpenAiResponses => declaration["parameters"].clone(),
        ModelFormat::Gemini => match declaration.get("parameters") {
            Some(schema) => rules::from_openapi(schema),
            None => json!({"type": "object"}),
        },
        ModelFormat::Mcp => declaration["inputSchema"].clone(),
    }
}

/// Returns a response in which the model calls this tool with these arguments.
fn response(format: ModelFormat, name: &str, arguments: &Value) -> Value {
    let text = arguments.to_string();
    match format {
        ModelFormat::Anthropic => {
            json!({"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": name, "input": arguments}]})
        }
        ModelFormat::OpenAi => {
            json!({"choices": [{"message": {"tool_calls": [{"id": "call_1", "type": "function", "function": {"name": name, "arguments": text}}]}}]})
        }
        ModelFormat::OpenAiResponses => {
            json!({"output": [{"type": "function_call", "call_id": "call_1", "name": name, "arguments": text}]})
        }
        ModelFormat::Gemini => {
            json!({"candidates": [{"content": {"parts": [{"functionCall": {"name": name, "args": arguments}}]}}]})
        }
        ModelFormat::Mcp => {
            json!({"method": "tools/call", "id": 1, "params": {"name": name, "arguments": arguments}})
        }
    }
}
