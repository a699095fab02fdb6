//! The bridge that all sandboxes of an engine are on. It keeps nobody apart: that is what each sandbox's own rules do.

use std::net::IpAddr;

use bollard::Docker;
use bollard::errors::Error;
use bollard::models::{
    ContainerInspectResponse, EndpointSettings, Ipam, Network, NetworkConnectRequest, NetworkCreateRequest,
};
use bollard::query_parameters::{InspectContainerOptions, ListNetworksOptionsBuilder};

use super::engine::{self, Connected};
use super::labels;

const NAME: &str = "cellgate";
const ROLE: &str = "bridge";

/// The bridge, and where the gateway's calls come from on it.
pub(super) struct Bridge {
    pub(super) id: String,
    pub(super) gateway: IpAddr,
}

/// The bridge as it is now; made if it isn't there.
pub(super) async fn bridge(engine: &Connected) -> Result<Bridge, Error> {
    let network = match oldest(&engine.docker).await? {
        Some(network) => network,
        None => made(&engine.docker).await?,
    };
    let id = network.id.unwrap_or_default();
    let gateway = match &engine.own_container {
        Some(container) => on_bridge(&engine.docker, container, &id).await?,
        // What is published on the host's loopback comes from the bridge's own address.
        None => own_address(network.ipam),
    };
    let gateway = gateway.ok_or_else(|| missing("the gateway has no address on the network cellgate"))?;
    Ok(Bridge { id, gateway })
}

/// An engine may have several of the name, when two gateways made it at the same time: all take the oldest.
async fn oldest(docker: &Docker) -> Result<Option<Network>, Error> {
    let mut filters = labels::filter([(labels::ROLE, ROLE)]);
    filters.insert("name".to_owned(), vec![NAME.to_owned()]);
    let found = docker.list_networks(Some(ListNetworksOptionsBuilder::default().filters(&filters).build())).await?;
    // The filter takes parts of a name as well.
    let named = found.into_iter().filter(|network| network.name.as_deref() == Some(NAME));
    Ok(named.min_by_key(|network| (network.created.clone(), network.id.clone())))
}

async fn made(docker: &Docker) -> Result<Network, Error> {
    let wanted = NetworkCreateRequest {
        name: NAME.to_owned(),
        driver: Some("bridge".to_owned()),
        labels: Some(labels::of([(labels::ROLE, ROLE)])),
        ..NetworkCreateRequest::default()
    };
    let own = match docker.create_network(wanted).await {
        Ok(created) => Some(created.id),
        // Newer engines refuse a second one of the name.
        Err(error) if engine::status(&error) == Some(409) => None,
        Err(error) => return Err(error),
    };
    let network = oldest(docker).await?.ok_or_else(|| {
        missing("the network cellgate isn't Cellgate's: remove it (docker network rm cellgate), or rename what uses it")
    })?;
    if let Some(own) = own.filter(|own| network.id.as_ref() != Some(own)) {
        engine::gone(docker.remove_network(&own).await)?;
    }
    Ok(network)
}

fn own_address(ipam: Option<Ipam>) -> Option<IpAddr> {
    let configured = ipam?.config?;
    let gateways = configured.into_iter().filter_map(|config| config.gateway);
    gateways.filter_map(|gateway| gateway.split('/').next()?.parse().ok()).find(IpAddr::is_ipv4)
}

/// The address on the bridge of the container that the gateway runs in, which is connected to it if need be.
async fn on_bridge(docker: &Docker, container: &str, network: &str) -> Result<Option<IpAddr>, Error> {
    if let Some(address) = address(docker, container, network).await? {
        return Ok(Some(address));
    }
    let wanted = NetworkConnectRequest { container: container.to_owned(), endpoint_config: None };
    docker.connect_network(network, wanted).await?;
    address(docker, container, network).await
}

/// A container's address on a network.
pub(super) async fn address(docker: &Docker, container: &str, network: &str) -> Result<Option<IpAddr>, Error> {
    let found = docker.inspect_container(container, None::<InspectContainerOptions>).await?;
    Ok(address_in(&found, network))
}

/// The same, of one that was looked at.
pub(super) fn address_in(container: &ContainerInspectResponse, network: &str) -> Option<IpAddr> {
    let networks = container.network_settings.as_ref()?.networks.as_ref()?;
    // Podman names a network where Docker tells its id.
    let is_it = |name: &str, on: &EndpointSettings| name == NAME || on.network_id.as_deref() == Some(network);
    let (_, on) = networks.iter().find(|(name, on)| is_it(name, on))?;
    on.ip_address.as_ref()?.parse().ok()
}

fn missing(message: &str) -> Error {
    Error::DockerResponseServerError { status_code: 404, message: message.to_owned() }
}
