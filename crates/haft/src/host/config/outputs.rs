//! What files say about whole outputs: how much of them is kept, for how long, and whether a result that a client was given a
//! moment ago is given again.

use std::time::Duration;

use haft_core::ToolError;
use haft_store::OutputRetention;

use super::{
    file::{File, Section},
    keys,
};

/// What one file says.
#[derive(Clone, Default)]
pub(super) struct OutputWords {
    most_bytes: Option<usize>,
    most_days: Option<usize>,
    repeats: Option<bool>,
}

/// What is kept, and what is said twice.
#[derive(Clone, Debug)]
pub struct OutputSettings {
    /// How long and how much.
    pub retention: OutputRetention,
    /// A result that was given to the same client a moment ago is pointed at instead of given again.
    pub points_at_repeats: bool,
}

impl Section<'_> {
    pub(super) fn outputs(&self) -> Result<OutputWords, ToolError> {
        let Some(table) = self.table("outputs")? else { return Ok(OutputWords::default()) };
        let section = Section { path: "outputs.", table, ..*self };
        section.check_keys(&keys::OUTPUTS)?;
        Ok(OutputWords {
            most_bytes: section.number("max_bytes")?,
            most_days: section.number("max_age_days")?,
            repeats: section.word("repeats", &[("pointer", true), ("whole", false)])?,
        })
    }
}

/// Put together: of each value the first file's word holds.
pub(super) fn settled<'f>(files: impl Iterator<Item = &'f File> + Clone) -> OutputSettings {
    let words = || files.clone().map(|file| &file.outputs);
    let usual = OutputRetention::default();
    let age = words().find_map(|words| words.most_days);
    let age = age.map(|days| Duration::from_secs((days as u64).saturating_mul(24 * 3600)));
    let bytes = words().find_map(|words| words.most_bytes).map(|bytes| bytes as u64);
    let retention =
        OutputRetention { bytes: bytes.unwrap_or(usual.bytes), age: age.unwrap_or(usual.age) };
    let points_at_repeats = words().find_map(|words| words.repeats).unwrap_or(true);
    OutputSettings { retention, points_at_repeats }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_page_tells_the_defaults_that_hold() {
        let settings = settled(std::iter::empty());
        let default =
            |name: &str| keys::OUTPUTS.key(name).and_then(|key| key.default(&keys::OUTPUTS));
        let days = settings.retention.age.as_secs() / (24 * 3600);
        assert_eq!(default("max_bytes"), Some(settings.retention.bytes.to_string()));
        assert_eq!(default("max_age_days"), Some(days.to_string()));
        assert_eq!(default("repeats").as_deref(), Some("\"pointer\""));
        assert!(settings.points_at_repeats);
    }
}
