//! Saved rules: those of a session or project in the project's store, those of a user in the user's
//! store. No store means no rules.
//!
//! A rule grants rights, and a store may have come with a cloned repository or been written by an
//! agent. So every rule is sealed with the user's key, for one workspace. A rule without a valid
//! seal does not count.
//!
//! A store that cannot be read fails no call: rules only allow, so without them haft asks. The
//! error is reported once.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::{Mutex, MutexGuard};

use haft_core::{
    BoxFuture, Remember, SavedRule, SavedRules, Scope, ToolError, no_such_rule, policy::Rule,
};
use serde_json::{Value as Json, json};

use crate::{
    Announcement, Store, StoreLocation,
    engine::{
        clock::now_ms,
        store::StoreEngine,
        value::{SqlRow, Value},
    },
    seal::SealKey,
};

const ALL: &str = "SELECT id, rule, scope, session, made_by, saved_ms, expires_ms, seal FROM rules \
    WHERE workspace = $1 ORDER BY saved_ms, id";
const SAVE: &str = "INSERT INTO rules (id, workspace, rule, scope, session, made_by, saved_ms, expires_ms, seal) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
const REVOKE: &str = "DELETE FROM rules WHERE id = $1";
const FORGET_LAPSED: &str = "DELETE FROM rules WHERE expires_ms <= $1";

/// The saved rules of a user in a workspace.
pub struct StoreRules {
    project: RuleSet,
    user: RuleSet,
    key: PathBuf,
    /// Messages that were reported already.
    reported: Mutex<HashSet<String>>,
}

/// The rules of one store.
struct RuleSet {
    location: Arc<StoreLocation>,
    /// Owner of the rules: a workspace, or the user in all workspaces.
    owner: String,
    read: Mutex<Option<CachedRules>>,
}

/// Rules that were read, and the version of the store they were read at.
#[derive(Clone)]
struct CachedRules {
    store: Store,
    version: Option<i64>,
    rules: Arc<Vec<(SavedRule, Rule)>>,
    /// Number of rules without a valid seal.
    foreign: usize,
}

/// Owner of the rules in the user's store: `*` cannot be a path.
const EVERYWHERE: &str = "*";

impl StoreRules {
    /// Creates the rules of `workspace` in the project's store, and those of the user in the user's
    /// store. That store lies in `state`, together with the key that seals both.
    pub fn new(project: Arc<StoreLocation>, workspace: &Path, state: &Path) -> Self {
        let rule_set =
            |location, owner: String| RuleSet { location, owner, read: Mutex::default() };
        let user = StoreLocation::new(crate::StoreAddress::Sqlite(state.join("haft.db")));
        Self {
            project: rule_set(project, workspace.to_string_lossy().into_owned()),
            user: rule_set(user, EVERYWHERE.to_owned()),
            key: state.join("rules.key"),
            reported: Mutex::default(),
        }
    }

    fn rule_sets(&self) -> [&RuleSet; 2] {
        [&self.project, &self.user]
    }

    fn rule_set(&self, scope: Scope) -> &RuleSet {
        if scope == Scope::User { &self.user } else { &self.project }
    }

    /// Reports the same error only once.
    fn report_once(&self, error: ToolError) -> Result<(), ToolError> {
        let mut reported = self.reported.lock();
        if reported.insert(error.message().to_owned()) { Err(error) } else { Ok(()) }
    }

    async fn collect(&self, session: &str) -> Result<Vec<Rule>, ToolError> {
        let now = now_ms();
        let mut rules = Vec::new();
        for rule_set in self.rule_sets() {
            match rule_set.rules(&self.key).await {
                Ok(None) => {}
                Ok(Some(read)) => {
                    let speaks = |(saved, _): &&(SavedRule, Rule)| saved.is_active(session, now);
                    rules.extend(read.rules.iter().filter(speaks).map(|(_, rule)| rule.clone()));
                    if read.foreign > 0 {
                        self.report_once(rule_set.foreign(read.foreign))?;
                    }
                }
                Err(error) => self.report_once(error)?,
            }
        }
        Ok(rules)
    }

    async fn keep(
        &self,
        session: &str,
        by: &str,
        remember: &Remember,
    ) -> Result<Vec<SavedRule>, ToolError> {
        let saved = SavedRule::all_of(session, by, remember)?;
        let key = SealKey::made(&self.key)?;
        let rule_set = self.rule_set(remember.scope);
        let mut transaction = rule_set.location.store().await?.begin().await?;
        transaction.execute(FORGET_LAPSED, &[Value::number(now_ms())]).await?;
        for rule in &saved {
            let seal = key.seal(rule, &rule_set.owner);
            let row = [
                Value::Text(&rule.id),
                Value::Text(&rule_set.owner),
                Value::Text(&rule.rule),
                Value::Text(rule.scope.name()),
                Value::Text(&rule.session),
                Value::Text(&rule.by),
                Value::number(rule.saved_ms),
                rule.expires_ms.map_or(Value::Null, Value::number),
                Value::Text(&seal),
            ];
            transaction.execute(SAVE, &row).await?;
        }
        // After all rules: announcing blocks all other writers of events until the commit.
        for rule in &saved {
            transaction
                .announce(&announcement(
                    "rule.saved",
                    rule,
                    &json!({"rule": rule.rule, "scope": rule.scope}),
                ))
                .await?;
        }
        transaction.commit().await?;
        rule_set.forget();
        Ok(saved)
    }

    async fn all(&self) -> Result<Vec<SavedRule>, ToolError> {
        let now = now_ms();
        let mut all = Vec::new();
        for rule_set in self.rule_sets() {
            let Some(read) = rule_set.rules(&self.key).await? else { continue };
            let rules = read.rules.iter().map(|(saved, _)| saved);
            all.extend(rules.filter(|it| it.expires_ms.is_none_or(|at| at > now)).cloned());
        }
        all.sort_by(|a, b| (a.saved_ms, &a.id).cmp(&(b.saved_ms, &b.id)));
        Ok(all)
    }

    async fn revoke_rule(&self, id: &str) -> Result<SavedRule, ToolError> {
        for rule_set in self.rule_sets() {
            let Some(read) = rule_set.rules(&self.key).await? else { continue };
            let Some((saved, _)) = read.rules.iter().find(|(saved, _)| saved.id == id) else {
                continue;
            };
            let mut transaction = read.store.begin().await?;
            let gone = transaction.execute(REVOKE, &[Value::Text(id)]).await?;
            if gone > 0 {
                transaction.announce(&announcement("rule.revoked", saved, &json!({}))).await?;
            }
            transaction.commit().await?;
            rule_set.forget();
            let is_lapsed = saved.expires_ms.is_some_and(|at| at <= now_ms());
            if gone > 0 && !is_lapsed {
                return Ok(saved.clone());
            }
        }
        Err(no_such_rule(id))
    }
}

impl SavedRules for StoreRules {
    fn scopes(&self) -> &'static [Scope] {
        &[Scope::Session, Scope::Project, Scope::User]
    }

    fn active<'a>(&'a self, session: &'a str) -> BoxFuture<'a, Result<Vec<Rule>, ToolError>> {
        Box::pin(self.collect(session))
    }

    fn save<'a>(
        &'a self,
        session: &'a str,
        by: &'a str,
        remember: &'a Remember,
    ) -> BoxFuture<'a, Result<Vec<SavedRule>, ToolError>> {
        Box::pin(self.keep(session, by, remember))
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<SavedRule>, ToolError>> {
        Box::pin(self.all())
    }

    fn revoke<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<SavedRule, ToolError>> {
        Box::pin(self.revoke_rule(id))
    }
}

impl RuleSet {
    fn cache(&self) -> MutexGuard<'_, Option<CachedRules>> {
        self.read.lock()
    }

    fn forget(&self) {
        *self.cache() = None;
    }

    /// Returns the rules with a valid seal; `None` without a store. Reads again only if another
    /// process wrote to the store.
    async fn rules(&self, key: &Path) -> Result<Option<CachedRules>, ToolError> {
        let Some(store) = self.location.existing().await? else { return Ok(None) };
        let version = match &store.engine {
            StoreEngine::Sqlite(sqlite) => Some(sqlite.hold()?.data_version()?),
            // Checking for changes takes as long as reading the rules.
            StoreEngine::Postgres(_) => None,
        };
        let is_true = |read: &&CachedRules| {
            version.is_some() && read.version == version && read.store.is(&store)
        };
        if let Some(read) = self.cache().as_ref().filter(is_true) {
            return Ok(Some(read.clone()));
        }
        let rows = store.query(ALL, &[Value::Text(&self.owner)]).await?;
        let read = self.read(store, version, &rows, key)?;
        *self.cache() = Some(read.clone());
        Ok(Some(read))
    }

    fn read(
        &self,
        store: Store,
        version: Option<i64>,
        rows: &[SqlRow],
        key: &Path,
    ) -> Result<CachedRules, ToolError> {
        // A user who never saved a rule has no key.
        let key = if rows.is_empty() { None } else { SealKey::existing(key)? };
        let sealed = rows.iter().filter_map(|row| {
            let saved = saved_rule(row)?;
            let is_sealed = key.as_ref()?.seal(&saved, &self.owner) == row.text(7).ok()?;
            is_sealed.then(|| Some((saved.clone(), saved.parsed().ok()?))).flatten()
        });
        let rules: Vec<(SavedRule, Rule)> = sealed.collect();
        let foreign = rows.len() - rules.len();
        Ok(CachedRules { store, version, rules: Arc::new(rules), foreign })
    }

    fn foreign(&self, count: usize) -> ToolError {
        let rules = if count == 1 { "rule was" } else { "rules were" };
        let location = self.location.address();
        let message = format!("{count} saved {rules} not saved by you for this folder: {location}");
        ToolError::denied(message)
            .hint("save them again at the next approval prompt if you want them")
    }
}

fn announcement<'a>(kind: &'a str, rule: &'a SavedRule, body: &'a Json) -> Announcement<'a> {
    let session = Some(rule.session.as_str());
    Announcement { session, ..Announcement::of(kind, &rule.id, body) }
}

fn saved_rule(row: &SqlRow) -> Option<SavedRule> {
    let text = |column| row.text(column).ok().map(str::to_owned);
    let scopes = [Scope::Session, Scope::Project, Scope::User];
    Some(SavedRule {
        id: text(0)?,
        rule: text(1)?,
        scope: scopes.into_iter().find(|scope| row.text(2).is_ok_and(|it| it == scope.name()))?,
        session: text(3)?,
        by: text(4)?,
        saved_ms: row.number(5).ok()?,
        expires_ms: row.maybe_number(6).ok()?,
    })
}

#[cfg(test)]
mod tests;
