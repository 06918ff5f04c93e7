//! Bytes, made smaller: contents in the journal and pieces of outputs alike. Each is packed by itself, so that one is had back
//! without the others.

use std::io::Read;

use flate2::read::DeflateDecoder;
use zstd::bulk::Compressor;

const PLAIN: u64 = 0;
const ZSTD: u64 = 1;
/// How pieces of outputs were packed before migration 5. Only read; the last ones are gone when they are too old.
const DEFLATE: u64 = 2;
/// What differs from another content, see `journal/difference.rs`.
pub(crate) const DIFFERENCE: u64 = 3;
/// The quickest of the usual ones: a call waits for it, and higher ones save little on source code.
const LEVEL: i32 = 1;
/// What is shorter than this gains nothing.
const SHORTEST: usize = 128;

/// Bytes as they are kept.
pub(crate) struct Packed {
    /// How they are packed, for who unpacks them.
    pub(crate) packing: u64,
    pub(crate) bytes: Vec<u8>,
}

/// Packs one thing after the other; making ready takes longer than packing a small one.
pub(crate) struct Packer(Option<Compressor<'static>>);

impl Packer {
    pub(crate) fn new() -> Self {
        Self(Compressor::new(LEVEL).ok())
    }

    pub(crate) fn pack(&mut self, plain: &[u8]) -> Packed {
        let packed = match &mut self.0 {
            Some(compressor) if plain.len() >= SHORTEST => compressor.compress(plain).ok(),
            _ => None,
        };
        match packed.filter(|packed| packed.len() < plain.len()) {
            Some(bytes) => Packed { packing: ZSTD, bytes },
            None => Packed { packing: PLAIN, bytes: plain.to_owned() },
        }
    }
}

/// The bytes as they were, if they are no more than `most`: a foreign hand may have put anything there. Else what is wrong
/// with them, in words that follow a name.
pub(crate) fn unpack(packing: u64, bytes: &[u8], most: usize) -> Result<Vec<u8>, &'static str> {
    let plain = match packing {
        PLAIN => bytes.to_owned(),
        ZSTD => zstd::bulk::decompress(bytes, most).map_err(|_| "cannot be unpacked")?,
        DEFLATE => {
            let mut plain = Vec::new();
            let read = DeflateDecoder::new(bytes).take(most as u64 + 1).read_to_end(&mut plain);
            read.map_err(|_| "cannot be unpacked")?;
            plain
        }
        // It has lost that other content.
        DIFFERENCE => return Err("is not what it was"),
        _ => return Err("was packed by a newer haft"),
    };
    if plain.len() > most { Err("is not what it was") } else { Ok(plain) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(plain: &[u8]) -> Packed {
        let packed = Packer::new().pack(plain);
        let back = unpack(packed.packing, &packed.bytes, plain.len());
        assert_eq!(back.expect("packed by us"), plain);
        packed
    }

    #[test]
    fn text_becomes_smaller_and_what_does_not_stays_as_it_is() {
        assert!(check("fn main() {}\n".repeat(100).as_bytes()).bytes.len() < 100);
        let mut noise = [0; 1_000];
        blake3::Hasher::new().finalize_xof().fill(&mut noise);
        assert_eq!(check(&noise).packing, PLAIN);
        assert_eq!(check(&[b'x'; SHORTEST - 1]).packing, PLAIN);
        assert_eq!(check(&[b'x'; SHORTEST]).packing, ZSTD);
        assert_eq!(check(b"").bytes.len(), 0);
    }

    #[test]
    fn what_is_too_long_or_nonsense_is_refused() {
        let packed = Packer::new().pack(&[b'x'; 1_000]);
        // `x` a thousand times, as zlib deflated it.
        let deflated = [171, 168, 24, 5, 163, 33, 48, 26, 2, 195, 61, 4, 0];
        assert_eq!(unpack(DEFLATE, &deflated, 1_000).expect("whole"), [b'x'; 1_000]);
        for (packing, bytes, most) in [
            (PLAIN, &b"four"[..], 3),
            (ZSTD, &packed.bytes, 999),
            (ZSTD, b"nonsense", 9),
            (DEFLATE, &deflated, 999),
            (DEFLATE, b"nonsense", 9),
            (9, b"x", 9),
        ] {
            assert!(unpack(packing, bytes, most).is_err(), "{packing} {most}");
        }
    }

    proptest! {
        #[test]
        fn everything_comes_back(plain in prop::collection::vec(any::<u8>(), 0..2_000)) {
            check(&plain);
        }
    }
}
