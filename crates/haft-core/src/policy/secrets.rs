//! Secret paths: no tool may read or change them, in any mode and under any rule. Configurable, but
//! never silently.

use std::{ffi::OsStr, path::Path};

use super::{
    pattern,
    rule::{Source, WorkspaceRoots, path_fits},
};

/// A glob for secret paths with its source.
#[derive(Clone, Debug)]
pub struct SecretPath {
    /// A path glob. A relative one matches at any depth, inside and outside the workspace.
    pub glob: String,
    /// The place where it is written.
    pub source: Source,
}

/// All globs for secret paths.
#[derive(Clone, Debug)]
pub struct SecretPaths {
    /// Globs that cannot be revealed.
    always: Vec<CompiledGlob>,
    paths: Vec<CompiledGlob>,
    except: Vec<CompiledGlob>,
    filter: QuickFilter,
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

impl Default for SecretPaths {
    fn default() -> Self {
        let secret = |glob: &&str| SecretPath {
            glob: (*glob).to_owned(),
            source: Source::named("built-in"),
        };
        let known = |globs: &[&str]| -> Vec<CompiledGlob> {
            globs.iter().map(secret).map(CompiledGlob::new).collect()
        };
        let mut secrets = Self {
            always: Vec::new(),
            paths: Vec::new(),
            except: Vec::new(),
            filter: QuickFilter::default(),
        };
        secrets.except = known(BUILT_IN_EXCEPT);
        secrets.paths = known(BUILT_IN);
        secrets.filter = QuickFilter::of(&secrets.paths, &secrets.always);
        secrets
    }
}

impl SecretPaths {
    /// Makes paths secret that no other layer can reveal. For the machine's owner.
    pub fn hide_always(&mut self, paths: impl IntoIterator<Item = SecretPath>) {
        self.always.extend(paths.into_iter().map(CompiledGlob::new));
        self.filter = QuickFilter::of(&self.paths, &self.always);
    }

    /// Makes more paths secret.
    pub fn hide(&mut self, paths: impl IntoIterator<Item = SecretPath>) {
        self.paths.extend(paths.into_iter().map(CompiledGlob::new));
        self.filter = QuickFilter::of(&self.paths, &self.always);
    }

    /// Declares that some paths are not secret after all. Only for layers that a person owns.
    pub fn reveal(&mut self, globs: impl IntoIterator<Item = String>) {
        let source = Source::named("revealed");
        let known = |glob| CompiledGlob::new(SecretPath { glob, source: source.clone() });
        self.except.extend(globs.into_iter().map(known));
    }

    /// All secret globs, those that cannot be revealed first.
    pub fn hidden(&self) -> impl Iterator<Item = &SecretPath> {
        self.always.iter().chain(&self.paths).map(|known| &known.path)
    }

    /// The globs that are not secret after all.
    pub fn revealed(&self) -> impl Iterator<Item = &SecretPath> {
        self.except.iter().map(|known| &known.path)
    }

    /// The entry that makes this path secret, if any.
    pub(crate) fn find(&self, path: &Path, roots: &WorkspaceRoots) -> Option<&SecretPath> {
        if self.filter.clears(path) {
            return None;
        }
        let names: Vec<&[u8]> = path.iter().map(OsStr::as_encoded_bytes).collect();
        let find =
            |known: &[CompiledGlob]| known.iter().position(|one| one.fits(path, &names, roots));
        if let Some(index) = find(&self.always) {
            return Some(&self.always[index].path);
        }
        let hidden = &self.paths[find(&self.paths)?];
        if find(&self.except).is_some() { None } else { Some(&hidden.path) }
    }
}

/// The first and last bytes of names that may be secret. Two byte lookups clear nearly every file.
#[derive(Clone, Debug)]
struct QuickFilter {
    firsts: [bool; 256],
    lasts: [bool; 256],
    /// True if there is a glob that bytes cannot rule out.
    needs_all: bool,
}

impl Default for QuickFilter {
    fn default() -> Self {
        Self { firsts: [false; 256], lasts: [false; 256], needs_all: false }
    }
}

impl QuickFilter {
    fn of(paths: &[CompiledGlob], always: &[CompiledGlob]) -> Self {
        let mut filter = Self::default();
        for known in paths.iter().chain(always) {
            match &known.test {
                GlobTest::Names(names) => filter.note_first(names.first().map_or(&[], |name| name)),
                GlobTest::Beginning(begin) => filter.note_first(begin),
                GlobTest::Ending(end) => {
                    let last = end.last().copied().unwrap_or_default();
                    filter.lasts[usize::from(last)] = true;
                }
                GlobTest::Glob => filter.needs_all = true,
            }
        }
        filter
    }

    fn note_first(&mut self, name: &[u8]) {
        let first = name.first().copied().unwrap_or_default();
        self.firsts[usize::from(first)] = true;
    }

    /// Returns true if the path is certainly not secret.
    fn clears(&self, path: &Path) -> bool {
        let is_suspect = |name: &[u8]| match (name.first(), name.last()) {
            (Some(first), Some(last)) => {
                self.firsts[usize::from(*first)] || self.lasts[usize::from(*last)]
            }
            _ => false,
        };
        let path = path.as_os_str().as_encoded_bytes();
        !self.needs_all && !path.split(|byte| *byte == b'/').any(is_suspect)
    }
}

/// A glob with a precomputed test: a walk checks every file, and most globs are plain names.
#[derive(Clone, Debug)]
struct CompiledGlob {
    path: SecretPath,
    test: GlobTest,
}

#[derive(Clone, Debug)]
enum GlobTest {
    /// `id_rsa`, `.aws/credentials`: these names, one after the other.
    Names(Vec<Box<[u8]>>),
    /// `*.pem`: a name with this ending.
    Ending(Box<[u8]>),
    /// `.env.*`: a name with this beginning.
    Beginning(Box<[u8]>),
    /// Anything else.
    Glob,
}

impl CompiledGlob {
    fn new(path: SecretPath) -> Self {
        let test = GlobTest::of(path.glob.trim_end_matches('/'));
        Self { path, test }
    }

    /// A secret name matches anywhere, with everything below it: in a subfolder, a home directory,
    /// another project.
    fn fits(&self, path: &Path, names: &[&[u8]], roots: &WorkspaceRoots) -> bool {
        match &self.test {
            GlobTest::Names(wanted) => names
                .windows(wanted.len())
                .any(|some| some.iter().zip(wanted).all(|(name, wanted)| **name == **wanted)),
            GlobTest::Ending(end) => names.iter().any(|name| name.ends_with(end)),
            GlobTest::Beginning(begin) => names.iter().any(|name| name.starts_with(begin)),
            GlobTest::Glob => fits_anywhere(&self.path.glob, path, roots),
        }
    }
}

impl GlobTest {
    fn of(glob: &str) -> Self {
        let bytes = |text: &str| text.as_bytes().into();
        let is_plain = |text: &str| {
            !text.is_empty() && !text.contains(['*', '?', '[', ']', '{', '}', '!', '\\', '/'])
        };
        if glob.split('/').all(|name| is_plain(name) && name != "." && name != "..") {
            return Self::Names(glob.split('/').map(bytes).collect());
        }
        match (glob.strip_prefix('*'), glob.strip_suffix('*')) {
            (Some(end), _) if is_plain(end) => Self::Ending(bytes(end)),
            (_, Some(begin)) if is_plain(begin) => Self::Beginning(bytes(begin)),
            _ => Self::Glob,
        }
    }
}

fn fits_anywhere(glob: &str, path: &Path, roots: &WorkspaceRoots) -> bool {
    if glob.starts_with('/') {
        return path_fits(glob, path, roots);
    }
    let relative = path.strip_prefix("/").unwrap_or(path);
    pattern::path(&format!("**/{glob}"), relative)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn roots() -> WorkspaceRoots {
        WorkspaceRoots { workspace: "/w".into(), named: Vec::new() }
    }

    fn is_secret(path: &str) -> bool {
        SecretPaths::default().find(Path::new(path), &roots()).is_some()
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
        let mut secrets = SecretPaths::default();
        secrets.reveal(["fixtures/test.pem".to_owned()]);
        secrets.hide([SecretPath { glob: "private".into(), source: Source::named("t") }]);
        let is_secret = |path: &str| secrets.find(Path::new(path), &roots()).is_some();
        assert!(!is_secret("fixtures/test.pem"));
        assert!(is_secret("other/test.pem") && is_secret("private/notes.md"));
    }

    proptest! {
        /// The precomputed test agrees with the glob.
        #[test]
        fn plain_globs_are_judged_as_globs(
            glob in prop::sample::select(BUILT_IN),
            parts in prop::collection::vec("\\.env|env|\\.env\\.[a-z]|[a-b]\\.pem|\\.pem|pem|\\.ssh|id_rsa|\\.aws|credentials|[a-c]", 1..5),
            is_absolute: bool,
        ) {
            let path = format!("{}{}", if is_absolute { "/" } else { "" }, parts.join("/"));
            let known = CompiledGlob::new(SecretPath { glob: glob.to_owned(), source: Source::named("t") });
            let path = Path::new(&path);
            let names: Vec<&[u8]> = path.iter().map(OsStr::as_encoded_bytes).collect();
            let quick = known.fits(path, &names, &roots());
            prop_assert_eq!(quick, fits_anywhere(glob, path, &roots()));
            if quick {
                prop_assert!(!QuickFilter::of(&[known], &[]).clears(path));
            }
        }
    }

    #[test]
    fn what_is_always_hidden_cannot_be_revealed() {
        let mut secrets = SecretPaths::default();
        let absolute = SecretPath { glob: "/w/keys".into(), source: Source::named("admin") };
        secrets.hide_always([absolute]);
        secrets.reveal(["**".to_owned()]);
        let is_secret = |path: &str| secrets.find(Path::new(path), &roots()).is_some();
        assert!(is_secret("keys/a"), "an absolute glob binds inside the workspace");
        assert!(!is_secret(".env"));
    }
}
