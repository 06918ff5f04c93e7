//! A tool: its definition (`ToolSpec`), its accesses, and its execution. Everything else in haft is
//! derived from these: command lines, model formats, MCP listings, forms, documentation.

use std::{borrow::Cow, pin::Pin, sync::OnceLock, time::Duration};

use serde::Serialize;
use serde_json::Value;

use crate::{Access, Call, Effect, Need, Power, Reply, Schema, ToolError};

/// A future for object-safe traits.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Deadline of a call if its tool does not set one.
pub const DEFAULT_DEADLINE: Duration = Duration::from_secs(120);

/// The accesses of a call that are not known from its input alone.
#[derive(Clone, Debug, Default)]
pub struct AccessLookupResult {
    /// The accesses found.
    pub accesses: Vec<Access>,
    /// The input with the looked-up records filled in, so that the call does exactly this however
    /// long an approval takes.
    pub input: Option<Value>,
}

/// Reads haft's own records to determine the accesses of a call.
pub type AccessLookup = fn(Call) -> BoxFuture<'static, Result<AccessLookupResult, ToolError>>;

/// Anything the gate can run. `#[tool]` implements this for a plain async fn; MCP proxies, plugins
/// and composites implement it by hand.
pub trait Tool: Send + Sync {
    /// The canonical name. Must equal `spec().name`; a separate method, so that looking up a tool
    /// builds no schema.
    fn name(&self) -> &str {
        &self.spec().name
    }

    /// The definition of the tool.
    fn spec(&self) -> &ToolSpec;

    /// The built-in profiles that contain this tool, in addition to `developer`, which contains
    /// every tool.
    fn profiles(&self) -> &[&'static str] {
        &[]
    }

    /// Declares the accesses of a call from its input alone. Pure; runs before policy and approval.
    ///
    /// # Errors
    /// If the accesses cannot be determined from the input.
    fn access(&self, input: &Value) -> Result<Vec<Access>, ToolError>;

    /// A lookup for tools whose input names records of haft. It runs before policy and approval,
    /// with the accesses of [`Tool::access`] only.
    fn access_lookup(&self) -> Option<AccessLookup> {
        None
    }

    /// The preview of a call for the approver: the change as a unified diff. `None` if there is
    /// nothing better to show than the arguments.
    fn preview(&self, call: &Call) -> Option<String> {
        let _ = call;
        None
    }

    /// Runs the call. Dropping the future stops it.
    fn call(&self, call: Call) -> BoxFuture<'_, Result<Reply, ToolError>>;
}

impl<T: Tool + ?Sized> Tool for &'static T {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn spec(&self) -> &ToolSpec {
        (**self).spec()
    }

    fn profiles(&self) -> &[&'static str] {
        (**self).profiles()
    }

    fn access(&self, input: &Value) -> Result<Vec<Access>, ToolError> {
        (**self).access(input)
    }

    fn access_lookup(&self) -> Option<AccessLookup> {
        (**self).access_lookup()
    }

    fn preview(&self, call: &Call) -> Option<String> {
        (**self).preview(call)
    }

    fn call(&self, call: Call) -> BoxFuture<'_, Result<Reply, ToolError>> {
        (**self).call(call)
    }
}

/// The source of a tool's needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Origin {
    /// The compiler: the needs are the function's signature.
    Derived,
    /// A declaration: a plugin's manifest, an MCP server.
    Declared {
        /// The name of the source.
        by: String,
    },
}

/// The definition of a tool.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ToolSpec {
    /// Snake case, at most 64 characters, unique in a registry.
    pub name: Cow<'static, str>,
    /// A short title for people.
    pub title: Cow<'static, str>,
    /// The group it is listed under.
    pub group: Cow<'static, str>,
    /// The description for the model; `${variables}` are filled in when definitions are requested.
    pub description: Cow<'static, str>,
    /// The schema of the arguments.
    pub input: Schema,
    /// The schema of the typed output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Schema>,
    /// The powers it needs.
    pub needs: Vec<Need>,
    /// The maximum effect of a call: implied by the needs, or higher.
    pub effect: Effect,
    /// True if calling it twice has the same effect as calling it once.
    pub idempotent: bool,
    /// True if it reaches systems outside the user's control.
    pub open_world: bool,
    /// True if it ends the turn of the agent that calls it.
    pub terminal: bool,
    /// True if a given link is not followed: the tool works on the link itself.
    #[serde(skip)]
    pub keeps_links: bool,
    /// The deadline of one call.
    #[serde(serialize_with = "as_millis", rename = "deadline_ms")]
    pub deadline: Duration,
    /// The source of the needs.
    pub origin: Origin,
    /// Globs for the providers this tool is offered to; empty means all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub providers: Vec<Cow<'static, str>>,
    /// Values of the tool's own `${variables}`.
    #[serde(skip)]
    pub variables: Vec<(Cow<'static, str>, String)>,
}

impl ToolSpec {
    /// A spec for a tool created at run time. Its needs are declared by `by`.
    pub fn declared(
        by: impl Into<String>,
        name: impl Into<String>,
        description: impl Into<String>,
        input: Schema,
    ) -> Self {
        let name = name.into();
        Self {
            title: title_of(&name).into(),
            name: name.into(),
            group: "custom".into(),
            description: description.into().into(),
            input,
            output: None,
            needs: Vec::new(),
            effect: Effect::Read,
            idempotent: false,
            open_world: false,
            terminal: false,
            keeps_links: false,
            deadline: DEFAULT_DEADLINE,
            origin: Origin::Declared { by: by.into() },
            providers: Vec::new(),
            variables: Vec::new(),
        }
    }

    /// Sets the needs; effect and `open_world` follow from them.
    #[must_use]
    pub fn needs(mut self, powers: impl IntoIterator<Item = Power>) -> Self {
        self.needs = powers.into_iter().map(Need::required).collect();
        self.effect = self.effect.max(effect_of(&self.needs));
        self.open_world = is_open_world(&self.needs);
        self
    }

    /// Returns the description, or a substitute for an empty one: some model APIs refuse empty
    /// descriptions.
    pub fn described(&self) -> Cow<'_, str> {
        description_of(&self.description, Some(&self.title), &self.name)
    }

    /// Returns true if the signature has this power, required or optional.
    pub fn needs_power(&self, power: Power) -> bool {
        self.needs.iter().any(|need| need.power == power)
    }
}

/// The compile-time data of `#[tool]`: constants and function pointers, so that a catalogue of a
/// hundred tools costs nothing until one is used.
#[derive(Clone, Copy)]
pub struct ToolParts {
    /// The name of the tool: the function's, or `name = "…"`.
    pub name: &'static str,
    /// `title = "…"`; derived from the name if `None`.
    pub title: Option<&'static str>,
    /// `group = "…"`; the name of the module if `None`.
    pub group: Option<&'static str>,
    /// `module_path!()` of the function.
    pub module: &'static str,
    /// The text of the adjacent `.txt` file.
    pub description: &'static str,
    /// The needs of the arguments after the first.
    pub needs: &'static [Need],
    /// `effect = …`; can only raise what the needs imply.
    pub effect: Option<Effect>,
    /// `idempotent`.
    pub idempotent: bool,
    /// `open_world`, in addition to what the needs imply.
    pub open_world: bool,
    /// `terminal`.
    pub terminal: bool,
    /// `keeps_links`.
    pub keeps_links: bool,
    /// `deadline = "30s"`.
    pub deadline: Option<Duration>,
    /// `providers("openai*")`.
    pub providers: &'static [&'static str],
    /// `profiles(mcp, reviewer)`.
    pub profiles: &'static [&'static str],
    /// `variables(limit = LIMIT)`.
    pub variables: fn() -> Vec<(&'static str, String)>,
    /// Input and output schema.
    pub schemas: fn() -> (Schema, Option<Schema>),
    /// Decodes the input and declares the accesses: `access = |input| …`, or the needs as a whole.
    pub access: fn(&Value) -> Result<Vec<Access>, ToolError>,
    /// `access_lookup = some_fn`: decodes the input, creates the capabilities and looks up further
    /// accesses.
    pub access_lookup: Option<AccessLookup>,
    /// `preview = some_fn`: decodes the input, creates the capabilities and describes the change.
    pub preview: fn(&Call) -> Option<String>,
    /// Decodes the input, creates the capabilities and runs the function.
    pub run: fn(Call) -> BoxFuture<'static, Result<Reply, ToolError>>,
}

/// A tool written as a function. `#[tool]` generates one beside the function as `pub static TOOL`.
pub struct StaticTool {
    parts: ToolParts,
    /// The texts of its input and output schema, if they are known.
    texts: Option<(&'static str, Option<&'static str>)>,
    spec: OnceLock<ToolSpec>,
}

impl StaticTool {
    /// Wraps the parts without building anything.
    pub const fn new(parts: ToolParts) -> Self {
        Self { parts, texts: None, spec: OnceLock::new() }
    }

    /// The same tool with the texts of its schemas, input as `schema_text` and output as
    /// `structured_schema_text`, so that a surface that only lists tools builds no schema. A test
    /// must compare the texts with the types.
    #[must_use]
    pub fn with_schema_texts(&self, texts: Option<(&'static str, Option<&'static str>)>) -> Self {
        Self { texts, ..Self::new(self.parts) }
    }

    fn schemas(&self) -> (Schema, Option<Schema>) {
        let (input, output) = (self.parts.schemas)();
        let Some((input_text, output_text)) = self.texts else { return (input, output) };
        let with_text = |output: Schema| match output_text {
            Some(text) => output.with_text(text),
            None => output,
        };
        (input.with_text(input_text), output.map(with_text))
    }

    fn build_spec(&self) -> ToolSpec {
        let parts = &self.parts;
        let (input, output) = self.schemas();
        let needs = parts.needs.to_vec();
        let implied = effect_of(&needs);
        ToolSpec {
            name: parts.name.into(),
            title: parts.title.map_or_else(|| title_of(parts.name).into(), Cow::Borrowed),
            group: parts.group.unwrap_or_else(|| group_of(parts.module)).into(),
            description: parts.description.trim_end().into(),
            input,
            output,
            effect: parts.effect.map_or(implied, |said| said.max(implied)),
            idempotent: parts.idempotent,
            open_world: parts.open_world || is_open_world(&needs),
            terminal: parts.terminal,
            keeps_links: parts.keeps_links,
            deadline: parts.deadline.unwrap_or(DEFAULT_DEADLINE),
            origin: Origin::Derived,
            providers: parts.providers.iter().map(|&glob| glob.into()).collect(),
            variables: (parts.variables)().into_iter().map(|(k, v)| (k.into(), v)).collect(),
            needs,
        }
    }
}

impl Tool for StaticTool {
    fn name(&self) -> &str {
        self.parts.name
    }

    fn spec(&self) -> &ToolSpec {
        self.spec.get_or_init(|| self.build_spec())
    }

    fn profiles(&self) -> &[&'static str] {
        self.parts.profiles
    }

    fn access(&self, input: &Value) -> Result<Vec<Access>, ToolError> {
        (self.parts.access)(input)
    }

    fn access_lookup(&self) -> Option<AccessLookup> {
        self.parts.access_lookup
    }

    fn preview(&self, call: &Call) -> Option<String> {
        (self.parts.preview)(call)
    }

    fn call(&self, call: Call) -> BoxFuture<'_, Result<Reply, ToolError>> {
        (self.parts.run)(call)
    }
}

/// The accesses of a tool that declares none: its needs as a whole.
pub fn whole_powers(needs: &[Need]) -> Vec<Access> {
    let powers = needs.iter().map(|need| need.power).filter(|power| *power != Power::Free);
    powers.map(Access::Any).collect()
}

fn effect_of(needs: &[Need]) -> Effect {
    needs.iter().map(|need| need.power.effect()).max().unwrap_or(Effect::Read)
}

fn is_open_world(needs: &[Need]) -> bool {
    needs.iter().any(|need| need.power.is_open_world())
}

/// Returns a tool's description, or one made from its title and name if it is empty.
pub fn description_of<'a>(description: &'a str, title: Option<&str>, name: &str) -> Cow<'a, str> {
    if !description.trim().is_empty() {
        return Cow::Borrowed(description);
    }
    let title = title.map(str::trim).filter(|title| !title.is_empty());
    let title = title.map_or_else(|| title_of(name), str::to_owned);
    Cow::Owned(format!("{title} (the tool `{name}`; its provider gave no description)."))
}

/// Turns `read_file` into "Read file".
fn title_of(name: &str) -> String {
    let words = name.replace('_', " ");
    let mut letters = words.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => words,
    }
}

/// Returns the group of a module: `haft_tools::files::read` is in the group `files`; a tool at the
/// root of its crate is `custom`.
fn group_of(module: &'static str) -> &'static str {
    let mut segments = module.rsplit("::");
    let _own_module = segments.next();
    match (segments.next(), segments.next()) {
        (Some(parent), Some(_crate)) => parent,
        _ => "custom",
    }
}

fn as_millis<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn titles_and_groups_are_made_from_names() {
        assert_eq!(title_of("read_file"), "Read file");
        assert_eq!(group_of("haft_tools::files::read"), "files");
        assert_eq!(group_of("my_tool"), "custom");
        assert_eq!(group_of("my_app::greet"), "custom");
    }

    #[test]
    fn an_empty_description_is_made_from_title_and_name() {
        assert_eq!(description_of("Reads.", Some("Read"), "read"), "Reads.");
        for (title, made) in [(Some("Run all tests"), "Run all tests"), (Some(" "), "Run tests")] {
            let expected =
                format!("{made} (the tool `run_tests`; its provider gave no description).");
            assert_eq!(description_of(" \n", title, "run_tests"), expected);
        }
    }

    #[test]
    fn effect_and_open_world_follow_from_the_needs() {
        let schema = Schema::from_value(json!({"type": "object"})).expect("valid");
        let spec = ToolSpec::declared("test", "t", "d", schema);
        let cases: [(&[Power], Effect, bool); 4] = [
            (&[Power::Free], Effect::Read, false),
            (&[Power::ReadFiles, Power::Net], Effect::Read, true),
            (&[Power::WriteFiles], Effect::Write, false),
            (&[Power::WriteFiles, Power::Shell], Effect::Execute, false),
        ];
        for (powers, effect, open_world) in cases {
            let spec = spec.clone().needs(powers.iter().copied());
            assert_eq!((spec.effect, spec.open_world), (effect, open_world), "{powers:?}");
        }
    }
}
