//! A configuration file as a text with one entry in it that is ours. Every edit is read again and compared: whatever
//! would have changed besides our entry stops it.

use serde_json::Value;

use super::{clients::Client, jsonc, launch::Launch, text::Fault, toml_text};

/// What the entry is called everywhere.
pub(crate) const NAME: &str = "haft";
const BYTE_ORDER_MARK: char = '\u{feff}';

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Toml,
}

/// Why a text is not edited.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It cannot be read, or has something else where the entry belongs.
    Faulty(Fault),
    /// The edit would have changed something else. A bug, but one that hurts nobody.
    Unsafe,
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Self::Faulty(fault)
    }
}

/// What is in a file already.
#[derive(Debug, PartialEq)]
pub(crate) enum Present {
    /// No entry of that name.
    Nothing,
    /// The entry that would be written.
    Same,
    Other,
}

/// The file of one client, as a text.
pub(crate) struct Document<'a> {
    client: Client,
    text: &'a str,
    mark: &'static str,
    present: Value,
}

impl<'a> Document<'a> {
    /// # Errors
    /// When the text is not what the client could read.
    pub(crate) fn read(client: Client, text: &'a str) -> Result<Self, Fault> {
        let (mark, text) = match text.strip_prefix(BYTE_ORDER_MARK) {
            Some(rest) => ("\u{feff}", rest),
            None => ("", text),
        };
        let present = match client.format() {
            Format::Json => jsonc::parse(text)?.map_or(Value::Null, |root| root.tree().value()),
            Format::Toml => {
                let table = toml_text::parse(text)?;
                serde_json::to_value(table).unwrap_or_default()
            }
        };
        Ok(Self { client, text, mark, present })
    }

    pub(crate) fn present(&self, launch: &Launch) -> Present {
        match self.entry() {
            None => Present::Nothing,
            Some(entry) if *entry == self.wanted(launch) => Present::Same,
            Some(_) => Present::Other,
        }
    }

    /// Whether there is an entry of our name, whatever it says.
    pub(crate) fn has_entry(&self) -> bool {
        self.entry().is_some()
    }

    /// The text with haft in it.
    pub(crate) fn with(&self, launch: &Launch) -> Result<String, Refusal> {
        let (path, entry) = (self.path(), self.wanted(launch));
        let edited = match self.client.format() {
            Format::Json => {
                let edited = jsonc::set(self.text, path, NAME, &entry)?;
                let before = jsonc::parse(self.text)?.map(|root| root.tree());
                let expected = jsonc::Tree::with(before, path, NAME, &entry);
                let after = jsonc::parse(&edited).ok().flatten().map(|root| root.tree());
                if after.is_none() || after != expected {
                    return Err(Refusal::Unsafe);
                }
                edited
            }
            Format::Toml => {
                let edited = toml_text::set(self.text, self.parent(), NAME, &entry)?;
                self.check_toml(&edited, Some(&entry))?;
                edited
            }
        };
        Ok(format!("{}{edited}", self.mark))
    }

    /// The text with haft taken out.
    pub(crate) fn without(&self) -> Result<String, Refusal> {
        let path = self.path();
        let edited = match self.client.format() {
            Format::Json => {
                let edited = jsonc::remove(self.text, path, NAME)?;
                let before = jsonc::parse(self.text)?.map(|root| root.tree());
                let expected = before.map(|tree| tree.without(path, NAME));
                let after = jsonc::parse(&edited).map_err(|_| Refusal::Unsafe)?;
                if after.map(|root| root.tree()) != expected {
                    return Err(Refusal::Unsafe);
                }
                edited
            }
            Format::Toml => {
                let edited = toml_text::remove(self.text, self.parent(), NAME)?;
                self.check_toml(&edited, None)?;
                edited
            }
        };
        Ok(format!("{}{edited}", self.mark))
    }

    fn check_toml(&self, edited: &str, entry: Option<&Value>) -> Result<(), Refusal> {
        let others = |text: &str| {
            let mut table = toml_text::parse(text)?;
            let servers = table.get_mut(self.parent()).and_then(toml::Value::as_table_mut);
            let ours = servers.and_then(|servers| servers.remove(NAME));
            // A list of servers that is empty says the same as none.
            let is_empty =
                |servers: &toml::Value| servers.as_table().is_some_and(toml::Table::is_empty);
            if table.get(self.parent()).is_some_and(is_empty) {
                table.remove(self.parent());
            }
            Ok::<_, Fault>((table, ours))
        };
        let (before, _) = others(self.text)?;
        let (after, ours) = others(edited).map_err(|_| Refusal::Unsafe)?;
        let ours = ours.and_then(|entry| serde_json::to_value(entry).ok());
        if before == after && ours.as_ref() == entry { Ok(()) } else { Err(Refusal::Unsafe) }
    }

    fn entry(&self) -> Option<&Value> {
        self.path().iter().try_fold(&self.present, |value, key| value.get(key))?.get(NAME)
    }

    fn wanted(&self, launch: &Launch) -> Value {
        self.client.entry(launch, self.path())
    }

    fn path(&self) -> &'static [&'static str] {
        self.client.path(Some(&self.present))
    }

    fn parent(&self) -> &'static str {
        self.path().first().copied().unwrap_or_default()
    }
}

/// A file that has nothing but haft in it.
pub(crate) fn fresh(client: Client, launch: &Launch) -> String {
    let path = client.path(None);
    let entry = client.entry(launch, path);
    match client.format() {
        Format::Json => jsonc::document(client.first_lines(), path, NAME, &entry),
        Format::Toml => toml_text::section(path.first().copied().unwrap_or_default(), NAME, &entry),
    }
}
