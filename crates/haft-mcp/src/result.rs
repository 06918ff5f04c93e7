//! Converts an outcome to the protocol's form: the text as content, the typed data as structured
//! content without what the text says already, files as content blocks, and all other parts in
//! `_meta`.

use base64::{Engine, engine::general_purpose::STANDARD};
use haft_core::{Attachment, Outcome, Schema};
use rmcp::model::{CallToolResult, ContentBlock, MetaObject, ResourceContents};
use serde_json::{Map, Value};

/// The key in `_meta` for parts of an outcome that the protocol has no field for.
pub(crate) const OUTCOME: &str = "haft/outcome";

/// Whether a client receives the parts that the protocol has no field for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutcomeMeta {
    Include,
    Omit,
}

/// `data` is the schema of the outcome's data if the data is sent.
pub(crate) fn of(
    mut outcome: Outcome,
    data: Option<&Schema>,
    outcome_meta: OutcomeMeta,
) -> CallToolResult {
    let meta = (outcome_meta == OutcomeMeta::Include).then(|| meta(&mut outcome));
    let structured = match (outcome.data.take(), data) {
        (Some(mut value), Some(schema)) => {
            schema.remove_repeated_content(&mut value);
            Some(value)
        }
        _ => None,
    };
    let mut result = result(outcome, structured);
    result.meta = meta;
    result
}

/// Converts the content of an outcome, its attachments and its success; `structured` is the typed
/// data.
pub fn result(outcome: Outcome, structured: Option<Value>) -> CallToolResult {
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
    result
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

/// The bytes of a resource, as text if they are text.
pub(crate) fn contents(uri: String, mime: String, data: String) -> ResourceContents {
    let is_text = mime.starts_with("text/") || mime == "application/json";
    let text = || String::from_utf8(STANDARD.decode(&data).ok()?).ok();
    match is_text.then(text).flatten() {
        Some(text) => ResourceContents::text(text, uri).with_mime_type(mime),
        None => ResourceContents::blob(data, uri).with_mime_type(mime),
    }
}
