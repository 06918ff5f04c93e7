//! Was it drawn by chance, or written by a person?

/// Enough of a long value to judge it by, so that nested candidates stay linear.
const JUDGED_BYTES: usize = 256;

/// Shorter values are rather words than keys.
pub(super) const LEAST_ASSIGNED: usize = 16;

/// Whether a value was drawn by chance rather than written by a person. Names, paths and versions
/// can be as long and as varied, but consist of words; so entropy alone does not decide.
pub(super) fn is_random(value: &[u8]) -> bool {
    let judged = judged(value);
    judged.len() >= LEAST_ASSIGNED
        && has_digit(judged)
        && judged.iter().any(u8::is_ascii_alphabetic)
        && bits_per_byte(judged) >= 3.5
        && !is_wordy(judged)
        && !is_uuid(value)
}

/// As much of a value as is looked at.
pub(super) fn judged(value: &[u8]) -> &[u8] {
    &value[..value.len().min(JUDGED_BYTES)]
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

/// Words are long pieces between punctuation, digits and humps, as in `oauth2_tokenFor`; random
/// characters change their class about every second time, and have a long stretch unpunctuated.
fn is_wordy(bytes: &[u8]) -> bool {
    let stretches = || bytes.split(|byte| !byte.is_ascii_alphanumeric());
    let longest = stretches().map(<[u8]>::len).max().unwrap_or(0);
    let n_alnum: usize = stretches().map(<[u8]>::len).sum();
    let n_pieces: usize = stretches().map(n_pieces).sum();
    longest < 12 || n_alnum * 10 >= n_pieces * 34
}

fn n_pieces(stretch: &[u8]) -> usize {
    let begins_piece = |window: &[u8]| match window {
        [before, here] if here.is_ascii_digit() || before.is_ascii_digit() => {
            here.is_ascii_digit() != before.is_ascii_digit()
        }
        [before, here] => before.is_ascii_lowercase() && here.is_ascii_uppercase(),
        _ => false,
    };
    let ends_capitals = |window: &[u8]| matches!(window, [b'A'..=b'Z', b'A'..=b'Z', b'a'..=b'z']);
    usize::from(!stretch.is_empty())
        + stretch.windows(2).filter(|window| begins_piece(window)).count()
        + stretch.windows(3).filter(|window| ends_capitals(window)).count()
}

/// They name things far more often than they open them.
fn is_uuid(value: &[u8]) -> bool {
    let lengths = value.split(|&byte| byte == b'-').map(<[u8]>::len);
    lengths.eq([8, 4, 4, 4, 12])
        && value.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'-')
}
