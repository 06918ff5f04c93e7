//! The lines of a file by what they say, so that a sequence is looked for only where its rarest line stands.

use std::{borrow::Cow, cell::Cell, collections::HashMap};

use super::Exhausted;
use crate::text::patch::{file_text::FileText, looseness::Looseness};

pub(in crate::text::patch) struct Index<'a> {
    looseness: Looseness,
    /// The number of each different line.
    numbers: HashMap<Cow<'a, str>, usize>,
    /// For each line of the file its number.
    lines: Vec<usize>,
    /// All lines, sorted by number, then by place.
    places: Vec<usize>,
    /// For each number where its places begin, and one more.
    starts: Vec<usize>,
}

/// The lines that are looked for.
struct Wanted {
    numbers: Vec<usize>,
    /// Which of them is the rarest in the file.
    rarest: usize,
}

impl<'a> Index<'a> {
    pub(super) fn new(file: &FileText<'a>, looseness: Looseness) -> Self {
        let mut numbers = HashMap::new();
        let lines: Vec<usize> = file
            .lines
            .iter()
            .map(|line| {
                let next = numbers.len();
                *numbers.entry(looseness.key(line.text)).or_insert(next)
            })
            .collect();
        let mut starts = vec![0; numbers.len() + 1];
        for number in &lines {
            starts[number + 1] += 1;
        }
        for number in 0..numbers.len() {
            starts[number + 1] += starts[number];
        }
        let mut free = starts.clone();
        let mut places = vec![0; lines.len()];
        for (place, number) in lines.iter().enumerate() {
            places[free[*number]] = place;
            free[*number] += 1;
        }
        Self { looseness, numbers, lines, places, starts }
    }

    /// The places of a line, ascending.
    pub(in crate::text::patch) fn lines(&self, text: &str) -> &[usize] {
        let number = self.numbers.get(self.looseness.key(text).as_ref());
        number.map_or(&[], |number| self.places_of(*number))
    }

    fn places_of(&self, number: usize) -> &[usize] {
        let range = self.starts.get(number).zip(self.starts.get(number + 1));
        range.and_then(|(start, end)| self.places.get(*start..*end)).unwrap_or_default()
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
    fn wanted(&self, old: &[&str]) -> Option<Wanted> {
        let number = |line: &&str| self.numbers.get(self.looseness.key(line).as_ref()).copied();
        let numbers = old.iter().map(number).collect::<Option<Vec<_>>>()?;
        let (rarest, _) =
            numbers.iter().enumerate().min_by_key(|(_, number)| self.places_of(**number).len())?;
        Some(Wanted { numbers, rarest })
    }

    fn rarest_places(&self, wanted: &Wanted) -> &[usize] {
        wanted.numbers.get(wanted.rarest).map_or(&[], |number| self.places_of(*number))
    }

    fn agrees(&self, wanted: &Wanted, start: usize, work: &Cell<usize>) -> Result<bool, Exhausted> {
        let lines = self.lines.get(start..start + wanted.numbers.len()).unwrap_or_default();
        let same =
            lines.iter().zip(&wanted.numbers).take_while(|(line, wanted)| line == wanted).count();
        work.set(work.get().checked_sub(same + 1).ok_or(Exhausted)?);
        Ok(same == wanted.numbers.len())
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
