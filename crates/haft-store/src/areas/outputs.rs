//! Whole outputs on disk, compressed, each text stored once however often it is returned, up to a
//! quota and an age.
//!
//! A text is stored in pieces that end at a line break where possible, so that a page of a hundred
//! megabytes is read without the rest. It exists once its last piece does: a process that ends
//! half-way leaves pieces without an id, which are collected an hour later. A store that cannot be
//! written fails no call: the text then stays in memory, and the reply says so.

mod collect;
mod pack;

use std::{path::Path, sync::Arc, time::Duration};

use haft_core::{
    BoxFuture, MemoryOutputs, OutputInfo, OutputPiece, OutputPosition, OutputSource, Outputs,
    StoredOutput, ToolError, block_in_place, count_lines, new_output_id, no_such_output,
    spawn_blocking,
};

use self::pack::{Piece, Slice, slices};
use crate::{
    Store, StoreLocation,
    engine::{
        clock::now_ms,
        store::Transaction,
        value::{SqlRow, Value, searchable},
    },
};

/// Bytes per transaction, which bounds how long the store is locked.
const BATCH_BYTES: usize = 4 << 20;
/// Longer texts are compressed on another thread.
const LONG_TEXT_BYTES: usize = 1 << 20;

const SAME: &str = "SELECT id FROM output_texts WHERE workspace = $1 AND hash = $2 AND whole = 1";
/// Rows with a later date come from before the clock was set back; they count as stored just before
/// now, in any order.
const SET_BACK: &str = "UPDATE output_texts SET kept_ms = $1 WHERE workspace = $2 AND kept_ms > $3";
const NEWEST: &str = "SELECT max(kept_ms) FROM output_texts WHERE workspace = $1";
/// Rows at most this far ahead of the clock were stored within the same few milliseconds: their
/// order stays.
const AHEAD_MS: u64 = 1_000;
const USE_AGAIN: &str = "UPDATE output_texts SET kept_ms = $1 WHERE id = $2";
const BEGIN: &str = "INSERT INTO output_texts (id, workspace, hash, bytes, lines, packed, whole, kept_ms) \
    VALUES ($1, $2, $3, $4, $5, 0, 0, $6)";
const ADD: &str = "INSERT INTO output_pieces (text, first_byte, first_line, packing, packed) VALUES ($1, $2, $3, $4, $5)";
/// Does nothing if another process has stored the same text in the meantime.
const FINISH: &str = "UPDATE output_texts SET whole = 1, packed = $1 WHERE id = $2 AND NOT EXISTS \
    (SELECT 1 FROM output_texts WHERE workspace = $3 AND hash = $4 AND whole = 1)";
const NAME: &str = "INSERT INTO outputs (id, text, workspace, session, call_id, tool, kept_ms) \
    VALUES ($1, $2, $3, $4, $5, $6, $7)";
const FIND: &str = "SELECT t.bytes, t.lines, o.session, o.call_id, o.tool, o.kept_ms \
    FROM outputs o JOIN output_texts t ON t.id = o.text WHERE o.id = $1 AND o.workspace = $2";
const NEWEST_IDS: &str = "SELECT id, session, call_id, tool FROM outputs WHERE workspace = $1 ORDER BY kept_ms DESC LIMIT $2";
const AT_BYTE: &str = "SELECT p.first_byte, p.first_line, p.packing, p.packed FROM outputs o JOIN output_pieces p ON p.text = o.text \
    WHERE o.id = $1 AND o.workspace = $2 AND p.first_byte <= $3 ORDER BY p.first_byte DESC LIMIT 1";
const AT_LINE: &str = "SELECT p.first_byte, p.first_line, p.packing, p.packed FROM outputs o JOIN output_pieces p ON p.text = o.text \
    WHERE o.id = $1 AND o.workspace = $2 AND (p.first_line < $3 OR p.first_byte = 0) ORDER BY p.first_byte DESC LIMIT 1";

/// Limits on the stored outputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputRetention {
    /// Maximum number of compressed bytes per workspace.
    pub bytes: u64,
    /// Maximum age.
    pub age: Duration,
}

impl Default for OutputRetention {
    fn default() -> Self {
        Self { bytes: 256 << 20, age: Duration::from_secs(14 * 24 * 3600) }
    }
}

/// The outputs of a workspace in a store.
pub struct StoreOutputs {
    location: Arc<StoreLocation>,
    workspace: String,
    retention: OutputRetention,
    /// For texts that the store does not take. `None` in a process that ends with its call, where
    /// memory is of no use.
    memory: Option<MemoryOutputs>,
}

impl StoreOutputs {
    /// Creates the outputs of a workspace. Opens nothing.
    pub fn new(location: Arc<StoreLocation>, workspace: &Path, retention: OutputRetention) -> Self {
        let workspace = searchable(&workspace.to_string_lossy());
        Self { location, workspace, retention, memory: Some(MemoryOutputs::default()) }
    }

    /// Drops texts that the store does not take. For a process that ends with its call.
    #[must_use]
    pub fn without_memory(mut self) -> Self {
        self.memory = None;
        self
    }

    /// Returns the ids of the newest outputs, newest first. Creates no store.
    ///
    /// # Errors
    /// Fails if the store cannot be read.
    pub async fn newest(&self, limit: usize) -> Result<Vec<(String, OutputSource)>, ToolError> {
        let Some(store) = self.location.existing().await? else { return Ok(Vec::new()) };
        let values = [Value::Text(&self.workspace), Value::number(limit as u64)];
        let rows = store.query(NEWEST_IDS, &values).await?;
        let named = rows.iter().map(|row| {
            let text = |column| row.text(column).map(str::to_owned);
            Ok((text(0)?, OutputSource { session: text(1)?, call_id: text(2)?, tool: text(3)? }))
        });
        named.collect()
    }

    async fn keep_anywhere(
        &self,
        text: String,
        made_by: OutputSource,
    ) -> Result<StoredOutput, ToolError> {
        let text = Arc::new(text);
        let error = match self.put(&text, &made_by).await {
            Ok(id) => return Ok(StoredOutput { id, note: None }),
            Err(error) => error,
        };
        let Some(memory) = &self.memory else { return Err(error) };
        let text = Arc::try_unwrap(text).unwrap_or_else(|shared| (*shared).clone());
        let StoredOutput { id, .. } = memory.keep(text, made_by).await?;
        let note = format!("the output is kept in memory only, until haft exits: {error}");
        Ok(StoredOutput { id, note: Some(note) })
    }

    async fn put(&self, text: &Arc<String>, made_by: &OutputSource) -> Result<String, ToolError> {
        if text.len() as u64 > self.retention.bytes {
            let (length, quota) = (text.len(), self.retention.bytes);
            let message = format!("an output of {length} bytes exceeds the quota of {quota} bytes");
            return Err(ToolError::unavailable(message)
                .hint("raise `max_bytes` under [outputs] in your config file"));
        }
        let plan = off_thread_if_long(text, TextPlan::of).await?;
        let store = self.location.store().await?;
        let id = match self.reuse(&store, &plan, made_by).await? {
            Some(id) => id,
            None => {
                let new_id = new_output_id();
                match self.write(&store, &new_id, text, &plan, made_by).await {
                    Ok(id) => id,
                    Err(error) => {
                        let _ = collect::give_up(&store, &new_id).await;
                        // Another process may have stored the same text at the same moment.
                        self.reuse(&store, &plan, made_by).await?.ok_or(error)?
                    }
                }
            }
        };
        // After an error the quota is exceeded until the next collection.
        let _ = self.collect(&store).await;
        Ok(id)
    }

    /// Adds an id to a text that is stored already.
    async fn reuse(
        &self,
        store: &Store,
        plan: &TextPlan,
        made_by: &OutputSource,
    ) -> Result<Option<String>, ToolError> {
        let same = [Value::Text(&self.workspace), Value::Text(&plan.hash)];
        let rows = store.query(SAME, &same).await?;
        let Some(text) = rows.first().map(|row| row.text(0)).transpose()? else { return Ok(None) };
        let mut transaction = store.begin().await?;
        let again = [Value::number(self.moment(&mut transaction).await?), Value::Text(text)];
        if transaction.execute(USE_AGAIN, &again).await? == 0 {
            return Ok(None);
        }
        let id = self.name(&mut transaction, text, made_by).await?;
        transaction.commit().await?;
        Ok(Some(id))
    }

    async fn write(
        &self,
        store: &Store,
        new_id: &str,
        text: &Arc<String>,
        plan: &TextPlan,
        made_by: &OutputSource,
    ) -> Result<String, ToolError> {
        let mut packed_bytes = 0;
        let mut batches = plan.batches().peekable();
        let mut is_first = true;
        loop {
            let batch = batches.next().unwrap_or_default().to_vec();
            let packed = off_thread_if_long(text, move |text| pack::packed(text, &batch)).await?;
            let mut transaction = store.begin().await?;
            if std::mem::take(&mut is_first) {
                self.begin(&mut transaction, new_id, plan).await?;
            }
            for piece in &packed {
                packed_bytes += piece.packed.bytes.len() as u64;
                add(&mut transaction, new_id, piece).await?;
            }
            if batches.peek().is_some() {
                transaction.commit().await?;
                continue;
            }
            let finish = [
                Value::number(packed_bytes),
                Value::Text(new_id),
                Value::Text(&self.workspace),
                Value::Text(&plan.hash),
            ];
            if transaction.execute(FINISH, &finish).await? == 0 {
                return Err(ToolError::conflict("another process has stored the same text"));
            }
            let id = self.name(&mut transaction, new_id, made_by).await?;
            transaction.commit().await?;
            return Ok(id);
        }
    }

    async fn begin(
        &self,
        transaction: &mut Transaction,
        new_id: &str,
        plan: &TextPlan,
    ) -> Result<(), ToolError> {
        let row = [
            Value::Text(new_id),
            Value::Text(&self.workspace),
            Value::Text(&plan.hash),
            Value::number(plan.bytes),
            Value::number(plan.lines),
            Value::number(self.moment(transaction).await?),
        ];
        transaction.execute(BEGIN, &row).await.map(|_| ())
    }

    /// Returns a time later than that of every stored text, so that the newest is never taken for
    /// the oldest: neither after the clock was set back nor within one millisecond.
    async fn moment(&self, transaction: &mut Transaction) -> Result<u64, ToolError> {
        let now = now_ms();
        let workspace = Value::Text(&self.workspace);
        let set_back =
            [Value::number(now.saturating_sub(1)), workspace, Value::number(now + AHEAD_MS)];
        transaction.execute(SET_BACK, &set_back).await?;
        let newest = transaction.query(NEWEST, &[workspace]).await?;
        let newest = newest.first().map(|row| row.maybe_number(0)).transpose()?.flatten();
        Ok(newest.map_or(now, |newest| now.max(newest + 1)))
    }

    async fn name(
        &self,
        transaction: &mut Transaction,
        text: &str,
        made_by: &OutputSource,
    ) -> Result<String, ToolError> {
        let id = new_output_id();
        let (session, tool) = (searchable(&made_by.session), searchable(&made_by.tool));
        let call_id = searchable(&made_by.call_id);
        let row = [
            Value::Text(&id),
            Value::Text(text),
            Value::Text(&self.workspace),
            Value::Text(&session),
            Value::Text(&call_id),
            Value::Text(&tool),
            Value::number(now_ms()),
        ];
        transaction.execute(NAME, &row).await?;
        Ok(id)
    }

    async fn existing(&self, id: &str) -> Result<Store, ToolError> {
        self.location.existing().await?.ok_or_else(|| no_such_output(id))
    }

    async fn find_kept(&self, id: &str) -> Result<OutputInfo, ToolError> {
        let id = &*searchable(id);
        let store = self.existing(id).await?;
        let rows = store.query(FIND, &[Value::Text(id), Value::Text(&self.workspace)]).await?;
        let row = rows.first().ok_or_else(|| no_such_output(id))?;
        let text = |column| row.text(column).map(str::to_owned);
        let made_by = OutputSource { session: text(2)?, call_id: text(3)?, tool: text(4)? };
        Ok(OutputInfo {
            bytes: row.number(0)?,
            lines: row.number(1)?,
            made_by,
            kept_ms: row.number(5)?,
        })
    }

    async fn find_piece(&self, id: &str, at: OutputPosition) -> Result<OutputPiece, ToolError> {
        let id = &*searchable(id);
        let store = self.existing(id).await?;
        let (statement, position) = match at {
            OutputPosition::Byte(byte) => (AT_BYTE, byte),
            OutputPosition::Line(line) => (AT_LINE, line),
        };
        let values = [Value::Text(id), Value::Text(&self.workspace), Value::number(position)];
        let rows = store.query(statement, &values).await?;
        let Some(row) = rows.first() else {
            // An empty text has no pieces.
            let kept = self.find_kept(id).await?;
            return Ok(OutputPiece { first_byte: kept.bytes, first_line: 1, text: "".into() });
        };
        let piece = unpacked(row, id)?;
        Ok(match at {
            OutputPosition::Byte(byte) if byte >= piece.end() => OutputPiece {
                first_byte: piece.end(),
                first_line: piece.first_line + count_lines(&piece.text).saturating_sub(1),
                text: "".into(),
            },
            _ => piece,
        })
    }
}

impl Outputs for StoreOutputs {
    fn keep(
        &self,
        text: String,
        made_by: OutputSource,
    ) -> BoxFuture<'_, Result<StoredOutput, ToolError>> {
        Box::pin(self.keep_anywhere(text, made_by))
    }

    fn find<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<OutputInfo, ToolError>> {
        Box::pin(async move {
            if let Some(memory) = &self.memory
                && let Ok(kept) = memory.find(id).await
            {
                return Ok(kept);
            }
            self.find_kept(id).await
        })
    }

    fn piece<'a>(
        &'a self,
        id: &'a str,
        at: OutputPosition,
    ) -> BoxFuture<'a, Result<OutputPiece, ToolError>> {
        Box::pin(async move {
            if let Some(memory) = &self.memory
                && let Ok(piece) = memory.piece(id, at).await
            {
                return Ok(piece);
            }
            self.find_piece(id, at).await
        })
    }
}

async fn add(transaction: &mut Transaction, new_id: &str, piece: &Piece) -> Result<(), ToolError> {
    let row = [
        Value::Text(new_id),
        Value::number(piece.slice.first_byte as u64),
        Value::number(piece.slice.first_line),
        Value::number(piece.packed.packing),
        Value::Bytes(&piece.packed.bytes),
    ];
    transaction.execute(ADD, &row).await.map(|_| ())
}

fn unpacked(row: &SqlRow, id: &str) -> Result<OutputPiece, ToolError> {
    let (packing, packed) = (row.number(2)?, row.bytes(3)?);
    let text = block_in_place(|| pack::unpacked(packing, packed)).map_err(|why| {
        ToolError::unavailable(format!("a piece of the output `{id}` {why}"))
            .hint("check the store with `haft store check`")
    })?;
    Ok(OutputPiece { first_byte: row.number(0)?, first_line: row.number(1)?, text: text.into() })
}

/// Facts about a text, computed before it is written.
struct TextPlan {
    hash: String,
    bytes: u64,
    lines: u64,
    slices: Vec<Slice>,
}

impl TextPlan {
    fn of(text: &str) -> Self {
        Self {
            hash: blake3::hash(text.as_bytes()).to_hex().as_str().to_owned(),
            bytes: text.len() as u64,
            lines: count_lines(text),
            slices: slices(text),
        }
    }

    fn batches(&self) -> impl Iterator<Item = &[Slice]> {
        self.slices.chunks((BATCH_BYTES / pack::PIECE_BYTES).max(1))
    }
}

/// Runs work on a text, on another thread if the text is long.
async fn off_thread_if_long<T: Send + 'static>(
    text: &Arc<String>,
    work: impl FnOnce(&str) -> T + Send + 'static,
) -> Result<T, ToolError> {
    if text.len() < LONG_TEXT_BYTES {
        return Ok(work(text));
    }
    let text = text.clone();
    spawn_blocking(move || Ok(work(&text))).await
}
