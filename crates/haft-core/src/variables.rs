//! `${variables}` in tool descriptions. Every one must resolve, because a model must never see a
//! template.

use std::{borrow::Cow, path::PathBuf};

use crate::ToolSpec;

/// The values of the general variables, in addition to a tool's own.
#[derive(Clone, Debug)]
pub struct WorkspaceInfo {
    /// `${workspace}`: the absolute workspace directory.
    pub workspace: PathBuf,
    /// `${directory}`: the caller's current directory in the workspace.
    pub directory: PathBuf,
    /// `${date}`: today, `2026-11-15`. Called only if a description uses it, because it reads the
    /// time zone.
    pub today: fn() -> String,
}

impl Default for WorkspaceInfo {
    fn default() -> Self {
        Self { workspace: PathBuf::new(), directory: PathBuf::new(), today: String::new }
    }
}

impl WorkspaceInfo {
    /// A tool's description with its variables filled in.
    ///
    /// # Errors
    /// Names the variable that has no value.
    pub fn describe(&self, spec: &ToolSpec) -> Result<Cow<'static, str>, String> {
        if let Cow::Owned(substitute) = spec.described() {
            return Ok(substitute.into());
        }
        if !spec.description.contains("${") {
            return Ok(spec.description.clone());
        }
        let filled = fill(&spec.description, |name| match name {
            "workspace" => Some(self.workspace.display().to_string()),
            "directory" => Some(self.directory.display().to_string()),
            "date" => Some((self.today)()),
            _ => {
                let own = spec.variables.iter().find(|(known, _)| known == name);
                own.map(|(_, value)| value.clone())
            }
        });
        filled.map(Cow::Owned)
    }
}

fn fill(template: &str, resolve: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut filled = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("${") {
        filled.push_str(before);
        let (name, tail) = after
            .split_once('}')
            .ok_or_else(|| "the description has a `${` that is never closed".to_owned())?;
        let value = resolve(name)
            .ok_or_else(|| format!("the description's variable `${{{name}}}` has no value"))?;
        filled.push_str(&value);
        rest = tail;
    }
    filled.push_str(rest);
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(template: &str) -> Result<String, String> {
        let resolve = |name: &str| (name == "limit").then(|| "2000".to_owned());
        fill(template, resolve)
    }

    #[test]
    fn every_variable_must_resolve() {
        assert_eq!(filled("at most ${limit} lines, $5"), Ok("at most 2000 lines, $5".into()));
        assert!(filled("${nothing}").expect_err("unknown").contains("`${nothing}` has no value"));
        assert!(filled("${limit").expect_err("open").contains("never closed"));
    }
}
