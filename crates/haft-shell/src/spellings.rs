//! The ways to spell one command: rules that deny or ask match each of them, so that `/usr/bin/git -C . push` is
//! `git push` for them. What allows a command sees its whole text only.

use super::{
    Certainty, Word, is_one_of,
    widths::{arity, global_values},
    words::line,
};

/// Other spellings of a command, and what is certain of the beginning of each.
#[derive(Debug, Default)]
pub(super) struct Spellings {
    pub(super) texts: Vec<String>,
    /// The letters before the first word that the reader cannot see; none when it sees all of them. The first belongs to
    /// the command's own text.
    pub(super) seen: Vec<String>,
}

/// `text` is the whole text, with assignments; `more` says that words are added which the reader cannot see.
pub(super) fn of(text: &str, words: &[Word], more: bool) -> Spellings {
    let mut found = Spellings::default();
    let assignments = text.strip_suffix(&line(words)).unwrap_or_default();
    found.seen.extend(seen(words, more).map(|seen| format!("{assignments}{seen}")));
    for other in variants(words) {
        let spelled = line(&other);
        if spelled != text && !found.texts.contains(&spelled) {
            found.seen.extend(seen(&other, more));
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

/// Without the options before and between the words that say what is done. `takes_value`: options that are not known are
/// followed by a value.
fn without_options(name: &str, rest: &[Word], takes_value: bool) -> Vec<Word> {
    let values = global_values(name);
    let mut kept = Vec::new();
    let mut said = name.to_owned();
    let mut at = 0;
    while kept.len() + 1 < arity(&said) {
        let Some(text) = rest.get(at).and_then(Word::known) else { break };
        at += 1;
        if !text.starts_with(['-', '+']) {
            said = format!("{said} {text}");
            kept.extend(rest.get(at - 1).cloned());
            continue;
        }
        let has_value =
            is_one_of(values, text) || takes_value && !text.contains('=') && text != "--";
        // A value that may be several words may be the sub-command too.
        let is_seen = rest.get(at).is_some_and(|value| !value.is_open);
        at += usize::from(has_value && text.starts_with('-') && is_seen);
    }
    kept.extend(rest.iter().skip(at).cloned());
    kept
}

/// What is certain of the beginning, when not all of it is.
fn seen(words: &[Word], more: bool) -> Option<String> {
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
