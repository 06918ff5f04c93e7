//! Alternative spellings of a command. Rules that deny or ask match each of them, so that
//! `/usr/bin/git -C . push` counts as `git push`. Rules that allow match only the whole text.

use super::{
    Certainty, Word, is_one_of,
    rule_texts::{arity, global_values},
    words::line,
};

/// Other spellings of a command, and the certain beginning of each.
#[derive(Debug, Default)]
pub(super) struct Spellings {
    pub(super) texts: Vec<String>,
    /// The text before the first word that the parser cannot see; nothing when it sees all of them.
    /// The first belongs to the command's own text.
    pub(super) known_prefixes: Vec<String>,
}

/// `text` is the whole text, with assignments. `more`: words are added that the parser cannot see.
pub(super) fn of(text: &str, words: &[Word], more: bool) -> Spellings {
    let mut found = Spellings::default();
    let assignments = text.strip_suffix(&line(words)).unwrap_or_default();
    found.known_prefixes.extend(
        known_prefix(words, more).map(|known_prefix| format!("{assignments}{known_prefix}")),
    );
    for other in variants(words) {
        let spelled = line(&other);
        if spelled != text && !found.texts.contains(&spelled) {
            found.known_prefixes.extend(known_prefix(&other, more));
            found.texts.push(spelled);
        }
    }
    found
}

fn variants(words: &[Word]) -> Vec<Vec<Word>> {
    let Some((first, rest)) = words.split_first() else { return Vec::new() };
    let mut all = vec![words.to_vec()];
    let Some(name) = first.known().and_then(|text| text.rsplit('/').next()) else { return all };
    let named = || std::iter::once(Word::exact(name));
    all.push(named().chain(rest.iter().cloned()).collect());
    if arity(name) > 1 {
        for takes_value in [false, true] {
            all.push(named().chain(without_options(name, rest, takes_value)).collect());
        }
    }
    all
}

/// Removes the options before and between the words that name the operation. `takes_value`: unknown
/// options are followed by a value.
fn without_options(name: &str, rest: &[Word], takes_value: bool) -> Vec<Word> {
    let values = global_values(name);
    let mut kept = Vec::new();
    let mut operation = name.to_owned();
    let mut at = 0;
    while kept.len() + 1 < arity(&operation) {
        let Some(text) = rest.get(at).and_then(Word::known) else { break };
        at += 1;
        if !text.starts_with(['-', '+']) {
            operation = format!("{operation} {text}");
            kept.extend(rest.get(at - 1).cloned());
            continue;
        }
        let has_value =
            is_one_of(values, text) || takes_value && !text.contains('=') && text != "--";
        // A value that may be several words may include the sub-command.
        let is_seen = rest.get(at).is_some_and(|value| !value.is_open);
        at += usize::from(has_value && text.starts_with('-') && is_seen);
    }
    kept.extend(rest.iter().skip(at).cloned());
    kept
}

/// Returns the certain beginning, when not all of it is certain.
fn known_prefix(words: &[Word], more: bool) -> Option<String> {
    let at = words.iter().position(|word| word.certainty != Certainty::Exact);
    match at {
        Some(at) => {
            let (before, rest) = words.split_at(at);
            let prefix = rest.first().map_or("", |word| word.prefix.as_str());
            let gap = if at == 0 { "" } else { " " };
            Some(format!("{}{gap}{prefix}", line(before)))
        }
        None => more.then(|| format!("{} ", line(words))),
    }
}
