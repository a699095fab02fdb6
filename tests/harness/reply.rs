//! A tool's answer, checked when it came.

use serde_json::Value;

use super::check;

/// What a tool answered.
#[derive(Debug)]
pub(crate) struct Reply {
    tool: String,
    result: Value,
}

impl Reply {
    /// Takes the JSON-RPC message; a protocol error, or an answer outside the contract, fails the test.
    pub(crate) fn new(tool: &str, mut message: Value) -> Self {
        let result = message["result"].take();
        assert!(result.is_object(), "{tool} answered a protocol error: {message}");
        check::answer(tool, &result);
        Self { tool: tool.to_owned(), result }
    }

    /// The answer, which has to be a success.
    pub(crate) fn ok(self) -> Self {
        assert!(!self.is_error(), "{} failed: {}", self.tool, self.structured());
        self
    }

    /// The answer, which has to be a failure with one of these codes.
    pub(crate) fn refused(self, codes: &[&str]) -> Self {
        assert!(self.is_error(), "{} should have answered {codes:?}, but succeeded: {}", self.tool, self.structured());
        assert!(codes.contains(&self.code()), "{} should have answered {codes:?}: {}", self.tool, self.structured());
        self
    }

    /// Whether the tool failed.
    pub(crate) fn is_error(&self) -> bool {
        self.result["isError"] == true
    }

    /// The error's code, empty on success.
    pub(crate) fn code(&self) -> &str {
        self.structured()["error"]["code"].as_str().unwrap_or_default()
    }

    /// The whole result.
    pub(crate) fn result(&self) -> &Value {
        &self.result
    }

    /// The half for programs.
    pub(crate) fn structured(&self) -> &Value {
        &self.result["structuredContent"]
    }

    /// One key of the half for programs.
    pub(crate) fn get(&self, key: &str) -> &Value {
        &self.structured()[key]
    }

    /// One key of `_meta`.
    pub(crate) fn meta(&self, key: &str) -> &Value {
        &self.result["_meta"][key]
    }

    /// The half for people and models: every text block.
    pub(crate) fn text(&self) -> String {
        let blocks = self.result["content"].as_array().into_iter().flatten();
        let texts: Vec<&str> = blocks.filter_map(|block| block["text"].as_str()).collect();
        texts.join("\n")
    }

    /// The image blocks as (MIME type, base64).
    pub(crate) fn images(&self) -> Vec<(&str, &str)> {
        let blocks = self.result["content"].as_array().into_iter().flatten();
        blocks.filter_map(|block| Some((block["mimeType"].as_str()?, block["data"].as_str()?))).collect()
    }

    /// The text outputs of an execution or a read cell, joined.
    pub(crate) fn outputs(&self) -> String {
        let outputs = self.get("outputs").as_array().into_iter().flatten();
        let texts: Vec<&str> = outputs.filter_map(Value::as_str).collect();
        texts.join("\n")
    }

    /// The rows of a listing.
    pub(crate) fn items(&self) -> &[Value] {
        self.get("items").as_array().map_or(&[], Vec::as_slice)
    }

    /// The id of the cell that the call acted on.
    pub(crate) fn cell_id(&self) -> String {
        self.get("cell")["id"].as_str().unwrap_or_else(|| panic!("no cell in {}", self.structured())).to_owned()
    }

    /// Asserts that both halves say `words`.
    #[track_caller]
    pub(crate) fn says(self, words: &str) -> Self {
        assert!(self.text().contains(words), "the text does not say {words:?}: {}", self.text());
        let structured = self.structured().to_string();
        let quoted = Value::from(words).to_string();
        assert!(structured.contains(quoted.trim_matches('"')), "the structure does not say {words:?}: {structured}");
        self
    }
}
