//! Converts a call to a command line: the schema decides which arguments are positional and which
//! are options.

use haft::{Schema, Tool};
use serde_json::Value;

/// Returns the arguments after `haft`. Unknown fields become options, as a user who believes in
/// them would type them.
pub(super) fn words(tool: &str, input: &Value) -> Vec<String> {
    let known = haft::catalogue::all().find(|known| known.name() == tool);
    let schema = known.map(|tool| tool.spec().input.clone());
    let (mut options, mut words) = (vec![tool.to_owned()], Vec::new());
    for (name, value) in input.as_object().expect("an object") {
        match schema.as_ref().filter(|schema| is_word(schema, name)) {
            Some(_) => words.push(name.as_str()),
            None => options.extend(option(name, value)),
        }
    }
    if let Some(schema) = &schema {
        // Positional arguments are in the order of the schema, not of the JSON.
        let place = |word: &&str| schema.properties().position(|(name, _)| name == *word);
        words.sort_by_key(place);
    }
    options.push("--".to_owned());
    options.extend(words.into_iter().map(|name| word(&input[name])));
    options
}

/// Returns true for a required field with a single value.
fn is_word(schema: &Schema, name: &str) -> bool {
    let property = schema.properties().find(|(known, _)| *known == name);
    let kind = property.and_then(|(_, schema)| schema["type"].as_str());
    schema.is_required(name) && matches!(kind, Some("string" | "integer" | "number"))
}

fn option(name: &str, value: &Value) -> Vec<String> {
    let flag = name.replace('_', "-");
    match value {
        Value::Bool(true) => vec![format!("--{flag}")],
        Value::Bool(false) => vec![format!("--no-{flag}")],
        Value::Array(items) if items.iter().all(|item| !item.is_object()) => {
            items.iter().map(|item| format!("--{flag}={}", word(item))).collect()
        }
        value => vec![format!("--{flag}={}", word(value))],
    }
}

fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
