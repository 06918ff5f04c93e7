//! Names that providers accept, for tools, properties and calls. A name that fits is unchanged. Any
//! other is cleaned and gets a few digits of a hash of the original, so that the same name always
//! gives the same result.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use serde_json::Value;

use super::{ModelFormat, restore::Restore};

/// Maps tool names between haft and a provider, and restores arguments. Made by
/// [`definitions`](super::definitions); the default knows no tools and changes nothing.
#[derive(Clone, Debug, Default)]
pub struct ToolNames {
    to_provider: HashMap<String, String>,
    to_haft: HashMap<String, String>,
    /// By haft's name, for tools whose arguments have to be changed.
    restores: HashMap<String, Restore>,
    /// By haft's name: properties of outputs that only repeat the content.
    in_content: HashMap<String, Vec<String>>,
}

impl ToolNames {
    /// Maps every distinct name. A name depends on the other names only where two would become
    /// equal.
    pub(super) fn new<'a>(format: ModelFormat, names: impl Iterator<Item = &'a str>) -> Self {
        let rule = NameRule::of_tools(format);
        let (fitting, mut others): (Vec<&str>, Vec<&str>) = names.partition(|name| rule.fits(name));
        // Sorted, so that the order of the tools does not decide which one is renamed.
        others.sort_unstable();
        others.dedup();
        let mut this = Self::default();
        for name in fitting {
            this.insert(name, name.to_owned());
        }
        for name in others {
            let cleaned = (0..).map(|round| rule.cleaned(name, round));
            let free = cleaned.into_iter().find(|cleaned| !this.to_haft.contains_key(cleaned));
            this.insert(name, free.expect("there are more rounds than tools"));
        }
        this
    }

    fn insert(&mut self, haft: &str, provider: String) {
        self.to_provider.insert(haft.to_owned(), provider.clone());
        self.to_haft.insert(provider, haft.to_owned());
    }

    pub(super) fn keep(&mut self, tool: &str, restore: Restore, in_content: &[String]) {
        if !restore.is_nothing() {
            self.restores.insert(tool.to_owned(), restore);
        }
        if !in_content.is_empty() {
            self.in_content.insert(tool.to_owned(), in_content.to_vec());
        }
    }

    /// Returns the properties that only repeat the content of a result.
    pub(super) fn in_content(&self, tool: &str) -> &[String] {
        self.in_content.get(tool).map_or(&[], Vec::as_slice)
    }

    /// Returns the provider's name of a tool; an unknown name is unchanged.
    pub fn to_provider<'a>(&'a self, tool: &'a str) -> &'a str {
        self.to_provider.get(tool).map_or(tool, String::as_str)
    }

    /// Returns haft's name of a tool; an unknown name is unchanged, so that the gate can suggest
    /// similar names.
    pub fn to_haft<'a>(&'a self, name: &'a str) -> &'a str {
        self.to_haft.get(name).map_or(name, String::as_str)
    }

    /// Restores the arguments of a tool (by haft's name): original property names, no nulls for
    /// absent fields, and original values for those sent as text.
    pub fn restore(&self, tool: &str, arguments: Value) -> Value {
        match self.restores.get(tool) {
            Some(restore) => restore.apply(arguments),
            None => arguments,
        }
    }

    pub(super) fn changes_arguments(&self, tool: &str) -> bool {
        self.restores.contains_key(tool)
    }

    #[cfg(test)]
    pub(super) fn restore_of(&self, tool: &str) -> Restore {
        self.restores.get(tool).cloned().unwrap_or_default()
    }
}

/// Converts a call id for a conversation that continues with another provider. Convert the ids of
/// the calls in the history and of their results in the same way. The same id always gives the same
/// result; a changed id ends with 16 digits of a hash of the original.
///
/// Anthropic refuses ids with characters other than letters, digits, `_` and `-`; OpenAI refuses
/// more than 40 characters (chat) or 64 (responses). Gemini and MCP are not known to refuse any.
/// [`results`](super::results) does not change ids, because a provider expects its own ids, and
/// compatible servers use longer and unusual ones.
pub fn call_id(format: ModelFormat, id: &str) -> Cow<'_, str> {
    let most = match format {
        ModelFormat::OpenAi => 40,
        ModelFormat::Anthropic | ModelFormat::OpenAiResponses => 64,
        ModelFormat::Gemini | ModelFormat::Mcp => return Cow::Borrowed(id),
    };
    let rule = NameRule { most, signs: "_-", is_word: false, stem: "call", n_digits: 16 };
    if rule.fits(id) { Cow::Borrowed(id) } else { Cow::Owned(rule.cleaned(id, 0)) }
}

/// The names that a provider accepts.
#[derive(Clone, Copy, Debug)]
pub(super) struct NameRule {
    most: usize,
    /// Allowed characters in addition to ASCII letters and digits.
    signs: &'static str,
    /// True if a name must start with a letter or an underscore.
    is_word: bool,
    /// Start of a cleaned name that has no usable characters.
    stem: &'static str,
    n_digits: usize,
}

impl NameRule {
    /// Anthropic and OpenAI: `^[a-zA-Z0-9_-]{1,64}$`. Gemini requires a letter or underscore first,
    /// and today also accepts dots, colons and up to 128 characters, but not everywhere. MCP
    /// recommends letters, digits, `_`, `-`, `.` and at most 128.
    fn of_tools(format: ModelFormat) -> Self {
        let usual = Self { most: 64, signs: "_-", is_word: false, stem: "tool", n_digits: 8 };
        match format {
            ModelFormat::Anthropic | ModelFormat::OpenAi | ModelFormat::OpenAiResponses => usual,
            ModelFormat::Gemini => Self { is_word: true, ..usual },
            ModelFormat::Mcp => Self { most: 128, signs: "_-.", ..usual },
        }
    }

    /// Anthropic: "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'". Gemini's
    /// reference: a letter or underscore, then letters, digits and underscores, at most 64. The
    /// others accept any name.
    pub(super) fn of_properties(format: ModelFormat) -> Option<Self> {
        let usual = Self { most: 64, signs: "_.-", is_word: false, stem: "field", n_digits: 8 };
        match format {
            ModelFormat::Anthropic => Some(usual),
            ModelFormat::Gemini => Some(Self { signs: "_", is_word: true, ..usual }),
            ModelFormat::OpenAi | ModelFormat::OpenAiResponses | ModelFormat::Mcp => None,
        }
    }

    pub(super) fn fits(&self, name: &str) -> bool {
        let is_fine = |c: char| c.is_ascii_alphanumeric() || self.signs.contains(c);
        let begins = |c: char| !self.is_word || c.is_ascii_alphabetic() || c == '_';
        !name.is_empty()
            && name.len() <= self.most
            && name.chars().all(is_fine)
            && name.starts_with(begins)
    }

    /// Makes a name that fits from one that does not. Each round gives another name.
    pub(super) fn cleaned(&self, name: &str, round: u64) -> String {
        let digits = format!("{:016x}", digest(name, round));
        let digits: String = digits.chars().take(self.n_digits).collect();
        let room = self.most - self.n_digits - 1;
        let fine =
            |c: char| if c.is_ascii_alphanumeric() || self.signs.contains(c) { c } else { '_' };
        let mut cleaned: String = name.chars().map(fine).take(room).collect();
        if cleaned.chars().all(|c| c == '_') {
            cleaned = self.stem.to_owned();
        } else if self.is_word
            && cleaned.starts_with(|c: char| !c.is_ascii_alphabetic() && c != '_')
        {
            cleaned = format!("_{cleaned}").chars().take(room).collect();
        }
        format!("{cleaned}_{digits}")
    }
}

/// FNV-1a. It need not resist deliberate collisions, because they are detected and resolved.
fn digest(text: &str, round: u64) -> u64 {
    let mut digest = 0xcbf2_9ce4_8422_2325_u64;
    for byte in text.bytes().chain(round.to_le_bytes()) {
        digest = (digest ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    digest
}

/// The property names of one tool, as the provider accepts them.
#[derive(Debug)]
pub(super) struct PropertyNames {
    rule: Option<NameRule>,
    /// Provider's name to original name, where they differ.
    renamed: HashMap<String, String>,
    fitting: HashSet<String>,
    has_clash: bool,
}

impl PropertyNames {
    pub(super) fn new(format: ModelFormat) -> Self {
        let rule = NameRule::of_properties(format);
        Self { rule, renamed: HashMap::new(), fitting: HashSet::new(), has_clash: false }
    }

    /// Returns the same result for the same name, wherever it is in the schema.
    pub(super) fn key(&mut self, name: &str) -> String {
        match self.rule {
            Some(rule) if !rule.fits(name) => {
                let cleaned = rule.cleaned(name, 0);
                let known = self.renamed.insert(cleaned.clone(), name.to_owned());
                self.has_clash |= known.is_some_and(|known| known != name);
                cleaned
            }
            _ => {
                self.fitting.insert(name.to_owned());
                name.to_owned()
            }
        }
    }

    /// Returns the reverse map: provider's name to original name.
    ///
    /// # Errors
    /// When two properties now share a name, which only happens deliberately.
    pub(super) fn reverse_map(self) -> Result<HashMap<String, String>, String> {
        let is_taken = self.renamed.keys().any(|name| self.fitting.contains(name));
        if self.has_clash || is_taken {
            return Err("two of its properties would get the same name".to_owned());
        }
        Ok(self.renamed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(format: ModelFormat, name: &str, expected: &str) {
        let names = ToolNames::new(format, [name].into_iter());
        assert_eq!(names.to_provider(name), expected);
        assert_eq!(names.to_haft(expected), name);
    }

    #[test]
    fn names_that_fit_stay() {
        for format in ModelFormat::ALL {
            check(*format, "read", "read");
            check(*format, &"x".repeat(64), &"x".repeat(64));
        }
        check(ModelFormat::Anthropic, "2fa", "2fa");
        check(ModelFormat::Mcp, "files.read", "files.read");
    }

    #[test]
    fn names_that_do_not_fit_are_cleaned_and_marked() {
        check(ModelFormat::OpenAi, "files/read", "files_read_60bf415c");
        check(ModelFormat::Gemini, "2fa", "_2fa_4fba381f");
        check(ModelFormat::Anthropic, "日本", "tool_0382c70c");
        check(ModelFormat::Anthropic, "", "tool_a8c7f832");
        let long = "y".repeat(70);
        let names = ToolNames::new(ModelFormat::Anthropic, [long.as_str()].into_iter());
        assert_eq!(names.to_provider(&long).len(), 64);
    }

    #[test]
    fn two_names_never_become_one_whatever_their_order() {
        let pretender = NameRule::of_tools(ModelFormat::OpenAi).cleaned("a/b", 0);
        let listed = ["a/b", "a.b", "a_b", pretender.as_str()];
        let mut turned = listed;
        turned.reverse();
        let one = ToolNames::new(ModelFormat::OpenAi, listed.into_iter());
        let other = ToolNames::new(ModelFormat::OpenAi, turned.into_iter());
        let mut seen = HashSet::new();
        for name in listed {
            assert_eq!(one.to_provider(name), other.to_provider(name));
            assert_eq!(one.to_haft(one.to_provider(name)), name);
            assert!(seen.insert(one.to_provider(name).to_owned()));
        }
        assert_eq!(one.to_provider(&pretender), pretender, "a name that fits is unchanged");
    }

    #[test]
    fn names_with_equal_digits_stay_different_in_any_order() {
        // Found by testing 142,680 names.
        let twins = ["://.::!/!", ":/:!...:/"];
        let one = ToolNames::new(ModelFormat::OpenAi, twins.into_iter());
        let other = ToolNames::new(ModelFormat::OpenAi, twins.into_iter().rev());
        assert_eq!(one.to_provider(twins[0]), "tool_f7cb6def");
        assert_ne!(one.to_provider(twins[1]), "tool_f7cb6def");
        for name in twins {
            assert_eq!(one.to_provider(name), other.to_provider(name));
        }
    }

    #[test]
    fn unknown_names_pass() {
        let names = ToolNames::default();
        assert_eq!((names.to_haft("grpe"), names.to_provider("grpe")), ("grpe", "grpe"));
    }

    #[test]
    fn call_ids_are_cleaned_always_in_the_same_way() {
        assert_eq!(call_id(ModelFormat::Anthropic, "toolu_01A"), "toolu_01A");
        let strange = "call|1:2";
        let cleaned = call_id(ModelFormat::Anthropic, strange).into_owned();
        assert_eq!(cleaned, "call_1_2_5204fd1034ff77b6");
        assert_eq!(call_id(ModelFormat::Anthropic, &cleaned), cleaned, "once is enough");
        assert_ne!(call_id(ModelFormat::Anthropic, "call|1|2"), cleaned);
        let long = format!("call_{}", "9".repeat(60));
        assert_eq!(call_id(ModelFormat::OpenAi, &long).len(), 40);
        assert_eq!(call_id(ModelFormat::OpenAiResponses, &"9".repeat(64)).len(), 64);
        assert_eq!(call_id(ModelFormat::Gemini, strange), strange);
    }

    #[test]
    fn properties_that_would_share_a_name_are_refused() {
        let mut keys = PropertyNames::new(ModelFormat::Anthropic);
        let cleaned = keys.key("$top");
        assert_eq!(keys.key("plain"), "plain");
        keys.key(&cleaned);
        assert!(keys.reverse_map().is_err());
        let mut keys = PropertyNames::new(ModelFormat::Gemini);
        let cleaned = keys.key("filter[name]");
        assert_eq!(keys.reverse_map().expect("no clash")[&cleaned], "filter[name]");
    }
}
