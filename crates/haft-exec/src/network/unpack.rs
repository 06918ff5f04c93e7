//! Decompresses the body of a response while it arrives, and stops when it exceeds the limit,
//! compressed or not.

use std::io::{self, Write};

use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};

/// Why decoding stopped.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BodyError {
    TooLarge,
    /// The body does not match its encoding header.
    Broken,
    /// The server used an encoding that was not requested.
    Unknown(String),
}

/// A body that is being received.
pub(super) struct BodyDecoder {
    encoding_state: BodyEncoding,
    /// Bytes that may still arrive, as sent.
    left: usize,
    is_empty: bool,
}

enum BodyEncoding {
    None(BoundedBuffer),
    Gzip(MultiGzDecoder<BoundedBuffer>),
    /// As specified, with a header and a checksum.
    Zlib(ZlibDecoder<BoundedBuffer>),
    /// Raw deflate data, as some servers send it.
    Deflate(DeflateDecoder<BoundedBuffer>),
    /// The first byte decides between the two.
    Undecided(BoundedBuffer),
}

impl BodyDecoder {
    /// `encoding` is the value of the header.
    pub(super) fn new(encoding: &str, max: usize) -> Result<Self, BodyError> {
        let out = BoundedBuffer { bytes: Vec::new(), max };
        let encoding_state = match encoding.trim().to_ascii_lowercase().as_str() {
            "" | "identity" => BodyEncoding::None(out),
            "gzip" | "x-gzip" => BodyEncoding::Gzip(MultiGzDecoder::new(out)),
            "deflate" => BodyEncoding::Undecided(out),
            other => return Err(BodyError::Unknown(other.chars().take(40).collect())),
        };
        Ok(Self { encoding_state, left: max, is_empty: true })
    }

    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), BodyError> {
        self.left = self.left.checked_sub(bytes.len()).ok_or(BodyError::TooLarge)?;
        self.is_empty &= bytes.is_empty();
        self.decide(bytes);
        let written = match &mut self.encoding_state {
            BodyEncoding::None(out) | BodyEncoding::Undecided(out) => out.write_all(bytes),
            BodyEncoding::Gzip(out) => out.write_all(bytes),
            BodyEncoding::Zlib(out) => out.write_all(bytes),
            BodyEncoding::Deflate(out) => out.write_all(bytes),
        };
        written.map_err(|error| stop(&error))
    }

    fn decide(&mut self, bytes: &[u8]) {
        if let (BodyEncoding::Undecided(out), Some(first)) =
            (&mut self.encoding_state, bytes.first())
        {
            let out = BoundedBuffer { bytes: Vec::new(), max: out.max };
            // The low half of the first byte is the compression method; only 8 is defined.
            self.encoding_state = match first & 0x0f {
                8 => BodyEncoding::Zlib(ZlibDecoder::new(out)),
                _ => BodyEncoding::Deflate(DeflateDecoder::new(out)),
            };
        }
    }

    pub(super) fn finish(self) -> Result<Vec<u8>, BodyError> {
        let finished = match self.encoding_state {
            BodyEncoding::None(out) | BodyEncoding::Undecided(out) => Ok(out),
            // Some servers declare an encoding for an empty body.
            BodyEncoding::Gzip(_) if self.is_empty => return Ok(Vec::new()),
            BodyEncoding::Gzip(out) => out.finish(),
            BodyEncoding::Zlib(out) => out.finish(),
            BodyEncoding::Deflate(out) => out.finish(),
        };
        finished.map(|out| out.bytes).map_err(|error| stop(&error))
    }
}

fn stop(error: &io::Error) -> BodyError {
    match error.kind() {
        io::ErrorKind::FileTooLarge => BodyError::TooLarge,
        _ => BodyError::Broken,
    }
}

/// A buffer with a maximum size.
struct BoundedBuffer {
    bytes: Vec<u8>,
    max: usize,
}

impl Write for BoundedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.max {
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

    fn unpack(encoding: &str, bytes: &[u8], max: usize, step: usize) -> Result<Vec<u8>, BodyError> {
        let mut body = BodyDecoder::new(encoding, max)?;
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
        let mut body = BodyDecoder::new("gzip", 1 << 20).expect("known");
        assert_eq!(
            bomb.chunks(1000).try_for_each(|piece| body.push(piece)),
            Err(BodyError::TooLarge)
        );
        let BodyEncoding::Gzip(out) = &body.encoding_state else { panic!("it is gzip") };
        assert!(out.get_ref().bytes.len() <= 1 << 20);
    }

    #[test]
    fn more_than_is_taken_is_stopped_as_it_comes() {
        assert_eq!(unpack("", &[0; 11], 10, 3), Err(BodyError::TooLarge));
        assert_eq!(unpack("", &[0; 10], 10, 3), Ok(vec![0; 10]));
    }

    #[test]
    fn broken_and_unknown_encodings_are_reported() {
        let whole = packed("gzip", b"some text");
        let (half, _) = whole.split_at(whole.len() / 2);
        assert_eq!(unpack("gzip", half, 100, 5), Err(BodyError::Broken));
        for nothing_packed in [&b"no gzip at all"[..], b"x"] {
            assert_eq!(unpack("gzip", nothing_packed, 100, 5), Err(BodyError::Broken));
        }
        assert_eq!(unpack("br", b"", 100, 5), Err(BodyError::Unknown("br".to_owned())));
        assert_eq!(
            unpack("gzip, gzip", b"", 100, 5),
            Err(BodyError::Unknown("gzip, gzip".to_owned()))
        );
    }
}
