//! An index of the lines of a file by their text. A sequence of lines is searched for only at the
//! places of its rarest line.

use std::{borrow::Cow, cell::Cell, collections::HashMap};

use super::Exhausted;
use crate::text::patch::{file_text::FileText, leniency::LineComparison};

pub(in crate::text::patch) struct LineKeyIndex<'a> {
    comparison: LineComparison,
    /// The key of each line of the file.
    keys: Vec<Cow<'a, str>>,
    /// The lines with each key, ascending.
    places: HashMap<Cow<'a, str>, Vec<usize>>,
}

/// The keys of the lines to find.
struct HunkKeys<'o> {
    keys: Vec<Cow<'o, str>>,
    /// Index of the key that is rarest in the file.
    rarest: usize,
}

impl<'a> LineKeyIndex<'a> {
    pub(super) fn new(file: &FileText<'a>, comparison: LineComparison) -> Self {
        let keys: Vec<_> = file.lines.iter().map(|line| comparison.key(line.text)).collect();
        let mut places: HashMap<_, Vec<usize>> = HashMap::new();
        for (place, key) in keys.iter().enumerate() {
            places.entry(key.clone()).or_default().push(place);
        }
        Self { comparison, keys, places }
    }

    /// Returns the places of a line, ascending.
    pub(in crate::text::patch) fn lines(&self, text: &str) -> &[usize] {
        self.places_of(&self.comparison.key(text))
    }

    fn places_of(&self, key: &str) -> &[usize] {
        self.places.get(key).map_or(&[], Vec::as_slice)
    }

    /// Returns the first match at or after a line.
    pub(super) fn first(
        &self,
        old: &[&str],
        from: usize,
        work: &Cell<usize>,
    ) -> Result<Option<usize>, Exhausted> {
        let Some(hunk_keys) = self.hunk_keys(old) else { return Ok(None) };
        let places = self.rarest_places(&hunk_keys);
        let begin = places.partition_point(|place| *place < from + hunk_keys.rarest);
        for place in places.iter().skip(begin) {
            let start = place - hunk_keys.rarest;
            if self.agrees(&hunk_keys, start, work)? {
                return Ok(Some(start));
            }
        }
        Ok(None)
    }

    /// Returns the two matches nearest to a line, the nearer one first; at equal distance the
    /// upper.
    pub(super) fn nearest(
        &self,
        old: &[&str],
        from: usize,
        around: usize,
        work: &Cell<usize>,
    ) -> Result<Vec<usize>, Exhausted> {
        let mut found = Vec::new();
        let Some(hunk_keys) = self.hunk_keys(old) else { return Ok(found) };
        let places = self.rarest_places(&hunk_keys);
        let middle = places.partition_point(|place| *place < around + hunk_keys.rarest);
        let (above, below) = places.split_at(middle);
        let mut above =
            above.iter().rev().map_while(|place| place.checked_sub(hunk_keys.rarest)).peekable();
        let mut below = below.iter().map(|place| place - hunk_keys.rarest).peekable();
        while found.len() < 2 {
            let upper = above.peek().filter(|start| **start >= from);
            let start = match (upper, below.peek()) {
                (Some(upper), Some(lower)) if around - upper > lower - around => below.next(),
                (Some(_), _) => above.next(),
                (None, _) => below.next(),
            };
            let Some(start) = start else { break };
            if self.agrees(&hunk_keys, start, work)? {
                found.push(start);
            }
        }
        Ok(found)
    }

    /// Returns the keys of lines; `None` when one of them is nowhere in the file.
    fn hunk_keys<'o>(&self, old: &[&'o str]) -> Option<HunkKeys<'o>> {
        let keys: Vec<_> = old.iter().map(|line| self.comparison.key(line)).collect();
        let counts = keys.iter().map(|key| self.places_of(key).len()).enumerate();
        let (rarest, count) = counts.min_by_key(|(_, count)| *count)?;
        (count > 0).then_some(HunkKeys { keys, rarest })
    }

    fn rarest_places(&self, hunk_keys: &HunkKeys<'_>) -> &[usize] {
        hunk_keys.keys.get(hunk_keys.rarest).map_or(&[], |key| self.places_of(key))
    }

    fn agrees(
        &self,
        hunk_keys: &HunkKeys<'_>,
        start: usize,
        work: &Cell<usize>,
    ) -> Result<bool, Exhausted> {
        let lines = self.keys.get(start..start + hunk_keys.keys.len()).unwrap_or_default();
        let same = lines
            .iter()
            .zip(&hunk_keys.keys)
            .take_while(|(line, hunk_keys)| line == hunk_keys)
            .count();
        work.set(work.get().checked_sub(same + 1).ok_or(Exhausted)?);
        Ok(same == hunk_keys.keys.len())
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
        let index = LineKeyIndex::new(&file, LineComparison::Exact);
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
        let index = LineKeyIndex::new(&file, LineComparison::Exact);
        assert!(index.first(&old, 0, &Cell::new(5)).is_err());
    }
}
