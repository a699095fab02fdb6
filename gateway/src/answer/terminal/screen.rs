//! The lines that can still be written over, and those that scrolled away.

use std::collections::VecDeque;

/// How many lines can still be reached.
const LINES: usize = 1_000;
/// How many characters can still be reached, in all lines together.
const CELLS: usize = 1 << 20;
/// How high a screen is taken to be by those who address its lines from the top.
const HEIGHT: usize = 50;
/// How far to the right a movement goes on its own.
const WIDTH: usize = 512;

/// What is on the screen, with the cursor on it. There is always at least one line.
pub(super) struct Screen {
    gone: String,
    lines: VecDeque<Vec<char>>,
    row: usize,
    column: usize,
    /// Characters in `lines`.
    cells: usize,
    /// How many blanks may still be made of nothing: bounds both time and memory.
    blanks: usize,
}

impl Screen {
    /// An empty screen for a text of so many bytes.
    pub(super) fn new(text: usize) -> Self {
        Self {
            gone: String::with_capacity(text / 4),
            lines: VecDeque::from([Vec::new()]),
            row: 0,
            column: 0,
            cells: 0,
            blanks: text.saturating_add(WIDTH),
        }
    }

    /// Everything, the lines that scrolled away first.
    pub(super) fn finish(mut self) -> String {
        let last = self.lines.len() - 1;
        for (at, line) in self.lines.iter().enumerate() {
            self.gone.extend(line);
            if at < last {
                self.gone.push('\n');
            }
        }
        self.gone
    }

    pub(super) fn print(&mut self, character: char) {
        self.pad();
        let line = &mut self.lines[self.row];
        if let Some(cell) = line.get_mut(self.column) {
            *cell = character;
        } else {
            line.push(character);
            self.cells += 1;
        }
        self.column += 1;
        if self.cells > CELLS {
            self.scroll();
        }
    }

    pub(super) fn new_line(&mut self) {
        self.row += 1;
        self.column = 0;
        if self.row == self.lines.len() {
            self.lines.push_back(Vec::new());
        }
        if self.lines.len() > LINES {
            self.scroll();
        }
    }

    pub(super) fn column(&mut self, column: usize) {
        self.column = column.min(WIDTH.max(self.lines[self.row].len()));
    }

    pub(super) fn left(&mut self, steps: usize) {
        self.column = self.column.saturating_sub(steps);
    }

    pub(super) fn right(&mut self, steps: usize) {
        self.column(self.column.saturating_add(steps));
    }

    pub(super) fn up(&mut self, steps: usize) {
        self.row = self.row.saturating_sub(steps);
    }

    pub(super) fn down(&mut self, steps: usize) {
        self.row = self.row.saturating_add(steps).min(self.lines.len() - 1);
    }

    pub(super) fn place(&mut self, row: usize, column: usize) {
        let top = self.lines.len().saturating_sub(HEIGHT);
        self.row = top.saturating_add(row).min(self.lines.len() - 1);
        self.column(column);
    }

    /// Erases so many characters from the cursor on.
    pub(super) fn erase(&mut self, steps: usize) {
        self.blank(self.column, self.column.saturating_add(steps));
    }

    pub(super) fn erase_line(&mut self, mode: usize) {
        match mode {
            0 => self.truncate(self.column),
            1 => self.blank(0, self.column.saturating_add(1)),
            _ => self.truncate(0),
        }
    }

    pub(super) fn erase_display(&mut self, mode: usize) {
        match mode {
            0 => {
                self.truncate(self.column);
                while self.lines.len() > self.row + 1 {
                    self.cells -= self.lines.pop_back().map_or(0, |line| line.len());
                }
            }
            1 if self.row > self.blanks => {}
            1 => {
                self.blanks -= self.row;
                for row in 0..self.row {
                    self.cells -= self.lines[row].len();
                    self.lines[row].clear();
                }
                self.erase_line(1);
            }
            _ => {
                self.lines.clear();
                self.lines.push_back(Vec::new());
                self.cells = 0;
                self.row = 0;
            }
        }
    }

    fn truncate(&mut self, column: usize) {
        let line = &mut self.lines[self.row];
        self.cells -= line.len().saturating_sub(column);
        line.truncate(column);
    }

    fn blank(&mut self, from: usize, to: usize) {
        let line = &mut self.lines[self.row];
        let to = to.min(line.len());
        let Some(part) = line.get_mut(from..to) else { return };
        let wanted = part.len();
        if wanted <= self.blanks {
            self.blanks -= wanted;
            part.fill(' ');
        }
    }

    /// Makes the line reach to the cursor.
    fn pad(&mut self) {
        let line = &mut self.lines[self.row];
        let missing = self.column.saturating_sub(line.len());
        if missing == 0 {
            return;
        }
        if missing > self.blanks {
            self.column = line.len();
            return;
        }
        self.blanks -= missing;
        self.cells += missing;
        line.resize(self.column, ' ');
    }

    /// Lets the oldest line go, or the first half of a single one that is too long.
    fn scroll(&mut self) {
        if self.lines.len() > 1 && self.row > 0 {
            if let Some(line) = self.lines.pop_front() {
                self.cells -= line.len();
                self.gone.extend(line);
                self.gone.push('\n');
                self.row -= 1;
            }
            return;
        }
        let line = &mut self.lines[0];
        let half = line.len() / 2;
        self.gone.extend(line.drain(..half));
        self.cells -= half;
        self.column = self.column.saturating_sub(half);
    }
}
