//! "Did you mean": which known names a misspelt one is closest to.

/// The nearest known names, best first, at most three, none when nothing is near.
pub fn nearest<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    const MOST: usize = 3;
    // Below this the names share little more than their length.
    const LEAST_LIKENESS: f64 = 0.75;
    let folded = fold(wanted);
    let mut scored: Vec<(f64, &str)> = known
        .into_iter()
        .map(|name| (likeness(&folded, &fold(name)), name))
        .filter(|(score, _)| *score >= LEAST_LIKENESS)
        .collect();
    scored.sort_by(|(a, x), (b, y)| b.total_cmp(a).then_with(|| x.cmp(y)));
    scored.into_iter().take(MOST).map(|(_, name)| name).collect()
}

/// `(did you mean \`a\` or \`b\`?)` in words, empty when nothing is near.
pub fn did_you_mean(names: &[&str]) -> String {
    if names.is_empty() {
        return String::new();
    }
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    format!("did you mean {}?", quoted.join(" or "))
}

/// Names that differ only in case and separators are the same name written by another hand.
pub(crate) fn fold(name: &str) -> String {
    name.chars()
        .filter(|c| !matches!(c, '_' | '-' | ' ' | '.'))
        .flat_map(char::to_lowercase)
        .collect()
}

fn likeness(a: &str, b: &str) -> f64 {
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
