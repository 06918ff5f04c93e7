//! `haft init CLIENT`: haft in the configuration of the client that somebody already uses.

use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command};
use haft_core::ToolError;

use super::Bench;
use crate::stop::Stop;

pub(super) fn command() -> Command {
    Command::new("init")
        .about("Give haft's tools to a client: writes its configuration, with a backup")
        .arg(Arg::new("client").value_name("CLIENT").required(true).help("Which client"))
}

impl Bench<'_> {
    /// `haft init CLIENT`
    pub(super) fn init(&self, _matches: &ArgMatches) -> Result<ExitCode, Stop> {
        Err(ToolError::internal("no client is known yet").into())
    }
}
