//! What files say of containers, and how their words become one.

use std::time::Duration;

use haft_exec::ContainerSettings;

/// What one file says; what it does not say is somebody else's or the default.
#[derive(Clone, Debug, Default)]
pub(super) struct ContainerWords {
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

/// Key by key the first file that speaks.
pub(super) fn settled<'a>(
    files: impl Iterator<Item = &'a ContainerWords> + Clone,
) -> ContainerSettings {
    let usual = ContainerSettings::default();
    let text = |key: fn(&ContainerWords) -> &Option<String>| {
        files.clone().find_map(|words| key(words).clone())
    };
    let age = files.clone().find_map(|words| words.max_age_secs);
    ContainerSettings {
        engine: text(|words| &words.engine),
        image: text(|words| &words.image).unwrap_or(usual.image),
        user: text(|words| &words.user),
        memory: text(|words| &words.memory).unwrap_or(usual.memory),
        cpus: text(|words| &words.cpus),
        pids: files.clone().find_map(|words| words.pids).unwrap_or(usual.pids),
        network: text(|words| &words.network),
        read_only: files.clone().find_map(|words| words.read_only).unwrap_or(usual.read_only),
        tmpfs: files.clone().find_map(|words| words.tmpfs.clone()).unwrap_or(usual.tmpfs),
        max_age: age.map_or(usual.max_age, |secs| Duration::from_secs(secs as u64)),
        timeout: usual.timeout,
    }
}

/// Nothing that the engine could take for an option.
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

pub(super) fn is_place(text: &str) -> bool {
    text.starts_with('/') && text.len() > 1 && !text.contains([':', ',', '\n'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_by_key_the_first_that_speaks_is_heard() {
        let admin = ContainerWords { pids: Some(7), ..ContainerWords::default() };
        let user = ContainerWords {
            pids: Some(9),
            image: Some("mine".to_owned()),
            read_only: Some(false),
            max_age_secs: Some(60),
            ..ContainerWords::default()
        };
        let settings = settled([admin, user].iter());
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
    fn words_that_no_engine_could_mean_are_refused() {
        for (is_it, good, bad) in [
            (is_name as fn(&str) -> bool, vec!["a/b:1", "none"], vec!["", "-v", "--x", "a b"]),
            (is_user, vec!["0", "1000:100"], vec!["", "me", "1:", "-1", "1:2:3"]),
            (is_size, vec!["2g", "512m", "100"], vec!["", "g", "2x", "-1g", "0g"]),
            (is_number, vec!["1", "0.5"], vec!["", "x", "-1", "0", "inf", "NaN"]),
            (is_place, vec!["/tmp", "/a/b"], vec!["", "/", "tmp", "/a:ro", "/a,b"]),
        ] {
            assert!(good.iter().all(|text| is_it(text)), "{good:?}");
            assert!(!bad.iter().any(|text| is_it(text)), "{bad:?}");
        }
    }
}
