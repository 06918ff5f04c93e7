//! Builds the JSON Schemas of config files, of the output of `--json`, and of the tools.

use haft_core::{Mode, Outcome, Schema, Tool as _};
use serde_json::{Map, Value, json};

use haft::host::config::keys::{ConfigKey, ConfigTable, KeyNames, ROOT, ValueType};

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Returns the schema of config files.
pub(super) fn config() -> String {
    let mut schema = json!({
        "$schema": DIALECT,
        "title": "haft config",
        "description": "A config file of haft: yours, a project's or an admin's. docs/config.md says which file may set which key.",
    });
    extend(&mut schema, table_schema(&ROOT));
    pretty(&schema)
}

/// Returns the schema of the outcome of a call, which `--json` prints.
pub(super) fn outcome() -> String {
    let mut schema = json!({ "$schema": DIALECT, "title": "haft outcome" });
    extend(&mut schema, Schema::of_output::<Outcome>().as_value().clone());
    pretty(&schema)
}

/// Returns the schemas of the tools as clients receive them, one tool a line. They are built from
/// the types, not from the committed page.
pub(super) fn tools() -> String {
    let line = |tool: &haft_core::StaticTool| {
        let spec = tool.spec();
        let output = spec.output.as_ref().map(|output| output.structured_schema().to_string());
        let parts = [Some(spec.name.to_string()), Some(spec.input.as_value().to_string()), output];
        parts.into_iter().flatten().collect::<Vec<_>>().join("\t") + "\n"
    };
    haft_tools::all().map(line).collect()
}

fn extend(schema: &mut Value, with: Value) {
    if let (Value::Object(schema), Value::Object(with)) = (schema, with) {
        with.into_iter().for_each(|(key, value)| {
            schema.entry(key).or_insert(value);
        });
    }
}

fn pretty(schema: &Value) -> String {
    format!("{schema:#}\n")
}

fn table_schema(table: &ConfigTable) -> Value {
    match (table.names, table.keys.first()) {
        (KeyNames::Free, Some(any)) => {
            json!({
                "type": "object",
                "description": table.description,
                "propertyNames": { "pattern": "^[A-Za-z0-9._-]+$" },
                "additionalProperties": key_schema(any, table),
            })
        }
        _ => {
            let keys = table.keys.iter().map(|key| (key.name.to_owned(), key_schema(key, table)));
            json!({
                "type": "object",
                "description": table.description,
                "properties": keys.collect::<Map<_, _>>(),
                "additionalProperties": false,
            })
        }
    }
}

fn key_schema(key: &ConfigKey, table: &ConfigTable) -> Value {
    let mut schema = match key.value_type {
        ValueType::Mode => {
            json!({ "enum": Mode::ALL.iter().map(|mode| mode.name()).collect::<Vec<_>>() })
        }
        ValueType::Text | ValueType::Folder => json!({ "type": "string" }),
        ValueType::Rules | ValueType::Globs | ValueType::Folders | ValueType::Texts => {
            json!({ "type": "array", "items": { "type": "string" } })
        }
        ValueType::OneOf(words) => json!({ "type": "string", "enum": words }),
        ValueType::Limit | ValueType::Number | ValueType::NumberOr(_) => {
            json!({ "type": "integer", "minimum": 0 })
        }
        ValueType::Flag => json!({ "type": "boolean" }),
        // A header with NAME stands for one table for each name.
        ValueType::Table(inner) if inner.header.ends_with("NAME") => {
            json!({ "type": "object", "additionalProperties": table_schema(inner) })
        }
        ValueType::Table(inner) => table_schema(inner),
        ValueType::OneOfOrTable(words, inner) => {
            json!({ "anyOf": [{ "type": "string", "enum": words }, table_schema(inner)] })
        }
    };
    if let Value::Object(schema) = &mut schema {
        schema.insert("description".to_owned(), key.description.into());
        let default = key.default(table).and_then(|default| serde_json::from_str(&default).ok());
        schema.extend(default.map(|default| ("default".to_owned(), default)));
    }
    schema
}
