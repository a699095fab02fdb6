//! The queue in front of launches: so many at the same time, the others in the order in which they came.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Semaphore, SemaphorePermit};

use super::super::Progress;

/// Turns to launch.
pub(super) struct Queue {
    turns: Semaphore,
    waiting: AtomicUsize,
}

/// Counts one that waits, until it doesn't any more.
struct Waiting<'a>(&'a AtomicUsize);

impl Queue {
    pub(super) fn new(at_once: usize) -> Self {
        Self { turns: Semaphore::new(at_once), waiting: AtomicUsize::default() }
    }

    /// Waits for a turn, which lasts as long as the answer is held. None once the queue is closed.
    pub(super) async fn turn(&self, progress: &Progress) -> Option<SemaphorePermit<'_>> {
        if let Ok(turn) = self.turns.try_acquire() {
            return Some(turn);
        }
        let ahead = self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiting = Waiting(&self.waiting);
        progress.say(format!("waiting for a turn to launch; {ahead} wait before this one"));
        self.turns.acquire().await.ok()
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Progress, Queue};

    #[tokio::test]
    async fn who_waits_is_told_and_who_gives_up_is_not_counted() {
        let queue = Arc::new(Queue::new(1));
        let first = queue.turn(&Progress::default()).await;
        let wait = || {
            let (sender, news) = tokio::sync::mpsc::unbounded_channel();
            let queue = Arc::clone(&queue);
            (tokio::spawn(async move { queue.turn(&Progress::new(sender)).await.is_some() }), news)
        };
        let (second, mut news) = wait();
        assert!(news.recv().await.unwrap().contains("0 wait before"));
        let (third, mut news) = wait();
        assert!(news.recv().await.unwrap().contains("1 wait before"));
        second.abort();
        assert!(second.await.is_err());
        let (_fourth, mut news) = wait();
        assert!(news.recv().await.unwrap().contains("1 wait before"));
        drop(first);
        assert!(third.await.unwrap());
    }
}
