//! rmcp's own client at the other end of the pipe, in both eras of the protocol: haft's loop
//! answers like the SDK's.

use std::{sync::mpsc, time::Instant};

use parking_lot::Mutex;

use haft_core::{Gate, Reply, ToolError};
use rmcp::{
    ClientHandler, ErrorData, RoleClient, ServiceExt,
    model::{
        CallToolRequest, CallToolRequestParams, ClientCapabilities, ClientConfig, ClientRequest,
        ElicitRequestParams, ElicitResult, ElicitationAction, Implementation, ProtocolVersion,
        ServerNotification, SubscriptionFilter,
    },
    service::{
        ClientLifecycleMode, ClientServiceExt, NotificationContext, PeerRequestOptions,
        RequestContext, RunningService, ServiceError,
    },
};
use serde_json::json;
use tokio::net::unix::pipe;

use super::{super::session::LAST_ANSWERS_TIMEOUT, TEST_TIMEOUT, TestTool, echo, gate, serve};

/// Approves or denies every request, and reports notifications to the test.
struct TestUser {
    says: ElicitationAction,
    asked: Mutex<mpsc::Sender<String>>,
    changed: tokio::sync::mpsc::UnboundedSender<()>,
}

impl ClientHandler for TestUser {
    fn get_info(&self) -> ClientConfig {
        let capabilities: ClientCapabilities =
            serde_json::from_value(json!({"elicitation": {"form": {}}})).expect("known");
        ClientConfig::new(capabilities, Implementation::new("sdk", "1"))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let ElicitRequestParams::FormElicitationParams { message, .. } = request else {
            return Err(ErrorData::invalid_params("not a form", None));
        };
        self.asked.lock().send(message).expect("the test receives it");
        let content = json!({"decision": "once"});
        Ok(ElicitResult::new(self.says.clone()).with_content(content))
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        let _ = self.changed.send(());
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Era {
    Handshake,
    Stateless,
}

const ERAS: [Era; 2] = [Era::Handshake, Era::Stateless];

struct Sdk {
    client: RunningService<RoleClient, TestUser>,
    asked: mpsc::Receiver<String>,
    changed: tokio::sync::mpsc::UnboundedReceiver<()>,
    over: mpsc::Receiver<()>,
}

impl Sdk {
    async fn at(gate: Gate, era: Era, says: ElicitationAction) -> Self {
        let ends = serve(gate);
        let reader = pipe::Receiver::from_file(ends.output).expect("a pipe");
        let writer = pipe::Sender::from_file(ends.input).expect("a pipe");
        let (asking, asked) = mpsc::channel();
        let (changing, changed) = tokio::sync::mpsc::unbounded_channel();
        let user = TestUser { says, asked: Mutex::new(asking), changed: changing };
        let client = match era {
            Era::Handshake => user.serve((reader, writer)).await,
            Era::Stateless => {
                let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
                let mode = ClientLifecycleMode::Discover { preferred_versions };
                user.serve_with_lifecycle((reader, writer), mode).await
            }
        };
        Self {
            client: client.expect("they understand each other"),
            asked,
            changed,
            over: ends.over,
        }
    }

    async fn call(&self, tool: &'static str) -> Result<rmcp::model::CallToolResult, ServiceError> {
        self.client.call_tool(CallToolRequestParams::new(tool)).await
    }

    /// Disconnects and waits for the end of the server.
    async fn end(self) {
        self.client.cancel().await.expect("it was running");
        let over = self.over;
        let over = tokio::task::spawn_blocking(move || over.recv_timeout(TEST_TIMEOUT)).await;
        over.expect("no panic").expect("the server ends in time");
    }
}

/// Runs a test in every era, with a time limit.
fn run(test: impl AsyncFn(Era)) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    for era in ERAS {
        let done = runtime.block_on(async { tokio::time::timeout(TEST_TIMEOUT, test(era)).await });
        done.unwrap_or_else(|_| panic!("{era:?} takes too long"));
    }
    // Does not wait for tasks of a failed test.
    runtime.shutdown_background();
}

fn text(result: &rmcp::model::CallToolResult) -> &str {
    let block = result.content.first().expect("a block");
    &block.as_text().expect("a text").text
}

#[test]
fn tools_are_listed_called_and_fail() {
    run(async |era| {
        let failing =
            TestTool::new("fail", |_call| async { Err(ToolError::conflict("it is in the way")) });
        let sdk = Sdk::at(gate([echo(), failing]), era, ElicitationAction::Decline).await;
        let tools = sdk.client.list_all_tools().await.expect("a list");
        let names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
        assert_eq!(names, ["echo", "fail"], "{era:?}");
        let said = sdk.call("echo").await.expect("it works");
        assert_eq!((text(&said), said.is_error), ("nothing", Some(false)), "{era:?}");
        let failed = sdk.call("fail").await.expect("a failure is a result");
        assert_eq!(failed.is_error, Some(true), "{era:?}");
        assert!(text(&failed).starts_with("error (conflict): it is in the way"), "{failed:?}");
        let unknown = sdk.call("missing").await.expect_err("there is none");
        let ServiceError::McpError(error) = unknown else { panic!("{era:?}: {unknown}") };
        assert_eq!(error.code.0, -32_602, "{era:?}");
        assert_eq!(error.data.expect("ours")["kind"], "not_found", "{era:?}");
        sdk.end().await;
    });
}

#[test]
fn approval_is_requested_through_the_client() {
    run(async |era| {
        for (says, is_done) in
            [(ElicitationAction::Accept, true), (ElicitationAction::Decline, false)]
        {
            let (sender, ran) = mpsc::channel();
            let sender = Mutex::new(sender);
            let destructive = TestTool::new("grave", move |_call| {
                let _ = sender.lock().send(());
                async { Ok(Reply::text("done")) }
            });
            let sdk = Sdk::at(gate([destructive.destructive()]), era, says).await;
            let answer = sdk.call("grave").await.expect("an answer");
            assert!(sdk.asked.try_recv().is_ok_and(|words| words.contains("Grave")), "{era:?}");
            assert_eq!(sdk.asked.try_recv().ok(), None, "{era:?}: once");
            assert_eq!(ran.try_iter().count(), usize::from(is_done), "{era:?}");
            assert_eq!(answer.is_error, Some(!is_done), "{era:?}: {answer:?}");
            sdk.end().await;
        }
    });
}

#[test]
fn a_client_can_cancel_a_call() {
    run(async |era| {
        let (sender, mut seen) = tokio::sync::mpsc::unbounded_channel();
        let waiting = TestTool::new("wait", move |_call| {
            let sent = DropSignal(sender.clone());
            async move {
                sent.0.send("begun").expect("the test receives it");
                std::future::pending::<()>().await;
                drop(sent);
                Ok(Reply::text("never"))
            }
        });
        let sdk = Sdk::at(gate([waiting, echo()]), era, ElicitationAction::Decline).await;
        let request = CallToolRequest::new(CallToolRequestParams::new("wait"));
        let request = ClientRequest::CallToolRequest(request);
        let options = PeerRequestOptions::no_options();
        let handle = sdk.client.send_cancellable_request(request, options).await.expect("sent");
        assert_eq!(seen.recv().await, Some("begun"), "{era:?}");
        handle.cancel(Some("a test wants it".to_owned())).await.expect("sent");
        assert_eq!(seen.recv().await, Some("dropped"), "{era:?}");
        assert_eq!(text(&sdk.call("echo").await.expect("it lives")), "nothing");
        // The end waits neither for an answer to the cancelled call nor for its work.
        let begin = Instant::now();
        sdk.end().await;
        assert!(begin.elapsed() < LAST_ANSWERS_TIMEOUT / 2, "{era:?}: {:?}", begin.elapsed());
    });
}

struct DropSignal(tokio::sync::mpsc::UnboundedSender<&'static str>);

impl Drop for DropSignal {
    fn drop(&mut self) {
        let _ = self.0.send("dropped");
    }
}

#[test]
fn subscribers_are_notified_of_a_new_tool() {
    run(async |era| {
        let gate = gate([echo()]);
        let registry = gate.registry().clone();
        let mut sdk = Sdk::at(gate, era, ElicitationAction::Decline).await;
        assert_eq!(sdk.client.list_all_tools().await.expect("a list").len(), 1);
        let late = TestTool::new("late", |_call| async { Ok(Reply::text("here")) });
        match era {
            Era::Handshake => {
                registry.register(late).expect("a new name");
                sdk.changed.recv().await.expect("it goes on");
            }
            Era::Stateless => {
                let filter = SubscriptionFilter::builder().tools_list_changed().build();
                let mut watching = sdk.client.listen(filter).await.expect("it is taken");
                assert_eq!(watching.acknowledged().tools_list_changed, Some(true));
                // Sent only once: rmcp has acknowledged, but the notifier may not have started.
                registry.register(late).expect("a new name");
                let sent = watching.next().await.expect("it goes on");
                let is_change =
                    matches!(sent, Some(ServerNotification::ToolListChangedNotification(_)));
                assert!(is_change, "{sent:?}");
                watching.cancel().await.expect("it was open");
            }
        }
        assert_eq!(sdk.client.list_all_tools().await.expect("a list").len(), 2, "{era:?}");
        assert_eq!(text(&sdk.call("late").await.expect("it works")), "here");
        sdk.end().await;
    });
}
