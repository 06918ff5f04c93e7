//! `#[tool]` turns an async fn into a tool whose arguments are its permissions. The macro only
//! generates an adapter of constants and function pointers. All run-time behavior is in haft-core,
//! and the adapter can be written by hand.

#![warn(missing_docs)]

mod attribute;
mod expand;
mod root;
mod signature;

use proc_macro::TokenStream;

/// Makes a tool from an async fn. The fn is unchanged; `static TOOL: StaticTool` is generated
/// beside it, with the same visibility.
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
/// - **Every other argument** is a capability, owned. `Option<C>` is `None` when `C` was not
///   granted.
/// - It **returns** `Result<T, ToolError>`, where `T` is an `Output` or a `Reply`.
///
/// All keys of the attribute, with their defaults:
///
/// | key | meaning | default |
/// |---|---|---|
/// | `name = "hello"` | the tool's name, in snake case | the fn's name |
/// | `title = "Say hello"` | a short title for people | made from the name |
/// | `group = "greetings"` | the group it is listed under | the parent module |
/// | `description = "greet.txt"` | the description for the model; the path is relative to the source file | `<fn>.txt` |
/// | `effect = destructive` | `read`, `write`, `execute` or `destructive`; can raise the effect, not lower it | implied by the capabilities |
/// | `idempotent` | calling it twice has the same effect as calling it once | no |
/// | `open_world` | it reaches systems outside the user's control | implied by the capabilities |
/// | `terminal` | it ends the turn of the agent that calls it | no |
/// | `keeps_links` | it works on a given link itself, not on its target: `move`, `delete` | links are followed before policy judges a call |
/// | `deadline = "30s"` | the deadline of one call: `500ms`, `30s`, `10m`, `1h` | haft's default |
/// | `access = \|input\| vec![…]` | the accesses of a call, from its input alone: a closure or the path of a `fn(&Input) -> Vec<Access>` | the capabilities as a whole |
/// | `access_lookup = found_in_records` | an `async fn(Input, capabilities…) -> Result<AccessLookupResult, ToolError>` that looks up further accesses in haft's own records | none |
/// | `preview = diff_of` | a `fn(Input, capabilities…) -> Option<String>` that returns the change as a diff, for the approver | the arguments are shown |
/// | `variables(limit = LIMIT)` | values of variables such as `${limit}` in the description | none |
/// | `profiles(mcp, reviewer)` | the built-in profiles that contain it | only `developer`, which contains all tools |
/// | `providers("openai*")` | globs for the providers it is offered to | all |
/// | `static = GREET` | the name of the static, for a second tool in a module | `TOOL` |
/// | `crate = some::path` | the path of haft, if it is used through another crate | found in Cargo.toml |
#[proc_macro_attribute]
pub fn tool(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::tool(attribute.into(), item.into()).into()
}

/// Combines all errors into one, so that they can be fixed together.
fn combined(errors: Vec<syn::Error>) -> Option<syn::Error> {
    errors.into_iter().reduce(|mut all, error| {
        all.combine(error);
        all
    })
}
