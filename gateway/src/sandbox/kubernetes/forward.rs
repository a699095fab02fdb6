//! The way to a pod for a gateway outside the cluster: a listener on the loopback, whose connections the API server forwards.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::objects::PORT;

/// A listener for one pod, until this value goes.
pub(super) struct Forward {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Forward {
    pub(super) async fn to(pods: Api<Pod>, pod: &str) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let (address, pod) = (listener.local_addr()?, pod.to_owned());
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(carry(stream, pods.clone(), pod.clone()));
            }
        });
        Ok(Self { address, task })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Forward {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Each connection is forwarded for itself: a forwarded stream is one connection's worth.
async fn carry(mut stream: TcpStream, pods: Api<Pod>, pod: String) {
    let mut forwarding = match pods.portforward(&pod, &[PORT]).await {
        Ok(forwarding) => forwarding,
        Err(error) => return tracing::debug!(pod, %error, "a connection to a pod can't be forwarded"),
    };
    if let Some(mut inner) = forwarding.take_stream(PORT) {
        let _ = stream.set_nodelay(true);
        // Either side may end it at any time.
        let _ = copy_bidirectional(&mut stream, &mut inner).await;
    }
    forwarding.abort();
}
