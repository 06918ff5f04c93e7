//! Replaces `secret:NAME` in a request, and redacts the values from the response. Secrets
//! leave this module only in the request to the host that it names.

use std::borrow::Cow;

use haft_core::{Redactor, SECRET_PREFIX, ToolError, is_secret_name_char, network::NetworkError};

use crate::network::credentials::{Recipient, SecretSource};

/// The encoding that a value needs at its position.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SecretContext {
    Plain,
    Query,
    Json,
}

/// The secrets that were put into a request.
#[derive(Clone, Default)]
pub(super) struct UsedSecrets {
    pairs: Vec<(String, String)>,
    redactor: Redactor,
}

impl SecretSource<'_> {
    /// Replaces the references in a text, and adds them to `used`.
    pub(super) fn fill(
        &self,
        text: &str,
        place: SecretContext,
        host: &str,
        used: &mut UsedSecrets,
    ) -> Result<String, ToolError> {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(SECRET_PREFIX) {
            filled.push_str(before);
            let name: String = after.chars().take_while(|c| is_secret_name_char(*c)).collect();
            let is_reference = !name.is_empty() && !before.ends_with(is_secret_name_char);
            if is_reference {
                let value = self
                    .value(&name, Recipient::Host(host))
                    .map_err(|error| error.caused_by(NetworkError::Secret))?;
                filled.push_str(&encoded(&value, place));
                used.add(name.clone(), value);
                rest = after.get(name.len()..).unwrap_or_default();
            } else {
                filled.push_str(SECRET_PREFIX);
                rest = after;
            }
        }
        filled.push_str(rest);
        Ok(filled)
    }
}

impl UsedSecrets {
    fn add(&mut self, name: String, value: String) {
        if !self.pairs.iter().any(|(known, _)| *known == name) {
            self.pairs.push((name, value));
            self.redactor = Redactor::new(self.pairs.iter().cloned());
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Redacts the secrets from a text.
    pub(super) fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.is_empty() { Cow::Borrowed(text) } else { self.redactor.text(text) }
    }

    /// The same for bytes that may not be text.
    pub(super) fn redact_bytes(&self, bytes: Vec<u8>) -> Vec<u8> {
        if self.is_empty() {
            return bytes;
        }
        match String::from_utf8(bytes) {
            Ok(text) => match self.redactor.text(&text) {
                Cow::Owned(veiled) => veiled.into_bytes(),
                Cow::Borrowed(_) => text.into_bytes(),
            },
            Err(error) => self.pairs.iter().fold(error.into_bytes(), |bytes, (name, value)| {
                replaced(&bytes, value.as_bytes(), format!("[secret:{name}]").as_bytes())
            }),
        }
    }

    /// Returns true when a text contains any of the secrets in a known encoding.
    pub(super) fn appear_in(&self, text: &str) -> bool {
        self.pairs.iter().any(|(name, value)| {
            let only = Redactor::new([(name.clone(), value.clone())]);
            only.text(text).contains(&format!("[secret:{name}]"))
        })
    }
}

fn replaced(bytes: &[u8], what: &[u8], by: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut done = 0;
    for at in memchr::memmem::find_iter(bytes, what) {
        out.extend_from_slice(&bytes[done..at]);
        out.extend_from_slice(by);
        done = at + what.len();
    }
    out.extend_from_slice(&bytes[done..]);
    out
}

fn encoded(value: &str, place: SecretContext) -> Cow<'_, str> {
    match place {
        SecretContext::Plain => Cow::Borrowed(value),
        SecretContext::Query => {
            url::form_urlencoded::byte_serialize(value.as_bytes()).collect::<String>().into()
        }
        // Control characters were refused, so only these two need escaping.
        SecretContext::Json => value.replace('\\', r"\\").replace('"', "\\\"").into(),
    }
}

#[cfg(test)]
mod tests {
    use haft_core::ErrorKind;

    use super::*;
    use crate::{Credential, Variables};

    fn variables() -> Variables {
        let pairs =
            [("HAFT_SECRET_A", "value-of-a"), ("OWN", "va\"l&ue"), ("HAFT_SECRET_TINY", "x1")];
        pairs.map(|(name, value)| (name.into(), value.into())).into()
    }

    fn fill(
        text: &str,
        place: SecretContext,
        host: &str,
    ) -> Result<(String, UsedSecrets), ToolError> {
        let hosts = vec!["api.example.org".to_owned(), "*.own.example".to_owned()];
        let credentials = [Credential { name: "B".to_owned(), variable: "OWN".to_owned(), hosts }];
        let secrets =
            SecretSource { credentials: &credentials, variables: &variables(), vault: None };
        let mut used = UsedSecrets::default();
        Ok((secrets.fill(text, place, host, &mut used)?, used))
    }

    #[test]
    fn references_are_filled_as_their_place_needs_it() {
        for (text, place, expected) in [
            ("Bearer secret:A", SecretContext::Plain, "Bearer value-of-a"),
            ("k=secret:B&x=1", SecretContext::Query, "k=va%22l%26ue&x=1"),
            ("{\"k\":\"secret:B\"}", SecretContext::Json, "{\"k\":\"va\\\"l&ue\"}"),
            ("secret:A,secret:A.", SecretContext::Plain, "value-of-a,value-of-a."),
            (
                "my_secret:A, secret: A, secret:",
                SecretContext::Plain,
                "my_secret:A, secret: A, secret:",
            ),
            ("no reference", SecretContext::Plain, "no reference"),
        ] {
            let (filled, _) = fill(text, place, "api.example.org").expect("known");
            assert_eq!(filled, expected);
        }
    }

    #[test]
    fn a_secret_goes_only_where_it_is_for() {
        for (host, is_open) in [
            ("api.example.org", true),
            ("x.own.example", true),
            ("own.example", false),
            ("evil.example", false),
            ("xown.example", false),
        ] {
            let filled = fill("secret:B", SecretContext::Plain, host);
            assert_eq!(
                filled.as_ref().err().map(ToolError::kind),
                (!is_open).then_some(ErrorKind::Denied),
                "{host}"
            );
        }
    }

    #[test]
    fn unknown_and_short_secrets_are_reported_without_their_value() {
        let kind = |text: &str| {
            fill(text, SecretContext::Plain, "h")
                .err()
                .map(|error| (error.kind(), NetworkError::of(&error)))
        };
        assert_eq!(kind("secret:NONE"), Some((ErrorKind::NotFound, Some(NetworkError::Secret))));
        assert_eq!(kind("secret:TINY"), Some((ErrorKind::Unavailable, Some(NetworkError::Secret))));
    }

    #[test]
    fn what_was_used_is_taken_out_again() {
        let (_, used) = fill("secret:A", SecretContext::Plain, "h").expect("known");
        assert_eq!(used.redact("it is value-of-a"), "it is [secret:A]");
        assert_eq!(used.redact_bytes(b"\xff value-of-a \xff".to_vec()), b"\xff [secret:A] \xff");
        assert!(used.appear_in("https://x/?k=value-of-a") && !used.appear_in("https://x/"));
        assert_eq!(UsedSecrets::default().redact("value-of-a"), "value-of-a");
    }
}
