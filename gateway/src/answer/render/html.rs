//! HTML as text.

use crate::answer::plain;
use crate::answer::text::{size, start};

/// More than this of a page isn't read.
const READ: usize = 200_000;
/// Deeper nesting isn't laid out: the layout calls itself for each level.
const DEPTH: usize = 100;
/// Characters in a line.
const WIDTH: usize = 120;
/// Elements that never hold others.
const VOID: [&str; 14] =
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr", "!doctype"];

/// What a person would read on the page, or `None` when there is no word on it.
pub(super) fn text(html: &str) -> Option<String> {
    let read = start(html, READ);
    let (page, players) = without_players(read);
    let text = if depth(&page) > DEPTH { None } else { laid_out(&page) };
    let text = plain(&text.unwrap_or_else(|| without_tags(&page)));
    let text = text.trim_matches(|c: char| c == '\n' || c == '\r').trim_end();
    let text = if text.trim().is_empty() { players.join("\n") } else { [text, &players.join("\n")].join("\n") };
    let text = text.trim_end();
    if text.trim().is_empty() {
        return None;
    }
    if read.len() == html.len() {
        return Some(text.to_owned());
    }
    Some(format!("{text}\n[the first {} of {} of HTML]", size(read.len()), size(html.len())))
}

/// The page without what plays or frames something, and a line for each of that: what such an element says to those who can't show it is
/// no output.
fn without_players(html: &str) -> (String, Vec<String>) {
    let lower = html.to_ascii_lowercase();
    let (mut page, mut lines, mut at) = (String::new(), Vec::new(), 0);
    while lines.len() < PLAYERS
        && let Some((begin, name)) = next_player(&lower, at)
    {
        page.push_str(&html[at..begin]);
        let end = format!("</{name}>");
        at = match lower[begin..].find(&end) {
            Some(length) => begin + length + end.len(),
            None => lower[begin..].find('>').map_or(html.len(), |length| begin + length + 1),
        };
        lines.push(player(name, &html[begin..at]));
    }
    page.push_str(&html[at..]);
    (page, lines)
}

/// Where the next one begins, and what it is.
fn next_player(lower: &str, from: usize) -> Option<(usize, &'static str)> {
    lower[from..].match_indices('<').find_map(|(at, _)| {
        let tag = &lower[from + at + 1..];
        let name = ["iframe", "audio", "video"].into_iter().find(|name| tag.starts_with(name))?;
        Some((from + at, name))
    })
}

fn player(name: &str, element: &str) -> String {
    let source = attribute(element, "src").unwrap_or_default();
    match source.strip_prefix("data:") {
        Some(data) => {
            let mime_type = data.split([';', ',']).next().unwrap_or_default();
            format!("[{name}: {}, {}]", plain(start(mime_type, SOURCE)), size(source.len()))
        }
        None if source.is_empty() => format!("[{name}]"),
        None => format!("[{name}: {}]", plain(start(source, SOURCE))),
    }
}

/// So many are looked for in a page.
const PLAYERS: usize = 50;
/// As much of an address is shown.
const SOURCE: usize = 300;

/// The value of the first attribute of that name from here on.
fn attribute<'a>(element: &'a str, name: &str) -> Option<&'a str> {
    let value = element[element.find(&format!("{name}="))? + name.len() + 1..].trim_start();
    let quote = value.chars().next().filter(|quote| matches!(quote, '"' | '\''));
    match quote {
        Some(quote) => value[1..].split(quote).next(),
        None => value.split(|c: char| c.is_whitespace() || c == '>').next(),
    }
}

fn laid_out(html: &str) -> Option<String> {
    let html = without_spans(html);
    let config = html2text::config::plain().link_footnotes(false);
    // The layout gives up on some tables by a panic; the words are still to be had then.
    std::panic::catch_unwind(move || config.string_from_read(html.as_bytes(), WIDTH)).ok()?.ok()
}

/// The page with cells that span no others: a span's number may be anything, and is taken at its word.
fn without_spans(html: &str) -> String {
    let mut pieces = html.split('<');
    let mut single = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (tag, text) = piece.split_at(piece.find('>').unwrap_or(piece.len()));
        let lower = tag.to_ascii_lowercase();
        let spans = lower.contains("colspan") || lower.contains("rowspan");
        let tag = if spans { tag.split_whitespace().next().unwrap_or_default() } else { tag };
        single.extend(["<", tag, text]);
    }
    single
}

/// How deep elements are nested, or more.
fn depth(html: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    for tag in html.split('<').skip(1) {
        let name = tag.split(|c: char| c.is_whitespace() || c == '>').next().unwrap_or_default();
        if name.starts_with('/') {
            depth = depth.saturating_sub(1);
        } else if !VOID.iter().any(|void| name.trim_end_matches('/').eq_ignore_ascii_case(void)) {
            depth += 1;
            deepest = deepest.max(depth);
        }
    }
    deepest
}

/// The text between tags, without what is not for reading.
pub(super) fn without_tags(markup: &str) -> String {
    let mut text = String::new();
    let mut rest = markup;
    while let Some(at) = rest.find('<') {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = HIDDEN.iter().find(|(begin, _)| starts_with(rest, begin)).map_or(">", |(_, end)| end);
        rest = match find(rest, end) {
            Some(at) => &rest[at + end.len()..],
            None => "",
        };
        if !text.ends_with(char::is_whitespace) && !text.is_empty() {
            text.push(' ');
        }
    }
    text.push_str(rest);
    let text = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&nbsp;", " "), ("&amp;", "&")]
        .iter()
        .fold(text, |text, (entity, character)| text.replace(entity, character));
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// How parts begin and end that are not for reading.
const HIDDEN: [(&str, &str); 4] =
    [("<!--", "-->"), ("<script", "</script>"), ("<style", "</style>"), ("<metadata", "</metadata>")];

fn starts_with(text: &str, prefix: &str) -> bool {
    text.as_bytes().get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
}

fn find(text: &str, needle: &str) -> Option<usize> {
    text.as_bytes().windows(needle.len()).position(|window| window.eq_ignore_ascii_case(needle.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_and_styles_are_not_text() {
        let page = "<style>p {}</style><script>var a = '<p>';</script><p>only <b>html</b> &amp; text</p>";
        let text = text(page).unwrap();
        assert!(text.contains("html") && text.contains("& text"), "{text}");
        assert!(!text.contains("var a") && !text.contains("p {}"), "{text}");
        assert_eq!(text_of_nothing(), None);
        assert_eq!(without_tags(page), "only html & text");
    }

    fn text_of_nothing() -> Option<String> {
        text("<div id='plot'></div><script>draw()</script>")
    }

    #[test]
    fn a_table_keeps_its_cells() {
        let text = text("<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>").unwrap();
        assert!(text.contains('a') && text.contains('2'), "{text}");
    }

    #[test]
    fn huge_spans_cost_nothing() {
        for page in [
            "<table><tr><td colspan=4000000000>x</td><td rowspan=4000000000>y</td></tr></table>".to_owned(),
            format!("<table>{}</table>", "<tr><td colspan=1000>x</td><td>y</td></tr>".repeat(3_000)),
            format!("<table><tr>{}</tr></table>", "<td>x</td>".repeat(15_000)),
            format!("<ul>{}</ul>", "<li>x".repeat(30_000)),
            format!("<pre>{}</pre>", "x".repeat(150_000)),
            format!("ö span x{}", "colspan".repeat(25_000)),
        ] {
            let began = std::time::Instant::now();
            assert!(text(&page).unwrap().contains('x'));
            assert!(began.elapsed().as_secs() < 5, "{:?} for {}", began.elapsed(), &page[..60]);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_markup_can_be_read(
            page in "(<(/?(p|table|tr|td|th|b|a|ul|ol|li|pre|img|br|h1|div|style|script|svg)( (colspan|href|style|width|start)=\"[0-9a-z%:-]{0,6}\")?)>|[a-z é\n&;<>]{0,5}){0,40}",
        ) {
            text(&page);
        }
    }

    #[test]
    fn hostile_pages_are_read_all_the_same() {
        for page in [
            "<audio ".repeat(30_000),
            "<div>".repeat(40_000),
            "<b".repeat(90_000),
            "<!--".repeat(50_000),
            "<table><tr><td>".repeat(10_000),
        ] {
            text(&format!("{page}word"));
        }
        let long = text(&"<p>word</p>".repeat(100_000)).unwrap();
        assert!(long.ends_with("[the first 200.0 kB of 1.1 MB of HTML]"), "{}", &long[long.len() - 100..]);
    }
}
