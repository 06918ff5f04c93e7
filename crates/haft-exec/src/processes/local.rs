//! No fence: programs run as whoever runs haft. What they may do is policy's business, before they start.

use std::ffi::OsString;

use haft_core::{
    ToolError,
    commands::{ExecutorKind, Launch, Program},
};

use super::fence::{Fence, Recipe, Site, Walls};

pub(crate) struct Local;

impl Fence for Local {
    fn place(&self) -> ExecutorKind {
        ExecutorKind::Local
    }

    fn recipe(&self, launch: &Launch, site: &Site) -> Result<Recipe, ToolError> {
        Ok(Recipe {
            command: command(&launch.program, site)?,
            environment: site.environment.clone(),
            walls: Walls::default(),

            listening: None,
            interior: None,
        })
    }
}

/// The command line of a program on this machine.
///
/// # Errors
/// Of kind `not_found` when the path has no such program.
pub(crate) fn command(program: &Program, site: &Site) -> Result<Vec<OsString>, ToolError> {
    match program {
        Program::Shell(text) => {
            let shell = site.find("bash").or_else(|| site.find("sh")).ok_or_else(|| {
                ToolError::unavailable("there is neither `bash` nor `sh` in the path")
                    .hint("install one, or mend PATH")
            })?;
            Ok(vec![shell.into(), "-c".into(), text.into()])
        }
        Program::Direct { name, arguments } => {
            let found = site.find(name).ok_or_else(|| {
                ToolError::not_found(format!("there is no program `{name}` in the path"))
                    .hint("install it, or name another")
            })?;
            let arguments = arguments.iter().map(OsString::from);
            Ok([found.into()].into_iter().chain(arguments).collect())
        }
    }
}
