//! Stage 5: policy decides. A denied call ends here. A denied power that the tool can do without is
//! withheld instead.

use super::{CallState, GateInner};
use crate::{
    Access, Power, ToolError,
    policy::{Action, Decision, PolicyQuery, Reason, Rule},
};

pub(super) async fn judge(gate: &GateInner, call_state: &mut CallState) -> Result<(), ToolError> {
    withhold_optional(gate, call_state);
    let mut decision = decide(gate, call_state, &call_state.judged, &[]);
    // Saved rules only replace what the mode would ask, so most calls need not load them.
    if decision.action == Action::Ask && matches!(decision.reason, Reason::Mode { .. }) {
        let saved = saved_rules(gate, call_state).await;
        decision = decide(gate, call_state, &call_state.judged, &saved);
    }
    let denied = (decision.action == Action::Deny).then(|| refusal(gate, call_state, &decision));
    call_state.decision = Some(decision);
    denied.map_or(Ok(()), Err)
}

/// Without saved rules the call needs approval, which is no reason to refuse it.
async fn saved_rules(gate: &GateInner, call_state: &mut CallState) -> Vec<Rule> {
    gate.saved_rules.active(&call_state.context.session).await.unwrap_or_else(|error| {
        call_state.repairs.push(format!("the saved rules could not be used: {error}"));
        Vec::new()
    })
}

/// The policy query for accesses of this call.
pub(super) fn query<'a>(
    call_state: &'a CallState,
    accesses: &'a [Access],
    saved: &'a [Rule],
) -> PolicyQuery<'a> {
    let spec = call_state.tool().spec();
    PolicyQuery {
        tool: &spec.name,
        effect: spec.effect,
        accesses,
        agents: &call_state.context.agents,
        profile: call_state.context.profile.as_deref(),
        saved,
    }
}

fn decide(
    gate: &GateInner,
    call_state: &CallState,
    accesses: &[Access],
    saved: &[Rule],
) -> Decision {
    gate.policy.decide(&query(call_state, accesses, saved))
}

/// `Option<Net>` in a signature means that the tool works without the power. A rule against the
/// power then withholds it instead of denying the call.
fn withhold_optional(gate: &GateInner, call_state: &mut CallState) {
    let needs = &call_state.tool().spec().needs;
    let optional: Vec<Power> = needs
        .iter()
        .filter(|need| need.optional && !needs.contains(&crate::Need::required(need.power)))
        .map(|need| need.power)
        .collect();
    for power in optional {
        // Only accesses that the tool itself declares can be withheld; what a command does cannot.
        let (uses, rest): (Vec<Access>, Vec<Access>) =
            call_state.judged.iter().cloned().partition(|access| {
                access.power() == power && call_state.accesses.contains(access)
            });
        let is_denied = !uses.is_empty()
            && decide(gate, call_state, &uses, &[]).action == Action::Deny
            && decide(gate, call_state, &rest, &[]).action != Action::Deny;
        if is_denied {
            call_state.judged = rest;
            call_state.accesses.retain(|access| access.power() != power);
            call_state.withheld.push(power);
        }
    }
}

fn refusal(gate: &GateInner, call_state: &CallState, decision: &Decision) -> ToolError {
    let for_agent = match &decision.agent {
        Some(agent) => format!(" for agent `{agent}`"),
        None => String::new(),
    };
    let name = call_state.name();
    let touched = match &decision.reason {
        Reason::Rule(rule) if !rule.names_tool(name) => {
            let is_touched = |access: &&Access| rule.touches(name, access, &gate.policy.roots);
            call_state.judged.iter().find(is_touched)
        }
        _ => None,
    };
    let what = touched.map_or(String::new(), |access| format!("{access}: "));
    let message = format!("`{name}` is denied{for_agent}: {what}{}", decision.reason);
    ToolError::denied(message).hint(format!("to change that, {}", decision.change))
}
