//! `haft store`: shows, checks, backs up, restores and copies the store.

mod migrate;

use std::{path::PathBuf, process::ExitCode};

use clap::{Arg, ArgMatches, Command, value_parser};
use haft::host::config::Settings;
use haft_core::{ErrorKind, ToolError};
use haft_store::{ReplyTiming, Store, StoreAddress, StoreLedger, StoreLocation, restore};
use serde_json::json;

use super::Cli;
use crate::{
    globals::{Format, Globals},
    report,
    safe_text::shown_in_line,
    stop::Stop,
    terminal::{Tone, write_out},
};

pub(super) fn command() -> Command {
    let file = |help: &'static str| {
        let arg = Arg::new("file").value_name("FILE").required(true).help(help);
        arg.value_parser(value_parser!(PathBuf))
    };
    Command::new("store")
        .about("Inspect, back up, restore and migrate the store of calls and saved rules")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .subcommand(Command::new("info").about("Show where the store is, and what is in it"))
        .subcommand(Command::new("check").about(
            "Check the store and the ledger's chain of hashes; exits with 4 if one is damaged",
        ))
        .subcommand(
            Command::new("backup")
                .about("Copy the store to a new file while it is in use")
                .arg(file("The file to create")),
        )
        .subcommand(
            Command::new("restore")
                .about("Replace the store with a backup; the old store is renamed")
                .arg(file("A file created by `haft store backup`")),
        )
        .subcommand(migrate::command())
}

impl Cli<'_> {
    /// `haft store …`
    pub(super) fn store(&self, matches: &ArgMatches) -> Result<ExitCode, Stop> {
        let Some((word, matches)) = matches.subcommand() else { return Ok(ExitCode::FAILURE) };
        let globals = Globals::of(matches);
        let settings = Settings::load(&globals.choices, &self.environment.host)?;
        if word == "migrate" {
            return self.migrate_store(&settings, matches, globals.format);
        }
        let address = settings.store.address;
        let file = || {
            let file = matches.get_one::<PathBuf>("file").cloned().unwrap_or_default();
            settings.directory.join(file)
        };
        let format = globals.format;
        let work = async {
            match word {
                "info" => self.store_info(&address, format).await,
                "check" => self.check_store(&address, format).await,
                "backup" => {
                    let file = file();
                    existing(&address).await?.back_up(&file).await?;
                    self.done(format, &format!("copied to {}", file.display()))
                }
                _ => match restore(&address, &file()).await? {
                    Some(renamed) => {
                        let renamed = renamed.display();
                        self.done(format, &format!("restored; the old store is now {renamed}"))
                    }
                    None => self.done(format, "restored"),
                },
            }
        };
        self.runtime.block_on(work)
    }

    async fn store_info(&self, address: &StoreAddress, format: Format) -> Result<ExitCode, Stop> {
        let info = existing(address).await?.info().await?;
        match format {
            Format::Json => report::json(self.terminal, &info)?,
            Format::Text => {
                let kilobytes = info.bytes.div_ceil(1024);
                let mut lines = vec![
                    format!("store    {}", info.address),
                    format!("engine   {}", info.engine),
                    format!("version  {}", info.version),
                    format!("size     {kilobytes} KB"),
                    format!("calls    {}", info.calls),
                    format!("rules    {}", info.rules),
                    String::new(),
                    format!("{:<18}  {:>9}  {:>9}", "part", "rows", "KB"),
                ];
                let used = info.parts.iter().filter(|part| part.rows > 0);
                lines.extend(used.map(|part| {
                    let kilobytes = part.bytes.div_ceil(1024);
                    format!("{:<18}  {:>9}  {kilobytes:>9}", part.name, part.rows)
                }));
                self.terminal.print(&lines.join("\n"))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn check_store(&self, address: &StoreAddress, format: Format) -> Result<ExitCode, Stop> {
        let mut errors = existing(address).await?.check().await?;
        let ledger =
            StoreLedger::new(StoreLocation::new(address.clone()), ReplyTiming::AfterCommit);
        // A damaged store may not be readable to its end.
        match ledger.verify(None).await {
            Ok(verified) => {
                let each = verified.faults.into_iter();
                errors.extend(each.map(|fault| format!("call {}: {}", fault.seq, fault.what)));
            }
            Err(error) => errors.push(error.to_string()),
        }
        match format {
            Format::Json => {
                report::json(
                    self.terminal,
                    &json!({"whole": errors.is_empty(), "faults": errors}),
                )?;
            }
            Format::Text if errors.is_empty() => {
                let intact = self.terminal.result_toned(Tone::Good, "intact");
                let address = address.to_string();
                write_out(&format!("{} is {intact}\n", shown_in_line(&address)))?;
            }
            Format::Text => {
                self.terminal.print(&errors.join("\n"))?;
                let message = format!("the store {address} is damaged");
                return Err(ToolError::conflict(message)
                    .hint("copy it elsewhere, then restore a backup with `haft store restore FILE`")
                    .into());
            }
        }
        let code = if errors.is_empty() { 0 } else { ErrorKind::Conflict.exit_code() };
        Ok(ExitCode::from(code))
    }

    fn done(&self, format: Format, what: &str) -> Result<ExitCode, Stop> {
        match format {
            Format::Json => report::json(self.terminal, &json!({"done": what}))?,
            Format::Text => self.terminal.print(what)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

async fn existing(address: &StoreAddress) -> Result<Store, ToolError> {
    Store::existing(address).await?.ok_or_else(|| {
        ToolError::not_found(format!("no store exists at {address}"))
            .hint("the first call creates it; choose another one with --store")
    })
}
