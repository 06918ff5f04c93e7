//! An entry as text: what serde writes, by hand where that is simple, because every look waits for it.

use std::{cell::RefCell, io::Write};

use haft_core::{Decision, LedgerEntry, Repeated};
use serde::Serialize;
use serde_json::Result;

/// Where parts of an entry's text begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Places {
    /// What follows the id of the call, up to `times`: equal for equal calls.
    pub(super) body: usize,
    /// The hash of the output.
    pub(super) output_hash: usize,
    /// When the call began, how long it took, and what may follow.
    pub(super) times: usize,
}

/// Puts an entry with this hash of its output.
pub(super) fn put(json: &mut Vec<u8>, entry: &LedgerEntry, output_sha256: &str) -> Result<Places> {
    let LedgerEntry {
        call_id,
        session,
        agents,
        parent,
        tool,
        effect,
        input,
        repairs,
        accesses,
        decision,
        verdict,
        error,
        output_sha256: _,
        result_sha256,
        begun_seq,
        process,
        began_ms,
        ms,
        repeated,
        dropped,
        ..
    } = entry;
    put_text(json, "{\"call_id\":", call_id)?;
    let body = json.len();
    put_text(json, ",\"session\":", session)?;
    put_texts(json, ",\"agents\":[", agents)?;
    put_any(json, ",\"parent\":", parent.as_ref())?;
    put_text(json, ",\"tool\":", tool)?;
    put_any(json, ",\"effect\":", Some(effect))?;
    put_any(json, ",\"input\":", Some(input))?;
    put_texts(json, ",\"repairs\":[", repairs)?;
    put_any(json, ",\"accesses\":", Some(accesses))?;
    put_decision(json, ",\"decision\":", decision.as_ref())?;
    put_any(json, ",\"verdict\":", verdict.as_ref())?;
    put_any(json, ",\"error\":", error.as_ref())?;
    json.extend_from_slice(b",\"output_sha256\":\"");
    let output_hash = json.len();
    json.extend_from_slice(output_sha256.as_bytes());
    json.push(b'"');
    if let Some(hash) = result_sha256 {
        put_text(json, ",\"result_sha256\":", hash)?;
    }
    if let Some(seq) = begun_seq {
        put_any(json, ",\"begun_seq\":", Some(seq))?;
    }
    if let Some(process) = process {
        put_text(json, ",\"process\":", process)?;
    }
    let times = json.len();
    put_times(json, *began_ms, *ms, *repeated)?;
    if let Some(dropped) = dropped {
        json.pop();
        put_any(json, ",\"dropped\":", Some(dropped))?;
        json.push(b'}');
    }
    Ok(Places { body, output_hash, times })
}

/// Puts the end of an entry: its times, and how many calls it stands for if there are several.
pub(super) fn put_times(
    json: &mut Vec<u8>,
    began_ms: u64,
    ms: u64,
    repeated: Option<Repeated>,
) -> Result<()> {
    // Never fails: it is memory.
    let _ = write!(json, ",\"began_ms\":{began_ms},\"ms\":{ms}");
    if let Some(repeated) = repeated {
        put_any(json, ",\"repeated\":", Some(&repeated))?;
    }
    json.push(b'}');
    Ok(())
}

/// Most calls of a tool are decided in the same words, which are the longest part of an entry: the last ones are kept.
fn put_decision(json: &mut Vec<u8>, name: &str, decision: Option<&Decision>) -> Result<()> {
    thread_local! {
        static LAST: RefCell<Option<(Decision, Vec<u8>)>> = const { RefCell::new(None) };
    }
    let Some(decision) = decision else { return put_any(json, name, None::<&()>) };
    json.extend_from_slice(name.as_bytes());
    LAST.with_borrow_mut(|last| {
        if let Some((known, words)) = last
            && known == decision
        {
            json.extend_from_slice(words);
            return Ok(());
        }
        let words = serde_json::to_vec(decision)?;
        json.extend_from_slice(&words);
        *last = Some((decision.clone(), words));
        Ok(())
    })
}

fn put_any(json: &mut Vec<u8>, name: &str, value: Option<&impl Serialize>) -> Result<()> {
    json.extend_from_slice(name.as_bytes());
    match value {
        Some(value) => serde_json::to_writer(json, value),
        None => {
            json.extend_from_slice(b"null");
            Ok(())
        }
    }
}

fn put_texts(json: &mut Vec<u8>, name: &str, texts: &[String]) -> Result<()> {
    json.extend_from_slice(name.as_bytes());
    for (number, text) in texts.iter().enumerate() {
        put_text(json, if number > 0 { "," } else { "" }, text)?;
    }
    json.push(b']');
    Ok(())
}

fn put_text(json: &mut Vec<u8>, name: &str, text: &str) -> Result<()> {
    json.extend_from_slice(name.as_bytes());
    let is_plain = |byte: &u8| *byte >= 0x20 && *byte != b'"' && *byte != b'\\';
    if !text.as_bytes().iter().all(is_plain) {
        return serde_json::to_writer(json, text);
    }
    json.push(b'"');
    json.extend_from_slice(text.as_bytes());
    json.push(b'"');
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Entries with everything in them, and with nothing.
    fn entries() -> Vec<LedgerEntry> {
        let full = json!({
            "call_id": "call_1", "session": "s \"1\"\n", "agents": ["a", "b\\c", "ü\u{1}"], "parent": "call_0",
            "tool": "re\tad", "effect": "write", "input": {"path": "a\"b", "n": [1, 2.5, null, true], "output_sha256": "x"},
            "repairs": ["one", "\u{7f}two"], "accesses": [{"read": "a b"}, {"write": "c\nd"}, {"fetch": "x.org"}],
            "decision": {"action": "ask", "reason": {"mode": {"mode": "contained", "access": {"run": "ls"}}}, "change": "x", "agent": null},
            "verdict": {"approved": true, "by": "me", "via": "rpc", "note": "n\"", "remember": null}, "error": "denied",
            "output_sha256": "5e", "result_sha256": "77", "begun_seq": 7, "process": "b p 1 2", "began_ms": 18, "ms": 7,
            "repeated": {"calls": 3, "last_ms": 20},
            "dropped": {"ranges": [{"first": 1, "last": 4, "hash": "77"}], "entries": 4, "read_only": 3, "changing": 1},
        });
        let empty = json!({
            "call_id": "", "session": "", "agents": [], "parent": null, "tool": "", "effect": "read", "input": null,
            "repairs": [], "accesses": [], "decision": null, "verdict": null, "error": null,
            "output_sha256": "", "began_ms": 0, "ms": u64::MAX,
        });
        let mut some = full.clone();
        for (name, value) in
            [("verdict", Value::Null), ("result_sha256", Value::Null), ("dropped", Value::Null)]
        {
            some[name] = value;
        }
        let read = |value: Value| serde_json::from_value(value).expect("an entry");
        [full, empty, some].map(read).into()
    }

    #[test]
    fn an_entry_is_written_as_serde_writes_it() {
        // Each twice, the second time in remembered words, and then among others.
        let twice = entries().into_iter().flat_map(|entry| [entry.clone(), entry]);
        for entry in twice.chain(entries()) {
            let mut json = Vec::new();
            let Places { body, output_hash: at, times } =
                put(&mut json, &entry, &entry.output_sha256).expect("it can be written");
            let usual = serde_json::to_string(&entry).expect("it can be written");
            let json = String::from_utf8(json).expect("text");
            assert_eq!(json, usual);
            assert!(json.split_at(at).1.starts_with(&format!("{}\"", entry.output_sha256)));
            assert!(json.split_at(at).0.ends_with(",\"output_sha256\":\""));
            assert!(json.split_at(body).1.starts_with(",\"session\":"));
            assert!(json.split_at(times).1.starts_with(",\"began_ms\":"));
        }
    }
}
