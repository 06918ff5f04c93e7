//! `haft secret`: manages the secrets that requests and commands refer to as `secret:NAME`. It
//! never prints a value.

use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};
use haft::host::{config::Settings, vault};
use haft_core::{ToolError, is_secret_name};
use haft_exec::Credential;
use haft_store::{Existing, KeptSecret, KeyWanted, StoreVault};
use jiff::{Timestamp, tz::TimeZone};
use serde_json::{Value, json};

use super::Cli;
use crate::{
    globals::{Format, Globals},
    report, stdin,
    stop::Stop,
    terminal::{Tty, hidden_line},
};

/// More than the maximum size of a value, so that the vault reports a value that is too long.
const MAX_STDIN_BYTES: usize = 1 << 20;
const VARIABLE: &str = "HAFT_SECRET_";

pub(super) fn command() -> Command {
    let name =
        || Arg::new("name").value_name("NAME").required(true).help("Letters, digits and `_`");
    Command::new("secret")
        .about("Save, list and remove secrets that calls use as secret:NAME")
        .long_about(
            "Manage secrets that requests and commands refer to as secret:NAME.\n\n\
             An agent refers to a secret by name and never sees its value: haft puts the value \
             into the request or the command's environment, and redacts it from the result. \
             `http_request` accepts `Bearer secret:NAME` in a header; `bash` accepts \
             `KEY=secret:NAME` in `env` and needs approval.",
        )
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .subcommand(
            Command::new("set")
                .about("Store a secret; its value is asked for, or read from standard input")
                .arg(name())
                .arg(
                    Arg::new("host")
                        .long("host")
                        .value_name("HOST")
                        .action(ArgAction::Append)
                        .help(
                            "Send it only to this host (`*.example.org`: all subdomains); \
                            commands cannot use it then",
                        ),
                )
                .arg(
                    Arg::new("key")
                        .long("key")
                        .value_name("PLACE")
                        .value_parser(["auto", "keyring", "file"])
                        .default_value("auto")
                        .help(
                            "Where to keep the vault's key, chosen with the first secret: \
                            $HAFT_PASSPHRASE, else the desktop's keyring, else a file",
                        ),
                )
                .arg(
                    Arg::new("force")
                        .long("force")
                        .action(ArgAction::SetTrue)
                        .help("Replace an existing secret of this name"),
                ),
        )
        .subcommand(
            Command::new("list")
                .about("List names, hosts and places of all secrets, without values"),
        )
        .subcommand(Command::new("remove").about("Delete a secret").arg(name()))
}

impl Cli<'_> {
    /// `haft secret …`
    pub(super) fn secret(&self, matches: &ArgMatches) -> Result<ExitCode, Stop> {
        let Some((word, matches)) = matches.subcommand() else { return Ok(ExitCode::FAILURE) };
        let globals = Globals::of(matches);
        let vault = vault(&self.environment.host).ok_or_else(no_home)?;
        let name = matches.try_get_one::<String>("name").ok().flatten();
        let name = name.map_or("", String::as_str);
        match word {
            "set" => self.set_secret(&vault, name, matches, globals.format),
            "remove" => {
                vault.remove(name)?;
                self.report(globals.format, json!({"removed": name}), &format!("removed {name}"))
            }
            _ => {
                let settings = Settings::load(&globals.choices, &self.environment.host)?;
                self.list_secrets(&vault, &settings.network.credentials, globals.format)
            }
        }
    }

    fn set_secret(
        &self,
        vault: &StoreVault,
        name: &str,
        matches: &ArgMatches,
        format: Format,
    ) -> Result<ExitCode, Stop> {
        let hosts: Vec<String> = matches.get_many("host").into_iter().flatten().cloned().collect();
        let is_known = vault.list()?.iter().any(|kept| kept.name == name);
        let replaces = matches.get_flag("force") || is_known && self.may_replace(name)?;
        let existing = if replaces { Existing::Replace } else { Existing::Keep };
        let value = match stdin::is_piped() {
            true => stdin::read_text(MAX_STDIN_BYTES)?,
            // Do not ask for a value if the name is invalid.
            false if !is_secret_name(name) => String::new(),
            false => typed(name)?,
        };
        let wanted = match matches.get_one::<String>("key").map(String::as_str) {
            Some("keyring") => KeyWanted::Keyring,
            Some("file") => KeyWanted::File,
            _ => KeyWanted::Auto,
        };
        let kept = vault.set_with(name, &value, &hosts, existing, wanted)?;
        let words = format!("set {name} ({})", kept.place);
        self.report(format, json!({"set": listed(&kept)}), &words)
    }

    /// Asks the user whether to replace a secret. Without a terminal, `set` refuses.
    fn may_replace(&self, name: &str) -> Result<bool, ToolError> {
        let Some(tty) = Tty::open().ok().filter(|_| !stdin::is_piped()) else { return Ok(false) };
        tty.forget_typed_ahead();
        tty.write(&format!("The secret {name} already exists. Replace it? [y/N] "));
        let answer = self.runtime.block_on(tty.line()).unwrap_or_default();
        match answer.to_ascii_lowercase().as_str() {
            "y" | "yes" => Ok(true),
            _ => Err(not_set()),
        }
    }

    fn list_secrets(
        &self,
        vault: &StoreVault,
        credentials: &[Credential],
        format: Format,
    ) -> Result<ExitCode, Stop> {
        let mut all: Vec<Value> = in_variables(credentials);
        let is_held = |name: &str| all.iter().any(|other| other["name"] == name);
        // A variable takes precedence over the vault.
        let kept: Vec<Value> =
            vault.list()?.iter().filter(|kept| !is_held(&kept.name)).map(listed).collect();
        all.extend(kept);
        all.sort_by_key(|secret| secret["name"].as_str().unwrap_or_default().to_owned());
        let lines: Vec<String> = all.iter().map(line).collect();
        let words = match lines.is_empty() {
            true => "no secrets; `haft secret set NAME` stores one".to_owned(),
            false => lines.join("\n"),
        };
        self.report(format, json!({"secrets": all}), &words)
    }

    fn report(&self, format: Format, data: Value, words: &str) -> Result<ExitCode, Stop> {
        match format {
            Format::Json => report::json(self.terminal, &data)?,
            Format::Text => self.terminal.print(words)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn typed(name: &str) -> Result<String, ToolError> {
    let typed = hidden_line(&format!("Value of {name} (not shown): ")).map_err(|error| {
        ToolError::unavailable(format!("no terminal is available to ask for the value: {error}"))
            .hint("pass the value on standard input")
    })?;
    typed.ok_or_else(not_set)
}

fn not_set() -> ToolError {
    ToolError::new(haft_core::ErrorKind::Cancelled, "nothing was set")
}

/// Returns the secrets in environment variables, named by the config or by their variable.
fn in_variables(credentials: &[Credential]) -> Vec<Value> {
    let variables = haft::host::environment::all();
    let secret = |name: &str, hosts: &[String], variable: &str| json!({"name": name, "hosts": hosts, "place": format!("variable {variable}"), "set": null});
    let is_set =
        |name: &str| variables.iter().any(|(known, value)| known == name && !value.is_empty());
    let named = credentials.iter().filter(|it| is_set(&it.variable));
    let mut all: Vec<Value> = named.map(|it| secret(&it.name, &it.hosts, &it.variable)).collect();
    for (variable, value) in &variables {
        let name = variable.to_str().and_then(|variable| variable.strip_prefix(VARIABLE));
        let is_named = |name: &str| credentials.iter().any(|it| it.name == name);
        if let Some(name) = name.filter(|name| is_secret_name(name) && !is_named(name))
            && !value.is_empty()
        {
            all.push(secret(name, &[], &format!("{VARIABLE}{name}")));
        }
    }
    all
}

fn listed(kept: &KeptSecret) -> Value {
    let at = i64::try_from(kept.set_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    let set = at.map(|at| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    json!({"name": kept.name, "hosts": kept.hosts, "place": kept.place, "set": set})
}

fn line(secret: &Value) -> String {
    let word = |key: &str| secret[key].as_str().unwrap_or_default();
    let hosts: Vec<&str> =
        secret["hosts"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let hosts = if hosts.is_empty() { "everywhere".to_owned() } else { hosts.join(", ") };
    let at: Option<Timestamp> = word("set").parse().ok();
    let at = at.map(|at| at.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string());
    let at = at.map(|at| format!(", set {at}")).unwrap_or_default();
    format!("{}  {hosts}  ({}{at})", word("name"), word("place"))
}

fn no_home() -> ToolError {
    ToolError::unavailable("cannot store secrets: $HOME is not set")
        .hint("set $HOME or $XDG_STATE_HOME")
}
