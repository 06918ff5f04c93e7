//! Stores a content as a difference from another. An agent changes a file again and again, a few
//! lines each time: the file is stored whole once, then as zstd frames that use the first content
//! as prefix. `bases.rs` decides which contents belong together.

use zstd::zstd_safe::{CCtx, CParameter, DCtx, get_frame_content_size};

/// Compressing shorter contents takes as long as comparing them.
pub(super) const MIN_BYTES: usize = 4 << 10;
/// A difference may take at most one part in this many of its content. A content that differs more
/// is stored whole, as the base of the next ones.
const MIN_RATIO: usize = 12;
const LEVEL: i32 = 1;

/// Returns the compressed difference of `content` from `base` if it is small.
pub(super) fn between(base: &[u8], content: &[u8]) -> Option<Vec<u8>> {
    if content.len() < MIN_BYTES || content.len() / 2 > base.len() {
        return None;
    }
    // The window holds both. The level's default hash table has 2^14 entries, too few for a base of
    // 200 KB.
    let window = (base.len() + content.len()).checked_ilog2()? + 1;
    let mut context = CCtx::try_create()?;
    context.set_parameter(CParameter::CompressionLevel(LEVEL)).ok()?;
    context.set_parameter(CParameter::WindowLog(window)).ok()?;
    context.set_parameter(CParameter::HashLog(window - 2)).ok()?;
    context.ref_prefix(base).ok()?;
    // zstd fails when this capacity is exceeded.
    let mut packed = Vec::with_capacity(content.len() / MIN_RATIO);
    context.compress2(&mut packed, content).ok()?;
    Some(packed)
}

/// Returns the content of a difference if it has this size. Another program may have written
/// anything.
pub(super) fn restore(base: &[u8], packed: &[u8], size: usize) -> Option<Vec<u8>> {
    let named = get_frame_content_size(packed).ok()??;
    if usize::try_from(named) != Ok(size) {
        return None;
    }
    let mut context = DCtx::try_create()?;
    context.ref_prefix(base).ok()?;
    let mut content = Vec::with_capacity(size);
    context.decompress(&mut content, packed).ok()?;
    (content.len() == size).then_some(content)
}

// The format of differences before zstd prefixes, which is only read: a head that lists the ranges
// common to both contents, then the compressed bytes between them. The head has the number of
// ranges, then for each: the number of new bytes before it, its start in the base, and its length.

/// Splits a difference into its head and the rest.
pub(super) fn split_old(kept: &[u8]) -> Option<(&[u8], &[u8])> {
    let (count, _) = kept.split_first_chunk::<4>()?;
    let words = usize::try_from(u32::from_le_bytes(*count)).ok()?.checked_mul(3)?.checked_add(1)?;
    kept.split_at_checked(words.checked_mul(4)?)
}

/// Returns the content of a head and its new bytes if it has this size.
pub(super) fn restore_old(
    base: &[u8],
    head: &[u8],
    new_bytes: &[u8],
    size: usize,
) -> Option<Vec<u8>> {
    let (_, ranges) = head.split_first_chunk::<4>()?;
    let mut content = Vec::with_capacity(size.min(base.len().saturating_add(new_bytes.len())));
    let mut new_bytes = new_bytes;
    for range in ranges.chunks_exact(12) {
        let word = |number: usize| {
            let word = range.get(number * 4..)?.first_chunk::<4>()?;
            usize::try_from(u32::from_le_bytes(*word)).ok()
        };
        let (before, rest) = new_bytes.split_at_checked(word(0)?)?;
        let common = base.get(word(1)?..)?.get(..word(2)?)?;
        if content.len().checked_add(before.len())?.checked_add(common.len())? > size {
            return None;
        }
        content.extend_from_slice(before);
        content.extend_from_slice(common);
        new_bytes = rest;
    }
    content.extend_from_slice(new_bytes);
    (content.len() == size).then_some(content)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Lines that all differ.
    fn lines(count: u64) -> Vec<u8> {
        let line = |number: u64| {
            format!("let value_{number} = {};\n", number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
        };
        (0..count).map(line).collect::<String>().into_bytes()
    }

    /// Returns the size of the difference.
    #[track_caller]
    fn check(base: &[u8], content: &[u8]) -> Option<usize> {
        let packed = between(base, content)?;
        assert_eq!(restore(base, &packed, content.len()).as_deref(), Some(content));
        assert_eq!(restore(base, &packed, content.len() - 1), None);
        assert_eq!(restore(base, &packed, content.len() + 1), None);
        Some(packed.len())
    }

    #[test]
    fn one_change_takes_few_bytes() {
        for base in [lines(1_000), lines(50_000)] {
            let with = |at: usize, gone: usize, new: &[u8]| {
                [&base[..at], new, &base[at + gone..]].concat()
            };
            let most = 50 + base.len() / 10_000;
            for content in [
                base.clone(),
                with(20_000, 10, b"#"),
                with(0, 10, b"####"),
                with(base.len(), 0, b"####"),
                with(500, 9_000, b""),
            ] {
                let taken = check(&base, &content);
                assert!(taken.is_some_and(|taken| taken < most), "{taken:?}");
            }
        }
    }

    #[test]
    fn changes_all_over_a_file_take_little_each() {
        let base = lines(5_000);
        let mut content = base.clone();
        for number in (0..20).rev() {
            let at = number * base.len() / 20 + 100;
            content.splice(at..at + number, vec![b'#'; 2 * number + 1]);
        }
        let taken = check(&base, &content);
        assert!(taken.is_some_and(|taken| taken < 400), "{taken:?}");
    }

    #[test]
    fn short_or_unlike_contents_have_no_difference() {
        let base = lines(1_000);
        assert_eq!(check(&base, &base[..MIN_BYTES - 1]), None);
        assert_eq!(check(b"", &base), None);
        let mut noise = vec![0; base.len() / 2];
        blake3::Hasher::new().finalize_xof().fill(&mut noise);
        assert_eq!(check(&base, &[&*base, &noise].concat()), None);
        let every_third: Vec<u8> = base
            .iter()
            .enumerate()
            .map(|(at, byte)| if at % 3 == 0 { b'#' } else { *byte })
            .collect();
        assert_eq!(check(&base, &every_third), None);
    }

    /// A text that repeats one line.
    #[test]
    fn repeated_lines_round_trip() {
        let base = b"    let number = compute(&input);\n".repeat(500);
        let mut content = base.clone();
        for at in [40, 7_000, 7_100, 16_000] {
            content.splice(at..at + 3, *b"#####");
        }
        assert!(check(&base, &content).is_some_and(|taken| taken < 500));
    }

    /// The format that haft wrote until November 2026: the base, the content, and the stored bytes
    /// of the content.
    #[test]
    fn a_difference_in_the_old_format_is_still_read() {
        let base = lines(1_000);
        let content = [&base[..20_000], b"####", &base[20_010..]].concat();
        let kept = [
            2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 78, 0, 0, 4, 0, 0, 0, 42, 78, 0, 0, 110, 67, 0,
            0, 35, 35, 35, 35,
        ];
        let (head, new_bytes) = split_old(&kept).expect("a head");
        assert_eq!(new_bytes, b"####");
        assert_eq!(restore_old(&base, head, new_bytes, content.len()), Some(content));
    }

    #[test]
    fn a_head_that_repeats_the_base_is_bounded() {
        let (base, times) = (vec![b'x'; 1 << 20], 100_000_u32);
        let whole = [0_u32, 0, 1 << 20].map(u32::to_le_bytes).concat();
        let head = [&times.to_le_bytes()[..], &whole.repeat(times as usize)].concat();
        assert_eq!(split_old(&head), Some((&*head, &b""[..])));
        assert_eq!(restore_old(&base, &head, b"", 9 << 20), None);
    }

    fn changed() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
        let change = (
            any::<prop::sample::Index>(),
            0..200_usize,
            prop::collection::vec(any::<u8>(), 0..200),
        );
        let base = prop_oneof![
            (200..400_u64).prop_map(lines),
            prop::collection::vec(0..3_u8, 4_000..9_000),
        ];
        (base, prop::collection::vec(change, 0..8)).prop_map(|(base, changes)| {
            let mut content = base.clone();
            for (at, gone, new) in changes {
                let at = at.index(content.len());
                content.splice(at..(at + gone).min(content.len()), new);
            }
            (base, content)
        })
    }

    proptest! {
        #[test]
        fn every_change_round_trips((base, content) in changed()) {
            check(&base, &content);
        }

        #[test]
        fn any_bytes_are_no_difference_or_one_of_the_right_size(
            base in prop::collection::vec(any::<u8>(), 0..300),
            words in prop::collection::vec(prop_oneof![0..40_u32, any::<u32>()], 0..12),
            new_bytes in prop::collection::vec(any::<u8>(), 0..60),
            size in prop_oneof![0..400_usize, Just(usize::MAX)],
        ) {
            let kept: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).chain(new_bytes.iter().copied()).collect();
            if let Some((head, new_bytes)) = split_old(&kept)
                && let Some(content) = restore_old(&base, head, new_bytes, size)
            {
                prop_assert_eq!(content.len(), size);
            }
            prop_assert_eq!(restore(&base, &kept, size), None);
        }
    }
}
