//! Evaluates `robots.txt`, for users who have enabled it.

/// Our name in the groups.
const OWN_NAME: &str = "haft";
/// Longer rules are truncated; the standard requires at least this size.
pub(super) const MAX_BYTES: usize = 512 << 10;

/// Returns true when a path (with its query) may be fetched.
pub(super) fn allows(rules: &str, path: &str) -> bool {
    let groups = groups(rules);
    let is_ours = |group: &&RobotsGroup<'_>| group.names.iter().any(|name| *name == OWN_NAME);
    let is_all = |group: &&RobotsGroup<'_>| group.names.contains(&"*".to_owned());
    let mut ours: Vec<&RobotsGroup<'_>> = groups.iter().filter(is_ours).collect();
    if ours.is_empty() {
        ours = groups.iter().filter(is_all).collect();
    }
    let fitting = ours.iter().flat_map(|group| &group.lines).filter(|line| fits(line.path, path));
    // The longest match wins; of two with equal length the one that allows.
    let best = fitting.max_by_key(|line| (line.path.len(), line.is_allowed));
    best.is_none_or(|line| line.is_allowed)
}

struct RobotsGroup<'a> {
    names: Vec<String>,
    lines: Vec<RobotsRule<'a>>,
}

struct RobotsRule<'a> {
    path: &'a str,
    is_allowed: bool,
}

fn groups(rules: &str) -> Vec<RobotsGroup<'_>> {
    let mut groups: Vec<RobotsGroup<'_>> = Vec::new();
    for line in rules.lines() {
        let line = line.split('#').next().unwrap_or_default();
        let Some((key, value)) = line.split_once(':') else { continue };
        let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
        match (key.as_str(), groups.last_mut()) {
            ("user-agent", last) => {
                let name = value.split('/').next().unwrap_or_default().to_ascii_lowercase();
                match last.filter(|group| group.lines.is_empty()) {
                    Some(group) => group.names.push(name),
                    None => groups.push(RobotsGroup { names: vec![name], lines: Vec::new() }),
                }
            }
            ("allow" | "disallow", Some(group)) => {
                group.lines.push(RobotsRule { path: value, is_allowed: key == "allow" });
            }
            _ => {}
        }
    }
    groups
}

/// `*` matches any text, a final `$` matches the end; everything else is a prefix of the path.
fn fits(pattern: &str, path: &str) -> bool {
    if pattern.is_empty() {
        return false;
    }
    let (pattern, is_whole) =
        pattern.strip_suffix('$').map_or((pattern, false), |pattern| (pattern, true));
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = path.strip_prefix(first) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return !is_whole || rest.is_empty() };
    for part in middle {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    if is_whole { rest.ends_with(last) } else { rest.contains(last) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = "# a site\nUser-agent: *\nDisallow: /private/\nAllow: /private/open\nDisallow: /*.pdf$\n\
        Disallow:\n\nUser-agent: other\nUser-agent: Haft/2\nDisallow: /\nAllow: /docs # these\n";

    #[test]
    fn a_group_of_our_own_counts_alone() {
        for (path, expected) in [("/", false), ("/docs/x", true), ("/private/", false)] {
            assert_eq!(allows(RULES, path), expected, "{path}");
        }
    }

    #[test]
    fn otherwise_the_longest_rule_for_all_counts() {
        let (all, _) = RULES.split_once("User-agent: other").expect("two groups");
        for (path, expected) in [
            ("/", true),
            ("/private/x", false),
            ("/private/open/x", true),
            ("/a/b.pdf", false),
            ("/a/b.pdf?x", true),
        ] {
            assert_eq!(allows(all, path), expected, "{path}");
        }
        assert!(
            allows("", "/x")
                && allows("Disallow: /", "/x")
                && !allows("user-agent:*\ndisallow:/", "/x")
        );
    }
}
