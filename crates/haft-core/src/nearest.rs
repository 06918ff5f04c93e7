//! "Did you mean": finds the known names closest to a misspelled one.

/// The closest known names, best first, at most three; empty if none is close.
pub fn nearest<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    const MAX_NAMES: usize = 3;
    // Below this similarity the names share little more than their length.
    const MIN_SIMILARITY: f64 = 0.75;
    let folded = fold(wanted);
    let mut scored: Vec<(f64, &str)> = known
        .into_iter()
        .map(|name| (similarity(&folded, &fold(name)), name))
        .filter(|(score, _)| *score >= MIN_SIMILARITY)
        .collect();
    scored.sort_by(|(a, x), (b, y)| b.total_cmp(a).then_with(|| x.cmp(y)));
    scored.into_iter().take(MAX_NAMES).map(|(_, name)| name).collect()
}

/// The sentence "did you mean `a` or `b`?"; empty if there are no names.
pub fn did_you_mean(names: &[&str]) -> String {
    if names.is_empty() {
        return String::new();
    }
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    format!("did you mean {}?", quoted.join(" or "))
}

/// Folds case and separators: names that differ only in these are the same name.
pub(crate) fn fold(name: &str) -> String {
    name.chars()
        .filter(|c| !matches!(c, '_' | '-' | ' ' | '.'))
        .flat_map(char::to_lowercase)
        .collect()
}

fn similarity(a: &str, b: &str) -> f64 {
    let contained = a.len() >= 4 && b.len() >= 4 && (a.contains(b) || b.contains(a));
    let spelling = strsim::jaro_winkler(a, b);
    if contained { spelling.max(0.8) } else { spelling }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_misspelt_foreign_and_partial_names() {
        let known = ["read", "read_file", "grep", "web_fetch", "ticket_read"];
        for (wanted, expected) in [
            ("raed", "read"),
            ("ReadFile", "read_file"),
            ("webfetch", "web_fetch"),
            ("ticket", "ticket_read"),
            ("gerp", "grep"),
        ] {
            assert_eq!(nearest(wanted, known).first(), Some(&expected), "for {wanted}");
        }
        assert!(nearest("zzz", known).is_empty());
    }
}
