//! What much output costs: the reducer, which makes a cell's outputs of messages, and the renderer and the result layer, which make an
//! answer of those; each at half the size as well, to see that twice as much takes twice as long.

use std::time::{Duration, Instant};

use cellgate::answer::{Answer, Contract, Limits, Shape, render, seal};
use cellgate::nbformat::Outputs;
use clap::Parser;
use serde_json::{Value, json};

const ROUNDS: usize = 5;

#[derive(Parser)]
struct Arguments {
    /// What cargo passes to every bench
    #[arg(long, hide = true)]
    bench: bool,
}

/// The messages of a run, made one by one: they are not there all at once in a gateway either.
struct Run {
    name: &'static str,
    messages: usize,
    message: fn(usize) -> (&'static str, Value),
}

const RUNS: [Run; 6] = [
    Run { name: "100,000 lines, a message each", messages: 100_000, message: line },
    Run { name: "50 MB in messages of 50 KB", messages: 1_000, message: block },
    Run { name: "50 MB of progress bars (CR)", messages: 10_000, message: bars },
    Run { name: "50 MB of cursor movements", messages: 10_000, message: movements },
    Run { name: "10,000 displays", messages: 10_000, message: display },
    Run { name: "100,000 updates of one display", messages: 100_000, message: update },
];

fn stream(text: &str) -> (&'static str, Value) {
    ("stream", json!({"name": "stdout", "text": text}))
}

fn line(number: usize) -> (&'static str, Value) {
    stream(&format!("line {number} of the output of a cell\n"))
}

fn block(_: usize) -> (&'static str, Value) {
    stream(&"fifty characters of text that somebody prints...\n\n".repeat(1_000))
}

fn bars(_: usize) -> (&'static str, Value) {
    stream(&"\r 50%|#####     | 1/2 [00:01<00:01,  1.00it/s]    ".repeat(100))
}

fn movements(_: usize) -> (&'static str, Value) {
    stream(&"first\n\u{1b}[31msecond\u{1b}[0m\u{1b}[A\u{1b}[2K\u{1b}[10Cx\u{1b}[B\r".repeat(125))
}

fn display(number: usize) -> (&'static str, Value) {
    (
        "display_data",
        json!({"data": {"text/plain": format!("<display {number}>"), "text/html": "<b>shown</b>"}, "metadata": {}}),
    )
}

fn update(number: usize) -> (&'static str, Value) {
    let kind = if number == 0 { "display_data" } else { "update_display_data" };
    let content = json!({"data": {"text/plain": number.to_string()}, "metadata": {}, "transient": {"display_id": "d"}});
    (kind, content)
}

struct Cost {
    reduce: Duration,
    render: Duration,
    seal: Duration,
    /// In megabytes.
    peak: f64,
}

fn cost(run: &Run, messages: usize) -> Cost {
    let contract = Contract { tool: "execute_code", kind: "code.execute", shape: Shape::Outputs, cache_ms: None };
    forget_peak();
    let before = memory("VmRSS:");
    let (mut outputs, mut reduce) = (Outputs::default(), Duration::ZERO);
    for number in 0..messages {
        let (kind, content) = (run.message)(number);
        let begun = Instant::now();
        outputs.apply(kind, &content);
        reduce += begun.elapsed();
    }
    let begun = Instant::now();
    let parts = render(&outputs.to_json());
    let rendered = begun.elapsed();
    let begun = Instant::now();
    let sealed = seal(&contract, Ok(Answer::outputs(parts)), &Limits::default(), &[]);
    let cost = Cost { reduce, render: rendered, seal: begun.elapsed(), peak: memory("VmHWM:") - before };
    assert!(!sealed.is_error && sealed.structured["count"].as_u64() >= Some(1), "the answer is whole");
    cost
}

/// A figure of this process in `/proc`, in megabytes.
fn memory(of: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(of)).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap_or_default() * 1024.0 / 1e6
}

/// The peak counts from here on (`proc_pid_clear_refs(5)`).
fn forget_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

fn median(costs: &[Cost], of: impl Fn(&Cost) -> f64) -> f64 {
    let mut figures: Vec<f64> = costs.iter().map(of).collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn main() {
    if !Arguments::parse().bench {
        return println!("this measures: run it with `cargo bench --bench outputs`");
    }
    println!("| output | reduce, ms | render, ms | seal, ms | all, times half as much | peak, MB |");
    println!("| --- | --: | --: | --: | --: | --: |");
    for run in RUNS {
        let measured = |messages| (0..ROUNDS).map(|_| cost(&run, messages)).collect::<Vec<_>>();
        let all = |cost: &Cost| (cost.reduce + cost.render + cost.seal).as_secs_f64();
        let (half, whole) = (measured(run.messages / 2), measured(run.messages));
        let milliseconds = |of: fn(&Cost) -> Duration| median(&whole, |cost| of(cost).as_secs_f64() * 1e3);
        println!(
            "| {} | {:.1} | {:.1} | {:.1} | {:.2} | {:.0} |",
            run.name,
            milliseconds(|cost| cost.reduce),
            milliseconds(|cost| cost.render),
            milliseconds(|cost| cost.seal),
            median(&whole, all) / median(&half, all),
            median(&whole, |cost| cost.peak),
        );
    }
}
