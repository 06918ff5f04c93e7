//! git: which of its commands are read-only, and where the sub-command stands.

use super::{
    Certainty, Word, is_one_of,
    options::{ParsedOptions, Valued},
};

/// Index of the sub-command among the words after `git`.
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

pub(super) fn is_read_only(rest: &[Word]) -> bool {
    let Some(at) = subcommand(rest) else {
        let [word] = rest else { return rest.is_empty() };
        return matches!(word.known(), Some("--version" | "--help" | "-v"));
    };
    // A manual is shown by the viewer that the settings name.
    if rest.iter().any(|word| word.is("--help")) {
        return false;
    }
    let (before, after) = rest.split_at(at);
    let Some([name, rest @ ..]) = Some(after) else { return false };
    let mut before = before.iter();
    while let Some(word) = before.next() {
        match word.known() {
            Some("--no-pager" | "-P" | "--no-optional-locks" | "--literal-pathspecs") => {}
            // These settings make git run less than without them.
            Some("-c") if before.next().and_then(Word::known).is_some_and(is_quieting) => {}
            // Another directory of the same user; its path is reported as read.
            Some("-C") => {
                before.next();
            }
            _ => return false,
        }
    }
    name.known().is_some_and(|name| command_is_read_only(name, rest))
}

fn is_quieting(setting: &str) -> bool {
    matches!(
        setting,
        "core.fsmonitor=false"
            | "safe.bareRepository=explicit"
            | "core.hooksPath=/dev/null"
            | "core.quotePath=false"
            | "diff.autoRefreshIndex=false"
            | "log.showSignature=false"
    )
}

fn command_is_read_only(name: &str, rest: &[Word]) -> bool {
    match name {
        // `-nO./program` opens the results with that program.
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

/// git accepts abbreviated options, so each one is compared from both sides.
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
        "--alternate-refs",
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
        // git checks signatures with another program.
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

/// Returns true when names are listed, with no options but these.
fn only_lists(rest: &[Word], letters: &str, names: &str) -> bool {
    let valued = Valued {
        letters: "",
        names: "merged no-merged contains no-contains points-at sort format",
    };
    // git checks signatures with another program.
    if rest.iter().any(|word| word.text.contains("signature")) {
        return false;
    }
    let options = ParsedOptions::scan(rest, valued);
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

/// Returns true when the settings and attributes of a repository may make a read-only command run
/// programs: external diffs, text converters, work tree filters, signature checkers.
pub(super) fn may_run_programs(rest: &[Word]) -> bool {
    const COMPARING: &str = "status diff diff-files diff-index diff-tree blame annotate";
    const LOGGING: &str = "log show whatchanged range-diff stash reflog";
    let Some((name, after)) = called(rest) else { return false };
    let has = |letter: char, long: &str| after.iter().any(|word| is_option(word, letter, long));
    match name {
        "ls-files" => has('m', "--modified"),
        "describe" => has('\0', "--dirty") || has('\0', "--broken"),
        _ => is_one_of(COMPARING, name) || is_one_of(LOGGING, name),
    }
}

/// Returns the sub-command and the words after it.
fn called(rest: &[Word]) -> Option<(&str, &[Word])> {
    let (name, after) = rest.get(subcommand(rest)?..)?.split_first()?;
    Some((name.known()?, after))
}

/// Returns true when a word is, or may be, an option with this letter or an abbreviation of this
/// long name.
fn is_option(word: &Word, letter: char, long: &str) -> bool {
    let Some(text) = word.known() else { return word.may_be_option() };
    match text.strip_prefix("--") {
        Some(name) => {
            !name.is_empty() && long.starts_with(text.split('=').next().unwrap_or_default())
        }
        None => text.starts_with('-') && text.contains(letter),
    }
}

/// The parts of the work tree and of the history that a command shows.
#[derive(Debug, Default)]
pub(super) struct ShownPaths<'a> {
    /// Words that are, or may be, paths of the work tree: git compares two files like `diff`
    /// outside a repository, or when one of the files is outside.
    pub(super) paths: Vec<&'a Word>,
    /// Paths from the top of the repository: `HEAD:path`.
    pub(super) from_top: Vec<Word>,
    /// A folder of the history is shown as a list of names only.
    pub(super) is_one: bool,
    /// Anything in the work tree or its history may be shown.
    pub(super) is_all: bool,
}

/// Returns what a command shows of files. Commands that only list names show nothing.
pub(super) fn shown(rest: &[Word]) -> ShownPaths<'_> {
    const SHOWING: &str = "diff log show blame annotate grep whatchanged ls-files diff-files diff-index diff-tree \
                           cat-file stash reflog shortlog range-diff";
    let mut shown = ShownPaths::default();
    let Some((name, after)) = called(rest) else { return shown };
    if !is_one_of(SHOWING, name) {
        return shown;
    }
    shown.is_one = matches!(name, "show" | "cat-file");
    let has_content = shows_content(name, after);
    let (mut is_after, mut has_pattern, mut is_restricted) = (false, name != "grep", false);
    let mut words = after.iter();
    while let Some(word) = words.next() {
        let is_magic = word.text.starts_with(':') || word.text.contains(['*', '?', '[']);
        if !is_after && word.is("--") {
            is_after = true;
        } else if !is_after && name == "grep" && (word.is("-f") || word.is("-e")) {
            has_pattern = true;
            let value = words.next();
            shown.paths.extend(value.filter(|_| word.is("-f")));
        } else if !is_after && word.is("-L") {
            words.next();
        } else if !is_after && word.may_be_option() {
            continue;
        } else if !is_after && !has_pattern {
            has_pattern = true;
        } else if let Some(path) = path_in_history(word).filter(|_| !is_after) {
            shown.from_top.push(path);
        } else if is_magic && word.certainty == Certainty::Exact {
            shown.is_all = true;
        } else if is_after || may_be_path(name, word, has_content) {
            is_restricted |= is_after || is_plainly_path(word);
            shown.paths.push(word);
        }
    }
    is_restricted |= !shown.from_top.is_empty();
    shown.is_all |= !is_restricted && has_content;
    shown
}

/// Returns true when a command without paths shows contents of files, and not only their names.
fn shows_content(name: &str, after: &[Word]) -> bool {
    const NAMES: &str = "--stat --shortstat --numstat --dirstat --name-only --name-status --summary --raw --no-patch -s -q \
                         --quiet --check";
    let is_given = |names: &str| {
        after.iter().filter_map(Word::known).any(|text| {
            let text = text.split('=').next().unwrap_or_default();
            is_one_of(names, text)
        })
    };
    let has_patch = after.iter().any(|word| {
        is_option(word, 'p', "--patch")
            || is_option(word, 'u', "--patch-with-raw")
            || is_option(word, 'L', "--patch-with-stat")
            || is_option(word, 'U', "--unified")
            || is_option(word, 'W', "--function-context")
            || is_option(word, 'c', "--cc")
            || is_option(word, '\0', "--word-diff")
            || is_option(word, '\0', "--color-words")
            || is_option(word, '\0', "--remerge-diff")
            || is_option(word, '\0', "--binary")
    });
    match name {
        "grep" => true,
        "diff" | "show" => has_patch || !is_given(NAMES),
        "cat-file" => after.iter().any(|word| is_option(word, '\0', "--batch")),
        "range-diff" => true,
        "ls-files" | "shortlog" | "blame" | "annotate" => false,
        _ => has_patch,
    }
}

/// Returns true when the word cannot be the name of a commit.
fn is_plainly_path(word: &Word) -> bool {
    word.has_tilde || word.text.starts_with(['.', '/'])
}

/// Returns true when the word is not recognisably a commit. Where content is shown a plain word may
/// be either.
fn may_be_path(name: &str, word: &Word, has_content: bool) -> bool {
    let text = word.text.as_str();
    if matches!(name, "blame" | "annotate") {
        return true;
    }
    if !has_content && !text.contains(['.', '/']) && !word.has_tilde {
        return false;
    }
    let is_range = text.contains("..") && !text.starts_with("..") && !text.contains("/..");
    let is_commit = text.starts_with("HEAD") || text.contains(['^', '@', '~']) && !word.has_tilde;
    !is_range && !is_commit && !matches!(name, "stash" | "reflog" | "cat-file")
}

/// The path of a file that is read from the history: `HEAD:path`, `:path`.
fn path_in_history(word: &Word) -> Option<Word> {
    let text = word.known()?;
    let (before, path) = text.split_once(':')?;
    let is_magic = before.is_empty() && path.starts_with(['(', '/', '!', '^', ':', '*']);
    (!is_magic && !path.is_empty()).then(|| Word { is_from_top: true, ..Word::exact(path) })
}
