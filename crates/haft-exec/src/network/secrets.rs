//! `secret:NAME` in a request: looked up here, put in here, and taken out of whatever comes back. No secret leaves this room
//! but on the wire to the place that the request names.

use std::borrow::Cow;

use haft_core::{Redactor, SECRET_PREFIX, ToolError, is_secret_name_char, network::NetworkError};

use crate::network::credentials::{Recipient, Secrets};

/// How a value has to be written where it stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Plain,
    Query,
    Json,
}

/// What has been put into a request.
#[derive(Clone, Default)]
pub(super) struct Used {
    pairs: Vec<(String, String)>,
    redactor: Redactor,
}

impl Secrets<'_> {
    /// The text with its references replaced. `used` learns what they were.
    pub(super) fn fill(
        &self,
        text: &str,
        place: Place,
        host: &str,
        used: &mut Used,
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
                filled.push_str(&written(&value, place));
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

impl Used {
    fn add(&mut self, name: String, value: String) {
        if !self.pairs.iter().any(|(known, _)| *known == name) {
            self.pairs.push((name, value));
            self.redactor = Redactor::new(self.pairs.iter().cloned());
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// The text without the secrets.
    pub(super) fn veil<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.is_empty() { Cow::Borrowed(text) } else { self.redactor.text(text) }
    }

    /// The same for what may be no text.
    pub(super) fn veil_bytes(&self, bytes: Vec<u8>) -> Vec<u8> {
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

    /// Whether any of the secrets stands in a text, in a form that is known.
    pub(super) fn are_in(&self, text: &str) -> bool {
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

fn written(value: &str, place: Place) -> Cow<'_, str> {
    match place {
        Place::Plain => Cow::Borrowed(value),
        Place::Query => {
            url::form_urlencoded::byte_serialize(value.as_bytes()).collect::<String>().into()
        }
        // Line breaks and other controls were refused, so these two are all.
        Place::Json => value.replace('\\', r"\\").replace('"', "\\\"").into(),
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

    fn fill(text: &str, place: Place, host: &str) -> Result<(String, Used), ToolError> {
        let hosts = vec!["api.example.org".to_owned(), "*.own.example".to_owned()];
        let credentials = [Credential { name: "B".to_owned(), variable: "OWN".to_owned(), hosts }];
        let secrets = Secrets { credentials: &credentials, variables: &variables(), vault: None };
        let mut used = Used::default();
        Ok((secrets.fill(text, place, host, &mut used)?, used))
    }

    #[test]
    fn references_are_filled_as_their_place_needs_it() {
        for (text, place, expected) in [
            ("Bearer secret:A", Place::Plain, "Bearer value-of-a"),
            ("k=secret:B&x=1", Place::Query, "k=va%22l%26ue&x=1"),
            ("{\"k\":\"secret:B\"}", Place::Json, "{\"k\":\"va\\\"l&ue\"}"),
            ("secret:A,secret:A.", Place::Plain, "value-of-a,value-of-a."),
            ("my_secret:A, secret: A, secret:", Place::Plain, "my_secret:A, secret: A, secret:"),
            ("no reference", Place::Plain, "no reference"),
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
            let filled = fill("secret:B", Place::Plain, host);
            assert_eq!(
                filled.as_ref().err().map(ToolError::kind),
                (!is_open).then_some(ErrorKind::Denied),
                "{host}"
            );
        }
    }

    #[test]
    fn what_is_unknown_or_too_short_is_told_without_its_value() {
        let kind = |text: &str| {
            fill(text, Place::Plain, "h")
                .err()
                .map(|error| (error.kind(), NetworkError::of(&error)))
        };
        assert_eq!(kind("secret:NONE"), Some((ErrorKind::NotFound, Some(NetworkError::Secret))));
        assert_eq!(kind("secret:TINY"), Some((ErrorKind::Unavailable, Some(NetworkError::Secret))));
    }

    #[test]
    fn what_was_used_is_taken_out_again() {
        let (_, used) = fill("secret:A", Place::Plain, "h").expect("known");
        assert_eq!(used.veil("it is value-of-a"), "it is [secret:A]");
        assert_eq!(used.veil_bytes(b"\xff value-of-a \xff".to_vec()), b"\xff [secret:A] \xff");
        assert!(used.are_in("https://x/?k=value-of-a") && !used.are_in("https://x/"));
        assert_eq!(Used::default().veil("value-of-a"), "value-of-a");
    }
}
