//! One call, one outcome: for every tool and a corpus of calls, a program that embeds haft, the
//! command line, `haft call` and MCP over both transports get the same title, content, data, error,
//! repairs and files. Each call is made in a fresh copy of the same workspace on every surface.
//!
//! Allowed differences:
//!
//! - how long a call took, and the ids of calls and kept outputs: they differ each time;
//! - the path of the workspace, and the times of its files: it is a fresh one;
//! - over MCP the data omits what the content already has (`x-in-content`), as its schema
//!   announces;
//! - over MCP an attachment has no name, because content blocks have none;
//! - over MCP a tool that does not exist is an error of the protocol, which carries ours as its
//!   data;
//! - arguments that a command line cannot take at all are refused by its parser, in the parser's
//!   words;
//! - a number is already a number on a command line, so nothing has to be repaired there;
//! - without an approver the error names the surface: only the command line names its terminal.

mod corpus;
mod definitions;
mod surface_result;
pub(crate) mod surfaces;
mod typing;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use parking_lot::Mutex;

use haft::ErrorKind;

use self::{
    corpus::{CorpusCall, Typed},
    surface_result::{ResultSource, SurfaceResult},
};

/// Each worker mostly waits for processes.
const WORKERS: usize = 4;

#[test]
fn every_call_has_the_same_outcome_on_every_surface() {
    let calls = corpus::calls();
    let (next, differences) = (AtomicUsize::new(0), Mutex::new(String::new()));
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some(call) = calls.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = differences_of(call);
                    differences.lock().push_str(&found);
                }
            });
        }
    });
    let differences = differences.into_inner();
    assert!(differences.is_empty(), "{differences}");
}

/// Describes the differences between surfaces; empty if there are none.
fn differences_of(call: &CorpusCall) -> String {
    let mut found = String::new();
    let library = surfaces::library(call);
    let ended = library.error_kind();
    if ended.as_deref() != call.ends.map(ErrorKind::name) {
        note(&mut found, call, "library", &format!("it ends with {ended:?}: {library:?}"));
    }
    let structured_schema = library.structured_schema(call.tool);
    for (surface, result, expected, told) in [
        ("haft call", surfaces::haft_call(call), &library, ResultSource::Outcome),
        ("MCP over stdio", surfaces::mcp_stdio(call), &structured_schema, ResultSource::Mcp),
        ("MCP over HTTP", surfaces::mcp_http(call), &structured_schema, ResultSource::Mcp),
    ] {
        compare(&mut found, call, surface, expected, &result, told);
    }
    compare_typed(&mut found, call, &library);
    found
}

fn compare_typed(found: &mut String, call: &CorpusCall, library: &SurfaceResult) {
    if call.typed == Typed::Unsayable {
        return;
    }
    let typed = surfaces::flags(call);
    match call.typed {
        Typed::InItsWords if typed.error_kind() != library.error_kind() => {
            note(found, call, "flags", &format!("another kind: {typed:?}"));
        }
        Typed::Unmended => {
            compare(found, call, "flags", &library.unmended(), &typed, ResultSource::Outcome)
        }
        Typed::Same => compare(found, call, "flags", library, &typed, ResultSource::Outcome),
        Typed::InItsWords | Typed::Unsayable => {}
    }
}

fn compare(
    found: &mut String,
    call: &CorpusCall,
    surface: &str,
    expected: &SurfaceResult,
    result: &SurfaceResult,
    told: ResultSource,
) {
    let nobody_asked = call.ends == Some(ErrorKind::ApprovalUnavailable);
    if told == ResultSource::Outcome && nobody_asked {
        if result.error_kind() != expected.error_kind() {
            note(found, call, surface, &format!("another kind: {result:?}"));
        }
        return;
    }
    for (part, expected, result) in expected.parts(result, told) {
        if expected != result {
            let words = format!("another {part}:\n  library: {expected}\n  here:    {result}");
            note(found, call, surface, &words);
        }
    }
}

fn note(found: &mut String, call: &CorpusCall, surface: &str, words: &str) {
    writeln!(found, "{} {}\n  {surface}: {words}", call.tool, call.input)
        .expect("a text takes text");
}

#[test]
fn the_corpus_has_every_tool_working_and_failing() {
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for call in corpus::calls() {
        let (works, fails) = counts.entry(call.tool).or_default();
        match call.ends {
            None => *works += 1,
            Some(_) => *fails += 1,
        }
    }
    for tool in haft::catalogue::all() {
        let name = haft::Tool::name(tool);
        let (works, fails) = counts.get(name).copied().unwrap_or_default();
        assert!(
            works >= 1 && fails >= 2 && works + fails >= 3,
            "`{name}` has {works} calls that work and {fails} that fail: add to equality/corpus.rs"
        );
    }
}

#[test]
fn the_corpus_has_everything_that_an_outcome_can_have() {
    let found: BTreeSet<&str> =
        corpus::calls().iter().flat_map(|call| surfaces::library(call).features()).collect();
    let wanted =
        ["a cut", "a file", "data", "data that is kept elsewhere", "repairs", "something redacted"];
    assert_eq!(found, BTreeSet::from(wanted));
}
