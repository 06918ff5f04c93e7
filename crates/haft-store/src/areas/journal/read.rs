//! Reads changes and contents.

use std::{collections::HashMap, path::Path};

use haft_core::{ChangeQuery, ContentHash, JournalChange, JournalEntry, ToolError};

use super::{
    packing::{StoredContent, damaged, unpack},
    path_columns::{self, bytes, path},
    write::without_nul,
};
use crate::{
    Store,
    engine::{
        store::Transaction,
        value::{SqlRow, Value},
    },
};

const CHANGES: &str = "SELECT c.number, c.call_id, c.session, c.tool, c.at_ms, c.collected FROM changes c \
    JOIN workspaces w ON w.id = c.workspace \
    WHERE w.path = $1 AND c.number < $2 AND c.at_ms >= $3 ORDER BY c.number DESC LIMIT $4";
const OF_SESSION: &str = "SELECT c.number, c.call_id, c.session, c.tool, c.at_ms, c.collected FROM changes c \
    JOIN workspaces w ON w.id = c.workspace \
    WHERE w.path = $1 AND c.number < $2 AND c.at_ms >= $3 AND c.session = $4 ORDER BY c.number DESC LIMIT $5";
const OF_CALL: &str = "SELECT c.number, c.call_id, c.session, c.tool, c.at_ms, c.collected FROM changes c \
    JOIN workspaces w ON w.id = c.workspace \
    WHERE w.path = $1 AND c.number < $2 AND c.at_ms >= $3 AND c.call_id = $4 ORDER BY c.number DESC LIMIT $5";
const ONE: &str = "SELECT c.number, c.call_id, c.session, c.tool, c.at_ms, c.collected FROM changes c \
    JOIN workspaces w ON w.id = c.workspace WHERE w.path = $1 AND c.number = $2";
const ENTRIES: &str = "SELECT change, id, path, moved_from, before_kind, before_mode, before_size, before_what, \
    after_kind, after_mode, after_size, after_what, undone_by FROM entries \
    WHERE change >= $1 AND change <= $2 ORDER BY id";
const CONTENT: &str = "SELECT b.size, b.packing, b.content, b.base, w.size, w.packing, w.content, w.base FROM blobs b \
    LEFT JOIN blobs w ON w.hash = b.base WHERE b.hash = $1";

/// Number of changes read at once while filtering.
const PAGE_CHANGES: usize = 200;

pub(super) async fn find(
    store: &Store,
    workspace: &Path,
    which: &ChangeQuery,
) -> Result<Vec<JournalChange>, ToolError> {
    let mut transaction = store.begin_reading().await?;
    let workspace = bytes(workspace);
    let mut changes = match which.numbers.is_empty() {
        true => newest(&mut transaction, &workspace, which).await?,
        false => numbered(&mut transaction, &workspace, which).await?,
    };
    add_entries(&mut transaction, &mut changes).await?;
    Ok(changes)
}

async fn numbered(
    transaction: &mut Transaction,
    workspace: &[u8],
    which: &ChangeQuery,
) -> Result<Vec<JournalChange>, ToolError> {
    let mut numbers = which.numbers.clone();
    numbers.sort_unstable_by(|a, b| b.cmp(a));
    numbers.dedup();
    let mut found = Vec::with_capacity(numbers.len());
    for number in numbers {
        let values = [Value::Bytes(workspace), Value::number(number)];
        for row in transaction.query(ONE, &values).await? {
            found.extend(Some(change(&row)?).filter(|change| is_wanted(which, change)));
        }
    }
    Ok(found)
}

/// Checks the conditions that the statement does not.
fn is_wanted(which: &ChangeQuery, change: &JournalChange) -> bool {
    let fits = |wanted: &Option<String>, found: &str| {
        wanted.as_ref().is_none_or(|wanted| without_nul(wanted) == found)
    };
    fits(&which.call_id, &change.call_id)
        && fits(&which.session, &change.session)
        && fits(&which.tool, &change.tool)
        && change.at_ms >= which.since_ms
}

async fn newest(
    transaction: &mut Transaction,
    workspace: &[u8],
    which: &ChangeQuery,
) -> Result<Vec<JournalChange>, ToolError> {
    let (statement, key) = match (&which.call_id, &which.session) {
        (Some(call), _) => (OF_CALL, Some(without_nul(call))),
        (None, Some(session)) => (OF_SESSION, Some(without_nul(session))),
        (None, None) => (CHANGES, None),
    };
    let mut below = which.below.unwrap_or(i64::MAX as u64);
    let mut found = Vec::new();
    loop {
        let piece = PAGE_CHANGES.min(which.limit.max(1));
        let mut values =
            vec![Value::Bytes(workspace), Value::number(below), Value::number(which.since_ms)];
        values.extend(key.as_deref().map(Value::Text));
        values.push(Value::number(piece as u64));
        let rows = transaction.query(statement, &values).await?;
        for row in &rows {
            let change = change(row)?;
            below = change.number;
            if is_wanted(which, &change) && found.len() < which.limit {
                found.push(change);
            }
        }
        if rows.len() < piece || found.len() >= which.limit {
            return Ok(found);
        }
    }
}

fn change(row: &SqlRow) -> Result<JournalChange, ToolError> {
    let (number, at_ms) = (row.number(0)?, row.number(4)?);
    let mut change = JournalChange::new(number, row.text(1)?, row.text(2)?, row.text(3)?, at_ms);
    change.collected = row.number(5)?;
    Ok(change)
}

/// Loads entries with few queries: the numbers of one session are mostly close together.
async fn add_entries(
    transaction: &mut Transaction,
    changes: &mut [JournalChange],
) -> Result<(), ToolError> {
    let places: HashMap<u64, usize> =
        changes.iter().enumerate().map(|(place, change)| (change.number, place)).collect();
    for (first, last) in ranges(changes) {
        let rows = transaction.query(ENTRIES, &[Value::number(first), Value::number(last)]).await?;
        for row in &rows {
            if let Some(place) = places.get(&row.number(0)?) {
                changes[*place].entries.push(entry(row)?);
            }
        }
    }
    Ok(())
}

/// Returns ranges of change numbers, with small gaps between the numbers.
fn ranges(changes: &[JournalChange]) -> Vec<(u64, u64)> {
    const GAP: u64 = 4;
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for change in changes.iter().rev() {
        match ranges.last_mut() {
            Some((_, last)) if change.number <= *last + GAP => *last = change.number,
            _ => ranges.push((change.number, change.number)),
        }
    }
    ranges
}

fn entry(row: &SqlRow) -> Result<JournalEntry, ToolError> {
    let (before, after) = (path_columns::path_state(row, 4)?, path_columns::path_state(row, 8)?);
    let mut entry = JournalEntry::new(row.number(1)?, path(row.bytes(2)?), before, after);
    entry.moved_from = row.maybe_bytes(3)?.map(path);
    entry.undone_by = row.maybe_number(12)?;
    Ok(entry)
}

pub(super) async fn content(
    store: &Store,
    hash: ContentHash,
) -> Result<Option<Vec<u8>>, ToolError> {
    let rows = store.query(CONTENT, &[Value::Bytes(&hash.0)]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let base = match (row.maybe_bytes(3)?, row.maybe_number(4)?) {
        (None, _) => None,
        // haft stores bases whole; another program may have changed that.
        (Some(_), Some(_)) if row.maybe_bytes(7)?.is_none() => Some(found(row, 4)?),
        (Some(_), _) => return Err(damaged(hash, "has lost its base")),
    };
    unpack(hash, found(row, 0)?, base).map(Some)
}

/// Reads a content from three columns, starting at `first`.
fn found(row: &SqlRow, first: usize) -> Result<StoredContent<'_>, ToolError> {
    let (size, packing) = (row.number(first)?, row.number(first + 1)?);
    Ok(StoredContent { size, packing, bytes: row.bytes(first + 2)? })
}
