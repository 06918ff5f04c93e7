//! Leases: exclusive claims on work, with an end time. A process that claims an item holds it until
//! the time is over or it releases it; a heartbeat extends the time. The row decides: every claim
//! has its own token, and an operation with the token of a lease that another process has taken
//! over is refused.
//!
//! The clock is the store's: the server's for PostgreSQL, this machine's for SQLite. Claimants
//! never compare clocks. A clock that is set back makes leases longer, never shorter, so an item is
//! never held twice. The extension is bounded: a lease with more time left than it was given is cut
//! to that time on the next claim.

use std::{sync::Arc, time::Duration};

use haft_core::{BoxFuture, Lease, Leases, ToolError};

use crate::{
    StoreLocation,
    engine::{
        clock::now_ms,
        store::{EngineTransaction, Transaction},
        value::{SqlRow, Value, searchable},
    },
};

/// Claims an item that is free or expired. `turn` only grows, which distinguishes an old claim from
/// a new one.
const CLAIM: &str = "INSERT INTO leases (kind, name, owner, token, turn, ttl_ms, until_ms) VALUES ($1, $2, $3, $4, 1, $5, $6) \
    ON CONFLICT (kind, name) DO UPDATE SET owner = excluded.owner, token = excluded.token, turn = leases.turn + 1, \
    ttl_ms = excluded.ttl_ms, until_ms = excluded.until_ms WHERE leases.until_ms <= $7 RETURNING name, turn";
const OFFER: &str = "INSERT INTO leases (kind, name, owner, token, turn, ttl_ms, until_ms) VALUES ($1, $2, '', '', 0, 0, 0) \
    ON CONFLICT (kind, name) DO NOTHING";
const CLAIM_NEXT: &str = "UPDATE leases SET owner = $1, token = $2, turn = turn + 1, ttl_ms = $3, until_ms = $4 \
    WHERE kind = $5 AND name = (SELECT name FROM leases WHERE kind = $6 AND until_ms <= $7 ORDER BY name LIMIT 1) \
    RETURNING name, turn";
/// Skips an item that another claimant is taking at this moment, instead of waiting for it.
const CLAIM_NEXT_SKIP_LOCKED: &str = "UPDATE leases SET owner = $1, token = $2, turn = turn + 1, ttl_ms = $3, until_ms = $4 \
    WHERE kind = $5 AND name = (SELECT name FROM leases WHERE kind = $6 AND until_ms <= $7 ORDER BY name LIMIT 1 \
    FOR UPDATE SKIP LOCKED) RETURNING name, turn";
const SET_BACK: &str =
    "UPDATE leases SET until_ms = $1 + ttl_ms WHERE kind = $2 AND until_ms > $3 + ttl_ms";
const HOLDER: &str = "SELECT owner, until_ms FROM leases WHERE kind = $1 AND name = $2";
const EXTEND: &str =
    "UPDATE leases SET ttl_ms = $1, until_ms = $2 WHERE kind = $3 AND name = $4 AND token = $5";
const HELD: &str = "UPDATE leases SET turn = turn WHERE kind = $1 AND name = $2 AND token = $3";
const RELEASE: &str =
    "UPDATE leases SET until_ms = 0, token = '' WHERE kind = $1 AND name = $2 AND token = $3";
const FINISH: &str = "DELETE FROM leases WHERE kind = $1 AND name = $2 AND token = $3";
const SERVER_CLOCK: &str = "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)";

/// The leases of a store.
pub struct StoreLeases(Arc<StoreLocation>);

impl StoreLeases {
    /// Creates the leases of a store. Opens nothing.
    pub fn new(location: Arc<StoreLocation>) -> Self {
        Self(location)
    }

    async fn run(&self, statement: &'static str, lease: &Lease) -> Result<(), ToolError> {
        let mut transaction = self.0.store().await?.begin().await?;
        let touched = transaction.execute(statement, &key(lease)).await?;
        transaction.commit().await?;
        still_held(lease, touched)
    }
}

impl Leases for StoreLeases {
    fn claim<'a>(
        &'a self,
        kind: &'a str,
        name: &'a str,
        owner: &'a str,
        time: Duration,
    ) -> BoxFuture<'a, Result<Lease, ToolError>> {
        Box::pin(async move {
            let (kind, name, owner) = (searchable(kind), searchable(name), searchable(owner));
            let token = new_token()?;
            let mut transaction = self.0.store().await?.begin().await?;
            let now = clock(&mut transaction).await?;
            let values = [
                Value::Text(&kind),
                Value::Text(&name),
                Value::Text(&owner),
                Value::Text(&token),
                millis(time),
                later(now, time),
                Value::number(now),
            ];
            let rows = transaction.query(CLAIM, &values).await?;
            if let Some(row) = rows.first() {
                let generation = row.number(1)?;
                transaction.commit().await?;
                return Ok(Lease { kind, name, owner, generation, token });
            }
            let refusal = held(&mut transaction, &kind, &name, now).await?;
            set_back(&mut transaction, &kind, now).await?;
            transaction.commit().await?;
            Err(refusal)
        })
    }

    fn offer<'a>(&'a self, kind: &'a str, name: &'a str) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(async move {
            let (kind, name) = (searchable(kind), searchable(name));
            let mut transaction = self.0.store().await?.begin().await?;
            transaction.execute(OFFER, &[Value::Text(&kind), Value::Text(&name)]).await?;
            transaction.commit().await
        })
    }

    fn claim_next<'a>(
        &'a self,
        kind: &'a str,
        owner: &'a str,
        time: Duration,
    ) -> BoxFuture<'a, Result<Option<Lease>, ToolError>> {
        Box::pin(async move {
            let Some(store) = self.0.existing().await? else { return Ok(None) };
            let (kind, owner, token) = (searchable(kind), searchable(owner), new_token()?);
            let mut transaction = store.begin().await?;
            let now = clock(&mut transaction).await?;
            set_back(&mut transaction, &kind, now).await?;
            let statement = match &transaction.engine {
                EngineTransaction::Sqlite(_) => CLAIM_NEXT,
                EngineTransaction::Postgres(_) => CLAIM_NEXT_SKIP_LOCKED,
            };
            let values = [
                Value::Text(&owner),
                Value::Text(&token),
                millis(time),
                later(now, time),
                Value::Text(&kind),
                Value::Text(&kind),
                Value::number(now),
            ];
            let rows = transaction.query(statement, &values).await?;
            let Some(row) = rows.first() else {
                // Commit the shortened leases: else a caller that retries would find the item held
                // forever.
                transaction.commit().await?;
                return Ok(None);
            };
            let (name, generation) = (row.text(0)?.to_owned(), row.number(1)?);
            transaction.commit().await?;
            Ok(Some(Lease { kind, name, owner, generation, token }))
        })
    }

    fn heartbeat<'a>(
        &'a self,
        lease: &'a Lease,
        time: Duration,
    ) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(async move {
            let mut transaction = self.0.store().await?.begin().await?;
            let now = clock(&mut transaction).await?;
            let [kind, name, token] = key(lease);
            let values = [millis(time), later(now, time), kind, name, token];
            let touched = transaction.execute(EXTEND, &values).await?;
            transaction.commit().await?;
            still_held(lease, touched)
        })
    }

    fn check<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(async move { self.run(HELD, lease).await })
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(async move { self.run(RELEASE, lease).await })
    }

    fn finish<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(async move { self.run(FINISH, lease).await })
    }
}

fn key(lease: &Lease) -> [Value<'_>; 3] {
    [Value::Text(&lease.kind), Value::Text(&lease.name), Value::Text(&lease.token)]
}

fn still_held(lease: &Lease, touched: u64) -> Result<(), ToolError> {
    if touched > 0 {
        return Ok(());
    }
    let Lease { kind, name, owner, .. } = lease;
    Err(ToolError::conflict(format!("the {kind} `{name}` is no longer held by {owner}"))
        .hint("stop working on it; another owner claimed it, or it was released"))
}

async fn held(
    transaction: &mut Transaction,
    kind: &str,
    name: &str,
    now: u64,
) -> Result<ToolError, ToolError> {
    let rows = transaction.query(HOLDER, &[Value::Text(kind), Value::Text(name)]).await?;
    let holder = |row: &SqlRow| Ok::<_, ToolError>((row.text(0)?.to_owned(), row.number(1)?));
    let (owner, until) = rows.first().map(holder).transpose()?.unwrap_or_default();
    let seconds = until.saturating_sub(now).div_ceil(1000);
    let message = format!("the {kind} `{name}` is held by {owner} for {seconds} s more");
    Ok(ToolError::conflict(message).hint("claim another one, or wait until it is released"))
}

/// Shortens leases that have more time left than they were given, because the clock was set back.
async fn set_back(transaction: &mut Transaction, kind: &str, now: u64) -> Result<(), ToolError> {
    let values = [Value::number(now), Value::Text(kind), Value::number(now)];
    transaction.execute(SET_BACK, &values).await.map(|_| ())
}

/// Returns the time by the store's clock.
async fn clock(transaction: &mut Transaction) -> Result<u64, ToolError> {
    if let EngineTransaction::Sqlite(_) = transaction.engine {
        return Ok(now_ms());
    }
    let rows = transaction.query(SERVER_CLOCK, &[]).await?;
    rows.first()
        .map_or_else(|| Err(ToolError::internal("a clock without a time")), |row| row.number(0))
}

/// Maximum duration of a lease: a year. Adding it to a time does not overflow.
const MAX_TTL_MS: u64 = 365 * 24 * 3_600_000;

fn in_millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(MAX_TTL_MS).min(MAX_TTL_MS)
}

fn millis(time: Duration) -> Value<'static> {
    Value::number(in_millis(time))
}

fn later(now: u64, time: Duration) -> Value<'static> {
    Value::number(now.saturating_add(in_millis(time)))
}

fn new_token() -> Result<String, ToolError> {
    let mut bytes = [0_u8; 16];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).map_err(
        |error| ToolError::unavailable(format!("the system has no random numbers: {error}")),
    )?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
