//! The clients that haft can be added to: where each keeps its list of MCP servers, and what an
//! entry looks like. Every rule names its source, as of November 2026.

use std::path::{Path, PathBuf};

use haft_core::{ToolError, did_you_mean, nearest};
use serde_json::{Value, json};

use super::{document::ConfigFormat, server_command::ServerCommand};
use crate::environment::CliEnvironment;

/// Scope of a configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InitScope {
    /// The project's configuration, which is part of the project.
    Project,
    /// The user's configuration, for all projects.
    User,
}

impl InitScope {
    pub(crate) const ALL: [Self; 2] = [Self::Project, Self::User];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::User => "user",
        }
    }
}

/// A client that starts MCP servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientApp {
    Claude,
    Codex,
    OpenCode,
    Gemini,
    Zed,
    VsCode,
    Cursor,
}

impl ClientApp {
    pub(crate) const ALL: [Self; 7] = [
        Self::Claude,
        Self::Codex,
        Self::OpenCode,
        Self::Gemini,
        Self::Zed,
        Self::VsCode,
        Self::Cursor,
    ];

    /// # Errors
    /// When no client has that name. The hint has the nearest name.
    pub(crate) fn named(word: &str) -> Result<Self, ToolError> {
        let folded = word.to_lowercase().replace(['-', '_', ' '], "");
        let is_meant = |client: &Self| {
            client.name() == folded || client.other_names().contains(&folded.as_str())
        };
        if let Some(client) = Self::ALL.into_iter().find(is_meant) {
            return Ok(client);
        }
        let names = Self::ALL.map(Self::name);
        let near = did_you_mean(&nearest(&folded, names));
        let all = format!("the clients are {}", names.join(", "));
        let shown: String = word.chars().take(80).collect();
        Err(ToolError::not_found(format!("unknown client `{shown}`")).hint(if near.is_empty() {
            all
        } else {
            near
        }))
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::OpenCode => "opencode",
            Self::Gemini => "gemini",
            Self::Zed => "zed",
            Self::VsCode => "vscode",
            Self::Cursor => "cursor",
        }
    }

    fn other_names(self) -> &'static [&'static str] {
        match self {
            Self::Claude => &["claudecode"],
            Self::Codex => &["codexcli"],
            Self::Gemini => &["geminicli"],
            Self::VsCode => &["code", "copilot"],
            Self::OpenCode | Self::Zed | Self::Cursor => &[],
        }
    }

    pub(super) fn format(self) -> ConfigFormat {
        if self == Self::Codex { ConfigFormat::Toml } else { ConfigFormat::Json }
    }

    /// Returns the files that may hold the list, with the one to create first. Clients that read
    /// several files merge them.
    pub(super) fn files(
        self,
        scope: InitScope,
        workspace: &Path,
        environment: &CliEnvironment,
    ) -> Result<Vec<PathBuf>, ToolError> {
        match scope {
            InitScope::Project => {
                Ok(self.in_project().iter().map(|file| workspace.join(file)).collect())
            }
            InitScope::User => self.of_user(environment),
        }
    }

    fn in_project(self) -> &'static [&'static str] {
        match self {
            // code.claude.com/docs/en/mcp, "MCP installation scopes".
            Self::Claude => &[".mcp.json"],
            // developers.openai.com/codex/mcp: "or in .codex/config.toml for one trusted project".
            Self::Codex => &[".codex/config.toml"],
            // opencode.ai/docs/config, "ConfigFormat" and "Locations".
            Self::OpenCode => &[
                "opencode.json",
                "opencode.jsonc",
                ".opencode/opencode.json",
                ".opencode/opencode.jsonc",
            ],
            // geminicli.com/docs/cli/configuration, "Settings files".
            Self::Gemini => &[".gemini/settings.json"],
            // zed.dev/docs/ai/mcp; that the project's file counts too: zed-industries/zed#51951.
            Self::Zed => &[".zed/settings.json"],
            // code.visualstudio.com/docs/copilot/reference/mcp-configuration, "Configuration file".
            Self::VsCode => &[".vscode/mcp.json"],
            // cursor.com/docs/mcp, "Configuration locations".
            Self::Cursor => &[".cursor/mcp.json"],
        }
    }

    fn of_user(self, environment: &CliEnvironment) -> Result<Vec<PathBuf>, ToolError> {
        let CliEnvironment { host, codex_home, claude_home, .. } = environment;
        let haft::host::environment::Environment { home, config_home, .. } = host;
        let own = |folder: &Option<PathBuf>, in_home: &str| {
            folder.clone().or_else(|| home.as_ref().map(|home| home.join(in_home)))
        };
        let (folder, files): (_, &[&str]) = match self {
            Self::Claude => (own(claude_home, ""), &[".claude.json"]),
            Self::Codex => (own(codex_home, ".codex"), &["config.toml"]),
            Self::OpenCode => (
                own(config_home, ".config"),
                &["opencode/opencode.json", "opencode/opencode.jsonc"],
            ),
            Self::Gemini => (own(&None, ".gemini"), &["settings.json"]),
            // zed.dev/docs/configuring-zed: the same folder on Linux and macOS.
            Self::Zed => (own(config_home, ".config"), &["zed/settings.json"]),
            // The user profile of code.visualstudio.com/docs/configure/settings; on macOS it lies
            // elsewhere.
            Self::VsCode if cfg!(target_os = "macos") => {
                (own(&None, "Library/Application Support"), &["Code/User/mcp.json"])
            }
            Self::VsCode => (own(config_home, ".config"), &["Code/User/mcp.json"]),
            Self::Cursor => (own(&None, ".cursor"), &["mcp.json"]),
        };
        let folder = folder.ok_or_else(|| {
            ToolError::unavailable("cannot find your own configuration: $HOME is not set")
                .hint("set HOME, or use `--scope project`")
        })?;
        Ok(files.iter().map(|file| folder.join(file)).collect())
    }

    /// Returns the path of the list in the file. OpenCode 2 nests the list one level deeper and
    /// still reads the form of OpenCode 1 (opencode.ai/docs/migrate-v1), so the deeper list is used
    /// only if it exists.
    pub(super) fn path(self, present: Option<&Value>) -> &'static [&'static str] {
        match self {
            Self::Claude | Self::Gemini | Self::Cursor => &["mcpServers"],
            Self::Codex => &["mcp_servers"],
            Self::Zed => &["context_servers"],
            Self::VsCode => &["servers"],
            Self::OpenCode => {
                let nested = present.and_then(|file| file.get("mcp")?.get("servers")?.as_object());
                // A server may itself be called `servers`. It is then recognised by its `type`.
                let is_list = nested.is_some_and(|servers| !servers.contains_key("type"));
                if is_list { &["mcp", "servers"] } else { &["mcp"] }
            }
        }
    }

    /// Returns the entry that starts haft.
    pub(super) fn entry(self, server: &ServerCommand, path: &[&str]) -> Value {
        let (command, arguments) = (&server.command, server.arguments(self.workspace_variable()));
        match self {
            Self::Claude | Self::Codex | Self::Gemini | Self::Cursor => {
                json!({ "command": command, "args": arguments })
            }
            // There was a `source` key in 2025; zed-industries/zed#62818 says that no field of that
            // name is left.
            Self::Zed => json!({ "command": command, "args": arguments }),
            // "type: Yes (required)" in the reference.
            Self::VsCode => json!({ "type": "stdio", "command": command, "args": arguments }),
            // opencode.ai/docs/mcp-servers: the program and its arguments are one list.
            Self::OpenCode => {
                let command: Vec<&String> = [command].into_iter().chain(&arguments).collect();
                // The nested list of OpenCode 2 has no such key in its example.
                if path.len() > 1 {
                    json!({ "type": "local", "command": command })
                } else {
                    json!({ "type": "local", "command": command, "enabled": true })
                }
            }
        }
    }

    /// Returns the variable that stands for the open folder in arguments. Only Cursor needs it: it
    /// starts servers in `/`, and although it announces `roots/list` it does not answer it (as the
    /// docs of lean-ctx 3.9.13 found), but it replaces this variable in both of its files. The
    /// other clients start servers in the project or send its roots.
    fn workspace_variable(self) -> Option<&'static str> {
        (self == Self::Cursor).then_some("${workspaceFolder}")
    }

    /// Returns the additional line of a new file.
    pub(super) fn first_lines(self) -> Option<(&'static str, &'static str)> {
        // OpenCode adds this line to files that lack it, which haft would take for a change by
        // another program.
        (self == Self::OpenCode).then_some(("$schema", "https://opencode.ai/config.json"))
    }

    /// Returns what the user has to do next to make the client use haft.
    pub(crate) fn next_step(self, scope: InitScope) -> &'static str {
        match (self, scope) {
            (Self::Claude, InitScope::Project) => {
                "start `claude` in this project, choose to use the server it found (not the first \
                 answer in the list), and check `/mcp`"
            }
            (Self::Claude, InitScope::User) => "start `claude` again and check `/mcp`",
            (Self::Codex, InitScope::Project) => {
                "codex reads this file only in projects that it trusts; start it again and check \
                 `/mcp`"
            }
            (Self::Codex, InitScope::User) => "start `codex` again and check `/mcp`",
            (Self::OpenCode, _) => "start `opencode` again and check `opencode mcp list`",
            (Self::Gemini, InitScope::Project) => {
                "gemini reads this file only in folders that it trusts; start it again and check \
                 `/mcp`"
            }
            (Self::Gemini, InitScope::User) => "start `gemini` again and check `/mcp`",
            (Self::Zed, _) => {
                "check the MCP servers in Zed's settings; a green dot means that haft runs"
            }
            (Self::VsCode, _) => "start the server from `MCP: List Servers` in the command palette",
            (Self::Cursor, _) => "switch the server on under MCPs in Cursor's settings",
        }
    }
}
