//! Every key that a config file may have: what the parser accepts, who may set it, and what the reference page and the
//! schema say of it. One table, so that none of them can say something else.

use haft_core::{Policy, policy::LayerKind};
use haft_exec::ContainerSettings;
use haft_store::{JournalRetention, LedgerRetention};

use super::{file::Limit, sandbox::BACKENDS};

const EVERYBODY: &[LayerKind] = &[LayerKind::Admin, LayerKind::User, LayerKind::Project];
const OWNERS: &[LayerKind] = &[LayerKind::User, LayerKind::Admin];
const THE_PERSON: &[LayerKind] = &[LayerKind::User];

/// One key.
pub struct Key {
    /// As it is written in the file.
    pub name: &'static str,
    /// What values it takes.
    pub sort: Sort,
    /// Whose files may have it.
    pub whose: &'static [LayerKind],
    /// For the reference page.
    pub meaning: &'static str,
    /// The value as it could be written, in TOML.
    pub example: &'static str,
}

/// What a key's value is.
#[derive(Clone, Copy)]
pub enum Sort {
    /// An approval mode.
    Mode,
    /// Any text.
    Text,
    /// Rules such as `write(src/**)`.
    Rules,
    /// Globs on paths or tool names.
    Globs,
    /// Absolute paths.
    Folders,
    /// One folder.
    Folder,
    /// A size or a time that layers above may lower.
    Limit,
    /// Another whole number.
    Number,
    /// Yes or no.
    Flag,
    /// A whole number, and what it is when nobody sets it.
    Amount(usize),
    /// Any words.
    Texts,
    /// One of a few words.
    Word(&'static [&'static str]),
    /// A table of its own, or one for each name.
    Table(&'static Table),
    /// One of a few words, or a table.
    WordOrTable(&'static [&'static str], &'static Table),
}

/// A table of the file.
pub struct Table {
    /// As it is written in a header, `agents.NAME`; empty for the root.
    pub header: &'static str,
    /// For the reference page.
    pub meaning: &'static str,
    /// Whether the table has members of any name.
    pub names: Names,
    /// What may stand in it.
    pub keys: &'static [Key],
}

/// What the keys of a table are called.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// As they are listed.
    Listed,
    /// As the author likes; the one that is listed stands for all.
    Free,
}

impl Table {
    /// The key of this name.
    pub fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }

    pub(super) fn key_names(&self) -> Vec<&'static str> {
        self.keys.iter().map(|key| key.name).collect()
    }
}

impl Key {
    /// What holds when nobody sets it, as it would be written.
    pub fn default(&self, table: &Table) -> Option<String> {
        match self.sort {
            Sort::Mode if table.header.is_empty() => {
                Some(format!("\"{}\"", Policy::default().mode_for(None).name()))
            }
            Sort::Limit => Limit::named(self.name)?.default().map(|number| number.to_string()),
            Sort::Amount(usual) => Some(usual.to_string()),
            Sort::Word(words) | Sort::WordOrTable(words, _) => {
                words.first().map(|word| format!("\"{word}\""))
            }
            Sort::Flag if table.header == APPROVALS.header || self.name == "results" => {
                Some("false".to_owned())
            }
            Sort::Flag if [STORE.header, JOURNAL.header].contains(&table.header) => {
                Some("true".to_owned())
            }
            _ if table.header == CONTAINER.header => self.of_containers(),
            _ => None,
        }
    }

    fn of_containers(&self) -> Option<String> {
        let settings = ContainerSettings::default();
        Some(match self.name {
            "image" => format!("\"{}\"", settings.image),
            "memory" => format!("\"{}\"", settings.memory),
            "pids" => settings.pids.to_string(),
            "read_only" => settings.read_only.to_string(),
            "tmpfs" => format!("{:?}", settings.tmpfs),
            "max_age_secs" => settings.max_age.as_secs().to_string(),
            _ => return None,
        })
    }
}

const fn key(
    name: &'static str,
    sort: Sort,
    whose: &'static [LayerKind],
    meaning: &'static str,
    example: &'static str,
) -> Key {
    Key { name, sort, whose, meaning, example }
}

const APPROVE: Key = key(
    "approve",
    Sort::Mode,
    EVERYBODY,
    "How much runs unasked where no rule speaks. An admin's or a project's word can only make it stricter.",
    "\"contained\"",
);
const PROFILE: Key = key(
    "profile",
    Sort::Text,
    EVERYBODY,
    "The set of tools to choose from. An admin's choice holds against `--profile`.",
    "\"developer\"",
);
const ALLOW: Key = key(
    "allow",
    Sort::Rules,
    EVERYBODY,
    "What runs unasked. A project's counts only when you list its folder under `trust`.",
    "[\"read\", \"write(src/**)\"]",
);
const ASK: Key =
    key("ask", Sort::Rules, EVERYBODY, "What is asked for, whatever the mode.", "[\"delete\"]");
const DENY: Key = key(
    "deny",
    Sort::Rules,
    EVERYBODY,
    "What never runs. Nothing outvotes it.",
    "[\"write(.github/**)\"]",
);

/// The whole file.
pub const ROOT: Table = Table {
    header: "",
    meaning: "Keys outside any table come first in a file.",
    names: Names::Listed,
    keys: &[
        APPROVE,
        ALLOW,
        ASK,
        DENY,
        key(
            "trust",
            Sort::Folders,
            THE_PERSON,
            "Project folders whose `allow` rules count. Whole paths; `~/` is your home.",
            "[\"~/projects/mine\"]",
        ),
        PROFILE,
        key(
            "sandbox",
            Sort::WordOrTable(BACKENDS, &SANDBOX),
            OWNERS,
            "What commands run in: the short form of `[sandbox]` with `backend`.",
            "",
        ),
        key("secrets", Sort::Table(&SECRETS), EVERYBODY, "Paths that nobody reads or writes.", ""),
        key("profiles", Sort::Table(&PROFILES), EVERYBODY, "Sets of tools, by name.", ""),
        key("agents", Sort::Table(&AGENTS), EVERYBODY, "Rules for single agents, by name.", ""),
        key("limits", Sort::Table(&LIMITS), EVERYBODY, "Sizes and times.", ""),
        key("container", Sort::Table(&CONTAINER), OWNERS, "What containers are made from.", ""),
        key("roots", Sort::Table(&ROOTS), THE_PERSON, "Further folders to work in, by name.", ""),
        key("store", Sort::Table(&STORE), OWNERS, "Where calls are recorded.", ""),
        key("approvals", Sort::Table(&APPROVALS), OWNERS, "Who else may be asked.", ""),
        key("journal", Sort::Table(&JOURNAL), OWNERS, "What is kept for undo.", ""),
        key("outputs", Sort::Table(&OUTPUTS), OWNERS, "What is kept of long results.", ""),
        key("network", Sort::Table(&NETWORK), OWNERS, "How haft reaches other machines.", ""),
        key("search", Sort::Table(&SEARCH), OWNERS, "What the web is searched with.", ""),
        key(
            "credentials",
            Sort::Table(&CREDENTIALS),
            OWNERS,
            "Secrets for `http_request`, by name.",
            "",
        ),
    ],
};

pub(super) const SECRETS: Table = Table {
    header: "secrets",
    meaning: "Paths that nobody reads or writes, besides those that haft knows by itself. What an admin hides stays hidden.",
    names: Names::Listed,
    keys: &[
        key("paths", Sort::Globs, EVERYBODY, "Globs on further secret paths.", "[\"vault/**\"]"),
        key(
            "except",
            Sort::Globs,
            OWNERS,
            "Globs on paths that are no secret after all.",
            "[\".env.example\"]",
        ),
    ],
};

pub(super) const PROFILES: Table = Table {
    header: "profiles.NAME",
    meaning: "A set of tools. Yours may replace a built-in one, an admin's replaces both, a project's must have a new name.",
    names: Names::Listed,
    keys: &[key(
        "tools",
        Sort::Globs,
        EVERYBODY,
        "Globs on tool names; with `!` in front, those that are not in it.",
        "[\"*\", \"!delete\"]",
    )],
};

pub(super) const AGENTS: Table = Table {
    header: "agents.NAME",
    meaning: "What one agent may do. It can only be narrower than what holds for everybody.",
    names: Names::Listed,
    keys: &[PROFILE, APPROVE, ALLOW, ASK, DENY],
};

pub(super) const LIMITS: Table = Table {
    header: "limits",
    meaning: "Sizes and times. You set them; an admin and a project may only lower them.",
    names: Names::Listed,
    keys: &[
        key(
            "input_bytes",
            Sort::Limit,
            EVERYBODY,
            "The longest input of a call, in bytes.",
            "1000000",
        ),
        key(
            "content_bytes",
            Sort::Limit,
            EVERYBODY,
            "The longest text that a model is shown, in bytes.",
            "51200",
        ),
        key(
            "content_lines",
            Sort::Limit,
            EVERYBODY,
            "The most lines that a model is shown.",
            "1000",
        ),
        key(
            "approval_wait_secs",
            Sort::Limit,
            EVERYBODY,
            "How long a question waits for an answer, in seconds.",
            "300",
        ),
        key(
            "processes",
            Sort::Limit,
            EVERYBODY,
            "How many processes and threads commands may have at once, all together.",
            "500",
        ),
        key(
            "memory_mb",
            Sort::Limit,
            EVERYBODY,
            "Memory that all commands together may use, in megabytes. Default: half of the machine's, at most 8192.",
            "8192",
        ),
    ],
};

pub(super) const ROOTS: Table = Table {
    header: "roots",
    meaning: "Folders outside the workspace that file tools may work in. The files of `docs` are called `@docs/…`.",
    names: Names::Free,
    keys: &[key(
        "docs",
        Sort::Folder,
        THE_PERSON,
        "The folder. A whole path; `~/` is your home. The name may have letters, digits, `-`, `_` and `.`.",
        "\"~/docs\"",
    )],
};

pub(super) const SANDBOX: Table = Table {
    header: "sandbox",
    meaning: "What commands run in, and what they see outside the workspace: the system, and of your home only what tools need, \
              without keys, tokens and histories. `haft doctor` lists the folders. `sandbox = \"…\"` is the short form for \
              `backend` alone. An admin's word holds, lists are joined.",
    names: Names::Listed,
    keys: &[
        key(
            "backend",
            Sort::Word(BACKENDS),
            OWNERS,
            "`auto`: the strongest that works here; where none does, every command needs approval; `required`: nothing runs \
             without one; `container`: in a container, see `[container]`, or not at all; `off`: commands run without a sandbox.",
            "\"required\"",
        ),
        key(
            "home",
            Sort::Word(&["tools", "all"]),
            OWNERS,
            "`tools`: toolchains, caches, git's user config and the folders on PATH; `all`: all of the home but secrets.",
            "\"tools\"",
        ),
        key(
            "read",
            Sort::Folders,
            OWNERS,
            "Further folders to read. Whole paths; `~/` is your home. Secret and denied files in them stay hidden.",
            "[\"~/docs\"]",
        ),
        key(
            "write",
            Sort::Folders,
            OWNERS,
            "Further folders to write, for commands that may write in the workspace.",
            "[\"~/data\"]",
        ),
    ],
};

pub(super) const CONTAINER: Table = Table {
    header: "container",
    meaning: "What commands run in with `sandbox = \"container\"`: one container for each session and sort of command, kept until the \
              session ends. The workspace is `/workspace` in it, the root `docs` is `/roots/docs`; all rights are dropped. An admin's \
              word holds against yours, key by key.",
    names: Names::Listed,
    keys: &[
        key(
            "engine",
            Sort::Text,
            OWNERS,
            "`podman`, `docker`, or the whole path of a program that is like one of them. Without it podman, or else docker.",
            "\"podman\"",
        ),
        key(
            "image",
            Sort::Text,
            OWNERS,
            "The image; it must have `sh`. haft never fetches one: `podman pull` does.",
            "\"debian:stable-slim\"",
        ),
        key(
            "user",
            Sort::Text,
            OWNERS,
            "`uid` or `uid:gid`. Without it whoever owns the workspace.",
            "\"1000:1000\"",
        ),
        key(
            "memory",
            Sort::Text,
            OWNERS,
            "How much memory a container may take, without swap.",
            "\"4g\"",
        ),
        key("cpus", Sort::Text, OWNERS, "How many processors. Without it all.", "\"1.5\""),
        key(
            "pids",
            Sort::Number,
            OWNERS,
            "How many processes there may be in a container.",
            "1024",
        ),
        key(
            "network",
            Sort::Text,
            OWNERS,
            "The network of commands that were granted one, as the engine calls it. Without it the engine's usual one. All \
             others have none.",
            "\"none\"",
        ),
        key(
            "read_only",
            Sort::Flag,
            OWNERS,
            "Whether the image cannot be changed from inside.",
            "true",
        ),
        key(
            "tmpfs",
            Sort::Folders,
            OWNERS,
            "Directories in memory that can be written; they are empty at first and count as memory.",
            "[\"/tmp\", \"/var/cache\"]",
        ),
        key(
            "max_age_secs",
            Sort::Number,
            OWNERS,
            "A container that is older ends, with all that runs in it.",
            "3600",
        ),
    ],
};

pub(super) const STORE: Table = Table {
    header: "store",
    meaning: "Where haft keeps the record of every call, and the rules that were saved for a session or a project. An admin's word holds.",
    names: Names::Listed,
    keys: &[
        key(
            "url",
            Sort::Text,
            OWNERS,
            "A file (a whole path; `~/` is your home) or a database, `postgres://…`. Without it `.haft/haft.db` of each workspace.",
            "\"~/haft.db\"",
        ),
        key(
            "record",
            Sort::Flag,
            OWNERS,
            "Whether calls are recorded. Saved rules are kept all the same.",
            "false",
        ),
        key(
            "results",
            Sort::Flag,
            OWNERS,
            "Whether the whole result of every call is kept beside its record, so that `haft replay` can give it again. \
             They take as much room, and as long, as `[outputs]` says.",
            "true",
        ),
        key(
            "events",
            Sort::Amount(100_000),
            OWNERS,
            "How many events are kept: what others who look on may have missed.",
            "10000",
        ),
        key("event_days", Sort::Amount(30), OWNERS, "How long events are kept, in days.", "7"),
        key(
            "ledger_days",
            Sort::Amount(LedgerRetention::DEFAULT_DAYS as usize),
            OWNERS,
            "How long calls stay in the ledger, in days. What an undo, an open approval or a kept result needs stays longer.",
            "365",
        ),
        key(
            "ledger_bytes",
            Sort::Amount(LedgerRetention::DEFAULT_BYTES as usize),
            OWNERS,
            "How much the ledger may take. Calls that changed nothing are dropped first, then the oldest calls.",
            "100000000",
        ),
    ],
};

pub(super) const APPROVALS: Table = Table {
    header: "approvals",
    meaning: "Where questions are answered besides here. Every question can be seen and answered with `haft approvals` in another \
              terminal while it waits.",
    names: Names::Listed,
    keys: &[key(
        "elsewhere",
        Sort::Flag,
        OWNERS,
        "Whether a call that needs a yes waits for `haft approvals` where nobody can be asked: no terminal, or a client that \
         cannot ask. Otherwise it is refused at once. It waits as long as `approval_wait_secs` says.",
        "true",
    )],
};

pub(super) const OUTPUTS: Table = Table {
    header: "outputs",
    meaning: "What is kept, in the store, of results that were too long to be shown whole: `output_read` and `output_search` show \
              them. With `record = false` under `[store]` they are kept in memory only. An admin's word holds.",
    names: Names::Listed,
    keys: &[
        key(
            "max_bytes",
            Sort::Amount(256 << 20),
            OWNERS,
            "How much the outputs of a workspace may take, packed. The oldest give way.",
            "100000000",
        ),
        key(
            "max_age_days",
            Sort::Amount(14),
            OWNERS,
            "What is older goes. Nothing goes for its age in its first hour.",
            "30",
        ),
        key(
            "repeats",
            Sort::Word(&["pointer", "whole"]),
            OWNERS,
            "What a client of MCP gets when a call that only looks returns the same long text that it was given a moment ago: \
             `pointer` says so and names an output that has it, and gives it whole when asked once more; `whole` gives it every time.",
            "\"whole\"",
        ),
    ],
};

pub(super) const NETWORK: Table = Table {
    header: "network",
    meaning: "How haft reaches other machines. Addresses of this machine and of private networks are closed unless `allow` \
              opens them. Of a single value an admin's word holds, lists are joined.",
    names: Names::Listed,
    keys: &[
        key(
            "allow",
            Sort::Texts,
            OWNERS,
            "Local services that may be talked to: a host, an address or a network, with a port or with all.",
            "[\"localhost:8080\", \"10.1.0.0/16\"]",
        ),
        key(
            "proxy",
            Sort::Text,
            OWNERS,
            "A proxy for all requests. It resolves the names, so it has to keep private addresses closed.",
            "\"http://proxy.corp:3128\"",
        ),
        key(
            "ca",
            Sort::Folders,
            OWNERS,
            "Files with certificates (PEM) of further authorities to trust.",
            "[\"/etc/ssl/corp.pem\"]",
        ),
        key(
            "timeout_secs",
            Sort::Amount(30),
            OWNERS,
            "How long a request may take when it does not say, in seconds; at most 120.",
            "60",
        ),
        key("max_bytes", Sort::Amount(5 << 20), OWNERS, "The longest answer, unpacked.", "1000000"),
        key(
            "requests_per_minute",
            Sort::Amount(0),
            OWNERS,
            "How often one host may be asked; 0 for as often as wanted.",
            "30",
        ),
        key(
            "robots",
            Sort::Word(&["ignore", "respect"]),
            OWNERS,
            "Whether `web_fetch` leaves alone what a site's robots.txt asks machines to.",
            "\"respect\"",
        ),
        key(
            "downgrade",
            Sort::Word(&["refuse", "follow"]),
            OWNERS,
            "What to do with a redirect from https to http.",
            "\"refuse\"",
        ),
    ],
};

pub(super) const JOURNAL: Table = Table {
    header: "journal",
    meaning: "What file tools change is kept in the store before they change it, so that `haft undo` can take it back. The \
              latest change of every file stays, whatever its age and size.",
    names: Names::Listed,
    keys: &[
        key(
            "record",
            Sort::Flag,
            OWNERS,
            "Whether it is kept. A change that cannot be kept is not made, unless this is `false`.",
            "false",
        ),
        key(
            "keep_days",
            Sort::Amount(JournalRetention::DEFAULT.days as usize),
            OWNERS,
            "How long earlier changes of a file are kept.",
            "90",
        ),
        key(
            "keep_bytes",
            Sort::Amount(JournalRetention::DEFAULT.bytes as usize),
            OWNERS,
            "How much is kept, compressed, before earlier changes of a file go.",
            "200000000",
        ),
    ],
};

pub(super) const SEARCH: Table = Table {
    header: "search",
    meaning: "What the web is searched with. SearXNG needs `url`; Brave, Tavily and Exa need `key`.",
    names: Names::Listed,
    keys: &[
        key(
            "engine",
            Sort::Word(&["duckduckgo", "searxng", "brave", "tavily", "exa"]),
            OWNERS,
            "The engine. DuckDuckGo needs nothing.",
            "\"brave\"",
        ),
        key(
            "url",
            Sort::Text,
            OWNERS,
            "Where it is, if not at its usual place.",
            "\"https://searx.corp\"",
        ),
        key(
            "key",
            Sort::Text,
            OWNERS,
            "The name of the secret that opens it: one of `credentials`, or X for the variable `HAFT_SECRET_X`.",
            "\"BRAVE\"",
        ),
    ],
};

pub(super) const CREDENTIALS: Table = Table {
    header: "credentials.NAME",
    meaning: "A secret that requests name as `secret:NAME`. Without an entry it is the variable `HAFT_SECRET_NAME`, or what `haft secret set NAME` keeps; with one the vault is asked when the variable is not set.",
    names: Names::Listed,
    keys: &[
        key(
            "variable",
            Sort::Text,
            OWNERS,
            "The variable of the environment that holds it.",
            "\"GITHUB_TOKEN\"",
        ),
        key(
            "hosts",
            Sort::Texts,
            OWNERS,
            "The only hosts it is sent to; `*.example.org` for all below one.",
            "[\"api.github.com\"]",
        ),
    ],
};

/// In the order of the reference page.
pub const TABLES: [&Table; 15] = [
    &ROOT,
    &SECRETS,
    &PROFILES,
    &AGENTS,
    &LIMITS,
    &SANDBOX,
    &CONTAINER,
    &ROOTS,
    &STORE,
    &APPROVALS,
    &JOURNAL,
    &OUTPUTS,
    &NETWORK,
    &SEARCH,
    &CREDENTIALS,
];

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{
        super::file::{Place, parse},
        *,
    };

    /// A file that sets one key as its example does.
    fn written(table: &Table, key: &Key) -> String {
        let header = table.header.replace("NAME", "x");
        let header = if header.is_empty() { header } else { format!("[{header}]\n") };
        format!("{header}{} = {}\n", key.name, key.example)
    }

    #[test]
    fn every_example_is_taken_from_whom_the_table_names_and_from_nobody_else() {
        let home = Path::new("/home/ada");
        for table in TABLES {
            for key in table.keys.iter().filter(|key| !key.example.is_empty()) {
                let text = written(table, key);
                for kind in EVERYBODY {
                    let read = parse(&text, &Place::new(*kind, Path::new("f.toml"), Some(home)));
                    let may = key.whose.contains(kind);
                    assert_eq!(read.is_ok(), may, "{kind:?}: {text}{:?}", read.err());
                }
            }
        }
    }

    #[test]
    fn a_value_of_another_sort_is_refused() {
        for table in TABLES {
            for key in table.keys {
                let other = match key.sort {
                    Sort::Limit | Sort::Number | Sort::Flag | Sort::Amount(_) | Sort::Table(_) => {
                        "\"text\""
                    }
                    _ => "7",
                };
                let key = Key { example: other, ..*key };
                let place = Place::new(LayerKind::User, Path::new("f.toml"), None);
                let error = parse(&written(table, &key), &place).err();
                let told = error.map(|error| error.to_string()).unwrap_or_default();
                assert!(told.contains("expected"), "{}: {told}", key.name);
            }
        }
    }

    #[test]
    fn every_limit_has_a_key_and_a_default() {
        let with_default =
            LIMITS.keys.iter().filter(|key| key.default(&LIMITS).is_some()).map(|key| key.name);
        let the_same_everywhere = Limit::ALL.iter().filter(|(_, limit)| limit.default().is_some());
        assert!(with_default.eq(the_same_everywhere.map(|(name, _)| *name)));
        assert!(LIMITS.keys.iter().map(|key| key.name).eq(Limit::ALL.map(|(name, _)| name)));
        assert_eq!(
            ROOT.key("approve").and_then(|key| key.default(&ROOT)).as_deref(),
            Some("\"contained\"")
        );
    }
}
