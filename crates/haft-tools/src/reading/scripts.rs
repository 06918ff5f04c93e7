//! The little languages of sed and awk, read closely enough to know that a script writes and runs nothing.

use super::{
    Word,
    options::{Given, Options, Valued},
};

const SED: Valued = Valued { letters: "efl", names: "expression file line-length" };
const AWK: Valued = Valued { letters: "Fvf", names: "" };

pub(super) fn sed_only_looks(rest: &[Word]) -> bool {
    let options = Options::scan(rest, SED);
    let names =
        "quiet silent expression regexp-extended separate unbuffered null-data posix sandbox";
    if options.is_uncertain || !options.are_all("nErsuzel", names) {
        return false;
    }
    sed_script(&options).is_some_and(|script| sed_is_harmless(&script))
}

/// The words of sed and awk that are files: all but the script.
pub(super) fn file_operands<'a>(name: &str, rest: &'a [Word]) -> Vec<&'a Word> {
    let valued = if name == "sed" { SED } else { AWK };
    let options = Options::scan(rest, valued);
    let is_given = options.has(&["-e", "-f", "--expression", "--file"]);
    let operands = options.operands.into_iter().skip(usize::from(!is_given));
    // awk takes `name=value` for an assignment.
    operands.filter(|word| name == "sed" || !word.prefix.contains('=')).collect()
}

/// Whether sed changes its files.
pub(super) fn sed_edits(rest: &[Word]) -> bool {
    let options = Options::scan(rest, SED);
    options.given.iter().any(|given| given.name == "-i" || given.name.starts_with("--i"))
}

fn sed_script(options: &Options<'_>) -> Option<String> {
    let is_script = |given: &&Given<'_>| matches!(given.name.as_str(), "-e" | "--expression");
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

/// Reads a script; None as soon as something is not known to be harmless.
struct Sed<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
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
                    self.until('/', true)?;
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
            '{' | '}' | '=' | 'd' | 'D' | 'g' | 'G' | 'h' | 'H' | 'n' | 'N' | 'p' | 'P' | 'x'
            | 'z' | 'l' => {}
            'q' | 'Q' => self.skip(|c| c.is_ascii_digit() || c == ' '),
            '#' => self.skip(|c| c != '\n'),
            ':' | 'b' | 't' | 'T' => {
                self.skip(|c| c == ' ' || c.is_ascii_alphanumeric() || c == '_');
            }
            's' => {
                let delimiter = self.delimiter()?;
                self.until(delimiter, true)?;
                self.until(delimiter, false)?;
                self.skip(|c| matches!(c, 'g' | 'p' | 'i' | 'I' | 'm' | 'M') || c.is_ascii_digit());
            }
            'y' => {
                let delimiter = self.delimiter()?;
                self.until(delimiter, false)?;
                self.until(delimiter, false)?;
            }
            // Texts to add go to the end of the line; only the plain form is read.
            'a' | 'i' | 'c' => {
                while let Some(c) = self.rest.next_if(|c| *c != '\n') {
                    if c == '\\' {
                        self.rest.next();
                    }
                }
            }
            _ => return None,
        }
        self.skip(|c| c == ' ' || c == '\t');
        match self.rest.peek() {
            None | Some(';' | '\n' | '}' | '{' | '#') => Some(()),
            // After `{` a command may follow at once.
            Some(_) => self.after_brace(),
        }
    }

    fn after_brace(&mut self) -> Option<()> {
        self.addresses()?;
        self.command()
    }

    fn delimiter(&mut self) -> Option<char> {
        self.rest.next().filter(|c| c.is_ascii_punctuation() && *c != '\\')
    }

    /// Up to the delimiter. One inside brackets ends the expression in some seds and not in others.
    fn until(&mut self, delimiter: char, is_pattern: bool) -> Option<()> {
        let mut is_in_brackets = false;
        loop {
            match self.rest.next()? {
                '\\' => {
                    self.rest.next()?;
                }
                c if c == delimiter => return (!is_in_brackets).then_some(()),
                '[' if is_pattern => is_in_brackets = true,
                ']' => is_in_brackets = false,
                _ => {}
            }
        }
    }
}

pub(super) fn awk_only_looks(rest: &[Word]) -> bool {
    let options = Options::scan(rest, AWK);
    if options.is_uncertain || !options.are_all("Fv", "version") {
        return false;
    }
    options.operands.first().and_then(|word| word.known()).is_some_and(awk_is_harmless)
}

/// No pipes, no output to files, no commands, no other files than those named.
fn awk_is_harmless(program: &str) -> bool {
    let Some(bare) = without_literals(program) else { return false };
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut words = bare.split(|c: char| !is_word(c));
    const HARMFUL: &[&str] =
        &["system", "getline", "ARGV", "ARGC", "ENVIRON", "PROCINFO", "extension", "close"];
    let is_harmful = words.any(|word| HARMFUL.contains(&word));
    let pipes = bare.replace("||", "");
    if is_harmful || pipes.contains('|') || bare.contains('@') {
        return false;
    }
    // What is printed goes to a file when a `>` stands in the statement.
    let mut statements = bare.split([';', '}', '{', '\n']);
    !statements.any(|statement| statement.contains("print") && statement.contains('>'))
}

/// The program with its strings and patterns emptied. None when it is not clear what is one.
fn without_literals(program: &str) -> Option<String> {
    let mut bare = String::new();
    let mut characters = program.chars();
    while let Some(c) = characters.next() {
        let before = bare.trim_end().chars().next_back();
        let may_begin_pattern = before.is_none_or(|c| "(,{};!~&|\n=".contains(c));
        match c {
            '"' => skip_literal(&mut characters, '"')?,
            '/' if may_begin_pattern => skip_literal(&mut characters, '/')?,
            '#' => return None,
            '\\' => return None,
            _ => {
                bare.push(c);
                continue;
            }
        }
        bare.push('0');
    }
    Some(bare)
}

fn skip_literal(characters: &mut std::str::Chars<'_>, close: char) -> Option<()> {
    let mut is_in_brackets = false;
    loop {
        match characters.next()? {
            '\\' => {
                characters.next()?;
            }
            '\n' => return None,
            c if c == close => return (!is_in_brackets).then_some(()),
            '[' if close == '/' => is_in_brackets = true,
            ']' => is_in_brackets = false,
            _ => {}
        }
    }
}
