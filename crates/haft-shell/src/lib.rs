//! What a shell text would do, read from the text alone: the commands it runs, the files it names, and what cannot be
//! known. Nothing is run or opened here, and nothing is decided: policy does that with what it finds here.
//!
//! Two readers look at every text: a strict parser of our own (`parse`), whose tree is the answer, and the grammar of
//! tree-sitter as a witness. Where they see different commands there is a doubt, and a doubt means asking.

use std::path::{Path, PathBuf};

use haft_core::{Access, CommandRisk, ParsedCommand};

mod ansi;
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
mod safe;
mod scripts;
mod spellings;
mod syntax;
#[cfg(test)]
mod tests;
mod walk;
mod widths;
mod witness;
mod words;
mod wrappers;

pub use widths::{is_too_wide, widths};

/// Longer texts are not read: nobody could judge them, and the reader must be quick.
const LONGEST: usize = 64 << 10;

/// Of each kind. One is enough to ask, and nobody reads more.
const MOST_DOUBTS: usize = 200;

/// What a text would do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Every program and builtin that may run, wherever it stands.
    pub commands: Vec<Command>,
    /// Every file that is named, by redirects and by the operands of known programs.
    pub files: Vec<FileUse>,
    /// What could not be known. Any doubt means asking.
    pub doubts: Vec<Doubt>,
    /// The words of wrappers, which run nothing but what is among the commands. Rules that deny or ask may name them.
    pub wrappers: Vec<Vec<Word>>,
}

/// One command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The words in one spelling, which is what rules match: `git log -n 5`. What changes the meaning of the words stands
    /// before them: `PATH=. ls`.
    pub text: String,
    /// The words.
    pub words: Vec<Word>,
    /// How far it reaches.
    pub risk: Risk,
    /// The wrappers that it runs through, outermost first: `timeout`, `xargs`, `bash`.
    pub through: Vec<String>,
    /// Words are added to it that the reader cannot see.
    pub more: bool,
    /// The URLs and hosts it plainly talks to.
    pub fetches: Vec<String>,
}

/// One word of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Word {
    /// What the program gets, when that is certain; else as it was written.
    pub text: String,
    /// How much is known of it.
    pub certainty: Certainty,
    /// What it certainly begins with.
    prefix: String,
    /// It may become no word, or several.
    is_open: bool,
    /// It stands for everything below this place: the `{}` of find.
    below: Option<Box<Self>>,
    /// It begins with an unquoted `~`.
    has_tilde: bool,
    /// It is `<(…)` or `>(…)` and nothing more.
    is_process: bool,
    /// It is made of what a program brings from the network.
    is_fetched: bool,
    /// The path begins at the top of a repository, which may be any folder above.
    is_from_top: bool,
}

/// How much is known of a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Certainty {
    /// Every character.
    #[default]
    Exact,
    /// It is a pattern for file names: the text is the pattern.
    Pattern,
    /// It depends on variables or on what commands print.
    Unknown,
}

/// How far a command reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Risk {
    /// It only reads and prints; every option was looked at.
    Looks,
    /// It only reads and prints, unless the repository that it reads names programs to run for that: external diffs,
    /// converters, filters, checkers of signatures.
    Repository,
    /// Anything that is on no list.
    Usual,
    /// What is hard to take back, and why. To be asked for in every mode but `all`.
    Dangerous(&'static str),
}

/// A file that is named.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FileUse {
    /// The path without quotes, made relative to where the text starts. A leading `~` is the home directory; a name that
    /// really begins with that sign is written `./~`.
    pub path: PathBuf,
    /// What is done with it.
    pub how: How,
    /// How much of it is meant.
    pub reach: Reach,
}

/// What is done with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum How {
    /// It is read.
    Read,
    /// It is made, changed or removed.
    Write,
}

/// How much a path stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reach {
    /// The file itself.
    Itself,
    /// Everything below it too.
    Tree,
    /// The names of everything below it, but not what is in the files.
    Names,
    /// The path is a pattern, and every file that fits it is meant.
    Pattern,
}

/// Something that cannot be known from the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// The piece of text.
    pub what: String,
    /// Why it is not known.
    pub why: &'static str,
    /// What is not known.
    pub about: About,
}

/// What a doubt is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// Which commands run.
    Commands,
    /// Which files a known command uses.
    Files,
}

impl Risk {
    /// Whether the command itself does nothing but read and print.
    pub fn is_looking(self) -> bool {
        matches!(self, Self::Looks | Self::Repository)
    }
}

impl Reading {
    /// Whether the commands do nothing but read and print.
    pub fn is_only_looking(&self) -> bool {
        self.doubts.is_empty()
            && self.commands.iter().all(|command| command.risk.is_looking())
            && self.files.iter().all(|file| file.how == How::Read)
    }

    fn doubt(&mut self, what: &str, why: &'static str, about: About) {
        let doubt = Doubt { what: shortened(what), why, about };
        let so_many = self.doubts.iter().filter(|doubt| doubt.about == about).count();
        if so_many < MOST_DOUBTS && !self.doubts.contains(&doubt) {
            self.doubts.push(doubt);
        }
    }
}

/// Reads a text as `bash -c` would.
pub fn read(command: &str) -> Reading {
    let mut reading = Reading::default();
    if command.len() > LONGEST {
        reading.doubt(command, "it is too long to be read", About::Commands);
        return reading;
    }
    walk::text(command, &mut reading);
    reading
}

/// Whether a text starts a shell that runs what is written to it.
pub fn starts_shell(text: &str) -> bool {
    let runs_input = |command: &Command| {
        let name = command.words.first().map_or("", |word| word.text.as_str());
        let name = name.rsplit('/').next().unwrap_or_default();
        matches!(wrappers::unwrap(name, &command.words), wrappers::Inner::Input)
            || is_interactive_shell(name, &command.words)
    };
    read(text).commands.iter().any(runs_input)
}

/// `bash -i`, `bash --rcfile x`: a shell without a script.
fn is_interactive_shell(name: &str, words: &[Word]) -> bool {
    const SHELLS: &str = "sh bash dash zsh ksh ash rbash mksh fish";
    let has_script = words.iter().skip(1).any(|word| !word.text.starts_with(['-', '+']));
    is_one_of(SHELLS, name)
        && (!has_script || words.iter().any(|word| word.is("-i") || word.is("-s")))
}

/// Whether a shell that has read this text waits for nothing more before it runs it.
pub fn is_whole(text: &str) -> bool {
    let backslashes = text.trim_end_matches('\n').bytes().rev().take_while(|c| *c == b'\\');
    let is_continued = backslashes.count() % 2 == 1;
    text.ends_with('\n') && !is_continued && parse::parse(text).problem.is_none()
}

/// What policy judges in a text that is run: each command, each file and each address. `home` is what `~` stands for.
pub fn accesses(text: &str, home: Option<&Path>) -> Vec<Access> {
    let Reading { commands, files, doubts, wrappers } = read(text);
    let mut wrappers: Vec<spellings::Spellings> =
        wrappers.iter().map(|words| spellings::of("", words, false)).collect();
    let mut all: Vec<Access> = Vec::new();
    for command in commands {
        all.extend(command.fetches.iter().cloned().map(Access::Fetch));
        let risk = match command.risk {
            Risk::Looks => CommandRisk::ReadOnly,
            Risk::Repository => CommandRisk::Repository,
            Risk::Usual => CommandRisk::Other,
            Risk::Dangerous(why) => CommandRisk::NeedsApproval(why.to_owned()),
        };
        let rule_texts = widths(&command);
        let mut spellings = spellings::of(&command.text, &command.words, command.more);
        for wrapper in wrappers.drain(..) {
            spellings.texts.extend(wrapper.texts);
        }
        let text = command.text;
        let (spellings, known_prefixes) = (spellings.texts, spellings.seen);
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
        let is_write = file.how == How::Write;
        let many = |path, is_pattern| Access::Many { path, is_pattern, is_write };
        match (file.reach, file.how) {
            // What is removed, moved or copied over is looked through as well as what is read.
            (Reach::Tree, How::Write) => {
                all.extend([many(path.join("**"), true), many(path, false)]);
            }
            (Reach::Tree | Reach::Pattern, _) => {
                all.push(many(path, file.reach == Reach::Pattern));
            }
            (_, How::Read) => all.push(Access::Read(path)),
            (_, How::Write) => all.push(Access::Write(path)),
        }
    }
    all.extend(doubts.into_iter().map(|doubt| {
        let (risk, rule_texts) = match doubt.about {
            About::Commands => (CommandRisk::Unclear(doubt.why.to_owned()), spelt_out(text)),
            // The command is known and judged; which files it opens a sandbox holds, or somebody is asked.
            About::Files => (CommandRisk::Other, Vec::new()),
        };
        // Which commands run is not known, so that any rule may be meant.
        let known_prefixes = match doubt.about {
            About::Commands => vec![String::new()],
            About::Files => Vec::new(),
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

/// A text that is unclear may be allowed for good as it stands, if a person can see every letter of it in a line.
fn spelt_out(text: &str) -> Vec<String> {
    const LONGEST_RULE: usize = 300;
    let text = text.trim();
    let is_seen = |c: char| c.is_ascii_graphic() && c != '*' || c == ' ';
    let is_rule = !text.is_empty() && text.len() <= LONGEST_RULE && text.chars().all(is_seen);
    is_rule.then(|| text.to_owned()).into_iter().collect()
}

/// Who has no home has nothing there: the path stays one that is nowhere in a workspace.
fn at_home(path: PathBuf, home: Option<&Path>) -> PathBuf {
    match path.strip_prefix("~") {
        Ok(below) => home.unwrap_or(Path::new("/~")).join(below),
        Err(_) => path,
    }
}

/// Whether a list of words with blanks between them has this one.
fn is_one_of(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|known| known == word)
}

/// Doubts are shown to people.
fn shortened(text: &str) -> String {
    const MOST: usize = 80;
    let mut characters = text.chars();
    let mut short: String = characters.by_ref().take(MOST).collect();
    if characters.next().is_some() {
        short.push('…');
    }
    short
}
