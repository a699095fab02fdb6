//! How to get what an answer had no room for.

use super::Contract;

/// One sentence for a person or a model.
pub(super) fn hint(contract: &Contract) -> &'static str {
    match contract.kind {
        "notebook.read" => {
            "To see the rest, read fewer cells at once (`start_index`, `limit`) or single ones with read_cell."
        }
        "files.list" => "To see the rest, use `start_index` and `limit`, a narrower `pattern` or a deeper `path`.",
        "cell.read" => {
            "To see the rest, run code that prints only the part you need, or leave outputs out with `include_outputs`."
        }
        "cell.execute" | "code.execute" | "cell.insert_execute" => {
            "To see the rest, run code that prints only the part you need, or writes it to a file and reads that in pieces."
        }
        "cell.delete" => "To see the rest, delete fewer cells at once, or read them before.",
        _ => "Ask for less at once.",
    }
}
