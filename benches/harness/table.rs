//! Samples of times, and the table they are shown in.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

/// How long something took, again and again.
#[derive(Default)]
pub(crate) struct Sample(Vec<Duration>);

impl Sample {
    /// Adds one.
    pub(crate) fn push(&mut self, took: Duration) {
        self.0.push(took);
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing was measured.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The time in milliseconds that this share of the sample stays within: the nearest rank.
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
    pub(crate) fn percentile(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() as f64 * share).ceil() as usize;
        sorted.get(rank.saturating_sub(1)).map_or(f64::NAN, |took| took.as_secs_f64() * 1000.0)
    }
}

/// What a figure has to keep to.
pub(crate) struct Target {
    text: String,
    limit: f64,
}

/// A target that a figure must not be above.
#[expect(clippy::unnecessary_wraps, reason = "a figure without a target is the other case")]
pub(crate) fn most(limit: f64, unit: &str) -> Option<Target> {
    Some(Target { text: format!("<= {limit} {unit}").trim_end().to_owned(), limit })
}

/// Rows in the order they came.
#[derive(Default)]
pub(crate) struct Table(Vec<[String; 6]>);

impl Table {
    /// A sample; its median is held against the target.
    pub(crate) fn sample(&mut self, name: &str, sample: &Sample, target: Option<Target>) {
        let met = target.as_ref().is_none_or(|target| sample.percentile(0.5) <= target.limit);
        self.row(name, sample, (target.map_or_else(String::new, |target| target.text), met));
    }

    /// The gateway's own share of a call, as median and 99th percentile in milliseconds: at most 1 and 5.
    pub(crate) fn share(&mut self, name: &str, [median, tail]: [f64; 2], n: &str) {
        let cells =
            [name.to_owned(), n.to_owned(), format!("{median:.2}"), format!("{tail:.2}"), "<= 1, 5 ms".to_owned()];
        self.push(cells, median <= 1.0 && tail <= 5.0);
    }

    /// A single figure.
    pub(crate) fn figure(&mut self, name: &str, figure: f64, target: Option<Target>) {
        let met = target.as_ref().is_none_or(|target| figure <= target.limit);
        let target = target.map_or_else(String::new, |target| target.text);
        self.push([name.to_owned(), String::new(), format!("{figure:.2}"), String::new(), target], met);
    }

    /// A single figure that must not be below a limit.
    pub(crate) fn at_least(&mut self, name: &str, figure: f64, limit: f64) {
        let cells = [name.to_owned(), String::new(), format!("{figure:.2}"), String::new(), format!(">= {limit}")];
        self.push(cells, figure >= limit);
    }

    fn row(&mut self, name: &str, sample: &Sample, (target, met): (String, bool)) {
        let (median, tail) = (sample.percentile(0.5), sample.percentile(0.99));
        // Of a few, the 99th percentile is just the largest.
        let tail = if sample.0.len() < 100 { format!("max {tail:.2}") } else { format!("{tail:.2}") };
        self.push([name.to_owned(), sample.0.len().to_string(), format!("{median:.2}"), tail, target], met);
    }

    fn push(&mut self, [name, n, median, tail, target]: [String; 5], met: bool) {
        let verdict = if target.is_empty() {
            ""
        } else if met {
            "met"
        } else {
            "MISSED"
        };
        self.0.push([name, n, median, tail, target, verdict.to_owned()]);
    }
}

impl Display for Table {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let head = ["", "n", "p50, or figure", "p99", "target", ""].map(str::to_owned);
        let rule = ["---", "--:", "--:", "--:", "---", "---"].map(str::to_owned);
        let shown: Vec<&[String; 6]> = [&head, &rule].into_iter().chain(&self.0).collect();
        let width = |column: usize| shown.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
        let widths: Vec<usize> = (0..head.len()).map(width).collect();
        for row in shown {
            let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
                if (1..=3).contains(&column) { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
            });
            writeln!(formatter, "| {} |", cells.collect::<Vec<_>>().join(" | "))?;
        }
        Ok(())
    }
}
