//! Collects what is lost for a provider, by kind and path, and describes it.

use indexmap::IndexMap;

/// Maximum number of notes for one tool, so that a hostile schema cannot fill the screen.
const MAX_NOTES: usize = 20;
/// Maximum number of paths named in a note.
const MAX_PATHS: usize = 3;
/// Maximum length of names in notes.
const MAX_NAME_CHARS: usize = 40;

#[derive(Clone, Debug, Default)]
pub(crate) struct Losses {
    found: IndexMap<String, LossPaths>,
    n_changes: usize,
    is_truncated: bool,
}

#[derive(Clone, Debug, Default)]
struct LossPaths {
    named: Vec<String>,
    n_others: usize,
}

impl Losses {
    pub(crate) fn add(&mut self, what: impl Into<String>, path: &[&str]) {
        self.n_changes += 1;
        let what = what.into();
        if self.found.len() >= MAX_NOTES && !self.found.contains_key(&what) {
            self.is_truncated = true;
            return;
        }
        let paths = self.found.entry(what).or_default();
        let path = path_text(path);
        if paths.named.contains(&path) {
            return;
        }
        if paths.named.len() < MAX_PATHS {
            paths.named.push(path);
        } else {
            paths.n_others += 1;
        }
    }

    /// Returns the number of changes so far; comparing two values shows if there were changes in
    /// between.
    pub(crate) fn n_changes(&self) -> usize {
        self.n_changes
    }

    pub(crate) fn into_notes(self) -> Vec<String> {
        let mut notes: Vec<String> =
            self.found.into_iter().map(|(what, paths)| paths.after(what)).collect();
        if self.is_truncated {
            notes.push("there are more changes".to_owned());
        }
        notes
    }
}

impl LossPaths {
    fn after(&self, what: String) -> String {
        let named: Vec<&str> =
            self.named.iter().map(String::as_str).filter(|path| !path.is_empty()).collect();
        let others = match self.n_others {
            0 => String::new(),
            n_others => format!(" and {n_others} more"),
        };
        if named.is_empty() { what } else { format!("{what} ({}{others})", named.join(", ")) }
    }
}

/// Formats a path: `patches[].start_line`; empty for the root.
pub(crate) fn path_text(path: &[&str]) -> String {
    let mut text = String::new();
    for part in path {
        if !text.is_empty() && *part != "[]" {
            text.push('.');
        }
        text.push_str(&shown_name(part));
    }
    text
}

/// Shortens a foreign name and removes control characters.
pub(crate) fn shown_name(name: &str) -> String {
    let mut shown: String =
        name.chars().take(MAX_NAME_CHARS).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if name.chars().nth(MAX_NAME_CHARS).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_noted_once_with_its_paths() {
        let mut losses = Losses::default();
        for path in [["a"], ["b"], ["a"], ["c"], ["d"], ["e"]] {
            losses.add("`not` is left out", &path);
        }
        losses.add("the root is merged", &[]);
        assert_eq!(losses.n_changes(), 7);
        assert_eq!(
            losses.into_notes(),
            ["`not` is left out (a, b, c and 2 more)", "the root is merged"]
        );
    }

    #[test]
    fn the_notes_of_a_hostile_schema_are_bounded() {
        let mut losses = Losses::default();
        for number in 0..1000 {
            losses.add(format!("{number} is lost"), &["x".repeat(100_000).as_str()]);
        }
        let notes = losses.into_notes();
        assert_eq!(notes.len(), MAX_NOTES + 1);
        assert!(notes.iter().all(|note| note.len() < 100), "{notes:?}");
    }

    #[test]
    fn places_read_like_paths() {
        assert_eq!(path_text(&["patches", "[]", "start_line"]), "patches[].start_line");
        assert_eq!(path_text(&[]), "");
    }
}
