//! A strict parser of bash texts: statements, pipelines, compound commands, redirects. What it is not sure of is an
//! error, never a guess. Words are in [`super::quoting`].

use super::syntax::{
    Arithmetic, Assignment, Direction, Joint, Kind, List, Node, Redirect, Simple, Statement, Word,
};

/// Why a text could not be read to its end.
pub(super) type Problem = &'static str;

/// So deep may things lie in one another. Deeper is nobody's everyday command, and the stack is not endless.
const DEEPEST: usize = 24;

const CLOSING: &[&str] = &["then", "elif", "else", "fi", "do", "done", "esac", "}"];
const RESERVED: &[&str] = &[
    "then", "elif", "else", "fi", "do", "done", "esac", "}", "{", "if", "while", "until", "for",
    "select", "case", "function", "[[", "!", "time", "coproc", "in", "]]",
];

/// A text as a tree, as far as it could be read.
pub(super) struct Parsed {
    pub(super) list: List,
    /// The texts of here-documents, by the numbers in [`Redirect::here`].
    pub(super) bodies: Vec<Word>,
    pub(super) problem: Option<Problem>,
    /// Where the words in command position begin.
    pub(super) starts: Vec<usize>,
    /// Where backticks are, whose insides are other texts.
    pub(super) backticks: Vec<(usize, usize)>,
}

pub(super) fn parse(text: &str) -> Parsed {
    let mut parser = Parser::new(text, 0);
    let mut list = List::default();
    let problem = parser.program(&mut list).err();
    let split =
        has_split_operator(text).then_some("a sign of several letters is split by a line end");
    parser.finish(list, problem.or(split))
}

/// Whether a continued line ends inside an operator or behind a `$`: bash joins lines before it looks for either.
fn has_split_operator(text: &str) -> bool {
    const CONTINUED: &str = "\\\n";
    const OPERATORS: &[&str] = &[
        "((", "))", "&&", "||", "|&", "&>", ";;", ";&", "<<", "<(", "<&", "<>", ">>", ">(", ">&",
        ">|",
    ];
    text.match_indices(CONTINUED).any(|(at, _)| {
        let (before, after) = text.split_at(at);
        let (before, after) =
            (before.trim_end_matches(CONTINUED), after.trim_start_matches(CONTINUED));
        let joins = |operator: &&str| {
            let (first, second) = operator.split_at(1);
            before.ends_with(first) && after.starts_with(second)
        };
        before.ends_with('$') || OPERATORS.iter().any(joins)
    })
}

fn is_one_pipeline(list: &List) -> bool {
    let [Statement { pipelines, .. }] = list.statements.as_slice() else { return false };
    let is_simple = |node: &Node| matches!(node.kind, Kind::Simple(_));
    matches!(pipelines.as_slice(), [(_, nodes)] if nodes.iter().all(is_simple))
}

pub(super) struct Parser<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
    /// Nothing is read from here on.
    pub(super) end: usize,
    pub(super) depth: usize,
    pub(super) bodies: Vec<Word>,
    waiting: Vec<Waiting>,
    /// Here-documents begun outside of the substitution that is being read.
    waiting_outside: usize,
    starts: Vec<usize>,
    pub(super) backticks: Vec<(usize, usize)>,
}

/// A here-document whose text comes after the line.
struct Waiting {
    body: usize,
    delimiter: String,
    strips_tabs: bool,
    is_literal: bool,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str, depth: usize) -> Self {
        Self {
            text,
            at: 0,
            end: text.len(),
            depth,
            bodies: Vec::new(),
            waiting: Vec::new(),
            waiting_outside: 0,
            starts: Vec::new(),
            backticks: Vec::new(),
        }
    }

    fn finish(self, list: List, problem: Option<Problem>) -> Parsed {
        let Self { bodies, starts, backticks, .. } = self;
        Parsed { list, bodies, problem, starts, backticks }
    }

    /// The whole text.
    pub(super) fn program(&mut self, list: &mut List) -> Result<(), Problem> {
        self.list(list)?;
        if self.at < self.end {
            return Err("it does not parse");
        }
        if !self.waiting.is_empty() {
            return Err("a here-document has no end");
        }
        Ok(())
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.ahead(0)
    }

    pub(super) fn ahead(&self, by: usize) -> Option<u8> {
        let at = self.at + by;
        if at < self.end { self.text.as_bytes().get(at).copied() } else { None }
    }

    pub(super) fn looks_at(&self, what: &str) -> bool {
        self.rest().starts_with(what.as_bytes())
    }

    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..self.end).unwrap_or_default()
    }

    pub(super) fn eat(&mut self, what: &str) -> bool {
        let is_there = self.looks_at(what);
        if is_there {
            self.at += what.len();
        }
        is_there
    }

    fn expect(&mut self, what: &str) -> Result<(), Problem> {
        if self.eat(what) { Ok(()) } else { Err("it does not parse") }
    }

    pub(super) fn source(&self, from: usize) -> String {
        self.text.get(from..self.at).unwrap_or_default().to_owned()
    }

    pub(super) fn deeper<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err("it is nested too deeply");
        }
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// The commands of `$(…)`, `<(…)`, up to the `)`. Here-documents inside end inside.
    pub(super) fn substitution(&mut self) -> Result<List, Problem> {
        let outside = std::mem::take(&mut self.waiting);
        let before = self.waiting_outside;
        self.waiting_outside += outside.len();
        let mut list = List::default();
        let bodies = self.bodies.len();
        self.deeper(|parser| parser.list(&mut list))?;
        self.expect(")")?;
        // bash 5.2 writes substitutions out and reads them again, and loses a `;` on the way after a here-document.
        if self.bodies.len() > bodies && !is_one_pipeline(&list) {
            return Err("a here-document stands among other commands in a substitution");
        }
        if !self.waiting.is_empty() {
            return Err("a here-document does not end where it began");
        }
        self.waiting = outside;
        self.waiting_outside = before;
        Ok(list)
    }

    fn list(&mut self, list: &mut List) -> Result<(), Problem> {
        loop {
            self.skip_newlines()?;
            if self.is_end_of_list() {
                return Ok(());
            }
            let mut statement = self.statement()?;
            self.skip_blanks();
            let is_separator = |next: Option<u8>| matches!(next, Some(b';' | b'&'));
            match self.peek() {
                Some(b'\n') => {}
                Some(b';') if !is_separator(self.ahead(1)) => self.at += 1,
                Some(b'&') if self.ahead(1) != Some(b'&') => {
                    statement.is_background = true;
                    self.at += 1;
                }
                _ if self.is_end_of_list() => {
                    list.statements.push(statement);
                    return Ok(());
                }
                _ => {
                    list.statements.push(statement);
                    return Err("it does not parse");
                }
            }
            list.statements.push(statement);
        }
    }

    fn is_end_of_list(&self) -> bool {
        match self.peek() {
            None | Some(b')') => true,
            Some(b';') => matches!(self.ahead(1), Some(b';' | b'&')),
            _ => self.reserved().is_some_and(|word| CLOSING.contains(&word)),
        }
    }

    fn statement(&mut self) -> Result<Statement, Problem> {
        let mut pipelines = vec![(Joint::First, self.pipeline()?)];
        loop {
            self.skip_blanks();
            let joint = match () {
                () if self.eat("&&") => Joint::And,
                () if self.eat("||") => Joint::Or,
                () => return Ok(Statement { pipelines, is_background: false }),
            };
            self.skip_newlines()?;
            pipelines.push((joint, self.pipeline()?));
        }
    }

    fn pipeline(&mut self) -> Result<Vec<Node>, Problem> {
        let mut is_timed = false;
        loop {
            self.skip_blanks();
            match self.reserved() {
                Some("!") => self.at += 1,
                Some("time") => {
                    self.at += 4;
                    self.skip_blanks();
                    // An option of the word, not a program.
                    while self.plain_run() == "-p" || self.plain_run() == "--" {
                        self.at += 2;
                        self.skip_blanks();
                    }
                    is_timed = true;
                }
                _ => break,
            }
        }
        let is_over = matches!(self.peek(), None | Some(b'\n' | b';' | b')' | b'&'));
        if is_timed && is_over && !self.looks_at("&>") {
            return Ok(Vec::new());
        }
        let mut nodes = vec![self.command()?];
        loop {
            self.skip_blanks();
            if self.looks_at("||") || !self.eat("|") {
                return Ok(nodes);
            }
            self.eat("&");
            self.skip_newlines()?;
            nodes.push(self.command()?);
        }
    }

    fn command(&mut self) -> Result<Node, Problem> {
        self.deeper(Self::command_here)
    }

    fn command_here(&mut self) -> Result<Node, Problem> {
        self.skip_blanks();
        match self.compound()? {
            Some(kind) => {
                let redirects = self.redirects()?;
                Ok(Node { kind, redirects })
            }
            None => self.simple(),
        }
    }

    /// A compound command, when one begins here.
    fn compound(&mut self) -> Result<Option<Kind>, Problem> {
        if self.looks_at("((") {
            self.at += 2;
            return Ok(Some(Kind::Arithmetic(self.arithmetic("))")?)));
        }
        if self.eat("(") {
            let list = self.body()?;
            self.expect(")")?;
            return Ok(Some(Kind::Subshell(list)));
        }
        let Some(word) = self.reserved() else { return Ok(None) };
        self.at += word.len();
        let kind = match word {
            "{" => Kind::Group(self.body_until("}")?),
            "if" => self.condition()?,
            "while" | "until" => {
                let lists = vec![self.body_until("do")?, self.body_until("done")?];
                Kind::Loop { variable: None, words: Vec::new(), lists }
            }
            "for" | "select" => self.repetition()?,
            "case" => self.choice()?,
            "[[" => self.test()?,
            "function" => self.named_function()?,
            "coproc" => self.coprocess()?,
            _ => return Err("it does not parse"),
        };
        Ok(Some(kind))
    }

    fn body(&mut self) -> Result<List, Problem> {
        let mut list = List::default();
        self.deeper(|parser| parser.list(&mut list))?;
        if list.statements.is_empty() {
            return Err("it does not parse");
        }
        Ok(list)
    }

    fn body_until(&mut self, word: &str) -> Result<List, Problem> {
        let list = self.body()?;
        self.expect_word(word)?;
        Ok(list)
    }

    fn expect_word(&mut self, word: &str) -> Result<(), Problem> {
        self.skip_blanks();
        if self.plain_run() == word {
            self.at += word.len();
            return Ok(());
        }
        Err("it does not parse")
    }

    fn condition(&mut self) -> Result<Kind, Problem> {
        let mut lists = vec![self.body_until("then")?];
        loop {
            lists.push(self.body()?);
            match self.reserved() {
                Some("elif") => {
                    self.at += 4;
                    lists.push(self.body_until("then")?);
                }
                Some("else") => {
                    self.at += 4;
                    lists.push(self.body_until("fi")?);
                    return Ok(Kind::If(lists));
                }
                Some("fi") => {
                    self.at += 2;
                    return Ok(Kind::If(lists));
                }
                _ => return Err("it does not parse"),
            }
        }
    }

    fn repetition(&mut self) -> Result<Kind, Problem> {
        self.skip_blanks();
        if self.eat("((") {
            return self.counted_repetition();
        }
        let name = self.name()?;
        self.skip_newlines()?;
        let mut words = Vec::new();
        if self.plain_run() == "in" {
            self.at += 2;
            loop {
                self.skip_blanks();
                match self.word()? {
                    Some(word) => words.push(word),
                    None => break,
                }
            }
            if !self.eat(";") && self.peek() != Some(b'\n') {
                return Err("it does not parse");
            }
        } else {
            self.eat(";");
        }
        self.skip_newlines()?;
        self.expect_word("do")?;
        let lists = vec![self.body_until("done")?];
        Ok(Kind::Loop { variable: Some(name), words, lists })
    }

    fn counted_repetition(&mut self) -> Result<Kind, Problem> {
        let head = self.arithmetic("))")?;
        self.skip_blanks();
        self.eat(";");
        self.skip_newlines()?;
        self.expect_word("do")?;
        let head = Node { kind: Kind::Arithmetic(head), redirects: Vec::new() };
        let head = Statement { pipelines: vec![(Joint::First, vec![head])], is_background: false };
        let lists = vec![List { statements: vec![head] }, self.body_until("done")?];
        Ok(Kind::Loop { variable: None, words: Vec::new(), lists })
    }

    fn choice(&mut self) -> Result<Kind, Problem> {
        self.skip_blanks();
        let subject = self.word()?.ok_or("it does not parse")?;
        self.skip_newlines()?;
        self.expect_word("in")?;
        let (mut patterns, mut lists) = (Vec::new(), Vec::new());
        loop {
            self.skip_newlines()?;
            if self.plain_run() == "esac" {
                self.at += 4;
                return Ok(Kind::Case { subject, patterns, lists });
            }
            self.eat("(");
            loop {
                self.skip_blanks();
                patterns.push(self.word()?.ok_or("it does not parse")?);
                self.skip_blanks();
                if !self.eat("|") {
                    break;
                }
            }
            self.expect(")")?;
            let mut list = List::default();
            self.deeper(|parser| parser.list(&mut list))?;
            lists.push(list);
            let is_ended = self.eat(";;&") || self.eat(";;") || self.eat(";&");
            if !is_ended && self.reserved() != Some("esac") {
                return Err("it does not parse");
            }
        }
    }

    /// `[[ … ]]`. Operators are words here: nothing in it runs but what stands in substitutions.
    fn test(&mut self) -> Result<Kind, Problem> {
        let mut words = Vec::new();
        loop {
            self.skip_newlines()?;
            if self.plain_run() == "]]" {
                self.at += 2;
                return Ok(Kind::Test(words));
            }
            let is_substitution = matches!(self.ahead(1), Some(b'('));
            match self.peek() {
                None | Some(b';') => return Err("it does not parse"),
                Some(b'<' | b'>') if is_substitution => words.extend(self.word()?),
                Some(b'(' | b')' | b'<' | b'>' | b'|') => self.at += 1,
                Some(b'&') => self.expect("&&")?,
                Some(_) => words.push(self.word()?.ok_or("it does not parse")?),
            }
        }
    }

    fn named_function(&mut self) -> Result<Kind, Problem> {
        self.skip_blanks();
        let name =
            self.word()?.and_then(|word| word.literal()).ok_or("a function has no plain name")?;
        self.skip_blanks();
        if self.eat("(") {
            self.skip_blanks();
            self.expect(")")?;
        }
        self.function_body(name)
    }

    fn function_body(&mut self, name: String) -> Result<Kind, Problem> {
        self.skip_newlines()?;
        let kind = self.deeper(Self::compound)?.ok_or("a function has no body")?;
        let redirects = self.redirects()?;
        Ok(Kind::Function { name, body: Box::new(Node { kind, redirects }) })
    }

    /// `coproc command`, or `coproc NAME compound`.
    fn coprocess(&mut self) -> Result<Kind, Problem> {
        self.skip_blanks();
        let before = self.at;
        let name = self.plain_run().len();
        if self.reserved().is_none() {
            self.at += name;
            self.skip_blanks();
            let has_compound = self.peek() == Some(b'(')
                || matches!(self.reserved(), Some(word) if !CLOSING.contains(&word));
            if has_compound && !self.looks_at("()") {
                return Err("a coprocess with a name");
            }
            self.at = before;
        }
        let node = self.command()?;
        let statement =
            Statement { pipelines: vec![(Joint::First, vec![node])], is_background: true };
        Ok(Kind::Subshell(List { statements: vec![statement] }))
    }

    fn simple(&mut self) -> Result<Node, Problem> {
        let mut simple = Simple::default();
        let mut redirects = Vec::new();
        loop {
            self.skip_blanks();
            if self.is_redirect() {
                redirects.push(self.redirect(None)?);
                continue;
            }
            let Some(word) = self.word()? else { break };
            if let Some(descriptor) = self.descriptor(&word) {
                redirects.push(self.redirect(descriptor)?);
            } else if let Some(assignment) = self.assignment(&word, &simple)? {
                simple.assignments.push(assignment);
            } else {
                if simple.words.is_empty() {
                    if word.bare().is_some_and(|text| RESERVED.contains(&text)) {
                        return Err("a reserved word stands where a command should");
                    }
                    self.starts.push(word.start);
                }
                simple.words.push(word);
            }
            self.skip_blanks();
            if self.peek() == Some(b'(') {
                return self.function_or_nothing(simple, &redirects);
            }
        }
        if simple.words.is_empty() && simple.assignments.is_empty() && redirects.is_empty() {
            return Err("it does not parse");
        }
        Ok(Node { kind: Kind::Simple(simple), redirects })
    }

    /// `name ()` begins a function; any other `(` after a word is not for us.
    fn function_or_nothing(
        &mut self,
        simple: Simple,
        redirects: &[Redirect],
    ) -> Result<Node, Problem> {
        let is_alone = simple.assignments.is_empty() && redirects.is_empty();
        let [word] = simple.words.as_slice() else { return Err("it does not parse") };
        let name = word.bare().filter(|_| is_alone).ok_or("it does not parse")?.to_owned();
        self.starts.pop();
        self.expect("(")?;
        self.skip_blanks();
        self.expect(")")?;
        Ok(Node { kind: self.function_body(name)?, redirects: Vec::new() })
    }

    /// `name=value`, `name+=value`, `name=(…)`, `name[index]=value`; among the arguments only lists in brackets, which
    /// `declare` and its kin take.
    fn assignment(&mut self, word: &Word, simple: &Simple) -> Result<Option<Assignment>, Problem> {
        let Some((name, value, is_indexed)) = super::quoting::assigned(word) else {
            return Ok(None);
        };
        let is_list = self.peek() == Some(b'(') && word.source.ends_with('=');
        if !is_list {
            let assignment = Assignment {
                name,
                values: vec![value],
                is_array: is_indexed,
                source: word.source.clone(),
            };
            return Ok(simple.words.is_empty().then_some(assignment));
        }
        self.at += 1;
        let mut values = Vec::new();
        loop {
            self.skip_newlines()?;
            match self.word()? {
                Some(word) => values.push(word),
                None => break,
            }
        }
        self.expect(")")?;
        // bash takes `x=()$ touch m` for an assignment before `touch`.
        let is_over =
            matches!(self.peek(), None | Some(b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b')'));
        if !is_over {
            return Err("a word goes on behind a list");
        }
        let declares = simple.words.first().and_then(Word::bare).is_none_or(|name| {
            matches!(name, "declare" | "typeset" | "local" | "export" | "readonly")
        });
        if !declares {
            return Err("it does not parse");
        }
        Ok(Some(Assignment { name, values, is_array: true, source: self.source(word.start) }))
    }

    fn redirects(&mut self) -> Result<Vec<Redirect>, Problem> {
        let mut redirects = Vec::new();
        loop {
            self.skip_blanks();
            if self.is_redirect() {
                redirects.push(self.redirect(None)?);
                continue;
            }
            let before = self.at;
            let is_prefix = matches!(self.peek(), Some(b'0'..=b'9' | b'{'));
            let word = if is_prefix { self.word()? } else { None };
            match word.as_ref().and_then(|word| self.descriptor(word)) {
                Some(descriptor) => redirects.push(self.redirect(descriptor)?),
                None => {
                    self.at = before;
                    return Ok(redirects);
                }
            }
        }
    }

    fn is_redirect(&self) -> bool {
        match self.peek() {
            Some(b'<' | b'>') => self.ahead(1) != Some(b'('),
            Some(b'&') => self.ahead(1) == Some(b'>'),
            _ => false,
        }
    }

    /// Whether the word is the descriptor of a redirect that follows without a blank: `2>`, `{name}>`.
    fn descriptor(&self, word: &Word) -> Option<Option<String>> {
        if !matches!(self.peek(), Some(b'<' | b'>')) {
            return None;
        }
        if super::quoting::is_unquoted_number(word) {
            return Some(None);
        }
        let name = word.source.strip_prefix('{')?.strip_suffix('}')?;
        super::quoting::is_name(name).then(|| Some(name.to_owned()))
    }

    fn redirect(&mut self, variable: Option<String>) -> Result<Redirect, Problem> {
        const OPERATORS: &[(&str, Direction)] = &[
            ("<<<", Direction::Here),
            ("&>>", Direction::Write),
            ("&>", Direction::Write),
            (">>", Direction::Write),
            (">|", Direction::Write),
            (">&", Direction::Duplicate),
            ("<&", Direction::Duplicate),
            ("<>", Direction::ReadWrite),
            (">", Direction::Write),
            ("<", Direction::Read),
        ];
        if !self.looks_at("<<<") && self.eat("<<") {
            return self.here_document(variable);
        }
        let (operator, how) = OPERATORS
            .iter()
            .find(|(operator, _)| self.looks_at(operator))
            .ok_or("it does not parse")?;
        self.at += operator.len();
        self.skip_blanks();
        let target = self.word()?.ok_or("it does not parse")?;
        Ok(Redirect { how: *how, target, variable, here: None })
    }

    fn here_document(&mut self, variable: Option<String>) -> Result<Redirect, Problem> {
        let strips_tabs = self.eat("-");
        self.skip_blanks();
        let target = self.word()?.ok_or("it does not parse")?;
        let delimiter = target.literal().ok_or("the end of a here-document is not plain")?;
        if delimiter.contains('\n') || target.source.contains(['$', '`']) {
            return Err("the end of a here-document is not plain");
        }
        let body = self.bodies.len();
        self.bodies.push(Word::default());
        let is_literal = target.source.contains(['\'', '"', '\\']);
        self.waiting.push(Waiting { body, delimiter, strips_tabs, is_literal });
        Ok(Redirect { how: Direction::Here, target, variable, here: Some(body) })
    }

    /// Reads the texts that wait for the end of this line.
    fn here_texts(&mut self) -> Result<(), Problem> {
        for waiting in std::mem::take(&mut self.waiting) {
            let begin = self.at;
            let end = loop {
                let line_begin = self.at;
                let rest = self.text.get(line_begin..self.end).ok_or("it does not parse")?;
                let line = rest.split('\n').next().unwrap_or_default();
                let has_newline = line.len() < rest.len();
                self.at += line.len() + usize::from(has_newline);
                let stripped =
                    if waiting.strips_tabs { line.trim_start_matches('\t') } else { line };
                if stripped == waiting.delimiter {
                    break line_begin;
                }
                if !has_newline {
                    return Err("a here-document has no end");
                }
                if !waiting.is_literal && line.ends_with('\\') {
                    return Err("a line of a here-document goes on in the next");
                }
            };
            let body = self.here_text(begin, end, waiting.is_literal)?;
            if let Some(place) = self.bodies.get_mut(waiting.body) {
                *place = body;
            }
        }
        Ok(())
    }

    fn here_text(&mut self, begin: usize, end: usize, is_literal: bool) -> Result<Word, Problem> {
        let text = self.text.get(begin..end).unwrap_or_default();
        if is_literal {
            return Ok(super::quoting::quoted_word(text, begin));
        }
        let (after, outer_end) = (self.at, self.end);
        (self.at, self.end) = (begin, end);
        let word = self.expanding_text();
        (self.at, self.end) = (after, outer_end);
        word
    }

    fn name(&mut self) -> Result<String, Problem> {
        let name = self.plain_run().to_owned();
        if !super::quoting::is_name(&name) {
            return Err("it does not parse");
        }
        self.at += name.len();
        Ok(name)
    }

    pub(super) fn arithmetic(&mut self, close: &str) -> Result<Arithmetic, Problem> {
        self.deeper(|parser| parser.arithmetic_until(close))
    }

    /// Blanks, continued lines, and a comment at the end.
    pub(super) fn skip_blanks(&mut self) {
        loop {
            match self.peek() {
                Some(b' ' | b'\t') => self.at += 1,
                Some(b'\\') if self.ahead(1) == Some(b'\n') => self.at += 2,
                Some(b'#') => {
                    let rest = self.rest();
                    self.at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
                }
                _ => return,
            }
        }
    }

    fn skip_newlines(&mut self) -> Result<(), Problem> {
        loop {
            self.skip_blanks();
            if self.peek() != Some(b'\n') {
                return Ok(());
            }
            if self.waiting_outside > 0 {
                return Err("a here-document begins around a substitution");
            }
            self.at += 1;
            self.here_texts()?;
        }
    }

    /// The characters up to the next that could end a word or quote something.
    fn plain_run(&self) -> &'a str {
        let is_end = |byte: &u8| b" \t\n;&|<>()'\"\\$`".contains(byte);
        let rest = self.rest();
        let length = rest.iter().position(is_end).unwrap_or(rest.len());
        let is_whole = rest.get(length).is_none_or(|byte| !b"'\"\\$`".contains(byte));
        let run = self.text.get(self.at..self.at + length).unwrap_or_default();
        if is_whole { run } else { "" }
    }

    fn reserved(&self) -> Option<&'static str> {
        let run = self.plain_run();
        RESERVED.iter().copied().find(|word| *word == run)
    }
}
