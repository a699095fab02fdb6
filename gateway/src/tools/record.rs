//! A sandbox as answers show it.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::sandbox::Record;
use crate::workspace::Caller;

/// The record that `launch_sandbox` and `list_sandboxes` answer with; times are RFC 3339 UTC.
pub(super) fn of(caller: &Caller, record: &Record, notebooks: &HashMap<String, Vec<String>>) -> Value {
    json!({
        "id": record.id.as_str(),
        "sandbox_id": record.id.as_str(),
        "name": record.name,
        "url": record.url,
        "variant": record.variant,
        "status": record.status.as_str(),
        "status_reason": record.status_reason,
        "active": caller.is_active(record.id.as_str()),
        "image": record.image,
        "environment": record.environment,
        "gpu": record.gpu,
        "created_at": record.created_at.to_string(),
        "last_activity_at": record.last_activity_at.to_string(),
        "expires_at": record.expires_at.map(|at| at.to_string()),
        "attached_notebooks": notebooks.get(&record.name).cloned().unwrap_or_default(),
    })
}
