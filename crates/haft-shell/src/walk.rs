//! Visits the syntax tree in the order in which bash would run it and records what it finds.
//! Commands, redirects and numbers are handled in the submodules.

use std::{
    collections::{BTreeSet, HashSet},
    path::PathBuf,
};

use super::{
    DoubtSubject, FileUse, Reading, Risk, cross_check, dialect, environment, is_one_of, parse,
    quoting,
    syntax::{
        self, Assignment, Connector, Expansion, Redirect, Simple, StatementList, SyntaxKind,
        SyntaxNode, WordPart,
    },
    words,
};

mod builtins;
mod commands;
mod directories;
mod numbers;
mod redirects;

use commands::{StdinSource, base};
use directories::union;
use numbers::is_number;

/// Maximum depth of texts within texts, such as `bash -c`.
const MAX_TEXT_DEPTH: usize = 6;

/// Variables that bash itself makes arrays.
const BUILT_IN_LISTS: &[&str] = &[
    "MAPFILE",
    "PIPESTATUS",
    "COPROC",
    "FUNCNAME",
    "GROUPS",
    "DIRSTACK",
    "COMPREPLY",
    "COMP_WORDS",
];

pub(super) fn text(text: &str, reading: &mut Reading) {
    let mut walker = Walker {
        reading,
        bodies: Vec::new(),
        directories: vec![PathBuf::new()],
        pipe: None,
        fetching: 0,
        named: HashSet::new(),
        functions: BTreeSet::new(),
        special: BTreeSet::new(),
        numbers: BTreeSet::new(),
        not_numbers: BTreeSet::new(),
        counted: BTreeSet::new(),
        lists: BUILT_IN_LISTS.iter().map(|name| (*name).to_owned()).collect(),
        maybe_lists: BTreeSet::new(),
        is_multibyte: false,
        sets_locale: false,
        is_tainted: false,
        is_remote: false,
        moves: false,
        is_deferred: false,
        depth: 0,
    };
    walker.text(text, &[]);
    walker.finish();
}

struct Walker<'a> {
    reading: &'a mut Reading,
    bodies: Vec<syntax::SyntaxWord>,
    /// Directories that the shell may be in, relative to its start. Empty when they are not known.
    directories: Vec<PathBuf>,
    /// Some when standard input is a pipe; true when it may carry data from the network.
    pipe: Option<bool>,
    /// Number of commands so far that read from the network.
    fetching: usize,
    /// The files that are already in the reading.
    named: HashSet<FileUse>,
    functions: BTreeSet<String>,
    /// Names with a known meaning; a function of the same name would change that meaning.
    special: BTreeSet<String>,
    /// Variables that hold numbers, those that may hold something else, and those used in
    /// arithmetic.
    numbers: BTreeSet<String>,
    not_numbers: BTreeSet<String>,
    counted: BTreeSet<String>,
    /// Variables that are arrays, and those that are declared with an unknown text: bash evaluates
    /// the text again, and runs commands in it, when it looks like an array and the variable is
    /// one.
    lists: BTreeSet<String>,
    maybe_lists: BTreeSet<String>,
    /// The text has characters beyond ASCII, and it sets a locale variable: the bytes may stand for
    /// other characters.
    is_multibyte: bool,
    sets_locale: bool,
    /// Names may mean something else because a file was sourced.
    is_tainted: bool,
    /// True while visiting a text that runs on another machine, whose files are not ours.
    is_remote: bool,
    /// The directory changes somewhere, and a text runs later than it is written.
    moves: bool,
    is_deferred: bool,
    depth: usize,
}

impl Walker<'_> {
    fn doubt(&mut self, what: &str, why: &'static str) {
        self.reading.doubt(what, why, DoubtSubject::Commands);
    }

    fn file_doubt(&mut self, what: &str, why: &'static str) {
        if !self.is_remote {
            self.reading.doubt(what, why, DoubtSubject::Files);
        }
    }

    fn text(&mut self, text: &str, through: &[String]) {
        if let Some(why) = through
            .iter()
            .filter(|name| is_reader(name))
            .find_map(|name| dialect::difference(name, text))
        {
            self.doubt(text, why);
        }
        self.depth += 1;
        if self.depth > MAX_TEXT_DEPTH {
            self.doubt(text, "it is nested too deeply");
        } else {
            if text.chars().any(is_deceiving) {
                self.doubt(text, "it contains invisible characters");
            }
            self.is_multibyte |= !text.is_ascii() || text.contains("$'");
            let parsed = parse::parse(text);
            if let Some(problem) = parsed.problem {
                self.doubt(text, problem);
            } else if let Some(disagreement) = cross_check::disagreement(text, &parsed) {
                self.doubt(text, disagreement);
            }
            let outer = std::mem::replace(&mut self.bodies, parsed.bodies);
            self.list(&parsed.list, through);
            self.bodies = outer;
        }
        self.depth -= 1;
    }

    fn finish(mut self) {
        let both = |one: &BTreeSet<String>, other: &BTreeSet<String>| -> Vec<String> {
            one.intersection(other).cloned().collect()
        };
        for name in both(&self.functions, &self.special) {
            self.doubt(&name, "a function in the text redefines this name");
        }
        for name in both(&self.counted, &self.not_numbers) {
            self.doubt(&name, "arithmetic may run commands in the variable's value");
        }
        for name in both(&self.lists, &self.maybe_lists) {
            self.doubt(&name, "commands in the text of an array may run");
        }
        if self.is_multibyte && self.sets_locale {
            self.doubt("the locale", "in another locale the same bytes are different characters");
        }
        if self.moves && self.is_deferred {
            self.file_doubt("cd", "a function or trap runs in an unknown directory");
        }
        if self.is_tainted {
            for command in &mut self.reading.commands {
                if command.risk.is_read_only() {
                    command.risk = Risk::Other;
                }
            }
        }
    }

    fn list(&mut self, list: &StatementList, through: &[String]) {
        for statement in &list.statements {
            let before = self.directories.clone();
            let (mut ok, mut failed) = (before.clone(), before.clone());
            for (joint, pipeline) in &statement.pipelines {
                let entry = match joint {
                    Connector::First => before.clone(),
                    Connector::And => ok.clone(),
                    Connector::Or => failed.clone(),
                };
                self.directories.clone_from(&entry);
                self.pipeline(pipeline, through);
                let after = std::mem::take(&mut self.directories);
                failed = match joint {
                    Connector::And => union(&union(&failed, &entry), &after),
                    _ => union(&entry, &after),
                };
                ok = if *joint == Connector::Or { union(&ok, &after) } else { after };
            }
            self.directories = if statement.is_background { before } else { union(&ok, &failed) };
        }
    }

    fn pipeline(&mut self, nodes: &[SyntaxNode], through: &[String]) {
        let [node] = nodes else {
            let (directories, pipe) = (self.directories.clone(), self.pipe);
            let before = self.fetching;
            for (index, node) in nodes.iter().enumerate() {
                if index > 0 {
                    self.pipe = Some(pipe == Some(true) || self.fetching > before);
                }
                self.node(node, through);
                self.directories.clone_from(&directories);
            }
            self.pipe = pipe;
            return;
        };
        self.node(node, through);
    }

    /// Visits something that runs in its own process, so that it cannot change the directory of the
    /// shell.
    fn in_subshell(&mut self, run: impl FnOnce(&mut Self)) {
        let directories = self.directories.clone();
        run(self);
        self.directories = directories;
    }

    /// Visits something that may run never, once or several times.
    fn repeated(&mut self, what: &str, run: impl FnOnce(&mut Self)) {
        let directories = self.directories.clone();
        run(self);
        if self.directories != directories {
            self.file_doubt(what, "the directory changes repeatedly");
            self.directories = union(&self.directories, &directories);
        }
    }

    fn node(&mut self, node: &SyntaxNode, through: &[String]) {
        if let SyntaxKind::Simple(simple) = &node.kind {
            return self.simple(simple, &node.redirects, through);
        }
        let context = self.redirects(&node.redirects, through);
        if let Some(why) = context.redirect_danger {
            self.doubt("a redirect", why);
        }
        let pipe = self.pipe;
        match context.input {
            StdinSource::Pipe { is_fetched } => self.pipe = Some(is_fetched),
            StdinSource::Text(_) | StdinSource::File => self.pipe = Some(false),
            StdinSource::Nothing => {}
        }
        self.compound(&node.kind, through);
        self.pipe = pipe;
    }

    fn compound(&mut self, kind: &SyntaxKind, through: &[String]) {
        match kind {
            SyntaxKind::Simple(_) => {}
            SyntaxKind::Group(list) => self.list(list, through),
            SyntaxKind::Subshell(list) => self.in_subshell(|walker| walker.list(list, through)),
            SyntaxKind::If(lists) => {
                for list in lists {
                    let before = self.directories.clone();
                    self.list(list, through);
                    self.directories = union(&before, &self.directories);
                }
            }
            SyntaxKind::Loop { variable, words, lists } => {
                self.repetition(variable.as_deref(), words, lists, through)
            }
            SyntaxKind::Case { subject, patterns, lists } => {
                self.expand(subject, through);
                for pattern in patterns {
                    self.expand(pattern, through);
                }
                for list in lists {
                    let before = self.directories.clone();
                    self.list(list, through);
                    self.directories = union(&before, &self.directories);
                }
            }
            SyntaxKind::Function { name, body } => self.function(name, body, through),
            SyntaxKind::Test(words) => self.test(words, through),
            SyntaxKind::Arithmetic(arithmetic) => self.arithmetic(arithmetic, through),
        }
    }

    fn repetition(
        &mut self,
        variable: Option<&str>,
        words: &[syntax::SyntaxWord],
        lists: &[StatementList],
        through: &[String],
    ) {
        for word in words {
            self.expand(word, through);
        }
        if let Some(name) = variable {
            self.assigned(name, !words.is_empty() && words.iter().all(is_number));
        }
        self.repeated("a loop", |walker| {
            for list in lists {
                walker.list(list, through);
            }
        });
    }

    fn function(&mut self, name: &str, body: &SyntaxNode, through: &[String]) {
        // A name with slashes is looked up as a function before it is looked up as a path.
        self.functions.insert(base(name).to_owned());
        self.is_deferred = true;
        let pipe = self.pipe.replace(false);
        let first = self.reading.commands.len();
        self.repeated(name, |walker| walker.node(body, through));
        self.pipe = pipe;
        for command in self.reading.commands.iter_mut().skip(first) {
            if command.words.first().is_some_and(|word| word.is(name)) {
                command.risk = Risk::Dangerous("a function calls itself without end");
            }
        }
    }

    /// Visits the commands inside a word. Returns true when one of them reads from the network.
    fn expand(&mut self, word: &syntax::SyntaxWord, through: &[String]) -> bool {
        let before = self.fetching;
        for part in &word.parts {
            if let WordPart::Expansion(expansion, _) = part {
                self.expansion(expansion, through);
            }
        }
        self.fetching > before
    }

    fn expansion(&mut self, expansion: &Expansion, through: &[String]) {
        for list in &expansion.lists {
            self.in_subshell(|walker| walker.list(list, through));
        }
        for arithmetic in &expansion.arithmetic {
            self.arithmetic(arithmetic, through);
        }
        for word in &expansion.words {
            self.expand(word, through);
        }
        self.lists.extend(expansion.list.clone());
        if let Some(name) = &expansion.assigns {
            self.assigned(name, expansion.words.iter().all(is_number));
        }
        if let Some(why) = expansion.doubt {
            self.doubt("${…}", why);
        }
    }

    fn simple(&mut self, simple: &Simple, redirects: &[Redirect], through: &[String]) {
        let mut given = Vec::new();
        for word in &simple.words {
            let is_fetched = self.expand(word, through);
            given.extend(words::resolve(word, is_fetched));
            // bash makes exactly one word of these, whatever the variable holds; other shells may
            // not.
            let is_declaring =
                simple.words.first().and_then(syntax::SyntaxWord::bare).is_some_and(is_declaration);
            let is_one = is_declaring && quoting::assigned(word).is_some() && !word.has_braces();
            if let Some(last) =
                given.last_mut().filter(|_| is_one && !through.iter().any(|name| is_reader(name)))
            {
                last.is_open = false;
            }
            if let Some(last) = given.last_mut().filter(|_| self.holds_number(word)) {
                last.is_open = false;
            }
        }
        for assignment in &simple.assignments {
            for value in &assignment.values {
                self.expand(value, through);
            }
        }
        let mut context = self.redirects(redirects, through);
        if simple.words.is_empty() {
            for assignment in &simple.assignments {
                let is_number = !assignment.is_array && assignment.values.iter().all(is_number);
                self.assigned(&assignment.name, is_number);
                if assignment.is_array {
                    self.lists.insert(assignment.name.clone());
                }
            }
            if let Some(why) = context.redirect_danger {
                self.doubt("a redirect", why);
            }
            return;
        }
        self.sets_locale |= simple.assignments.iter().any(|it| environment::is_locale(&it.name));
        context.prefix = simple.assignments.iter().filter_map(significant).collect();
        self.command(&given, &context);
    }
}

fn is_declaration(name: &str) -> bool {
    matches!(name, "export" | "declare" | "typeset" | "local" | "readonly")
}

/// Returns true when a wrapper parses a text, by itself or with a shell.
fn is_reader(name: &str) -> bool {
    const READERS: &str = "sh dash ash zsh ksh mksh fish watch su runuser script flock ssh";
    is_one_of(READERS, name)
}

/// Returns an assignment before a command, when it changes what the command does.
fn significant(assignment: &Assignment) -> Option<String> {
    let is_harmless = environment::is_harmless(&assignment.name) && !assignment.is_array;
    (!is_harmless).then(|| assignment.source.clone())
}

/// Characters that are invisible or look like another one, and that bash treats as parts of words.
fn is_deceiving(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || (c.is_whitespace() && !c.is_ascii())
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{ad}')
}
