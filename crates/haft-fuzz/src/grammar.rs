//! Makes texts by the rules of `grammar.txt`.

use std::collections::HashMap;

use crate::{chance::Chance, mutate};

/// `[name]` begins a rule, each line below it is one way to write it; `%name%` in a line stands for another rule, `%q:name%`
/// for one in single quotes, `%d:name%` in double quotes, `%b:name%` in backticks. `\n` in a line is a line break, `\t` a tab, `\\` a backslash.
const RULES: &str = include_str!("grammar.txt");

/// Deeper than this the first way to write a rule is taken, which holds no other rule.
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

    pub(crate) fn text(&self, chance: &mut Chance) -> String {
        self.expand(chance, "text", 0)
    }

    /// A word to put into another text.
    pub(crate) fn word(&self, chance: &mut Chance) -> String {
        let rule = *chance.pick(&["word", "file", "option", "program"]);
        self.expand(chance, rule, MAX_DEPTH - 2)
    }

    fn expand(&self, chance: &mut Chance, rule: &str, depth: usize) -> String {
        let ways = self.rules.get(rule).expect("every rule that is used is in the file");
        let way = if depth > MAX_DEPTH { &ways[0] } else { chance.pick(ways) };
        let mut text = String::new();
        let mut rest = way.as_str();
        while let Some((before, name, after)) = self.split(rest) {
            text.push_str(before);
            let (how, name) = name.split_once(':').unwrap_or(("", name));
            let inner = self.expand(chance, name, depth + 1);
            text.push_str(&match how {
                "q" => format!("'{}'", inner.replace('\'', "'\\''")),
                "d" => format!("\"{}\"", escaped(&inner, "\"\\$`")),
                "b" => format!("`{}`", escaped(&inner, "\\`$")),
                _ if matches!(name, "file" | "program" | "option") && chance.one_in(15) => {
                    mutate::requoted(chance, &inner)
                }
                _ => inner,
            });
            rest = after;
        }
        text + rest
    }

    /// The text before the first `%name%`, the name, and what follows.
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

/// The line as the file means it.
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
    fn every_rule_that_is_named_is_there_and_the_first_ways_end() {
        let grammar = Grammar::new();
        for (name, ways) in &grammar.rules {
            for way in ways {
                let names = way.split('%').skip(1).step_by(2);
                let is_rule = |name: &&str| name.bytes().all(|c| c.is_ascii_lowercase());
                for named in names.filter(|name| name.len() > 2).filter(is_rule) {
                    assert!(grammar.rules.contains_key(named), "{name}: %{named}%");
                }
            }
        }
        for seed in 0..2000 {
            assert!(grammar.text(&mut Chance::new(seed)).len() < 4000);
        }
    }
}
