//! Splits command lines into options, their values, and operands.

use super::{Word, is_one_of};

/// The words after a program's name.
#[derive(Debug, Default)]
pub(super) struct ParsedOptions<'a> {
    /// `-n` or `--lines`, with its value if it takes one.
    pub(super) given: Vec<GivenOption<'a>>,
    pub(super) operands: Vec<&'a Word>,
    /// True when some word may or may not be an option.
    pub(super) is_uncertain: bool,
    /// True when an option follows an operand, where some programs read it as a file.
    pub(super) has_late_option: bool,
}

#[derive(Debug)]
pub(super) struct GivenOption<'a> {
    pub(super) name: String,
    pub(super) value: Option<String>,
    /// The value, when it is a separate word.
    pub(super) word: Option<&'a Word>,
}

impl GivenOption<'_> {
    /// Returns true for an abbreviation of one of the names, which most programs accept.
    pub(super) fn is_beginning_of(&self, names: &[&str]) -> bool {
        self.name.len() > 2 && names.iter().any(|name| name.starts_with(&self.name))
    }
}

/// The options that take a value: letters, and long names separated by blanks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Valued {
    pub(super) letters: &'static str,
    pub(super) names: &'static str,
}

impl<'a> ParsedOptions<'a> {
    pub(super) fn scan(words: &'a [Word], valued: Valued) -> Self {
        let mut options = Self::default();
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            options.has_late_option |= word.may_be_option() && !options.operands.is_empty();
            match word.known() {
                Some("--") => {
                    options.operands.extend(rest);
                    break;
                }
                Some(text) if text.starts_with("--") => {
                    options.long(text, valued, &mut rest);
                }
                Some(text) if text.starts_with('-') && text.len() > 1 => {
                    options.short(text, valued, &mut rest);
                }
                Some(_) => options.operands.push(word),
                None => {
                    options.is_uncertain |= word.may_be_option();
                    options.operands.push(word);
                }
            }
        }
        options
    }

    fn long(&mut self, text: &str, valued: Valued, rest: &mut std::slice::Iter<'a, Word>) {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text, None),
        };
        let bare = name.trim_start_matches('-');
        let takes = value.is_none() && is_one_of(valued.names, bare);
        let word = if takes { rest.next() } else { None };
        self.is_uncertain |= word.is_some_and(|word| word.is_open);
        let value = value.or_else(|| word.map(|word| word.text.clone()));
        self.given.push(GivenOption { name: name.to_owned(), value, word });
    }

    fn short(&mut self, text: &str, valued: Valued, rest: &mut std::slice::Iter<'a, Word>) {
        for (index, letter) in text.char_indices().skip(1) {
            let name = format!("-{letter}");
            if !valued.letters.contains(letter) {
                self.given.push(GivenOption { name, value: None, word: None });
                continue;
            }
            let attached = text.get(index + letter.len_utf8()..).unwrap_or_default();
            let word = if attached.is_empty() { rest.next() } else { None };
            self.is_uncertain |= word.is_some_and(|word| word.is_open);
            let value = match word {
                Some(word) => Some(word.text.clone()),
                None => Some(attached.to_owned()),
            };
            self.given.push(GivenOption { name, value, word });
            return;
        }
    }

    /// Returns true when one of these long options is given, possibly abbreviated.
    pub(super) fn has_beginning_of(&self, names: &[&str]) -> bool {
        self.given.iter().any(|given| given.is_beginning_of(names))
    }

    /// Returns the operands after a first one that is not a file, such as grep's pattern. An
    /// unquoted pattern may become several words, and all but the first of them are files.
    pub(super) fn after_one_word(&self) -> &[&'a Word] {
        let is_one = self.operands.first().is_some_and(|word| !word.is_open);
        self.operands.get(usize::from(is_one)..).unwrap_or_default()
    }

    pub(super) fn has(&self, names: &[&str]) -> bool {
        self.given.iter().any(|given| names.contains(&given.name.as_str()))
    }

    /// Returns true when every option is one of the letters or names.
    pub(super) fn are_all(&self, letters: &str, names: &str) -> bool {
        self.given.iter().all(|given| match given.name.strip_prefix("--") {
            Some(name) => is_one_of(names, name),
            None => given.name.chars().nth(1).is_some_and(|letter| letters.contains(letter)),
        })
    }
}
