//! Reads a shell text and reports what it would do: the commands it runs, the files it names, and
//! what cannot be known from the text. This crate runs nothing, opens nothing and decides nothing:
//! policy judges the reading.
//!
//! Two parsers read every text: our own strict parser (`parse`), whose tree is the result, and
//! tree-sitter's grammar as a cross-check. Where they see different commands the reading has a
//! doubt, and a doubt means asking for approval.

use std::path::{Path, PathBuf};

use haft_core::{Access, CommandRisk, ParsedCommand};

mod ansi;
mod cross_check;
mod danger;
mod dialect;
mod environment;
mod files;
mod git;
mod hosts;
mod options;
mod parse;
mod programs;
mod quoting;
mod rule_texts;
mod safe;
mod scripts;
mod spellings;
mod syntax;
#[cfg(test)]
mod tests;
mod walk;
mod words;
mod wrappers;

pub use rule_texts::{is_too_wide, rule_texts};

/// Maximum size of a text. Longer texts are not parsed: no person could judge them, and parsing
/// must be quick.
const MAX_TEXT_BYTES: usize = 64 << 10;

/// Maximum number of doubts about each subject. One is enough to ask for approval.
const MAX_DOUBTS: usize = 200;

/// The result of reading a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Every program and builtin that may run, at any depth of the text.
    pub commands: Vec<Command>,
    /// Every file that is named, by redirects and by the operands of known programs.
    pub files: Vec<FileUse>,
    /// Everything that could not be determined. Any doubt means asking for approval.
    pub doubts: Vec<Doubt>,
    /// The words of each wrapper, which by itself only runs commands that are in `commands`. Rules
    /// that deny or ask may name a wrapper.
    pub wrappers: Vec<Vec<Word>>,
}

/// One command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The words in the normalized spelling that rules match: `git log -n 5`. Assignments that
    /// change what the command does come first: `PATH=. ls`.
    pub text: String,
    /// The words.
    pub words: Vec<Word>,
    /// The risk of the command.
    pub risk: Risk,
    /// The wrappers that it runs through, outermost first: `timeout`, `xargs`, `bash`.
    pub through: Vec<String>,
    /// True when words are added that the parser cannot see.
    pub more: bool,
    /// The URLs and hosts that the command plainly contacts.
    pub fetches: Vec<String>,
}

/// One word of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Word {
    /// The text that the program gets, when it is certain; otherwise the source text.
    pub text: String,
    /// The certainty of the text.
    pub certainty: Certainty,
    /// The beginning that is certain.
    prefix: String,
    /// True when the word may expand to no word or to several.
    is_open: bool,
    /// For the `{}` of find: the directory that is searched. The word stands for everything below
    /// it.
    below: Option<Box<Self>>,
    /// True when the word begins with an unquoted `~`.
    has_tilde: bool,
    /// True when the word is `<(…)` or `>(…)` and nothing more.
    is_process: bool,
    /// True when the word contains output of a program that reads from the network.
    is_fetched: bool,
    /// True when the path starts at the top of a git repository, which may be any directory above.
    is_from_top: bool,
}

/// The certainty of a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Certainty {
    /// Every character is known.
    #[default]
    Exact,
    /// The word is a file name pattern, and the text is that pattern.
    Pattern,
    /// The word depends on variables or on the output of commands.
    Unknown,
}

/// The risk of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Risk {
    /// It only reads and prints. Every option was checked.
    ReadOnly,
    /// It only reads and prints, unless the repository that it reads configures programs to run:
    /// external diffs, converters, filters, signature checkers.
    Repository,
    /// It is on no list.
    Other,
    /// It is hard to undo; the text says why. Needs approval in every mode but `all`.
    Dangerous(&'static str),
}

/// A file that is named.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FileUse {
    /// The path without quotes, relative to where the text starts. A leading `~` is the home
    /// directory; a file name that really begins with `~` is written `./~`.
    pub path: PathBuf,
    /// The use of the file by the command.
    pub how: FileAction,
    /// The extent of the path.
    pub reach: Reach,
}

/// The use of a file by a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileAction {
    /// It is read.
    Read,
    /// It is created, changed or removed.
    Write,
}

/// The extent of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reach {
    /// The file itself.
    Itself,
    /// Everything below it too.
    Tree,
    /// The names of everything below it, but not the contents.
    Names,
    /// The path is a pattern for every file that matches.
    Pattern,
}

/// Something that cannot be determined from the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// The piece of text.
    pub what: String,
    /// Why it cannot be determined.
    pub why: &'static str,
    /// The subject of the doubt.
    pub about: DoubtSubject,
}

/// The subject of a doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoubtSubject {
    /// Which commands run.
    Commands,
    /// Which files a known command uses.
    Files,
}

impl Risk {
    /// Returns true when the command itself only reads and prints.
    pub fn is_read_only(self) -> bool {
        matches!(self, Self::ReadOnly | Self::Repository)
    }
}

impl Reading {
    /// Returns true when all commands only read and print.
    pub fn is_read_only(&self) -> bool {
        self.doubts.is_empty()
            && self.commands.iter().all(|command| command.risk.is_read_only())
            && self.files.iter().all(|file| file.how == FileAction::Read)
    }

    fn doubt(&mut self, what: &str, why: &'static str, about: DoubtSubject) {
        let doubt = Doubt { what: truncated(what), why, about };
        let count = self.doubts.iter().filter(|doubt| doubt.about == about).count();
        if count < MAX_DOUBTS && !self.doubts.contains(&doubt) {
            self.doubts.push(doubt);
        }
    }
}

/// Reads a text the way `bash -c` would.
pub fn read(command: &str) -> Reading {
    let mut reading = Reading::default();
    if command.len() > MAX_TEXT_BYTES {
        reading.doubt(command, "it is too long to parse", DoubtSubject::Commands);
        return reading;
    }
    walk::text(command, &mut reading);
    reading
}

/// Returns true when a text starts a shell that runs its input.
pub fn starts_shell(text: &str) -> bool {
    let runs_input = |command: &Command| {
        let name = command.words.first().map_or("", |word| word.text.as_str());
        let name = name.rsplit('/').next().unwrap_or_default();
        matches!(wrappers::unwrap(name, &command.words), wrappers::WrappedCommand::Input)
            || is_interactive_shell(name, &command.words)
    };
    read(text).commands.iter().any(runs_input)
}

/// Recognises a shell without a script: `bash -i`, `bash --rcfile x`.
fn is_interactive_shell(name: &str, words: &[Word]) -> bool {
    const SHELLS: &str = "sh bash dash zsh ksh ash rbash mksh fish";
    let has_script = words.iter().skip(1).any(|word| !word.text.starts_with(['-', '+']));
    is_one_of(SHELLS, name)
        && (!has_script || words.iter().any(|word| word.is("-i") || word.is("-s")))
}

/// Returns true when a shell that has read this text runs it without waiting for more.
pub fn is_complete(text: &str) -> bool {
    let backslashes = text.trim_end_matches('\n').bytes().rev().take_while(|c| *c == b'\\');
    let is_continued = backslashes.count() % 2 == 1;
    text.ends_with('\n') && !is_continued && parse::parse(text).problem.is_none()
}

/// Returns everything that policy judges in a text that will run: each command, file and address.
/// `home` replaces `~`.
pub fn accesses(text: &str, home: Option<&Path>) -> Vec<Access> {
    let Reading { commands, files, doubts, wrappers } = read(text);
    let mut wrappers: Vec<spellings::Spellings> =
        wrappers.iter().map(|words| spellings::of("", words, false)).collect();
    let mut all: Vec<Access> = Vec::new();
    for command in commands {
        all.extend(command.fetches.iter().cloned().map(Access::Fetch));
        let risk = match command.risk {
            Risk::ReadOnly => CommandRisk::ReadOnly,
            Risk::Repository => CommandRisk::Repository,
            Risk::Other => CommandRisk::Other,
            Risk::Dangerous(why) => CommandRisk::NeedsApproval(why.to_owned()),
        };
        let rule_texts = rule_texts(&command);
        let mut spellings = spellings::of(&command.text, &command.words, command.more);
        for wrapper in wrappers.drain(..) {
            spellings.texts.extend(wrapper.texts);
        }
        let text = command.text;
        let (spellings, known_prefixes) = (spellings.texts, spellings.known_prefixes);
        all.push(Access::Command(Box::new(ParsedCommand {
            text,
            risk,
            rule_texts,
            spellings,
            known_prefixes,
        })));
    }
    for file in files {
        let path = at_home(file.path, home);
        let is_write = file.how == FileAction::Write;
        let many = |path, is_pattern| Access::Many { path, is_pattern, is_write };
        match (file.reach, file.how) {
            // A tree that is removed, moved or overwritten is searched too, like one that is read.
            (Reach::Tree, FileAction::Write) => {
                all.extend([many(path.join("**"), true), many(path, false)]);
            }
            (Reach::Tree | Reach::Pattern, _) => {
                all.push(many(path, file.reach == Reach::Pattern));
            }
            (_, FileAction::Read) => all.push(Access::Read(path)),
            (_, FileAction::Write) => all.push(Access::Write(path)),
        }
    }
    all.extend(doubts.into_iter().map(|doubt| {
        let (risk, rule_texts) = match doubt.about {
            DoubtSubject::Commands => {
                (CommandRisk::Unclear(doubt.why.to_owned()), exact_rule(text))
            }
            // The command is known and judged. The sandbox limits which files it opens, or approval
            // is asked.
            DoubtSubject::Files => (CommandRisk::Other, Vec::new()),
        };
        // The commands are not known, so any rule may apply.
        let known_prefixes = match doubt.about {
            DoubtSubject::Commands => vec![String::new()],
            DoubtSubject::Files => Vec::new(),
        };
        let spellings = Vec::new();
        Access::Command(Box::new(ParsedCommand {
            text: doubt.what,
            risk,
            rule_texts,
            spellings,
            known_prefixes,
        }))
    }));
    all
}

/// An unclear text may be allowed permanently as it stands, if a person can see every character of
/// it on one line.
fn exact_rule(text: &str) -> Vec<String> {
    const MAX_RULE_BYTES: usize = 300;
    let text = text.trim();
    let is_seen = |c: char| c.is_ascii_graphic() && c != '*' || c == ' ';
    let is_rule = !text.is_empty() && text.len() <= MAX_RULE_BYTES && text.chars().all(is_seen);
    is_rule.then(|| text.to_owned()).into_iter().collect()
}

/// Replaces `~`. Without a home directory the path becomes one that is in no workspace.
fn at_home(path: PathBuf, home: Option<&Path>) -> PathBuf {
    match path.strip_prefix("~") {
        Ok(below) => home.unwrap_or(Path::new("/~")).join(below),
        Err(_) => path,
    }
}

/// Returns true when a list of blank-separated words contains this one.
fn is_one_of(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|known| known == word)
}

/// Shortens a text for people to read.
fn truncated(text: &str) -> String {
    const MAX_CHARS: usize = 80;
    let mut characters = text.chars();
    let mut short: String = characters.by_ref().take(MAX_CHARS).collect();
    if characters.next().is_some() {
        short.push('…');
    }
    short
}
