//! 200 random launches, uses, terminations, restarts and kills by three principals, against a model: what runs is what
//! the model says, and what a sandbox remembers is what it was told.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use crate::harness::{Client, Era, Gateway, Process, Start, eventually, marked};

const STEPS: usize = 200;
const LAUNCH: Duration = Duration::from_secs(900);
const SOON: Duration = Duration::from_secs(20);
const PRINCIPALS: [&str; 3] = ["ann", "bob", "cyd"];
const NAMES: [&str; 3] = ["one", "two", "three"];

/// Random numbers that come again with the same seed (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((bits ^ (bits >> 31)) % u64::try_from(bound).expect("small")).expect("small")
    }

    fn of<T: Copy>(&mut self, these: &[T]) -> T {
        these[self.below(these.len())]
    }
}

/// A sandbox as the model has it.
#[derive(Debug)]
enum Modelled {
    Runs { id: String, count: u32 },
    Ended,
}

struct World {
    random: Random,
    data: TempDir,
    gateway: Gateway,
    keeps: bool,
    clients: Vec<Client>,
    model: BTreeMap<(usize, &'static str), Modelled>,
}

fn start(data: &Path, keeps: bool) -> Gateway {
    let tokens = data.join("tokens");
    let start = Start::default().data(data).argument("--tokens").argument(&tokens.to_string_lossy());
    let keeps = format!("--keep-sandboxes={keeps}");
    start.argument("--allow-unisolated").argument(&keeps).env("CELLGATE_DRAIN", "1").serve()
}

/// The sandboxes whose Jupyter runs, from the arguments of their processes.
fn running(data: &Path) -> BTreeMap<String, Process> {
    let servers = marked(data).into_iter().filter(|process| process.command.contains("start_jupyter.py"));
    let id = |process: &Process| {
        let (_, after) = process.command.split_once("/sandboxes/").expect("the sandbox's own directory");
        after.split('/').next().expect("an id").to_owned()
    };
    servers.map(|process| (id(&process), process)).collect()
}

impl World {
    async fn new(seed: u64) -> Self {
        let data = TempDir::new().expect("a directory");
        let line = |principal| format!("acme {principal} {:x}\n", Sha256::digest(format!("token-of-{principal}")));
        std::fs::write(data.path().join("tokens"), PRINCIPALS.map(line).concat()).expect("written");
        let gateway = start(data.path(), false);
        let mut clients = Vec::new();
        for principal in PRINCIPALS {
            let token = format!("token-of-{principal}");
            clients.push(Client::connect_as(gateway.url(), Era::Legacy, "model", Some(&token)).await);
        }
        Self { random: Random(seed), data, gateway, keeps: false, clients, model: BTreeMap::new() }
    }

    fn restart(&mut self) {
        self.keeps = self.random.below(2) == 0;
        self.gateway = start(self.data.path(), self.keeps);
        // The sessions go on; nobody greets again.
        self.clients = self.clients.iter().map(|client| client.at(self.gateway.url())).collect();
    }

    async fn step(&mut self) -> String {
        let (who, name) = (self.random.below(PRINCIPALS.len()), self.random.of(&NAMES));
        let key = (who, name);
        let action = self.random.below(20);
        match action {
            0..=5 => self.launch(key).await,
            6..=11 => self.use_it(key).await,
            12..=14 => self.terminate(key).await,
            15..=16 => self.kill_jupyter(key),
            17 => {
                assert!(self.gateway.end_by("TERM").await.success());
                if !self.keeps {
                    self.model.values_mut().for_each(|sandbox| *sandbox = Modelled::Ended);
                }
                self.restart();
            }
            18 => {
                self.gateway.kill();
                self.restart();
            }
            _ => {
                self.gateway.kill();
                self.kill_jupyter(key);
                self.restart();
            }
        }
        format!("action {action} by {who} on {name}")
    }

    async fn launch(&mut self, key: (usize, &'static str)) {
        let launched =
            self.clients[key.0].call_within(LAUNCH, "launch_sandbox", json!({"sandbox_name": key.1})).await.ok();
        let id = launched.get("sandbox")["id"].as_str().expect("an id").to_owned();
        match self.model.get(&key) {
            Some(Modelled::Runs { id: before, .. }) => assert_eq!(*before, id),
            _ => drop(self.model.insert(key, Modelled::Runs { id, count: 0 })),
        }
    }

    async fn use_it(&mut self, key: (usize, &'static str)) {
        let code = "n = globals().get('n', 0) + 1; print(n)";
        let used = self.clients[key.0].call("execute_code", json!({"code": code, "sandbox_name": key.1})).await;
        match self.model.get_mut(&key) {
            Some(Modelled::Runs { count, .. }) => {
                *count += 1;
                assert_eq!(used.ok().outputs().trim(), count.to_string());
            }
            Some(Modelled::Ended) => drop(used.refused(&["sandbox.gone"])),
            None => drop(used.refused(&["sandbox.not_found"])),
        }
    }

    async fn terminate(&mut self, key: (usize, &'static str)) {
        let ended = self.clients[key.0].call("terminate_sandbox", json!({"sandbox_name": key.1})).await;
        match self.model.get_mut(&key) {
            None => drop(ended.refused(&["sandbox.not_found"])),
            Some(sandbox) => {
                ended.ok();
                *sandbox = Modelled::Ended;
            }
        }
    }

    fn kill_jupyter(&mut self, key: (usize, &'static str)) {
        let Some(Modelled::Runs { id, .. }) = self.model.get(&key) else { return };
        running(self.data.path())[id].kill();
        self.model.insert(key, Modelled::Ended);
    }

    /// What runs is what the model says, sooner or later; what is listed too.
    async fn agrees(&self, after: &str) {
        let modelled = |sandbox: &Modelled| match sandbox {
            Modelled::Runs { id, .. } => Some(id.clone()),
            Modelled::Ended => None,
        };
        let expected: BTreeSet<String> = self.model.values().filter_map(modelled).collect();
        let what = format!("after {after}, what runs is {expected:?}");
        let runs = || running(self.data.path()).into_keys().collect::<BTreeSet<_>>() == expected;
        eventually(&what, SOON, runs).await;
        for (who, client) in self.clients.iter().enumerate() {
            let own = self.model.iter().filter(|((of, _), _)| *of == who).filter_map(|(_, sandbox)| modelled(sandbox));
            let own: BTreeSet<String> = own.collect();
            let begun = Instant::now();
            // A process is gone a moment before its parent hears of it.
            while listed(client).await != own {
                assert!(begun.elapsed() < SOON, "after {after}, {who} has {own:?} and not {:?}", listed(client).await);
            }
        }
    }
}

/// The sandboxes that are listed as running.
async fn listed(client: &Client) -> BTreeSet<String> {
    let listed = client.call("list_sandboxes", json!({})).await.ok();
    let records = listed.get("result").as_array().expect("a list");
    let running = records.iter().filter(|record| record["status"] == "running");
    running.map(|record| record["id"].as_str().expect("an id").to_owned()).collect()
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            marked(self.data.path()).iter().for_each(Process::kill);
        }
    }
}

#[tokio::test]
async fn what_runs_is_what_a_model_says_after_200_random_steps() {
    let seed = std::env::var("CELLGATE_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_261_201);
    println!("CELLGATE_TEST_SEED={seed}");
    let mut world = World::new(seed).await;
    for number in 0..STEPS {
        let step = world.step().await;
        world.agrees(&format!("step {number}: {step}")).await;
    }
    world.keeps = false;
    world.gateway.kill();
    world.gateway = start(world.data.path(), false);
    assert!(world.gateway.end_by("TERM").await.success());
    assert!(marked(world.data.path()).is_empty(), "{:?}", marked(world.data.path()));
}
