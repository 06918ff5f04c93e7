//! The second opinion: tree-sitter's grammar of bash, written by others and wrong in other places than ours.

use std::{borrow::Cow, cell::RefCell, collections::HashSet, ops::ControlFlow};

use tree_sitter::{Node, ParseOptions, ParseState, Parser, Tree};

use super::parse::{Parsed, Problem};

/// So often the grammar may report before it is stopped, and once more for so many bytes. It reports every hundred steps:
/// texts of 200 bytes take up to 4 reports, and one of many short commands takes one for each 30 bytes. Texts that drive
/// its repair into the bushes take thousands, 16 us each.
const MOST_REPORTS: usize = 24;
const BYTES_PER_REPORT: usize = 16;

/// Stands for bytes outside of ASCII: it may stand in any word, and in no name of a variable.
const STAND_IN: u8 = b'%';

thread_local! {
    /// Making a parser takes longer than reading with it.
    static PARSER: RefCell<Option<Parser>> = const { RefCell::new(None) };
}

/// Why the witness does not confirm what was read, if it does not.
pub(super) fn objection(text: &str, parsed: &Parsed) -> Option<Problem> {
    // Plain words can be read in one way only.
    if text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b" _-./:=@%+,".contains(&byte)) {
        return None;
    }
    let Some(tree) = PARSER.with_borrow_mut(|parser| parse(parser, text)) else {
        return Some("the grammar does not come to an end with it");
    };
    if tree.root_node().has_error() {
        return Some("the grammar finds an error in it");
    }
    let known: HashSet<usize> = parsed.starts.iter().copied().collect();
    let is_seen = |start: usize| known.contains(&start) || is_in(start, &parsed.backticks);
    if commands(tree.root_node(), text).into_iter().all(is_seen) {
        None
    } else {
        Some("it can be read in two ways")
    }
}

fn parse(parser: &mut Option<Parser>, text: &str) -> Option<Tree> {
    let parser = match parser {
        Some(parser) => parser,
        None => {
            let mut new = Parser::new();
            new.set_language(&tree_sitter_bash::LANGUAGE.into()).ok()?;
            parser.insert(new)
        }
    };
    let mut left = MOST_REPORTS + text.len() / BYTES_PER_REPORT;
    let mut stop = |_: &ParseState| {
        left = left.saturating_sub(1);
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let options = ParseOptions::new().progress_callback(&mut stop);
    let text = plain(text);
    let mut bytes = |at: usize, _| text.get(at..).unwrap_or_default();
    let tree = parser.parse_with_options(&mut bytes, None, Some(options));
    if tree.is_none() {
        parser.reset();
    }
    tree
}

/// The text with a letter for each byte that is not ASCII. Outside of ASCII bash knows only letters of words, and the
/// grammar asks C's `isdigit` about characters that this function has no place for: it read beyond a table and crashed.
fn plain(text: &str) -> Cow<'_, [u8]> {
    if text.is_ascii() {
        return Cow::Borrowed(text.as_bytes());
    }
    text.bytes().map(|byte| if byte.is_ascii() { byte } else { STAND_IN }).collect()
}

/// Where the names of commands begin.
fn commands(root: Node<'_>, text: &str) -> Vec<usize> {
    let mut starts = Vec::new();
    let mut cursor = root.walk();
    loop {
        let node = cursor.node();
        // These words of the shell the grammar takes for commands.
        let is_reserved = || matches!(text.get(node.byte_range()), Some("time" | "coproc" | "!"));
        if node.kind() == "command_name" && !is_reserved() {
            starts.push(node.start_byte());
        }
        if cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return starts;
            }
        }
    }
}

fn is_in(at: usize, ranges: &[(usize, usize)]) -> bool {
    ranges.iter().any(|(begin, end)| (*begin..*end).contains(&at))
}
