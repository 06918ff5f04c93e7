//! Decides whether a value looks random or was written by a person.

/// Number of bytes of a long value that are examined, so that nested candidates take linear time.
const MAX_EXAMINED_BYTES: usize = 256;

/// Shorter values are more likely words than keys.
pub(super) const MIN_ASSIGNED_BYTES: usize = 16;

/// Returns true if a value looks random. Names, paths and versions can be as long and as varied but
/// consist of words, so entropy alone does not decide.
pub(super) fn is_random(value: &[u8]) -> bool {
    let examined = examined(value);
    examined.len() >= MIN_ASSIGNED_BYTES
        && has_digit(examined)
        && examined.iter().any(u8::is_ascii_alphabetic)
        && bits_per_byte(examined) >= 3.5
        && !is_wordy(examined)
        && !is_uuid(value)
}

/// The part of a value that is examined.
pub(super) fn examined(value: &[u8]) -> &[u8] {
    &value[..value.len().min(MAX_EXAMINED_BYTES)]
}

pub(super) fn has_digit(bytes: &[u8]) -> bool {
    bytes.iter().any(u8::is_ascii_digit)
}

/// Shannon entropy.
fn bits_per_byte(bytes: &[u8]) -> f64 {
    let mut counts = [0_u16; 128];
    for byte in bytes {
        counts[usize::from(byte & 127)] += 1;
    }
    let total = bytes.len() as f64;
    let share = counts.iter().filter(|&&count| count > 0).map(|&count| f64::from(count) / total);
    share.map(|share| -share * share.log2()).sum()
}

/// Returns true if a value consists of words: long runs of letters between punctuation, digits and
/// case changes, as in `oauth2_tokenFor`. Random characters change their class about every second
/// byte, and have a long run without punctuation.
fn is_wordy(bytes: &[u8]) -> bool {
    let runs = || bytes.split(|byte| !byte.is_ascii_alphanumeric());
    let longest = runs().map(<[u8]>::len).max().unwrap_or(0);
    let n_alnum: usize = runs().map(<[u8]>::len).sum();
    let n_pieces: usize = runs().map(n_pieces).sum();
    longest < 12 || n_alnum * 10 >= n_pieces * 34
}

fn n_pieces(run: &[u8]) -> usize {
    let begins_piece = |window: &[u8]| match window {
        [before, here] if here.is_ascii_digit() || before.is_ascii_digit() => {
            here.is_ascii_digit() != before.is_ascii_digit()
        }
        [before, here] => before.is_ascii_lowercase() && here.is_ascii_uppercase(),
        _ => false,
    };
    let ends_capitals = |window: &[u8]| matches!(window, [b'A'..=b'Z', b'A'..=b'Z', b'a'..=b'z']);
    usize::from(!run.is_empty())
        + run.windows(2).filter(|window| begins_piece(window)).count()
        + run.windows(3).filter(|window| ends_capitals(window)).count()
}

/// UUIDs are identifiers far more often than secrets.
fn is_uuid(value: &[u8]) -> bool {
    let lengths = value.split(|&byte| byte == b'-').map(<[u8]>::len);
    lengths.eq([8, 4, 4, 4, 12])
        && value.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'-')
}
