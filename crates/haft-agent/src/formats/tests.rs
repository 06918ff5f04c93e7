//! What holds for every tool in every format: the schemas that servers really send (`tests/foreign/schemas.json`), and
//! random ones. The rules of the providers are written down a second time, in `rules.rs`.

mod foreign;
mod properties;
mod rules;

use serde_json::{Value, json};

use super::{Definition, Definitions, Format, Options, definitions};

/// Every way in which tools are told: each format, and those that know strict also so.
fn ways() -> impl Iterator<Item = (Format, Options)> {
    Format::ALL.iter().flat_map(|format| {
        let strict = format.knows_strict().then(Options::strict);
        [Some(Options::default()), strict].into_iter().flatten().map(|options| (*format, options))
    })
}

/// One tool, told in one way, held against the provider's rules.
fn told(format: Format, options: Options, tool: &Definition) -> Definitions {
    let told = definitions(format, std::slice::from_ref(tool), &options);
    rules::check(format, options, &told);
    told
}

/// The declaration of a single tool.
fn declaration(format: Format, told: &Definitions) -> Option<&Value> {
    match format {
        Format::Gemini => told.tools.pointer("/0/functionDeclarations/0"),
        Format::OpenAi => told.tools.pointer("/0/function"),
        _ => told.tools.get(0),
    }
}

/// The schema of a declaration as JSON Schema.
fn json_schema(format: Format, declaration: &Value) -> Value {
    match format {
        Format::Anthropic => declaration["input_schema"].clone(),
        Format::OpenAi | Format::OpenAiResponses => declaration["parameters"].clone(),
        Format::Gemini => match declaration.get("parameters") {
            Some(schema) => rules::from_openapi(schema),
            None => json!({"type": "object"}),
        },
        Format::Mcp => declaration["inputSchema"].clone(),
    }
}

/// A response in which the model calls this tool with these arguments.
fn response(format: Format, name: &str, arguments: &Value) -> Value {
    let text = arguments.to_string();
    match format {
        Format::Anthropic => {
            json!({"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": name, "input": arguments}]})
        }
        Format::OpenAi => {
            json!({"choices": [{"message": {"tool_calls": [{"id": "call_1", "type": "function", "function": {"name": name, "arguments": text}}]}}]})
        }
        Format::OpenAiResponses => {
            json!({"output": [{"type": "function_call", "call_id": "call_1", "name": name, "arguments": text}]})
        }
        Format::Gemini => {
            json!({"candidates": [{"content": {"parts": [{"functionCall": {"name": name, "args": arguments}}]}}]})
        }
        Format::Mcp => {
            json!({"method": "tools/call", "id": 1, "params": {"name": name, "arguments": arguments}})
        }
    }
}
