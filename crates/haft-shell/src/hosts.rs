//! The other machines that the words of a command plainly name.

use super::{
    Word, git, is_one_of,
    options::{ParsedOptions, Valued},
};

/// Returns true for programs that fetch text from other machines.
pub(super) fn is_fetcher(name: &str) -> bool {
    matches!(
        name,
        "curl"
            | "wget"
            | "fetch"
            | "http"
            | "https"
            | "aria2c"
            | "lynx"
            | "w3m"
            | "nc"
            | "ncat"
            | "socat"
            | "telnet"
            | "ftp"
    )
}

pub(super) fn of(name: &str, words: &[Word]) -> Vec<String> {
    let rest = words.get(1..).unwrap_or_default();
    let mut found: Vec<String> = match name {
        "echo" | "printf" | "grep" | "rg" | "sed" | "awk" => return Vec::new(),
        _ => rest
            .iter()
            .filter(|word| word.prefix.contains("://"))
            .map(|word| word.text.clone())
            .collect(),
    };
    match name {
        "ssh" | "sftp" | "ping" | "telnet" | "nc" | "ncat" | "dig" | "nslookup" | "host"
        | "whois" => {
            found.extend(first_operand(rest));
        }
        "curl" | "wget" if found.is_empty() => found.extend(bare_hosts(rest)),
        "scp" | "rsync" => found.extend(rest.iter().filter_map(remote_host)),
        "git" => {
            const TALKING: &str = "clone fetch pull push ls-remote remote submodule archive";
            let at = git::subcommand(rest).unwrap_or(rest.len());
            let name = rest.get(at).and_then(Word::known).unwrap_or_default();
            if is_one_of(TALKING, name) {
                found.extend(rest.iter().skip(at + 1).filter_map(remote_host));
            }
        }
        _ => {}
    }
    found.dedup();
    found
}

fn first_operand(rest: &[Word]) -> Option<String> {
    let valued = Valued { letters: "BbcDEeFIiJLlmOopQRSWw", names: "" };
    let options = ParsedOptions::scan(rest, valued);
    let host = options.operands.first()?.known()?;
    Some(host.rsplit('@').next().unwrap_or(host).to_owned())
}

fn bare_hosts(rest: &[Word]) -> Vec<String> {
    let is_host = |text: &&str| {
        !text.starts_with(['-', '.', '/'])
            && (text.contains('.') || text.starts_with("localhost"))
            && !text.contains([' ', '='])
    };
    rest.iter().filter_map(Word::known).filter(is_host).map(str::to_owned).collect()
}

/// `user@host:path`.
fn remote_host(word: &Word) -> Option<String> {
    let (host, _) = word.known()?.split_once(':')?;
    let host = host.rsplit('@').next()?;
    let is_host = !host.is_empty() && !host.contains('/') && host.contains('.');
    is_host.then(|| host.to_owned())
}
