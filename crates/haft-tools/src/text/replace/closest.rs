//! The places of a file that most resemble a text which is not in it. Works within budgets: a hint is not worth a second.

use std::collections::HashMap;
use std::ops::Range;

use super::Closest;
use super::lines::{self, Line, blank_ends};

/// Places told.
const MOST_PLACES: usize = 3;
/// Below this a place is no help.
const LEAST_LIKENESS: f64 = 0.5;
/// So many lines of the text looked for are compared; a longer one is known by its beginning.
const MOST_PATTERN_LINES: usize = 60;
/// What its beginning can say about it at most.
const MOST_BY_BEGINNING: f64 = 0.9;
/// A line that the file has more often than this (a closing brace) does not say where to look.
const MOST_SIGHTINGS: usize = 50;
/// Windows of the file that are compared line by line.
const MOST_WINDOWS: usize = 12;
/// Lines that the window reaches beyond the pattern, for lines that were inserted in the file.
const SLACK: usize = 3;
/// Bytes of the file that are looked at, and of each line that are compared.
const MOST_BYTES: usize = 6_000_000;
const MOST_LINE_BYTES: usize = 400;
/// What a place shows.
const MOST_SHOWN_LINES: usize = 20;
const MOST_SHOWN_CHARS: usize = 300;

/// Up to three places that resemble `old`, the best first.
pub(crate) fn closest(text: &str, old: &str) -> Vec<Closest> {
    let all: Vec<&str> = old.strip_suffix('\n').unwrap_or(old).split('\n').collect();
    let (before, after) = blank_ends(&all);
    let wanted = &all[before..all.len() - after];
    if wanted.is_empty() {
        return Vec::new();
    }
    let file = lines::lines(text);
    let seen = file.iter().take_while(|line| line.start < MOST_BYTES).count();
    let pattern = Pattern::of(wanted);
    let mut windows = pattern.windows(&file, &pattern.sightings(&file[..seen]));
    if windows.first().is_none_or(|best| best.likeness < 0.75) {
        windows.extend(pattern.windows(&file, &pattern.resemblances(&file[..seen])));
    }
    windows
        .sort_by(|a, b| b.likeness.total_cmp(&a.likeness).then(a.lines.start.cmp(&b.lines.start)));
    let mut places: Vec<Window> = Vec::new();
    for window in windows {
        let apart = |place: &Window| {
            window.lines.end <= place.lines.start || place.lines.end <= window.lines.start
        };
        if places.len() < MOST_PLACES
            && window.likeness >= LEAST_LIKENESS
            && places.iter().all(apart)
        {
            places.push(window);
        }
    }
    places.into_iter().map(|window| window.told(&file)).collect()
}

/// The text looked for.
struct Pattern<'a> {
    lines: Vec<Shape<'a>>,
    /// How many lines it has altogether.
    height: usize,
}

/// A line as it is compared: without the white space around it, and as its sorted pairs of bytes.
struct Shape<'a> {
    text: &'a str,
    pairs: Vec<u16>,
}

/// Some lines of the file, counted from 0, and how much they are like the pattern.
struct Window {
    lines: Range<usize>,
    likeness: f64,
}

/// Where the pattern would begin in the file, which may be before its first line, and how much speaks for it.
type Guesses = HashMap<isize, f64>;

impl<'a> Pattern<'a> {
    fn of(lines: &[&'a str]) -> Self {
        let shapes = lines.iter().take(MOST_PATTERN_LINES).map(|line| Shape::of(line)).collect();
        Self { lines: shapes, height: lines.len() }
    }

    /// Guesses from lines that the file has too, though not everywhere.
    fn sightings(&self, file: &[Line<'_>]) -> Guesses {
        let mut seen: Vec<Vec<usize>> = vec![Vec::new(); self.lines.len()];
        let mut known: HashMap<&str, usize> = HashMap::new();
        for (index, shape) in
            self.lines.iter().enumerate().filter(|(_, shape)| !shape.text.is_empty())
        {
            known.entry(shape.text).or_insert(index);
        }
        for (index, line) in file.iter().enumerate() {
            if let Some(in_pattern) = known.get(line.text.trim())
                && seen[*in_pattern].len() <= MOST_SIGHTINGS
            {
                seen[*in_pattern].push(index);
            }
        }
        let mut guesses = Guesses::new();
        let rare = seen.iter().enumerate().filter(|(_, at)| at.len() <= MOST_SIGHTINGS);
        for (in_pattern, index) in
            rare.flat_map(|(in_pattern, at)| at.iter().map(move |index| (in_pattern, index)))
        {
            let weight = weight(self.lines[in_pattern].text) / seen[in_pattern].len() as f64;
            *guesses.entry(index.cast_signed() - in_pattern.cast_signed()).or_default() += weight;
        }
        guesses
    }

    /// Guesses from lines of the file that resemble the longest line of the pattern.
    fn resemblances(&self, file: &[Line<'_>]) -> Guesses {
        let longest = self
            .lines
            .iter()
            .enumerate()
            .max_by_key(|(index, shape)| (shape.pairs.len(), usize::MAX - index));
        let Some((in_pattern, probe)) = longest.filter(|(_, shape)| shape.pairs.len() > 2) else {
            return Guesses::new();
        };
        let table = PairTable::of(&probe.pairs);
        let part_of_line = self.height == 1;
        let mut best: Vec<(f64, usize)> = Vec::new();
        for (index, line) in file.iter().enumerate() {
            let score = table.score(line.text.trim(), part_of_line);
            if score < LEAST_LIKENESS {
                continue;
            }
            best.push((score, index));
            if best.len() >= 64 * MOST_WINDOWS {
                keep_best(&mut best);
            }
        }
        keep_best(&mut best);
        best.into_iter()
            .map(|(score, index)| (index.cast_signed() - in_pattern.cast_signed(), score))
            .collect()
    }

    /// The windows at the best guesses, the most alike first.
    fn windows(&self, file: &[Line<'_>], guesses: &Guesses) -> Vec<Window> {
        let mut starts: Vec<(f64, isize)> =
            guesses.iter().map(|(start, weight)| (*weight, *start)).collect();
        // By weight and then by position, since the order of a hash map is another in each run.
        starts.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        starts.truncate(MOST_WINDOWS);
        let mut windows: Vec<Window> =
            starts.into_iter().filter_map(|(_, start)| self.window(file, start)).collect();
        windows.sort_by(|a, b| b.likeness.total_cmp(&a.likeness));
        windows
    }

    /// Aligns the pattern with the lines about `start`.
    fn window(&self, file: &[Line<'_>], start: isize) -> Option<Window> {
        let from = usize::try_from(start - SLACK.cast_signed()).unwrap_or(0).min(file.len());
        let until = usize::try_from(start + (self.lines.len() + SLACK).cast_signed())
            .unwrap_or(0)
            .min(file.len());
        let shapes: Vec<Shape<'_>> =
            file.get(from..until)?.iter().map(|line| Shape::of(line.text)).collect();
        if let ([wanted], Ok(at)) = (&*self.lines, usize::try_from(start)) {
            let likeness = wanted.likeness_in(shapes.get(at.checked_sub(from)?)?);
            return Some(Window { lines: at..at + 1, likeness });
        }
        let aligned = Alignment::of(&self.lines, &shapes).matches();
        let (first, last) = (aligned.first()?, aligned.last()?);
        // Lines of the pattern before the first match and after the last are taken to be there too, only different.
        let begin = (from + first.1).saturating_sub(first.0);
        let end = (from + last.1 + self.height - last.0).min(file.len()).max(begin + 1);
        let total: f64 = self.lines.iter().map(|shape| weight(shape.text)).sum();
        let alike: f64 =
            aligned.iter().map(|(wanted, _, alike)| weight(self.lines[*wanted].text) * alike).sum();
        // Lines in between that nobody asked for make a window less alike.
        let extra = self.height as f64 / self.height.max(end - begin) as f64;
        let known = if self.height > self.lines.len() { MOST_BY_BEGINNING } else { 1.0 };
        Some(Window { lines: begin..end, likeness: (alike / total * extra.sqrt()).min(known) })
    }
}

fn keep_best(best: &mut Vec<(f64, usize)>) {
    best.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    best.truncate(MOST_WINDOWS);
}

/// Long lines say more than short ones.
fn weight(line: &str) -> f64 {
    (line.len().min(MOST_LINE_BYTES) + 1) as f64
}

impl Window {
    fn told(self, file: &[Line<'_>]) -> Closest {
        let shown = file[self.lines.clone()].iter().take(MOST_SHOWN_LINES);
        let text: Vec<String> = shown.map(|line| cut(line.text)).collect();
        Closest {
            first_line: self.lines.start + 1,
            last_line: self.lines.end,
            text: text.join("\n"),
            likeness: self.likeness.min(1.0),
        }
    }
}

fn cut(line: &str) -> String {
    let mut short: String = line.chars().take(MOST_SHOWN_CHARS).collect();
    if short.len() < line.len() {
        short.push('…');
    }
    short
}

impl<'a> Shape<'a> {
    fn of(line: &'a str) -> Self {
        let text = line.trim();
        let mut pairs: Vec<u16> = pairs(text.as_bytes()).take(MOST_LINE_BYTES).collect();
        pairs.sort_unstable();
        Self { text, pairs }
    }

    /// The share of pairs of bytes that both lines have, from 0 to 1.
    fn likeness(&self, other: &Self) -> f64 {
        if self.text == other.text {
            return 1.0;
        }
        let pairs = self.pairs.len() + other.pairs.len();
        if pairs == 0 { 0.0 } else { 2.0 * self.shared(other) / pairs as f64 }
    }

    /// As [`Shape::likeness`], but this line may be a part of the other.
    fn likeness_in(&self, other: &Self) -> f64 {
        let part =
            if self.pairs.len() > 4 { self.shared(other) / self.pairs.len() as f64 } else { 0.0 };
        // A line that only holds the text somewhere is a worse answer than one that is like it.
        self.likeness(other).max(part * 0.9)
    }

    fn shared(&self, other: &Self) -> f64 {
        let (mut left, mut right) = (self.pairs.iter().peekable(), other.pairs.iter().peekable());
        let mut shared = 0_u32;
        while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
            match a.cmp(b) {
                std::cmp::Ordering::Less => drop(left.next()),
                std::cmp::Ordering::Greater => drop(right.next()),
                std::cmp::Ordering::Equal => {
                    shared += 1;
                    left.next();
                    right.next();
                }
            }
        }
        f64::from(shared)
    }
}

fn pairs(bytes: &[u8]) -> impl Iterator<Item = u16> {
    bytes.windows(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
}

/// Which pairs of bytes a line has, to look through millions of bytes at one lookup each.
struct PairTable {
    has: Vec<bool>,
    count: usize,
}

impl PairTable {
    fn of(pairs: &[u16]) -> Self {
        let mut has = vec![false; 1 << 16];
        pairs.iter().for_each(|pair| has[usize::from(*pair)] = true);
        Self { has, count: pairs.len() }
    }

    /// About how much the line is like the one of the table: never less than it is, so that none is missed.
    fn score(&self, line: &str, part_of_line: bool) -> f64 {
        let len = line.len().saturating_sub(1);
        if !part_of_line && (len > self.count * 3 || len * 3 < self.count) {
            return 0.0;
        }
        let sum = pairs(line.as_bytes()).filter(|pair| self.has[usize::from(*pair)]).count();
        let whole = 2.0 * sum.min(self.count) as f64 / (len + self.count) as f64;
        let part =
            if part_of_line { 0.9 * sum.min(self.count) as f64 / self.count as f64 } else { 0.0 };
        // Of lines that hold as much of it the shorter is the better.
        whole.max(part) + whole / 1_000.0
    }
}

/// The best pairing of the pattern's lines with lines of a window, in order; both may leave lines out.
struct Alignment {
    /// The best sum for each beginning of both, row by row.
    sums: Vec<f64>,
    alike: Vec<f64>,
    wanted: usize,
    there: usize,
}

impl Alignment {
    fn of(wanted: &[Shape<'_>], there: &[Shape<'_>]) -> Self {
        let width = there.len() + 1;
        let mut sums = vec![0.0_f64; (wanted.len() + 1) * width];
        let mut alike = vec![0.0; wanted.len() * there.len()];
        for (row, old) in wanted.iter().enumerate() {
            for (column, new) in there.iter().enumerate() {
                // Lines that share a third are as different as any two lines of code.
                let likeness =
                    Some(old.likeness(new)).filter(|likeness| *likeness > 0.4).unwrap_or(0.0);
                alike[row * there.len() + column] = likeness;
                let pair = sums[row * width + column] + weight(old.text) * likeness;
                let skip = sums[row * width + column + 1].max(sums[(row + 1) * width + column]);
                sums[(row + 1) * width + column + 1] = pair.max(skip);
            }
        }
        Self { sums, alike, wanted: wanted.len(), there: there.len() }
    }

    /// The pairs (line of the pattern, line of the window, likeness), in order.
    fn matches(&self) -> Vec<(usize, usize, f64)> {
        let sum = |row: usize, column: usize| self.sums[row * (self.there + 1) + column];
        let (mut row, mut column) = (self.wanted, self.there);
        let mut matches = Vec::new();
        while row > 0 && column > 0 {
            if sum(row, column) == sum(row, column - 1) {
                column -= 1;
            } else if sum(row, column) == sum(row - 1, column) {
                row -= 1;
            } else {
                (row, column) = (row - 1, column - 1);
                matches.push((row, column, self.alike[row * self.there + column]));
            }
        }
        matches.reverse();
        matches
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, old: &str, expected: &[(usize, usize)]) {
        let places = closest(text, old);
        let lines: Vec<_> =
            places.iter().map(|place| (place.first_line, place.last_line)).collect();
        assert_eq!(lines, expected, "{places:#?}");
        assert!(places.is_sorted_by(|a, b| a.likeness >= b.likeness));
    }

    const CODE: &str = "use std::fmt;\n\nfn first() -> usize {\n    let count = 1;\n    count + 1\n}\n\n\
        fn second() -> usize {\n    let total = 2;\n    total * 2\n}\n";

    #[test]
    fn a_block_with_a_changed_line_is_found() {
        check(CODE, "fn second() -> u32 {\n    let total = 2;\n    total * 2\n}", &[(8, 11)]);
        check(CODE, "fn first() -> usize {\n    let counter = 1;\n    count + 1\n}\n", &[(3, 6)]);
    }

    #[test]
    fn a_block_that_lacks_a_line_of_the_file_is_found() {
        let places = closest(CODE, "fn first() -> usize {\n    count + 1\n}");
        assert_eq!((places[0].first_line, places[0].last_line), (3, 6), "{places:#?}");
    }

    #[test]
    fn a_line_with_a_slip_is_found() {
        check(CODE, "    total * 3", &[(10, 10), (9, 9)]);
        check("let x = compute(alpha, beta) + gamma;\n", "compute(alpha, bate)", &[(1, 1)]);
    }

    #[test]
    fn nothing_alike_is_nothing() {
        check(CODE, "SELECT name FROM people", &[]);
        check("", "anything", &[]);
        check(CODE, "\n  \n", &[]);
    }

    #[test]
    fn lines_that_are_everywhere_do_not_mislead() {
        let text =
            format!("{}fn odd() {{\n    strange();\n}}\n{}", "}\n".repeat(500), "}\n".repeat(500));
        check(&text, "fn odd() {\n    strang();\n}", &[(501, 503)]);
    }

    #[test]
    fn long_places_are_cut() {
        let text: String =
            (0..40).map(|line| format!("the line of number {line}{}\n", "x".repeat(400))).collect();
        let old = text.replace("number 7", "numbers 7");
        let place = closest(&text, &old).remove(0);
        assert_eq!(place.text.lines().count(), MOST_SHOWN_LINES);
        assert!(place.text.lines().all(|line| line.chars().count() <= MOST_SHOWN_CHARS + 1));
        assert_eq!((place.first_line, place.last_line), (1, 40));
    }
}
