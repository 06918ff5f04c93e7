//! Converts bytes to text and back, exactly. The encoding is detected and kept. A text that would
//! not be encoded to the same bytes again is not edited.

use std::borrow::Cow;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};

/// Number of bytes examined to recognise text.
pub(crate) const SAMPLE: usize = 64 << 10;
/// Percentage of control characters above which a file is not text.
const MAX_CONTROL_PERCENT: usize = 30;

/// The encoding of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TextEncoding {
    encoding: &'static Encoding,
    has_bom: bool,
}

/// A decoded text and its encoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Text {
    pub(crate) text: String,
    pub(crate) form: TextEncoding,
}

/// A character that the encoding does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnmappableChar {
    pub(crate) character: char,
    pub(crate) line: usize,
}

impl TextEncoding {
    /// The encoding of new files.
    pub(crate) const UTF_8: Self = Self { encoding: UTF_8, has_bom: false };

    /// Detects the encoding from the beginning of a file; `None` when it is not text. `is_whole`:
    /// the sample is the whole file.
    pub(crate) fn sniff(sample: &[u8], is_whole: bool) -> Option<Self> {
        if let Some((encoding, _)) = bom(sample) {
            return Some(Self { encoding, has_bom: true });
        }
        let plain = |encoding| Some(Self { encoding, has_bom: false });
        if memchr::memchr(0, sample).is_some() {
            return utf16_by_zeros(sample).and_then(plain);
        }
        if has_many_controls(sample) {
            return None;
        }
        match std::str::from_utf8(sample) {
            Ok(_) => plain(UTF_8),
            // The sample ends inside a character.
            Err(error) if !is_whole && error.error_len().is_none() => plain(UTF_8),
            Err(_) => plain(detect(sample)),
        }
    }

    /// Returns the name of the encoding.
    pub(crate) fn name(&self) -> String {
        let mark = if self.has_bom { " with BOM" } else { "" };
        format!("{}{mark}", self.encoding.name())
    }

    pub(crate) fn is_plain_utf8(&self) -> bool {
        *self == Self::UTF_8
    }

    /// Returns true if the encoding is always detected again: UTF-8, or any with a byte order mark.
    pub(crate) fn is_self_describing(&self) -> bool {
        self.has_bom || self.encoding == UTF_8
    }

    /// Returns true if the byte 10 is a newline and nothing else.
    pub(crate) fn has_byte_lines(&self) -> bool {
        !self.is_utf16()
    }

    fn is_utf16(&self) -> bool {
        self.encoding == UTF_16LE || self.encoding == UTF_16BE
    }

    /// Decodes for display: invalid bytes become a replacement character. The byte order mark must
    /// already be removed.
    pub(crate) fn show(&self, bytes: &[u8]) -> String {
        self.encoding.decode_without_bom_handling(bytes).0.into_owned()
    }

    /// Returns the byte order mark.
    pub(crate) fn mark(&self) -> &'static [u8] {
        match self.has_bom {
            false => b"",
            true if self.encoding == UTF_16LE => b"\xff\xfe",
            true if self.encoding == UTF_16BE => b"\xfe\xff",
            true => b"\xef\xbb\xbf",
        }
    }

    /// Encodes a text.
    ///
    /// # Errors
    /// The first character that the encoding does not have.
    pub(crate) fn encode(&self, text: &str) -> Result<Vec<u8>, UnmappableChar> {
        let mut bytes = self.mark().to_vec();
        if self.encoding == UTF_16LE {
            bytes.extend(text.encode_utf16().flat_map(u16::to_le_bytes));
        } else if self.encoding == UTF_16BE {
            bytes.extend(text.encode_utf16().flat_map(u16::to_be_bytes));
        } else if self.encoding == UTF_8 {
            bytes.extend_from_slice(text.as_bytes());
        } else {
            let (encoded, _, has_unmappable) = self.encoding.encode(text);
            if has_unmappable {
                return Err(self.unmappable(text));
            }
            bytes.extend_from_slice(&encoded);
        }
        Ok(bytes)
    }

    fn unmappable(&self, text: &str) -> UnmappableChar {
        let mut line = 1;
        let mut buffer = [0; 4];
        for character in text.chars() {
            if self.encoding.encode(character.encode_utf8(&mut buffer)).2 {
                return UnmappableChar { character, line };
            }
            line += usize::from(character == '\n');
        }
        UnmappableChar { character: '\u{fffd}', line }
    }
}

impl Text {
    /// Returns the text of a whole file in plain UTF-8, as nearly every file is; `None` for others.
    pub(crate) fn plain(bytes: &[u8]) -> Option<&str> {
        if bom(bytes).is_some() || looks_binary(bytes) {
            return None;
        }
        // `encoding_rs` checks blocks of bytes, and is faster than the standard library.
        match UTF_8.decode_without_bom_handling_and_without_replacement(bytes) {
            Some(Cow::Borrowed(text)) => Some(text),
            _ => None,
        }
    }

    /// Decodes a whole file; `None` when it is not text, or would not be encoded to the same bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        if let Some(text) = Self::plain(bytes) {
            return Some(Self { text: text.to_owned(), form: TextEncoding::UTF_8 });
        }
        let sample = bytes.get(..SAMPLE).unwrap_or(bytes);
        let mut form = TextEncoding::sniff(sample, sample.len() == bytes.len())?;
        if form.is_plain_utf8() {
            // The sample was UTF-8, but the rest is not.
            form.encoding = detect(bytes);
        }
        Self::decode_as(bytes, form).or_else(|| {
            let is_guess = !form.has_bom && !form.is_utf16();
            // With a wrong guess the file must still be readable: windows-1252 maps every byte.
            is_guess.then(|| {
                Self::decode_as(bytes, TextEncoding { encoding: WINDOWS_1252, has_bom: false })
            })?
        })
    }

    fn decode_as(bytes: &[u8], form: TextEncoding) -> Option<Self> {
        let content = bytes.strip_prefix(form.mark())?;
        let text = form
            .encoding
            .decode_without_bom_handling_and_without_replacement(content)?
            .into_owned();
        let is_exact = form.encode(&text).is_ok_and(|encoded| encoded == bytes);
        is_exact.then_some(Self { text, form })
    }
}

fn bom(bytes: &[u8]) -> Option<(&'static Encoding, usize)> {
    // These four bytes begin like UTF-16 but are the mark of UTF-32, which is too rare to support.
    if bytes.starts_with(b"\xff\xfe\0\0") {
        return None;
    }
    Encoding::for_bom(bytes)
}

fn looks_binary(bytes: &[u8]) -> bool {
    let sample = bytes.get(..SAMPLE).unwrap_or(bytes);
    memchr::memchr(0, sample).is_some() || has_many_controls(sample)
}

fn has_many_controls(sample: &[u8]) -> bool {
    let sample = sample.get(..4096).unwrap_or(sample);
    // Sums that fit in a byte let the compiler process many bytes at once. Most texts have few
    // control characters even with their line endings.
    let low = |piece: &[u8]| piece.iter().map(|byte| u8::from(*byte < 0x20)).sum::<u8>();
    let lows: usize = sample.chunks(128).map(|piece| usize::from(low(piece))).sum();
    if lows * 100 <= sample.len() * MAX_CONTROL_PERCENT {
        return false;
    }
    const TEXT_CONTROLS: u32 = 1 << 9 | 1 << 10 | 1 << 11 | 1 << 12 | 1 << 13 | 1 << 27 | 1 << 8;
    let is_control = |byte: &u8| u32::from(*byte < 0x20) & !(TEXT_CONTROLS >> (byte & 31)) & 1;
    let controls = sample.iter().map(is_control).sum::<u32>() as usize;
    controls * 100 > sample.len() * MAX_CONTROL_PERCENT
}

/// Detects UTF-16 without a byte order mark: western text has a zero in every second byte.
fn utf16_by_zeros(sample: &[u8]) -> Option<&'static Encoding> {
    let whole = sample.len() & !1;
    let (pairs, _) = sample.get(..whole)?.as_chunks::<2>();
    if pairs.is_empty() {
        return None;
    }
    let zeros = |place: usize| pairs.iter().filter(|pair| pair[place] == 0).count();
    let (first, second) = (zeros(0), zeros(1));
    let encoding = match (first, second) {
        (0, second) if second * 10 >= pairs.len() * 4 => UTF_16LE,
        (first, 0) if first * 10 >= pairs.len() * 4 => UTF_16BE,
        _ => return None,
    };
    let text = encoding.decode_without_bom_handling_and_without_replacement(sample.get(..whole)?);
    let has_controls = |text: &str| has_many_controls(text.as_bytes());
    text.is_some_and(|text| !has_controls(&text)).then_some(encoding)
}

fn detect(bytes: &[u8]) -> &'static Encoding {
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(bytes, true);
    detector.guess(None, Utf8Detection::Deny)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], name: &str, text: &str) {
        let decoded = Text::decode(bytes).expect("a text");
        assert_eq!((decoded.form.name().as_str(), decoded.text.as_str()), (name, text));
        assert_eq!(decoded.form.encode(&decoded.text).as_deref(), Ok(bytes));
    }

    #[test]
    fn encodings_are_found_and_come_back_the_same() {
        check(b"", "UTF-8", "");
        check("h\u{e9}llo\r\n".as_bytes(), "UTF-8", "h\u{e9}llo\r\n");
        check(b"\xef\xbb\xbfa\n", "UTF-8 with BOM", "a\n");
        check(b"\xff\xfea\0\n\0", "UTF-16LE with BOM", "a\n");
        check(b"\xfe\xff\0a\0\n", "UTF-16BE with BOM", "a\n");
        check(b"h\0e\0l\0l\0o\0", "UTF-16LE", "hello");
        check(b"\0h\0e\0l\0l\0o", "UTF-16BE", "hello");
        check(
            b"caf\xe9 cr\xe8me br\xfbl\xe9e\n",
            "windows-1252",
            "caf\u{e9} cr\u{e8}me br\u{fb}l\u{e9}e\n",
        );
    }

    #[test]
    fn japanese_is_distinguished_from_western() {
        let bytes = encoding_rs::SHIFT_JIS.encode("これは日本語の文章です。\n").0.into_owned();
        check(&bytes, "Shift_JIS", "これは日本語の文章です。\n");
    }

    #[test]
    fn binary_content_is_not_text() {
        for bytes in [&b"\x7fELF\x02\x01\x01\0\0\0"[..], b"a\0b", b"\xff\xfe\0\0a\0\0\0", &[1; 100]]
        {
            assert_eq!(Text::decode(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn a_character_that_the_encoding_lacks_is_named() {
        let latin = Text::decode(b"caf\xe9 cr\xe8me\n").expect("a text").form;
        let error = latin.encode("caf\u{e9}\n\u{2192} x").expect_err("no arrow in it");
        assert_eq!(error, UnmappableChar { character: '\u{2192}', line: 2 });
    }

    #[test]
    fn a_sample_may_end_inside_a_character() {
        let bytes = "h\u{e9}".as_bytes();
        let cut = bytes.get(..2).expect("three bytes");
        assert_eq!(TextEncoding::sniff(cut, false), Some(TextEncoding::UTF_8));
        assert_ne!(TextEncoding::sniff(cut, true), Some(TextEncoding::UTF_8));
    }

    proptest! {
        #[test]
        fn text_is_encoded_to_the_same_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Some(text) = Text::decode(&bytes) {
                prop_assert_eq!(text.form.encode(&text.text), Ok(bytes));
            }
        }

        #[test]
        fn utf16_round_trips(text in "\\PC{0,40}", is_little: bool) {
            let encoding = if is_little { UTF_16LE } else { UTF_16BE };
            let bytes = TextEncoding { encoding, has_bom: true }.encode(&text).expect("it has all characters");
            let decoded = Text::decode(&bytes).expect("a text");
            prop_assert_eq!(decoded.text, text);
        }
    }
}
