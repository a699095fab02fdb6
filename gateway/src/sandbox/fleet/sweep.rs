//! What a gateway that died left behind. A living sibling's sandboxes are never touched.

use std::collections::HashSet;
use std::sync::Arc;

use jiff::Timestamp;

use super::super::{Record, Status};
use super::Fleet;

impl Fleet {
    /// Ends the sandboxes of dead gateways: those on record, and those that only their marks tell of.
    pub(super) async fn sweep(self: Arc<Self>) {
        let dead: HashSet<String> = self.instance.dead().into_iter().collect();
        let records = self.records.live().unwrap_or_else(|error| {
            tracing::error!(%error, "the records can't be read");
            Vec::new()
        });
        let mut all_gone = true;
        for record in records {
            if !self.instance.is_alive(&record.instance) {
                all_gone &= self.sweep_record(record).await;
            }
        }
        for provider in &self.providers {
            for (id, instance) in provider.list().await {
                if dead.contains(&instance) {
                    tracing::warn!(sandbox = %id, "ending a sandbox that no record tells of");
                    all_gone &= provider.terminate(&id).await.is_ok();
                }
            }
        }
        if all_gone {
            for instance in &dead {
                self.instance.forget(instance);
            }
        }
        self.swept.send_replace(true);
    }

    async fn sweep_record(&self, mut record: Record) -> bool {
        if let Ok(provider) = self.provider(&record.variant)
            && let Err(error) = provider.terminate(&record.id).await
        {
            tracing::error!(sandbox = %record.id, %error, "a dead gateway's sandbox can't be ended");
            return false;
        }
        record.status = Status::Lost;
        record.status_reason = Some("its gateway ended without stopping it".to_owned());
        record.url = None;
        record.last_activity_at = Timestamp::now();
        tracing::info!(sandbox = %record.id, "cleared away what a dead gateway left");
        self.records.put(&record).inspect_err(|error| tracing::error!(%error, "a record can't be written")).is_ok()
    }
}
