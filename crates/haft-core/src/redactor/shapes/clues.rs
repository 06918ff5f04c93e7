//! Whether there is anything to look at. Most texts hold no clue, and an automaton would take most of the time of a small
//! call to find that out (66 us for 50 KB, this 10 us). Here every second place of a text is asked whether two bytes are among
//! the first three of a pattern, at one look-up each, so that no pattern passes unseen; only the places where one may be are
//! compared.

use super::{NAMES, OTHER_CLUES, SHAPES};

const COUNT: usize = SHAPES.len() + NAMES.len() + OTHER_CLUES.len();

/// What is looked for, whatever its case.
const PATTERNS: [&[u8]; COUNT] = {
    let mut patterns: [&[u8]; COUNT] = [b""; COUNT];
    let mut at = 0;
    while at < SHAPES.len() {
        patterns[at] = SHAPES[at].prefix.as_bytes();
        at += 1;
    }
    let mut name = 0;
    while name < NAMES.len() {
        patterns[at] = NAMES[name].0.as_bytes();
        (at, name) = (at + 1, name + 1);
    }
    let mut other = 0;
    while other < OTHER_CLUES.len() {
        patterns[at] = OTHER_CLUES[other].0.as_bytes();
        (at, other) = (at + 1, other + 1);
    }
    patterns
};

/// Each has a bit below.
const _: () = assert!(COUNT <= 64);

/// For each of the first three bytes of a pattern: which patterns have this byte there.
static BYTES: [[u64; 256]; 3] = {
    let mut tables = [[0; 256]; 3];
    let mut at = 0;
    while at < COUNT {
        let mut place = 0;
        while place < 3 {
            let byte = PATTERNS[at][place];
            let bit = 1 << at;
            tables[place][byte.to_ascii_lowercase() as usize] |= bit;
            tables[place][byte.to_ascii_uppercase() as usize] |= bit;
            place += 1;
        }
        at += 1;
    }
    tables
};

/// How many bytes are asked about before anybody hears the answer.
const STRIDE: usize = 32;

/// For the first or second byte of a pattern: which bytes follow it in any. A bit stands for all bytes that end in the same
/// five bits, among them a letter in both cases; what is taken for a pattern too often is compared.
static PAIRS: [u32; 256] = {
    let mut rows = [0; 256];
    let mut at = 0;
    while at < COUNT {
        let mut place = 0;
        while place < 2 {
            let (byte, next) = (PATTERNS[at][place], PATTERNS[at][place + 1]);
            let bit = 1 << (next % 32);
            rows[byte.to_ascii_lowercase() as usize] |= bit;
            rows[byte.to_ascii_uppercase() as usize] |= bit;
            place += 1;
        }
        at += 1;
    }
    rows
};

/// Whether any pattern is in the text.
pub(super) fn are_in(text: &str) -> bool {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(window) = bytes.get(at..).and_then(<[u8]>::first_chunk::<{ STRIDE + 1 }>) {
        let mut seen: u32 = 0;
        for place in (0..STRIDE).step_by(2) {
            let is_pair = PAIRS[usize::from(window[place])] >> (window[place + 1] % 32) & 1;
            seen |= is_pair << place;
        }
        while seen != 0 {
            let place = at + seen.trailing_zeros() as usize;
            if begins(bytes, place) || begins(bytes, place.saturating_sub(1)) {
                return true;
            }
            seen &= seen - 1;
        }
        at += STRIDE;
    }
    // One that begins with the last byte before this would have been seen here.
    (at.saturating_sub(1)..bytes.len()).any(|place| begins(bytes, place))
}

/// Whether a pattern begins at this place.
fn begins(bytes: &[u8], place: usize) -> bool {
    let Some(rest @ [a, b, c, ..]) = bytes.get(place..) else { return false };
    let [first, second, third] = &BYTES;
    let fits = first[usize::from(*a)] & second[usize::from(*b)] & third[usize::from(*c)];
    fits != 0 && is_at(rest, fits)
}

/// Whether one of these patterns begins here.
fn is_at(rest: &[u8], mut fits: u64) -> bool {
    while fits != 0 {
        let pattern = PATTERNS[fits.trailing_zeros() as usize];
        if rest.get(..pattern.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(pattern)) {
            return true;
        }
        fits &= fits - 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_pattern_is_found_in_any_case_at_any_place() {
        for pattern in PATTERNS {
            let pattern = std::str::from_utf8(pattern).expect("all are text");
            for text in [pattern.to_owned(), pattern.to_uppercase(), pattern.to_lowercase()] {
                for (before, after) in [("", ""), ("ab ", " c"), ("s", "s"), ("ü", "ü")] {
                    assert!(are_in(&format!("{before}{text}{after}")), "{text}");
                }
                for place in 0..2 * STRIDE {
                    let before = "7".repeat(place);
                    assert!(are_in(&format!("{before}{text}")), "{text} at {place}");
                    assert!(are_in(&format!("{before}{text}{before}")), "{text} at {place}");
                }
            }
            let short = pattern.split_at(pattern.len() - 1).0;
            let lower = short.to_lowercase();
            let has = |other: &&[u8]| {
                let other = String::from_utf8_lossy(other).to_lowercase();
                lower.contains(&other)
            };
            assert_eq!(are_in(short), PATTERNS.iter().any(has), "{short}");
        }
        assert!(!are_in("") && !are_in("an ordinary line of text, 12 bytes"));
    }

    proptest! {
        #[test]
        fn what_it_finds_is_what_the_automaton_finds(text in "[ -~\\n]{0,80}|(sk-|tok|en|Pass|word|:|/|e|y|J){0,12}") {
            let (automaton, _) = &*super::super::SEARCH;
            prop_assert_eq!(are_in(&text), automaton.is_match(&text));
        }
    }
}
