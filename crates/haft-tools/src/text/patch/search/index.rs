//! The lines of a file by what they say, so that a sequence is looked for only where its rarest line stands.

use std::{borrow::Cow, cell::Cell, collections::HashMap};

use super::Exhausted;
use crate::text::patch::{file_text::FileText, looseness::Looseness};

pub(in crate::text::patch) struct Index<'a> {
    looseness: Looseness,
    /// What each line of the file says.
    keys: Vec<Cow<'a, str>>,
    /// Where it says so, ascending.
    places: HashMap<Cow<'a, str>, Vec<usize>>,
}

/// The lines that are looked for.
struct Wanted<'o> {
    keys: Vec<Cow<'o, str>>,
    /// Which of them is the rarest in the file.
    rarest: usize,
}

impl<'a> Index<'a> {
    pub(super) fn new(file: &FileText<'a>, looseness: Looseness) -> Self {
        let keys: Vec<_> = file.lines.iter().map(|line| looseness.key(line.text)).collect();
        let mut places: HashMap<_, Vec<usize>> = HashMap::new();
        for (place, key) in keys.iter().enumerate() {
            places.entry(key.clone()).or_default().push(place);
        }
        Self { looseness, keys, places }
    }

    /// The places of a line, ascending.
    pub(in crate::text::patch) fn lines(&self, text: &str) -> &[usize] {
        self.places_of(&self.looseness.key(text))
    }

    fn places_of(&self, key: &str) -> &[usize] {
        self.places.get(key).map_or(&[], Vec::as_slice)
    }

    /// The first place from a line on.
    pub(super) fn first(
        &self,
        old: &[&str],
        from: usize,
        work: &Cell<usize>,
    ) -> Result<Option<usize>, Exhausted> {
        let Some(wanted) = self.wanted(old) else { return Ok(None) };
        let places = self.rarest_places(&wanted);
        let begin = places.partition_point(|place| *place < from + wanted.rarest);
        for place in places.iter().skip(begin) {
            let start = place - wanted.rarest;
            if self.agrees(&wanted, start, work)? {
                return Ok(Some(start));
            }
        }
        Ok(None)
    }

    /// The two places nearest to a line, the nearer one first; of two equally near ones the upper.
    pub(super) fn nearest(
        &self,
        old: &[&str],
        from: usize,
        around: usize,
        work: &Cell<usize>,
    ) -> Result<Vec<usize>, Exhausted> {
        let mut found = Vec::new();
        let Some(wanted) = self.wanted(old) else { return Ok(found) };
        let places = self.rarest_places(&wanted);
        let middle = places.partition_point(|place| *place < around + wanted.rarest);
        let (above, below) = places.split_at(middle);
        let mut above =
            above.iter().rev().map_while(|place| place.checked_sub(wanted.rarest)).peekable();
        let mut below = below.iter().map(|place| place - wanted.rarest).peekable();
        while found.len() < 2 {
            let upper = above.peek().filter(|start| **start >= from);
            let start = match (upper, below.peek()) {
                (Some(upper), Some(lower)) if around - upper > lower - around => below.next(),
                (Some(_), _) => above.next(),
                (None, _) => below.next(),
            };
            let Some(start) = start else { break };
            if self.agrees(&wanted, start, work)? {
                found.push(start);
            }
        }
        Ok(found)
    }

    /// `None` when one of the lines is nowhere in the file.
    fn wanted<'o>(&self, old: &[&'o str]) -> Option<Wanted<'o>> {
        let keys: Vec<_> = old.iter().map(|line| self.looseness.key(line)).collect();
        let counts = keys.iter().map(|key| self.places_of(key).len()).enumerate();
        let (rarest, count) = counts.min_by_key(|(_, count)| *count)?;
        (count > 0).then_some(Wanted { keys, rarest })
    }

    fn rarest_places(&self, wanted: &Wanted<'_>) -> &[usize] {
        wanted.keys.get(wanted.rarest).map_or(&[], |key| self.places_of(key))
    }

    fn agrees(
        &self,
        wanted: &Wanted<'_>,
        start: usize,
        work: &Cell<usize>,
    ) -> Result<bool, Exhausted> {
        let lines = self.keys.get(start..start + wanted.keys.len()).unwrap_or_default();
        let same =
            lines.iter().zip(&wanted.keys).take_while(|(line, wanted)| line == wanted).count();
        work.set(work.get().checked_sub(same + 1).ok_or(Exhausted)?);
        Ok(same == wanted.keys.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(
        text: &str,
        old: &[&str],
        from: usize,
        around: usize,
        first: Option<usize>,
        nearest: &[usize],
    ) {
        let file = FileText::new(text);
        let index = Index::new(&file, Looseness::Exact);
        let work = Cell::new(1000);
        assert_eq!(index.first(old, from, &work).ok(), Some(first));
        assert_eq!(index.nearest(old, from, around, &work).ok().as_deref(), Some(nearest));
    }

    #[test]
    fn the_first_and_the_nearest_places_are_found() {
        let text = "a\nb\na\nb\nc\na\nb\n";
        check(text, &["a", "b"], 0, 0, Some(0), &[0, 2]);
        check(text, &["a", "b"], 1, 4, Some(2), &[5, 2]);
        check(text, &["a", "b"], 0, 1, Some(0), &[0, 2]);
        check(text, &["a", "b"], 3, 3, Some(5), &[5]);
        check(text, &["b", "c"], 0, 6, Some(3), &[3]);
        check(text, &["b", "c"], 4, 4, None, &[]);
        check(text, &["b", "x"], 0, 0, None, &[]);
        check(text, &["b", "c", "a", "b", "a"], 0, 0, None, &[]);
        check("", &["a"], 0, 0, None, &[]);
    }

    #[test]
    fn a_search_ends_with_its_budget() {
        let text = "a\n".repeat(100);
        let file = FileText::new(&text);
        let old = vec!["a"; 101];
        let index = Index::new(&file, Looseness::Exact);
        assert!(index.first(&old, 0, &Cell::new(5)).is_err());
    }
}
