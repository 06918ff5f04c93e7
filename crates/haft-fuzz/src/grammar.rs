//! Generates texts by the rules of `grammar.txt`.

use std::collections::HashMap;

use crate::{mutate, random::RandomSource};

/// The rules. `[name]` begins a rule, and each line below it is one alternative. `%name%` in a line
/// is replaced by another rule; `%q:name%` in single quotes, `%d:name%` in double quotes,
/// `%b:name%` in backticks. `\n` is a line break, `\t` a tab, `\\` a backslash.
const RULES: &str = include_str!("grammar.txt");

/// Beyond this depth the first alternative of a rule is used, which contains no other rule.
const MAX_DEPTH: usize = 7;

pub(crate) struct Grammar {
    rules: HashMap<&'static str, Vec<String>>,
}

impl Grammar {
    pub(crate) fn new() -> Self {
        let mut rules: HashMap<&str, Vec<String>> = HashMap::new();
        let mut name = "";
        for line in RULES.lines().filter(|line| !line.is_empty() && !line.starts_with("# ")) {
            match line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                Some(rule) if !rule.is_empty() && rule.bytes().all(|c| c.is_ascii_lowercase()) => {
                    name = rule;
                }
                _ => rules.entry(name).or_default().push(unescaped(line)),
            }
        }
        Self { rules }
    }

    pub(crate) fn text(&self, random: &mut RandomSource) -> String {
        self.expand(random, "text", 0)
    }

    /// Generates a word to insert into another text.
    pub(crate) fn word(&self, random: &mut RandomSource) -> String {
        let rule = *random.pick(&["word", "file", "option", "program"]);
        self.expand(random, rule, MAX_DEPTH - 2)
    }

    fn expand(&self, random: &mut RandomSource, rule: &str, depth: usize) -> String {
        let alternatives = self.rules.get(rule).expect("every used rule is in the file");
        let alternative =
            if depth > MAX_DEPTH { &alternatives[0] } else { random.pick(alternatives) };
        let mut text = String::new();
        let mut rest = alternative.as_str();
        while let Some((before, name, after)) = self.split(rest) {
            text.push_str(before);
            let (how, name) = name.split_once(':').unwrap_or(("", name));
            let inner = self.expand(random, name, depth + 1);
            text.push_str(&match how {
                "q" => format!("'{}'", inner.replace('\'', "'\\''")),
                "d" => format!("\"{}\"", escaped(&inner, "\"\\$`")),
                "b" => format!("`{}`", escaped(&inner, "\\`$")),
                _ if matches!(name, "file" | "program" | "option") && random.one_in(15) => {
                    mutate::requoted(random, &inner)
                }
                _ => inner,
            });
            rest = after;
        }
        text + rest
    }

    /// Returns the text before the first `%name%`, the name, and the text after it.
    fn split<'a>(&self, text: &'a str) -> Option<(&'a str, &'a str, &'a str)> {
        let mut from = 0;
        loop {
            let start = from + text.get(from..)?.find('%')?;
            let after = text.get(start + 1..)?;
            if let Some((name, rest)) = after.split_once('%') {
                let rule = name.split_once(':').map_or(name, |(_, rule)| rule);
                if self.rules.contains_key(rule) {
                    return Some((text.get(..start)?, name, rest));
                }
            }
            from = start + 1;
        }
    }
}

/// Replaces the escapes of a line in the file.
pub(crate) fn unescaped(line: &str) -> String {
    let mut text = String::new();
    let mut signs = line.chars();
    while let Some(sign) = signs.next() {
        match (sign, signs.as_str().chars().next()) {
            ('\\', Some(escaped @ ('n' | 't' | '\\'))) => {
                signs.next();
                text.push(match escaped {
                    'n' => '\n',
                    't' => '\t',
                    other => other,
                });
            }
            _ => text.push(sign),
        }
    }
    text
}

fn escaped(text: &str, signs: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        if signs.contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backslashes_are_written_twice() {
        assert_eq!(unescaped(r"x {} \\;\n\t\a"), "x {} \\;\n\t\\a");
    }

    #[test]
    fn every_used_rule_exists_and_the_first_alternatives_end() {
        let grammar = Grammar::new();
        for (name, alternatives) in &grammar.rules {
            for alternative in alternatives {
                let names = alternative.split('%').skip(1).step_by(2);
                let is_rule = |name: &&str| name.bytes().all(|c| c.is_ascii_lowercase());
                for named in names.filter(|name| name.len() > 2).filter(is_rule) {
                    assert!(grammar.rules.contains_key(named), "{name}: %{named}%");
                }
            }
        }
        for seed in 0..2000 {
            assert!(grammar.text(&mut RandomSource::new(seed)).len() < 4000);
        }
    }
}
