//! Indents added lines like the file, when a hunk matches only without its indentation.

use std::collections::BTreeMap;

/// A rule that converts the indentation of the patch to that of the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum IndentRule {
    /// The file has this additional prefix.
    Deeper(String),
    /// The patch has this additional prefix.
    Shallower(String),
    /// `patch` characters in the patch are `file` characters `with` in the file.
    Scaled { patch: usize, file: usize, with: char },
    /// No common rule: known indentations are replaced, and a deeper one keeps the rest.
    Table(BTreeMap<String, String>),
}

fn indentation(line: &str) -> &str {
    let end = line.len() - line.trim_start().len();
    line.get(..end).unwrap_or_default()
}

impl IndentRule {
    /// Derives the rule from lines that are equal without their indentation, as in the patch and as
    /// in the file.
    pub(super) fn between<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let mut table = BTreeMap::new();
        for (patch, file) in pairs.filter(|(patch, _)| !patch.trim().is_empty()) {
            table
                .entry(indentation(patch).to_owned())
                .or_insert_with(|| indentation(file).to_owned());
        }
        let common = |extra: fn(&str, &str) -> Option<String>| {
            let mut extras = table.iter().map(|(patch, file)| extra(patch, file));
            let first = extras.next()??;
            extras.all(|other| other.as_ref() == Some(&first)).then_some(first)
        };
        if let Some(extra) = common(|patch, file| file.strip_suffix(patch).map(str::to_owned)) {
            return Self::Deeper(extra);
        }
        if let Some(extra) = common(|patch, file| patch.strip_suffix(file).map(str::to_owned)) {
            return Self::Shallower(extra);
        }
        scale(&table).unwrap_or(Self::Table(table))
    }

    pub(super) fn apply(&self, line: &str) -> String {
        if line.trim().is_empty() {
            return line.to_owned();
        }
        let old = indentation(line);
        let new = match self {
            Self::Deeper(extra) => format!("{extra}{old}"),
            Self::Shallower(extra) => old.strip_prefix(extra.as_str()).unwrap_or(old).to_owned(),
            Self::Scaled { patch, file, with } => {
                let length = old.chars().count() * file;
                if length.is_multiple_of(*patch) {
                    with.to_string().repeat(length / patch)
                } else {
                    old.to_owned()
                }
            }
            Self::Table(table) => {
                // Use the longest known prefix: a key sorts after its own prefixes.
                let known = table
                    .iter()
                    .rev()
                    .find_map(|(patch, file)| Some((old.strip_prefix(patch.as_str())?, file)));
                known.map_or_else(|| old.to_owned(), |(rest, file)| format!("{file}{rest}"))
            }
        };
        format!("{new}{}", line.trim_start())
    }
}

/// Returns the factor if every indentation is scaled by the same one, such as two spaces to four,
/// or to a tab.
fn scale(table: &BTreeMap<String, String>) -> Option<IndentRule> {
    let with = table.values().find_map(|file| file.chars().next())?;
    let mut ratio: Option<(usize, usize)> = None;
    for (patch, file) in table {
        let first = patch.chars().next();
        let is_uniform = patch.chars().all(|c| Some(c) == first) && file.chars().all(|c| c == with);
        let lengths = (patch.chars().count(), file.chars().count());
        if !is_uniform || (lengths.0 == 0) != (lengths.1 == 0) {
            return None;
        }
        if lengths.0 == 0 {
            continue;
        }
        let (patch, file) = *ratio.get_or_insert(lengths);
        if patch * lengths.1 != file * lengths.0 {
            return None;
        }
    }
    ratio.map(|(patch, file)| IndentRule::Scaled { patch, file, with })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pairs: &[(&str, &str)], lines: &[(&str, &str)]) {
        let rule = IndentRule::between(pairs.iter().copied());
        for (line, expected) in lines {
            assert_eq!(rule.apply(line), *expected, "{rule:?}");
        }
    }

    #[test]
    fn a_file_that_is_deeper_indents_more() {
        check(
            &[("a", "    a"), ("  b", "      b")],
            &[("x", "    x"), ("  y", "      y"), ("", ""), ("  ", "  ")],
        );
    }

    #[test]
    fn a_file_that_is_shallower_indents_less() {
        check(
            &[("    a", "a"), ("      b", "  b")],
            &[("    x", "x"), ("      y", "  y"), ("z", "z")],
        );
    }

    #[test]
    fn tabs_and_other_widths_are_scaled() {
        check(
            &[("a", "a"), ("    b", "\tb")],
            &[("        x", "\t\tx"), ("x", "x"), ("   x", "   x")],
        );
        check(&[("  a", "    a"), ("    b", "        b")], &[("      x", "            x")]);
        check(&[("\ta", "  a"), ("\t\tb", "    b")], &[("\t\t\tx", "      x")]);
    }

    #[test]
    fn without_a_rule_known_indentations_are_replaced() {
        check(
            &[("a", " a"), ("  b", "      b")],
            &[("x", " x"), ("  x", "      x"), ("    x", "        x")],
        );
    }

    #[test]
    fn blank_lines_are_ignored() {
        check(&[("", "   ")], &[("  x", "  x")]);
    }
}
