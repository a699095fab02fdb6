//! SVG: models take no such images, so a line stands for it.

use super::html::without_tags;
use crate::answer::plain;
use crate::answer::text::{characters, cut, size, start};

/// As much of the drawing is looked through for words.
const READ: usize = 100_000;
/// As many characters of its words are shown.
const SHOWN: usize = 500;

/// Type, size and the words in the drawing.
pub(super) fn line(svg: &str) -> String {
    let words = plain(&without_tags(start(svg, READ)));
    let words = cut(&words, SHOWN, characters).unwrap_or(words);
    let size = size(svg.len());
    if words.is_empty() {
        return format!("[image/svg+xml, {size}: a drawing without text in it; show it as PNG to see it]");
    }
    format!("[image/svg+xml, {size}: a drawing with this text in it; show it as PNG to see it]\n{words}")
}
