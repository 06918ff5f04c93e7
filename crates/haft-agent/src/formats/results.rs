//! Writes the results of calls in each provider's format. The content is for the model; typed data
//! goes to MCP only. An attachment that a provider does not support is named in the text.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use haft_core::{Attachment, Outcome};
use serde_json::{Map, Value, json};

use super::{ModelFormat, ToolNames, calls::MADE_ID_PREFIX};

/// Replaces an empty text, which providers refuse.
const NO_OUTPUT: &str = "(no output)";

/// The result of one call.
#[derive(Clone, Copy, Debug)]
pub struct ModelCallResult<'a> {
    /// The call's id from [`calls`](super::calls); see [`call_id`](super::call_id) for the id of
    /// another provider.
    pub id: &'a str,
    /// The tool, by haft's name.
    pub name: &'a str,
    /// The outcome.
    pub outcome: &'a Outcome,
}

/// Writes the results of a model's turn as messages, in the order for the next request: one user
/// message for Anthropic; one message per call for OpenAI (and a user message with the images,
/// which those cannot contain); one item per call for Responses; one content for Gemini; one
/// `CallToolResult` per call for MCP.
pub fn results(
    format: ModelFormat,
    results: &[ModelCallResult<'_>],
    names: &ToolNames,
) -> Vec<Value> {
    if results.is_empty() {
        return Vec::new();
    }
    match format {
        ModelFormat::Anthropic => {
            let blocks: Vec<Value> = results.iter().map(anthropic).collect();
            vec![json!({"role": "user", "content": blocks})]
        }
        ModelFormat::OpenAi => openai(results),
        ModelFormat::OpenAiResponses => results.iter().map(responses).collect(),
        ModelFormat::Gemini => {
            let parts: Vec<Value> = results.iter().map(|result| gemini(result, names)).collect();
            vec![json!({"role": "user", "parts": parts})]
        }
        ModelFormat::Mcp => results.iter().map(|result| mcp(result, names)).collect(),
    }
}

/// Returns the text of a result, with a line for each attachment that is not sent.
fn text(outcome: &Outcome, goes_along: impl Fn(&Attachment) -> bool) -> String {
    let mut text = outcome.content.clone();
    for left in outcome.attachments.iter().filter(|attachment| !goes_along(attachment)) {
        let line = format!("[attachment {} of type {} cannot be shown here]", left.name, left.mime);
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(&line);
    }
    if text.trim().is_empty() && !outcome.attachments.iter().any(goes_along) {
        return NO_OUTPUT.to_owned();
    }
    text
}

/// Returns the media type without parameters and in lower case.
fn mime(attachment: &Attachment) -> String {
    let mime = attachment.mime.split(';').next().unwrap_or_default();
    mime.trim().to_ascii_lowercase()
}

/// Image types that both Anthropic and OpenAI accept.
fn is_image(attachment: &Attachment) -> bool {
    ["image/jpeg", "image/png", "image/gif", "image/webp"].contains(&mime(attachment).as_str())
}

fn is_pdf(attachment: &Attachment) -> bool {
    mime(attachment) == "application/pdf"
}

fn data_url(attachment: &Attachment) -> String {
    format!("data:{};base64,{}", mime(attachment), attachment.data)
}

fn plain_text(attachment: &Attachment) -> Option<String> {
    let is_text = mime(attachment).starts_with("text/");
    let bytes = is_text.then(|| STANDARD.decode(&attachment.data).ok()).flatten()?;
    String::from_utf8(bytes).ok().filter(|text| !text.trim().is_empty())
}

fn anthropic(result: &ModelCallResult<'_>) -> Value {
    let block = |attachment: &Attachment| {
        let base64 =
            json!({"type": "base64", "media_type": mime(attachment), "data": attachment.data});
        if is_image(attachment) {
            Some(json!({"type": "image", "source": base64}))
        } else if is_pdf(attachment) {
            Some(json!({"type": "document", "title": attachment.name, "source": base64}))
        } else {
            let source = |text| json!({"type": "text", "media_type": "text/plain", "data": text});
            let document = |text| json!({"type": "document", "title": attachment.name, "source": source(text)});
            plain_text(attachment).map(document)
        }
    };
    let text = text(result.outcome, |attachment| block(attachment).is_some());
    let mut content = Vec::new();
    // Blocks with only white space are refused.
    if !text.trim().is_empty() {
        content.push(json!({"type": "text", "text": text}));
    }
    content.extend(result.outcome.attachments.iter().filter_map(block));
    let mut declared = json!({"type": "tool_result", "tool_use_id": result.id, "content": content});
    if !result.outcome.is_ok() {
        declared["is_error"] = json!(true);
    }
    declared
}

/// Tool messages contain only text. Attachments follow all of them, because no other message may be
/// between the calls and their answers.
fn openai(results: &[ModelCallResult<'_>]) -> Vec<Value> {
    let goes_along = |attachment: &Attachment| is_image(attachment) || is_pdf(attachment);
    let mut messages = Vec::new();
    let mut shown = Vec::new();
    for result in results {
        let id = result.id;
        let mut text = text(result.outcome, goes_along);
        let along: Vec<&Attachment> =
            result.outcome.attachments.iter().filter(|attachment| goes_along(attachment)).collect();
        if text.trim().is_empty() {
            let names: Vec<&str> = along.iter().map(|one| one.name.as_str()).collect();
            text = format!("(see below: {})", names.join(", "));
        }
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": text}));
        for attachment in along {
            let words = format!("{} from the call {id} of {}:", attachment.name, result.name);
            shown.push(json!({"type": "text", "text": words}));
            shown.push(if is_image(attachment) {
                json!({"type": "image_url", "image_url": {"url": data_url(attachment)}})
            } else {
                json!({"type": "file", "file": {"filename": attachment.name, "file_data": data_url(attachment)}})
            });
        }
    }
    if !shown.is_empty() {
        messages.push(json!({"role": "user", "content": shown}));
    }
    messages
}

fn responses(result: &ModelCallResult<'_>) -> Value {
    let part = |attachment: &Attachment| {
        if is_image(attachment) {
            Some(json!({"type": "input_image", "image_url": data_url(attachment)}))
        } else if is_pdf(attachment) {
            Some(
                json!({"type": "input_file", "filename": attachment.name, "file_data": data_url(attachment)}),
            )
        } else {
            None
        }
    };
    let text = text(result.outcome, |attachment| part(attachment).is_some());
    let parts: Vec<Value> = result.outcome.attachments.iter().filter_map(part).collect();
    let output: Value = if parts.is_empty() {
        text.into()
    } else {
        let words = (!text.trim().is_empty()).then(|| json!({"type": "input_text", "text": text}));
        words.into_iter().chain(parts).collect()
    };
    json!({"type": "function_call_output", "call_id": result.id, "output": output})
}

fn gemini(result: &ModelCallResult<'_>, names: &ToolNames) -> Value {
    // The types that Gemini's function responses accept; the API refuses others.
    let goes_along = |attachment: &Attachment| {
        let mime = mime(attachment);
        ["image/jpeg", "image/png", "image/webp", "application/pdf", "text/plain"]
            .contains(&mime.as_str())
    };
    let text = text(result.outcome, goes_along);
    let key = if result.outcome.is_ok() { "output" } else { "error" };
    let mut response = Map::new();
    // Gemini does not know an id that haft made.
    if !result.id.starts_with(MADE_ID_PREFIX) {
        response.insert("id".to_owned(), result.id.into());
    }
    response.insert("name".to_owned(), names.to_provider(result.name).into());
    response.insert("response".to_owned(), json!({key: text}));
    let along = result.outcome.attachments.iter().filter(|attachment| goes_along(attachment));
    let parts: Vec<Value> =
        along.map(|one| json!({"inlineData": {"mimeType": mime(one), "data": one.data}})).collect();
    if !parts.is_empty() {
        response.insert("parts".to_owned(), parts.into());
    }
    json!({"functionResponse": response})
}

fn mcp(result: &ModelCallResult<'_>, names: &ToolNames) -> Value {
    // Before 2026-07-28 only objects are allowed.
    let mut data = result.outcome.data.clone().filter(Value::is_object);
    if let Some(Value::Object(data)) = &mut data {
        for repeated in names.in_content(result.name) {
            data.shift_remove(repeated);
        }
    }
    let mut declared = haft_mcp::result(result.outcome.clone(), data);
    // The default is not written, because clients before 2026-07-28 do not know it.
    declared.result_type = None;
    json!(declared)
}

#[cfg(test)]
mod tests {
    use haft_core::ToolError;

    use super::*;
    use crate::formats::{FormatOptions, ToolDefinition, definitions};

    fn outcome(content: &str, attachments: &[(&str, &str, &str)]) -> Outcome {
        let mut outcome = Outcome::failed("read", &ToolError::failed("none"));
        outcome.error = None;
        outcome.content = content.to_owned();
        outcome.data = Some(json!({"lines": 3}));
        let attachment = |(mime, name, data): &(&str, &str, &str)| Attachment {
            mime: (*mime).to_owned(),
            name: (*name).to_owned(),
            data: (*data).to_owned(),
        };
        outcome.attachments = attachments.iter().map(attachment).collect();
        outcome
    }

    const FILES: &[(&str, &str, &str)] = &[
        ("image/png", "a.png", "AAAA"),
        ("application/pdf", "b.pdf", "BBBB"),
        ("text/plain; charset=utf-8", "c.txt", "aGk="),
        ("application/zip", "d.zip", "CCCC"),
    ];

    #[track_caller]
    fn check(format: ModelFormat, id: &str, outcome: &Outcome, expected: Value) {
        let result = ModelCallResult { id, name: "read", outcome };
        assert_eq!(Value::Array(results(format, &[result], &ToolNames::default())), expected);
    }

    #[test]
    fn anthropic_takes_text_images_and_documents() {
        check(
            ModelFormat::Anthropic,
            "toolu 1",
            &outcome("three lines", FILES),
            json!([{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu 1", "content": [
                {"type": "text", "text": "three lines\n\n[attachment d.zip of type application/zip cannot be shown here]"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
                {"type": "document", "title": "b.pdf", "source": {"type": "base64", "media_type": "application/pdf", "data": "BBBB"}},
                {"type": "document", "title": "c.txt", "source": {"type": "text", "media_type": "text/plain", "data": "hi"}}]}]}]),
        );
    }

    #[test]
    fn openai_chat_shows_files_after_all_answers() {
        let (one, other) = (outcome("", &FILES[..2]), outcome("x", &[]));
        let both = [
            ModelCallResult { id: "call_1", name: "read", outcome: &one },
            ModelCallResult { id: "call_2", name: "read", outcome: &other },
        ];
        assert_eq!(
            Value::Array(results(ModelFormat::OpenAi, &both, &ToolNames::default())),
            json!([
                {"role": "tool", "tool_call_id": "call_1", "content": "(see below: a.png, b.pdf)"},
                {"role": "tool", "tool_call_id": "call_2", "content": "x"},
                {"role": "user", "content": [
                    {"type": "text", "text": "a.png from the call call_1 of read:"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
                    {"type": "text", "text": "b.pdf from the call call_1 of read:"},
                    {"type": "file", "file": {"filename": "b.pdf", "file_data": "data:application/pdf;base64,BBBB"}}]}])
        );
    }

    #[test]
    fn responses_take_a_text_or_parts() {
        check(
            ModelFormat::OpenAiResponses,
            "call_1",
            &outcome("x", &FILES[..2]),
            json!([{"type": "function_call_output", "call_id": "call_1", "output": [
                {"type": "input_text", "text": "x"},
                {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
                {"type": "input_file", "filename": "b.pdf", "file_data": "data:application/pdf;base64,BBBB"}]}]),
        );
        check(
            ModelFormat::OpenAiResponses,
            "call_1",
            &outcome("x", &[]),
            json!([{"type": "function_call_output", "call_id": "call_1", "output": "x"}]),
        );
    }

    #[test]
    fn gemini_is_answered_under_its_own_ids_only() {
        check(
            ModelFormat::Gemini,
            "haft-call-0",
            &outcome("x", &FILES[..1]),
            json!([{"role": "user", "parts": [{"functionResponse": {"name": "read", "response": {"output": "x"},
                "parts": [{"inlineData": {"mimeType": "image/png", "data": "AAAA"}}]}}]}]),
        );
        let failed = Outcome::failed("read", &ToolError::not_found("no a.txt").hint("list"));
        check(
            ModelFormat::Gemini,
            "fc-1",
            &failed,
            json!([{"role": "user", "parts": [{"functionResponse": {"id": "fc-1", "name": "read",
                "response": {"error": "error (not_found): no a.txt\nnext: list"}}}]}]),
        );
    }

    #[test]
    fn mcp_takes_everything_and_the_data() {
        check(
            ModelFormat::Mcp,
            "1",
            &outcome(
                "x",
                &[
                    ("audio/wav", "a.wav", "AAAA"),
                    ("text/csv", "c.csv", "aGk="),
                    ("application/zip", "d.zip", "CCCC"),
                ],
            ),
            json!([{"content": [{"type": "text", "text": "x"}, {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
                {"type": "resource", "resource": {"uri": "haft://attachment/c.csv", "mimeType": "text/csv", "text": "hi"}},
                {"type": "resource", "resource": {"uri": "haft://attachment/d.zip", "mimeType": "application/zip", "blob": "CCCC"}}],
                "isError": false, "structuredContent": {"lines": 3}}]),
        );
        let mut odd = outcome("", &[]);
        odd.data = Some(json!([1]));
        let empty = json!({"type": "text", "text": ""});
        check(ModelFormat::Mcp, "1", &odd, json!([{"content": [empty], "isError": false}]));
    }

    #[test]
    fn mcp_does_not_get_the_content_twice() {
        let mut tool = ToolDefinition::new("read", json!({"type": "object"}));
        tool.in_content = vec!["text".to_owned()];
        let names = definitions(ModelFormat::Mcp, &[tool], &FormatOptions::default()).names;
        let mut said = outcome("hello", &[]);
        said.data = Some(json!({"text": "hello", "lines": 1}));
        let result = ModelCallResult { id: "1", name: "read", outcome: &said };
        let declared = results(ModelFormat::Mcp, &[result], &names).remove(0);
        assert_eq!(declared["structuredContent"], json!({"lines": 1}));
    }

    #[test]
    fn failures_are_marked_where_the_format_has_a_mark() {
        let failed = Outcome::failed("read", &ToolError::failed("it broke"));
        let result = ModelCallResult { id: "1", name: "read", outcome: &failed };
        let declared = |format| results(format, &[result], &ToolNames::default()).remove(0);
        assert_eq!(declared(ModelFormat::Anthropic)["content"][0]["is_error"], true);
        assert_eq!(declared(ModelFormat::Mcp)["isError"], true);
        assert!(declared(ModelFormat::OpenAi)["content"].to_string().contains("it broke"));
    }

    #[test]
    fn no_text_is_empty_where_that_is_refused() {
        let blank = outcome(" \n", &[]);
        for format in [
            ModelFormat::Anthropic,
            ModelFormat::OpenAi,
            ModelFormat::OpenAiResponses,
            ModelFormat::Gemini,
        ] {
            let result = ModelCallResult { id: "1", name: "read", outcome: &blank };
            let declared = results(format, &[result], &ToolNames::default()).remove(0).to_string();
            assert!(declared.contains(NO_OUTPUT), "{format}: {declared}");
        }
        let image = outcome("", &FILES[..1]);
        let result = ModelCallResult { id: "1", name: "read", outcome: &image };
        let declared = results(ModelFormat::Anthropic, &[result], &ToolNames::default()).remove(0);
        assert_eq!(
            declared["content"][0]["content"].as_array().map(Vec::len),
            Some(1),
            "only the image"
        );
        for format in ModelFormat::ALL {
            assert!(results(*format, &[], &ToolNames::default()).is_empty());
        }
    }

    #[test]
    fn control_characters_pass() {
        let odd = outcome("a\u{0}b\u{1b}[31m", &[]);
        for format in ModelFormat::ALL {
            let result = ModelCallResult { id: "1", name: "read", outcome: &odd };
            let declared = Value::Array(results(*format, &[result], &ToolNames::default()));
            assert!(declared.to_string().contains("a\\u0000b\\u001b[31m"), "{format}");
        }
    }
}
