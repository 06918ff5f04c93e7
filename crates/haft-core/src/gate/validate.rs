//! Stage 3: the input is held against the schema. Every problem is named at once, with its field, so that the next
//! try can be right.

use serde_json::Value;

use super::CallState;
use crate::{Schema, ToolError, nearest::did_you_mean, schema::nearest_properties};

/// More complaints than this help nobody.
const MOST_SHOWN: usize = 8;

pub(super) fn validate(flight: &mut CallState) -> Result<(), ToolError> {
    if flight.is_right {
        return Ok(());
    }
    let schema = &flight.tool().spec().input;
    let mut violations = schema.violations(&flight.input);
    if violations.is_empty() {
        return Ok(());
    }
    if violations.len() > MOST_SHOWN {
        let more = violations.len() - MOST_SHOWN;
        violations.truncate(MOST_SHOWN);
        violations.push(format!("and {more} more"));
    }
    let message =
        format!("the input of `{}` does not fit: {}", flight.name(), violations.join("; "));
    Err(ToolError::input(message).hint(hint(schema, &flight.input)))
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
