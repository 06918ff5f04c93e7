//! Lists the errors that a call can return. The gate adds some kinds to every tool, each power adds
//! its own, and so do a few fields that have the same meaning in all tools.

use haft_core::{ErrorKind, Power, Schema, ToolSpec};

use super::{put, put_table};

type ErrorCase = (ErrorKind, &'static str);

/// Errors of the gate itself.
const OF_ANY_CALL: &[ErrorCase] = &[
    (ErrorKind::Input, "the arguments do not match the tool's schema"),
    (ErrorKind::NotFound, "no tool has that name"),
    (ErrorKind::Denied, "a rule, the profile or a secret path forbids the call"),
    (ErrorKind::ApprovalDenied, "an approver refused the call"),
    (ErrorKind::ApprovalExpired, "no approver answered in time"),
    (ErrorKind::ApprovalUnavailable, "the call needs approval, but no approver is available"),
    (ErrorKind::TooLarge, "the input is larger than `limits.input_bytes`"),
    (ErrorKind::Timeout, "the deadline passed"),
    (ErrorKind::Cancelled, "the caller cancelled the call"),
    (ErrorKind::Internal, "the tool has a bug"),
];

/// Returns the errors that using a power can cause.
fn of_power(power: Power) -> &'static [ErrorCase] {
    match power {
        Power::ReadFiles => &[
            (
                ErrorKind::Input,
                "the path is a directory but a file is needed, or the other way round",
            ),
            (ErrorKind::NotFound, "the path does not exist"),
            (
                ErrorKind::Denied,
                "the path is outside the workspace, or the file system denies permission",
            ),
            (ErrorKind::Conflict, "the path keeps changing"),
            (ErrorKind::Unsupported, "the file is binary, a pipe, a socket or a device"),
            (ErrorKind::TooLarge, "the file is larger than the tool supports"),
            (
                ErrorKind::Unavailable,
                "the disk is full, the system has no file handles left, or the file is in use",
            ),
            (ErrorKind::ToolFailed, "reading from the disk failed"),
        ],
        Power::WriteFiles => &[
            (ErrorKind::NotFound, "the path does not exist"),
            (
                ErrorKind::Denied,
                "the path is outside the workspace, or the file system denies permission",
            ),
            (
                ErrorKind::Conflict,
                "another file is at the path, or the file changed in the meantime",
            ),
            (ErrorKind::Unsupported, "the tool does not change this type of file"),
            (ErrorKind::Partial, "some files were changed and could not be restored"),
            (ErrorKind::Unavailable, "the disk is full, or another process is changing the path"),
            (ErrorKind::ToolFailed, "writing to the disk failed"),
        ],
        Power::Shell => &[
            (ErrorKind::ToolFailed, "the command exited with a code other than 0"),
            (ErrorKind::Unavailable, "the program or its sandbox is missing"),
        ],
        Power::Net | Power::Mcp | Power::Model => &[
            (ErrorKind::Network, "the server does not respond, or responds with an error"),
            (ErrorKind::Unavailable, "no connection to it is configured"),
        ],
        Power::ReadStore | Power::WriteStore => &[
            (ErrorKind::NotFound, "the record does not exist"),
            (ErrorKind::Conflict, "the record changed in the meantime"),
            (ErrorKind::Unavailable, "the store cannot be opened"),
        ],
        Power::Tools => &[(ErrorKind::Partial, "some of the calls it made failed")],
        Power::Lsp => &[(ErrorKind::Unavailable, "no server for the language is available")],
        // An embedding program documents the errors of the capabilities that it adds.
        _ => &[],
    }
}

/// Fields that have the same meaning in every tool.
const OF_FIELD: &[(&str, ErrorKind, &str)] = &[
    ("expected_version", ErrorKind::Conflict, "the file's version is no longer `expected_version`"),
    ("on_conflict", ErrorKind::Conflict, "the path exists and `on_conflict` is `error`"),
    ("pattern", ErrorKind::Input, "`pattern` is not a valid glob or regular expression"),
    ("old_string", ErrorKind::NotFound, "`old_string` is not in the file"),
    ("old_string", ErrorKind::Conflict, "`old_string` is in the file more than once"),
    (
        "patches",
        ErrorKind::Input,
        "`patches` overlap, or refer to lines that the file does not have",
    ),
    ("patch", ErrorKind::Input, "`patch` is neither an envelope nor a unified diff"),
    ("patch", ErrorKind::Conflict, "a hunk of `patch` matches no place in the file"),
    ("recursive", ErrorKind::Conflict, "the directory is not empty and `recursive` is not set"),
];

/// Returns the error kinds of a tool's powers and fields, in the order of the documentation.
pub(super) fn of_tool(spec: &ToolSpec) -> Vec<ErrorKind> {
    let by_power = spec.needs.iter().flat_map(|need| of_power(need.power)).map(|(kind, _)| *kind);
    let by_field = of_fields(&spec.input).into_iter().map(|(kind, _)| kind);
    let kinds: Vec<ErrorKind> = by_power.chain(by_field).collect();
    ErrorKind::ALL.iter().copied().filter(|kind| kinds.contains(kind)).collect()
}

pub(super) fn of_fields(input: &Schema) -> Vec<ErrorCase> {
    let has = |field: &str| input.properties().any(|(name, _)| name == field);
    let found = OF_FIELD.iter().filter(|(field, ..)| has(field));
    found.map(|(_, kind, when)| (*kind, *when)).collect()
}

/// Adds the tables that explain the error kinds, below the tools.
pub(super) fn put_explanation(page: &mut String, specs: &[ToolSpec]) {
    page.push_str("\n## Errors\n\nErrors that any call can return:\n\n");
    put_cases(page, OF_ANY_CALL);
    let mut powers: Vec<Power> =
        specs.iter().flat_map(|spec| spec.needs.iter().map(|need| need.power)).collect();
    powers.sort_unstable();
    powers.dedup();
    for power in powers.into_iter().filter(|power| !of_power(*power).is_empty()) {
        put(page, format_args!("\nAdditional errors of tools that need {power}:\n\n"));
        put_cases(page, of_power(power));
    }
}

fn put_cases(page: &mut String, cases: &[ErrorCase]) {
    let rows = cases.iter().map(|(kind, when)| vec![format!("`{kind}`"), (*when).to_owned()]);
    put_table(page, &["error", "when"], rows);
}
