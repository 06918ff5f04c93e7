//! Names as providers take them: of tools, of properties, of calls. A name that fits stays as it is; one that does not is
//! cleaned and gets a few digits made from the original, so that the same name always becomes the same.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use serde_json::Value;

use super::{Format, restore::Restore};

/// Which tool a provider means by a name, and how its arguments become the tool's again. Made by
/// [`definitions`](super::definitions); the default knows no tool and leaves everything as it is.
#[derive(Clone, Debug, Default)]
pub struct Names {
    to_provider: HashMap<String, String>,
    to_haft: HashMap<String, String>,
    /// By haft's names, where arguments have to be changed at all.
    restores: HashMap<String, Restore>,
    /// By haft's names: the properties of outputs that the content says already.
    in_content: HashMap<String, Vec<String>>,
}

impl Names {
    /// Every distinct name, as the provider is told it. Which names others have makes a difference only where two would
    /// become the same.
    pub(super) fn new<'a>(format: Format, names: impl Iterator<Item = &'a str>) -> Self {
        let rule = Rule::of_tools(format);
        let (fitting, mut others): (Vec<&str>, Vec<&str>) = names.partition(|name| rule.fits(name));
        // Sorted, so that the order in which tools are listed does not decide who is renamed how.
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

    /// What the content of a result says already.
    pub(super) fn in_content(&self, tool: &str) -> &[String] {
        self.in_content.get(tool).map_or(&[], Vec::as_slice)
    }

    /// What the provider calls a tool; an unknown name stays as it is.
    pub fn to_provider<'a>(&'a self, tool: &'a str) -> &'a str {
        self.to_provider.get(tool).map_or(tool, String::as_str)
    }

    /// Which tool the provider means; an unknown name stays as it is, for the gate to say what is near.
    pub fn to_haft<'a>(&'a self, name: &'a str) -> &'a str {
        self.to_haft.get(name).map_or(name, String::as_str)
    }

    /// Arguments as the tool (by haft's name) wants them: fields under their own names, without the nulls that stand
    /// for fields left out, with the values that had to be sent as text.
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

/// The id of a call from elsewhere as a provider takes it, for conversations that go on with another provider: change the
/// ids of the calls in the history and of their results alike. The same id always becomes the same; one that had to be
/// changed carries 16 digits made from the whole.
///
/// Anthropic refuses ids with other characters than letters, digits, `_` and `-`; OpenAI refuses more than 40 characters
/// (chat) or 64 (responses). Nothing is known to be refused by Gemini and MCP. [`results`](super::results) leaves ids as
/// they are, because a provider must be answered under its own ids, and compatible servers make longer and stranger ones.
pub fn call_id(format: Format, id: &str) -> Cow<'_, str> {
    let most = match format {
        Format::OpenAi => 40,
        Format::Anthropic | Format::OpenAiResponses => 64,
        Format::Gemini | Format::Mcp => return Cow::Borrowed(id),
    };
    let rule = Rule { most, signs: "_-", is_word: false, stem: "call", n_digits: 16 };
    if rule.fits(id) { Cow::Borrowed(id) } else { Cow::Owned(rule.cleaned(id, 0)) }
}

/// Which names are taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    most: usize,
    /// Taken besides ASCII letters and digits.
    signs: &'static str,
    /// Whether it must begin with a letter or an underscore.
    is_word: bool,
    /// What a name begins with that has nothing to begin with.
    stem: &'static str,
    n_digits: usize,
}

impl Rule {
    /// Anthropic and OpenAI: `^[a-zA-Z0-9_-]{1,64}$`. Gemini takes dots and colons too and up to 128 characters today,
    /// but not everywhere; it wants a letter or underscore first. MCP recommends letters, digits, `_`, `-`, `.` and at
    /// most 128.
    fn of_tools(format: Format) -> Self {
        let usual = Self { most: 64, signs: "_-", is_word: false, stem: "tool", n_digits: 8 };
        match format {
            Format::Anthropic | Format::OpenAi | Format::OpenAiResponses => usual,
            Format::Gemini => Self { is_word: true, ..usual },
            Format::Mcp => Self { most: 128, signs: "_-.", ..usual },
        }
    }

    /// Anthropic: "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'". Gemini's reference: a letter or an
    /// underscore, then letters, digits and underscores, at most 64. The others take any.
    pub(super) fn of_properties(format: Format) -> Option<Self> {
        let usual = Self { most: 64, signs: "_.-", is_word: false, stem: "field", n_digits: 8 };
        match format {
            Format::Anthropic => Some(usual),
            Format::Gemini => Some(Self { signs: "_", is_word: true, ..usual }),
            Format::OpenAi | Format::OpenAiResponses | Format::Mcp => None,
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

    /// A name that fits, made from one that does not. Further rounds give other ones.
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

/// FNV-1a. It need not be safe against people who look for collisions: those are noticed and resolved.
fn digest(text: &str, round: u64) -> u64 {
    let mut digest = 0xcbf2_9ce4_8422_2325_u64;
    for byte in text.bytes().chain(round.to_le_bytes()) {
        digest = (digest ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    digest
}

/// The properties of one tool under names that the provider takes.
#[derive(Debug)]
pub(super) struct Keys {
    rule: Option<Rule>,
    /// Provider's name to own name, of those that differ.
    renamed: HashMap<String, String>,
    fitting: HashSet<String>,
    has_clash: bool,
}

impl Keys {
    pub(super) fn new(format: Format) -> Self {
        let rule = Rule::of_properties(format);
        Self { rule, renamed: HashMap::new(), fitting: HashSet::new(), has_clash: false }
    }

    /// Always the same for the same name, wherever in the schema it stands.
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

    /// The way back: provider's name to own name.
    ///
    /// # Errors
    /// When two properties share a name now, which takes somebody who tries.
    pub(super) fn way_back(self) -> Result<HashMap<String, String>, String> {
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
    fn check(format: Format, name: &str, expected: &str) {
        let names = Names::new(format, [name].into_iter());
        assert_eq!(names.to_provider(name), expected);
        assert_eq!(names.to_haft(expected), name);
    }

    #[test]
    fn names_that_fit_stay() {
        for format in Format::ALL {
            check(*format, "read", "read");
            check(*format, &"x".repeat(64), &"x".repeat(64));
        }
        check(Format::Anthropic, "2fa", "2fa");
        check(Format::Mcp, "files.read", "files.read");
    }

    #[test]
    fn names_that_do_not_fit_are_cleaned_and_marked() {
        check(Format::OpenAi, "files/read", "files_read_60bf415c");
        check(Format::Gemini, "2fa", "_2fa_4fba381f");
        check(Format::Anthropic, "日本", "tool_0382c70c");
        check(Format::Anthropic, "", "tool_a8c7f832");
        let long = "y".repeat(70);
        let names = Names::new(Format::Anthropic, [long.as_str()].into_iter());
        assert_eq!(names.to_provider(&long).len(), 64);
    }

    #[test]
    fn two_names_never_become_one_whatever_their_order() {
        let pretender = Rule::of_tools(Format::OpenAi).cleaned("a/b", 0);
        let listed = ["a/b", "a.b", "a_b", pretender.as_str()];
        let mut turned = listed;
        turned.reverse();
        let one = Names::new(Format::OpenAi, listed.into_iter());
        let other = Names::new(Format::OpenAi, turned.into_iter());
        let mut seen = HashSet::new();
        for name in listed {
            assert_eq!(one.to_provider(name), other.to_provider(name));
            assert_eq!(one.to_haft(one.to_provider(name)), name);
            assert!(seen.insert(one.to_provider(name).to_owned()));
        }
        assert_eq!(one.to_provider(&pretender), pretender, "who fits keeps the name");
    }

    #[test]
    fn names_whose_digits_are_the_same_are_told_apart_in_any_order() {
        // Found by trying 142,680 names.
        let twins = ["://.::!/!", ":/:!...:/"];
        let one = Names::new(Format::OpenAi, twins.into_iter());
        let other = Names::new(Format::OpenAi, twins.into_iter().rev());
        assert_eq!(one.to_provider(twins[0]), "tool_f7cb6def");
        assert_ne!(one.to_provider(twins[1]), "tool_f7cb6def");
        for name in twins {
            assert_eq!(one.to_provider(name), other.to_provider(name));
        }
    }

    #[test]
    fn unknown_names_pass() {
        let names = Names::default();
        assert_eq!((names.to_haft("grpe"), names.to_provider("grpe")), ("grpe", "grpe"));
    }

    #[test]
    fn call_ids_are_cleaned_always_in_the_same_way() {
        assert_eq!(call_id(Format::Anthropic, "toolu_01A"), "toolu_01A");
        let strange = "call|1:2";
        let cleaned = call_id(Format::Anthropic, strange).into_owned();
        assert_eq!(cleaned, "call_1_2_5204fd1034ff77b6");
        assert_eq!(call_id(Format::Anthropic, &cleaned), cleaned, "once is enough");
        assert_ne!(call_id(Format::Anthropic, "call|1|2"), cleaned);
        let long = format!("call_{}", "9".repeat(60));
        assert_eq!(call_id(Format::OpenAi, &long).len(), 40);
        assert_eq!(call_id(Format::OpenAiResponses, &"9".repeat(64)).len(), 64);
        assert_eq!(call_id(Format::Gemini, strange), strange);
    }

    #[test]
    fn properties_that_would_share_a_name_are_noticed() {
        let mut keys = Keys::new(Format::Anthropic);
        let cleaned = keys.key("$top");
        assert_eq!(keys.key("plain"), "plain");
        keys.key(&cleaned);
        assert!(keys.way_back().is_err());
        let mut keys = Keys::new(Format::Gemini);
        let cleaned = keys.key("filter[name]");
        assert_eq!(keys.way_back().expect("no clash")[&cleaned], "filter[name]");
    }
}
