//! `haft reference PAGE`: the generated pages about haft. They are the same on every machine.

use std::process::ExitCode;

use clap::{
    Arg, ArgMatches, Command,
    builder::{PossibleValue, PossibleValuesParser},
};

use super::{Cli, own_commands, root};
use crate::{globals, reference::ReferencePage, stop::Stop};

pub(super) fn command() -> Command {
    let pages = ReferencePage::ALL.map(|page| PossibleValue::new(page.name()).help(page.about()));
    Command::new("reference").about("Print a reference page or a schema").arg(
        Arg::new("page")
            .value_name("PAGE")
            .required(true)
            .value_parser(PossibleValuesParser::new(pages))
            .help("The page; for the page of the tools use `haft tools --format markdown`"),
    )
}

impl Cli<'_> {
    /// `haft reference PAGE`
    pub(super) fn reference(&self, matches: &ArgMatches) -> Result<ExitCode, Stop> {
        let name = matches.get_one::<String>("page").map_or("", String::as_str);
        for page in ReferencePage::ALL.into_iter().filter(|page| page.name() == name) {
            let commands = root(globals::options()).subcommands(own_commands());
            self.terminal.print(&page.text(commands))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
