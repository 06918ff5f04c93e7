//! Finds the ports on which a process accepts connections in its network namespace, from the
//! kernel's tables.

use std::{collections::HashSet, fs};

use rustix::process::Pid;

/// Returns true when this process listens on a port.
pub(crate) fn is_listening(process: Pid, port: u16) -> bool {
    let pid = process.as_raw_nonzero();
    let inodes: HashSet<String> = ["tcp", "tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(format!("/proc/{pid}/net/{table}")).ok())
        .flat_map(|table| table.lines().filter_map(|line| listener(line, port)).collect::<Vec<_>>())
        .collect();
    let Ok(handles) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    let mut targets = handles.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    targets.any(|target| {
        let socket =
            target.to_str().and_then(|name| name.strip_prefix("socket:[")?.strip_suffix(']'));
        socket.is_some_and(|inode| inodes.contains(inode))
    })
}

/// Returns the inode of a socket that listens on this port, from a line of the table.
fn listener(line: &str, port: u16) -> Option<String> {
    const LISTEN: &str = "0A";
    let mut fields = line.split_ascii_whitespace();
    let (_, at) = fields.nth(1)?.rsplit_once(':')?;
    let state = fields.nth(1)?;
    let inode = fields.nth(5)?;
    let is_it = state == LISTEN && u16::from_str_radix(at, 16) == Ok(port);
    is_it.then(|| inode.to_owned())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_port_is_listened_at_while_it_is() {
        let own = Pid::from_raw(std::process::id().cast_signed()).expect("not zero");
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(socket) = TcpListener::bind(address) else { continue };
            let port = socket.local_addr().expect("bound").port();
            assert!(is_listening(own, port), "{address}");
            drop(socket);
            assert!(!is_listening(own, port), "{address}");
        }
    }
}
