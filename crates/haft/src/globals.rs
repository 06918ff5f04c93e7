//! The options that every command takes, before or after its name. The scan for the command's name
//! and clap's parser use the same list.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{
    Arg, ArgAction, ArgMatches,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
    value_parser,
};
use haft::host::{
    Choices,
    config::{BACKENDS, backend_named},
};
use haft_core::Mode;

/// The heading of these options in every help page.
pub(crate) const HEADING: &str = "Options of every command";

/// How results are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Format {
    #[default]
    Text,
    Json,
}

/// Selects between running a call and explaining it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Run {
    #[default]
    Real,
    Dry,
}

/// The parsed values of these options.
#[derive(Clone, Debug, Default)]
pub(crate) struct Globals {
    pub(crate) choices: Choices,
    pub(crate) timeout: Option<Duration>,
    pub(crate) format: Format,
    pub(crate) run: Run,
}

impl Globals {
    pub(crate) fn of(matches: &ArgMatches) -> Self {
        Self {
            choices: Choices {
                workspace: matches.get_one("workspace").cloned(),
                config: matches.get_one("config").cloned(),
                profile: matches.get_one("profile").cloned(),
                agent: matches.get_one("agent").cloned(),
                approve: matches.get_one("approve").copied(),
                sandbox: matches.get_one("sandbox").cloned(),
                store: matches.get_one("store").cloned(),
                wait: matches.get_flag("wait"),
            },
            timeout: matches.get_one("timeout").copied(),
            format: if matches.get_flag("json") { Format::Json } else { Format::Text },
            run: if matches.get_flag("dry-run") { Run::Dry } else { Run::Real },
        }
    }
}

/// The options as clap arguments.
pub(crate) fn options() -> Vec<Arg> {
    let valued = |name: &'static str, value: &'static str, help: &'static str| {
        option(name, help).value_name(value)
    };
    let modes = Mode::ALL.iter().map(|mode| PossibleValue::new(mode.name()).help(mode.meaning()));
    let modes = PossibleValuesParser::new(modes);
    vec![
        valued(
            "workspace",
            "DIR",
            "The folder to work in [default: the nearest one with .haft or .git]",
        )
        .value_parser(value_parser!(PathBuf)),
        valued("profile", "NAME", "The set of tools to use"),
        valued("agent", "NAME", "Call as this agent, with its rules"),
        valued("approve", "MODE", "What may run without approval (default: contained)")
            .value_parser(modes.try_map(|mode: String| mode.parse::<Mode>())),
        valued("sandbox", "BACKEND", "The sandbox (default: auto)").value_parser(
            PossibleValuesParser::new(BACKENDS)
                .try_map(|name| backend_named(&name).ok_or("no such backend")),
        ),
        valued("config", "FILE", "Read this file instead of your own config.toml")
            .value_parser(value_parser!(PathBuf)),
        valued(
            "store",
            "URL",
            "Where to keep calls and rules: a file or postgres://… [default: .haft/haft.db]",
        ),
        valued("timeout", "TIME", "Stop the call after this time, such as 30s or 1m30s")
            .value_parser(time),
        option("wait", "If nobody can approve here, wait for `haft approvals` in another terminal")
            .action(ArgAction::SetTrue),
        option("json", "Print the whole outcome as JSON").action(ArgAction::SetTrue),
        option(
            "dry-run",
            "Print what the call would access and what policy decides; do not run it",
        )
        .action(ArgAction::SetTrue),
    ]
}

fn option(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).help(help).global(true).help_heading(HEADING)
}

/// Returns the command's name: the first word that is neither an option nor an option's value. A
/// call then builds the parser of one tool instead of all.
pub(crate) fn command_word<'a>(arguments: &'a [OsString], options: &[Arg]) -> Option<&'a str> {
    let (_, word) = plain_words(arguments, options).next()?;
    word.to_str()
}

/// Iterates over the words up to a `--` that are neither options nor values of these options, each
/// with its index.
pub(crate) fn plain_words<'a>(
    arguments: &'a [OsString],
    options: &[Arg],
) -> impl Iterator<Item = (usize, &'a OsString)> {
    let takes_value = |word: &str| {
        let option = options.iter().find(|option| option.get_long() == word.strip_prefix("--"));
        option.is_some_and(|option| option.get_action().takes_values())
    };
    let mut words = arguments.iter().enumerate();
    std::iter::from_fn(move || {
        loop {
            let (place, word) = words.next()?;
            match word.to_str() {
                Some("--") => return None,
                Some(option) if option.starts_with('-') => {
                    if takes_value(option) {
                        words.next();
                    }
                }
                _ => return Some((place, word)),
            }
        }
    })
}

/// Reads the format from arguments that are not parsed yet, for errors that happen before or during
/// parsing.
pub(crate) fn format_of(arguments: &[OsString]) -> Format {
    let mut words = arguments.iter().take_while(|word| *word != "--");
    if words.any(|word| word == "--json") { Format::Json } else { Format::Text }
}

fn time(text: &str) -> Result<Duration, String> {
    let expected = || "expected a time such as 500ms, 30s or 1m30s".to_owned();
    let time: jiff::SignedDuration = text.parse().map_err(|_| expected())?;
    Duration::try_from(time).ok().filter(|time| !time.is_zero()).ok_or_else(expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn the_command_is_found_behind_options_and_their_values() {
        for (line, expected) in [
            ("hello Ada", Some("hello")),
            ("--json hello", Some("hello")),
            ("--workspace /tmp --approve none hello --json", Some("hello")),
            ("--workspace=/tmp hello", Some("hello")),
            ("--workspace", None),
            ("--help", None),
            ("-- hello", None),
            ("", None),
        ] {
            assert_eq!(command_word(&words(line), &options()), expected, "{line}");
        }
    }

    #[test]
    fn json_after_a_double_dash_is_an_argument() {
        assert_eq!(format_of(&words("hello --json")), Format::Json);
        assert_eq!(format_of(&words("hello -- --json")), Format::Text);
    }

    #[test]
    fn times_have_units() {
        for (text, expected) in [
            ("30s", Some(Duration::from_secs(30))),
            ("500ms", Some(Duration::from_millis(500))),
            ("1m30s", Some(Duration::from_secs(90))),
            ("2h", Some(Duration::from_secs(7200))),
            ("30", None),
            ("0s", None),
            ("-5s", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(time(text).ok(), expected, "{text}");
        }
    }
}
