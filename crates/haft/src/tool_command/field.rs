//! One property of a tool's input as one argument of its command: its position, names and help, and
//! its value in what clap has parsed.

use clap::{Arg, ArgAction, ArgMatches};
use serde_json::Value;

use super::kind::Kind;

pub(super) struct Field {
    /// The property.
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) place: ArgumentPlace,
    pub(super) presence: Presence,
    /// The long option, without its dashes; positional arguments have none.
    pub(super) flag: String,
    /// The letter of the option, without its dash.
    pub(super) short: Option<char>,
    /// Other names of the option; help does not show them.
    pub(super) aliases: Vec<String>,
    /// The option for `false`, where leaving the switch out means something else.
    pub(super) negation: Option<String>,
    /// The description, the default and the range.
    pub(super) help: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArgumentPlace {
    /// A positional argument.
    Word,
    /// All remaining words.
    Words,
    /// An option.
    Flag,
    /// An option that is also accepted as the last positional argument: `grep TODO src`.
    FlagOrWord,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    Required,
    Optional,
}

impl Field {
    /// The arguments for clap.
    pub(super) fn arguments(&self) -> Vec<Arg> {
        let whole = Arg::new(self.id()).help(self.help.clone());
        let required = self.presence == Presence::Required;
        let valued = || {
            let named =
                whole.clone().value_name(self.value_name()).value_parser(self.kind.parser());
            named.required(required).allow_negative_numbers(self.kind.is_number())
        };
        match (self.place, &self.kind) {
            (ArgumentPlace::Word, _) => vec![valued()],
            (ArgumentPlace::Words, _) => vec![valued().num_args(1..).action(ArgAction::Append)],
            (ArgumentPlace::Flag, Kind::Boolean) => self.switches(whole),
            (ArgumentPlace::Flag, _) => vec![self.option(valued())],
            (ArgumentPlace::FlagOrWord, _) => {
                let word = valued().id(self.word_id()).conflicts_with(self.id());
                vec![self.option(valued()).hide(true), word]
            }
        }
    }

    fn option(&self, valued: Arg) -> Arg {
        let is_list = matches!(self.kind, Kind::List(_));
        let action = if is_list { ArgAction::Append } else { ArgAction::Set };
        let option = valued.long(self.flag.clone()).short(self.short);
        let option = option.aliases(self.aliases.clone());
        // A text may begin with a dash (`--content "- item"`): the word after an option is always
        // its value.
        option.action(action).allow_hyphen_values(true)
    }

    fn switches(&self, whole: Arg) -> Vec<Arg> {
        let yes = whole.long(self.flag.clone()).short(self.short);
        let yes = yes.aliases(self.aliases.clone());
        let yes = yes.action(ArgAction::SetTrue);
        let Some(negation) = &self.negation else { return vec![yes] };
        let no = Arg::new(self.negation_id())
            .long(negation.clone())
            .action(ArgAction::SetTrue)
            .help(format!("The opposite of --{}", self.flag))
            .overrides_with(self.id());
        vec![yes.overrides_with(self.negation_id()), no]
    }

    /// The value given for this property, if any.
    pub(super) fn value(&self, matches: &ArgMatches) -> Option<Value> {
        if self.place == ArgumentPlace::Flag && self.kind == Kind::Boolean {
            let is_no = self.negation.is_some() && matches.get_flag(&self.negation_id());
            let is_yes = matches.get_flag(&self.id());
            return (is_yes || is_no).then_some(Value::Bool(is_yes));
        }
        if self.place == ArgumentPlace::FlagOrWord
            && let Some(word) = matches.get_one::<Value>(&self.word_id())
        {
            return Some(word.clone());
        }
        let mut values = matches.get_many::<Value>(&self.id())?.cloned();
        if matches!(self.kind, Kind::List(_)) {
            return Some(values.collect());
        }
        values.next()
    }

    /// The argument in a usage line.
    pub(super) fn usage(&self) -> String {
        let value = format!("<{}>", self.value_name());
        let flag = match (self.place, &self.kind) {
            (ArgumentPlace::Word, _) => return value,
            (ArgumentPlace::Words, _) => return format!("{value}..."),
            (ArgumentPlace::FlagOrWord, _) => return format!("[{}]", self.value_name()),
            (ArgumentPlace::Flag, Kind::Boolean) => match &self.negation {
                Some(negation) => format!("--{}|--{negation}", self.flag),
                None => format!("--{}", self.flag),
            },
            (ArgumentPlace::Flag, _) => format!("--{} {value}", self.flag),
        };
        let repeats = if matches!(self.kind, Kind::List(_)) { "..." } else { "" };
        match self.presence {
            Presence::Required => format!("{flag}{repeats}"),
            Presence::Optional => format!("[{flag}]{repeats}"),
        }
    }

    fn value_name(&self) -> String {
        let upper = |c: char| if c.is_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        self.name.chars().map(upper).collect()
    }

    /// Differs from the ids of haft's own options, whatever the property is called.
    fn id(&self) -> String {
        format!("input.{}", self.name)
    }

    fn word_id(&self) -> String {
        format!("word input.{}", self.name)
    }

    fn negation_id(&self) -> String {
        format!("no input.{}", self.name)
    }
}

/// The description on one line, with the default and the range of the schema.
pub(super) fn help(schema: &Value) -> String {
    let description = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    let mut parts = vec![description.split_whitespace().collect::<Vec<_>>().join(" ")];
    parts.extend(default(schema).map(|default| format!("[default: {default}]")));
    parts.extend(range(schema));
    parts.retain(|part| !part.is_empty());
    parts.join(" ")
}

/// The default as it would be typed; none for a switch that is off by default.
pub(super) fn default(schema: &Value) -> Option<String> {
    match schema.get("default")? {
        Value::Null | Value::Bool(false) => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

fn range(schema: &Value) -> Option<String> {
    match (schema.get("minimum"), schema.get("maximum")) {
        (Some(least), Some(most)) => Some(format!("[{least} to {most}]")),
        (Some(least), None) => Some(format!("[at least {least}]")),
        (None, Some(most)) => Some(format!("[at most {most}]")),
        (None, None) => None,
    }
}
