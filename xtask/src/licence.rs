//! SPDX licence expressions, read far enough to ask whether an allow-list satisfies them.

use anyhow::{Result, bail};

/// Whether some choice among the `OR`s needs only allowed licences. `/` is how crates wrote `OR`
/// before SPDX.
pub(crate) fn satisfied(expression: &str, allow: &[String]) -> Result<bool> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut reader = Reader { words: spaced.split_whitespace().collect(), next: 0, allow };
    let verdict = reader.either()?;
    match reader.peek() {
        None => Ok(verdict),
        Some(word) => bail!("unexpected `{word}` in the licence expression `{expression}`"),
    }
}

struct Reader<'a> {
    words: Vec<&'a str>,
    next: usize,
    allow: &'a [String],
}

impl Reader<'_> {
    fn peek(&self) -> Option<&str> {
        self.words.get(self.next).copied()
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.peek() == Some(word);
        self.next += usize::from(found);
        found
    }

    // `|=` and not `||`: the right side must be read even when the left has decided.
    fn either(&mut self) -> Result<bool> {
        let mut verdict = self.both()?;
        while self.take("OR") {
            verdict |= self.both()?;
        }
        Ok(verdict)
    }

    fn both(&mut self) -> Result<bool> {
        let mut verdict = self.one()?;
        while self.take("AND") {
            verdict &= self.one()?;
        }
        Ok(verdict)
    }

    fn one(&mut self) -> Result<bool> {
        if self.take("(") {
            let verdict = self.either()?;
            if !self.take(")") {
                bail!("a `(` is not closed in a licence expression");
            }
            return Ok(verdict);
        }
        let mut licence = self.name()?;
        if self.take("WITH") {
            licence = format!("{licence} WITH {}", self.name()?);
        }
        Ok(self.allow.contains(&licence))
    }

    fn name(&mut self) -> Result<String> {
        match self.peek() {
            None | Some("OR" | "AND" | "WITH" | "(" | ")") => {
                bail!("a licence name is missing in an expression")
            }
            Some(word) => {
                let name = word.to_owned();
                self.next += 1;
                Ok(name)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(expression: &str, expected: bool) {
        let allow = ["MIT", "Unicode-3.0", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned);
        assert_eq!(satisfied(expression, &allow).unwrap(), expected, "{expression}");
    }

    #[test]
    fn one_allowed_alternative_is_enough() {
        check("MIT", true);
        check("GPL-3.0-only", false);
        check("GPL-3.0-only OR MIT", true);
        check("MIT/Apache-2.0", true);
        check("Apache-2.0/GPL-2.0", false);
    }

    #[test]
    fn both_sides_of_and_are_needed_and_and_binds_tighter() {
        check("MIT AND Unicode-3.0", true);
        check("MIT AND ISC", false);
        check("ISC AND Zlib OR MIT", true);
        check("ISC AND (Zlib OR MIT)", false);
        check("(MIT OR Apache-2.0) AND Unicode-3.0", true);
    }

    #[test]
    fn an_exception_belongs_to_its_licence() {
        check("Apache-2.0 WITH LLVM-exception", true);
        check("Apache-2.0", false);
        check("MIT WITH Classpath-exception-2.0", false);
    }

    #[test]
    fn what_does_not_parse_is_an_error_and_never_a_yes() {
        for broken in ["", "MIT OR", "(MIT", "MIT)", "MIT Apache-2.0", "OR MIT", "MIT WITH"] {
            assert!(satisfied(broken, &["MIT".to_owned()]).is_err(), "{broken}");
        }
    }
}
