//! The protocol's face: which tool, who is calling, and the sealed answer. The transports hand
//! their requests to one [`Gateway`].

mod calling;
mod metering;
mod tasks;

pub use calling::{named, of_session};

use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ContentBlock, GetTaskParams,
    GetTaskResult, Implementation, JsonObject, ListToolsResult, MetaObject, PaginatedRequestParams, ServerCapabilities,
    ServerConfig, Tool, ToolAnnotations, UpdateTaskParams,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use calling::Client;
use tasks::{Begun, Tasks};

use crate::answer::{Answer, Block, Code, Failure, Limits, Sealed, seal};
use crate::points;
use crate::sandbox::{Owner, Progress};
use crate::tools::{CATALOGUE, Entry, find};
use crate::workspace::{Call, Caller, Workspaces};

/// How a model is told to work with the tools; under 1,500 characters.
const INSTRUCTIONS: &str = "\
Cellgate runs Jupyter notebooks in sandboxes that you launch, use and terminate.
- Start with launch_sandbox (or just call a tool: where that is allowed, a default sandbox starts). One sandbox is active; \
pass sandbox_name to reach another one.
- use_notebook opens or creates a notebook under a name and makes it current. Pass notebook_name in each call when you work \
with several.
- Address cells by cell_id: an index changes as soon as a cell is inserted above. Every answer names the cell it acted on; \
read_notebook shows all ids.
- insert_execute_code_cell writes and runs a cell in one step and keeps it in the notebook; execute_code runs something aside \
and saves nothing. Change notebooks only with these tools, never by writing the .ipynb file.
- A call that runs code waits for its end. For long code pass a larger timeout. After a timeout the kernel was interrupted and \
keeps its variables; after kernel.died they are lost: run the cells you need again.
- An exception in your code is an output with status error, not a failed call. A failed call has an error code and says what to \
do next.
- Files outlive a sandbox: terminate_sandbox when done, launch the same name to go on.";

/// One gateway, in front of all sandboxes. Cheap to clone: transports make one for each request.
#[derive(Clone)]
pub struct Gateway {
    workspaces: Arc<Workspaces>,
    limits: Limits,
    /// The workspace of calls that tell of none.
    home: Arc<str>,
    calls: TaskTracker,
    /// Cancelled when calls in flight have to end.
    hurry: CancellationToken,
    tasks: Arc<Tasks>,
}

/// Whose a call is, and how it is taken back and heard of.
struct Incoming {
    owner: Owner,
    workspace: String,
    request: String,
    cancel: CancellationToken,
    progress: Progress,
}

/// How long calls may take to end once they are told to.
const HURRY: Duration = Duration::from_secs(5);

impl Gateway {
    /// A gateway to these workspaces whose answers keep within `limits`. Calls that tell of no workspace are in `home`.
    pub fn new(workspaces: Arc<Workspaces>, limits: Limits, home: &str) -> Self {
        let (calls, hurry) = (TaskTracker::new(), CancellationToken::new());
        Self { workspaces, limits, home: home.into(), calls, hurry, tasks: Arc::default() }
    }

    /// Waits until the calls in flight are answered; those that are not after `limit` are cancelled, and say so.
    pub async fn drain(&self, limit: Duration) {
        self.calls.close();
        if timeout(limit, self.calls.wait()).await.is_err() {
            self.hurry.cancel();
            // What can't be cancelled ends with its sandbox.
            let _ = timeout(HURRY, self.calls.wait()).await;
        }
    }

    /// Everything that callers have.
    pub fn workspaces(&self) -> &Arc<Workspaces> {
        &self.workspaces
    }

    async fn answer(&self, tool: &Entry, arguments: Value, incoming: Incoming) -> Sealed {
        let (begun, _in_flight) = (Instant::now(), self.calls.token());
        let Incoming { owner, workspace, request, cancel, progress } = incoming;
        let name = tool.contract.tool;
        let call = Call { cancel: cancel.clone(), progress, request: Some(request), tool: name };
        let caller = Caller::new(&self.workspaces, owner, &workspace, call);
        let answering = AssertUnwindSafe(tool.call(arguments, &caller)).catch_unwind();
        let mut result = self.hurried(answering, &cancel).await.unwrap_or_else(|_| Err(panicked(name)));
        if cancel.is_cancelled() && self.hurry.is_cancelled() {
            caller.note("The gateway was told to stop, so this call was cut short.");
        }
        caller.save();
        points::reached("call.saved").await;
        note(&mut result, caller.take_notes());
        if let Some(action) = tool.audit {
            caller.audit(action, outcome(&result), begun.elapsed());
        }
        drop(caller);
        let sealed = seal(&tool.contract, result, &self.limits, &self.workspaces.fleet().secrets());
        metering::called(name, begun.elapsed(), &sealed);
        sealed
    }

    /// Answers within the request.
    async fn answer_now(&self, tool: &Entry, arguments: Value, context: &RequestContext<RoleServer>) -> Sealed {
        let (progress, forwarding) = calling::progress(Client::of(context));
        let sealed = self.answer(tool, arguments, self.incoming(context, context.ct.child_token(), progress)).await;
        // What was said on the way reaches the client before the answer does.
        forwarding.await;
        sealed
    }

    /// Answers within the request if that is over soon, else by a task.
    async fn answer_or_go_on(
        &self,
        tool: &'static Entry,
        arguments: Value,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let (sender, news) = mpsc::unbounded_channel();
        let cancel = CancellationToken::new();
        let incoming = self.incoming(context, cancel.clone(), Progress::new(sender));
        let (gateway, owner) = (self.clone(), incoming.owner.clone());
        let answering = tokio::spawn(async move { gateway.answer(tool, arguments, incoming).await });
        let ceiling = self.workspaces.policy().execution_ceiling;
        let begun = Begun { owner, answering, news, cancel, ceiling };
        self.tasks.answer(begun, Client::of(context), context.ct.clone()).await
    }

    fn incoming(
        &self,
        context: &RequestContext<RoleServer>,
        cancel: CancellationToken,
        progress: Progress,
    ) -> Incoming {
        let (owner, workspace) = calling::identity(context, &self.home);
        Incoming { owner, workspace, request: context.id.to_string(), cancel, progress }
    }

    /// Waits for a call, and cancels it when calls have to end.
    async fn hurried<T>(&self, call: impl Future<Output = T>, cancel: &CancellationToken) -> T {
        tokio::pin!(call);
        tokio::select! {
            answered = &mut call => return answered,
            () = self.hurry.cancelled() => cancel.cancel(),
        }
        call.await
    }
}

impl ServerHandler for Gateway {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_tasks().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("cellgate", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        // The catalogue is the same for everyone and for as long as the process lives.
        Ok(ListToolsResult::with_all_items(TOOLS.clone()).with_ttl_ms(3_600_000).with_cache_scope(CacheScope::Public))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        TOOLS.iter().find(|tool| tool.name == name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = find(&request.name) else {
            return Err(ErrorData::invalid_params(unknown_tool(&request.name), None));
        };
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        if context.client_capabilities().is_some_and(|client| client.supports_tasks()) {
            return self.answer_or_go_on(tool, arguments, &context).await;
        }
        Ok(result(self.answer_now(tool, arguments, &context).await).into())
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let (owner, _) = calling::identity(&context, &self.home);
        self.tasks.get(&owner, &request.task_id).map(GetTaskResult::new)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let (owner, _) = calling::identity(&context, &self.home);
        self.tasks.cancel(&owner, &request.task_id)
    }

    /// No task asks for anything.
    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let (owner, _) = calling::identity(&context, &self.home);
        self.tasks.get(&owner, &request.task_id).map(drop)
    }
}

/// The tools as they are advertised.
static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| CATALOGUE.iter().map(advertised).collect());

fn advertised(tool: &Entry) -> Tool {
    let hints = tool.hints;
    let mut annotations = ToolAnnotations::new().idempotent(hints.idempotent).open_world(hints.open_world);
    annotations.title = Some(tool.title.to_owned());
    let annotations = if hints.read_only { annotations.read_only(true) } else { annotations.destructive(true) };
    Tool::new(tool.contract.tool, Cow::Owned(tool.description.clone()), object(&tool.input_schema))
        .with_raw_output_schema(object(&tool.output_schema))
        .with_annotations(annotations)
}

fn object(schema: &Value) -> Arc<JsonObject> {
    Arc::new(schema.as_object().cloned().unwrap_or_default())
}

fn result(sealed: Sealed) -> CallToolResult {
    let mut result = CallToolResult::default();
    result.content = sealed.content.into_iter().map(block).collect();
    result.structured_content = Some(sealed.structured);
    result.is_error = Some(sealed.is_error);
    result.meta = (!sealed.meta.is_empty()).then_some(MetaObject(sealed.meta));
    result
}

fn block(block: Block) -> ContentBlock {
    match block {
        Block::Text(text) => ContentBlock::text(text),
        Block::Image { mime_type, data } => ContentBlock::image(data, mime_type),
    }
}

/// What the audit trail says of a call: an error's code, else how the run ended.
fn outcome(result: &Result<Answer, Failure>) -> &str {
    match result {
        Ok(answer) => answer.extra.get("status").and_then(Value::as_str).unwrap_or("ok"),
        Err(failure) => failure.code.as_str(),
    }
}

fn note(result: &mut Result<Answer, Failure>, notes: Vec<String>) {
    match result {
        Ok(answer) => answer.notes.splice(0..0, notes).for_each(drop),
        Err(failure) => failure.notes.splice(0..0, notes).for_each(drop),
    }
}

fn panicked(tool: &str) -> Failure {
    tracing::error!(tool, "a tool panicked");
    Failure::new(
        Code::Internal,
        format!(
            "{tool} failed inside the gateway; this is a fault in Cellgate. What it was doing may be half done: look before you call it again."
        ),
    )
}

fn unknown_tool(name: &str) -> String {
    let shown: String = name.chars().take(64).collect();
    let nearest = CATALOGUE
        .iter()
        .map(|tool| tool.contract.tool)
        .max_by(|a, b| strsim::jaro_winkler(&shown, a).total_cmp(&strsim::jaro_winkler(&shown, b)));
    format!("There is no tool '{shown}'; the nearest is '{}'.", nearest.unwrap_or_default())
}
