//! What a secret looks like when nobody told us: keys with known beginnings, and random values under telling names.

mod clues;

use std::{borrow::Cow, ops::Range, sync::LazyLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use super::{
    Rewrite,
    chance::{LEAST_ASSIGNED, has_digit, is_random, judged},
    marker,
};

/// A key that gives itself away by how it begins.
pub(super) struct Shape {
    pub(super) prefix: &'static str,
    pub(super) chars: Chars,
    /// How many characters must follow the prefix.
    pub(super) least: usize,
    pub(super) kind: &'static str,
}

const fn shape(prefix: &'static str, chars: Chars, least: usize, kind: &'static str) -> Shape {
    Shape { prefix, chars, least, kind }
}

pub(super) const SHAPES: &[Shape] = &[
    shape("sk-ant-", Chars::Url, 20, "anthropic-key"),
    shape("sk-proj-", Chars::Url, 20, "openai-key"),
    shape("sk-or-v1-", Chars::Alnum, 32, "openrouter-key"),
    shape("sk-", Chars::Alnum, 32, "api-key"),
    shape("ghp_", Chars::Alnum, 36, "github-token"),
    shape("gho_", Chars::Alnum, 36, "github-token"),
    shape("ghu_", Chars::Alnum, 36, "github-token"),
    shape("ghs_", Chars::Alnum, 36, "github-token"),
    shape("ghr_", Chars::Alnum, 36, "github-token"),
    shape("github_pat_", Chars::Url, 36, "github-token"),
    shape("glpat-", Chars::Url, 20, "gitlab-token"),
    shape("xoxb-", Chars::Url, 20, "slack-token"),
    shape("xoxp-", Chars::Url, 20, "slack-token"),
    shape("xoxa-", Chars::Url, 20, "slack-token"),
    shape("xoxs-", Chars::Url, 20, "slack-token"),
    shape("AKIA", Chars::Upper, 16, "aws-key"),
    shape("ASIA", Chars::Upper, 16, "aws-key"),
    shape("AIza", Chars::Url, 35, "google-key"),
    shape("ya29.", Chars::Dotted, 20, "google-token"),
    shape("npm_", Chars::Alnum, 36, "npm-token"),
    shape("pypi-", Chars::Url, 50, "pypi-token"),
    shape("hf_", Chars::Alnum, 34, "huggingface-token"),
    shape("SG.", Chars::Dotted, 60, "sendgrid-key"),
    shape("rk_live_", Chars::Alnum, 20, "stripe-key"),
    shape("sk_live_", Chars::Alnum, 20, "stripe-key"),
    shape("dop_v1_", Chars::Alnum, 60, "digitalocean-token"),
];

/// How a name ends whose value is a secret, and what the marker calls it.
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

/// Tokens that only point into a list. A model must hand them back to read on.
const PAGING: &[&str] = &["page", "next", "continuation", "cursor", "sync"];

const AUTHORIZATION: &str = "authorization";
const JWT: &str = "jwt";
const PRIVATE_KEY: &str = "private-key";
const URL_PASSWORD: &str = "url-password";

/// Everything that a marker may call a secret.
pub(super) fn kinds() -> impl Iterator<Item = &'static str> {
    let shapes = SHAPES.iter().map(|shape| shape.kind);
    let names = NAMES.iter().map(|&(_, kind)| kind);
    shapes.chain(names).chain([AUTHORIZATION, JWT, PRIVATE_KEY, URL_PASSWORD])
}

/// What to make of a place the shape search found.
#[derive(Clone, Copy)]
enum Clue {
    Shape(&'static Shape),
    Name(&'static str),
    Authorization,
    Jwt,
    PrivateKey,
    Url,
    /// Our own `[secret:`, which must not be taken for an assignment.
    Marker,
}

const OTHER_CLUES: &[(&str, Clue)] = &[
    (AUTHORIZATION, Clue::Authorization),
    ("eyJ", Clue::Jwt),
    ("-----BEGIN ", Clue::PrivateKey),
    ("://", Clue::Url),
    ("[secret:", Clue::Marker),
];

/// The same for every redactor, so one per process; built when the first clue is met.
static SEARCH: LazyLock<(AhoCorasick, Vec<Clue>)> = LazyLock::new(build_search);

fn patterns() -> impl Iterator<Item = (&'static str, Clue)> {
    let shapes = SHAPES.iter().map(|shape| (shape.prefix, Clue::Shape(shape)));
    let names = NAMES.iter().map(|&(name, kind)| (name, Clue::Name(kind)));
    shapes.chain(names).chain(OTHER_CLUES.iter().copied())
}

fn build_search() -> (AhoCorasick, Vec<Clue>) {
    let (patterns, clues): (Vec<_>, Vec<_>) = patterns().unzip();
    let automaton = AhoCorasick::builder()
        .match_kind(MatchKind::LeftmostLongest)
        // For the names; prefixes are compared exactly afterwards.
        .ascii_case_insensitive(true)
        // Half the time to build of the default, and as fast on real text.
        .kind(Some(AhoCorasickKind::ContiguousNFA))
        .build(patterns)
        .expect("the tables above are small");
    (automaton, clues)
}

/// The text without what has the shape of a secret.
pub(super) fn replace(text: &str) -> Cow<'_, str> {
    if !clues::are_in(text) {
        return Cow::Borrowed(text);
    }
    let (automaton, clues) = &*SEARCH;
    let mut scan = Scan { bytes: text.as_bytes(), last_runs: Default::default(), replaced_to: 0 };
    let mut rewrite = Rewrite::new(text);
    // A clue may point ahead, from `://` to the password, with a key in between, as the user.
    let mut ahead: Option<Finding> = None;
    for found in automaton.find_iter(text) {
        if let Some((range, kind)) = ahead.take_if(|(range, _)| range.start <= found.start()) {
            scan.replaced_to = range.end;
            rewrite.replace(range, &marker(kind));
        }
        if found.start() < scan.replaced_to {
            continue;
        }
        let finding = scan.judge(clues[found.pattern()], found.range());
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

/// Which bytes a token may consist of. All ASCII, and none has the `[` of a marker.
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

type Finding = (Range<usize>, &'static str);

/// Looks around the places the automaton found. Bytes are fine: all that matters here is ASCII.
struct Scan<'a> {
    bytes: &'a [u8],
    /// The last run of each kind of `Chars`. Candidates inside one another, `SG.SG.SG.`, would
    /// otherwise each walk to its end.
    last_runs: [Range<usize>; 5],
    /// Where the last replaced range ended.
    replaced_to: usize,
}

impl Scan<'_> {
    fn judge(&mut self, clue: Clue, found: Range<usize>) -> Option<Finding> {
        match clue {
            Clue::Shape(shape) => self.shape(shape, found),
            Clue::Name(kind) => self.assignment(kind, found),
            Clue::Authorization => self.authorization(found),
            Clue::Jwt => self.jwt(found),
            Clue::PrivateKey => self.private_key(found),
            Clue::Url => self.url_password(found.end),
            Clue::Marker => None,
        }
    }

    fn shape(&mut self, shape: &Shape, found: Range<usize>) -> Option<Finding> {
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
            // So short and plain that only the exact length tells it from a word in capitals.
            Chars::Upper => length == shape.least && !self.is_word_at(end),
            // So many random characters have a digit (99.6 %), and names often have none.
            _ if shape.least >= 32 => length >= shape.least && has_digit(judged(body)),
            _ => length >= shape.least && !judged(body).iter().all(is_lowercase_or_dash),
        };
        fits.then_some((found.start..found.end + length, shape.kind))
    }

    /// `name = value`, `"name": "value"`, `name => value` and the like.
    fn assignment(&mut self, kind: &'static str, name: Range<usize>) -> Option<Finding> {
        if is_paging(kind, &self.bytes[..name.start]) {
            return None;
        }
        let start = self.skip_assignment(name.end)?;
        let end = self.run_end(start, Chars::Assigned);
        // What goes on like this is a call, an index, a template or a generic type.
        let goes_on = self.bytes.get(end).is_some_and(|next| b"([{<$".contains(next));
        (!goes_on && is_random(&self.bytes[start..end])).then_some((start..end, kind))
    }

    /// `Authorization: Bearer …`, and Basic and Token.
    fn authorization(&mut self, name: Range<usize>) -> Option<Finding> {
        let scheme = self.skip_assignment(name.end)?;
        let scheme_end = self.run_end(scheme, Chars::Alnum);
        let known = [&b"bearer"[..], b"basic", b"token"];
        if !known.iter().any(|known| self.bytes[scheme..scheme_end].eq_ignore_ascii_case(known)) {
            return self.assignment(AUTHORIZATION, name);
        }
        let start = self.skip_spaces(scheme_end);
        let end = self.run_end(start, Chars::Assigned);
        let token = judged(&self.bytes[start..end]);
        (token.len() >= LEAST_ASSIGNED && has_digit(token)).then_some((start..end, AUTHORIZATION))
    }

    /// Three parts of base64, the first of which begins with `{"`.
    fn jwt(&mut self, found: Range<usize>) -> Option<Finding> {
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

    /// From BEGIN to END, or to the end of a cut-off text.
    fn private_key(&self, found: Range<usize>) -> Option<Finding> {
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
    fn url_password(&self, start: usize) -> Option<Finding> {
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

    /// Where the value begins: behind quotes, spaces and one `=`, `:`, `:=` or `=>`.
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

    /// Over one quote, with the backslashes it has in JSON within JSON.
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

    /// Nothing of a name stands before it. The `n` of an escaped line break does not count as such.
    fn starts_token(&self, start: usize) -> bool {
        match self.bytes[..start] {
            // The marker, not what it replaced, decides: else redacting twice would find more.
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

/// The kind of secret a member holds, if its key and its whole value say so.
pub(super) fn assigned_kind(key: &str, value: &str) -> Option<&'static str> {
    let (key, value) = (key.as_bytes(), value.as_bytes());
    // Most are words.
    if value.len() < LEAST_ASSIGNED {
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

/// What stands in a key, its headers, its quotes and escaped line breaks, and the line numbers that
/// tools print before each line.
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

/// How many bytes belong, from the first on.
fn count(bytes: &[u8], belongs: impl Fn(u8) -> bool) -> usize {
    bytes.iter().take_while(|&&byte| belongs(byte)).count()
}

/// `{password}`, `$PASSWORD`, `%s` and the like; `%40` is a real character.
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
