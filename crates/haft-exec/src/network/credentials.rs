//! Who knows the value of `secret:NAME`: variables, and the person's vault. Asked by what sends requests and by what starts
//! programs, and by nobody else.

use std::ffi::OsString;

use haft_core::{ErrorKind, ToolError, Vault, block_in_place, invalid_secret_reason};

/// The variables that hold secrets begin with this.
const VARIABLE: &str = "HAFT_SECRET_";

/// A secret that a person has named, and where it may be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    /// As requests and commands name it.
    pub name: String,
    /// The variable of the environment that holds it. The vault is asked where it is not set.
    pub variable: String,
    /// The hosts it may be sent to, `*.example.org` for all below one; none means every host and every command.
    pub hosts: Vec<String>,
}

/// Where secrets come from.
#[derive(Clone, Copy)]
pub(crate) struct Secrets<'a> {
    pub(crate) credentials: &'a [Credential],
    pub(crate) variables: &'a [(OsString, OsString)],
    pub(crate) vault: Option<&'a dyn Vault>,
}

/// Who is to have one.
#[derive(Clone, Copy)]
pub(crate) enum Recipient<'a> {
    Host(&'a str),
    Program,
}

impl Secrets<'_> {
    /// # Errors
    /// Of kind `not_found` when nobody knows it, `denied` when it is for somebody else, `unavailable` when it could not be
    /// kept out of what is shown or cannot be had now.
    pub(crate) fn value(&self, name: &str, to: Recipient<'_>) -> Result<String, ToolError> {
        let known = self.credentials.iter().find(|credential| credential.name == name);
        let variable =
            known.map_or_else(|| format!("{VARIABLE}{name}"), |known| known.variable.clone());
        if let Some(known) = known {
            check_recipient(
                name,
                &known.hosts,
                to,
                &format!("have `hosts` under [credentials.{name}] changed"),
            )?;
        }
        let value = self.variables.iter().find(|(known, _)| *known == *variable);
        let value =
            value.and_then(|(_, value)| value.to_str()).map(|value| value.trim().to_owned());
        let value = value.filter(|value| !value.is_empty());
        let (value, place) = match value {
            Some(value) => (value, variable),
            None => (self.kept(name, to, &variable)?, format!("`haft secret set {name}`")),
        };
        match invalid_secret_reason(&value) {
            None => Ok(value),
            Some(fault) => {
                let message =
                    format!("the secret `{name}` cannot be kept out of what is shown: {fault}");
                let hint = format!("have the right value put into {place}");
                Err(ToolError::new(ErrorKind::Unavailable, message).hint(hint))
            }
        }
    }

    /// What the vault has of this name.
    fn kept(&self, name: &str, to: Recipient<'_>, variable: &str) -> Result<String, ToolError> {
        let found =
            self.vault.map(|vault| block_in_place(|| vault.find(name))).transpose()?.flatten();
        let Some(secret) = found else {
            let message = format!("there is no secret `{name}`");
            return Err(ToolError::not_found(message).hint(format!(
                "have a person run `haft secret set {name}`, or set the variable {variable} where haft runs"
            )));
        };
        let remedy = format!("have it set anew for others with `haft secret set {name} --force`");
        check_recipient(name, &secret.hosts, to, &remedy)?;
        Ok(secret.value.trim().to_owned())
    }
}

fn check_recipient(
    name: &str,
    hosts: &[String],
    to: Recipient<'_>,
    remedy: &str,
) -> Result<(), ToolError> {
    let is_for = match to {
        Recipient::Host(host) => hosts.is_empty() || hosts.iter().any(|it| fits(it, host)),
        // A command may send it anywhere.
        Recipient::Program => hosts.is_empty(),
    };
    if is_for {
        return Ok(());
    }
    let listed = hosts.join(", ");
    let (message, advice) = match to {
        Recipient::Host(host) => (
            format!("the secret `{name}` is not for {host}, only for {listed}"),
            "ask one of those hosts",
        ),
        Recipient::Program => (
            format!("the secret `{name}` is for no command, only for requests to {listed}"),
            "send the request with `http_request`",
        ),
    };
    Err(ToolError::denied(message).hint(format!("{advice}, or {remedy}")))
}

fn fits(pattern: &str, host: &str) -> bool {
    match pattern.strip_prefix("*.") {
        Some(parent) => host.strip_suffix(parent).is_some_and(|rest| rest.ends_with('.')),
        None => pattern == host,
    }
}

#[cfg(test)]
mod tests {
    use haft_core::Secret;

    use super::*;

    /// Has a few.
    #[derive(Debug)]
    struct Kept;

    impl Vault for Kept {
        fn find(&self, name: &str) -> Result<Option<Secret>, ToolError> {
            let secret = |value: &str, hosts: &[&str]| {
                let hosts = hosts.iter().map(|&host| host.to_owned()).collect();
                Some(Secret { value: value.to_owned(), hosts })
            };
            Ok(match name {
                "A" => secret("kept-value-of-a", &[]),
                "KEPT" => secret("kept-value", &[]),
                "B" => secret("kept-value-of-b", &[]),
                "HOSTED" => secret("hosted-value", &["api.example.org"]),
                "LOCKED" => return Err(ToolError::unavailable("locked")),
                _ => None,
            })
        }

        fn version(&self) -> u64 {
            0
        }

        fn known(&self) -> Vec<(String, String)> {
            Vec::new()
        }
    }

    fn variables() -> crate::Variables {
        let pairs = [("HAFT_SECRET_A", "value-of-a"), ("HAFT_SECRET_TINY", "x1")];
        pairs.map(|(name, value)| (name.into(), value.into())).into()
    }

    #[track_caller]
    fn check(name: &str, to: Recipient<'_>, expected: Result<&str, ErrorKind>) {
        let hosts = vec!["own.example".to_owned()];
        let credentials = [Credential { name: "B".to_owned(), variable: "OWN".to_owned(), hosts }];
        let secrets =
            Secrets { credentials: &credentials, variables: &variables(), vault: Some(&Kept) };
        let value = secrets.value(name, to);
        assert_eq!(value.as_deref().map_err(ToolError::kind), expected, "{name}");
        if let Err(error) = value {
            assert!(!format!("{error} {}", error.next_step()).contains("value-of"), "{error}");
        }
    }

    #[test]
    fn variables_go_before_the_vault() {
        for to in [Recipient::Host("x.example"), Recipient::Program] {
            check("A", to, Ok("value-of-a"));
            check("KEPT", to, Ok("kept-value"));
            check("NONE", to, Err(ErrorKind::NotFound));
            check("TINY", to, Err(ErrorKind::Unavailable));
            check("LOCKED", to, Err(ErrorKind::Unavailable));
        }
    }

    #[test]
    fn what_is_for_hosts_goes_to_those_and_to_no_command() {
        check("HOSTED", Recipient::Host("api.example.org"), Ok("hosted-value"));
        check("HOSTED", Recipient::Host("x.example"), Err(ErrorKind::Denied));
        check("HOSTED", Recipient::Program, Err(ErrorKind::Denied));
        // The config narrows what is kept, too.
        check("B", Recipient::Host("own.example"), Ok("kept-value-of-b"));
        check("B", Recipient::Host("x.example"), Err(ErrorKind::Denied));
        check("B", Recipient::Program, Err(ErrorKind::Denied));
    }
}
