//! The secrets we were told, in every form they may stand in a text.

use std::{borrow::Cow, sync::OnceLock};

use aho_corasick::{AhoCorasick, Input, MatchKind};
use serde_json::Value;

use super::{Rewrite, marker, shapes::kinds};

/// The secrets we were told, and the search for them.
#[derive(Default)]
pub(super) struct Known {
    secrets: Vec<(String, String)>,
    search: OnceLock<KnownSearch>,
}

struct KnownSearch {
    automaton: AhoCorasick,
    /// By pattern: what replaces it. `None` for a marker, which is searched to be left alone, since
    /// a value such as "password" may be part of one.
    markers: Vec<Option<String>>,
}

impl Known {
    pub(super) fn new(secrets: Vec<(String, String)>) -> Self {
        Self { secrets, search: OnceLock::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.secrets.len()
    }

    pub(super) fn replace<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.secrets.is_empty() {
            return Cow::Borrowed(text);
        }
        let search = self.search.get_or_init(|| self.build());
        let mut rewrite = Rewrite::new(text);
        let mut at = 0;
        let mut protected = 0..0;
        while let Some(found) = search.automaton.find(Input::new(text).range(at..)) {
            at = found.start() + 1;
            match &search.markers[found.pattern()] {
                // Only what lies within is protected. A secret may begin in here and end behind.
                None => protected = found.range(),
                Some(_) if protected.contains(&found.start()) && found.end() <= protected.end => {}
                Some(marker) => {
                    rewrite.replace(found.range(), marker);
                    at = found.end();
                }
            }
        }
        rewrite.finish()
    }

    fn build(&self) -> KnownSearch {
        let mut patterns = Vec::new();
        let mut markers = Vec::new();
        for (idx, (_, value)) in self.secrets.iter().enumerate() {
            let forms = forms(value.trim());
            markers.extend(std::iter::repeat_n(Some(self.marker(idx)), forms.len()));
            patterns.extend(forms);
        }
        let mut protected: Vec<String> = markers.iter().flatten().cloned().collect();
        protected.extend(kinds().map(marker));
        protected.retain(|marker| patterns.iter().any(|form| marker.contains(form)));
        markers.extend(std::iter::repeat_n(None, protected.len()));
        patterns.extend(protected);
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(patterns)
            .expect("secrets stay far below the automaton's limit of two billion states");
        KnownSearch { automaton, markers }
    }

    /// Names a secret by its number if its name would give one away.
    fn marker(&self, idx: usize) -> String {
        let tame = |c: char| if c.is_alphanumeric() || "_-.".contains(c) { c } else { '_' };
        let name: String = self.secrets[idx].0.chars().map(tame).collect();
        let tells = |(_, value): &(String, String)| name.contains(value.trim());
        if name.is_empty() || self.secrets.iter().any(tells) {
            format!("[secret:{}]", idx + 1)
        } else {
            format!("[secret:{name}]")
        }
    }
}

/// A value as it may stand in a text.
pub(super) fn forms(value: &str) -> [String; 6] {
    let quoted = Value::from(value).to_string();
    let escaped = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let padded = base64(value.as_bytes());
    [
        value.to_owned(),
        escaped.unwrap_or(value).to_owned(),
        padded.trim_end_matches('=').to_owned(),
        padded,
        percent_encoded(value, b"0123456789ABCDEF"),
        percent_encoded(value, b"0123456789abcdef"),
    ]
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut encoded = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |idx: usize| usize::from(chunk.get(idx).copied().unwrap_or(0));
        let group = byte(0) << 16 | byte(1) << 8 | byte(2);
        for (idx, shift) in [18, 12, 6, 0].into_iter().enumerate() {
            let padding = idx > chunk.len();
            encoded.push(if padding { '=' } else { char::from(DIGITS[group >> shift & 63]) });
        }
    }
    encoded
}

fn percent_encoded(value: &str, hex: &[u8; 16]) -> String {
    let mut encoded = String::new();
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let digit = |nibble: u8| char::from(hex[usize::from(nibble)]);
            encoded.extend(['%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
    encoded
}
