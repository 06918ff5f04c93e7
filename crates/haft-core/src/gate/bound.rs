//! Stage 9: the only place that truncates. The model sees the head, the tail and the lines that
//! look like errors. The full text is stored under an id, and the truncated text says so. This runs
//! after redaction, so that stored texts contain no secrets.

mod notable;
mod truncate;

use serde_json::Value;

use self::truncate::{Truncated, truncate};
use super::{CallState, GateInner, LONG_TEXT, Limits};
use crate::{Outcome, OutputSource, Schema, StoredOutput, ToolError, spawn_blocking};

/// Maximum length of an error in the truncation note, which must stay short.
const MAX_ERROR_BYTES: usize = 160;

pub(super) async fn bound(gate: &GateInner, call_state: &CallState, outcome: &mut Outcome) {
    let data_schema = call_state.tool.as_ref().and_then(|tool| tool.spec().output.as_ref());
    bound_attachments(&gate.limits, outcome);
    bound_data(gate, call_state, outcome, data_schema).await;
    let content = std::mem::take(&mut outcome.content);
    outcome.content = match truncate_anywhere(content, &gate.limits).await {
        Err(error) => format!("[the result is lost: {error}]"),
        Ok((whole, None)) => whole,
        Ok((whole, Some(truncated))) => {
            let kept = keep(gate, call_state, outcome, whole).await;
            let words = match &kept {
                Ok(id) => format!(
                    "; the full text is stored as output {id}: read it with output_read, search it \
                     with output_search"
                ),
                Err(error) => format!("; the full text could not be stored: {}", short(error)),
            };
            outcome.output_id = kept.ok();
            truncated.shown(&words)
        }
    };
    if let Some(display) = &outcome.display
        && let Some(truncated) = truncate(display, &gate.limits)
    {
        outcome.display = Some(truncated.shown(""));
    }
}

/// Stores a text under this call. Notes about it are added to the outcome.
pub(super) async fn keep(
    gate: &GateInner,
    call_state: &CallState,
    outcome: &mut Outcome,
    text: String,
) -> Result<String, ToolError> {
    let made_by = OutputSource {
        session: call_state.info.session.clone(),
        call_id: call_state.info.call_id.to_string(),
        tool: outcome.tool.clone(),
    };
    let StoredOutput { id, note } = gate.outputs.keep(text, made_by).await?;
    if let Some(note) = note.map(|note| gate.redactor.text(&note).into_owned())
        && !outcome.repairs.contains(&note)
    {
        outcome.repairs.push(note);
    }
    Ok(id)
}

/// Scans long texts on a separate thread, so that no other call has to wait.
async fn truncate_anywhere(
    text: String,
    limits: &Limits,
) -> Result<(String, Option<Truncated>), ToolError> {
    if text.len() < LONG_TEXT {
        let truncated = truncate(&text, limits);
        return Ok((text, truncated));
    }
    let limits = limits.clone();
    spawn_blocking(move || {
        let truncated = truncate(&text, &limits);
        Ok((text, truncated))
    })
    .await
}

fn short(error: &ToolError) -> String {
    let words = error.message();
    let end = words.floor_char_boundary(MAX_ERROR_BYTES.min(words.len()));
    words.split_at(end).0.to_owned()
}

/// Typed data that is too large is stored in full under an id, never sent in pieces that no longer
/// match its schema. Fields that repeat the content are removed first; often the rest is small
/// enough.
async fn bound_data(
    gate: &GateInner,
    call_state: &CallState,
    outcome: &mut Outcome,
    schema: Option<&Schema>,
) {
    let is_large = |data: &Value| {
        let limit = gate.limits.data_bytes;
        // Serializing only to count is reserved for data that may be too large.
        max_json_bytes(data) > limit && serde_json::to_writer(Budget(limit), data).is_err()
    };
    let Some(mut data) = outcome.data.take_if(|data| is_large(data)) else { return };
    let kept = keep(gate, call_state, outcome, data.to_string()).await;
    let where_it_is = match kept {
        Ok(id) => Value::String(id),
        Err(error) => Value::String(format!("not stored: {error}")),
    };
    if let Some(schema) = schema {
        schema.remove_repeated_content(&mut data);
        outcome.data = Some(data).filter(|data| !is_large(data));
    }
    outcome.metadata.insert("data_output_id".to_owned(), where_it_is);
}

/// Upper bound of the size as JSON.
fn max_json_bytes(data: &Value) -> usize {
    let text = |text: &str| 6 * text.len() + 2;
    match data {
        Value::Null | Value::Bool(_) => 5,
        // Seventeen digits, a point, signs and an exponent.
        Value::Number(_) => 32,
        Value::String(words) => text(words),
        Value::Array(items) => 2 + items.iter().map(|item| max_json_bytes(item) + 1).sum::<usize>(),
        Value::Object(members) => {
            2 + members.iter().map(|(key, it)| text(key) + max_json_bytes(it) + 2).sum::<usize>()
        }
    }
}

fn bound_attachments(limits: &Limits, outcome: &mut Outcome) {
    let mut bytes = 0;
    let mut dropped = Vec::new();
    outcome.attachments.retain(|attachment| {
        bytes += attachment.data.len();
        let fits = bytes <= limits.attachment_bytes;
        if !fits {
            bytes -= attachment.data.len();
            dropped.push(attachment.name.clone());
        }
        fits
    });
    if !dropped.is_empty() {
        let note = format!("\n[too large to attach: {}]", dropped.join(", "));
        outcome.content.push_str(&note);
    }
}

/// A writer that counts bytes without storing them and fails beyond a limit.
struct Budget(usize);

impl std::io::Write for Budget {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self.0.checked_sub(bytes.len()) {
            Some(left) => {
                self.0 = left;
                Ok(bytes.len())
            }
            None => Err(std::io::ErrorKind::FileTooLarge.into()),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            "[\\x00-\\x1f\"]{0,9}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            let members = prop::collection::vec((any::<String>(), inner.clone()), 0..6);
            prop_oneof![
                prop::collection::vec(inner, 0..6).prop_map(Value::from),
                members.prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_data_takes_more_than_is_said(data in any_value()) {
            prop_assert!(data.to_string().len() <= max_json_bytes(&data), "{}", data);
        }
    }
}
