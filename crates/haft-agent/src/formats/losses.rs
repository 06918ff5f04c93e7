//! What is lost on the way to a provider, gathered by what it is and where it was, and told in words.

use indexmap::IndexMap;

/// So many sorts of change are told of one tool; a hostile schema must not fill the screen.
const MOST_NOTES: usize = 20;
/// So many places are named for each.
const MOST_PLACES: usize = 3;
/// Names of strangers are shown up to this length.
const LONGEST_NAME: usize = 40;

#[derive(Clone, Debug, Default)]
pub(crate) struct Losses {
    found: IndexMap<String, Places>,
    n_changes: usize,
    has_untold: bool,
}

#[derive(Clone, Debug, Default)]
struct Places {
    named: Vec<String>,
    n_others: usize,
}

impl Losses {
    pub(crate) fn tell(&mut self, what: impl Into<String>, place: &[&str]) {
        self.n_changes += 1;
        let what = what.into();
        if self.found.len() >= MOST_NOTES && !self.found.contains_key(&what) {
            self.has_untold = true;
            return;
        }
        let places = self.found.entry(what).or_default();
        let place = shown_place(place);
        if places.named.contains(&place) {
            return;
        }
        if places.named.len() < MOST_PLACES {
            places.named.push(place);
        } else {
            places.n_others += 1;
        }
    }

    /// How often something was changed; whoever asks twice knows whether it happened in between.
    pub(crate) fn n_changes(&self) -> usize {
        self.n_changes
    }

    pub(crate) fn into_notes(self) -> Vec<String> {
        let mut notes: Vec<String> =
            self.found.into_iter().map(|(what, places)| places.after(what)).collect();
        if self.has_untold {
            notes.push("there are further changes".to_owned());
        }
        notes
    }
}

impl Places {
    fn after(&self, what: String) -> String {
        let named: Vec<&str> =
            self.named.iter().map(String::as_str).filter(|place| !place.is_empty()).collect();
        let others = match self.n_others {
            0 => String::new(),
            n_others => format!(" and {n_others} more"),
        };
        if named.is_empty() { what } else { format!("{what} ({}{others})", named.join(", ")) }
    }
}

/// `patches[].start_line`; nothing for the root.
pub(crate) fn shown_place(place: &[&str]) -> String {
    let mut text = String::new();
    for part in place {
        if !text.is_empty() && *part != "[]" {
            text.push('.');
        }
        text.push_str(&shown_name(part));
    }
    text
}

/// A stranger's name, short and on one line.
pub(crate) fn shown_name(name: &str) -> String {
    let mut shown: String =
        name.chars().take(LONGEST_NAME).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if name.chars().nth(LONGEST_NAME).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_told_once_with_the_places_where_it_was_made() {
        let mut losses = Losses::default();
        for place in [["a"], ["b"], ["a"], ["c"], ["d"], ["e"]] {
            losses.tell("`not` is left out", &place);
        }
        losses.tell("the root is merged", &[]);
        assert_eq!(losses.n_changes(), 7);
        assert_eq!(
            losses.into_notes(),
            ["`not` is left out (a, b, c and 2 more)", "the root is merged"]
        );
    }

    #[test]
    fn a_hostile_schema_is_told_of_in_a_bounded_number_of_words() {
        let mut losses = Losses::default();
        for number in 0..1000 {
            losses.tell(format!("{number} is lost"), &["x".repeat(100_000).as_str()]);
        }
        let notes = losses.into_notes();
        assert_eq!(notes.len(), MOST_NOTES + 1);
        assert!(notes.iter().all(|note| note.len() < 100), "{notes:?}");
    }

    #[test]
    fn places_read_like_paths() {
        assert_eq!(shown_place(&["patches", "[]", "start_line"]), "patches[].start_line");
        assert_eq!(shown_place(&[]), "");
    }
}
