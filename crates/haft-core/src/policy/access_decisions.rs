//! A decision taken apart: what policy says to each access of a call, and which rules would keep the question from coming
//! back. Pure, like the decision itself.

use std::slice;

use serde::Serialize;

use super::{Action, Decision, Policy, PolicyQuery, Reason, Rule, Source, by, suggestions};
use crate::Access;

/// What policy says to one access of a call.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AccessDecision {
    /// What would be touched.
    pub access: Access,
    /// What policy says to it and why.
    #[serde(flatten)]
    pub decision: Decision,
}

/// More rules at once nobody reads before saying yes.
const MOST_RULES: usize = 4;

impl Policy {
    /// What is said to each access of a call. The strictest of them is what becomes of the call.
    pub fn access_decisions(&self, question: &PolicyQuery<'_>) -> Vec<AccessDecision> {
        let by = by(question);
        let verdict = |access: &Access| {
            let one = PolicyQuery { accesses: slice::from_ref(access), ..*question };
            AccessDecision { access: access.clone(), decision: self.decide_by(&one, by) }
        };
        question.accesses.iter().map(verdict).collect()
    }

    /// What a person may be offered to remember: sets of allow rules, narrow first, each of which alone keeps this question
    /// from coming back. Nothing where a written rule asks, because no saved one goes before it, and nothing where part
    /// of the call can be answered only once.
    pub fn offers(&self, question: &PolicyQuery<'_>) -> Vec<Vec<String>> {
        let decision = self.decide(question);
        if decision.action != Action::Ask || !matches!(decision.reason, Reason::Mode { .. }) {
            return Vec::new();
        }
        let mut sets = match question.accesses {
            [] => vec![vec![question.tool.to_owned()]],
            _ => sets(&self.widths_of_the_asked(question)),
        };
        sets.dedup();
        sets.retain(|rules| rules.len() <= MOST_RULES && self.is_settled_by(question, rules));
        sets
    }

    fn widths_of_the_asked(&self, question: &PolicyQuery<'_>) -> Vec<Vec<String>> {
        let verdicts = self.access_decisions(question).into_iter();
        let asked = verdicts.filter(|verdict| verdict.decision.action == Action::Ask);
        asked.map(|verdict| suggestions(question.tool, &verdict.access)).collect()
    }

    /// Whether nobody would be asked about this call if these rules were saved.
    pub(crate) fn is_settled_by(&self, question: &PolicyQuery<'_>, rules: &[String]) -> bool {
        let parsed =
            rules.iter().map(|text| Rule::parse(Action::Allow, text, Source::named("saved")));
        let Ok(mut saved) = parsed.collect::<Result<Vec<Rule>, _>>() else { return false };
        saved.extend_from_slice(question.saved);
        self.decide(&PolicyQuery { saved: &saved, ..*question }).action == Action::Allow
    }
}

/// One set for each width: of every access the rule that is this wide, or its widest.
fn sets(widths: &[Vec<String>]) -> Vec<Vec<String>> {
    if widths.iter().any(Vec::is_empty) {
        return Vec::new();
    }
    let widest = widths.iter().map(Vec::len).max().unwrap_or_default();
    let set = |width: usize| {
        let mut rules: Vec<String> = Vec::new();
        for rule in widths.iter().filter_map(|all| all.get(width).or(all.last())) {
            if !rules.contains(rule) {
                rules.push(rule.clone());
            }
        }
        rules
    };
    (0..widest).map(set).collect()
}
