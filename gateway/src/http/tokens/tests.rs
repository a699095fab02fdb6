use std::fmt::Write as _;
use std::path::Path;

use super::{Principals, Tokens, digest, parsed};
use crate::sandbox::Owner;

fn hash(token: &str) -> String {
    digest(token).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn line(owner: &str, token: &str) -> String {
    format!("{owner} {}\n", hash(token))
}

/// Writes a file and renames it into place, as careful programs do.
fn put(path: &Path, text: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(new, path).unwrap();
}

fn name(tokens: &Tokens, token: &str) -> Option<String> {
    tokens.owner(token).map(|owner| owner.folder())
}

#[test]
fn a_single_token_is_the_local_owners() {
    let tokens = Tokens::single(&"secret".into());
    assert_eq!(tokens.owner("secret"), Some(Owner::local()));
    for wrong in ["", "secre", "secret1", "Secret"] {
        assert_eq!(tokens.owner(wrong), None, "{wrong}");
    }
}

#[test]
fn a_file_may_have_comments_and_several_tokens_for_one_principal() {
    let upper = hash("three").to_uppercase();
    let text = format!(
        "# who may call\r\n\n\t acme   alice\t{}  # until May\n{}acme bob {upper}",
        hash("one"),
        line("acme alice", "two")
    );
    let entries = parsed(&text).unwrap();
    let owner = |token: &str| entries[&digest(token)].folder();
    assert_eq!([owner("one"), owner("two"), owner("three")], ["acme+alice", "acme+alice", "acme+bob"]);
    assert_eq!(parsed(&line("acme alice", "one").repeat(2)).unwrap().len(), 1);
}

#[test]
fn a_wrong_line_is_refused_by_its_number_and_never_repeated() {
    let good = hash("good");
    for (line, words) in [
        (format!("alice {good}"), "three words"),
        (format!("acme alice {good} {good}"), "three words"),
        (format!("acme alice {}", &good[1..]), "64 hexadecimal"),
        (format!("acme alice {}g", &good[1..]), "64 hexadecimal"),
        (format!("acme alice +{}", &good[1..]), "64 hexadecimal"),
        (format!("{good}+ acme {good}"), "tenant"),
        (format!("acme Alice {good}"), "principal"),
        (format!("acme alice {}", hash("")), "empty token"),
        (format!("acme bob {}", hash("other")), "another principal"),
    ] {
        let text = format!("# first\nacme carol {}\n{line}\n", hash("other"));
        let error = parsed(&text).unwrap_err();
        assert!(error.starts_with("line 3: ") && error.contains(words), "{line}: {error}");
        assert!(!error.contains(&good[1..]) && !error.contains(&hash("other")), "{error}");
    }
}

#[test]
fn a_file_that_cannot_be_used_at_the_start_is_refused_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens");
    let refused = || Tokens::open(path.clone(), Principals::One).err().unwrap();
    assert!(refused().contains("can't be read"));
    put(&path, "# nobody yet\n");
    assert!(refused().contains("names nobody"));
    put(&path, "acme alice\n");
    assert!(refused().contains(&format!("{}: line 1", path.display())));
    put(&path, &(line("acme alice", "a") + &line("acme bob", "b")));
    assert!(refused().contains("--allow-unisolated"));
    assert!(Tokens::open(path.clone(), Principals::Many).is_ok());
    assert!(Tokens::open(folder.path().to_owned(), Principals::Many).err().unwrap().contains("regular file"));
}

#[test]
fn a_changed_file_counts_from_the_next_call_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens");
    put(&path, &line("acme alice", "a"));
    let tokens = Tokens::open(path.clone(), Principals::Many).unwrap();
    put(&path, &(line("acme alice", "a") + &line("acme bob", "b")));
    assert_eq!(name(&tokens, "b").as_deref(), Some("acme+bob"));
    put(&path, &line("acme bob", "b"));
    assert_eq!((name(&tokens, "a"), name(&tokens, "b")), (None, Some("acme+bob".to_owned())));
    // Empty as an editor leaves it for a moment, and empty on purpose.
    put(&path, "");
    assert_eq!(name(&tokens, "b").as_deref(), Some("acme+bob"));
    put(&path, "# nobody\n");
    assert_eq!(name(&tokens, "b"), None);
}

#[test]
fn a_link_that_is_turned_to_another_file_is_a_change() {
    let folder = tempfile::tempdir().unwrap();
    let [one, other, link, new] = ["one", "other", "link", "new"].map(|name| folder.path().join(name));
    std::fs::write(&one, line("acme alice", "a")).unwrap();
    std::fs::write(&other, line("acme alice", "b")).unwrap();
    std::os::unix::fs::symlink(&one, &link).unwrap();
    let tokens = Tokens::open(link.clone(), Principals::One).unwrap();
    std::os::unix::fs::symlink(&other, &new).unwrap();
    std::fs::rename(&new, &link).unwrap();
    assert_eq!((name(&tokens, "a"), name(&tokens, "b")), (None, Some("acme+alice".to_owned())));
}

#[test]
fn a_change_that_cannot_be_taken_leaves_the_earlier_tokens_valid() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens");
    put(&path, &line("acme alice", "a"));
    let tokens = Tokens::open(path.clone(), Principals::One).unwrap();
    let told = || tokens.held.lock().unwrap().told.clone().unwrap_or_default();
    for (text, words) in
        [("acme alice\n".to_owned(), "line 1"), (line("acme bob", "b") + &line("x y", "c"), "--variant")]
    {
        put(&path, &text);
        assert_eq!((name(&tokens, "a"), name(&tokens, "b")), (Some("acme+alice".to_owned()), None));
        assert!(told().contains(words), "{}", told());
    }
    std::fs::remove_file(&path).unwrap();
    assert_eq!(name(&tokens, "a").as_deref(), Some("acme+alice"));
    assert!(told().contains("can't be read"), "{}", told());
    put(&path, &line("acme bob", "b"));
    assert_eq!((name(&tokens, "a"), name(&tokens, "b")), (None, Some("acme+bob".to_owned())));
    assert_eq!(told(), "");
}
