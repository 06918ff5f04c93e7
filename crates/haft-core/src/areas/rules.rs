//! Rules that people keep when they say yes, so that they are not asked again: for a session, a workspace, or everywhere.
//! They only ever allow, and what is written as ask or deny goes before them.

use std::fmt;

use parking_lot::{Mutex, MutexGuard};

use serde::{Deserialize, Serialize};

use crate::{
    BoxFuture, ToolError,
    clock::now_ms,
    ids::new_id,
    policy::{Action, Rule, Source},
};

/// Rules to keep from a yes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remember {
    /// Allow rules, usually from the request's suggestions.
    pub rules: Vec<String>,
    /// For how long and for whom.
    pub scope: Scope,
    /// When they lapse, in milliseconds since 1970.
    pub expires_ms: Option<u64>,
}

/// How far a saved rule reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Until the session ends.
    Session,
    /// In this workspace.
    Project,
    /// Everywhere, for this person.
    User,
}

impl Scope {
    /// The word for it.
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

/// One rule that somebody kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedRule {
    /// Names it, for revoking.
    pub id: String,
    /// The rule, which allows.
    pub rule: String,
    /// How far it reaches.
    pub scope: Scope,
    /// The session it was kept in, which is all it reaches when its scope is the session.
    pub session: String,
    /// Who kept it.
    pub by: String,
    /// When, in milliseconds since 1970.
    pub saved_ms: u64,
    /// When it lapses; never, for none.
    pub expires_ms: Option<u64>,
}

impl SavedRule {
    /// The rules of a yes, each with its name. All of them, or none when one is no rule.
    ///
    /// # Errors
    /// `input` when a text is no rule.
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

    /// The rule as policy uses it. Its source names the scope and the id.
    ///
    /// # Errors
    /// `input` when the text is no rule.
    pub fn parsed(&self) -> Result<Rule, ToolError> {
        let source = Source::named(&format!("saved for this {}, {}", self.scope, self.id));
        Rule::parse(Action::Allow, &self.rule, source)
            .map_err(|error| ToolError::input(error.to_string()))
    }

    /// Whether it speaks in a session at this time.
    pub fn is_active(&self, session: &str, now_ms: u64) -> bool {
        let is_here = self.scope != Scope::Session || self.session == session;
        is_here && self.expires_ms.is_none_or(|expires| expires > now_ms)
    }
}

/// Where the rules of earlier approvals are kept.
pub trait SavedRules: Send + Sync {
    /// The scopes this store can keep; a prompt offers no others.
    fn scopes(&self) -> &'static [Scope];

    /// The rules in force for a session. Asked before every call that somebody would be asked about.
    fn active<'a>(&'a self, session: &'a str) -> BoxFuture<'a, Result<Vec<Rule>, ToolError>>;

    /// Keeps the rules of a yes that `by` gave in a session: all of them, or none.
    fn save<'a>(
        &'a self,
        session: &'a str,
        by: &'a str,
        remember: &'a Remember,
    ) -> BoxFuture<'a, Result<Vec<SavedRule>, ToolError>>;

    /// Every rule that has not lapsed, of any session, oldest first.
    fn list(&self) -> BoxFuture<'_, Result<Vec<SavedRule>, ToolError>>;

    /// Takes a rule back: from the next call on it is not there. `not_found` when it is not there already.
    fn revoke<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<SavedRule, ToolError>>;
}

/// The error for a rule that is not kept, or not any more.
pub fn no_such_rule(id: &str) -> ToolError {
    ToolError::not_found(format!("there is no saved rule `{id}`"))
        .hint("`haft policy list` shows the saved rules with their ids")
}

/// Rules in memory, gone with the process.
#[derive(Default)]
pub struct MemoryRules {
    rules: Mutex<Vec<SavedRule>>,
}

impl MemoryRules {
    /// What has not lapsed.
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
    async fn a_rule_speaks_in_its_session_until_it_is_revoked() {
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
    async fn a_lapsed_rule_is_gone() {
        let store = MemoryRules::default();
        let lapsed = remember(&["bash(make *)"], Some(1));
        store.save("one", "Ann", &lapsed).await.expect("it is a rule");
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
