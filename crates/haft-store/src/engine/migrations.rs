//! Migrations: numbered steps that only go forward. The checksum of a released step must not
//! change. Both engines run the same text: `{key}` stands for the engine's type of an integer
//! primary key, `{bytes}` for its type of binary data.

use haft_core::ToolError;

/// One step of the schema.
pub(crate) struct Migration {
    /// From 1, without gaps.
    pub(crate) version: i64,
    pub(crate) text: &'static str,
}

pub(crate) const ALL: &[Migration] = &[
    Migration { version: 1, text: include_str!("migrations/0001.sql") },
    Migration { version: 2, text: include_str!("migrations/0002.sql") },
    Migration { version: 3, text: include_str!("migrations/0003.sql") },
    Migration { version: 4, text: include_str!("migrations/0004.sql") },
    Migration { version: 5, text: include_str!("migrations/0005.sql") },
    Migration { version: 6, text: include_str!("migrations/0006.sql") },
    Migration { version: 7, text: include_str!("migrations/0007.sql") },
    Migration { version: 8, text: include_str!("migrations/0008.sql") },
    Migration { version: 9, text: include_str!("migrations/0009.sql") },
    Migration { version: 10, text: include_str!("migrations/0010.sql") },
];

pub(crate) const TABLE: &str =
    "CREATE TABLE migrations (version {key}, checksum TEXT NOT NULL, applied_ms BIGINT NOT NULL)";
pub(crate) const APPLIED: &str = "SELECT version, checksum FROM migrations ORDER BY version";
pub(crate) const NOTE: &str = "INSERT INTO migrations VALUES ($1, $2, $3)";

impl Migration {
    pub(crate) fn checksum(&self) -> String {
        blake3::hash(self.text.as_bytes()).to_hex().as_str().to_owned()
    }
}

/// Returns the schema version after all steps of a list.
pub(crate) fn newest(list: &[Migration]) -> i64 {
    list.last().map_or(0, |last| last.version)
}

/// Returns the steps that a store still needs.
///
/// # Errors
/// `unavailable` when a newer haft wrote the store, or when a step was not ours.
pub(crate) fn outstanding<'a>(
    list: &'a [Migration],
    applied: &[(i64, String)],
    store: &str,
) -> Result<&'a [Migration], ToolError> {
    for (version, checksum) in applied {
        let Some(known) = list.iter().find(|known| known.version == *version) else {
            return Err(too_new(store, *version, newest(list)));
        };
        if known.checksum() != *checksum {
            let message = format!(
                "the store {store} was made by different migrations than this haft has (step {version})"
            );
            return Err(ToolError::unavailable(message)
                .hint("use the haft version that made it, or another store with --store"));
        }
    }
    Ok(list.get(applied.len()..).unwrap_or_default())
}

pub(crate) fn too_new(store: &str, version: i64, known: i64) -> ToolError {
    let message = format!(
        "the store {store} has version {version}, written by a newer haft; this one knows versions up to {known}"
    );
    ToolError::unavailable(message).hint("update haft, or use another store with --store")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &[Migration] =
        &[Migration { version: 1, text: "one" }, Migration { version: 2, text: "two" }];

    fn applied(count: usize) -> Vec<(i64, String)> {
        LIST.iter().take(count).map(|step| (step.version, step.checksum())).collect()
    }

    #[test]
    fn outstanding_steps_are_the_rest_of_the_list() {
        for count in 0..=2 {
            let left = outstanding(LIST, &applied(count), "s").expect("ours");
            assert_eq!(left.len(), 2 - count);
        }
    }

    #[test]
    fn a_newer_store_is_refused_with_its_version() {
        let mut applied = applied(2);
        applied.push((3, "x".to_owned()));
        let error = outstanding(LIST, &applied, "s").err().expect("newer");
        assert!(error.message().contains("version 3, written by a newer haft"), "{error}");
        assert!(error.next_step().contains("update haft"));
    }

    #[test]
    fn a_step_that_was_changed_afterwards_is_refused() {
        let error = outstanding(LIST, &[(1, "other".to_owned())], "s").err().expect("changed");
        assert!(error.message().contains("different migrations"), "{error}");
    }

    #[test]
    fn versions_count_from_one_without_gaps() {
        let versions: Vec<i64> = ALL.iter().map(|step| step.version).collect();
        assert_eq!(versions, (1..=newest(ALL)).collect::<Vec<_>>());
    }
}
