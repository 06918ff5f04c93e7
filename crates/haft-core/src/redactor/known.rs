//! Known secrets in every form that they may have in a text.

use std::{borrow::Cow, sync::OnceLock};

use aho_corasick::{AhoCorasick, Input, MatchKind};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::Value;

use super::{Rewrite, marker, patterns::kinds};

/// The known secrets and their search automaton.
#[derive(Default)]
pub(super) struct KnownSecrets {
    secrets: Vec<(String, String)>,
    search: OnceLock<KnownSearch>,
}

struct KnownSearch {
    automaton: AhoCorasick,
    /// The search patterns that are replaced.
    forms: Vec<String>,
    /// The replacement by pattern. `None` for a marker, which must not change: a value such as
    /// "password" may be part of one.
    markers: Vec<Option<String>>,
}

impl KnownSecrets {
    pub(super) fn new(secrets: Vec<(String, String)>) -> Self {
        Self { secrets, search: OnceLock::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.secrets.len()
    }

    /// Returns these secrets and `more`.
    pub(super) fn with(&self, more: impl IntoIterator<Item = (String, String)>) -> Self {
        Self::new(self.secrets.iter().cloned().chain(more).collect())
    }

    /// Number of bytes at the end of a text that may be the beginning of a secret that continues in
    /// the next piece.
    pub(super) fn unfinished(&self, text: &str) -> usize {
        if self.secrets.is_empty() {
            return 0;
        }
        let search = self.search.get_or_init(|| self.build());
        // A complete match is replaced as it is, even if another secret could begin in it.
        let whole = search.automaton.find_iter(text).last().map_or(0, |found| found.end());
        let longest = search.automaton.max_pattern_len().saturating_sub(1).min(text.len() - whole);
        let is_begun = |held: &usize| {
            let tail = text.get(text.len() - held..).unwrap_or_default();
            !tail.is_empty() && search.forms.iter().any(|form| form.starts_with(tail))
        };
        (1..=longest).rev().find(is_begun).unwrap_or_default()
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
                // Only matches within the marker are protected: a secret may begin in it and end
                // behind it.
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
        let forms = patterns.clone();
        let mut protected: Vec<String> = markers.iter().flatten().cloned().collect();
        protected.extend(kinds().map(marker));
        protected.retain(|marker| patterns.iter().any(|form| marker.contains(form)));
        markers.extend(std::iter::repeat_n(None, protected.len()));
        patterns.extend(protected);
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(patterns)
            .expect("secrets stay far below the automaton's limit of two billion states");
        KnownSearch { automaton, forms, markers }
    }

    /// The marker of a secret: its number if its name would reveal a value.
    fn marker(&self, idx: usize) -> String {
        let safe = |c: char| if c.is_alphanumeric() || "_-.".contains(c) { c } else { '_' };
        let name: String = self.secrets[idx].0.chars().map(safe).collect();
        let reveals = |(_, value): &(String, String)| name.contains(value.trim());
        if name.is_empty() || self.secrets.iter().any(reveals) {
            format!("[secret:{}]", idx + 1)
        } else {
            format!("[secret:{name}]")
        }
    }
}

/// All forms of a value that may occur in a text.
pub(super) fn forms(value: &str) -> Vec<String> {
    let quoted = Value::from(value).to_string();
    let escaped = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let padded = BASE64_STANDARD.encode(value);
    let mut forms = vec![
        value.to_owned(),
        escaped.unwrap_or(value).to_owned(),
        padded.trim_end_matches('=').to_owned(),
        padded,
        percent_encoded(value, |byte| format!("%{byte:02X}")),
        percent_encoded(value, |byte| format!("%{byte:02x}")),
    ];
    forms.extend(further_forms(value));
    let mut known = std::collections::HashSet::new();
    forms.retain(|form| known.insert(form.clone()));
    forms
}

/// Further forms that programs write: for URLs, in lines, in hexadecimal digits, and after a user
/// name as in `Basic` authorization, where only the letters that depend on the value alone are
/// known.
fn further_forms(value: &str) -> Vec<String> {
    let padded = BASE64_STANDARD.encode(value);
    let hex: String = value.bytes().map(|byte| format!("{byte:02x}")).collect();
    let mut forms = vec![hex.to_ascii_uppercase(), hex];
    for skipped in [1, 2] {
        let inner = value.as_bytes().get(skipped..).unwrap_or_default();
        let inner = inner.get(..inner.len() / 3 * 3).unwrap_or_default();
        let inner = BASE64_STANDARD.encode(inner);
        if inner.len() >= MIN_INNER_CHARS {
            forms.push(inner);
        }
    }
    if padded.len() > BASE64_LINE_CHARS {
        let lines = padded.as_bytes().chunks(BASE64_LINE_CHARS).map(String::from_utf8_lossy);
        forms.push(lines.collect::<Vec<_>>().join("\n"));
    }
    let for_addresses: Vec<String> = forms
        .iter()
        .chain([&padded])
        .map(|form| form.replace('+', "-").replace('/', "_"))
        .collect();
    forms.extend(for_addresses.iter().map(|form| form.trim_end_matches('=').to_owned()));
    forms
}

/// Shorter runs of letters occur by chance.
const MIN_INNER_CHARS: usize = 12;
/// Line length of the `base64` program.
const BASE64_LINE_CHARS: usize = 76;

fn percent_encoded(value: &str, escape: impl Fn(u8) -> String) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let encode = |byte| if is_plain(byte) { char::from(byte).to_string() } else { escape(byte) };
    value.bytes().map(encode).collect()
}
