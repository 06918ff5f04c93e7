//! Makes new texts out of known ones, and shorter ones out of a text that fails.

use crate::chance::Chance;

const SIGNS: &[&str] = &[
    "'", "\"", "\\", "$", "`", "(", ")", "{", "}", "[", "]", "<", ">", "|", "&", ";", "\n", " ",
    "#", "!", "*", "?", "=", "~", ",", "-", "\\\n", "((", "))", "$(", "${", "<<", "é", "漢", ">>",
    "\t", "1", "a", "/", ".", "..", "@", "^", "%", ":", "+", "--", " -- ", "$'", "$\"", "\\\"",
];

/// A text with a few changes, by itself or with pieces of another.
pub(crate) fn mutated(chance: &mut Chance, text: &str, other: &str, word: &str) -> String {
    let mut tokens = tokens(text);
    for _ in 0..=chance.below(3) {
        let at = chance.below(tokens.len() + 1);
        let is_inside = at < tokens.len();
        match chance.below(8) {
            0 => tokens.insert(at, (*chance.pick(SIGNS)).to_owned()),
            1 if is_inside => drop(tokens.remove(at)),
            2 if is_inside => tokens[at] = (*chance.pick(SIGNS)).to_owned(),
            3 if is_inside => tokens[at] = requoted(chance, &tokens[at]),
            4 => tokens.insert(at, format!(" {word} ")),
            5 if is_inside && tokens[at].trim() != "" => word.clone_into(&mut tokens[at]),
            6 => {
                let others = self::tokens(other);
                let start = chance.below(others.len() + 1);
                let end = start + chance.below(others.len() - start + 1);
                tokens.splice(at..at, others[start..end].iter().cloned());
            }
            _ if tokens.len() > 1 => {
                let with = chance.below(tokens.len());
                tokens.swap(at.min(with), with);
            }
            _ => {}
        }
    }
    tokens.concat()
}

/// The same word in another spelling, mostly.
pub(crate) fn requoted(chance: &mut Chance, word: &str) -> String {
    let middle = word.char_indices().nth(word.chars().count() / 2).map_or(0, |(at, _)| at);
    let (begin, end) = word.split_at(middle);
    match chance.below(8) {
        0 => format!("'{word}'"),
        1 => format!("\"{word}\""),
        2 => format!("$'{word}'"),
        3 => format!("{begin}''{end}"),
        4 => format!("{begin}\\{end}"),
        5 => format!("{begin}\"{end}\""),
        6 => format!("{begin}\\\n{end}"),
        _ => format!("$\"{word}\""),
    }
}

/// Every text that lacks one piece of this one, the larger pieces first.
pub(crate) fn shorter(text: &str) -> Vec<String> {
    let tokens = tokens(text);
    let mut found = Vec::new();
    let mut size = tokens.len() / 2;
    while size > 0 {
        for start in 0..=tokens.len() - size {
            let (before, rest) = tokens.split_at(start);
            found.push(before.concat() + &rest[size..].concat());
        }
        size = if size > 8 { size / 2 } else { size - 1 };
    }
    if tokens.len() <= 12 {
        found.extend(text.char_indices().map(|(at, c)| {
            let (before, after) = text.split_at(at);
            before.to_owned() + after.strip_prefix(c).unwrap_or_default()
        }));
    }
    found.retain(|shorter| !shorter.trim().is_empty());
    found.dedup();
    found
}

/// Runs of letters, runs of spaces, and every other sign by itself.
fn tokens(text: &str) -> Vec<String> {
    let kind = |c: char| match c {
        c if c.is_alphanumeric() || "_.-/".contains(c) => 0,
        ' ' => 1,
        _ => 2,
    };
    let mut tokens: Vec<String> = Vec::new();
    let mut last = 2;
    for c in text.chars() {
        let this = kind(c);
        match tokens.last_mut().filter(|_| this == last && this != 2) {
            Some(token) => token.push(c),
            None => tokens.push(c.to_string()),
        }
        last = this;
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_words_spaces_and_single_signs() {
        assert_eq!(tokens("cat  'a.txt'>>x"), ["cat", "  ", "'", "a.txt", "'", ">", ">", "x"]);
    }

    #[test]
    fn shorter_texts_lack_something() {
        let all = shorter("cat a;ls");
        assert!(
            all.contains(&"cat a".to_owned()) && all.contains(&"cat ;ls".to_owned()),
            "{all:?}"
        );
        assert!(all.iter().all(|text| text.len() < "cat a;ls".len()));
    }

    #[test]
    fn the_same_seed_changes_alike() {
        let make = |seed| mutated(&mut Chance::new(seed), "cat a.txt | wc -l", "ls -la", "b.txt");
        assert_eq!(make(1), make(1));
        assert!((0..50).any(|seed| make(seed) != make(1)));
    }
}
