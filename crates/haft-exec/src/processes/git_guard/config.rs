//! Recognises repository settings that run nothing and include nothing. Every other key counts as
//! dangerous.

/// Keys with any value, by section. A section with a quoted name is written `remote.*`.
const HARMLESS: &[(&str, &[&str])] = &[
    (
        "core",
        &[
            "repositoryformatversion",
            "filemode",
            "bare",
            "logallrefupdates",
            "ignorecase",
            "precomposeunicode",
            "symlinks",
            "autocrlf",
            "eol",
            "safecrlf",
            "sharedrepository",
            "abbrev",
            "quotepath",
            "compression",
            "sparsecheckout",
            "sparsecheckoutcone",
            "untrackedcache",
            "preloadindex",
            "checkstat",
            "trustctime",
            "bigfilethreshold",
        ],
    ),
    (
        "extensions",
        &[
            "objectformat",
            "compatobjectformat",
            "partialclone",
            "preciousobjects",
            "refstorage",
            "worktreeconfig",
            "noop",
        ],
    ),
    ("remote.*", &["fetch", "push", "mirror", "prune", "tagopt", "promisor", "partialclonefilter"]),
    ("branch.*", &["remote", "merge", "rebase", "pushremote", "description"]),
    ("user", &["name", "email"]),
    ("submodule", &["active", "recurse"]),
    ("submodule.*", &["active", "branch", "ignore", "fetchrecursesubmodules"]),
    ("init", &["defaultbranch"]),
    ("pull", &["rebase", "ff"]),
    ("push", &["default", "autosetupremote"]),
    ("fetch", &["prune"]),
    ("merge", &["ff", "conflictstyle"]),
    ("rebase", &["autostash", "autosquash"]),
    ("gc", &["auto"]),
    ("index", &["version"]),
];

/// Returns true when no setting of this text runs something or reads settings from elsewhere.
/// `stays_inside` decides whether a work tree at this path, relative to the git directory, is in
/// the workspace.
pub(super) fn is_harmless(text: &str, stays_inside: impl Fn(&str) -> bool) -> bool {
    let mut section = String::new();
    for line in text.lines() {
        let mut line = line.trim();
        if let Some(rest) = line.strip_prefix('[') {
            let Some((head, after)) = rest.split_once(']') else { return false };
            let Some(name) = section_name(head) else { return false };
            section = name;
            line = after.trim();
        }
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        // The next line would belong to this one.
        if line.ends_with('\\') {
            return false;
        }
        let (key, value) = line.split_once('=').unwrap_or((line, "true"));
        let (key, value) = (key.trim().to_ascii_lowercase(), value.trim().trim_matches('"'));
        if !is_harmless_key(&section, &key, value, &stays_inside) {
            return false;
        }
    }
    true
}

/// Turns `remote "origin"` into `remote.*`. Dots are an older notation for the same.
fn section_name(head: &str) -> Option<String> {
    let (name, is_named) = match head.split_once('"') {
        Some((name, rest)) => (name.trim(), rest.trim_end().ends_with('"')),
        None => (head.trim(), false),
    };
    if head.contains('"') && !is_named {
        return None;
    }
    let is_plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    let name = name.to_ascii_lowercase();
    is_plain.then(|| if is_named { format!("{name}.*") } else { name })
}

fn is_harmless_key(
    section: &str,
    key: &str,
    value: &str,
    stays_inside: &impl Fn(&str) -> bool,
) -> bool {
    match (section, key) {
        ("core", "worktree") => stays_inside(value),
        // `ext::COMMAND` runs a command, and a leading dash would be an option of ssh.
        ("remote.*", "url" | "pushurl") | ("submodule.*", "url") => {
            !value.contains("::") && !value.starts_with('-')
        }
        ("submodule.*", "update") => matches!(value, "checkout" | "rebase" | "merge" | "none"),
        _ => HARMLESS.iter().any(|(known, keys)| *known == section && keys.contains(&key)),
    }
}

#[cfg(test)]
mod tests {
    use super::is_harmless;

    #[track_caller]
    fn check(text: &str, expected: bool) {
        assert_eq!(is_harmless(text, |path| !path.contains("..")), expected, "{text}");
    }

    #[test]
    fn what_git_itself_writes_is_harmless() {
        check("", true);
        check("[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n", true);
        check(
            "[remote \"origin\"]\n\turl = https://x.example/a.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n",
            true,
        );
        check(
            "# a comment\n[branch \"main\"]\n  remote = origin\n  merge = refs/heads/main\n",
            true,
        );
        check("[user]\nname = A\nemail = a@x\n[core]\nworktree = sub\n", true);
    }

    #[test]
    fn what_runs_or_includes_something_is_not() {
        for text in [
            "[core]\n\tfsmonitor = \"touch x; false\"\n",
            "[core] fsmonitor = x\n",
            "[CORE]\nFsMonitor = x\n",
            "[core]\nbare = \\\nfalse\nfsmonitor = x\n",
            "[core]\nhooksPath = x\n",
            "[core]\nworktree = ../../x\n",
            "[core]\nfsmonitor\n",
            "[include]\npath = x\n",
            "[includeIf \"gitdir:/\"]\npath = x\n",
            "[filter \"x\"]\nclean = touch x\n",
            "[diff \"x\"]\ncommand = touch x\n",
            "[alias]\nst = !touch x\n",
            "[remote \"o\"]\nurl = ext::sh -c touch\n",
            "[remote \"o\"]\nuploadpack = touch\n",
            "[submodule \"s\"]\nupdate = !touch x\n",
            "[submodule.core]\nfsmonitor = x\n",
            "[core\nfsmonitor = x\n",
            "[remote \"a]\n[core]\nfsmonitor = x\n",
            "[gpg]\nprogram = x\n",
            "[credential]\nhelper = !x\n",
        ] {
            check(text, false);
        }
    }
}
