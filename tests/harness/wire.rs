//! A network in between: a listener on the loopback whose connections are carried to a server until it is frozen or cut.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What the network does with a connection.
#[derive(Clone, Copy, PartialEq)]
enum Line {
    Carries,
    /// No byte passes any more, and nobody is told.
    Frozen,
    /// It is closed.
    Cut,
}

/// The network; it ends with this value.
pub(crate) struct Wire {
    address: SocketAddr,
    /// What becomes of the connections that there are, and of those to come.
    there: Arc<Mutex<watch::Sender<Line>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Wire {
    /// To the server at an address.
    pub(crate) async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("its address");
        let there = Arc::new(Mutex::new(watch::Sender::new(Line::Carries)));
        let lines = Arc::clone(&there);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let line = lines.lock().unwrap().subscribe();
                tokio::spawn(carry(client, server, line));
            }
        });
        Self { address, there, task }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on nothing passes, in connections that there are and in those to come.
    pub(crate) fn freeze(&self) {
        self.there.lock().unwrap().send_replace(Line::Frozen);
    }

    /// Closes the connections that there are; those to come are closed too.
    pub(crate) fn cut(&self) {
        self.there.lock().unwrap().send_replace(Line::Cut);
    }

    /// Connections to come are carried. Those that there are stay as they are.
    pub(crate) fn mend(&self) {
        let mut there = self.there.lock().unwrap();
        // A connection whose sender is gone stays as it was last told.
        drop(std::mem::replace(&mut *there, watch::Sender::new(Line::Carries)));
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn carry(mut client: TcpStream, server: SocketAddr, mut line: watch::Receiver<Line>) {
    let carried = async {
        let told = line.wait_for(|line| *line != Line::Carries).await.map(|line| *line);
        match told {
            Ok(line) => line,
            // Nobody will tell it anything any more: it carries on.
            Err(_) => std::future::pending().await,
        }
    };
    let ended = tokio::select! {
        () = async {
            if let Ok(mut server) = TcpStream::connect(server).await {
                let _ = copy_bidirectional(&mut client, &mut server).await;
            }
        } => Line::Cut,
        ended = carried => ended,
    };
    if ended == Line::Frozen {
        // Held open, for as long as the test runs.
        std::future::pending::<()>().await;
    }
}
