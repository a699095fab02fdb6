//! What goes on between a kernel and whoever runs something: connecting, handing over, hearing, asking.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tokio_tungstenite::tungstenite::Message as Frame;
use uuid::Uuid;

use super::super::Cause;
use super::super::conversation::{Conversation, Seen};
use super::super::dial::{DialError, Socket, dial};
use super::super::rest::Rest;
use super::super::wire::{self, Framing, Message};
use super::wires::Wires;
use super::{Command, Left, Notice, Request};

/// A socket that nothing ran on for that long is closed: an open one keeps the kernel from being culled.
const IDLE_LIMIT: Duration = Duration::from_secs(60);
/// How long the first connection is tried.
const FIRST_PATIENCE: Duration = Duration::from_millis(1500);
/// How long a kernel may say nothing until one that broke under a run is given up, and how long it is tried again at least.
const PATIENCE: Duration = Duration::from_secs(8);
const LEAST_PATIENCE: Duration = Duration::from_secs(2);
const RETRY_EVERY: Duration = Duration::from_millis(400);
const SILENCE_LIMIT: Duration = Duration::from_secs(45);
/// After somebody's cell, the next one of a "run all" follows at once: it goes first.
const SETTLE: Duration = Duration::from_millis(50);

/// The task behind a [`super::Channel`]: keeps the kernel connected, and gives it one request at a time.
pub(super) struct Line {
    rest: Rest,
    kernel: String,
    session: String,
    commands: mpsc::UnboundedReceiver<Command>,
    request: Option<Request>,
    /// The kernel has the request.
    sent: bool,
    conversation: Conversation,
    /// The request had to wait for other code.
    waited: bool,
    /// When the kernel last said something on a socket.
    heard: Option<Instant>,
    /// Set once it answers.
    alive: Arc<AtomicBool>,
}

impl Line {
    pub(super) fn new(
        rest: Rest,
        kernel: String,
        commands: mpsc::UnboundedReceiver<Command>,
        alive: Arc<AtomicBool>,
    ) -> Self {
        Self {
            rest,
            kernel,
            session: new_session(),
            commands,
            request: None,
            sent: false,
            conversation: Conversation::default(),
            waited: false,
            heard: None,
            alive,
        }
    }

    /// Until nobody needs the kernel any more, or it is gone.
    pub(super) async fn attend(mut self) {
        loop {
            let left = match self.connect().await {
                Ok((socket, framing)) => self.serve(Wires::new(socket, framing)).await,
                Err(left) => left,
            };
            match left {
                // What the kernel before the restart said is wanted no more.
                Left::Renewed => self.session = new_session(),
                Left::Vanished(reason) if self.is_needed() => {
                    tracing::debug!(kernel = self.kernel, reason, "the kernel's socket went silent under a run");
                    // The server still has the old one, and what the kernel says under its name goes there.
                    self.session = new_session();
                }
                Left::Broken(reason) if self.is_needed() => {
                    tracing::debug!(kernel = self.kernel, reason, "the kernel's socket broke under a run");
                }
                Left::Broken(_) | Left::Vanished(_) | Left::Unused => return,
                Left::Gone(cause) => return self.give_up(&cause),
            }
        }
    }

    /// Tells whoever waits, and whoever came meanwhile.
    fn give_up(mut self, cause: &Cause) {
        self.tell(Notice::Gone(cause.clone()));
        self.commands.close();
        while let Ok(command) = self.commands.try_recv() {
            if let Command::Submit(request) = command {
                let _ = request.notices.send(Notice::Gone(cause.clone()));
            }
        }
    }

    async fn connect(&mut self) -> Result<(Socket, Framing), Left> {
        let until = self.until();
        let under_a_run = self.sent && self.is_needed();
        let (rest, kernel, session) = (self.rest.clone(), self.kernel.clone(), self.session.clone());
        let mut connecting = std::pin::pin!(async {
            loop {
                let dialing = dial(&rest, &kernel, &session);
                // A first connection may take its time, as may one to a kernel that was restarted: the server is busy then.
                let dialed = if under_a_run {
                    timeout_at(until, dialing).await.unwrap_or_else(|_| Err(no_answer()))
                } else {
                    dialing.await
                };
                match dialed {
                    Err(DialError::Again(_)) if Instant::now() + RETRY_EVERY < until => sleep(RETRY_EVERY).await,
                    Err(DialError::Again(cause) | DialError::Never(cause)) => return Err(cause),
                    Ok(opened) => return Ok(opened),
                }
            }
        });
        loop {
            tokio::select! {
                opened = &mut connecting => return opened.map_err(Left::Gone),
                command = self.commands.recv() => match command {
                    // A connection that is being made can be to the process before the restart.
                    Some(Command::Renew) => return Err(Left::Renewed),
                    Some(command) => self.obey(command),
                    None => return Err(Left::Unused),
                },
            }
        }
    }

    async fn serve(&mut self, mut wires: Wires) -> Left {
        self.heard = Some(Instant::now());
        self.conversation.begin();
        if self.sent {
            self.tell(Notice::Reconnected);
        }
        // Under a run, the answer also tells that the run has ended, should its own end be lost.
        if let Err(left) = self.hello(&mut wires).await {
            return left;
        }
        loop {
            if let Err(left) = self.hand_over(&mut wires).await {
                return left;
            }
            let step = tokio::select! {
                command = self.commands.recv() => self.on_command(&mut wires, command).await,
                frame = wires.stream.next() => self.on_frame(&mut wires, frame),
                () = sleep_until(wires.hello_at), if !self.conversation.is_live() => self.hello(&mut wires).await,
                () = sleep_until(wires.submit_at), if self.may_submit() => Ok(()),
                _ = wires.pulse.tick() => self.on_pulse(&mut wires).await,
            };
            if let Err(left) = step {
                return left;
            }
        }
    }

    /// Gives the kernel the request, when the kernel is free.
    async fn hand_over(&mut self, wires: &mut Wires) -> Result<(), Left> {
        if !self.may_submit() || Instant::now() < wires.submit_at {
            return Ok(());
        }
        let Some(request) = &self.request else { return Ok(()) };
        let content = json!({
            "code": request.code, "silent": false, "store_history": true, "user_expressions": {},
            "allow_stdin": false, "stop_on_error": true,
        });
        let message = Message::request("execute_request", &request.id, &self.session, content);
        self.sent = true;
        // Only what is asked from here on is a later question than this code.
        self.conversation.forget_questions();
        self.tell(Notice::Sent);
        wires.send(&message).await
    }

    async fn on_command(&mut self, wires: &mut Wires, command: Option<Command>) -> Result<(), Left> {
        wires.used = Instant::now();
        match command {
            None => Err(Left::Unused),
            Some(Command::Renew) => Err(Left::Renewed),
            Some(Command::Ask) => self.hello(wires).await,
            Some(command) => {
                self.obey(command);
                Ok(())
            }
        }
    }

    /// Does what a command says, as far as that needs no socket.
    fn obey(&mut self, command: Command) {
        match command {
            Command::Submit(request) => {
                (self.request, self.sent, self.waited) = (Some(request), false, false);
                self.note_occupied();
            }
            Command::Withdraw if !self.sent => {
                self.tell(Notice::Withdrawn);
                self.request = None;
            }
            Command::Withdraw | Command::Ask | Command::Renew => {}
        }
    }

    fn on_frame(
        &mut self,
        wires: &mut Wires,
        frame: Option<Result<Frame, tokio_tungstenite::tungstenite::Error>>,
    ) -> Result<(), Left> {
        let frame = match frame {
            None | Some(Ok(Frame::Close(_))) => {
                self.heard = Some(Instant::now());
                return Err(Left::Broken("the server closed it".to_owned()));
            }
            Some(Err(error)) => return Err(Left::failed(&error)),
            Some(Ok(frame)) => frame,
        };
        (wires.heard, self.heard) = (Instant::now(), Some(Instant::now()));
        match wire::decode(&frame) {
            None => Ok(()),
            Some(Ok(message)) => self.on_message(wires, message),
            Some(Err(error)) => {
                tracing::warn!(kernel = self.kernel, %error, bytes = frame.len(), "a kernel message can't be read");
                Ok(())
            }
        }
    }

    fn on_message(&mut self, wires: &mut Wires, message: Message) -> Result<(), Left> {
        match self.conversation.receive(&message) {
            Seen::Replied if self.conversation.misses_iopub() => wires.hello_soon(),
            Seen::Answered if self.sent => self.tell(Notice::Answered),
            Seen::Nothing | Seen::Replied | Seen::Answered => {}
            Seen::Restarted => {
                if self.sent {
                    self.tell(Notice::Gone(Cause::KernelRestarted));
                    self.request = None;
                }
                wires.hello_soon();
            }
            Seen::Dead => return Err(Left::Gone(Cause::KernelDead)),
        }
        if self.conversation.is_live() {
            self.alive.store(true, Ordering::Relaxed);
        }
        self.note_occupied();
        if self.waited && message.message_type() == "status" {
            wires.submit_at = Instant::now() + SETTLE;
        }
        let is_answer = self.sent && self.request.as_ref().is_some_and(|request| request.id == message.parent_id());
        if is_answer {
            self.tell(Notice::Message(Box::new(message)));
        }
        Ok(())
    }

    async fn on_pulse(&mut self, wires: &mut Wires) -> Result<(), Left> {
        if self.is_needed() {
            wires.used = Instant::now();
        } else if wires.used.elapsed() > IDLE_LIMIT {
            let _ = timeout(Duration::from_secs(1), wires.sink.close()).await;
            return Err(Left::Unused);
        }
        if wires.heard.elapsed() > SILENCE_LIMIT {
            return Err(Left::Vanished("no answer to pings".to_owned()));
        }
        wires.send_frame(Frame::Ping(Vec::new().into())).await
    }

    /// Asks for the kernel's information; the later, the more often it was asked.
    async fn hello(&mut self, wires: &mut Wires) -> Result<(), Left> {
        let id = Uuid::new_v4().to_string();
        let message = Message::request("kernel_info_request", &id, &self.session, json!({}));
        self.conversation.asked(id);
        wires.hello_sent();
        wires.send(&message).await
    }

    /// Until when a connection is tried.
    fn until(&self) -> Instant {
        let now = Instant::now();
        self.heard.map_or(now + FIRST_PATIENCE, |heard| (heard + PATIENCE).max(now + LEAST_PATIENCE))
    }

    fn may_submit(&self) -> bool {
        self.is_needed() && !self.sent && self.conversation.is_live() && !self.conversation.is_occupied()
    }

    /// Says once that other code runs.
    fn note_occupied(&mut self) {
        if self.request.is_some() && !self.sent && !self.waited && self.conversation.is_occupied() {
            self.waited = true;
            self.tell(Notice::Occupied);
        }
    }

    fn is_needed(&self) -> bool {
        self.request.as_ref().is_some_and(|request| !request.notices.is_closed())
    }

    fn tell(&self, notice: Notice) {
        if let Some(request) = &self.request {
            let _ = request.notices.send(notice);
        }
    }
}

/// Who we are to the server. Under one name it has one connection, and keeps what comes while that is away.
fn new_session() -> String {
    Uuid::new_v4().to_string()
}

fn no_answer() -> DialError {
    DialError::Again(Cause::ServerUnreachable("no answer in time".to_owned()))
}
