//! The table of all config keys. The parser, the reference page and the JSON schema are made from
//! it, so that they cannot contradict each other.

use haft_core::{Policy, policy::LayerKind};
use haft_exec::ContainerSettings;
use haft_store::{JournalRetention, LedgerRetention};

use super::{file::ConfigLimit, sandbox::BACKENDS};

const ALL_LAYERS: &[LayerKind] = &[LayerKind::Admin, LayerKind::User, LayerKind::Project];
const USER_AND_ADMIN: &[LayerKind] = &[LayerKind::User, LayerKind::Admin];
const USER_ONLY: &[LayerKind] = &[LayerKind::User];

/// A config key.
pub struct ConfigKey {
    /// Name in the file.
    pub name: &'static str,
    /// Type of the value.
    pub value_type: ValueType,
    /// Kinds of files that may set it.
    pub allowed_in: &'static [LayerKind],
    /// Description in the reference page and the schema.
    pub description: &'static str,
    /// Example value, in TOML.
    pub example: &'static str,
}

/// Type of a key's value.
#[derive(Clone, Copy)]
pub enum ValueType {
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
    /// A size or a time that an admin's or a project's file may lower.
    Limit,
    /// Any other whole number.
    Number,
    /// True or false.
    Flag,
    /// A whole number with the given default.
    NumberOr(usize),
    /// A list of any texts.
    Texts,
    /// One of the given words. The first one is the default.
    OneOf(&'static [&'static str]),
    /// A table, or one table for each name.
    Table(&'static ConfigTable),
    /// One of the given words, or a table.
    OneOfOrTable(&'static [&'static str], &'static ConfigTable),
}

/// A table of the config file.
pub struct ConfigTable {
    /// Name in a header, such as `agents.NAME`. Empty for the root.
    pub header: &'static str,
    /// Description in the reference page and the schema.
    pub description: &'static str,
    /// Whether the table has fixed keys or keys of any name.
    pub names: KeyNames,
    /// The keys of the table.
    pub keys: &'static [ConfigKey],
}

/// The names that the keys of a table may have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum KeyNames {
    /// Only the listed names.
    Listed,
    /// Any name. The listed one is an example.
    Free,
}

impl ConfigTable {
    /// Returns the key of this name.
    pub fn key(&self, name: &str) -> Option<&'static ConfigKey> {
        self.keys.iter().find(|key| key.name == name)
    }

    pub(super) fn key_names(&self) -> Vec<&'static str> {
        self.keys.iter().map(|key| key.name).collect()
    }
}

impl ConfigKey {
    /// Returns the default value in TOML.
    pub fn default(&self, table: &ConfigTable) -> Option<String> {
        match self.value_type {
            ValueType::Mode if table.header.is_empty() => {
                Some(format!("\"{}\"", Policy::default().mode_for(None).name()))
            }
            ValueType::Limit => {
                ConfigLimit::named(self.name)?.default().map(|number| number.to_string())
            }
            ValueType::NumberOr(default) => Some(default.to_string()),
            ValueType::OneOf(words) | ValueType::OneOfOrTable(words, _) => {
                words.first().map(|word| format!("\"{word}\""))
            }
            ValueType::Flag if table.header == APPROVALS.header || self.name == "results" => {
                Some("false".to_owned())
            }
            ValueType::Flag if [STORE.header, JOURNAL.header].contains(&table.header) => {
                Some("true".to_owned())
            }
            _ if table.header == CONTAINER.header => self.container_default(),
            _ => None,
        }
    }

    fn container_default(&self) -> Option<String> {
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
    value_type: ValueType,
    allowed_in: &'static [LayerKind],
    description: &'static str,
    example: &'static str,
) -> ConfigKey {
    ConfigKey { name, value_type, allowed_in, description, example }
}

const APPROVE: ConfigKey = key(
    "approve",
    ValueType::Mode,
    ALL_LAYERS,
    "Which calls run without approval when no rule matches. An admin's or a project's file can only \
     make it stricter.",
    "\"contained\"",
);
const PROFILE: ConfigKey = key(
    "profile",
    ValueType::Text,
    ALL_LAYERS,
    "Which set of tools the model gets. An admin's setting takes precedence over `--profile`.",
    "\"developer\"",
);
const ALLOW: ConfigKey = key(
    "allow",
    ValueType::Rules,
    ALL_LAYERS,
    "Rules for calls that run without approval. A project's rules count only when your config lists \
     the project's folder under `trust`.",
    "[\"read\", \"write(src/**)\"]",
);
const ASK: ConfigKey = key(
    "ask",
    ValueType::Rules,
    ALL_LAYERS,
    "Rules for calls that need approval in every mode.",
    "[\"delete\"]",
);
const DENY: ConfigKey = key(
    "deny",
    ValueType::Rules,
    ALL_LAYERS,
    "Rules for calls that never run. No other rule or mode overrides them.",
    "[\"write(.github/**)\"]",
);

/// The whole file.
pub const ROOT: ConfigTable = ConfigTable {
    header: "",
    description: "Keys outside of tables. TOML requires them at the top of the file.",
    names: KeyNames::Listed,
    keys: &[
        APPROVE,
        ALLOW,
        ASK,
        DENY,
        key(
            "trust",
            ValueType::Folders,
            USER_ONLY,
            "Project folders whose `allow` rules count. Absolute paths or `~/…`.",
            "[\"~/projects/mine\"]",
        ),
        PROFILE,
        key(
            "sandbox",
            ValueType::OneOfOrTable(BACKENDS, &SANDBOX),
            USER_AND_ADMIN,
            "Sandbox backend for commands: the short form of `backend` under `[sandbox]`.",
            "",
        ),
        key(
            "secrets",
            ValueType::Table(&SECRETS),
            ALL_LAYERS,
            "Paths that no tool may read or write.",
            "",
        ),
        key("profiles", ValueType::Table(&PROFILES), ALL_LAYERS, "Named sets of tools.", ""),
        key(
            "agents",
            ValueType::Table(&AGENTS),
            ALL_LAYERS,
            "Additional rules for single agents, by name.",
            "",
        ),
        key("limits", ValueType::Table(&LIMITS), ALL_LAYERS, "Limits of sizes and times.", ""),
        key(
            "container",
            ValueType::Table(&CONTAINER),
            USER_AND_ADMIN,
            "Settings of the `container` sandbox backend.",
            "",
        ),
        key(
            "roots",
            ValueType::Table(&ROOTS),
            USER_ONLY,
            "Additional folders for file tools, by name.",
            "",
        ),
        key(
            "store",
            ValueType::Table(&STORE),
            USER_AND_ADMIN,
            "Where and how long calls are recorded.",
            "",
        ),
        key(
            "approvals",
            ValueType::Table(&APPROVALS),
            USER_AND_ADMIN,
            "Where approval requests can be answered.",
            "",
        ),
        key(
            "journal",
            ValueType::Table(&JOURNAL),
            USER_AND_ADMIN,
            "How long changes are kept for `haft undo`.",
            "",
        ),
        key(
            "outputs",
            ValueType::Table(&OUTPUTS),
            USER_AND_ADMIN,
            "How long results are kept.",
            "",
        ),
        key(
            "network",
            ValueType::Table(&NETWORK),
            USER_AND_ADMIN,
            "How haft connects to other machines.",
            "",
        ),
        key(
            "search",
            ValueType::Table(&SEARCH),
            USER_AND_ADMIN,
            "Search engine for `web_search`.",
            "",
        ),
        key(
            "credentials",
            ValueType::Table(&CREDENTIALS),
            USER_AND_ADMIN,
            "Secrets for `http_request`, by name.",
            "",
        ),
    ],
};

pub(super) const SECRETS: ConfigTable = ConfigTable {
    header: "secrets",
    description: "Paths that no tool may read or write, in addition to haft's built-in list. You cannot make \
              exceptions for paths that an admin hides.",
    names: KeyNames::Listed,
    keys: &[
        key(
            "paths",
            ValueType::Globs,
            ALL_LAYERS,
            "Globs on additional secret paths.",
            "[\"vault/**\"]",
        ),
        key(
            "except",
            ValueType::Globs,
            USER_AND_ADMIN,
            "Globs on paths that are not secret although another glob matches them.",
            "[\".env.example\"]",
        ),
    ],
};

pub(super) const PROFILES: ConfigTable = ConfigTable {
    header: "profiles.NAME",
    description: "A set of tools. Your profile may replace a built-in one of the same name. An admin's replaces \
              both. A project's needs a new name.",
    names: KeyNames::Listed,
    keys: &[key(
        "tools",
        ValueType::Globs,
        ALL_LAYERS,
        "Globs on tool names. A glob with `!` in front excludes tools.",
        "[\"*\", \"!delete\"]",
    )],
};

pub(super) const AGENTS: ConfigTable = ConfigTable {
    header: "agents.NAME",
    description: "Additional rules for one agent. They can only be stricter than the general ones.",
    names: KeyNames::Listed,
    keys: &[PROFILE, APPROVE, ALLOW, ASK, DENY],
};

pub(super) const LIMITS: ConfigTable = ConfigTable {
    header: "limits",
    description: "Limits of sizes and times. You set them; an admin and a project may only lower \
        them.",
    names: KeyNames::Listed,
    keys: &[
        key(
            "input_bytes",
            ValueType::Limit,
            ALL_LAYERS,
            "Maximum size of a call's input, in bytes.",
            "1000000",
        ),
        key(
            "content_bytes",
            ValueType::Limit,
            ALL_LAYERS,
            "Maximum size of the text that a model receives from one call, in bytes.",
            "51200",
        ),
        key(
            "content_lines",
            ValueType::Limit,
            ALL_LAYERS,
            "Maximum number of lines that a model receives from one call.",
            "1000",
        ),
        key(
            "approval_wait_secs",
            ValueType::Limit,
            ALL_LAYERS,
            "How long an approval request waits for an answer, in seconds.",
            "300",
        ),
        key(
            "processes",
            ValueType::Limit,
            ALL_LAYERS,
            "Maximum number of processes and threads of all running commands together.",
            "500",
        ),
        key(
            "memory_mb",
            ValueType::Limit,
            ALL_LAYERS,
            "Maximum memory of all running commands together, in megabytes. Default: half of the \
             machine's memory, at most 8192.",
            "8192",
        ),
    ],
};

pub(super) const ROOTS: ConfigTable = ConfigTable {
    header: "roots",
    description: "Folders outside the workspace that file tools may work in. Tools refer to the files of the folder \
              `docs` as `@docs/…`.",
    names: KeyNames::Free,
    keys: &[key(
        "docs",
        ValueType::Folder,
        USER_ONLY,
        "Absolute path of the folder, or `~/…`. The key is any name of letters, digits, `-`, `_` \
         and `.`.",
        "\"~/docs\"",
    )],
};

pub(super) const SANDBOX: ConfigTable = ConfigTable {
    header: "sandbox",
    description: "The sandbox that commands run in, and what they can access outside the workspace: by default the \
              system's folders and the parts of your home that tools need, without keys, tokens \
              and histories. `haft doctor` lists the folders. `sandbox = \"…\"` sets `backend` \
              alone. An admin's value takes precedence; lists are joined.",
    names: KeyNames::Listed,
    keys: &[
        key(
            "backend",
            ValueType::OneOf(BACKENDS),
            USER_AND_ADMIN,
            "`auto`: the strongest backend that works on this machine; if none does, every command needs \
             approval. `required`: like `auto`, but without a working backend no command runs. \
             `container`: in a container, see `[container]`. `off`: commands run without a \
             sandbox.",
            "\"required\"",
        ),
        key(
            "home",
            ValueType::OneOf(&["tools", "all"]),
            USER_AND_ADMIN,
            "What commands can read in your home. `tools`: toolchains, caches, git's user config and the \
             folders on PATH. `all`: everything but secrets.",
            "\"tools\"",
        ),
        key(
            "read",
            ValueType::Folders,
            USER_AND_ADMIN,
            "Additional folders that commands can read. Absolute paths or `~/…`. Secret and denied files in \
             them stay hidden.",
            "[\"~/docs\"]",
        ),
        key(
            "write",
            ValueType::Folders,
            USER_AND_ADMIN,
            "Additional folders that commands can write if they can write in the workspace.",
            "[\"~/data\"]",
        ),
    ],
};

pub(super) const CONTAINER: ConfigTable = ConfigTable {
    header: "container",
    description: "Containers for commands with `sandbox = \"container\"`. haft keeps one container for each session \
              and kind of command until the session ends. Inside, the workspace is `/workspace`, \
              the root `docs` is `/roots/docs`, and all capabilities are dropped. For each key an \
              admin's value takes precedence over yours.",
    names: KeyNames::Listed,
    keys: &[
        key(
            "engine",
            ValueType::Text,
            USER_AND_ADMIN,
            "`podman`, `docker`, or the absolute path of a compatible program. Default: podman if installed, \
             else docker.",
            "\"podman\"",
        ),
        key(
            "image",
            ValueType::Text,
            USER_AND_ADMIN,
            "Image of the container. It must contain `sh`. haft does not pull images; use `podman \
             pull`.",
            "\"debian:stable-slim\"",
        ),
        key(
            "user",
            ValueType::Text,
            USER_AND_ADMIN,
            "User in the container: `uid` or `uid:gid`. Default: the owner of the workspace.",
            "\"1000:1000\"",
        ),
        key(
            "memory",
            ValueType::Text,
            USER_AND_ADMIN,
            "Maximum memory of a container, without swap.",
            "\"4g\"",
        ),
        key(
            "cpus",
            ValueType::Text,
            USER_AND_ADMIN,
            "Maximum number of processors. Default: all.",
            "\"1.5\"",
        ),
        key(
            "pids",
            ValueType::Number,
            USER_AND_ADMIN,
            "Maximum number of processes in a container.",
            "1024",
        ),
        key(
            "network",
            ValueType::Text,
            USER_AND_ADMIN,
            "Name of the engine's network for commands that may use the network. Default: the engine's \
             default network. Other commands have no network.",
            "\"none\"",
        ),
        key(
            "read_only",
            ValueType::Flag,
            USER_AND_ADMIN,
            "Whether the container's root file system is read-only.",
            "true",
        ),
        key(
            "tmpfs",
            ValueType::Folders,
            USER_AND_ADMIN,
            "Writable directories in memory. They start empty and count towards `memory`.",
            "[\"/tmp\", \"/var/cache\"]",
        ),
        key(
            "max_age_secs",
            ValueType::Number,
            USER_AND_ADMIN,
            "Maximum age of a container, in seconds. An older one is ended with everything that \
             runs in it.",
            "3600",
        ),
    ],
};

pub(super) const STORE: ConfigTable = ConfigTable {
    header: "store",
    description: "Where haft records every call and keeps the rules saved for a session or a project. An admin's \
              value takes precedence.",
    names: KeyNames::Listed,
    keys: &[
        key(
            "url",
            ValueType::Text,
            USER_AND_ADMIN,
            "A file (absolute path or `~/…`) or a database (`postgres://…`). Default: `.haft/haft.db` in each \
             workspace.",
            "\"~/haft.db\"",
        ),
        key(
            "record",
            ValueType::Flag,
            USER_AND_ADMIN,
            "Whether calls are recorded. Saved rules are kept in either case.",
            "false",
        ),
        key(
            "results",
            ValueType::Flag,
            USER_AND_ADMIN,
            "Whether the whole result of every call is recorded too, so that `haft replay` can return it. \
             `[outputs]` limits their size and age.",
            "true",
        ),
        key(
            "events",
            ValueType::NumberOr(100_000),
            USER_AND_ADMIN,
            "Maximum number of events that are kept for subscribers that were away.",
            "10000",
        ),
        key(
            "event_days",
            ValueType::NumberOr(30),
            USER_AND_ADMIN,
            "How long events are kept, in days.",
            "7",
        ),
        key(
            "ledger_days",
            ValueType::NumberOr(LedgerRetention::DEFAULT_DAYS as usize),
            USER_AND_ADMIN,
            "How long calls stay in the ledger, in days. Entries that an undo, a pending approval or a kept \
             result needs stay longer.",
            "365",
        ),
        key(
            "ledger_bytes",
            ValueType::NumberOr(LedgerRetention::DEFAULT_BYTES as usize),
            USER_AND_ADMIN,
            "Maximum size of the ledger, in bytes. Calls that changed nothing are dropped first, then the \
             oldest calls.",
            "100000000",
        ),
    ],
};

pub(super) const APPROVALS: ConfigTable = ConfigTable {
    header: "approvals",
    description: "Where approval requests can be answered. While a request is pending, `haft approvals` in another \
              terminal lists and answers it.",
    names: KeyNames::Listed,
    keys: &[key(
        "elsewhere",
        ValueType::Flag,
        USER_AND_ADMIN,
        "Whether a call that needs approval waits for `haft approvals` when no approver is available here: \
         there is no terminal, or the client cannot ask its user. Otherwise it is refused at once. \
         The wait ends after `approval_wait_secs`.",
        "true",
    )],
};

pub(super) const OUTPUTS: ConfigTable = ConfigTable {
    header: "outputs",
    description: "How results that were too long to be sent whole are kept in the store, where `output_read` and \
              `output_search` find them. With `record = false` under `[store]` they are kept in \
              memory only. An admin's value takes precedence.",
    names: KeyNames::Listed,
    keys: &[
        key(
            "max_bytes",
            ValueType::NumberOr(256 << 20),
            USER_AND_ADMIN,
            "Maximum size of all outputs of a workspace, in bytes, compressed. The oldest are \
             dropped first.",
            "100000000",
        ),
        key(
            "max_age_days",
            ValueType::NumberOr(14),
            USER_AND_ADMIN,
            "Maximum age of an output, in days. Even with 0, an output is kept for at least an \
             hour.",
            "30",
        ),
        key(
            "repeats",
            ValueType::OneOf(&["pointer", "whole"]),
            USER_AND_ADMIN,
            "What an MCP client receives when a read-only call returns the same long text that the client \
             received a moment ago. `pointer`: a note with the id of an output that has the text; \
             if the client repeats the call, the whole text. `whole`: always the whole text.",
            "\"whole\"",
        ),
    ],
};

pub(super) const NETWORK: ConfigTable = ConfigTable {
    header: "network",
    description: "How haft connects to other machines. Addresses of this machine and of private networks are blocked \
              unless `allow` lists them. An admin's value takes precedence; lists are joined.",
    names: KeyNames::Listed,
    keys: &[
        key(
            "allow",
            ValueType::Texts,
            USER_AND_ADMIN,
            "Local services that haft may connect to: a host, an address or a network, each with one port or \
             with all.",
            "[\"localhost:8080\", \"10.1.0.0/16\"]",
        ),
        key(
            "proxy",
            ValueType::Text,
            USER_AND_ADMIN,
            "Proxy for all requests. The proxy resolves host names, so it must block private \
             addresses itself.",
            "\"http://proxy.corp:3128\"",
        ),
        key(
            "ca",
            ValueType::Folders,
            USER_AND_ADMIN,
            "Files (PEM) with certificates of additional authorities to trust.",
            "[\"/etc/ssl/corp.pem\"]",
        ),
        key(
            "timeout_secs",
            ValueType::NumberOr(30),
            USER_AND_ADMIN,
            "Default timeout of a request, in seconds. Maximum 120.",
            "60",
        ),
        key(
            "max_bytes",
            ValueType::NumberOr(5 << 20),
            USER_AND_ADMIN,
            "Maximum size of a response, in bytes, uncompressed.",
            "1000000",
        ),
        key(
            "requests_per_minute",
            ValueType::NumberOr(0),
            USER_AND_ADMIN,
            "Maximum number of requests to one host per minute. 0 means no limit.",
            "30",
        ),
        key(
            "robots",
            ValueType::OneOf(&["ignore", "respect"]),
            USER_AND_ADMIN,
            "Whether `web_fetch` obeys a site's robots.txt.",
            "\"respect\"",
        ),
        key(
            "downgrade",
            ValueType::OneOf(&["refuse", "follow"]),
            USER_AND_ADMIN,
            "Whether haft follows redirects from https to http.",
            "\"refuse\"",
        ),
    ],
};

pub(super) const JOURNAL: ConfigTable = ConfigTable {
    header: "journal",
    description: "Before a file tool changes a file, haft keeps the old content in the store, so that `haft undo` can \
              restore it. The latest change of every file is always kept.",
    names: KeyNames::Listed,
    keys: &[
        key(
            "record",
            ValueType::Flag,
            USER_AND_ADMIN,
            "Whether changes are kept. With `true`, a change that cannot be kept is not made.",
            "false",
        ),
        key(
            "keep_days",
            ValueType::NumberOr(JournalRetention::DEFAULT.days as usize),
            USER_AND_ADMIN,
            "How long earlier changes of a file are kept, in days.",
            "90",
        ),
        key(
            "keep_bytes",
            ValueType::NumberOr(JournalRetention::DEFAULT.bytes as usize),
            USER_AND_ADMIN,
            "Maximum size of all kept changes, in bytes, compressed. Earlier changes of a file are dropped \
             first.",
            "200000000",
        ),
    ],
};

pub(super) const SEARCH: ConfigTable = ConfigTable {
    header: "search",
    description: "Search engine for `web_search`. SearXNG needs `url`; Brave, Tavily and Exa need \
        `key`.",
    names: KeyNames::Listed,
    keys: &[
        key(
            "engine",
            ValueType::OneOf(&["duckduckgo", "searxng", "brave", "tavily", "exa"]),
            USER_AND_ADMIN,
            "The search engine. DuckDuckGo needs neither `url` nor `key`.",
            "\"brave\"",
        ),
        key(
            "url",
            ValueType::Text,
            USER_AND_ADMIN,
            "Address of the engine, if not its default one.",
            "\"https://searx.corp\"",
        ),
        key(
            "key",
            ValueType::Text,
            USER_AND_ADMIN,
            "Name of the secret with the API key: an entry of `[credentials]`, or X for the environment \
             variable `HAFT_SECRET_X`.",
            "\"BRAVE\"",
        ),
    ],
};

pub(super) const CREDENTIALS: ConfigTable = ConfigTable {
    header: "credentials.NAME",
    description: "A secret that requests refer to as `secret:NAME`. Its value comes from an environment variable, by \
              default `HAFT_SECRET_NAME`, or, if that is not set, from the vault (`haft secret set \
              NAME`). Only secrets with other variables or with bound hosts need an entry here.",
    names: KeyNames::Listed,
    keys: &[
        key(
            "variable",
            ValueType::Text,
            USER_AND_ADMIN,
            "Environment variable with the value.",
            "\"GITHUB_TOKEN\"",
        ),
        key(
            "hosts",
            ValueType::Texts,
            USER_AND_ADMIN,
            "The only hosts that the secret is sent to. `*.example.org` stands for all subdomains.",
            "[\"api.github.com\"]",
        ),
    ],
};

/// All tables, in the order of the reference page.
pub const TABLES: [&ConfigTable; 15] = [
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
        super::file::{ConfigLocation, parse},
        *,
    };

    /// Returns a config file that sets one key to its example.
    fn config_with(table: &ConfigTable, key: &ConfigKey) -> String {
        let header = table.header.replace("NAME", "x");
        let header = if header.is_empty() { header } else { format!("[{header}]\n") };
        format!("{header}{} = {}\n", key.name, key.example)
    }

    #[test]
    fn every_example_is_accepted_only_in_the_files_that_the_table_allows() {
        let home = Path::new("/home/ada");
        for table in TABLES {
            for key in table.keys.iter().filter(|key| !key.example.is_empty()) {
                let text = config_with(table, key);
                for kind in ALL_LAYERS {
                    let read =
                        parse(&text, &ConfigLocation::new(*kind, Path::new("f.toml"), Some(home)));
                    let may = key.allowed_in.contains(kind);
                    assert_eq!(read.is_ok(), may, "{kind:?}: {text}{:?}", read.err());
                }
            }
        }
    }

    #[test]
    fn a_value_of_another_type_is_refused() {
        for table in TABLES {
            for key in table.keys {
                let other = match key.value_type {
                    ValueType::Limit
                    | ValueType::Number
                    | ValueType::Flag
                    | ValueType::NumberOr(_)
                    | ValueType::Table(_) => "\"text\"",
                    _ => "7",
                };
                let key = ConfigKey { example: other, ..*key };
                let location = ConfigLocation::new(LayerKind::User, Path::new("f.toml"), None);
                let error = parse(&config_with(table, &key), &location).err();
                let message = error.map(|error| error.to_string()).unwrap_or_default();
                assert!(message.contains("expected"), "{}: {message}", key.name);
            }
        }
    }

    #[test]
    fn every_limit_has_a_key_and_a_default() {
        let with_default =
            LIMITS.keys.iter().filter(|key| key.default(&LIMITS).is_some()).map(|key| key.name);
        let the_same_everywhere =
            ConfigLimit::ALL.iter().filter(|(_, limit)| limit.default().is_some());
        assert!(with_default.eq(the_same_everywhere.map(|(name, _)| *name)));
        assert!(LIMITS.keys.iter().map(|key| key.name).eq(ConfigLimit::ALL.map(|(name, _)| name)));
        assert_eq!(
            ROOT.key("approve").and_then(|key| key.default(&ROOT)).as_deref(),
            Some("\"contained\"")
        );
    }
}
