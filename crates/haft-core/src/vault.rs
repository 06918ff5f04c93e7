//! Secrets as requests and commands name them, `secret:NAME`. [`Vault`] is what really keeps them; nothing here opens
//! anything, and no tool is handed a value.

use std::fmt;

use crate::ToolError;

/// What a reference to a secret begins with.
pub const SECRET_PREFIX: &str = "secret:";
/// A shorter value could not be told from ordinary text, and so not be kept out of it.
pub const MIN_SECRET_CHARS: usize = 6;
/// A longer one is no key or token any more, and would not fit a command's environment.
pub const MAX_SECRET_BYTES: usize = 32 << 10;
const LONGEST_NAME: usize = 64;

/// Keeps the secrets of a person. Asked by what sends requests and starts programs, and by redactors.
pub trait Vault: Send + Sync + fmt::Debug {
    /// The secret of this name as it is kept now; none when there is none.
    ///
    /// # Errors
    /// Of kind `unavailable` or `denied` when there may be one that cannot be had: what keeps it is locked, damaged, or
    /// open to others.
    fn find(&self, name: &str) -> Result<Option<Secret>, ToolError>;

    /// Another number than before once more values are known. Asked for every text that is shown, so it must cost next to
    /// nothing; 0 as long as nothing is known.
    fn version(&self) -> u64;

    /// Names and values of everything that was known since the process began, also of what was removed or replaced since.
    fn known(&self) -> Vec<(String, String)>;
}

/// A secret, and where it may be sent.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    /// What nobody is to see.
    pub value: String,
    /// The hosts it may be sent to, `*.example.org` for all below one. One that is for hosts is for no command; none means
    /// every host and every command.
    pub hosts: Vec<String>,
}

impl fmt::Debug for Secret {
    /// A derived impl would print the value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").field("hosts", &self.hosts).finish_non_exhaustive()
    }
}

/// Whether a character may stand in the name of a secret.
pub fn is_secret_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Whether a text can be the name of a secret.
pub fn is_secret_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= LONGEST_NAME && name.chars().all(is_secret_name_char)
}

/// The name in a text that is a reference and nothing else.
pub fn secret_reference(text: &str) -> Option<&str> {
    text.strip_prefix(SECRET_PREFIX).filter(|name| is_secret_name(name))
}

/// The names of the secrets that a text refers to, as a request is filled: each once, in order.
pub fn secret_references(text: &str) -> Vec<&str> {
    let (mut names, mut rest) = (Vec::new(), text);
    while let Some((before, after)) = rest.split_once(SECRET_PREFIX) {
        let end = after.find(|c| !is_secret_name_char(c)).unwrap_or(after.len());
        let (name, behind) = after.split_at(end);
        let is_reference = !name.is_empty() && !before.ends_with(is_secret_name_char);
        rest = if is_reference { behind } else { after };
        if is_reference && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Says which secrets are for certain hosts only. Without one, no secret counts as such.
pub trait SecretHosts: Send + Sync {
    /// Whether whoever sends this secret refuses every host that a person has not named for it.
    fn is_bound(&self, name: &str) -> bool;
}

/// Why a value could not be kept out of what is shown, or not be sent; none when nothing is wrong with it.
pub fn invalid_secret_reason(value: &str) -> Option<&'static str> {
    if value.trim().is_empty() {
        Some("it is empty")
    } else if value.trim().chars().count() < MIN_SECRET_CHARS {
        Some("it is shorter than 6 characters")
    } else if value.len() > MAX_SECRET_BYTES {
        Some("it is longer than 32 KB")
    } else if value.trim().contains(char::is_control) {
        Some("it has a line break or another control character in it")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_whole_and_names_are_plain() {
        for (text, name) in [
            ("secret:KEY_1", Some("KEY_1")),
            ("secret:", None),
            ("secret:a b", None),
            ("Bearer secret:KEY", None),
            ("secret:KEY\n", None),
            ("KEY", None),
        ] {
            assert_eq!(secret_reference(text), name, "{text}");
        }
        assert!(is_secret_name(&"a".repeat(64)) && !is_secret_name(&"a".repeat(65)));
    }

    #[test]
    fn references_are_found_wherever_a_request_is_filled() {
        for (text, expected) in [
            ("Bearer secret:A", &["A"][..]),
            ("secret:A,secret:B.secret:A", &["A", "B"]),
            ("{\"k\":\"secret:B\"}", &["B"]),
            ("k=secret:A&x=secret:B_2", &["A", "B_2"]),
            ("secret:secret:A", &["secret"]),
            ("secret:secret", &["secret"]),
            ("my_secret:A, secret: A, secret:", &[]),
            ("Secret:A SECRET:A %73ecret:A", &[]),
            ("\u{e9}secret:A", &["A"]),
        ] {
            assert_eq!(secret_references(text), expected, "{text}");
        }
    }

    #[test]
    fn values_that_cannot_be_kept_out_of_texts_are_told() {
        for (value, is_good) in [
            ("abcdef", true),
            (" abcdef\n", true),
            ("", false),
            (" \n ", false),
            ("abcde", false),
            ("  abcde  ", false),
            ("éééééé", true),
            ("abc\ndef", false),
            ("abc\0def", false),
        ] {
            assert_eq!(invalid_secret_reason(value).is_none(), is_good, "{value:?}");
        }
        assert!(invalid_secret_reason(&"x".repeat(MAX_SECRET_BYTES)).is_none());
        assert!(invalid_secret_reason(&"x".repeat(MAX_SECRET_BYTES + 1)).is_some());
    }

    #[test]
    fn a_secret_does_not_show_its_value() {
        let secret = Secret { value: "hunter22".to_owned(), hosts: vec!["a.example".to_owned()] };
        let shown = format!("{secret:?}");
        assert!(!shown.contains("hunter22") && shown.contains("a.example"), "{shown}");
    }
}
