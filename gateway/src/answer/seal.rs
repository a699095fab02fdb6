//! From an answer to what is sent: both halves from the same data, cleaned, masked, cut and validated.

mod draft;

use serde_json::{Map, Value, json};

use self::draft::Draft;
use super::mask::Mask;
use super::{Answer, Block, Code, Failure, Shape, schema};

/// What a tool promises about its answers.
#[derive(Debug, Clone, Copy)]
pub struct Contract {
    /// The tool's name.
    pub tool: &'static str,
    /// The `kind` of its answers.
    pub kind: &'static str,
    /// Their shape.
    pub shape: Shape,
    /// For how many milliseconds an answer may be kept by a client.
    pub cache_ms: Option<u64>,
}

/// How large an answer gets. Values too small to say anything in are raised.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// All text blocks together, in characters.
    pub text_chars: usize,
    /// The structured half, in bytes of JSON.
    pub structured_bytes: usize,
    /// Images larger than this are in `content` only; 0 leaves all of them out of the structured half.
    pub image_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { text_chars: 100_000, structured_bytes: 1_000_000, image_bytes: 262_144 }
    }
}

/// An answer as it is sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Sealed {
    /// For people and models; never empty.
    pub content: Vec<Block>,
    /// For programs: an object with `kind`.
    pub structured: Value,
    /// What goes under `_meta`.
    pub meta: Map<String, Value>,
    /// Whether the call failed.
    pub is_error: bool,
}

/// Makes the answer that is sent. None of `secrets` is in it, and it keeps its schemas and limits.
pub fn seal(contract: &Contract, result: Result<Answer, Failure>, limits: &Limits, secrets: &[String]) -> Sealed {
    let mask = Mask::new(secrets);
    let sealed = build(contract, result, limits, &mask);
    let Err(reason) = schema::check(contract, &sealed.structured, sealed.is_error) else {
        return sealed;
    };
    tracing::error!(tool = contract.tool, kind = contract.kind, reason, "an answer breaks its schema");
    let message = format!(
        "The answer of {} was not fit to be sent, which is a mistake of the gateway's own; the call may have done its work.",
        contract.tool
    );
    build(contract, Err(Failure::new(Code::Internal, message)), limits, &mask)
}

fn build(contract: &Contract, result: Result<Answer, Failure>, limits: &Limits, mask: &Mask) -> Sealed {
    let is_error = result.is_err();
    let draft = Draft::new(contract, limits, mask);
    let (mut meta, (content, structured)) = match result {
        Ok(answer) => (cells(contract, &answer.cell_ids), draft.answer(answer)),
        Err(failure) => (cells(contract, &failure.cell_ids), draft.failure(failure)),
    };
    if let (Some(ttl), false) = (contract.cache_ms, is_error) {
        let hint = json!({"ttlMs": ttl, "cacheScope": "private"});
        meta.insert("io.modelcontextprotocol/cache".to_owned(), hint);
    }
    mask.map(&mut meta);
    Sealed { content, structured: Value::Object(structured), meta, is_error }
}

/// Names the cells acted on: of a move the second is the other cell, of a deletion all are alike.
fn cells(contract: &Contract, ids: &[String]) -> Map<String, Value> {
    let mut meta = Map::new();
    if let Some(first) = ids.first() {
        meta.insert("io.jupyter-mcp/cell_id".to_owned(), first.clone().into());
    }
    if ids.len() > 1 {
        let skipped = usize::from(contract.kind == "cell.move");
        meta.insert("io.jupyter-mcp/cell_ids".to_owned(), ids[skipped..].into());
    }
    meta
}

#[cfg(test)]
mod tests;
