//! What processes that code starts put out.

use serde_json::json;

use crate::harness::Desk;

async fn printed(desk: &Desk, code: &str) -> String {
    desk.client.call("execute_code", json!({"code": code})).await.ok().outputs()
}

#[tokio::test]
async fn what_a_child_writes_is_in_the_answer_of_its_cell() {
    let desk = Desk::new().await;
    for number in 0..50 {
        let code = format!("import subprocess\nended = subprocess.run(['echo', 'child {number}'])");
        assert_eq!(printed(&desk, &code).await, format!("child {number}\n"));
    }
    let both = printed(&desk, "import os\nstatus = os.system('echo out; echo err >&2')").await;
    assert!(both.contains("out") && both.contains("[stderr] err"), "{both}");
}

#[tokio::test]
async fn what_a_child_writes_is_where_it_was_written() {
    let desk = Desk::new().await;
    let code = "import os\nfor n in range(20):\n    print('before', n)\n    os.system(f'echo child {n}')\n    print('after', n)";
    let expected: Vec<_> = (0..20).map(|n| format!("before {n}\nchild {n}\nafter {n}\n")).collect();
    assert_eq!(printed(&desk, code).await, expected.concat());
}

#[tokio::test]
async fn much_that_a_child_writes_is_whole_and_no_character_is_damaged() {
    let desk = Desk::new().await;
    let file = desk.create("nb").await;
    let code = "import subprocess, sys\nended = subprocess.run([sys.executable, '-c', \"print('é€🎈' * 200_000)\"])";
    desk.ok("insert_execute_code_cell", json!({"cell_index": -1, "cell_source": code})).await;
    let saved = crate::harness::read_json(&file)["cells"][0]["outputs"][0]["text"].clone();
    let text: String = match saved.as_array() {
        Some(lines) => lines.iter().filter_map(|line| line.as_str()).collect(),
        None => saved.as_str().unwrap_or_default().to_owned(),
    };
    assert!(text == format!("{}\n", "é€🎈".repeat(200_000)), "{} characters", text.chars().count());
    // Bytes that are no text leave a mark, and the kernel goes on.
    assert!(printed(&desk, "import os\nwritten = os.write(1, b'a\\xffb\\n')").await.contains("a\u{fffd}b"));
    assert_eq!(printed(&desk, "print('alive')").await, "alive\n");
}

#[tokio::test]
async fn a_child_that_goes_on_writing_holds_nothing_up() {
    let desk = Desk::new().await;
    let code = "import subprocess\nchild = subprocess.Popen(['yes', 'noise'])\nprint('went on')";
    assert!(printed(&desk, code).await.contains("went on"));
    printed(&desk, "child.kill()\nended = child.wait()").await;
    // A forked child of the kernel itself prints too.
    let code = "import multiprocessing\nfork = multiprocessing.get_context('fork')\n\
        child = fork.Process(target=lambda: print('from a fork'))\nchild.start()\nchild.join()\nprint('joined')";
    let text = printed(&desk, code).await;
    assert!(text.contains("from a fork") && text.contains("joined"), "{text}");
}
