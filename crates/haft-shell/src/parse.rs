//! A strict parser of bash texts: statements, pipelines, compound commands, redirects. It returns
//! an error instead of guessing. Words are parsed in [`super::quoting`].

use super::syntax::{
    Arithmetic, Assignment, Connector, Redirect, RedirectKind, Simple, Statement, StatementList,
    SyntaxKind, SyntaxNode, SyntaxWord,
};

/// Why a text could not be parsed.
pub(super) type ParseProblem = &'static str;

/// Maximum nesting depth. Ordinary commands stay far below it, and the stack is finite.
const MAX_DEPTH: usize = 24;

const CLOSING: &[&str] = &["then", "elif", "else", "fi", "do", "done", "esac", "}"];
const RESERVED: &[&str] = &[
    "then", "elif", "else", "fi", "do", "done", "esac", "}", "{", "if", "while", "until", "for",
    "select", "case", "function", "[[", "!", "time", "coproc", "in", "]]",
];

/// The tree of a text, as far as it could be parsed.
pub(super) struct ParsedText {
    pub(super) list: StatementList,
    /// The texts of here-documents, by the indexes in [`Redirect::here`].
    pub(super) bodies: Vec<SyntaxWord>,
    pub(super) problem: Option<ParseProblem>,
    /// Offsets of the words in command position.
    pub(super) starts: Vec<usize>,
    /// Ranges of backticks, whose contents are parsed as separate texts.
    pub(super) backticks: Vec<(usize, usize)>,
}

pub(super) fn parse(text: &str) -> ParsedText {
    let mut parser = ShellParser::new(text, 0);
    let mut list = StatementList::default();
    let problem = parser.program(&mut list).err();
    let split = has_split_operator(text).then_some("an operator is split across lines");
    parser.finish(list, problem.or(split))
}

/// Returns true when a line continuation splits an operator or follows a `$`: bash joins lines
/// before it looks for either.
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

fn is_one_pipeline(list: &StatementList) -> bool {
    let [Statement { pipelines, .. }] = list.statements.as_slice() else { return false };
    let is_simple = |node: &SyntaxNode| matches!(node.kind, SyntaxKind::Simple(_));
    matches!(pipelines.as_slice(), [(_, nodes)] if nodes.iter().all(is_simple))
}

pub(super) struct ShellParser<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
    /// Parsing stops at this offset.
    pub(super) end: usize,
    pub(super) depth: usize,
    pub(super) bodies: Vec<SyntaxWord>,
    waiting: Vec<PendingHereDocument>,
    /// Number of here-documents that were opened outside the current substitution.
    waiting_outside: usize,
    starts: Vec<usize>,
    pub(super) backticks: Vec<(usize, usize)>,
}

/// A here-document whose text follows the current line.
struct PendingHereDocument {
    body: usize,
    delimiter: String,
    strips_tabs: bool,
    is_literal: bool,
}

impl<'a> ShellParser<'a> {
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

    fn finish(self, list: StatementList, problem: Option<ParseProblem>) -> ParsedText {
        let Self { bodies, starts, backticks, .. } = self;
        ParsedText { list, bodies, problem, starts, backticks }
    }

    /// Parses the whole text.
    pub(super) fn program(&mut self, list: &mut StatementList) -> Result<(), ParseProblem> {
        self.list(list)?;
        if self.at < self.end {
            return Err("syntax error");
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

    fn expect(&mut self, what: &str) -> Result<(), ParseProblem> {
        if self.eat(what) { Ok(()) } else { Err("syntax error") }
    }

    pub(super) fn source(&self, from: usize) -> String {
        self.text.get(from..self.at).unwrap_or_default().to_owned()
    }

    pub(super) fn deeper<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, ParseProblem>,
    ) -> Result<T, ParseProblem> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("it is nested too deeply");
        }
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// Parses the commands of `$(…)` or `<(…)`, up to the `)`. Here-documents that begin inside
    /// must end inside.
    pub(super) fn substitution(&mut self) -> Result<StatementList, ParseProblem> {
        let outside = std::mem::take(&mut self.waiting);
        let before = self.waiting_outside;
        self.waiting_outside += outside.len();
        let mut list = StatementList::default();
        let bodies = self.bodies.len();
        self.deeper(|parser| parser.list(&mut list))?;
        self.expect(")")?;
        // bash 5.2 prints substitutions and parses them again, and loses a `;` after a
        // here-document on the way.
        if self.bodies.len() > bodies && !is_one_pipeline(&list) {
            return Err("a here-document among other commands in a substitution");
        }
        if !self.waiting.is_empty() {
            return Err("a here-document does not end in its substitution");
        }
        self.waiting = outside;
        self.waiting_outside = before;
        Ok(list)
    }

    fn list(&mut self, list: &mut StatementList) -> Result<(), ParseProblem> {
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
                    return Err("syntax error");
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

    fn statement(&mut self) -> Result<Statement, ParseProblem> {
        let mut pipelines = vec![(Connector::First, self.pipeline()?)];
        loop {
            self.skip_blanks();
            let joint = match () {
                () if self.eat("&&") => Connector::And,
                () if self.eat("||") => Connector::Or,
                () => return Ok(Statement { pipelines, is_background: false }),
            };
            self.skip_newlines()?;
            pipelines.push((joint, self.pipeline()?));
        }
    }

    fn pipeline(&mut self) -> Result<Vec<SyntaxNode>, ParseProblem> {
        let mut is_timed = false;
        loop {
            self.skip_blanks();
            match self.reserved() {
                Some("!") => self.at += 1,
                Some("time") => {
                    self.at += 4;
                    self.skip_blanks();
                    // An option of `time`, not a program.
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

    fn command(&mut self) -> Result<SyntaxNode, ParseProblem> {
        self.deeper(Self::command_here)
    }

    fn command_here(&mut self) -> Result<SyntaxNode, ParseProblem> {
        self.skip_blanks();
        match self.compound()? {
            Some(kind) => {
                let redirects = self.redirects()?;
                Ok(SyntaxNode { kind, redirects })
            }
            None => self.simple(),
        }
    }

    /// Parses a compound command, if one begins here.
    fn compound(&mut self) -> Result<Option<SyntaxKind>, ParseProblem> {
        if self.looks_at("((") {
            self.at += 2;
            return Ok(Some(SyntaxKind::Arithmetic(self.arithmetic("))")?)));
        }
        if self.eat("(") {
            let list = self.body()?;
            self.expect(")")?;
            return Ok(Some(SyntaxKind::Subshell(list)));
        }
        let Some(word) = self.reserved() else { return Ok(None) };
        self.at += word.len();
        let kind = match word {
            "{" => SyntaxKind::Group(self.body_until("}")?),
            "if" => self.condition()?,
            "while" | "until" => {
                let lists = vec![self.body_until("do")?, self.body_until("done")?];
                SyntaxKind::Loop { variable: None, words: Vec::new(), lists }
            }
            "for" | "select" => self.repetition()?,
            "case" => self.choice()?,
            "[[" => self.test()?,
            "function" => self.named_function()?,
            "coproc" => self.coprocess()?,
            _ => return Err("syntax error"),
        };
        Ok(Some(kind))
    }

    fn body(&mut self) -> Result<StatementList, ParseProblem> {
        let mut list = StatementList::default();
        self.deeper(|parser| parser.list(&mut list))?;
        if list.statements.is_empty() {
            return Err("syntax error");
        }
        Ok(list)
    }

    fn body_until(&mut self, word: &str) -> Result<StatementList, ParseProblem> {
        let list = self.body()?;
        self.expect_word(word)?;
        Ok(list)
    }

    fn expect_word(&mut self, word: &str) -> Result<(), ParseProblem> {
        self.skip_blanks();
        if self.plain_run() == word {
            self.at += word.len();
            return Ok(());
        }
        Err("syntax error")
    }

    fn condition(&mut self) -> Result<SyntaxKind, ParseProblem> {
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
                    return Ok(SyntaxKind::If(lists));
                }
                Some("fi") => {
                    self.at += 2;
                    return Ok(SyntaxKind::If(lists));
                }
                _ => return Err("syntax error"),
            }
        }
    }

    fn repetition(&mut self) -> Result<SyntaxKind, ParseProblem> {
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
                return Err("syntax error");
            }
        } else {
            self.eat(";");
        }
        self.skip_newlines()?;
        self.expect_word("do")?;
        let lists = vec![self.body_until("done")?];
        Ok(SyntaxKind::Loop { variable: Some(name), words, lists })
    }

    fn counted_repetition(&mut self) -> Result<SyntaxKind, ParseProblem> {
        let head = self.arithmetic("))")?;
        self.skip_blanks();
        self.eat(";");
        self.skip_newlines()?;
        self.expect_word("do")?;
        let head = SyntaxNode { kind: SyntaxKind::Arithmetic(head), redirects: Vec::new() };
        let head =
            Statement { pipelines: vec![(Connector::First, vec![head])], is_background: false };
        let lists = vec![StatementList { statements: vec![head] }, self.body_until("done")?];
        Ok(SyntaxKind::Loop { variable: None, words: Vec::new(), lists })
    }

    fn choice(&mut self) -> Result<SyntaxKind, ParseProblem> {
        self.skip_blanks();
        let subject = self.word()?.ok_or("syntax error")?;
        self.skip_newlines()?;
        self.expect_word("in")?;
        let (mut patterns, mut lists) = (Vec::new(), Vec::new());
        loop {
            self.skip_newlines()?;
            if self.plain_run() == "esac" {
                self.at += 4;
                return Ok(SyntaxKind::Case { subject, patterns, lists });
            }
            self.eat("(");
            loop {
                self.skip_blanks();
                patterns.push(self.word()?.ok_or("syntax error")?);
                self.skip_blanks();
                if !self.eat("|") {
                    break;
                }
            }
            self.expect(")")?;
            let mut list = StatementList::default();
            self.deeper(|parser| parser.list(&mut list))?;
            lists.push(list);
            let is_ended = self.eat(";;&") || self.eat(";;") || self.eat(";&");
            if !is_ended && self.reserved() != Some("esac") {
                return Err("syntax error");
            }
        }
    }

    /// `[[ … ]]`. Operators are ordinary words here: nothing in it runs except substitutions.
    fn test(&mut self) -> Result<SyntaxKind, ParseProblem> {
        let mut words = Vec::new();
        loop {
            self.skip_newlines()?;
            if self.plain_run() == "]]" {
                self.at += 2;
                return Ok(SyntaxKind::Test(words));
            }
            let is_substitution = matches!(self.ahead(1), Some(b'('));
            match self.peek() {
                None | Some(b';') => return Err("syntax error"),
                Some(b'<' | b'>') if is_substitution => words.extend(self.word()?),
                Some(b'(' | b')' | b'<' | b'>' | b'|') => self.at += 1,
                Some(b'&') => self.expect("&&")?,
                Some(_) => words.push(self.word()?.ok_or("syntax error")?),
            }
        }
    }

    fn named_function(&mut self) -> Result<SyntaxKind, ParseProblem> {
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

    fn function_body(&mut self, name: String) -> Result<SyntaxKind, ParseProblem> {
        self.skip_newlines()?;
        let kind = self.deeper(Self::compound)?.ok_or("a function has no body")?;
        let redirects = self.redirects()?;
        Ok(SyntaxKind::Function { name, body: Box::new(SyntaxNode { kind, redirects }) })
    }

    /// `coproc command`, or `coproc NAME compound`.
    fn coprocess(&mut self) -> Result<SyntaxKind, ParseProblem> {
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
            Statement { pipelines: vec![(Connector::First, vec![node])], is_background: true };
        Ok(SyntaxKind::Subshell(StatementList { statements: vec![statement] }))
    }

    fn simple(&mut self) -> Result<SyntaxNode, ParseProblem> {
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
                        return Err("a reserved word in place of a command");
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
            return Err("syntax error");
        }
        Ok(SyntaxNode { kind: SyntaxKind::Simple(simple), redirects })
    }

    /// `name ()` begins a function; any other `(` after a word is an error.
    fn function_or_nothing(
        &mut self,
        simple: Simple,
        redirects: &[Redirect],
    ) -> Result<SyntaxNode, ParseProblem> {
        let is_alone = simple.assignments.is_empty() && redirects.is_empty();
        let [word] = simple.words.as_slice() else { return Err("syntax error") };
        let name = word.bare().filter(|_| is_alone).ok_or("syntax error")?.to_owned();
        self.starts.pop();
        self.expect("(")?;
        self.skip_blanks();
        self.expect(")")?;
        Ok(SyntaxNode { kind: self.function_body(name)?, redirects: Vec::new() })
    }

    /// `name=value`, `name+=value`, `name=(…)`, `name[index]=value`. Among the arguments only
    /// arrays in brackets, which `declare` and similar builtins accept.
    fn assignment(
        &mut self,
        word: &SyntaxWord,
        simple: &Simple,
    ) -> Result<Option<Assignment>, ParseProblem> {
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
        // bash reads `x=()$ touch m` as an assignment before `touch`.
        let is_over =
            matches!(self.peek(), None | Some(b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b')'));
        if !is_over {
            return Err("unexpected text after an array");
        }
        let declares = simple.words.first().and_then(SyntaxWord::bare).is_none_or(|name| {
            matches!(name, "declare" | "typeset" | "local" | "export" | "readonly")
        });
        if !declares {
            return Err("syntax error");
        }
        Ok(Some(Assignment { name, values, is_array: true, source: self.source(word.start) }))
    }

    fn redirects(&mut self) -> Result<Vec<Redirect>, ParseProblem> {
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

    /// Recognises the descriptor of a redirect that follows without a blank: `2>`, `{name}>`.
    fn descriptor(&self, word: &SyntaxWord) -> Option<Option<String>> {
        if !matches!(self.peek(), Some(b'<' | b'>')) {
            return None;
        }
        if super::quoting::is_unquoted_number(word) {
            return Some(None);
        }
        let name = word.source.strip_prefix('{')?.strip_suffix('}')?;
        super::quoting::is_name(name).then(|| Some(name.to_owned()))
    }

    fn redirect(&mut self, variable: Option<String>) -> Result<Redirect, ParseProblem> {
        const OPERATORS: &[(&str, RedirectKind)] = &[
            ("<<<", RedirectKind::Here),
            ("&>>", RedirectKind::Write),
            ("&>", RedirectKind::Write),
            (">>", RedirectKind::Write),
            (">|", RedirectKind::Write),
            (">&", RedirectKind::Duplicate),
            ("<&", RedirectKind::Duplicate),
            ("<>", RedirectKind::ReadWrite),
            (">", RedirectKind::Write),
            ("<", RedirectKind::Read),
        ];
        if !self.looks_at("<<<") && self.eat("<<") {
            return self.here_document(variable);
        }
        let (operator, how) =
            OPERATORS.iter().find(|(operator, _)| self.looks_at(operator)).ok_or("syntax error")?;
        self.at += operator.len();
        self.skip_blanks();
        let target = self.word()?.ok_or("syntax error")?;
        Ok(Redirect { how: *how, target, variable, here: None })
    }

    fn here_document(&mut self, variable: Option<String>) -> Result<Redirect, ParseProblem> {
        let strips_tabs = self.eat("-");
        self.skip_blanks();
        let target = self.word()?.ok_or("syntax error")?;
        let delimiter = target.literal().ok_or("the delimiter of a here-document is not plain")?;
        if delimiter.contains('\n') || target.source.contains(['$', '`']) {
            return Err("the delimiter of a here-document is not plain");
        }
        let body = self.bodies.len();
        self.bodies.push(SyntaxWord::default());
        let is_literal = target.source.contains(['\'', '"', '\\']);
        self.waiting.push(PendingHereDocument { body, delimiter, strips_tabs, is_literal });
        Ok(Redirect { how: RedirectKind::Here, target, variable, here: Some(body) })
    }

    /// Reads the texts of the here-documents that were opened on this line.
    fn here_texts(&mut self) -> Result<(), ParseProblem> {
        for waiting in std::mem::take(&mut self.waiting) {
            let begin = self.at;
            let end = loop {
                let line_begin = self.at;
                let rest = self.text.get(line_begin..self.end).ok_or("syntax error")?;
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
                    return Err("a line of a here-document is continued");
                }
            };
            let body = self.here_text(begin, end, waiting.is_literal)?;
            if let Some(place) = self.bodies.get_mut(waiting.body) {
                *place = body;
            }
        }
        Ok(())
    }

    fn here_text(
        &mut self,
        begin: usize,
        end: usize,
        is_literal: bool,
    ) -> Result<SyntaxWord, ParseProblem> {
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

    fn name(&mut self) -> Result<String, ParseProblem> {
        let name = self.plain_run().to_owned();
        if !super::quoting::is_name(&name) {
            return Err("syntax error");
        }
        self.at += name.len();
        Ok(name)
    }

    pub(super) fn arithmetic(&mut self, close: &str) -> Result<Arithmetic, ParseProblem> {
        self.deeper(|parser| parser.arithmetic_until(close))
    }

    /// Skips blanks, line continuations, and a comment at the end.
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

    fn skip_newlines(&mut self) -> Result<(), ParseProblem> {
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

    /// The characters up to the next one that could end a word or quote something.
    fn plain_run(&self) -> &'a str {
        let is_end = |byte: &u8| b" \t\n;&|<>()'\"\\$`".contains(byte);
        let rest = self.rest();
        let length = rest.iter().position(is_end).unwrap_or(rest.len());
        let is_complete = rest.get(length).is_none_or(|byte| !b"'\"\\$`".contains(byte));
        let run = self.text.get(self.at..self.at + length).unwrap_or_default();
        if is_complete { run } else { "" }
    }

    fn reserved(&self) -> Option<&'static str> {
        let run = self.plain_run();
        RESERVED.iter().copied().find(|word| *word == run)
    }
}
