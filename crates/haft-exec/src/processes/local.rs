//! Runs programs without a sandbox, as the user of haft. Only policy restricts them, before they
//! start.

use std::ffi::OsString;

use haft_core::{
    ToolError,
    commands::{ExecutorKind, Launch, Program},
};

use super::backend::{ChildRestrictions, LaunchBackend, LaunchContext, Recipe};

pub(crate) struct Local;

impl LaunchBackend for Local {
    fn kind(&self) -> ExecutorKind {
        ExecutorKind::Local
    }

    fn recipe(&self, launch: &Launch, context: &LaunchContext) -> Result<Recipe, ToolError> {
        Ok(Recipe {
            command: command(&launch.program, context)?,
            environment: context.environment.clone(),
            restrictions: ChildRestrictions::default(),

            listening: None,
            isolated: None,
        })
    }
}

/// Returns the command line of a program on this machine.
///
/// # Errors
/// Of kind `not_found` when PATH has no such program.
pub(crate) fn command(
    program: &Program,
    context: &LaunchContext,
) -> Result<Vec<OsString>, ToolError> {
    match program {
        Program::Shell(text) => {
            let shell = context.find("bash").or_else(|| context.find("sh")).ok_or_else(|| {
                ToolError::unavailable("there is neither `bash` nor `sh` in the path")
                    .hint("install one, or fix PATH")
            })?;
            Ok(vec![shell.into(), "-c".into(), text.into()])
        }
        Program::Direct { name, arguments } => {
            let found = context.find(name).ok_or_else(|| {
                ToolError::not_found(format!("there is no program `{name}` in the path"))
                    .hint("install it, or name another")
            })?;
            let arguments = arguments.iter().map(OsString::from);
            Ok([found.into()].into_iter().chain(arguments).collect())
        }
    }
}
