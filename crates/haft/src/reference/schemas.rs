//! JSON Schemas for others to check what they write or read: config files, what `--json` prints, and the tools.

use haft_core::{Mode, Outcome, Schema, Tool as _};
use serde_json::{Map, Value, json};

use haft::host::config::keys::{Key, Names, ROOT, Sort, Table};

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Of a config file.
pub(super) fn config() -> String {
    let mut schema = json!({
        "$schema": DIALECT,
        "title": "haft config",
        "description": "A config file of haft: yours, a project's or an admin's. Who may set what is in docs/config.md.",
    });
    extend(&mut schema, of_table(&ROOT));
    pretty(&schema)
}

/// Of what `--json` prints about a call.
pub(super) fn outcome() -> String {
    let mut schema = json!({ "$schema": DIALECT, "title": "haft outcome" });
    extend(&mut schema, Schema::of_output::<Outcome>().as_value().clone());
    pretty(&schema)
}

/// Of the tools as they are announced, one tool a line. Made from their types, whatever was written down before.
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

fn of_table(table: &Table) -> Value {
    match (table.names, table.keys.first()) {
        (Names::Free, Some(any)) => {
            json!({
                "type": "object",
                "description": table.meaning,
                "propertyNames": { "pattern": "^[A-Za-z0-9._-]+$" },
                "additionalProperties": of_key(any, table),
            })
        }
        _ => {
            let keys = table.keys.iter().map(|key| (key.name.to_owned(), of_key(key, table)));
            json!({
                "type": "object",
                "description": table.meaning,
                "properties": keys.collect::<Map<_, _>>(),
                "additionalProperties": false,
            })
        }
    }
}

fn of_key(key: &Key, table: &Table) -> Value {
    let mut schema = match key.sort {
        Sort::Mode => {
            json!({ "enum": Mode::ALL.iter().map(|mode| mode.name()).collect::<Vec<_>>() })
        }
        Sort::Text | Sort::Folder => json!({ "type": "string" }),
        Sort::Rules | Sort::Globs | Sort::Folders | Sort::Texts => {
            json!({ "type": "array", "items": { "type": "string" } })
        }
        Sort::Word(words) => json!({ "type": "string", "enum": words }),
        Sort::Limit | Sort::Number | Sort::Amount(_) => json!({ "type": "integer", "minimum": 0 }),
        Sort::Flag => json!({ "type": "boolean" }),
        // A table with NAME in its header is one for each name.
        Sort::Table(inner) if inner.header.ends_with("NAME") => {
            json!({ "type": "object", "additionalProperties": of_table(inner) })
        }
        Sort::Table(inner) => of_table(inner),
        Sort::WordOrTable(words, inner) => {
            json!({ "anyOf": [{ "type": "string", "enum": words }, of_table(inner)] })
        }
    };
    if let Value::Object(schema) = &mut schema {
        schema.insert("description".to_owned(), key.meaning.into());
        let default = key.default(table).and_then(|default| serde_json::from_str(&default).ok());
        schema.extend(default.map(|default| ("default".to_owned(), default)));
    }
    schema
}
