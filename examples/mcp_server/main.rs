//! An MCP server of your own: tools, resources and prompts in one program, behind one gate. It carries what the protocol's
//! conformance suite asks for, so each part is small and shows one thing.
//!
//!     cargo run --example mcp_server                  # over stdin and stdout
//!     cargo run --example mcp_server 127.0.0.1:8080   # over HTTP; the first line names the URL

#![expect(
    deprecated,
    reason = "sampling and logging are deprecated, but the clients of today have them"
)]

mod asking;
mod prompts;
mod resources;
mod tools;

use std::{error::Error, io::Write, sync::Arc};

use haft::{
    CancellationToken, Gate, Registry,
    mcp::{Http, Server},
};

use crate::{prompts::Texts, resources::Things, tools::CalledOff};

/// Pictures and sounds that are as small as they can be.
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

/// What is served is the same over every transport.
fn server() -> Result<Server, Box<dyn Error>> {
    let called_off = Arc::new(CalledOff::default());
    let registry = Registry::default();
    registry.register_all(tools::all(&registry, &called_off)?)?;
    registry.register_all(asking::all()?)?;
    registry.register_all([&asking::SAMPLE, &asking::ELICIT])?;
    let server = Server::builder(Gate::builder(registry).build())
        .named("haft-example", env!("CARGO_PKG_VERSION"))
        .title("An MCP server made with haft")
        .instructions("Every tool, resource and prompt here shows one part of the protocol.")
        .resources(Arc::new(Things { called_off: called_off.clone() }))
        .prompts(Arc::new(Texts))
        .build();
    called_off.tell(server.clone());
    Ok(server)
}

#[tokio::main]
async fn serve(server: &Server, http: Http) -> Result<(), Box<dyn Error>> {
    let listening = server.listen(http).await?;
    writeln!(std::io::stdout(), "{}", listening.url()?)?;
    listening.serve(CancellationToken::new()).await;
    Ok(())
}
