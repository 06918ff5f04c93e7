//! Keeping a change, and taking it out again when it was not made.

use std::collections::HashSet;

use haft_core::{ContentHash, NewChange, NewEntry, ToolError};

use super::{
    images::{Columns, bytes},
    packing::{Packed, Packer},
};
use crate::{
    Store,
    clock::now_ms,
    store::Transaction,
    value::{Row, Value},
};

/// The row is held until the commit, so that changes of several processes come one after the other and nobody takes away a
/// content that somebody else is about to refer to.
pub(super) const TAKE_NUMBERS: &str = "UPDATE journal SET changes = changes + $1, entries = entries + $2 \
    WHERE id = 1 RETURNING changes, entries, bytes, looked_ms";
pub(super) const ADD_BYTES: &str = "UPDATE journal SET bytes = bytes + $1 WHERE id = 1";
const WORKSPACE: &str = "SELECT id FROM workspaces WHERE path = $1";
const NEW_WORKSPACE: &str = "INSERT INTO workspaces (id, path) SELECT coalesce(max(id), 0) + 1, $1 FROM workspaces RETURNING id";
const ADD_CHANGE: &str = "INSERT INTO changes (number, workspace, call_id, session, tool, at_ms, collected) \
    VALUES ($1, $2, $3, $4, $5, $6, 0)";
const ADD_ENTRY: &str = "INSERT INTO entries (id, change, workspace, path, moved_from, before_kind, before_mode, \
    before_size, before_what, after_kind, after_mode, after_size, after_what) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)";
const ADD_BLOB: &str = "INSERT INTO blobs (hash, size, packing, content) VALUES ($1, $2, $3, $4) \
    ON CONFLICT (hash) DO NOTHING";
const HAS_BLOB: &str = "SELECT size FROM blobs WHERE hash = $1";
const UNDO: &str = "UPDATE entries SET undone_by = $1 WHERE id = $2";
const REDO: &str = "UPDATE entries SET undone_by = NULL WHERE undone_by = $1";
const ADD_UNDOING: &str = "INSERT INTO undoings (entry, by_entry) VALUES ($1, $2)";
const UNDOINGS: &str = "SELECT entry FROM undoings WHERE by_entry = $1";
const FORGET_UNDOINGS: &str = "DELETE FROM undoings WHERE by_entry = $1";
const ENTRIES: &str = "SELECT id, before_kind, before_what FROM entries WHERE change = $1";
const DROP_ENTRY: &str = "DELETE FROM entries WHERE id = $1";
const DROP_CHANGE: &str = "DELETE FROM changes WHERE number = $1";
const DROP_BLOB: &str = "DELETE FROM blobs WHERE hash = $1 \
    AND NOT EXISTS (SELECT 1 FROM entries WHERE before_what = $2) RETURNING CAST(length(content) AS BIGINT)";

/// A change as it will be kept: worked out before the store is held.
pub(super) struct Prepared {
    call_id: String,
    session: String,
    tool: String,
    workspace: Vec<u8>,
    entries: Vec<Entry>,
    blobs: Vec<Packed>,
}

struct Entry {
    path: Vec<u8>,
    moved_from: Option<Vec<u8>>,
    before: Columns,
    after: Columns,
    undoes: Vec<u64>,
}

impl Prepared {
    pub(super) fn is_undoing(&self) -> bool {
        self.entries.iter().any(|entry| !entry.undoes.is_empty())
    }

    pub(super) fn of(change: &NewChange<'_>) -> Result<Self, ToolError> {
        let NewChange { call, tool, entries, undoes } = change;
        let mut packer = Packer::new();
        let mut blobs = Vec::new();
        let mut known = HashSet::new();
        for entry in *entries {
            let Some((hash, content)) = kept(entry)? else { continue };
            if known.insert(hash) {
                blobs.push(packer.pack(hash, content));
            }
        }
        let entry = |(number, entry): (usize, &NewEntry)| Entry {
            path: bytes(&entry.path),
            moved_from: entry.moved_from.as_deref().map(bytes),
            before: Columns::of(&entry.before),
            after: Columns::of(&entry.after),
            undoes: undoes.get(number).cloned().unwrap_or_default(),
        };
        Ok(Self {
            call_id: storable(&call.call_id),
            session: storable(&call.session),
            tool: storable(tool),
            workspace: bytes(&call.workspace),
            entries: entries.iter().enumerate().map(entry).collect(),
            blobs,
        })
    }
}

/// What has to be kept of an entry.
fn kept(entry: &NewEntry) -> Result<Option<(ContentHash, &[u8])>, ToolError> {
    match (&entry.before, &entry.content) {
        (haft_core::Image::File { hash: Some(hash), .. }, Some(content)) => {
            Ok(Some((*hash, content)))
        }
        (haft_core::Image::File { hash: Some(_), .. }, None) => Err(ToolError::internal(format!(
            "the content of `{}` was not handed to the journal",
            entry.path.display()
        ))),
        _ => Ok(None),
    }
}

/// PostgreSQL has no texts with the character zero.
pub(super) fn storable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// Keeps a change; returns its number.
pub(super) async fn record(store: &Store, prepared: &Prepared) -> Result<u64, ToolError> {
    let mut transaction = store.begin().await?;
    let count = prepared.entries.len() as u64;
    let taken = transaction.query(TAKE_NUMBERS, &[Value::Integer(1), Value::number(count)]).await?;
    let taken = taken.first().ok_or_else(headless)?;
    let (number, last_entry) = (taken.number(0)?, taken.number(1)?);
    let workspace = workspace(&mut transaction, &prepared.workspace).await?;
    let change = [
        Value::number(number),
        Value::number(workspace),
        Value::Text(&prepared.call_id),
        Value::Text(&prepared.session),
        Value::Text(&prepared.tool),
        Value::number(now_ms()),
    ];
    transaction.execute(ADD_CHANGE, &change).await?;
    let mut added = 0;
    for blob in &prepared.blobs {
        added += add_blob(&mut transaction, blob).await?;
    }
    if added > 0 {
        transaction.execute(ADD_BYTES, &[Value::number(added)]).await?;
    }
    for (id, entry) in (last_entry + 1 - count..).zip(&prepared.entries) {
        add_entry(&mut transaction, (id, number, workspace), entry).await?;
    }
    transaction.commit().await?;
    Ok(number)
}

fn headless() -> ToolError {
    ToolError::unavailable("the journal has no head")
        .hint("somebody took it out of the store; restore a backup with `haft store restore`")
}

async fn workspace(transaction: &mut Transaction, path: &[u8]) -> Result<u64, ToolError> {
    let known = transaction.query(WORKSPACE, &[Value::Bytes(path)]).await?;
    let rows = match known.is_empty() {
        false => known,
        true => transaction.query(NEW_WORKSPACE, &[Value::Bytes(path)]).await?,
    };
    rows.first().ok_or_else(headless)?.number(0)
}

/// Returns how much longer the store is with it.
async fn add_blob(transaction: &mut Transaction, blob: &Packed) -> Result<u64, ToolError> {
    let hash = Value::Bytes(&blob.hash.0);
    // A large one is not handed over only to be found there.
    if blob.content.len() > 64 << 10 && !transaction.query(HAS_BLOB, &[hash]).await?.is_empty() {
        return Ok(0);
    }
    let row =
        [hash, Value::number(blob.size), Value::number(blob.packing), Value::Bytes(&blob.content)];
    let is_new = transaction.execute(ADD_BLOB, &row).await? > 0;
    Ok(if is_new { blob.content.len() as u64 } else { 0 })
}

async fn add_entry(
    transaction: &mut Transaction,
    (id, change, workspace): (u64, u64, u64),
    entry: &Entry,
) -> Result<(), ToolError> {
    let mut row = vec![
        Value::number(id),
        Value::number(change),
        Value::number(workspace),
        Value::Bytes(&entry.path),
        entry.moved_from.as_deref().map_or(Value::Nothing, Value::Bytes),
    ];
    row.extend(entry.before.values());
    row.extend(entry.after.values());
    transaction.execute(ADD_ENTRY, &row).await?;
    for undone in &entry.undoes {
        transaction.execute(ADD_UNDOING, &[Value::number(*undone), Value::number(id)]).await?;
    }
    Ok(())
}

/// An undo was made: what it takes back is taken back. Not before, because it may be killed in between.
pub(super) async fn mark_undone(store: &Store, number: u64) -> Result<(), ToolError> {
    let mut transaction = store.begin().await?;
    for row in transaction.query(ENTRIES, &[Value::number(number)]).await? {
        let id = Value::number(row.number(0)?);
        for row in transaction.query(UNDOINGS, &[id]).await? {
            let undone = Value::number(row.number(0)?);
            // What an undo took back stands again when the undo itself is taken back.
            transaction.execute(REDO, &[undone]).await?;
            transaction.execute(UNDO, &[id, undone]).await?;
        }
        transaction.execute(FORGET_UNDOINGS, &[id]).await?;
    }
    transaction.commit().await
}

/// Takes a change out that was not made.
pub(super) async fn withdraw(store: &Store, number: u64) -> Result<(), ToolError> {
    let mut transaction = store.begin().await?;
    transaction.query(TAKE_NUMBERS, &[Value::Integer(0), Value::Integer(0)]).await?;
    let rows = transaction.query(ENTRIES, &[Value::number(number)]).await?;
    for row in &rows {
        transaction.execute(FORGET_UNDOINGS, &[Value::number(row.number(0)?)]).await?;
    }
    drop_entries(&mut transaction, &rows).await?;
    transaction.execute(DROP_CHANGE, &[Value::number(number)]).await?;
    transaction.commit().await
}

/// Drops entries with the contents that nobody else needs. The rows are (id, kind, what).
pub(super) async fn drop_entries(
    transaction: &mut Transaction,
    rows: &[Row],
) -> Result<(), ToolError> {
    for row in rows {
        transaction.execute(DROP_ENTRY, &[Value::number(row.number(0)?)]).await?;
    }
    let mut freed = 0_i64;
    for row in rows {
        let Some(what) = row.maybe_bytes(2)? else { continue };
        let gone = transaction.query(DROP_BLOB, &[Value::Bytes(what), Value::Bytes(what)]).await?;
        freed += gone.first().map_or(Ok(0), |row| row.integer(0))?;
    }
    if freed > 0 {
        transaction.execute(ADD_BYTES, &[Value::Integer(-freed)]).await?;
    }
    Ok(())
}

pub(super) async fn set_aside(store: &Store, entries: &[u64]) -> Result<(), ToolError> {
    let mut transaction = store.begin().await?;
    for entry in entries {
        transaction.execute(UNDO, &[Value::number(*entry), Value::number(*entry)]).await?;
    }
    transaction.commit().await
}
