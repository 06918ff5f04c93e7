//! `haft store migrate`: copies the store to another location or engine.

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::{Arg, ArgMatches, Command};
use haft::host::config::{Settings, default_store};
use haft_core::ToolError;
use haft_store::{CopyStep, CopySummary, StoreAddress, copy_store};
use serde_json::json;

use super::Cli;
use crate::{globals::Format, report, stop::Stop, terminal::Label};

/// A line that changes more often would be unreadable. that changes more often.
const STATUS_INTERVAL: Duration = Duration::from_millis(100);

pub(super) fn command() -> Command {
    let place = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("URL").help(help)
    };
    Command::new("migrate")
        .about("Copy everything to another store: between files and PostgreSQL, in any direction")
        .long_about(
            "Copy everything to another store: between files and PostgreSQL, in any direction.\n\n\
             The source is not changed. haft reads it in one snapshot, so first stop other haft \
             processes that use it; calls that they record during the copy are missing in it, and \
             haft warns about them. The target must be empty. haft writes it in one transaction, \
             then counts the rows and verifies the ledger's chain of hashes. After an error the \
             target is still empty, and you can run the command again.\n\n\
             A store is `sqlite:PATH`, a path, or `postgres://USER@HOST/DATABASE`. Saved rules and \
             pending approvals stay valid in the copy if your key (in your state folder) is the \
             same.",
        )
        .arg(place("from", "The store to copy [default: the active one]"))
        .arg(place("to", "The target store").required(true))
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
        let to = named("to")?.ok_or_else(|| ToolError::input("no target store"))?;
        let mut shown = Instant::now();
        let show = |step: CopyStep<'_>| {
            if shown.elapsed() >= STATUS_INTERVAL {
                shown = Instant::now();
                let CopyStep { table, rows, of } = step;
                let share = rows.saturating_mul(100).checked_div(of).unwrap_or(100);
                self.terminal.draw_status(&format!("{share:>3} %  {rows} of {of} rows, {table}"));
            }
        };
        let copied = self.runtime.block_on(copy_store(&from, &to, show));
        self.terminal.end_status();
        let copied = copied?;
        self.warn_about(&copied, &from);
        let next = next_step(settings, &to);
        match format {
            Format::Json => {
                let mut report = serde_json::to_value(&copied).map_err(|error| {
                    ToolError::internal(format!("cannot convert the result to JSON: {error}"))
                })?;
                let tables: serde_json::Map<_, _> =
                    copied.tables.iter().map(|(name, rows)| (name.clone(), json!(rows))).collect();
                report["tables"] = tables.into();
                report["from"] = from.to_string().into();
                report["to"] = to.to_string().into();
                report["next"] = next.into();
                report::json(self.terminal, &report)?;
            }
            Format::Text => {
                let CopySummary { rows, calls, tables, .. } = &copied;
                let count = tables.len();
                let summary = format!(
                    "copied {rows} rows of {count} tables, including {calls} ledger entries, from \
                     {from} to {to}"
                );
                self.terminal.print(&format!("{summary}\nnext: {next}"))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn warn_about(&self, copied: &CopySummary, from: &StoreAddress) {
        let warn = |text: String| self.terminal.tell(Label::Warning, &text);
        if let Some(fault) = copied.faults.first() {
            let (count, seq) = (copied.faults.len(), fault.seq);
            warn(format!(
                "the ledger's chain of hashes was already broken, first at entry {seq} ({count} \
                 errors in total); it was copied unchanged"
            ));
        }
        if !copied.left_behind.is_empty() {
            let names = copied.left_behind.join(", ");
            warn(format!("tables that do not belong to haft were not copied: {names}"));
        }
        if copied.missed > 0 {
            let missed = copied.missed;
            warn(format!(
                "{missed} calls were recorded in {from} during the copy and are missing in it: \
                 stop the haft processes that use it and copy again"
            ));
        }
    }
}

/// Returns the configuration that makes haft use the copy.
fn next_step(settings: &Settings, to: &StoreAddress) -> String {
    if *to == default_store(&settings.workspace) {
        return "this is the default store: remove `url` under `[store]` from your config.toml"
            .to_owned();
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
    format!("add this to your config.toml to use the copy\n\n[store]\nurl = {url}{note}")
}

/// Quotes a text for TOML, which accepts JSON's escapes.
fn toml_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
