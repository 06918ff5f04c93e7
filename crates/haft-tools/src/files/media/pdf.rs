//! The text of PDF documents. The parser follows whatever a document says, so content that would
//! make it recurse forever, draw endlessly or unpack gigabytes is removed first, and a page that
//! makes it panic is left out.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pdf_extract::{
    Dictionary, Document, Object, ObjectId, PlainTextOutput, Stream, content::Content,
    output_doc_page,
};

/// Maximum number of pages. The parser counts all pages for each page, so this takes quadratic
/// time.
const MAX_PAGES: usize = 1_000;
/// Maximum size of the text.
const MAX_TEXT_BYTES: usize = 8 << 20;
/// Maximum size of a packed stream. Unpacked it can be a thousand times as long.
const MAX_PACKED_BYTES: usize = 1 << 20;
/// Maximum depth of nested forms, and of page nodes above a page. The parser recurses on a small
/// stack.
const MAX_DEPTH: usize = 16;
/// Maximum depth of nested lists in the character data of a font; two or three are usual.
const MAX_LIST_DEPTH: usize = 32;
/// Maximum size of all drawn content of a document; a form counts each time it is drawn.
const MAX_DRAWN_BYTES: usize = 64 << 20;
/// Cost of drawing a form, in addition to its size.
const FORM_COST_BYTES: usize = 16 << 10;

/// Returns the text page by page, as far as it is readable; `None` when there is no text.
pub(crate) fn text(bytes: &[u8], stop: &dyn Fn() -> bool) -> Option<String> {
    let document = guarded(|| load(bytes))?;
    let mut budget = MAX_DRAWN_BYTES;
    let mut text = String::new();
    let mut has_text = false;
    for (number, id) in document.get_pages().into_iter().take(MAX_PAGES) {
        if stop() || text.len() > MAX_TEXT_BYTES {
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

/// Runs parser code, which panics on malformed documents.
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
            && (is_image(stream) || !is_small_when_unpacked(stream))
        {
            // The parser would read an image as drawing operations.
            replace(stream, Vec::new());
        }
    }
    remove_nested_font_data(&mut document);
    Some(document)
}

fn replace(stream: &mut Stream, content: Vec<u8>) {
    stream.dict.remove(b"Filter");
    stream.set_content(content);
}

/// Removes deeply nested character data of fonts, which the parsers read recursively without limit.
fn remove_nested_font_data(document: &mut Document) {
    let mut named = Vec::new();
    document.objects.values().for_each(|object| collect_font_data(object, &mut named));
    for id in named {
        let real = document.dereference(&Object::Reference(id)).ok().and_then(|(id, _)| id);
        let Some(Object::Stream(stream)) = real.and_then(|id| document.objects.get_mut(&id)) else {
            continue;
        };
        let mut content = unpacked(stream);
        // The data after this word in a font is not text.
        let end = content.windows(5).position(|word| word == b"eexec").unwrap_or(content.len());
        content.truncate(end);
        replace(stream, if is_flat(&content) { content } else { Vec::new() });
    }
}

/// Collects the references to character data of fonts.
fn collect_font_data(object: &Object, named: &mut Vec<ObjectId>) {
    let dictionary = match object {
        Object::Dictionary(dictionary) => dictionary,
        Object::Stream(stream) => &stream.dict,
        Object::Array(items) => {
            return items.iter().for_each(|item| collect_font_data(item, named));
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
            value => collect_font_data(value, named),
        }
    }
}

/// Returns true if lists and strings are not nested deeply. Every opening bracket counts; a closing
/// one counts only where a parser cannot read it as part of a string or comment.
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
        depth <= MAX_LIST_DEPTH
    })
}

fn unpacked(stream: &Stream) -> Vec<u8> {
    stream.decompressed_content().unwrap_or_else(|_| stream.content.clone())
}

fn is_image(stream: &Stream) -> bool {
    let subtype = stream.dict.get(b"Subtype").and_then(Object::as_name);
    subtype.is_ok_and(|name| name == b"Image")
}

/// Returns true if unpacking the stream cannot fill the memory.
fn is_small_when_unpacked(stream: &Stream) -> bool {
    let unpacks = |name: &&&[u8]| name.ends_with(b"Decode") && !name.starts_with(b"ASCII");
    let filters = stream.filters().unwrap_or_default();
    stream.content.len() <= MAX_PACKED_BYTES && filters.iter().filter(unpacks).count() <= 1
}

fn page(document: &Document, number: u32, id: ObjectId, budget: &mut usize) -> Option<String> {
    let page = document.get_dictionary(id).ok()?;
    let none = Dictionary::new();
    let resources = inherited_resources(document, page)?.unwrap_or(&none);
    let content = document.get_page_content(id).ok()?;
    if !is_within_budget(document, &content, resources, 0, budget) {
        return None;
    }
    let mut text = String::new();
    output_doc_page(document, &mut PlainTextOutput::new(&mut text), number).ok()?;
    Some(text)
}

/// Returns the resources of a page or of a node above it; `None` when the nodes above form a cycle.
fn inherited_resources<'a>(
    document: &'a Document,
    page: &'a Dictionary,
) -> Option<Option<&'a Dictionary>> {
    let (mut node, mut found) = (page, None);
    for _ in 0..MAX_DEPTH {
        found = found.or_else(|| dictionary(document, node, b"Resources"));
        let Some(above) = dictionary(document, node, b"Parent") else { return Some(found) };
        node = above;
    }
    None
}

/// Returns true if drawing the content ends within the budget.
fn is_within_budget(
    document: &Document,
    content: &[u8],
    resources: &Dictionary,
    depth: usize,
    budget: &mut usize,
) -> bool {
    let Some(left) = budget.checked_sub(content.len() + FORM_COST_BYTES) else { return false };
    *budget = left;
    // Content that cannot be decoded is not drawn either.
    let Ok(content) = Content::decode(content) else { return true };
    let mut drawn = content.operations.iter().filter(|operation| operation.operator == "Do");
    drawn.all(|operation| {
        let name = operation.operands.first().and_then(|name| name.as_name().ok());
        let Some(form) = name.and_then(|name| form(document, resources, name)) else { return true };
        let own = dictionary(document, &form.dict, b"Resources").unwrap_or(resources);
        depth < MAX_DEPTH && is_within_budget(document, &unpacked(form), own, depth + 1, budget)
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
    fn nesting_is_counted_inside_strings_and_comments() {
        let usual = "/CIDSystemInfo << /Registry (Adobe \\(x\\)) >> def\n% [[[\n1 beginbfrange\n<00> <01> [<0041> <0042>]\n";
        assert!(is_flat(usual.as_bytes()) && is_flat(usual.repeat(5).as_bytes()));
        for hostile in ["[", "(", "<<", "{", "[(])", "[%]\n", "[(\\)])", "[%\r]\n"] {
            assert!(!is_flat(hostile.repeat(100).as_bytes()), "{hostile:?}");
        }
    }
}
