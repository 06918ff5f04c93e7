//! Stage 4: the tool declares, from its input alone, what this call would touch. Paths are brought
//! into the form that rules use. A tool whose input names records of haft looks them up here too.

use std::{
    collections::HashSet,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::Arc,
};

use tokio::time::Instant;

use super::{
    CallState, Gate, GateInner,
    run::{self, Granted},
};
use crate::{
    Access, CommandReader, Need, ParsedScript, Power, SecretHosts, ToolError, access::is_inside,
    call::ResolvedFile,
};

pub(super) async fn access(
    gate: &GateInner,
    own: &Gate,
    call_state: &mut CallState,
) -> Result<(), ToolError> {
    declare(gate, call_state)?;
    look_up(gate, own, call_state).await
}

fn declare(gate: &GateInner, call_state: &mut CallState) -> Result<(), ToolError> {
    let tool = call_state.tool();
    let judged = catch_unwind(AssertUnwindSafe(|| tool.access(&call_state.input)));
    let accesses = judged.map_err(|_| {
        ToolError::internal(format!("`{}` panicked while declaring its accesses", tool.name()))
    })??;
    call_state.accesses = Vec::with_capacity(accesses.len());
    add(gate, call_state, accesses)
}

/// Looks up accesses in haft's records before policy decides. The lookup is read-only.
async fn look_up(
    gate: &GateInner,
    own: &Gate,
    call_state: &mut CallState,
) -> Result<(), ToolError> {
    let Some(access_lookup) = call_state.tool().access_lookup() else { return Ok(()) };
    let found = access_lookup(run::call(
        gate,
        own,
        call_state,
        Granted::copied(call_state),
        Instant::now(),
    ))
    .await?;
    if let Some(input) = found.input {
        call_state.input = Arc::new(input);
    }
    add(gate, call_state, found.accesses)
}

fn add(
    gate: &GateInner,
    call_state: &mut CallState,
    accesses: Vec<Access>,
) -> Result<(), ToolError> {
    let spec = call_state.tool().spec();
    let (keeps_links, reaches_out) = (spec.keeps_links, spec.needs_power(Power::Shell));
    let mut known = AccessSet::with_capacity_for(call_state.accesses.len() + accesses.len());
    call_state.accesses.iter().for_each(|access| known.insert(access));
    for access in accesses {
        let resolved = resolved(gate, &access, keeps_links, &mut call_state.resolved_files);
        if !reaches_out && gate.paths.is_confined() {
            check_inside(gate, &access, &resolved)?;
        }
        push_new(&mut call_state.accesses, &mut known, resolved);
    }
    if let Some(reader) = &gate.reader {
        parse_scripts(reader, call_state);
        drop_unused_writing(call_state);
    }
    call_state.judged = judged_of(gate, call_state);
    Ok(())
}

/// Parses the scripts of the call. Policy judges the result, and the tool receives it when it runs.
fn parse_scripts(reader: &CommandReader, call_state: &mut CallState) {
    for access in &call_state.accesses {
        if let Access::Run(text) = access
            && !call_state.scripts.iter().any(|read| read.text == *text)
        {
            call_state.scripts.push(ParsedScript { text: text.clone(), parts: reader(text) });
        }
    }
}

/// A tool may hold an optional power to change files for the commands it runs. If the commands only
/// read, the power is dropped so that it needs no approval.
fn drop_unused_writing(call_state: &mut CallState) {
    let writing = Need { power: Power::WriteFiles, optional: true };
    let is_read_only = |access: &Access| match access {
        Access::Run(text) => {
            call_state.scripts.iter().any(|read| read.text == *text && read.is_read_only())
        }
        Access::Command(command) => command.risk.is_read_only(),
        _ => true,
    };
    let runs = call_state.accesses.iter().any(|access| matches!(access, Access::Run(_)));
    if runs
        && call_state.tool().spec().needs.contains(&writing)
        && call_state.accesses.iter().all(is_read_only)
    {
        call_state.accesses.retain(|access| *access != Access::Any(Power::WriteFiles));
    }
}

/// Set of the accesses in a list. Most calls touch one or two things; undoing a session may touch
/// thousands.
struct AccessSet(Option<HashSet<Access>>);

impl AccessSet {
    fn with_capacity_for(count: usize) -> Self {
        Self((count > 32).then(HashSet::new))
    }

    fn contains(&self, list: &[Access], access: &Access) -> bool {
        self.0.as_ref().map_or_else(|| list.contains(access), |known| known.contains(access))
    }

    fn insert(&mut self, access: &Access) {
        if let Some(known) = &mut self.0 {
            known.insert(access.clone());
        }
    }
}

mod many;

/// Returns the accesses to judge: a script is replaced by what was parsed from it.
fn judged_of(gate: &GateInner, call_state: &CallState) -> Vec<Access> {
    let CallState { accesses, scripts, .. } = call_state;
    if gate.reader.is_none() {
        return accesses.clone();
    }
    let has_network = accesses.contains(&Access::Any(Power::Net));
    // A built-in tool that composes a command line may declare the risk of the command itself.
    let declared = |text: &str| {
        accesses.iter().find_map(|access| match access {
            Access::Command(command) if command.text == text => Some(&command.risk),
            _ => None,
        })
    };
    let is_run =
        |text: &str| accesses.iter().any(|it| matches!(it, Access::Run(run) if run == text));
    let mut judged = Vec::with_capacity(accesses.len());
    let mut known = AccessSet::with_capacity_for(accesses.len());
    for access in accesses {
        let Access::Run(text) = access else {
            if matches!(access, Access::Command(command) if is_run(&command.text)) {
                continue;
            }
            push_new(&mut judged, &mut known, access.clone());
            continue;
        };
        let risk = declared(text);
        let parts = scripts.iter().filter(|read| read.text == *text).flat_map(|read| &read.parts);
        for part in parts.cloned() {
            // Without the network no address is reached. A call that may use the network is judged
            // for that power as a whole.
            let part = match part {
                Access::Fetch(_) if !has_network => continue,
                Access::Read(path) => Access::Read(gate.paths.resolve(&path)),
                Access::Write(path) => Access::Write(gate.paths.resolve(&path)),
                Access::Command(mut command) => {
                    command.risk = risk.cloned().unwrap_or(command.risk);
                    Access::Command(command)
                }
                // A built-in tool that declares the risk of its command also declares its files.
                Access::Many { .. } if risk.is_some() => continue,
                Access::Many { path, is_pattern, is_write } => {
                    let files = many::MatchedFiles { path, is_pattern, is_write };
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

fn push_new(list: &mut Vec<Access>, known: &mut AccessSet, access: Access) {
    if !known.contains(list, &access) {
        known.insert(&access);
        list.push(access);
    }
}

fn resolved(
    gate: &GateInner,
    access: &Access,
    keeps_links: bool,
    resolved_files: &mut Vec<ResolvedFile>,
) -> Access {
    let mut resolve = |path: &Path| {
        if keeps_links {
            return gate.paths.resolve_name(path);
        }
        let (real, is_file) = gate.paths.resolve_file(path);
        if is_file {
            resolved_files.push(ResolvedFile { named: path.to_owned(), real: real.clone() });
        }
        real
    };
    match access {
        Access::Read(path) => Access::Read(resolve(path)),
        Access::Write(path) => Access::Write(resolve(path)),
        // A tool cannot decide which hosts a secret is bound to.
        Access::SendSecret { name, host, .. } => {
            let bindings = gate.services.get::<dyn SecretHosts>();
            let is_bound = bindings.is_some_and(|bindings| bindings.is_bound(name));
            Access::SendSecret { name: name.clone(), host: host.clone(), is_bound }
        }
        other => other.clone(),
    }
}

/// Fails for paths outside the workspace: file tools cannot reach them, so approval would be
/// useless.
fn check_inside(gate: &GateInner, named: &Access, resolved: &Access) -> Result<(), ToolError> {
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
        "name a path inside it; a person can open another folder with a line under [roots] in \
         their config",
    ))
}
