//! The command line of haft: arguments, files, environment and terminal, wired to the gate. The
//! crates below do the calls; no code here depends on a particular tool.

mod calls;
mod commands;
mod descriptors;
mod environment;
mod globals;
mod init;
mod manual;
mod memory;
mod progress;
mod prompt;
mod reference;
mod report;
mod safe_text;
mod stdin;
mod stop;
mod terminal;
mod tool_command;

use std::{process::ExitCode, sync::Arc};

use crate::{
    environment::{Backtraces, CliEnvironment},
    stop::Stop,
    terminal::Terminal,
};

const VERSION: &str = concat!("haft ", env!("CARGO_PKG_VERSION"), "\n");

fn main() -> ExitCode {
    descriptors::close_on_exec();
    let arguments = environment::arguments();
    // Answered before anything is read or built: scripts call this to find out whether haft is
    // installed.
    if arguments.first().is_some_and(|first| first == "--version" || first == "-V") {
        return match terminal::write_out(VERSION) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => report_stop(Stop::Output(error), &arguments, &CliEnvironment::default()),
        };
    }
    memory::share_one_heap();
    let environment = CliEnvironment::read();
    hide_panics_of_tools(environment.backtraces);
    let terminal = Arc::new(Terminal::new(environment.colours, environment.columns));
    commands::run(&arguments, &environment, &terminal)
        .unwrap_or_else(|stop| report_stop(stop, &arguments, &environment))
}

fn report_stop(
    stop: Stop,
    arguments: &[std::ffi::OsString],
    environment: &CliEnvironment,
) -> ExitCode {
    let terminal = Terminal::new(environment.colours, environment.columns);
    let format = globals::format_of(arguments);
    let command = globals::command_word(arguments, &globals::options()).unwrap_or_default();
    report::stop(&terminal, format, command, stop)
}

/// Prints no message for a tool's panic: the gate reports it in the outcome.
fn hide_panics_of_tools(backtraces: Backtraces) {
    if backtraces == Backtraces::Wanted {
        return;
    }
    let default_hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // Tools run in tasks, even on the main thread; our own code does not.
        let is_ours = tokio::task::try_id().is_none();
        if is_ours {
            default_hook(panic);
        }
    }));
}
