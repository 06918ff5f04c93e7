//! An MCP server with its own tools, resources and prompts, behind one gate. It implements what the
//! protocol's conformance suite asks for, so each part is small and shows one feature.
//!
//!     cargo run --example mcp_server                  # over stdin and stdout
//!     cargo run --example mcp_server 127.0.0.1:8080   # over HTTP; the first line is the URL

#![expect(
    deprecated,
    reason = "sampling and logging are deprecated, but current clients have them"
)]

mod client_requests;
mod prompts;
mod resources;
mod tools;

use std::{error::Error, io::Write, sync::Arc};

use haft::{
    CancellationToken, Gate, Registry,
    mcp::{Http, Server},
};

use crate::{prompts::ExamplePrompts, resources::ExampleResources, tools::CancelledCalls};

/// An image and a sound of minimum size.
pub(crate) const RED_DOT: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC";
pub(crate) const SILENCE: &str =
    "UklGRiwAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQgAAACAgICAgICAgA==";

fn main() -> Result<(), Box<dyn Error>> {
    let server = server()?;
    match std::env::args().nth(1) {
        None => Ok(server.stdio()?),
        Some(address) => serve(&server, Http::at(address.parse()?)),
    }
}

/// Creates the server, which is the same for every transport.
fn server() -> Result<Server, Box<dyn Error>> {
    let cancelled = Arc::new(CancelledCalls::default());
    let registry = Registry::default();
    registry.register_all(tools::all(&registry, &cancelled)?)?;
    registry.register_all(client_requests::all()?)?;
    registry.register_all([&client_requests::SAMPLE, &client_requests::ELICIT])?;
    let server = Server::builder(Gate::builder(registry).build())
        .named("haft-example", env!("CARGO_PKG_VERSION"))
        .title("An MCP server made with haft")
        .instructions("Every tool, resource and prompt here shows one part of the protocol.")
        .resources(Arc::new(ExampleResources { cancelled: cancelled.clone() }))
        .prompts(Arc::new(ExamplePrompts))
        .build();
    cancelled.set_server(server.clone());
    Ok(server)
}

#[tokio::main]
async fn serve(server: &Server, http: Http) -> Result<(), Box<dyn Error>> {
    let listening = server.listen(http).await?;
    writeln!(std::io::stdout(), "{}", listening.url()?)?;
    listening.serve(CancellationToken::new()).await;
    Ok(())
}
