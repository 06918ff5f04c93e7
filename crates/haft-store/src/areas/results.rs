//! Whole outcomes, written together with the ledger entries of their calls: stored under the hash
//! in the entry, once for all calls with the same outcome, compressed, within the quota and the age
//! of outputs. Beyond the quota the oldest are dropped first.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;

use haft_core::ToolError;
use zstd::bulk::{Compressor, decompress};

use crate::{
    OutputRetention, Store, StoreLocation,
    engine::{
        clock::now_ms,
        store::Transaction,
        value::{SqlRow, Value, searchable},
    },
};

const PLAIN: u64 = 0;
const ZSTD: u64 = 1;
/// The fastest common level: calls wait for it.
const LEVEL: i32 = 1;
/// Compressing shorter outcomes saves nothing.
const MIN_COMPRESSED_BYTES: usize = 128;
/// Upper limit of an outcome: 20 MB of attachments, a megabyte of text and data.
const MAX_OUTCOME_BYTES: u64 = 64 << 20;
/// Outcomes younger than this are not dropped for their age, whatever is configured.
const MIN_AGE: Duration = Duration::from_secs(3600);
/// The quota is checked after this many bytes.
const CHECK_AFTER_BYTES: u64 = 1 << 20;
/// Rows deleted per transaction, so that other processes do not wait long.
const BATCH_ROWS: u64 = 32;

const ADD: &str = "INSERT INTO results (workspace, hash, size, packing, packed, kept_ms, content) \
    VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (workspace, hash) DO UPDATE SET kept_ms = excluded.kept_ms";
const LINK: &str = "INSERT INTO call_results (seq, workspace, hash) VALUES ($1, $2, $3)";
const STATE: &str = "SELECT CAST(COALESCE(SUM(packed), 0) AS BIGINT), CAST(COALESCE(MIN(kept_ms), 0) AS BIGINT) \
    FROM results WHERE workspace = $1";
const OLDEST: &str = "SELECT hash, kept_ms, packed FROM results WHERE workspace = $1 ORDER BY kept_ms, hash LIMIT $2";
/// Does nothing if another process has stored the same outcome again in the meantime.
const GONE: &str = "DELETE FROM results WHERE workspace = $1 AND hash = $2 AND kept_ms = $3";
const LINKS_GONE: &str = "DELETE FROM call_results WHERE workspace = $1 AND hash = $2";
const FIND: &str = "SELECT r.hash, r.size, r.packing, r.content FROM call_results c \
    JOIN results r ON r.workspace = c.workspace AND r.hash = c.hash WHERE c.seq = $1";

/// The results of a workspace.
pub(crate) struct Results {
    workspace: Arc<str>,
    retention: OutputRetention,
    /// Reused, because creating a compressor takes longer than compressing a small outcome.
    packer: Mutex<Option<Compressor<'static>>>,
    /// Bytes stored since the last check of the quota.
    unchecked_bytes: AtomicU64,
}

/// An outcome to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeptResult {
    workspace: Arc<str>,
    hash: String,
    size: u64,
    packing: u64,
    content: Vec<u8>,
}

impl KeptResult {
    pub(crate) fn memory_bytes(&self) -> usize {
        self.content.len()
    }
}

impl Results {
    pub(crate) fn new(workspace: &Path, retention: OutputRetention) -> Self {
        let workspace = searchable(&workspace.to_string_lossy()).into();
        let packer = Mutex::new(Compressor::new(LEVEL).ok());
        // The first write checks what was stored before.
        Self { workspace, retention, packer, unchecked_bytes: AtomicU64::new(CHECK_AFTER_BYTES) }
    }

    /// Compresses an outcome. `None` if its entry has no hash to find it by.
    pub(crate) fn pack(&self, hash: Option<&str>, outcome: Vec<u8>) -> Option<KeptResult> {
        let (workspace, hash) = (self.workspace.clone(), hash?.to_owned());
        let size = outcome.len() as u64;
        let mut packer = self.packer.lock();
        let packed = match &mut *packer {
            Some(packer) if outcome.len() >= MIN_COMPRESSED_BYTES => packer.compress(&outcome).ok(),
            _ => None,
        };
        let (packing, content) = match packed.filter(|packed| packed.len() < outcome.len()) {
            Some(packed) => (ZSTD, packed),
            None => (PLAIN, outcome),
        };
        Some(KeptResult { workspace, hash, size, packing, content })
    }

    /// Drops what is too old or exceeds the quota, if enough was stored since the last check.
    pub(crate) async fn collect_if_due(
        &self,
        location: &StoreLocation,
        bytes: usize,
    ) -> Result<(), ToolError> {
        let unchecked_bytes =
            self.unchecked_bytes.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
        if unchecked_bytes < CHECK_AFTER_BYTES.min(self.retention.bytes / 10) {
            return Ok(());
        }
        self.unchecked_bytes.store(0, Ordering::Relaxed);
        match location.existing().await? {
            Some(store) => self.collect(&store).await,
            None => Ok(()),
        }
    }

    async fn collect(&self, store: &Store) -> Result<(), ToolError> {
        let age = u64::try_from(self.retention.age.max(MIN_AGE).as_millis()).unwrap_or(u64::MAX);
        let too_old = now_ms().saturating_sub(age);
        let workspace = Value::Text(&self.workspace);
        let rows = store.query(STATE, &[workspace]).await?;
        let Some(state) = rows.first() else { return Ok(()) };
        let (mut taken, oldest) = (state.number(0)?, state.number(1)?);
        let is_over = taken > self.retention.bytes;
        if !is_over && oldest >= too_old {
            return Ok(());
        }
        // Frees a tenth more, so that not every call has to collect.
        let wanted = if is_over { self.retention.bytes / 10 * 9 } else { u64::MAX };
        loop {
            let rows = store.query(OLDEST, &[workspace, Value::number(BATCH_ROWS)]).await?;
            let mut going = Vec::new();
            for row in &rows {
                if row.number(1)? >= too_old && taken <= wanted {
                    break;
                }
                taken = taken.saturating_sub(row.number(2)?);
                going.push(row);
            }
            let is_last = going.len() < rows.len() || rows.is_empty();
            if self.drop_rows(store, &going).await? == 0 || is_last {
                return Ok(());
            }
        }
    }

    /// Returns the number of deleted rows.
    async fn drop_rows(&self, store: &Store, rows: &[&SqlRow]) -> Result<u64, ToolError> {
        if rows.is_empty() {
            return Ok(0);
        }
        let mut transaction = store.begin().await?;
        let mut gone = 0;
        for row in rows {
            let (workspace, hash) = (Value::Text(&self.workspace), Value::Text(row.text(0)?));
            let kept_ms = Value::Integer(row.integer(1)?);
            if transaction.execute(GONE, &[workspace, hash, kept_ms]).await? > 0 {
                transaction.execute(LINKS_GONE, &[workspace, hash]).await?;
                gone += 1;
            }
        }
        transaction.commit().await?;
        Ok(gone)
    }
}

/// Adds a result in the transaction of its entry.
pub(crate) async fn add(
    transaction: &mut Transaction,
    seq: u64,
    result: &KeptResult,
) -> Result<(), ToolError> {
    let (workspace, hash) = (Value::Text(&result.workspace), Value::Text(&result.hash));
    let row = [
        workspace,
        hash,
        Value::number(result.size),
        Value::number(result.packing),
        Value::number(result.content.len() as u64),
        Value::number(now_ms()),
        Value::Bytes(&result.content),
    ];
    transaction.execute(ADD, &row).await?;
    transaction.execute(LINK, &[Value::number(seq), workspace, hash]).await.map(|_| ())
}

/// Returns the stored outcome of an entry as JSON. The caller compares it with the hash of the
/// entry.
pub(crate) async fn find(store: &Store, seq: u64) -> Result<Option<Vec<u8>>, ToolError> {
    let rows = store.query(FIND, &[Value::number(seq)]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let (size, packing, content) = (row.number(1)?, row.number(2)?, row.bytes(3)?);
    let unpacked = match packing {
        PLAIN => Some(content.to_vec()),
        // Another program may have written anything into the row, so limit the size.
        ZSTD => {
            decompress(content, usize::try_from(size.min(MAX_OUTCOME_BYTES)).unwrap_or_default())
                .ok()
        }
        _ => None,
    };
    // An outcome that cannot be decompressed was damaged or modified; the caller's hash comparison
    // refuses it.
    Ok(Some(unpacked.unwrap_or_default()))
}
