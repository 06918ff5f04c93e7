//! Mutates known texts, and shortens a text that fails.

use crate::random::RandomSource;

const SIGNS: &[&str] = &[
    "'", "\"", "\\", "$", "`", "(", ")", "{", "}", "[", "]", "<", ">", "|", "&", ";", "\n", " ",
    "#", "!", "*", "?", "=", "~", ",", "-", "\\\n", "((", "))", "$(", "${", "<<", "é", "漢", ">>",
    "\t", "1", "a", "/", ".", "..", "@", "^", "%", ":", "+", "--", " -- ", "$'", "$\"", "\\\"",
];

/// Returns a text with a few changes, with pieces of another text or without.
pub(crate) fn mutated(random: &mut RandomSource, text: &str, other: &str, word: &str) -> String {
    let mut tokens = tokens(text);
    for _ in 0..=random.below(3) {
        let at = random.below(tokens.len() + 1);
        let is_inside = at < tokens.len();
        match random.below(8) {
            0 => tokens.insert(at, (*random.pick(SIGNS)).to_owned()),
            1 if is_inside => drop(tokens.remove(at)),
            2 if is_inside => tokens[at] = (*random.pick(SIGNS)).to_owned(),
            3 if is_inside => tokens[at] = requoted(random, &tokens[at]),
            4 => tokens.insert(at, format!(" {word} ")),
            5 if is_inside && tokens[at].trim() != "" => word.clone_into(&mut tokens[at]),
            6 => {
                let others = self::tokens(other);
                let start = random.below(others.len() + 1);
                let end = start + random.below(others.len() - start + 1);
                tokens.splice(at..at, others[start..end].iter().cloned());
            }
            _ if tokens.len() > 1 => {
                let with = random.below(tokens.len());
                tokens.swap(at.min(with), with);
            }
            _ => {}
        }
    }
    tokens.concat()
}

/// Returns the word in another spelling, usually with the same meaning.
pub(crate) fn requoted(random: &mut RandomSource, word: &str) -> String {
    let middle = word.char_indices().nth(word.chars().count() / 2).map_or(0, |(at, _)| at);
    let (begin, end) = word.split_at(middle);
    match random.below(8) {
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

/// Returns every text that lacks one piece of this one, larger pieces first.
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

/// Splits a text into runs of letters, runs of spaces, and other single characters.
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
        let make =
            |seed| mutated(&mut RandomSource::new(seed), "cat a.txt | wc -l", "ls -la", "b.txt");
        assert_eq!(make(1), make(1));
        assert!((0..50).any(|seed| make(seed) != make(1)));
    }
}
