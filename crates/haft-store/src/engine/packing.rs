//! Compression of journal contents and pieces of outputs. Each is compressed separately, so that
//! one can be read without the others.

use std::io::Read;

use flate2::read::DeflateDecoder;
use zstd::bulk::Compressor;

const PLAIN: u64 = 0;
const ZSTD: u64 = 1;
/// Compression of outputs before migration 5. Only read; disappears when the last such output
/// expires.
const DEFLATE: u64 = 2;
/// The content is stored as a difference from another content, see `journal/difference.rs`.
pub(crate) const DIFFERENCE: u64 = 3;
/// The fastest common level: calls wait for it, and higher levels save little on source code.
const LEVEL: i32 = 1;
/// Compressing shorter inputs saves nothing.
const MIN_COMPRESSED_BYTES: usize = 128;

/// Bytes as they are stored.
pub(crate) struct Packed {
    /// Compression method, for [`unpack`].
    pub(crate) packing: u64,
    pub(crate) bytes: Vec<u8>,
}

/// Compresses several inputs. Reused, because creating a compressor takes longer than compressing a
/// small input.
pub(crate) struct Packer(Option<Compressor<'static>>);

impl Packer {
    pub(crate) fn new() -> Self {
        Self(Compressor::new(LEVEL).ok())
    }

    pub(crate) fn pack(&mut self, plain: &[u8]) -> Packed {
        let packed = match &mut self.0 {
            Some(compressor) if plain.len() >= MIN_COMPRESSED_BYTES => {
                compressor.compress(plain).ok()
            }
            _ => None,
        };
        match packed.filter(|packed| packed.len() < plain.len()) {
            Some(bytes) => Packed { packing: ZSTD, bytes },
            None => Packed { packing: PLAIN, bytes: plain.to_owned() },
        }
    }
}

/// Decompresses bytes, at most `most` of them: another program may have written anything into the
/// store. The error completes a sentence that starts with a name.
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
        // The content that this one differs from is missing.
        DIFFERENCE => return Err("was changed"),
        _ => return Err("was packed by a newer haft"),
    };
    if plain.len() > most { Err("was changed") } else { Ok(plain) }
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
    fn text_becomes_smaller_and_noise_stays_as_it_is() {
        assert!(check("fn main() {}\n".repeat(100).as_bytes()).bytes.len() < 100);
        let mut noise = [0; 1_000];
        blake3::Hasher::new().finalize_xof().fill(&mut noise);
        assert_eq!(check(&noise).packing, PLAIN);
        assert_eq!(check(&[b'x'; MIN_COMPRESSED_BYTES - 1]).packing, PLAIN);
        assert_eq!(check(&[b'x'; MIN_COMPRESSED_BYTES]).packing, ZSTD);
        assert_eq!(check(b"").bytes.len(), 0);
    }

    #[test]
    fn too_long_and_invalid_inputs_are_refused() {
        let packed = Packer::new().pack(&[b'x'; 1_000]);
        // `x` a thousand times, deflated by zlib.
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
        fn every_input_round_trips(plain in prop::collection::vec(any::<u8>(), 0..2_000)) {
            check(&plain);
        }
    }
}
