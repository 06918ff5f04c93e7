//! git: which of its commands only look, and where the name of the command stands.

use super::{
    Word,
    options::{Options, Valued},
};

/// Where the sub-command stands among the words after `git`.
pub(super) fn subcommand(rest: &[Word]) -> Option<usize> {
    let mut index = 0;
    loop {
        let text = rest.get(index)?.known()?;
        match text {
            "-C" | "-c" | "--git-dir" | "--work-tree" | "--namespace" | "--super-prefix"
            | "--config-env" => index += 2,
            _ if text.starts_with('-') => index += 1,
            _ => return Some(index),
        }
    }
}

pub(super) fn only_looks(rest: &[Word]) -> bool {
    let Some(at) = subcommand(rest) else {
        return rest.iter().all(|word| matches!(word.known(), Some("--version" | "--help" | "-v")));
    };
    let (before, after) = rest.split_at(at);
    let Some([name, rest @ ..]) = Some(after) else { return false };
    let mut before = before.iter();
    while let Some(word) = before.next() {
        match word.known() {
            Some("--no-pager" | "-P" | "--no-optional-locks" | "--literal-pathspecs") => {}
            // Another directory of the same person; its path is reported as read.
            Some("-C") => {
                before.next();
            }
            _ => return false,
        }
    }
    name.known().is_some_and(|name| command_only_looks(name, rest))
}

fn command_only_looks(name: &str, rest: &[Word]) -> bool {
    match name {
        // `-nO./program` opens what is found with that program.
        "grep" if rest.iter().any(may_open) => false,
        "status" | "log" | "show" | "diff" | "shortlog" | "whatchanged" | "rev-list"
        | "diff-tree" | "diff-index" | "diff-files" | "range-diff" | "blame" | "annotate"
        | "grep" | "rev-parse" | "ls-files" | "ls-tree" | "cat-file" | "describe"
        | "merge-base" | "name-rev" | "show-ref" | "for-each-ref" | "count-objects"
        | "check-ignore" | "check-attr" | "show-branch" | "cherry" | "version" => {
            has_no_harmful_option(rest)
        }
        "branch" => branch_only_lists(rest),
        "tag" => tag_only_lists(rest),
        "remote" => {
            matches!(texts(rest).as_deref(), Some([] | ["-v" | "--verbose"] | ["get-url", _]))
        }
        "stash" => begins(rest, &["list", "show"]),
        "worktree" | "notes" => begins(rest, &["list"]),
        "submodule" => begins(rest, &["status"]),
        "reflog" => rest.is_empty() || (begins(rest, &["show"]) && has_no_harmful_option(rest)),
        "symbolic-ref" => matches!(texts(rest).as_deref(), Some(["HEAD"] | ["--short", "HEAD"])),
        "config" => config_only_reads(rest),
        _ => false,
    }
}

fn may_open(word: &Word) -> bool {
    let text = word.prefix.as_str();
    text.starts_with('-') && !text.starts_with("--") && text.contains('O')
}

fn texts(rest: &[Word]) -> Option<Vec<&str>> {
    rest.iter().map(Word::known).collect()
}

fn begins(rest: &[Word], names: &[&str]) -> bool {
    let first = rest.first().and_then(Word::known);
    first.is_some_and(|first| names.contains(&first)) && has_no_harmful_option(rest)
}

/// git takes the beginning of an option for the option, so each one is compared from both sides.
fn has_no_harmful_option(rest: &[Word]) -> bool {
    const HARMFUL: &[&str] = &[
        "--output",
        "--ext-diff",
        "--textconv",
        "--exec",
        "--upload-pack",
        "--receive-pack",
        "--open-files-in-pager",
        "--contents",
        "--no-index",
        "--show-signature",
        "--filters",
        "--batch-command",
        "--parseopt",
        "--unpacked-objects",
    ];
    const HARMLESS: &[&str] =
        &["--text", "--no-textconv", "--batch", "--batch-check", "--contains"];
    for word in rest {
        let Some(text) = word.known() else {
            if word.may_be_option() {
                return false;
            }
            continue;
        };
        if text == "--" {
            return true;
        }
        // Signatures are checked by another program.
        let checks_signature = text.contains("%G") || text.contains("signature");
        if checks_signature || text.starts_with("-O") || text.starts_with("-o") && text != "-o" {
            return false;
        }
        let Some(_) = text.strip_prefix("--") else { continue };
        let name = text.split('=').next().unwrap_or_default();
        let is_harmful =
            HARMFUL.iter().any(|known| known.starts_with(name) || name.starts_with(known));
        if is_harmful && !HARMLESS.contains(&name) {
            return false;
        }
    }
    true
}

fn branch_only_lists(rest: &[Word]) -> bool {
    let names = "all remotes list show-current verbose merged no-merged contains no-contains points-at sort format \
                 column no-column color no-color abbrev ignore-case";
    only_lists(rest, "avrl", names)
}

fn tag_only_lists(rest: &[Word]) -> bool {
    let names = "list sort format contains no-contains merged no-merged points-at column no-column";
    only_lists(rest, "ln0123456789", names)
}

/// Whether names are listed, with no options but these.
fn only_lists(rest: &[Word], letters: &str, names: &str) -> bool {
    let valued = Valued {
        letters: "",
        names: "merged no-merged contains no-contains points-at sort format",
    };
    // Signatures are checked by another program.
    if rest.iter().any(|word| word.text.contains("signature")) {
        return false;
    }
    let options = Options::scan(rest, valued);
    let is_listing = options.has(&["--list", "-l"]) || options.operands.is_empty();
    is_listing && !options.is_uncertain && options.are_all(letters, names)
}

fn config_only_reads(rest: &[Word]) -> bool {
    let Some(texts) = texts(rest) else { return false };
    let is_scope = |text: &&&str| {
        !matches!(
            **text,
            "--global"
                | "--local"
                | "--system"
                | "--worktree"
                | "--show-origin"
                | "--show-scope"
                | "--name-only"
                | "-z"
        )
    };
    let texts: Vec<&str> = texts.iter().filter(is_scope).copied().collect();
    match texts.as_slice() {
        ["-l" | "--list" | "list"] => true,
        ["--get" | "--get-all" | "--get-regexp" | "get", name] => !name.starts_with('-'),
        [name] => name.contains('.') && !name.starts_with('-'),
        _ => false,
    }
}

/// The words that are paths of the work tree, or may be: git compares two files like `diff` when it is not in a
/// repository, or when one of them lies outside of it.
pub(super) fn paths(rest: &[Word]) -> Vec<&Word> {
    const SHOWING: &str =
        "diff log show blame annotate grep whatchanged ls-files diff-files diff-index diff-tree";
    let Some(at) = subcommand(rest) else { return Vec::new() };
    let name = rest.get(at).and_then(Word::known).unwrap_or_default();
    if !SHOWING.split(' ').any(|known| known == name) {
        return Vec::new();
    }
    let mut paths = Vec::new();
    let mut is_after = false;
    let mut words = rest.iter().skip(at + 1);
    while let Some(word) = words.next() {
        if !is_after && word.is("--") {
            is_after = true;
        } else if !is_after && name == "grep" && word.is("-f") {
            paths.extend(words.next());
        } else if is_after || may_be_path(word) {
            paths.push(word);
        }
    }
    paths
}

/// Not a name of a commit: those have no dots but in ranges, and a path of the history stands after a colon.
fn may_be_path(word: &Word) -> bool {
    let text = word.text.as_str();
    let is_range = text.contains("..") && !text.starts_with("..") && !text.contains("/..");
    let has_sign = text.contains(['.', '/']) || word.has_tilde;
    has_sign
        && !is_range
        && !text.contains(':')
        && !word.may_be_option()
        && !text.contains(['^', '@'])
}

/// The paths that are read out of the history: `git show HEAD:path`.
pub(super) fn paths_in_history(rest: &[Word]) -> Vec<Word> {
    let Some(at) = subcommand(rest) else { return Vec::new() };
    let mut words = rest.iter().skip(at);
    let is_shown =
        words.next().and_then(Word::known).is_some_and(|name| matches!(name, "show" | "cat-file"));
    let path = |word: &Word| {
        let (_, path) = word.known()?.split_once(':')?;
        (is_shown && !path.is_empty()).then(|| Word::exact(path))
    };
    words.filter_map(path).collect()
}
