//! Kernel messages on a websocket: the `v1.kernel.websocket.jupyter.org` framing, and the JSON
//! one of servers that don't know it. Reading never panics, whatever the bytes.

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message as Frame;

/// The websocket subprotocol of the binary framing.
pub(super) const V1: &str = "v1.kernel.websocket.jupyter.org";

/// One kernel message.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Message {
    pub(super) channel: String,
    pub(super) header: Value,
    pub(super) parent_header: Value,
    pub(super) metadata: Value,
    pub(super) content: Value,
    pub(super) buffers: Vec<Vec<u8>>,
}

/// How messages are put into frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    V1,
    Legacy,
}

/// Why a frame is no message.
#[derive(Debug, thiserror::Error)]
pub(super) enum WireError {
    #[error("the offsets of the frame's parts are wrong")]
    Offsets,
    #[error("a part of the frame is no JSON ({0})")]
    Json(#[from] serde_json::Error),
}

impl Message {
    /// A request on the shell channel.
    pub(super) fn request(message_type: &str, id: &str, session: &str, content: Value) -> Self {
        let header = json!({
            "msg_id": id, "msg_type": message_type, "username": "cellgate", "session": session,
            "date": jiff::Timestamp::now().to_string(), "version": "5.3",
        });
        let (parent_header, metadata) = (json!({}), json!({}));
        Self { channel: "shell".to_owned(), header, parent_header, metadata, content, buffers: Vec::new() }
    }

    pub(super) fn message_type(&self) -> &str {
        text(&self.header, "msg_type")
    }

    /// The id of the request it answers; empty when it answers none.
    pub(super) fn parent_id(&self) -> &str {
        text(&self.parent_header, "msg_id")
    }

    pub(super) fn parent_type(&self) -> &str {
        text(&self.parent_header, "msg_type")
    }

    /// A word of its content; empty when it isn't there.
    pub(super) fn word(&self, key: &str) -> &str {
        text(&self.content, key)
    }
}

impl Framing {
    pub(super) fn encode(self, message: &Message) -> Frame {
        match self {
            Self::V1 => Frame::Binary(encode_v1(message).into()),
            Self::Legacy => Frame::Text(encode_legacy(message).into()),
        }
    }
}

/// The message in a frame; `None` for a frame that carries none (ping, pong, close).
pub(super) fn decode(frame: &Frame) -> Option<Result<Message, WireError>> {
    match frame {
        Frame::Binary(bytes) => Some(decode_v1(bytes)),
        Frame::Text(text) => Some(decode_legacy(text)),
        _ => None,
    }
}

fn encode_v1(message: &Message) -> Vec<u8> {
    let parts = [&message.header, &message.parent_header, &message.metadata, &message.content];
    let parts: Vec<Vec<u8>> = std::iter::once(message.channel.clone().into_bytes())
        .chain(parts.map(|part| part.to_string().into_bytes()))
        .chain(message.buffers.iter().cloned())
        .collect();
    let mut offset = 8 * (parts.len() + 2);
    let length = offset + parts.iter().map(Vec::len).sum::<usize>();
    let mut frame = Vec::with_capacity(length);
    frame.extend((parts.len() as u64 + 1).to_le_bytes());
    frame.extend((offset as u64).to_le_bytes());
    for part in &parts {
        offset += part.len();
        frame.extend((offset as u64).to_le_bytes());
    }
    frame.extend(parts.iter().flatten());
    frame
}

fn decode_v1(frame: &[u8]) -> Result<Message, WireError> {
    let number = |index: usize| -> Result<usize, WireError> {
        let at = index.checked_mul(8).ok_or(WireError::Offsets)?;
        let bytes = frame.get(at..).and_then(|rest| rest.first_chunk::<8>()).ok_or(WireError::Offsets)?;
        usize::try_from(u64::from_le_bytes(*bytes)).map_err(|_| WireError::Offsets)
    };
    let count = number(0)?;
    // The offsets alone can't be longer than the frame, so a lying count allocates nothing.
    if count < 6 || count > frame.len() / 8 {
        return Err(WireError::Offsets);
    }
    let offsets = (1..=count).map(number).collect::<Result<Vec<_>, _>>()?;
    let parts = offsets.windows(2).map(|pair| frame.get(pair[0]..pair[1]).ok_or(WireError::Offsets));
    let parts = parts.collect::<Result<Vec<_>, _>>()?;
    let [channel, header, parent_header, metadata, content, buffers @ ..] = parts.as_slice() else {
        return Err(WireError::Offsets);
    };
    Ok(Message {
        channel: String::from_utf8_lossy(channel).into_owned(),
        header: parse(header)?,
        parent_header: parse(parent_header)?,
        metadata: parse(metadata)?,
        // An output that can't be read is missed where it belongs; a message that is dropped isn't.
        content: parse(content).unwrap_or_default(),
        buffers: buffers.iter().map(|buffer| buffer.to_vec()).collect(),
    })
}

fn encode_legacy(message: &Message) -> String {
    json!({
        "channel": message.channel, "header": message.header, "parent_header": message.parent_header,
        "metadata": message.metadata, "content": message.content, "buffers": [],
    })
    .to_string()
}

fn decode_legacy(frame: &str) -> Result<Message, WireError> {
    let mut value: Value = serde_json::from_str(frame)?;
    let mut take = |key: &str| value.get_mut(key).map(Value::take).unwrap_or_default();
    Ok(Message {
        channel: take("channel").as_str().unwrap_or_default().to_owned(),
        header: take("header"),
        parent_header: take("parent_header"),
        metadata: take("metadata"),
        content: take("content"),
        buffers: Vec::new(),
    })
}

/// JSON, where a kernel may have put bytes that are no UTF-8 into a string.
fn parse(bytes: &[u8]) -> Result<Value, WireError> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(serde_json::from_str(text)?),
        Err(_) => Ok(serde_json::from_str(&String::from_utf8_lossy(bytes))?),
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 12, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((".{0,6}", inner), 0..4)
                    .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
            ]
        })
    }

    fn message() -> impl Strategy<Value = Message> {
        let buffers = prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..4);
        ("[a-z]{0,8}", value(), value(), value(), value(), buffers).prop_map(
            |(channel, header, parent_header, metadata, content, buffers)| Message {
                channel,
                header,
                parent_header,
                metadata,
                content,
                buffers,
            },
        )
    }

    proptest! {
        #[test]
        fn v1_carries_everything(message in message()) {
            let Frame::Binary(frame) = Framing::V1.encode(&message) else { panic!("not binary") };
            prop_assert_eq!(decode_v1(&frame).unwrap(), message);
        }

        #[test]
        fn legacy_carries_everything_but_buffers(message in message()) {
            let decoded = decode(&Framing::Legacy.encode(&message)).unwrap().unwrap();
            prop_assert_eq!(decoded, Message { buffers: Vec::new(), ..message });
        }

        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode_v1(&bytes);
            let _ = decode_legacy(&String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn a_damaged_frame_is_survived(message in message(), at in 0usize..96, byte in any::<u8>(), cut in 0usize..200) {
            let mut frame = encode_v1(&message);
            let at = at % frame.len();
            frame[at] = byte;
            let _ = decode_v1(&frame);
            frame.truncate(cut);
            let _ = decode_v1(&frame);
        }
    }

    #[test]
    fn the_layout_is_the_protocols() {
        let empty = json!({});
        let message = Message {
            channel: "shell".to_owned(),
            header: empty.clone(),
            parent_header: empty.clone(),
            metadata: empty.clone(),
            content: json!({"a": 1}),
            buffers: vec![vec![7, 8]],
        };
        let mut expected = Vec::new();
        for number in [7u64, 64, 69, 71, 73, 75, 82, 84] {
            expected.extend(number.to_le_bytes());
        }
        expected.extend(b"shell{}{}{}{\"a\":1}\x07\x08");
        assert_eq!(encode_v1(&message), expected);
    }

    #[test]
    fn lying_counts_and_offsets_are_errors() {
        for numbers in
            [vec![u64::MAX], vec![6, 0, u64::MAX], vec![6, 56, 50, 40, 30, 20, 10], vec![5, 48, 48, 48, 48, 48]]
        {
            let frame: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            assert!(matches!(decode_v1(&frame), Err(WireError::Offsets)), "{numbers:?}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        assert_eq!(parse(b"{\"text\":\"a\xed\xa0\x80b\"}").unwrap()["text"], "a\u{fffd}\u{fffd}\u{fffd}b");
    }

    #[test]
    fn unreadable_content_keeps_its_message() {
        let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
        let mut message = Message { header: json!({ "msg_type": "display_data" }), ..Message::default() };
        message.content = Value::Null;
        let mut frame = encode_v1(&message);
        frame.truncate(frame.len() - 4);
        frame.extend(deep.as_bytes());
        let end = 8 * 7..8 * 8;
        // The last offset is the sixth of the six; the count comes first.
        let length = frame.len() as u64;
        frame[end.start - 8..end.end - 8].copy_from_slice(&length.to_le_bytes());
        let decoded = decode_v1(&frame).unwrap();
        assert_eq!((decoded.message_type(), &decoded.content), ("display_data", &Value::Null));
    }

    #[test]
    fn frames_without_a_message_are_none() {
        assert!(decode(&Frame::Ping(Vec::new().into())).is_none());
    }
}
