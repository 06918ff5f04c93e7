//! Parsers for scripts of sed and awk, just precise enough to prove that a script writes and runs
//! nothing.

use std::{iter::Peekable, str::Chars};

use super::{
    Word,
    options::{GivenOption, ParsedOptions, Valued},
    quoting::is_name,
};

const SED: Valued = Valued { letters: "efl", names: "expression file line-length" };
const AWK: Valued = Valued { letters: "Fvf", names: "" };

pub(super) fn sed_is_read_only(rest: &[Word]) -> bool {
    let options = ParsedOptions::scan(rest, SED);
    let names =
        "quiet silent expression regexp-extended separate unbuffered null-data posix sandbox";
    if options.is_uncertain || !options.are_all("nErsuzel", names) {
        return false;
    }
    sed_script(&options).is_some_and(|script| sed_is_harmless(&script))
}

/// The operands of sed and awk that are files: all but the script.
pub(super) fn file_operands<'a>(name: &str, rest: &'a [Word]) -> Vec<&'a Word> {
    let valued = if name == "sed" { SED } else { AWK };
    let options = ParsedOptions::scan(rest, valued);
    let is_given = options.has(&["-e", "-f"])
        || options.has_beginning_of(&["--expression", "--file", "--source"]);
    let operands =
        if is_given { options.operands.as_slice() } else { options.after_one_word() }.to_vec();
    let operands = operands.into_iter();
    // awk reads `name=value` as an assignment, but `a/b=c` as a file.
    let is_assignment =
        |word: &Word| word.prefix.split_once('=').is_some_and(|(name, _)| is_name(name));
    operands.filter(|word| name == "sed" || !is_assignment(word)).collect()
}

/// Returns true when sed edits its files.
pub(super) fn sed_edits(rest: &[Word]) -> bool {
    let options = ParsedOptions::scan(rest, SED);
    options.given.iter().any(|given| given.name == "-i" || given.name.starts_with("--i"))
}

fn sed_script(options: &ParsedOptions<'_>) -> Option<String> {
    let is_script = |given: &&GivenOption<'_>| matches!(given.name.as_str(), "-e" | "--expression");
    let mut pieces = Vec::new();
    for given in options.given.iter().filter(is_script) {
        if given.word.is_some_and(|word| word.known().is_none()) {
            return None;
        }
        pieces.push(given.value.clone()?);
    }
    if pieces.is_empty() {
        pieces.push(options.operands.first()?.known()?.to_owned());
    }
    Some(pieces.join("\n"))
}

fn sed_is_harmless(script: &str) -> bool {
    let mut sed = Sed { rest: script.chars().peekable() };
    sed.read().is_some()
}

/// Parses a script. Returns None as soon as something is not known to be harmless.
struct Sed<'a> {
    rest: Peekable<Chars<'a>>,
}

impl Sed<'_> {
    fn read(&mut self) -> Option<()> {
        loop {
            self.skip(|c| c.is_whitespace() || c == ';');
            if self.rest.peek().is_none() {
                return Some(());
            }
            self.addresses()?;
            self.command()?;
        }
    }

    fn skip(&mut self, is_skipped: impl Fn(char) -> bool) {
        while self.rest.next_if(|c| is_skipped(*c)).is_some() {}
    }

    fn addresses(&mut self) -> Option<()> {
        loop {
            match self.rest.peek().copied()? {
                '/' => {
                    self.rest.next();
                    pattern(&mut self.rest, '/')?;
                    self.skip(|c| matches!(c, 'I' | 'M'));
                }
                '0'..='9' | '$' | ',' | '~' | '+' | '!' | ' ' => {
                    self.rest.next();
                }
                _ => return Some(()),
            }
        }
    }

    fn command(&mut self) -> Option<()> {
        match self.rest.next()? {
            // Another command may follow immediately.
            '{' => return Some(()),
            '}' | '=' | 'd' | 'D' | 'g' | 'G' | 'h' | 'H' | 'n' | 'N' | 'p' | 'P' | 'x' | 'z'
            | 'l' => {}
            'q' | 'Q' => self.skip(|c| c.is_ascii_digit() || c == ' '),
            '#' => self.skip(|c| c != '\n'),
            // After the label sed continues with the next command, even without a `;`.
            ':' | 'b' | 't' | 'T' => {
                self.skip(|c| c == ' ');
                self.skip(|c| c.is_ascii_alphanumeric() || c == '_');
            }
            's' => {
                let delimiter = self.delimiter()?;
                pattern(&mut self.rest, delimiter)?;
                self.replacement(delimiter)?;
                self.skip(|c| matches!(c, 'g' | 'p' | 'i' | 'I' | 'm' | 'M') || c.is_ascii_digit());
            }
            'y' => {
                let delimiter = self.delimiter()?;
                self.replacement(delimiter)?;
                self.replacement(delimiter)?;
            }
            // A text to add ends with its line, unless it has backslashes: versions of sed disagree
            // about those.
            'a' | 'i' | 'c' => {
                self.skip(|c| c != '\n' && c != '\\');
                return self.rest.peek().is_none_or(|c| *c == '\n').then_some(());
            }
            _ => return None,
        }
        self.skip(|c| c == ' ' || c == '\t');
        matches!(self.rest.peek(), None | Some(';' | '\n' | '}' | '#')).then_some(())
    }

    fn delimiter(&mut self) -> Option<char> {
        self.rest.next().filter(|c| c.is_ascii_punctuation() && !matches!(c, '\\' | '[' | ']'))
    }

    fn replacement(&mut self, delimiter: char) -> Option<()> {
        loop {
            match self.rest.next()? {
                '\\' => {
                    self.rest.next()?;
                }
                c if c == delimiter => return Some(()),
                _ => {}
            }
        }
    }
}

/// Reads up to the delimiter of a regular expression. None where programs disagree: a delimiter or
/// a backslash in brackets, which some read as the end and others as an ordinary character.
fn pattern(rest: &mut Peekable<Chars<'_>>, delimiter: char) -> Option<()> {
    loop {
        match rest.next()? {
            '\\' => {
                rest.next().filter(|c| *c != '\n')?;
            }
            '\n' => return None,
            '[' => brackets(rest, delimiter)?,
            c if c == delimiter => return Some(()),
            _ => {}
        }
    }
}

/// Reads `[^]a-z[:space:]]` after its first bracket.
fn brackets(rest: &mut Peekable<Chars<'_>>, delimiter: char) -> Option<()> {
    rest.next_if_eq(&'^');
    rest.next_if_eq(&']');
    loop {
        match rest.next()? {
            ']' => return Some(()),
            '\\' | '\n' => return None,
            c if c == delimiter => return None,
            '[' => {
                let Some(kind) = rest.next_if(|c| matches!(c, ':' | '.' | '=')) else { continue };
                while rest.next_if(|c| c.is_ascii_alphanumeric() || *c == '-').is_some() {}
                (rest.next() == Some(kind) && rest.next() == Some(']')).then_some(())?;
            }
            _ => {}
        }
    }
}

pub(super) fn awk_is_read_only(rest: &[Word]) -> bool {
    let options = ParsedOptions::scan(rest, AWK);
    if options.is_uncertain || !options.are_all("Fv", "version") {
        return false;
    }
    options.operands.first().and_then(|word| word.known()).is_some_and(awk_is_harmless)
}

/// Accepts programs without pipes, output to files, commands, or files other than the named ones.
fn awk_is_harmless(program: &str) -> bool {
    let Some(bare) = without_literals(program) else { return false };
    let mut words = bare.split(|c: char| !is_of_word(c));
    const HARMFUL: &[&str] =
        &["system", "getline", "ARGV", "ARGC", "ENVIRON", "PROCINFO", "extension", "close"];
    let is_harmful = words.any(|word| HARMFUL.contains(&word));
    let pipes = bare.replace("||", "");
    if is_harmful || pipes.contains('|') || bare.contains('@') {
        return false;
    }
    // Output goes to a file when the statement has a `>`, and the statement may continue on the
    // next line.
    let mut statements = bare.split([';', '}', '{']).flat_map(lines);
    !statements.any(|statement| statement.contains("print") && statement.contains('>'))
}

fn is_of_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The lines of a program, joined with their continuations.
fn lines(text: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for line in text.split('\n') {
        // A comma or an operator joins the next line here. That joins more lines than awk does,
        // which is the safe direction.
        let goes_on = |last: &String| {
            last.trim_end().is_empty()
                || !last.trim_end().ends_with(|c: char| is_of_word(c) || c == ')')
        };
        match all.last_mut().filter(|last| goes_on(last)) {
            Some(last) => {
                last.push(' ');
                last.push_str(line);
            }
            None => all.push(line.to_owned()),
        }
    }
    all
}

/// The program with its strings and patterns emptied. None when they are ambiguous.
fn without_literals(program: &str) -> Option<String> {
    let mut bare = String::new();
    let mut rest = program.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' => string(&mut rest)?,
            '/' if begins_pattern(&bare)? => pattern(&mut rest, '/')?,
            '#' | '\\' => return None,
            _ => {
                bare.push(c);
                continue;
            }
        }
        bare.push('0');
    }
    Some(bare)
}

/// Returns true when a slash after this begins a pattern, and false when it divides. None when it
/// could be either.
fn begins_pattern(before: &str) -> Option<bool> {
    const KEYWORDS: &[&str] =
        &["print", "printf", "return", "in", "else", "do", "case", "exit", "delete", "while", "if"];
    let before = before.trim_end_matches([' ', '\t']);
    let Some(last) = before.chars().next_back() else { return Some(true) };
    if "(,{};!~&|\n=".contains(last) {
        return Some(true);
    }
    // After the condition of a statement a pattern begins; after any other bracket the slash
    // divides.
    if last == ')' && ends_condition(before)? {
        return None;
    }
    let word = before.rsplit(|c| !is_of_word(c)).next().unwrap_or_default();
    let divides = matches!(last, ')' | ']') || is_of_word(last) && !KEYWORDS.contains(&word);
    divides.then_some(false)
}

/// Returns true when the bracket at the end closes the condition of `if`, `while`, `for` or
/// `switch`. None when it closes nothing.
fn ends_condition(before: &str) -> Option<bool> {
    let mut depth = 0_usize;
    for (index, c) in before.char_indices().rev() {
        match c {
            ')' => depth += 1,
            '(' if depth == 1 => {
                let head = before.get(..index)?.trim_end();
                let word = head.rsplit(|c| !is_of_word(c)).next().unwrap_or_default();
                return Some(matches!(word, "if" | "while" | "for" | "switch"));
            }
            '(' => depth -= 1,
            _ => {}
        }
    }
    None
}

fn string(rest: &mut Peekable<Chars<'_>>) -> Option<()> {
    loop {
        match rest.next()? {
            '\\' => {
                rest.next()?;
            }
            '\n' => return None,
            '"' => return Some(()),
            _ => {}
        }
    }
}
