//! Saved rules: rules that an approval saves for a session, a workspace, or everywhere, so that
//! similar calls need no approval. They only allow, and written ask and deny rules take precedence.

use std::fmt;

use parking_lot::{Mutex, MutexGuard};

use serde::{Deserialize, Serialize};

use crate::{
    BoxFuture, ToolError,
    clock::now_ms,
    ids::new_id,
    policy::{Action, Rule, Source},
};

/// The rules that an approval saves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remember {
    /// Allow rules, usually from the request's suggestions.
    pub rules: Vec<String>,
    /// The sessions that the rules apply to.
    pub scope: Scope,
    /// Expiry time, in milliseconds since 1970.
    pub expires_ms: Option<u64>,
}

/// The sessions that a saved rule applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Until the session ends.
    Session,
    /// In this workspace.
    Project,
    /// Everywhere, for this user.
    User,
}

impl Scope {
    /// The name of the scope.
    pub fn name(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Project => "project",
            Self::User => "user",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One saved rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedRule {
    /// The id of the rule, for revoking.
    pub id: String,
    /// The text of the rule, which allows.
    pub rule: String,
    /// The scope of the rule.
    pub scope: Scope,
    /// The session it was saved in, which is the only one it applies to if its scope is the
    /// session.
    pub session: String,
    /// The approver who saved it.
    pub by: String,
    /// Time of saving, in milliseconds since 1970.
    pub saved_ms: u64,
    /// Expiry time; `None` if it never expires.
    pub expires_ms: Option<u64>,
}

impl SavedRule {
    /// The rules of an approval, each with its own id. Fails if one of them does not parse.
    ///
    /// # Errors
    /// `input` if a text is not a rule.
    pub fn all_of(session: &str, by: &str, remember: &Remember) -> Result<Vec<Self>, ToolError> {
        let saved_ms = now_ms();
        let kept = |text: &String| {
            let saved = Self {
                id: new_id("rule"),
                rule: text.trim().to_owned(),
                scope: remember.scope,
                session: session.to_owned(),
                by: by.to_owned(),
                saved_ms,
                expires_ms: remember.expires_ms,
            };
            saved.parsed().map(|_| saved)
        };
        remember.rules.iter().map(kept).collect()
    }

    /// Parses the rule for policy. Its source names the scope and the id.
    ///
    /// # Errors
    /// `input` if the text is not a rule.
    pub fn parsed(&self) -> Result<Rule, ToolError> {
        let source = Source::named(&format!("saved for this {}, {}", self.scope, self.id));
        Rule::parse(Action::Allow, &self.rule, source)
            .map_err(|error| ToolError::input(error.to_string()))
    }

    /// Returns true if the rule applies in a session at this time.
    pub fn is_active(&self, session: &str, now_ms: u64) -> bool {
        let is_here = self.scope != Scope::Session || self.session == session;
        is_here && self.expires_ms.is_none_or(|expires| expires > now_ms)
    }
}

/// A store of saved rules.
pub trait SavedRules: Send + Sync {
    /// The scopes that this store supports; prompts offer no others.
    fn scopes(&self) -> &'static [Scope];

    /// Returns the active rules of a session. Called before every call that would need approval.
    fn active<'a>(&'a self, session: &'a str) -> BoxFuture<'a, Result<Vec<Rule>, ToolError>>;

    /// Saves the rules of an approval that `by` gave in a session: all of them, or none.
    fn save<'a>(
        &'a self,
        session: &'a str,
        by: &'a str,
        remember: &'a Remember,
    ) -> BoxFuture<'a, Result<Vec<SavedRule>, ToolError>>;

    /// Returns every rule that has not expired, of any session, oldest first.
    fn list(&self) -> BoxFuture<'_, Result<Vec<SavedRule>, ToolError>>;

    /// Revokes a rule, effective from the next call on. `not_found` if there is no such rule.
    fn revoke<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<SavedRule, ToolError>>;
}

/// The error for an unknown rule.
pub fn no_such_rule(id: &str) -> ToolError {
    ToolError::not_found(format!("unknown saved rule `{id}`"))
        .hint("`haft policy list` shows the saved rules with their ids")
}

/// Rules in memory, lost with the process.
#[derive(Default)]
pub struct MemoryRules {
    rules: Mutex<Vec<SavedRule>>,
}

impl MemoryRules {
    /// The rules that have not expired.
    fn current(&self) -> MutexGuard<'_, Vec<SavedRule>> {
        let now = now_ms();
        let mut rules = self.rules.lock();
        rules.retain(|rule| rule.expires_ms.is_none_or(|expires| expires > now));
        rules
    }
}

impl SavedRules for MemoryRules {
    fn scopes(&self) -> &'static [Scope] {
        &[Scope::Session]
    }

    fn active<'a>(&'a self, session: &'a str) -> BoxFuture<'a, Result<Vec<Rule>, ToolError>> {
        let rules = self.current();
        let own = rules.iter().filter(|rule| rule.is_active(session, now_ms()));
        let found = own.map(SavedRule::parsed).collect();
        Box::pin(std::future::ready(found))
    }

    fn save<'a>(
        &'a self,
        session: &'a str,
        by: &'a str,
        remember: &'a Remember,
    ) -> BoxFuture<'a, Result<Vec<SavedRule>, ToolError>> {
        let saved = SavedRule::all_of(session, by, remember);
        if let Ok(saved) = &saved {
            self.current().extend(saved.iter().cloned());
        }
        Box::pin(std::future::ready(saved))
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<SavedRule>, ToolError>> {
        let all = self.current().clone();
        Box::pin(std::future::ready(Ok(all)))
    }

    fn revoke<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<SavedRule, ToolError>> {
        let mut rules = self.current();
        let place = rules.iter().position(|rule| rule.id == id);
        let revoked = place.map(|place| rules.remove(place)).ok_or_else(|| no_such_rule(id));
        Box::pin(std::future::ready(revoked))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remember(rules: &[&str], expires_ms: Option<u64>) -> Remember {
        let rules = rules.iter().map(ToString::to_string).collect();
        Remember { rules, scope: Scope::Session, expires_ms }
    }

    #[tokio::test]
    async fn a_rule_applies_in_its_session_until_it_is_revoked() {
        let store = MemoryRules::default();
        let saved = store.save("one", "Ann", &remember(&["bash(make *)"], None)).await;
        let saved = saved.expect("it is a rule");
        assert_eq!(store.active("one").await.expect("rules").len(), 1);
        assert_eq!(store.active("two").await.expect("rules"), []);
        let id = &saved[0].id;
        assert_eq!(store.revoke(id).await.expect("it is there"), saved[0]);
        assert_eq!(store.active("one").await.expect("rules"), []);
        let again = store.revoke(id).await.expect_err("it is gone");
        assert_eq!(again.kind(), crate::ErrorKind::NotFound);
    }

    #[tokio::test]
    async fn an_expired_rule_is_gone() {
        let store = MemoryRules::default();
        let expired = remember(&["bash(make *)"], Some(1));
        store.save("one", "Ann", &expired).await.expect("it is a rule");
        assert_eq!(store.active("one").await.expect("rules"), []);
        assert_eq!(store.list().await.expect("rules"), []);
    }

    #[tokio::test]
    async fn of_rules_with_a_bad_one_none_is_kept() {
        let store = MemoryRules::default();
        let both = remember(&["bash(make *)", "bash(make"], None);
        store.save("one", "Ann", &both).await.expect_err("the second is no rule");
        assert_eq!(store.list().await.expect("rules"), []);
    }
}
