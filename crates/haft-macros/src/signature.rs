//! What `#[tool]` reads of a function: its signature. The body stays tokens; only the compiler looks into it.

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
    /// Under which `cfg`s it exists; the static beside it exists under the same.
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
            return Err(input.error("`#[tool]` goes on an `async fn`"));
        }
        let signature: Signature = input.parse()?;
        let _body: Group = input.parse()?;
        let mut faults = faults_of_form(&signature);
        let types = argument_types(&signature, &mut faults);
        let output = output_type(&signature, &mut faults);
        match (combined(faults), types, output) {
            (None, Some((input, capabilities)), Some(output)) => {
                let ident = signature.ident;
                Ok(Self { conditions, visibility, ident, input, capabilities, output })
            }
            (fault, ..) => {
                Err(fault.unwrap_or_else(|| Error::new(Span::call_site(), "not a tool")))
            }
        }
    }
}

/// Looks past the qualifiers, because "expected `fn`" would not tell what the attribute is for.
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

fn faults_of_form(signature: &Signature) -> Vec<Error> {
    let Signature { constness, asyncness, safety, abi, fn_token, generics, variadic, .. } =
        signature;
    let mut faults = Vec::new();
    let mut fault = |at: &dyn ToTokens, message: &str| {
        faults.push(Error::new_spanned(at.to_token_stream(), message));
    };
    if let Some(constness) = constness {
        fault(constness, "a tool cannot be `const`");
    }
    if let Safety::Unsafe(unsafe_token) = safety {
        fault(
            unsafe_token,
            "a tool cannot be `unsafe`: nobody who calls it could keep the promise",
        );
    }
    if let Some(abi) = abi {
        fault(abi, "a tool cannot be `extern`");
    }
    if asyncness.is_none() {
        fault(fn_token, "a tool is an `async fn`: write `async` before `fn`");
    }
    if !generics.params.is_empty() {
        fault(generics, "a tool cannot be generic: one schema describes its input");
    }
    if let Some(clause) = &generics.where_clause {
        fault(clause, "a tool has no `where` clause: its types are all known");
    }
    if let Some(variadic) = variadic {
        fault(variadic, "a tool takes a fixed list of arguments");
    }
    faults
}

/// The input and the capabilities; `None` when a fault says why.
fn argument_types(signature: &Signature, faults: &mut Vec<Error>) -> Option<(Type, Vec<Type>)> {
    let mut typed = Vec::new();
    for argument in &signature.inputs {
        match argument {
            FnArg::Typed(argument) => typed.push(argument),
            FnArg::Receiver(receiver) => faults.push(Error::new_spanned(
                receiver,
                "a tool has no `self`: state of the program comes in through a capability",
            )),
        }
    }
    if signature.inputs.is_empty() {
        let message = "a tool takes its input: the first argument is the input, an empty struct if there is \
                       nothing to say";
        faults.push(Error::new(signature.paren_token.span.join(), message));
    }
    let (input, capabilities) = typed.split_first()?;
    faults.extend(fault_of_argument(input, "the input is taken owned: leave out the `&`"));
    for capability in capabilities {
        let owned = "capabilities are taken owned: leave out the `&`";
        faults.extend(fault_of_argument(capability, owned));
    }
    let capabilities = capabilities.iter().map(|argument| (*argument.ty).clone()).collect();
    Some(((*input.ty).clone(), capabilities))
}

fn fault_of_argument(argument: &PatType, owned: &str) -> Option<Error> {
    let is_condition = |attribute: &&Attribute| {
        attribute.path().is_ident("cfg") || attribute.path().is_ident("cfg_attr")
    };
    if let Some(condition) = argument.attrs.iter().find(is_condition) {
        let message = "an argument of a tool is always there: put the `cfg` on the whole function";
        return Some(Error::new_spanned(condition, message));
    }
    let written = &*argument.ty;
    if mentions_impl(written.to_token_stream()) {
        let message = "an argument of a tool has a named type, not `impl Trait`";
        return Some(Error::new_spanned(written, message));
    }
    is_reference(written).then(|| Error::new_spanned(written, owned))
}

fn output_type(signature: &Signature, faults: &mut Vec<Error>) -> Option<Type> {
    let ReturnType::Type(_, written) = &signature.output else {
        let message = "a tool returns something: write `-> Result<T, ToolError>`, where `T` is an `Output` or a \
                       `Reply`";
        faults.push(Error::new_spanned(signature, message));
        return None;
    };
    if mentions_impl(written.to_token_stream()) {
        let message =
            "a tool returns a named type, not `impl Trait`: its schema is made from the type";
        faults.push(Error::new_spanned(written, message));
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

/// `impl` is a keyword, so wherever it stands in a type it is an `impl Trait`.
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
        let faults = syn::parse_str::<ToolFn>(item).err().into_iter().flatten();
        let messages: Vec<String> = faults.map(|fault| fault.to_string()).collect();
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
            check(item, &["`#[tool]` goes on an `async fn`"]);
        }
    }

    #[test]
    fn qualifiers_are_refused() {
        check("fn f(input: I) -> R {}", &["a tool is an `async fn`"]);
        check("async unsafe fn f(input: I) -> R {}", &["a tool cannot be `unsafe`"]);
        check("async extern \"C\" fn f(input: I) -> R {}", &["a tool cannot be `extern`"]);
        let both = ["a tool cannot be `const`", "a tool is an `async fn`"];
        check("const fn f(input: I) -> R {}", &both);
        let fixed = ["a tool takes a fixed list of arguments"];
        check("async fn f(input: I, more: ...) -> R {}", &fixed);
    }

    #[test]
    fn generics_are_refused() {
        check("async fn f<T>(input: T) -> R {}", &["a tool cannot be generic"]);
        check("async fn f<'a>(input: I<'a>) -> R {}", &["a tool cannot be generic"]);
        check("async fn f(input: I) -> R where I: Clone {}", &["a tool has no `where` clause"]);
    }

    #[test]
    fn arguments_are_owned_and_named() {
        check("async fn f() -> R {}", &["a tool takes its input: the first argument is the input"]);
        check("async fn f(&self, input: I) -> R {}", &["a tool has no `self`"]);
        check("async fn f(self) -> R {}", &["a tool has no `self`"]);
        check("async fn f(input: &I) -> R {}", &["the input is taken owned"]);
        check("async fn f(input: I, c: &mut C) -> R {}", &["capabilities are taken owned"]);
        check("async fn f(input: I, c: (&'static C)) -> R {}", &["capabilities are taken owned"]);
        let named = ["an argument of a tool has a named type"; 2];
        check("async fn f(input: impl T, c: Option<impl T>) -> R {}", &named);
        let always = ["an argument of a tool is always there"];
        check("async fn f(input: I, #[cfg(x)] c: C) -> R {}", &always);
    }

    #[test]
    fn the_result_is_named() {
        check("async fn f(input: I) {}", &["a tool returns something"]);
        check("async fn f(input: I) -> Result<impl O, E> {}", &["a tool returns a named type"]);
    }

    #[test]
    fn all_faults_are_told_at_once() {
        let expected = [
            "a tool is an `async fn`",
            "a tool cannot be generic",
            "the input is",
            "a tool returns",
        ];
        check("fn f<T>(input: &T) {}", &expected);
    }
}
