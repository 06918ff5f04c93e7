//! One client of a server, and the handlers of all its requests. rmcp calls them for clients over
//! HTTP, and haft's own loop for the client at a pipe, so both give the same answers.

use std::sync::Arc;

use parking_lot::Mutex;

use haft_core::{Context, ErrorKind, Gate, Schema, ToolError, ToolSpec};
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult,
        CompletionInfo, CustomRequest, CustomResult, GetPromptRequestParams, GetPromptResponse,
        Implementation, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
        ListToolsResult, LoggingLevel, PaginatedRequestParams, ProtocolVersion,
        ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Reference,
        ServerCapabilities, ServerConfig, SetLevelRequestParams, SubscribeRequestParams,
        SubscriptionFilter, Tool, UnsubscribeRequestParams,
    },
    service::{NotificationContext, RequestContext, SubscriptionContext},
};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    McpClient,
    approval::{FormOptions, Scopes},
    call,
    client::{Caller, Era, Link},
    definition,
    quirks::Quirks,
    request_state::{RequestHash, RequestState},
    server::{Server, Shared},
    workspace_source::WorkspaceSource,
};

/// The methods that haft knows. An unreadable request with one of these has invalid parameters; any
/// other method does not exist.
const METHODS: &[&str] = &[
    "completion/complete",
    "initialize",
    "logging/setLevel",
    "ping",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/subscribe",
    "resources/templates/list",
    "resources/unsubscribe",
    "server/discover",
    "subscriptions/listen",
    "tools/call",
    "tools/list",
];

/// Methods that ended with the era of the handshake.
const UNTIL_2026: &[&str] =
    &["initialize", "logging/setLevel", "ping", "resources/subscribe", "resources/unsubscribe"];

/// The lifetime of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionLifetime {
    /// As long as its client.
    Long,
    /// Possibly one request: over HTTP a client of the later era has a new connection for each.
    MaybeOneRequest,
}

pub(crate) struct Connection {
    pub(crate) shared: Arc<Shared>,
    lifetime: ConnectionLifetime,
    caller: Arc<Caller>,
    workspace_source: WorkspaceSource,
    log_level: Mutex<Option<LoggingLevel>>,
    /// Resources that a client of the earlier era subscribed to.
    watched: Arc<Mutex<Vec<String>>>,
    /// Created with the connection, so that changes before the first listener are reported later.
    tool_changes: watch::Receiver<u64>,
    /// Cancelled when the connection ends.
    alive: CancellationToken,
    _end: DropGuard,
}

impl Connection {
    pub(crate) fn new(server: &Server, lifetime: ConnectionLifetime) -> Self {
        let alive = CancellationToken::new();
        Self {
            shared: server.0.clone(),
            lifetime,
            caller: Arc::new(Caller::new(server)),
            workspace_source: WorkspaceSource::new(server.0.clone()),
            log_level: Mutex::default(),
            watched: Arc::default(),
            tool_changes: server.0.gate.registry().subscribe(),
            _end: alive.clone().drop_guard(),
            alive,
        }
    }

    pub(crate) fn era(&self, context: &RequestContext<RoleServer>) -> Era {
        let is_later = |version: ProtocolVersion| version >= ProtocolVersion::V_2026_07_28;
        if context.protocol_version().is_some_and(is_later) {
            Era::Stateless
        } else {
            Era::Stateful
        }
    }

    /// Returns true if a request needs none of what rmcp does for the later era: the client has
    /// done the handshake, and this request does not name a version.
    pub(crate) fn is_of_earlier_era(&self, context: &RequestContext<RoleServer>) -> bool {
        let is_earlier = |version: &ProtocolVersion| *version < ProtocolVersion::V_2026_07_28;
        context.meta.protocol_version().is_none()
            && context.peer.peer_info().is_some_and(|it| is_earlier(&it.protocol_version))
    }

    pub(crate) async fn gate(
        &self,
        context: &RequestContext<RoleServer>,
    ) -> Result<Gate, Arc<ToolError>> {
        let has_roots = || {
            let capabilities = context.client_capabilities().unwrap_or_default();
            capabilities.roots.is_some() && self.era(context) == Era::Stateful
        };
        self.workspace_source.gate(has_roots).await
    }

    async fn gate_or_refusal(
        &self,
        context: &RequestContext<RoleServer>,
    ) -> Result<Gate, ErrorData> {
        self.gate(context).await.map_err(|error| refused(&error))
    }

    /// Returns the name of the approver at this client, for records.
    pub(crate) fn approver(&self, context: &RequestContext<RoleServer>) -> String {
        let client = context.client_info().map(|client| client.name);
        format!("the person at {}", client.as_deref().unwrap_or("the client"))
    }

    pub(crate) fn context(&self, context: &RequestContext<RoleServer>) -> Context {
        self.caller.context(context.ct.clone())
    }

    pub(crate) fn link(
        &self,
        context: RequestContext<RoleServer>,
        request_state: RequestState,
    ) -> Arc<Link> {
        let era = self.era(&context);
        let log_level = match era {
            Era::Stateful => *self.log_level.lock(),
            Era::Stateless => context.meta.log_level(),
        };
        Arc::new(Link {
            era,
            capabilities: context.client_capabilities().unwrap_or_default(),
            log_level,
            caller: self.caller.clone(),
            context,
            request_state: Mutex::new(request_state),
            questions: Mutex::default(),
            refusal: Mutex::default(),
        })
    }

    /// Returns the options of an approval form for this client.
    pub(crate) fn form_options(
        &self,
        gate: &Gate,
        context: &RequestContext<RoleServer>,
    ) -> FormOptions {
        let has_session =
            self.lifetime == ConnectionLifetime::Long || self.era(context) == Era::Stateful;
        let scopes = Scopes { kept: gate.saved_rules().scopes(), has_session };
        FormOptions { client: self.quirks(context), scopes }
    }

    pub(crate) fn quirks(&self, context: &RequestContext<RoleServer>) -> Quirks {
        Quirks::of(&context.client_info().map(|client| client.name).unwrap_or_default())
    }

    fn is_structured(&self, context: &RequestContext<RoleServer>) -> bool {
        self.shared.structured.suits(self.quirks(context))
    }

    /// Returns the schema of a tool's data, if this client receives data.
    pub(crate) async fn data_schema(
        &self,
        context: &RequestContext<RoleServer>,
        gate: &Gate,
        tool: &str,
    ) -> Option<Schema> {
        if !self.is_structured(context) {
            return None;
        }
        gate.registry().get(tool).await?.spec().output.clone()
    }

    /// Returns the tools for a client, and whether it receives typed data.
    pub(crate) async fn shown_tools(
        &self,
        context: &RequestContext<RoleServer>,
    ) -> Result<(Vec<ToolSpec>, bool), ErrorData> {
        let gate = self.gate_or_refusal(context).await?;
        Ok((self.caller.tools(&gate).await, self.is_structured(context)))
    }

    /// Notifies a client of the earlier era of changes, as long as it is connected.
    fn notify_changes(&self, peer: rmcp::service::Peer<RoleServer>) {
        let mut tools = self.tool_changes.clone();
        let mut resources = self.shared.changes.subscribe();
        let (alive, watched) = (self.alive.clone(), self.watched.clone());
        tokio::spawn(async move {
            loop {
                let sent = tokio::select! {
                    () = alive.cancelled() => return,
                    Ok(()) = tools.changed() => peer.notify_tool_list_changed().await,
                    Ok(uri) = resources.recv() => {
                        let is_watched =
                            watched.lock().contains(&uri);
                        if !is_watched {
                            continue;
                        }
                        peer.notify_resource_updated(rmcp::model::ResourceUpdatedNotificationParam::new(uri)).await
                    }
                    else => return,
                };
                if sent.is_err() {
                    return;
                }
            }
        });
    }
}

/// Converts an error to a protocol error.
fn refused(error: &ToolError) -> ErrorData {
    let message = format!("{}; {}", error.message(), error.next_step());
    let data = Some(json!({"kind": error.kind(), "hint": error.next_step()}));
    match error.kind() {
        ErrorKind::NotFound => ErrorData::resource_not_found(message, data),
        ErrorKind::Internal => ErrorData::internal_error(message, data),
        _ => ErrorData::invalid_params(message, data),
    }
}

fn unknown_method(method: &str) -> ErrorData {
    let message = format!("there is no method `{method}`");
    ErrorData::new(rmcp::model::ErrorCode::METHOD_NOT_FOUND, message, None)
}

/// All futures are boxed: rmcp reserves space for the largest in each request, and would copy it at
/// every step.
impl ServerHandler for Connection {
    fn get_info(&self) -> ServerConfig {
        let shared = &self.shared;
        let mut capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_logging()
            .build();
        if let Some(resources) = &shared.resources {
            let resources = json!({"subscribe": resources.are_watched()});
            capabilities.resources = serde_json::from_value(resources).ok();
            capabilities.completions = Some(Default::default());
        }
        if shared.prompts.is_some() {
            capabilities.prompts = Some(Default::default());
            capabilities.completions = Some(Default::default());
        }
        let mut implementation = Implementation::new(&shared.name, &shared.version);
        implementation.title.clone_from(&shared.title);
        let mut info = ServerConfig::new(capabilities).with_server_info(implementation);
        info.instructions.clone_from(&shared.instructions);
        info
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Box::pin(async move {
            let (tools, is_structured) = self.shown_tools(&context).await?;
            let tools = tools.iter().map(|spec| definition::tool(spec, is_structured));
            Ok(ListToolsResult::with_all_items(tools.collect()))
        })
        .await
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let gate = self.workspace_source.gate_now();
        let tool = gate.registry().ready(name)?;
        Some(definition::tool(tool.spec(), false))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        Box::pin(call::call(self, request, context)).await.map(Into::into)
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Box::pin(async move {
            let Some(resources) = &self.shared.resources else {
                return Ok(ListResourcesResult::default());
            };
            let gate = self.gate_or_refusal(&context).await?;
            let client = McpClient(self.link(context, RequestState::default()));
            let listed = resources.list(&gate, &client).await.map_err(|error| refused(&error))?;
            Ok(ListResourcesResult::with_all_items(listed))
        })
        .await
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let Some(resources) = &self.shared.resources else {
            return Ok(ListResourceTemplatesResult::default());
        };
        let gate = self.gate_or_refusal(&context).await?;
        Ok(ListResourceTemplatesResult::with_all_items(resources.templates(&gate)))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        Box::pin(async move {
            let gate = self.gate_or_refusal(&context).await?;
            let ReadResourceRequestParams { uri, input_responses, request_state, .. } = request;
            let Some(resources) = &self.shared.resources else {
                let data = json!({"uri": uri});
                let message = format!("there is no resource {uri}");
                return Err(ErrorData::resource_not_found(message, Some(data)));
            };
            let request_hash = || RequestHash::of("resources/read", &uri, &Value::Null);
            let round = call::Round::of(
                self,
                &context,
                request_hash,
                request_state.as_deref(),
                input_responses,
            )?;
            let client = McpClient(self.link(context, round.request_state.clone()));
            let read = resources.read(&uri, &gate, &client).await;
            if let Some(questions) = round.unanswered(self, &client.0, None, Default::default())? {
                return Ok(questions.into());
            }
            let contents = read.map_err(|error| {
                let mut refusal = client.0.refusal().unwrap_or_else(|| refused(&error));
                if let Some(Value::Object(data)) = &mut refusal.data {
                    data.insert("uri".to_owned(), uri.clone().into());
                }
                refusal
            })?;
            Ok(ReadResourceResult::new(contents).into())
        })
        .await
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let prompts = self.shared.prompts.as_ref().map(|prompts| prompts.list());
        Ok(ListPromptsResult::with_all_items(prompts.unwrap_or_default()))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        Box::pin(async move {
            let GetPromptRequestParams { name, arguments, input_responses, request_state, .. } =
                request;
            let Some(prompts) = &self.shared.prompts else {
                return Err(ErrorData::invalid_params(
                    format!("there is no prompt `{name}`"),
                    None,
                ));
            };
            let gate = self.gate_or_refusal(&context).await?;
            let arguments = arguments.unwrap_or_default();
            let request_hash =
                || RequestHash::of("prompts/get", &name, &Value::Object(arguments.clone()));
            let round = call::Round::of(
                self,
                &context,
                request_hash,
                request_state.as_deref(),
                input_responses,
            )?;
            let client = McpClient(self.link(context, round.request_state.clone()));
            let got = prompts.get(&name, &arguments, &gate, &client).await;
            if let Some(questions) = round.unanswered(self, &client.0, None, Default::default())? {
                return Ok(questions.into());
            }
            match got {
                Ok(prompt) => Ok(prompt.into()),
                Err(error) => {
                    let mut refusal = client.0.refusal().unwrap_or_else(|| refused(&error));
                    // Only resources have a separate error code for "not found".
                    if error.kind() == ErrorKind::NotFound {
                        refusal.code = rmcp::model::ErrorCode::INVALID_PARAMS;
                    }
                    Err(refusal)
                }
            }
        })
        .await
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Box::pin(async move {
            let argument = &request.argument;
            let values = match (&request.r#ref, &self.shared.resources, &self.shared.prompts) {
                (Reference::Resource(template), Some(resources), _) => {
                    let gate = self.gate_or_refusal(&context).await?;
                    let client = McpClient(self.link(context, RequestState::default()));
                    resources
                        .complete(&template.uri, &argument.name, &argument.value, &gate, &client)
                        .await
                }
                (Reference::Prompt(prompt), _, Some(prompts)) => {
                    prompts.complete(&prompt.name, &argument.name, &argument.value).await
                }
                _ => Vec::new(),
            };
            let has_more = values.len() > CompletionInfo::MAX_VALUES;
            let total = u32::try_from(values.len()).ok();
            let shown = values.into_iter().take(CompletionInfo::MAX_VALUES).collect();
            let info = CompletionInfo::with_pagination(shown, total, has_more);
            info.map(CompleteResult::new).map_err(|error| ErrorData::internal_error(error, None))
        })
        .await
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if self.era(&context) == Era::Stateless {
            return Err(unknown_method("logging/setLevel"));
        }
        *self.log_level.lock() = Some(request.level);
        Ok(())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let can =
            |uri: &str| self.shared.resources.as_ref().is_some_and(|all| all.can_be_watched(uri));
        if !can(&request.uri) {
            let message = format!("{} cannot be watched", request.uri);
            return Err(ErrorData::resource_not_found(message, None));
        }
        let mut watched = self.watched.lock();
        if !watched.contains(&request.uri) {
            watched.push(request.uri);
        }
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let mut watched = self.watched.lock();
        watched.retain(|uri| *uri != request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        let mut accepted = requested.clone();
        accepted.prompts_list_changed = None;
        accepted.resources_list_changed = None;
        if let Some(uris) = &mut accepted.resource_subscriptions {
            let resources = self.shared.resources.as_ref();
            uris.retain(|uri| resources.is_some_and(|all| all.can_be_watched(uri)));
        }
        Some(accepted)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        Box::pin(async move {
            let mut tools = self.tool_changes.clone();
            let mut resources = self.shared.changes.subscribe();
            let sink = context.sink();
            loop {
                // The sink drops notifications that were not requested; only a closed channel ends
                // the loop.
                tokio::select! {
                    () = context.cancelled() => return Ok(()),
                    Ok(()) = tools.changed() => { let _ = sink.notify_tool_list_changed().await; }
                    Ok(uri) = resources.recv() => { let _ = sink.notify_resource_updated(uri).await; }
                    else => return Ok(()),
                }
            }
        })
        .await
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let info = context.peer.peer_info();
        if info.is_some_and(|info| info.capabilities.roots.is_some()) {
            self.workspace_source.ask(&context.peer).await;
        }
        self.notify_changes(context.peer);
    }

    async fn on_roots_list_changed(&self, context: NotificationContext<RoleServer>) {
        self.workspace_source.ask(&context.peer).await;
        // Descriptions name the workspace, so the list has changed.
        let _ = context.peer.notify_tool_list_changed().await;
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = request.method.as_str();
        let is_over = self.era(&context) == Era::Stateless && UNTIL_2026.contains(&method);
        if METHODS.contains(&method) && !is_over {
            let message = format!("invalid parameters of `{method}`");
            return Err(ErrorData::invalid_params(message, None));
        }
        Err(unknown_method(method))
    }
}
