//! A fast check whether a text may contain any pattern. Most texts contain none, and the automaton
//! would take most of the time of a small call to find that out (66 us for 50 KB; this check 10
//! us). It tests at every second byte, with one lookup each, whether two bytes are among the first
//! three of a pattern, so no pattern is missed. Only the matching places are compared.

use super::{KEY_FORMATS, NAMES, OTHER_PATTERNS};

const COUNT: usize = KEY_FORMATS.len() + NAMES.len() + OTHER_PATTERNS.len();

/// All patterns; compared without regard to case.
const PATTERNS: [&[u8]; COUNT] = {
    let mut patterns: [&[u8]; COUNT] = [b""; COUNT];
    let mut at = 0;
    while at < KEY_FORMATS.len() {
        patterns[at] = KEY_FORMATS[at].prefix.as_bytes();
        at += 1;
    }
    let mut name = 0;
    while name < NAMES.len() {
        patterns[at] = NAMES[name].0.as_bytes();
        (at, name) = (at + 1, name + 1);
    }
    let mut other = 0;
    while other < OTHER_PATTERNS.len() {
        patterns[at] = OTHER_PATTERNS[other].0.as_bytes();
        (at, other) = (at + 1, other + 1);
    }
    patterns
};

/// The bit masks below have one bit for each pattern.
const _: () = assert!(COUNT <= 64);

/// For each of the first three bytes of a pattern: the patterns with this byte at this position.
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

/// Number of bytes tested before the results are examined.
const STRIDE: usize = 32;

/// For the first or second byte of a pattern: the bytes that follow it in any pattern. A bit stands
/// for all bytes with the same five low bits, among them a letter in both cases; false positives
/// are compared afterwards.
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

/// Returns true if any pattern occurs in the text.
pub(super) fn has_pattern(text: &str) -> bool {
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
    // A pattern that begins with the last byte before this would have been found above.
    (at.saturating_sub(1)..bytes.len()).any(|place| begins(bytes, place))
}

/// Returns true if a pattern begins at this position.
fn begins(bytes: &[u8], place: usize) -> bool {
    let Some(rest @ [a, b, c, ..]) = bytes.get(place..) else { return false };
    let [first, second, third] = &BYTES;
    let fits = first[usize::from(*a)] & second[usize::from(*b)] & third[usize::from(*c)];
    fits != 0 && is_at(rest, fits)
}

/// Returns true if one of these patterns begins here.
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
                    assert!(has_pattern(&format!("{before}{text}{after}")), "{text}");
                }
                for place in 0..2 * STRIDE {
                    let before = "7".repeat(place);
                    assert!(has_pattern(&format!("{before}{text}")), "{text} at {place}");
                    assert!(has_pattern(&format!("{before}{text}{before}")), "{text} at {place}");
                }
            }
            let short = pattern.split_at(pattern.len() - 1).0;
            let lower = short.to_lowercase();
            let has = |other: &&[u8]| {
                let other = String::from_utf8_lossy(other).to_lowercase();
                lower.contains(&other)
            };
            assert_eq!(has_pattern(short), PATTERNS.iter().any(has), "{short}");
        }
        assert!(!has_pattern("") && !has_pattern("an ordinary line of text, 12 bytes"));
    }

    proptest! {
        #[test]
        fn what_it_finds_is_what_the_automaton_finds(text in "[ -~\\n]{0,80}|(sk-|tok|en|Pass|word|:|/|e|y|J){0,12}") {
            let (automaton, _) = &*super::super::SEARCH;
            prop_assert_eq!(has_pattern(&text), automaton.is_match(&text));
        }
    }
}
