//! What `tests/fuzz` needs of this floor.

use tokio_tungstenite::tungstenite::Message as Frame;

use super::Event;
use super::conversation::Conversation;
use super::heard::{Heard, Told};
use super::wire;

/// What the bytes tell of a run as a frame of a kernel's socket, in either framing.
pub fn events_of_frame(bytes: &[u8]) -> Vec<Event> {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let (mut conversation, mut heard, mut events) = (Conversation::default(), Heard::default(), Vec::new());
    for frame in [Frame::Binary(bytes.to_vec().into()), Frame::Text(text.into())] {
        if let Some(Ok(message)) = wire::decode(&frame) {
            conversation.receive(&message);
            if let Told::Output(event) = heard.take(message) {
                events.push(event);
            }
            events.extend(heard.rest());
        }
    }
    events
}
