//! A tool's schema as a command, and the command's arguments as the tool's input. Required
//! properties are positional arguments, the others are options. Everything comes from the schema;
//! the gate validates the input.

mod field;
mod kind;

use clap::{ArgMatches, Command};
use haft_core::{Schema, ToolError, ToolSpec};
use serde_json::{Map, Value};

use self::{
    field::{ArgumentPlace, Field, Presence},
    kind::Kind,
};

/// This argument means that the text is read from standard input.
const FROM_STDIN: &str = "-";

/// The command of one tool.
pub(crate) struct ToolCommand {
    fields: Vec<Field>,
}

/// One row of a reference page.
pub(crate) struct Parameter {
    pub(crate) name: String,
    pub(crate) kind: String,
    /// `required`, the default, or empty.
    pub(crate) presence: String,
    pub(crate) description: String,
}

impl ToolCommand {
    /// `taken` are the names of haft's own options.
    pub(crate) fn of(input: &Schema, taken: &[&str]) -> Self {
        let flags = flags(input, taken);
        let rest = trailing_words(input);
        let fields = input.properties().zip(flags).map(|((name, schema), flag)| {
            let kind = Kind::of(schema, input.as_value());
            let presence = presence(input, name);
            let place = match presence {
                Presence::Required if rest == Some(name) => ArgumentPlace::Words,
                Presence::Required if kind.is_word() => ArgumentPlace::Word,
                // People expect to type the path last, as with grep.
                Presence::Optional if name == "path" && kind == Kind::Text && rest.is_none() => {
                    ArgumentPlace::FlagOrWord
                }
                _ => ArgumentPlace::Flag,
            };
            let mut help = field::help(schema);
            if place == ArgumentPlace::Flag && flag != kebab(name) {
                help.push_str(&format!(" (field `{name}`; --{} is taken)", kebab(name)));
            }
            let negation = negation(&kind, schema, &flag);
            let aliases = aliases(input, name);
            let short = input.short(name);
            let name = name.to_owned();
            Field { name, kind, place, presence, flag, short, aliases, negation, help }
        });
        let mut fields: Vec<Field> = fields.collect();
        drop_taken_negations(&mut fields, taken);
        drop_taken_aliases(&mut fields, taken);
        drop_unusable_letters(&mut fields);
        Self { fields }
    }

    /// The command for clap.
    pub(crate) fn command(&self, spec: &ToolSpec, description: &str) -> Command {
        let about = description.split("\n\n").next().unwrap_or_default();
        Command::new(spec.name.to_string())
            .about(about.split_whitespace().collect::<Vec<_>>().join(" "))
            .long_about(description.to_owned())
            .args(self.in_typing_order().flat_map(Field::arguments))
    }

    /// Converts the parsed arguments to the tool's input. Calls `stdin` at most once.
    ///
    /// # Errors
    /// When two fields want standard input, or it cannot be read.
    pub(crate) fn input(
        &self,
        matches: &ArgMatches,
        stdin: impl FnOnce() -> Result<String, ToolError>,
    ) -> Result<Value, ToolError> {
        let mut input = Map::new();
        let mut stdin = Some(stdin);
        let mut reader: Option<&str> = None;
        for field in &self.fields {
            let Some(mut value) = field.value(matches) else { continue };
            if field.kind == Kind::Text && value == FROM_STDIN {
                let Some(read) = stdin.take() else {
                    return Err(second_reader(reader.unwrap_or_default(), &field.name));
                };
                reader = Some(&field.name);
                value = Value::String(read()?);
            }
            input.insert(field.name.clone(), value);
        }
        Ok(Value::Object(input))
    }

    /// Orders required positional arguments first, then optional ones, then options.
    fn in_typing_order(&self) -> impl Iterator<Item = &Field> {
        let at = |places: &'static [ArgumentPlace]| {
            self.fields.iter().filter(move |field| places.contains(&field.place))
        };
        at(&[ArgumentPlace::Word, ArgumentPlace::Words])
            .chain(at(&[ArgumentPlace::FlagOrWord]))
            .chain(at(&[ArgumentPlace::Flag]))
    }

    /// The command on one line.
    pub(crate) fn usage(&self, name: &str) -> String {
        let arguments = self.in_typing_order().map(Field::usage);
        ["haft".to_owned(), name.to_owned()]
            .into_iter()
            .chain(arguments)
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// The fields as documentation lists them.
    pub(crate) fn parameters(&self, input: &Schema) -> Vec<Parameter> {
        let of = |((_, schema), field): ((&str, &Value), &Field)| Parameter {
            name: field.name.clone(),
            kind: field.kind.words(),
            presence: match (field.presence, field::default(schema)) {
                (Presence::Required, _) => "required".to_owned(),
                (Presence::Optional, Some(default)) => format!("`{default}`"),
                (Presence::Optional, None) => String::new(),
            },
            description: field::help(&without_default(schema)),
        };
        input.properties().zip(&self.fields).map(of).collect()
    }
}

fn presence(input: &Schema, name: &str) -> Presence {
    if input.is_required(name) { Presence::Required } else { Presence::Optional }
}

/// Returns the last required property if it is a list of texts: it takes all remaining words.
fn trailing_words(input: &Schema) -> Option<&str> {
    let (name, schema) = input.properties().filter(|(name, _)| input.is_required(name)).last()?;
    let kind = Kind::of(schema, input.as_value());
    matches!(kind, Kind::List(item) if *item == Kind::Text).then_some(name)
}

/// Returns a long option for each property, in order: the property's name if it is free, else with
/// the prefix `input-`. Free names are assigned first, so that they do not depend on the others.
fn flags(input: &Schema, taken: &[&str]) -> Vec<String> {
    let natural: Vec<String> = input.properties().map(|(name, _)| kebab(name)).collect();
    let mut used: Vec<String> = taken.iter().map(|&name| name.to_owned()).collect();
    let mut flags: Vec<Option<String>> = natural
        .iter()
        .map(|flag| {
            let is_free = !flag.is_empty() && !used.contains(flag);
            is_free.then(|| used.push(flag.clone())).map(|()| flag.clone())
        })
        .collect();
    for (flag, natural) in flags.iter_mut().zip(natural) {
        flag.get_or_insert_with(|| {
            let mut prefixed = format!("input-{natural}");
            while used.contains(&prefixed) {
                prefixed = format!("input-{prefixed}");
            }
            used.push(prefixed.clone());
            prefixed
        });
    }
    flags.into_iter().flatten().collect()
}

/// Converts `max_results` to `max-results`.
fn kebab(name: &str) -> String {
    let kebab: String = name
        .chars()
        .map(|c| if c.is_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
        .collect();
    kebab.trim_matches('-').to_owned()
}

/// Returns no negation for a switch that is false when it is left out.
fn negation(kind: &Kind, schema: &Value, flag: &str) -> Option<String> {
    let is_off_by_default = schema.get("default") == Some(&Value::Bool(false));
    (*kind == Kind::Boolean && !is_off_by_default).then(|| format!("no-{flag}"))
}

/// Drops negations whose names are taken: a property may itself be called `no_…`.
fn drop_taken_negations(fields: &mut [Field], taken: &[&str]) {
    let flags: Vec<String> = fields.iter().map(|field| field.flag.clone()).collect();
    for field in fields {
        let is_free = |no: &String| !flags.contains(no) && !taken.contains(&no.as_str());
        field.negation = field.negation.take().filter(is_free);
    }
}

/// Returns the aliases of a property as names of options.
fn aliases(input: &Schema, name: &str) -> Vec<String> {
    let mut names: Vec<String> = input.aliases(name).map(kebab).collect();
    names.retain(|name| name.len() > 1);
    names.sort_unstable();
    names.dedup();
    names
}

/// Drops aliases that are names of other options.
fn drop_taken_aliases(fields: &mut [Field], taken: &[&str]) {
    let mut used: Vec<String> = taken.iter().map(|&name| name.to_owned()).collect();
    used.extend(
        fields
            .iter()
            .flat_map(|field| [Some(field.flag.clone()), field.negation.clone()])
            .flatten(),
    );
    for field in fields
        .iter_mut()
        .filter(|field| matches!(field.place, ArgumentPlace::Flag | ArgumentPlace::FlagOrWord))
    {
        field.aliases.retain(|alias| !used.contains(alias));
        used.extend(field.aliases.iter().cloned());
    }
}

/// Drops letters that cannot be options or are used already, which the schema of a plugin may have.
fn drop_unusable_letters(fields: &mut [Field]) {
    let mut used = vec!['h', 'V'];
    for field in fields {
        let is_usable = |short: &char| short.is_ascii_alphabetic() && !used.contains(short);
        field.short = field.short.filter(is_usable);
        used.extend(field.short);
    }
}

fn without_default(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(object) = schema.as_object_mut() {
        object.shift_remove("default");
    }
    schema
}

fn second_reader(first: &str, second: &str) -> ToolError {
    ToolError::input(format!("`{first}` and `{second}` both read standard input"))
        .hint("give `-` to one of them only, and the other's text as an argument")
}

#[cfg(test)]
mod tests;
