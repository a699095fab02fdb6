//! Images in both halves of an answer. Base64 is whole or absent, never cut.

mod format;

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// The types of image that models take.
pub(super) const TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/webp", "image/gif"];

/// Padding may be missing, as some libraries leave it out.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Base64 without the line breaks that notebooks have in it.
pub(super) fn without_breaks(data: &str) -> Cow<'_, str> {
    if data.bytes().any(|byte| byte.is_ascii_whitespace()) {
        Cow::Owned(data.split_ascii_whitespace().collect())
    } else {
        Cow::Borrowed(data)
    }
}

/// Whether this is base64 of something.
pub(super) fn is_base64(data: &str) -> bool {
    !data.is_empty() && BASE64.decode(data).is_ok()
}

/// Whether this is base64 of a whole image of that type.
pub(super) fn is_image(mime_type: &str, data: &str) -> bool {
    BASE64.decode(data).is_ok_and(|bytes| format::is_whole(mime_type, &bytes))
}

/// How many bytes the base64 stands for.
pub(super) fn decoded_length(data: &str) -> usize {
    data.trim_end_matches('=').len() * 3 / 4
}

/// The image as the structured half has it: whole, or by size and digest where it is too large.
pub(super) fn structured(mime_type: &str, data: &str, limit: usize) -> Value {
    if decoded_length(data) <= limit && limit > 0 {
        return json!({"type": "image", "mimeType": mime_type, "data": data});
    }
    let bytes = BASE64.decode(data).unwrap_or_default();
    let digest = format!("{:x}", Sha256::digest(&bytes));
    json!({"type": "image", "mimeType": mime_type, "size": bytes.len(), "sha256": digest})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_image_is_told_by_size_and_digest() {
        let value = structured("image/png", "aGVsbG8=", 4);
        let digest = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
        assert_eq!(value, json!({"type": "image", "mimeType": "image/png", "size": 5, "sha256": digest}));
        assert_eq!(structured("image/png", "aGVsbG8=", 5)["data"], "aGVsbG8=");
        assert!(structured("image/png", "aGVsbG8=", 0).get("data").is_none());
    }

    #[test]
    fn padding_may_be_missing_but_nothing_else() {
        assert!(is_base64("aGVsbG8") && is_base64("aGVsbG8="));
        assert!(!is_base64("") && !is_base64("not base64!"));
        assert_eq!(decoded_length("aGVsbG8="), 5);
        assert_eq!(without_breaks("aGVs\nbG8=\n"), "aGVsbG8=");
    }
}
