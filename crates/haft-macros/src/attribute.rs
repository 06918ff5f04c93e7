//! The arguments in the parentheses of `#[tool(…)]`. Only their syntax is checked here; types are
//! checked by the compiler.

use std::str::FromStr;

use proc_macro2::TokenTree;
use syn::{
    Error, Expr, Ident, LitStr, Path, Result, Token,
    ext::IdentExt,
    parenthesized,
    parse::{Parse, ParseStream},
    punctuated::Punctuated,
};

use crate::combined;

/// Every key and its form, which messages show.
const KEYS: [(&str, &str); 18] = [
    ("name", r#"name = "hello""#),
    ("title", r#"title = "Say hello""#),
    ("group", r#"group = "greetings""#),
    ("description", r#"description = "hello.txt""#),
    ("effect", "effect = destructive"),
    ("idempotent", "idempotent"),
    ("open_world", "open_world"),
    ("terminal", "terminal"),
    ("keeps_links", "keeps_links"),
    ("deadline", r#"deadline = "30s""#),
    ("access", "access = |input| vec![…]"),
    ("preview", "preview = diff_of"),
    ("access_lookup", "access_lookup = found_in_records"),
    ("variables", "variables(limit = LIMIT)"),
    ("providers", r#"providers("openai*", "anthropic")"#),
    ("profiles", "profiles(mcp, reviewer)"),
    ("static", "static = GREET"),
    ("crate", "crate = some::path"),
];

/// The values of `effect = …` and the variants of `Effect` they stand for.
const EFFECTS: [(&str, &str); 4] =
    [("read", "Read"), ("write", "Write"), ("execute", "Execute"), ("destructive", "Destructive")];

/// The built-in profiles that a tool can name. `developer` contains every tool.
const PROFILES: [&str; 3] = ["mcp", "researcher", "reviewer"];

/// The arguments of the attribute.
#[derive(Default)]
pub(crate) struct Arguments {
    pub(crate) name: Option<LitStr>,
    pub(crate) title: Option<LitStr>,
    pub(crate) group: Option<LitStr>,
    pub(crate) description: Option<LitStr>,
    /// A variant of `Effect`.
    pub(crate) effect: Option<Ident>,
    pub(crate) idempotent: bool,
    pub(crate) open_world: bool,
    pub(crate) terminal: bool,
    pub(crate) keeps_links: bool,
    /// In milliseconds.
    pub(crate) deadline: Option<u64>,
    pub(crate) access: Option<Expr>,
    /// A function with the arguments of the tool that describes the change.
    pub(crate) preview: Option<Path>,
    /// An async function with the arguments of the tool that looks up further accesses in haft's
    /// records.
    pub(crate) access_lookup: Option<Path>,
    pub(crate) variables: Vec<Variable>,
    pub(crate) providers: Vec<LitStr>,
    pub(crate) profiles: Vec<Ident>,
    pub(crate) static_name: Option<Ident>,
    pub(crate) root: Option<Path>,
}

/// One `limit = LIMIT` of `variables(…)`.
pub(crate) struct Variable {
    pub(crate) name: Ident,
    pub(crate) value: Expr,
}

impl Parse for Arguments {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut arguments = Self::default();
        let mut errors = Vec::new();
        let mut seen = Vec::new();
        while !input.is_empty() {
            if let Err(error) = arguments.parse_one(input, &mut seen) {
                errors.push(error);
                skip_to_comma(input)?;
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        combined(errors).map_or(Ok(arguments), Err)
    }
}

impl Arguments {
    fn parse_one(&mut self, input: ParseStream<'_>, seen: &mut Vec<Ident>) -> Result<()> {
        let key = input.call(Ident::parse_any)?;
        let written = key.to_string();
        let Some((_, form)) = KEYS.iter().find(|(known, _)| *known == written) else {
            return Err(unknown(&key));
        };
        if seen.contains(&key) {
            return Err(Error::new(key.span(), format!("`{written}` is given twice")));
        }
        let entry = Entry { key: key.clone(), form, input };
        seen.push(key);
        self.parse_value(&written, &entry)?;
        if input.is_empty() || input.peek(Token![,]) { Ok(()) } else { Err(entry.form_error()) }
    }

    fn parse_value(&mut self, key: &str, entry: &Entry<'_>) -> Result<()> {
        match key {
            "name" => self.name = Some(entry.value()?),
            "title" => self.title = Some(entry.value()?),
            "group" => self.group = Some(entry.value()?),
            "description" => self.description = Some(entry.value()?),
            "effect" => self.effect = Some(entry.effect()?),
            "idempotent" => self.idempotent = true,
            "open_world" => self.open_world = true,
            "terminal" => self.terminal = true,
            "keeps_links" => self.keeps_links = true,
            "deadline" => self.deadline = Some(deadline(&entry.value()?)?),
            "access" => self.access = Some(entry.expression()?),
            "preview" => self.preview = Some(entry.value()?),
            "access_lookup" => self.access_lookup = Some(entry.value()?),
            "variables" => self.variables = distinct(entry.list()?)?,
            "providers" => self.providers = entry.list()?,
            "profiles" => self.profiles = known_profiles(entry.list()?)?,
            "static" => self.static_name = Some(entry.value()?),
            "crate" => self.root = Some(entry.value()?),
            other => unreachable!("`{other}` is in KEYS and not here"),
        }
        Ok(())
    }
}

/// A key whose value is about to be parsed.
struct Entry<'a> {
    key: Ident,
    form: &'static str,
    input: ParseStream<'a>,
}

impl Entry<'_> {
    /// `= value`.
    fn value<T: Parse>(&self) -> Result<T> {
        let _equals: Token![=] = self.input.parse().map_err(|_| self.form_error())?;
        self.input.parse().map_err(|_| self.form_error())
    }

    /// `= expression`. The compiler has not checked it yet, so syntax errors inside have the
    /// parser's messages.
    fn expression(&self) -> Result<Expr> {
        let _equals: Token![=] = self.input.parse().map_err(|_| self.form_error())?;
        if self.input.is_empty() { Err(self.form_error()) } else { self.input.parse() }
    }

    /// `(value, value)`.
    fn list<T: Parse>(&self) -> Result<Vec<T>> {
        if !self.input.peek(syn::token::Paren) {
            return Err(self.form_error());
        }
        let content;
        let parentheses = parenthesized!(content in self.input);
        let wrong = |_| Error::new(parentheses.span.join(), self.message());
        let items = Punctuated::<T, Token![,]>::parse_terminated(&content).map_err(wrong)?;
        if items.is_empty() { Err(self.form_error()) } else { Ok(items.into_iter().collect()) }
    }

    fn effect(&self) -> Result<Ident> {
        let words = EFFECTS.map(|(word, _)| format!("`{word}`")).join(", ");
        let wrong = |at| Error::new(at, format!("`effect` must be one of {words}"));
        self.value::<Ident>().map_err(|form_error| wrong(form_error.span())).and_then(|said| {
            let known = EFFECTS.iter().find(|(word, _)| said == word);
            known
                .map(|(_, variant)| Ident::new(variant, said.span()))
                .ok_or_else(|| wrong(said.span()))
        })
    }

    /// The error for a value of the wrong form. Points at the value, or at the key if there is no
    /// value.
    fn form_error(&self) -> Error {
        let at = if self.input.is_empty() { self.key.span() } else { self.input.span() };
        Error::new(at, self.message())
    }

    fn message(&self) -> String {
        let Self { key, form, .. } = self;
        if key == form {
            format!("`{key}` takes no value")
        } else {
            format!("`{key}` is written `{form}`")
        }
    }
}

impl Parse for Variable {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let name = input.parse()?;
        let _equals: Token![=] = input.parse()?;
        Ok(Self { name, value: input.parse()? })
    }
}

/// Continues with the next key after an error, so that all errors are reported at once.
fn skip_to_comma(input: ParseStream<'_>) -> Result<()> {
    while !input.is_empty() && !input.peek(Token![,]) {
        input.parse::<TokenTree>()?;
    }
    Ok(())
}

fn deadline(text: &LitStr) -> Result<u64> {
    let message =
        r#"a deadline is a whole number above zero and a unit: "500ms", "30s", "10m" or "1h""#;
    milliseconds(&text.value()).ok_or_else(|| Error::new(text.span(), message))
}

fn milliseconds(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match text.strip_prefix(digits)? {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    // `u64` alone would parse "+30" as well.
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = is_plain.then(|| u64::from_str(digits).ok())??;
    number.checked_mul(factor).filter(|milliseconds| *milliseconds > 0)
}

fn distinct(variables: Vec<Variable>) -> Result<Vec<Variable>> {
    for (idx, Variable { name, .. }) in variables.iter().enumerate() {
        if variables.iter().take(idx).any(|earlier| earlier.name == *name) {
            return Err(Error::new(name.span(), format!("the variable `{name}` is given twice")));
        }
    }
    Ok(variables)
}

fn known_profiles(profiles: Vec<Ident>) -> Result<Vec<Ident>> {
    match profiles.iter().find(|name| PROFILES.iter().all(|known| *name != known)) {
        None => Ok(profiles),
        Some(unknown) => {
            let known = PROFILES.map(|name| format!("`{name}`")).join(", ");
            let message =
                format!("unknown built-in profile `{unknown}`: it must be one of {known}");
            Err(Error::new(unknown.span(), message))
        }
    }
}

fn unknown(key: &Ident) -> Error {
    let written = key.to_string();
    let hint = if EFFECTS.iter().any(|(word, _)| *word == written) {
        format!("did you mean `effect = {written}`?")
    } else if let Some(near) = nearest(&written) {
        format!("did you mean `{near}`?")
    } else {
        format!("known keys are {}", KEYS.map(|(known, _)| format!("`{known}`")).join(", "))
    };
    Error::new(key.span(), format!("unknown `#[tool]` key `{written}`: {hint}"))
}

/// The key that starts with the text, or that differs from it in at most two characters.
fn nearest(written: &str) -> Option<&'static str> {
    let names = || KEYS.iter().map(|(name, _)| *name);
    let begun = names().find(|name| written.len() > 2 && name.starts_with(written));
    let slipped = || names().map(|name| (distance(written, name), name)).min();
    begun.or_else(|| slipped().filter(|(slips, _)| *slips <= 2).map(|(_, name)| name))
}

/// The Levenshtein distance; a dependency for sixteen words would cost more than these lines.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut next = vec![i + 1];
        for (j, y) in b.bytes().enumerate() {
            let replaced = row[j] + usize::from(x != y);
            next.push(replaced.min(row[j + 1] + 1).min(next[j] + 1));
        }
        row = next;
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(attribute: &str, expected: &[&str]) {
        let errors = syn::parse_str::<Arguments>(attribute).err().into_iter().flatten();
        let messages: Vec<String> = errors.map(|error| error.to_string()).collect();
        assert_eq!(messages, expected, "{attribute}");
    }

    #[test]
    fn every_key_is_read_as_it_is_shown() {
        let all = KEYS.map(|(_, form)| form.replace('…', "")).join(", ");
        let arguments: Arguments = syn::parse_str(&all).expect("all keys");
        assert_eq!(arguments.name.map(|name| name.value()).as_deref(), Some("hello"));
        assert_eq!(
            arguments.effect.map(|variant| variant.to_string()).as_deref(),
            Some("Destructive")
        );
        assert_eq!(arguments.deadline, Some(30_000));
        assert_eq!((arguments.variables.len(), arguments.providers.len()), (1, 2));
        assert_eq!(arguments.profiles, ["mcp", "reviewer"]);
        assert!(arguments.idempotent && arguments.open_world && arguments.terminal);
        assert!(
            arguments.access.is_some()
                && arguments.static_name.is_some()
                && arguments.root.is_some()
        );
        check("", &[]);
        check("idempotent, variables(a = 1, b = f(x, y),), access = paths::of,", &[]);
    }

    #[test]
    fn unknown_keys_get_the_closest_known_one() {
        for (written, near) in [
            ("titel", "title"),
            ("desc", "description"),
            ("variable", "variables"),
            ("Name", "name"),
            ("read", "effect = read"),
        ] {
            let message = format!("unknown `#[tool]` key `{written}`: did you mean `{near}`?");
            check(written, &[&message]);
        }
        let error = syn::parse_str::<Arguments>("colour = 3").err().expect("unknown").to_string();
        assert!(
            error.starts_with("unknown `#[tool]` key `colour`: known keys are `name`, `title`"),
            "{error}"
        );
    }

    #[test]
    fn a_value_of_the_wrong_form_gets_the_right_one() {
        let text = r#"`title` is written `title = "Say hello"`"#;
        for written in
            ["title", "title = 5", "title = hello", "title(\"a\")", "title = \"a\" \"b\""]
        {
            check(written, &[text]);
        }
        check("idempotent = true", &["`idempotent` takes no value"]);
        check("static = \"X\"", &["`static` is written `static = GREET`"]);
        check("crate = \"haft\"", &["`crate` is written `crate = some::path`"]);
        check("access", &["`access` is written `access = |input| vec![…]`"]);
        check("access =", &["`access` is written `access = |input| vec![…]`"]);
        for written in ["variables", "variables = 3", "variables()", "variables(3)"] {
            check(written, &["`variables` is written `variables(limit = LIMIT)`"]);
        }
        let globs = r#"`providers` is written `providers("openai*", "anthropic")`"#;
        check("providers(openai)", &[globs]);
        check("profiles = mcp", &["`profiles` is written `profiles(mcp, reviewer)`"]);
        let known = "it must be one of `mcp`, `researcher`, `reviewer`";
        check("profiles(mpc)", &[&format!("unknown built-in profile `mpc`: {known}")]);
    }

    #[test]
    fn an_effect_is_one_of_four_words() {
        let message = "`effect` must be one of `read`, `write`, `execute`, `destructive`";
        for written in ["effect = delete", "effect = \"write\"", "effect"] {
            check(written, &[message]);
        }
    }

    #[test]
    fn a_deadline_is_a_number_and_a_unit() {
        for (text, ms) in [("500ms", 500), ("30s", 30_000), ("10m", 600_000), ("1h", 3_600_000)] {
            assert_eq!(milliseconds(text), Some(ms));
        }
        for text in
            ["", "30", "s", "0s", "-1s", "+1s", "1.5s", "1 s", "1d", "99999999999999999999h"]
        {
            assert_eq!(milliseconds(text), None, "{text}");
        }
        let message =
            r#"a deadline is a whole number above zero and a unit: "500ms", "30s", "10m" or "1h""#;
        check("deadline = \"soon\"", &[message]);
    }

    #[test]
    fn duplicates_are_refused_and_all_errors_are_reported() {
        check("terminal, title = \"a\", terminal", &["`terminal` is given twice"]);
        check("variables(a = 1, a = 2)", &["the variable `a` is given twice"]);
        let both = ["`title` is given twice", "`idempotent` takes no value"];
        check("title = \"a\", title = \"b\", idempotent = 3", &both);
    }
}
