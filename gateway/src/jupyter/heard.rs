//! What a kernel says of one run: its outputs, its count and its end, which takes a reply and an idle status. Pure.

use serde_json::{Value, json};

use super::Event;
use super::wire::Message;

const OUTPUTS: [&str; 6] = ["stream", "display_data", "execute_result", "error", "clear_output", "update_display_data"];

/// What was said so far.
#[derive(Default)]
pub(super) struct Heard {
    reply: Option<Value>,
    idle: bool,
    count: Option<i64>,
    exception: Option<(String, String)>,
}

/// What one message told.
#[derive(Debug, PartialEq)]
pub(super) enum Told {
    /// Nothing to act upon.
    Nothing,
    /// The kernel works on it.
    Started,
    /// It put something out.
    Output(Event),
    /// It asks for input, with that prompt.
    Input(String),
}

impl Heard {
    /// Takes note of a message that answers the run.
    pub(super) fn take(&mut self, message: Message) -> Told {
        match (message.channel.as_str(), message.message_type()) {
            ("iopub", "status") => match message.word("execution_state") {
                "busy" => return Told::Started,
                "idle" => self.idle = true,
                _ => {}
            },
            ("iopub", "execute_input") => self.count = count(&message.content),
            ("shell", "execute_reply") => {
                self.reply = Some(message.content);
                return Told::Started;
            }
            ("stdin", "input_request") => return Told::Input(message.word("prompt").to_owned()),
            ("iopub", output) if OUTPUTS.contains(&output) => {
                return Told::Output(self.output(output.to_owned(), message.content));
            }
            _ => {}
        }
        Told::Nothing
    }

    /// An output, or a mark in its place when it can't be read.
    pub(super) fn output(&mut self, message_type: String, content: Value) -> Event {
        if !content.is_object() {
            return mark(&format!("an output ({message_type}) could not be read"));
        }
        if message_type == "error" {
            self.exception = exception(&content);
        }
        Event::Output { message_type, content }
    }

    /// Whether the kernel is through with it.
    pub(super) fn is_over(&self) -> bool {
        self.idle && self.reply.is_some()
    }

    /// Whether the kernel left it out, since other code had failed just before.
    pub(super) fn was_aborted(&self) -> bool {
        self.said("status").starts_with("abort")
    }

    /// Whether something was raised, as the reply or an output says.
    pub(super) fn failed(&self) -> bool {
        self.exception.is_some() || self.said("status") != "ok"
    }

    /// The kernel's count of this run.
    pub(super) fn count(&self) -> Option<i64> {
        self.reply.as_ref().and_then(count).or(self.count)
    }

    /// What was raised: the last of the errors that were put out, since replies may lack it.
    pub(super) fn exception(&self) -> Option<(String, String)> {
        self.exception.clone().or_else(|| exception(self.reply.as_ref()?))
    }

    /// What the reply alone has of what is to be seen: an error that was not put out, help, a proposed cell.
    pub(super) fn rest(&mut self) -> Vec<Event> {
        let Some(reply) = self.reply.take() else { return Vec::new() };
        let mut rest: Vec<_> = payloads(&reply).filter_map(shown).collect();
        if self.exception.is_none() && reply["status"] == "error" {
            let content = json!({"ename": reply["ename"], "evalue": reply["evalue"], "traceback": reply["traceback"]});
            rest.push(self.output("error".to_owned(), content));
        }
        self.reply = Some(reply);
        rest
    }

    /// Whether the code asked the kernel to end, as `exit` does.
    pub(super) fn asked_exit(&self) -> bool {
        self.reply
            .iter()
            .flat_map(payloads)
            .any(|payload| payload["source"] == "ask_exit" && payload["keepkernel"] != true)
    }

    fn said(&self, key: &str) -> &str {
        self.reply.as_ref().and_then(|reply| reply.get(key)?.as_str()).unwrap_or_default()
    }
}

/// A line among the outputs that says what is wrong with them.
pub(super) fn mark(words: &str) -> Event {
    let content = json!({ "name": "stderr", "text": format!("[{words}]\n") });
    Event::Output { message_type: "stream".to_owned(), content }
}

fn payloads(reply: &Value) -> impl Iterator<Item = &Value> {
    reply.get("payload").and_then(Value::as_array).into_iter().flatten()
}

/// A payload as an output (messaging protocol, "Payloads").
fn shown(payload: &Value) -> Option<Event> {
    let data = match payload["source"].as_str()? {
        "page" => payload.get("data").filter(|data| data.is_object())?.clone(),
        "set_next_input" => {
            let text = payload["text"].as_str()?;
            json!({"text/plain": format!("[the code proposes this as the next cell's source]\n{text}")})
        }
        _ => return None,
    };
    Some(Event::Output { message_type: "display_data".to_owned(), content: json!({"data": data, "metadata": {}}) })
}

fn count(content: &Value) -> Option<i64> {
    content.get("execution_count").and_then(Value::as_i64)
}

fn exception(content: &Value) -> Option<(String, String)> {
    let text = |key: &str| content.get(key).and_then(Value::as_str).map(str::to_owned);
    Some((text("ename")?, text("evalue").unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(channel: &str, message_type: &str, content: Value) -> Message {
        Message {
            channel: channel.to_owned(),
            header: json!({"msg_type": message_type}),
            content,
            ..Message::default()
        }
    }

    fn over(reply: Value) -> Heard {
        let mut heard = Heard::default();
        heard.take(message("iopub", "status", json!({"execution_state": "busy"})));
        heard.take(message("iopub", "execute_input", json!({"execution_count": 3})));
        assert!(!heard.is_over());
        heard.take(message("shell", "execute_reply", reply));
        heard.take(message("iopub", "status", json!({"execution_state": "idle"})));
        assert!(heard.is_over());
        heard
    }

    #[test]
    fn an_error_that_only_the_reply_has_is_put_out_once() {
        let reply = json!({"status": "error", "ename": "UsageError", "evalue": "no", "traceback": ["UsageError: no"]});
        let mut heard = over(reply.clone());
        let rest = heard.rest();
        assert!(
            matches!(&rest[..], [Event::Output { message_type, content }] if message_type == "error" && content["ename"] == "UsageError")
        );
        assert!(heard.failed() && heard.exception() == Some(("UsageError".to_owned(), "no".to_owned())));
        let mut heard = over(reply);
        heard.take(message("iopub", "error", json!({"ename": "ValueError", "evalue": "no repr", "traceback": []})));
        assert!(heard.rest().is_empty());
        assert_eq!(heard.exception(), Some(("ValueError".to_owned(), "no repr".to_owned())));
    }

    #[test]
    fn help_and_proposed_cells_are_shown_and_exits_are_known() {
        let page = json!({"source": "page", "data": {"text/plain": "Docstring: ..."}, "start": 0});
        let next = json!({"source": "set_next_input", "text": "x = 1", "replace": false});
        let exit = json!({"source": "ask_exit", "keepkernel": false});
        let mut heard = over(json!({"status": "ok", "execution_count": 4, "payload": [page, next, exit]}));
        assert!(heard.asked_exit() && !heard.failed());
        assert_eq!(heard.count(), Some(4));
        let shown = format!("{:?}", heard.rest());
        assert!(shown.contains("Docstring") && shown.contains("x = 1"), "{shown}");
        let stays = json!({"status": "ok", "payload": [{"source": "ask_exit", "keepkernel": true}]});
        assert!(!over(stays).asked_exit());
    }

    #[test]
    fn the_count_is_known_without_a_reply() {
        let mut heard = Heard::default();
        heard.take(message("iopub", "execute_input", json!({"execution_count": 7})));
        assert_eq!(heard.count(), Some(7));
        assert!(over(json!({"status": "aborted"})).was_aborted());
    }

    proptest! {
        #[test]
        fn no_message_is_too_odd(
            kind in prop::sample::select(vec!["status", "execute_input", "execute_reply", "input_request", "error", "stream", "odd"]),
            channel in prop::sample::select(vec!["iopub", "shell", "stdin", ""]),
            content in prop::sample::select(vec![
                json!(null), json!([]), json!("x"), json!({}), json!({"payload": 3}), json!({"payload": [null, {"source": 1}]}),
                json!({"status": 7, "execution_count": "x"}), json!({"execution_state": ["idle"]}), json!({"prompt": null}),
            ]),
        ) {
            let mut heard = Heard::default();
            heard.take(message(channel, kind, content.clone()));
            heard.take(message("shell", "execute_reply", content));
            heard.rest();
            let _ = (heard.count(), heard.exception(), heard.failed(), heard.asked_exit(), heard.is_over());
        }
    }
}
