//! The list of dangerous commands: those that are hard to undo or that reach beyond the project. It
//! applies in every mode but `all`.

use super::{
    Certainty, FileAction, Word,
    files::NamedFile,
    git, is_one_of,
    options::{ParsedOptions, Valued},
};

type Why = &'static str;

/// Returns why a command is dangerous, if it is. `more`: words are added that the parser cannot
/// see.
pub(super) fn of(name: &str, words: &[Word], files: &[NamedFile], more: bool) -> Option<Why> {
    let rest = words.get(1..).unwrap_or_default();
    by_words(name, rest).or_else(|| by_hidden_words(name, rest, more)).or_else(|| {
        files
            .iter()
            .filter(|file| file.how == FileAction::Write)
            .find_map(|file| writes(&file.word))
    })
}

/// Words that would make a program dangerous if they were hidden from the parser. `first`: only as
/// the first operand.
struct HiddenWords {
    names: &'static str,
    first: bool,
    words: &'static [&'static [&'static str]],
}

static HIDDEN_WORDS: &[HiddenWords] = &[
    HiddenWords { names: "rm", first: false, words: &[&["-rf", "x"], &["-rf"]] },
    HiddenWords { names: "chmod chown chgrp", first: false, words: &[&["-R"], &["-R", "x", "/"]] },
    HiddenWords {
        names: "git",
        first: false,
        words: &[
            &["--hard"],
            &["--force"],
            &["-f"],
            &["-d"],
            &["-D"],
            &["--delete"],
            &["+x"],
            &["."],
            &["drop"],
            &["delete"],
            &["--amend"],
            &["--prune"],
            &["-r"],
            &["remove", "--force"],
            &["reset", "--hard"],
        ],
    },
    HiddenWords { names: "find", first: false, words: &[&["-delete"]] },
    HiddenWords {
        names: "docker podman nerdctl",
        first: false,
        words: &[&["--privileged"], &["-v", "/:/x"], &["prune"], &["-f"]],
    },
    HiddenWords { names: "kubectl oc", first: true, words: &[&["delete"]] },
    HiddenWords { names: "helm", first: true, words: &[&["uninstall"]] },
    HiddenWords { names: "terraform tofu pulumi", first: true, words: &[&["destroy"]] },
    HiddenWords {
        names: "npm pnpm yarn cargo bun poetry uv flit",
        first: true,
        words: &[&["publish"]],
    },
    HiddenWords { names: "gem", first: true, words: &[&["push"]] },
    HiddenWords { names: "twine", first: true, words: &[&["upload"]] },
    HiddenWords { names: "systemctl service", first: true, words: &[&["stop"]] },
    HiddenWords { names: "redis-cli", first: true, words: &[&["FLUSHALL"]] },
    HiddenWords { names: "aws gcloud az gh", first: false, words: &[&["delete"]] },
    HiddenWords { names: "kill", first: false, words: &[&["-1"]] },
    HiddenWords {
        names: "psql mysql mariadb sqlite3 clickhouse-client",
        first: false,
        words: &[&["drop table x"]],
    },
];

/// Returns why a command is dangerous if its hidden words are the worst ones.
fn by_hidden_words(name: &str, rest: &[Word], more: bool) -> Option<Why> {
    let hidden = HIDDEN_WORDS.iter().find(|row| is_one_of(row.names, name))?;
    let is_hidden = |at: &usize| {
        let before = at.checked_sub(1).and_then(|before| rest.get(before));
        rest.get(*at).is_some_and(|word| may_hide(name, word, before))
    };
    let at = (0..rest.len()).find(is_hidden).or_else(|| more.then_some(rest.len()))?;
    let (before, after) = rest.split_at(at);
    let has_operand = before.iter().any(|word| !word.may_be_option());
    if hidden.first && has_operand {
        return None;
    }
    let is_one = after.first().is_some_and(|word| !word.is_open);
    let worst = |words: &&[&str]| {
        let given = words.iter().map(|text| Word::exact(text));
        let all: Vec<Word> =
            before.iter().cloned().chain(given).chain(after.iter().skip(1).cloned()).collect();
        by_words(name, &all)
    };
    hidden.words.iter().filter(|words| !is_one || words.len() == 1).find_map(worst)
}

fn may_hide(name: &str, word: &Word, before: Option<&Word>) -> bool {
    const VALUED: &[&str] =
        &["-m", "-F", "-C", "-c", "-n", "--message", "--file", "--author", "--date"];
    match word.certainty {
        Certainty::Exact => false,
        Certainty::Pattern => word.prefix.starts_with('-'),
        Certainty::Unknown if word.is_open => word.may_be_option(),
        // In quotes it is one word, which is enough for git, unless it is the value of an option.
        Certainty::Unknown => {
            let is_value = before.and_then(Word::known).is_some_and(|text| VALUED.contains(&text));
            name == "git" && word.may_be_option() && !is_value
        }
    }
}

fn by_words(name: &str, rest: &[Word]) -> Option<Why> {
    match name {
        "sudo" | "doas" | "su" | "pkexec" | "runuser" => Some("it acts as another user"),
        "shutdown" | "reboot" | "halt" | "poweroff" | "init" | "telinit" => {
            Some("it stops the machine")
        }
        "mkswap" | "fdisk" | "parted" | "sfdisk" | "wipefs" | "cfdisk" | "sgdisk" => {
            Some("it changes a whole disk")
        }
        _ if name.starts_with("mkfs") => Some("it changes a whole disk"),
        "iptables" | "ip6tables" | "nft" | "ufw" | "firewall-cmd" => {
            Some("it changes the firewall")
        }
        "mount" | "umount" if !rest.is_empty() => Some("it changes mounts"),
        "swapoff" | "sysctl" | "insmod" | "rmmod" | "modprobe" if !rest.is_empty() => {
            Some("it changes the kernel")
        }
        "crontab" if !has(rest, &["-l"]) => Some("it schedules commands"),
        "at" | "batch" => Some("it schedules commands"),
        "useradd" | "userdel" | "usermod" | "passwd" | "chpasswd" | "visudo" | "groupadd" => {
            Some("it changes user accounts")
        }
        "dropdb" | "dropuser" => Some("it deletes a database"),
        "killall" | "pkill" => Some("it ends processes by name"),
        "kill" if kills_all(rest) => Some("it ends every process"),
        "shred" | "srm" | "wipe" => Some("it deletes beyond recovery"),
        "rm" => rm(rest),
        "find" if has(rest, &["-delete"]) => Some("it deletes every match"),
        "chmod" | "chown" | "chgrp" => permissions(rest),
        "git" => git_danger(rest),
        "docker" | "podman" | "nerdctl" => container(rest),
        "kubectl" | "oc" if has(rest, &["delete", "drain"]) => Some("it deletes cluster resources"),
        "helm" if has(rest, &["uninstall", "delete"]) => Some("it deletes cluster resources"),
        "terraform" | "tofu" | "pulumi" if has(rest, &["apply", "destroy", "up"]) => {
            Some("it changes real infrastructure")
        }
        "npm" | "pnpm" | "yarn" | "cargo" | "bun" | "poetry" | "uv" | "gem" | "twine" | "flit" => {
            publishing(name, rest)
        }
        "psql" | "mysql" | "mariadb" | "sqlite3" | "clickhouse-client" => sql(rest),
        "redis-cli" if has(rest, &["FLUSHALL", "flushall", "FLUSHDB", "flushdb"]) => {
            Some("it deletes a database")
        }
        "systemctl" | "service"
            if has(rest, &["stop", "disable", "mask", "restart", "poweroff", "reboot"]) =>
        {
            Some("it changes system services")
        }
        "aws" | "gcloud" | "az" if rest.iter().any(|word| is_cloud_deletion(&word.text)) => {
            Some("it deletes in the cloud")
        }
        "gh" if has(rest, &["delete"]) => Some("it deletes on a server"),
        _ => None,
    }
}

fn has(rest: &[Word], texts: &[&str]) -> bool {
    rest.iter().any(|word| texts.iter().any(|text| word.is(text)))
}

fn is_cloud_deletion(text: &str) -> bool {
    ["delete", "terminate", "rb", "rm"]
        .iter()
        .any(|verb| text == *verb || text.starts_with(&format!("{verb}-")))
}

/// Returns why writing to this path is dangerous, if it is.
pub(super) fn writes(word: &Word) -> Option<Why> {
    let path = word.prefix.as_str();
    const DEVICES: &[&str] = &[
        "/dev/sd",
        "/dev/nvme",
        "/dev/hd",
        "/dev/vd",
        "/dev/mmcblk",
        "/dev/disk",
        "/dev/mem",
        "/dev/kmem",
        "/dev/dm-",
        "/dev/loop",
    ];
    const SYSTEM: &[&str] = &[
        "/etc",
        "/boot",
        "/usr",
        "/bin",
        "/sbin",
        "/lib",
        "/lib64",
        "/proc",
        "/sys",
        "/var/spool/cron",
        "/root",
    ];
    const STARTUP: &[&str] = &[
        ".bashrc",
        ".bash_profile",
        ".profile",
        ".zshrc",
        ".zprofile",
        ".zshenv",
        ".bash_login",
        ".bash_logout",
        ".ssh",
        ".gitconfig",
        ".config/autostart",
        ".config/systemd",
        ".config/git",
        ".npmrc",
        ".pypirc",
        ".netrc",
        ".aws",
        ".kube",
        ".gnupg",
        ".docker",
        ".local/bin",
        ".cargo/config.toml",
        ".vimrc",
        ".inputrc",
    ];
    let is_below = |path: &str, root: &str| {
        path == root || path.strip_prefix(root).is_some_and(|rest| rest.starts_with('/'))
    };
    let clean = path.replace("//", "/").replace("/./", "/");
    if DEVICES.iter().any(|device| clean.starts_with(device)) {
        return Some("it writes to a device");
    }
    if SYSTEM.iter().any(|root| is_below(&clean, root)) && !clean.contains("..") {
        return Some("it writes to system files");
    }
    let from_home = home_relative(word, &clean)?;
    STARTUP
        .iter()
        .any(|root| is_below(from_home, root))
        .then_some("it writes to files that run later or grant access")
}

/// Returns the part below a home directory, when the path is plainly in one.
fn home_relative<'a>(word: &Word, path: &'a str) -> Option<&'a str> {
    if word.has_tilde {
        return path.strip_prefix("~/");
    }
    if word.text.starts_with("$HOME/") || word.text.starts_with("${HOME}/") {
        return None;
    }
    let below = path.strip_prefix("/home/").or_else(|| path.strip_prefix("/Users/"))?;
    below.split_once('/').map(|(_, rest)| rest)
}

/// Returns true when a path covers so much that deleting or changing all of it is dangerous.
fn is_wide(word: &Word) -> bool {
    let text = word.text.trim_end_matches('/');
    if word.below.is_some() {
        return true;
    }
    if word.certainty == Certainty::Unknown {
        return word.prefix.is_empty() || word.prefix.trim_matches(['/', '.']).is_empty();
    }
    let parts = text.split('/').filter(|part| !part.is_empty() && *part != ".").count();
    let is_absolute = text.starts_with('/');
    let is_only_pattern = text.chars().all(|c| "*?./".contains(c));
    text.is_empty()
        || is_only_pattern
        || text == "~"
        || text.starts_with("~") && parts <= 2
        || is_absolute && parts <= 2
        || text.ends_with("..")
}

fn rm(rest: &[Word]) -> Option<Why> {
    let options = ParsedOptions::scan(rest, Valued::default());
    let is_long = |full: &str| {
        options.given.iter().any(|given| given.name.len() > 2 && full.starts_with(&given.name))
    };
    let is_deep = options.has(&["-r", "-R"]) || is_long("--recursive");
    let is_forced = options.has(&["-f"]) || is_long("--force");
    if is_long("--no-preserve-root") {
        return Some("it deletes the whole disk");
    }
    if is_deep && is_forced {
        return Some("it deletes directories without asking");
    }
    if is_deep && (options.operands.iter().any(|word| is_wide(word)) || options.operands.is_empty())
    {
        return Some("it deletes a large part of the disk");
    }
    let is_star = |word: &&&Word| {
        word.certainty != Certainty::Exact && is_wide(word) && word.certainty == Certainty::Pattern
    };
    options.operands.iter().find(is_star).map(|_| "it deletes every file of a directory")
}

fn kills_all(rest: &[Word]) -> bool {
    let mut operands = rest.iter().filter_map(Word::known).skip_while(|text| {
        matches!(
            *text,
            "-9" | "-KILL"
                | "-TERM"
                | "-15"
                | "-SIGKILL"
                | "-SIGTERM"
                | "--"
                | "-s"
                | "KILL"
                | "TERM"
                | "9"
                | "15"
        )
    });
    operands.any(|text| text == "-1" || text == "1")
}

fn permissions(rest: &[Word]) -> Option<Why> {
    let options = ParsedOptions::scan(rest, Valued::default());
    let is_deep = options.has(&["-R", "--recursive"]);
    let is_far = options.operands.iter().skip(1).any(|word| is_wide(word));
    (is_deep && is_far).then_some("it changes permissions on a large part of the disk")
}

fn git_danger(rest: &[Word]) -> Option<Why> {
    let at = git::subcommand(rest)?;
    let after = rest.get(at + 1..).unwrap_or_default();
    let options = ParsedOptions::scan(after, Valued::default());
    let is_long = |full: &str| {
        options.given.iter().any(|given| given.name.len() > 4 && full.starts_with(&given.name))
    };
    let is_all = |word: &&&Word| {
        matches!(word.known(), Some("." | "./" | "*" | ":/" | ":/."))
            || word.certainty == Certainty::Pattern
    };
    match rest.get(at)?.known()? {
        "push" => {
            let is_forced = options.has(&["-f", "-d"])
                || [
                    "--force",
                    "--force-with-lease",
                    "--force-if-includes",
                    "--mirror",
                    "--delete",
                    "--prune",
                ]
                .iter()
                .any(|full| is_long(full))
                || after
                    .iter()
                    .any(|word| word.prefix.starts_with('+') || word.prefix.starts_with(':'));
            is_forced.then_some("it overwrites or deletes commits that others may have")
        }
        "reset" => (is_long("--hard") || is_long("--merge")).then_some("it discards changes"),
        "clean" => {
            (options.has(&["-f"]) || is_long("--force")).then_some("it deletes untracked files")
        }
        "checkout" | "restore" => {
            let discards = options.has(&["-f"])
                || is_long("--force")
                || options.operands.iter().any(|word| is_all(&word));
            let is_staged_only =
                options.has(&["--staged", "-S"]) && !options.has(&["--worktree", "-W"]);
            (discards && !is_staged_only).then_some("it discards changes")
        }
        "switch" => {
            (options.has(&["-f", "-C"]) || is_long("--force") || is_long("--discard-changes"))
                .then_some("it discards changes")
        }
        "branch" => (options.has(&["-D", "-M"]) || is_long("--force"))
            .then_some("it deletes a branch with its commits"),
        "tag" => options.has(&["-d", "-f"]).then_some("it deletes or moves a tag"),
        "stash" => has(after, &["drop", "clear"]).then_some("it discards changes"),
        "reflog" => has(after, &["expire", "delete"]).then_some("it rewrites history"),
        "worktree" => (has(after, &["remove"]) && (options.has(&["-f"]) || is_long("--force")))
            .then_some("it discards changes"),
        "rebase" | "filter-branch" | "filter-repo" | "replace" => {
            (!has(after, &["--abort", "--continue", "--quit", "--skip"]))
                .then_some("it rewrites history")
        }
        "commit" => is_long("--amend").then_some("it rewrites history"),
        "update-ref" | "gc" | "prune" => (options.has(&["-d"])
            || after.iter().any(|word| word.text.contains("prune")))
        .then_some("it rewrites history"),
        "rm" => (options.has(&["-r", "-f"])).then_some("it deletes directories"),
        _ => None,
    }
}

fn container(rest: &[Word]) -> Option<Why> {
    let is_open = rest.iter().any(|word| {
        let text = word.text.as_str();
        text.starts_with("--privileged")
            || matches!(
                text,
                "--pid=host"
                    | "--userns=host"
                    | "--ipc=host"
                    | "--cap-add=ALL"
                    | "--cap-add=SYS_ADMIN"
            )
            || text.contains("docker.sock")
    });
    let mut words = rest.iter();
    let mut has_root = false;
    while let Some(word) = words.next() {
        let mount = match word.text.as_str() {
            "-v" | "--volume" | "--mount" => {
                words.next().map(|word| word.text.clone()).unwrap_or_default()
            }
            text => text
                .trim_start_matches("-v")
                .trim_start_matches("--volume=")
                .trim_start_matches("--mount=")
                .to_owned(),
        };
        has_root |= mount.starts_with("/:")
            || ["/etc:", "/root:", "/var/run:", "/home:", "/proc:", "/sys:", "/dev:"]
                .iter()
                .any(|root| mount.starts_with(root))
            || mount.contains("source=/,")
            || mount.contains("src=/,");
    }
    if is_open || has_root {
        return Some("the container can access the whole machine");
    }
    (has(rest, &["prune"])
        || has(rest, &["rm"]) && has(rest, &["-f", "-v", "-fv", "--force"])
        || has(rest, &["rmi"]))
    .then_some("it deletes containers or images")
}

fn publishing(name: &str, rest: &[Word]) -> Option<Why> {
    let is_published = match name {
        "gem" => has(rest, &["push", "yank"]),
        "twine" => has(rest, &["upload"]),
        "cargo" => has(rest, &["publish", "yank", "owner", "login"]),
        _ => has(rest, &["publish", "unpublish", "deprecate"]),
    };
    // `npm run publish` is the project's own script, and reaches as far.
    is_published.then_some("it publishes")
}

fn sql(rest: &[Word]) -> Option<Why> {
    let is_destructive = |word: &Word| {
        let text = word.text.to_ascii_lowercase();
        let words: Vec<&str> =
            text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
        let has = |wanted: &str| words.contains(&wanted);
        has("drop")
            || has("truncate")
            || has("delete") && !has("where")
            || has("alter") && has("table")
    };
    rest.iter().any(is_destructive).then_some("it deletes in a database")
}
