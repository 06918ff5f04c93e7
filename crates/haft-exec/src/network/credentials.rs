//! Looks up the value of `secret:NAME` in environment variables and the user's vault. Only the code
//! that sends requests and the code that starts programs use this.

use std::ffi::OsString;

use haft_core::{ErrorKind, ToolError, Vault, block_in_place, invalid_secret_reason};

/// Prefix of the variables that hold secrets.
const VARIABLE_PREFIX: &str = "HAFT_SECRET_";

/// A secret that a person has configured, and the hosts it may be sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    /// The name that requests and commands use.
    pub name: String,
    /// The environment variable that holds it. The vault is used when the variable is not set.
    pub variable: String,
    /// The hosts it may be sent to, `*.example.org` for all subdomains; an empty list means every
    /// host and every command.
    pub hosts: Vec<String>,
}

/// The sources of secrets.
#[derive(Clone, Copy)]
pub(crate) struct SecretSource<'a> {
    pub(crate) credentials: &'a [Credential],
    pub(crate) variables: &'a [(OsString, OsString)],
    pub(crate) vault: Option<&'a dyn Vault>,
}

/// The recipient of a secret.
#[derive(Clone, Copy)]
pub(crate) enum Recipient<'a> {
    Host(&'a str),
    Program,
}

impl SecretSource<'_> {
    /// # Errors
    /// Of kind `not_found` when the secret does not exist, `denied` when it is for another
    /// recipient, `unavailable` when it cannot be redacted from results or cannot be read now.
    pub(crate) fn value(&self, name: &str, to: Recipient<'_>) -> Result<String, ToolError> {
        let known = self.credentials.iter().find(|credential| credential.name == name);
        let variable = known
            .map_or_else(|| format!("{VARIABLE_PREFIX}{name}"), |known| known.variable.clone());
        if let Some(known) = known {
            check_recipient(
                name,
                &known.hosts,
                to,
                &format!("change `hosts` under [credentials.{name}]"),
            )?;
        }
        let value = self.variables.iter().find(|(known, _)| *known == *variable);
        let value =
            value.and_then(|(_, value)| value.to_str()).map(|value| value.trim().to_owned());
        let value = value.filter(|value| !value.is_empty());
        let (value, place) = match value {
            Some(value) => (value, variable),
            None => (self.vault_secret(name, to, &variable)?, format!("`haft secret set {name}`")),
        };
        match invalid_secret_reason(&value) {
            None => Ok(value),
            Some(fault) => {
                let message =
                    format!("the secret `{name}` cannot be redacted from results: {fault}");
                let hint = format!("put the correct value into {place}");
                Err(ToolError::new(ErrorKind::Unavailable, message).hint(hint))
            }
        }
    }

    /// Reads a secret from the vault.
    fn vault_secret(
        &self,
        name: &str,
        to: Recipient<'_>,
        variable: &str,
    ) -> Result<String, ToolError> {
        let found =
            self.vault.map(|vault| block_in_place(|| vault.find(name))).transpose()?.flatten();
        let Some(secret) = found else {
            let message = format!("there is no secret `{name}`");
            return Err(ToolError::not_found(message).hint(format!(
                "a person can run `haft secret set {name}`, or set the variable {variable} for haft"
            )));
        };
        let remedy = format!("set it again for other hosts with `haft secret set {name} --force`");
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
        // A command could send it anywhere.
        Recipient::Program => hosts.is_empty(),
    };
    if is_for {
        return Ok(());
    }
    let listed = hosts.join(", ");
    let (message, advice) = match to {
        Recipient::Host(host) => (
            format!("the secret `{name}` is not for {host}, only for {listed}"),
            "send the request to one of those hosts",
        ),
        Recipient::Program => (
            format!("the secret `{name}` is not for commands, only for requests to {listed}"),
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

    /// A vault with a few secrets.
    #[derive(Debug)]
    struct TestVault;

    impl Vault for TestVault {
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
        let secrets = SecretSource {
            credentials: &credentials,
            variables: &variables(),
            vault: Some(&TestVault),
        };
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
        // The config limits secrets of the vault too.
        check("B", Recipient::Host("own.example"), Ok("kept-value-of-b"));
        check("B", Recipient::Host("x.example"), Err(ErrorKind::Denied));
        check("B", Recipient::Program, Err(ErrorKind::Denied));
    }
}
