//! The command line of haft: arguments, files, environment and terminal, wired to the gate. What a call does is in the
//! crates below; nothing here knows any tool.

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
    environment::{Backtraces, Environment},
    stop::Stop,
    terminal::Terminal,
};

const VERSION: &str = concat!("haft ", env!("CARGO_PKG_VERSION"), "\n");

fn main() -> ExitCode {
    descriptors::close_on_exec();
    let arguments = environment::arguments();
    // Answered before anything is read or built: scripts ask this to see whether haft is there.
    if arguments.first().is_some_and(|first| first == "--version" || first == "-V") {
        return match terminal::write_out(VERSION) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => tell(Stop::Output(error), &arguments, &Environment::default()),
        };
    }
    memory::share_one_heap();
    let environment = Environment::read();
    keep_quiet_about_tools(environment.backtraces);
    let terminal = Arc::new(Terminal::new(environment.colours));
    commands::run(&arguments, &environment, &terminal)
        .unwrap_or_else(|stop| tell(stop, &arguments, &environment))
}

fn tell(stop: Stop, arguments: &[std::ffi::OsString], environment: &Environment) -> ExitCode {
    let terminal = Terminal::new(environment.colours);
    let format = globals::format_of(arguments);
    let command = globals::command_word(arguments, &globals::options()).unwrap_or_default();
    report::stop(&terminal, format, command, stop)
}

/// The gate tells of a tool's panic in its outcome; a second telling on the screen would only be noise.
fn keep_quiet_about_tools(backtraces: Backtraces) {
    if backtraces == Backtraces::Wanted {
        return;
    }
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // Tools run in tasks, even on the main thread; what is ours does not.
        let is_ours = tokio::task::try_id().is_none();
        if is_ours {
            usual(panic);
        }
    }));
}
