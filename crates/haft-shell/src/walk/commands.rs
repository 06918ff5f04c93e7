//! One command with its words: what it is, what it runs in turn, and how far it reaches.

use super::{
    super::{
        Certainty, Command, Risk, Word, danger, environment, files, git, hosts, programs, safe,
        words,
        wrappers::{self, Inner},
    },
    Walker,
};

/// What surrounds one command.
#[derive(Clone, Default)]
pub(super) struct Around {
    pub(super) through: Vec<String>,
    /// Assignments that change what it does, as they were written.
    pub(super) prefix: Vec<String>,
    pub(super) input: Input,
    /// Another program starts it, not the shell.
    pub(super) is_child: bool,
    /// Further words are added that nobody has seen.
    pub(super) more: bool,
    pub(super) redirect_danger: Option<&'static str>,
}

#[derive(Clone, Default)]
pub(super) enum Input {
    #[default]
    Nothing,
    File,
    Pipe {
        is_fetched: bool,
    },
    Text(String),
}

impl Walker<'_> {
    pub(super) fn command(&mut self, words: &[Word], around: &Around) {
        let Some(first) = words.first() else { return };
        let Some(name) = first.known().filter(|name| !name.is_empty() && first.below.is_none())
        else {
            let why = match first.certainty {
                Certainty::Pattern => "a pattern stands where a command should",
                _ => "which command runs is not known",
            };
            self.doubt(&first.text, why);
            let risk = if first.is_fetched {
                Risk::Dangerous("it runs what the network brings")
            } else {
                Risk::Usual
            };
            self.push(words, risk, Vec::new(), around);
            return;
        };
        // `x[ 0]=1` is one assignment, however it is parted.
        if name.contains('[') && name != "[" {
            self.doubt(&first.text, "it may set an element of a list");
        }
        // Other programs start no builtins, and a path leads to none.
        let is_inside = !around.is_child && !name.contains('/');
        let name = base(name).to_owned();
        if is_inside && self.builtin(&name, words, around) {
            self.special.insert(name);
            return;
        }
        match wrappers::unwrap(&name, words) {
            Inner::NoWrapper => self.leaf(&name, words, around),
            inner => {
                self.special.insert(name.clone());
                self.wrapped(&name, words, inner, around);
            }
        }
    }

    pub(super) fn wrapped(&mut self, name: &str, words: &[Word], inner: Inner, around: &Around) {
        let mut within = around.clone();
        within.through.push(name.to_owned());
        let is_shell = matches!(name, "eval" | "trap");
        match inner {
            Inner::Nothing | Inner::Input if around.more => {
                self.doubt(&words::line(words), "which command runs is not known");
                self.push(words, Risk::Usual, Vec::new(), around);
            }
            Inner::NoWrapper | Inner::Nothing => self.leaf(name, words, around),
            Inner::Words { words: command, is_plain, more } => {
                let is_locale = |word: &Word| {
                    let (variable, _) = word.prefix.split_once('=').unwrap_or_default();
                    environment::is_locale(variable)
                };
                self.sets_locale |= name == "env" && words.iter().any(is_locale);
                if is_plain {
                    self.reading.wrappers.push(words.to_vec());
                } else {
                    self.outer(name, words, around);
                }
                within.more |= more;
                within.is_child |= !matches!(name, "command" | "builtin");
                let is_elsewhere =
                    |word: &Word| matches!(word.known(), Some("-execdir" | "-okdir"));
                if name == "find" && words.iter().any(is_elsewhere) {
                    // It runs in the directory of what was found.
                    self.aside(|walker| {
                        walker.places.clear();
                        walker.command(&command, &within);
                    });
                } else {
                    self.command(&command, &within);
                }
            }
            Inner::Text { text, is_plain } => {
                if !is_plain || !around.prefix.is_empty() {
                    self.outer(name, words, around);
                } else {
                    self.reading.wrappers.push(words.to_vec());
                }
                let outside = self.is_remote;
                self.is_remote |= name == "ssh";
                self.is_deferred |= name == "trap";
                if is_shell {
                    self.text(&text, &within.through);
                } else {
                    self.aside(|walker| walker.text(&text, &within.through));
                }
                self.is_remote = outside;
                if let Some(why) = around.redirect_danger {
                    self.doubt("a redirect", why);
                }
            }
            Inner::Unknown { why, is_fetched } => {
                let usual =
                    danger::of(name, words, &[], around.more).map_or(Risk::Usual, Risk::Dangerous);
                let risk = if is_fetched {
                    Risk::Dangerous("it runs what the network brings")
                } else {
                    usual
                };
                self.doubt(&words::line(words), why);
                self.push(words, risk, hosts::of(name, words), around);
            }
            Inner::Input => self.fed(name, words, around),
        }
    }

    /// A shell that runs what comes to it.
    pub(super) fn fed(&mut self, name: &str, words: &[Word], around: &Around) {
        match &around.input {
            Input::Text(text) => {
                let mut through = around.through.clone();
                through.push(name.to_owned());
                let text = text.clone();
                self.outer(name, words, around);
                self.aside(|walker| walker.text(&text, &through));
            }
            Input::Pipe { is_fetched: true } => {
                self.push(
                    words,
                    Risk::Dangerous("it runs what the network brings"),
                    Vec::new(),
                    around,
                );
            }
            Input::Pipe { is_fetched: false } => {
                self.doubt(name, "a shell runs what a pipe brings");
                self.outer(name, words, around);
            }
            Input::Nothing | Input::File => self.outer(name, words, around),
        }
    }

    /// A wrapper that counts as a command of its own.
    pub(super) fn outer(&mut self, name: &str, words: &[Word], around: &Around) {
        let is_exec = |word: &Word| matches!(word.known(), Some("-exec" | "-execdir"));
        let judged: Vec<Word> = match words.iter().position(is_exec).filter(|_| name == "find") {
            // What is run is judged by itself.
            Some(at) => {
                let (before, after) = words.split_at(at);
                let end = wrappers::end_of_exec(after).unwrap_or(after.len());
                before.iter().chain(after.iter().skip(end + 1)).cloned().collect()
            }
            None => words.to_vec(),
        };
        self.judge(name, &judged, words, around);
    }

    pub(super) fn leaf(&mut self, name: &str, words: &[Word], around: &Around) {
        self.judge(name, words, words, around);
    }

    pub(super) fn judge(&mut self, name: &str, judged: &[Word], words: &[Word], around: &Around) {
        let is_path = words
            .first()
            .is_some_and(|word| word.text.contains('/') && base(&word.text) == word.text);
        let name = if is_path { name.rsplit('/').next().unwrap_or(name) } else { name };
        let named = files::of(name, judged);
        let fetches = hosts::of(name, words);
        let is_fetched = matches!(around.input, Input::Pipe { is_fetched: true });
        let mut danger = danger::of(name, judged, &named, around.more).or(around.redirect_danger);
        if is_fetched && named.is_empty() && is_interpreter(name) {
            danger = Some("it runs what the network brings");
        }
        let only_looks = !is_path
            && around.prefix.is_empty()
            && fetches.is_empty()
            && safe::only_looks(name, judged, around.more);
        let risk = match danger {
            Some(why) => Risk::Dangerous(why),
            None if only_looks && name == "git" && git::may_run_programs(rest_of(judged)) => {
                Risk::Repository
            }
            None if only_looks => Risk::Looks,
            None => Risk::Usual,
        };
        if only_looks || !named.is_empty() || danger.is_some() {
            self.special.insert(name.to_owned());
        }
        if files::are_uncertain(name, judged) {
            self.file_doubt(&words::line(words), "which files it is given is not known");
        }
        if around.more && !named_operands(name).is_none_or(|is_words| is_words) {
            self.file_doubt(&words::line(words), "which files it is given is not known");
        }
        for file in &named {
            self.file(file);
        }
        self.push(words, risk, fetches, around);
    }

    pub(super) fn push(
        &mut self,
        words: &[Word],
        risk: Risk,
        fetches: Vec<String>,
        around: &Around,
    ) {
        let is_fetching = |word: &Word| hosts::is_fetcher(base(&word.text));
        if !fetches.is_empty() || words.first().is_some_and(is_fetching) {
            self.fetching += 1;
        }
        let mut text = around.prefix.join(" ");
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(&words::line(words));
        let through = around.through.clone();
        let (words, more) = (words.to_vec(), around.more);
        self.reading.commands.push(Command { text, words, risk, through, more, fetches });
    }
}

fn rest_of(words: &[Word]) -> &[Word] {
    words.get(1..).unwrap_or_default()
}

/// `/bin/ls` is `ls`; `./ls` is not.
pub(super) fn base(name: &str) -> &str {
    let system = ["/bin/", "/usr/bin/", "/sbin/", "/usr/sbin/"];
    let found = system.iter().find_map(|place| name.strip_prefix(place));
    found.filter(|rest| !rest.contains('/')).unwrap_or(name)
}

/// Whether the operands of a known program are mere words.
pub(super) fn named_operands(name: &str) -> Option<bool> {
    if matches!(name, "sed" | "awk" | "find" | "git" | "tar") {
        return Some(false);
    }
    programs::Program::named(name).map(|program| program.operands == programs::Operands::Words)
}

pub(super) fn is_interpreter(name: &str) -> bool {
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    matches!(
        name,
        "python"
            | "perl"
            | "ruby"
            | "node"
            | "php"
            | "lua"
            | "deno"
            | "bun"
            | "bash"
            | "sh"
            | "zsh"
            | "dash"
            | "ksh"
            | "fish"
            | "source"
            | "psql"
            | "mysql"
            | "xargs"
    )
}
