//! Stage 4: the tool says, from its input alone, what this call would touch; paths are brought into the form that
//! rules are written for. A tool whose input names records of haft looks them up here too.

use std::{
    collections::HashSet,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::Arc,
};

use tokio::time::Instant;

use super::{
    CallState, Gate, Inner,
    run::{self, Granted},
};
use crate::{
    Access, CommandReader, Need, ParsedScript, Power, SecretHosts, ToolError, access::is_inside,
    call::ResolvedFile,
};

pub(super) async fn access(
    gate: &Inner,
    own: &Gate,
    flight: &mut CallState,
) -> Result<(), ToolError> {
    declare(gate, flight)?;
    foresee(gate, own, flight).await
}

fn declare(gate: &Inner, flight: &mut CallState) -> Result<(), ToolError> {
    let tool = flight.tool();
    let judged = catch_unwind(AssertUnwindSafe(|| tool.access(&flight.input)));
    let accesses = judged.map_err(|_| {
        ToolError::internal(format!("`{}` panicked while it judged its input", tool.name()))
    })??;
    flight.accesses = Vec::with_capacity(accesses.len());
    add(gate, flight, accesses)
}

/// What a tool finds in haft's records, before anybody decides: it may only look.
async fn foresee(gate: &Inner, own: &Gate, flight: &mut CallState) -> Result<(), ToolError> {
    let Some(access_lookup) = flight.tool().access_lookup() else { return Ok(()) };
    let foreseen =
        access_lookup(run::call(gate, own, flight, Granted::copied(flight), Instant::now()))
            .await?;
    if let Some(input) = foreseen.input {
        flight.input = Arc::new(input);
    }
    add(gate, flight, foreseen.accesses)
}

fn add(gate: &Inner, flight: &mut CallState, accesses: Vec<Access>) -> Result<(), ToolError> {
    let spec = flight.tool().spec();
    let (keeps_links, reaches_out) = (spec.keeps_links, spec.needs_power(Power::Shell));
    let mut known = Known::for_so_many(flight.accesses.len() + accesses.len());
    flight.accesses.iter().for_each(|access| known.note(access));
    for access in accesses {
        let resolved = resolved(gate, &access, keeps_links, &mut flight.seen);
        if !reaches_out && gate.paths.is_confined() {
            check_inside(gate, &access, &resolved)?;
        }
        push_new(&mut flight.accesses, &mut known, resolved);
    }
    if let Some(reader) = &gate.reader {
        read_texts(reader, flight);
        drop_unused_writing(flight);
    }
    flight.judged = judged_of(gate, flight);
    Ok(())
}

/// Policy judges what is found in a text, and the tool is handed it when it runs.
fn read_texts(reader: &CommandReader, flight: &mut CallState) {
    for access in &flight.accesses {
        if let Access::Run(text) = access
            && !flight.texts.iter().any(|read| read.text == *text)
        {
            flight.texts.push(ParsedScript { text: text.clone(), parts: reader(text) });
        }
    }
}

/// A tool that can do without changing files wants to for what it runs. Where that only looks, nobody is asked about it.
fn drop_unused_writing(flight: &mut CallState) {
    let writing = Need { power: Power::WriteFiles, optional: true };
    let is_read_only = |access: &Access| match access {
        Access::Run(text) => {
            flight.texts.iter().any(|read| read.text == *text && read.is_read_only())
        }
        Access::Command(command) => command.risk.is_read_only(),
        _ => true,
    };
    let runs = flight.accesses.iter().any(|access| matches!(access, Access::Run(_)));
    if runs
        && flight.tool().spec().needs.contains(&writing)
        && flight.accesses.iter().all(is_read_only)
    {
        flight.accesses.retain(|access| *access != Access::Any(Power::WriteFiles));
    }
}

/// What a list has already. Most calls touch one or two things; undoing a session may touch thousands.
struct Known(Option<HashSet<Access>>);

impl Known {
    fn for_so_many(count: usize) -> Self {
        Self((count > 32).then(HashSet::new))
    }

    fn has(&self, list: &[Access], access: &Access) -> bool {
        self.0.as_ref().map_or_else(|| list.contains(access), |known| known.contains(access))
    }

    fn note(&mut self, access: &Access) {
        if let Some(known) = &mut self.0 {
            known.insert(access.clone());
        }
    }
}

mod many;

/// A text that is run is judged by what a reader finds in it.
fn judged_of(gate: &Inner, flight: &CallState) -> Vec<Access> {
    let CallState { accesses, texts, .. } = flight;
    if gate.reader.is_none() {
        return accesses.clone();
    }
    let has_network = accesses.contains(&Access::Any(Power::Net));
    // A tool of ours that composes a command line may say itself how far the command reaches.
    let declared = |text: &str| {
        accesses.iter().find_map(|access| match access {
            Access::Command(command) if command.text == text => Some(&command.risk),
            _ => None,
        })
    };
    let is_run =
        |text: &str| accesses.iter().any(|it| matches!(it, Access::Run(run) if run == text));
    let mut judged = Vec::with_capacity(accesses.len());
    let mut known = Known::for_so_many(accesses.len());
    for access in accesses {
        let Access::Run(text) = access else {
            if matches!(access, Access::Command(command) if is_run(&command.text)) {
                continue;
            }
            push_new(&mut judged, &mut known, access.clone());
            continue;
        };
        let risk = declared(text);
        let parts = texts.iter().filter(|read| read.text == *text).flat_map(|read| &read.parts);
        for part in parts.cloned() {
            // Without the network nobody is reached, and whoever may use it is asked about that as a whole.
            let part = match part {
                Access::Fetch(_) if !has_network => continue,
                Access::Read(path) => Access::Read(gate.paths.resolve(&path)),
                Access::Write(path) => Access::Write(gate.paths.resolve(&path)),
                Access::Command(mut command) => {
                    command.risk = risk.cloned().unwrap_or(command.risk);
                    Access::Command(command)
                }
                // A tool of ours that says itself how far its command reaches names its files, too.
                Access::Many { .. } if risk.is_some() => continue,
                Access::Many { path, is_pattern, is_write } => {
                    let files = many::Files { path, is_pattern, is_write };
                    let closed = files.closed(gate);
                    closed.into_iter().for_each(|it| push_new(&mut judged, &mut known, it));
                    files.root(gate)
                }
                other => other,
            };
            push_new(&mut judged, &mut known, part);
        }
    }
    judged
}

fn push_new(list: &mut Vec<Access>, known: &mut Known, access: Access) {
    if !known.has(list, &access) {
        known.note(&access);
        list.push(access);
    }
}

fn resolved(
    gate: &Inner,
    access: &Access,
    keeps_links: bool,
    seen: &mut Vec<ResolvedFile>,
) -> Access {
    let mut resolve = |path: &Path| {
        if keeps_links {
            return gate.paths.resolve_name(path);
        }
        let (real, is_file) = gate.paths.resolve_file(path);
        if is_file {
            seen.push(ResolvedFile { named: path.to_owned(), real: real.clone() });
        }
        real
    };
    match access {
        Access::Read(path) => Access::Read(resolve(path)),
        Access::Write(path) => Access::Write(resolve(path)),
        // No tool says by itself where a secret may go.
        Access::SendSecret { name, host, .. } => {
            let bindings = gate.services.get::<dyn SecretHosts>();
            let is_bound = bindings.is_some_and(|bindings| bindings.is_bound(name));
            Access::SendSecret { name: name.clone(), host: host.clone(), is_bound }
        }
        other => other.clone(),
    }
}

/// What lies outside file tools cannot reach whatever anybody says, so nobody is asked.
fn check_inside(gate: &Inner, named: &Access, resolved: &Access) -> Result<(), ToolError> {
    let ((Access::Read(named), Access::Read(path)) | (Access::Write(named), Access::Write(path))) =
        (named, resolved)
    else {
        return Ok(());
    };
    if is_inside(path) {
        return Ok(());
    }
    let workspace = gate.policy.roots.workspace.display();
    let (leads, comma) = match named.is_absolute() {
        true => (String::new(), " is"),
        false => (format!("`{}` leads to ", named.display()), ","),
    };
    let message = format!("{leads}`{}`{comma} outside the workspace {workspace}", path.display());
    Err(ToolError::denied(message).hint(
        "name a path inside it; a person can open another folder by a line under [roots] in their config",
    ))
}
