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
            stream.dict.remove(b"Filter");
            stream.set_content(Vec::new());
        }
    }
    Some(document)
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
        let content = form.decompressed_content().unwrap_or_else(|_| form.content.clone());
        depth < DEEPEST && ends(document, &content, own, depth + 1, budget)
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
