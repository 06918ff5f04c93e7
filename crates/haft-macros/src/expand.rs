//! Generates the static beside the function. Code that may not meet a bound has the span of the
//! type in the signature, so that the compiler reports the error there, with haft's own messages.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{Error, Ident, Path, Result, ext::IdentExt, spanned::Spanned};

use crate::{
    attribute::{Arguments, Variable},
    combined, root,
    signature::ToolFn,
};

/// Returns the item unchanged, followed by the static or the errors. The item is returned in either
/// case, because an editor needs it while the attribute is being typed.
pub(crate) fn tool(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let beside = generate(attribute, item.clone()).unwrap_or_else(Error::into_compile_error);
    quote!(#item #beside)
}

fn generate(attribute: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let arguments = syn::parse2::<Arguments>(attribute);
    let tool_fn = syn::parse2::<ToolFn>(item);
    let (arguments, tool_fn) = match (arguments, tool_fn) {
        (Ok(arguments), Ok(tool_fn)) => (arguments, tool_fn),
        (arguments, tool_fn) => {
            let errors = arguments.err().into_iter().chain(tool_fn.err()).collect();
            return combined(errors).map_or(Ok(TokenStream::new()), Err);
        }
    };
    let name = name_of(&arguments, &tool_fn.ident)?;
    let root = arguments.root.clone().map_or_else(root::find, Ok)?;
    Ok(Adapter { arguments, tool_fn, name, root }.to_static())
}

fn name_of(arguments: &Arguments, ident: &Ident) -> Result<String> {
    let (name, at) = match &arguments.name {
        Some(said) => (said.value(), said.span()),
        None => (ident.unraw().to_string(), ident.span()),
    };
    let begins_well = name.starts_with(|c: char| c.is_ascii_lowercase());
    let goes_on_well =
        name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    if begins_well && goes_on_well && name.len() <= 64 {
        return Ok(name);
    }
    let message = format!(
        "`{name}` is not a tool name: snake_case, a letter first, at most 64 characters; `name = \"…\"` sets \
         another name"
    );
    Err(Error::new(at, message))
}

/// The input of the code generation.
struct Adapter {
    arguments: Arguments,
    tool_fn: ToolFn,
    name: String,
    root: Path,
}

impl Adapter {
    /// The span for errors that do not belong to one type: a second `TOOL`, a future that is not
    /// `Send`. Mixed site, because the expressions of the attribute must not see the generated
    /// names.
    fn site(&self) -> Span {
        Span::mixed_site().located_at(self.tool_fn.ident.span())
    }

    fn to_static(&self) -> TokenStream {
        let Self { arguments, tool_fn, name, root } = self;
        let ToolFn { conditions, visibility, ident, .. } = tool_fn;
        let default_name = || Ident::new("TOOL", ident.span());
        let static_name = arguments.static_name.clone().unwrap_or_else(default_name);
        let documentation = format!("The tool `{name}`, made from the function `{ident}`.");
        let parts = self.parts();
        quote_spanned! {self.site()=>
            #(#conditions)*
            #[doc = #documentation]
            #visibility static #static_name: #root::__macro::StaticTool =
                #root::__macro::StaticTool::new(#root::__macro::ToolParts { #parts });
        }
    }

    fn parts(&self) -> TokenStream {
        let Self { arguments, name, root, .. } = self;
        let Arguments { idempotent, open_world, terminal, keeps_links, providers, .. } = arguments;
        let profiles = arguments.profiles.iter().map(ToString::to_string);
        let title = option(arguments.title.as_ref());
        let group = option(arguments.group.as_ref());
        let effect = arguments.effect.as_ref();
        let effect = option(effect.map(|variant| quote!(#root::__macro::Effect::#variant)));
        let deadline =
            option(arguments.deadline.map(|ms| quote!(::core::time::Duration::from_millis(#ms))));
        let description = self.description();
        let needs = self.needs();
        let variables = self.variables();
        let schemas = self.schemas();
        let access = self.access();
        let preview = self.preview();
        let access_lookup = self.access_lookup();
        let run = self.run();
        quote_spanned! {self.site()=>
            name: #name,
            title: #title,
            group: #group,
            module: ::core::module_path!(),
            description: #description,
            needs: #needs,
            effect: #effect,
            idempotent: #idempotent,
            open_world: #open_world,
            terminal: #terminal,
            keeps_links: #keeps_links,
            deadline: #deadline,
            providers: &[#(#providers),*],
            profiles: &[#(#profiles),*],
            variables: #variables,
            schemas: #schemas,
            access: #access,
            access_lookup: #access_lookup,
            preview: #preview,
            run: #run,
        }
    }

    /// A missing file is reported where its name comes from: the literal, or the function.
    fn description(&self) -> TokenStream {
        let ident = &self.tool_fn.ident;
        let (file, at) = match &self.arguments.description {
            Some(said) => (said.value(), said.span()),
            None => (format!("{}.txt", ident.unraw()), ident.span()),
        };
        quote_spanned!(at=> ::core::include_str!(#file))
    }

    fn needs(&self) -> TokenStream {
        let root = &self.root;
        let needs = self.tool_fn.capabilities.iter().map(|capability| {
            quote_spanned!(capability.span()=> <#capability as #root::__macro::Capability>::NEED)
        });
        quote!(&[#(#needs),*])
    }

    fn variables(&self) -> TokenStream {
        let pairs = self.arguments.variables.iter().map(|Variable { name, value }| {
            let name = name.unraw().to_string();
            quote_spanned!(value.span()=> (#name, ::std::string::ToString::to_string(&(#value))))
        });
        quote!(|| ::std::vec![#(#pairs),*])
    }

    fn schemas(&self) -> TokenStream {
        let Self { tool_fn: ToolFn { input, output, .. }, root, .. } = self;
        let input = quote_spanned!(input.span()=> <#input as #root::__macro::ToolInput>::schema());
        let output = quote_spanned!(output.span()=> <#output as #root::__macro::Return>::schema());
        quote!(|| (#input, #output))
    }

    /// Decodes the input even if it is not used, so that no approval is requested for a call that
    /// cannot run.
    fn access(&self) -> TokenStream {
        let Self { tool_fn: ToolFn { input, .. }, root, .. } = self;
        let decode = quote_spanned!(input.span()=> <#input as #root::__macro::ToolInput>::decode);
        let Some(access) = &self.arguments.access else {
            let needs = self.needs();
            return quote_spanned! {self.site()=>
                |value| {
                    #decode(value)?;
                    ::core::result::Result::Ok(#root::__macro::whole_powers(#needs))
                }
            };
        };
        quote_spanned! {self.site()=>
            |value| {
                let input = #decode(value)?;
                let access: fn(&#input) -> ::std::vec::Vec<#root::__macro::Access> = #access;
                ::core::result::Result::Ok(access(&input))
            }
        }
    }

    /// Returns no preview if it cannot be made: the call itself will report the error.
    fn preview(&self) -> TokenStream {
        let Self { tool_fn: ToolFn { input, capabilities, .. }, root, .. } = self;
        let Some(preview) = &self.arguments.preview else {
            return quote!(|_| ::core::option::Option::None);
        };
        let decode = quote_spanned!(input.span()=> <#input as #root::__macro::ToolInput>::decode);
        let call = Ident::new("call", self.site());
        let made = capabilities.iter().map(|capability| {
            quote_spanned! {capability.span()=>
                <#capability as #root::__macro::Capability>::from_call(#call).ok()?
            }
        });
        quote_spanned! {self.site()=>
            |#call| #preview(#decode(#call.raw_input()).ok()?, #(#made),*)
        }
    }

    fn access_lookup(&self) -> TokenStream {
        let access_lookup = self.arguments.access_lookup.as_ref().map(|access_lookup| {
            let (call, begin, names) = self.decoded();
            quote_spanned! {self.site()=>
                |#call| ::std::boxed::Box::pin(async move {
                    #begin
                    #access_lookup(input, #(#names),*).await
                })
            }
        });
        option(access_lookup)
    }

    fn run(&self) -> TokenStream {
        let Self { tool_fn: ToolFn { ident, output, .. }, root, .. } = self;
        let (call, begin, names) = self.decoded();
        let into_reply =
            quote_spanned!(output.span()=> <#output as #root::__macro::Return>::into_reply);
        quote_spanned! {self.site()=>
            |#call| ::std::boxed::Box::pin(async move {
                #begin
                #into_reply(#ident(input, #(#names),*).await)
            })
        }
    }

    /// The name of the call, the statements that create `input` and the capabilities from it, and
    /// their names.
    fn decoded(&self) -> (Ident, TokenStream, Vec<Ident>) {
        let Self { tool_fn: ToolFn { input, capabilities, .. }, root, .. } = self;
        let site = self.site();
        let call = Ident::new("call", site);
        let names: Vec<Ident> = (1..=capabilities.len())
            .map(|n| format_ident!("capability_{n}", span = site))
            .collect();
        let decode = quote_spanned!(input.span()=> <#input as #root::__macro::ToolInput>::decode);
        let made = capabilities.iter().map(|capability| {
            quote_spanned! {capability.span()=>
                <#capability as #root::__macro::Capability>::from_call(&#call)?
            }
        });
        let begin = quote_spanned! {site=>
            let input = #decode(#call.raw_input())?;
            #(let #names = #made;)*
        };
        (call, begin, names)
    }
}

fn option(value: Option<impl ToTokens>) -> TokenStream {
    match value {
        Some(value) => quote!(::core::option::Option::Some(#value)),
        None => quote!(::core::option::Option::None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO: &str = "pub async fn hello(input: Hello, net: Net) -> Result<Greeting, ToolError> { greet(input) }";

    fn expanded(attribute: &str, item: &str) -> String {
        let tokens = |text: &str| text.parse::<TokenStream>().expect("tokens");
        tool(tokens(attribute), tokens(item)).to_string()
    }

    fn canonical(item: &str) -> String {
        item.parse::<TokenStream>().expect("tokens").to_string()
    }

    #[test]
    fn the_function_comes_back_untouched() {
        let item = format!("/// Greets.\n#[inline] {HELLO}");
        for attribute in ["crate = haft", "crate = haft, idempotent, deadline = \"1s\"", "titel"] {
            let written = expanded(attribute, &item);
            assert!(written.starts_with(&canonical(&item)), "{attribute}: {written}");
        }
        let not_a_fn = "struct Hello { name: String }";
        assert!(expanded("", not_a_fn).starts_with(&canonical(not_a_fn)));
    }

    #[test]
    fn errors_of_attribute_and_signature_are_reported_together() {
        let written = expanded("titel = \"a\", colour", "fn hello() {}");
        assert_eq!(written.matches("compile_error").count(), 5, "{written}");
    }

    #[test]
    fn the_static_is_as_visible_and_conditional_as_the_function() {
        let written = expanded("crate = haft, static = GREET", &format!("#[cfg(x)] {HELLO}"));
        let (_, beside) = written.split_once('}').expect("the function ends");
        assert!(beside.starts_with(" # [cfg (x)]"), "{beside}");
        assert!(beside.contains("pub static GREET : haft :: __macro :: StaticTool"), "{beside}");
    }

    #[track_caller]
    fn check_name(attribute: &str, ident: &str, expected: Option<&str>) {
        let arguments = syn::parse_str(attribute).expect("arguments");
        let ident = syn::parse_str(ident).expect("an identifier");
        match (name_of(&arguments, &ident), expected) {
            (Ok(name), expected) => assert_eq!(Some(&*name), expected),
            (Err(error), None) => assert!(error.to_string().contains("is not a tool name")),
            (Err(error), Some(_)) => panic!("{error}"),
        }
    }

    #[test]
    fn names_from_every_source_are_checked() {
        check_name("", "read_file", Some("read_file"));
        check_name("", "r#match", Some("match"));
        check_name("name = \"hello\"", "Greet", Some("hello"));
        check_name("", "Greet", None);
        check_name("", "_greet", None);
        check_name("name = \"say hello\"", "greet", None);
        check_name("name = \"\"", "greet", None);
        check_name("", &"a".repeat(64), Some(&"a".repeat(64)));
        check_name("", &"a".repeat(65), None);
    }
}
