//! What operators do with a data directory from the command line: look at sandboxes, end them, delete files, change
//! the master key. For people, or as JSON for scripts.

use std::time::Duration;

use anyhow::bail;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::config::Settings;
use crate::sandbox::{self, KeptFiles, Ledger, Record, is_of};
use crate::telemetry::show;

/// Which of a data directory's sandboxes or files are meant.
#[derive(clap::Args, Debug)]
pub struct Selection {
    /// Names, or ids of sandboxes
    pub names: Vec<String>,
    /// Only that principal's: a name, or tenant/principal
    #[arg(long, value_name = "PRINCIPAL")]
    pub principal: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl Selection {
    fn has(&self, record: &Record) -> bool {
        let named = self.names.iter().any(|name| *name == record.name || name == record.id.as_str());
        let of = self.principal.as_deref().is_none_or(|principal| is_of(&record.owner, principal));
        of && (named || self.names.is_empty())
    }

    fn has_files(&self, files: &KeptFiles) -> bool {
        let of = self.principal.as_deref().is_none_or(|principal| is_of(&files.owner, principal));
        of && (self.names.is_empty() || self.names.contains(&files.name))
    }
}

/// Lists everyone's sandboxes, those that ended lately too.
///
/// # Errors
/// When the data directory can't be read.
pub fn list(settings: &Settings, selection: &Selection) -> anyhow::Result<()> {
    let records = Ledger::open(settings.fleet(true))?.list()?;
    let records: Vec<&Record> = records.iter().filter(|record| selection.has(record)).collect();
    if selection.json {
        show!("{}", records.into_iter().map(as_json).collect::<Value>());
        return Ok(());
    }
    let rows = records.iter().map(|record| {
        let reason = record.status_reason.clone().unwrap_or_default();
        [principal(record), record.name.clone(), record.id.to_string(), record.variant.clone()]
            .into_iter()
            .chain([record.status.as_str().to_owned(), age(record.last_activity_at), reason])
            .collect()
    });
    table(&["PRINCIPAL", "NAME", "ID", "VARIANT", "STATUS", "USED", "REASON"], rows.collect());
    Ok(())
}

/// Ends sandboxes, and waits until nothing of them is left. Their files are kept.
///
/// # Errors
/// When one isn't there, several are called so, or one can't be ended.
pub async fn terminate(settings: &Settings, selection: &Selection) -> anyhow::Result<()> {
    let ledger = Ledger::open(settings.fleet(true))?;
    let records = ledger.list()?;
    let mut ended = Vec::new();
    for name in &selection.names {
        let record = one(&records, name, selection)?;
        let record = if record.status.is_live() { ledger.terminate(record).await? } else { record.clone() };
        if !selection.json {
            let files =
                record.files.as_deref().map_or(String::new(), |files| format!("; its files are kept in {files}"));
            show!("{} ({}) is {}{files}", record.name, record.id, record.status.as_str());
        }
        ended.push(as_json(&record));
    }
    if selection.json {
        show!("{}", Value::Array(ended));
    }
    Ok(())
}

fn one<'a>(records: &'a [Record], name: &str, selection: &Selection) -> anyhow::Result<&'a Record> {
    let called = |record: &&Record| record.name == name || record.id.as_str() == name;
    let of = |record: &&Record| selection.principal.as_deref().is_none_or(|wanted| is_of(&record.owner, wanted));
    let found: Vec<&Record> = records.iter().filter(called).filter(of).collect();
    match found.as_slice() {
        [record] => Ok(record),
        [] => bail!("there is no sandbox '{name}' in this data directory; `cellgate list` shows those that are"),
        several => {
            let ids: Vec<String> = several.iter().map(|r| format!("{} ({})", r.id, principal(r))).collect();
            bail!("several principals have a sandbox '{name}': say --principal, or one of the ids {}", ids.join(", "))
        }
    }
}

/// Which files are to be deleted.
#[derive(clap::Args, Debug)]
pub struct Pruning {
    #[command(flatten)]
    selection: Selection,
    /// Only what was not used for that many days
    #[arg(long, value_name = "DAYS", default_value_t = 0)]
    older_than: u64,
    /// Delete; without it they are only listed
    #[arg(long)]
    yes: bool,
}

/// Lists the files that no sandbox uses, and deletes them when that is confirmed.
///
/// # Errors
/// When they can't be read or deleted.
pub async fn prune(settings: &Settings, pruning: &Pruning) -> anyhow::Result<()> {
    let ledger = Ledger::open(settings.fleet(true))?;
    let least = Duration::from_secs(pruning.older_than.saturating_mul(24 * 3600));
    let mut kept = ledger.kept_files().await?;
    kept.retain(|files| pruning.selection.has_files(files) && (pruning.older_than == 0 || files.is_older_than(least)));
    let json = pruning.selection.json;
    if !json {
        let rows = kept.iter().map(|files| {
            let owner = format!("{}/{}", files.owner.tenant, files.owner.principal);
            let bytes = files.bytes.map_or_else(|| "?".to_owned(), size);
            vec![owner, files.name.clone(), bytes, age(files.used_at), files.place.clone()]
        });
        table(&["PRINCIPAL", "NAME", "SIZE", "USED", "FILES"], rows.collect());
    }
    let mut listed = Vec::new();
    for files in &kept {
        let deleted = pruning.yes && ledger.prune(files).await?;
        listed.push(json!({
            "tenant": files.owner.tenant, "principal": files.owner.principal, "name": files.name,
            "path": files.place, "bytes": files.bytes, "used_at": files.used_at.to_string(),
            "deleted": deleted,
        }));
    }
    let deleted = listed.iter().filter(|files| files["deleted"] == true).count();
    match (json, pruning.yes) {
        (true, _) => show!("{}", Value::Array(listed)),
        (false, true) => show!("{deleted} deleted."),
        (false, false) => show!("Nothing was deleted; say --yes to delete these."),
    }
    Ok(())
}

/// Removes what is left in the cluster of sandboxes whose gateway never came back.
///
/// # Errors
/// When the cluster doesn't answer, or refuses.
pub async fn sweep(settings: &Settings) -> anyhow::Result<()> {
    settings.check()?;
    let removed = sandbox::sweep(&settings.fleet(true)).await?;
    for name in &removed {
        show!("{name} was left and is removed");
    }
    show!("{} removed.", removed.len());
    Ok(())
}

/// Makes a new master key.
///
/// # Errors
/// When it can't be written.
pub fn rotate_key(settings: &Settings) -> anyhow::Result<()> {
    let (id, file) = Ledger::open(settings.fleet(true))?.rotate_key()?;
    show!("The new master key {id} is the first one in {}.", file.display());
    show!(
        "Gateways use it from their next start on. Older keys in that file are needed for what was launched or attached with them; \
        take them out when that has ended."
    );
    Ok(())
}

fn as_json(record: &Record) -> Value {
    json!({
        "id": record.id.as_str(),
        "name": record.name,
        "tenant": record.owner.tenant,
        "principal": record.owner.principal,
        "variant": record.variant,
        "status": record.status.as_str(),
        "status_reason": record.status_reason,
        "url": record.url,
        "created_at": record.created_at.to_string(),
        "last_activity_at": record.last_activity_at.to_string(),
        "expires_at": record.expires_at.map(|at| at.to_string()),
        "files": record.files,
    })
}

fn principal(record: &Record) -> String {
    format!("{}/{}", record.owner.tenant, record.owner.principal)
}

/// How long ago, in its largest unit.
fn age(at: Timestamp) -> String {
    let seconds = Timestamp::now().duration_since(at).as_secs().max(0);
    let units = [(86_400, "d"), (3600, "h"), (60, "min")];
    let largest = units.into_iter().find(|(length, _)| seconds >= *length);
    largest.map_or_else(|| format!("{seconds} s"), |(length, unit)| format!("{} {unit}", seconds / length))
}

fn size(bytes: u64) -> String {
    let units = [(1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")];
    let largest = units.into_iter().find(|(length, _)| bytes >= *length);
    largest.map_or_else(|| format!("{bytes} B"), |(length, unit)| format!("{} {unit}", bytes / length))
}

/// Columns as wide as they need, the last one open.
fn table(header: &[&str], rows: Vec<Vec<String>>) {
    let header: Vec<String> = header.iter().map(|&name| name.to_owned()).collect();
    let all: Vec<Vec<String>> = std::iter::once(header).chain(rows).collect();
    let width = |column: usize| all.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..all[0].len()).map(width).collect();
    for row in &all {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        show!("{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_are_told_in_their_largest_unit() {
        assert_eq!([size(7), size(2048), size(3 << 20), size(5 << 30)], ["7 B", "2 KB", "3 MB", "5 GB"]);
    }
}
