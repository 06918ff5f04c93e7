//! What is known of clients that differ from the others, by the names they introduce themselves with. Found by trying them
//! (November 2026), so that their users get the same tools as everybody.

use serde_json::{Map, Value};

/// How a client differs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Quirks {
    /// Shows its model the typed data and drops the text, which is where our results are.
    pub(crate) reads_data_only: bool,
    /// Shows its model `_meta` when a call failed.
    pub(crate) shows_meta: bool,
    /// Its forms cannot be sent while an optional field is empty.
    pub(crate) fills_every_field: bool,
    /// A field that it adds to every schema and hands on.
    adds_field: Option<&'static str>,
}

const USUAL: Quirks = Quirks {
    reads_data_only: false,
    shows_meta: false,
    fills_every_field: false,
    adds_field: None,
};

/// By the beginning of the name.
const KNOWN: &[(&str, Quirks)] = &[
    ("claude-code", Quirks { reads_data_only: true, ..USUAL }),
    ("codex", Quirks { reads_data_only: true, fills_every_field: true, ..USUAL }),
    ("gemini-cli", Quirks { shows_meta: true, adds_field: Some("wait_for_previous"), ..USUAL }),
];

impl Quirks {
    /// Of the client of this name.
    pub(crate) fn of(client: &str) -> Self {
        let known = KNOWN.iter().find(|(name, _)| client.starts_with(name));
        known.map_or(USUAL, |(_, quirks)| *quirks)
    }

    /// Takes out of the arguments what the client put there for itself.
    pub(crate) fn clean(self, arguments: &mut Map<String, Value>, is_known: impl Fn(&str) -> bool) {
        if let Some(field) = self.adds_field.filter(|field| !is_known(field)) {
            arguments.shift_remove(field);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_of_the_client_goes_unless_the_tool_has_one_of_that_name() {
        let arguments = json!({"path": "a", "wait_for_previous": false});
        let cleaned = |client: &str, is_known: bool| {
            let mut arguments = arguments.as_object().cloned().unwrap_or_default();
            Quirks::of(client).clean(&mut arguments, |_| is_known);
            Value::Object(arguments)
        };
        assert_eq!(cleaned("gemini-cli-mcp-client", false), json!({"path": "a"}));
        assert_eq!(cleaned("gemini-cli-mcp-client", true), arguments);
        assert_eq!(cleaned("some-client", false), arguments);
    }
}
