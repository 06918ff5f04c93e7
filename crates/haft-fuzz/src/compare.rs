//! Compares the actions of a text with the result of the reader.
//!
//! Each process has a role. The reader must name every command and file of a shell or wrapper. A
//! command that the reader called read-only must be just that. A command that is known to write
//! must only touch named files. Any other named command needs approval, and may do anything.

use std::collections::HashMap;

use haft_shell::{Certainty, Command, DoubtSubject, FileAction, FileUse, Reach, Reading, Risk};

use crate::{
    sandbox::{self, HOME, LINKS, WATCHED_DIR, WORKSPACE},
    trace::{TraceAction, TraceEvent},
};

/// An action that the reader did not name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnnamedAction {
    /// `executed`, `read` or `written`.
    pub(crate) kind: &'static str,
    /// The program that did it.
    pub(crate) program: String,
    /// The command line or the path.
    pub(crate) what: String,
}

/// The role of a process for the comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Role {
    /// The driver, before it starts the text.
    Driver,
    /// A shell or wrapper.
    Wrapper(String),
    /// A command that the reader called read-only.
    ReadOnly(String),
    /// A command that needs approval, and whose files the reader knows.
    Writer(String),
    /// Any other command that needs approval.
    Asked,
}

/// Commands that need approval, but whose files the reader claims to know.
const WRITERS: &str = "rm rmdir unlink touch mkdir tee cp mv ln chmod truncate install dd";

/// Programs that are scripts around others, and the programs that they run.
const HELPERS: &[(&str, &str)] = &[
    ("egrep fgrep", "grep"),
    ("zcat", "gzip"),
    ("diff", "pr"),
    ("bzcat", "bzip2"),
    ("xzcat", "xz"),
    ("zgrep", "grep gzip sed bzip2 xz zstd expr cat"),
    ("git", "git less pager cat"),
    (
        "man whatis apropos",
        "man preconv tbl nroff groff grotty troff less pager zsoelim locale cat sh",
    ),
    ("which", "which"),
    ("lsblk ps", ""),
];

/// Returns the unnamed actions. None when the reader doubts the commands.
pub(crate) fn unnamed_actions(reading: &Reading, events: &[TraceEvent]) -> Vec<UnnamedAction> {
    let mut comparison = Comparison { reading, roles: HashMap::new(), unnamed: Vec::new() };
    // A child may appear in the log before its parent's fork returned.
    let parents: HashMap<u32, u32> = events
        .iter()
        .filter_map(|event| match event.action {
            TraceAction::Forked(child) => Some((child, event.pid)),
            _ => None,
        })
        .collect();
    let makes_links = events.iter().any(|event| event.action == TraceAction::Linked);
    for event in events {
        comparison.event(event, &parents, makes_links);
    }
    comparison.unnamed
}

struct Comparison<'a> {
    reading: &'a Reading,
    roles: HashMap<u32, Role>,
    unnamed: Vec<UnnamedAction>,
}

impl Comparison<'_> {
    fn role(&self, pid: u32, parents: &HashMap<u32, u32>) -> Role {
        let mut pid = pid;
        for _ in 0..100 {
            if let Some(role) = self.roles.get(&pid) {
                return role.clone();
            }
            match parents.get(&pid) {
                Some(parent) => pid = *parent,
                None => break,
            }
        }
        Role::Driver
    }

    fn event(&mut self, event: &TraceEvent, parents: &HashMap<u32, u32>, makes_links: bool) {
        let role = self.role(event.pid, parents);
        self.roles.insert(event.pid, role.clone());
        match &event.action {
            TraceAction::Forked(child) => {
                self.roles.entry(*child).or_insert(role);
            }
            TraceAction::Executed { path, argv } => {
                let role = self.executed(&role, path, argv);
                self.roles.insert(event.pid, role);
            }
            TraceAction::Read(path) if !makes_links => {
                self.file(&role, resolved(path), FileAction::Read)
            }
            TraceAction::Wrote(path) if !makes_links => {
                self.file(&role, resolved(path), FileAction::Write)
            }
            TraceAction::Unlinked(path) if !makes_links => {
                // The reader may name the link or its target.
                let target = resolved(path);
                let files = &self.reading.files;
                if !files.iter().any(|file| covers(file, &target, FileAction::Write)) {
                    self.file(&role, resolved_name(path), FileAction::Write);
                }
            }
            _ => {}
        }
    }

    fn executed(&mut self, role: &Role, path: &str, argv: &[String]) -> Role {
        match role {
            Role::Driver if argv.first().is_some_and(|name| name == "bash") => {
                return Role::Wrapper("bash".to_owned());
            }
            Role::Driver | Role::Asked | Role::Writer(_) => return role.clone(),
            // The system's profile runs this in every login shell.
            Role::Wrapper(_) if argv == ["id", "-u"] => return Role::Asked,
            Role::ReadOnly(name) if is_helper(name, base(path)) => return role.clone(),
            // These wrappers pass their text to a shell.
            Role::Wrapper(outer) if hands_on(outer) && is_shell(base(path)) => {
                return Role::Wrapper(base(path).to_owned());
            }
            _ => {}
        }
        let named: Vec<&Command> = self
            .reading
            .commands
            .iter()
            .filter(|command| is_call_of(command, path, argv, self.may_rename(role)))
            .collect();
        let may_rename = self.may_rename(role);
        let given = argv.first().map_or("", String::as_str);
        let name = if may_rename { base(given) } else { base(path) };
        let is_wrapper = |command: &&Command| command.through.iter().any(|through| through == name);
        let wraps = self.reading.commands.iter().any(|command| is_wrapper(&command));
        let is_doubted =
            self.reading.doubts.iter().any(|doubt| doubt.about == DoubtSubject::Commands);
        if is_doubted {
            return Role::Asked;
        }
        let asks = named.iter().any(|command| !command.risk.is_read_only());
        // A command that needs approval and has an assignment or a path before it may be any
        // program. A command with a terminal may start a pager.
        let is_elsewhere = may_rename && path.starts_with(|c: char| c != '/');
        let has_assignment = |command: &&Command| {
            command.words.first().is_some_and(|word| !command.text.starts_with(&word.text))
        };
        let in_terminal = |command: &&Command| command.through.iter().any(|it| it == "script");
        let is_changed = asks && named.iter().any(has_assignment);
        if !named.is_empty() && (is_elsewhere || is_changed || named.iter().all(in_terminal)) {
            return Role::Asked;
        }
        // `bash -c ''` has no command and runs none.
        if let [_, option, text, ..] = argv
            && is_shell(name)
            && is_text_option(option)
            && haft_shell::read(text).commands.is_empty()
        {
            return Role::Wrapper(name.to_owned());
        }
        // The reader need not know the text of a script.
        let is_script = is_shell(name) && !argv.iter().any(|word| is_text_option(word));
        if wraps && !(asks && is_script) {
            return Role::Wrapper(name.to_owned());
        }
        let is_writer = WRITERS.split(' ').any(|writer| writer == name);
        match () {
            () if named.is_empty() && is_shell_role(role) && self.sources() => Role::Asked,
            () if named.is_empty() => {
                self.add("executed", role, &argv.join(" "));
                Role::Asked
            }
            () if asks && is_writer => Role::Writer(name.to_owned()),
            // The repository decides what git runs; only read-only texts prevent that.
            () if name == "git" && !self.is_quiet(&named) => Role::Asked,
            () if asks => Role::Asked,
            () => Role::ReadOnly(name.to_owned()),
        }
    }

    fn file(&mut self, role: &Role, path: String, how: FileAction) {
        if !path.starts_with(WATCHED_DIR) || !self.reading.doubts.is_empty() {
            return;
        }
        let name = match role {
            Role::Driver | Role::Asked => return,
            // The reader need not know what a sourced script does.
            Role::Wrapper(name) if is_shell(name) && self.sources() => return,
            // busybox runs its applets itself, with files beyond the named ones.
            Role::Wrapper(name) if name == "busybox" && self.may_rename(role) => return,
            Role::Wrapper(name) | Role::ReadOnly(name) | Role::Writer(name) => name,
        };
        // git reads the files that it tracks and keeps its own files.
        let is_gits = match how {
            FileAction::Read => path.starts_with(WORKSPACE),
            FileAction::Write => path.contains("/.git/"),
        };
        // `mkdir -p m/n` creates `m` too.
        let is_parent = matches!(name.as_str(), "mkdir" | "install")
            && self.reading.files.iter().any(|file| covers_below(file, &path));
        let is_listing = how == FileAction::Read && sandbox::is_directory(&path);
        if name == "git" && is_gits || is_listing || is_parent {
            return;
        }
        if !self.reading.files.iter().any(|file| covers(file, &path, how)) {
            let kind = if how == FileAction::Read { "read" } else { "written" };
            self.add(kind, role, &path);
        }
    }

    /// Returns true if git runs no program that a repository names.
    fn is_quiet(&self, named: &[&Command]) -> bool {
        let may_run = |command: &&Command| command.risk == Risk::Repository;
        self.reading.is_read_only() && !named.iter().any(may_run)
    }

    /// Returns true if a wrapper that needs approval may start programs from other places than the
    /// search path of the text.
    fn may_rename(&self, role: &Role) -> bool {
        let Role::Wrapper(name) = role else { return false };
        let asks = |command: &Command| {
            !command.risk.is_read_only()
                && command.words.first().is_some_and(|word| base(&word.text) == name)
        };
        matches!(name.as_str(), "env" | "busybox") && self.reading.commands.iter().any(asks)
    }

    /// Returns true if the text sources a script, with approval.
    fn sources(&self) -> bool {
        self.reading.commands.iter().any(|command| {
            let name = command.words.first().map_or("", |word| word.text.as_str());
            matches!(name, "." | "source") && !command.risk.is_read_only()
        })
    }

    fn add(&mut self, kind: &'static str, role: &Role, what: &str) {
        let program = match role {
            Role::Wrapper(name) | Role::ReadOnly(name) | Role::Writer(name) => name.clone(),
            Role::Driver | Role::Asked => String::new(),
        };
        let action = UnnamedAction { kind, program, what: what.to_owned() };
        if !self.unnamed.contains(&action) {
            self.unnamed.push(action);
        }
    }
}

fn is_helper(name: &str, program: &str) -> bool {
    let has = |list: &str, name: &str| list.split(' ').any(|known| known == name);
    program == "sh" && name != "awk" && has("egrep fgrep zcat bzcat zgrep which man", name)
        || HELPERS.iter().any(|(names, programs)| has(names, name) && has(programs, program))
}

fn hands_on(wrapper: &str) -> bool {
    matches!(wrapper, "script" | "flock" | "watch" | "su" | "runuser")
}

fn is_shell_role(role: &Role) -> bool {
    matches!(role, Role::Wrapper(name) if is_shell(name))
}

fn is_shell(name: &str) -> bool {
    matches!(name, "bash" | "sh" | "dash" | "rbash")
}

/// Returns true for options such as `-c` and `-lc`.
fn is_text_option(word: &str) -> bool {
    word.starts_with('-') && !word.starts_with("--") && word.contains('c')
}

/// Returns the name of a system program: `/usr/bin/ls` becomes `ls`, `./ls` is unchanged.
fn base(path: &str) -> &str {
    let system = ["/bin/", "/usr/bin/", "/sbin/", "/usr/sbin/", "/usr/local/bin/"];
    let found = system.iter().find_map(|folder| path.strip_prefix(folder));
    found.filter(|rest| !rest.contains('/')).unwrap_or(path)
}

/// Returns true if the call may be one of this command.
fn is_call_of(command: &Command, path: &str, argv: &[String], may_rename: bool) -> bool {
    let Some((first, rest)) = command.words.split_first() else { return false };
    let name = base(&first.text);
    let given = argv.first().map_or("", String::as_str);
    // With assignments before the command the search path may differ.
    let is_renamed = (may_rename || !command.text.starts_with(&first.text)) && base(given) == name;
    // `exec ./a` and `exec sub/a` are called by their whole path.
    let whole = format!("{WORKSPACE}/{name}");
    let is_relative = name.contains('/') && !name.starts_with('/');
    let is_same = is_relative && resolved(&whole) == resolved(path);
    if first.certainty == Certainty::Exact && name != base(path) && !is_renamed && !is_same {
        return false;
    }
    let takes_more = |name: &String| matches!(name.as_str(), "xargs" | "find" | "fd");
    let more = command.through.iter().any(takes_more);
    let words: Vec<Option<&str>> = rest
        .iter()
        .map(|word| {
            let is_certain = word.certainty == Certainty::Exact
                && !word.text.starts_with('~')
                && !word.text.contains("{}");
            is_certain.then_some(word.text.as_str())
        })
        .chain(more.then_some(None))
        .collect();
    fits(&words, argv.get(1..).unwrap_or_default())
}

/// Returns true if the words may be these arguments; an unknown word stands for any number of them.
fn fits(words: &[Option<&str>], argv: &[String]) -> bool {
    match words {
        [] => argv.is_empty(),
        [Some(word), words @ ..] => {
            argv.split_first().is_some_and(|(first, argv)| first == word && fits(words, argv))
        }
        [None, words @ ..] => (0..=argv.len()).any(|taken| fits(words, &argv[taken..])),
    }
}

/// Returns true if the reader has named this path.
fn covers(file: &FileUse, path: &str, how: FileAction) -> bool {
    // A file that may be written may also be read.
    if how == FileAction::Write && file.how == FileAction::Read {
        return false;
    }
    let text = file.path.to_string_lossy();
    let rooted =
        match text.strip_prefix('~').filter(|rest| rest.is_empty() || rest.starts_with('/')) {
            Some(rest) => format!("{HOME}{rest}"),
            None if text.starts_with('/') => text.into_owned(),
            None => format!("{WORKSPACE}/{text}"),
        };
    // Policy checks the targets of the links in a directory.
    let leads_there = |folder: &str| {
        let is_link = |(link, target): &&(&str, &str)| {
            link.starts_with(folder) && (path == *target || path.starts_with(&format!("{target}/")))
        };
        LINKS.iter().any(|link| is_link(&link))
    };
    if file.reach == Reach::Pattern {
        let fixed = rooted.split(['*', '?', '[', '\\', '(', '{', '+', '@', '!']).next();
        let fixed = resolved(fixed.unwrap_or_default());
        return path.starts_with(&fixed) || leads_there(&fixed);
    }
    let named = resolved(&rooted);
    let below = path.strip_prefix(&format!("{}/", named.trim_end_matches('/')));
    // A file copied to a directory is in it.
    let is_put_into = how == FileAction::Write && below.is_some() && sandbox::is_directory(&named);
    let leads_there = how == FileAction::Read && leads_there(&named);
    let is_in_tree = file.reach == Reach::Tree && (below.is_some() || leads_there);
    path == named || is_in_tree || is_put_into
}

/// Returns true if the reader has named a write below this path of the workspace.
fn covers_below(file: &FileUse, path: &str) -> bool {
    let named = resolved(&format!("{WORKSPACE}/{}", file.path.display()));
    file.how == FileAction::Write && named.starts_with(&format!("{path}/"))
}

/// Resolves `.`, `..` and the links of the fixture.
pub(crate) fn resolved(path: &str) -> String {
    let mut whole = String::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => whole.truncate(whole.rfind('/').unwrap_or(0)),
            name => {
                whole = format!("{whole}/{name}");
                if let Some((_, target)) = LINKS.iter().find(|(link, _)| *link == whole) {
                    whole = (*target).to_owned();
                }
            }
        }
    }
    if whole.is_empty() { "/".to_owned() } else { whole }
}

/// Resolves a path like [`resolved`], but not a link at its end.
fn resolved_name(path: &str) -> String {
    match path.trim_end_matches('/').rsplit_once('/') {
        Some((folder, name)) if !matches!(name, "." | "..") => {
            format!("{}/{name}", resolved(folder).trim_end_matches('/'))
        }
        _ => resolved(path),
    }
}

#[cfg(test)]
mod tests {
    use haft_shell::read;

    use super::*;

    fn executed(pid: u32, path: &str, argv: &[&str]) -> TraceEvent {
        let argv = argv.iter().map(|word| (*word).to_owned()).collect();
        TraceEvent { pid, action: TraceAction::Executed { path: path.to_owned(), argv } }
    }

    fn forked(pid: u32, child: u32) -> TraceEvent {
        TraceEvent { pid, action: TraceAction::Forked(child) }
    }

    fn wrote(pid: u32, path: &str) -> TraceEvent {
        TraceEvent { pid, action: TraceAction::Wrote(path.to_owned()) }
    }

    fn unlinked(pid: u32, path: &str) -> TraceEvent {
        TraceEvent { pid, action: TraceAction::Unlinked(path.to_owned()) }
    }

    fn read_(pid: u32, path: &str) -> TraceEvent {
        TraceEvent { pid, action: TraceAction::Read(path.to_owned()) }
    }

    /// Compares with process 1 as the shell of the text.
    #[track_caller]
    fn check(text: &str, events: &[TraceEvent], expected: &[(&str, &str)]) {
        let mut all = vec![executed(1, "/usr/bin/bash", &["bash", "-c", text])];
        all.extend(events.iter().cloned());
        let problems = unnamed_actions(&read(text), &all);
        let found: Vec<(&str, &str)> =
            problems.iter().map(|problem| (problem.kind, problem.what.as_str())).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn removing_a_link_does_not_touch_its_target() {
        let find = executed(1, "/usr/bin/find", &["find", ".", "-delete"]);
        check("find . -delete -exec cut {} +", &[find, unlinked(1, "/o/w/lf")], &[]);
    }

    #[test]
    fn named_actions_are_fine() {
        let cat = executed(2, "/usr/bin/cat", &["cat", "a.txt"]);
        check("cat a.txt", &[forked(1, 2), cat, read_(2, "/o/w/a.txt")], &[]);
        check("echo x > m", &[wrote(1, "/o/w/m")], &[]);
        check(
            "touch m",
            &[executed(1, "/usr/bin/touch", &["touch", "m"]), wrote(1, "/o/w/m")],
            &[],
        );
    }

    #[test]
    fn approved_busybox_may_do_anything() {
        let busybox = executed(1, "/usr/bin/busybox", &["busybox", "mkdir", "-p", "m/n"]);
        check("busybox mkdir -p m/n", &[busybox, wrote(1, "/o/w/m")], &[]);
    }

    #[test]
    fn a_shell_with_an_empty_text_runs_nothing() {
        let bash = executed(1, "/usr/bin/bash", &["bash", "-c", "# ls"]);
        check("bash -c '# ls'", std::slice::from_ref(&bash), &[]);
        let touch = executed(2, "/usr/bin/touch", &["touch", "m"]);
        check("bash -c '# ls'", &[bash, forked(1, 2), touch], &[("executed", "touch m")]);
    }

    #[test]
    fn exec_makes_a_whole_path() {
        check("exec sub/ls", &[executed(1, "/o/w/sub/ls", &["/o/w/sub/ls"])], &[]);
        let other = executed(1, "/o/w/ls", &["/o/w/ls"]);
        check("exec sub/ls", &[other], &[("executed", "/o/w/ls")]);
    }

    #[test]
    fn unnamed_actions_are_found() {
        let cat = executed(2, "/usr/bin/cat", &["cat", "a.txt"]);
        check(
            "cat a.txt",
            &[forked(1, 2), cat.clone(), read_(2, "/o/w/.env"), wrote(2, "/o/w/m")],
            &[("read", "/o/w/.env"), ("written", "/o/w/m")],
        );
        let touch = executed(3, "/usr/bin/touch", &["touch", "m"]);
        let events = [forked(1, 2), cat, forked(2, 3), touch.clone()];
        check("cat a.txt", &events, &[("executed", "touch m")]);
        check("echo x", &[forked(1, 3), touch], &[("executed", "touch m")]);
    }

    #[test]
    fn a_child_in_the_log_before_its_fork_has_the_role_of_its_parent() {
        let touch = executed(3, "/usr/bin/touch", &["touch", "m"]);
        let make = executed(2, "/usr/bin/make", &["make"]);
        check("make", &[forked(1, 2), make, touch.clone(), forked(2, 3)], &[]);
        check("echo x", &[touch, forked(2, 3), forked(1, 2)], &[("executed", "touch m")]);
    }

    #[test]
    fn scripts_and_approved_commands_may_do_anything() {
        let script = executed(1, "/usr/bin/bash", &["bash", "evil.sh"]);
        check("bash evil.sh", &[script, wrote(1, "/o/w/marker")], &[]);
        let touch = executed(2, "/usr/bin/touch", &["touch", "marker"]);
        check(". ./evil.sh", &[wrote(1, "/o/w/marker"), forked(1, 2), touch], &[]);
        let script = executed(2, "/usr/bin/script", &["script", "-qc", "touch m", "/dev/null"]);
        let shell = executed(3, "/usr/bin/sh", &["sh", "-c", "touch m"]);
        let touch = executed(3, "/usr/bin/touch", &["touch", "m"]);
        let events = [forked(1, 2), script, forked(2, 3), shell, touch];
        check("script -qc 'touch m' /dev/null", &events, &[]);
        let env = executed(2, "/usr/bin/env", &["env", "PATH=sub", "ls"]);
        let ls = executed(2, "sub/ls", &["ls"]);
        check("env PATH=sub ls", &[forked(1, 2), env, ls], &[]);
        let busybox = executed(2, "/usr/bin/busybox", &["busybox", "sh", "-c", "ls"]);
        let ls = executed(3, "/proc/self/exe", &["ls"]);
        check("busybox sh -c ls", &[forked(1, 2), busybox, forked(2, 3), ls], &[]);
        check(
            "cat *",
            &[executed(1, "/usr/bin/cat", &["cat", "lf"]), read_(1, "/o/outside/secret")],
            &[],
        );
        check("cat $X", &[executed(1, "/usr/bin/cat", &["cat", "k"]), read_(1, "/o/w/k")], &[]);
    }

    #[test]
    fn links_of_the_fixture_are_followed_on_both_sides() {
        assert_eq!(resolved("/o/w/l/../a.txt"), "/o/outside/a.txt");
        assert_eq!(resolved("/o/w/./sub/../a.txt"), "/o/w/a.txt");
        let cat = executed(1, "/usr/bin/cat", &["cat", "l/file"]);
        check("cat l/file", &[cat, read_(1, "/o/outside/deep/file")], &[]);
    }
}
