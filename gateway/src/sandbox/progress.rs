//! How a long step tells how it is getting on.

use tokio::sync::mpsc::UnboundedSender;

/// Where news goes; silent by default.
#[derive(Clone, Default)]
pub struct Progress(Option<UnboundedSender<String>>);

impl Progress {
    /// News goes to `listener` for as long as it listens.
    pub fn new(listener: UnboundedSender<String>) -> Self {
        Self(Some(listener))
    }

    /// Tells one line.
    pub fn say(&self, news: impl Into<String>) {
        if let Some(listener) = &self.0 {
            // Nobody listening any more is no reason to stop.
            let _ = listener.send(news.into());
        }
    }
}
