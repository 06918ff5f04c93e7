//! Reads `[network]`, `[search]` and `[credentials]`: how haft connects to other machines, which
//! search engine it uses, and which secrets exist.

use std::{path::PathBuf, time::Duration};

use haft_core::{
    ToolError,
    network::{EngineKind, SearchEngine},
};
use haft_exec::{Allowed, Credential, NetworkSettings};

use super::{
    file::{ConfigFile, ConfigSection},
    keys,
};

/// The keys that one file sets. Missing keys come from other files or defaults.
#[derive(Clone, Default)]
pub(super) struct NetworkConfig {
    allow: Vec<Allowed>,
    proxy: Option<url::Url>,
    authorities: Vec<PathBuf>,
    timeout: Option<usize>,
    max_bytes: Option<usize>,
    per_minute: Option<usize>,
    respects_robots: Option<bool>,
    allows_downgrade: Option<bool>,
    engine: Option<EngineKind>,
    search_url: Option<String>,
    search_key: Option<String>,
    credentials: Vec<Credential>,
}

impl ConfigSection<'_> {
    pub(super) fn network(&self) -> Result<NetworkConfig, ToolError> {
        let mut config = NetworkConfig::default();
        if let Some(table) = self.table("network")? {
            ConfigSection { path: "network.", table, ..*self }.connections(&mut config)?;
        }
        if let Some(table) = self.table("search")? {
            let section = ConfigSection { path: "search.", table, ..*self };
            section.check_keys(&keys::SEARCH)?;
            config.engine = section.word("engine", &EngineKind::ALL)?;
            config.search_url = section.web_address("url")?.map(String::from);
            config.search_key = section.text("key")?.map(|(_, key)| key.to_owned());
        }
        config.credentials =
            self.named("credentials", |section, name, at| section.credential(name, at))?;
        Ok(config)
    }

    fn connections(&self, config: &mut NetworkConfig) -> Result<(), ToolError> {
        self.check_keys(&keys::NETWORK)?;
        for (at, text) in self.texts("allow")? {
            let entry = text.parse().map_err(|problem: String| {
                self.source.error(
                    at,
                    &format!("`network.allow`: {problem}"),
                    "write one service or network per entry",
                )
            })?;
            config.allow.push(entry);
        }
        config.proxy = self.web_address("proxy")?;
        for (at, text) in self.texts("ca")? {
            config.authorities.push(self.source.path(at, text)?.into());
        }
        config.timeout = self.number("timeout_secs")?;
        config.max_bytes = self.number("max_bytes")?;
        config.per_minute = self.number("requests_per_minute")?;
        config.respects_robots = self.word("robots", &[("ignore", false), ("respect", true)])?;
        config.allows_downgrade = self.word("downgrade", &[("refuse", false), ("follow", true)])?;
        Ok(())
    }

    fn web_address(&self, key: &str) -> Result<Option<url::Url>, ToolError> {
        let Some((at, text)) = self.text(key)? else { return Ok(None) };
        let url = url::Url::parse(text).ok();
        let url = url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        url.map(Some).ok_or_else(|| {
            let problem = format!("`{}{key}`: expected an http or https URL", self.path);
            self.source.error(at, &problem, "write the whole URL, as in http://host.example:8080")
        })
    }

    fn credential(&self, name: &str, at: usize) -> Result<Credential, ToolError> {
        self.check_keys(&keys::CREDENTIALS)?;
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || !name.chars().all(is_word) {
            let problem =
                format!("`credentials.{name}`: the name may have letters, digits and `_`");
            return Err(self.source.error(
                at,
                &problem,
                "rename it; requests refer to it as `secret:NAME`",
            ));
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

/// Merges the files: a single value comes from the first file that sets it, lists are joined.
pub(super) fn settings<'f>(files: impl Iterator<Item = &'f ConfigFile> + Clone) -> NetworkSettings {
    let configs = || files.clone().map(|file| &file.network);
    let default = NetworkSettings::default();
    let timeout = configs().find_map(|config| config.timeout);
    let mut settings = NetworkSettings::default();
    settings.allow = configs().flat_map(|config| config.allow.iter().cloned()).collect();
    settings.proxy = configs().find_map(|config| config.proxy.clone());
    settings.authorities =
        configs().flat_map(|config| config.authorities.iter().cloned()).collect();
    settings.timeout =
        timeout.map_or(default.timeout, |seconds| Duration::from_secs(seconds.max(1) as u64));
    settings.max_bytes = configs().find_map(|config| config.max_bytes).unwrap_or(default.max_bytes);
    settings.per_minute = configs().find_map(|config| config.per_minute).unwrap_or_default();
    settings.respects_robots =
        configs().find_map(|config| config.respects_robots).unwrap_or_default();
    settings.allows_downgrade =
        configs().find_map(|config| config.allows_downgrade).unwrap_or_default();
    settings.credentials =
        configs().flat_map(|config| config.credentials.iter().cloned()).collect();
    settings.search = SearchEngine {
        kind: configs().find_map(|config| config.engine).unwrap_or_default(),
        url: configs().find_map(|config| config.search_url.clone()),
        key: configs().find_map(|config| config.search_key.clone()),
    };
    settings
}
