//! A single command with its words: what it is, what it runs, and how risky it is.

use super::{
    super::{
        Certainty, Command, Risk, Word, danger, environment, files, git, hosts, programs, safe,
        words,
        wrappers::{self, WrappedCommand},
    },
    Walker,
};

/// The context of one command.
#[derive(Clone, Default)]
pub(super) struct CommandContext {
    pub(super) through: Vec<String>,
    /// Assignments that change what it does, in their source form.
    pub(super) prefix: Vec<String>,
    pub(super) input: StdinSource,
    /// Another program starts it, not the shell.
    pub(super) is_child: bool,
    /// Further words are added that the parser cannot see.
    pub(super) more: bool,
    pub(super) redirect_danger: Option<&'static str>,
}

#[derive(Clone, Default)]
pub(super) enum StdinSource {
    #[default]
    Nothing,
    File,
    Pipe {
        is_fetched: bool,
    },
    Text(String),
}

impl Walker<'_> {
    pub(super) fn command(&mut self, words: &[Word], context: &CommandContext) {
        let Some(first) = words.first() else { return };
        let Some(name) = first.known().filter(|name| !name.is_empty() && first.below.is_none())
        else {
            let why = match first.certainty {
                Certainty::Pattern => "a pattern in place of a command",
                _ => "the command is unknown",
            };
            self.doubt(&first.text, why);
            let risk = if first.is_fetched {
                Risk::Dangerous("it runs code from the network")
            } else {
                Risk::Other
            };
            self.push(words, risk, Vec::new(), context);
            return;
        };
        // `x[ 0]=1` is one assignment, although it is several words.
        if name.contains('[') && name != "[" {
            self.doubt(&first.text, "it may set an array element");
        }
        // Other programs start no builtins, and neither does a path.
        let is_inside = !context.is_child && !name.contains('/');
        let name = base(name).to_owned();
        if is_inside && self.builtin(&name, words, context) {
            self.special.insert(name);
            return;
        }
        match wrappers::unwrap(&name, words) {
            WrappedCommand::NoWrapper => self.leaf(&name, words, context),
            inner => {
                self.special.insert(name.clone());
                self.wrapped(&name, words, inner, context);
            }
        }
    }

    pub(super) fn wrapped(
        &mut self,
        name: &str,
        words: &[Word],
        inner: WrappedCommand,
        context: &CommandContext,
    ) {
        let mut within = context.clone();
        within.through.push(name.to_owned());
        let is_shell = matches!(name, "eval" | "trap");
        match inner {
            WrappedCommand::Nothing | WrappedCommand::Input if context.more => {
                self.doubt(&words::line(words), "the command is unknown");
                self.push(words, Risk::Other, Vec::new(), context);
            }
            WrappedCommand::NoWrapper | WrappedCommand::Nothing => self.leaf(name, words, context),
            WrappedCommand::Words { words: command, is_plain, more } => {
                let is_locale = |word: &Word| {
                    let (variable, _) = word.prefix.split_once('=').unwrap_or_default();
                    environment::is_locale(variable)
                };
                self.sets_locale |= name == "env" && words.iter().any(is_locale);
                if is_plain {
                    self.reading.wrappers.push(words.to_vec());
                } else {
                    self.outer(name, words, context);
                }
                within.more |= more;
                within.is_child |= !matches!(name, "command" | "builtin");
                let is_elsewhere =
                    |word: &Word| matches!(word.known(), Some("-execdir" | "-okdir"));
                if name == "find" && words.iter().any(is_elsewhere) {
                    // It runs in the directory of each match.
                    self.in_subshell(|walker| {
                        walker.directories.clear();
                        walker.command(&command, &within);
                    });
                } else {
                    self.command(&command, &within);
                }
            }
            WrappedCommand::Text { text, is_plain } => {
                if !is_plain || !context.prefix.is_empty() {
                    self.outer(name, words, context);
                } else {
                    self.reading.wrappers.push(words.to_vec());
                }
                let outside = self.is_remote;
                self.is_remote |= name == "ssh";
                self.is_deferred |= name == "trap";
                if is_shell {
                    self.text(&text, &within.through);
                } else {
                    self.in_subshell(|walker| walker.text(&text, &within.through));
                }
                self.is_remote = outside;
                if let Some(why) = context.redirect_danger {
                    self.doubt("a redirect", why);
                }
            }
            WrappedCommand::Unknown { why, is_fetched } => {
                let default =
                    danger::of(name, words, &[], context.more).map_or(Risk::Other, Risk::Dangerous);
                let risk = if is_fetched {
                    Risk::Dangerous("it runs code from the network")
                } else {
                    default
                };
                self.doubt(&words::line(words), why);
                self.push(words, risk, hosts::of(name, words), context);
            }
            WrappedCommand::Input => self.fed(name, words, context),
        }
    }

    /// Handles a shell that runs its standard input.
    pub(super) fn fed(&mut self, name: &str, words: &[Word], context: &CommandContext) {
        match &context.input {
            StdinSource::Text(text) => {
                let mut through = context.through.clone();
                through.push(name.to_owned());
                let text = text.clone();
                self.outer(name, words, context);
                self.in_subshell(|walker| walker.text(&text, &through));
            }
            StdinSource::Pipe { is_fetched: true } => {
                self.push(
                    words,
                    Risk::Dangerous("it runs code from the network"),
                    Vec::new(),
                    context,
                );
            }
            StdinSource::Pipe { is_fetched: false } => {
                self.doubt(name, "a shell runs input from a pipe");
                self.outer(name, words, context);
            }
            StdinSource::Nothing | StdinSource::File => self.outer(name, words, context),
        }
    }

    /// Records a wrapper that counts as a command itself.
    pub(super) fn outer(&mut self, name: &str, words: &[Word], context: &CommandContext) {
        let is_exec = |word: &Word| matches!(word.known(), Some("-exec" | "-execdir"));
        let judged: Vec<Word> = match words.iter().position(is_exec).filter(|_| name == "find") {
            // The command it runs is judged separately.
            Some(at) => {
                let (before, after) = words.split_at(at);
                let end = wrappers::end_of_exec(after).unwrap_or(after.len());
                before.iter().chain(after.iter().skip(end + 1)).cloned().collect()
            }
            None => words.to_vec(),
        };
        self.judge(name, &judged, words, context);
    }

    pub(super) fn leaf(&mut self, name: &str, words: &[Word], context: &CommandContext) {
        self.judge(name, words, words, context);
    }

    pub(super) fn judge(
        &mut self,
        name: &str,
        judged: &[Word],
        words: &[Word],
        context: &CommandContext,
    ) {
        let is_path = words
            .first()
            .is_some_and(|word| word.text.contains('/') && base(&word.text) == word.text);
        let name = if is_path { name.rsplit('/').next().unwrap_or(name) } else { name };
        let named = files::of(name, judged);
        let fetches = hosts::of(name, words);
        let is_fetched = matches!(context.input, StdinSource::Pipe { is_fetched: true });
        let mut danger = danger::of(name, judged, &named, context.more).or(context.redirect_danger);
        if is_fetched && named.is_empty() && is_interpreter(name) {
            danger = Some("it runs code from the network");
        }
        let is_read_only = !is_path
            && context.prefix.is_empty()
            && fetches.is_empty()
            && safe::is_read_only(name, judged, context.more);
        let risk = match danger {
            Some(why) => Risk::Dangerous(why),
            None if is_read_only && name == "git" && git::may_run_programs(rest_of(judged)) => {
                Risk::Repository
            }
            None if is_read_only => Risk::ReadOnly,
            None => Risk::Other,
        };
        if is_read_only || !named.is_empty() || danger.is_some() {
            self.special.insert(name.to_owned());
        }
        if files::are_uncertain(name, judged) {
            self.file_doubt(&words::line(words), "the files it gets are unknown");
        }
        if context.more && !named_operands(name).is_none_or(|is_words| is_words) {
            self.file_doubt(&words::line(words), "the files it gets are unknown");
        }
        for file in &named {
            self.file(file);
        }
        self.push(words, risk, fetches, context);
    }

    pub(super) fn push(
        &mut self,
        words: &[Word],
        risk: Risk,
        fetches: Vec<String>,
        context: &CommandContext,
    ) {
        let is_fetching = |word: &Word| hosts::is_fetcher(base(&word.text));
        if !fetches.is_empty() || words.first().is_some_and(is_fetching) {
            self.fetching += 1;
        }
        let mut text = context.prefix.join(" ");
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(&words::line(words));
        let through = context.through.clone();
        let (words, more) = (words.to_vec(), context.more);
        self.reading.commands.push(Command { text, words, risk, through, more, fetches });
    }
}

fn rest_of(words: &[Word]) -> &[Word] {
    words.get(1..).unwrap_or_default()
}

/// `/bin/ls` becomes `ls`; `./ls` stays.
pub(super) fn base(name: &str) -> &str {
    let system = ["/bin/", "/usr/bin/", "/sbin/", "/usr/sbin/"];
    let found = system.iter().find_map(|place| name.strip_prefix(place));
    found.filter(|rest| !rest.contains('/')).unwrap_or(name)
}

/// Returns true when the operands of a known program are not files.
pub(super) fn named_operands(name: &str) -> Option<bool> {
    if matches!(name, "sed" | "awk" | "find" | "git" | "tar") {
        return Some(false);
    }
    programs::KnownProgram::named(name).map(|program| program.operands == programs::Operands::Words)
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
