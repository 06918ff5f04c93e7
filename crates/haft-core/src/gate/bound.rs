//! Stage 9: the one place that cuts. The model sees head, tail and what looks like an error; the whole is kept under an id,
//! and the cut says so. It comes after redaction, so that what is kept has no secrets in it either.

mod cut;
mod notable;

use serde_json::Value;

use self::cut::{Cut, cut};
use super::{CallState, Inner, LONG_TEXT, Limits};
use crate::{Outcome, OutputSource, Schema, StoredOutput, ToolError, spawn_blocking};

/// What of an error is told in the note of a cut, which must not become long itself.
const MOST_OF_ERROR: usize = 160;

pub(super) async fn bound(gate: &Inner, flight: &CallState, outcome: &mut Outcome) {
    let data_schema = flight.tool.as_ref().and_then(|tool| tool.spec().output.as_ref());
    bound_attachments(&gate.limits, outcome);
    bound_data(gate, flight, outcome, data_schema).await;
    let content = std::mem::take(&mut outcome.content);
    outcome.content = match cut_anywhere(content, &gate.limits).await {
        Err(error) => format!("[the result is lost: {error}]"),
        Ok((whole, None)) => whole,
        Ok((whole, Some(cut))) => {
            let kept = keep(gate, flight, outcome, whole).await;
            let words = match &kept {
                Ok(id) => format!(
                    "; the whole text is kept as output {id}: output_read shows any lines of it, output_search finds in it"
                ),
                Err(error) => format!("; the whole text could not be kept: {}", short(error)),
            };
            outcome.output_id = kept.ok();
            cut.shown(&words)
        }
    };
    if let Some(display) = &outcome.display
        && let Some(cut) = cut(display, &gate.limits)
    {
        outcome.display = Some(cut.shown(""));
    }
}

/// Keeps a text in the name of this call. What is to be told of it goes to the outcome.
pub(super) async fn keep(
    gate: &Inner,
    flight: &CallState,
    outcome: &mut Outcome,
    text: String,
) -> Result<String, ToolError> {
    let made_by = OutputSource {
        session: flight.info.session.clone(),
        call_id: flight.info.call_id.to_string(),
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

/// Long texts are looked through where nobody else is held up.
async fn cut_anywhere(text: String, limits: &Limits) -> Result<(String, Option<Cut>), ToolError> {
    if text.len() < LONG_TEXT {
        let cut = cut(&text, limits);
        return Ok((text, cut));
    }
    let limits = limits.clone();
    spawn_blocking(move || {
        let cut = cut(&text, &limits);
        Ok((text, cut))
    })
    .await
}

fn short(error: &ToolError) -> String {
    let words = error.message();
    let end = words.floor_char_boundary(MOST_OF_ERROR.min(words.len()));
    words.split_at(end).0.to_owned()
}

/// Typed data that is too large is kept whole elsewhere, never sent in pieces that no longer fit its schema. What the
/// content says anyway goes first; often the rest is small.
async fn bound_data(
    gate: &Inner,
    flight: &CallState,
    outcome: &mut Outcome,
    schema: Option<&Schema>,
) {
    let is_large = |data: &Value| {
        let limit = gate.limits.data_bytes;
        // Writing it to count is only for what may be too much.
        most_bytes(data) > limit && serde_json::to_writer(Budget(limit), data).is_err()
    };
    let Some(mut data) = outcome.data.take_if(|data| is_large(data)) else { return };
    let kept = keep(gate, flight, outcome, data.to_string()).await;
    let where_it_is = match kept {
        Ok(id) => Value::String(id),
        Err(error) => Value::String(format!("not kept: {error}")),
    };
    if let Some(schema) = schema {
        schema.remove_repeated_content(&mut data);
        outcome.data = Some(data).filter(|data| !is_large(data));
    }
    outcome.metadata.insert("data_output_id".to_owned(), where_it_is);
}

/// What it takes as JSON at most.
fn most_bytes(data: &Value) -> usize {
    let text = |text: &str| 6 * text.len() + 2;
    match data {
        Value::Null | Value::Bool(_) => 5,
        // Seventeen digits, a point, signs and an exponent.
        Value::Number(_) => 32,
        Value::String(words) => text(words),
        Value::Array(items) => 2 + items.iter().map(|item| most_bytes(item) + 1).sum::<usize>(),
        Value::Object(members) => {
            2 + members.iter().map(|(key, it)| text(key) + most_bytes(it) + 2).sum::<usize>()
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

/// Counts bytes without keeping them and fails when there are too many.
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
            prop_assert!(data.to_string().len() <= most_bytes(&data), "{}", data);
        }
    }
}
