//! `read` on images and PDF documents, good, broken and hostile.

use haft::ErrorKind;
use serde_json::json;

use super::{Setup, data, footer, shown};

/// One white pixel.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\0\0\0\x0aIDAT\
    \x78\x9c\x63\0\x01\0\0\x05\0\x01\x0d\x0a\x2d\xb4\0\0\0\0IEND\xae\x42\x60\x82";
/// The header of an image of two by three pixels.
const JPEG: &[u8] = b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0\xff\xc0\0\x0b\x08\0\x03\0\x02\x01\x01\x11\0\xff\xd9";
const GIF: &[u8] =
    b"GIF89a\x01\0\x01\0\x80\0\0\xff\xff\xff\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;";

/// Again only a header.
const WEBP: &[u8] = b"RIFF\x16\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\x01\0\0\x02\0\0";

const CATALOG: &str = "<< /Type /Catalog /Pages 2 0 R >>";
const PAGES: &str = "<< /Type /Pages /Kids [3 0 R] /Count 1 >>";
const PAGE: &str = "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 200] /Contents 4 0 R \
                    /Resources << /Font << /F1 5 0 R >> /XObject << /X 6 0 R >> >> >>";
const FONT: &str = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>";
const HELLO: &str = "BT /F1 12 Tf 10 100 Td (Hello PDF) Tj ET";

fn stream(content: &str) -> String {
    format!("<< /Length {} >>\nstream\n{content}\nendstream", content.len())
}

fn form(content: &str, resources: &str) -> String {
    let length = content.len();
    format!(
        "<< /Type /XObject /Subtype /Form /BBox [0 0 9 9] {resources} /Length {length} >>\nstream\n{content}\nendstream"
    )
}

/// Builds a document of these objects, numbered from 1, with a table of their positions.
fn pdf(objects: &[String]) -> Vec<u8> {
    let mut document = "%PDF-1.4\n".to_owned();
    let mut places = Vec::new();
    for (number, object) in (1..).zip(objects) {
        places.push(document.len());
        document += &format!("{number} 0 obj\n{object}\nendobj\n");
    }
    let (table, count) = (document.len(), objects.len() + 1);
    document += &format!("xref\n0 {count}\n0000000000 65535 f \n");
    document.extend(places.iter().map(|place| format!("{place:010} 00000 n \n")));
    document += &format!("trailer\n<< /Size {count} /Root 1 0 R >>\nstartxref\n{table}\n%%EOF\n");
    document.into_bytes()
}

/// Builds one page with this content. Further objects start at number 6.
fn page(content: &str, more: &[String]) -> Vec<u8> {
    let first = [CATALOG, PAGES, PAGE, &stream(content), FONT].map(str::to_owned);
    pdf(&[first.to_vec(), more.to_vec()].concat())
}

/// Builds a page whose font defines its characters in a separate stream.
fn mapped(map: &str) -> Vec<u8> {
    let font = FONT.replace(">>", "/ToUnicode 6 0 R >>");
    pdf(&[CATALOG, PAGES, PAGE, &stream(HELLO), &font, &stream(map)].map(str::to_owned))
}

#[test]
fn images_are_attached_with_their_size() {
    let setup = Setup::new();
    for (bytes, mime, size) in [
        (PNG, "image/png", "1 x 1"),
        (JPEG, "image/jpeg", "2 x 3"),
        (GIF, "image/gif", "1 x 1"),
        (WEBP, "image/webp", "2 x 3"),
    ] {
        setup.put("picture.txt", bytes);
        let outcome = setup.ok("read", json!({"path": "picture.txt"}));
        let length = bytes.len();
        let expected = format!("{mime}, {size}\n[picture.txt: an image, {length} bytes, attached]");
        assert_eq!(outcome.content, expected);
        let [picture] = &*outcome.attachments else { panic!("one attachment") };
        assert_eq!((picture.mime.as_str(), picture.name.as_str()), (mime, "picture.txt"));
        assert_eq!(picture.data.len(), length.div_ceil(3) * 4, "all of it, in base64");
        assert_eq!(data(&outcome)["kind"], "image");
        assert_eq!(data(&setup.ok("stat", json!({"path": "picture.txt"})))["mime"], mime);
    }
}

#[test]
fn an_image_that_cannot_be_sent_is_too_large() {
    let setup = Setup::new();
    setup.put("big.png", PNG);
    let file = std::fs::OpenOptions::new().write(true).open(setup.path("big.png")).expect("there");
    file.set_len((15 << 20) + 1).expect("a sparse file");
    setup.refused("read", json!({"path": "big.png"}), ErrorKind::TooLarge);
    file.set_len(15 << 20).expect("a sparse file");
    let outcome = setup.ok("read", json!({"path": "big.png"}));
    assert_eq!(outcome.attachments.len(), 1, "{}", outcome.content);
}

#[test]
fn a_document_is_shown_as_text_and_attached() {
    let setup = Setup::new();
    setup.put("hello.pdf", page(HELLO, &[]));
    let outcome = setup.ok("read", json!({"path": "hello.pdf"}));
    assert_eq!(shown(&outcome), ["[page 1]", "Hello PDF"]);
    assert!(footer(&outcome).starts_with("[hello.pdf: lines 1-2 of 2; "), "{}", footer(&outcome));
    assert_eq!((outcome.attachments.len(), &data(&outcome)["kind"]), (1, &json!("pdf")));
    let second = setup.ok("read", json!({"path": "hello.pdf", "offset": 2}));
    assert_eq!(shown(&second), ["Hello PDF"]);
    setup.refused("read", json!({"path": "hello.pdf", "offset": 3}), ErrorKind::Input);
    assert_eq!(data(&setup.ok("stat", json!({"path": "hello.pdf"})))["mime"], "application/pdf");
}

#[test]
fn a_page_that_cannot_be_understood_does_not_take_the_others_with_it() {
    let pages = "<< /Type /Pages /Kids [6 0 R 3 0 R] /Count 2 >>";
    let broken = PAGE.replace("/MediaBox [0 0 200 200]", "/MediaBox (none)");
    let objects = [CATALOG, pages, PAGE, &stream(HELLO), FONT, &broken].map(str::to_owned);
    let setup = Setup::new();
    setup.put("two.pdf", pdf(&objects));
    let lines = shown(&setup.ok("read", json!({"path": "two.pdf"})));
    assert!(lines.ends_with(&["[page 2]".to_owned(), "Hello PDF".to_owned()]), "{lines:?}");
}

#[test]
fn a_picture_on_a_page_does_not_hide_its_text() {
    let pixels = "\u{7f}(<[ no drawing orders";
    let length = pixels.len();
    let image = format!(
        "<< /Type /XObject /Subtype /Image /Width 1 /Height 1 /Length {length} >>\nstream\n{pixels}\nendstream"
    );
    let setup = Setup::new();
    setup.put("picture.pdf", page(&format!("/X Do {HELLO}"), &[image]));
    assert_eq!(shown(&setup.ok("read", json!({"path": "picture.pdf"}))), ["[page 1]", "Hello PDF"]);
}

#[test]
fn a_broken_document_is_attached_without_text() {
    let setup = Setup::new();
    let good = page(HELLO, &[]);
    for bytes in
        [b"%PDF-1.4\nnothing more".to_vec(), good[..good.len() / 2].to_vec(), b"%PDF-".to_vec()]
    {
        setup.put("broken.pdf", &bytes);
        let outcome = setup.ok("read", json!({"path": "broken.pdf"}));
        assert!(outcome.content.contains("without readable text"), "{}", outcome.content);
        assert_eq!(outcome.attachments.len(), 1);
    }
}

#[test]
fn documents_made_to_kill_their_reader_do_not() {
    let own = "/Resources << /XObject << /X 6 0 R /Y 7 0 R >> >>";
    let ten = "/Y Do ".repeat(10);
    let doubling = |number: usize| {
        form(
            &"/N Do ".repeat(10),
            &format!("/Resources << /XObject << /N {} 0 R >> >>", number + 1),
        )
    };
    let no_box = PAGE.replace("/MediaBox [0 0 200 200]", "");
    let circle = "<< /Type /Pages /Parent 2 0 R /Kids [3 0 R] /Count 1 >>";
    let objects =
        |list: &[&str]| pdf(&list.iter().map(|object| (*object).to_owned()).collect::<Vec<_>>());
    let setup = Setup::new();
    for (what, bytes) in [
        ("a form that draws itself", page(&format!("{HELLO} /X Do"), &[form("/X Do", own)])),
        ("a form that draws itself by the names of its page", page("/X Do", &[form("/X Do", "")])),
        ("two forms that draw each other", page("/X Do", &[form(&ten, own), form("/X Do", own)])),
        (
            "forms that draw ten forms each",
            page("/X Do", &(6..20).map(doubling).collect::<Vec<_>>()),
        ),
        (
            "a page tree that is a circle",
            objects(&[CATALOG, circle, &no_box, &stream(HELLO), FONT]),
        ),
        ("deep lists in the map of a font", mapped(&"[".repeat(100_000))),
        ("deep lists in the map of a font, ends hidden", mapped(&"[ (]) %]\n".repeat(20_000))),
        ("deep texts in the map of a font", mapped(&"(".repeat(100_000))),
        ("deep arrays", page(&format!("{} {HELLO}", "[".repeat(200_000)), &[])),
        ("deep dictionaries", page(HELLO, &["<< /A ".repeat(100_000)])),
        (
            "a page that is its own child",
            objects(&[CATALOG, "<< /Type /Pages /Kids [2 0 R] /Count 1 >>"]),
        ),
    ] {
        setup.put("hostile.pdf", &bytes);
        let outcome = setup.ok("read", json!({"path": "hostile.pdf"}));
        assert_eq!(outcome.attachments.len(), 1, "{what}: {}", outcome.content);
    }
}

#[test]
fn no_damage_to_a_document_kills_its_reader() {
    let setup = Setup::new();
    let good = page(&format!("{HELLO} /X Do"), &[form(HELLO, "")]);
    let mut seed: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut next = |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed % below as u64).expect("below a usize")
    };
    for round in 0..200 {
        let mut bytes = good.clone();
        for _ in 0..=next(4) {
            let at = 9 + next(bytes.len() - 9);
            match next(4) {
                0 => bytes[at] = u8::try_from(next(256)).expect("a byte"),
                1 => bytes[at] = b"0123456789<>[]()/ R"[next(19)],
                2 => drop(bytes.drain(at..(at + 1 + next(20)).min(bytes.len()))),
                _ => bytes.extend_from_within(at..(at + next(40)).min(bytes.len())),
            }
            if bytes.len() < 40 {
                break;
            }
        }
        setup.put("damaged.pdf", &bytes);
        let outcome = setup.ok("read", json!({"path": "damaged.pdf"}));
        assert_eq!(outcome.attachments.len(), 1, "round {round}: {}", outcome.content);
    }
}
