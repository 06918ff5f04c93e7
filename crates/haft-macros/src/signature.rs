//! Parses the signature of a function. The body stays tokens; only the compiler reads it.

use proc_macro2::{Group, Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{
    Attribute, Error, FnArg, Ident, LitStr, PatType, Result, ReturnType, Safety, Signature, Token,
    Type, Visibility,
    parse::{Parse, ParseStream},
};

use crate::combined;

/// A function that can be a tool.
pub(crate) struct ToolFn {
    /// The `cfg` attributes of the function, which the static repeats.
    pub(crate) conditions: Vec<Attribute>,
    pub(crate) visibility: Visibility,
    pub(crate) ident: Ident,
    pub(crate) input: Type,
    pub(crate) capabilities: Vec<Type>,
    pub(crate) output: Type,
}

impl Parse for ToolFn {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut conditions = input.call(Attribute::parse_outer)?;
        conditions.retain(|attribute| attribute.path().is_ident("cfg"));
        let visibility = input.parse()?;
        if !is_fn(&input.fork())? {
            return Err(input.error("`#[tool]` only works on an `async fn`"));
        }
        let signature: Signature = input.parse()?;
        let _body: Group = input.parse()?;
        let mut errors = signature_errors(&signature);
        let types = argument_types(&signature, &mut errors);
        let output = output_type(&signature, &mut errors);
        match (combined(errors), types, output) {
            (None, Some((input, capabilities)), Some(output)) => {
                let ident = signature.ident;
                Ok(Self { conditions, visibility, ident, input, capabilities, output })
            }
            (error, ..) => {
                Err(error.unwrap_or_else(|| Error::new(Span::call_site(), "not a tool")))
            }
        }
    }
}

/// Skips the qualifiers, because "expected `fn`" would not explain the attribute.
fn is_fn(ahead: ParseStream<'_>) -> Result<bool> {
    while ahead.peek(Token![const])
        || ahead.peek(Token![async])
        || ahead.peek(Token![unsafe])
        || ahead.peek(Token![extern])
        || ahead.peek(LitStr)
    {
        ahead.parse::<TokenTree>()?;
    }
    Ok(ahead.peek(Token![fn]))
}

fn signature_errors(signature: &Signature) -> Vec<Error> {
    let Signature { constness, asyncness, safety, abi, fn_token, generics, variadic, .. } =
        signature;
    let mut errors = Vec::new();
    let mut error = |at: &dyn ToTokens, message: &str| {
        errors.push(Error::new_spanned(at.to_token_stream(), message));
    };
    if let Some(constness) = constness {
        error(constness, "a tool cannot be `const`");
    }
    if let Safety::Unsafe(unsafe_token) = safety {
        error(unsafe_token, "a tool cannot be `unsafe`: its callers cannot guarantee anything");
    }
    if let Some(abi) = abi {
        error(abi, "a tool cannot be `extern`");
    }
    if asyncness.is_none() {
        error(fn_token, "a tool must be an `async fn`: write `async` before `fn`");
    }
    if !generics.params.is_empty() {
        error(generics, "a tool cannot be generic: one schema describes its input");
    }
    if let Some(clause) = &generics.where_clause {
        error(clause, "a tool cannot have a `where` clause: all its types are known");
    }
    if let Some(variadic) = variadic {
        error(variadic, "a tool must have a fixed list of arguments");
    }
    errors
}

/// The types of the input and the capabilities; `None` if a reported error prevents that.
fn argument_types(signature: &Signature, errors: &mut Vec<Error>) -> Option<(Type, Vec<Type>)> {
    let mut typed = Vec::new();
    for argument in &signature.inputs {
        match argument {
            FnArg::Typed(argument) => typed.push(argument),
            FnArg::Receiver(receiver) => errors.push(Error::new_spanned(
                receiver,
                "a tool cannot take `self`: use a capability for program state",
            )),
        }
    }
    if signature.inputs.is_empty() {
        let message = "a tool needs an input: its first argument is the input, an empty struct if there is \
                       none";
        errors.push(Error::new(signature.paren_token.span.join(), message));
    }
    let (input, capabilities) = typed.split_first()?;
    errors.extend(argument_error(input, "the input must be owned: remove the `&`"));
    for capability in capabilities {
        let owned = "capabilities must be owned: remove the `&`";
        errors.extend(argument_error(capability, owned));
    }
    let capabilities = capabilities.iter().map(|argument| (*argument.ty).clone()).collect();
    Some(((*input.ty).clone(), capabilities))
}

fn argument_error(argument: &PatType, owned: &str) -> Option<Error> {
    let is_condition = |attribute: &&Attribute| {
        attribute.path().is_ident("cfg") || attribute.path().is_ident("cfg_attr")
    };
    if let Some(condition) = argument.attrs.iter().find(is_condition) {
        let message = "an argument of a tool cannot have a `cfg`: put it on the whole function";
        return Some(Error::new_spanned(condition, message));
    }
    let written = &*argument.ty;
    if mentions_impl(written.to_token_stream()) {
        let message = "an argument of a tool must have a named type, not `impl Trait`";
        return Some(Error::new_spanned(written, message));
    }
    is_reference(written).then(|| Error::new_spanned(written, owned))
}

fn output_type(signature: &Signature, errors: &mut Vec<Error>) -> Option<Type> {
    let ReturnType::Type(_, written) = &signature.output else {
        let message = "a tool must return a result: write `-> Result<T, ToolError>`, where `T` is an `Output` or a \
                       `Reply`";
        errors.push(Error::new_spanned(signature, message));
        return None;
    };
    if mentions_impl(written.to_token_stream()) {
        let message =
            "a tool must return a named type, not `impl Trait`: its schema is made from the type";
        errors.push(Error::new_spanned(written, message));
    }
    Some((**written).clone())
}

fn is_reference(written: &Type) -> bool {
    match written {
        Type::Reference(_) => true,
        Type::Paren(inner) => is_reference(&inner.elem),
        Type::Group(inner) => is_reference(&inner.elem),
        _ => false,
    }
}

/// `impl` is a keyword, so wherever it occurs in a type it is an `impl Trait`.
fn mentions_impl(tokens: TokenStream) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == "impl",
        TokenTree::Group(group) => mentions_impl(group.stream()),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(item: &str, expected: &[&str]) {
        let errors = syn::parse_str::<ToolFn>(item).err().into_iter().flatten();
        let messages: Vec<String> = errors.map(|error| error.to_string()).collect();
        assert_eq!(messages.len(), expected.len(), "{item}: {messages:?}");
        for (message, begin) in messages.iter().zip(expected) {
            assert!(message.starts_with(begin), "{item}: {message}");
        }
    }

    #[test]
    fn a_tool_is_an_async_fn_with_an_input_and_a_result() {
        check("async fn f(input: I) -> R {}", &[]);
        check("/// Doc.\n#[cfg(x)] pub(crate) async fn f(I { a, .. }: I, mut c: C) -> R {}", &[]);
        check(
            "async fn f(_: I, c: Option<C>) -> a::Result<R, E<'static>> { anything at all }",
            &[],
        );
    }

    #[test]
    fn only_functions_can_be_tools() {
        for item in
            ["struct S;", "pub const C: u8 = 1;", "unsafe impl T for S {}", "extern crate c;"]
        {
            check(item, &["`#[tool]` only works on an `async fn`"]);
        }
    }

    #[test]
    fn qualifiers_are_refused() {
        check("fn f(input: I) -> R {}", &["a tool must be an `async fn`"]);
        check("async unsafe fn f(input: I) -> R {}", &["a tool cannot be `unsafe`"]);
        check("async extern \"C\" fn f(input: I) -> R {}", &["a tool cannot be `extern`"]);
        let both = ["a tool cannot be `const`", "a tool must be an `async fn`"];
        check("const fn f(input: I) -> R {}", &both);
        let fixed = ["a tool must have a fixed list of arguments"];
        check("async fn f(input: I, more: ...) -> R {}", &fixed);
    }

    #[test]
    fn generics_are_refused() {
        check("async fn f<T>(input: T) -> R {}", &["a tool cannot be generic"]);
        check("async fn f<'a>(input: I<'a>) -> R {}", &["a tool cannot be generic"]);
        check(
            "async fn f(input: I) -> R where I: Clone {}",
            &["a tool cannot have a `where` clause"],
        );
    }

    #[test]
    fn arguments_are_owned_and_named() {
        check("async fn f() -> R {}", &["a tool needs an input: its first argument is the input"]);
        check("async fn f(&self, input: I) -> R {}", &["a tool cannot take `self`"]);
        check("async fn f(self) -> R {}", &["a tool cannot take `self`"]);
        check("async fn f(input: &I) -> R {}", &["the input must be owned"]);
        check("async fn f(input: I, c: &mut C) -> R {}", &["capabilities must be owned"]);
        check("async fn f(input: I, c: (&'static C)) -> R {}", &["capabilities must be owned"]);
        let named = ["an argument of a tool must have a named type"; 2];
        check("async fn f(input: impl T, c: Option<impl T>) -> R {}", &named);
        let always = ["an argument of a tool cannot have a `cfg`"];
        check("async fn f(input: I, #[cfg(x)] c: C) -> R {}", &always);
    }

    #[test]
    fn the_result_is_named() {
        check("async fn f(input: I) {}", &["a tool must return a result"]);
        check("async fn f(input: I) -> Result<impl O, E> {}", &["a tool must return a named type"]);
    }

    #[test]
    fn all_errors_are_reported_at_once() {
        let expected = [
            "a tool must be an `async fn`",
            "a tool cannot be generic",
            "the input must be owned",
            "a tool must return",
        ];
        check("fn f<T>(input: &T) {}", &expected);
    }
}
