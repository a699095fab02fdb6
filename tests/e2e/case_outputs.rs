//! Case 07: saved outputs of every kind, as a model reads them.

use serde_json::{Value, json};

use crate::harness::{Desk, Reply};

async fn zoo() -> Desk {
    let desk = Desk::new().await;
    desk.open_case("07_output_zoo.ipynb").await;
    desk
}

async fn read(desk: &Desk, cell: &str) -> Reply {
    let reply = desk.ok("read_cell", json!({"cell_id": cell})).await;
    let count = reply.get("count").as_u64().unwrap();
    assert_eq!(Some(count), reply.get("outputs").as_array().map(|outputs| outputs.len() as u64));
    assert_eq!(reply.get("source"), &json!(format!("# saved output {cell}")));
    reply
}

/// The outputs after banner and source.
fn own(reply: &Reply) -> Vec<Value> {
    reply.get("outputs").as_array().unwrap()[2..].to_vec()
}

fn own_text(reply: &Reply) -> String {
    own(reply).iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn case_07_streams_are_kept_apart_or_marked() {
    let desk = zoo().await;
    let z00 = read(&desk, "z00").await;
    assert_eq!(own_text(&z00).trim_end(), "one\ntwo");
    let z01 = read(&desk, "z01").await;
    let text = own_text(&z01);
    assert!(text.contains("out-1") && text.contains("err-1") && text.contains("out-2"), "{text}");
    assert!(text.to_lowercase().contains("stderr"), "stderr is not marked: {text}");
    let z13 = read(&desk, "z13").await;
    let frames: Vec<String> = own_text(&z13).lines().filter(|line| line.contains('|')).map(str::to_owned).collect();
    assert_eq!(frames.len(), 1, "{frames:?}");
    assert!(frames[0].contains("100%|##########| 3/3"), "{frames:?}");
    let z14 = own_text(&read(&desk, "z14").await);
    assert!(z14.contains("plain [0-9]* stays") && z14.contains("link") && !z14.contains('\u{1b}'), "{z14:?}");
}

#[tokio::test]
async fn case_07_an_error_says_its_name_and_value_in_both_halves() {
    let desk = zoo().await;
    let z02 = read(&desk, "z02").await;
    assert!(own_text(&z02).contains("GateError: no traceback here"), "{}", own_text(&z02));
    assert_eq!(z02.get("status"), "error");
    assert_eq!(z02.get("exception")["ename"], "GateError");
    let z03 = read(&desk, "z03").await;
    assert!(own_text(&z03).contains("ValueError: bad row"));
    assert!(!z03.text().contains('\u{1b}'));
    assert_eq!(z03.get("exception")["evalue"], "bad row");
}

#[tokio::test]
async fn case_07_the_best_text_is_chosen_and_no_repr_where_better_exists() {
    let desk = zoo().await;
    assert_eq!(own_text(&read(&desk, "z04").await).trim(), "# Total\n\n**22 mm**");
    assert!(own_text(&read(&desk, "z05").await).contains("$\\frac{a}{b}$"));
    let json = own_text(&read(&desk, "z06").await);
    assert!(json.contains("\"rows\"") && json.contains('2') && !json.contains("object>"), "{json}");
    assert!(
        own_text(&read(&desk, "z07").await).contains("only html")
            || own_text(&read(&desk, "z07").await).contains("only **html**")
    );
    let table = own_text(&read(&desk, "z08").await);
    assert!(table.contains("   a  b\n0  1  2"), "{table}");
    assert!(own_text(&read(&desk, "z12").await).contains("IntSlider(value=7)"));
    assert!(own_text(&read(&desk, "z16").await).contains("application/x-unknown"));
    let plot = own_text(&read(&desk, "z11").await);
    assert!(plot.contains("Bars") && plot.len() < 5000, "{plot}");
}

#[tokio::test]
async fn case_07_images_keep_their_place_their_type_and_their_bytes() {
    let desk = zoo().await;
    let z09 = read(&desk, "z09").await;
    let own_outputs = own(&z09);
    assert_eq!(own_outputs.len(), 3, "{own_outputs:?}");
    assert!(own_outputs[0].as_str().unwrap().contains("before") && own_outputs[2].as_str().unwrap().contains("after"));
    assert_eq!(own_outputs[1]["type"], "image");
    assert!(!own_outputs[1]["data"].as_str().unwrap().contains('\n'));
    assert_eq!(z09.get("images"), 1);
    assert_eq!(z09.images().len(), 1);
    let blocks: Vec<&str> =
        z09.result()["content"].as_array().unwrap().iter().map(|block| block["type"].as_str().unwrap()).collect();
    let image_at = blocks.iter().position(|block| *block == "image").unwrap();
    assert!(image_at > 0 && image_at + 1 < blocks.len(), "{blocks:?}");
    let z10 = read(&desk, "z10").await;
    assert!(z10.images().iter().any(|(kind, _)| *kind == "image/jpeg"));
    assert!(z10.images().iter().all(|(kind, _)| !kind.contains("svg")));
}

#[tokio::test]
async fn case_07_no_output_and_unknown_cells_are_said() {
    let desk = zoo().await;
    let z15 = read(&desk, "z15").await;
    assert_eq!(z15.get("count"), 2);
    let without = desk.ok("read_cell", json!({"cell_id": "z09", "include_outputs": false})).await;
    assert_eq!(without.get("count"), 2);
    let markdown = desk.ok("read_cell", json!({"cell_id": "zhead"})).await;
    assert_eq!(markdown.get("count"), 2);
    assert_eq!(markdown.get("cell")["type"], "markdown");
    let whole =
        desk.ok("read_notebook", json!({"notebook_name": "nb", "response_format": "detailed", "limit": 0})).await;
    assert_eq!(whole.get("total"), 18);
    for id in ["zhead", "z00", "z16"] {
        assert!(whole.text().contains(id), "{id} is not shown");
    }
}
