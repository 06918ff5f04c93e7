//! Reads the calls in a provider's response. Accepts whole responses, messages and single parts. A
//! broken call does not affect the others.

use haft_core::{Input, Outcome, ToolError};
use serde_json::{Map, Value};

use super::{FormatError, ModelFormat, ToolNames};

/// Prefix of ids that haft makes; no provider's ids start with it.
pub(super) const MADE_ID_PREFIX: &str = "haft-call-";

/// A call from a model.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ModelCall {
    /// The provider's id, or one made from its position (Gemini sends none).
    pub id: String,
    /// The tool by haft's name. An unknown name is unchanged.
    pub name: String,
    /// The arguments. Text stays text, for the gate to repair.
    pub input: Input,
}

/// An invalid call, without a name or with arguments of a wrong type.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BadCall {
    /// The provider's id, or one made from its position.
    pub id: String,
    /// The tool, as far as it is named.
    pub name: String,
    /// Description of the error.
    pub problem: String,
}

impl BadCall {
    /// Returns the answer to the model, which describes the error.
    pub fn outcome(&self) -> Outcome {
        let error = ToolError::input(self.problem.clone())
            .hint("make the call again, with the tool's name and its arguments as a JSON object");
        Outcome::failed(&self.name, &error)
    }
}

/// Reads the calls in a response, in order. Empty if the model made none.
///
/// Accepts the whole response, the message in it, the list of its parts, or one part; for MCP a
/// `tools/call` request or its parameters.
///
/// # Errors
/// When it is none of these.
pub fn calls(
    format: ModelFormat,
    message: &Value,
    names: &ToolNames,
) -> Result<Vec<Result<ModelCall, BadCall>>, FormatError> {
    let raw = match format {
        ModelFormat::Anthropic => anthropic(message),
        ModelFormat::OpenAi => openai(message),
        ModelFormat::OpenAiResponses => responses(message),
        ModelFormat::Gemini => gemini(message),
        ModelFormat::Mcp => mcp(message),
    };
    let raw = raw.map_err(|expected| FormatError::NotAMessage { format, expected })?;
    Ok(raw.into_iter().enumerate().map(|(position, raw)| raw.finish(position, names)).collect())
}

/// A call as it is in the message.
#[derive(Default)]
struct RawCall<'a> {
    id: Option<&'a Value>,
    name: Option<&'a Value>,
    arguments: Option<&'a Value>,
    /// The type of a call that haft does not support.
    foreign: Option<&'a str>,
}

type RawCalls<'a> = Result<Vec<RawCall<'a>>, &'static str>;

impl<'a> RawCall<'a> {
    fn of(part: &'a Value, id: &str, arguments: &str) -> Self {
        Self {
            id: part.get(id),
            name: part.get("name"),
            arguments: part.get(arguments),
            foreign: None,
        }
    }

    fn finish(self, position: usize, names: &ToolNames) -> Result<ModelCall, BadCall> {
        let id = match self.id {
            Some(Value::String(id)) if !id.is_empty() => id.clone(),
            Some(Value::Number(id)) => id.to_string(),
            _ => format!("{MADE_ID_PREFIX}{position}"),
        };
        let called = self.name.and_then(Value::as_str).unwrap_or_default();
        let name = names.to_haft(called).to_owned();
        match self.problem(called) {
            Some(problem) => Err(BadCall { id, name, problem }),
            None => {
                let input = input(self.arguments, &name, names);
                Ok(ModelCall { id, name, input })
            }
        }
    }

    fn problem(&self, name: &str) -> Option<String> {
        if let Some(sort) = self.foreign {
            let sort = super::losses::shown_name(sort);
            return Some(format!("calls of type `{sort}` are not supported"));
        }
        if name.is_empty() {
            return Some("the call names no tool".to_owned());
        }
        let sort = match self.arguments {
            Some(Value::Number(_)) => "a number",
            Some(Value::Bool(_)) => "true or false",
            Some(Value::Array(_)) => "a list",
            _ => return None,
        };
        Some(format!("the arguments of `{name}` are {sort}, not an object"))
    }
}

fn input(arguments: Option<&Value>, name: &str, names: &ToolNames) -> Input {
    let nothing = || Input::Value(Value::Object(Map::new()));
    match arguments {
        None | Some(Value::Null) => nothing(),
        // Models call tools without parameters with an empty text.
        Some(Value::String(text)) if text.trim().is_empty() => nothing(),
        Some(Value::String(text)) if names.changes_arguments(name) => {
            // The gate must repair broken JSON first; it also removes nulls that the schema does
            // not allow.
            match serde_json::from_str(text) {
                Ok(value) => Input::Value(names.restore(name, value)),
                Err(_) => Input::Text(text.clone()),
            }
        }
        Some(Value::String(text)) => Input::Text(text.clone()),
        Some(value) => Input::Value(names.restore(name, value.clone())),
    }
}

/// `content[]` with `tool_use` blocks. Skips calls that Anthropic runs itself (`server_tool_use`).
fn anthropic(message: &Value) -> RawCalls<'_> {
    let blocks = match message {
        Value::Array(blocks) => blocks.as_slice(),
        Value::Object(object) => match object.get("content") {
            Some(Value::Array(blocks)) => blocks.as_slice(),
            Some(Value::String(_)) => &[],
            _ if object.get("type").is_some_and(Value::is_string) => std::slice::from_ref(message),
            _ => return Err("`content`"),
        },
        _ => return Err("`content`"),
    };
    let ours = blocks.iter().filter(|block| is_of(block, "tool_use"));
    Ok(ours.map(|block| RawCall::of(block, "id", "input")).collect())
}

/// `choices[0].message.tool_calls[]`, or the old `function_call`.
fn openai(message: &Value) -> RawCalls<'_> {
    let message = match message.get("choices") {
        Some(choices) => choices.get(0).and_then(|choice| choice.get("message")),
        None => Some(message.get("message").unwrap_or(message)),
    };
    let message = message.ok_or("`choices[0].message`")?;
    let calls = match message {
        Value::Array(calls) => calls.as_slice(),
        Value::Object(object) => match object.get("tool_calls") {
            Some(Value::Array(calls)) => calls.as_slice(),
            _ if object.contains_key("function") || object.contains_key("custom") => {
                std::slice::from_ref(message)
            }
            _ if ["role", "content", "refusal", "function_call", "tool_calls"]
                .iter()
                .any(|key| object.contains_key(*key)) =>
            {
                &[]
            }
            _ => return Err("`tool_calls` or `content`"),
        },
        _ => return Err("`choices`"),
    };
    let old = message.get("function_call").filter(|call| call.is_object());
    let old = old.into_iter().map(|call| RawCall::of(call, "id", "arguments"));
    Ok(calls.iter().map(of_chat).chain(old).collect())
}

fn of_chat(call: &Value) -> RawCall<'_> {
    let (id, sort) = (call.get("id"), call.get("type").and_then(Value::as_str));
    match (call.get("function"), sort) {
        (Some(function), _) => RawCall { id, ..RawCall::of(function, "id", "arguments") },
        (None, Some(sort)) if sort != "function" => {
            let name = call.get(sort).and_then(|inner| inner.get("name"));
            RawCall { id, name, foreign: Some(sort), ..RawCall::default() }
        }
        _ => RawCall { id, ..RawCall::default() },
    }
}

/// `output[]` with `function_call` items.
fn responses(message: &Value) -> RawCalls<'_> {
    let items = match message {
        Value::Array(items) => items.as_slice(),
        Value::Object(object) => match object.get("output") {
            Some(Value::Array(items)) => items.as_slice(),
            _ if object.get("type").is_some_and(Value::is_string) => std::slice::from_ref(message),
            _ => return Err("`output`"),
        },
        _ => return Err("`output`"),
    };
    let ours = items.iter().filter_map(|item| {
        let raw = RawCall::of(item, "call_id", "arguments");
        if is_of(item, "function_call") {
            Some(raw)
        } else {
            let is_foreign = is_of(item, "custom_tool_call");
            is_foreign.then_some(RawCall { foreign: Some("custom_tool_call"), ..raw })
        }
    });
    Ok(ours.collect())
}

/// `candidates[0].content.parts[].functionCall`; Google's libraries use snake case.
fn gemini(message: &Value) -> RawCalls<'_> {
    let content = match message.get("candidates") {
        // A blocked prompt has no candidate, and a stopped candidate no content.
        Some(candidates) => {
            match candidates.get(0).and_then(|candidate| candidate.get("content")) {
                Some(content) if !content.is_null() => content,
                _ => return Ok(Vec::new()),
            }
        }
        None => message.get("content").unwrap_or(message),
    };
    let parts = match content {
        Value::Array(parts) => parts.as_slice(),
        Value::Object(object) => match object.get("parts") {
            Some(Value::Array(parts)) => parts.as_slice(),
            _ if object.contains_key("role") || object.contains_key("promptFeedback") => &[],
            _ if function_call(content).is_some() || object.contains_key("text") => {
                std::slice::from_ref(content)
            }
            _ => return Err("`candidates`"),
        },
        _ => return Err("`candidates`"),
    };
    let calls = parts.iter().filter_map(function_call);
    Ok(calls.map(|call| RawCall::of(call, "id", "args")).collect())
}

fn function_call(part: &Value) -> Option<&Value> {
    part.get("functionCall").or_else(|| part.get("function_call")).filter(|call| !call.is_null())
}

/// A `tools/call` request, a list of them, or the parameters of one.
fn mcp(message: &Value) -> RawCalls<'_> {
    if let Value::Array(requests) = message {
        let found: Result<Vec<Vec<RawCall<'_>>>, _> = requests.iter().map(one_of_mcp).collect();
        return Ok(found?.into_iter().flatten().collect());
    }
    one_of_mcp(message)
}

fn one_of_mcp(message: &Value) -> RawCalls<'_> {
    let call = |params| RawCall::of(params, "id", "arguments");
    match (message.get("method").and_then(Value::as_str), message.get("params")) {
        (Some("tools/call"), Some(params)) => {
            Ok(vec![RawCall { id: message.get("id"), ..call(params) }])
        }
        (Some("tools/call"), None) => {
            Ok(vec![RawCall { id: message.get("id"), ..RawCall::default() }])
        }
        (Some(_), _) => Ok(Vec::new()),
        (None, _) if message.get("name").is_some() || message.get("arguments").is_some() => {
            Ok(vec![call(message)])
        }
        (None, _) => Err("`method` or `name`"),
    }
}

fn is_of(part: &Value, sort: &str) -> bool {
    part.get("type").and_then(Value::as_str) == Some(sort)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::formats::{FormatOptions, ToolDefinition, definitions};

    /// Returns calls as lines: `id name arguments`, with `text` before arguments that stayed text.
    fn read(format: ModelFormat, message: &Value, names: &ToolNames) -> Vec<String> {
        let shown = |call: Result<ModelCall, BadCall>| match call {
            Ok(ModelCall { id, name, input: Input::Value(value) }) => {
                format!("{id} {name} {value}")
            }
            Ok(ModelCall { id, name, input: Input::Text(text) }) => {
                format!("{id} {name} text {text}")
            }
            Err(BadCall { id, name, problem }) => format!("{id} {name} bad: {problem}"),
        };
        calls(format, message, names).expect("a message").into_iter().map(shown).collect()
    }

    #[track_caller]
    fn check(format: ModelFormat, message: Value, expected: &[&str]) {
        assert_eq!(read(format, &message, &ToolNames::default()), expected, "{message}");
    }

    #[test]
    fn anthropic_in_every_wrapping() {
        let block =
            json!({"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a"}});
        let content = json!([{"type": "text", "text": "I look."}, block, {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}]);
        for message in
            [json!({"role": "assistant", "content": content}), content.clone(), block.clone()]
        {
            check(ModelFormat::Anthropic, message, &[r#"toolu_1 read {"path":"a"}"#]);
        }
        check(ModelFormat::Anthropic, json!({"content": "Only words."}), &[]);
    }

    #[test]
    fn openai_chat_in_every_wrapping() {
        let call = json!({"id": "call_1", "type": "function", "function": {"name": "read", "arguments": "{\"path\": \"a\",}"}});
        let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
        let choice = json!({"index": 0, "message": message});
        for message in [
            json!({"choices": [choice]}),
            choice.clone(),
            message.clone(),
            json!([call]),
            call.clone(),
        ] {
            check(ModelFormat::OpenAi, message, &["call_1 read text {\"path\": \"a\",}"]);
        }
        check(ModelFormat::OpenAi, json!({"role": "assistant", "content": "Only words."}), &[]);
        check(
            ModelFormat::OpenAi,
            json!({"content": null, "function_call": {"name": "read", "arguments": "{}"}}),
            &["haft-call-0 read text {}"],
        );
        let custom =
            json!({"id": "c", "type": "custom", "custom": {"name": "shell", "input": "ls"}});
        check(
            ModelFormat::OpenAi,
            json!({"tool_calls": [custom]}),
            &["c shell bad: calls of type `custom` are not supported"],
        );
    }

    #[test]
    fn openai_responses_in_every_wrapping() {
        let item = json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "read", "arguments": "{}"});
        let output = json!([{"type": "reasoning", "summary": []}, item]);
        for message in
            [json!({"object": "response", "output": output}), output.clone(), item.clone()]
        {
            check(ModelFormat::OpenAiResponses, message, &["call_1 read text {}"]);
        }
        let custom =
            json!([{"type": "custom_tool_call", "call_id": "c", "name": "shell", "input": "ls"}]);
        check(
            ModelFormat::OpenAiResponses,
            custom,
            &["c shell bad: calls of type `custom_tool_call` are not supported"],
        );
    }

    #[test]
    fn gemini_in_every_wrapping_and_with_ids_made_by_position() {
        let parts = json!([{"text": "I look."}, {"functionCall": {"name": "read", "args": {"path": "a"}}}, {"function_call": {"name": "list", "id": "x"}}]);
        let content = json!({"role": "model", "parts": parts});
        let expected = [r#"haft-call-0 read {"path":"a"}"#, "x list {}"];
        for message in [
            json!({"candidates": [{"content": content}]}),
            json!({"content": content}),
            content.clone(),
            parts.clone(),
        ] {
            check(ModelFormat::Gemini, message, &expected);
        }
        check(ModelFormat::Gemini, parts[1].clone(), &expected[..1]);
        check(ModelFormat::Gemini, json!({"candidates": []}), &[]);
        check(ModelFormat::Gemini, json!({"candidates": [{"finishReason": "SAFETY"}]}), &[]);
    }

    #[test]
    fn mcp_requests_and_their_parameters() {
        let params = json!({"name": "read", "arguments": {"path": "a"}});
        check(
            ModelFormat::Mcp,
            json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}),
            &[r#"7 read {"path":"a"}"#],
        );
        check(ModelFormat::Mcp, params, &[r#"haft-call-0 read {"path":"a"}"#]);
        check(
            ModelFormat::Mcp,
            json!([{"method": "ping"}, {"method": "tools/call", "id": "b"}]),
            &["b  bad: the call names no tool"],
        );
    }

    #[test]
    fn a_value_that_is_not_a_message_is_refused_with_the_missing_part() {
        for format in ModelFormat::ALL {
            for message in [json!(null), json!(5), json!("text"), json!({"unexpected": true})] {
                let error =
                    calls(*format, &message, &ToolNames::default()).expect_err("no message");
                assert!(error.to_string().contains(format.name()), "{error}");
            }
        }
    }

    #[test]
    fn a_broken_call_affects_no_other_and_can_be_answered() {
        let message = json!([
            {"type": "tool_use", "id": "1", "input": {}},
            {"type": "tool_use", "id": "2", "name": 5, "input": {}},
            {"type": "tool_use", "id": "3", "name": "read", "input": [1]},
            {"type": "tool_use", "id": "4", "name": "read", "input": 7},
            {"type": "tool_use", "name": "read", "input": true},
            {"type": "tool_use", "id": "6", "name": "read"}]);
        check(
            ModelFormat::Anthropic,
            message.clone(),
            &[
                "1  bad: the call names no tool",
                "2  bad: the call names no tool",
                "3 read bad: the arguments of `read` are a list, not an object",
                "4 read bad: the arguments of `read` are a number, not an object",
                "haft-call-4 read bad: the arguments of `read` are true or false, not an object",
                "6 read {}",
            ],
        );
        let found =
            calls(ModelFormat::Anthropic, &message, &ToolNames::default()).expect("a message");
        let bad = found[2].as_ref().expect_err("broken");
        assert!(bad.outcome().content.contains("are a list"), "{:?}", bad.outcome());
    }

    #[test]
    fn an_empty_text_means_no_arguments() {
        for arguments in [json!(""), json!("  "), json!(null)] {
            let call = json!({"id": "1", "type": "function", "function": {"name": "now", "arguments": arguments}});
            check(ModelFormat::OpenAi, call, &["1 now {}"]);
        }
    }

    #[test]
    fn arguments_come_back_as_the_tool_wants_them() {
        let schema = json!({"type": "object", "properties": {"limit": {"type": "integer"}, "$top": {"type": "integer"}, "any": {}}});
        let declared = |format, schema: &Value, options: &FormatOptions| {
            definitions(format, &[ToolDefinition::new("files/read", schema.clone())], options).names
        };
        let names = declared(
            ModelFormat::OpenAi,
            &json!({"type": "object", "properties": {"limit": {"type": "integer"}}, "additionalProperties": false}),
            &FormatOptions::strict(),
        );
        let name = names.to_provider("files/read").to_owned();
        let call = |arguments: &str| json!({"id": "1", "function": {"name": name, "arguments": arguments}});
        assert_eq!(
            read(ModelFormat::OpenAi, &call("{\"limit\": null}"), &names),
            ["1 files/read {}"]
        );
        assert_eq!(
            read(ModelFormat::OpenAi, &call("{\"limit\": null"), &names),
            ["1 files/read text {\"limit\": null"]
        );

        let names = declared(ModelFormat::Gemini, &schema, &FormatOptions::default());
        let part = json!({"functionCall": {"name": names.to_provider("files/read"), "args": {"_top_6be7f10b": 3, "any": "[1]"}}});
        assert_eq!(
            read(ModelFormat::Gemini, &part, &names),
            [r#"haft-call-0 files/read {"$top":3,"any":[1]}"#]
        );
    }
}
