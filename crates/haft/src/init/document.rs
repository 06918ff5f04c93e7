//! Edits haft's entry in the text of a configuration file. Every edit is parsed again and compared:
//! an edit that would change anything else is refused.

use serde_json::Value;

use super::{clients::ClientApp, jsonc, server_command::ServerCommand, text::TextError, toml_text};

/// Name of the entry in all clients.
pub(crate) const NAME: &str = "haft";
const BYTE_ORDER_MARK: char = '\u{feff}';

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConfigFormat {
    Json,
    Toml,
}

/// Reason why a text is not edited.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum EditError {
    /// The text does not parse, or something else is at the entry's place.
    Invalid(TextError),
    /// The edit would have changed something else. This is a bug in haft, but a harmless one.
    Unsafe,
}

impl From<TextError> for EditError {
    fn from(error: TextError) -> Self {
        Self::Invalid(error)
    }
}

/// Whether a file has haft's entry.
#[derive(Debug, PartialEq)]
pub(crate) enum EntryState {
    /// The file has no entry of that name.
    Missing,
    /// The file has the entry that would be written.
    Same,
    Different,
}

/// The text of one client's configuration file.
pub(crate) struct ConfigDocument<'a> {
    client: ClientApp,
    text: &'a str,
    byte_order_mark: &'static str,
    content: Value,
}

impl<'a> ConfigDocument<'a> {
    /// # Errors
    /// When the text does not parse.
    pub(crate) fn read(client: ClientApp, text: &'a str) -> Result<Self, TextError> {
        let (byte_order_mark, text) = match text.strip_prefix(BYTE_ORDER_MARK) {
            Some(rest) => ("\u{feff}", rest),
            None => ("", text),
        };
        let content = match client.format() {
            ConfigFormat::Json => {
                jsonc::parse(text)?.map_or(Value::Null, |root| root.tree().value())
            }
            ConfigFormat::Toml => {
                let table = toml_text::parse(text)?;
                serde_json::to_value(table).unwrap_or_default()
            }
        };
        Ok(Self { client, text, byte_order_mark, content })
    }

    pub(crate) fn entry_state(&self, server: &ServerCommand) -> EntryState {
        match self.entry() {
            None => EntryState::Missing,
            Some(entry) if *entry == self.wanted(server) => EntryState::Same,
            Some(_) => EntryState::Different,
        }
    }

    /// Returns true when the file has an entry named `haft` with any content.
    pub(crate) fn has_entry(&self) -> bool {
        self.entry().is_some()
    }

    /// Returns the text with haft's entry.
    pub(crate) fn with(&self, server: &ServerCommand) -> Result<String, EditError> {
        let (path, entry) = (self.path(), self.wanted(server));
        let edited = match self.client.format() {
            ConfigFormat::Json => {
                let edited = jsonc::set(self.text, path, NAME, &entry)?;
                let before = jsonc::parse(self.text)?.map(|root| root.tree());
                let expected = jsonc::JsonTree::with(before, path, NAME, &entry);
                let after = jsonc::parse(&edited).ok().flatten().map(|root| root.tree());
                if after.is_none() || after != expected {
                    return Err(EditError::Unsafe);
                }
                edited
            }
            ConfigFormat::Toml => {
                let edited = toml_text::set(self.text, self.parent(), NAME, &entry)?;
                self.check_toml(&edited, Some(&entry))?;
                edited
            }
        };
        Ok(format!("{}{edited}", self.byte_order_mark))
    }

    /// Returns the text without haft's entry.
    pub(crate) fn without(&self) -> Result<String, EditError> {
        let path = self.path();
        let edited = match self.client.format() {
            ConfigFormat::Json => {
                let edited = jsonc::remove(self.text, path, NAME)?;
                let before = jsonc::parse(self.text)?.map(|root| root.tree());
                let expected = before.map(|tree| tree.without(path, NAME));
                let after = jsonc::parse(&edited).map_err(|_| EditError::Unsafe)?;
                if after.map(|root| root.tree()) != expected {
                    return Err(EditError::Unsafe);
                }
                edited
            }
            ConfigFormat::Toml => {
                let edited = toml_text::remove(self.text, self.parent(), NAME)?;
                self.check_toml(&edited, None)?;
                edited
            }
        };
        Ok(format!("{}{edited}", self.byte_order_mark))
    }

    fn check_toml(&self, edited: &str, entry: Option<&Value>) -> Result<(), EditError> {
        let others = |text: &str| {
            let mut table = toml_text::parse(text)?;
            let servers = table.get_mut(self.parent()).and_then(toml::Value::as_table_mut);
            let ours = servers.and_then(|servers| servers.remove(NAME));
            // An empty list of servers means the same as no list.
            let is_empty =
                |servers: &toml::Value| servers.as_table().is_some_and(toml::Table::is_empty);
            if table.get(self.parent()).is_some_and(is_empty) {
                table.remove(self.parent());
            }
            Ok::<_, TextError>((table, ours))
        };
        let (before, _) = others(self.text)?;
        let (after, ours) = others(edited).map_err(|_| EditError::Unsafe)?;
        let ours = ours.and_then(|entry| serde_json::to_value(entry).ok());
        if before == after && ours.as_ref() == entry { Ok(()) } else { Err(EditError::Unsafe) }
    }

    fn entry(&self) -> Option<&Value> {
        self.path().iter().try_fold(&self.content, |value, key| value.get(key))?.get(NAME)
    }

    fn wanted(&self, server: &ServerCommand) -> Value {
        self.client.entry(server, self.path())
    }

    fn path(&self) -> &'static [&'static str] {
        self.client.path(Some(&self.content))
    }

    fn parent(&self) -> &'static str {
        self.path().first().copied().unwrap_or_default()
    }
}

/// Returns a new file that has only haft's entry.
pub(crate) fn new_file(client: ClientApp, server: &ServerCommand) -> String {
    let path = client.path(None);
    let entry = client.entry(server, path);
    match client.format() {
        ConfigFormat::Json => jsonc::document(client.first_lines(), path, NAME, &entry),
        ConfigFormat::Toml => {
            toml_text::section(path.first().copied().unwrap_or_default(), NAME, &entry)
        }
    }
}
