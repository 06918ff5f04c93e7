//! Profiles: named sets of tools. A profile decides which tools an agent sees. The gate refuses
//! calls to other tools, because hiding a tool does not prevent a call.

use indexmap::IndexMap;

use super::{pattern, rule::Source};
use crate::{
    ToolError,
    nearest::{did_you_mean, nearest},
};

/// A set of tools by name: globs that add, and `!globs` that remove.
#[derive(Clone, Debug)]
pub struct Profile {
    tools: Vec<String>,
    /// The place where it is defined.
    pub source: Source,
}

impl Profile {
    /// Creates a profile from globs; those that begin with `!` remove tools.
    pub fn new(tools: impl IntoIterator<Item = impl Into<String>>, source: Source) -> Self {
        Self { tools: tools.into_iter().map(Into::into).collect(), source }
    }

    /// The globs as they are written.
    pub fn globs(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().map(String::as_str)
    }

    /// Returns true if the profile contains this tool.
    pub fn includes(&self, tool: &str) -> bool {
        let is_taken = |glob: &String| {
            glob.strip_prefix('!').is_some_and(|glob| pattern::wildcard(glob, tool))
        };
        let is_given = |glob: &String| pattern::wildcard(glob, tool);
        self.tools.iter().any(is_given) && !self.tools.iter().any(is_taken)
    }
}

/// All profiles by name.
#[derive(Clone, Debug)]
pub struct Profiles(IndexMap<String, Profile>);

impl Default for Profiles {
    /// The built-in profiles without tools. [`Profiles::add`] adds the tools that name them.
    fn default() -> Self {
        let built_in = |globs: &[&str]| Profile::new(globs.iter().copied(), built_in());
        Self(IndexMap::from([
            ("developer".to_owned(), built_in(&["*"])),
            // For an agent that has its own tools: few, because every schema costs context.
            ("mcp".to_owned(), built_in(&[])),
            ("researcher".to_owned(), built_in(&[])),
            ("reviewer".to_owned(), built_in(&[])),
        ]))
    }
}

fn built_in() -> Source {
    Source::named("built-in")
}

impl Profiles {
    /// Adds or replaces a profile.
    pub fn insert(&mut self, name: impl Into<String>, profile: Profile) {
        self.0.insert(name.into(), profile);
    }

    /// Adds a tool to the built-in profiles that it names. A profile of the same name from a file
    /// is left as it is written.
    pub fn add(&mut self, tool: &str, profiles: &[&str]) {
        for name in profiles {
            let profile = self.0.get_mut(*name).filter(|profile| profile.source == built_in());
            if let Some(profile) = profile.filter(|profile| !profile.includes(tool)) {
                profile.tools.push(tool.to_owned());
            }
        }
    }

    /// Returns the profile of this name.
    ///
    /// # Errors
    /// Fails for an unknown name, which never means "all tools".
    pub fn get(&self, name: &str) -> Result<&Profile, ToolError> {
        self.0.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.names().collect();
            let near = did_you_mean(&nearest(name, known.iter().copied()));
            let hint = if near.is_empty() {
                format!("the profiles are {}", known.join(", "))
            } else {
                near
            };
            ToolError::input(format!("unknown profile `{name}`")).hint(hint)
        })
    }

    /// The names of all profiles, built-in ones first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_give_and_take() {
        let profile = Profile::new(["*", "!bash", "!git_*"], Source::named("t"));
        assert!(profile.includes("read"));
        assert!(!profile.includes("bash"));
        assert!(!profile.includes("git_push"));
    }

    #[test]
    fn tools_are_in_the_built_in_profiles_that_they_name() {
        let mut profiles = Profiles::default();
        profiles.insert("mcp", Profile::new(["grep"], Source::named("a file")));
        profiles.add("read", &["mcp", "reviewer"]);
        profiles.add("read", &["reviewer", "no_such"]);
        let has = |profile: &str, tool| profiles.get(profile).expect("built in").includes(tool);
        assert!(has("developer", "anything"));
        assert!(has("reviewer", "read") && !has("reviewer", "write") && !has("researcher", "read"));
        assert!(!has("mcp", "read"), "a file has replaced it");
        assert_eq!(profiles.get("reviewer").expect("built in").globs().count(), 1);
        assert!(profiles.get("no_such").is_err());
    }

    #[test]
    fn an_unknown_profile_is_an_error() {
        let error = Profiles::default().get("reviewr").expect_err("unknown");
        assert_eq!(error.message(), "unknown profile `reviewr`");
        assert_eq!(error.next_step(), "did you mean `reviewer`?");
    }
}
