//! Secrets as requests and commands name them, `secret:NAME`. A [`Vault`] stores them. No tool
//! receives a value.

use std::fmt;

use crate::ToolError;

/// Prefix of a reference to a secret.
pub const SECRET_PREFIX: &str = "secret:";
/// Shorter values could not be distinguished from ordinary text, and so not be redacted.
pub const MIN_SECRET_CHARS: usize = 6;
/// Longer values are not keys or tokens, and would not fit a command's environment.
pub const MAX_SECRET_BYTES: usize = 32 << 10;
const MAX_NAME_BYTES: usize = 64;

/// A store of a user's secrets. Used by the network client, the executor, and redactors.
pub trait Vault: Send + Sync + fmt::Debug {
    /// Returns the current secret of this name; `None` if there is none.
    ///
    /// # Errors
    /// Of kind `unavailable` or `denied` if the store cannot be opened: it is locked, damaged, or
    /// readable by others.
    fn find(&self, name: &str) -> Result<Option<Secret>, ToolError>;

    /// A number that changes whenever more values become known; 0 while there are none. Called for
    /// every text that is shown, so it must be very cheap.
    fn version(&self) -> u64;

    /// Names and values of all secrets known since the process started, including those removed or
    /// replaced since.
    fn known(&self) -> Vec<(String, String)>;
}

/// A secret and the hosts it may be sent to.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    /// The value, which must never be shown.
    pub value: String,
    /// The allowed hosts, `*.example.org` for all hosts below one. A secret with hosts cannot be
    /// given to commands; an empty list means every host and every command.
    pub hosts: Vec<String>,
}

impl fmt::Debug for Secret {
    /// A derived impl would print the value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").field("hosts", &self.hosts).finish_non_exhaustive()
    }
}

/// Returns true if a character may occur in the name of a secret.
pub fn is_secret_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Returns true if a text can be the name of a secret.
pub fn is_secret_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_NAME_BYTES && name.chars().all(is_secret_name_char)
}

/// Returns the name in a text that is exactly one reference.
pub fn secret_reference(text: &str) -> Option<&str> {
    text.strip_prefix(SECRET_PREFIX).filter(|name| is_secret_name(name))
}

/// Returns the names of all secrets that a text refers to, each once, in order.
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

/// Knows which secrets are bound to certain hosts.
pub trait SecretHosts: Send + Sync {
    /// Returns true if the secret is sent only to hosts that the user named for it.
    fn is_bound(&self, name: &str) -> bool;
}

/// Returns why a value cannot be redacted or sent; `None` if it is valid.
pub fn invalid_secret_reason(value: &str) -> Option<&'static str> {
    if value.trim().is_empty() {
        Some("it is empty")
    } else if value.trim().chars().count() < MIN_SECRET_CHARS {
        Some("it is shorter than 6 characters")
    } else if value.len() > MAX_SECRET_BYTES {
        Some("it is longer than 32 KB")
    } else if value.trim().contains(char::is_control) {
        Some("it contains a line break or another control character")
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
    fn values_that_cannot_be_redacted_are_invalid() {
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
