//! Another machine's network, as far as one machine can have one: a namespace whose packets can be dropped.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU8, Ordering};

/// A network namespace and the cable to it, until this value goes. Needs root.
pub(crate) struct Network {
    name: String,
    address: String,
}

impl Network {
    /// A new one, or why there can't be one here.
    pub(crate) fn new() -> Result<Self, String> {
        static NUMBER: AtomicU8 = AtomicU8::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("cg{}n{number}", std::process::id());
        let network = Self { name, address: format!("10.213.{number}.2") };
        let (near, far, name) = (format!("{}a", network.name), format!("{}b", network.name), &network.name);
        for command in [
            format!("ip netns add {name}"),
            format!("ip link add {near} type veth peer name {far} netns {name}"),
            format!("ip address add 10.213.{number}.1/30 dev {near}"),
            format!("ip link set {near} up"),
            format!("ip -n {name} address add {}/30 dev {far}", network.address),
            format!("ip -n {name} link set {far} up"),
            format!("ip -n {name} link set lo up"),
        ] {
            run(&command)?;
        }
        Ok(network)
    }

    /// Its only machine's address.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// A command that runs a program there.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(program);
        command
    }

    /// From now on nothing comes through, and nobody is told.
    pub(crate) fn drop_packets(&self) {
        run(&format!("ip netns exec {} iptables -I INPUT -i {}b -j DROP", self.name, self.name)).expect("a rule");
    }

    /// Everything comes through again.
    pub(crate) fn pass_packets(&self) {
        run(&format!("ip netns exec {} iptables -F INPUT", self.name)).expect("no rule");
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = run(&format!("ip link delete {}a", self.name));
        let _ = run(&format!("ip netns delete {}", self.name));
    }
}

fn run(command: &str) -> Result<(), String> {
    let mut words = command.split(' ');
    let ran = Command::new(words.next().unwrap_or_default()).args(words).output();
    match ran {
        Ok(ran) if ran.status.success() => Ok(()),
        Ok(ran) => Err(format!("{command}: {}", String::from_utf8_lossy(&ran.stderr).trim())),
        Err(error) => Err(format!("{command}: {error}")),
    }
}
