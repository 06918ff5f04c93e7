//! An outcome as the protocol carries it. The text goes as content, the typed data as structured content without what the
//! text says already, files as the blocks made for them, and the rest of the envelope in `_meta`.

use base64::{Engine, engine::general_purpose::STANDARD};
use haft_core::{Attachment, Outcome, Schema};
use rmcp::model::{CallToolResult, ContentBlock, MetaObject, ResourceContents};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::stdio::escape;

/// Where `_meta` has the parts of an outcome that the protocol has no place for.
pub(crate) const OUTCOME: &str = "haft/outcome";

/// Whether a client is sent what the protocol has no place for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Envelope {
    Sent,
    LeftOut,
}

/// `data` is the schema of the outcome's data, when it is to be sent.
pub(crate) fn of(
    mut outcome: Outcome,
    data: Option<&Schema>,
    envelope: Envelope,
) -> CallToolResult {
    let meta = (envelope == Envelope::Sent).then(|| meta(&mut outcome));
    let structured = match (outcome.data, data) {
        (Some(mut value), Some(schema)) => {
            schema.without_content(&mut value);
            Some(value)
        }
        _ => None,
    };
    let mut blocks = Vec::with_capacity(1 + outcome.attachments.len());
    if !outcome.content.is_empty() || outcome.attachments.is_empty() {
        blocks.push(ContentBlock::text(outcome.content));
    }
    blocks.extend(outcome.attachments.into_iter().map(block));
    let mut result = match &outcome.error {
        None => CallToolResult::success(blocks),
        Some(_) => CallToolResult::error(blocks),
    };
    result.structured_content = structured;
    result.meta = meta;
    result
}

/// The same, written behind a line: an answer has many small parts, and putting them together only to take them apart takes
/// longer than writing them. As clients of the earlier era read it.
pub(crate) fn put(line: &mut Vec<u8>, outcome: Outcome, data: Option<&Schema>, envelope: Envelope) {
    line.extend_from_slice(br#"{"content":["#);
    let has_text = !outcome.content.is_empty() || outcome.attachments.is_empty();
    if has_text {
        line.extend_from_slice(br#"{"type":"text","text":"#);
        escape::put(line, &outcome.content);
        line.push(b'}');
    }
    for (number, attachment) in outcome.attachments.into_iter().enumerate() {
        put_comma(line, number + usize::from(has_text));
        put_any(line, &block(attachment));
    }
    line.push(b']');
    if let (Some(mut value), Some(schema)) = (outcome.data, data) {
        schema.without_content(&mut value);
        line.extend_from_slice(br#","structuredContent":"#);
        put_value(line, &value);
    }
    line.extend_from_slice(match &outcome.error {
        None => br#","isError":false"#,
        Some(_) => br#","isError":true"#,
    });
    if envelope == Envelope::Sent {
        line.extend_from_slice(br#","_meta":{"haft/outcome":{"title":"#);
        escape::put(line, &outcome.title);
        put_field(line, br#","error":"#, outcome.error.as_ref());
        put_field(line, br#","metadata":"#, some(&outcome.metadata, Map::is_empty));
        put_field(line, br#","repairs":"#, some(&outcome.repairs, Vec::is_empty));
        put_field(line, br#","output_id":"#, outcome.output_id.as_ref());
        put_field(line, br#","ms":"#, Some(&outcome.ms));
        line.extend_from_slice(b"}}");
    }
    line.push(b'}');
}

fn put_value(line: &mut Vec<u8>, value: &Value) {
    match value {
        Value::String(text) => escape::put(line, text),
        Value::Array(items) => {
            line.push(b'[');
            for (number, item) in items.iter().enumerate() {
                put_comma(line, number);
                put_value(line, item);
            }
            line.push(b']');
        }
        Value::Object(members) => {
            line.push(b'{');
            for (number, (name, value)) in members.iter().enumerate() {
                put_comma(line, number);
                escape::put(line, name);
                line.push(b':');
                put_value(line, value);
            }
            line.push(b'}');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => put_any(line, value),
    }
}

fn put_comma(line: &mut Vec<u8>, number: usize) {
    if number > 0 {
        line.push(b',');
    }
}

fn some<T>(value: &T, is_empty: fn(&T) -> bool) -> Option<&T> {
    Some(value).filter(|value| !is_empty(value))
}

fn put_field(line: &mut Vec<u8>, name: &[u8], value: Option<&impl Serialize>) {
    if let Some(value) = value {
        line.extend_from_slice(name);
        put_any(line, value);
    }
}

fn put_any(line: &mut Vec<u8>, value: &impl Serialize) {
    // Maps with keys that are no text are all that cannot be written, and the protocol has none.
    let _ = serde_json::to_writer(line, value);
}

fn meta(outcome: &mut Outcome) -> MetaObject {
    let mut rest = Map::new();
    rest.insert("title".to_owned(), Value::String(std::mem::take(&mut outcome.title)));
    if let Some(error) = &outcome.error {
        rest.insert("error".to_owned(), serde_json::to_value(error).unwrap_or_default());
    }
    if !outcome.metadata.is_empty() {
        rest.insert("metadata".to_owned(), Value::Object(std::mem::take(&mut outcome.metadata)));
    }
    if !outcome.repairs.is_empty() {
        rest.insert("repairs".to_owned(), std::mem::take(&mut outcome.repairs).into());
    }
    if let Some(id) = outcome.output_id.take() {
        rest.insert("output_id".to_owned(), id.into());
    }
    rest.insert("ms".to_owned(), outcome.ms.into());
    let mut meta = MetaObject::new();
    meta.insert(OUTCOME.to_owned(), Value::Object(rest));
    meta
}

fn block(attachment: Attachment) -> ContentBlock {
    let Attachment { mime, name, data } = attachment;
    if mime.starts_with("image/") {
        ContentBlock::image(data, mime)
    } else if mime.starts_with("audio/") {
        ContentBlock::audio(data, mime)
    } else {
        let uri = if name.contains("://") { name } else { format!("haft://attachment/{name}") };
        ContentBlock::resource(contents(uri, mime, data))
    }
}

/// The bytes of a resource: as text where they are text.
pub(crate) fn contents(uri: String, mime: String, data: String) -> ResourceContents {
    let is_text = mime.starts_with("text/") || mime == "application/json";
    let text = || String::from_utf8(STANDARD.decode(&data).ok()?).ok();
    match is_text.then(text).flatten() {
        Some(text) => ResourceContents::text(text, uri).with_mime_type(mime),
        None => ResourceContents::blob(data, uri).with_mime_type(mime),
    }
}

#[cfg(test)]
mod tests {
    use haft_core::{OutcomeError, ToolError};
    use serde_json::json;

    use super::*;

    /// What may be in an outcome, all of it and nothing.
    fn outcomes() -> [Outcome; 4] {
        let empty = Outcome { error: None, ..Outcome::failed("x", &ToolError::failed("y")) };
        let failed = Outcome {
            content: "half \"a\"\n".to_owned(),
            error: Some(OutcomeError::from(&ToolError::failed("a\tb"))),
            ..empty.clone()
        };
        let file = |mime: &str| Attachment {
            mime: mime.to_owned(),
            name: "a \"b\".png".to_owned(),
            data: "AAAA".to_owned(),
        };
        let full = Outcome {
            title: "Read \"ü\"".to_owned(),
            content: "tab\t \u{1} 🦀\r\n".to_owned(),
            data: Some(
                json!({"path": "a\"b", "text": "tab", "n": [1, null, true, 2.5, [], {}, {"\n": "ü"}]}),
            ),
            metadata: json!({"k": {"a\n": 1.5}}).as_object().cloned().unwrap_or_default(),
            attachments: vec![file("image/png"), file("audio/wav"), file("text/plain")],
            repairs: vec!["one".to_owned(), "\"two\"".to_owned()],
            output_id: Some("out_1".to_owned()),
            ms: u64::MAX,
            ..empty.clone()
        };
        let bare = Outcome { content: String::new(), ..full.clone() };
        [empty, failed, full, bare]
    }

    #[test]
    fn an_outcome_is_written_as_its_result_would_be() {
        let schema = Schema::from_value(
            json!({"type": "object", "properties": {"text": {"type": "string"}}}),
        );
        let schema = schema.expect("a schema");
        for outcome in outcomes() {
            for data in [None, Some(&schema)] {
                for envelope in [Envelope::Sent, Envelope::LeftOut] {
                    let mut line = Vec::new();
                    put(&mut line, outcome.clone(), data, envelope);
                    let mut result = of(outcome.clone(), data, envelope);
                    // Only the later era has it.
                    result.result_type = None;
                    let usual = serde_json::to_string(&result).expect("it can be written");
                    assert_eq!(String::from_utf8(line).expect("text"), usual);
                }
            }
        }
    }
}
