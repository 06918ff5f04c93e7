//! The clients haft can be put into: where each keeps its list of MCP servers, and what an entry looks like there. Every
//! rule names the page it was taken from, as it stood in November 2026.

use std::path::{Path, PathBuf};

use haft_core::{ToolError, did_you_mean, nearest};
use serde_json::{Value, json};

use super::{document::Format, launch::Launch};
use crate::environment::Environment;

/// Whose configuration is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The project's, which travels with it.
    Project,
    /// The person's, for every project.
    User,
}

impl Scope {
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
pub(crate) enum Client {
    Claude,
    Codex,
    OpenCode,
    Gemini,
    Zed,
    VsCode,
    Cursor,
}

impl Client {
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
    /// When no client is called that, with the nearest name.
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
        Err(ToolError::not_found(format!("haft knows no client `{shown}`"))
            .hint(if near.is_empty() { all } else { near }))
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

    pub(super) fn format(self) -> Format {
        if self == Self::Codex { Format::Toml } else { Format::Json }
    }

    /// The files that may hold the list, the one to make first. Clients that read several merge them.
    pub(super) fn files(
        self,
        scope: Scope,
        workspace: &Path,
        environment: &Environment,
    ) -> Result<Vec<PathBuf>, ToolError> {
        match scope {
            Scope::Project => {
                Ok(self.in_project().iter().map(|file| workspace.join(file)).collect())
            }
            Scope::User => self.of_user(environment),
        }
    }

    fn in_project(self) -> &'static [&'static str] {
        match self {
            // code.claude.com/docs/en/mcp, "MCP installation scopes".
            Self::Claude => &[".mcp.json"],
            // developers.openai.com/codex/mcp: "or in .codex/config.toml for one trusted project".
            Self::Codex => &[".codex/config.toml"],
            // opencode.ai/docs/config, "Format" and "Locations".
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

    fn of_user(self, environment: &Environment) -> Result<Vec<PathBuf>, ToolError> {
        let Environment { host, codex_home, claude_home, .. } = environment;
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
            // The user profile of code.visualstudio.com/docs/configure/settings; on macOS it lies elsewhere.
            Self::VsCode if cfg!(target_os = "macos") => {
                (own(&None, "Library/Application Support"), &["Code/User/mcp.json"])
            }
            Self::VsCode => (own(config_home, ".config"), &["Code/User/mcp.json"]),
            Self::Cursor => (own(&None, ".cursor"), &["mcp.json"]),
        };
        let folder = folder.ok_or_else(|| {
            ToolError::unavailable("your own configuration cannot be found: HOME is not set")
                .hint("set HOME, or use `--scope project`")
        })?;
        Ok(files.iter().map(|file| folder.join(file)).collect())
    }

    /// Where in the file the servers are listed. OpenCode 2 nests them one level deeper and still reads what OpenCode 1
    /// wrote (opencode.ai/docs/migrate-v1), so the deeper list is used only where somebody already has it.
    pub(super) fn path(self, present: Option<&Value>) -> &'static [&'static str] {
        match self {
            Self::Claude | Self::Gemini | Self::Cursor => &["mcpServers"],
            Self::Codex => &["mcp_servers"],
            Self::Zed => &["context_servers"],
            Self::VsCode => &["servers"],
            Self::OpenCode => {
                let nested = present.and_then(|file| file.get("mcp")?.get("servers")?.as_object());
                // A server may itself be called `servers`; then it says of which type it is.
                let is_list = nested.is_some_and(|servers| !servers.contains_key("type"));
                if is_list { &["mcp", "servers"] } else { &["mcp"] }
            }
        }
    }

    /// The entry that starts haft.
    pub(super) fn entry(self, launch: &Launch, path: &[&str]) -> Value {
        let (command, arguments) = (&launch.command, launch.arguments(self.workspace_variable()));
        match self {
            Self::Claude | Self::Codex | Self::Gemini | Self::Cursor => {
                json!({ "command": command, "args": arguments })
            }
            // There was a `source` key in 2025; zed-industries/zed#62818 says that no field of that name is left.
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

    /// What stands for the open folder in arguments. Only where it is needed: Cursor starts servers in `/` and does not
    /// answer `roots/list`, though it says that it would (as the docs of lean-ctx 3.9.13 found), but it puts the folder in
    /// for this variable in both of its files. The others start servers in the project or tell its roots.
    fn workspace_variable(self) -> Option<&'static str> {
        (self == Self::Cursor).then_some("${workspaceFolder}")
    }

    /// What a new file has besides.
    pub(super) fn first_lines(self) -> Option<(&'static str, &'static str)> {
        // OpenCode writes this line into files that lack it, which would look like somebody's change to us.
        (self == Self::OpenCode).then_some(("$schema", "https://opencode.ai/config.json"))
    }

    /// What the person has to do for it to count.
    pub(crate) fn next_step(self, scope: Scope) -> &'static str {
        match (self, scope) {
            (Self::Claude, Scope::Project) => {
                "start `claude` in this project, choose to use the server it found (not the answer it offers first), and look at `/mcp`"
            }
            (Self::Claude, Scope::User) => "start `claude` again and look at `/mcp`",
            (Self::Codex, Scope::Project) => {
                "codex reads this file only in projects that it trusts; start it again and look at `/mcp`"
            }
            (Self::Codex, Scope::User) => "start `codex` again and look at `/mcp`",
            (Self::OpenCode, _) => "start `opencode` again and look at `opencode mcp list`",
            (Self::Gemini, Scope::Project) => {
                "gemini reads this file only in folders that it trusts; start it again and look at `/mcp`"
            }
            (Self::Gemini, Scope::User) => "start `gemini` again and look at `/mcp`",
            (Self::Zed, _) => {
                "look at the MCP servers in Zed's settings; a green dot says that it runs"
            }
            (Self::VsCode, _) => "start the server from `MCP: List Servers` in the command palette",
            (Self::Cursor, _) => "switch the server on under MCPs in Cursor's settings",
        }
    }
}
