//! What a server offers besides tools. haft's own program offers the files of its workspace; a program of yours offers
//! what it likes.

pub use haft_core::BoxFuture;
use haft_core::{Gate, ToolError};
use rmcp::model::{
    GetPromptResult, JsonObject, Prompt, Resource, ResourceContents, ResourceTemplate,
};

use crate::Client;

/// Things that a client may look at.
pub trait Resources: Send + Sync {
    /// All of them, or as many as make sense in a list.
    fn list<'a>(
        &'a self,
        gate: &'a Gate,
        client: &'a Client,
    ) -> BoxFuture<'a, Result<Vec<Resource>, ToolError>>;

    /// How addresses of those that are not listed are made.
    fn templates(&self, gate: &Gate) -> Vec<ResourceTemplate>;

    /// What is there. `not_found` when nothing is.
    fn read<'a>(
        &'a self,
        uri: &'a str,
        gate: &'a Gate,
        client: &'a Client,
    ) -> BoxFuture<'a, Result<Vec<ResourceContents>, ToolError>>;

    /// Values for an argument of a template, as far as it is written.
    fn complete<'a>(
        &'a self,
        template: &'a str,
        argument: &'a str,
        written: &'a str,
        gate: &'a Gate,
        client: &'a Client,
    ) -> BoxFuture<'a, Vec<String>>;

    /// Whether a client may be told when this one changes; its program then calls `Server::resource_changed`.
    fn can_be_watched(&self, uri: &str) -> bool {
        let _ = uri;
        false
    }

    /// Whether any can.
    fn are_watched(&self) -> bool {
        false
    }
}

/// Texts that a person can begin with.
pub trait Prompts: Send + Sync {
    /// All of them.
    fn list(&self) -> Vec<Prompt>;

    /// One of them, filled in. `not_found` when there is none of that name.
    fn get<'a>(
        &'a self,
        name: &'a str,
        arguments: &'a JsonObject,
        gate: &'a Gate,
        client: &'a Client,
    ) -> BoxFuture<'a, Result<GetPromptResult, ToolError>>;

    /// Values for an argument, as far as it is written.
    fn complete<'a>(
        &'a self,
        prompt: &'a str,
        argument: &'a str,
        written: &'a str,
    ) -> BoxFuture<'a, Vec<String>> {
        let _ = (prompt, argument, written);
        Box::pin(async { Vec::new() })
    }
}
