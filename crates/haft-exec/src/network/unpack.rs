//! The body of an answer, unpacked while it arrives and stopped when it is too much, packed or unpacked.

use std::io::{self, Write};

use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};

/// Why a body is not taken any further.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stop {
    TooLarge,
    /// It is not packed as its header says.
    Broken,
    /// It is packed in a way that was not asked for.
    Unknown(String),
}

/// A body on its way.
pub(super) struct Body {
    packing: Packing,
    /// How much may still come, as it is sent.
    left: usize,
    is_empty: bool,
}

enum Packing {
    None(Bounded),
    Gzip(MultiGzDecoder<Bounded>),
    /// By the book with a head and a checksum.
    Zlib(ZlibDecoder<Bounded>),
    /// As some servers send it.
    Deflate(DeflateDecoder<Bounded>),
    /// Which of the two it is shows in the first byte.
    Undecided(Bounded),
}

impl Body {
    /// `encoding` is what the header says.
    pub(super) fn new(encoding: &str, most: usize) -> Result<Self, Stop> {
        let out = Bounded { bytes: Vec::new(), most };
        let packing = match encoding.trim().to_ascii_lowercase().as_str() {
            "" | "identity" => Packing::None(out),
            "gzip" | "x-gzip" => Packing::Gzip(MultiGzDecoder::new(out)),
            "deflate" => Packing::Undecided(out),
            other => return Err(Stop::Unknown(other.chars().take(40).collect())),
        };
        Ok(Self { packing, left: most, is_empty: true })
    }

    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        self.left = self.left.checked_sub(bytes.len()).ok_or(Stop::TooLarge)?;
        self.is_empty &= bytes.is_empty();
        self.decide(bytes);
        let written = match &mut self.packing {
            Packing::None(out) | Packing::Undecided(out) => out.write_all(bytes),
            Packing::Gzip(out) => out.write_all(bytes),
            Packing::Zlib(out) => out.write_all(bytes),
            Packing::Deflate(out) => out.write_all(bytes),
        };
        written.map_err(|error| stop(&error))
    }

    fn decide(&mut self, bytes: &[u8]) {
        if let (Packing::Undecided(out), Some(first)) = (&mut self.packing, bytes.first()) {
            let out = Bounded { bytes: Vec::new(), most: out.most };
            // The low half of the head's first byte names the method, and 8 is the only one there is.
            self.packing = match first & 0x0f {
                8 => Packing::Zlib(ZlibDecoder::new(out)),
                _ => Packing::Deflate(DeflateDecoder::new(out)),
            };
        }
    }

    pub(super) fn finish(self) -> Result<Vec<u8>, Stop> {
        let finished = match self.packing {
            Packing::None(out) | Packing::Undecided(out) => Ok(out),
            // Nothing at all is sent packed by nobody, and means nothing at all.
            Packing::Gzip(_) if self.is_empty => return Ok(Vec::new()),
            Packing::Gzip(out) => out.finish(),
            Packing::Zlib(out) => out.finish(),
            Packing::Deflate(out) => out.finish(),
        };
        finished.map(|out| out.bytes).map_err(|error| stop(&error))
    }
}

fn stop(error: &io::Error) -> Stop {
    match error.kind() {
        io::ErrorKind::FileTooLarge => Stop::TooLarge,
        _ => Stop::Broken,
    }
}

/// Takes so much and no more.
struct Bounded {
    bytes: Vec<u8>,
    most: usize,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.most {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use flate2::{
        Compression,
        write::{DeflateEncoder, GzEncoder, ZlibEncoder},
    };

    use super::*;

    fn packed(encoding: &str, bytes: &[u8]) -> Vec<u8> {
        let done = "written to memory";
        match encoding {
            "gzip" => {
                let mut out = GzEncoder::new(Vec::new(), Compression::best());
                out.write_all(bytes).and_then(|()| out.finish()).expect(done)
            }
            "deflate" => {
                let mut out = ZlibEncoder::new(Vec::new(), Compression::best());
                out.write_all(bytes).and_then(|()| out.finish()).expect(done)
            }
            _ => {
                let mut out = DeflateEncoder::new(Vec::new(), Compression::best());
                out.write_all(bytes).and_then(|()| out.finish()).expect(done)
            }
        }
    }

    fn unpack(encoding: &str, bytes: &[u8], most: usize, step: usize) -> Result<Vec<u8>, Stop> {
        let mut body = Body::new(encoding, most)?;
        bytes.chunks(step).try_for_each(|piece| body.push(piece))?;
        body.finish()
    }

    #[test]
    fn what_was_packed_comes_out_whatever_the_pieces() {
        let text = "the same words, ".repeat(500).into_bytes();
        for (header, how) in
            [("gzip", "gzip"), ("deflate", "deflate"), ("deflate", "raw"), (" GZIP", "gzip")]
        {
            for step in [1, 7, 100_000] {
                assert_eq!(
                    unpack(header, &packed(how, &text), 10_000, step).as_ref(),
                    Ok(&text),
                    "{how} {step}"
                );
            }
        }
        assert_eq!(unpack("", &text, 10_000, 9).as_ref(), Ok(&text));
        assert_eq!(unpack("gzip", b"", 10, 1), Ok(Vec::new()));
    }

    #[test]
    fn a_bomb_is_stopped_before_it_is_large() {
        let bomb = packed("gzip", &vec![0; 50 << 20]);
        assert!(bomb.len() < 100_000);
        let mut body = Body::new("gzip", 1 << 20).expect("known");
        assert_eq!(bomb.chunks(1000).try_for_each(|piece| body.push(piece)), Err(Stop::TooLarge));
        let Packing::Gzip(out) = &body.packing else { panic!("it is gzip") };
        assert!(out.get_ref().bytes.len() <= 1 << 20);
    }

    #[test]
    fn more_than_is_taken_is_stopped_as_it_comes() {
        assert_eq!(unpack("", &[0; 11], 10, 3), Err(Stop::TooLarge));
        assert_eq!(unpack("", &[0; 10], 10, 3), Ok(vec![0; 10]));
    }

    #[test]
    fn what_is_broken_or_unknown_is_told() {
        let whole = packed("gzip", b"some text");
        let (half, _) = whole.split_at(whole.len() / 2);
        assert_eq!(unpack("gzip", half, 100, 5), Err(Stop::Broken));
        for nothing_packed in [&b"no gzip at all"[..], b"x"] {
            assert_eq!(unpack("gzip", nothing_packed, 100, 5), Err(Stop::Broken));
        }
        assert_eq!(unpack("br", b"", 100, 5), Err(Stop::Unknown("br".to_owned())));
        assert_eq!(unpack("gzip, gzip", b"", 100, 5), Err(Stop::Unknown("gzip, gzip".to_owned())));
    }
}
