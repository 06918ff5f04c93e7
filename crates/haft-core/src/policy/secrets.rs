//! Paths whose content no tool may see or change, whatever mode or rule is in force. Configurable, never silent.

use std::path::Path;

use super::{
    pattern,
    rule::{Source, path_fits},
};

/// A glob on secret paths with its place.
#[derive(Clone, Debug)]
pub struct SecretPath {
    /// A path glob; relative ones are taken at any depth of the workspace and outside it.
    pub glob: String,
    /// Where it is written.
    pub source: Source,
}

/// Which paths are secret.
#[derive(Clone, Debug)]
pub struct Secrets {
    /// Nothing reveals these.
    for_good: Vec<SecretPath>,
    paths: Vec<SecretPath>,
    except: Vec<String>,
}

const BUILT_IN: &[&str] = &[
    ".env",
    ".env.*",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.kdbx",
    "*.keystore",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    ".netrc",
    ".pgpass",
    ".git-credentials",
    ".ssh",
    ".gnupg",
    ".aws/credentials",
    ".docker/config.json",
    ".kube/config",
    ".pypirc",
];
const BUILT_IN_EXCEPT: &[&str] = &[".env.example", ".env.sample", ".env.template", ".env.dist"];

impl Default for Secrets {
    fn default() -> Self {
        let secret = |glob: &&str| SecretPath {
            glob: (*glob).to_owned(),
            source: Source::named("built-in"),
        };
        Self {
            for_good: Vec::new(),
            paths: BUILT_IN.iter().map(secret).collect(),
            except: BUILT_IN_EXCEPT.iter().map(|&glob| glob.to_owned()).collect(),
        }
    }
}

impl Secrets {
    /// Makes paths secret that nobody may reveal. For the machine's owner.
    pub fn hide_for_good(&mut self, paths: impl IntoIterator<Item = SecretPath>) {
        self.for_good.extend(paths);
    }

    /// Makes more paths secret.
    pub fn hide(&mut self, paths: impl IntoIterator<Item = SecretPath>) {
        self.paths.extend(paths);
    }

    /// Says of some paths that they are no secret after all. Only for layers that a person owns.
    pub fn reveal(&mut self, globs: impl IntoIterator<Item = String>) {
        self.except.extend(globs);
    }

    /// The entry that makes this path secret, if one does.
    pub(crate) fn find(&self, path: &Path, workspace: &Path) -> Option<&SecretPath> {
        let fits = |glob: &str| fits_anywhere(glob, path, workspace);
        let hidden = |paths: &'_ [SecretPath]| paths.iter().position(|secret| fits(&secret.glob));
        if let Some(index) = hidden(&self.for_good) {
            return self.for_good.get(index);
        }
        let is_revealed = self.except.iter().any(|glob| fits(glob));
        if is_revealed { None } else { self.paths.get(hidden(&self.paths)?) }
    }
}

/// A secret is one wherever it lies: in a sub-folder, in a home, in another project.
fn fits_anywhere(glob: &str, path: &Path, workspace: &Path) -> bool {
    if glob.starts_with('/') {
        return path_fits(glob, path, workspace);
    }
    let relative = path.strip_prefix("/").unwrap_or(path);
    pattern::path(&format!("**/{glob}"), relative)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_secret(path: &str) -> bool {
        Secrets::default().find(Path::new(path), Path::new("/w")).is_some()
    }

    #[test]
    fn usual_secrets_are_known_at_any_depth() {
        for path in [
            ".env",
            "app/.env.local",
            "/home/u/.ssh/id_rsa",
            "/home/u/.ssh/config",
            "certs/server.key",
            "/root/.aws/credentials",
            "a/b/id_ed25519",
        ] {
            assert!(is_secret(path), "{path}");
        }
    }

    #[test]
    fn ordinary_files_and_examples_are_not() {
        for path in [".env.example", "src/env.rs", "environment", "keys.rs", "src/ssh/mod.rs", "."]
        {
            assert!(!is_secret(path), "{path}");
        }
    }

    #[test]
    fn a_person_can_reveal_and_hide() {
        let mut secrets = Secrets::default();
        secrets.reveal(["fixtures/test.pem".to_owned()]);
        secrets.hide([SecretPath { glob: "private".into(), source: Source::named("t") }]);
        let is_secret = |path: &str| secrets.find(Path::new(path), Path::new("/w")).is_some();
        assert!(!is_secret("fixtures/test.pem"));
        assert!(is_secret("other/test.pem") && is_secret("private/notes.md"));
    }
    #[test]
    fn nobody_reveals_what_is_hidden_for_good() {
        let mut secrets = Secrets::default();
        let absolute = SecretPath { glob: "/w/keys".into(), source: Source::named("admin") };
        secrets.hide_for_good([absolute]);
        secrets.reveal(["**".to_owned()]);
        let is_secret = |path: &str| secrets.find(Path::new(path), Path::new("/w")).is_some();
        assert!(is_secret("keys/a"), "an absolute glob binds inside the workspace");
        assert!(!is_secret(".env"));
    }
}
