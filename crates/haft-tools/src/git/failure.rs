//! Explains failures of git by a kind and a next step. Git has one exit code for nearly everything,
//! so the kind is derived from its messages, which are always in English. An unknown message is
//! passed on without a kind.

use haft_core::{
    ErrorKind, Reply, ToolError,
    commands::{FinishedProcess, ProcessState},
};

use super::display::{error_text, printable};

/// Parts of git's messages, the kind of failure, and the next step. The first match counts.
const KNOWN: &[(&[&str], ErrorKind, &str)] = &[
    (
        &["branch is renamed, but"],
        ErrorKind::Partial,
        "the branch has its new name, but its settings are still under the old one; ask the user to move them in git's configuration",
    ),
    (
        &["ot a git repository"],
        ErrorKind::NotFound,
        "name a directory inside a repository in `directory`, or create one with `git init`",
    ),
    (
        &["dubious ownership"],
        ErrorKind::Denied,
        "the repository belongs to another user; ask the user to add it to safe.directory in their git configuration",
    ),
    (
        &[
            ".lock': File exists",
            "another git process seems to be running",
            "could not lock config file",
        ],
        ErrorKind::Unavailable,
        "wait for the other git process that holds this lock, then call again; if none is running, ask the user to delete the lock file",
    ),
    (
        &["lazy fetching disabled", "promisor remote"],
        ErrorKind::Unavailable,
        "the repository has only a part of its history here; ask the user to fetch the rest",
    ),
    (
        &["tell me who you are", "empty ident name", "auto-detect email", "ident name is disabled"],
        ErrorKind::Unavailable,
        "git does not know the author of the commits; ask the user to set user.name and user.email",
    ),
    (
        &[
            "Authentication failed",
            "Permission denied (publickey",
            "could not read Username",
            "could not read Password",
            "terminal prompts disabled",
            "Host key verification failed",
            "requested URL returned error: 403",
            "requested URL returned error: 401",
        ],
        ErrorKind::Denied,
        "the remote does not accept the credentials; ask the user to set them up",
    ),
    (
        &["Read-only file system", "Permission denied", "insufficient permission"],
        ErrorKind::Denied,
        "this call may not write there; ask the user to allow it",
    ),
    (
        &[
            "Could not resolve host",
            "Couldn't resolve host",
            "Connection refused",
            "Connection timed out",
            "Network is unreachable",
            "No route to host",
            "unable to access '",
            "the remote end hung up",
        ],
        ErrorKind::Network,
        "check that the remote is reachable from here, then call again",
    ),
    (
        &["does not appear to be a git repository", "No such remote"],
        ErrorKind::NotFound,
        "give the name of a configured remote; `git remote -v` lists them",
    ),
    (
        &["Could not read from remote repository"],
        ErrorKind::Network,
        "check that the remote is reachable from here, then call again",
    ),
    (
        &["ignored by one of your .gitignore files"],
        ErrorKind::Conflict,
        "leave out the ignored paths, or change .gitignore first",
    ),
    (
        &["partial commit during a"],
        ErrorKind::Conflict,
        "resolve every conflict, then commit with `all` and without `paths` to conclude the merge",
    ),
    (
        &[
            "unmerged",
            "CONFLICT (",
            "needs merge",
            "resolve your current index first",
            "you are in the middle of",
            "cannot switch branch while",
        ],
        ErrorKind::Conflict,
        "resolve the conflicts that `git_status` lists and commit, then call again",
    ),
    (
        &["would be overwritten", "contains modified or untracked files", "local changes"],
        ErrorKind::Conflict,
        "commit or revert the changes in these files, then call again",
    ),
    (
        &["is not fully merged"],
        ErrorKind::Conflict,
        "merge the branch first; only the user may delete a branch that is not merged",
    ),
    (
        &[
            "checked out at",
            "used by worktree",
            "Cannot delete branch",
            "is a missing but already registered",
        ],
        ErrorKind::Conflict,
        "find with `git_worktree` where it is in use, and use another one there first",
    ),
    (
        &["already exists", "' exists; cannot create"],
        ErrorKind::Conflict,
        "choose another name, or use the existing one",
    ),
    (
        &["is a main working tree"],
        ErrorKind::Conflict,
        "only added worktrees can be removed; `git_worktree` with action `list` shows them",
    ),
    (
        &["is not a working tree"],
        ErrorKind::NotFound,
        "`git_worktree` with action `list` shows the existing worktrees",
    ),
    (
        &["must be run in a work tree", "cannot use bare repository"],
        ErrorKind::Unsupported,
        "the repository has no files here; name one of its worktrees in `directory`",
    ),
    (
        &["outside repository"],
        ErrorKind::Denied,
        "give a path inside the repository; name a nested repository in `directory`",
    ),
    (
        &[": bad file"],
        ErrorKind::Unsupported,
        "the path is a directory or submodule there, or only a part of the history is here; `git_show` without `file` shows the commit",
    ),
    (&["has only", "There is only"], ErrorKind::Input, "give line numbers that the file has"),
    (
        &[
            "did not match any file",
            "no such path",
            "does not exist in",
            "but not in '",
            "is in submodule",
            "in the working tree, but not",
        ],
        ErrorKind::NotFound,
        "check the path with `git_status`, `list` or `glob`, and the revision with `git_log`",
    ),
    (
        &[
            "unknown revision",
            "bad revision",
            "ad object",
            "Not a valid object name",
            "not a valid object name",
            "ambiguous argument",
            "invalid reference",
            "Needed a single revision",
            "not a commit",
            "does not have any commits yet",
            "not a valid ref",
            "not a valid branch point",
            "does not match any",
            "no branch named",
            "' not found",
            "nvalid object name",
            "no such ref",
            "malformed object name",
        ],
        ErrorKind::NotFound,
        "see `git_log` for commits and `git_branch` for branches",
    ),
    (
        &["cannot lock ref"],
        ErrorKind::Conflict,
        "another process changed the ref, or its name conflicts with another; check again with `git_branch`",
    ),
];

/// Returns the error for a run that ended with an exit code other than 0.
pub(crate) fn explain(name: &str, finished: &FinishedProcess) -> ToolError {
    let (kind, hint) = kind_of(&String::from_utf8_lossy(&finished.err));
    let error = ToolError::new(kind, format!("`{name}` failed: {}", message_of(finished)));
    match hint {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

/// Returns the error with the complete output, for output that does not fit in a message.
pub(crate) fn explain_with_output(name: &str, finished: &FinishedProcess) -> ToolError {
    explain(name, finished).with_partial(full_output(finished))
}

/// Returns the complete output.
pub(crate) fn full_output(finished: &FinishedProcess) -> Reply {
    let parts =
        [&finished.out, &finished.err].map(|part| printable(&String::from_utf8_lossy(part)));
    Reply::text(parts.concat())
}

/// Returns true if the messages of git match no known failure.
pub(crate) fn is_unknown(finished: &FinishedProcess) -> bool {
    kind_of(&String::from_utf8_lossy(&finished.err)).1.is_none()
}

/// Returns the error for a run that did not end by itself.
pub(crate) fn unfinished(name: &str, state: ProcessState) -> ToolError {
    match state {
        ProcessState::KilledByTimeout => {
            ToolError::new(ErrorKind::Timeout, format!("`{name}` was stopped at its timeout"))
        }
        ProcessState::Cancelled => {
            ToolError::new(ErrorKind::Cancelled, format!("`{name}` was cancelled"))
        }
        _ => ToolError::failed(format!("`{name}` was ended by a signal"))
            .hint("check the repository with `git_status` before you call again"),
    }
}

/// Returns true if the only failure is that the repository has no commit yet.
pub(crate) fn has_no_commits(finished: &FinishedProcess) -> bool {
    String::from_utf8_lossy(&finished.err).contains("does not have any commits yet")
}

/// Returns the error message of a run, or else its output.
pub(crate) fn message_of(finished: &FinishedProcess) -> String {
    let err = error_text(&finished.err);
    if !err.is_empty() {
        return err;
    }
    let out = error_text(&finished.out);
    match (out.is_empty(), finished.status.exit_code) {
        (false, _) => out,
        (true, Some(code)) => format!("no message, exit code {code}"),
        (true, None) => "no message".to_owned(),
    }
}

fn kind_of(err: &str) -> (ErrorKind, Option<&'static str>) {
    let fits =
        |(words, _, _): &&(&[&str], ErrorKind, &str)| words.iter().any(|word| err.contains(word));
    match KNOWN.iter().find(fits) {
        Some((_, kind, hint)) => (*kind, Some(hint)),
        None => (ErrorKind::ToolFailed, None),
    }
}

#[cfg(test)]
mod tests {
    use haft_core::commands::ProcessStatus;

    use super::*;

    fn finished(out: &str, err: &str) -> FinishedProcess {
        let status = ProcessStatus {
            state: ProcessState::Exited,
            exit_code: Some(128),
            signal: None,
            ms: 1,
            silent_ms: 1,
            bytes: 1,
            survivors: 0,
        };
        FinishedProcess { status, out: out.into(), err: err.into(), is_truncated: false }
    }

    #[track_caller]
    fn check(err: &str, kind: ErrorKind) {
        let error = explain("git test", &finished("", err));
        assert_eq!(error.kind(), kind, "{err}");
        assert!(error.message().contains(err.trim()), "{}", error.message());
    }

    // Failures that need another machine; `tests/it/git.rs` of `haft` provokes all others with git.
    #[test]
    fn failures_of_other_machines_have_their_kinds() {
        check("fatal: Authentication failed for 'https://h/r'", ErrorKind::Denied);
        let no_terminal =
            "fatal: could not read Username for 'https://h': terminal prompts disabled";
        check(no_terminal, ErrorKind::Denied);
        let key =
            "git@h: Permission denied (publickey).\nfatal: Could not read from remote repository.";
        check(key, ErrorKind::Denied);
        let host = "fatal: unable to access 'https://h/r/': Could not resolve host: h";
        check(host, ErrorKind::Network);
        let forbidden =
            "fatal: unable to access 'https://h/r/': The requested URL returned error: 403";
        check(forbidden, ErrorKind::Denied);
        check("error: some unknown message", ErrorKind::ToolFailed);
    }

    #[test]
    fn a_silent_failure_has_a_message() {
        let error = explain("git test", &finished("", ""));
        assert_eq!(error.message(), "`git test` failed: no message, exit code 128");
        assert_eq!(message_of(&finished("out", " \n")), "out");
    }

    #[test]
    fn stopped_runs_have_their_kinds() {
        for (state, kind) in [
            (ProcessState::KilledByTimeout, ErrorKind::Timeout),
            (ProcessState::Cancelled, ErrorKind::Cancelled),
            (ProcessState::Signalled, ErrorKind::ToolFailed),
            (ProcessState::Killed, ErrorKind::ToolFailed),
        ] {
            assert_eq!(unfinished("git test", state).kind(), kind, "{state:?}");
        }
    }
}
