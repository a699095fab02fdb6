//! The text of one stream: all of it, up to a size that no notebook should have.

/// Bytes kept of the beginning, and at least as many of the end, of a stream that never stops.
const KEPT: usize = 8 << 20;
/// How far back the end of a stream is looked at.
const END: usize = 8 << 10;

/// Text of one name, in the order in which it came.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    name: String,
    head: String,
    tail: String,
    lost: usize,
}

impl Stream {
    pub(super) fn new(name: &str, text: &str) -> Self {
        let mut stream = Self { name: name.to_owned(), head: String::new(), tail: String::new(), lost: 0 };
        stream.push(text);
        stream
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn push(&mut self, text: &str) {
        self.push_within(KEPT, text);
    }

    /// The whole text; where some of it is lost, a line says so.
    pub(super) fn text(&self) -> String {
        let lost = match self.lost {
            0 => String::new(),
            lost => {
                format!("\n[{lost} bytes of output were dropped here: the gateway keeps the beginning and the end]\n")
            }
        };
        [self.head.as_str(), &lost, &self.tail].concat()
    }

    /// The newest text, as much as news of a run can need.
    pub(super) fn end(&self) -> &str {
        let newest = if self.tail.is_empty() { &self.head } else { &self.tail };
        newest.get(boundary(newest, newest.len().saturating_sub(END))..).unwrap_or_default()
    }

    /// The tail is cut once it is twice as long as it has to be, so a push stays cheap.
    fn push_within(&mut self, kept: usize, text: &str) {
        if self.tail.is_empty() && self.head.len() + text.len() <= kept {
            self.head.push_str(text);
            return;
        }
        self.tail.push_str(text);
        if self.tail.len() > 2 * kept {
            let cut = boundary(&self.tail, self.tail.len() - kept);
            self.tail.drain(..cut);
            self.lost += cut;
        }
    }
}

/// The first place from `at` on where a character begins.
fn boundary(text: &str, at: usize) -> usize {
    (at..text.len()).find(|&at| text.is_char_boundary(at)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_stream_that_never_stops_keeps_its_beginning_and_its_end() {
        let mut stream = Stream::new("stdout", "");
        for line in 0..1000 {
            stream.push_within(100, &format!("line {line} é\n"));
        }
        let text = stream.text();
        assert!(text.starts_with("line 0 é\n") && text.ends_with("line 999 é\n"), "{text}");
        assert!(text.contains("bytes of output were dropped"));
        assert!(text.len() < 400, "{}", text.len());
    }

    proptest! {
        #[test]
        fn what_is_kept_and_what_is_lost_add_up(texts in prop::collection::vec("[aé\n]{0,20}", 0..40)) {
            let mut stream = Stream::new("stdout", "");
            for text in &texts {
                stream.push_within(30, text);
            }
            let whole = texts.concat();
            prop_assert_eq!(stream.head.len() + stream.lost + stream.tail.len(), whole.len());
            prop_assert!(whole.starts_with(&stream.head) && whole.ends_with(&stream.tail));
            prop_assert_eq!(stream.lost > 0, stream.text().contains("dropped"));
        }
    }
}
