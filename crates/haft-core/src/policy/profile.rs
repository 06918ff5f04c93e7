//! Profiles: named sets of tools. They decide what an agent is shown and, since seeing is not being allowed, what
//! the gate lets it call.

use indexmap::IndexMap;

use super::{pattern, rule::Source};
use crate::{
    ToolError,
    nearest::{did_you_mean, nearest},
};

/// A set of tools by name: globs, and `!globs` that take away.
#[derive(Clone, Debug)]
pub struct Profile {
    tools: Vec<String>,
    /// Where it is defined.
    pub source: Source,
}

impl Profile {
    /// A profile from globs; those that begin with `!` take away.
    pub fn new(tools: impl IntoIterator<Item = impl Into<String>>, source: Source) -> Self {
        Self { tools: tools.into_iter().map(Into::into).collect(), source }
    }

    /// The globs, as they are written.
    pub fn globs(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().map(String::as_str)
    }

    /// Whether the profile has this tool.
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
    fn default() -> Self {
        let built_in =
            |tools: &[&str]| Profile::new(tools.iter().copied(), Source::named("built-in"));
        let researcher = [
            "read",
            "list",
            "glob",
            "grep",
            "stat",
            "web_*",
            "ticket_read",
            "comment_*",
            "project_info",
            "board_read",
            "memory_list",
            "memory_tree",
            "memory_read",
            "memory_search",
            "memory_info",
            "memory_stats",
            "memory_versions",
            "memory_diff",
            "memory_exists",
            "memory_count_lines",
            "memory_sources",
            "output_*",
            "todo_*",
            "hello",
        ];
        let reviewer = [
            "read",
            "list",
            "glob",
            "grep",
            "stat",
            "changes",
            "git_status",
            "git_diff",
            "git_log",
            "git_show",
            "git_blame",
            "ticket_read",
            "comment_*",
            "acceptance_check",
            "output_*",
            "todo_*",
            "hello",
        ];
        // What an agent that has tools of its own is offered besides them: few, because every schema costs its context.
        let mcp = [
            "read",
            "write",
            "edit",
            "edit_lines",
            "patch",
            "list",
            "glob",
            "grep",
            "move",
            "delete",
            "undo",
            "bash",
            "process",
            "web_fetch",
            "web_search",
            "output_read",
            "output_search",
            "tool_search",
        ];
        Self(IndexMap::from([
            ("developer".to_owned(), built_in(&["*"])),
            ("mcp".to_owned(), built_in(&mcp)),
            ("researcher".to_owned(), built_in(&researcher)),
            ("reviewer".to_owned(), built_in(&reviewer)),
        ]))
    }
}

impl Profiles {
    /// Adds or replaces a profile.
    pub fn insert(&mut self, name: impl Into<String>, profile: Profile) {
        self.0.insert(name.into(), profile);
    }

    /// The profile of this name.
    ///
    /// # Errors
    /// An unknown name is an error, never "everything".
    pub fn get(&self, name: &str) -> Result<&Profile, ToolError> {
        self.0.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.names().collect();
            let near = did_you_mean(&nearest(name, known.iter().copied()));
            let hint = if near.is_empty() {
                format!("the profiles are {}", known.join(", "))
            } else {
                near
            };
            ToolError::input(format!("there is no profile `{name}`")).hint(hint)
        })
    }

    /// The names, built-in ones first.
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
    fn built_in_profiles_are_as_narrow_as_their_names() {
        let profiles = Profiles::default();
        let has =
            |profile: &str, tool: &str| profiles.get(profile).expect("built in").includes(tool);
        assert!(has("developer", "anything"));
        assert!(has("researcher", "web_fetch") && !has("researcher", "write"));
        assert!(has("reviewer", "git_diff") && !has("reviewer", "git_commit"));
    }

    #[test]
    fn an_unknown_profile_is_an_error() {
        let error = Profiles::default().get("reviewr").expect_err("unknown");
        assert_eq!(error.message(), "there is no profile `reviewr`");
        assert_eq!(error.next_step(), "did you mean `reviewer`?");
    }
}
