//! Running code: results, limits, large output, images, magics.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Desk, read_json, validate_notebook};

async fn run(desk: &Desk, code: &str) -> crate::harness::Reply {
    desk.client.call("execute_code", json!({"code": code})).await
}

#[tokio::test]
async fn an_exception_is_an_output_and_not_a_tool_failure() {
    let desk = Desk::new().await;
    let reply = run(&desk, "print('before')\nraise ValueError('bad é')").await.ok();
    assert_eq!(reply.get("status"), "error");
    assert_eq!(reply.get("exception"), &json!({"ename": "ValueError", "evalue": "bad é"}));
    let text = reply.outputs();
    assert!(text.find("before").unwrap() < text.find("ValueError: bad é").unwrap(), "{text}");
    assert_eq!(run(&desk, "1 + 1").await.ok().outputs(), "2");
}

#[tokio::test]
async fn kernels_that_start_all_at_once_lose_no_first_output() {
    let mut desks = Vec::new();
    for _ in 0..24 {
        desks.push(Desk::new().await);
    }
    // On a machine that is too busy to answer in time, nothing may be taken for lost.
    let runs: Vec<_> =
        desks.iter().map(|desk| desk.client.start("execute_code", json!({"code": "print('here')"}))).collect();
    for run in runs {
        assert_eq!(run.wait().await.ok().outputs().trim(), "here");
    }
}

#[tokio::test]
async fn what_ran_is_saved_with_its_own_types_and_count() {
    let desk = Desk::new().await;
    let file = desk.create("nb").await;
    let code = "import sys\nfrom IPython.display import display\nprint('out')\nprint('err', file=sys.stderr)\ndisplay({'a': 1})\n42";
    let reply = desk.ok("insert_execute_code_cell", json!({"cell_index": -1, "cell_source": code})).await;
    assert_eq!(reply.get("execution_count"), 1);
    let cell = read_json(&file)["cells"][0].clone();
    assert_eq!(cell["execution_count"], 1);
    let mut types: Vec<&str> =
        cell["outputs"].as_array().unwrap().iter().map(|output| output["output_type"].as_str().unwrap()).collect();
    types.sort_unstable();
    assert_eq!(types, ["display_data", "execute_result", "stream", "stream"]);
    validate_notebook(&file);
    desk.ok("insert_execute_code_cell", json!({"cell_index": -1, "cell_source": "1/0"})).await;
    assert_eq!(read_json(&file)["cells"][1]["outputs"][0]["output_type"], "error");
    let again = desk.ok("execute_cell", json!({"cell_index": 0})).await;
    assert_eq!(again.get("execution_count"), 3);
    assert_eq!(read_json(&file)["cells"][0]["execution_count"], 3);
    assert_eq!(read_json(&file)["cells"][0]["outputs"].as_array().map(Vec::len), Some(4));
    validate_notebook(&file);
}

#[tokio::test]
async fn outputs_are_in_the_file_while_the_cell_still_runs() {
    let desk = Desk::new().await;
    let file = desk.create("nb").await;
    let code = "import time\nprint('began', flush=True)\ntime.sleep(4)";
    let mut running = desk
        .client
        .start("insert_execute_code_cell", json!({"cell_index": -1, "cell_source": code, "progress_interval": 1}));
    running.progress_with("began").await;
    crate::harness::eventually("the output is saved", Duration::from_secs(3), || {
        std::fs::read_to_string(&file).is_ok_and(|text| text.contains("began\\n"))
    })
    .await;
    assert!(!running.is_answered(), "it was saved only at the end");
    running.wait().await.ok();
    validate_notebook(&file);
}

#[tokio::test]
async fn execute_code_saves_nothing() {
    let desk = Desk::new().await;
    let file = desk.create("nb").await;
    let before = std::fs::read(&file).unwrap();
    desk.ok("execute_code", json!({"code": "print(1)"})).await;
    assert_eq!(std::fs::read(&file).unwrap(), before);
}

#[tokio::test]
async fn a_time_limit_stops_the_run_in_every_tool_that_executes() {
    let desk = Desk::new().await;
    desk.create("nb").await;
    let code = "import time\nprint('began', flush=True)\ntime.sleep(60)";
    let cell =
        desk.ok("insert_cell", json!({"cell_index": 0, "cell_type": "code", "cell_source": code})).await.cell_id();
    for (tool, arguments) in [
        ("execute_code", json!({"code": code, "timeout": 2})),
        ("execute_cell", json!({"cell_id": cell, "timeout": 2})),
        ("insert_execute_code_cell", json!({"cell_index": -1, "cell_source": code, "timeout": 2})),
    ] {
        let started = Instant::now();
        let reply = desk.refused(&["execution.timeout"], tool, arguments).await;
        assert!(started.elapsed() < Duration::from_secs(6), "{tool}: {:?}", started.elapsed());
        assert!(reply.outputs().contains("began"), "{tool}: {}", reply.outputs());
        assert_eq!(reply.get("status"), "timeout");
    }
    assert_eq!(desk.ok("execute_code", json!({"code": "print('n')"})).await.outputs().trim(), "n");
}

#[tokio::test]
async fn zero_is_the_default_limit_and_more_than_the_ceiling_is_clamped_and_said() {
    let desk = Desk::new().await;
    assert_eq!(desk.ok("execute_code", json!({"code": "1", "timeout": 0})).await.outputs(), "1");
    let clamped = desk.ok("execute_code", json!({"code": "1", "timeout": 99_999})).await;
    assert!(clamped.text().contains("3600"), "{}", clamped.text());
    desk.refused(&["arguments.invalid"], "execute_code", json!({"code": "1", "timeout": -1})).await.says("timeout");
}

#[tokio::test]
async fn large_output_is_cut_in_the_middle_and_kept_whole_in_the_file() {
    let desk = Desk::new().await;
    let file = desk.create("nb").await;
    let code =
        "print('HEAD')\nprint('x' * 5_000_000)\nfor i in range(20_000): print('line', i)\nraise RuntimeError('TAIL')";
    let reply = desk.ok("insert_execute_code_cell", json!({"cell_index": -1, "cell_source": code})).await;
    let text = reply.text();
    assert!(text.chars().count() <= 101_000, "{} characters", text.chars().count());
    assert!(reply.structured().to_string().len() <= 2_500_000, "{} bytes", reply.structured().to_string().len());
    for words in ["HEAD", "TAIL", "line 19999"] {
        assert!(text.contains(words), "{words} did not survive the cut");
    }
    let cell = read_json(&file)["cells"][0].clone();
    let saved: usize = cell["outputs"].as_array().unwrap().iter().map(|output| output.to_string().len()).sum();
    assert!(saved > 5_000_000, "{saved} bytes are saved");
    assert!(cell["outputs"].to_string().contains("line 19999"));
}

#[tokio::test]
async fn a_plot_comes_as_an_image_and_is_saved() {
    let desk = Desk::new().await;
    let file = desk.create("nb").await;
    let code = "import matplotlib.pyplot as plt\nprint('before')\nplt.plot([1, 2])\nplt.show()\nprint('after')";
    let reply = desk.ok("insert_execute_code_cell", json!({"cell_index": -1, "cell_source": code})).await;
    assert_eq!((reply.get("images"), reply.get("count")), (&json!(1), &json!(3)), "{}", reply.get("outputs"));
    assert_eq!(reply.images()[0].0, "image/png");
    let outputs = reply.get("outputs").as_array().unwrap();
    assert!(outputs[0].as_str().unwrap().contains("before") && outputs[2].as_str().unwrap().contains("after"));
    assert!(read_json(&file)["cells"][0]["outputs"].to_string().contains("image/png"));
    validate_notebook(&file);
}

#[tokio::test]
async fn a_large_image_is_whole_in_content_and_a_hash_in_the_structure() {
    let desk = Desk::new().await;
    let code = "import numpy as np, matplotlib.image, io\nfrom IPython.display import Image, display\nb = io.BytesIO()\nmatplotlib.image.imsave(b, np.random.rand(512, 512, 3))\ndisplay(Image(b.getvalue()))";
    let reply = run(&desk, code).await.ok();
    assert_eq!(reply.get("images"), 1);
    let entry = reply
        .get("outputs")
        .as_array()
        .unwrap()
        .iter()
        .find(|entry| entry.is_object())
        .expect("an image entry")
        .clone();
    assert!(entry.get("data").is_none() && entry["size"].as_u64().unwrap() > 262_144, "{}", entry["size"]);
    assert_eq!(entry["sha256"].as_str().map(str::len), Some(64));
    assert_eq!(reply.images().len(), 1);
}

#[tokio::test]
async fn magics_and_shell_lines_work() {
    let desk = Desk::new().await;
    assert_eq!(run(&desk, "!echo hi").await.ok().outputs().trim(), "hi");
    assert_eq!(run(&desk, "%%bash\necho from bash").await.ok().outputs().trim(), "from bash");
    assert!(run(&desk, "%pip --version").await.ok().outputs().contains("pip"));
}

#[tokio::test]
async fn text_that_looks_like_json_or_holds_control_bytes_stays_true_in_the_structure() {
    let desk = Desk::new().await;
    let reply = run(&desk, "print('\\x1b[31mred\\x1b[0m \\x07 bell \\x00 nul')").await.ok();
    assert!(reply.text().contains("red") && reply.text().contains("bell"));
    let reply = run(&desk, "print('{\"kind\": \"fake\", \"result\": 1}')").await.ok();
    assert_eq!(reply.get("kind"), "code.execute");
    let surrogate = run(&desk, "print('\\ud83d lone', ascii('\\ud83d'))").await.ok();
    assert!(surrogate.get("status") == "ok" || surrogate.get("status") == "error", "{}", surrogate.structured());
}

#[tokio::test]
async fn the_seconds_of_a_run_are_its_own() {
    let desk = Desk::new().await;
    run(&desk, "1").await.ok();
    let reply = run(&desk, "import time; time.sleep(1.2)").await.ok();
    let seconds = reply.get("seconds").as_f64().unwrap();
    assert!((1.1..3.0).contains(&seconds), "{seconds}");
    assert_eq!(reply.get("outputs"), &Value::Array(vec![]));
}
