//! What the messages on a kernel's socket say about the kernel. Pure: no I/O and no clock.

use super::wire::Message;

/// How far a socket's conversation with its kernel has come.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    /// The kernel has answered us on this socket, on the shell channel and on iopub.
    live: bool,
    questions: Vec<Question>,
    replied: bool,
    idle: bool,
    /// The `execute_request` that the kernel works on, whoever sent it.
    occupied: Option<String>,
}

/// A `kernel_info_request` of ours.
#[derive(Debug)]
struct Question {
    id: String,
    /// Its reply came on the shell channel.
    replied: bool,
    /// Its idle status came on iopub, and so did all that was put out before.
    idle: bool,
}

/// What a message told.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// Nothing about the kernel itself.
    Nothing,
    /// The shell channel is through with everything that was sent before our last question.
    Replied,
    /// So is iopub: whatever was put out before that question has come.
    Answered,
    /// The kernel's process is a new one: what ran is over.
    Restarted,
    /// The kernel is gone for good.
    Dead,
}

impl Conversation {
    /// Starts over: another socket, or another process behind it.
    pub(super) fn begin(&mut self) {
        *self = Self::default();
    }

    /// Notes that a `kernel_info_request` of that id is on its way.
    pub(super) fn asked(&mut self, id: String) {
        self.questions.push(Question { id, replied: false, idle: false });
    }

    /// From here on, answers to what was asked so far say nothing.
    pub(super) fn forget_questions(&mut self) {
        self.questions.clear();
    }

    /// Whether nothing the kernel says can be missed any more.
    pub(super) fn is_live(&self) -> bool {
        self.live
    }

    /// Whether the kernel answered on shell, but nothing came by iopub yet.
    pub(super) fn misses_iopub(&self) -> bool {
        self.replied && !self.idle
    }

    /// Whether the kernel works on somebody's code.
    pub(super) fn is_occupied(&self) -> bool {
        self.occupied.is_some()
    }

    /// Takes note of a message.
    pub(super) fn receive(&mut self, message: &Message) -> Seen {
        match message.message_type() {
            "status" => self.status(message),
            "kernel_info_reply" => {
                let Some(question) = self.question(message) else { return Seen::Nothing };
                question.replied = true;
                let seen = if question.idle { Seen::Answered } else { Seen::Replied };
                self.replied = true;
                self.settle();
                seen
            }
            // A shutdown that restarts is told to everyone; the new process says nothing by itself.
            "shutdown_reply" if message.channel == "iopub" && message.content.get("restart") == Some(&true.into()) => {
                self.restarted()
            }
            _ => Seen::Nothing,
        }
    }

    fn status(&mut self, message: &Message) -> Seen {
        let state = message.word("execution_state");
        if message.parent_id().is_empty() {
            return match state {
                "restarting" | "autorestarting" => self.restarted(),
                // Every kernel says so once; while we are live, it is another one.
                "starting" if self.live => self.restarted(),
                "dead" => Seen::Dead,
                _ => Seen::Nothing,
            };
        }
        if state == "idle"
            && let Some(question) = self.question(message)
        {
            // iopub is in order: what was executed before our question has ended.
            question.idle = true;
            let seen = if question.replied { Seen::Answered } else { Seen::Nothing };
            self.idle = true;
            self.occupied = None;
            self.settle();
            return seen;
        }
        if message.parent_type() == "execute_request" {
            match state {
                "busy" => self.occupied = Some(message.parent_id().to_owned()),
                "idle" if self.occupied.as_deref() == Some(message.parent_id()) => self.occupied = None,
                _ => {}
            }
        }
        Seen::Nothing
    }

    fn restarted(&mut self) -> Seen {
        self.begin();
        Seen::Restarted
    }

    fn settle(&mut self) {
        self.live |= self.replied && self.idle;
    }

    fn question(&mut self, message: &Message) -> Option<&mut Question> {
        self.questions.iter_mut().find(|question| question.id == message.parent_id())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(message_type: &str, parent: (&str, &str), content: serde_json::Value) -> Message {
        Message {
            channel: "iopub".to_owned(),
            header: json!({ "msg_type": message_type }),
            parent_header: json!({ "msg_type": parent.0, "msg_id": parent.1 }),
            content,
            ..Message::default()
        }
    }

    fn status(state: &str, parent: (&str, &str)) -> Message {
        message("status", parent, json!({ "execution_state": state }))
    }

    fn unparented(state: &str) -> Message {
        Message { parent_header: json!({}), ..status(state, ("", "")) }
    }

    const HELLO: (&str, &str) = ("kernel_info_request", "h");

    fn live() -> Conversation {
        let mut conversation = Conversation::default();
        conversation.asked("h".to_owned());
        assert_eq!(conversation.receive(&message("kernel_info_reply", HELLO, json!({}))), Seen::Replied);
        assert_eq!(conversation.receive(&status("idle", HELLO)), Seen::Answered);
        assert!(conversation.is_live());
        conversation
    }

    #[test]
    fn live_needs_both_channels() {
        let mut conversation = Conversation::default();
        conversation.asked("h".to_owned());
        conversation.receive(&message("kernel_info_reply", HELLO, json!({})));
        assert!(!conversation.is_live() && conversation.misses_iopub());
        conversation.receive(&status("idle", ("kernel_info_request", "somebody's")));
        assert!(!conversation.is_live());
        conversation.receive(&status("idle", HELLO));
        assert!(conversation.is_live());
    }

    #[test]
    fn somebodys_cell_occupies_the_kernel_until_its_own_idle() {
        let mut conversation = live();
        conversation.receive(&status("busy", ("execute_request", "a")));
        conversation.receive(&status("idle", ("comm_msg", "b")));
        assert!(conversation.is_occupied());
        conversation.receive(&status("idle", ("execute_request", "a")));
        assert!(!conversation.is_occupied());
    }

    #[test]
    fn other_requests_do_not_occupy_it() {
        let mut conversation = live();
        conversation.receive(&status("busy", ("complete_request", "a")));
        assert!(!conversation.is_occupied());
    }

    #[test]
    fn restarts_are_told_apart_from_starts() {
        let mut conversation = Conversation::default();
        assert_eq!(conversation.receive(&unparented("starting")), Seen::Nothing);
        for state in ["restarting", "starting"] {
            let mut conversation = live();
            assert_eq!(conversation.receive(&unparented(state)), Seen::Restarted);
            assert!(!conversation.is_live());
        }
        assert_eq!(live().receive(&unparented("dead")), Seen::Dead);
        let parent = ("shutdown_request", "x");
        assert_eq!(live().receive(&message("shutdown_reply", parent, json!({ "restart": true }))), Seen::Restarted);
        assert_eq!(live().receive(&message("shutdown_reply", parent, json!({ "restart": false }))), Seen::Nothing);
    }
}
