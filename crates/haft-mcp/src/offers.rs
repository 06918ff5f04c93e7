//! Resources and prompts that a server offers in addition to tools. The haft program offers the files of
//! its workspace; other programs can offer their own.

pub use haft_core::BoxFuture;
use haft_core::{Gate, ToolError};
use rmcp::model::{
    GetPromptResult, JsonObject, Prompt, Resource, ResourceContents, ResourceTemplate,
};

use crate::McpClient;

/// Resources that clients can read.
pub trait Resources: Send + Sync {
    /// Lists all resources, or as many as fit a list.
    fn list<'a>(
        &'a self,
        gate: &'a Gate,
        client: &'a McpClient,
    ) -> BoxFuture<'a, Result<Vec<Resource>, ToolError>>;

    /// Returns URL templates for resources that are not listed.
    fn templates(&self, gate: &Gate) -> Vec<ResourceTemplate>;

    /// Reads a resource. `not_found` if there is none.
    fn read<'a>(
        &'a self,
        uri: &'a str,
        gate: &'a Gate,
        client: &'a McpClient,
    ) -> BoxFuture<'a, Result<Vec<ResourceContents>, ToolError>>;

    /// Completes an argument of a template from its beginning.
    fn complete<'a>(
        &'a self,
        template: &'a str,
        argument: &'a str,
        written: &'a str,
        gate: &'a Gate,
        client: &'a McpClient,
    ) -> BoxFuture<'a, Vec<String>>;

    /// Returns true if clients can subscribe to this resource; the program then calls
    /// `Server::resource_changed`.
    fn can_be_watched(&self, uri: &str) -> bool {
        let _ = uri;
        false
    }

    /// Returns true if clients can subscribe to any resource.
    fn are_watched(&self) -> bool {
        false
    }
}

/// Prompts that a user can start from.
pub trait Prompts: Send + Sync {
    /// Lists all prompts.
    fn list(&self) -> Vec<Prompt>;

    /// Returns a prompt with its arguments. `not_found` if there is none of that name.
    fn get<'a>(
        &'a self,
        name: &'a str,
        arguments: &'a JsonObject,
        gate: &'a Gate,
        client: &'a McpClient,
    ) -> BoxFuture<'a, Result<GetPromptResult, ToolError>>;

    /// Completes an argument from its beginning.
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
