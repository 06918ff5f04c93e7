//! Stage 3: checks the input against the schema. It reports every violation at once, with its
//! field, so that the next attempt can be right.

use serde_json::Value;

use super::CallState;
use crate::{Schema, ToolError, nearest::did_you_mean, schema::nearest_properties};

/// Listing more violations than this does not help the caller.
const MAX_VIOLATIONS: usize = 8;

pub(super) fn validate(call_state: &mut CallState) -> Result<(), ToolError> {
    if call_state.is_valid {
        return Ok(());
    }
    let schema = &call_state.tool().spec().input;
    let mut violations = schema.violations(&call_state.input);
    if violations.is_empty() {
        return Ok(());
    }
    if violations.len() > MAX_VIOLATIONS {
        let more = violations.len() - MAX_VIOLATIONS;
        violations.truncate(MAX_VIOLATIONS);
        violations.push(format!("and {more} more"));
    }
    let message = format!(
        "the input of `{}` does not match its schema: {}",
        call_state.name(),
        violations.join("; ")
    );
    Err(ToolError::input(message).hint(hint(schema, &call_state.input)))
}

fn hint(schema: &Schema, input: &Value) -> String {
    let known: Vec<&str> = schema.properties().map(|(name, _)| name).collect();
    let given = input.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    let mut misspelt = given.filter(|name| !known.contains(name));
    let near = misspelt.find_map(|name| {
        let near = nearest_properties(schema, name);
        (!near.is_empty()).then(|| format!("for `{name}`, {}", did_you_mean(&near)))
    });
    let fields: Vec<String> =
        schema
            .properties()
            .map(|(name, _)| {
                if schema.is_required(name) {
                    format!("{name} (required)")
                } else {
                    name.to_owned()
                }
            })
            .collect();
    match near {
        Some(near) => near,
        None if fields.is_empty() => "the tool takes no fields; send {}".to_owned(),
        None => format!("the fields are {}", fields.join(", ")),
    }
}
