//! Stage 2: repairs inputs that are nearly right and reports every repair: small JSON mistakes,
//! aliases of a field, numbers in quotes. It guesses nothing: a repair either yields exactly what
//! was meant or is not made. A tool that writes, executes or destroys gets every value in the type
//! that was written.

mod coerce;
mod tolerant;

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{CallState, GateInner, Input};
use crate::{Effect, ErrorKind, ToolError, schema::depth};

pub(super) fn repair(gate: &GateInner, call_state: &mut CallState) -> Result<(), ToolError> {
    let arguments = call_state.arguments.take().unwrap_or(Input::Value(Value::Null));
    let value = match arguments {
        Input::Text(text) => {
            check_size(gate, call_state.name(), text.len())?;
            parse(call_state, &text)?
        }
        Input::Value(Value::String(text)) => parse(call_state, &text)?,
        Input::Value(value) => {
            check_size(gate, call_state.name(), size(&value))?;
            value
        }
    };
    if depth(&value) > gate.limits.input_depth {
        let message = format!(
            "the input of `{}` is nested deeper than {} levels",
            call_state.name(),
            gate.limits.input_depth
        );
        return Err(ToolError::input(message).hint("flatten the arguments"));
    }
    let mut input = match value {
        Value::Null => Value::Object(Map::new()),
        other => other,
    };
    let spec = call_state.tool().spec();
    let schema = spec.input.raw();
    // Most inputs are right: then there is nothing to repair or validate.
    let is_valid = coerce::is_plainly_named(&input, schema) && spec.input.surely_fits(&input);
    if !is_valid {
        let level = match spec.effect {
            Effect::Read => RepairLevel::Lenient,
            Effect::Destructive => RepairLevel::Exact,
            _ => RepairLevel::Typed,
        };
        let repairs = coerce::coerce(&mut input, schema, level);
        call_state.repairs.extend(repairs);
    }
    call_state.is_valid = is_valid;
    call_state.input = Arc::new(input);
    Ok(())
}

/// How much may be repaired. A tool that changes something never gets a value of another type than
/// the caller wrote.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RepairLevel {
    /// Every repair that leaves no doubt: for tools that only read.
    Lenient,
    /// Field names in another spelling, but no value of another type: for tools that write or
    /// execute.
    Typed,
    /// Declared names of fields only, and no value of another type: for destructive tools.
    Exact,
}

fn parse(call_state: &mut CallState, text: &str) -> Result<Value, ToolError> {
    let parsed = tolerant::parse(text).map_err(|error| {
        let message = format!(
            "the input of `{}` is not JSON: line {}, column {}: {}",
            call_state.name(),
            error.line,
            error.column,
            error.message
        );
        let hint = if error.is_incomplete {
            "the text ends early; send the whole call again, in smaller pieces if it is long"
        } else {
            "send one JSON object"
        };
        ToolError::input(message).hint(hint)
    })?;
    call_state.repairs.extend(parsed.repairs);
    Ok(parsed.value)
}

fn check_size(gate: &GateInner, tool: &str, bytes: usize) -> Result<(), ToolError> {
    if bytes <= gate.limits.input_bytes {
        return Ok(());
    }
    let message = format!(
        "the input of `{tool}` is {bytes} bytes long; at most {} are allowed",
        gate.limits.input_bytes
    );
    Err(ToolError::new(ErrorKind::TooLarge, message)
        .hint("put large content into a file and name the file"))
}

/// Approximate size of a value in bytes, computed without serializing it and without recursion.
fn size(value: &Value) -> usize {
    let mut bytes = 0;
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        bytes += 8;
        match value {
            Value::String(text) => bytes += text.len(),
            Value::Array(items) => open.extend(items),
            Value::Object(object) => {
                bytes += object.keys().map(String::len).sum::<usize>();
                open.extend(object.values());
            }
            _ => {}
        }
    }
    bytes
}
