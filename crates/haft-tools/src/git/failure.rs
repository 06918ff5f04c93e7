//! Why git failed, as a kind and a next step. Git has one exit code for nearly everything, so this is read from its words,
//! which the surroundings of a run keep English. A word that is not known here is a failure in git's own words.

use haft_core::{
    ErrorKind, Reply, ToolError,
    commands::{FinishedProcess, ProcessState},
};

use super::words::{complaint, visible};

/// What git says, what kind of failure that is, and what to do next. The first that fits counts.
const KNOWN: &[(&[&str], ErrorKind, &str)] = &[
    (
        &["branch is renamed, but"],
        ErrorKind::Partial,
        "the branch has its new name, and its settings still stand under the old one; a person may move them in git's configuration",
    ),
    (
        &["ot a git repository"],
        ErrorKind::NotFound,
        "name a directory inside a repository in `directory`, or make one with `git init`",
    ),
    (
        &["dubious ownership"],
        ErrorKind::Denied,
        "the repository belongs to another user; a person has to name it under safe.directory in their git configuration",
    ),
    (
        &[
            ".lock': File exists",
            "another git process seems to be running",
            "could not lock config file",
        ],
        ErrorKind::Unavailable,
        "wait for the other git that holds this lock, then call again; if none runs, a person may delete the lock file",
    ),
    (
        &["lazy fetching disabled", "promisor remote"],
        ErrorKind::Unavailable,
        "the repository holds only a part of its history here; a person has to fetch the rest",
    ),
    (
        &["tell me who you are", "empty ident name", "auto-detect email", "ident name is disabled"],
        ErrorKind::Unavailable,
        "git does not know whose commits these are; a person has to set user.name and user.email",
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
        "the other side does not accept this user; a person has to set up the credentials",
    ),
    (
        &["Read-only file system", "Permission denied", "insufficient permission"],
        ErrorKind::Denied,
        "what git wanted to write is closed to this call; a person has to open it",
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
        "check that the remote can be reached from here, then call again",
    ),
    (
        &["does not appear to be a git repository", "No such remote"],
        ErrorKind::NotFound,
        "give the name of a remote that is configured; `git remote -v` lists them",
    ),
    (
        &["Could not read from remote repository"],
        ErrorKind::Network,
        "check that the remote can be reached from here, then call again",
    ),
    (
        &["ignored by one of your .gitignore files"],
        ErrorKind::Conflict,
        "leave the ignored paths out, or change .gitignore first",
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
        "commit the changes that are in the way, or take them back, then call again",
    ),
    (
        &["is not fully merged"],
        ErrorKind::Conflict,
        "merge the branch first; a branch that is not merged is only deleted by a person",
    ),
    (
        &[
            "checked out at",
            "used by worktree",
            "Cannot delete branch",
            "is a missing but already registered",
        ],
        ErrorKind::Conflict,
        "see with `git_worktree` where it is in use, and use another there first",
    ),
    (
        &["already exists", "' exists; cannot create"],
        ErrorKind::Conflict,
        "take another name, or use what is there",
    ),
    (
        &["is a main working tree"],
        ErrorKind::Conflict,
        "only worktrees that were added can be removed; `git_worktree` with action `list` shows them",
    ),
    (
        &["is not a working tree"],
        ErrorKind::NotFound,
        "`git_worktree` with action `list` shows the worktrees there are",
    ),
    (
        &["must be run in a work tree", "cannot use bare repository"],
        ErrorKind::Unsupported,
        "the repository has no files here; name a worktree of it in `directory`",
    ),
    (
        &["outside repository"],
        ErrorKind::Denied,
        "name a path inside the repository; a nested repository is named in `directory`",
    ),
    (
        &[": bad file"],
        ErrorKind::Unsupported,
        "it is a directory or submodule there, or only a part of the history is here; `git_show` without `file` shows the commit",
    ),
    (&["has only", "There is only"], ErrorKind::Input, "ask for lines that the file has"),
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
        "somebody else has changed the ref, or its name is in the way of another; look again with `git_branch`",
    ),
];

/// What went wrong in a run that ended with a code other than 0.
pub(crate) fn explain(name: &str, finished: &FinishedProcess) -> ToolError {
    let (kind, hint) = kind_of(&String::from_utf8_lossy(&finished.err));
    let error = ToolError::new(kind, format!("`{name}` failed: {}", said(finished)));
    match hint {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

/// A failure with everything that was said beside it, for what a message cannot hold.
pub(crate) fn explain_whole(name: &str, finished: &FinishedProcess) -> ToolError {
    explain(name, finished).with_partial(whole(finished))
}

/// Everything that was said.
pub(crate) fn whole(finished: &FinishedProcess) -> Reply {
    let parts = [&finished.out, &finished.err].map(|part| visible(&String::from_utf8_lossy(part)));
    Reply::text(parts.concat())
}

/// Whether git's words tell nothing about the kind of failure.
pub(crate) fn is_unknown(finished: &FinishedProcess) -> bool {
    kind_of(&String::from_utf8_lossy(&finished.err)).1.is_none()
}

/// What went wrong in a run that did not end by itself.
pub(crate) fn unfinished(name: &str, state: ProcessState) -> ToolError {
    match state {
        ProcessState::KilledByTimeout => {
            ToolError::new(ErrorKind::Timeout, format!("`{name}` took too long and was ended"))
        }
        ProcessState::Cancelled => {
            ToolError::new(ErrorKind::Cancelled, format!("`{name}` was called off"))
        }
        _ => ToolError::failed(format!("`{name}` was ended by a signal"))
            .hint("look at the repository with `git_status` before you call again"),
    }
}

/// Whether the failure is only that there is no commit yet.
pub(crate) fn is_unborn(finished: &FinishedProcess) -> bool {
    String::from_utf8_lossy(&finished.err).contains("does not have any commits yet")
}

/// The complaint of a run, or what else it said.
pub(crate) fn said(finished: &FinishedProcess) -> String {
    let err = complaint(&finished.err);
    if !err.is_empty() {
        return err;
    }
    let out = complaint(&finished.out);
    match (out.is_empty(), finished.status.exit_code) {
        (false, _) => out,
        (true, Some(code)) => format!("it said nothing and ended with code {code}"),
        (true, None) => "it said nothing".to_owned(),
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

    // What needs another machine; everything else is provoked with the real program in `tests/it/git.rs` of `haft`.
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
        check("error: something nobody has heard of", ErrorKind::ToolFailed);
    }

    #[test]
    fn a_silent_failure_still_says_something() {
        let error = explain("git test", &finished("", ""));
        assert_eq!(error.message(), "`git test` failed: it said nothing and ended with code 128");
        assert_eq!(said(&finished("out", " \n")), "out");
    }

    #[test]
    fn runs_that_were_ended_say_by_what() {
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
