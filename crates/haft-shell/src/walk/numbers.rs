//! Arithmetic: bash evaluates the text of the variables in it, including commands in subscripts, so
//! only variables that plainly hold numbers raise no doubt.

use super::{
    super::syntax::{self, Arithmetic, WordPart},
    Walker, environment,
};

impl Walker<'_> {
    /// `[[ … ]]`: the commands in its words, and the variables that it evaluates as numbers.
    pub(super) fn test(&mut self, words: &[syntax::SyntaxWord], through: &[String]) {
        const COUNTING: &[&str] = &["-eq", "-ne", "-lt", "-le", "-gt", "-ge"];
        for (index, word) in words.iter().enumerate() {
            self.expand(word, through);
            let is_counting = |at: Option<usize>| {
                at.and_then(|at| words.get(at))
                    .and_then(syntax::SyntaxWord::bare)
                    .is_some_and(|text| COUNTING.contains(&text))
            };
            if is_counting(Some(index + 1)) || is_counting(index.checked_sub(1)) {
                self.counted_with(word);
            }
            if matches!(word.bare(), Some("-v" | "-R")) {
                self.doubt(&word.source, "the variable name may contain a command");
            }
        }
    }

    pub(super) fn counted_with(&mut self, word: &syntax::SyntaxWord) {
        if is_number(word) {
            return;
        }
        match word.parts.as_slice() {
            [WordPart::Expansion(expansion, _)] if expansion.variable.is_some() => {
                let name = expansion.variable.clone().unwrap_or_default();
                self.count(&name);
            }
            _ => self.doubt(&word.source, "arithmetic may run commands in the variable's value"),
        }
    }

    pub(super) fn count(&mut self, name: &str) {
        if !self.numbers.contains(name) {
            self.doubt(name, "arithmetic may run commands in the variable's value");
        }
        self.counted.insert(name.to_owned());
    }

    /// Returns true when a word is a variable that holds a number, which is one word and never an
    /// option.
    pub(super) fn holds_number(&mut self, word: &syntax::SyntaxWord) -> bool {
        let [WordPart::Expansion(expansion, _)] = word.parts.as_slice() else { return false };
        let Some(name) = &expansion.variable else { return expansion.is_number };
        let is_known = self.numbers.contains(name);
        if is_known {
            self.counted.insert(name.clone());
        }
        is_known || expansion.is_number
    }

    pub(super) fn arithmetic(&mut self, arithmetic: &Arithmetic, through: &[String]) {
        self.lists.extend(arithmetic.lists.iter().cloned());
        for name in &arithmetic.assigned {
            self.assigned(name, true);
        }
        for name in &arithmetic.names {
            self.count(name);
        }
        for part in &arithmetic.parts {
            let WordPart::Expansion(expansion, _) = part else { continue };
            self.expansion(expansion, through);
            match &expansion.variable {
                _ if expansion.is_number => {}
                Some(name) => self.count(name),
                None => {
                    self.doubt("arithmetic", "arithmetic may run commands in the variable's value")
                }
            }
        }
    }

    pub(super) fn assigned(&mut self, name: &str, is_number: bool) {
        if environment::is_risky(name) {
            self.doubt(name, "this variable changes what later commands do");
        }
        self.sets_locale |= environment::is_locale(name);
        let known = if is_number { &mut self.numbers } else { &mut self.not_numbers };
        if !known.contains(name) {
            known.insert(name.to_owned());
        }
    }
}

pub(super) fn is_number(word: &syntax::SyntaxWord) -> bool {
    match word.parts.as_slice() {
        [WordPart::Expansion(expansion, _)] => expansion.is_number,
        // The value of an assignment begins with the part after the `=`.
        [WordPart::Literal { text, .. }, WordPart::Expansion(expansion, _)] if text.is_empty() => {
            expansion.is_number
        }
        _ => word
            .literal()
            .is_some_and(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())),
    }
}
