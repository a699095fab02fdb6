//! Images: ours are built from the sources in this binary when the engine lacks them, others are pulled.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bollard::Docker;
use bollard::errors::Error;
use bollard::models::{BuildInfo, CreateImageInfo};
use bollard::query_parameters::{BuildImageOptionsBuilder, CreateImageOptionsBuilder, PruneImagesOptionsBuilder};
use futures_util::StreamExt;

use super::sources::{Ours, ours};
use super::{engine, labels};
use crate::sandbox::profile::Image;
use crate::sandbox::{Progress, ProviderError};

/// The version of the contract between gateway and image (`sandbox-images/README.md`) that this gateway keeps.
const CONTRACT: &str = "1";
/// Between two lines of progress.
const NEWS_EVERY: Duration = Duration::from_secs(1);
/// The most of a line that is told, in characters.
const LONGEST_LINE: usize = 200;
/// The lines of a failed build that an error shows.
const SHOWN: usize = 8;
/// What a build may need to reach a network, from the gateway's own environment. Docker keeps them out of images.
const PROXIES: [&str; 6] = ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"];

/// The images of an engine.
pub(super) struct Images {
    /// What ours stand on.
    base: String,
    /// One build or pull at a time; whoever waits finds the image made.
    making: tokio::sync::Mutex<()>,
}

impl Images {
    pub(super) fn new(base: String) -> Self {
        Self { base, making: tokio::sync::Mutex::default() }
    }

    /// The reference of an image that is there and keeps the contract; it is built or pulled if need be.
    pub(super) async fn ready(&self, docker: &Docker, image: &Image, news: &Progress) -> Result<String, ProviderError> {
        if let Some(reference) = present(docker, &self.reference(image)).await? {
            return Ok(reference);
        }
        news.say("waiting for the image");
        let _one_at_a_time = self.making.lock().await;
        let reference = self.reference(image);
        if let Some(reference) = present(docker, &reference).await? {
            return Ok(reference);
        }
        match image {
            Image::Ours(name) => self.build(docker, name, news).await?,
            Image::Named(reference) => pull(docker, reference, news).await?,
        }
        present(docker, &reference).await?.ok_or_else(|| {
            ProviderError::Unavailable(format!("the engine made the image {reference} and doesn't have it"))
        })
    }

    /// The image that has nft, which sets the rules of all.
    pub(super) fn with_nft(&self) -> Image {
        let _ = self;
        Image::Ours("python")
    }

    fn reference(&self, image: &Image) -> String {
        match image {
            Image::Ours(name) => ours(name, &self.base).reference,
            Image::Named(reference) => reference.clone(),
        }
    }

    async fn build(&self, docker: &Docker, name: &str, news: &Progress) -> Result<(), ProviderError> {
        if name != "python" {
            let python = ours("python", &self.base);
            if present(docker, &python.reference).await?.is_none() {
                build(docker, &python, news).await?;
            }
        }
        build(docker, &ours(name, &self.base), news).await
    }
}

/// The reference, if the engine has the image.
async fn present(docker: &Docker, reference: &str) -> Result<Option<String>, ProviderError> {
    let found = match docker.inspect_image(reference).await {
        Ok(found) => found,
        Err(error) if engine::is_missing(&error) => return Ok(None),
        Err(error) => return Err(ProviderError::Unavailable(engine::said(&error))),
    };
    let labels = found.config.and_then(|config| config.labels).unwrap_or_default();
    let refuse = |what: String| {
        let next = "use an image that is built on one of Cellgate's, or keeps the contract in sandbox-images/README.md";
        Err(ProviderError::Refused(format!("The image {reference} {what}: {next}.")))
    };
    match labels.get(labels::CONTRACT) {
        Some(version) if version.split('.').next() == Some(CONTRACT) => Ok(Some(reference.to_owned())),
        Some(version) => refuse(format!(
            "keeps version {version} of the contract for sandbox images, and this gateway needs {CONTRACT}"
        )),
        None => refuse(format!("is no sandbox image (it has no label {})", labels::CONTRACT)),
    }
}

async fn build(docker: &Docker, image: &Ours, news: &Progress) -> Result<(), ProviderError> {
    let failed = |reason: &str, said: &[String]| {
        let said = if said.is_empty() { String::new() } else { format!("; it last said: {}", said.join(" | ")) };
        ProviderError::Missing(format!("The image {} can't be built: {reason}{said}", image.reference))
    };
    let (argument, stands_on) = &image.stands_on;
    let mut arguments: HashMap<String, String> = HashMap::from([((*argument).to_owned(), stands_on.clone())]);
    arguments.extend(PROXIES.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?))));
    let options = BuildImageOptionsBuilder::default()
        .dockerfile("Dockerfile")
        .t(&image.reference)
        .buildargs(&arguments)
        .rm(true)
        .forcerm(true)
        .build();
    let context = image.context().map_err(|error| failed(&error.to_string(), &[]))?;
    tracing::info!(image = image.reference, "building a sandbox image");
    let mut steps = docker.build_image(options, None, Some(bollard::body_full(context.into())));
    let (mut said, mut told) = (Vec::new(), None);
    while let Some(step) = steps.next().await {
        let BuildInfo { stream, status, error_detail, .. } =
            step.map_err(|error| failed(&engine::said(&error), &said))?;
        if let Some(detail) = error_detail {
            return Err(failed(&detail.message.unwrap_or_default(), &said));
        }
        let text = stream.or(status).unwrap_or_default();
        let Some(line) = text.lines().map(str::trim).rfind(|line| !line.is_empty()) else { continue };
        let line: String = line.chars().take(LONGEST_LINE).collect();
        if line.starts_with("Step ") || is_due(&mut told) {
            news.say(format!("building the image {} (once): {line}", image.reference));
        }
        said.push(line);
        said.drain(..said.len().saturating_sub(SHOWN));
    }
    drop_stages(docker).await;
    Ok(())
}

/// The stages of a build that are in no image; the classic builder leaves them.
async fn drop_stages(docker: &Docker) {
    let mut filters = labels::filter([(labels::BUILD, "")]);
    filters.insert("dangling".to_owned(), vec!["true".to_owned()]);
    let options = PruneImagesOptionsBuilder::default().filters(&filters).build();
    if let Err(error) = docker.prune_images(Some(options)).await {
        tracing::debug!(%error, "what a build left can't be removed");
    }
}

async fn pull(docker: &Docker, reference: &str, news: &Progress) -> Result<(), ProviderError> {
    let failed = |reason: &str| {
        let next = "check its name, or pull it by hand (docker pull)";
        ProviderError::Missing(format!("The image {reference} can't be pulled ({reason}): {next}."))
    };
    // Without a tag the engine would pull all of them.
    let name = reference.rsplit_once('/').map_or(reference, |(_, name)| name);
    let whole =
        if name.contains(':') || name.contains('@') { reference.to_owned() } else { format!("{reference}:latest") };
    let options = CreateImageOptionsBuilder::default().from_image(&whole).build();
    let mut steps = docker.create_image(Some(options), None, None);
    let (mut layers, mut told) = (HashMap::new(), None);
    while let Some(step) = steps.next().await {
        let CreateImageInfo { id, status, error_detail, progress_detail, .. } =
            step.map_err(|error: Error| failed(&engine::said(&error)))?;
        if let Some(detail) = error_detail {
            return Err(failed(&detail.message.unwrap_or_default()));
        }
        let loaded = progress_detail.and_then(|detail| Some((detail.current?, detail.total?)));
        if let (Some("Downloading"), Some(layer), Some(loaded)) = (status.as_deref(), id, loaded) {
            layers.insert(layer, loaded);
        }
        if is_due(&mut told) {
            let (done, all) = layers.values().fold((0, 0), |sum, layer| (sum.0 + layer.0, sum.1 + layer.1));
            let of = if all > 0 { format!(": {} of {} MB", done >> 20, all >> 20) } else { String::new() };
            news.say(format!("pulling the image {reference} (once){of}"));
        }
    }
    Ok(())
}

fn is_due(told: &mut Option<Instant>) -> bool {
    if told.is_some_and(|told| told.elapsed() < NEWS_EVERY) {
        return false;
    }
    *told = Some(Instant::now());
    true
}
