//! Lists and definition lists.

use super::{
    super::html::{NodeId, NodeKind, Tag},
    PageWriter,
};

impl PageWriter<'_> {
    pub(super) fn list(&mut self, id: NodeId, tag: Tag) {
        let start =
            self.page.attribute(id, "start").and_then(|start| start.trim().parse::<i64>().ok());
        let mut number = start.unwrap_or(1).max(0);
        let is_nested = self.out.margins.iter().any(|margin| margin.is_begun) && self.is_tight;
        let mut is_tight = is_nested;
        let children: Vec<NodeId> = self.page.children(id).collect();
        for child in children {
            match self.page.tag(child) {
                Some(Tag::Li) => {
                    let own = self
                        .page
                        .attribute(child, "value")
                        .and_then(|value| value.trim().parse().ok());
                    number = own.unwrap_or(number);
                    let mark = if tag == Tag::Ol { format!("{number}. ") } else { "- ".to_owned() };
                    if self.item(child, &mark, is_tight) {
                        number = number.saturating_add(1);
                        is_tight = true;
                    }
                }
                // A list directly in a list belongs to the item before it.
                Some(inner @ (Tag::Ul | Tag::Ol | Tag::Menu)) => {
                    self.out.within("  ", "  ");
                    self.is_tight = is_tight;
                    self.list(child, inner);
                    self.out.leave();
                }
                _ => self.stray(child),
            }
        }
        self.is_tight = false;
    }

    /// Writes a list item. Returns false if it was empty.
    fn item(&mut self, id: NodeId, mark: &str, is_tight: bool) -> bool {
        if self.is_left_out(id, Tag::Li) {
            return false;
        }
        let length = self.out.text.len();
        let wanted_gap = self.out.wants_gap;
        self.out.within(mark, &" ".repeat(mark.len()));
        self.is_tight = is_tight;
        self.blocks_of_item(id);
        self.is_tight = false;
        self.out.leave();
        let is_written = self.out.text.len() > length;
        if !is_written {
            self.out.wants_gap = wanted_gap;
        }
        is_written
    }

    /// Writes the blocks of an item. A nested list follows the text without a blank line.
    fn blocks_of_item(&mut self, id: NodeId) {
        let mut line = String::new();
        let children: Vec<NodeId> = self.page.children(id).collect();
        for child in children {
            match self.page.tag(child) {
                Some(tag) if self.is_left_out(child, tag) => {}
                Some(tag @ (Tag::Ul | Tag::Ol | Tag::Menu)) => {
                    self.paragraph(&mut line);
                    self.is_tight = true;
                    self.list(child, tag);
                }
                Some(tag) if tag.is_block() || self.has_blocks(child, tag) => {
                    self.paragraph(&mut line);
                    self.block(child, tag);
                }
                Some(tag) => self.inline(child, tag, &mut line),
                None => {
                    if let NodeKind::Text(text) = self.page.kind(child) {
                        self.words(text, &mut line);
                    }
                }
            }
        }
        self.paragraph(&mut line);
    }

    /// Writes terms, each followed by its definitions as `: …`.
    pub(super) fn definitions(&mut self, id: NodeId) {
        let children: Vec<NodeId> = self.page.children(id).collect();
        for child in children {
            match self.page.tag(child) {
                Some(Tag::Dt) => {
                    self.is_tight = false;
                    self.emphasised(child);
                }
                Some(Tag::Dd) => {
                    self.out.within(if self.is_plain() { "  " } else { ": " }, "  ");
                    self.is_tight = true;
                    self.blocks(child);
                    self.is_tight = false;
                    self.out.leave();
                }
                // A `div` may group pairs.
                Some(Tag::Div) => self.definitions(child),
                _ => self.stray(child),
            }
        }
    }
}
