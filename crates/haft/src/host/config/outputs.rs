//! Reads `[outputs]`: how much of whole outputs is kept and for how long, and whether a repeated
//! result is sent whole or as a pointer.

use std::time::Duration;

use haft_core::ToolError;
use haft_store::OutputRetention;

use super::{
    file::{ConfigFile, ConfigSection},
    keys,
};

/// The keys that one file sets.
#[derive(Clone, Default)]
pub(super) struct OutputConfig {
    max_bytes: Option<usize>,
    max_days: Option<usize>,
    repeats: Option<bool>,
}

/// The merged settings of outputs.
#[derive(Clone, Debug)]
pub struct OutputSettings {
    /// How long and how much is kept.
    pub retention: OutputRetention,
    /// Replaces a result that the same client received recently by a pointer to it.
    pub points_at_repeats: bool,
}

impl ConfigSection<'_> {
    pub(super) fn outputs(&self) -> Result<OutputConfig, ToolError> {
        let Some(table) = self.table("outputs")? else { return Ok(OutputConfig::default()) };
        let section = ConfigSection { path: "outputs.", table, ..*self };
        section.check_keys(&keys::OUTPUTS)?;
        Ok(OutputConfig {
            max_bytes: section.number("max_bytes")?,
            max_days: section.number("max_age_days")?,
            repeats: section.word("repeats", &[("pointer", true), ("whole", false)])?,
        })
    }
}

/// Merges the files: each value comes from the first file that sets it.
pub(super) fn merged<'f>(files: impl Iterator<Item = &'f ConfigFile> + Clone) -> OutputSettings {
    let configs = || files.clone().map(|file| &file.outputs);
    let default = OutputRetention::default();
    let age = configs().find_map(|config| config.max_days);
    let age = age.map(|days| Duration::from_secs((days as u64).saturating_mul(24 * 3600)));
    let bytes = configs().find_map(|config| config.max_bytes).map(|bytes| bytes as u64);
    let retention =
        OutputRetention { bytes: bytes.unwrap_or(default.bytes), age: age.unwrap_or(default.age) };
    let points_at_repeats = configs().find_map(|config| config.repeats).unwrap_or(true);
    OutputSettings { retention, points_at_repeats }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_page_lists_the_actual_defaults() {
        let settings = merged(std::iter::empty());
        let default =
            |name: &str| keys::OUTPUTS.key(name).and_then(|key| key.default(&keys::OUTPUTS));
        let days = settings.retention.age.as_secs() / (24 * 3600);
        assert_eq!(default("max_bytes"), Some(settings.retention.bytes.to_string()));
        assert_eq!(default("max_age_days"), Some(days.to_string()));
        assert_eq!(default("repeats").as_deref(), Some("\"pointer\""));
        assert!(settings.points_at_repeats);
    }
}
