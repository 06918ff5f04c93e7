//! Passes html5gum's events to the builder of the tree.

use html5gum::{
    Emitter, ForwardingEmitter, Span, State, Tokenizer,
    emitters::callback::{Callback, CallbackEmitter, CallbackEvent},
};

use super::{Attribute, HtmlBuilder, MAX_ATTRIBUTES, tag::Tag};

/// The attributes that other modules read; all others are dropped.
const KEPT: [&str; 32] = [
    "alt",
    "aria-hidden",
    "charset",
    "checked",
    "class",
    "colspan",
    "content",
    "data-lang",
    "data-language",
    "data-src",
    "datetime",
    "encoding",
    "height",
    "hidden",
    "href",
    "http-equiv",
    "id",
    "itemprop",
    "lang",
    "name",
    "property",
    "rel",
    "role",
    "rowspan",
    "src",
    "start",
    "style",
    "summary",
    "title",
    "type",
    "value",
    "width",
];

/// Parses a page into the builder.
pub(super) fn read(html: &str, builder: &mut HtmlBuilder) {
    let handler = EventHandler { builder, open: None, is_kept: false, is_skipped: false };
    let emitter = HtmlEmitter(CallbackEmitter::new(handler));
    let mut tokenizer = Tokenizer::new_with_emitter(html, emitter);
    while let Some(Ok(state)) = tokenizer.next() {
        tokenizer.set_state(state);
    }
}

/// An emitter without html5gum's errors. It treats a CDATA section as text everywhere.
struct HtmlEmitter<F: Callback<State, ()>>(CallbackEmitter<F, State>);

impl<F: Callback<State, ()>> ForwardingEmitter for HtmlEmitter<F> {
    type Token = State;

    fn inner(&mut self) -> &mut impl Emitter<Token = State> {
        &mut self.0
    }

    fn should_emit_errors(&mut self) -> bool {
        false
    }

    fn adjusted_current_node_present_but_not_in_html_namespace(&mut self) -> bool {
        true
    }
}

struct EventHandler<'a> {
    builder: &'a mut HtmlBuilder,
    /// The start tag being parsed, and the index of its first attribute.
    open: Option<(Tag, u32)>,
    /// True if the last attribute is kept, so the next value belongs to it.
    is_kept: bool,
    /// True inside a script or a style, whose text is dropped.
    is_skipped: bool,
}

impl Callback<State, ()> for EventHandler<'_> {
    /// Returns the next state of the tokenizer when the content of an element is not HTML.
    fn handle_event(&mut self, event: CallbackEvent<'_>, _: Span<()>) -> Option<State> {
        match event {
            CallbackEvent::OpenStartTag { name } => self.open = Some((named(name), self.count())),
            CallbackEvent::AttributeName { name } => self.attribute(name),
            CallbackEvent::AttributeValue { value } => {
                let page = &mut self.builder.page;
                if std::mem::take(&mut self.is_kept) {
                    let value = page.keep(&String::from_utf8_lossy(value));
                    if let Some(attribute) = page.attributes.last_mut() {
                        attribute.value = value;
                    }
                }
            }
            CallbackEvent::CloseStartTag { self_closing } => {
                let (tag, first) = self.open.take()?;
                self.builder.start(tag, (first, self.count()), self_closing);
                let state = state_inside(tag);
                self.is_skipped = state.is_some_and(|it| it != State::RcData) && tag != Tag::Xmp;
                return state;
            }
            CallbackEvent::EndTag { name } => {
                self.is_skipped = false;
                self.builder.end(named(name));
            }
            CallbackEvent::String { value } if !self.is_skipped => {
                self.builder.text(&String::from_utf8_lossy(value));
            }
            _ => {}
        }
        None
    }
}

impl EventHandler<'_> {
    fn count(&self) -> u32 {
        u32::try_from(self.builder.page.attributes.len()).unwrap_or(u32::MAX)
    }

    fn attribute(&mut self, name: &[u8]) {
        let known = KEPT.iter().find(|known| known.as_bytes() == name);
        let has_room =
            self.builder.page.attributes.len() < MAX_ATTRIBUTES && !self.builder.is_full();
        // Attributes of an end tag have no meaning.
        let known = known.filter(|_| has_room && self.open.is_some());
        self.is_kept = known.is_some();
        if let Some(name) = known {
            self.builder.page.attributes.push(Attribute { name, value: (0, 0) });
        }
    }
}

/// Returns the tag of a name in lower case.
fn named(name: &[u8]) -> Tag {
    std::str::from_utf8(name).map_or(Tag::Other, Tag::named)
}

/// Returns the tokenizer state for elements whose content is not HTML.
fn state_inside(tag: Tag) -> Option<State> {
    match tag {
        Tag::Script => Some(State::ScriptData),
        Tag::Style | Tag::Iframe | Tag::Noframes | Tag::Xmp => Some(State::RawText),
        Tag::Title | Tag::Textarea => Some(State::RcData),
        _ => None,
    }
}
