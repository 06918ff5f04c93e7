//! haft in another program, with a custom capability for the program's state, and a custom approval
//! handler.
//!
//!     cargo run --example embedded_registry

use std::sync::{Arc, Mutex};

use haft::{
    Access, ApprovalDecision, ApprovalHandler, ApprovalRequest, BoxFuture, Call, CallRequest,
    Capability, Context, Gate, Need, Power, Registry, Reply, ToolError, tool,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

/// The program's own state.
#[derive(Default)]
struct Orders(Mutex<Vec<String>>);

/// The capability to place orders. A tool declares it by taking it as an argument.
struct PlaceOrders(Arc<Orders>);

impl Capability for PlaceOrders {
    const NEED: Need = Need::required(Power::Host);

    fn from_call(call: &Call) -> Result<Self, ToolError> {
        call.grants().check(&Access::Any(Power::Host))?;
        call.service::<Orders>().map(Self)
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OrderTea {
    /// The kind of tea.
    sort: String,
    /// The number of cups.
    #[schemars(range(min = 1, max = 12))]
    cups: u32,
}

#[tool(title = "Order tea")]
async fn order_tea(input: OrderTea, orders: PlaceOrders) -> Result<Reply, ToolError> {
    let order = format!("{} x {}", input.cups, input.sort);
    let mut orders =
        orders.0.0.lock().map_err(|_| ToolError::internal("the orders are not available"))?;
    orders.push(order.clone());
    Ok(Reply::text(format!("ordered {order}")))
}

/// Approves small orders, and denies large ones with a reason for the model.
struct Treasurer;

impl ApprovalHandler for Treasurer {
    fn decide<'a>(
        &'a self,
        request: &'a ApprovalRequest,
    ) -> BoxFuture<'a, Option<ApprovalDecision>> {
        Box::pin(async move {
            let cups = request.input["cups"].as_u64().unwrap_or(u64::MAX);
            Some(if cups <= 4 {
                ApprovalDecision::approve("treasurer", "example")
            } else {
                ApprovalDecision::deny(
                    "treasurer",
                    "example",
                    Some("at most four cups a day".to_owned()),
                )
            })
        })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let orders = Arc::new(Orders::default());
    let registry = Registry::default();
    registry.register(&TOOL)?;
    let gate = Gate::builder(registry).service(orders.clone()).handler(Arc::new(Treasurer)).build();

    for cups in [2, 9] {
        let input = json!({"sort": "oolong", "cups": cups});
        let outcome = gate.call(CallRequest::new("order_tea", input, Context::new("demo"))).await;
        print(&outcome.content)?;
    }
    let orders = orders.0.lock().map_err(|_| "the orders are not available")?;
    assert_eq!(*orders, ["2 x oolong"], "the large order was refused");
    Ok(())
}

fn print(line: &str) -> std::io::Result<()> {
    use std::io::Write;
    writeln!(std::io::stdout(), "{line}")
}
