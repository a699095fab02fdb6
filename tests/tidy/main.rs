//! Holds the shape of the tree: `use` arrows point down, and heavy crates stay in their room.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The floors, lowest first. A floor may use those before it; those that share a line don't know each other.
const FLOORS: [&[&str]; 7] = [
    &["nbformat", "database", "audit", "points"],
    &["answer", "jupyter"],
    &["sandbox"],
    &["workspace"],
    &["tools"],
    &["mcp"],
    &["stdio", "http"],
];

/// Crates that only files whose path starts so may name.
const ROOMS: [(&str, &str); 4] =
    [("bollard", "sandbox/docker"), ("kube", "sandbox/kubernetes"), ("axum", "http"), ("yrs", "jupyter/collaboration")];

#[test]
fn arrows_between_floors_point_down() {
    let wrong = scan(|path, text| Some(upward_arrows(floor_of(path)?, text)));
    assert!(wrong.is_empty(), "these use what is above or beside them:\n{}", wrong.join("\n"));
}

#[test]
fn heavy_crates_stay_in_their_room() {
    let wrong = scan(|path, text| Some(strangers(path, text)));
    assert!(wrong.is_empty(), "these crates are named outside their room:\n{}", wrong.join("\n"));
}

#[test]
fn an_upward_arrow_is_found_in_every_form() {
    for text in [
        "use crate::tools::Catalogue;",
        "use crate::{nbformat::Cell, tools};",
        "use crate::{\n    nbformat::{Cell, Edit},\n    tools::{self, Tool},\n};",
        "fn f() { crate::tools::list() }",
        "use super::super::tools::Tool;\nuse crate :: tools;",
    ] {
        assert_eq!(upward_arrows("jupyter", text), ["tools"], "{text}");
    }
    assert_eq!(upward_arrows("jupyter", "use crate::answer::Answer;"), ["answer"]);
    assert!(upward_arrows("tools", "use crate::{nbformat, workspace::{Caller, tools}};").is_empty());
    assert!(upward_arrows("jupyter", "// see crate::tools\n/// and [`crate::tools`]").is_empty());
    assert_eq!(strangers("mcp.rs", "use axum::Router;"), ["axum"]);
    assert_eq!(strangers("sandbox/fleet.rs", "kube::Client::new()"), ["kube"]);
    assert!(strangers("http/health.rs", "use axum::Router;\nlet maxaxum::x;").is_empty());
}

/// What `find` says about each source file, with the file's path in front.
fn scan(find: impl Fn(&str, &str) -> Option<Vec<String>>) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("gateway/src");
    let mut files = Vec::new();
    collect(&root, &mut files);
    assert!(files.len() > 20, "the sources are not where this test looks for them");
    let mut found = Vec::new();
    for file in files {
        let path = file.strip_prefix(&root).expect("below the root").to_string_lossy().into_owned();
        let text = fs::read_to_string(&file).expect("a source file is readable");
        found.extend(find(&path, &text).into_iter().flatten().map(|what| format!("{path}: {what}")));
    }
    found
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a source folder is readable").flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

fn floor_of(path: &str) -> Option<&str> {
    let first = path.split('/').next()?.trim_end_matches(".rs");
    FLOORS.iter().copied().flatten().copied().find(|floor| *floor == first)
}

/// The modules of this crate that a file of `floor` uses and must not.
fn upward_arrows(floor: &str, text: &str) -> Vec<String> {
    let height = FLOORS.iter().position(|floors| floors.contains(&floor)).expect("a floor");
    let above = FLOORS[height..].iter().copied().flatten().copied().filter(|other| *other != floor);
    let above: BTreeSet<&str> = above.collect();
    let code = code_of(text);
    let mut used = BTreeSet::new();
    for (at, word) in words(&code) {
        let rest = code[at + word.len()..].trim_start();
        if word == "crate" && rest.starts_with("::") {
            used.extend(modules(rest.trim_start_matches(':').trim_start()));
        }
    }
    used.into_iter().filter(|module| above.contains(module.as_str())).collect()
}

/// The first names of a path or of a group of paths: `a` of `a::b`, `a` and `c` of `{a::{x, y}, c}`.
fn modules(path: &str) -> Vec<String> {
    let Some(group) = path.strip_prefix('{') else {
        return words(path).next().map(|(_, word)| word.to_owned()).into_iter().collect();
    };
    let (mut depth, mut names, mut first) = (0, Vec::new(), true);
    let mut skip_to = 0;
    for (at, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => first = true,
            _ if depth == 0 && first && at >= skip_to && character.is_alphabetic() => {
                let (_, word) = words(&group[at..]).next().expect("a letter starts a word");
                names.push(word.to_owned());
                skip_to = at + word.len();
                first = false;
            }
            _ => {}
        }
    }
    names
}

/// The crates that a file names and that live in another room.
fn strangers(path: &str, text: &str) -> Vec<String> {
    let code = code_of(text);
    let named: BTreeSet<&str> = words(&code)
        .filter(|(at, word)| code[at + word.len()..].trim_start().starts_with("::"))
        .map(|(_, word)| word)
        .collect();
    let strangers = ROOMS.iter().filter(|(name, room)| named.contains(name) && !path.starts_with(room));
    strangers.map(|(name, _)| (*name).to_owned()).collect()
}

/// The text without its comments.
fn code_of(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    lines.join("\n")
}

/// The identifiers in a text, with where they start.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + text[at..].find(is_part)?;
        let length = text[start..].find(|character| !is_part(character)).unwrap_or(text.len() - start);
        at = start + length;
        Some((start, &text[start..at]))
    })
}
