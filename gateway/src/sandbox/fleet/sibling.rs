//! Sandboxes that another gateway on the same data directory looks after: used here, never ended.

use std::collections::HashMap;
use std::sync::{Arc, MutexGuard, PoisonError};

use super::super::{Owner, Record, SandboxId, Status};
use super::{Fleet, Sandbox};
use crate::jupyter::Server;

impl Fleet {
    /// A sibling's sandbox. Its token is derived, so whoever has the master key can use it.
    pub(super) fn sibling(&self, owner: &Owner, name: &str) -> Option<Arc<Sandbox>> {
        let record = self.records.find(owner, name, self.instance.id()).ok()??;
        let mut siblings = self.siblings();
        if !self.is_usable(&record) {
            siblings.remove(&record.id);
            return None;
        }
        if let Some(sandbox) = siblings.get(&record.id) {
            return Some(Arc::clone(sandbox));
        }
        let server = Server::of_sandbox(record.url.as_deref()?, self.token(&record)?).ok()?;
        let id = record.id.clone();
        let sandbox = Arc::new(Sandbox::new(record, server, None));
        siblings.insert(id, Arc::clone(&sandbox));
        Some(sandbox)
    }

    pub(super) fn siblings(&self) -> MutexGuard<'_, HashMap<SandboxId, Arc<Sandbox>>> {
        self.siblings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_usable(&self, record: &Record) -> bool {
        // Also one that was a sibling's a moment ago and is just being taken over.
        record.status == Status::Running && !self.found().contains_key(&record.id)
    }
}
