//! Finds the places of a file that most resemble a text without a match. The work is limited,
//! because a hint is not worth a second.

use std::collections::HashMap;
use std::ops::Range;

use super::Closest;
use super::lines::{self, TextLine, blank_ends};

/// Maximum number of places returned.
const MAX_PLACES: usize = 3;
/// Minimum similarity of a place.
const MIN_SIMILARITY: f64 = 0.5;
/// Maximum number of lines of the text that are compared; of a longer one the beginning is used.
const MAX_PATTERN_LINES: usize = 60;
/// Maximum similarity of a text that is only compared by its beginning.
const MAX_PARTIAL_SIMILARITY: f64 = 0.9;
/// A line that occurs more often in the file (a closing brace) does not help to find the place.
const MAX_OCCURRENCES: usize = 50;
/// Maximum number of candidates that are compared line by line.
const MAX_CANDIDATES: usize = 12;
/// Number of lines that a candidate extends beyond the pattern, for lines inserted in the file.
const SLACK_LINES: usize = 3;
/// Maximum number of bytes of the file that are searched.
const MAX_FILE_BYTES: usize = 6_000_000;
/// Maximum number of bytes of each line that are compared.
const MAX_LINE_BYTES: usize = 400;
/// Maximum number of lines of a place that are shown.
const MAX_SHOWN_LINES: usize = 20;
/// Maximum length of a line that is shown.
const MAX_SHOWN_CHARS: usize = 300;

/// Returns up to three places that resemble `old`, the best first.
pub(crate) fn closest(text: &str, old: &str) -> Vec<Closest> {
    let all: Vec<&str> = old.strip_suffix('\n').unwrap_or(old).split('\n').collect();
    let (before, after) = blank_ends(&all);
    let wanted = &all[before..all.len() - after];
    if wanted.is_empty() {
        return Vec::new();
    }
    let file = lines::lines(text);
    let searched = file.iter().take_while(|line| line.start < MAX_FILE_BYTES).count();
    let pattern = PatternLines::of(wanted);
    let mut candidates = pattern.candidates(&file, &pattern.occurrences(&file[..searched]));
    if candidates.first().is_none_or(|best| best.similarity < 0.75) {
        let resembling = pattern.resemblances(&file[..searched]);
        candidates.extend(pattern.candidates(&file, &resembling));
    }
    candidates.sort_by(|a, b| {
        b.similarity.total_cmp(&a.similarity).then(a.lines.start.cmp(&b.lines.start))
    });
    let mut places: Vec<CandidateLines> = Vec::new();
    for candidate in candidates {
        let apart = |place: &CandidateLines| {
            candidate.lines.end <= place.lines.start || place.lines.end <= candidate.lines.start
        };
        if places.len() < MAX_PLACES
            && candidate.similarity >= MIN_SIMILARITY
            && places.iter().all(apart)
        {
            places.push(candidate);
        }
    }
    places.into_iter().map(|candidate| candidate.into_closest(&file)).collect()
}

/// The lines of the text to find.
struct PatternLines<'a> {
    lines: Vec<LineShape<'a>>,
    /// Number of all its lines.
    height: usize,
}

/// A line for comparison: its trimmed text, and its sorted pairs of bytes.
struct LineShape<'a> {
    text: &'a str,
    pairs: Vec<u16>,
}

/// A range of lines of the file, counted from 0, and its similarity to the pattern.
struct CandidateLines {
    lines: Range<usize>,
    similarity: f64,
}

/// Possible starts of the pattern in the file, which may be before its first line, with weights.
type Guesses = HashMap<isize, f64>;

impl<'a> PatternLines<'a> {
    fn of(lines: &[&'a str]) -> Self {
        let shapes = lines.iter().take(MAX_PATTERN_LINES).map(|line| LineShape::of(line)).collect();
        Self { lines: shapes, height: lines.len() }
    }

    /// Returns guesses from lines that are also in the file, but not everywhere.
    fn occurrences(&self, file: &[TextLine<'_>]) -> Guesses {
        let mut seen: Vec<Vec<usize>> = vec![Vec::new(); self.lines.len()];
        let mut known: HashMap<&str, usize> = HashMap::new();
        for (index, shape) in
            self.lines.iter().enumerate().filter(|(_, shape)| !shape.text.is_empty())
        {
            known.entry(shape.text).or_insert(index);
        }
        for (index, line) in file.iter().enumerate() {
            if let Some(in_pattern) = known.get(line.text.trim())
                && seen[*in_pattern].len() <= MAX_OCCURRENCES
            {
                seen[*in_pattern].push(index);
            }
        }
        let mut guesses = Guesses::new();
        let rare = seen.iter().enumerate().filter(|(_, at)| at.len() <= MAX_OCCURRENCES);
        for (in_pattern, index) in
            rare.flat_map(|(in_pattern, at)| at.iter().map(move |index| (in_pattern, index)))
        {
            let weight = weight(self.lines[in_pattern].text) / seen[in_pattern].len() as f64;
            *guesses.entry(index.cast_signed() - in_pattern.cast_signed()).or_default() += weight;
        }
        guesses
    }

    /// Returns guesses from lines of the file that resemble the longest line of the pattern.
    fn resemblances(&self, file: &[TextLine<'_>]) -> Guesses {
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
            if score < MIN_SIMILARITY {
                continue;
            }
            best.push((score, index));
            if best.len() >= 64 * MAX_CANDIDATES {
                keep_best(&mut best);
            }
        }
        keep_best(&mut best);
        best.into_iter()
            .map(|(score, index)| (index.cast_signed() - in_pattern.cast_signed(), score))
            .collect()
    }

    /// Returns the candidates at the best guesses, the most similar first.
    fn candidates(&self, file: &[TextLine<'_>], guesses: &Guesses) -> Vec<CandidateLines> {
        let mut starts: Vec<(f64, isize)> =
            guesses.iter().map(|(start, weight)| (*weight, *start)).collect();
        // Sort by weight and position, because the order of a hash map differs in each run.
        starts.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        starts.truncate(MAX_CANDIDATES);
        let mut candidates: Vec<CandidateLines> =
            starts.into_iter().filter_map(|(_, start)| self.candidate(file, start)).collect();
        candidates.sort_by(|a, b| b.similarity.total_cmp(&a.similarity));
        candidates
    }

    /// Aligns the pattern with the lines around `start`.
    fn candidate(&self, file: &[TextLine<'_>], start: isize) -> Option<CandidateLines> {
        let from = usize::try_from(start - SLACK_LINES.cast_signed()).unwrap_or(0).min(file.len());
        let until = usize::try_from(start + (self.lines.len() + SLACK_LINES).cast_signed())
            .unwrap_or(0)
            .min(file.len());
        let shapes: Vec<LineShape<'_>> =
            file.get(from..until)?.iter().map(|line| LineShape::of(line.text)).collect();
        if let ([wanted], Ok(at)) = (&*self.lines, usize::try_from(start)) {
            let similarity = wanted.similarity_in(shapes.get(at.checked_sub(from)?)?);
            return Some(CandidateLines { lines: at..at + 1, similarity });
        }
        let aligned = Alignment::of(&self.lines, &shapes).matches();
        let (first, last) = (aligned.first()?, aligned.last()?);
        // Lines of the pattern before the first match and after the last count as changed lines.
        let begin = (from + first.1).saturating_sub(first.0);
        let end = (from + last.1 + self.height - last.0).min(file.len()).max(begin + 1);
        let total: f64 = self.lines.iter().map(|shape| weight(shape.text)).sum();
        let alike: f64 =
            aligned.iter().map(|(wanted, _, alike)| weight(self.lines[*wanted].text) * alike).sum();
        // Additional lines of the file in between make a candidate less similar.
        let extra = self.height as f64 / self.height.max(end - begin) as f64;
        let known = if self.height > self.lines.len() { MAX_PARTIAL_SIMILARITY } else { 1.0 };
        let similarity = (alike / total * extra.sqrt()).min(known);
        Some(CandidateLines { lines: begin..end, similarity })
    }
}

fn keep_best(best: &mut Vec<(f64, usize)>) {
    best.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    best.truncate(MAX_CANDIDATES);
}

/// Returns the weight of a line: long lines are more specific than short ones.
fn weight(line: &str) -> f64 {
    (line.len().min(MAX_LINE_BYTES) + 1) as f64
}

impl CandidateLines {
    fn into_closest(self, file: &[TextLine<'_>]) -> Closest {
        let shown = file[self.lines.clone()].iter().take(MAX_SHOWN_LINES);
        let text: Vec<String> = shown.map(|line| cut(line.text)).collect();
        Closest {
            first_line: self.lines.start + 1,
            last_line: self.lines.end,
            text: text.join("\n"),
            similarity: self.similarity.min(1.0),
        }
    }
}

fn cut(line: &str) -> String {
    let mut short: String = line.chars().take(MAX_SHOWN_CHARS).collect();
    if short.len() < line.len() {
        short.push('…');
    }
    short
}

impl<'a> LineShape<'a> {
    fn of(line: &'a str) -> Self {
        let text = line.trim();
        let mut pairs: Vec<u16> = pairs(text.as_bytes()).take(MAX_LINE_BYTES).collect();
        pairs.sort_unstable();
        Self { text, pairs }
    }

    /// Returns the share of pairs of bytes that both lines have, from 0 to 1.
    fn similarity(&self, other: &Self) -> f64 {
        if self.text == other.text {
            return 1.0;
        }
        let pairs = self.pairs.len() + other.pairs.len();
        if pairs == 0 { 0.0 } else { 2.0 * self.shared(other) / pairs as f64 }
    }

    /// Like [`LineShape::similarity`], but this line may be a part of the other.
    fn similarity_in(&self, other: &Self) -> f64 {
        let part =
            if self.pairs.len() > 4 { self.shared(other) / self.pairs.len() as f64 } else { 0.0 };
        // A line that only contains the text is a worse answer than a similar line.
        self.similarity(other).max(part * 0.9)
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

/// The pairs of bytes of a line, to search millions of bytes with one lookup each.
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

    /// Returns an upper estimate of the similarity of a line, so that no similar line is missed.
    fn score(&self, line: &str, part_of_line: bool) -> f64 {
        let len = line.len().saturating_sub(1);
        if !part_of_line && (len > self.count * 3 || len * 3 < self.count) {
            return 0.0;
        }
        let sum = pairs(line.as_bytes()).filter(|pair| self.has[usize::from(*pair)]).count();
        let whole = 2.0 * sum.min(self.count) as f64 / (len + self.count) as f64;
        let part =
            if part_of_line { 0.9 * sum.min(self.count) as f64 / self.count as f64 } else { 0.0 };
        // Of lines that contain as much of the text, the shorter is better.
        whole.max(part) + whole / 1_000.0
    }
}

/// The best pairing of the pattern's lines with the lines of a candidate, in order. Both may skip
/// lines.
struct Alignment {
    /// Best sum for each pair of prefixes, row by row.
    sums: Vec<f64>,
    alike: Vec<f64>,
    wanted: usize,
    there: usize,
}

impl Alignment {
    fn of(wanted: &[LineShape<'_>], there: &[LineShape<'_>]) -> Self {
        let width = there.len() + 1;
        let mut sums = vec![0.0_f64; (wanted.len() + 1) * width];
        let mut alike = vec![0.0; wanted.len() * there.len()];
        for (row, old) in wanted.iter().enumerate() {
            for (column, new) in there.iter().enumerate() {
                // Any two lines of code share about a third of their pairs.
                let similarity =
                    Some(old.similarity(new)).filter(|similarity| *similarity > 0.4).unwrap_or(0.0);
                alike[row * there.len() + column] = similarity;
                let pair = sums[row * width + column] + weight(old.text) * similarity;
                let skip = sums[row * width + column + 1].max(sums[(row + 1) * width + column]);
                sums[(row + 1) * width + column + 1] = pair.max(skip);
            }
        }
        Self { sums, alike, wanted: wanted.len(), there: there.len() }
    }

    /// Returns the pairs (line of the pattern, line of the candidate, similarity), in order.
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
        assert!(places.is_sorted_by(|a, b| a.similarity >= b.similarity));
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
    fn a_line_with_a_typo_is_found() {
        check(CODE, "    total * 3", &[(10, 10), (9, 9)]);
        check("let x = compute(alpha, beta) + gamma;\n", "compute(alpha, bate)", &[(1, 1)]);
    }

    #[test]
    fn without_a_similar_line_nothing_is_found() {
        check(CODE, "SELECT name FROM people", &[]);
        check("", "anything", &[]);
        check(CODE, "\n  \n", &[]);
    }

    #[test]
    fn frequent_lines_do_not_mislead() {
        let text =
            format!("{}fn odd() {{\n    strange();\n}}\n{}", "}\n".repeat(500), "}\n".repeat(500));
        check(&text, "fn odd() {\n    strang();\n}", &[(501, 503)]);
    }

    #[test]
    fn long_places_are_truncated() {
        let text: String =
            (0..40).map(|line| format!("the line of number {line}{}\n", "x".repeat(400))).collect();
        let old = text.replace("number 7", "numbers 7");
        let place = closest(&text, &old).remove(0);
        assert_eq!(place.text.lines().count(), MAX_SHOWN_LINES);
        assert!(place.text.lines().all(|line| line.chars().count() <= MAX_SHOWN_CHARS + 1));
        assert_eq!((place.first_line, place.last_line), (1, 40));
    }
}
