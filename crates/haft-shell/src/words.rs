//! Turns source words into the words that a program gets, as far as they can be known, and back
//! into a normalized spelling.

use super::{
    Certainty, Word,
    syntax::{self, Quoting, WordPart},
};

/// Resolves a source word. Usually to one word; `{a,b}` becomes several.
pub(super) fn resolve(word: &syntax::SyntaxWord, is_fetched: bool) -> Vec<Word> {
    if !word.has_braces() {
        return vec![resolve_one(&word.parts, &word.source, is_fetched)];
    }
    let words = expand_braces(&word.parts).unwrap_or_default();
    if words.is_empty() {
        let text = word.source.clone();
        return vec![Word {
            text,
            certainty: Certainty::Unknown,
            is_open: true,
            ..Word::default()
        }];
    }
    words.iter().map(|parts| resolve_one(parts, &word.source, is_fetched)).collect()
}

/// Expands lists like `a{b,c}d` that are not nested and have no sequences. None for anything else.
fn expand_braces(parts: &[WordPart]) -> Option<Vec<Vec<WordPart>>> {
    const MAX_WORDS: usize = 64;
    let mut words: Vec<Vec<WordPart>> = vec![Vec::new()];
    let mut rest = parts.iter();
    while let Some(part) = rest.next() {
        match part {
            WordPart::Brace('{') => {
                let mut choices: Vec<Vec<WordPart>> = vec![Vec::new()];
                loop {
                    match rest.next()? {
                        WordPart::Brace('{') => return None,
                        WordPart::Brace('}') => break,
                        WordPart::Brace(_) => choices.push(Vec::new()),
                        WordPart::Literal { text, .. } if text.contains("..") => return None,
                        // Not worth supporting: a tilde after expansion.
                        WordPart::Literal { text, is_quoted: false } if text.starts_with('~') => {
                            return None;
                        }
                        other => choices.last_mut()?.push(other.clone()),
                    }
                }
                if choices.len() < 2 || choices.len() * words.len() > MAX_WORDS {
                    return None;
                }
                let joined = |word: &Vec<WordPart>| {
                    let word = word.clone();
                    choices.clone().into_iter().map(move |choice| [word.clone(), choice].concat())
                };
                words = words.iter().flat_map(joined).collect();
            }
            WordPart::Brace('}') => return None,
            WordPart::Brace(_) => words.iter_mut().for_each(|word| word.push(comma())),
            other => words.iter_mut().for_each(|word| word.push(other.clone())),
        }
    }
    // A tilde that the expansion puts first is a home directory.
    let begins_with_tilde = |word: &Vec<WordPart>| matches!(word.first(), Some(WordPart::Literal { text, is_quoted: false }) if text.starts_with('~'));
    if words.iter().any(begins_with_tilde) {
        return None;
    }
    // An empty word of a list is dropped.
    words.retain(|word| !word.is_empty());
    Some(words)
}

fn comma() -> WordPart {
    WordPart::Literal { text: ",".to_owned(), is_quoted: false }
}

fn resolve_one(parts: &[WordPart], source: &str, is_fetched: bool) -> Word {
    let is_process = parts.len() == 1 && source.starts_with(['<', '>']);
    let mut word = Word { is_fetched, is_process, ..Word::default() };
    for (index, part) in parts.iter().enumerate() {
        let piece = match part {
            WordPart::Literal { text, .. } => text.as_str(),
            WordPart::Brace(',') => ",",
            WordPart::Brace('{') => "{",
            WordPart::Brace(_) => "}",
            WordPart::Tilde => {
                word.has_tilde = index == 0;
                // With a quote before the first slash it is an ordinary character.
                if !is_tilde_alone(parts.get(index + 1)) {
                    word.certainty = Certainty::Unknown;
                }
                "~"
            }
            WordPart::Glob('[') if !is_closed(parts.get(index..).unwrap_or_default()) => "[",
            WordPart::Glob(sign) => {
                word.certainty = if word.certainty == Certainty::Unknown {
                    Certainty::Unknown
                } else {
                    Certainty::Pattern
                };
                word.is_open = true;
                match sign {
                    '*' => "*",
                    '?' => "?",
                    _ => "[",
                }
            }
            WordPart::Expansion(_, quoting) => {
                word.certainty = Certainty::Unknown;
                word.is_open |= *quoting == Quoting::Bare || is_list_variable(part);
                ""
            }
        };
        word.text.push_str(piece);
        if word.certainty == Certainty::Exact {
            word.prefix.push_str(piece);
        }
    }
    if expands_later_tilde(parts) {
        word.certainty = Certainty::Unknown;
        word.prefix = word.prefix.split('~').next().unwrap_or_default().to_owned();
    }
    if word.certainty == Certainty::Unknown {
        source.clone_into(&mut word.text);
    }
    word
}

/// Returns true when a tilde before this part stands for a home directory: the current user's or a
/// named user's.
fn is_tilde_alone(next: Option<&WordPart>) -> bool {
    matches!(next, None | Some(WordPart::Literal { is_quoted: false, .. }))
}

/// Returns true when it looks like an assignment, in which bash expands a `~` after the `=` and
/// after each `:`, even among the arguments of a command.
fn expands_later_tilde(parts: &[WordPart]) -> bool {
    let Some(WordPart::Literal { text, is_quoted: false }) = parts.first() else { return false };
    let is_assignment = text
        .split_once('=')
        .is_some_and(|(name, _)| super::quoting::is_name(name.trim_end_matches('+')));
    let has_tilde = |part: &WordPart| {
        let WordPart::Literal { text, is_quoted: false } = part else { return false };
        text.contains("=~") || text.contains(":~") || text.starts_with('~')
    };
    is_assignment && parts.iter().any(has_tilde)
}

/// An unclosed bracket is an ordinary character.
fn is_closed(parts: &[WordPart]) -> bool {
    parts.iter().any(|part| matches!(part, WordPart::Literal { text, .. } if text.contains(']')))
}

/// `"$@"` is several words even in quotes.
fn is_list_variable(part: &WordPart) -> bool {
    let WordPart::Expansion(expansion, _) = part else { return false };
    expansion.variable.as_deref() == Some("@")
        || !expansion.arithmetic.is_empty() && !expansion.is_number
        || !expansion.words.is_empty()
}

impl Word {
    pub(super) fn exact(text: &str) -> Self {
        Self { text: text.to_owned(), prefix: text.to_owned(), ..Self::default() }
    }

    pub(super) fn unknown(text: &str) -> Self {
        Self { text: quote(text), certainty: Certainty::Unknown, is_open: true, ..Self::default() }
    }

    /// The text, when it is certain.
    pub(super) fn known(&self) -> Option<&str> {
        (self.certainty == Certainty::Exact).then_some(self.text.as_str())
    }

    pub(super) fn is(&self, text: &str) -> bool {
        self.known() == Some(text)
    }

    /// Returns true when it could be an option, or expand to one.
    pub(super) fn may_be_option(&self) -> bool {
        match self.certainty {
            Certainty::Exact => self.text.starts_with('-') && self.text != "-",
            Certainty::Pattern => self.prefix.is_empty() || self.prefix.starts_with('-'),
            Certainty::Unknown => {
                self.is_open || self.prefix.is_empty() || self.prefix.starts_with('-')
            }
        }
    }

    /// The normalized spelling that rules match.
    pub(super) fn spelled(&self) -> String {
        match self.certainty {
            Certainty::Exact if self.has_tilde => self.text.clone(),
            Certainty::Exact => quote(&self.text),
            Certainty::Pattern | Certainty::Unknown => self.text.clone(),
        }
    }
}

fn quote(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "_-./:=@%+,^".contains(c);
    if !text.is_empty() && (text.chars().all(is_plain) || matches!(text, "{}" | "[" | "]")) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The words on one line.
pub(super) fn line(words: &[Word]) -> String {
    let mut line = String::new();
    for word in words {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&word.spelled());
    }
    line
}
