//! Contents, made smaller.

use haft_core::{ContentHash, ToolError, files::LARGEST_WHOLE};
use zstd::bulk::Compressor;

const PLAIN: u64 = 0;
const ZSTD: u64 = 1;
/// The quickest of the usual ones: an edit waits for it, and higher ones save little on source code.
const LEVEL: i32 = 1;
/// What is shorter than this gains nothing.
const SHORTEST: usize = 128;

/// A content as it is kept.
pub(super) struct Packed {
    pub(super) hash: ContentHash,
    pub(super) size: u64,
    pub(super) packing: u64,
    pub(super) content: Vec<u8>,
}

/// Packs contents one after the other; making ready takes longer than packing a small one.
pub(super) struct Packer(Option<Compressor<'static>>);

impl Packer {
    pub(super) fn new() -> Self {
        Self(Compressor::new(LEVEL).ok())
    }

    pub(super) fn pack(&mut self, hash: ContentHash, content: &[u8]) -> Packed {
        let size = content.len() as u64;
        let packed = match &mut self.0 {
            Some(compressor) if content.len() >= SHORTEST => compressor.compress(content).ok(),
            _ => None,
        };
        match packed.filter(|packed| packed.len() < content.len()) {
            Some(content) => Packed { hash, size, packing: ZSTD, content },
            None => Packed { hash, size, packing: PLAIN, content: content.to_owned() },
        }
    }
}

/// The content as it was. What does not have its hash was changed or damaged, and is not handed out.
pub(super) fn unpack(
    hash: ContentHash,
    size: u64,
    packing: u64,
    content: &[u8],
) -> Result<Vec<u8>, ToolError> {
    let damaged = |why: &str| {
        ToolError::unavailable(format!("the kept content {hash} {why}"))
            .hint("see what is wrong with `haft store check`")
    };
    let content = match packing {
        PLAIN => content.to_owned(),
        ZSTD => {
            // A foreign hand may have put anything there: no more than ever was kept.
            let size = usize::try_from(size.min(LARGEST_WHOLE)).unwrap_or_default();
            zstd::bulk::decompress(content, size).map_err(|_| damaged("cannot be unpacked"))?
        }
        _ => return Err(damaged("was packed by a newer haft")),
    };
    if ContentHash::of(&content) == hash { Ok(content) } else { Err(damaged("is not what it was")) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(content: &[u8]) -> Packed {
        let hash = ContentHash::of(content);
        let packed = Packer::new().pack(hash, content);
        let Packed { size, packing, content: kept, .. } = &packed;
        assert_eq!(unpack(hash, *size, *packing, kept).expect("it is whole"), content);
        packed
    }

    #[test]
    fn text_becomes_smaller_and_what_does_not_stays_as_it_is() {
        assert!(check("fn main() {}\n".repeat(100).as_bytes()).content.len() < 100);
        let noise: Vec<u8> = blake3::Hasher::new().finalize_xof().take_bytes(1_000);
        assert_eq!(check(&noise).packing, PLAIN);
        assert_eq!(check(b"").content.len(), 0);
    }

    trait TakeBytes {
        fn take_bytes(self, count: usize) -> Vec<u8>;
    }

    impl TakeBytes for blake3::OutputReader {
        fn take_bytes(mut self, count: usize) -> Vec<u8> {
            let mut bytes = vec![0; count];
            self.fill(&mut bytes);
            bytes
        }
    }

    #[test]
    fn what_was_changed_is_not_handed_out() {
        let content = "fn main() {}\n".repeat(100);
        let packed = check(content.as_bytes());
        let other = ContentHash::of(b"other");
        for (hash, size, packing, bytes) in [
            (other, packed.size, packed.packing, packed.content.clone()),
            (packed.hash, 10, packed.packing, packed.content.clone()),
            (packed.hash, u64::MAX, packed.packing, b"no zstd".to_vec()),
            (packed.hash, packed.size, PLAIN, packed.content.clone()),
            (packed.hash, packed.size, 9, packed.content.clone()),
        ] {
            assert!(unpack(hash, size, packing, &bytes).is_err(), "{size} {packing}");
        }
    }

    proptest! {
        #[test]
        fn every_content_comes_back(content in prop::collection::vec(any::<u8>(), 0..2_000)) {
            check(&content);
        }
    }
}
