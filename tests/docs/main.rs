//! The documentation is what the code says: pages made from the catalogue don't drift.
//! `CELLGATE_UPDATE=1` writes them.

mod page;

use std::path::{Path, PathBuf};

use cellgate::tools::CATALOGUE;
use page::reference_page;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_path_buf()
}

#[test]
fn every_tool_has_its_page() {
    let folder = root().join("docs/tools");
    let update = std::env::var_os("CELLGATE_UPDATE").is_some();
    let mut drifted = Vec::new();
    for tool in CATALOGUE.iter() {
        let file = folder.join(format!("{}.md", tool.contract.tool));
        let page = reference_page(tool);
        if update {
            std::fs::write(&file, &page).unwrap();
        }
        if std::fs::read_to_string(&file).unwrap_or_default() != page {
            drifted.push(tool.contract.tool);
        }
    }
    assert!(drifted.is_empty(), "CELLGATE_UPDATE=1 cargo test --test docs writes the pages of {drifted:?}");
}

#[test]
fn there_is_no_page_without_a_tool() {
    let pages = std::fs::read_dir(root().join("docs/tools")).unwrap();
    for page in pages {
        let name = page.unwrap().file_name().into_string().unwrap();
        let tool = name.trim_end_matches(".md");
        assert!(CATALOGUE.iter().any(|entry| entry.contract.tool == tool), "{name}");
    }
}

#[test]
fn the_readme_names_every_tool() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    for tool in CATALOGUE.iter() {
        let link = format!("[`{0}`](docs/tools/{0}.md)", tool.contract.tool);
        assert!(readme.contains(&link), "the README lacks {link}");
    }
}

#[test]
fn the_readme_says_what_a_provider_does_not_do() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    assert!(readme.contains("**none**: cells run as you"));
}

#[test]
fn the_table_of_kinds_is_the_catalogue() {
    let page = std::fs::read_to_string(root().join("docs/results.md")).unwrap();
    for tool in CATALOGUE.iter() {
        let contract = &tool.contract;
        let shape = format!("{:?}", contract.shape).to_lowercase();
        let row = format!("| `{}` | `{}` | {shape} |", contract.kind, contract.tool);
        assert!(page.contains(&row), "docs/results.md lacks {row}");
    }
}
