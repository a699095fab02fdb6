//! Text as a terminal would show it in the end.
//!
//! Carriage returns, backspaces, cursor movements and erasures are applied; colours, hyperlinks, titles
//! and every other control go away. Only the newest lines can still be written over, as on a screen.
//! Linear in the text, and never much larger than it.

mod screen;

use std::borrow::Cow;

use screen::Screen;
use vte::{Params, Parser, Perform};

/// What a terminal shows of the text: no control character but TAB and LF is left.
pub fn plain(text: &str) -> String {
    if !text.chars().any(|c| c.is_control() && !matches!(c, '\t' | '\n')) {
        return text.to_owned();
    }
    let mut terminal = Terminal { screen: Screen::new(text.len()) };
    let mut parser: Parser = Parser::new();
    parser.advance(&mut terminal, without_strings(text).as_bytes());
    terminal.screen.finish()
}

/// Takes out what is addressed to the terminal itself: titles, links' targets, images.
///
/// One that never ends would swallow all that follows, so of such only the introducer goes.
fn without_strings(text: &str) -> Cow<'_, str> {
    let mut kept = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        let one_line = match rest.as_bytes().get(at + 1) {
            Some(b']') => true,
            Some(b'P' | b'X' | b'^' | b'_') => false,
            _ => {
                kept.push_str(&rest[..=at]);
                rest = &rest[at + 1..];
                continue;
            }
        };
        kept.push_str(&rest[..at]);
        rest = &rest[at + 2..];
        rest = &rest[string_length(rest, one_line).unwrap_or(0)..];
    }
    if kept.is_empty() && rest.len() == text.len() {
        return Cow::Borrowed(text);
    }
    kept.push_str(rest);
    Cow::Owned(kept)
}

/// How long the string with its terminator (BEL, or ESC and a backslash) is, when it has one.
fn string_length(text: &str, one_line: bool) -> Option<usize> {
    let stop = |c: char| matches!(c, '\u{7}' | '\u{1b}') || (one_line && c == '\n');
    let at = text.find(stop)?;
    match &text.as_bytes()[at..] {
        [b'\x07', ..] => Some(at + 1),
        [b'\x1b', b'\\', ..] => Some(at + 2),
        _ => None,
    }
}

struct Terminal {
    screen: Screen,
}

impl Perform for Terminal {
    fn print(&mut self, character: char) {
        if !character.is_control() {
            self.screen.print(character);
        }
    }

    fn execute(&mut self, byte: u8) {
        match byte {
            b'\n' | b'\x0b' | b'\x0c' => self.screen.new_line(),
            b'\r' => self.screen.column(0),
            b'\t' => self.screen.print('\t'),
            b'\x08' => self.screen.left(1),
            _ => {}
        }
    }

    fn csi_dispatch(&mut self, params: &Params, intermediates: &[u8], _: bool, action: char) {
        if !intermediates.is_empty() {
            return;
        }
        let mut numbers = params.iter().map(|param| usize::from(param.first().copied().unwrap_or(0)));
        let first = numbers.next().unwrap_or(0);
        let second = numbers.next().unwrap_or(0);
        let steps = first.max(1);
        match action {
            'A' => self.screen.up(steps),
            'B' | 'e' => self.screen.down(steps),
            'C' | 'a' => self.screen.right(steps),
            'D' => self.screen.left(steps),
            'E' => {
                self.screen.down(steps);
                self.screen.column(0);
            }
            'F' => {
                self.screen.up(steps);
                self.screen.column(0);
            }
            'G' | '`' => self.screen.column(steps - 1),
            'H' | 'f' => self.screen.place(steps - 1, second.max(1) - 1),
            'J' => self.screen.erase_display(first),
            'K' => self.screen.erase_line(first),
            'X' => self.screen.erase(steps),
            _ => {}
        }
    }

    fn esc_dispatch(&mut self, intermediates: &[u8], _: bool, byte: u8) {
        match (intermediates, byte) {
            ([], b'D' | b'E') => self.screen.new_line(),
            ([], b'M') => self.screen.up(1),
            ([], b'c') => self.screen.erase_display(2),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::plain;

    #[test]
    fn text_without_controls_stays_as_it_is() {
        assert_eq!(plain("one\n\ttwo ö\n\n"), "one\n\ttwo ö\n\n");
    }

    #[test]
    fn a_progress_bar_ends_as_one_line() {
        assert_eq!(plain("  0%|   | 0/3\r 33%|#  | 1/3\r100%|###| 3/3\n"), "100%|###| 3/3\n");
        assert_eq!(plain("10/10 done\r9/10 "), "9/10  done");
        assert_eq!(plain("a\r\nb\r\n"), "a\nb\n");
        assert_eq!(plain("spin |\x08/\x08-"), "spin -");
    }

    #[test]
    fn the_cursor_moves_up_and_erases() {
        let text = "outer 1\n  inner\n\x1b[A\x1b[2Kouter 2\x1b[?25l\x1b[?25h\nend\n";
        assert_eq!(plain(text), "outer 1\nouter 2\nend\n");
        assert_eq!(plain("a\nb\nc\n\x1b[3A\x1b[JX"), "X");
        assert_eq!(plain("abcdef\x1b[3D\x1b[K"), "abc");
        assert_eq!(plain("abcdef\r\x1b[1C\x1b[2X"), "a  def");
        assert_eq!(plain("abc\x1b[1Kd"), "   d");
        assert_eq!(plain("frame 1\n\x1b[2J\x1b[Hframe 2\n"), "frame 2\n");
        assert_eq!(plain("\x1b[5Cx"), "     x");
    }

    #[test]
    fn colours_links_and_titles_go_and_their_text_stays() {
        let text = "\x1b[1;31mred\x1b[0m \x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\ \x1b]0;title\x07end";
        assert_eq!(plain(text), "red link end");
        assert_eq!(plain("plain [0-9]* stays\x1b[m"), "plain [0-9]* stays");
        assert_eq!(plain("a\u{9b}31mb\u{7f}\0c"), "a31mbc");
    }

    #[test]
    fn a_string_that_never_ends_swallows_nothing() {
        assert_eq!(plain("a\x1b]0;no end\nb\n"), "a0;no end\nb\n");
        assert_eq!(plain("a\x1bPno end\nb\n"), "ano end\nb\n");
        assert_eq!(plain("a\x1bPq#0;1~\x1b\\b"), "ab");
        assert_eq!(plain("end\x1b"), "end");
        assert_eq!(plain("end\x1b["), "end");
    }

    #[test]
    fn long_output_scrolls_out_of_reach_whole() {
        let text = (0..5_000).map(|n| format!("line {n}")).collect::<Vec<_>>().join("\r\n");
        let plain = plain(&format!("{text}\r\n\x1b[9999A\x1b[2K"));
        assert!(plain.starts_with("line 0\nline 1\n"), "what scrolled away can't be erased");
        assert!(plain.lines().count() > 4_900);
    }

    #[test]
    fn hostile_movements_stay_small() {
        let padding = "\x1b[9999Cx\n".repeat(20_000);
        assert!(plain(&padding).len() < padding.len() * 3);
        let erasing = format!("{}{}", "x".repeat(60_000), "\x1b[1K".repeat(60_000));
        assert!(plain(&erasing).len() <= 70_000);
        let strings = "\x1bP".repeat(200_000);
        assert_eq!(plain(&strings), "");
    }

    #[test]
    fn fifty_megabytes_of_progress_take_no_time_to_speak_of() {
        let text = "50%|#####     | 1/2 [00:01<00:01,  1.00it/s]\r".repeat(1_200_000);
        let began = std::time::Instant::now();
        assert_eq!(plain(&text).lines().count(), 1);
        assert!(began.elapsed().as_secs() < 20);
    }

    proptest! {
        #[test]
        fn nothing_but_tab_and_line_feed_is_left(text in "(\\PC|\\x1b\\[[0-9]{0,3}[A-KXHf]|[\\x00-\\x1f]|\\x1b[\\]PX_^]){0,80}") {
            prop_assert!(!plain(&text).chars().any(|c| c.is_control() && !matches!(c, '\t' | '\n')));
        }
    }
}
