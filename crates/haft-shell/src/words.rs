//! From written words to the words that a program gets, as far as that can be known, and back to one spelling.

use super::{
    Certainty, Word,
    syntax::{self, Part, Quoting},
};

/// What becomes of a written word. Mostly one; `{a,b}` becomes several.
pub(super) fn resolve(word: &syntax::Word, is_fetched: bool) -> Vec<Word> {
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

/// Lists like `a{b,c}d`, not inside one another, without sequences. None for anything else.
fn expand_braces(parts: &[Part]) -> Option<Vec<Vec<Part>>> {
    const MOST: usize = 64;
    let mut words: Vec<Vec<Part>> = vec![Vec::new()];
    let mut rest = parts.iter();
    while let Some(part) = rest.next() {
        match part {
            Part::Brace('{') => {
                let mut choices: Vec<Vec<Part>> = vec![Vec::new()];
                loop {
                    match rest.next()? {
                        Part::Brace('{') => return None,
                        Part::Brace('}') => break,
                        Part::Brace(_) => choices.push(Vec::new()),
                        Part::Literal { text, .. } if text.contains("..") => return None,
                        // Where a tilde stands afterwards is not worth knowing.
                        Part::Literal { text, is_quoted: false } if text.starts_with('~') => {
                            return None;
                        }
                        other => choices.last_mut()?.push(other.clone()),
                    }
                }
                if choices.len() < 2 || choices.len() * words.len() > MOST {
                    return None;
                }
                let joined = |word: &Vec<Part>| {
                    let word = word.clone();
                    choices.clone().into_iter().map(move |choice| [word.clone(), choice].concat())
                };
                words = words.iter().flat_map(joined).collect();
            }
            Part::Brace('}') => return None,
            Part::Brace(_) => words.iter_mut().for_each(|word| word.push(comma())),
            other => words.iter_mut().for_each(|word| word.push(other.clone())),
        }
    }
    // A tilde that comes first by the list is a home directory.
    let begins_with_tilde = |word: &Vec<Part>| matches!(word.first(), Some(Part::Literal { text, is_quoted: false }) if text.starts_with('~'));
    if words.iter().any(begins_with_tilde) {
        return None;
    }
    // An empty word of a list is no word at all.
    words.retain(|word| !word.is_empty());
    Some(words)
}

fn comma() -> Part {
    Part::Literal { text: ",".to_owned(), is_quoted: false }
}

fn resolve_one(parts: &[Part], source: &str, is_fetched: bool) -> Word {
    let is_process = parts.len() == 1 && source.starts_with(['<', '>']);
    let mut word = Word { is_fetched, is_process, ..Word::default() };
    for (index, part) in parts.iter().enumerate() {
        let piece = match part {
            Part::Literal { text, .. } => text.as_str(),
            Part::Brace(',') => ",",
            Part::Brace('{') => "{",
            Part::Brace(_) => "}",
            Part::Tilde => {
                word.has_tilde = index == 0;
                // With a quote before the first slash it is a sign like any other.
                if !is_tilde_alone(parts.get(index + 1)) {
                    word.certainty = Certainty::Unknown;
                }
                "~"
            }
            Part::Glob('[') if !is_closed(parts.get(index..).unwrap_or_default()) => "[",
            Part::Glob(sign) => {
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
            Part::Expansion(_, quoting) => {
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

/// Whether a tilde before this part stands for a home directory: that of the person, or of the user who is named.
fn is_tilde_alone(next: Option<&Part>) -> bool {
    matches!(next, None | Some(Part::Literal { is_quoted: false, .. }))
}

/// Whether it looks like an assignment, in which bash takes a `~` after the `=` and after each `:` for a home directory,
/// even among the words of a command.
fn expands_later_tilde(parts: &[Part]) -> bool {
    let Some(Part::Literal { text, is_quoted: false }) = parts.first() else { return false };
    let is_assignment = text
        .split_once('=')
        .is_some_and(|(name, _)| super::quoting::is_name(name.trim_end_matches('+')));
    let has_tilde = |part: &Part| {
        let Part::Literal { text, is_quoted: false } = part else { return false };
        text.contains("=~") || text.contains(":~") || text.starts_with('~')
    };
    is_assignment && parts.iter().any(has_tilde)
}

/// A bracket without its fellow is only a sign.
fn is_closed(parts: &[Part]) -> bool {
    parts.iter().any(|part| matches!(part, Part::Literal { text, .. } if text.contains(']')))
}

/// `"$@"` is many words even in quotes.
fn is_list_variable(part: &Part) -> bool {
    let Part::Expansion(expansion, _) = part else { return false };
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

    /// Whether it could be an option, or bring one with it.
    pub(super) fn may_be_option(&self) -> bool {
        match self.certainty {
            Certainty::Exact => self.text.starts_with('-') && self.text != "-",
            Certainty::Pattern => self.prefix.is_empty() || self.prefix.starts_with('-'),
            Certainty::Unknown => {
                self.is_open || self.prefix.is_empty() || self.prefix.starts_with('-')
            }
        }
    }

    /// In the one spelling that rules see.
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

/// The words in one line.
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
