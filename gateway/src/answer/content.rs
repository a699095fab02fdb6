//! The blocks of `content`.

use super::fit::{self, Share, Wish};
use super::image::decoded_length;
use super::text::{self, characters, clean, grouped, plural, size};
use super::{Contract, Part, hint::hint};

/// One block of `content`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block {
    /// Text without control characters but TAB, LF and CR; never empty.
    Text(String),
    /// An image; `data` is base64 without line breaks.
    Image {
        /// For example `image/png`.
        mime_type: String,
        /// Base64.
        data: String,
    },
}

/// The largest image that is sent, in bytes: models refuse larger ones, and with them the whole answer.
const IMAGE: usize = 5_000_000;
/// All images of one answer together, in bytes.
const IMAGES: usize = 16_000_000;
/// Above so many blocks, short texts are joined.
const MANY: usize = 100;
/// The first blocks stay by themselves up to this one: `read_cell` has the banner and the source there.
const ALONE: usize = 2;
/// Bytes in a block of joined texts.
const JOINED: usize = 2_000;
/// Room for the sentence that says that something was cut.
const NOTE: usize = 300;

/// A block for each part: images that are too large are told of in words.
pub(super) fn blocks(parts: &[Part]) -> Vec<Block> {
    let mut room = IMAGES;
    let mut blocks: Vec<_> = parts.iter().map(|part| block(part, &mut room)).collect();
    let has_text = blocks.iter().any(|block| matches!(block, Block::Text(_)));
    if blocks.is_empty() {
        blocks.push(Block::Text("[no output]".to_owned()));
    } else if !has_text {
        blocks.insert(0, Block::Text(format!("[{}, no text]", plural(blocks.len(), "image"))));
    }
    if blocks.len() > MANY { joined(blocks) } else { blocks }
}

/// Short texts that follow each other as one block: what surrounds each costs a model more than the text itself.
fn joined(blocks: Vec<Block>) -> Vec<Block> {
    let mut joined: Vec<Block> = Vec::new();
    for (at, block) in blocks.into_iter().enumerate() {
        // What stands first is known by its place, and exceptions are kept before all others.
        if let Block::Text(text) = &block
            && at > ALONE
            && !tells_of_error(text)
            && let Some(Block::Text(before)) = joined.last_mut()
            && joined_length(before, text) <= JOINED
            && !tells_of_error(before)
        {
            if !before.ends_with('\n') {
                before.push('\n');
            }
            before.push_str(text);
        } else {
            joined.push(block);
        }
    }
    joined
}

fn joined_length(before: &str, text: &str) -> usize {
    before.len() + text.len() + 1
}

fn block(part: &Part, room: &mut usize) -> Block {
    match part {
        Part::Text(text) => text_block(text),
        Part::Image { mime_type, data } => {
            let bytes = decoded_length(data);
            if bytes > IMAGE || bytes > *room {
                return Block::Text(format!(
                    "[{mime_type}, {}: not shown for its size; make it smaller, for example with a lower dpi]",
                    size(bytes)
                ));
            }
            *room -= bytes;
            Block::Image { mime_type: mime_type.clone(), data: data.clone() }
        }
    }
}

/// A block of that text. Clients and models refuse empty ones, so what is blank says so.
pub(super) fn text_block(text: &str) -> Block {
    let cleaned = clean(text);
    Block::Text(match cleaned.trim() {
        "" if text.is_empty() => "(empty)".to_owned(),
        "" => "(blank)".to_owned(),
        _ => cleaned.into_owned(),
    })
}

/// The blocks with no more text than `limit`; a last one says what was cut and how to get it.
pub(super) fn limited(blocks: Vec<Block>, limit: usize, contract: &Contract) -> Vec<Block> {
    let wishes: Vec<_> = blocks.iter().enumerate().map(|(at, block)| wish(at, block)).collect();
    let all: usize = wishes.iter().map(|wish| wish.cost).sum();
    if all <= limit {
        return blocks;
    }
    let shares = fit::share(&wishes, limit.saturating_sub(NOTE));
    let mut limited = Vec::new();
    let mut dropped = 0;
    for (block, share) in blocks.into_iter().zip(shares) {
        if share == Share::Dropped {
            dropped += 1;
            continue;
        }
        // Images stay, so what is missing around several of them is told of once.
        if matches!(block, Block::Text(_)) {
            push_gap(&mut limited, &mut dropped);
        }
        limited.push(cut(block, share));
    }
    push_gap(&mut limited, &mut dropped);
    limited.push(Block::Text(format!(
        "[This answer was cut from {} to {} characters of text. {}]",
        grouped(all),
        grouped(limit),
        hint(contract)
    )));
    limited
}

fn push_gap(blocks: &mut Vec<Block>, dropped: &mut usize) {
    if *dropped > 0 {
        blocks.push(Block::Text(gap(*dropped)));
        *dropped = 0;
    }
}

/// What stands where so many outputs were left out.
pub(super) fn gap(dropped: usize) -> String {
    format!("[... {} left out here ...]", plural(dropped, "output"))
}

fn wish(at: usize, block: &Block) -> Wish {
    match block {
        Block::Text(text) => {
            Wish { cost: text::total(text, characters), rigid: false, first: at == 0 || tells_of_error(text) }
        }
        Block::Image { .. } => Wish { cost: 0, rigid: true, first: false },
    }
}

fn cut(block: Block, share: Share) -> Block {
    match (block, share) {
        (Block::Text(text), Share::Cut(room)) => Block::Text(text::cut(&text, room, characters).unwrap_or(text)),
        (block, _) => block,
    }
}

/// Whether the text is an exception: those are kept before all others.
pub(super) fn tells_of_error(text: &str) -> bool {
    let last = text.trim_end().rsplit('\n').next().unwrap_or_default();
    let name = last.split(':').next().unwrap_or_default();
    let is_name = name.len() < 100 && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.'));
    (is_name && ["Error", "Exception", "Interrupt", "Exit"].iter().any(|end| name.ends_with(end)))
        || text.contains("Traceback (most recent call last)")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Shape;

    const CONTRACT: Contract =
        Contract { tool: "execute_cell", kind: "cell.execute", shape: Shape::Outputs, cache_ms: None };

    fn texts(blocks: &[Block]) -> Vec<&str> {
        let mut texts = Vec::new();
        for block in blocks {
            if let Block::Text(text) = block {
                texts.push(text.as_str());
            }
        }
        texts
    }

    fn image(data: String) -> Part {
        Part::Image { mime_type: "image/png".into(), data }
    }

    #[test]
    fn the_first_block_always_says_something() {
        assert_eq!(texts(&blocks(&[])), ["[no output]"]);
        assert_eq!(texts(&blocks(&[Part::Text(String::new())])), ["(empty)"]);
        assert_eq!(texts(&blocks(&[Part::Text("\n".into())])), ["(blank)"]);
        let blocks = blocks(&[image("AAAA".into())]);
        assert_eq!(texts(&blocks), ["[1 image, no text]"]);
        assert_eq!(blocks.len(), 2);
    }

    #[test]
    fn an_image_too_large_for_a_model_is_told_of() {
        let blocks = blocks(&[image("A".repeat(8_000_000)), image("AAAA".into())]);
        assert!(texts(&blocks)[0].starts_with("[image/png, 6.0 MB: not shown for its size"));
        assert_eq!(blocks.len(), 2);
    }

    #[test]
    fn many_outputs_keep_their_ends_and_the_error() {
        let mut parts: Vec<_> = (0..2_000).map(|n| Part::Text(format!("{n} {}", "x".repeat(100)))).collect();
        parts[700] = Part::Text("ValueError: bad row".into());
        parts.insert(3, image("AAAA".into()));
        let limited = limited(blocks(&parts), 10_000, &CONTRACT);
        let texts = texts(&limited);
        assert!(texts.iter().map(|text| text.chars().count()).sum::<usize>() <= 10_000);
        assert!(texts[0].starts_with("0 x") && texts[texts.len() - 2].contains("\n1999 x"));
        assert!(texts.contains(&"ValueError: bad row"));
        assert!(texts.iter().any(|text| text.contains("outputs left out here")));
        assert!(texts[texts.len() - 1].contains("cut from "));
        assert!(limited.iter().any(|block| matches!(block, Block::Image { .. })));
    }

    #[test]
    fn very_many_short_texts_are_few_blocks_in_the_same_order() {
        let mut parts: Vec<_> = (0..10_000).map(|n| Part::Text(format!("{n}"))).collect();
        parts[5_000] = Part::Text("ValueError: bad row".into());
        parts.insert(7_000, image("AAAA".into()));
        let blocks = blocks(&parts);
        assert!(blocks.len() < 100, "{}", blocks.len());
        let lines: Vec<_> = texts(&blocks).iter().flat_map(|text| text.lines()).map(str::to_owned).collect();
        let expected: Vec<_> =
            (0..10_000).map(|n| if n == 5_000 { "ValueError: bad row".to_owned() } else { n.to_string() }).collect();
        assert_eq!(lines, expected);
        assert!(texts(&blocks).contains(&"ValueError: bad row"));
        assert_eq!(&texts(&blocks)[..2], ["0", "1"]);
    }

    #[test]
    fn errors_are_known_by_their_last_line() {
        assert!(tells_of_error("x\nGateError: no traceback here\n"));
        assert!(tells_of_error("KeyboardInterrupt"));
        assert!(!tells_of_error("an Error: of sorts"));
    }
}
