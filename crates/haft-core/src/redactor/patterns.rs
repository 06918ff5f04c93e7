//! Patterns of unknown secrets: keys with known prefixes, and random values assigned to names such
//! as `password`.

mod prefilter;

use std::{borrow::Cow, ops::Range, sync::LazyLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use super::{
    Rewrite, marker,
    randomness::{MIN_ASSIGNED_BYTES, examined, has_digit, is_random},
};

/// A key format with a fixed prefix.
pub(super) struct KeyFormat {
    pub(super) prefix: &'static str,
    pub(super) chars: Chars,
    /// Minimum number of characters after the prefix.
    pub(super) min_chars: usize,
    pub(super) kind: &'static str,
}

const fn key_format(
    prefix: &'static str,
    chars: Chars,
    min_chars: usize,
    kind: &'static str,
) -> KeyFormat {
    KeyFormat { prefix, chars, min_chars, kind }
}

pub(super) const KEY_FORMATS: &[KeyFormat] = &[
    key_format("sk-ant-", Chars::Url, 20, "anthropic-key"),
    key_format("sk-proj-", Chars::Url, 20, "openai-key"),
    key_format("sk-or-v1-", Chars::Alnum, 32, "openrouter-key"),
    key_format("sk-", Chars::Alnum, 32, "api-key"),
    key_format("ghp_", Chars::Alnum, 36, "github-token"),
    key_format("gho_", Chars::Alnum, 36, "github-token"),
    key_format("ghu_", Chars::Alnum, 36, "github-token"),
    key_format("ghs_", Chars::Alnum, 36, "github-token"),
    key_format("ghr_", Chars::Alnum, 36, "github-token"),
    key_format("github_pat_", Chars::Url, 36, "github-token"),
    key_format("glpat-", Chars::Url, 20, "gitlab-token"),
    key_format("xoxb-", Chars::Url, 20, "slack-token"),
    key_format("xoxp-", Chars::Url, 20, "slack-token"),
    key_format("xoxa-", Chars::Url, 20, "slack-token"),
    key_format("xoxs-", Chars::Url, 20, "slack-token"),
    key_format("AKIA", Chars::Upper, 16, "aws-key"),
    key_format("ASIA", Chars::Upper, 16, "aws-key"),
    key_format("AIza", Chars::Url, 35, "google-key"),
    key_format("ya29.", Chars::Dotted, 20, "google-token"),
    key_format("npm_", Chars::Alnum, 36, "npm-token"),
    key_format("pypi-", Chars::Url, 50, "pypi-token"),
    key_format("hf_", Chars::Alnum, 34, "huggingface-token"),
    key_format("SG.", Chars::Dotted, 60, "sendgrid-key"),
    key_format("rk_live_", Chars::Alnum, 20, "stripe-key"),
    key_format("sk_live_", Chars::Alnum, 20, "stripe-key"),
    key_format("dop_v1_", Chars::Alnum, 60, "digitalocean-token"),
];

/// Endings of names whose values are secrets, and the kind for the marker.
const NAMES: &[(&str, &str)] = &[
    ("password", "password"),
    ("passwd", "passwd"),
    ("secret", "secret"),
    ("client_secret", "client_secret"),
    ("token", "token"),
    ("api_key", "api_key"),
    ("api-key", "api_key"),
    ("apikey", "api_key"),
    ("access_key", "access_key"),
    ("access-key", "access_key"),
    ("accesskey", "access_key"),
    ("private_key", "private_key"),
    ("private-key", "private_key"),
    ("privatekey", "private_key"),
    ("auth", "auth"),
    ("credential", "credential"),
    ("credentials", "credential"),
];

/// Pagination tokens: a model must send them back to read on.
const PAGING: &[&str] = &["page", "next", "continuation", "cursor", "sync"];

const AUTHORIZATION: &str = "authorization";
const JWT: &str = "jwt";
const PRIVATE_KEY: &str = "private-key";
const URL_PASSWORD: &str = "url-password";

/// All kinds that a marker may name.
pub(super) fn kinds() -> impl Iterator<Item = &'static str> {
    let shapes = KEY_FORMATS.iter().map(|shape| shape.kind);
    let names = NAMES.iter().map(|&(_, kind)| kind);
    shapes.chain(names).chain([AUTHORIZATION, JWT, PRIVATE_KEY, URL_PASSWORD])
}

/// The pattern found by the search.
#[derive(Clone, Copy)]
enum PatternKind {
    KeyFormat(&'static KeyFormat),
    Name(&'static str),
    Authorization,
    Jwt,
    PrivateKey,
    Url,
    /// haft's own `[secret:`, which must not be taken for an assignment.
    Marker,
}

const OTHER_PATTERNS: &[(&str, PatternKind)] = &[
    (AUTHORIZATION, PatternKind::Authorization),
    ("eyJ", PatternKind::Jwt),
    ("-----BEGIN ", PatternKind::PrivateKey),
    ("://", PatternKind::Url),
    ("[secret:", PatternKind::Marker),
];

/// Shared by all redactors of the process; built when the first pattern occurs.
static SEARCH: LazyLock<(AhoCorasick, Vec<PatternKind>)> = LazyLock::new(build_search);

fn patterns() -> impl Iterator<Item = (&'static str, PatternKind)> {
    let shapes = KEY_FORMATS.iter().map(|shape| (shape.prefix, PatternKind::KeyFormat(shape)));
    let names = NAMES.iter().map(|&(name, kind)| (name, PatternKind::Name(kind)));
    shapes.chain(names).chain(OTHER_PATTERNS.iter().copied())
}

fn build_search() -> (AhoCorasick, Vec<PatternKind>) {
    let (patterns, kinds_by_pattern): (Vec<_>, Vec<_>) = patterns().unzip();
    let automaton = AhoCorasick::builder()
        .match_kind(MatchKind::LeftmostLongest)
        // For the names; prefixes are compared exactly afterwards.
        .ascii_case_insensitive(true)
        // Takes half the time of the default to build, and is as fast on real text.
        .kind(Some(AhoCorasickKind::ContiguousNFA))
        .build(patterns)
        .expect("the tables above are small");
    (automaton, kinds_by_pattern)
}

/// Replaces everything that has the format of a secret.
pub(super) fn replace(text: &str) -> Cow<'_, str> {
    if !prefilter::has_pattern(text) {
        return Cow::Borrowed(text);
    }
    let (automaton, kinds_by_pattern) = &*SEARCH;
    let mut scan =
        Scanner { bytes: text.as_bytes(), last_runs: Default::default(), replaced_to: 0 };
    let mut rewrite = Rewrite::new(text);
    // A match may point ahead, from `://` to the password, with a key in between, as the user.
    let mut ahead: Option<SecretRange> = None;
    for found in automaton.find_iter(text) {
        if let Some((range, kind)) = ahead.take_if(|(range, _)| range.start <= found.start()) {
            scan.replaced_to = range.end;
            rewrite.replace(range, &marker(kind));
        }
        if found.start() < scan.replaced_to {
            continue;
        }
        let finding = scan.judge(kinds_by_pattern[found.pattern()], found.range());
        match (finding, &ahead) {
            (finding, None) => ahead = finding,
            (Some((range, kind)), Some((later, _))) if range.end <= later.start => {
                scan.replaced_to = range.end;
                rewrite.replace(range, &marker(kind));
            }
            _ => {}
        }
    }
    if let Some((range, kind)) = ahead {
        rewrite.replace(range, &marker(kind));
    }
    rewrite.finish()
}

/// The bytes of a token. All are ASCII, and none is the `[` of a marker.
#[derive(Clone, Copy)]
pub(super) enum Chars {
    Alnum,
    Upper,
    Url,
    Dotted,
    Assigned,
}

impl Chars {
    fn has(self, byte: u8) -> bool {
        match self {
            Self::Alnum => byte.is_ascii_alphanumeric(),
            Self::Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Self::Url => byte.is_ascii_alphanumeric() || b"_-".contains(&byte),
            Self::Dotted => byte.is_ascii_alphanumeric() || b"_-.".contains(&byte),
            Self::Assigned => byte.is_ascii_alphanumeric() || b"_+/=.~-".contains(&byte),
        }
    }
}

type SecretRange = (Range<usize>, &'static str);

/// Examines the text around the matches. Working on bytes is fine, because all relevant characters
/// are ASCII.
struct Scanner<'a> {
    bytes: &'a [u8],
    /// The last run of each kind of `Chars`. Without it, nested candidates such as `SG.SG.SG.`
    /// would each scan to the end.
    last_runs: [Range<usize>; 5],
    /// The end of the last replaced range.
    replaced_to: usize,
}

impl Scanner<'_> {
    fn judge(&mut self, kind: PatternKind, found: Range<usize>) -> Option<SecretRange> {
        match kind {
            PatternKind::KeyFormat(shape) => self.key_format(shape, found),
            PatternKind::Name(kind) => self.assignment(kind, found),
            PatternKind::Authorization => self.authorization(found),
            PatternKind::Jwt => self.jwt(found),
            PatternKind::PrivateKey => self.private_key(found),
            PatternKind::Url => self.url_password(found.end),
            PatternKind::Marker => None,
        }
    }

    fn key_format(&mut self, shape: &KeyFormat, found: Range<usize>) -> Option<SecretRange> {
        if self.bytes[found.clone()] != *shape.prefix.as_bytes() || !self.starts_token(found.start)
        {
            return None;
        }
        let end = self.run_end(found.end, shape.chars);
        let body = &self.bytes[found.end..end];
        // Full stops at the end belong to the sentence.
        let n_stops = body.iter().rev().take(3).take_while(|&&byte| byte == b'.').count();
        let length = body.len() - n_stops;
        let fits = match shape.chars {
            // So short and plain that only the exact length distinguishes it from a word in
            // capitals.
            Chars::Upper => length == shape.min_chars && !self.is_word_at(end),
            // A random value of this length has a digit with 99.6 % probability; names often have
            // none.
            _ if shape.min_chars >= 32 => length >= shape.min_chars && has_digit(examined(body)),
            _ => length >= shape.min_chars && !examined(body).iter().all(is_lowercase_or_dash),
        };
        fits.then_some((found.start..found.end + length, shape.kind))
    }

    /// `name = value`, `"name": "value"`, `name => value` and similar.
    fn assignment(&mut self, kind: &'static str, name: Range<usize>) -> Option<SecretRange> {
        if is_paging(kind, &self.bytes[..name.start]) {
            return None;
        }
        let start = self.skip_assignment(name.end)?;
        let end = self.run_end(start, Chars::Assigned);
        // A value that continues like this is a call, an index, a template or a generic type.
        let goes_on = self.bytes.get(end).is_some_and(|next| b"([{<$".contains(next));
        (!goes_on && is_random(&self.bytes[start..end])).then_some((start..end, kind))
    }

    /// `Authorization: Bearer …`, and Basic and Token.
    fn authorization(&mut self, name: Range<usize>) -> Option<SecretRange> {
        let scheme = self.skip_assignment(name.end)?;
        let scheme_end = self.run_end(scheme, Chars::Alnum);
        let known = [&b"bearer"[..], b"basic", b"token"];
        if !known.iter().any(|known| self.bytes[scheme..scheme_end].eq_ignore_ascii_case(known)) {
            return self.assignment(AUTHORIZATION, name);
        }
        let start = self.skip_spaces(scheme_end);
        let end = self.run_end(start, Chars::Assigned);
        let token = examined(&self.bytes[start..end]);
        (token.len() >= MIN_ASSIGNED_BYTES && has_digit(token))
            .then_some((start..end, AUTHORIZATION))
    }

    /// Three parts of base64; the first begins with `{"`.
    fn jwt(&mut self, found: Range<usize>) -> Option<SecretRange> {
        if self.bytes[found.clone()] != *b"eyJ" || !self.starts_token(found.start) {
            return None;
        }
        let mut end = found.start;
        for n_parts in 0..3 {
            if n_parts > 0 {
                end += self.bytes[end..].strip_prefix(b".").map(|_| 1)?;
            }
            let start = end;
            end = self.run_end(start, Chars::Url);
            if end - start < 8 {
                return None;
            }
        }
        Some((found.start..end, JWT))
    }

    /// From BEGIN to END, or to the end of an incomplete text.
    fn private_key(&self, found: Range<usize>) -> Option<SecretRange> {
        let label_end = found.end + count(&self.bytes[found.end..], is_label);
        let label = &self.bytes[found.end..label_end];
        if !label.ends_with(b"PRIVATE KEY") && !label.ends_with(b"PRIVATE KEY BLOCK") {
            return None;
        }
        let rest = self.bytes[label_end..].strip_prefix(b"-----")?;
        let body_end = (0..rest.len())
            .find(|&idx| rest[idx..].starts_with(b"--") || !is_in_key(rest[idx]))
            .unwrap_or(rest.len());
        let (body, last_line) = rest.split_at(body_end);
        // Code and prose that only mention the BEGIN line have no line of base64 after it.
        if !body.split(|&byte| !is_base64(byte)).any(|line| line.len() >= 32) {
            return None;
        }
        let last_line = &last_line[count(last_line, |byte| byte == b'-')..];
        let after = match last_line.strip_prefix(b"END ") {
            Some(label) => {
                let dashes = &label[count(label, is_label)..];
                // At most five: another BEGIN may follow without a line break.
                dashes.strip_prefix(b"-----").unwrap_or(dashes)
            }
            None if b"END ".starts_with(last_line) => &[],
            None => return None,
        };
        Some((found.start..self.bytes.len() - after.len(), PRIVATE_KEY))
    }

    /// The password of `scheme://user:password@host`.
    fn url_password(&self, start: usize) -> Option<SecretRange> {
        let rest = &self.bytes[start..];
        let authority = count(rest, |byte| !ends_authority(byte));
        let at = rest[..authority].iter().rposition(|&byte| byte == b'@')?;
        let mut in_marker = false;
        let colon = rest[..at].iter().position(|byte| {
            in_marker = (in_marker || *byte == b'[') && *byte != b']';
            *byte == b':' && !in_marker
        })?;
        let password = &rest[colon + 1..at];
        let marked = contains(&rest[..at], b"[redacted:") || contains(password, b"[secret:");
        // A container image, `docker://alpine:3@sha256:…`.
        let digest = rest[at..].starts_with(b"@sha256:");
        let range = start + colon + 1..start + at;
        (!is_template(password) && !marked && !digest).then_some((range, URL_PASSWORD))
    }

    /// The start of the value: after quotes, spaces and one `=`, `:`, `:=` or `=>`.
    fn skip_assignment(&self, name_end: usize) -> Option<usize> {
        let sign = self.skip_spaces(self.skip_quote(name_end));
        let rest = self.bytes.get(sign..)?;
        let length = match rest {
            [b'=', b'>', ..] | [b':', b'=', ..] => 2,
            [b'=' | b':', ..] => 1,
            _ => return None,
        };
        Some(self.skip_quote(self.skip_spaces(sign + length)))
    }

    /// Skips one quote, with the backslashes of JSON inside JSON.
    fn skip_quote(&self, at: usize) -> usize {
        let quote = at + count(&self.bytes[at..], |byte| byte == b'\\');
        if self.bytes.get(quote).is_some_and(|byte| b"\"'`".contains(byte)) {
            quote + 1
        } else {
            at
        }
    }

    fn skip_spaces(&self, at: usize) -> usize {
        at + count(&self.bytes[at..], |byte| byte == b' ' || byte == b'\t')
    }

    /// Returns true if no part of a name precedes the token. The `n` of an escaped line break does
    /// not count.
    fn starts_token(&self, start: usize) -> bool {
        match self.bytes[..start] {
            // The marker, not the text it replaced, decides: otherwise redacting twice would find
            // more.
            _ if start == self.replaced_to => true,
            [.., b'\\', b'n' | b'r' | b't'] => true,
            [.., before] => !Chars::Url.has(before),
            [] => true,
        }
    }

    fn is_word_at(&self, at: usize) -> bool {
        self.bytes.get(at).is_some_and(|&byte| byte.is_ascii_alphanumeric() || byte == b'_')
    }

    fn run_end(&mut self, from: usize, chars: Chars) -> usize {
        let last = &mut self.last_runs[chars as usize];
        if !last.contains(&from) {
            *last = from..from + count(&self.bytes[from..], |byte| chars.has(byte));
        }
        last.end
    }
}

/// The kind of secret in a member, judged by its key and its whole value.
pub(super) fn assigned_kind(key: &str, value: &str) -> Option<&'static str> {
    let (key, value) = (key.as_bytes(), value.as_bytes());
    // Most values are words.
    if value.len() < MIN_ASSIGNED_BYTES {
        return None;
    }
    let ends_key = |name: &str| {
        let start = key.len().checked_sub(name.len())?;
        key[start..].eq_ignore_ascii_case(name.as_bytes()).then_some(start)
    };
    let found = NAMES.iter().filter_map(|&(name, kind)| Some((ends_key(name)?, kind))).min()?;
    let (start, kind) = found;
    let whole = value.iter().all(|&byte| Chars::Assigned.has(byte));
    (whole && !is_paging(kind, &key[..start]) && is_random(value)).then_some(kind)
}

fn is_paging(kind: &str, before: &[u8]) -> bool {
    let before = match before {
        [before @ .., b'_' | b'-' | b' '] => before,
        _ => before,
    };
    let ends = |word: &str| {
        let start = before.len().checked_sub(word.len());
        start.is_some_and(|start| before[start..].eq_ignore_ascii_case(word.as_bytes()))
    };
    kind == "token" && PAGING.iter().any(|word| ends(word))
}

fn is_label(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b' '
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/=".contains(&byte)
}

/// The bytes of a key: headers, quotes, escaped line breaks, and the line numbers that tools print
/// before each line.
fn is_in_key(byte: u8) -> bool {
    is_base64(byte)
        || byte.is_ascii_whitespace()
        || b"\\\"':,.-|>".contains(&byte)
        || !byte.is_ascii()
}

fn is_lowercase_or_dash(byte: &u8) -> bool {
    byte.is_ascii_lowercase() || b"_-.".contains(byte)
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// Number of leading bytes for which `belongs` is true.
fn count(bytes: &[u8], belongs: impl Fn(u8) -> bool) -> usize {
    bytes.iter().take_while(|&&byte| belongs(byte)).count()
}

/// `{password}`, `$PASSWORD`, `%s` and the like; `%40` is an escaped character.
fn is_template(password: &[u8]) -> bool {
    match password {
        [b'%', high, low, ..] => !high.is_ascii_hexdigit() || !low.is_ascii_hexdigit(),
        [] | [b'$' | b'{' | b'<' | b'*' | b'%', ..] => true,
        _ => false,
    }
}

fn ends_authority(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte.is_ascii_control() || b"/?#\"'`<>\\|,;()".contains(&byte)
}
