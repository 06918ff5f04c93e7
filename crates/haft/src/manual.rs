//! The manual page. clap_mangen writes the options; commands, exit codes and files are sections of
//! ours, because there is one page for all tools.

use std::io;

use clap::Command;
use clap_mangen::Man;

use crate::reference::exit_codes;

/// The files that haft reads and writes, and what each is for.
pub(crate) const FILES: [(&str, &str); 5] = [
    ("~/.config/haft/config.toml", "your rules"),
    (".haft/config.toml", "the project's rules, in its folder"),
    ("/etc/haft/admin.toml", "the machine owner's rules, which nothing loosens"),
    (".haft/haft.db", "the calls that were made, and the project's saved rules"),
    ("~/.local/state/haft/haft.db", "the rules you saved for everywhere"),
];

/// The page in roff. It has no date, so that it stays the same until haft changes.
pub(crate) fn page(mut command: Command) -> io::Result<String> {
    command.build();
    let man = Man::new(command.clone());
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    let mut page = String::from_utf8_lossy(&page).into_owned();
    page.push_str(&section("COMMANDS", commands(&mut command)));
    let codes = exit_codes().into_iter().map(|(code, kinds)| (code.to_string(), kinds));
    page.push_str(&section("EXIT STATUS", codes));
    let files = FILES.map(|(file, whose)| (file.to_owned(), whose.to_owned()));
    page.push_str(&section("FILES", files));
    Ok(page)
}

fn commands(command: &mut Command) -> Vec<(String, String)> {
    let each = command.get_subcommands_mut().map(|command| {
        let usage = command.render_usage().to_string();
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        (usage.trim_start_matches("Usage: ").to_owned(), about)
    });
    each.collect()
}

fn section(title: &str, entries: impl IntoIterator<Item = (String, String)>) -> String {
    let entries = entries
        .into_iter()
        .map(|(term, meaning)| format!(".TP\n\\fB{}\\fR\n{}\n", escaped(&term), escaped(&meaning)));
    format!(".SH \"{title}\"\n{}", entries.collect::<String>())
}

/// Escapes text that roff would read as a request.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace('\n', " ");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}
