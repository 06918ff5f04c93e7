//! Stores a change before it is made, and removes it if it was not made.

use std::{collections::HashSet, path::Path, sync::Arc};

use haft_core::{ContentHash, NewChange, NewJournalEntry, ToolError};

use super::{
    bases::Base,
    collect::JournalState,
    packing::{NewContent, pack},
    path_columns::{PathColumns, bytes},
};
use crate::{
    Store,
    engine::{
        clock::now_ms,
        packing::Packer,
        store::Transaction,
        value::{SqlRow, Value},
    },
};

/// Locks the row until the commit, so that changes of several processes are serialized, and no
/// process deletes a content that another is about to refer to.
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
/// Only if the base exists and is stored whole. A content that is its own base exists already if
/// its base does.
const ADD_DIFFERENCE: &str = "INSERT INTO blobs (hash, size, packing, content, base) SELECT $1, $2, $3, $4, $5 \
    WHERE EXISTS (SELECT 1 FROM blobs WHERE hash = $6 AND base IS NULL) ON CONFLICT (hash) DO NOTHING";
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
    AND NOT EXISTS (SELECT 1 FROM entries WHERE before_what = $2) \
    AND NOT EXISTS (SELECT 1 FROM blobs d WHERE d.base = $3) RETURNING CAST(length(content) AS BIGINT), base";

/// A change to be stored, computed before the store is locked.
pub(super) struct Prepared {
    call_id: String,
    session: String,
    tool: String,
    workspace: Vec<u8>,
    entries: Vec<Entry>,
    blobs: Vec<NewContent>,
}

struct Entry {
    path: Vec<u8>,
    moved_from: Option<Vec<u8>>,
    before: PathColumns,
    after: PathColumns,
    undoes: Vec<u64>,
}

impl Prepared {
    /// Prepares a change. `base_of` returns the content that a file may be stored as a difference
    /// from.
    pub(super) fn of(
        change: &NewChange<'_>,
        packer: &mut Packer,
        mut base_of: impl FnMut(&Path) -> Option<Arc<Base>>,
    ) -> Result<Self, ToolError> {
        let NewChange { call, tool, entries, undoes } = change;
        let mut blobs = Vec::new();
        let mut known = HashSet::new();
        for entry in *entries {
            let Some((hash, content)) = kept(entry)? else { continue };
            if known.insert(hash) {
                blobs.push(pack(packer, hash, content, base_of(&entry.path).as_deref()));
            }
        }
        let entry = |(number, entry): (usize, &NewJournalEntry)| Entry {
            path: bytes(&entry.path),
            moved_from: entry.moved_from.as_deref().map(bytes),
            before: PathColumns::of(&entry.before),
            after: PathColumns::of(&entry.after),
            undoes: undoes.get(number).cloned().unwrap_or_default(),
        };
        Ok(Self {
            call_id: without_nul(&call.call_id),
            session: without_nul(&call.session),
            tool: without_nul(tool),
            workspace: bytes(&call.workspace),
            entries: entries.iter().enumerate().map(entry).collect(),
            blobs,
        })
    }
}

/// Returns the content that an entry needs to store.
pub(super) fn kept(entry: &NewJournalEntry) -> Result<Option<(ContentHash, &[u8])>, ToolError> {
    match (&entry.before, &entry.content) {
        (haft_core::PathState::File { hash: Some(hash), .. }, Some(content)) => {
            Ok(Some((*hash, content)))
        }
        (haft_core::PathState::File { hash: Some(_), .. }, None) => Err(ToolError::internal(
            format!("the content of `{}` is missing from the journal entry", entry.path.display()),
        )),
        _ => Ok(None),
    }
}

/// Replaces NUL characters, which PostgreSQL cannot store.
pub(super) fn without_nul(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// Result of storing a change.
pub(super) enum RecordResult {
    /// Stored under this number. `whole` are the contents now stored whole; `state` is the new
    /// state of the journal.
    Stored { number: u64, whole: HashSet<ContentHash>, state: JournalState },
    /// The base of one of its contents no longer exists, so nothing was written.
    WithoutBase,
}

/// Stores a change.
pub(super) async fn record(store: &Store, prepared: &Prepared) -> Result<RecordResult, ToolError> {
    let mut transaction = store.begin().await?;
    let count = prepared.entries.len() as u64;
    let taken = transaction.query(TAKE_NUMBERS, &[Value::Integer(1), Value::number(count)]).await?;
    let taken = taken.first().ok_or_else(missing_head)?;
    let (number, last_entry) = (taken.number(0)?, taken.number(1)?);
    let mut state = JournalState { bytes: taken.number(2)?, looked_ms: taken.number(3)? };
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
    let Some((whole, added)) = add_blobs(&mut transaction, &prepared.blobs).await? else {
        return Ok(RecordResult::WithoutBase);
    };
    state.bytes += added;
    for (id, entry) in (last_entry + 1 - count..).zip(&prepared.entries) {
        add_entry(&mut transaction, (id, number, workspace), entry).await?;
    }
    transaction.commit().await?;
    Ok(RecordResult::Stored { number, whole, state })
}

fn missing_head() -> ToolError {
    ToolError::unavailable("the head of the journal is missing")
        .hint("it was deleted from the store; restore a backup with `haft store restore`")
}

async fn workspace(transaction: &mut Transaction, path: &[u8]) -> Result<u64, ToolError> {
    let known = transaction.query(WORKSPACE, &[Value::Bytes(path)]).await?;
    let rows = match known.is_empty() {
        false => known,
        true => transaction.query(NEW_WORKSPACE, &[Value::Bytes(path)]).await?,
    };
    rows.first().ok_or_else(missing_head)?.number(0)
}

/// Returns the new blobs that are stored whole, and the size of all new ones; `None` if the base of
/// one is missing.
async fn add_blobs(
    transaction: &mut Transaction,
    blobs: &[NewContent],
) -> Result<Option<(HashSet<ContentHash>, u64)>, ToolError> {
    let (mut added, mut whole) = (0, HashSet::new());
    for blob in blobs {
        match add_blob(transaction, blob).await? {
            Added::New => added += blob.packed.bytes.len() as u64,
            Added::Known => continue,
            Added::WithoutBase => return Ok(None),
        }
        whole.extend(blob.base.is_none().then_some(blob.hash));
    }
    if added > 0 {
        transaction.execute(ADD_BYTES, &[Value::number(added)]).await?;
    }
    Ok(Some((whole, added)))
}

enum Added {
    New,
    Known,
    WithoutBase,
}

async fn add_blob(transaction: &mut Transaction, blob: &NewContent) -> Result<Added, ToolError> {
    let (hash, content) = (Value::Bytes(&blob.hash.0), &blob.packed.bytes);
    // Avoids sending a large content that the store already has.
    if content.len() > 64 << 10 && !transaction.query(HAS_BLOB, &[hash]).await?.is_empty() {
        return Ok(Added::Known);
    }
    let (size, packing) = (Value::number(blob.size), Value::number(blob.packed.packing));
    let row = [hash, size, packing, Value::Bytes(content)];
    let rows = match &blob.base {
        None => transaction.execute(ADD_BLOB, &row).await?,
        Some(ContentHash(base)) => {
            let row = [&row[..], &[Value::Bytes(base); 2]].concat();
            transaction.execute(ADD_DIFFERENCE, &row).await?
        }
    };
    match (rows, blob.base) {
        (0, Some(_)) if transaction.query(HAS_BLOB, &[hash]).await?.is_empty() => {
            Ok(Added::WithoutBase)
        }
        (0, _) => Ok(Added::Known),
        _ => Ok(Added::New),
    }
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
        entry.moved_from.as_deref().map_or(Value::Null, Value::Bytes),
    ];
    row.extend(entry.before.values());
    row.extend(entry.after.values());
    transaction.execute(ADD_ENTRY, &row).await?;
    for undone in &entry.undoes {
        transaction.execute(ADD_UNDOING, &[Value::number(*undone), Value::number(id)]).await?;
    }
    Ok(())
}

/// Marks the changes that an undo reverted. Only after the undo was made, because it may be killed
/// before.
pub(super) async fn mark_undone(store: &Store, number: u64) -> Result<(), ToolError> {
    let mut transaction = store.begin().await?;
    for row in transaction.query(ENTRIES, &[Value::number(number)]).await? {
        let id = Value::number(row.number(0)?);
        for row in transaction.query(UNDOINGS, &[id]).await? {
            let undone = Value::number(row.number(0)?);
            // A change that an undo reverted is in effect again when that undo is reverted.
            transaction.execute(REDO, &[undone]).await?;
            transaction.execute(UNDO, &[id, undone]).await?;
        }
        transaction.execute(FORGET_UNDOINGS, &[id]).await?;
    }
    transaction.commit().await
}

/// Removes a change that was not made.
pub(super) async fn abort(store: &Store, number: u64) -> Result<(), ToolError> {
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

/// Deletes entries, and contents that no other entry needs. The rows are (id, kind, what).
pub(super) async fn drop_entries(
    transaction: &mut Transaction,
    rows: &[SqlRow],
) -> Result<(), ToolError> {
    for row in rows {
        transaction.execute(DROP_ENTRY, &[Value::number(row.number(0)?)]).await?;
    }
    let mut freed = 0_i64;
    for row in rows {
        let mut next = row.maybe_bytes(2)?.map(<[u8]>::to_owned);
        // Its base may have been kept for it alone.
        while let Some(hash) = next.take() {
            let gone = transaction.query(DROP_BLOB, &[Value::Bytes(&hash); 3]).await?;
            if let Some(row) = gone.first() {
                freed += row.integer(0)?;
                next = row.maybe_bytes(1)?.map(<[u8]>::to_owned);
            }
        }
    }
    if freed > 0 {
        transaction.execute(ADD_BYTES, &[Value::Integer(-freed)]).await?;
    }
    Ok(())
}

pub(super) async fn mark_entries_undone(store: &Store, entries: &[u64]) -> Result<(), ToolError> {
    let mut transaction = store.begin().await?;
    for entry in entries {
        transaction.execute(UNDO, &[Value::number(*entry), Value::number(*entry)]).await?;
    }
    transaction.commit().await
}
