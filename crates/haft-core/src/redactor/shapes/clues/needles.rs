//! Clues by needles: three bytes and more of every pattern, sixty-three in all, which processors of our day look for at sixteen
//! places at once. Three times as fast as a look-up for every second byte. But it takes as long to prepare as to look through
//! a hundred thousand bytes the other way, so a process that shows a few texts is spared it.

use std::sync::{
    OnceLock,
    atomic::{AtomicUsize, Ordering},
};

use aho_corasick::{Span, packed::Searcher};

use super::{PATTERNS, begins};

/// In shorter texts a look-up for every second byte is as fast.
const LEAST: usize = 128;
/// So many bytes are looked through before it pays.
const PAYS: usize = 256 << 10;

/// One in each pattern that counts in any case, besides `-----BEGIN `.
const FOLDED: [&str; 5] = ["ssw", "cre", "tok", "key", "aut"];
/// One in every other pattern. Their order is that of the searcher's sixteen buckets, of which the first five are for those
/// above: two that are below each other share one, and a place that begins like a mixture of both is compared in vain. In
/// sources and prose there are hardly any such mixtures of these (a place in thirty thousand).
const EXACT: [[&str; 11]; 2] = [
    ["gho_", "eyJ", "npm_", "hf_", "b_pat_", "://", "ASIA", BEGIN[0], "AKIA", "ghp_", "ghr_"],
    ["ghs_", "AIza", "SG.", "xox", "glpat-", "k_live_", "ya29.", "sk-", "pypi-", "dop_", "ghu_"],
];
const BEGIN: [&str; 2] = ["--B", "--b"];

/// The search for all needles.
pub(super) struct Needles {
    searcher: Searcher,
    /// By needle: a bit for each number of bytes that a pattern has before it, such as `private_` before `key`.
    depths: Vec<u16>,
}

static SEARCH: OnceLock<Option<Needles>> = OnceLock::new();
/// Bytes of texts until then.
static SEEN: AtomicUsize = AtomicUsize::new(0);

/// What to look through a text of this length with, if that is worth while and the processor can do it.
pub(super) fn search(length: usize) -> Option<&'static Needles> {
    if length < LEAST {
        return None;
    }
    if let Some(search) = SEARCH.get() {
        return search.as_ref();
    }
    let seen = SEEN.fetch_add(length, Ordering::Relaxed);
    if seen < PAYS { None } else { SEARCH.get_or_init(build).as_ref() }
}

/// None where there are no sixteen buckets: with half of them mixtures are too many.
fn build() -> Option<Needles> {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        return Needles::new();
    }
    None
}

impl Needles {
    fn new() -> Option<Self> {
        let depths = needles().map(|needle| depths(&needle)).collect();
        Some(Self { searcher: Searcher::new(needles())?, depths })
    }

    /// Whether a pattern is around any needle.
    pub(super) fn are_in(&self, bytes: &[u8]) -> bool {
        let mut span = Span { start: 0, end: bytes.len() };
        while let Some(found) = self.searcher.find_in(bytes, span) {
            let mut depths = self.depths[found.pattern()];
            while depths != 0 {
                let place = found.start().checked_sub(depths.trailing_zeros() as usize);
                if place.is_some_and(|place| begins(bytes, place)) {
                    return true;
                }
                depths &= depths - 1;
            }
            span.start = found.start() + 1;
        }
        false
    }
}

fn depths(needle: &[u8]) -> u16 {
    let windows = PATTERNS.iter().flat_map(|pattern| pattern.windows(needle.len()).enumerate());
    let within = windows.filter(|(_, window)| window.eq_ignore_ascii_case(needle));
    within.fold(0, |all, (depth, _)| all | 1 << depth)
}

fn needles() -> impl Iterator<Item = Vec<u8>> {
    const LOWER: u8 = 0b000;
    const UPPER: u8 = 0b111;
    let folded = |cases: u8| FOLDED.iter().map(move |needle| cased(needle, cases));
    let exact = |row: usize| EXACT[row].iter().map(|needle| needle.as_bytes().to_vec());
    let rows = folded(LOWER).chain(exact(0)).chain(folded(UPPER)).chain(exact(1));
    // These go where the same letters in another case are.
    rows.chain([BEGIN[1].into()]).chain((LOWER + 1..UPPER).flat_map(folded))
}

/// Three letters, each in upper case whose bit is set.
fn cased(needle: &str, cases: u8) -> Vec<u8> {
    let one = |(at, byte): (usize, u8)| match cases >> at & 1 {
        0 => byte,
        _ => byte.to_ascii_uppercase(),
    };
    needle.bytes().enumerate().map(one).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::patterns_are_in, *};
    use crate::redactor::shapes::{SHAPES, replace_found};

    /// What must be found: keys and JWT as they are written, all else in any case.
    fn is_needed(text: &str) -> bool {
        let lower = text.to_ascii_lowercase();
        let exact = |pattern: &&[u8]| {
            let keys = SHAPES.iter().map(|shape| shape.prefix.as_bytes()).chain([&b"eyJ"[..]]);
            keys.into_iter().any(|key| key == *pattern)
        };
        PATTERNS.iter().any(|pattern| {
            let known = std::str::from_utf8(pattern).expect("all are text");
            match exact(pattern) {
                true => text.contains(known),
                false => lower.contains(&known.to_ascii_lowercase()),
            }
        })
    }

    #[test]
    fn no_more_needles_than_a_searcher_takes() {
        let all: Vec<Vec<u8>> = needles().collect();
        assert_eq!(all.len(), 8 * FOLDED.len() + 23);
        assert!(all.len() <= 64 && all.iter().all(|needle| needle.len() >= 3));
    }

    #[test]
    fn every_pattern_is_found_at_any_place() {
        let Some(search) = Needles::new() else { return };
        for pattern in PATTERNS {
            let pattern = std::str::from_utf8(pattern).expect("all are text");
            for text in [pattern.to_owned(), pattern.to_uppercase(), pattern.to_lowercase()] {
                for place in 0..70 {
                    let (before, after) = ("7".repeat(place), "7".repeat(70 - place));
                    for text in [format!("{before}{text}"), format!("{before}{text}{after}")] {
                        assert!(search.are_in(text.as_bytes()) || !is_needed(&text), "{text}");
                    }
                }
            }
        }
        assert!(!search.are_in("an ordinary line of text, made of words ".repeat(9).as_bytes()));
    }

    /// Pieces of patterns that meet in every way.
    fn any_text() -> impl Strategy<Value = String> {
        let mut pieces: Vec<String> = Vec::new();
        for pattern in PATTERNS {
            let pattern = std::str::from_utf8(pattern).expect("all are text");
            let (begin, end) = pattern.split_at(pattern.len() / 2);
            for piece in [pattern, begin, end] {
                pieces.extend([piece.to_owned(), piece.to_uppercase(), piece.to_lowercase()]);
            }
        }
        let piece = prop_oneof![
            4 => prop::sample::select(pieces),
            4 => "[a-zA-Z0-9 :/_.=-]{0,12}",
            1 => Just("PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEA".to_owned()),
            1 => Just("A1b2C3d4E5f6G7h8J9k0L1m2N3o4P5q6R7s8T9u0".to_owned()),
            1 => any::<String>(),
        ];
        prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn nothing_is_missed_that_the_look_ups_or_the_automaton_find(text in any_text()) {
            let Some(search) = Needles::new() else { return Ok(()) };
            let is_found = search.are_in(text.as_bytes());
            prop_assert!(is_found || !is_needed(&text), "{}", text);
            prop_assert!(patterns_are_in(&text) || !is_found, "{}", text);
            if !is_found {
                prop_assert_eq!(replace_found(&text), text.as_str());
            }
        }

        #[test]
        fn any_case_of_a_name_is_found(
            name in prop::sample::select(PATTERNS.to_vec()), cases: u32, before in "[ -~]{0,40}", after in "[ -~]{0,40}",
        ) {
            let Some(search) = Needles::new() else { return Ok(()) };
            let letters = name.iter().enumerate().map(|(at, byte)| match cases >> at & 1 {
                0 => byte.to_ascii_lowercase(),
                _ => byte.to_ascii_uppercase(),
            });
            let name: String = letters.map(char::from).collect();
            let text = format!("{before}{name}{after}");
            prop_assert!(search.are_in(text.as_bytes()) || !is_needed(&text), "{}", text);
        }
    }
}
