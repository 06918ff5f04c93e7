//! Text as JSON writes it. Equal to what serde_json writes, and faster: a block of bytes is copied and looked at whole, and
//! behind each byte of it that cannot stand as it is the rest is copied again, one place further on. That is quicker than to
//! copy what lies between, because those bytes are few and often near each other: the line break and the tab of a numbered line.

/// How many bytes are looked at together.
const BLOCK: usize = 32;
/// A power of two that no block outgrows, even if every byte of it becomes six.
const GROWN: usize = 256;
/// What is written for a block at most: what it grows to, and a block and an escape beyond.
const WINDOW: usize = GROWN + BLOCK + ESCAPE;
/// How much is written before the line is made longer.
const STEP: usize = 1024;

/// Puts a text in quotes.
pub(crate) fn put(line: &mut Vec<u8>, text: &str) {
    line.reserve(text.len() + text.len() / 16 + WINDOW);
    line.push(b'"');
    let rest = put_blocks(line, text.as_bytes());
    // The last blocks are filled up with spaces, which are taken off again.
    let mut last = [b' '; 3 * BLOCK];
    let n_blocks = rest.len().div_ceil(BLOCK);
    last[..rest.len()].copy_from_slice(rest);
    put_blocks(line, &last[..(n_blocks + 1) * BLOCK]);
    line.truncate(line.len() + rest.len() - n_blocks * BLOCK);
    line.push(b'"');
}

/// Puts all blocks that have another one behind them, and gives back what is left.
fn put_blocks<'a>(line: &mut Vec<u8>, mut text: &'a [u8]) -> &'a [u8] {
    while text.len() >= 2 * BLOCK {
        let begin = line.len();
        line.resize(begin + STEP.min(2 * text.len()) + WINDOW, 0);
        let (taken, written) = fill(&mut line[begin..], text);
        line.truncate(begin + written);
        text = &text[taken..];
    }
    text
}

/// Puts blocks as long as there is room: how many bytes were taken, and how many written.
fn fill(room: &mut [u8], text: &[u8]) -> (usize, usize) {
    let (mut rest, mut written) = (text, 0);
    while let Some(ahead) = rest.first_chunk::<{ 2 * BLOCK }>()
        && let Some(window) = room[written..].first_chunk_mut::<WINDOW>()
    {
        written += put_block(window, ahead);
        rest = &rest[BLOCK..];
    }
    (text.len() - rest.len(), written)
}

/// Puts the first of two blocks: how many bytes it became.
#[inline]
fn put_block(window: &mut [u8; WINDOW], ahead: &[u8; 2 * BLOCK]) -> usize {
    let block = ahead.first_chunk::<BLOCK>().expect("the first of two");
    copy(window, 0, block);
    // Written so that the compiler makes a few instructions of the comparisons.
    if !block.iter().fold(false, |any, byte| any | is_special(*byte)) {
        return BLOCK;
    }
    let mut specials = specials(block);
    let mut added = 0;
    // The remainders alter nothing. They tell the compiler that every place is within the window.
    while specials != 0 {
        let at = specials.trailing_zeros() as usize % BLOCK;
        let escape = ESCAPES[usize::from(ahead[at])];
        copy(window, (at + added) % GROWN, &escape);
        added += usize::from(escape[ADDED]);
        let behind = ahead[at + 1..].first_chunk::<BLOCK>().expect("the second of two is behind");
        copy(window, (at + added) % GROWN + 1, behind);
        specials &= specials - 1;
    }
    BLOCK + added
}

/// So many bytes as are known beforehand, which takes no call.
#[inline]
fn copy<const N: usize>(window: &mut [u8; WINDOW], place: usize, bytes: &[u8; N]) {
    *window[place..].first_chunk_mut().expect("no place is so far behind") = *bytes;
}

/// Below a space, a quote or a backslash. In sums instead of comparisons, which take the compiler more instructions: with one
/// bit turned over the quote is the first after all that is below a space.
#[inline]
fn is_special(byte: u8) -> bool {
    (byte ^ (b'"' ^ b' ')).saturating_sub(b' ').min(byte ^ b'\\') == 0
}

/// A bit for each special byte of a block.
#[inline]
fn specials(block: &[u8; BLOCK]) -> u32 {
    // The top byte of the product has the lowest bit of each of eight bytes.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let mut marks = *block;
    for mark in &mut marks {
        *mark = u8::from(is_special(*mark));
    }
    let (eights, _) = marks.as_chunks::<8>();
    let bits = |eight: &[u8; 8]| (u64::from_le_bytes(*eight).wrapping_mul(GATHER) >> 56) as u32;
    eights.iter().rev().fold(0, |all, eight| all << 8 | bits(eight))
}

/// How an escape is kept: its bytes, and in the last place by how many it is longer than one.
const ESCAPE: usize = 8;
const ADDED: usize = ESCAPE - 1;

/// By byte; only those of special bytes are asked for.
static ESCAPES: [[u8; ESCAPE]; 256] = {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    const SHORT: [(u8, u8); 7] = [
        (b'"', b'"'),
        (b'\\', b'\\'),
        (b'\n', b'n'),
        (b'\t', b't'),
        (b'\r', b'r'),
        (0x08, b'b'),
        (0x0c, b'f'),
    ];
    let mut escapes = [[0; ESCAPE]; 256];
    let mut byte = 0;
    while byte < 256 {
        escapes[byte] = [b'\\', b'u', b'0', b'0', DIGITS[byte >> 4], DIGITS[byte & 15], 0, 5];
        byte += 1;
    }
    let mut at = 0;
    while at < SHORT.len() {
        let (byte, letter) = SHORT[at];
        escapes[byte as usize] = [b'\\', letter, 0, 0, 0, 0, 0, 1];
        at += 1;
    }
    escapes
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_at_every_place_is_written_as_serde_writes_it() {
        let letters = (0..0x300).chain([0x2028, 0xffff, 0x1f980]).filter_map(char::from_u32);
        for letter in letters {
            for place in 0..20 {
                let text = format!("{}{letter}{}{letter}", "x".repeat(place), "é".repeat(place));
                let mut line = Vec::new();
                put(&mut line, &text);
                let usual = serde_json::to_string(&text).expect("text");
                assert_eq!(String::from_utf8(line).expect("text"), usual, "{letter:?} at {place}");
            }
        }
    }

    #[test]
    fn texts_of_any_length_and_density_are_written_as_serde_writes_them() {
        let letters =
            ["x", "x", " ", "\n", "\t", "\"", "\\", "\u{1}", "\u{1f}", "\u{7f}", "é", "日", "🦀"];
        let mut state: u32 = 1;
        for length in (0..300).chain([1_000, 5_000]) {
            for few in 1..=letters.len() {
                let text: String = std::iter::repeat_with(|| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    letters[(state >> 16) as usize % few]
                })
                .take(length)
                .collect();
                let mut line = b"before".to_vec();
                put(&mut line, &text);
                let usual = format!("before{}", serde_json::to_string(&text).expect("text"));
                assert_eq!(String::from_utf8(line).expect("text"), usual);
            }
        }
        for letter in ["\n", "\u{1}", "\""] {
            let mut line = Vec::new();
            put(&mut line, &letter.repeat(2_000));
            let usual = serde_json::to_string(&letter.repeat(2_000)).expect("text");
            assert_eq!(String::from_utf8(line).expect("text"), usual);
        }
    }
}
