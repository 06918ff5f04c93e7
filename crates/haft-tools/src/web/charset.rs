//! Decodes a page. The encoding comes from the byte order mark, the response header, the page
//! itself, or a guess. A declared encoding that does not fit the bytes is ignored.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};

/// Number of bytes searched for an encoding declaration.
const DECLARATION_BYTES: usize = 4096;

/// Returns the text and the name of its encoding.
pub(crate) fn decode(bytes: Vec<u8>, content_type: &str) -> (String, &'static str) {
    if let Some((encoding, length)) = Encoding::for_bom(&bytes) {
        let text = encoding.decode_without_bom_handling(bytes.get(length..).unwrap_or_default()).0;
        return (text.into_owned(), encoding.name());
    }
    let declared = [by_header(content_type), by_page(&bytes)];
    let is_utf8 = declared.iter().flatten().next().is_none_or(|encoding| *encoding == UTF_8);
    // Nearly every page is UTF-8, and other encodings are almost never valid UTF-8.
    let bytes = match (is_utf8, bytes) {
        (true, bytes) => match String::from_utf8(bytes) {
            Ok(text) => return (text, UTF_8.name()),
            Err(error) => error.into_bytes(),
        },
        (false, bytes) => bytes,
    };
    let fits = |encoding: &&'static Encoding| !encoding.decode_without_bom_handling(&bytes).1;
    let encoding = declared.into_iter().flatten().find(fits).unwrap_or_else(|| guess(&bytes));
    (encoding.decode_without_bom_handling(&bytes).0.into_owned(), encoding.name())
}

fn guess(bytes: &[u8]) -> &'static Encoding {
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(bytes, true);
    detector.guess(None, Utf8Detection::Allow)
}

/// Reads `text/html; charset=…`.
fn by_header(content_type: &str) -> Option<&'static Encoding> {
    let mut words = content_type.split(';').skip(1);
    let label = words.find_map(|word| {
        let (name, value) = word.split_once('=')?;
        name.trim().eq_ignore_ascii_case("charset").then_some(value)
    })?;
    Encoding::for_label(label.trim().trim_matches(['"', '\'']).as_bytes())
}

/// Reads `<meta charset=…>`, `<meta http-equiv content="…charset=…">`, `<?xml encoding=…?>`.
fn by_page(bytes: &[u8]) -> Option<&'static Encoding> {
    let beginning = bytes.get(..DECLARATION_BYTES).unwrap_or(bytes).to_ascii_lowercase();
    let words = [&b"charset="[..], b"charset =", b"encoding="];
    let at = words
        .iter()
        .find_map(|word| memchr::memmem::find(&beginning, word).map(|at| at + word.len()))?;
    let rest = beginning.get(at..)?;
    let rest = rest.trim_ascii_start();
    let rest = rest.strip_prefix(b"\"").or_else(|| rest.strip_prefix(b"'")).unwrap_or(rest);
    let is_label =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b':' | b'.');
    let length = rest.iter().position(|byte| !is_label(byte)).unwrap_or(rest.len());
    let encoding = Encoding::for_label(rest.get(..length)?)?;
    // The declaration was readable byte by byte, so the page has no two-byte encoding.
    let is_wide = encoding == UTF_16LE || encoding == UTF_16BE;
    Some(if is_wide { UTF_8 } else { encoding })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], content_type: &str, text: &str, name: &str) {
        let (decoded, encoding) = decode(bytes.to_vec(), content_type);
        assert_eq!((decoded.as_str(), encoding), (text, name), "{content_type}");
    }

    #[test]
    fn the_byte_order_mark_beats_the_header_beats_the_page_beats_the_guess() {
        check(b"\xef\xbb\xbfh\xc3\xa9", "text/html; charset=iso-8859-1", "h\u{e9}", "UTF-8");
        check(b"\xff\xfeh\0\xe9\0", "text/html; charset=utf-8", "h\u{e9}", "UTF-16LE");
        check(b"h\xe9", "text/html; Charset=\"ISO-8859-1\"", "h\u{e9}", "windows-1252");
        check(
            b"<meta charset=koi8-r>\xc4\xc1",
            "text/html",
            "<meta charset=koi8-r>\u{434}\u{430}",
            "KOI8-R",
        );
        let meta = b"<META http-equiv=content-type content='text/html; charset=Shift_JIS'>\x93\xfa";
        check(
            meta,
            "",
            "<META http-equiv=content-type content='text/html; charset=Shift_JIS'>\u{65e5}",
            "Shift_JIS",
        );
        check(
            "<?xml version='1.0' encoding='utf-16'?>\u{e9}".as_bytes(),
            "",
            "<?xml version='1.0' encoding='utf-16'?>\u{e9}",
            "UTF-8",
        );
        check("caf\u{e9}".as_bytes(), "text/plain", "caf\u{e9}", "UTF-8");
    }

    #[test]
    fn a_declaration_that_does_not_fit_the_bytes_is_ignored() {
        check(
            b"caf\xe9 cr\xe8me br\xfbl\xe9e",
            "text/html; charset=utf-8",
            "caf\u{e9} cr\u{e8}me br\u{fb}l\u{e9}e",
            "windows-1252",
        );
        check(
            "\u{65e5}\u{672c}".as_bytes(),
            "text/html; charset=nonsense",
            "\u{65e5}\u{672c}",
            "UTF-8",
        );
        check(
            "\u{65e5}\u{672c}\u{8a9e}".as_bytes(),
            "text/html; charset=euc-jp",
            "\u{65e5}\u{672c}\u{8a9e}",
            "UTF-8",
        );
    }
}
