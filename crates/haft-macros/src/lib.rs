//! `#[tool]`: an async fn becomes a tool whose arguments are its permissions. The macro only writes an adapter out of
//! constants and function pointers; whatever a tool does at run time is in haft-core, and can be written by hand.

#![warn(missing_docs)]

mod attribute;
mod expand;
mod root;
mod signature;

use proc_macro::TokenStream;

/// Makes a tool of an async fn. The fn stays what it is; beside it stands `static TOOL: StaticTool`, as visible as the
/// fn.
///
/// ```text
/// // files/head.rs, beside head.txt, which the model reads
/// #[tool(title = "First lines", access = |input| vec![Access::Read(input.path.clone())])]
/// pub async fn head(input: Head, files: ReadFiles, progress: Progress) -> Result<Excerpt, ToolError> { … }
///
/// registry.register(&head::TOOL)?;
/// ```
///
/// - The **first argument** is the input: a struct that derives `Deserialize` and `JsonSchema`.
/// - **Every other argument** is a capability, owned. `Option<C>` is `None` when `C` was not granted.
/// - It **returns** `Result<T, ToolError>`, where `T` is an `Output` or a `Reply`.
///
/// All that can be said in the attribute, and what holds when it is not said:
///
/// | key | meaning | otherwise |
/// |---|---|---|
/// | `name = "hello"` | the tool's name, in snake case | the fn's name |
/// | `title = "Say hello"` | a few words for people | made from the name |
/// | `group = "greetings"` | the family it is listed under | the module above |
/// | `description = "greet.txt"` | what the model reads; the path is relative to the source file | `<fn>.txt` |
/// | `effect = destructive` | `read`, `write`, `execute` or `destructive`; raises the effect, never lowers it | follows from the capabilities |
/// | `idempotent` | calling it twice is the same as calling it once | it is not |
/// | `open_world` | it reaches things nobody here controls | follows from the capabilities |
/// | `terminal` | it ends the turn of the agent that calls it | it does not |
/// | `keeps_links` | a link that it is given is meant itself, not what it leads to: `move`, `delete` | links are followed before a call is judged |
/// | `deadline = "30s"` | how long one call may take: `500ms`, `30s`, `10m`, `1h` | haft's default |
/// | `access = \|input\| vec![…]` | what a call would touch, from its input alone: a closure or the path of a `fn(&Input) -> Vec<Access>` | the capabilities as a whole |
/// | `preview = diff_of` | a `fn(Input, capabilities…) -> Option<String>` that says, as a diff, what a call would change; shown to whoever is asked | the arguments are shown |
/// | `variables(limit = LIMIT)` | values of `${limit}` and the like in the description | none |
/// | `profiles(mcp, reviewer)` | the built-in profiles that have it | only `developer`, which has all |
/// | `providers("openai*")` | globs on the providers it is offered to | all |
/// | `static = GREET` | the name of the static, for a second tool in a module | `TOOL` |
/// | `crate = some::path` | where haft is, when it is reached through another crate | found in Cargo.toml |
#[proc_macro_attribute]
pub fn tool(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::tool(attribute.into(), item.into()).into()
}

/// All faults as one error, so that a person mends them in one round.
fn combined(faults: Vec<syn::Error>) -> Option<syn::Error> {
    faults.into_iter().reduce(|mut all, fault| {
        all.combine(fault);
        all
    })
}
