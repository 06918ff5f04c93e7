//! Cross-check by a second parser: tree-sitter's grammar of bash, whose authors and whose mistakes
//! are different from ours.

use std::{borrow::Cow, cell::RefCell, collections::HashSet, ops::ControlFlow};

use tree_sitter::{Node, ParseOptions, ParseState, Parser, Tree};

use super::parse::{ParseProblem, ParsedText};

/// Maximum number of progress reports before the grammar is stopped, plus one more per
/// `BYTES_PER_REPORT`. It reports every hundred steps: texts of 200 bytes take up to 4 reports, and
/// one of many short commands takes one for each 30 bytes. Texts that trigger its expensive error
/// recovery take thousands, 16 us each.
const MAX_REPORTS: usize = 24;
const BYTES_PER_REPORT: usize = 16;

/// Replaces bytes outside ASCII: it may occur in any word, but not in a variable name.
const STAND_IN: u8 = b'%';

thread_local! {
    /// Creating a parser takes longer than parsing with it.
    static PARSER: RefCell<Option<Parser>> = const { RefCell::new(None) };
}

/// Returns how the second parser disagrees with our reading, if it does.
pub(super) fn disagreement(text: &str, parsed: &ParsedText) -> Option<ParseProblem> {
    // Plain words have only one reading.
    if text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b" _-./:=@%+,".contains(&byte)) {
        return None;
    }
    let Some(tree) = PARSER.with_borrow_mut(|parser| parse(parser, text)) else {
        return Some("the second parser takes too long");
    };
    if tree.root_node().has_error() {
        return Some("the second parser reports a syntax error");
    }
    let known: HashSet<usize> = parsed.starts.iter().copied().collect();
    let is_seen = |start: usize| known.contains(&start) || is_in(start, &parsed.backticks);
    if commands(tree.root_node(), text).into_iter().all(is_seen) {
        None
    } else {
        Some("two parsers read it differently")
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
    let mut left = MAX_REPORTS + text.len() / BYTES_PER_REPORT;
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

/// The text with one character for each byte that is not ASCII. Outside ASCII bash knows only
/// letters of words, and the grammar passes characters to C's `isdigit` that are out of its range:
/// it read beyond a table and crashed.
fn plain(text: &str) -> Cow<'_, [u8]> {
    if text.is_ascii() {
        return Cow::Borrowed(text.as_bytes());
    }
    text.bytes().map(|byte| if byte.is_ascii() { byte } else { STAND_IN }).collect()
}

/// Offsets of the command names.
fn commands(root: Node<'_>, text: &str) -> Vec<usize> {
    let mut starts = Vec::new();
    let mut cursor = root.walk();
    loop {
        let node = cursor.node();
        // The grammar parses these reserved words as commands.
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
