//! What files say about other machines: how they are reached, what the web is searched with, and which secrets there are.

use std::{path::PathBuf, time::Duration};

use haft_core::{
    ToolError,
    network::{EngineKind, SearchEngine},
};
use haft_exec::{Allowed, Credential, NetworkSettings};

use super::{
    file::{File, Section},
    keys,
};

/// What one file says. What it leaves out another may say.
#[derive(Clone, Default)]
pub(super) struct NetworkWords {
    allow: Vec<Allowed>,
    proxy: Option<url::Url>,
    authorities: Vec<PathBuf>,
    timeout: Option<usize>,
    most_bytes: Option<usize>,
    per_minute: Option<usize>,
    respects_robots: Option<bool>,
    may_unprotect: Option<bool>,
    engine: Option<EngineKind>,
    search_url: Option<String>,
    search_key: Option<String>,
    credentials: Vec<Credential>,
}

impl Section<'_> {
    pub(super) fn network(&self) -> Result<NetworkWords, ToolError> {
        let mut words = NetworkWords::default();
        if let Some(table) = self.table("network")? {
            Section { path: "network.", table, ..*self }.connections(&mut words)?;
        }
        if let Some(table) = self.table("search")? {
            let section = Section { path: "search.", table, ..*self };
            section.check_keys(&keys::SEARCH)?;
            words.engine = section.word("engine", &EngineKind::ALL)?;
            words.search_url = section.web_address("url")?.map(String::from);
            words.search_key = section.text("key")?.map(|(_, key)| key.to_owned());
        }
        words.credentials =
            self.named("credentials", |section, name, at| section.credential(name, at))?;
        Ok(words)
    }

    fn connections(&self, words: &mut NetworkWords) -> Result<(), ToolError> {
        self.check_keys(&keys::NETWORK)?;
        for (at, text) in self.texts("allow")? {
            let entry = text.parse().map_err(|problem: String| {
                self.reader.fault(
                    at,
                    &format!("`network.allow`: {problem}"),
                    "name one service or network",
                )
            })?;
            words.allow.push(entry);
        }
        words.proxy = self.web_address("proxy")?;
        for (at, text) in self.texts("ca")? {
            words.authorities.push(self.reader.path(at, text)?.into());
        }
        words.timeout = self.number("timeout_secs")?;
        words.most_bytes = self.number("max_bytes")?;
        words.per_minute = self.number("requests_per_minute")?;
        words.respects_robots = self.word("robots", &[("ignore", false), ("respect", true)])?;
        words.may_unprotect = self.word("downgrade", &[("refuse", false), ("follow", true)])?;
        Ok(())
    }

    fn web_address(&self, key: &str) -> Result<Option<url::Url>, ToolError> {
        let Some((at, text)) = self.text(key)? else { return Ok(None) };
        let url = url::Url::parse(text).ok();
        let url = url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        url.map(Some).ok_or_else(|| {
            let problem = format!("`{}{key}`: expected an http or https URL", self.path);
            self.reader.fault(at, &problem, "write it whole, as in http://host.example:8080")
        })
    }

    fn credential(&self, name: &str, at: usize) -> Result<Credential, ToolError> {
        self.check_keys(&keys::CREDENTIALS)?;
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || !name.chars().all(is_word) {
            let problem =
                format!("`credentials.{name}`: the name may have letters, digits and `_`");
            return Err(self.reader.fault(at, &problem, "requests call it `secret:NAME`"));
        }
        let variable = self.text("variable")?.map(|(_, variable)| variable.to_owned());
        let hosts = self.texts("hosts")?.into_iter().map(|(_, host)| host.to_ascii_lowercase());
        Ok(Credential {
            name: name.to_owned(),
            variable: variable.unwrap_or_else(|| format!("HAFT_SECRET_{name}")),
            hosts: hosts.collect(),
        })
    }
}

/// Put together: of a single value the first file's word holds, lists are joined.
pub(super) fn settings<'f>(files: impl Iterator<Item = &'f File> + Clone) -> NetworkSettings {
    let words = || files.clone().map(|file| &file.network);
    let usual = NetworkSettings::default();
    let timeout = words().find_map(|words| words.timeout);
    let mut settings = NetworkSettings::default();
    settings.allow = words().flat_map(|words| words.allow.iter().cloned()).collect();
    settings.proxy = words().find_map(|words| words.proxy.clone());
    settings.authorities = words().flat_map(|words| words.authorities.iter().cloned()).collect();
    settings.timeout =
        timeout.map_or(usual.timeout, |seconds| Duration::from_secs(seconds.max(1) as u64));
    settings.max_bytes = words().find_map(|words| words.most_bytes).unwrap_or(usual.max_bytes);
    settings.per_minute = words().find_map(|words| words.per_minute).unwrap_or_default();
    settings.respects_robots = words().find_map(|words| words.respects_robots).unwrap_or_default();
    settings.allows_downgrade = words().find_map(|words| words.may_unprotect).unwrap_or_default();
    settings.credentials = words().flat_map(|words| words.credentials.iter().cloned()).collect();
    settings.search = SearchEngine {
        kind: words().find_map(|words| words.engine).unwrap_or_default(),
        url: words().find_map(|words| words.search_url.clone()),
        key: words().find_map(|words| words.search_key.clone()),
    };
    settings
}
