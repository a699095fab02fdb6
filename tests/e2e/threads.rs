//! What threads put out is their cell's, and nobody else's.

use serde_json::json;

use crate::harness::Desk;

async fn put_out(desk: &Desk, code: &str) -> String {
    desk.client.call("execute_code", json!({"code": code})).await.ok().outputs()
}

/// A thread that puts out something when told to.
const WAITING: &str = "
import os, sys, threading
from IPython.display import display
told = threading.Event()
def late():
    told.wait()
    print('late line')
    print('late error', file=sys.stderr)
    display('late display')
thread = threading.Thread(target=late)
thread.start()
print('cell ends')";

#[tokio::test]
async fn what_a_thread_puts_out_after_its_cell_is_in_no_other_answer() {
    let desk = Desk::new().await;
    assert_eq!(put_out(&desk, WAITING).await, "cell ends\n");
    let next = "ended = os.system('echo child')\ntold.set()\nthread.join()\nprint('next')";
    assert_eq!(put_out(&desk, next).await, "child\nnext\n");
    // Nor when it comes by while there is something of a child's to take.
    assert_eq!(put_out(&desk, WAITING).await, "cell ends\n");
    let next = "ended = os.write(1, b'written\\n')\ntold.set()\nthread.join()\nprint('next')";
    assert_eq!(put_out(&desk, next).await, "written\nnext\n");
}

#[tokio::test]
async fn what_a_thread_puts_out_in_its_cell_is_in_the_answer() {
    let desk = Desk::new().await;
    let text = put_out(&desk, &format!("{WAITING}\ntold.set()\nthread.join()")).await;
    assert!(
        ["cell ends", "late line", "late error", "late display"].iter().all(|words| text.contains(words)),
        "{text}"
    );
    let nested = "
def outer():
    inner = threading.Thread(target=print, args=['from within'])
    inner.start()
    inner.join()
thread = threading.Thread(target=outer)
thread.start()
thread.join()";
    assert_eq!(put_out(&desk, nested).await, "from within\n");
    let raising = "thread = threading.Thread(target=lambda: 1 / 0)\nthread.start()\nthread.join()";
    let text = put_out(&desk, raising).await;
    assert!(text.contains("ZeroDivisionError") && !text.contains("start_kernel"), "{text}");
}

#[tokio::test]
async fn what_a_pool_is_given_is_of_the_cell_that_gave_it() {
    let desk = Desk::new().await;
    let pools = "
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool
executor, pool = ThreadPoolExecutor(1), ThreadPool(1)
executor.submit(print, 'first').result()
pool.apply(print, ['second'])";
    assert_eq!(put_out(&desk, pools).await, "first\nsecond\n");
    for (code, text) in [
        ("executor.submit(print, 'one').result()", "one\n"),
        ("mapped = list(executor.map(print, 'ab'))", "a\nb\n"),
        ("pool.apply(print, ['two'])", "two\n"),
        ("mapped = pool.map(func=print, iterable='cd', chunksize=1)", "c\nd\n"),
        ("mapped = list(pool.imap(print, 'ef'))", "e\nf\n"),
        ("mapped = pool.starmap(print, [('g', 'h')])", "g h\n"),
        ("import asyncio\nran = await asyncio.to_thread(print, 'three')", "three\n"),
        ("ran = await asyncio.get_running_loop().run_in_executor(executor, print, 'four')", "four\n"),
    ] {
        assert_eq!(put_out(&desk, code).await, text, "{code}");
    }
    let raised = put_out(&desk, "executor.submit(lambda: 1 / 0).result()").await;
    assert!(raised.contains("ZeroDivisionError"), "{raised}");
}
