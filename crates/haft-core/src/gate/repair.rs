//! Stage 2: what models get nearly right is made right, and every mending is reported: JSON with small slips, other
//! names for a field, numbers in quotes. Nothing is guessed: a mending either says exactly what was meant or is not
//! done, and a tool that writes, executes or destroys gets every value in the type that was written.

mod coerce;
mod tolerant;

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{CallState, Inner, Input};
use crate::{Effect, ErrorKind, ToolError, schema::depth};

pub(super) fn repair(gate: &Inner, flight: &mut CallState) -> Result<(), ToolError> {
    let arguments = flight.arguments.take().unwrap_or(Input::Value(Value::Null));
    let value = match arguments {
        Input::Text(text) => {
            check_size(gate, flight.name(), text.len())?;
            parse(flight, &text)?
        }
        Input::Value(Value::String(text)) => parse(flight, &text)?,
        Input::Value(value) => {
            check_size(gate, flight.name(), size(&value))?;
            value
        }
    };
    if depth(&value) > gate.limits.input_depth {
        let message = format!(
            "the input of `{}` is nested deeper than {} levels",
            flight.name(),
            gate.limits.input_depth
        );
        return Err(ToolError::input(message).hint("flatten the arguments"));
    }
    let mut input = match value {
        Value::Null => Value::Object(Map::new()),
        other => other,
    };
    let spec = flight.tool().spec();
    let schema = spec.input.raw();
    // As most are: then there is nothing to mend, and nothing to check again.
    let is_right = coerce::is_plainly_named(&input, schema) && spec.input.surely_fits(&input);
    if !is_right {
        let care = match spec.effect {
            Effect::Read => Care::Usual,
            Effect::Destructive => Care::Exact,
            _ => Care::Typed,
        };
        let mended = coerce::coerce(&mut input, schema, care);
        flight.repairs.extend(mended);
    }
    flight.is_right = is_right;
    flight.input = Arc::new(input);
    Ok(())
}

/// How much may be repaired. A tool that changes something never gets a value of another type than the caller wrote.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Care {
    /// Whatever leaves no doubt: for tools that only read.
    Usual,
    /// Field names in another spelling, but no value of another type: for tools that write or execute.
    Typed,
    /// Declared names of fields only, and no value of another type: for destructive tools.
    Exact,
}

fn parse(flight: &mut CallState, text: &str) -> Result<Value, ToolError> {
    let parsed = tolerant::parse(text).map_err(|broken| {
        let message = format!(
            "the input of `{}` is not JSON: line {}, column {}: {}",
            flight.name(),
            broken.line,
            broken.column,
            broken.message
        );
        let hint = if broken.cut_off {
            "the text was cut off; send the whole call again, in smaller pieces if it is long"
        } else {
            "send one JSON object"
        };
        ToolError::input(message).hint(hint)
    })?;
    flight.repairs.extend(parsed.repairs);
    Ok(parsed.value)
}

fn check_size(gate: &Inner, tool: &str, bytes: usize) -> Result<(), ToolError> {
    if bytes <= gate.limits.input_bytes {
        return Ok(());
    }
    let message = format!(
        "the input of `{tool}` is {bytes} bytes long; at most {} are taken",
        gate.limits.input_bytes
    );
    Err(ToolError::new(ErrorKind::TooLarge, message)
        .hint("put large content into a file and name the file"))
}

/// About how many bytes a value is, counted without writing it out and without recursion.
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
