//! Goes through the tree of a text as bash would and writes down what it meets.

use std::path::{Component, Path, PathBuf};

use super::{
    About, Certainty, Command, FileUse, How, Reach, Reading, Risk, Word, danger, dialect,
    environment,
    files::{self, Named},
    hosts, parse, safe,
    syntax::{
        self, Arithmetic, Assignment, Direction, Expansion, Joint, Kind, List, Node, Part,
        Redirect, Simple,
    },
    witness, words,
    wrappers::{self, Inner},
};

/// So often may a text hold a text.
const DEEPEST_TEXT: usize = 6;
/// So many directories may the shell be in by then; with more nobody could say where it is.
const MOST_PLACES: usize = 8;

pub(super) fn text(text: &str, reading: &mut Reading) {
    let mut walker = Walker {
        reading,
        bodies: Vec::new(),
        places: vec![PathBuf::new()],
        pipe: None,
        functions: Vec::new(),
        special: Vec::new(),
        numbers: Vec::new(),
        not_numbers: Vec::new(),
        counted: Vec::new(),
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
    functions: Vec<String>,
    /// Names that were understood, so that a function of that name would deceive us.
    special: Vec<String>,
    /// Variables that hold numbers, those that may hold something else, and those that were counted with.
    numbers: Vec<String>,
    not_numbers: Vec<String>,
    counted: Vec<String>,
    /// Names may mean something else since a file was read into the shell.
    is_tainted: bool,
    /// On another machine, whose files are not ours.
    is_remote: bool,
    /// Somewhere the directory changes, and somewhere a text runs later than it stands.
    moves: bool,
    is_deferred: bool,
    depth: usize,
}

/// What surrounds one command.
#[derive(Clone, Default)]
struct Around {
    through: Vec<String>,
    /// Assignments that change what it does, as they were written.
    prefix: Vec<String>,
    input: Input,
    /// Further words are added that nobody has seen.
    more: bool,
    redirect_danger: Option<&'static str>,
}

#[derive(Clone, Default)]
enum Input {
    #[default]
    Nothing,
    File,
    Pipe {
        is_fetched: bool,
    },
    Text(String),
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
        let deceived: Vec<String> =
            self.functions.iter().filter(|name| self.special.contains(name)).cloned().collect();
        for name in deceived {
            self.doubt(&name, "a function of the same text changes what this name means");
        }
        let texts: Vec<String> =
            self.counted.iter().filter(|name| self.not_numbers.contains(name)).cloned().collect();
        for name in texts {
            self.doubt(&name, "arithmetic runs commands in a variable's text");
        }
        if self.moves && self.is_deferred {
            self.file_doubt("cd", "a function or trap runs in a directory that is not known");
        }
        if self.is_tainted {
            for command in &mut self.reading.commands {
                if command.risk == Risk::Looks {
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
            let first = self.reading.commands.len();
            for (index, node) in nodes.iter().enumerate() {
                if index > 0 {
                    self.pipe = Some(pipe == Some(true) || self.has_fetched_since(first));
                }
                self.node(node, through);
                self.places.clone_from(&places);
            }
            self.pipe = pipe;
            return;
        };
        self.node(node, through);
    }

    fn has_fetched_since(&self, first: usize) -> bool {
        self.reading.commands.iter().skip(first).any(|command| {
            !command.fetches.is_empty()
                || command.words.first().is_some_and(|word| hosts::is_fetcher(base(&word.text)))
        })
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
        self.functions.push(name.to_owned());
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

    /// `[[ … ]]`: what runs in its words, and what its numbers may hide.
    fn test(&mut self, words: &[syntax::Word], through: &[String]) {
        const COUNTING: &[&str] = &["-eq", "-ne", "-lt", "-le", "-gt", "-ge"];
        for (index, word) in words.iter().enumerate() {
            self.expand(word, through);
            let is_counting = |at: Option<usize>| {
                at.and_then(|at| words.get(at))
                    .and_then(syntax::Word::bare)
                    .is_some_and(|text| COUNTING.contains(&text))
            };
            if is_counting(Some(index + 1)) || is_counting(index.checked_sub(1)) {
                self.counted_with(word);
            }
            if matches!(word.bare(), Some("-v" | "-R")) {
                self.doubt(&word.source, "the name of a variable may hold a command");
            }
        }
    }

    fn counted_with(&mut self, word: &syntax::Word) {
        if is_number(word) {
            return;
        }
        match word.parts.as_slice() {
            [Part::Expansion(expansion, _)] if expansion.variable.is_some() => {
                let name = expansion.variable.clone().unwrap_or_default();
                self.count(&name);
            }
            _ => self.doubt(&word.source, "arithmetic runs commands in a variable's text"),
        }
    }

    fn count(&mut self, name: &str) {
        if !self.numbers.iter().any(|known| known == name) {
            self.doubt(name, "arithmetic runs commands in a variable's text");
        }
        self.counted.push(name.to_owned());
    }

    /// Whether a word is a variable that holds a number, which is one word and no option.
    fn holds_number(&mut self, word: &syntax::Word) -> bool {
        let [Part::Expansion(expansion, _)] = word.parts.as_slice() else { return false };
        let Some(name) = &expansion.variable else { return expansion.is_number };
        let is_known = self.numbers.contains(name);
        if is_known {
            self.counted.push(name.clone());
        }
        is_known || expansion.is_number
    }

    fn arithmetic(&mut self, arithmetic: &Arithmetic, through: &[String]) {
        for name in &arithmetic.assigned {
            self.assigned(name, true);
        }
        for name in &arithmetic.names {
            self.count(name);
        }
        for part in &arithmetic.parts {
            let Part::Expansion(expansion, _) = part else { continue };
            self.expansion(expansion, through);
            match &expansion.variable {
                _ if expansion.is_number => {}
                Some(name) => self.count(name),
                None => self.doubt("arithmetic", "arithmetic runs commands in a variable's text"),
            }
        }
    }

    /// Visits what runs inside a word; whether it brings something from the network.
    fn expand(&mut self, word: &syntax::Word, through: &[String]) -> bool {
        let first = self.reading.commands.len();
        for part in &word.parts {
            if let Part::Expansion(expansion, _) = part {
                self.expansion(expansion, through);
            }
        }
        self.has_fetched_since(first)
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
        if let Some(name) = &expansion.assigns {
            self.assigned(name, expansion.words.iter().all(is_number));
        }
        if let Some(why) = expansion.doubt {
            self.doubt("${…}", why);
        }
    }

    fn assigned(&mut self, name: &str, is_number: bool) {
        if environment::is_risky(name) {
            self.doubt(name, "this variable changes what the rest does");
        }
        let known = if is_number { &mut self.numbers } else { &mut self.not_numbers };
        if !known.iter().any(|other| other == name) {
            known.push(name.to_owned());
        }
    }

    fn simple(&mut self, simple: &Simple, redirects: &[Redirect], through: &[String]) {
        let mut given = Vec::new();
        for word in &simple.words {
            let is_fetched = self.expand(word, through);
            given.extend(words::resolve(word, is_fetched));
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
            }
            if let Some(why) = around.redirect_danger {
                self.doubt("a redirect", why);
            }
            return;
        }
        around.prefix = simple.assignments.iter().filter_map(significant).collect();
        self.command(&given, &around);
    }

    /// The files of redirects, and what they make of standard input.
    fn redirects(&mut self, redirects: &[Redirect], through: &[String]) -> Around {
        let mut around = Around { through: through.to_vec(), ..Around::default() };
        if let Some(is_fetched) = self.pipe {
            around.input = Input::Pipe { is_fetched };
        }
        for redirect in redirects {
            let is_fetched = self.expand(&redirect.target, through);
            if let Some(name) = &redirect.variable {
                self.assigned(name, true);
            }
            if let Some(body) = redirect.here {
                let body = self.bodies.get(body).cloned().unwrap_or_default();
                let is_fetched = self.expand(&body, through);
                around.input = match body.literal() {
                    Some(text) => Input::Text(text),
                    None => Input::Pipe { is_fetched },
                };
                continue;
            }
            let targets = words::resolve(&redirect.target, is_fetched);
            let [target] = targets.as_slice() else {
                self.doubt(&redirect.target.source, "a redirect to more than one file");
                continue;
            };
            self.redirect(redirect.how, target, &mut around);
        }
        around
    }

    fn redirect(&mut self, how: Direction, target: &Word, around: &mut Around) {
        let is_descriptor = |text: &str| {
            let digits = text.strip_suffix('-').unwrap_or(text);
            digits.bytes().all(|byte| byte.is_ascii_digit())
        };
        let uses: &[How] = match how {
            Direction::Here => {
                around.input = match target.known() {
                    Some(text) => Input::Text(text.to_owned()),
                    None => Input::Pipe { is_fetched: target.is_fetched },
                };
                return;
            }
            Direction::Duplicate if target.known().is_some_and(is_descriptor) => return,
            Direction::Duplicate | Direction::Write => &[How::Write],
            Direction::Read => {
                around.input = if target.is_process {
                    Input::Pipe { is_fetched: target.is_fetched }
                } else {
                    Input::File
                };
                &[How::Read]
            }
            Direction::ReadWrite => &[How::Read, How::Write],
        };
        if target.prefix.starts_with("/dev/tcp/") || target.prefix.starts_with("/dev/udp/") {
            self.doubt(&target.text, "it talks to the network by a redirect");
        }
        for how in uses {
            self.file(&Named { word: target.clone(), how: *how, reach: Reach::Itself });
            if *how == How::Write {
                around.redirect_danger = around.redirect_danger.or_else(|| danger::writes(target));
            }
        }
    }

    fn command(&mut self, words: &[Word], around: &Around) {
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
        let name = base(name).to_owned();
        if self.builtin(&name, words, around) {
            self.special.push(name);
            return;
        }
        match wrappers::unwrap(&name, words) {
            Inner::NoWrapper => self.leaf(&name, words, around),
            inner => {
                self.special.push(name.clone());
                self.wrapped(&name, words, inner, around);
            }
        }
    }

    fn wrapped(&mut self, name: &str, words: &[Word], inner: Inner, around: &Around) {
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
                if !is_plain {
                    self.outer(name, words, around);
                }
                within.more |= more;
                self.command(&command, &within);
            }
            Inner::Text { text, is_plain } => {
                if !is_plain || !around.prefix.is_empty() {
                    self.outer(name, words, around);
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
                let usual = danger::of(name, words, &[]).map_or(Risk::Usual, Risk::Dangerous);
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
    fn fed(&mut self, name: &str, words: &[Word], around: &Around) {
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
    fn outer(&mut self, name: &str, words: &[Word], around: &Around) {
        let is_exec = |word: &Word| matches!(word.known(), Some("-exec" | "-execdir"));
        let judged: Vec<Word> = match words.iter().position(is_exec).filter(|_| name == "find") {
            // What is run is judged by itself.
            Some(at) => {
                let rest =
                    words.iter().skip(at).skip_while(|word| !word.is(";") && !word.is("+")).skip(1);
                words.iter().take(at).chain(rest).cloned().collect()
            }
            None => words.to_vec(),
        };
        self.judge(name, &judged, words, around);
    }

    fn leaf(&mut self, name: &str, words: &[Word], around: &Around) {
        self.judge(name, words, words, around);
    }

    fn judge(&mut self, name: &str, judged: &[Word], words: &[Word], around: &Around) {
        let is_path = words
            .first()
            .is_some_and(|word| word.text.contains('/') && base(&word.text) == word.text);
        let name = if is_path { name.rsplit('/').next().unwrap_or(name) } else { name };
        let named = files::of(name, judged);
        let fetches = hosts::of(name, words);
        let is_fetched = matches!(around.input, Input::Pipe { is_fetched: true });
        let mut danger = danger::of(name, judged, &named).or(around.redirect_danger);
        if is_fetched && named.is_empty() && is_interpreter(name) {
            danger = Some("it runs what the network brings");
        }
        let only_looks = !is_path
            && around.prefix.is_empty()
            && fetches.is_empty()
            && safe::only_looks(name, judged, around.more);
        let risk = match danger {
            Some(why) => Risk::Dangerous(why),
            None if only_looks => Risk::Looks,
            None => Risk::Usual,
        };
        if only_looks || !named.is_empty() || danger.is_some() {
            self.special.push(name.to_owned());
        }
        if around.more && !named_operands(name).is_none_or(|is_words| is_words) {
            self.file_doubt(&words::line(words), "which files it is given is not known");
        }
        for file in &named {
            self.file(file);
        }
        self.push(words, risk, fetches, around);
    }

    fn push(&mut self, words: &[Word], risk: Risk, fetches: Vec<String>, around: &Around) {
        let mut text = around.prefix.join(" ");
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(&words::line(words));
        let through = around.through.clone();
        self.reading.commands.push(Command { text, words: words.to_vec(), risk, through, fetches });
    }

    /// What only the shell itself can do. True when nothing more is to be said.
    fn builtin(&mut self, name: &str, words: &[Word], around: &Around) -> bool {
        let rest = words.get(1..).unwrap_or_default();
        match name {
            "cd" | "chdir" | "pushd" => self.change_directory(rest),
            "popd" => {
                self.file_doubt("popd", "the directory is not known");
                self.places.clear();
            }
            "source" | "." => {
                if rest.first().is_some_and(|word| word.is_fetched) {
                    self.push(
                        words,
                        Risk::Dangerous("it runs what the network brings"),
                        Vec::new(),
                        around,
                    );
                    return true;
                }
                self.is_tainted = true;
                return false;
            }
            "alias" | "hash" | "enable" | "shopt" | "set" | "complete" | "bind" | "fc" | "let"
            | "getopts" | "read" | "mapfile" | "readarray" | "declare" | "typeset" | "local"
            | "export" | "readonly" | "unset" | "compgen" => {
                self.setting(name, words, around);
                return true;
            }
            "exec" if rest.is_empty() => {
                self.is_tainted = true;
                return true;
            }
            "printf" if rest.first().is_some_and(|word| word.may_be_option() && !word.is("--")) => {
                self.doubt(&words::line(words), "the name of a variable may hold a command");
                return false;
            }
            "test" | "[" if rest.iter().any(|word| word.is("-v") || word.is("-R")) => {
                self.doubt(&words::line(words), "the name of a variable may hold a command");
                return false;
            }
            _ => return false,
        }
        self.push(words, Risk::Looks, Vec::new(), around);
        true
    }

    fn setting(&mut self, name: &str, words: &[Word], around: &Around) {
        let rest = words.get(1..).unwrap_or_default();
        let is_plain = safe::only_looks(name, words, around.more) && around.prefix.is_empty();
        if !is_plain {
            self.doubt(&words::line(words), "it changes how the shell reads the rest");
        }
        for word in rest {
            let variable = word.prefix.split('=').next().unwrap_or_default();
            let value = word.known().and_then(|text| text.split_once('=')).map(|(_, value)| value);
            let is_number = value.is_some_and(|value| value.parse::<i64>().is_ok());
            if super::quoting::is_name(variable) {
                self.assigned(variable, is_number);
            }
        }
        self.push(words, if is_plain { Risk::Looks } else { Risk::Usual }, Vec::new(), around);
    }

    fn change_directory(&mut self, rest: &[Word]) {
        self.moves = true;
        let mut operands =
            rest.iter().filter(|word| !matches!(word.known(), Some("--" | "-P" | "-L" | "-e")));
        let home = Word { has_tilde: true, ..Word::exact("~") };
        let target = operands.next().unwrap_or(&home);
        let is_known =
            target.known().is_some_and(|text| !text.starts_with('-') && !text.starts_with('+'));
        let is_user = target.has_tilde && target.text != "~" && !target.text.starts_with("~/");
        if !is_known || is_user || operands.next().is_some() {
            self.file_doubt(&target.text, "the directory is not known");
            self.places.clear();
            return;
        }
        self.file(&Named { word: target.clone(), how: How::Read, reach: Reach::Itself });
        let path = path_of(target);
        self.places = self.places.iter().map(|place| folded(&place.join(&path))).collect();
    }

    fn file(&mut self, file: &Named) {
        const FREE: &[&str] = &[
            "/dev/null",
            "/dev/stdin",
            "/dev/stdout",
            "/dev/stderr",
            "/dev/tty",
            "/dev/zero",
            "/dev/full",
            "/dev/random",
            "/dev/urandom",
        ];
        if let Some(root) = &file.word.below {
            let root = Named { word: (**root).clone(), how: file.how, reach: Reach::Tree };
            return self.file(&root);
        }
        let word = &file.word;
        if self.is_remote || word.is_process || word.known().is_some_and(is_free) {
            return;
        }
        fn is_free(text: &str) -> bool {
            FREE.contains(&text)
                || text
                    .strip_prefix("/dev/fd/")
                    .is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
        }
        let is_user = word.has_tilde && word.text != "~" && !word.text.starts_with("~/");
        if word.certainty == Certainty::Unknown || is_user {
            return self.file_doubt(&word.text, "which file it is is not known");
        }
        if self.places.is_empty() && !is_rooted(&path_of(word)) {
            self.file_doubt(&word.text, "the directory is not known");
        }
        let reach = if word.certainty == Certainty::Pattern { Reach::Pattern } else { file.reach };
        let nowhere = [PathBuf::new()];
        let places = if self.places.is_empty() { &nowhere[..] } else { &self.places };
        for place in places {
            let path = folded(&place.join(path_of(word)));
            let file = FileUse { path, how: file.how, reach };
            if !self.reading.files.contains(&file) {
                self.reading.files.push(file);
            }
        }
    }
}

/// Whether a wrapper reads a text, by itself or by a shell.
fn is_reader(name: &str) -> bool {
    const READERS: &str = "sh dash ash zsh ksh mksh fish watch su runuser script flock ssh";
    READERS.split(' ').any(|reader| reader == name)
}

/// `/bin/ls` is `ls`; `./ls` is not.
fn base(name: &str) -> &str {
    let system = ["/bin/", "/usr/bin/", "/sbin/", "/usr/sbin/"];
    let found = system.iter().find_map(|place| name.strip_prefix(place));
    found.filter(|rest| !rest.contains('/')).unwrap_or(name)
}

/// Whether the operands of a known program are mere words.
fn named_operands(name: &str) -> Option<bool> {
    if matches!(name, "sed" | "awk" | "find" | "git" | "tar") {
        return Some(false);
    }
    super::programs::Program::named(name)
        .map(|program| program.operands == super::programs::Operands::Words)
}

fn is_interpreter(name: &str) -> bool {
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

/// An assignment before a command, when it matters.
fn significant(assignment: &Assignment) -> Option<String> {
    let is_harmless = environment::is_harmless(&assignment.name) && !assignment.is_array;
    (!is_harmless).then(|| assignment.source.clone())
}

fn is_number(word: &syntax::Word) -> bool {
    match word.parts.as_slice() {
        [Part::Expansion(expansion, _)] => expansion.is_number,
        // An assigned word begins with what stands after the `=`.
        [Part::Literal { text, .. }, Part::Expansion(expansion, _)] if text.is_empty() => {
            expansion.is_number
        }
        _ => word
            .literal()
            .is_some_and(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())),
    }
}

/// Characters that look like nothing, or like another, and that bash takes for parts of words.
fn is_deceiving(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || (c.is_whitespace() && !c.is_ascii())
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{ad}')
}

fn path_of(word: &Word) -> PathBuf {
    let text = word.text.as_str();
    if text.starts_with('~') && !word.has_tilde {
        Path::new(".").join(text)
    } else {
        PathBuf::from(text)
    }
}

fn is_rooted(path: &Path) -> bool {
    path.is_absolute() || path.starts_with("~")
}

fn union(one: &[PathBuf], other: &[PathBuf]) -> Vec<PathBuf> {
    if one.is_empty() || other.is_empty() {
        return Vec::new();
    }
    let mut all = one.to_vec();
    all.extend(other.iter().filter(|place| !one.contains(place)).cloned());
    if all.len() > MOST_PLACES { Vec::new() } else { all }
}

/// Without `.`, and without `..` where that can be told from the text.
fn folded(path: &Path) -> PathBuf {
    let mut parts: Vec<Component<'_>> = Vec::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => match parts.last() {
                Some(Component::Normal(name)) if *name != "~" => {
                    parts.pop();
                }
                Some(Component::RootDir) => {}
                _ => parts.push(part),
            },
            // `a` and then `~/b` is `~/b`.
            Component::Normal(name) if name == "~" && !is_written_out(path) => {
                parts.clear();
                parts.push(part);
            }
            other => parts.push(other),
        }
    }
    // A file of that name, not the home directory.
    let is_sign = is_written_out(path) && parts.first() == Some(&Component::Normal("~".as_ref()));
    if parts.is_empty() || is_sign {
        parts.insert(0, Component::CurDir);
    }
    parts.into_iter().collect()
}

fn is_written_out(path: &Path) -> bool {
    path.to_string_lossy().contains("./~")
}
