//! The port of a sandbox's Jupyter: chosen by the system, and kept from others until Jupyter has it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use socket2::{Domain, Socket, Type};

/// A port of 127.0.0.1 that the system gives to nobody else.
pub(super) struct Port {
    number: u16,
    /// Bound and never listening. Linux lets a second socket bind beside it when both set `SO_REUSEADDR`, as
    /// Jupyter's does, and meanwhile hands the port to no one who asks for any.
    #[cfg(target_os = "linux")]
    _kept: Socket,
}

impl Port {
    /// Takes a free port.
    pub(super) fn take() -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
        let address = socket.local_addr()?.as_socket_ipv4();
        let number = address.ok_or_else(|| io::Error::other("the socket has no IPv4 address"))?.port();
        Ok(Self {
            number,
            #[cfg(target_os = "linux")]
            _kept: socket,
        })
    }

    /// Its number.
    pub(super) fn number(&self) -> u16 {
        self.number
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::net::Ipv4Addr;

    use super::Port;

    #[test]
    fn a_taken_port_is_given_to_nobody_and_can_be_listened_on() {
        let ports: Vec<Port> = (0..200).map(|_| Port::take().unwrap()).collect();
        let numbers: HashSet<u16> = ports.iter().map(Port::number).collect();
        assert_eq!(numbers.len(), ports.len());
        // The standard library sets SO_REUSEADDR, as Jupyter does.
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, ports[0].number())).unwrap();
        std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    }
}
