//! Goes through the tree of a text as bash would and writes down what it meets. What commands, redirects and numbers mean
//! is in the rooms below.

use std::{
    collections::{BTreeSet, HashSet},
    path::PathBuf,
};

use super::{
    About, FileUse, Reading, Risk, dialect, environment, is_one_of, parse, quoting,
    syntax::{self, Assignment, Expansion, Joint, Kind, List, Node, Part, Redirect, Simple},
    witness, words,
};

mod builtins;
mod commands;
mod numbers;
mod places;
mod redirects;

use commands::{Input, base};
use numbers::is_number;
use places::union;

/// So often may a text hold a text.
const DEEPEST_TEXT: usize = 6;

/// Variables that bash itself makes lists of.
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
        places: vec![PathBuf::new()],
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
    bodies: Vec<syntax::Word>,
    /// Where the shell may be, relative to its start. Empty: nobody knows.
    places: Vec<PathBuf>,
    /// Standard input is a pipe, and whether it may bring something from the network.
    pipe: Option<bool>,
    /// So many commands that bring something from the network were met.
    fetching: usize,
    /// The files that are in the reading.
    named: HashSet<FileUse>,
    functions: BTreeSet<String>,
    /// Names that were understood, so that a function of that name would deceive us.
    special: BTreeSet<String>,
    /// Variables that hold numbers, those that may hold something else, and those that were counted with.
    numbers: BTreeSet<String>,
    not_numbers: BTreeSet<String>,
    counted: BTreeSet<String>,
    /// Variables that are lists, and those that are declared with a text which nobody knows: bash reads the text again,
    /// and runs what is in it, when it looks like a list and the variable is one.
    lists: BTreeSet<String>,
    maybe_lists: BTreeSet<String>,
    /// A text holds characters beyond ASCII, and a variable of the locale is set: their bytes may mean other characters.
    is_multibyte: bool,
    sets_locale: bool,
    /// Names may mean something else since a file was read into the shell.
    is_tainted: bool,
    /// On another machine, whose files are not ours.
    is_remote: bool,
    /// Somewhere the directory changes, and somewhere a text runs later than it stands.
    moves: bool,
    is_deferred: bool,
    depth: usize,
}

impl Walker<'_> {
    fn doubt(&mut self, what: &str, why: &'static str) {
        self.reading.doubt(what, why, About::Commands);
    }

    fn file_doubt(&mut self, what: &str, why: &'static str) {
        if !self.is_remote {
            self.reading.doubt(what, why, About::Files);
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
        if self.depth > DEEPEST_TEXT {
            self.doubt(text, "it is nested too deeply");
        } else {
            if text.chars().any(is_deceiving) {
                self.doubt(text, "it has characters that are not seen");
            }
            self.is_multibyte |= !text.is_ascii() || text.contains("$'");
            let parsed = parse::parse(text);
            if let Some(problem) = parsed.problem {
                self.doubt(text, problem);
            } else if let Some(objection) = witness::objection(text, &parsed) {
                self.doubt(text, objection);
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
            self.doubt(&name, "a function of the same text changes what this name means");
        }
        for name in both(&self.counted, &self.not_numbers) {
            self.doubt(&name, "arithmetic runs commands in a variable's text");
        }
        for name in both(&self.lists, &self.maybe_lists) {
            self.doubt(&name, "commands in the text of a list run");
        }
        if self.is_multibyte && self.sets_locale {
            self.doubt("the locale", "in another locale the same bytes are other characters");
        }
        if self.moves && self.is_deferred {
            self.file_doubt("cd", "a function or trap runs in a directory that is not known");
        }
        if self.is_tainted {
            for command in &mut self.reading.commands {
                if command.risk.is_looking() {
                    command.risk = Risk::Usual;
                }
            }
        }
    }

    fn list(&mut self, list: &List, through: &[String]) {
        for statement in &list.statements {
            let before = self.places.clone();
            let (mut ok, mut failed) = (before.clone(), before.clone());
            for (joint, pipeline) in &statement.pipelines {
                let entry = match joint {
                    Joint::First => before.clone(),
                    Joint::And => ok.clone(),
                    Joint::Or => failed.clone(),
                };
                self.places.clone_from(&entry);
                self.pipeline(pipeline, through);
                let after = std::mem::take(&mut self.places);
                failed = match joint {
                    Joint::And => union(&union(&failed, &entry), &after),
                    _ => union(&entry, &after),
                };
                ok = if *joint == Joint::Or { union(&ok, &after) } else { after };
            }
            self.places = if statement.is_background { before } else { union(&ok, &failed) };
        }
    }

    fn pipeline(&mut self, nodes: &[Node], through: &[String]) {
        let [node] = nodes else {
            let (places, pipe) = (self.places.clone(), self.pipe);
            let before = self.fetching;
            for (index, node) in nodes.iter().enumerate() {
                if index > 0 {
                    self.pipe = Some(pipe == Some(true) || self.fetching > before);
                }
                self.node(node, through);
                self.places.clone_from(&places);
            }
            self.pipe = pipe;
            return;
        };
        self.node(node, through);
    }

    /// Runs something whose directory, when it changes, is its own.
    fn aside(&mut self, run: impl FnOnce(&mut Self)) {
        let places = self.places.clone();
        run(self);
        self.places = places;
    }

    /// Runs something that may run never, once or often.
    fn repeated(&mut self, what: &str, run: impl FnOnce(&mut Self)) {
        let places = self.places.clone();
        run(self);
        if self.places != places {
            self.file_doubt(what, "the directory changes again and again");
            self.places = union(&self.places, &places);
        }
    }

    fn node(&mut self, node: &Node, through: &[String]) {
        if let Kind::Simple(simple) = &node.kind {
            return self.simple(simple, &node.redirects, through);
        }
        let around = self.redirects(&node.redirects, through);
        if let Some(why) = around.redirect_danger {
            self.doubt("a redirect", why);
        }
        let pipe = self.pipe;
        match around.input {
            Input::Pipe { is_fetched } => self.pipe = Some(is_fetched),
            Input::Text(_) | Input::File => self.pipe = Some(false),
            Input::Nothing => {}
        }
        self.compound(&node.kind, through);
        self.pipe = pipe;
    }

    fn compound(&mut self, kind: &Kind, through: &[String]) {
        match kind {
            Kind::Simple(_) => {}
            Kind::Group(list) => self.list(list, through),
            Kind::Subshell(list) => self.aside(|walker| walker.list(list, through)),
            Kind::If(lists) => {
                for list in lists {
                    let before = self.places.clone();
                    self.list(list, through);
                    self.places = union(&before, &self.places);
                }
            }
            Kind::Loop { variable, words, lists } => {
                self.repetition(variable.as_deref(), words, lists, through)
            }
            Kind::Case { subject, patterns, lists } => {
                self.expand(subject, through);
                for pattern in patterns {
                    self.expand(pattern, through);
                }
                for list in lists {
                    let before = self.places.clone();
                    self.list(list, through);
                    self.places = union(&before, &self.places);
                }
            }
            Kind::Function { name, body } => self.function(name, body, through),
            Kind::Test(words) => self.test(words, through),
            Kind::Arithmetic(arithmetic) => self.arithmetic(arithmetic, through),
        }
    }

    fn repetition(
        &mut self,
        variable: Option<&str>,
        words: &[syntax::Word],
        lists: &[List],
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

    fn function(&mut self, name: &str, body: &Node, through: &[String]) {
        // A name with slashes is a function's before it is a path.
        self.functions.insert(base(name).to_owned());
        self.is_deferred = true;
        let pipe = self.pipe.replace(false);
        let first = self.reading.commands.len();
        self.repeated(name, |walker| walker.node(body, through));
        self.pipe = pipe;
        for command in self.reading.commands.iter_mut().skip(first) {
            if command.words.first().is_some_and(|word| word.is(name)) {
                command.risk = Risk::Dangerous("a function starts itself again and again");
            }
        }
    }

    /// Visits what runs inside a word; whether it brings something from the network.
    fn expand(&mut self, word: &syntax::Word, through: &[String]) -> bool {
        let before = self.fetching;
        for part in &word.parts {
            if let Part::Expansion(expansion, _) = part {
                self.expansion(expansion, through);
            }
        }
        self.fetching > before
    }

    fn expansion(&mut self, expansion: &Expansion, through: &[String]) {
        for list in &expansion.lists {
            self.aside(|walker| walker.list(list, through));
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
            // Of these bash makes one word each, whatever is in the variable; other shells may not.
            let is_declaring =
                simple.words.first().and_then(syntax::Word::bare).is_some_and(is_declaration);
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
        let mut around = self.redirects(redirects, through);
        if simple.words.is_empty() {
            for assignment in &simple.assignments {
                let is_number = !assignment.is_array && assignment.values.iter().all(is_number);
                self.assigned(&assignment.name, is_number);
                if assignment.is_array {
                    self.lists.insert(assignment.name.clone());
                }
            }
            if let Some(why) = around.redirect_danger {
                self.doubt("a redirect", why);
            }
            return;
        }
        self.sets_locale |= simple.assignments.iter().any(|it| environment::is_locale(&it.name));
        around.prefix = simple.assignments.iter().filter_map(significant).collect();
        self.command(&given, &around);
    }
}

fn is_declaration(name: &str) -> bool {
    matches!(name, "export" | "declare" | "typeset" | "local" | "readonly")
}

/// Whether a wrapper reads a text, by itself or by a shell.
fn is_reader(name: &str) -> bool {
    const READERS: &str = "sh dash ash zsh ksh mksh fish watch su runuser script flock ssh";
    is_one_of(READERS, name)
}

/// An assignment before a command, when it matters.
fn significant(assignment: &Assignment) -> Option<String> {
    let is_harmless = environment::is_harmless(&assignment.name) && !assignment.is_array;
    (!is_harmless).then(|| assignment.source.clone())
}

/// Characters that look like nothing, or like another, and that bash takes for parts of words.
fn is_deceiving(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || (c.is_whitespace() && !c.is_ascii())
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{ad}')
}
