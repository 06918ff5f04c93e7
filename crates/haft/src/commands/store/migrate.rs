//! `haft store migrate`: everything that is kept, in another place, of either engine.

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::{Arg, ArgMatches, Command};
use haft::host::config::{Settings, usual_store};
use haft_core::ToolError;
use haft_store::{CopyStep, CopySummary, StoreAddress, copy_store};
use serde_json::json;

use super::Cli;
use crate::{globals::Format, report, stop::Stop, terminal::Label};

/// A line that changes more often is not read.
const SHOWN_EVERY: Duration = Duration::from_millis(100);

pub(super) fn command() -> Command {
    let place = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("URL").help(help)
    };
    Command::new("migrate")
        .about("Copy everything to another store: from a file to PostgreSQL, back, or between two of a kind")
        .long_about(
            "Copy everything to another store: from a file to PostgreSQL, back, or between two of a kind.\n\n\
             The source stays as it is and is read at one moment; end other hafts that use it first, or what they \
             record meanwhile is not in the copy, which is told. The target must hold nothing yet. It is written in one \
             transaction, after which rows are counted and the chain of the ledger is verified: when anything goes \
             wrong, nothing of the source is in the target, and the same command can be given again.\n\n\
             A store is `sqlite:PATH`, a path, or `postgres://USER@HOST/DATABASE`. Saved rules and open questions count in \
             the copy as they did, as long as your key (in your state folder) is the same.",
        )
        .arg(place("from", "The store to copy [default: the one in use]"))
        .arg(place("to", "Where to").required(true))
}

impl Cli<'_> {
    /// `haft store migrate`
    pub(super) fn migrate_store(
        &self,
        settings: &Settings,
        matches: &ArgMatches,
        format: Format,
    ) -> Result<ExitCode, Stop> {
        let named = |name: &str| {
            let text = matches.get_one::<String>(name);
            text.map(|text| StoreAddress::parse(text, &settings.directory)).transpose()
        };
        let from = named("from")?.unwrap_or_else(|| settings.store.address.clone());
        let to = named("to")?.ok_or_else(|| ToolError::input("no place to copy to"))?;
        let mut shown = Instant::now();
        let show = |step: CopyStep<'_>| {
            if shown.elapsed() >= SHOWN_EVERY {
                shown = Instant::now();
                let CopyStep { table, rows, of } = step;
                let share = rows.saturating_mul(100).checked_div(of).unwrap_or(100);
                self.terminal.draw_status(&format!("{share:>3} %  {rows} of {of} rows, {table}"));
            }
        };
        let copied = self.runtime.block_on(copy_store(&from, &to, show));
        self.terminal.end_status();
        let copied = copied?;
        self.warn_of(&copied, &from);
        let next = next_step(settings, &to);
        match format {
            Format::Json => {
                let mut told = serde_json::to_value(&copied).map_err(|error| {
                    ToolError::internal(format!("what was copied is no JSON: {error}"))
                })?;
                let tables: serde_json::Map<_, _> =
                    copied.tables.iter().map(|(name, rows)| (name.clone(), json!(rows))).collect();
                told["tables"] = tables.into();
                told["from"] = from.to_string().into();
                told["to"] = to.to_string().into();
                told["next"] = next.into();
                report::json(self.terminal, &told)?;
            }
            Format::Text => {
                let CopySummary { rows, calls, tables, .. } = &copied;
                let count = tables.len();
                let told = format!(
                    "copied {rows} rows of {count} tables, {calls} ledger entries among them, from {from} to {to}"
                );
                self.terminal.print(&format!("{told}\nnext: {next}"))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn warn_of(&self, copied: &CopySummary, from: &StoreAddress) {
        let warn = |text: String| self.terminal.tell(Label::Warning, &text);
        if let Some(fault) = copied.faults.first() {
            let (count, seq) = (copied.faults.len(), fault.seq);
            warn(format!(
                "the chain of the ledger was broken before, first at entry {seq} ({count} in all); it is copied as it is"
            ));
        }
        if !copied.left_behind.is_empty() {
            let names = copied.left_behind.join(", ");
            warn(format!("tables that are not haft's stayed behind: {names}"));
        }
        if copied.missed > 0 {
            let missed = copied.missed;
            warn(format!(
                "{missed} calls were recorded in {from} meanwhile and are not in the copy: end the hafts that use it and copy again"
            ));
        }
    }
}

/// What makes haft use the copy.
fn next_step(settings: &Settings, to: &StoreAddress) -> String {
    if *to == usual_store(&settings.workspace) {
        return "this is where haft looks when nothing else is set: take `url` under `[store]` out of your config.toml".to_owned();
    }
    let (url, note) = match to {
        StoreAddress::Sqlite(path) => (path.display().to_string(), ""),
        StoreAddress::Postgres(url) => {
            let shown = to.to_string();
            let note =
                if *url == shown { "" } else { "\n(with the password, which is not shown here)" };
            (shown, note)
        }
    };
    let url = toml_text(&url);
    format!(
        "write this into your config.toml, and haft uses the copy\n\n[store]\nurl = {url}{note}"
    )
}

/// As TOML has texts: JSON's escapes are among its own.
fn toml_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
