//! Stored contents: compressed, or stored as a difference from a content that is stored whole;
//! verified by their hash.

use haft_core::{ContentHash, ToolError, files::MAX_WHOLE_FILE_BYTES};

use super::{bases::Base, difference};
use crate::engine::packing::{self, DIFFERENCE, Packed, Packer};

/// A content to be stored.
pub(super) struct NewContent {
    pub(super) hash: ContentHash,
    pub(super) size: u64,
    /// Hash of the base that it differs from, which is stored whole. `None` if this content is
    /// stored whole.
    pub(super) base: Option<ContentHash>,
    pub(super) packed: Packed,
}

pub(super) fn pack(
    packer: &mut Packer,
    hash: ContentHash,
    content: &[u8],
    base: Option<&Base>,
) -> NewContent {
    let differing =
        base.and_then(|base| Some((base.hash, difference::between(&base.content, content)?)));
    let (base, packed) = match differing {
        Some((base, bytes)) => (Some(base), Packed { packing: DIFFERENCE, bytes }),
        None => (None, packer.pack(content)),
    };
    NewContent { hash, size: content.len() as u64, base, packed }
}

/// A content as stored, not trusted: another program may have written anything.
#[derive(Clone, Copy)]
pub(super) struct StoredContent<'a> {
    pub(super) size: u64,
    pub(super) packing: u64,
    pub(super) bytes: &'a [u8],
}

/// Restores a content; `base` is what it differs from, unless it is stored whole. Fails if the
/// content does not match its hash, because it was modified or damaged.
pub(super) fn unpack(
    hash: ContentHash,
    found: StoredContent<'_>,
    base: Option<StoredContent<'_>>,
) -> Result<Vec<u8>, ToolError> {
    let content = match base {
        None => found.plain(found.bytes),
        Some(base) => base.plain(base.bytes).and_then(|base| found.restore_with(&base)),
    };
    match content {
        Ok(content) if ContentHash::of(&content) == hash => Ok(content),
        Ok(_) => Err(damaged(hash, CHANGED)),
        Err(why) => Err(damaged(hash, why)),
    }
}

const CHANGED: &str = "was changed";

pub(super) fn damaged(hash: ContentHash, why: &str) -> ToolError {
    ToolError::unavailable(format!("the stored content {hash} {why}"))
        .hint("check the store with `haft store check`")
}

impl StoredContent<'_> {
    fn max_bytes(&self) -> usize {
        usize::try_from(self.size.min(MAX_WHOLE_FILE_BYTES)).unwrap_or_default()
    }

    fn plain(&self, bytes: &[u8]) -> Result<Vec<u8>, &'static str> {
        packing::unpack(self.packing, bytes, self.max_bytes())
    }

    fn restore_with(&self, base: &[u8]) -> Result<Vec<u8>, &'static str> {
        if self.packing == DIFFERENCE {
            return difference::restore(base, self.bytes, self.max_bytes()).ok_or(CHANGED);
        }
        let (head, own) = difference::split_old(self.bytes).ok_or(CHANGED)?;
        difference::restore_old(base, head, &self.plain(own)?, self.max_bytes()).ok_or(CHANGED)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;
    use crate::areas::journal::bases::Bases;

    impl NewContent {
        fn found(&self) -> StoredContent<'_> {
            let Packed { packing, bytes } = &self.packed;
            StoredContent { size: self.size, packing: *packing, bytes }
        }
    }

    fn kept(content: &[u8], base: Option<&[u8]>) -> NewContent {
        let (mut bases, here) = (Bases::default(), Path::new("here"));
        if let Some(base) = base {
            bases.keep(here, here, ContentHash::of(base), base);
        }
        let base = bases.of(here, here);
        pack(&mut Packer::new(), ContentHash::of(content), content, base.as_deref())
    }

    #[test]
    fn a_changed_content_is_refused() {
        let content = "fn main() {}\n".repeat(100);
        let kept = kept(content.as_bytes(), None);
        let (hash, found) = (kept.hash, kept.found());
        assert_eq!(unpack(hash, found, None).expect("it is whole"), content.as_bytes());
        let other = ContentHash::of(b"other");
        for (hash, found) in [
            (other, found),
            (hash, StoredContent { size: 10, ..found }),
            (hash, StoredContent { size: u64::MAX, bytes: b"no zstd", ..found }),
            (hash, StoredContent { packing: 0, ..found }),
            (hash, StoredContent { packing: 9, ..found }),
        ] {
            assert!(unpack(hash, found, None).is_err(), "{} {}", found.size, found.packing);
        }
    }

    #[test]
    fn a_difference_needs_its_own_base() {
        let base = "fn main() {}\n".repeat(1_000);
        let content = base.replacen("main", "other", 1);
        let (whole, difference_of_base) =
            (kept(base.as_bytes(), None), kept(content.as_bytes(), Some(base.as_bytes())));
        assert_eq!((whole.base, difference_of_base.base), (None, Some(whole.hash)));
        assert!(difference_of_base.packed.bytes.len() < 100);
        let unpacked =
            unpack(difference_of_base.hash, difference_of_base.found(), Some(whole.found()));
        assert_eq!(unpacked.expect("both are whole"), content.as_bytes());
        let another = kept(&[b'x'; 9_000], None);
        for base in [None, Some(another.found()), Some(difference_of_base.found())] {
            assert!(unpack(difference_of_base.hash, difference_of_base.found(), base).is_err());
        }
        let huge = StoredContent { size: u64::MAX, ..difference_of_base.found() };
        assert!(unpack(difference_of_base.hash, huge, Some(whole.found())).is_err());
    }

    /// Rows of a base and of a content with more than 128 new bytes, which were compressed.
    #[test]
    fn a_difference_stored_before_is_still_read() {
        let line = |number: u64| {
            format!("let value_{number} = {};\n", number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
        };
        let base = (0..1_000).map(line).collect::<String>().into_bytes();
        let comments = b"// a comment\n".repeat(50);
        let content = [b"first\n", &base[..300], &comments, &base[9_000..]].concat();
        let bytes = [
            2, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 44, 1, 0, 0, 138, 2, 0, 0, 40, 35, 0, 0, 112, 110,
            0, 0, 40, 181, 47, 253, 96, 144, 1, 197, 0, 0, 136, 102, 105, 114, 115, 116, 10, 47,
            47, 32, 97, 32, 99, 111, 109, 109, 101, 110, 1, 0, 249, 64, 53, 151,
        ];
        let found = StoredContent { size: 29_228, packing: 1, bytes: &bytes };
        let whole = kept(&base, None);
        let unpacked = unpack(ContentHash::of(&content), found, Some(whole.found()));
        assert_eq!(unpacked.expect("it is whole"), content);
    }

    proptest! {
        #[test]
        fn any_bytes_as_a_difference_give_an_error_or_the_right_content(
            at in any::<prop::sample::Index>(),
            bytes in prop::collection::vec(any::<u8>(), 0..40),
            size in prop_oneof![Just(13_001), any::<u64>()],
            packing in 0..4_u64,
        ) {
            let base = "fn main() {}\n".repeat(1_000);
            let content = base.replacen("main", "other", 1);
            let whole = kept(base.as_bytes(), None);
            let difference_of_base = kept(content.as_bytes(), Some(base.as_bytes()));
            let mut foreign = difference_of_base.packed.bytes.clone();
            let at = at.index(foreign.len());
            let end = (at + bytes.len()).min(foreign.len());
            foreign.splice(at..end, bytes);
            let found = StoredContent { size, packing, bytes: &foreign };
            if let Ok(unpacked) = unpack(difference_of_base.hash, found, Some(whole.found())) {
                prop_assert_eq!(unpacked, content.as_bytes());
            }
        }
    }
}
