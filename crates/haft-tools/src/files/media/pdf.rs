//! The text of PDF documents. The parser does whatever a document says, so what would lead it in circles, through
//! endless drawings or into gigabytes is taken away here first, and a page that it breaks on is left out.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pdf_extract::{
    Dictionary, Document, Object, ObjectId, PlainTextOutput, Stream, content::Content,
    output_doc_page,
};

/// The parser counts all pages for each page, and nobody reads so many in one go.
const MOST_PAGES: usize = 1_000;
/// More text than this is not kept.
const MOST_TEXT: usize = 8 << 20;
/// Unpacked, a stream may become a thousand times as long.
const LARGEST_PACKED: usize = 1 << 20;
/// Forms that draw forms, and page nodes above a page. The parser goes down on the stack, which is short.
const DEEPEST: usize = 16;
/// Lists in lists in what a font says of its letters; two or three are usual.
const DEEPEST_LIST: usize = 32;
/// What is drawn in the whole document, in bytes, forms again each time they are drawn.
const MOST_DRAWN: usize = 64 << 20;
/// What drawing a form costs besides its bytes.
const ONE_FORM: usize = 16 << 10;

/// The text page by page, or as much of it as can be had; `None` when there is none.
pub(crate) fn text(bytes: &[u8], stop: &dyn Fn() -> bool) -> Option<String> {
    let document = guarded(|| load(bytes))?;
    let mut budget = MOST_DRAWN;
    let mut text = String::new();
    let mut has_text = false;
    for (number, id) in document.get_pages().into_iter().take(MOST_PAGES) {
        if stop() || text.len() > MOST_TEXT {
            break;
        }
        let page = guarded(|| page(&document, number, id, &mut budget));
        let shown = page.as_deref().map_or("[this page cannot be read]", str::trim);
        has_text |= page.is_some() && !shown.is_empty();
        let gap = if text.is_empty() { "" } else { "\n" };
        text += &format!("{gap}[page {number}]\n{shown}\n");
    }
    has_text.then_some(text)
}

/// The parser is made for well-meant documents and panics on others.
fn guarded<T>(work: impl FnOnce() -> Option<T>) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok().flatten()
}

fn load(bytes: &[u8]) -> Option<Document> {
    let mut document = Document::load_mem(bytes).ok()?;
    if document.is_encrypted() {
        document.decrypt("").ok()?;
    }
    for object in document.objects.values_mut() {
        if let Object::Stream(stream) = object
            && (is_image(stream) || !is_modest(stream))
        {
            // The parser would take an image for drawing orders.
            replace(stream, Vec::new());
        }
    }
    disarm_fonts(&mut document);
    Some(document)
}

fn replace(stream: &mut Stream, content: Vec<u8>) {
    stream.dict.remove(b"Filter");
    stream.set_content(content);
}

/// What a font says in streams of its own about its letters is read by parsers that go down on the stack without end.
fn disarm_fonts(document: &mut Document) {
    let mut named = Vec::new();
    document.objects.values().for_each(|object| collect_letters(object, &mut named));
    for id in named {
        let real = document.dereference(&Object::Reference(id)).ok().and_then(|(id, _)| id);
        let Some(Object::Stream(stream)) = real.and_then(|id| document.objects.get_mut(&id)) else {
            continue;
        };
        let mut content = unpacked(stream);
        // What comes after this word in a font is not text.
        let end = content.windows(5).position(|word| word == b"eexec").unwrap_or(content.len());
        content.truncate(end);
        replace(stream, if is_flat(&content) { content } else { Vec::new() });
    }
}

/// Streams of fonts, wherever they are named.
fn collect_letters(object: &Object, named: &mut Vec<ObjectId>) {
    let dictionary = match object {
        Object::Dictionary(dictionary) => dictionary,
        Object::Stream(stream) => &stream.dict,
        Object::Array(items) => {
            return items.iter().for_each(|item| collect_letters(item, named));
        }
        _ => return,
    };
    for (key, value) in dictionary.iter() {
        match value {
            Object::Reference(id)
                if [&b"ToUnicode"[..], b"Encoding", b"FontFile"].contains(&&**key) =>
            {
                named.push(*id);
            }
            value => collect_letters(value, named),
        }
    }
}

/// Whether lists in lists and texts in texts are few. Openings count wherever they stand, endings only where nothing
/// can hide them.
fn is_flat(content: &[u8]) -> bool {
    let (mut depth, mut texts, mut is_comment, mut is_escaped) = (0_usize, 0_usize, false, false);
    content.iter().all(|byte| {
        let is_plain = !is_comment && !is_escaped;
        is_escaped = texts > 0 && !is_escaped && *byte == b'\\';
        match byte {
            b'\n' => is_comment = false,
            b'%' if texts == 0 => is_comment = true,
            b'(' => (depth, texts) = (depth + 1, texts + usize::from(is_plain)),
            b'[' | b'{' | b'<' => depth += 1,
            b')' if is_plain && texts > 0 => (depth, texts) = (depth.saturating_sub(1), texts - 1),
            b']' | b'}' | b'>' if is_plain && texts == 0 => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth <= DEEPEST_LIST
    })
}

fn unpacked(stream: &Stream) -> Vec<u8> {
    stream.decompressed_content().unwrap_or_else(|_| stream.content.clone())
}

fn is_image(stream: &Stream) -> bool {
    let subtype = stream.dict.get(b"Subtype").and_then(Object::as_name);
    subtype.is_ok_and(|name| name == b"Image")
}

/// Whether unpacking it cannot fill the memory.
fn is_modest(stream: &Stream) -> bool {
    let unpacks = |name: &&&[u8]| name.ends_with(b"Decode") && !name.starts_with(b"ASCII");
    let filters = stream.filters().unwrap_or_default();
    stream.content.len() <= LARGEST_PACKED && filters.iter().filter(unpacks).count() <= 1
}

fn page(document: &Document, number: u32, id: ObjectId, budget: &mut usize) -> Option<String> {
    let page = document.get_dictionary(id).ok()?;
    let none = Dictionary::new();
    let resources = inherited_resources(document, page)?.unwrap_or(&none);
    let content = document.get_page_content(id).ok()?;
    if !ends(document, &content, resources, 0, budget) {
        return None;
    }
    let mut text = String::new();
    output_doc_page(document, &mut PlainTextOutput::new(&mut text), number).ok()?;
    Some(text)
}

/// The resources of a page or of a node above it; nothing at all when the nodes above it do not end.
fn inherited_resources<'a>(
    document: &'a Document,
    page: &'a Dictionary,
) -> Option<Option<&'a Dictionary>> {
    let (mut node, mut found) = (page, None);
    for _ in 0..DEEPEST {
        found = found.or_else(|| dictionary(document, node, b"Resources"));
        let Some(above) = dictionary(document, node, b"Parent") else { return Some(found) };
        node = above;
    }
    None
}

/// Whether drawing this comes to an end within the budget.
fn ends(
    document: &Document,
    content: &[u8],
    resources: &Dictionary,
    depth: usize,
    budget: &mut usize,
) -> bool {
    let Some(left) = budget.checked_sub(content.len() + ONE_FORM) else { return false };
    *budget = left;
    // What cannot be read is not drawn either.
    let Ok(content) = Content::decode(content) else { return true };
    let mut drawn = content.operations.iter().filter(|operation| operation.operator == "Do");
    drawn.all(|operation| {
        let name = operation.operands.first().and_then(|name| name.as_name().ok());
        let Some(form) = name.and_then(|name| form(document, resources, name)) else { return true };
        let own = dictionary(document, &form.dict, b"Resources").unwrap_or(resources);
        depth < DEEPEST && ends(document, &unpacked(form), own, depth + 1, budget)
    })
}

fn form<'a>(document: &'a Document, resources: &'a Dictionary, name: &[u8]) -> Option<&'a Stream> {
    let forms = dictionary(document, resources, b"XObject")?;
    let (_, form) = document.dereference(forms.get(name).ok()?).ok()?;
    form.as_stream().ok()
}

fn dictionary<'a>(
    document: &'a Document,
    holder: &'a Dictionary,
    key: &[u8],
) -> Option<&'a Dictionary> {
    let (_, value) = document.dereference(holder.get(key).ok()?).ok()?;
    value.as_dict().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_is_seen_through_what_hides_it() {
        let usual = "/CIDSystemInfo << /Registry (Adobe \\(x\\)) >> def\n% [[[\n1 beginbfrange\n<00> <01> [<0041> <0042>]\n";
        assert!(is_flat(usual.as_bytes()) && is_flat(usual.repeat(5).as_bytes()));
        for hostile in ["[", "(", "<<", "{", "[(])", "[%]\n", "[(\\)])", "[%\r]\n"] {
            assert!(!is_flat(hostile.repeat(100).as_bytes()), "{hostile:?}");
        }
    }
}
