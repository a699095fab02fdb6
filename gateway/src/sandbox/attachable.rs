//! Which Jupyter servers callers may attach. Away from one's own machine the gateway reaches what its callers can't,
//! so the operator says which.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use url::{Host, Url};

use super::FleetError;

/// The servers that may be attached.
#[derive(Clone, Debug)]
pub enum Attachable {
    /// Any that the gateway reaches: on one's own machine.
    Any,
    /// Those that the operator listed.
    Listed(Vec<Pattern>),
}

/// One entry of the list: `[scheme://]host[:port]`, where the host may begin with `*.`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    scheme: Option<String>,
    host: String,
    port: Option<u16>,
}

impl Attachable {
    /// Refuses a server that is not among them.
    ///
    /// The addresses that its name has now are answered where they are to be the only ones that are ever connected
    /// to, so that the name can't come to mean another machine after it was checked.
    pub(super) async fn check(&self, url: &Url) -> Result<Option<Vec<IpAddr>>, FleetError> {
        let Self::Listed(patterns) = self else { return Ok(None) };
        if !patterns.iter().any(|pattern| pattern.matches(url)) {
            return Err(FleetError::NotAttachable(self.to_string()));
        }
        let addresses = match url.host() {
            Some(Host::Ipv4(address)) => return Ok(Some(vec![address.into()])),
            Some(Host::Ipv6(address)) => return Ok(Some(vec![address.into()])),
            Some(Host::Domain(name)) => resolved(name, url).await?,
            None => Vec::new(),
        };
        // A listed name that leads to this machine, or to the cloud's metadata, is a trick.
        if addresses.is_empty() || addresses.iter().any(is_special) {
            return Err(FleetError::NotAttachable(self.to_string()));
        }
        Ok(Some(addresses))
    }
}

async fn resolved(name: &str, url: &Url) -> Result<Vec<IpAddr>, FleetError> {
    let port = url.port_or_known_default().unwrap_or(80);
    let found = tokio::net::lookup_host((name, port)).await;
    let found = found.map_err(|error| FleetError::Unresolved { name: name.to_owned(), reason: error.to_string() })?;
    Ok(found.map(|address| address.ip()).collect())
}

/// Where a cloud's metadata is that isn't link-local.
const METADATA: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);

fn is_special(address: &IpAddr) -> bool {
    let address = address.to_canonical();
    let link_local = match address {
        IpAddr::V4(address) => address.is_link_local() || address.is_broadcast(),
        IpAddr::V6(address) => address.is_unicast_link_local() || address == METADATA,
    };
    link_local || address.is_loopback() || address.is_unspecified() || address.is_multicast()
}

impl Pattern {
    fn matches(&self, url: &Url) -> bool {
        let host = url.host_str().unwrap_or_default().trim_end_matches('.');
        let host_matches = match self.host.strip_prefix("*.") {
            Some(domain) => host.strip_suffix(domain).is_some_and(|before| before.len() > 1 && before.ends_with('.')),
            None => host == self.host,
        };
        host_matches
            && self.scheme.as_deref().is_none_or(|scheme| scheme == url.scheme())
            && self.port.is_none_or(|port| url.port_or_known_default() == Some(port))
    }
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let invalid = || format!("'{text}' is no server: write host, host:port or https://host, such as *.example.org");
        let (scheme, rest) = text.split_once("://").map_or((None, text), |(scheme, rest)| (Some(scheme), rest));
        if scheme.is_some_and(|scheme| !matches!(scheme, "http" | "https")) {
            return Err(invalid());
        }
        let (wild, name) = rest.strip_prefix("*.").map_or((false, rest), |name| (true, name));
        // The URL parser's rules for hosts, brackets and ports are the ones that addresses are held against.
        let url = Url::parse(&format!("http://{name}")).map_err(|_| invalid())?;
        let plain = url.path() == "/" && !name.ends_with('/') && url.query().is_none() && url.username().is_empty();
        let host = url.host_str().filter(|host| plain && !host.contains('*')).ok_or_else(invalid)?;
        let host = if wild { format!("*.{host}") } else { host.to_owned() };
        let port = name.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        Ok(Self { scheme: scheme.map(str::to_owned), host, port })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(scheme) = &self.scheme {
            write!(formatter, "{scheme}://")?;
        }
        formatter.write_str(&self.host)?;
        self.port.map_or(Ok(()), |port| write!(formatter, ":{port}"))
    }
}

impl fmt::Display for Attachable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => formatter.write_str("any"),
            Self::Listed(patterns) if patterns.is_empty() => formatter.write_str("none"),
            Self::Listed(patterns) => {
                formatter.write_str(&patterns.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::{Attachable, Pattern, is_special};

    fn matches(pattern: &str, url: &str) -> bool {
        pattern.parse::<Pattern>().unwrap().matches(&Url::parse(url).unwrap())
    }

    #[test]
    fn a_pattern_matches_its_hosts_and_no_look_alike() {
        assert!(matches("lab.example.org", "https://lab.example.org/x/"));
        assert!(matches("*.example.org", "http://a.b.example.org:8888/"));
        assert!(matches("https://lab:8888", "https://lab:8888/") && matches("[::1]:80", "http://[::1]/"));
        for (pattern, url) in [
            ("lab.example.org", "http://lab.example.org.evil/"),
            ("*.example.org", "http://example.org/"),
            ("*.example.org", "http://evilexample.org/"),
            ("https://lab", "http://lab/"),
            ("lab:8888", "http://lab:8889/"),
            ("lab", "http://lab@evil/"),
        ] {
            assert!(!matches(pattern, url), "{pattern} {url}");
        }
        for text in ["", "*", "ftp://x", "a/b", "u@h", "a.*.b", "h:99999"] {
            assert!(text.parse::<Pattern>().is_err(), "{text}");
        }
    }

    #[tokio::test]
    async fn a_listed_name_that_leads_to_this_machine_is_refused_and_a_listed_address_is_not() {
        let listed = |text: &str| Attachable::Listed(vec![text.parse().unwrap()]);
        let check = async |listed: Attachable, url: &str| listed.check(&Url::parse(url).unwrap()).await;
        assert!(check(listed("localhost"), "http://localhost/").await.is_err());
        let pinned = check(listed("127.0.0.1"), "http://127.0.0.1:1/").await.unwrap();
        assert_eq!(pinned.unwrap(), ["127.0.0.1".parse::<std::net::IpAddr>().unwrap()]);
        assert!(check(listed("10.0.0.1"), "http://10.0.0.2/").await.is_err());
        assert!(check(Attachable::Any, "http://10.0.0.2/").await.unwrap().is_none());
        for address in ["169.254.169.254", "::ffff:169.254.169.254", "fe80::1", "fd00:ec2::254", "0.0.0.0", "::1"] {
            assert!(is_special(&address.parse().unwrap()), "{address}");
        }
    }
}
