//! One open socket of a kernel, and when something is due on it.

use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, timeout};
use tokio_tungstenite::tungstenite::Message as Frame;

use super::super::dial::Socket;
use super::super::wire::{Framing, Message};
use super::Left;

/// Also what a network that went away is noticed by: nothing acknowledges a ping then.
const PING_EVERY: Duration = Duration::from_secs(2);
const SEND_LIMIT: Duration = Duration::from_secs(60);
const FIRST_HELLO: Duration = Duration::from_millis(50);
const LAST_HELLO: Duration = Duration::from_secs(10);

/// One open socket, and when something is due on it.
pub(super) struct Wires {
    pub(super) sink: SplitSink<Socket, Frame>,
    pub(super) stream: SplitStream<Socket>,
    pub(super) framing: Framing,
    pub(super) hello_at: Instant,
    pub(super) hello_after: Duration,
    pub(super) submit_at: Instant,
    pub(super) heard: Instant,
    pub(super) used: Instant,
    pub(super) pulse: Interval,
}

impl Wires {
    pub(super) fn new(socket: Socket, framing: Framing) -> Self {
        let (sink, stream) = socket.split();
        let now = Instant::now();
        let mut pulse = interval_at(now + PING_EVERY, PING_EVERY);
        pulse.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let hello_after = FIRST_HELLO;
        Self { sink, stream, framing, hello_at: now, hello_after, submit_at: now, heard: now, used: now, pulse }
    }

    /// The next question goes out soon, as if it were the first.
    pub(super) fn hello_soon(&mut self) {
        self.hello_after = FIRST_HELLO;
        self.hello_at = Instant::now() + FIRST_HELLO;
    }

    pub(super) async fn send(&mut self, message: &Message) -> Result<(), Left> {
        self.send_frame(self.framing.encode(message)).await
    }

    pub(super) async fn send_frame(&mut self, frame: Frame) -> Result<(), Left> {
        match timeout(SEND_LIMIT, self.sink.send(frame)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Left::failed(&error)),
            Err(_) => Err(Left::Vanished("it takes nothing more".to_owned())),
        }
    }

    /// Each question is given twice as long as the one before.
    pub(super) fn hello_sent(&mut self) {
        self.hello_at = Instant::now() + self.hello_after;
        self.hello_after = (self.hello_after * 2).min(LAST_HELLO);
    }
}
