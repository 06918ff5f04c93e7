//! Reads `[container]` and merges it over all files.

use std::time::Duration;

use haft_exec::ContainerSettings;

/// The keys that one file sets. Missing keys come from other files or defaults.
#[derive(Clone, Debug, Default)]
pub(super) struct ContainerConfig {
    pub(super) engine: Option<String>,
    pub(super) image: Option<String>,
    pub(super) user: Option<String>,
    pub(super) memory: Option<String>,
    pub(super) cpus: Option<String>,
    pub(super) pids: Option<usize>,
    pub(super) network: Option<String>,
    pub(super) read_only: Option<bool>,
    pub(super) tmpfs: Option<Vec<String>>,
    pub(super) max_age_secs: Option<usize>,
}

/// Merges the files: for each key the first file that sets it counts.
pub(super) fn merged<'a>(
    files: impl Iterator<Item = &'a ContainerConfig> + Clone,
) -> ContainerSettings {
    let default = ContainerSettings::default();
    let text = |key: fn(&ContainerConfig) -> &Option<String>| {
        files.clone().find_map(|config| key(config).clone())
    };
    let age = files.clone().find_map(|config| config.max_age_secs);
    ContainerSettings {
        engine: text(|config| &config.engine),
        image: text(|config| &config.image).unwrap_or(default.image),
        user: text(|config| &config.user),
        memory: text(|config| &config.memory).unwrap_or(default.memory),
        cpus: text(|config| &config.cpus),
        pids: files.clone().find_map(|config| config.pids).unwrap_or(default.pids),
        network: text(|config| &config.network),
        read_only: files.clone().find_map(|config| config.read_only).unwrap_or(default.read_only),
        tmpfs: files.clone().find_map(|config| config.tmpfs.clone()).unwrap_or(default.tmpfs),
        max_age: age.map_or(default.max_age, |secs| Duration::from_secs(secs as u64)),
        timeout: default.timeout,
    }
}

/// Returns false for text that the engine could parse as an option.
pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('-') && !text.contains(char::is_whitespace)
}

pub(super) fn is_user(text: &str) -> bool {
    let is_id = |id: &str| id.parse::<u32>().is_ok();
    text.split_once(':').map_or_else(|| is_id(text), |(user, group)| is_id(user) && is_id(group))
}

pub(super) fn is_size(text: &str) -> bool {
    let digits = text.strip_suffix(['b', 'k', 'm', 'g']).unwrap_or(text);
    digits.parse::<u64>().is_ok_and(|size| size > 0)
}

pub(super) fn is_number(text: &str) -> bool {
    text.parse::<f64>().is_ok_and(|number| number.is_finite() && number > 0.0)
}

pub(super) fn is_directory(text: &str) -> bool {
    text.starts_with('/') && text.len() > 1 && !text.contains([':', ',', '\n'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_comes_from_the_first_file_that_sets_it() {
        let admin = ContainerConfig { pids: Some(7), ..ContainerConfig::default() };
        let user = ContainerConfig {
            pids: Some(9),
            image: Some("mine".to_owned()),
            read_only: Some(false),
            max_age_secs: Some(60),
            ..ContainerConfig::default()
        };
        let settings = merged([admin, user].iter());
        let expected = ContainerSettings {
            pids: 7,
            image: "mine".to_owned(),
            read_only: false,
            max_age: Duration::from_secs(60),
            ..ContainerSettings::default()
        };
        assert_eq!(settings, expected);
    }

    #[test]
    fn values_that_no_engine_accepts_are_refused() {
        for (is_it, good, bad) in [
            (is_name as fn(&str) -> bool, vec!["a/b:1", "none"], vec!["", "-v", "--x", "a b"]),
            (is_user, vec!["0", "1000:100"], vec!["", "me", "1:", "-1", "1:2:3"]),
            (is_size, vec!["2g", "512m", "100"], vec!["", "g", "2x", "-1g", "0g"]),
            (is_number, vec!["1", "0.5"], vec!["", "x", "-1", "0", "inf", "NaN"]),
            (is_directory, vec!["/tmp", "/a/b"], vec!["", "/", "tmp", "/a:ro", "/a,b"]),
        ] {
            assert!(good.iter().all(|text| is_it(text)), "{good:?}");
            assert!(!bad.iter().any(|text| is_it(text)), "{bad:?}");
        }
    }
}
