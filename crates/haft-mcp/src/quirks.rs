//! Known differences between clients, by the names they introduce themselves with. Found by testing
//! them (November 2026), so that their users get the same tools as all others.

use serde_json::{Map, Value};

/// Differences of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Quirks {
    /// Shows its model the typed data and drops the text, which has the results.
    pub(crate) reads_data_only: bool,
    /// Shows its model `_meta` when a call failed.
    pub(crate) shows_meta: bool,
    /// Cannot submit a form while an optional field is empty.
    pub(crate) fills_every_field: bool,
    /// A field that it adds to every schema and sends along.
    adds_field: Option<&'static str>,
}

const DEFAULT_QUIRKS: Quirks = Quirks {
    reads_data_only: false,
    shows_meta: false,
    fills_every_field: false,
    adds_field: None,
};

/// Known clients, by the start of their name.
const KNOWN: &[(&str, Quirks)] = &[
    ("claude-code", Quirks { reads_data_only: true, ..DEFAULT_QUIRKS }),
    ("codex", Quirks { reads_data_only: true, fills_every_field: true, ..DEFAULT_QUIRKS }),
    (
        "gemini-cli",
        Quirks { shows_meta: true, adds_field: Some("wait_for_previous"), ..DEFAULT_QUIRKS },
    ),
];

impl Quirks {
    /// Returns the quirks of the client with this name.
    pub(crate) fn of(client: &str) -> Self {
        let known = KNOWN.iter().find(|(name, _)| client.starts_with(name));
        known.map_or(DEFAULT_QUIRKS, |(_, quirks)| *quirks)
    }

    /// Removes the field that the client added for itself.
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
    fn a_field_of_the_client_is_removed_unless_the_tool_has_it() {
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
