//! Where lines end, found by blocks: lines are short, and a search that is begun anew behind each costs more than all else.

const BLOCK: usize = 64;
const ROW: usize = 16;

/// Calls with the place of every newline, in order, until it is answered with false.
pub(super) fn each_newline(bytes: &[u8], mut each: impl FnMut(usize) -> bool) {
    let (blocks, rest) = bytes.as_chunks::<BLOCK>();
    for (number, block) in blocks.iter().enumerate() {
        let mut found = newlines(block);
        while found != 0 {
            if !each(number * BLOCK + found.trailing_zeros() as usize) {
                return;
            }
            found &= found - 1;
        }
    }
    let begin = blocks.len() * BLOCK;
    for (at, _) in rest.iter().enumerate().filter(|(_, byte)| **byte == b'\n') {
        if !each(begin + at) {
            return;
        }
    }
}

/// A bit for each newline of a block. Each eight bytes of it get a bit of their own, and are laid upon each other: so the
/// compiler makes a dozen instructions of it. What comes of that has eight columns for eight rows.
#[inline]
fn newlines(block: &[u8; BLOCK]) -> u64 {
    let (rows, _) = block.as_chunks::<ROW>();
    let mut columns = [0; ROW];
    for (number, row) in rows.iter().enumerate() {
        for (at, byte) in row.iter().enumerate() {
            let bit = 1 << (2 * number + at / 8);
            columns[at] |= if *byte == b'\n' { bit } else { 0 };
        }
    }
    let (halves, _) = columns.as_chunks::<8>();
    match u64::from_le_bytes(halves[0]) | u64::from_le_bytes(halves[1]) {
        0 => 0,
        columns => transposed(columns),
    }
}

/// Eight times eight bits, rows for columns: in single bits, in squares of two and in squares of four.
fn transposed(mut bits: u64) -> u64 {
    for (distance, upper) in
        [(7, 0x00aa_00aa_00aa_00aa), (14, 0x0000_cccc_0000_cccc), (28, 0x0000_0000_f0f0_f0f0)]
    {
        let other = (bits ^ (bits >> distance)) & upper;
        bits ^= other ^ (other << distance);
    }
    bits
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(bytes: &[u8], most: usize) -> Vec<usize> {
        let mut all = Vec::new();
        each_newline(bytes, |at| {
            all.push(at);
            all.len() < most
        });
        all
    }

    #[test]
    fn each_place_of_a_block_is_told() {
        for at in 0..3 * BLOCK {
            let mut bytes = [b'x'; 3 * BLOCK - 1].to_vec();
            bytes.insert(at, b'\n');
            assert_eq!(found(&bytes, usize::MAX), [at]);
        }
    }

    proptest! {
        #[test]
        fn they_are_those_that_a_simple_search_finds(text in "[a\\n\\r\u{10a}]{0,300}|[a-z ]{0,90}\n{0,90}", most in 1_usize..40) {
            let bytes = text.as_bytes();
            let all: Vec<usize> = memchr::memchr_iter(b'\n', bytes).collect();
            prop_assert_eq!(&found(bytes, usize::MAX), &all);
            prop_assert_eq!(found(bytes, most), all.into_iter().take(most).collect::<Vec<_>>());
        }
    }
}
