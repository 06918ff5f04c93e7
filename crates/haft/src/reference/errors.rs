//! What a call can end in, told from structure: the gate gives some kinds to any tool, each power brings its own, and so
//! do a few fields that mean the same wherever they stand.

use haft_core::{ErrorKind, Power, Schema, ToolSpec};

use super::{put, put_table};

type Reason = (ErrorKind, &'static str);

/// What the gate itself answers.
const OF_ANY_CALL: &[Reason] = &[
    (ErrorKind::Input, "the arguments do not fit the tool's schema"),
    (ErrorKind::NotFound, "there is no tool of that name"),
    (ErrorKind::Denied, "a rule, the profile or a secret path forbids the call"),
    (ErrorKind::ApprovalDenied, "a person said no"),
    (ErrorKind::ApprovalExpired, "nobody answered in time"),
    (ErrorKind::ApprovalUnavailable, "the call needs a yes and nobody can be asked"),
    (ErrorKind::TooLarge, "the input is larger than `limits.input_bytes`"),
    (ErrorKind::Timeout, "the deadline passed"),
    (ErrorKind::Cancelled, "the caller called it off"),
    (ErrorKind::Internal, "the tool has a bug"),
];

/// What using a power can end in.
fn of_power(power: Power) -> &'static [Reason] {
    match power {
        Power::ReadFiles => &[
            (
                ErrorKind::Input,
                "the path is a directory where a file is wanted, or the other way round",
            ),
            (ErrorKind::NotFound, "there is nothing at the path"),
            (
                ErrorKind::Denied,
                "the path leads outside the workspace, or the file system does not permit it",
            ),
            (ErrorKind::Conflict, "somebody is moving the path about"),
            (ErrorKind::Unsupported, "the file is binary, a pipe, a socket or a device"),
            (ErrorKind::TooLarge, "the file is larger than the tool takes"),
            (
                ErrorKind::Unavailable,
                "the system has no room or no handles left, or is using the file",
            ),
            (ErrorKind::ToolFailed, "the disk cannot be read"),
        ],
        Power::WriteFiles => &[
            (ErrorKind::NotFound, "there is nothing at the path"),
            (
                ErrorKind::Denied,
                "the path leads outside the workspace, or the file system does not permit it",
            ),
            (ErrorKind::Conflict, "something else is at the path, or it was changed meanwhile"),
            (ErrorKind::Unsupported, "the thing is of a sort that is not changed"),
            (ErrorKind::Partial, "some of several files were changed and could not be taken back"),
            (
                ErrorKind::Unavailable,
                "there is no space left, or another process is changing the path",
            ),
            (ErrorKind::ToolFailed, "the disk cannot be written"),
        ],
        Power::Shell => &[
            (ErrorKind::ToolFailed, "the command ended with another code than 0"),
            (ErrorKind::Unavailable, "the program or its sandbox is missing"),
        ],
        Power::Net | Power::Mcp | Power::Model => &[
            (ErrorKind::Network, "the other side does not answer, or answers with an error"),
            (ErrorKind::Unavailable, "nothing is configured to reach it by"),
        ],
        Power::ReadStore | Power::WriteStore => &[
            (ErrorKind::NotFound, "there is no such record"),
            (ErrorKind::Conflict, "the record was changed meanwhile"),
            (ErrorKind::Unavailable, "the store cannot be opened"),
        ],
        Power::Tools => &[(ErrorKind::Partial, "some of the calls it made failed")],
        Power::Lsp => &[(ErrorKind::Unavailable, "there is no server for the language")],
        // What a program that embeds haft does behind its own capabilities is its own to tell.
        _ => &[],
    }
}

/// Fields that mean the same in every tool that has them.
const OF_FIELD: &[(&str, ErrorKind, &str)] = &[
    ("expected_version", ErrorKind::Conflict, "the file is no longer in `expected_version`"),
    (
        "on_conflict",
        ErrorKind::Conflict,
        "there is something at the path and `on_conflict` is `error`",
    ),
    ("pattern", ErrorKind::Input, "`pattern` is no glob or regular expression"),
    ("old_string", ErrorKind::NotFound, "`old_string` is not in the file"),
    ("old_string", ErrorKind::Conflict, "`old_string` is there more than once"),
    ("patches", ErrorKind::Input, "`patches` overlap, or name lines that the file does not have"),
    ("patch", ErrorKind::Input, "`patch` is neither an envelope nor a unified diff"),
    ("patch", ErrorKind::Conflict, "a hunk of `patch` fits nowhere"),
    ("recursive", ErrorKind::Conflict, "the directory is not empty and `recursive` is not set"),
];

/// The kinds that a tool's powers and fields bring, in the order of the documentation.
pub(super) fn of_tool(spec: &ToolSpec) -> Vec<ErrorKind> {
    let by_power = spec.needs.iter().flat_map(|need| of_power(need.power)).map(|(kind, _)| *kind);
    let by_field = of_fields(&spec.input).into_iter().map(|(kind, _)| kind);
    let kinds: Vec<ErrorKind> = by_power.chain(by_field).collect();
    ErrorKind::ALL.iter().copied().filter(|kind| kinds.contains(kind)).collect()
}

pub(super) fn of_fields(input: &Schema) -> Vec<Reason> {
    let has = |field: &str| input.properties().any(|(name, _)| name == field);
    let found = OF_FIELD.iter().filter(|(field, ..)| has(field));
    found.map(|(_, kind, when)| (*kind, *when)).collect()
}

/// The tables below the tools: what the kinds mean, by where they come from.
pub(super) fn put_explanation(page: &mut String, specs: &[ToolSpec]) {
    page.push_str("\n## Errors\n\nWhat any call can end in:\n\n");
    put_reasons(page, OF_ANY_CALL);
    let mut powers: Vec<Power> =
        specs.iter().flat_map(|spec| spec.needs.iter().map(|need| need.power)).collect();
    powers.sort_unstable();
    powers.dedup();
    for power in powers.into_iter().filter(|power| !of_power(*power).is_empty()) {
        put(page, format_args!("\nWhat a tool that needs {power} can end in besides:\n\n"));
        put_reasons(page, of_power(power));
    }
}

fn put_reasons(page: &mut String, reasons: &[Reason]) {
    let rows = reasons.iter().map(|(kind, when)| vec![format!("`{kind}`"), (*when).to_owned()]);
    put_table(page, &["error", "when"], rows);
}
