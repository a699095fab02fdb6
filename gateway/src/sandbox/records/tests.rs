//! What the table of sandboxes keeps, whom it refuses, and whose a record is.

use std::sync::Arc;

use super::*;

fn record(name: &str, status: Status) -> Record {
    Record {
        id: SandboxId::random(),
        owner: Owner::local(),
        name: name.to_owned(),
        variant: "process".to_owned(),
        generation: 1,
        instance: "i".to_owned(),
        status,
        status_reason: None,
        url: None,
        image: None,
        environment: None,
        gpu: None,
        created_at: Timestamp::now(),
        last_activity_at: Timestamp::now(),
        expires_at: Some(Timestamp::now()),
        digest: "d".to_owned(),
        files: Some("/f".to_owned()),
        ephemeral: false,
        backend: Some("b".to_owned()),
        idle_seconds: Some(3600),
        key_id: "k".to_owned(),
        wish: Status::Running,
        wish_reason: None,
    }
}

fn open(folder: &tempfile::TempDir) -> Records {
    Records::new(Arc::new(Database::open(folder.path()).unwrap()))
}

#[test]
fn there_is_room_for_so_many_of_a_principal_and_in_all() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (open(&folder), open(&folder));
    let room = Capacity { per_principal: 2, in_all: 3 };
    let intend = |records: &Records, principal: &str, name: &str| {
        let owner = Owner { tenant: "local".into(), principal: principal.into() };
        let asked = Record { owner, ..record(name, Status::Pending) };
        records.intend(&asked, None, room).err().map(|refused| match refused {
            Refused::Principal(names) => names.join(" "),
            Refused::InAll => "in all".to_owned(),
            Refused::Name => "name".to_owned(),
            Refused::Database(error) => error.to_string(),
        })
    };
    assert_eq!(intend(&one, "ann", "a"), None);
    assert_eq!(intend(&other, "ann", "a").as_deref(), Some("name"));
    assert_eq!(intend(&other, "ann", "b"), None);
    assert_eq!(intend(&one, "ann", "c").as_deref(), Some("a b"));
    assert_eq!(intend(&one, "bob", "a"), None);
    assert_eq!(intend(&one, "bob", "b").as_deref(), Some("in all"));
}

#[test]
fn one_instance_takes_a_record_over_and_the_first_wish_stands() {
    let folder = tempfile::tempdir().unwrap();
    let records = open(&folder);
    let left = record("a", Status::Running);
    records.put(&left).unwrap();
    assert!(records.take_over(&left.id, "i", "heir").unwrap());
    assert!(!records.take_over(&left.id, "i", "late").unwrap());
    assert!(records.to_end("heir").unwrap().is_empty());
    records.wish(&left.id, Status::Terminated, "first").unwrap();
    records.wish(&left.id, Status::Lost, "second").unwrap();
    let wished = records.to_end("heir").unwrap();
    assert_eq!((wished[0].wish, wished[0].wish_reason.as_deref()), (Status::Terminated, Some("first")));
}

#[test]
fn a_secret_is_kept_beside_its_record() {
    let folder = tempfile::tempdir().unwrap();
    let records = open(&folder);
    let asked = record("a", Status::Pending);
    let room = Capacity { per_principal: 9, in_all: 9 };
    assert!(records.intend(&asked, Some(b"sealed"), room).is_ok());
    records.put(&Record { status: Status::Running, ..asked.clone() }).unwrap();
    assert_eq!(records.secret(&asked.id).unwrap().as_deref(), Some(b"sealed".as_slice()));
}

#[test]
fn a_name_is_live_once() {
    let folder = tempfile::tempdir().unwrap();
    let records = open(&folder);
    let mut first = record("a", Status::Running);
    records.put(&first).unwrap();
    assert!(records.put(&record("a", Status::Pending)).is_err());
    first.status = Status::Terminated;
    records.put(&first).unwrap();
    records.put(&record("a", Status::Pending)).unwrap();
    assert_eq!(records.of(&Owner::local(), "i").unwrap().len(), 1);
    assert_eq!(records.live().unwrap().len(), 1);
}

#[test]
fn a_server_is_attached_to_each_instance_on_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let records = open(&folder);
    let attached = |instance: &str| Record {
        variant: "jupyter-server".to_owned(),
        instance: instance.to_owned(),
        ..record("h:1", Status::Running)
    };
    let (mine, other) = (attached("mine"), attached("other"));
    records.put(&mine).unwrap();
    records.put(&other).unwrap();
    assert!(records.put(&attached("other")).is_err());
    let seen = records.of(&Owner::local(), "mine").unwrap();
    assert_eq!(seen.iter().map(|record| &record.id).collect::<Vec<_>>(), [&mine.id]);
    assert_eq!(records.find(&Owner::local(), "h:1", "mine").unwrap().unwrap().id, mine.id);
    assert!(records.find(&Owner::local(), "h:1", "third").unwrap().is_none());
}

#[test]
fn old_ends_are_forgotten_and_old_lives_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let records = open(&folder);
    for (name, status) in [("ended", Status::Lost), ("runs", Status::Running)] {
        records.put(&Record { last_activity_at: Timestamp::UNIX_EPOCH, ..record(name, status) }).unwrap();
    }
    records.put(&record("new", Status::Terminated)).unwrap();
    records.forget_old().unwrap();
    let names: Vec<_> = records.of(&Owner::local(), "i").unwrap().into_iter().map(|record| record.name).collect();
    assert_eq!(names, ["runs", "new"]);
}

#[test]
fn a_record_is_read_as_it_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let written = record("a", Status::Starting);
    open(&folder).put(&written).unwrap();
    let records = open(&folder);
    let read = records.find(&Owner::local(), "a", "i").unwrap().unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), serde_json::to_value(&written).unwrap());
    let eve = Owner { tenant: "local".into(), principal: "eve".into() };
    assert!(records.find(&eve, "a", "i").unwrap().is_none());
}
