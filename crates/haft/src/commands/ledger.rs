//! `haft ledger`: shows, verifies, exports and counts recorded calls.

mod figures;
pub(super) mod table;

use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use haft::host::config::Settings;
use haft_core::ErrorKind;
use haft_store::{
    Anchor, CallEnding, DroppedEntries, LedgerError, LedgerFilter, Pruned, RecordedEntry,
    ReplyTiming, StoreLedger, StoreLocation, Verification,
};
use jiff::{Span, Timestamp, Zoned, civil, tz::TimeZone};
use serde_json::{Value, json};

use self::figures::Figures;
use super::Cli;
use crate::{
    globals::{Format, Globals},
    report,
    safe_text::shown_in_line,
    stop::Stop,
    terminal::{Terminal, Tone, write_out},
};

/// An export is written in chunks of about this size.
const CHUNK_BYTES: usize = 64 << 10;

pub(super) fn command() -> Command {
    Command::new("ledger")
        .about("Show, verify and export the record of all calls")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .subcommand(
            filtered(Command::new("show").about("List the newest calls, newest first")).arg(
                Arg::new("limit")
                    .long("limit")
                    .value_name("N")
                    .default_value("20")
                    .value_parser(value_parser!(u32).range(1..))
                    .help("Maximum number of calls"),
            ),
        )
        .subcommand(
            Command::new("verify")
                .about("Verify the chain of hashes and report where it is broken")
                .long_about(
                    "Verify the chain of hashes and report where it is broken: entries that were changed, moved or \
                     removed, and a truncated end. The exit code is 4 when the chain is broken.\n\n\
                     A process that can write the store could also build a new chain from some \
                     entry on. To detect that, keep the printed anchor elsewhere and pass it with \
                     --anchor later.",
                )
                .arg(
                    Arg::new("anchor")
                        .long("anchor")
                        .value_name("NUMBER:HASH")
                        .value_parser(|text: &str| text.parse::<Anchor>())
                        .help("The anchor that an earlier verification printed"),
                ),
        )
        .subcommand(filtered(
            Command::new("export").about("Print all calls as JSON lines, oldest first, each with its hash"),
        ))
        .subcommand(filtered(
            Command::new("stats").about("Count calls by tool, decision and error, and show how long they took"),
        ))
        .subcommand(
            Command::new("prune")
                .about("Drop entries beyond `ledger_days` and `ledger_bytes` now")
                .long_about(
                    "Drop entries that are older than `ledger_days`, and more entries until the ledger is not larger than \
                     `ledger_bytes`. Both are set under `[store]` in your config.toml. haft also \
                     does this automatically while it records calls.\n\n\
                     Calls that changed nothing are dropped first. Entries that an undo, a pending \
                     approval or a kept result needs stay. An anchor entry records what was \
                     dropped, so that `haft ledger verify` can tell it from tampering.",
                )
                .arg(
                    Arg::new("dry-run")
                        .long("dry-run")
                        .action(ArgAction::SetTrue)
                        .help("Only print what would be dropped"),
                ),
        )
}

fn filtered(command: Command) -> Command {
    let option = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    command
        .arg(option("session", "ID", "Only calls of this session"))
        .arg(option("tool", "NAME", "Only calls of this tool"))
        .arg(
            option(
                "since",
                "TIME",
                "Only calls since this time: 2h, 3d, 2026-01-31 or 2026-01-31T12:00",
            )
            .value_parser(since),
        )
}

impl Cli<'_> {
    /// `haft ledger …`
    pub(super) fn ledger(&self, matches: &ArgMatches) -> Result<ExitCode, Stop> {
        let Some((word, matches)) = matches.subcommand() else { return Ok(ExitCode::FAILURE) };
        let globals = Globals::of(matches);
        let settings = Settings::load(&globals.choices, &self.environment.host)?;
        let place = StoreLocation::new(settings.store.address);
        let ledger =
            StoreLedger::new(place, ReplyTiming::AfterCommit).retaining(settings.store.ledger);
        let work = async {
            match word {
                "show" => self.show(&ledger, matches, globals.format).await,
                "verify" => self.verify(&ledger, matches, globals.format).await,
                "export" => self.export(&ledger, matches).await,
                "prune" => self.prune(&ledger, matches, globals.format).await,
                _ => self.stats(&ledger, matches, globals.format).await,
            }
        };
        self.runtime.block_on(work)
    }

    async fn show(
        &self,
        ledger: &StoreLedger,
        matches: &ArgMatches,
        format: Format,
    ) -> Result<ExitCode, Stop> {
        let max = matches.get_one::<u32>("limit").map_or(20, |limit| *limit as usize);
        let found =
            ledger.find(&LedgerFilter { most: max, anchors: true, ..filter(matches) }).await?;
        match format {
            Format::Json => {
                let calls: Vec<Value> = found.iter().map(as_json).collect();
                report::json(self.terminal, &calls)?;
            }
            Format::Text if found.is_empty() => self.terminal.print("no calls are recorded")?,
            Format::Text => self.terminal.print(&table::of(
                &found,
                &TimeZone::system(),
                self.terminal.width(),
            ))?,
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn verify(
        &self,
        ledger: &StoreLedger,
        matches: &ArgMatches,
        format: Format,
    ) -> Result<ExitCode, Stop> {
        let verified = ledger.verify(matches.get_one::<Anchor>("anchor")).await?;
        let Verification { entries, head, dropped, anchor_is_dropped, unended, faults } = &verified;
        let is_whole = faults.is_empty();
        match format {
            Format::Json => {
                let head = head.to_string();
                let report = json!({
                    "whole": is_whole, "entries": entries, "anchor": head, "dropped": dropped,
                    "anchor_is_dropped": anchor_is_dropped, "unended": unended, "faults": faults,
                });
                report::json(self.terminal, &report)?;
            }
            Format::Text => write_out(&verification_text(self.terminal, &verified))?,
        }
        let code = if is_whole { 0 } else { ErrorKind::Conflict.exit_code() };
        Ok(ExitCode::from(code))
    }

    async fn export(&self, ledger: &StoreLedger, matches: &ArgMatches) -> Result<ExitCode, Stop> {
        let filter = filter(matches);
        let mut lines = String::new();
        let exported = ledger.each_onwards(|recorded| {
            if is_wanted(&filter, &recorded) {
                lines.push_str(&as_line(&recorded));
                lines.push('\n');
            }
            if lines.len() >= CHUNK_BYTES {
                self.terminal.print(&std::mem::take(&mut lines))?;
            }
            Ok::<(), Stop>(())
        });
        exported.await?;
        if !lines.is_empty() {
            self.terminal.print(&lines)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn prune(
        &self,
        ledger: &StoreLedger,
        matches: &ArgMatches,
        format: Format,
    ) -> Result<ExitCode, Stop> {
        let is_dry = matches.get_flag("dry-run");
        let pruned = match is_dry {
            true => ledger.preview_prune().await?,
            false => ledger.prune().await?,
        };
        match format {
            Format::Json => report::json(self.terminal, &pruned)?,
            Format::Text => {
                let words = if is_dry { "would be dropped" } else { "were dropped" };
                let Pruned { read_only, changing, bytes, .. } = pruned;
                let kilobytes = bytes.div_ceil(1024);
                self.terminal.print(&format!(
                    "{read_only} calls that changed nothing and {changing} that may have changed \
                     something {words}, {kilobytes} KB"
                ))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn stats(
        &self,
        ledger: &StoreLedger,
        matches: &ArgMatches,
        format: Format,
    ) -> Result<ExitCode, Stop> {
        let mut figures = Figures::default();
        ledger
            .each(&filter(matches), |recorded| {
                if !recorded.entry.is_begun() {
                    figures.add(&recorded.entry);
                }
            })
            .await?;
        match format {
            Format::Json => report::json(self.terminal, &figures.json())?,
            Format::Text => self.terminal.print(&figures.text())?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Formats a verification. The text has colour codes, so text from the store is escaped here.
fn verification_text(terminal: &Terminal, verified: &Verification) -> String {
    let Verification { entries, head, unended, faults, .. } = verified;
    let calls = if *entries == 1 { "entry" } else { "entries" };
    if faults.is_empty() {
        let whole = terminal.result_toned(Tone::Good, "intact");
        let unended: String = unended.iter().map(unended_line).collect();
        let dropped = dropped_lines(verified);
        return format!(
            "{entries} {calls}, the chain is {whole}\n{dropped}{unended}anchor: {head}\n"
        );
    }
    let places = if faults.len() == 1 { "place" } else { "places" };
    let broken = terminal.result_toned(Tone::Bad, &format!("broken at {} {places}", faults.len()));
    let mut lines = vec![format!("{entries} {calls}, the chain is {broken}")];
    let line =
        |fault: &LedgerError| format!("  entry {}: {}", fault.seq, shown_in_line(&fault.what));
    lines.extend(faults.iter().map(line));
    lines.join("\n") + "\n"
}

/// Formats what retention dropped, for a person to judge: a process that can write the store can
/// also append an anchor entry.
fn dropped_lines(Verification { dropped, anchor_is_dropped, .. }: &Verification) -> String {
    let mut lines = String::new();
    if dropped.entries > 0 {
        let DroppedEntries { entries, read_only, changing, last_ms } = dropped;
        let time = table::time(*last_ms, &TimeZone::system());
        lines = format!(
            "  {entries} older entries were dropped by retention, last on {time}: {read_only} calls that changed nothing, \
             {changing} that may have changed something\n"
        );
    }
    if *anchor_is_dropped {
        lines.push_str(
            "  the given anchor's entry was dropped too, so its hash was not compared: keep the \
             new anchor\n",
        );
    }
    lines
}

fn unended_line((seq, ending): (&u64, &CallEnding)) -> String {
    match ending {
        CallEnding::Interrupted => {
            format!("  entry {seq}: interrupted: its process ended before the call\n")
        }
        _ => format!("  entry {seq}: no end recorded: the call may still be running\n"),
    }
}

fn filter(matches: &ArgMatches) -> LedgerFilter {
    LedgerFilter {
        session: matches.get_one("session").cloned(),
        tool: matches.get_one("tool").cloned(),
        since_ms: matches.get_one("since").copied().unwrap_or_default(),
        ..LedgerFilter::default()
    }
}

fn is_wanted(filter: &LedgerFilter, RecordedEntry { entry, .. }: &RecordedEntry) -> bool {
    entry.began_ms >= filter.since_ms
        && filter.session.as_ref().is_none_or(|session| *session == entry.session)
        && filter.tool.as_ref().is_none_or(|tool| *tool == entry.tool)
}

/// Formats an entry with its stored text unchanged, because the hash covers these bytes. The text
/// was parsed before, so it is valid JSON.
fn as_line(RecordedEntry { seq, hash, text, .. }: &RecordedEntry) -> String {
    format!(r#"{{"seq":{seq},"hash":"{hash}","entry":{text}}}"#)
}

fn as_json(RecordedEntry { seq, hash, entry, ending, .. }: &RecordedEntry) -> Value {
    match ending {
        CallEnding::Recorded => json!({"seq": seq, "hash": hash, "entry": entry}),
        _ => json!({"seq": seq, "hash": hash, "entry": entry, "ending": ending}),
    }
}

/// Parses a date or a duration before now into milliseconds since 1970.
pub(super) fn since(text: &str) -> Result<u64, String> {
    let expected =
        || "expected a duration (30m, 2h, 3d) or a date (2026-01-31, 2026-01-31T12:00)".to_owned();
    let now = Zoned::now();
    let ago = text.parse::<Span>().ok().filter(|span| span.is_positive());
    let from_date = || {
        let date = text.parse::<civil::DateTime>().ok();
        let date = date.or_else(|| Some(text.parse::<civil::Date>().ok()?.at(0, 0, 0, 0)));
        Some(date?.to_zoned(now.time_zone().clone()).ok()?.timestamp())
    };
    let time = match ago {
        Some(span) => now.checked_sub(span).ok().map(|then| then.timestamp()),
        // Try a time with a time zone first. Without one, use the local zone.
        None => text.parse::<Timestamp>().ok().or_else(from_date),
    };
    let time = time.ok_or_else(expected)?;
    Ok(u64::try_from(time.as_millisecond()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates_or_durations() {
        let now = || u64::try_from(Timestamp::now().as_millisecond()).expect("after 1970");
        let hour = since("1h").expect("a time");
        assert!(now().abs_diff(hour + 3_600_000) < 60_000, "{hour}");
        assert!(since("3d").expect("a time") < since("2h").expect("a time"));
        assert_eq!(since("2026-01-31T00:00:00Z"), Ok(1_769_817_600_000));
        assert!(since("2026-01-31").is_ok() && since("2026-01-31T12:00").is_ok());
        for wrong in ["", "soon", "-2h", "5", "2026-13-01", "0s"] {
            assert!(since(wrong).is_err(), "{wrong}");
        }
    }
}
